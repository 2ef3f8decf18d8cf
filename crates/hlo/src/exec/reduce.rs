//! `reduce`.

use crate::array::{ArrayView, ArrayViewMut, Buffer};
use crate::attributes::Monoid;
use crate::element::{ElementType, with_element};
use crate::ir::ComputationIndex;
use crate::kernels;
use crate::numerics::{Arithmetic, Numeric, supports};

use super::run::{Fault, Frame, Run};
use super::value::Value;

/// Partial results that a reduction of adjacent elements keeps.
const PARTIALS: usize = 16;

impl<'a> Run<'a> {
    pub(super) fn reduce(
        &mut self,
        frame: &Frame<'_, 'a>,
        dims: &[usize],
        computation: ComputationIndex,
    ) -> Result<Value<'a>, Fault> {
        let arity = frame.operands.len() / 2;
        let operands = frame.views(0..arity)?;
        let inits = frame.views(arity..2 * arity)?;
        let results = frame.results()?;
        let plan = self.plan;
        let monoid = plan.region(computation).and_then(|region| region.monoid);
        if let (Some(monoid), [operand], [init]) = (monoid, &operands[..], &inits[..])
            && supports(operand.element(), monoid)
        {
            return self.filled(results[0], |out, run| {
                reduce_monoid(run, *operand, *init, dims, monoid, out)
            });
        }
        self.filled_all(&results, |outs, run| {
            let (steps, lanes) = sizes(operands[0].dims(), dims);
            let ordered = operands
                .iter()
                .map(|&operand| run.reduced_first(operand, dims))
                .collect::<Result<Vec<_>, _>>()?;
            let values: Vec<&[u8]> = ordered
                .iter()
                .zip(&operands)
                .map(|(ordered, operand)| ordered.as_ref().map_or(operand.bytes(), Buffer::bytes))
                .collect();
            let elements: Vec<ElementType> = operands.iter().map(ArrayView::element).collect();
            fold(run, computation, &elements, &inits, &values, steps, lanes, outs)?;
            ordered.into_iter().flatten().for_each(|buffer| run.pool.give_buffer(buffer));
            Ok(())
        })
    }

    /// The operand with the reduced dimensions before the others; `None` if
    /// they are.
    fn reduced_first(
        &mut self,
        operand: ArrayView<'_>,
        reduced: &[usize],
    ) -> Result<Option<Buffer>, Fault> {
        let rank = operand.dims().len();
        let kept = (0..rank).filter(|dim| !reduced.contains(dim));
        let mut sorted = reduced.to_vec();
        sorted.sort_unstable();
        let order: Vec<usize> = sorted.into_iter().chain(kept).collect();
        self.reordered(operand, &order)
    }

    /// The operand with its dimensions in `order`; `None` if they are.
    fn reordered(
        &mut self,
        operand: ArrayView<'_>,
        order: &[usize],
    ) -> Result<Option<Buffer>, Fault> {
        // Dimensions of size 1 may stand anywhere.
        let moved = order.iter().filter(|&&dim| operand.dims()[dim] != 1);
        if moved.is_sorted() {
            return Ok(None);
        }
        let dims: Vec<usize> = order.iter().map(|&dim| operand.dims()[dim]).collect();
        let mut buffer = self.pool.take(operand.bytes().len())?;
        let out = ArrayViewMut::new(operand.element(), &dims, buffer.bytes_mut())?;
        kernels::transpose(operand, order, out)?;
        Ok(Some(buffer))
    }
}

/// Numbers of elements that are reduced into one, and of results.
fn sizes(dims: &[usize], reduced: &[usize]) -> (usize, usize) {
    let product = |wanted: bool| {
        (0..dims.len())
            .filter(|dim| reduced.contains(dim) == wanted)
            .map(|dim| dims[dim])
            .product()
    };
    (product(true), product(false))
}

/// Folds `steps` rows of `lanes` elements with a computation.
#[expect(clippy::too_many_arguments, reason = "all parts of one reduction")]
fn fold(
    run: &mut Run<'_>,
    computation: ComputationIndex,
    elements: &[ElementType],
    inits: &[ArrayView<'_>],
    values: &[&[u8]],
    steps: usize,
    lanes: usize,
    outs: &mut [ArrayViewMut<'_>],
) -> Result<(), Fault> {
    let mut accumulators = Vec::with_capacity(inits.len());
    let mut next = Vec::with_capacity(inits.len());
    for (init, element) in inits.iter().zip(elements) {
        let mut accumulator = run.pool.take(lanes * element.byte_size())?;
        for lane in accumulator.bytes_mut().chunks_exact_mut(element.byte_size()) {
            lane.copy_from_slice(init.bytes());
        }
        accumulators.push(accumulator);
        next.push(run.pool.take(lanes * element.byte_size())?);
    }
    if lanes > 0 {
        run.with_region(computation, |region| {
            for step in 0..steps {
                let rows = values.iter().zip(elements).map(|(values, element)| {
                    let row = lanes * element.byte_size();
                    &values[step * row..(step + 1) * row]
                });
                let args: Vec<&[u8]> =
                    accumulators.iter().map(Buffer::bytes).chain(rows).collect();
                let mut results: Vec<&mut [u8]> = next.iter_mut().map(Buffer::bytes_mut).collect();
                region.call(lanes, &args, &mut results)?;
                std::mem::swap(&mut accumulators, &mut next);
            }
            Ok(())
        })?;
    }
    for (out, accumulator) in outs.iter_mut().zip(&accumulators) {
        out.bytes_mut().copy_from_slice(accumulator.bytes());
    }
    accumulators.into_iter().chain(next).for_each(|buffer| run.pool.give_buffer(buffer));
    Ok(())
}

fn reduce_monoid(
    run: &mut Run<'_>,
    operand: ArrayView<'_>,
    init: ArrayView<'_>,
    reduced: &[usize],
    monoid: Monoid,
    out: ArrayViewMut<'_>,
) -> Result<(), Fault> {
    // Neighbouring dimensions of one kind count as one; those of size 1 as none.
    let mut runs: Vec<(usize, bool)> = Vec::new();
    for (dim, &size) in operand.dims().iter().enumerate() {
        let kind = reduced.contains(&dim);
        match runs.last_mut() {
            _ if size == 1 => {}
            Some(last) if last.1 == kind => last.0 *= size,
            _ => runs.push((size, kind)),
        }
    }
    let element = operand.element();
    let pattern: Vec<bool> = runs.iter().map(|run| run.1).collect();
    let sizes = |outer, middle, inner| Sizes { outer, middle, inner };
    let (sizes, ordered) = match pattern[..] {
        [] => (sizes(1, 1, 1), None),
        [true] => (sizes(1, runs[0].0, 1), None),
        [false] => (sizes(1, 1, runs[0].0), None),
        [false, true] => (sizes(runs[0].0, runs[1].0, 1), None),
        [true, false] => (sizes(1, runs[0].0, runs[1].0), None),
        [false, true, false] => (sizes(runs[0].0, runs[1].0, runs[2].0), None),
        _ => {
            let (steps, lanes) = self::sizes(operand.dims(), reduced);
            let rank = operand.dims().len();
            let mut order: Vec<usize> = (0..rank).filter(|dim| !reduced.contains(dim)).collect();
            order.extend((0..rank).filter(|dim| reduced.contains(dim)));
            (sizes(lanes, steps, 1), run.reordered(operand, &order)?)
        }
    };
    let dims = [operand.element_count()];
    let operand = match &ordered {
        Some(buffer) => ArrayView::new(element, &dims, buffer.bytes())?,
        None => operand,
    };
    with_element!(element, T => reduce_typed::<T>(operand, init, sizes, monoid, out)?);
    if let Some(buffer) = ordered {
        run.pool.give_buffer(buffer);
    }
    Ok(())
}

/// A reduction of the middle of three dimensions.
#[derive(Clone, Copy)]
struct Sizes {
    outer: usize,
    middle: usize,
    inner: usize,
}

/// Reduces in the compute type and rounds once.
fn reduce_typed<T: Numeric>(
    operand: ArrayView<'_>,
    init: ArrayView<'_>,
    sizes: Sizes,
    monoid: Monoid,
    mut out: ArrayViewMut<'_>,
) -> Result<(), Fault> {
    let values = operand.values::<T>()?;
    let init = init.values::<T>()?[0];
    let out = out.values_mut::<T>()?;
    if values.is_empty() {
        out.fill(init);
        return Ok(());
    }
    macro_rules! with {
        ($($variant:ident => $function:expr),*) => {
            match monoid {
                $(Monoid::$variant => reduce_with(values, init, sizes, $function, out),)*
            }
        };
    }
    with!(
        Add => Arithmetic::add, Multiply => Arithmetic::multiply,
        Maximum => Arithmetic::maximum, Minimum => Arithmetic::minimum,
        And => Arithmetic::and, Or => Arithmetic::or, Xor => Arithmetic::xor
    );
    Ok(())
}

fn reduce_with<T: Numeric>(
    values: &[T],
    init: T,
    sizes: Sizes,
    combine: impl Fn(T::Compute, T::Compute) -> T::Compute + Copy,
    out: &mut [T],
) {
    let init = init.load();
    if sizes.inner == 1 {
        for (out, row) in out.iter_mut().zip(values.chunks_exact(sizes.middle)) {
            *out = T::store(combine(init, reduce_row(row, combine).unwrap_or(init)));
        }
        return;
    }
    let mut accumulators = vec![init; sizes.inner];
    let planes = values.chunks_exact(sizes.middle * sizes.inner);
    for (out, plane) in out.chunks_exact_mut(sizes.inner).zip(planes).take(sizes.outer) {
        accumulators.fill(init);
        for row in plane.chunks_exact(sizes.inner) {
            for (accumulator, &value) in accumulators.iter_mut().zip(row) {
                *accumulator = combine(*accumulator, value.load());
            }
        }
        for (out, &accumulator) in out.iter_mut().zip(&accumulators) {
            *out = T::store(accumulator);
        }
    }
}

/// Reduces adjacent elements: [`PARTIALS`] interleaved partial results, which
/// are then reduced pairwise. The order depends on the length alone.
fn reduce_row<T: Numeric>(
    row: &[T],
    combine: impl Fn(T::Compute, T::Compute) -> T::Compute + Copy,
) -> Option<T::Compute> {
    let mut chunks = row.chunks_exact(PARTIALS);
    let tail = chunks.remainder().iter().map(|value| value.load()).reduce(combine);
    let Some(first) = chunks.next() else {
        return tail;
    };
    let mut partials = [first[0].load(); PARTIALS];
    for (partial, value) in partials.iter_mut().zip(first) {
        *partial = value.load();
    }
    for chunk in chunks {
        for (partial, value) in partials.iter_mut().zip(chunk) {
            *partial = combine(*partial, value.load());
        }
    }
    let mut width = PARTIALS / 2;
    while width > 0 {
        for index in 0..width {
            partials[index] = combine(partials[index], partials[index + width]);
        }
        width /= 2;
    }
    Some(match tail {
        Some(tail) => combine(partials[0], tail),
        None => partials[0],
    })
}
