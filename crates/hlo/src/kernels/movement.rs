//! Kernels that move elements and compute nothing.
//!
//! Broadcast, transpose, reverse and slice are one strided copy; elements move as words of their size.

use bytemuck::Pod;
use rayon::prelude::*;

use super::walk::{PARALLEL_ELEMENTS, for_each, index, signed, strides};
use crate::array::{ArrayView, ArrayViewMut};
use crate::attributes::{PaddingDim, SliceDim};
use crate::element::{with_element, with_word};
use crate::error::KernelError;
use crate::numerics::Numeric;

/// Edge of the square tiles in which transposing copies go.
const TILE: usize = 32;

/// Fills `target` in row-major order with `source[start + Σ index × stride]`.
pub(super) fn strided_copy<W: Pod + Send + Sync>(
    source: &[W],
    start: isize,
    dims: &[usize],
    source_strides: &[isize],
    target: &mut [W],
) {
    if target.is_empty() {
        return;
    }
    let (dims, steps) = merge(dims, source_strides);
    let Some((&outer, &outer_step)) = dims.first().zip(steps.first()) else {
        target[0] = source[index(start)];
        return;
    };
    let row: usize = dims[1..].iter().product();
    if target.len() < PARALLEL_ELEMENTS || outer == 1 {
        copy_box(source, start, &dims, &steps, target);
        return;
    }
    let rows = (PARALLEL_ELEMENTS / 2)
        .div_ceil(row)
        .next_multiple_of(TILE)
        .min(outer);
    target
        .par_chunks_mut(rows * row)
        .enumerate()
        .for_each(|(chunk, target)| {
            let mut dims = dims.clone();
            dims[0] = target.len() / row;
            copy_box(
                source,
                start + signed(chunk * rows) * outer_step,
                &dims,
                &steps,
                target,
            );
        });
}

/// Drops dimensions of size 1 and joins neighbours that are one dimension in source and target.
fn merge(dims: &[usize], steps: &[isize]) -> (Vec<usize>, Vec<isize>) {
    let mut merged: (Vec<usize>, Vec<isize>) = (Vec::new(), Vec::new());
    for (&dim, &step) in dims.iter().zip(steps).filter(|&(&dim, _)| dim != 1) {
        match (merged.0.last_mut(), merged.1.last_mut()) {
            (Some(last), Some(last_step)) if *last_step == step * signed(dim) => {
                *last *= dim;
                *last_step = step;
            }
            _ => {
                merged.0.push(dim);
                merged.1.push(step);
            }
        }
    }
    merged
}

fn copy_box<W: Pod>(source: &[W], start: isize, dims: &[usize], steps: &[isize], target: &mut [W]) {
    let last = dims.len() - 1;
    let (length, step) = (dims[last], steps[last]);
    let target_strides: Vec<isize> = strides(dims).into_iter().map(signed).collect();
    if step.abs() > 1
        && let Some(unit) = steps[..last].iter().position(|&step| step == 1)
    {
        copy_tiles(source, start, dims, steps, &target_strides, unit, target);
        return;
    }
    for_each(
        &dims[..last],
        [&steps[..last], &target_strides[..last]],
        [start, 0],
        |[from, to]| {
            let target = &mut target[index(to)..][..length];
            match step {
                1 => target.copy_from_slice(&source[index(from)..][..length]),
                0 => target.fill(source[index(from)]),
                -1 => {
                    let first = index(from) + 1 - length;
                    for (target, source) in target
                        .iter_mut()
                        .zip(source[first..][..length].iter().rev())
                    {
                        *target = *source;
                    }
                }
                _ => {
                    let mut from = from;
                    for target in target {
                        *target = source[index(from)];
                        from += step;
                    }
                }
            }
        },
    );
}

/// Copies where the source runs along target dimension `unit` and the target along its last.
fn copy_tiles<W: Pod>(
    source: &[W],
    start: isize,
    dims: &[usize],
    steps: &[isize],
    target_strides: &[isize],
    unit: usize,
    target: &mut [W],
) {
    let last = dims.len() - 1;
    let keep = |values: &[isize]| -> Vec<isize> {
        (0..last)
            .filter(|&dim| dim != unit)
            .map(|dim| values[dim])
            .collect()
    };
    let others: Vec<usize> = (0..last)
        .filter(|&dim| dim != unit)
        .map(|dim| dims[dim])
        .collect();
    let (height, width) = (dims[unit], dims[last]);
    let (row, column) = (index(target_strides[unit]), steps[last]);
    for_each(
        &others,
        [&keep(steps), &keep(target_strides)],
        [start, 0],
        |[from, to]| {
            for top in (0..height).step_by(TILE) {
                for left in (0..width).step_by(TILE) {
                    let (bottom, right) = (height.min(top + TILE), width.min(left + TILE));
                    for y in top..bottom {
                        let target = &mut target[index(to) + y * row..][left..right];
                        let mut from = from + signed(y) + signed(left) * column;
                        for target in target {
                            *target = source[index(from)];
                            from += column;
                        }
                    }
                }
            }
        },
    );
}

fn strided(
    operand: ArrayView<'_>,
    start: isize,
    source_strides: &[isize],
    mut out: ArrayViewMut<'_>,
) -> Result<(), KernelError> {
    let dims = out.dims().to_vec();
    with_word!(operand.element(), W => {
        strided_copy(operand.words::<W>()?, start, &dims, source_strides, out.words_mut::<W>()?);
    });
    Ok(())
}

fn signed_strides(dims: &[usize]) -> Vec<isize> {
    strides(dims).into_iter().map(signed).collect()
}

/// `broadcast`: operand dimension `i` becomes dimension `dimensions[i]` of the result.
///
/// # Errors
///
/// [`KernelError::View`] if a view is not what it says.
pub(crate) fn broadcast(
    operand: ArrayView<'_>,
    dimensions: &[usize],
    out: ArrayViewMut<'_>,
) -> Result<(), KernelError> {
    let mut steps = vec![0; out.dims().len()];
    for (stride, &dimension) in signed_strides(operand.dims()).into_iter().zip(dimensions) {
        steps[dimension] = stride;
    }
    for (step, _) in dimensions
        .iter()
        .zip(operand.dims())
        .filter(|&(_, &dim)| dim == 1)
    {
        steps[*step] = 0;
    }
    strided(operand, 0, &steps, out)
}

/// `transpose`: dimension `permutation[i]` of the operand becomes dimension `i` of the result.
///
/// # Errors
///
/// [`KernelError::View`] if a view is not what it says.
pub(crate) fn transpose(
    operand: ArrayView<'_>,
    permutation: &[usize],
    out: ArrayViewMut<'_>,
) -> Result<(), KernelError> {
    let given = signed_strides(operand.dims());
    let steps: Vec<isize> = permutation.iter().map(|&dim| given[dim]).collect();
    strided(operand, 0, &steps, out)
}

/// `reverse` along `dimensions`.
///
/// # Errors
///
/// [`KernelError::View`] if a view is not what it says.
pub(crate) fn reverse(
    operand: ArrayView<'_>,
    dimensions: &[usize],
    out: ArrayViewMut<'_>,
) -> Result<(), KernelError> {
    let mut steps = signed_strides(operand.dims());
    let mut start = 0;
    for &dim in dimensions {
        start += steps[dim] * (signed(operand.dims()[dim]) - 1);
        steps[dim] = -steps[dim];
    }
    strided(operand, start, &steps, out)
}

/// `slice`.
///
/// # Errors
///
/// [`KernelError::View`] if a view is not what it says.
pub(crate) fn slice(
    operand: ArrayView<'_>,
    ranges: &[SliceDim],
    out: ArrayViewMut<'_>,
) -> Result<(), KernelError> {
    let mut steps = signed_strides(operand.dims());
    let mut start = 0;
    for (step, range) in steps.iter_mut().zip(ranges) {
        start += *step * signed(range.start);
        *step *= signed(range.stride);
    }
    strided(operand, start, &steps, out)
}

/// `concatenate` along `dimension`.
///
/// # Errors
///
/// [`KernelError::View`] if a view is not what it says.
pub(crate) fn concatenate(
    operands: &[ArrayView<'_>],
    dimension: usize,
    mut out: ArrayViewMut<'_>,
) -> Result<(), KernelError> {
    let size = out.element().byte_size();
    let inner: usize = out.dims()[dimension + 1..].iter().product::<usize>() * size;
    let row = out.dims()[dimension] * inner;
    let bytes = out.bytes_mut();
    let mut start = 0;
    for operand in operands {
        let length = operand.dims()[dimension] * inner;
        if length > 0 && !bytes.is_empty() {
            for (target, source) in bytes.chunks_mut(row).zip(operand.bytes().chunks(length)) {
                target[start..start + length].copy_from_slice(source);
            }
        }
        start += length;
    }
    Ok(())
}

/// `pad` with the scalar `value`; padding is applied after the gaps between elements, negative padding crops.
///
/// # Errors
///
/// [`KernelError::View`] if a view is not what it says.
pub(crate) fn pad(
    operand: ArrayView<'_>,
    value: ArrayView<'_>,
    padding: &[PaddingDim],
    mut out: ArrayViewMut<'_>,
) -> Result<(), KernelError> {
    let out_dims = out.dims().to_vec();
    let mut dims = Vec::with_capacity(padding.len());
    let (mut from, mut to) = (0, 0);
    let source_strides = signed_strides(operand.dims());
    let mut target_strides = signed_strides(&out_dims);
    for (dim, padding) in padding.iter().enumerate() {
        let gap = signed(padding.interior) + 1;
        let low = isize::try_from(padding.low).unwrap_or(isize::MAX);
        let size = signed(operand.dims()[dim]);
        // Elements first..end land inside the result.
        let first = if low < 0 { (-low + gap - 1) / gap } else { 0 };
        let room = signed(out_dims[dim]) - low;
        let end = if room <= 0 {
            0
        } else {
            ((room - 1) / gap + 1).min(size)
        };
        dims.push(index((end - first).max(0)));
        from += first.min(size) * source_strides[dim];
        to += (low + first * gap) * target_strides[dim];
        target_strides[dim] *= gap;
    }
    with_word!(operand.element(), W => {
        let (source, target) = (operand.words::<W>()?, out.words_mut::<W>()?);
        target.fill(value.words::<W>()?[0]);
        let Some(last) = dims.len().checked_sub(1) else {
            target[0] = source[0];
            return Ok(());
        };
        let (length, step) = (dims[last], index(target_strides[last]));
        if length == 0 {
            return Ok(());
        }
        for_each(
            &dims[..last],
            [&source_strides[..last], &target_strides[..last]],
            [from, to],
            |[from, to]| {
                let source = &source[index(from)..][..length];
                let target = &mut target[index(to)..];
                if step == 1 {
                    target[..length].copy_from_slice(source);
                } else {
                    for (target, &value) in target.iter_mut().step_by(step).zip(source) {
                        *target = value;
                    }
                }
            },
        );
    });
    Ok(())
}

/// `iota` along `dimension`; integers wrap, floats round.
///
/// # Errors
///
/// [`KernelError::View`] if a view is not what it says.
pub(crate) fn iota(dimension: usize, mut out: ArrayViewMut<'_>) -> Result<(), KernelError> {
    let size = out.dims()[dimension];
    let inner: usize = out.dims()[dimension + 1..].iter().product();
    if out.element_count() == 0 {
        return Ok(());
    }
    with_element!(out.element(), T => {
        let values = out.values_mut::<T>()?;
        let (first, rest) = values.split_at_mut(size * inner);
        for (number, run) in (0_i64..).zip(first.chunks_mut(inner)) {
            run.fill(T::from_i64(number));
        }
        for block in rest.chunks_mut(size * inner) {
            block.copy_from_slice(first);
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernels::testing::{array, run};

    fn plain(source: &[i32], start: isize, dims: &[usize], steps: &[isize]) -> Vec<i32> {
        let mut out = Vec::new();
        for_each(dims, [steps], [start], |[from]| {
            out.push(source[index(from)]);
        });
        out
    }

    proptest! {
        #[test]
        fn transpose_matches_a_plain_loop(
            dims in prop::collection::vec(0_usize..40, 0..5),
            seed in any::<u64>(),
        ) {
            prop_assume!(dims.iter().product::<usize>() < 200_000);
            let mut permutation: Vec<usize> = (0..dims.len()).collect();
            permutation.sort_by_key(|&dim| seed.rotate_left(13 * u32::try_from(dim).unwrap()) % 97);
            let values: Vec<i32> = (0..).take(dims.iter().product()).collect();
            let out_dims: Vec<usize> = permutation.iter().map(|&dim| dims[dim]).collect();
            let operand = array(&dims, &values);
            let got: Vec<i32> = run(&out_dims, |out| transpose(operand.view(), &permutation, out));
            let given = signed_strides(&dims);
            let steps: Vec<isize> = permutation.iter().map(|&dim| given[dim]).collect();
            prop_assert_eq!(got, plain(&values, 0, &out_dims, &steps));
        }

        #[test]
        fn slice_matches_a_plain_loop(
            ranges in prop::collection::vec((0_usize..6, 0_usize..6, 1_usize..4), 1..4),
        ) {
            let dims: Vec<usize> = ranges.iter().map(|&(start, length, _)| start + length + 1).collect();
            let given = signed_strides(&dims);
            let slices: Vec<SliceDim> = ranges.iter()
                .map(|&(start, length, stride)| SliceDim { start, limit: start + length, stride })
                .collect();
            let out_dims: Vec<usize> = ranges.iter().map(|&(_, length, stride)| length.div_ceil(stride)).collect();
            let values: Vec<i32> = (0..).take(dims.iter().product()).collect();
            let operand = array(&dims, &values);
            let got: Vec<i32> = run(&out_dims, |out| slice(operand.view(), &slices, out));
            let steps: Vec<isize> = given.iter().zip(&ranges).map(|(step, range)| step * signed(range.2)).collect();
            let start = given.iter().zip(&ranges).map(|(step, range)| step * signed(range.0)).sum();
            prop_assert_eq!(got, plain(&values, start, &out_dims, &steps));
        }
    }

    #[test]
    fn padding_crops_after_the_gaps() {
        let padding = [PaddingDim {
            low: -1,
            high: 2,
            interior: 1,
        }];
        let (operand, value) = (array(&[3], &[1, 2, 3]), array(&[], &[9]));
        let got: Vec<i32> = run(&[6], |out| pad(operand.view(), value.view(), &padding, out));
        assert_eq!(got, [9, 2, 9, 3, 9, 9]);
        let padding = [PaddingDim {
            low: -3,
            high: 1,
            interior: 0,
        }];
        let got: Vec<i32> = run(&[1], |out| pad(operand.view(), value.view(), &padding, out));
        assert_eq!(got, [9]);
        let padding = [PaddingDim {
            low: 2,
            high: -4,
            interior: 0,
        }];
        let got: Vec<i32> = run(&[1], |out| pad(operand.view(), value.view(), &padding, out));
        assert_eq!(got, [9]);
    }

    #[test]
    fn iota_wraps_and_rounds() {
        let got: Vec<i8> = run(&[200, 2], |out| iota(0, out));
        assert_eq!((got[256], got[399]), (-128, -57));
        let got: Vec<half::bf16> = run(&[300], |out| iota(0, out));
        assert_eq!(got[257].to_f32(), 256.0);
        let got: Vec<i32> = run(&[2, 3], |out| iota(1, out));
        assert_eq!(got, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn reversal_and_broadcast() {
        let operand = array(&[2, 2], &[1, 2, 3, 4]);
        let got: Vec<i32> = run(&[2, 2], |out| reverse(operand.view(), &[1], out));
        assert_eq!(got, [2, 1, 4, 3]);
        let got: Vec<i32> = run(&[2, 3, 2], |out| broadcast(operand.view(), &[2, 0], out));
        assert_eq!(got, [1, 3, 1, 3, 1, 3, 2, 4, 2, 4, 2, 4]);
        let (left, right) = (array(&[2, 1], &[1, 2]), array(&[2, 2], &[3, 4, 5, 6]));
        let got: Vec<i32> = run(&[2, 3], |out| {
            concatenate(&[left.view(), right.view()], 1, out)
        });
        assert_eq!(got, [1, 3, 4, 2, 5, 6]);
    }
}
