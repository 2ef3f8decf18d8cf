//! Verify an HLO module, plan it and execute it on the CPU.
#![deny(unsafe_code)]

pub mod array;
pub mod attributes;
pub mod element;
pub mod error;
pub(crate) mod kernels;
pub(crate) mod numerics;
pub mod options;
pub mod shape;
