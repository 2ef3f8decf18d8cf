//! `fft`: transforms of any length over the last one to three dimensions, evaluated in `f64`.

use num_complex::Complex;
use rustfft::{FftDirection, FftPlanner};

use super::Context;
use super::dot::{load_as, store_from};
use crate::array::{ArrayView, ArrayViewMut};
use crate::attributes::{FftDims, FftKind};
use crate::error::KernelError;

type Number = Complex<f64>;

/// `fft`; inverse transforms divide by the number of elements.
///
/// # Errors
///
/// [`KernelError::View`] if a view is not what it says.
pub(crate) fn fft(
    operand: ArrayView<'_>,
    dims: &FftDims,
    out: ArrayViewMut<'_>,
    context: Context<'_>,
) -> Result<(), KernelError> {
    if out.element_count() == 0 {
        return Ok(());
    }
    let rank = operand.dims().len();
    let first = rank.saturating_sub(dims.lengths.len());
    let Some(&last_length) = dims.lengths.last() else {
        return super::movement::slice(operand, &[], out);
    };
    let values = load_as::<Number>(operand, context)?.into_owned();
    let scale = 1.0
        / dims
            .lengths
            .iter()
            .fold(1.0, |product, &length| product * length as f64);
    let mut work = Lines {
        values,
        dims: operand.dims().to_vec(),
    };
    match dims.kind {
        FftKind::Fft => {
            for axis in first..rank {
                work.transform(axis, FftDirection::Forward);
            }
        }
        FftKind::Ifft => {
            for axis in first..rank {
                work.transform(axis, FftDirection::Inverse);
            }
            work.scale(scale);
        }
        FftKind::Rfft => {
            work.transform(rank - 1, FftDirection::Forward);
            work.resize_last(last_length / 2 + 1, |line, kept| {
                kept.copy_from_slice(&line[..kept.len()]);
            });
            for axis in first..rank - 1 {
                work.transform(axis, FftDirection::Forward);
            }
        }
        FftKind::Irfft => {
            for axis in first..rank - 1 {
                work.transform(axis, FftDirection::Inverse);
            }
            work.resize_last(last_length, |half, full| {
                let length = full.len();
                for (position, value) in full.iter_mut().enumerate() {
                    let mirrored = length - position;
                    *value = match half.get(position) {
                        // The ends of the half line stand for themselves, so their imaginary parts drop out.
                        Some(end) if position == 0 || 2 * position == length => {
                            Number::new(end.re, 0.0)
                        }
                        Some(&given) if position <= length / 2 => given,
                        _ => half
                            .get(mirrored)
                            .map_or(Number::new(0.0, 0.0), Complex::conj),
                    };
                }
            });
            work.transform(rank - 1, FftDirection::Inverse);
            work.scale(scale);
        }
    }
    store_from(&work.values, out)
}

/// Complex numbers in row-major order.
struct Lines {
    values: Vec<Number>,
    dims: Vec<usize>,
}

impl Lines {
    fn transform(&mut self, axis: usize, direction: FftDirection) {
        let length = self.dims[axis];
        let plan = FftPlanner::new().plan_fft(length, direction);
        let inner: usize = self.dims[axis + 1..].iter().product();
        let mut scratch = vec![Number::new(0.0, 0.0); plan.get_inplace_scratch_len()];
        if inner == 1 {
            plan.process_with_scratch(&mut self.values, &mut scratch);
            return;
        }
        let mut line = vec![Number::new(0.0, 0.0); length];
        for block in self.values.chunks_mut(length * inner) {
            for offset in 0..inner {
                for (target, source) in line.iter_mut().zip(block[offset..].iter().step_by(inner)) {
                    *target = *source;
                }
                plan.process_with_scratch(&mut line, &mut scratch);
                for (target, source) in block[offset..].iter_mut().step_by(inner).zip(&line) {
                    *target = *source;
                }
            }
        }
    }

    /// Gives the last dimension another size; `fill` makes each new line from the old one.
    fn resize_last(&mut self, size: usize, fill: impl Fn(&[Number], &mut [Number])) {
        let Some(last) = self.dims.last_mut() else {
            return;
        };
        let old = std::mem::replace(last, size);
        let mut values = vec![Number::new(0.0, 0.0); self.values.len() / old * size];
        for (source, target) in self.values.chunks(old).zip(values.chunks_mut(size)) {
            fill(source, target);
        }
        self.values = values;
    }

    fn scale(&mut self, factor: f64) {
        for value in &mut self.values {
            *value *= factor;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::*;
    use crate::kernels::testing::{array, run};
    use crate::options::ExecuteOptions;

    fn signal(length: usize) -> Vec<Number> {
        (0..length)
            .map(|index| Number::new((index as f64).sin(), (index as f64 * 0.7).cos()))
            .collect()
    }

    fn transformed<D: crate::element::Element>(
        values: crate::array::Array,
        kind: FftKind,
        lengths: &[usize],
        out: &[usize],
    ) -> Vec<D> {
        let options = ExecuteOptions::default();
        let dims = FftDims {
            kind,
            lengths: lengths.to_vec(),
        };
        run(out, |out| {
            fft(values.view(), &dims, out, Context { options: &options })
        })
    }

    #[test]
    fn transforms_match_the_definition() {
        for length in [1, 2, 7, 8, 12, 31] {
            let values = signal(length);
            let got: Vec<Number> = transformed(
                array(&[length], &values),
                FftKind::Fft,
                &[length],
                &[length],
            );
            for (frequency, got) in got.iter().enumerate() {
                let want: Number = values
                    .iter()
                    .enumerate()
                    .map(|(time, value)| {
                        value * Number::cis(-TAU * (frequency * time) as f64 / length as f64)
                    })
                    .sum();
                assert!((got - want).norm() < 1e-12 * length as f64);
            }
        }
    }

    #[test]
    fn inverses_undo_transforms() {
        let values = signal(24);
        let forward: Vec<Number> = transformed(
            array(&[2, 3, 4], &values),
            FftKind::Fft,
            &[3, 4],
            &[2, 3, 4],
        );
        let back: Vec<Number> = transformed(
            array(&[2, 3, 4], &forward),
            FftKind::Ifft,
            &[3, 4],
            &[2, 3, 4],
        );
        assert!(
            back.iter()
                .zip(&values)
                .all(|(a, b)| (a - b).norm() < 1e-14)
        );
        for last in [5, 6] {
            let real: Vec<f64> = signal(3 * last).iter().map(|value| value.re).collect();
            let dims = [3, last / 2 + 1];
            let half: Vec<Number> =
                transformed(array(&[3, last], &real), FftKind::Rfft, &[3, last], &dims);
            let back: Vec<f64> =
                transformed(array(&dims, &half), FftKind::Irfft, &[3, last], &[3, last]);
            assert!(back.iter().zip(&real).all(|(a, b)| (a - b).abs() < 1e-14));
        }
    }
}
