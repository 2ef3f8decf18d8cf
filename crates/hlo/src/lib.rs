//! Verify an HLO module, plan it and execute it on the CPU.
#![deny(unsafe_code)]

pub mod array;
pub mod attributes;
#[cfg(feature = "corpus")]
pub mod corpus;
mod custom;
pub mod element;
pub mod error;
mod exec;
pub mod ir;
pub(crate) mod kernels;
pub(crate) mod lanes;
pub(crate) mod numerics;
pub mod options;
mod plan;
mod rewrite;
pub mod shape;
mod verify;
mod world;

pub use custom::{Call, CustomCallError, CustomCalls};
pub use exec::{Event, Executable, Execution};
pub use ir::Module;
pub use verify::{Problem, VerifyError};
pub use world::{CollectiveError, Device, World};
