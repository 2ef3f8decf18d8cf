//! Index arithmetic that the kernels share.

use crate::array::ArrayView;
use crate::element::with_element;
use crate::error::KernelError;
use crate::numerics::Numeric;

/// Elements above which a kernel spreads its work over threads.
pub(super) const PARALLEL_ELEMENTS: usize = 1 << 16;

/// Distance in elements between neighbours along each dimension of a row-major array.
pub(super) fn strides(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for dim in (1..dims.len()).rev() {
        strides[dim - 1] = strides[dim] * dims[dim];
    }
    strides
}

/// Calls `visit` for every index of `dims` in row-major order with one offset for each set of strides.
pub(super) fn for_each<const K: usize>(
    dims: &[usize],
    strides: [&[isize]; K],
    start: [isize; K],
    mut visit: impl FnMut([isize; K]),
) {
    if dims.contains(&0) {
        return;
    }
    let mut index = vec![0; dims.len()];
    let mut offsets = start;
    'all: loop {
        visit(offsets);
        for dim in (0..dims.len()).rev() {
            index[dim] += 1;
            for (offset, strides) in offsets.iter_mut().zip(strides) {
                *offset += strides[dim];
            }
            if index[dim] < dims[dim] {
                continue 'all;
            }
            for (offset, strides) in offsets.iter_mut().zip(strides) {
                *offset -= strides[dim] * signed(dims[dim]);
            }
            index[dim] = 0;
        }
        return;
    }
}

/// A size as an offset. Arrays hold at most `isize::MAX` bytes, so no size in use is cut.
#[inline(always)]
pub(super) fn signed(size: usize) -> isize {
    isize::try_from(size).unwrap_or(isize::MAX)
}

/// An offset as an index; negative ones become `usize::MAX`, which no slice holds.
#[inline(always)]
pub(super) fn index(offset: isize) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// The integers of a view; unsigned ones beyond `i64::MAX` saturate.
pub(super) fn integers(view: ArrayView<'_>) -> Result<Vec<i64>, KernelError> {
    with_element!(view.element(), T => {
        let saturate = |value: T| match i64::try_from(value.to_u64()) {
            Err(_) if T::TYPE == crate::element::ElementType::U64 => i64::MAX,
            _ => value.to_i64(),
        };
        Ok(view.values::<T>()?.iter().copied().map(saturate).collect())
    })
}

use crate::element::Element as _;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;

    #[test]
    fn every_index_is_visited_in_order() {
        let mut seen = Vec::new();
        for_each([2, 3].as_slice(), [&[3, 1], &[-1, 2]], [0, 10], |offsets| {
            seen.push(offsets);
        });
        assert_eq!(seen, [[0, 10], [1, 12], [2, 14], [3, 9], [4, 11], [5, 13]]);
        for_each([].as_slice(), [&[]], [7], |offsets| {
            assert_eq!(offsets, [7]);
        });
        for_each([2, 0].as_slice(), [&[0, 1]], [0], |_| {
            panic!("an empty array has no index")
        });
    }

    #[test]
    fn large_unsigned_indices_saturate() {
        let array = Array::from_values(&[2], &[u64::MAX, 5]).unwrap();
        assert_eq!(integers(array.view()).unwrap(), [i64::MAX, 5]);
        let array = Array::from_values(&[2], &[-1_i8, 5]).unwrap();
        assert_eq!(integers(array.view()).unwrap(), [-1, 5]);
    }
}
