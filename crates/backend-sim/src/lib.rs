//! The [`Backend`](metaneff_binding::Backend) trait over a simulated Neuron
//! instance.
#![forbid(unsafe_code)]

mod clock;
mod config;
mod core;
mod dump;
pub mod environment;
mod execute;
pub mod fault;
mod graph;
mod instance;
mod lifecycle;
mod memory;
mod model;
mod neff;
mod program;
mod quantity;
mod report;
mod set;
mod sim;
mod storage;
mod sync;
mod tensor;
#[cfg(test)]
mod tests;
mod transfer;
mod world;

pub use config::{
    Concurrency, ConfigError, DEFAULT_EXECUTION_TIMEOUT, ExtraNames, HOST_TENSOR_LIMIT, Latency,
    Numerics, SimBuilder, Topology,
};
pub use environment::VariableError;
pub use fault::{Action, Call, Fault, FaultPlan, FaultSyntax, When};
pub use instance::{Instance, Profile, UnknownInstance};
pub use lifecycle::{Framework, Legality, Lifecycle, State};
pub use memory::ALIGNMENT;
pub use metaneff_hlo::options::{Denormals, DotRounding, NanPolicy, OobPolicy};
pub use model::SimModel;
pub use report::{CoreStats, LiveObjects, RunReport};
pub use set::{MAX_NAME, SimTensorSet};
pub use sim::Sim;
pub use storage::ExternalMemory;
pub use tensor::{SimTensor, TensorId};
