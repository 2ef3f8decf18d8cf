//! Errors of verification and execution.

use crate::array::ViewError;
use crate::custom::CustomCallError;
use crate::world::CollectiveError;

/// Why a kernel failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The kernel does not take these types or attributes.
    #[error("{what} is not supported")]
    Unsupported {
        /// What is not supported.
        what: String,
    },
    /// An index lies outside its array, and the policy is strict.
    #[error("index {index} is outside 0..={limit} of dimension {dim}")]
    OutOfBounds {
        /// The index, the start of the window.
        index: i64,
        /// The dimension of the operand that it addresses.
        dim: usize,
        /// The largest start that fits.
        limit: i64,
    },
    /// A view has another type or size than verification promised.
    #[error(transparent)]
    View(#[from] ViewError),
    /// A called computation failed.
    #[error(transparent)]
    Region(#[from] Box<ExecuteError>),
}

/// Where in a module: names as the module gives them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Site {
    /// The opcode, as the module spells it.
    pub opcode: String,
    /// The instruction.
    pub instruction: String,
    /// The computation.
    pub computation: String,
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} instruction `{}` of computation `{}`",
            self.opcode, self.instruction, self.computation
        )
    }
}

/// Why an execution failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// A kernel failed.
    #[error("{site}: {source}")]
    Kernel {
        /// The instruction.
        site: Box<Site>,
        /// What failed.
        source: KernelError,
    },
    /// A step of a called computation failed.
    #[error("called computation: {source}")]
    Region {
        /// What failed.
        source: KernelError,
    },
    /// An instruction is not supported.
    #[error("{site}: {what} is not supported")]
    Unsupported {
        /// The instruction.
        site: Box<Site>,
        /// What is not supported.
        what: String,
    },
    /// A collective did not come about.
    #[error("{site}: {source}")]
    Collective {
        /// The instruction.
        site: Box<Site>,
        /// Why.
        source: CollectiveError,
    },
    /// A custom call failed.
    #[error("{site}: {source}")]
    CustomCall {
        /// The instruction.
        site: Box<Site>,
        /// Why.
        source: CustomCallError,
    },
    /// There are more or fewer inputs than parameters.
    #[error("{found} inputs where the module takes {expected}")]
    InputCount {
        /// Parameters of the module.
        expected: usize,
        /// Inputs that were given.
        found: usize,
    },
    /// An input is not as long as its parameter.
    #[error("input {parameter} has {found} bytes where its parameter takes {expected}")]
    InputSize {
        /// The parameter.
        parameter: usize,
        /// Bytes of the parameter.
        expected: usize,
        /// Bytes that were given.
        found: usize,
    },
    /// The step budget is used up.
    #[error("{site}: the budget of {budget} steps is used up")]
    StepBudget {
        /// The instruction that was to be executed.
        site: Box<Site>,
        /// The budget.
        budget: u64,
    },
    /// The values of the execution would take more memory than they may.
    #[error("{site}: {needed} bytes are needed where the memory limit is {limit}")]
    MemoryLimit {
        /// The instruction that was to be executed.
        site: Box<Site>,
        /// Bytes that values would take, those of its result included.
        needed: usize,
        /// The limit.
        limit: usize,
    },
    /// The deadline has passed.
    #[error("{site}: the deadline has passed")]
    Deadline {
        /// The instruction that was to be executed.
        site: Box<Site>,
    },
    /// Memory could not be had, or a view has another size than promised.
    #[error(transparent)]
    View(#[from] ViewError),
}
