//! Shape inference of `gather` and `scatter`.

use crate::attributes::{GatherDims, ScatterDims};
use crate::ir::Op;
use crate::shape::{ArrayShape, Shape};

use super::problem::{Problem, mismatch, require};
use super::scope::{Scope, integer, same_dims, signature};

/// Checks `gather`.
pub(super) fn gather(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(2)?;
    let (operand, indices) = (scope.array(0)?, scope.array(1)?);
    integer("indices", indices)?;
    let given = scope.proto.gather_dimension_numbers.as_ref();
    let given = given.ok_or_else(|| mismatch("gather dimension numbers", "some", "none"))?;
    let index_vector_dim = index_vector_dim(given.index_vector_dim, indices)?;
    let addressed = addressed(indices, index_vector_dim);
    let batching = batching(
        &given.operand_batching_dims,
        &given.start_indices_batching_dims,
        operand,
        indices,
        index_vector_dim,
    )?;
    let collapsed_slice_dims = Scope::ascending(
        "collapsed slice dimensions",
        &given.collapsed_slice_dims,
        operand.rank(),
    )?;
    disjoint(
        "collapsed slice dimensions",
        &collapsed_slice_dims,
        &batching.0,
    )?;
    let start_index_map = Scope::dims("start index map", &given.start_index_map, operand.rank())?;
    disjoint("start index map", &start_index_map, &batching.0)?;
    require(
        start_index_map.len() == addressed,
        "length of the start index map",
        addressed,
        start_index_map.len(),
    )?;
    let sizes = &scope.proto.gather_slice_sizes;
    require(
        sizes.len() == operand.rank(),
        "number of slice sizes",
        operand.rank(),
        sizes.len(),
    )?;
    let mut slice_sizes = Vec::with_capacity(sizes.len());
    for (dim, (&size, &limit)) in sizes.iter().zip(operand.dims()).enumerate() {
        let size = Scope::size("slice size", size)?;
        require(
            size <= limit,
            "slice size",
            format_args!("at most {limit}"),
            size,
        )?;
        if collapsed_slice_dims.contains(&dim) || batching.0.contains(&dim) {
            require(
                size <= 1,
                "slice size of a collapsed dimension",
                "at most 1",
                size,
            )?;
        }
        slice_sizes.push(size);
    }
    let window: Vec<usize> = (0..operand.rank())
        .filter(|dim| !collapsed_slice_dims.contains(dim) && !batching.0.contains(dim))
        .map(|dim| slice_sizes[dim])
        .collect();
    let batch = batch_sizes(indices, index_vector_dim);
    let offset_dims = Scope::ascending(
        "offset dimensions",
        &given.offset_dims,
        window.len() + batch.len(),
    )?;
    require(
        offset_dims.len() == window.len(),
        "number of offset dimensions",
        window.len(),
        offset_dims.len(),
    )?;
    scope.infers_array(operand.element(), interleave(&window, &batch, &offset_dims))?;
    Ok(Op::Gather(Box::new(GatherDims {
        offset_dims,
        collapsed_slice_dims,
        start_index_map,
        index_vector_dim,
        operand_batching_dims: batching.0,
        start_indices_batching_dims: batching.1,
        slice_sizes,
    })))
}

/// Checks `scatter`.
pub(super) fn scatter(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.at_least(3)?;
    let arity = scope.operands.len() / 2;
    scope.count(2 * arity + 1)?;
    let operands = scope.arrays(0..arity)?;
    let indices = scope.array(arity)?;
    let updates = scope.arrays(arity + 1..2 * arity + 1)?;
    integer("indices", indices)?;
    for index in 0..arity {
        same_dims(operands[0], operands[index])?;
        same_dims(updates[0], updates[index])?;
        super::scope::same_element(operands[index], updates[index])?;
    }
    let dims = scatter_dims(scope, operands[0], indices, updates[0])?;
    let (computation, called) = scope.called()?;
    let scalars: Vec<Shape> = operands
        .iter()
        .map(|operand| ArrayShape::scalar(operand.element()).into())
        .collect();
    let parameters = [scalars.clone(), scalars.clone()].concat();
    signature(
        called,
        &parameters,
        &super::reduction::one_or_tuple(scalars),
    )?;
    scope.infers_arrays(operands.into_iter().cloned().collect())?;
    Ok(Op::Scatter {
        dims: Box::new(dims),
        computation,
    })
}

fn scatter_dims(
    scope: &Scope<'_>,
    operand: &ArrayShape,
    indices: &ArrayShape,
    updates: &ArrayShape,
) -> Result<ScatterDims, Problem> {
    let given = scope.proto.scatter_dimension_numbers.as_ref();
    let given = given.ok_or_else(|| mismatch("scatter dimension numbers", "some", "none"))?;
    let index_vector_dim = index_vector_dim(given.index_vector_dim, indices)?;
    let addressed = addressed(indices, index_vector_dim);
    let batching = batching(
        &given.input_batching_dims,
        &given.scatter_indices_batching_dims,
        operand,
        indices,
        index_vector_dim,
    )?;
    let inserted_window_dims = Scope::ascending(
        "inserted window dimensions",
        &given.inserted_window_dims,
        operand.rank(),
    )?;
    disjoint(
        "inserted window dimensions",
        &inserted_window_dims,
        &batching.0,
    )?;
    let to_operand = Scope::dims(
        "scatter dimensions to operand dimensions",
        &given.scatter_dims_to_operand_dims,
        operand.rank(),
    )?;
    disjoint(
        "scatter dimensions to operand dimensions",
        &to_operand,
        &batching.0,
    )?;
    require(
        to_operand.len() == addressed,
        "number of scatter dimensions to operand dimensions",
        addressed,
        to_operand.len(),
    )?;
    let update_window_dims = Scope::ascending(
        "update window dimensions",
        &given.update_window_dims,
        updates.rank(),
    )?;
    let window: Vec<usize> = (0..operand.rank())
        .filter(|dim| !inserted_window_dims.contains(dim) && !batching.0.contains(dim))
        .map(|dim| operand.dims()[dim])
        .collect();
    require(
        update_window_dims.len() == window.len(),
        "number of update window dimensions",
        window.len(),
        update_window_dims.len(),
    )?;
    let batch = batch_sizes(indices, index_vector_dim);
    require(
        updates.rank() == window.len() + batch.len(),
        "rank of the updates",
        window.len() + batch.len(),
        updates.rank(),
    )?;
    for (&dim, &limit) in update_window_dims.iter().zip(&window) {
        let size = updates.dims()[dim];
        require(
            size <= limit,
            "window of the updates",
            format_args!("at most {limit}"),
            size,
        )?;
    }
    let scattered: Vec<usize> = (0..updates.rank())
        .filter(|dim| !update_window_dims.contains(dim))
        .map(|dim| updates.dims()[dim])
        .collect();
    require(
        scattered == batch,
        "scatter dimensions of the updates",
        format_args!("{batch:?}"),
        format_args!("{scattered:?}"),
    )?;
    Ok(ScatterDims {
        update_window_dims,
        inserted_window_dims,
        scatter_dims_to_operand_dims: to_operand,
        index_vector_dim,
        input_batching_dims: batching.0,
        scatter_indices_batching_dims: batching.1,
    })
}

fn index_vector_dim(value: i64, indices: &ArrayShape) -> Result<usize, Problem> {
    Scope::dim("index vector dimension", value, indices.rank() + 1)
}

/// Length of an index vector.
fn addressed(indices: &ArrayShape, index_vector_dim: usize) -> usize {
    indices.dims().get(index_vector_dim).copied().unwrap_or(1)
}

/// Dimensions of the indices other than that of the vectors.
fn batch_sizes(indices: &ArrayShape, index_vector_dim: usize) -> Vec<usize> {
    (0..indices.rank())
        .filter(|&dim| dim != index_vector_dim)
        .map(|dim| indices.dims()[dim])
        .collect()
}

fn batching(
    operand_dims: &[i64],
    index_dims: &[i64],
    operand: &ArrayShape,
    indices: &ArrayShape,
    index_vector_dim: usize,
) -> Result<(Vec<usize>, Vec<usize>), Problem> {
    let operand_dims =
        Scope::ascending("operand batching dimensions", operand_dims, operand.rank())?;
    let index_dims = Scope::dims("index batching dimensions", index_dims, indices.rank())?;
    require(
        operand_dims.len() == index_dims.len(),
        "number of index batching dimensions",
        operand_dims.len(),
        index_dims.len(),
    )?;
    disjoint(
        "index batching dimensions",
        &index_dims,
        &[index_vector_dim],
    )?;
    for (&o, &i) in operand_dims.iter().zip(&index_dims) {
        require(
            operand.dims()[o] == indices.dims()[i],
            "batching dimension of the indices",
            operand.dims()[o],
            indices.dims()[i],
        )?;
    }
    Ok((operand_dims, index_dims))
}

fn disjoint(what: &'static str, dims: &[usize], others: &[usize]) -> Result<(), Problem> {
    match dims.iter().find(|dim| others.contains(dim)) {
        Some(dim) => Err(mismatch(what, "no dimension with another role", dim)),
        None => Ok(()),
    }
}

/// Dimensions of which those at `offset_dims` come from `window`, the others
/// from `batch`, each in order.
fn interleave(window: &[usize], batch: &[usize], offset_dims: &[usize]) -> Vec<usize> {
    let (mut window, mut batch) = (window.iter(), batch.iter());
    (0..window.len() + batch.len())
        .filter_map(|dim| {
            if offset_dims.contains(&dim) {
                window.next()
            } else {
                batch.next()
            }
        })
        .copied()
        .collect()
}
