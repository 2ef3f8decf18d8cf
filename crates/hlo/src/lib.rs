//! Verify an HLO module, plan it and execute it on the CPU.
//!
//! | stage | from | to | lives in |
//! |---|---|---|---|
//! | verification | bytes or messages, untrusted | [`Module`], a proof | `verify`, [`ir`] |
//! | planning | [`Module`] | [`Executable`]: last uses, called computations as elementwise steps | `plan`, `lanes` |
//! | execution | [`Executable`], inputs | [`Execution`] | `exec`, `kernels`, `numerics` |
//!
//! The module's meaning is that of XLA on a CPU, and of the StableHLO
//! specification where the two differ. [`options::ExecuteOptions`] has the
//! switches: what a NaN and an index out of bounds do, denormals, rounding of
//! products' operands, limits. [`World`] lets several executions meet in
//! collectives, [`CustomCalls`] adds targets of custom calls.
//!
//! Nothing here knows of Neuron but the default targets of custom calls.
//!
//! # Examples
//!
//! ```
//! use metaneff_hlo::{Executable, Module, options::ExecuteOptions};
//! use metaneff_schema::xla::{
//!     HloComputationProto, HloInstructionProto, HloModuleProto, PrimitiveType, ShapeProto,
//! };
//!
//! let shape = ShapeProto {
//!     element_type: PrimitiveType::F32.into(),
//!     dimensions: vec![2],
//!     ..ShapeProto::default()
//! };
//! let instruction = |id: i64, opcode: &str, operand_ids: &[i64]| HloInstructionProto {
//!     name: format!("{opcode}.{id}"),
//!     opcode: opcode.into(),
//!     shape: Some(shape.clone()),
//!     id,
//!     operand_ids: operand_ids.to_vec(),
//!     ..HloInstructionProto::default()
//! };
//! let entry = HloComputationProto {
//!     instructions: vec![instruction(0, "parameter", &[]), instruction(1, "add", &[0, 0])],
//!     root_id: 1,
//!     ..HloComputationProto::default()
//! };
//! let proto = HloModuleProto { computations: vec![entry], ..HloModuleProto::default() };
//!
//! let executable = Executable::new(Module::verify(&proto)?);
//! let input: Vec<u8> = [1_f32, 2.5].iter().flat_map(|x| x.to_le_bytes()).collect();
//! let execution = executable.execute(&[&input], &ExecuteOptions::default())?;
//! assert_eq!(execution.outputs[0].values::<f32>()?, [2.0, 5.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Opcodes
//!
#![doc = include_str!("../OPCODES.md")]
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
mod opcodes;
pub mod options;
mod plan;
mod rewrite;
pub mod shape;
mod trace;
mod verify;
mod world;

pub use custom::{
    COLLECTIVE_MATMUL, Call, CustomCallError, CustomCalls, REFUSED_TARGETS, RefusedTarget, TARGETS,
    TargetInfo,
};
pub use exec::{Event, Executable, Execution};
pub use ir::Module;
pub use opcodes::{OPCODES, OpcodeInfo, REFUSED_OPCODES, RefusedOpcode, opcode_table};
pub use trace::{Difference, ValueDifference};
pub use verify::{Problem, VerifyError};
pub use world::{CollectiveError, Device, World};
