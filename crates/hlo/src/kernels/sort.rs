//! `sort` and `topk`.

use super::{Comparator, Context, Region};
use crate::array::{ArrayView, ArrayViewMut, Buffer};
use crate::attributes::{Comparison, Direction};
use crate::element::{ElementClass, ElementType, with_element, with_word};
use crate::error::KernelError;
use crate::numerics::{FlushingMath, Ordered};
use crate::options::Denormals;
use half::bf16;

/// The lines along one dimension of an array.
#[derive(Clone, Copy)]
struct Lines {
    outer: usize,
    length: usize,
    inner: usize,
}

impl Lines {
    fn new(dims: &[usize], dimension: usize) -> Self {
        Self {
            outer: dims[..dimension].iter().product(),
            length: dims[dimension],
            inner: dims[dimension + 1..].iter().product(),
        }
    }

    fn count(self) -> usize {
        self.outer * self.inner
    }

    /// Offset of element `position` of line `line`.
    fn offset(self, line: usize, position: usize) -> usize {
        (line / self.inner * self.length + position) * self.inner + line % self.inner
    }
}

/// `sort` in place along `dimension`; always stable.
///
/// A comparator that is not a strict order (floats with NaN, `<=`) gives some permutation, the same each time. Denormals
/// tie with zero where the options flush them.
///
/// # Errors
///
/// A region's error.
pub(crate) fn sort(
    operands: &mut [ArrayViewMut<'_>],
    dimension: usize,
    comparator: Comparator<'_>,
    context: Context<'_>,
) -> Result<(), KernelError> {
    let Some(first) = operands.first() else {
        return Ok(());
    };
    let lines = Lines::new(first.dims(), dimension);
    if lines.count() == 0 || lines.length < 2 {
        return Ok(());
    }
    let order = match comparator {
        Comparator::Compare {
            operand,
            comparison,
        } => {
            let keys = operands[operand].as_view();
            let flushes = context.options.denormals == Denormals::FlushToZero;
            match keys.element() {
                ElementType::F32 if flushes && !comparison.total_order => {
                    compared(&flushed(keys.values::<f32>()?), lines, comparison)
                }
                ElementType::F64 if flushes && !comparison.total_order => {
                    compared(&flushed(keys.values::<f64>()?), lines, comparison)
                }
                ElementType::BF16 if flushes && !comparison.total_order => {
                    let wide: Vec<f32> =
                        keys.values::<bf16>()?.iter().map(|x| x.to_f32()).collect();
                    compared(&flushed(&wide), lines, comparison)
                }
                element => {
                    with_element!(element, T => compared(keys.values::<T>()?, lines, comparison))
                }
            }
        }
        Comparator::Region(region) => {
            let views: Vec<ArrayView<'_>> = operands.iter().map(ArrayViewMut::as_view).collect();
            called(&views, lines, region)?
        }
    };
    for operand in operands {
        with_word!(operand.element(), W => {
            let values = operand.words_mut::<W>()?;
            let mut sorted = Vec::with_capacity(lines.length);
            for (line, order) in order.chunks(lines.length).enumerate() {
                sorted.clear();
                sorted.extend(order.iter().map(|&from| values[lines.offset(line, from)]));
                for (position, &value) in sorted.iter().enumerate() {
                    values[lines.offset(line, position)] = value;
                }
            }
        });
    }
    Ok(())
}

fn flushed<T: FlushingMath>(keys: &[T]) -> Vec<T> {
    keys.iter().map(|&key| key.flush()).collect()
}

/// For each line the positions of its elements in sorted order.
fn compared<T: Ordered>(values: &[T], lines: Lines, comparison: Comparison) -> Vec<usize> {
    let mut order = Vec::with_capacity(lines.count() * lines.length);
    let partial = matches!(T::TYPE.class(), ElementClass::Float | ElementClass::Complex)
        && !comparison.total_order;
    for line in 0..lines.count() {
        let keys: Vec<T> = (0..lines.length)
            .map(|position| values[lines.offset(line, position)])
            .collect();
        let unordered = partial && keys.iter().any(|&key| !key.compare(Direction::Eq, key));
        let start = order.len();
        order.extend(0..lines.length);
        let order = &mut order[start..];
        match comparison.direction {
            // Without NaN a partial order of floats is total up to equal zeros.
            Direction::Lt | Direction::Gt
                if !unordered && T::TYPE.class() != ElementClass::Complex =>
            {
                order.sort_by(|&a, &b| {
                    let before = keys[a].holds(comparison, keys[b]);
                    let after = keys[b].holds(comparison, keys[a]);
                    after.cmp(&before)
                });
            }
            _ => merge_sort(order, &mut |a, b| keys[a].holds(comparison, keys[b])),
        }
    }
    order
}

/// Stable merge sort by any `less`, which need not be an order.
fn merge_sort(order: &mut [usize], less: &mut impl FnMut(usize, usize) -> bool) {
    let mut merged = order.to_vec();
    let mut width = 1;
    while width < order.len() {
        for (source, target) in order.chunks(2 * width).zip(merged.chunks_mut(2 * width)) {
            let (mut left, mut right) = source.split_at(width.min(source.len()));
            for target in target {
                let from_right = match (left.first(), right.first()) {
                    (Some(&left), Some(&right)) => less(right, left),
                    (None, _) => true,
                    (_, None) => false,
                };
                let side = if from_right { &mut right } else { &mut left };
                if let Some((&first, rest)) = side.split_first() {
                    *target = first;
                    *side = rest;
                }
            }
        }
        order.copy_from_slice(&merged);
        width *= 2;
    }
}

/// Asks a region about many pairs of rows at once.
struct Judge<'a, 'r> {
    views: &'a [ArrayView<'a>],
    region: &'r mut dyn Region,
    args: Vec<Buffer>,
    verdicts: Buffer,
}

impl<'a, 'r> Judge<'a, 'r> {
    fn new(
        views: &'a [ArrayView<'a>],
        region: &'r mut dyn Region,
        lanes: usize,
    ) -> Result<Self, KernelError> {
        let mut args = Vec::new();
        for view in views {
            for _side in 0..2 {
                args.push(Buffer::zeroed(lanes * view.element().byte_size())?);
            }
        }
        Ok(Self {
            views,
            region,
            args,
            verdicts: Buffer::zeroed(lanes * ElementType::Pred.byte_size())?,
        })
    }

    /// Whether the row at the first offset of each pair goes before that at the second.
    fn less(&mut self, pairs: &[(usize, usize)]) -> Result<&[u8], KernelError> {
        for (view, args) in self.views.iter().zip(self.args.chunks_mut(2)) {
            with_word!(view.element(), W => {
                let values = view.words::<W>()?;
                for (side, arg) in args.iter_mut().enumerate() {
                    let target: &mut [W] = bytemuck::cast_slice_mut(arg.bytes_mut());
                    for (target, pair) in target.iter_mut().zip(pairs) {
                        *target = values[if side == 0 { pair.0 } else { pair.1 }];
                    }
                }
            });
        }
        let lanes = pairs.len();
        let args: Vec<&[u8]> = self
            .args
            .iter()
            .zip(self.views.iter().flat_map(|view| [view, view]))
            .map(|(arg, view)| &arg.bytes()[..lanes * view.element().byte_size()])
            .collect();
        self.region
            .call(lanes, &args, &mut [&mut self.verdicts.bytes_mut()[..lanes]])?;
        Ok(&self.verdicts.bytes()[..lanes])
    }
}

/// For each line the positions of its elements in sorted order, as a region compares them.
///
/// Runs of all lines merge at once: each element finds its rank in its sibling run by bisection, all in step, so that the
/// region is called a number of times that grows with the square of the logarithm of the length only.
fn called(
    views: &[ArrayView<'_>],
    lines: Lines,
    region: &mut dyn Region,
) -> Result<Vec<usize>, KernelError> {
    let total = lines.count() * lines.length;
    let mut judge = Judge::new(views, region, total)?;
    let mut order: Vec<usize> = (0..lines.count()).flat_map(|_| 0..lines.length).collect();
    let mut width = 1;
    while width < lines.length {
        order = merge_runs(&mut judge, lines, &order, width)?;
        width *= 2;
    }
    Ok(order)
}

/// An element that looks for its rank in the sibling run.
struct Seeker {
    /// Its place in the order, and whether its run is the left one.
    place: usize,
    is_left: bool,
    /// Places that the sibling's elements before it may end at.
    low: usize,
    high: usize,
}

fn merge_runs(
    judge: &mut Judge<'_, '_>,
    lines: Lines,
    order: &[usize],
    width: usize,
) -> Result<Vec<usize>, KernelError> {
    let mut seekers: Vec<Seeker> = (0..order.len())
        .map(|place| {
            let line_start = place - place % lines.length;
            let pair_start = (place - line_start) / (2 * width) * (2 * width);
            let middle = line_start + (pair_start + width).min(lines.length);
            let end = line_start + (pair_start + 2 * width).min(lines.length);
            let is_left = place < middle;
            let (low, high) = if is_left {
                (middle, end)
            } else {
                (line_start + pair_start, middle)
            };
            Seeker {
                place,
                is_left,
                low,
                high,
            }
        })
        .collect();
    let starts: Vec<usize> = seekers.iter().map(|seeker| seeker.low).collect();
    let row = |place: usize| lines.offset(place / lines.length, order[place]);
    loop {
        let active: Vec<usize> = (0..seekers.len())
            .filter(|&number| seekers[number].low < seekers[number].high)
            .collect();
        if active.is_empty() {
            break;
        }
        let pairs: Vec<(usize, usize)> = active
            .iter()
            .map(|&number| {
                let seeker = &seekers[number];
                let (own, other) = (
                    row(seeker.place),
                    row(usize::midpoint(seeker.low, seeker.high)),
                );
                // A left element follows the right ones that are less; a right one precedes the left ones it is less than.
                if seeker.is_left {
                    (other, own)
                } else {
                    (own, other)
                }
            })
            .collect();
        let verdicts = judge.less(&pairs)?;
        for (&number, &less) in active.iter().zip(verdicts) {
            let seeker = &mut seekers[number];
            let middle = usize::midpoint(seeker.low, seeker.high);
            if seeker.is_left == (less != 0) {
                seeker.low = middle + 1;
            } else {
                seeker.high = middle;
            }
        }
    }
    let mut merged = vec![usize::MAX; order.len()];
    for (seeker, start) in seekers.iter().zip(starts) {
        let before = seeker.low - start;
        // A right element moves back by the left ones that follow it.
        let place = if seeker.is_left {
            seeker.place + before
        } else {
            seeker.place + before - width
        };
        if let Some(slot) = merged.get_mut(place) {
            *slot = order[seeker.place];
        }
    }
    if merged.contains(&usize::MAX) {
        return merge_pairwise(judge, lines, order, width);
    }
    Ok(merged)
}

/// Merges one comparison at a time, which gives a permutation whatever the region answers.
fn merge_pairwise(
    judge: &mut Judge<'_, '_>,
    lines: Lines,
    order: &[usize],
    width: usize,
) -> Result<Vec<usize>, KernelError> {
    let mut merged = Vec::with_capacity(order.len());
    for (line, order) in order.chunks(lines.length).enumerate() {
        for pair in order.chunks(2 * width) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            while let (Some((&l, left_rest)), Some((&r, right_rest))) =
                (left.split_first(), right.split_first())
            {
                let less = judge.less(&[(lines.offset(line, r), lines.offset(line, l))])?[0] != 0;
                merged.push(if less { r } else { l });
                if less {
                    right = right_rest;
                } else {
                    left = left_rest;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
    }
    Ok(merged)
}

/// `topk` along the last dimension: the `k` largest (or smallest) values in order with their indices (`s32`), ties by the
/// lower index; `k` is the last dimension of the results. Floats compare in total order, so that NaN is largest.
///
/// # Errors
///
/// [`KernelError::View`] if a view is not what it says.
pub(crate) fn top_k(
    operand: ArrayView<'_>,
    largest: bool,
    mut values: ArrayViewMut<'_>,
    mut indices: ArrayViewMut<'_>,
    _context: Context<'_>,
) -> Result<(), KernelError> {
    let (Some(&length), Some(&k)) = (operand.dims().last(), values.dims().last()) else {
        return Ok(());
    };
    if k == 0 || length == 0 || values.element_count() == 0 {
        return Ok(());
    }
    with_element!(operand.element(), T => {
        let source = operand.values::<T>()?;
        let (values, indices) = (values.values_mut::<T>()?, indices.values_mut::<i32>()?);
        let mut order: Vec<usize> = Vec::with_capacity(length);
        for (row, (values, indices)) in
            source.chunks(length).zip(values.chunks_mut(k).zip(indices.chunks_mut(k)))
        {
            let by = |&a: &usize, &b: &usize| {
                let ascending = row[a].key().cmp(&row[b].key());
                (if largest { ascending.reverse() } else { ascending }).then(a.cmp(&b))
            };
            order.clear();
            order.extend(0..length);
            if k < length {
                order.select_nth_unstable_by(k, by);
            }
            order[..k].sort_unstable_by(by);
            for ((value, index), &from) in values.iter_mut().zip(indices).zip(&order) {
                *value = row[from];
                *index = i32::try_from(from).unwrap_or(i32::MAX);
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::element::Element;
    use crate::error::ExecuteError;
    use crate::kernels::testing::{array, run};
    use crate::options::ExecuteOptions;

    struct By<F>(F);

    impl<F: FnMut(f32, f32) -> bool> Region for By<F> {
        fn call(
            &mut self,
            _lanes: usize,
            args: &[&[u8]],
            results: &mut [&mut [u8]],
        ) -> Result<(), Box<ExecuteError>> {
            let [left, right]: [&[f32]; 2] = [args[0], args[1]].map(bytemuck::cast_slice);
            for (result, (&left, &right)) in results[0].iter_mut().zip(left.iter().zip(right)) {
                *result = u8::from((self.0)(left, right));
            }
            Ok(())
        }
    }

    fn sorted(
        dims: &[usize],
        dimension: usize,
        keys: &[f32],
        comparator: Comparator<'_>,
    ) -> (Vec<f32>, Vec<i32>) {
        let options = ExecuteOptions::default();
        let payload: Vec<i32> = (0..).take(keys.len()).collect();
        let mut keys = Buffer::copied(bytemuck::cast_slice(keys)).unwrap();
        let mut numbers = Buffer::copied(bytemuck::cast_slice(&payload)).unwrap();
        let mut operands = [
            ArrayViewMut::new(f32::TYPE, dims, keys.bytes_mut()).unwrap(),
            ArrayViewMut::new(i32::TYPE, dims, numbers.bytes_mut()).unwrap(),
        ];
        sort(
            &mut operands,
            dimension,
            comparator,
            Context { options: &options },
        )
        .unwrap();
        (
            bytemuck::cast_slice(keys.bytes()).to_vec(),
            bytemuck::cast_slice(numbers.bytes()).to_vec(),
        )
    }

    fn compare(direction: Direction, total_order: bool) -> Comparator<'static> {
        Comparator::Compare {
            operand: 0,
            comparison: Comparison {
                direction,
                total_order,
            },
        }
    }

    #[test]
    fn equal_keys_keep_their_order() {
        let got = sorted(
            &[4],
            0,
            &[1.0, 2.0, 1.0, 2.0],
            compare(Direction::Gt, false),
        );
        assert_eq!(got, (vec![2.0, 2.0, 1.0, 1.0], vec![1, 3, 0, 2]));
        let got = sorted(
            &[2, 2],
            0,
            &[3.0, 1.0, 2.0, 4.0],
            compare(Direction::Lt, false),
        );
        assert_eq!(got, (vec![2.0, 1.0, 3.0, 4.0], vec![2, 1, 0, 3]));
    }

    #[test]
    fn total_order_puts_nan_at_its_ends() {
        let keys = [f32::NAN, 0.0, -0.0, f32::INFINITY, -f32::NAN, -1.0];
        let (_, order) = sorted(&[6], 0, &keys, compare(Direction::Lt, true));
        assert_eq!(order, [4, 5, 2, 1, 3, 0]);
    }

    #[test]
    fn an_inconsistent_comparator_still_permutes() {
        let keys = [3.0, f32::NAN, 1.0, 2.0, f32::NAN, 0.0, 5.0];
        let (_, mut order) = sorted(&[7], 0, &keys, compare(Direction::Lt, false));
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2, 3, 4, 5, 6]);
        for answer in [
            |_: f32, _: f32| true,
            |a: f32, b: f32| a < b,
            |a: f32, b: f32| a <= b,
        ] {
            let (_, mut order) = sorted(&[7], 0, &keys, Comparator::Region(&mut By(answer)));
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3, 4, 5, 6]);
        }
    }

    #[test]
    fn top_values_break_ties_by_index() {
        let options = ExecuteOptions::default();
        let operand = array(&[2, 4], &[1.0, f32::NAN, 3.0, 3.0, 0.0, 2.0, 2.0, -1.0]);
        let mut indices = Buffer::zeroed(4 * 4).unwrap();
        let got: Vec<f32> = run(&[2, 2], |values| {
            let indices = ArrayViewMut::new(i32::TYPE, &[2, 2], indices.bytes_mut()).unwrap();
            top_k(
                operand.view(),
                true,
                values,
                indices,
                Context { options: &options },
            )
        });
        assert!(got[0].is_nan());
        assert_eq!(got[1..], [3.0, 2.0, 2.0]);
        assert_eq!(
            bytemuck::cast_slice::<u8, i32>(indices.bytes()),
            [1, 2, 1, 2]
        );
    }

    proptest! {
        #[test]
        fn regions_sort_as_a_plain_stable_sort(
            (outer, length, inner) in (1_usize..3, 1_usize..40, 1_usize..3),
            seed in any::<u32>(),
            descending in any::<bool>(),
        ) {
            let keys: Vec<f32> = (0_u32..)
                .take(outer * length * inner)
                .map(|index| index.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 28)
                .map(|key| f32::from(u8::try_from(key).unwrap()))
                .collect();
            let less = |a: f32, b: f32| if descending { a > b } else { a < b };
            let dims = [outer, length, inner];
            let got = sorted(&dims, 1, &keys, Comparator::Region(&mut By(less)));
            let direction = if descending { Direction::Gt } else { Direction::Lt };
            prop_assert_eq!(&got, &sorted(&dims, 1, &keys, compare(direction, false)));
            let lines = Lines::new(&dims, 1);
            for line in 0..lines.count() {
                let mut plain: Vec<usize> = (0..length).map(|position| lines.offset(line, position)).collect();
                plain.sort_by(|&a, &b| {
                    let order = keys[a].total_cmp(&keys[b]);
                    if descending { order.reverse() } else { order }
                });
                for (position, from) in plain.into_iter().enumerate() {
                    prop_assert_eq!(got.0[lines.offset(line, position)], keys[from]);
                    prop_assert_eq!(usize::try_from(got.1[lines.offset(line, position)]).unwrap(), from);
                }
            }
        }
    }
}
