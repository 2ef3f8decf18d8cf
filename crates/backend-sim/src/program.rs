//! What executes a model's graph.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use metaneff_binding::{LoadRequest, TensorInfo};
use metaneff_hlo::array::Buffer;
use metaneff_schema::nrt::Status;

use crate::config::{Config, Numerics};
use crate::world::Member;

/// A graph that can be executed.
pub(crate) trait Program: Debug + Send + Sync {
    /// The parameters, in order.
    fn inputs(&self) -> &[Port];

    /// The results, in order.
    fn outputs(&self) -> &[Port];

    /// Executes on `inputs`, one slice for each parameter, of its size.
    fn run(&self, inputs: &[&[u8]], job: &Job<'_>) -> Result<Outcome, Failure>;
}

/// A parameter or result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    /// Its name in the NEFF's variable table.
    pub(crate) name: String,
    /// Its size.
    pub(crate) bytes: usize,
}

/// How to execute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job<'a> {
    pub(crate) numerics: Numerics,
    pub(crate) step_budget: Option<u64>,
    pub(crate) compute_memory_limit: Option<usize>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) member: Option<Member<'a>>,
}

/// What an execution gave.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// One buffer for each result, of its size.
    pub(crate) outputs: Vec<Arc<Buffer>>,
    /// Whether there was a NaN that the policy asks for.
    pub(crate) numerical_error: bool,
}

/// Why an execution gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The deadline has passed.
    Deadline,
    /// The step budget is used up.
    Steps(String),
    /// An index was outside its array.
    OutOfBounds(String),
    /// A collective's peers did not come.
    Absent(String),
    /// A collective's peer failed.
    Peer(String),
    /// The simulator was closed.
    Closed,
    /// The host has no more memory.
    Memory(String),
    /// Anything else.
    Other(String),
}

/// What the simulator needs of a NEFF.
#[derive(Clone, Debug, Default)]
pub(crate) struct Package {
    /// The model's name.
    pub(crate) name: String,
    /// The header's hash, in hexadecimal digits.
    pub(crate) hash: String,
    /// Inputs, then outputs, each in the order of the variable table.
    pub(crate) tensors: Vec<TensorInfo>,
    /// Device memory of the model's own variables, in bytes.
    pub(crate) scratch: u64,
    /// Physical cores that it was compiled for.
    pub(crate) physical_cores: u32,
    /// Physical cores of a logical core that it was compiled for; 0 if it does
    /// not say.
    pub(crate) virtual_core_size: u32,
}

/// A request that was read.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) package: Package,
    pub(crate) program: Arc<dyn Program>,
    /// The graph's bytes, which stand for the program's size and identity.
    pub(crate) graph: Bytes,
}

/// A NEFF or graph that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    pub(crate) detail: String,
}

/// Reads a NEFF and the graph that belongs to it.
pub(crate) trait Reader: Debug + Send + Sync {
    fn read(&self, request: &LoadRequest, config: &Config) -> Result<Compiled, Refusal>;
}
