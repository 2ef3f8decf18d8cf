//! `reduce-window` and `select-and-scatter`.
//!
//! The loops run over the positions of the window outside and over the outputs inside, so that each step combines whole
//! rows, and each output still combines its elements in row-major order. Padding and gaps take no part: the initial value
//! enters each window once.

use super::convolution::{HOLE, meeting_points};
use super::walk::{for_each, index, signed, strides};
use super::{Combiner, Comparator, Context, Region};
use crate::array::{ArrayView, ArrayViewMut, Buffer};
use crate::attributes::{Monoid, Window, WindowDim};
use crate::element::{ElementType, with_element};
use crate::error::KernelError;
use crate::numerics::{Arithmetic, Numeric, Ordered, supports};
use crate::options::NarrowReduce;

/// Which base element each output meets at each position of the window.
struct Meetings {
    base_strides: Vec<usize>,
    out_dims: Vec<usize>,
    window: Vec<usize>,
    points: Vec<Vec<usize>>,
}

impl Meetings {
    fn new(base: &[usize], out: &[usize], window: &Window) -> Self {
        let points = window
            .dims
            .iter()
            .zip(base.iter().zip(out))
            .map(|(window, (&base, &out))| meeting_points(window, base, out))
            .collect();
        Self {
            base_strides: strides(base),
            out_dims: out.to_vec(),
            window: window.dims.iter().map(|dim| dim.size).collect(),
            points,
        }
    }

    /// Calls `visit` for each window position in row-major order with lists of one row of meetings: the offset of the row
    /// in the output, its offset in the base, and for the last dimension the base index of each output.
    fn visit(&self, mut visit: impl FnMut(usize, usize, &[usize])) {
        let Some(last) = self.out_dims.len().checked_sub(1) else {
            visit(0, 0, &[0]);
            return;
        };
        let out_strides: Vec<isize> = strides(&self.out_dims).into_iter().map(signed).collect();
        let window_strides: Vec<isize> = strides(&self.window).into_iter().map(signed).collect();
        let window_sizes = strides(&self.window);
        let width = self.out_dims[last];
        for_each(&self.window, [&window_strides], [0], |[number]| {
            let position = |dim: usize| index(number) / window_sizes[dim] % self.window[dim];
            let row = &self.points[last][position(last) * width..][..width];
            // The outputs of each dimension that meet an element at this position.
            let met: Vec<Vec<(usize, usize)>> = (0..last)
                .map(|dim| {
                    let size = self.out_dims[dim];
                    let points = &self.points[dim][position(dim) * size..][..size];
                    points
                        .iter()
                        .copied()
                        .enumerate()
                        .filter(|&(_, point)| point != HOLE)
                        .collect()
                })
                .collect();
            let sizes: Vec<usize> = met.iter().map(Vec::len).collect();
            let steps: Vec<isize> = strides(&sizes).into_iter().map(signed).collect();
            let divisors = strides(&sizes);
            for_each(&sizes, [&steps], [0], |[which]| {
                let (mut to, mut from) = (0, 0);
                for dim in 0..last {
                    let (output, point) = met[dim][index(which) / divisors[dim] % sizes[dim]];
                    to += output * index(out_strides[dim]);
                    from += point * self.base_strides[dim];
                }
                visit(to, from, row);
            });
        });
    }
}

/// `reduce-window`, variadic: operands, initial values and results pair up.
///
/// Floats narrower than `f32` are combined in `f32` and rounded at every step, or once a window as the options have it;
/// cumulative windows always round once.
///
/// # Errors
///
/// [`KernelError::Unsupported`] if the reduction is not defined on the type, or a region's error.
pub(crate) fn reduce_window(
    operands: &[ArrayView<'_>],
    inits: &[ArrayView<'_>],
    window: &Window,
    combiner: Combiner<'_>,
    outs: &mut [ArrayViewMut<'_>],
    context: Context<'_>,
) -> Result<(), KernelError> {
    let (Some(operand), Some(out)) = (operands.first(), outs.first()) else {
        return Ok(());
    };
    if out.element_count() == 0 {
        return Ok(());
    }
    let scan = cumulative(operand.dims(), window);
    let meetings = Meetings::new(operand.dims(), out.dims(), window);
    match combiner {
        Combiner::Monoid(monoid) => {
            for ((operand, init), out) in operands.iter().zip(inits).zip(outs) {
                let element = operand.element();
                if !supports(element, monoid) {
                    let what = format!("reduce-window of {monoid:?} on {element}");
                    return Err(KernelError::Unsupported { what });
                }
                with_element!(element, T => {
                    let (source, init) = (operand.values::<T>()?, init.values::<T>()?[0]);
                    let target = out.values_mut::<T>()?;
                    match scan {
                        Some((dim, backwards)) => {
                            accumulate(source, init, monoid, operand.dims(), dim, backwards, target);
                        }
                        None => {
                            let stepwise = element.is_float()
                                && element.byte_size() < 4
                                && context.options.narrow_reduce == NarrowReduce::Xla;
                            combine(source, init, monoid, &meetings, stepwise, target);
                        }
                    }
                });
            }
            Ok(())
        }
        Combiner::Replace => {
            let what = "reduce-window that replaces".to_owned();
            Err(KernelError::Unsupported { what })
        }
        Combiner::Region(region) => reduce_by_region(operands, inits, &meetings, region, outs),
    }
}

/// The one dimension along which the window takes all elements up to the output's (or from it on, backwards).
fn cumulative(base: &[usize], window: &Window) -> Option<(usize, bool)> {
    let mut dims = window
        .dims
        .iter()
        .enumerate()
        .filter(|&(_, &dim)| dim != WindowDim::ONE);
    let (dim, shape) = dims.next()?;
    let reach = i64::try_from(base[dim]).ok()? - 1;
    let plain = WindowDim {
        padding_low: 0,
        padding_high: 0,
        size: 1,
        ..*shape
    } == WindowDim::ONE;
    if dims.next().is_some() || shape.size != base[dim] || !plain || reach < 1 {
        return None;
    }
    match (shape.padding_low, shape.padding_high) {
        (low, 0) if low == reach => Some((dim, false)),
        (0, high) if high == reach => Some((dim, true)),
        _ => None,
    }
}

fn accumulate<T: Numeric>(
    source: &[T],
    init: T,
    monoid: Monoid,
    dims: &[usize],
    dim: usize,
    backwards: bool,
    target: &mut [T],
) {
    let inner: usize = dims[dim + 1..].iter().product();
    let size = dims[dim];
    let mut sums = vec![init.load(); inner];
    for (source, target) in source
        .chunks(size * inner)
        .zip(target.chunks_mut(size * inner))
    {
        sums.fill(init.load());
        for step in 0..size {
            let row = if backwards { size - 1 - step } else { step } * inner;
            for (sum, (target, value)) in sums.iter_mut().zip(
                target[row..][..inner]
                    .iter_mut()
                    .zip(&source[row..][..inner]),
            ) {
                *sum = T::Compute::combine(monoid, *sum, value.load());
                *target = T::store(*sum);
            }
        }
    }
}

fn combine<T: Numeric>(
    source: &[T],
    init: T,
    monoid: Monoid,
    meetings: &Meetings,
    stepwise: bool,
    target: &mut [T],
) {
    let mut sums = vec![init.load(); target.len()];
    meetings.visit(|to, from, points| {
        let sums = &mut sums[to..][..points.len()];
        for (sum, &point) in sums.iter_mut().zip(points) {
            if point != HOLE {
                *sum = T::Compute::combine(monoid, *sum, source[from + point].load());
                if stepwise {
                    *sum = T::store(*sum).load();
                }
            }
        }
    });
    for (target, &sum) in target.iter_mut().zip(&sums) {
        *target = T::store(sum);
    }
}

/// Copies element `from` of `source` to element `to` of `target`.
fn copy_element(size: usize, source: &[u8], from: usize, target: &mut [u8], to: usize) {
    target[to * size..][..size].copy_from_slice(&source[from * size..][..size]);
}

fn reduce_by_region(
    operands: &[ArrayView<'_>],
    inits: &[ArrayView<'_>],
    meetings: &Meetings,
    region: &mut dyn Region,
    outs: &mut [ArrayViewMut<'_>],
) -> Result<(), KernelError> {
    for (out, init) in outs.iter_mut().zip(inits) {
        for element in out.bytes_mut().chunks_mut(init.bytes().len()) {
            element.copy_from_slice(init.bytes());
        }
    }
    let sizes: Vec<usize> = operands
        .iter()
        .map(|operand| operand.element().byte_size())
        .collect();
    let width = meetings.out_dims.last().copied().unwrap_or(1);
    let buffers = || -> Result<Vec<Buffer>, KernelError> {
        sizes
            .iter()
            .map(|size| Ok(Buffer::zeroed(width * size)?))
            .collect()
    };
    let (mut accumulators, mut values, mut results) = (buffers()?, buffers()?, buffers()?);
    let mut outcome = Ok(());
    meetings.visit(|to, from, points| {
        let met: Vec<(usize, usize)> = points
            .iter()
            .enumerate()
            .filter(|&(_, &point)| point != HOLE)
            .map(|(output, &point)| (to + output, from + point))
            .collect();
        if met.is_empty() || outcome.is_err() {
            return;
        }
        for (number, &size) in sizes.iter().enumerate() {
            for (lane, &(to, from)) in met.iter().enumerate() {
                copy_element(
                    size,
                    outs[number].bytes_mut(),
                    to,
                    accumulators[number].bytes_mut(),
                    lane,
                );
                copy_element(
                    size,
                    operands[number].bytes(),
                    from,
                    values[number].bytes_mut(),
                    lane,
                );
            }
        }
        outcome = call(
            region,
            met.len(),
            &sizes,
            &accumulators,
            &values,
            &mut results,
        );
        for (number, &size) in sizes.iter().enumerate() {
            for (lane, &(to, _)) in met.iter().enumerate() {
                copy_element(
                    size,
                    results[number].bytes(),
                    lane,
                    outs[number].bytes_mut(),
                    to,
                );
            }
        }
    });
    outcome
}

fn call(
    region: &mut dyn Region,
    lanes: usize,
    sizes: &[usize],
    accumulators: &[Buffer],
    values: &[Buffer],
    results: &mut [Buffer],
) -> Result<(), KernelError> {
    let args: Vec<&[u8]> = accumulators
        .iter()
        .zip(sizes)
        .chain(values.iter().zip(sizes))
        .map(|(buffer, size)| &buffer.bytes()[..lanes * size])
        .collect();
    let mut outs: Vec<&mut [u8]> = results
        .iter_mut()
        .zip(sizes)
        .map(|(buffer, size)| &mut buffer.bytes_mut()[..lanes * size])
        .collect();
    region
        .call(lanes, &args, &mut outs)
        .map_err(KernelError::from)
}

/// `select-and-scatter`: `select` takes the value selected so far and the next one and says whether the former stays.
///
/// Each window's first element is selected until another replaces it; the source value is then combined into the selected
/// element's place, in the order of the windows.
///
/// # Errors
///
/// [`KernelError::Unsupported`] if the combiner is not defined on the type, or a region's error.
#[expect(
    clippy::too_many_arguments,
    reason = "the operation has as many operands and regions"
)]
pub(crate) fn select_and_scatter(
    operand: ArrayView<'_>,
    source: ArrayView<'_>,
    init: ArrayView<'_>,
    window: &Window,
    select: Comparator<'_>,
    scatter: Combiner<'_>,
    mut out: ArrayViewMut<'_>,
    _context: Context<'_>,
) -> Result<(), KernelError> {
    for element in out.bytes_mut().chunks_mut(init.bytes().len()) {
        element.copy_from_slice(init.bytes());
    }
    if source.element_count() == 0 || operand.element_count() == 0 {
        return Ok(());
    }
    let meetings = Meetings::new(operand.dims(), source.dims(), window);
    let selected = selections(operand, &meetings, select)?;
    let landings = selected
        .iter()
        .enumerate()
        .filter(|&(_, &place)| place != HOLE);
    match scatter {
        Combiner::Monoid(monoid) => {
            let element = out.element();
            if !supports(element, monoid) {
                let what = format!("select-and-scatter with {monoid:?} on {element}");
                return Err(KernelError::Unsupported { what });
            }
            with_element!(element, T => {
                let (target, values) = (out.values_mut::<T>()?, source.values::<T>()?);
                for (window, &place) in landings {
                    let sum = <T as Numeric>::Compute::combine(monoid, target[place].load(), values[window].load());
                    target[place] = T::store(sum);
                }
            });
        }
        Combiner::Replace => {
            let size = out.element().byte_size();
            for (window, &place) in landings {
                copy_element(size, source.bytes(), window, out.bytes_mut(), place);
            }
        }
        Combiner::Region(region) => {
            let size = out.element().byte_size();
            let (mut accumulator, mut value, mut result) = (
                Buffer::zeroed(size)?,
                Buffer::zeroed(size)?,
                Buffer::zeroed(size)?,
            );
            for (window, &place) in landings {
                copy_element(size, out.bytes_mut(), place, accumulator.bytes_mut(), 0);
                copy_element(size, source.bytes(), window, value.bytes_mut(), 0);
                region.call(
                    1,
                    &[accumulator.bytes(), value.bytes()],
                    &mut [result.bytes_mut()],
                )?;
                copy_element(size, result.bytes(), 0, out.bytes_mut(), place);
            }
        }
    }
    Ok(())
}

/// Index of the operand element that each window selects; [`HOLE`] if a window meets none.
fn selections(
    operand: ArrayView<'_>,
    meetings: &Meetings,
    select: Comparator<'_>,
) -> Result<Vec<usize>, KernelError> {
    let mut selected = vec![HOLE; meetings.out_dims.iter().product()];
    match select {
        Comparator::Compare { comparison, .. } => with_element!(operand.element(), T => {
            let values = operand.values::<T>()?;
            meetings.visit(|to, from, points| {
                for (selected, &point) in selected[to..].iter_mut().zip(points).filter(|(_, point)| **point != HOLE) {
                    let candidate = from + point;
                    if *selected == HOLE || !values[*selected].holds(comparison, values[candidate]) {
                        *selected = candidate;
                    }
                }
            });
        }),
        Comparator::Region(region) => {
            let size = operand.element().byte_size();
            let width = meetings.out_dims.last().copied().unwrap_or(1);
            let (mut left, mut right) =
                (Buffer::zeroed(width * size)?, Buffer::zeroed(width * size)?);
            let mut stays = Buffer::zeroed(width * ElementType::Pred.byte_size())?;
            let mut outcome = Ok(());
            meetings.visit(|to, from, points| {
                let mut rivals = Vec::new();
                for (output, &point) in points
                    .iter()
                    .enumerate()
                    .filter(|&(_, &point)| point != HOLE)
                {
                    let (place, candidate) = (to + output, from + point);
                    if selected[place] == HOLE {
                        selected[place] = candidate;
                    } else {
                        copy_element(
                            size,
                            operand.bytes(),
                            selected[place],
                            left.bytes_mut(),
                            rivals.len(),
                        );
                        copy_element(
                            size,
                            operand.bytes(),
                            candidate,
                            right.bytes_mut(),
                            rivals.len(),
                        );
                        rivals.push((place, candidate));
                    }
                }
                if rivals.is_empty() || outcome.is_err() {
                    return;
                }
                let (lanes, bytes) = (rivals.len(), rivals.len() * size);
                outcome = region.call(
                    lanes,
                    &[&left.bytes()[..bytes], &right.bytes()[..bytes]],
                    &mut [&mut stays.bytes_mut()[..lanes]],
                );
                for (&stays, &(place, candidate)) in stays.bytes().iter().zip(&rivals) {
                    if stays == 0 {
                        selected[place] = candidate;
                    }
                }
            });
            outcome?;
        }
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::attributes::{Comparison, Direction};
    use crate::error::ExecuteError;
    use crate::kernels::testing::{array, run};
    use crate::options::ExecuteOptions;

    /// Sums in a region, as `reduce-window` calls one it does not know.
    struct Sum;

    impl Region for Sum {
        fn call(
            &mut self,
            _lanes: usize,
            args: &[&[u8]],
            results: &mut [&mut [u8]],
        ) -> Result<(), Box<ExecuteError>> {
            let [left, right]: [&[i32]; 2] = [args[0], args[1]].map(bytemuck::cast_slice);
            let out: &mut [i32] = bytemuck::cast_slice_mut(results[0]);
            for (out, (left, right)) in out.iter_mut().zip(left.iter().zip(right)) {
                *out = left + right;
            }
            Ok(())
        }
    }

    fn reduced(
        dims: &[usize],
        values: &[i32],
        init: i32,
        window: &Window,
        combiner: Combiner<'_>,
    ) -> Vec<i32> {
        let options = ExecuteOptions::default();
        let context = Context { options: &options };
        let (operand, init) = (array(dims, values), array(&[], &[init]));
        let out: Vec<usize> = window
            .dims
            .iter()
            .zip(dims)
            .map(|(window, &dim)| window.output_size(dim).unwrap())
            .collect();
        run(&out, |out| {
            reduce_window(
                &[operand.view()],
                &[init.view()],
                window,
                combiner,
                &mut [out],
                context,
            )
        })
    }

    #[test]
    fn the_initial_value_enters_each_window_once() {
        let window = |window| Window { dims: vec![window] };
        let sum = || Combiner::Monoid(Monoid::Add);
        let padded = WindowDim {
            size: 3,
            padding_low: 1,
            padding_high: 1,
            ..WindowDim::ONE
        };
        assert_eq!(
            reduced(&[4], &[1, 2, 3, 4], 100, &window(padded), sum()),
            [103, 106, 109, 107]
        );
        let gaps = WindowDim {
            size: 2,
            base_dilation: 2,
            ..WindowDim::ONE
        };
        assert_eq!(
            reduced(&[4], &[1, 2, 3, 4], 100, &window(gaps), sum()),
            [101, 102, 102, 103, 103, 104]
        );
    }

    #[test]
    fn the_maximum_of_a_window_with_nan_is_nan() {
        let options = ExecuteOptions::default();
        let context = Context { options: &options };
        let (operand, init) = (
            array(&[3], &[1.0, f32::NAN, 2.0]),
            array(&[], &[f32::NEG_INFINITY]),
        );
        let window = Window {
            dims: vec![WindowDim {
                size: 2,
                ..WindowDim::ONE
            }],
        };
        let combiner = Combiner::Monoid(Monoid::Maximum);
        let got: Vec<f32> = run(&[2], |out| {
            reduce_window(
                &[operand.view()],
                &[init.view()],
                &window,
                combiner,
                &mut [out],
                context,
            )
        });
        assert!(got.iter().all(|value| value.is_nan()));
    }

    #[test]
    fn the_first_of_equal_elements_is_selected() {
        let options = ExecuteOptions::default();
        let context = Context { options: &options };
        let (operand, source, init) = (
            array(&[4], &[5, 5, 1, 7]),
            array(&[2], &[10, 20]),
            array(&[], &[0]),
        );
        let window = Window {
            dims: vec![WindowDim {
                size: 2,
                stride: 2,
                ..WindowDim::ONE
            }],
        };
        let select = || Comparator::Compare {
            operand: 0,
            comparison: Comparison {
                direction: Direction::Ge,
                total_order: false,
            },
        };
        let scatter = |combiner| {
            run::<i32>(&[4], |out| {
                let (operand, source, init) = (operand.view(), source.view(), init.view());
                select_and_scatter(
                    operand,
                    source,
                    init,
                    &window,
                    select(),
                    combiner,
                    out,
                    context,
                )
            })
        };
        assert_eq!(scatter(Combiner::Monoid(Monoid::Add)), [10, 0, 0, 20]);
        assert_eq!(scatter(Combiner::Region(&mut Sum)), [10, 0, 0, 20]);
    }

    fn window_dim() -> impl Strategy<Value = WindowDim> {
        (
            1_usize..4,
            1_usize..3,
            -1_i64..4,
            -1_i64..4,
            1_usize..3,
            1_usize..3,
        )
            .prop_map(
                |(size, stride, padding_low, padding_high, window_dilation, base_dilation)| {
                    WindowDim {
                        size,
                        stride,
                        padding_low,
                        padding_high,
                        window_dilation,
                        base_dilation,
                        reversal: false,
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn regions_and_known_reductions_agree(
            dims in prop::collection::vec((1_usize..6, window_dim()), 0..4),
            init in -3..3,
        ) {
            let window = Window { dims: dims.iter().map(|dim| dim.1).collect() };
            let sizes: Vec<usize> = dims.iter().map(|dim| dim.0).collect();
            let values: Vec<i32> = (1..).map(|value: i32| value * 37 % 19).take(sizes.iter().product()).collect();
            let known = reduced(&sizes, &values, init, &window, Combiner::Monoid(Monoid::Add));
            let called = reduced(&sizes, &values, init, &window, Combiner::Region(&mut Sum));
            prop_assert_eq!(&known, &called);
            if let [(size, window)] = dims[..] {
                let plain: Vec<i32> = (0..known.len()).map(|output| {
                    let met = (0..window.size).filter_map(|position| {
                        let place = i64::try_from(output * window.stride + position * window.window_dilation).unwrap()
                            - window.padding_low;
                        let dilation = i64::try_from(window.base_dilation).unwrap();
                        let at = usize::try_from(place).ok()? / window.base_dilation;
                        (place % dilation == 0 && at < size).then(|| values[at])
                    });
                    init + met.sum::<i32>()
                }).collect();
                prop_assert_eq!(known, plain);
            }
        }

        #[test]
        fn cumulative_sums_match_windows(
            outer in 1_usize..4, size in 1_usize..9, inner in 1_usize..4, backwards in any::<bool>(),
        ) {
            let reach = i64::try_from(size).unwrap() - 1;
            let (padding_low, padding_high) = if backwards { (0, reach) } else { (reach, 0) };
            let along = WindowDim { size, padding_low, padding_high, ..WindowDim::ONE };
            let window = Window { dims: vec![WindowDim::ONE, along, WindowDim::ONE] };
            let dims = [outer, size, inner];
            let values: Vec<i32> = (1..).take(dims.iter().product()).collect();
            let known = reduced(&dims, &values, 5, &window, Combiner::Monoid(Monoid::Add));
            let called = reduced(&dims, &values, 5, &window, Combiner::Region(&mut Sum));
            prop_assert_eq!(known, called);
        }
    }
}
