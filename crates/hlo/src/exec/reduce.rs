//! `reduce`.

use crate::array::{ArrayView, ArrayViewMut, Buffer};
use crate::attributes::Monoid;
use crate::element::{ElementType, Pred, S4, U4, with_narrow};
use num_complex::Complex;

use crate::ir::ComputationIndex;
use crate::kernels;
use crate::numerics::{Arithmetic, NarrowFloat, convert, supports};
use crate::options::{NarrowReduce, Rewrites};

use super::run::{Fault, Frame, Run};
use super::value::Value;

/// Edge of the windows in which XLA reduces long dimensions.
const WINDOW: usize = 32;
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
        let single = dims.iter().all(|&dim| operands[0].dims()[dim] == 1);
        if single && arity == 1 && self.options().rewrites == Rewrites::Xla {
            return Ok(frame.operands[0].clone());
        }
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
            fold(
                run,
                computation,
                &elements,
                &inits,
                &values,
                steps,
                lanes,
                outs,
            )?;
            ordered
                .into_iter()
                .flatten()
                .for_each(|buffer| run.pool.give_buffer(buffer));
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

    /// The operand as `f32`.
    fn widened(&mut self, operand: ArrayView<'_>) -> Result<Buffer, Fault> {
        let mut buffer = self.pool.take(operand.element_count() * size_of::<f32>())?;
        let out = ArrayViewMut::new(ElementType::F32, operand.dims(), buffer.bytes_mut())?;
        convert(operand, out)?;
        Ok(buffer)
    }

    /// The operand with the reduced dimensions after the others; `None` if
    /// they are.
    fn reduced_last(
        &mut self,
        operand: ArrayView<'_>,
        reduced: &[usize],
    ) -> Result<Option<Buffer>, Fault> {
        let rank = operand.dims().len();
        let mut order: Vec<usize> = (0..rank).filter(|dim| !reduced.contains(dim)).collect();
        order.extend((0..rank).filter(|dim| reduced.contains(dim)));
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
        for lane in accumulator
            .bytes_mut()
            .chunks_exact_mut(element.byte_size())
        {
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
                let args: Vec<&[u8]> = accumulators.iter().map(Buffer::bytes).chain(rows).collect();
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
    accumulators
        .into_iter()
        .chain(next)
        .for_each(|buffer| run.pool.give_buffer(buffer));
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
    let element = operand.element();
    if matches!(monoid, Monoid::Add | Monoid::Multiply)
        && element.is_float()
        && element.byte_size() < 4
        && run.options().narrow_reduce == NarrowReduce::Xla
    {
        return reduce_narrow(run, operand, init, reduced, monoid, out);
    }
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
    let pattern: Vec<bool> = runs.iter().map(|run| run.1).collect();
    let sizes = |outer, middle, inner| Sizes {
        outer,
        middle,
        inner,
    };
    let (sizes, ordered) = match pattern[..] {
        [] => (sizes(1, 1, 1), None),
        [true] => (sizes(1, runs[0].0, 1), None),
        [false] => (sizes(1, 1, runs[0].0), None),
        [false, true] => (sizes(runs[0].0, runs[1].0, 1), None),
        [true, false] => (sizes(1, runs[0].0, runs[1].0), None),
        [false, true, false] => (sizes(runs[0].0, runs[1].0, runs[2].0), None),
        _ => {
            let (steps, lanes) = self::sizes(operand.dims(), reduced);
            (sizes(lanes, steps, 1), run.reduced_last(operand, reduced)?)
        }
    };
    let dims = [operand.element_count()];
    let operand = match &ordered {
        Some(buffer) => ArrayView::new(element, &dims, buffer.bytes())?,
        None => operand,
    };
    reduce_wide(run, operand, init, sizes, monoid, out)?;
    if let Some(buffer) = ordered {
        run.pool.give_buffer(buffer);
    }
    Ok(())
}

/// Reduces a type narrower than `f32` as XLA does on a CPU: see
/// [`NarrowReduce::Xla`].
fn reduce_narrow(
    run: &mut Run<'_>,
    operand: ArrayView<'_>,
    init: ArrayView<'_>,
    reduced: &[usize],
    monoid: Monoid,
    mut out: ArrayViewMut<'_>,
) -> Result<(), Fault> {
    let ordered = run.reduced_last(operand, reduced)?;
    let bytes = ordered.as_ref().map_or(operand.bytes(), Buffer::bytes);
    let count = [operand.element_count()];
    let values = ArrayView::new(operand.element(), &count, bytes)?;
    let dims: Vec<usize> = (0..operand.dims().len())
        .filter(|dim| reduced.contains(dim))
        .map(|dim| operand.dims()[dim])
        .collect();
    let steps: usize = dims.iter().product();
    with_narrow!(operand.element(), T => {
        let init = init.values::<T>()?[0];
        let combine = |accumulator: T, value: T| {
            let (accumulator, value) =
                (NarrowFloat::to_f32(accumulator), NarrowFloat::to_f32(value));
            NarrowFloat::from_f32(match monoid {
                Monoid::Multiply => accumulator * value,
                _ => accumulator + value,
            })
        };
        let values = values.values::<T>()?;
        for (row, out) in out.values_mut::<T>()?.iter_mut().enumerate() {
            *out = windowed(&values[row * steps..(row + 1) * steps], &dims, init, &combine);
        }
    }, else return Err(Fault::Unsupported("a wide type to be reduced as a narrow one".into())));
    if let Some(buffer) = ordered {
        run.pool.give_buffer(buffer);
    }
    Ok(())
}

/// Reduces an array of `dims` to one element: while a dimension exceeds
/// [`WINDOW`], in windows of that size whose padding is split between both ends.
fn windowed<T: Copy>(values: &[T], dims: &[usize], init: T, combine: &impl Fn(T, T) -> T) -> T {
    if dims.iter().all(|&dim| dim <= WINDOW) || values.is_empty() {
        return values
            .iter()
            .fold(init, |accumulator, &value| combine(accumulator, value));
    }
    let sizes: Vec<usize> = dims.iter().map(|&dim| dim.min(WINDOW)).collect();
    let counts: Vec<usize> = dims
        .iter()
        .zip(&sizes)
        .map(|(dim, &size)| dim.div_ceil(size))
        .collect();
    let mut partial = vec![init; counts.iter().product()];
    // In row-major order every window meets its elements in that order.
    let mut position = vec![0; dims.len()];
    for &value in values {
        let mut window = 0;
        for (dim, &place) in position.iter().enumerate() {
            let low = (counts[dim] * sizes[dim] - dims[dim]) / 2;
            window = window * counts[dim] + (place + low) / sizes[dim];
        }
        partial[window] = combine(partial[window], value);
        for (place, &size) in position.iter_mut().zip(dims).rev() {
            *place += 1;
            if *place < size {
                break;
            }
            *place = 0;
        }
    }
    windowed(&partial, &counts, init, combine)
}

/// A reduction of the middle of three dimensions.
#[derive(Clone, Copy)]
struct Sizes {
    outer: usize,
    middle: usize,
    inner: usize,
}

/// Reduces in the type that computes for the element type, and rounds once.
fn reduce_wide(
    run: &mut Run<'_>,
    operand: ArrayView<'_>,
    init: ArrayView<'_>,
    sizes: Sizes,
    monoid: Monoid,
    mut out: ArrayViewMut<'_>,
) -> Result<(), Fault> {
    macro_rules! reduced {
        ($($variant:ident => $T:ty),*) => {
            match operand.element() {
                $(ElementType::$variant => {
                    reduce_typed::<$T>(operand, init, sizes, monoid, out)?;
                })*
                _ => {
                    let wide = run.widened(operand)?;
                    let wide_init = run.widened(init)?;
                    let mut result = run.pool.take(out.element_count() * size_of::<f32>())?;
                    reduce_typed::<f32>(
                        f32_view(&wide, operand.dims())?,
                        f32_view(&wide_init, &[])?,
                        sizes,
                        monoid,
                        ArrayViewMut::new(ElementType::F32, out.dims(), result.bytes_mut())?,
                    )?;
                    convert(f32_view(&result, out.dims())?, out.reborrow())?;
                    for buffer in [wide, wide_init, result] {
                        run.pool.give_buffer(buffer);
                    }
                }
            }
        };
    }
    reduced!(
        Pred => Pred, S4 => S4, S8 => i8, S16 => i16, S32 => i32, S64 => i64,
        U4 => U4, U8 => u8, U16 => u16, U32 => u32, U64 => u64,
        F32 => f32, F64 => f64, C64 => Complex<f32>, C128 => Complex<f64>
    );
    Ok(())
}

fn f32_view<'v>(buffer: &'v Buffer, dims: &'v [usize]) -> Result<ArrayView<'v>, Fault> {
    Ok(ArrayView::new(ElementType::F32, dims, buffer.bytes())?)
}

fn reduce_typed<T: Arithmetic>(
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
        Add => T::add, Multiply => T::multiply, Maximum => T::maximum, Minimum => T::minimum,
        And => T::and, Or => T::or, Xor => T::xor
    );
    Ok(())
}

fn reduce_with<T: Copy>(
    values: &[T],
    init: T,
    sizes: Sizes,
    combine: impl Fn(T, T) -> T + Copy,
    out: &mut [T],
) {
    if sizes.inner == 1 {
        for (out, row) in out.iter_mut().zip(values.chunks_exact(sizes.middle)) {
            *out = combine(init, reduce_row(row, combine).unwrap_or(init));
        }
        return;
    }
    let planes = values.chunks_exact(sizes.middle * sizes.inner);
    for (out, plane) in out
        .chunks_exact_mut(sizes.inner)
        .zip(planes)
        .take(sizes.outer)
    {
        out.fill(init);
        for row in plane.chunks_exact(sizes.inner) {
            for (out, &value) in out.iter_mut().zip(row) {
                *out = combine(*out, value);
            }
        }
    }
}

/// Reduces adjacent elements: [`PARTIALS`] interleaved partial results, which
/// are then reduced pairwise. The order depends on the length alone.
fn reduce_row<T: Copy>(row: &[T], combine: impl Fn(T, T) -> T + Copy) -> Option<T> {
    let mut chunks = row.chunks_exact(PARTIALS);
    let tail = chunks.remainder().iter().copied().reduce(combine);
    let Some(first) = chunks.next() else {
        return tail;
    };
    let mut partials = [first[0]; PARTIALS];
    partials.copy_from_slice(first);
    for chunk in chunks {
        for (partial, &value) in partials.iter_mut().zip(chunk) {
            *partial = combine(*partial, value);
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
