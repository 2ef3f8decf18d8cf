//! Contracts, typestate tensors and sessions over a [`Backend`].

#![forbid(unsafe_code)]

mod artifact;
mod backend;
mod contract;
mod device;
mod dtype;
mod element;
mod erased;
mod error;
mod failure;
mod model;
mod owned;
mod runtime;
mod session;
mod shape;
mod tensor;
pub mod testing;

pub use artifact::{Artifact, ArtifactError};
pub use backend::{
    Backend, BackendInfo, CollectiveContext, Completion, Core, LoadRequest, MemoryStats, Placement,
    Side, TensorInfo, Transfers,
};
pub use contract::{
    Contract, ContractError, ContractId, ContractOptions, Finding, JoinError, JoinMismatch,
    KeyKind, LookupError, Order, Ordinal, Role, Slot, SlotKey, Strictness, ValidateError, VarId,
    Variable,
};
pub use device::{DeviceError, DeviceTensor, ReadError, TensorView};
pub use dtype::{DType, UnknownDataType};
pub use element::Element;
pub use erased::{AnyBackend, AnyHandle, DynBackend, DynHandle};
pub use error::{BackendError, Cause};
pub use failure::{Error, Rejected};
pub use model::{LoadError, Missing, MissingSlots, Model, WeightsError};
pub use runtime::{LoadOptions, Runtime, SharedRuntime};
pub use session::{
    Argument, ArgumentRef, Arguments, AsArgument, BindError, Completed, ExecuteError, Executed,
    Failed, NumericalError, OutputError, Outputs, Ready, Session, SessionError, States,
    StatesError,
};
pub use shape::{Shape, SizeOverflow};
pub use tensor::{
    Bound, BoundTensor, HostState, HostTensor, State, Tensor, TensorError, Unbound, Validated,
};
