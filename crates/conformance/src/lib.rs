//! Conformance cases over every backend.
//!
//! A [`Case`] is declared once and runs on whatever implements
//! [`Backend`](metaneff_binding::Backend). A [`Target`] makes backends as the
//! cases ask for them, [`run`] judges, and the [`Report`] is for people and for
//! machines.
//!
//! Cases need no files: their models are built in code from a few instructions,
//! with results that are worked out by hand.

#![forbid(unsafe_code)]

mod bench;
mod case;
mod cases;
mod graph;
mod models;
mod packing;
mod raw;
mod report;

pub use case::{Case, Failure, SIMULATED, Setup};
pub use cases::{cases, order_cases};
pub use packing::Packing;
pub use report::{
    Expectation, Outcome, Report, Row, Tally, Target, Unavailable, Verdict, judge, run,
};
