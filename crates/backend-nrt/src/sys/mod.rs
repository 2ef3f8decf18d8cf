//! The only code that calls C, behind functions that are safe to call.
//!
//! # What is taken on trust
//!
//! Rust can check what goes into the library, not what the library does. A file
//! that is opened as libnrt is trusted to have, under the names of the public
//! headers, functions of the types that they declare, which
//!
//! - write to their out-parameters and to the buffers they are given and to no
//!   other memory of the caller's, and keep none of these pointers after they
//!   return; those of a request of `nrt_async.h` until it is completed, and an
//!   attached buffer until its tensor is freed;
//! - may be called from any thread, and from several at once;
//! - leave a tensor set as it was when they refuse to add to it, and touch the
//!   tensors that a set names in an execution only.
//!
//! What can be checked is: null handles, counts, ranks, alignment, texts without
//! an end, sizes and ranges, and to which initialisation a handle belongs.
#![expect(
    unsafe_code,
    reason = "calls of a C library; each block carries its proof"
)]

mod abi;
mod attach;
mod environment;
mod flight;
mod handle;
mod info;
mod library;
mod session;
mod stack;
mod symbols;
mod transfer;
mod world;

pub(crate) use environment::{Exclusive, set_variable};
pub(crate) use flight::{Executable, Flight, Held};
pub use handle::{NrtModel, NrtTensor, NrtTensorSet};
pub use library::{InstanceInfo, RuntimeVersion};
pub(crate) use library::{Library, OpenFailure};
pub(crate) use session::{InitFailure, InitRequest, Session, forked};
pub use transfer::{DeviceAllocation, ReadOp, WriteOp};
