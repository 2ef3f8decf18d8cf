//! Contracts, typestate tensors and sessions over a [`Backend`].

mod backend;
mod error;

pub use backend::{
    Backend, BackendInfo, CollectiveContext, Completion, Core, LoadRequest, MemoryStats, Placement,
    Side, TensorInfo, Transfers,
};
pub use error::{BackendError, Cause};
