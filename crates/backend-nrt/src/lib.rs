//! The [`Backend`](metaneff_binding::Backend) trait over a real `libnrt.so`.
//!
//! [`Nrt::open`] finds the library, initialises it and gives a backend. Nothing
//! is linked: a program with this crate starts on any machine, and on one
//! without the library [`OpenError`] says which paths were tried and what
//! happened at each. There is no fallback to a simulator; that is chosen by
//! name.
//!
//! # What it takes care of
//!
//! - **Stack.** libnrt needs megabytes of it; loading, executing, unloading,
//!   initialising and closing get [16 MiB](NrtOptions::stack_size), on whatever
//!   thread they are called.
//! - **Configuration.** Cores are chosen in [`NrtOptions`] and read once, by
//!   `nrt_init`. Choosing others afterwards is an error and not ignored.
//! - **Life.** A library is initialised once; opening it again shares it, and
//!   the last [`Nrt`] closes it. It stays mapped for ever. A handle that outlives
//!   its runtime is refused, and giving it back does nothing.
//! - **Fork.** In a child of `fork` every call answers
//!   [`Cause::Forked`](metaneff_binding::Cause::Forked) and nothing is given
//!   back.
//! - **Libraries of other releases.** Functions that not every release has are
//!   optional: a call of one that is missing answers
//!   [`Cause::MissingSymbol`](metaneff_binding::Cause::MissingSymbol). A
//!   [`Capability`] says beforehand what there is, by the functions that were
//!   found and never by a version.
//! - **Work in the background.** A [`Queue`] makes requests through
//!   `nrt_async.h` where the library has it, and on threads where not.
//!
//! # Sources, and what was tried
//!
//! Declarations follow the public headers of libnrt (`nrt.h`,
//! `nrt_experimental.h`, `nrt_version.h`, `nrt_async.h`,
//! `neuron_driver_shared_tensor_batch_op.h`); behaviour that they do not state
//! follows what public clients of the library rely on. The tests run over a
//! library in C of the same interface, and over the simulated `libnrt.so`.
//! Nothing here was run on a Neuron device.
#![deny(unsafe_code)]

mod backend;
mod capability;
mod cores;
mod devices;
mod error;
mod explain;
mod extras;
mod library;
mod nrt;
mod options;
mod queue;
mod search;
mod sys;

pub use capability::Capability;
pub use devices::{DeviceHolder, DeviceNode, Devices};
pub use error::{Attempt, OpenError};
pub use extras::Unattached;
pub use library::NrtLibrary;
pub use nrt::{Notice, Nrt};
pub use options::{Framework, NrtOptions};
pub use queue::{Executed, Launch, Pending, Queue, QueueMode, Unscheduled};
pub use sys::{
    DeviceAllocation, InstanceInfo, NrtModel, NrtTensor, NrtTensorSet, ReadOp, RuntimeVersion,
    WriteOp,
};
