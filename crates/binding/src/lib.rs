//! Binding host tensors to the slots of a compiled Neuron model, so that they
//! cannot be bound wrongly.
//!
//! A compiled model is a *NEFF*, which the device executes, and a *metaneff*,
//! which says which host tensor fills which of its slots. Given the wrong tensor
//! a device gives wrong numbers, not errors. Here each step from a host tensor
//! to an output has a type of its own, and a step that was left out does not
//! compile.
//!
//! ```
//! # use metaneff_binding::testing::{Fake, add_model};
//! use metaneff_binding::{Artifact, Backend, Core, Error, HostTensor, Runtime};
//!
//! /// Adds two rows on whatever executes the model.
//! fn run<B: Backend>(backend: B, artifact: &Artifact) -> Result<Vec<f32>, Error> {
//!     let runtime = Runtime::new(backend);
//!     let model = runtime.load(artifact, Core::new(0))?;
//!     let mut session = model.session()?;
//!
//!     let a = session.slot("input0")?.validate(HostTensor::from_slice([2], &[1.0_f32, 2.0])?)?;
//!     let b = session.slot("input1")?.validate(HostTensor::from_slice([2], &[3.0_f32, 4.0])?)?;
//!     let ready = session.bind([a, b])?; // or a list of the slots that are not filled
//!     let outputs = ready.execute(())?.reject_nan()?.into_outputs();
//!     Ok(outputs.get(0)?.to_vec::<f32>()?)
//! }
//!
//! # let artifact = add_model(); // `Artifact::open("model.neff", "model.metaneff")?`
//! assert_eq!(run(Fake::new(), &artifact)?, [4.0, 6.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! # From files to outputs
//!
//! | type | what it proves |
//! |---|---|
//! | [`Contract`] | the metaneff is sound, and agrees with its graph |
//! | [`Artifact`] | the contract agrees with the NEFF's variable table |
//! | [`Model`] | the loaded model has the contract's tensors |
//! | [`Tensor<Validated>`](Validated) | a host tensor fits one slot |
//! | [`Ready`] | every slot that the caller fills is written and bound |
//! | [`Executed`], [`Completed`] | the outputs are there; the caller knows of a NaN |
//! | [`Outputs`], [`States`] | what to read, and what the next launch takes |
//!
//! Every transition consumes its input and gives it back if it fails
//! ([`Rejected`], [`Failed`]).
//!
//! # States
//!
//! An output may take an input's buffer: a KV cache is updated in place.
//! [`States`] is the owned value that stands for such buffers. A launch consumes
//! it and gives its successor back:
//!
//! ```
//! # use metaneff_binding::testing::{Fake, model};
//! # use metaneff_binding::{Backend, Core, Error, HostTensor, Runtime, Session};
//! fn decode<B: Backend>(session: &mut Session<'_, B>, steps: u8) -> Result<f32, Error> {
//!     let ids = session.slot("input_ids")?.clone();
//!     let mut cache = session.zero_states()?;
//!     let mut sum = 0.0;
//!     for step in 0..steps {
//!         let id = ids.validate(HostTensor::scalar(f32::from(step)))?;
//!         let (outputs, next) = session.bind([id])?.execute(cache)?.tolerate_nan().into_parts();
//!         sum = outputs.get(0)?.to_vec::<f32>()?[0];
//!         cache = next;
//!     }
//!     Ok(sum)
//! }
//! # use metaneff_schema::metaneff::{MetaNeff, MetaTensor};
//! # let tensor = |name: &'static str, role, key: Option<&'static str>| MetaTensor {
//! #     name: name.into(), data_type: 1, r#type: role, user_input_key: key.map(Into::into),
//! #     ..MetaTensor::default()
//! # };
//! # let artifact = model(&MetaNeff {
//! #     input_tensors: vec![tensor("input0", 1, Some("input_ids")), tensor("input1", 2, None)],
//! #     output_tensors: vec![tensor("output0", 0, None), tensor("output1", 0, None)],
//! #     output_aliases_to: [(1, 1)].into(),
//! #     ..MetaNeff::default()
//! # })?;
//! # let runtime = Runtime::new(Fake::new().with_program(|launch| {
//! #     let sum = launch.f32s("input0")[0] + launch.f32s("input1")[0];
//! #     launch.set_f32s("output0", &[sum]);
//! #     launch.set_f32s("output1", &[sum]);
//! # }));
//! # let model = runtime.load(&artifact, Core::new(0))?;
//! # let mut session = model.session()?;
//! assert_eq!(decode(&mut session, 5)?, 10.0);
//! # Ok::<(), Error>(())
//! ```
//!
//! # Backends
//!
//! [`Backend`] is the vocabulary of libnrt and nothing more. It is chosen by
//! type, or at run time with [`AnyBackend`]; never by itself. [`testing`] has
//! backends for tests.
//!
//! # Lifetimes
//!
//! What comes from a [`Runtime`] borrows from it, so nothing outlives it. Servers
//! that store handles beside their runtime use [`SharedRuntime`], whose handles
//! are `'static` and count.
//!
//! # What this crate does not do
//!
//! It makes no C calls and executes no graphs: those are backends. It does not
//! convert element types, and never guesses which tensor belongs to which slot.

#![forbid(unsafe_code)]

mod artifact;
mod backend;
mod buckets;
mod checkpoint;
mod contract;
mod device;
mod dtype;
mod element;
#[cfg(feature = "tokio")]
mod engine;
mod erased;
mod error;
mod failure;
mod load;
mod model;
mod observe;
mod owned;
mod parallel;
mod runtime;
mod session;
mod shape;
mod sync;
mod tensor;
pub mod testing;

pub use artifact::{Artifact, ArtifactError};
pub use backend::{
    Backend, BackendInfo, CollectiveContext, Completion, Core, LoadRequest, MemoryStats, Placement,
    Side, TensorInfo, Transfers,
};
pub use buckets::{BucketError, BucketFailed, Buckets, Named, NamedShapes, RouteError};
pub use checkpoint::{Checkpoint, CheckpointError, HeaderError};
pub use contract::{
    Contract, ContractError, ContractId, ContractOptions, Finding, JoinError, JoinMismatch,
    KeyKind, LookupError, Order, Ordinal, Role, Slot, SlotKey, Strictness, ValidateError, VarId,
    Variable,
};
pub use device::{DeviceError, DeviceTensor, ReadError, TensorView};
pub use dtype::{DType, UnknownDataType};
pub use element::Element;
#[cfg(feature = "tokio")]
pub use engine::{
    Engine, EngineError, EngineOptions, EngineStats, Pending, Request, Response, ServeError,
    ShutdownError, Unserved, off_thread,
};
pub use erased::{AnyBackend, AnyHandle, DynBackend, DynHandle};
pub use error::{BackendError, Cause};
pub use failure::{Error, Rejected};
pub use load::{DeferredModel, LoadState, Loading, Unloaded, Waited};
pub use model::{
    CheckpointSummary, LoadError, Missing, MissingSlots, Model, UnloadError, WeightsError,
};
pub use observe::{
    Call, CallReport, Event, LoadedModel, Observed, ObservedModel, ObservedTensor, Recorder,
    RunReport, SlotReport,
};
pub use parallel::{
    Pooled, RankError, RankOutcome, Replicas, SessionPool, SpmdCompleted, SpmdError, SpmdExecuted,
    SpmdFailed, SpmdInputs, SpmdModel, SpmdOptions, SpmdOutputs, SpmdSession, SpmdStates,
};
pub use runtime::{LoadOptions, Runtime, SharedRuntime};
pub use session::{
    Argument, ArgumentRef, Arguments, AsArgument, BatchError, BatchOutputs, BindError, Completed,
    ExecuteError, Executed, ExecutedBatch, Failed, NumericalError, OutputError, Outputs, Ready,
    Session, SessionError, States, StatesError,
};
pub use shape::{Shape, SizeOverflow};
pub use tensor::{
    Bound, BoundTensor, HostState, HostTensor, State, Tensor, TensorError, Unbound, Validated,
};
