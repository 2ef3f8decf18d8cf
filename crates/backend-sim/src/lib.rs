//! The [`Backend`](metaneff_binding::Backend) trait over a simulated Neuron
//! instance.
//!
//! A [`Sim`] has the cores and the device memory of an [`Instance`], answers
//! with the statuses of the runtime, and executes a model's graph on the CPU
//! with `metaneff-hlo`. It is never chosen silently: a program says that it wants
//! a simulator by making one, and [`Sim::last_run`] tells where an execution took
//! place.
//!
//! ```
//! use bytes::Bytes;
//! use metaneff_backend_sim::{Instance, Sim};
//! use metaneff_binding::{Backend, Completion, Core, LoadRequest, Placement};
//! use metaneff_schema::neff::NeffBuilder;
//!
//! // A module that doubles 1.0 as often as its input says.
//! let graph: &[u8] = include_bytes!(concat!(
//!     env!("CARGO_MANIFEST_DIR"),
//!     "/tests/data/control__while_count/module.pb"
//! ));
//! let neff = NeffBuilder::from_hlo(Bytes::from_static(graph))?.build();
//!
//! let sim = Sim::builder().instance(Instance::Trn1_2xlarge).build()?;
//! let core = Core::new(0);
//! let model = sim.load(&LoadRequest::new(neff).on(core))?;
//!
//! let count = sim.allocate(Placement::Device, core, 4, c"count")?;
//! let power = sim.allocate(Placement::Device, core, 4, c"power")?;
//! sim.write(&count, 0, &10_i32.to_le_bytes())?;
//! let (mut inputs, mut outputs) = (sim.tensor_set()?, sim.tensor_set()?);
//! sim.bind(&mut inputs, c"input0", &count)?;
//! sim.bind(&mut outputs, c"output0", &power)?;
//!
//! assert_eq!(sim.execute(&model, &inputs, &mut outputs)?, Completion::Clean);
//! let mut bytes = [0; 4];
//! sim.read(&power, 0, &mut bytes)?;
//! assert_eq!(f32::from_le_bytes(bytes), 1024.0);
//!
//! let run = sim.last_run(&model).expect("the model ran");
//! assert_eq!((run.backend, run.core), ("sim", core));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where the graph comes from
//!
//! A NEFF's program runs on a device only. The simulator executes the graph that
//! the program was compiled from: the member that
//! [`NeffBuilder`](metaneff_schema::neff::NeffBuilder) puts into the container,
//! else the [`graph`](metaneff_binding::LoadRequest::graph) of the request, which
//! a metaneff has in `serialized_graph_def`. Names and sizes of the graph's
//! parameters and results are compared with the NEFF's variables.
//!
//! # Statuses
//!
//! Where the public headers and guides say what is answered, so it is here; the
//! rest is an assumption and marked as one.
//!
//! | status | when |
//! |---|---|
//! | `INVALID` (2) | size 0, a core that does not exist, a range outside a tensor; a NEFF that is not valid, or does not fit its graph; no graph; a name missing in or unknown to a tensor set, a size that differs (the header's note on `NRT_INVALID`); a device tensor or copy on another core; outputs that share memory (assumption) |
//! | `INVALID_HANDLE` (3) | a handle of another simulator, or of this process's runtime before it was initialised again |
//! | `RESOURCE` (4) | a memory limit; a host tensor of more than [`HOST_TENSOR_LIMIT`] bytes (the guide has the limit, the status is an assumption) |
//! | `TIMEOUT` (5) | the execution timeout, the step budget, peers of a collective that do not come |
//! | `LOAD_NOT_ENOUGH_NC` (9) | more cores than are visible |
//! | `UNSUPPORTED_NEFF_VERSION` (10) | the NEFF's gates |
//! | `FAIL_HOST_MEM_ALLOC` (11) | this machine's memory is exhausted |
//! | `UNINITIALIZED` (13), `CLOSED` (14) | by [`Legality`] |
//! | `EXEC_BAD_INPUT` (1002) | a tensor in a set that was freed or has no memory (assumption) |
//! | `EXEC_COMPLETED_WITH_NUM_ERR` (1003) | a NaN, by [`NanPolicy`]; a completion |
//! | `EXEC_NC_BUSY` (1005) | a core that executes, by [`Concurrency`] |
//! | `EXEC_OOB` (1006) | an index outside, by [`OobPolicy`] |
//! | `EXEC_HW_ERR_COLLECTIVES` (1200) | a peer that failed in a collective (the header's note; the core stays usable) |
//! | any | [faults](mod@fault) |
//!
//! # Memory
//!
//! Each logical core has the device memory of its physical cores. A tensor in
//! device memory is charged to its core, any other to the host; a slice is
//! charged nothing. A model is charged with the scratch and weight variables of
//! its NEFF and with the size of its graph, which stands for code and constants.
//! Charges are rounded up to [`ALIGNMENT`] bytes. Memory that is never written
//! takes none of this machine's.
//!
//! # For a C interface
//!
//! [`Lifecycle`] has the states of a process's runtime, [`ExternalMemory`] is how
//! a caller's buffer is attached, [`SimTensor::address`] is a tensor's address,
//! and [`SimTensorSet::tensor`] the identity of what a name is bound to. The
//! [environment] sets a simulator up where no code can.

#![forbid(unsafe_code)]

mod clock;
mod config;
mod core;
mod devices;
mod dump;
pub mod environment;
mod execute;
pub mod fault;
mod graph;
mod instance;
mod lifecycle;
mod meeting;
mod memory;
mod model;
mod neff;
mod process;
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
pub use metaneff_hlo::options::{
    Denormals, DotRounding, NanPolicy, NarrowReduce, OobPolicy, Rewrites,
};
pub use metaneff_hlo::{Call as CustomCall, CustomCallError, CustomCalls};
pub use model::SimModel;
pub use process::{GraphSource, LogLevel, ProcessSettings};
pub use report::{CoreStats, LiveObjects, RunReport};
pub use set::{MAX_NAME, SimTensorSet};
pub use sim::Sim;
pub use storage::ExternalMemory;
pub use tensor::{DeviceAllocation, SimTensor, TensorId};
pub use world::MAX_WORLD_SIZE;
