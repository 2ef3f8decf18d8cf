//! Every family of opcodes against a plain reference, on random shapes and
//! attributes.
//!
//! The references follow the specification's text, element by element, and
//! share no code with the executor. `coverage` says which test has which opcode.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "references convert small numbers freely, and round and wrap on purpose"
)]

#[path = "../refused/build.rs"]
#[expect(dead_code, reason = "the modules that are refused need more of it")]
mod build;

mod algebra;
mod bits;
mod collectives;
mod control;
mod coverage;
mod draw;
mod elementwise;
mod indexing;
mod movement;
mod ordering;
mod products;
mod value;
mod windows;
