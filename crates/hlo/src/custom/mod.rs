//! Targets of custom calls.

mod neuron;
mod resize;
mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::array::{ArrayView, ArrayViewMut, ViewError};
use crate::error::KernelError;

pub use table::{REFUSED_TARGETS, RefusedTarget, TARGETS, TargetInfo};

/// The target that gathers from the world of the execution before it multiplies.
pub const COLLECTIVE_MATMUL: &str = "AwsNeuronCollectiveMatmul";

/// Why a custom call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CustomCallError {
    /// No target of the name is registered.
    #[error("target `{target}` is not supported")]
    UnknownTarget {
        /// The name.
        target: String,
    },
    /// The target is known but not executed.
    #[error("target `{target}` is not supported: {reason}")]
    RefusedTarget {
        /// The name.
        target: String,
        /// Why.
        reason: &'static str,
    },
    /// The call does not suit its target.
    #[error("target `{target}`: {what}: expected {expected}, found {found}")]
    Mismatch {
        /// The name.
        target: String,
        /// What does not suit.
        what: &'static str,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A view has another type or size than the target took for granted.
    #[error(transparent)]
    View(#[from] ViewError),
}

impl From<KernelError> for CustomCallError {
    fn from(error: KernelError) -> Self {
        match error {
            KernelError::View(error) => Self::View(error),
            other => Self::UnknownTarget {
                target: other.to_string(),
            },
        }
    }
}

/// A custom call as its target sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Call<'a> {
    /// Name of the target.
    pub target: &'a str,
    /// The call's configuration, opaque bytes.
    pub config: &'a [u8],
    /// Arrays of the operands, tuples flattened depth first.
    pub operands: &'a [ArrayView<'a>],
}

impl Call<'_> {
    /// The error for a call that does not suit its target.
    #[must_use]
    pub fn mismatch(
        &self,
        what: &'static str,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> CustomCallError {
        CustomCallError::Mismatch {
            target: self.target.to_owned(),
            what,
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }
}

type Target =
    dyn Fn(Call<'_>, &mut [ArrayViewMut<'_>]) -> Result<(), CustomCallError> + Send + Sync;

/// Targets of custom calls, by name.
///
/// The default has those that Neuron's front ends emit and whose meaning is
/// public: [`TARGETS`] lists them with their sources, [`REFUSED_TARGETS`] those
/// that are not executed, and why. A target that is registered is called
/// whatever else is known of its name.
///
/// The version of the custom call's interface does not count: Neuron's front
/// ends leave it unspecified (0).
///
/// # Examples
///
/// An executor with one more target:
///
/// ```
/// use metaneff_hlo::{CustomCalls, Executable, Module, options::ExecuteOptions};
/// use metaneff_schema::xla::{
///     HloComputationProto, HloInstructionProto, HloModuleProto, PrimitiveType, ShapeProto,
/// };
///
/// let mut targets = CustomCalls::default();
/// targets.register("Twice", |call, results| {
///     let [input] = call.operands else {
///         return Err(call.mismatch("number of operands", 1, call.operands.len()));
///     };
///     for (out, x) in results[0].values_mut::<f32>()?.iter_mut().zip(input.values::<f32>()?) {
///         *out = 2.0 * x;
///     }
///     Ok(())
/// });
/// assert!(targets.names().any(|name| name == "Twice"));
///
/// // The module that has `Twice` of a parameter as its result.
/// let shape = ShapeProto {
///     element_type: PrimitiveType::F32.into(),
///     dimensions: vec![2],
///     ..ShapeProto::default()
/// };
/// let parameter = HloInstructionProto {
///     opcode: "parameter".into(),
///     shape: Some(shape.clone()),
///     ..HloInstructionProto::default()
/// };
/// let twice = HloInstructionProto {
///     opcode: "custom-call".into(),
///     custom_call_target: "Twice".into(),
///     shape: Some(shape),
///     id: 1,
///     operand_ids: vec![0],
///     ..HloInstructionProto::default()
/// };
/// let entry = HloComputationProto {
///     instructions: vec![parameter, twice],
///     root_id: 1,
///     ..HloComputationProto::default()
/// };
/// let module = HloModuleProto { computations: vec![entry], ..HloModuleProto::default() };
///
/// let executable = Executable::new(Module::verify(&module)?).with_custom_calls(targets);
/// let input: Vec<u8> = [1.5_f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
/// let execution = executable.execute(&[&input], &ExecuteOptions::default())?;
/// assert_eq!(execution.outputs[0].values::<f32>()?, [3.0, -4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct CustomCalls {
    targets: BTreeMap<String, Arc<Target>>,
}

impl CustomCalls {
    /// No targets at all.
    #[must_use]
    pub fn none() -> Self {
        Self {
            targets: BTreeMap::new(),
        }
    }

    /// Adds a target, in place of any of the same name. It reads the arrays of
    /// the call and writes those of the result, tuples flattened depth first,
    /// whose contents it finds unspecified.
    pub fn register(
        &mut self,
        name: impl Into<String>,
        target: impl Fn(Call<'_>, &mut [ArrayViewMut<'_>]) -> Result<(), CustomCallError>
        + Send
        + Sync
        + 'static,
    ) {
        self.targets.insert(name.into(), Arc::new(target));
    }

    /// Names of the targets.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.targets.keys().map(String::as_str)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.targets.contains_key(name)
    }

    pub(crate) fn call(
        &self,
        call: Call<'_>,
        results: &mut [ArrayViewMut<'_>],
    ) -> Result<(), CustomCallError> {
        let target = self.targets.get(call.target);
        let target = target.ok_or_else(|| {
            let name = call.target.to_owned();
            match table::refused(call.target) {
                Some(refused) => CustomCallError::RefusedTarget {
                    target: name,
                    reason: refused.reason,
                },
                None => CustomCallError::UnknownTarget { target: name },
            }
        })?;
        target(call, results)
    }
}

impl Default for CustomCalls {
    fn default() -> Self {
        let mut targets = Self::none();
        neuron::register(&mut targets);
        targets
    }
}

impl fmt::Debug for CustomCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
