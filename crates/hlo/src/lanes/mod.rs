//! Elementwise operations on runs of elements.
//!
//! [`elementwise`] applies one operation to whole slices. A [`Program`] is a
//! computation on scalars, flattened into such operations: it evaluates the
//! computations that `reduce`, `map`, `sort` and the like call, many scalars
//! at once.

mod chain;
mod complex;
mod elementwise;
mod flush;
mod integer;
mod program;
mod real;

pub(crate) use chain::{Chain, Fused, fuse};
pub(crate) use elementwise::{LaneOp, apply};
pub(crate) use program::{Effort, LaneRegion, Program, lane_op};
