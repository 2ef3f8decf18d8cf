//! Shape inference of reductions, windows, sorting.

use metaneff_schema::xla;

use crate::attributes::{Window, WindowDim};
use crate::element::ElementType;
use crate::ir::Op;
use crate::shape::{ArrayShape, Shape};

use super::movement::one_dimension;
use super::problem::{Problem, mismatch, require};
use super::scope::{Scope, same_dims, same_element, scalar, signature};

/// Checks `reduce`.
pub(super) fn reduce(scope: &Scope<'_>) -> Result<Op, Problem> {
    let (operands, scalars) = operands_and_inits(scope)?;
    let dims = Scope::dims("dimensions", &scope.proto.dimensions, operands[0].rank())?;
    let (computation, called) = scope.called()?;
    let parameters = [scalars.clone(), scalars.clone()].concat();
    signature(called, &parameters, &one_or_tuple(scalars))?;
    let kept: Vec<usize> = (0..operands[0].rank())
        .filter(|dim| !dims.contains(dim))
        .map(|dim| operands[0].dims()[dim])
        .collect();
    scope.infers_arrays(with_dims(&operands, &kept)?)?;
    Ok(Op::Reduce {
        dims: dims.into(),
        computation,
    })
}

/// Checks `reduce-window`.
pub(super) fn reduce_window(scope: &Scope<'_>) -> Result<Op, Problem> {
    let (operands, scalars) = operands_and_inits(scope)?;
    let window = window(scope, operands[0].rank())?;
    let (computation, called) = scope.called()?;
    let parameters = [scalars.clone(), scalars.clone()].concat();
    signature(called, &parameters, &one_or_tuple(scalars))?;
    let dims = window_output(&window, operands[0].dims())?;
    scope.infers_arrays(with_dims(&operands, &dims)?)?;
    Ok(Op::ReduceWindow {
        window,
        computation,
    })
}

/// Checks `select-and-scatter`.
pub(super) fn select_and_scatter(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(3)?;
    let (operand, source, init) = (scope.array(0)?, scope.array(1)?, scope.array(2)?);
    scalar("initial value", init)?;
    same_element(operand, source)?;
    same_element(operand, init)?;
    let window = window(scope, operand.rank())?;
    for dim in &window.dims {
        require(
            dim.window_dilation == 1 && dim.base_dilation == 1,
            "dilation of the window",
            1,
            dim.window_dilation.max(dim.base_dilation),
        )?;
    }
    scope.calls(2)?;
    let (select, selector) = scope.called_at(0)?;
    let (scatter, scatterer) = scope.called_at(1)?;
    let value = Shape::from(ArrayShape::scalar(operand.element()));
    let parameters = [value.clone(), value.clone()];
    signature(
        selector,
        &parameters,
        &ArrayShape::scalar(ElementType::Pred).into(),
    )?;
    signature(scatterer, &parameters, &value)?;
    let windows = window_output(&window, operand.dims())?;
    require(
        source.dims() == windows,
        "dimensions of the source",
        format_args!("{windows:?}"),
        source,
    )?;
    scope.infers_array(operand.element(), operand.dims())?;
    Ok(Op::SelectAndScatter {
        window,
        select,
        scatter,
    })
}

/// Checks `sort`.
pub(super) fn sort(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.at_least(1)?;
    let operands = scope.arrays(0..scope.operands.len())?;
    let mut parameters = Vec::with_capacity(2 * operands.len());
    for operand in &operands {
        same_dims(operands[0], operand)?;
        let value = Shape::from(ArrayShape::scalar(operand.element()));
        parameters.extend([value.clone(), value]);
    }
    let dimension = one_dimension(scope, operands[0].rank())?;
    let (computation, called) = scope.called()?;
    signature(
        called,
        &parameters,
        &ArrayShape::scalar(ElementType::Pred).into(),
    )?;
    scope.infers_arrays(operands.into_iter().cloned().collect())?;
    Ok(Op::Sort {
        dimension,
        stable: scope.proto.is_stable,
        computation,
    })
}

/// Checks `topk`.
pub(super) fn top_k(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(1)?;
    let operand = scope.array(0)?;
    let Some((&last, outer)) = operand.dims().split_last() else {
        return Err(mismatch("rank", "1 or more", 0));
    };
    require(
        !operand.element().is_complex(),
        "element type",
        "a real type",
        operand.element(),
    )?;
    let k = Scope::size("k", scope.proto.k)?;
    require(k <= last, "k", format_args!("at most {last}"), k)?;
    let mut dims = outer.to_vec();
    dims.push(k);
    let array = |element| {
        ArrayShape::new(element, dims.clone()).map_err(|_| Problem::Overflow {
            what: "size of the inferred shape",
        })
    };
    scope.infers_arrays(vec![array(operand.element())?, array(ElementType::S32)?])?;
    Ok(Op::TopK {
        largest: scope.proto.largest,
    })
}

/// Operands of equal dimensions, as many scalars, and the scalars' shapes.
fn operands_and_inits<'a>(scope: &Scope<'a>) -> Result<(Vec<&'a ArrayShape>, Vec<Shape>), Problem> {
    scope.at_least(2)?;
    let arity = scope.operands.len() / 2;
    scope.count(2 * arity)?;
    let operands = scope.arrays(0..arity)?;
    let inits = scope.arrays(arity..2 * arity)?;
    let mut scalars = Vec::with_capacity(arity);
    for (operand, init) in operands.iter().zip(&inits) {
        same_dims(operands[0], operand)?;
        scalar("initial value", init)?;
        same_element(operand, init)?;
        scalars.push(Shape::from(ArrayShape::scalar(operand.element())));
    }
    Ok((operands, scalars))
}

/// One shape alone, several as a tuple.
pub(super) fn one_or_tuple(mut shapes: Vec<Shape>) -> Shape {
    if shapes.len() == 1 {
        shapes.remove(0)
    } else {
        Shape::Tuple(shapes.into())
    }
}

fn with_dims(operands: &[&ArrayShape], dims: &[usize]) -> Result<Vec<ArrayShape>, Problem> {
    operands
        .iter()
        .map(|operand| {
            ArrayShape::new(operand.element(), dims).map_err(|_| Problem::Overflow {
                what: "size of the inferred shape",
            })
        })
        .collect()
}

/// The instruction's window, which must have `rank` dimensions.
pub(super) fn window(scope: &Scope<'_>, rank: usize) -> Result<Window, Problem> {
    let given = scope
        .proto
        .window
        .as_ref()
        .map_or(&[][..], |window| &window.dimensions);
    require(
        given.len() == rank,
        "number of window dimensions",
        rank,
        given.len(),
    )?;
    let dims = given.iter().map(window_dim).collect::<Result<_, _>>()?;
    Ok(Window { dims })
}

fn window_dim(given: &xla::WindowDimension) -> Result<WindowDim, Problem> {
    let positive = |what, value| {
        let size = Scope::size(what, value)?;
        require(size > 0, what, "1 or more", size)?;
        Ok(size)
    };
    Ok(WindowDim {
        size: positive("window size", given.size)?,
        stride: positive("window stride", given.stride)?,
        padding_low: given.padding_low,
        padding_high: given.padding_high,
        window_dilation: positive("window dilation", given.window_dilation)?,
        base_dilation: positive("base dilation", given.base_dilation)?,
        reversal: given.window_reversal,
    })
}

/// Number of windows along each dimension.
pub(super) fn window_output(window: &Window, base: &[usize]) -> Result<Vec<usize>, Problem> {
    window
        .dims
        .iter()
        .zip(base)
        .map(|(dim, &base)| {
            dim.output_size(base).ok_or(Problem::Overflow {
                what: "size of the padded dimension",
            })
        })
        .collect()
}
