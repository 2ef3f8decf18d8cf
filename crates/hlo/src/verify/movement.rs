//! Shape inference of instructions that move elements.

use crate::attributes::{PaddingDim, SliceDim};
use crate::ir::Op;
use crate::shape::ArrayShape;

use super::problem::{Problem, mismatch, require};
use super::scope::{Scope, integer, same_element, scalar};

/// Checks `broadcast`.
pub(super) fn broadcast(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(1)?;
    let (operand, result) = (scope.array(0)?, scope.result()?);
    let dims = Scope::dims("dimensions", &scope.proto.dimensions, result.rank())?;
    require(
        dims.len() == operand.rank(),
        "number of dimensions",
        operand.rank(),
        dims.len(),
    )?;
    for (&size, &dim) in operand.dims().iter().zip(&dims) {
        require(
            result.dims()[dim] == size,
            "dimension of the result",
            size,
            format_args!("{} at {dim}", result.dims()[dim]),
        )?;
    }
    scope.infers_array(operand.element(), result.dims())?;
    Ok(Op::Broadcast { dims: dims.into() })
}

/// Checks `reshape`, and the `bitcast` that means the same.
pub(super) fn reshape(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(1)?;
    let (operand, result) = (scope.array(0)?, scope.result()?);
    require(
        operand.element_count() == result.element_count(),
        "number of elements",
        operand.element_count(),
        result.element_count(),
    )?;
    scope.infers_array(operand.element(), result.dims())?;
    Ok(Op::Reshape)
}

/// Checks `transpose`.
pub(super) fn transpose(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(1)?;
    let operand = scope.array(0)?;
    let permutation = Scope::dims("permutation", &scope.proto.dimensions, operand.rank())?;
    require(
        permutation.len() == operand.rank(),
        "length of the permutation",
        operand.rank(),
        permutation.len(),
    )?;
    let dims: Vec<usize> = permutation.iter().map(|&dim| operand.dims()[dim]).collect();
    scope.infers_array(operand.element(), dims)?;
    Ok(Op::Transpose {
        permutation: permutation.into(),
    })
}

/// Checks `slice`.
pub(super) fn slice(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(1)?;
    let operand = scope.array(0)?;
    let given = &scope.proto.slice_dimensions;
    require(
        given.len() == operand.rank(),
        "number of slice dimensions",
        operand.rank(),
        given.len(),
    )?;
    let mut slices = Vec::with_capacity(given.len());
    let mut dims = Vec::with_capacity(given.len());
    for (dim, &size) in given.iter().zip(operand.dims()) {
        let start = Scope::size("start of the slice", dim.start)?;
        let limit = Scope::size("limit of the slice", dim.limit)?;
        let stride = Scope::size("stride of the slice", dim.stride)?;
        require(stride > 0, "stride of the slice", "1 or more", stride)?;
        require(
            limit <= size,
            "limit of the slice",
            format_args!("at most {size}"),
            limit,
        )?;
        require(
            start <= limit,
            "start of the slice",
            format_args!("at most {limit}"),
            start,
        )?;
        dims.push((limit - start).div_ceil(stride));
        slices.push(SliceDim {
            start,
            limit,
            stride,
        });
    }
    scope.infers_array(operand.element(), dims)?;
    Ok(Op::Slice(slices.into()))
}

/// Checks `pad`.
pub(super) fn pad(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(2)?;
    let (operand, value) = (scope.array(0)?, scope.array(1)?);
    scalar("padding value", value)?;
    same_element(operand, value)?;
    let given = scope
        .proto
        .padding_config
        .as_ref()
        .map_or(&[][..], |config| &config.dimensions);
    require(
        given.len() == operand.rank(),
        "number of padding dimensions",
        operand.rank(),
        given.len(),
    )?;
    let mut padding = Vec::with_capacity(given.len());
    let mut dims = Vec::with_capacity(given.len());
    for (dim, &size) in given.iter().zip(operand.dims()) {
        let interior = Scope::size("interior padding", dim.interior_padding)?;
        let (low, high) = (dim.edge_padding_low, dim.edge_padding_high);
        let padded = size
            .saturating_sub(1)
            .checked_mul(interior)
            .and_then(|holes| holes.checked_add(size))
            .and_then(|size| i64::try_from(size).ok())
            .and_then(|size| size.checked_add(low)?.checked_add(high))
            .ok_or(Problem::Overflow {
                what: "size of the padded dimension",
            })?;
        dims.push(Scope::size("size of the padded dimension", padded)?);
        padding.push(PaddingDim {
            low,
            high,
            interior,
        });
    }
    scope.infers_array(operand.element(), dims)?;
    Ok(Op::Pad(padding.into()))
}

/// Checks `concatenate`.
pub(super) fn concatenate(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.at_least(1)?;
    let operands = scope.arrays(0..scope.operands.len())?;
    let dimension = one_dimension(scope, operands[0].rank())?;
    let mut dims = operands[0].dims().to_vec();
    for operand in &operands[1..] {
        same_element(operands[0], operand)?;
        let mut other = operand.dims().to_vec();
        require(
            other.len() == dims.len(),
            "rank of an operand",
            dims.len(),
            other.len(),
        )?;
        let joined = dims[dimension]
            .checked_add(other[dimension])
            .ok_or(Problem::Overflow {
                what: "size of the concatenated dimension",
            })?;
        (dims[dimension], other[dimension]) = (joined, joined);
        require(
            other == dims,
            "dimensions of an operand",
            operands[0],
            operand,
        )?;
    }
    scope.infers_array(operands[0].element(), dims)?;
    Ok(Op::Concatenate { dimension })
}

/// Checks `reverse`.
pub(super) fn reverse(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(1)?;
    let operand = scope.array(0)?;
    let dims = Scope::dims("dimensions", &scope.proto.dimensions, operand.rank())?;
    scope.infers_array(operand.element(), operand.dims())?;
    Ok(Op::Reverse { dims: dims.into() })
}

/// Checks `iota`.
pub(super) fn iota(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(0)?;
    let result = scope.result()?;
    require(result.rank() > 0, "rank", "1 or more", 0)?;
    require(
        result.element() != crate::element::ElementType::Pred,
        "element type",
        "a number type",
        result.element(),
    )?;
    Ok(Op::Iota {
        dimension: one_dimension(scope, result.rank())?,
    })
}

/// Checks `dynamic-slice`.
pub(super) fn dynamic_slice(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.at_least(1)?;
    let operand = scope.array(0)?;
    starts(scope, 1, operand)?;
    let sizes = &scope.proto.dynamic_slice_sizes;
    require(
        sizes.len() == operand.rank(),
        "number of slice sizes",
        operand.rank(),
        sizes.len(),
    )?;
    let sizes = sizes.iter().map(|&size| Scope::size("slice size", size));
    let sizes: Vec<usize> = sizes.collect::<Result<_, _>>()?;
    for (&size, &limit) in sizes.iter().zip(operand.dims()) {
        require(
            size <= limit,
            "slice size",
            format_args!("at most {limit}"),
            size,
        )?;
    }
    scope.infers_array(operand.element(), sizes)?;
    Ok(Op::DynamicSlice)
}

/// Checks `dynamic-update-slice`.
pub(super) fn dynamic_update_slice(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.at_least(2)?;
    let (operand, update) = (scope.array(0)?, scope.array(1)?);
    starts(scope, 2, operand)?;
    same_element(operand, update)?;
    require(
        update.rank() == operand.rank(),
        "rank of the update",
        operand.rank(),
        update.rank(),
    )?;
    for (&size, &limit) in update.dims().iter().zip(operand.dims()) {
        require(
            size <= limit,
            "size of the update",
            format_args!("at most {limit}"),
            size,
        )?;
    }
    scope.infers_array(operand.element(), operand.dims())?;
    Ok(Op::DynamicUpdateSlice)
}

/// Checks start indices: integer scalars of one type, one a dimension.
fn starts(scope: &Scope<'_>, first: usize, operand: &ArrayShape) -> Result<(), Problem> {
    scope.count(first + operand.rank())?;
    let starts = scope.arrays(first..scope.operands.len())?;
    for start in &starts {
        scalar("start index", start)?;
        integer("start index", start)?;
        same_element(starts[0], start)?;
    }
    Ok(())
}

/// Checks `get-dimension-size`.
pub(super) fn get_dimension_size(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(1)?;
    let operand = scope.array(0)?;
    let dimension = one_dimension(scope, operand.rank())?;
    require(
        i32::try_from(operand.dims()[dimension]).is_ok(),
        "size of the dimension",
        "at most 2147483647",
        operand.dims()[dimension],
    )?;
    scope.infers_array(crate::element::ElementType::S32, [])?;
    Ok(Op::GetDimensionSize { dimension })
}

/// The only entry of `dimensions`, below `rank`.
pub(super) fn one_dimension(scope: &Scope<'_>, rank: usize) -> Result<usize, Problem> {
    match scope.proto.dimensions[..] {
        [dimension] => Scope::dim("dimension", dimension, rank),
        ref other => Err(mismatch("number of dimensions", 1, other.len())),
    }
}
