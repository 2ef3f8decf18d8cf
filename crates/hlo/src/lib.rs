//! Verify an HLO module, plan it and execute it on the CPU.
#![deny(unsafe_code)]

pub mod array;
pub mod attributes;
pub mod element;
pub mod error;
pub mod ir;
pub(crate) mod kernels;
pub(crate) mod numerics;
pub mod options;
pub mod shape;
pub(crate) mod strided;
mod verify;

pub use ir::Module;
pub use verify::{Problem, VerifyError};
