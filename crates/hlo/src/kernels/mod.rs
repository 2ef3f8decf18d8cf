//! Operations on whole arrays.
//!
//! A kernel reads views and writes views that the executor has allocated in
//! the verified result shape. It relies on the checks of verification: dimension
//! numbers are in range, shapes agree.

mod batch_norm;
mod convolution;
mod dot;
mod fft;
mod gather;
mod gemm;
mod linear;
mod movement;
mod precision;
mod random;
mod scatter;
mod slicing;
mod sort;
#[cfg(test)]
mod testing;
mod walk;
mod window;

pub(crate) use batch_norm::{batch_norm_grad, batch_norm_inference, batch_norm_training};
pub(crate) use convolution::convolution;
pub(crate) use dot::dot;
pub(crate) use fft::fft;
pub(crate) use gather::gather;
pub(crate) use linear::{cholesky, triangular_solve};
pub(crate) use movement::{broadcast, concatenate, iota, pad, reverse, slice, transpose};
pub(crate) use precision::reduce_precision;
pub(crate) use random::{rng, rng_bit_generator};
pub(crate) use scatter::scatter;
pub(crate) use slicing::{dynamic_slice, dynamic_update_slice};
pub(crate) use sort::{sort, top_k};
pub(crate) use window::{reduce_window, select_and_scatter};

use crate::attributes::{Comparison, Monoid};
use crate::error::ExecuteError;
use crate::options::ExecuteOptions;

/// What every kernel is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    /// The options of the execution.
    pub(crate) options: &'a ExecuteOptions,
}

/// A called computation on scalars, evaluated on many scalars at once.
pub(crate) trait Region {
    /// Evaluates the computation `lanes` times.
    ///
    /// `args[p]` holds the `lanes` values of parameter `p`, `results[r]`
    /// takes those of result `r`; all are aligned for their element type.
    ///
    /// # Errors
    ///
    /// Whatever fails within the computation.
    fn call(
        &mut self,
        lanes: usize,
        args: &[&[u8]],
        results: &mut [&mut [u8]],
    ) -> Result<(), Box<ExecuteError>>;
}

/// How `reduce`, `reduce-window`, `scatter` and the like combine two values.
pub(crate) enum Combiner<'a> {
    /// A known reduction of one operand: accumulator, then value.
    Monoid(Monoid),
    /// The new value replaces the accumulator (`scatter` that sets).
    Replace,
    /// Any other computation: its parameters are the accumulators, then the
    /// values, one of each an operand.
    Region(&'a mut dyn Region),
}

/// How `sort` orders two rows.
pub(crate) enum Comparator<'a> {
    /// One comparison of one operand's values.
    Compare {
        /// The operand.
        operand: usize,
        /// The comparison, left value first.
        comparison: Comparison,
    },
    /// Any other computation: its parameters are left and right value of
    /// operand 0, then of operand 1 and so on; its result is a `pred`.
    Region(&'a mut dyn Region),
}
