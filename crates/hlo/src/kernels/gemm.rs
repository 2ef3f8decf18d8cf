//! Matrix multiplication of the types that arithmetic runs in.
//!
//! `f32` and `f64` go to the `gemm` crate, whose vectorised micro-kernels reach an order of magnitude more than a plain
//! loop that the compiler vectorises; its entry point takes raw pointers, so this is the one file of the crate with unsafe
//! code. All other types take a plain loop.
#![expect(unsafe_code, reason = "the gemm crate takes raw pointers")]

use gemm::Parallelism;
use num_complex::Complex;
use pulp::NullaryFnOnce;

use crate::element::{Pred, S4, U4};
use crate::numerics::{Arithmetic, run};

/// Multiplications above which a product spreads over threads.
const PARALLEL_STEPS: usize = 1 << 21;

/// Where the elements of a matrix lie in a slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix {
    /// Index of the first element.
    pub(super) start: usize,
    /// Distance between rows.
    pub(super) row: usize,
    /// Distance between columns.
    pub(super) column: usize,
}

impl Matrix {
    /// Whether all of `rows` by `columns` lies within `length` elements.
    fn fits(self, rows: usize, columns: usize, length: usize) -> bool {
        let last = |count: usize, step: usize| count.checked_sub(1)?.checked_mul(step);
        last(rows, self.row)
            .zip(last(columns, self.column))
            .and_then(|(row, column)| self.start.checked_add(row)?.checked_add(column))
            .is_some_and(|last| last < length)
    }
}

/// A type that matrices are multiplied in.
pub(super) trait Multiply: Arithmetic {
    /// `out = left × right`, of `m` by `k` and `k` by `n`.
    ///
    /// # Panics
    ///
    /// If a matrix does not lie within its slice.
    fn multiply_matrices(
        size: [usize; 3],
        left: (&[Self], Matrix),
        right: (&[Self], Matrix),
        out: (&mut [Self], Matrix),
    ) {
        plain(size, left, right, out);
    }
}

struct Plain<'a, T> {
    size: [usize; 3],
    left: (&'a [T], Matrix),
    right: (&'a [T], Matrix),
    out: (&'a mut [T], Matrix),
}

impl<T: Arithmetic> NullaryFnOnce for Plain<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let [m, k, n] = self.size;
        let ((left, l), (right, r), (out, o)) = (self.left, self.right, self.out);
        let mut sums = vec![T::ZERO; n];
        for row in 0..m {
            sums.fill(T::ZERO);
            for step in 0..k {
                let factor = left[l.start + row * l.row + step * l.column];
                let start = r.start + step * r.row;
                if r.column == 1 {
                    for (sum, &value) in sums.iter_mut().zip(&right[start..][..n]) {
                        *sum = sum.add(factor.multiply(value));
                    }
                } else {
                    for (column, sum) in sums.iter_mut().enumerate() {
                        *sum = sum.add(factor.multiply(right[start + column * r.column]));
                    }
                }
            }
            for (column, &sum) in sums.iter().enumerate() {
                out[o.start + row * o.row + column * o.column] = sum;
            }
        }
    }
}

/// The product by a plain loop; sums run over `k` in order.
pub(super) fn plain<T: Arithmetic>(
    size: [usize; 3],
    left: (&[T], Matrix),
    right: (&[T], Matrix),
    out: (&mut [T], Matrix),
) {
    run(Plain {
        size,
        left,
        right,
        out,
    });
}

macro_rules! plain_multiply {
    ($($name:ty),*) => {
        $(impl Multiply for $name {})*
    };
}

plain_multiply!(
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
    S4,
    U4,
    Pred,
    Complex<f32>,
    Complex<f64>
);

macro_rules! vector_multiply {
    ($($float:ident),*) => {$(
        impl Multiply for $float {
            fn multiply_matrices(
                size: [usize; 3],
                left: (&[Self], Matrix),
                right: (&[Self], Matrix),
                out: (&mut [Self], Matrix),
            ) {
                let [m, k, n] = size;
                if m == 0 || n == 0 || k == 0 {
                    plain(size, left, right, out);
                    return;
                }
                assert!(left.1.fits(m, k, left.0.len()), "the left matrix exceeds its slice");
                assert!(right.1.fits(k, n, right.0.len()), "the right matrix exceeds its slice");
                assert!(out.1.fits(m, n, out.0.len()), "the result exceeds its slice");
                let step = |step: usize| isize::try_from(step).unwrap_or(isize::MAX);
                let large = m.saturating_mul(n).saturating_mul(k) >= PARALLEL_STEPS;
                let parallelism = if large { Parallelism::Rayon(0) } else { Parallelism::None };
                let target = out.0[out.1.start..].as_mut_ptr();
                let (first, second) = (&left.0[left.1.start..], &right.0[right.1.start..]);
                // SAFETY: every element that the three pointers, sizes and strides address lies within its slice, as
                // asserted above, and `out` is borrowed exclusively, so it overlaps neither operand.
                unsafe {
                    gemm::gemm(
                        m,
                        n,
                        k,
                        target,
                        step(out.1.column),
                        step(out.1.row),
                        false,
                        first.as_ptr(),
                        step(left.1.column),
                        step(left.1.row),
                        second.as_ptr(),
                        step(right.1.column),
                        step(right.1.row),
                        0.0,
                        1.0,
                        false,
                        false,
                        false,
                        parallelism,
                    );
                }
            }
        }
    )*};
}

vector_multiply!(f32, f64);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn product(
        size: [usize; 3],
        transposed: [bool; 3],
        seed: u32,
        threads: usize,
    ) -> (Vec<f32>, Vec<f32>) {
        let [m, k, n] = size;
        let place = |rows: usize, columns: usize, transposed| match transposed {
            false => Matrix {
                start: 0,
                row: columns,
                column: 1,
            },
            true => Matrix {
                start: 0,
                row: 1,
                column: rows,
            },
        };
        let fill = |length: usize, salt: u32| -> Vec<f32> {
            let number = |index: u32| (index.wrapping_mul(2_654_435_761) ^ salt) >> 24;
            (0..u32::try_from(length).unwrap())
                .map(|index| f32::from(u8::try_from(number(index)).unwrap()) - 128.0)
                .collect()
        };
        let (left, right) = (fill(m * k, seed), fill(k * n, !seed));
        let (l, r, o) = (
            place(m, k, transposed[0]),
            place(k, n, transposed[1]),
            place(m, n, transposed[2]),
        );
        let (mut fast, mut slow) = (vec![0.0; m * n], vec![0.0; m * n]);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| f32::multiply_matrices(size, (&left, l), (&right, r), (&mut fast, o)));
        plain(size, (&left, l), (&right, r), (&mut slow, o));
        (fast, slow)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn vectorised_products_match_plain_ones(
            size in [0_usize..40, 0_usize..40, 0_usize..40],
            transposed in any::<[bool; 3]>(),
            seed in any::<u32>(),
        ) {
            // The integers are small enough for every sum to be exact.
            let (fast, slow) = product(size, transposed, seed, 1);
            prop_assert_eq!(fast, slow);
        }
    }

    #[test]
    fn the_number_of_threads_does_not_change_a_bit() {
        let left: Vec<f32> = (0..200 * 300).map(|index| (index as f32).sin()).collect();
        let right: Vec<f32> = (0..300 * 250).map(|index| (index as f32).cos()).collect();
        let multiply = |threads| {
            let mut out = vec![0.0; 200 * 250];
            let place = |columns| Matrix {
                start: 0,
                row: columns,
                column: 1,
            };
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| {
                let size = [200, 300, 250];
                f32::multiply_matrices(
                    size,
                    (&left, place(300)),
                    (&right, place(250)),
                    (&mut out, place(250)),
                );
            });
            out
        };
        assert_eq!(multiply(1), multiply(2));
        assert_eq!(multiply(1), multiply(5));
    }
}
