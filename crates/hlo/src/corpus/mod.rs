//! Cases with golden outputs: reading, running, comparing.
//!
//! A case is a folder with `module.pb`, `meta.json` and `.npy` files. The
//! inputs are logical arrays in row-major order; they are brought into the
//! layouts of the entry before execution.

mod case;
mod compare;
mod npy;
mod outcome;

pub use case::{Case, CaseError, NpyError, Tensor, Tolerance};
pub use compare::{Comparison, compare};
pub use outcome::{
    CaseFailure, Outcome, TraceEntry, Verdict, first_change, first_difference, run_case, trace_case,
};
