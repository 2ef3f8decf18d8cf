//! Attributes of instructions, checked and typed.
//!
//! Every struct here is made by verification, which has checked it against
//! the shapes of its instruction: dimension numbers are in range and do not
//! repeat, window dimensions match the rank, sizes agree. Kernels may rely on
//! it.

/// Dimension numbers of `dot`.
///
/// The result has the batch dimensions, then the free dimensions of the left
/// operand, then those of the right one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DotDims {
    /// Dimensions of the left operand that are summed over.
    pub lhs_contracting: Vec<usize>,
    /// Dimensions of the right operand that are summed over, in the same order.
    pub rhs_contracting: Vec<usize>,
    /// Batch dimensions of the left operand.
    pub lhs_batch: Vec<usize>,
    /// Batch dimensions of the right operand, in the same order.
    pub rhs_batch: Vec<usize>,
}

/// One dimension of a [`Window`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the fields of WindowDimension")]
pub struct WindowDim {
    /// Positions in the window.
    pub size: usize,
    /// Distance between neighbouring windows, at least 1.
    pub stride: usize,
    /// Padding before the (dilated) base; negative crops.
    pub padding_low: i64,
    /// Padding after the (dilated) base; negative crops.
    pub padding_high: i64,
    /// Distance between neighbouring positions of the window, at least 1.
    pub window_dilation: usize,
    /// Distance between neighbouring elements of the base, at least 1.
    pub base_dilation: usize,
    /// Whether the window runs backwards (`convolution` only).
    pub reversal: bool,
}

impl WindowDim {
    /// A window of one position that visits every element.
    pub const ONE: Self = Self {
        size: 1,
        stride: 1,
        padding_low: 0,
        padding_high: 0,
        window_dilation: 1,
        base_dilation: 1,
        reversal: false,
    };

    /// Positions from the first to the last of the window, holes included.
    #[must_use]
    pub fn dilated_size(&self) -> Option<i64> {
        dilated(self.size, self.window_dilation)
    }

    /// Number of windows over a base of `base` elements; `None` if a size
    /// overflows.
    #[must_use]
    pub fn output_size(&self, base: usize) -> Option<usize> {
        let padded = dilated(base, self.base_dilation)?
            .checked_add(self.padding_low)?
            .checked_add(self.padding_high)?;
        let window = self.dilated_size()?;
        if window == 0 || padded < window {
            return Some(0);
        }
        let stride = i64::try_from(self.stride).ok()?;
        usize::try_from((padded - window) / stride + 1).ok()
    }
}

fn dilated(size: usize, dilation: usize) -> Option<i64> {
    let holes_and_elements = match size {
        0 => 0,
        _ => (size - 1).checked_mul(dilation)?.checked_add(1)?,
    };
    i64::try_from(holes_and_elements).ok()
}

/// A window that moves over a base area; one entry a dimension.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Window {
    /// The dimensions.
    pub dims: Vec<WindowDim>,
}

/// Dimension numbers, window and groups of `convolution`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConvDims {
    /// Batch dimension of the input.
    pub input_batch: usize,
    /// Feature dimension of the input.
    pub input_feature: usize,
    /// Spatial dimensions of the input, in window order.
    pub input_spatial: Vec<usize>,
    /// Input feature dimension of the kernel.
    pub kernel_input_feature: usize,
    /// Output feature dimension of the kernel.
    pub kernel_output_feature: usize,
    /// Spatial dimensions of the kernel, in window order.
    pub kernel_spatial: Vec<usize>,
    /// Batch dimension of the output.
    pub output_batch: usize,
    /// Feature dimension of the output.
    pub output_feature: usize,
    /// Spatial dimensions of the output, in window order.
    pub output_spatial: Vec<usize>,
    /// The window over the spatial dimensions.
    pub window: Window,
    /// Number of feature groups, at least 1.
    pub feature_groups: usize,
    /// Number of batch groups, at least 1.
    pub batch_groups: usize,
}

/// Dimension numbers of `gather`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatherDims {
    /// Dimensions of the output that hold the window.
    pub offset_dims: Vec<usize>,
    /// Operand dimensions of window size 1 that the output lacks.
    pub collapsed_slice_dims: Vec<usize>,
    /// Operand dimension that each component of an index vector addresses.
    pub start_index_map: Vec<usize>,
    /// Dimension of the indices that holds the vectors; their rank if each
    /// index is a scalar.
    pub index_vector_dim: usize,
    /// Batch dimensions of the operand.
    pub operand_batching_dims: Vec<usize>,
    /// Batch dimensions of the indices, in the same order.
    pub start_indices_batching_dims: Vec<usize>,
    /// Window size of every operand dimension.
    pub slice_sizes: Vec<usize>,
}

/// Dimension numbers of `scatter`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScatterDims {
    /// Dimensions of the updates that hold the window.
    pub update_window_dims: Vec<usize>,
    /// Operand dimensions of window size 1 that the updates lack.
    pub inserted_window_dims: Vec<usize>,
    /// Operand dimension that each component of an index vector addresses.
    pub scatter_dims_to_operand_dims: Vec<usize>,
    /// Dimension of the indices that holds the vectors; their rank if each
    /// index is a scalar.
    pub index_vector_dim: usize,
    /// Batch dimensions of the operand.
    pub input_batching_dims: Vec<usize>,
    /// Batch dimensions of the indices, in the same order.
    pub scatter_indices_batching_dims: Vec<usize>,
}

/// Padding of one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the fields of PaddingConfigDimension"
)]
pub struct PaddingDim {
    /// Elements before; negative crops.
    pub low: i64,
    /// Elements after; negative crops.
    pub high: i64,
    /// Elements between neighbours.
    pub interior: usize,
}

/// Range of one dimension of `slice`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the fields of SliceDimensions")]
pub struct SliceDim {
    /// First element.
    pub start: usize,
    /// Element after the last.
    pub limit: usize,
    /// Distance between elements, at least 1.
    pub stride: usize,
}

/// Direction of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there are six")]
pub enum Direction {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less than.
    Lt,
    /// Less than or equal.
    Le,
    /// Greater than.
    Gt,
    /// Greater than or equal.
    Ge,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a direction and an order")]
pub struct Comparison {
    /// The direction.
    pub direction: Direction,
    /// Whether floats compare in total order:
    /// -NaN < -inf < … < -0 < +0 < … < inf < NaN.
    pub total_order: bool,
}

/// Transform of `fft`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there are four")]
pub enum FftKind {
    /// Forward, complex to complex.
    Fft,
    /// Inverse, complex to complex.
    Ifft,
    /// Forward, real to the non-redundant half.
    Rfft,
    /// Inverse of [`Rfft`](Self::Rfft).
    Irfft,
}

/// Transform and lengths of `fft`, over the last dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a kind and lengths")]
pub struct FftDims {
    /// The transform.
    pub kind: FftKind,
    /// Lengths of the transformed dimensions, 1 to 3 of them.
    pub lengths: Vec<usize>,
}

/// How `triangular-solve` reads its matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there are three")]
pub enum MatrixTranspose {
    /// As it is.
    None,
    /// Transposed.
    Transpose,
    /// Transposed and conjugated.
    Adjoint,
}

/// Options of `triangular-solve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the fields of TriangularSolveOptions"
)]
pub struct TriangularSolve {
    /// Solve `op(a) x = b` rather than `x op(a) = b`.
    pub left_side: bool,
    /// Read the lower triangle of `a`.
    pub lower: bool,
    /// Take the diagonal of `a` as ones.
    pub unit_diagonal: bool,
    /// What `op` does.
    pub transpose: MatrixTranspose,
}

/// Algorithm of `rng-bit-generator`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there are three")]
pub enum RngAlgorithm {
    /// The executor's choice: Philox.
    Default,
    /// Threefry 2x32.
    ThreeFry,
    /// Philox 4x32.
    Philox,
}

/// Distribution of `rng`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there are two")]
pub enum RngDistribution {
    /// Uniform in `[a, b)`.
    Uniform,
    /// Normal of mean `a` and standard deviation `b`.
    Normal,
}

/// A reduction that is associative and commutative on one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "kernels match on all of them")]
pub enum Monoid {
    /// Sum; `or` on `pred`.
    Add,
    /// Product; `and` on `pred`.
    Multiply,
    /// Maximum; NaN wins.
    Maximum,
    /// Minimum; NaN wins.
    Minimum,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}
