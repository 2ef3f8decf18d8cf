//! Operations on whole arrays.
//!
//! A kernel reads views and writes views that the executor has allocated in
//! the verified result shape. It relies on the checks of verification: dimension
//! numbers are in range, shapes agree.

mod convolution;
mod dot;
mod gather;
mod gemm;
mod movement;
mod scatter;
mod slicing;
mod sort;
#[cfg(test)]
mod testing;
mod walk;
mod window;

pub(crate) use convolution::convolution;
pub(crate) use dot::dot;
pub(crate) use gather::gather;
pub(crate) use movement::{broadcast, concatenate, iota, pad, reverse, slice, transpose};
pub(crate) use scatter::scatter;
pub(crate) use slicing::{dynamic_slice, dynamic_update_slice};
pub(crate) use sort::{sort, top_k};
pub(crate) use window::{reduce_window, select_and_scatter};

use crate::array::{ArrayView, ArrayViewMut};
use crate::attributes::{
    Comparison, ConvDims, DotDims, FftDims, GatherDims, Monoid, RngAlgorithm, ScatterDims,
    TriangularSolve, Window,
};
use crate::error::{ExecuteError, KernelError};
use crate::options::ExecuteOptions;

/// What every kernel is told.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Context<'a> {
    /// The options of the execution.
    pub options: &'a ExecuteOptions,
}

/// A called computation on scalars, evaluated on many scalars at once.
pub trait Region {
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
#[expect(missing_debug_implementations, reason = "a region cannot be printed")]
#[non_exhaustive]
pub enum Combiner<'a> {
    /// A known reduction of one operand: accumulator, then value.
    Monoid(Monoid),
    /// The new value replaces the accumulator (`scatter` that sets).
    Replace,
    /// Any other computation: its parameters are the accumulators, then the
    /// values, one of each an operand.
    Region(&'a mut dyn Region),
}

/// How `sort` orders two rows.
#[expect(missing_debug_implementations, reason = "a region cannot be printed")]
#[non_exhaustive]
pub enum Comparator<'a> {
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

fn pending(what: &str) -> Result<(), KernelError> {
    Err(KernelError::Unsupported {
        what: what.to_owned(),
    })
}

/// `fft`.
///
/// # Errors
///
/// [`KernelError`] if the types are not supported.
pub fn fft(
    _operand: ArrayView<'_>,
    _dims: &FftDims,
    _out: ArrayViewMut<'_>,
    _context: Context<'_>,
) -> Result<(), KernelError> {
    pending("fft")
}

/// `cholesky` of the last two dimensions; the other triangle becomes 0.
///
/// # Errors
///
/// [`KernelError`] if the types are not supported.
pub fn cholesky(
    _operand: ArrayView<'_>,
    _lower: bool,
    _out: ArrayViewMut<'_>,
    _context: Context<'_>,
) -> Result<(), KernelError> {
    pending("cholesky")
}

/// `triangular-solve` of the last two dimensions.
///
/// # Errors
///
/// [`KernelError`] if the types are not supported.
pub fn triangular_solve(
    _a: ArrayView<'_>,
    _b: ArrayView<'_>,
    _options: &TriangularSolve,
    _out: ArrayViewMut<'_>,
    _context: Context<'_>,
) -> Result<(), KernelError> {
    pending("triangular-solve")
}

/// `rng-bit-generator`.
///
/// # Errors
///
/// [`KernelError`] if the types are not supported.
pub fn rng_bit_generator(
    _state: ArrayView<'_>,
    _algorithm: RngAlgorithm,
    _new_state: ArrayViewMut<'_>,
    _bits: ArrayViewMut<'_>,
    _context: Context<'_>,
) -> Result<(), KernelError> {
    pending("rng-bit-generator")
}

/// `reduce-precision`.
///
/// # Errors
///
/// [`KernelError`] if the types are not supported.
pub fn reduce_precision(
    _operand: ArrayView<'_>,
    _exponent_bits: u32,
    _mantissa_bits: u32,
    _out: ArrayViewMut<'_>,
    _context: Context<'_>,
) -> Result<(), KernelError> {
    pending("reduce-precision")
}

/// `batch-norm-inference`; `operands` are operand, scale, offset, mean,
/// variance.
///
/// # Errors
///
/// [`KernelError`] if the types are not supported.
pub fn batch_norm_inference(
    _operands: [ArrayView<'_>; 5],
    _epsilon: f32,
    _feature: usize,
    _out: ArrayViewMut<'_>,
    _context: Context<'_>,
) -> Result<(), KernelError> {
    pending("batch-norm-inference")
}

/// `batch-norm-training`; `operands` are operand, scale, offset, `outs` the
/// normalised operand, mean, variance.
///
/// # Errors
///
/// [`KernelError`] if the types are not supported.
pub fn batch_norm_training(
    _operands: [ArrayView<'_>; 3],
    _epsilon: f32,
    _feature: usize,
    _outs: [ArrayViewMut<'_>; 3],
    _context: Context<'_>,
) -> Result<(), KernelError> {
    pending("batch-norm-training")
}

/// `batch-norm-grad`; `operands` are operand, scale, mean, variance, gradient
/// of the output, `outs` the gradients of operand, scale, offset.
///
/// # Errors
///
/// [`KernelError`] if the types are not supported.
pub fn batch_norm_grad(
    _operands: [ArrayView<'_>; 5],
    _epsilon: f32,
    _feature: usize,
    _outs: [ArrayViewMut<'_>; 3],
    _context: Context<'_>,
) -> Result<(), KernelError> {
    pending("batch-norm-grad")
}
