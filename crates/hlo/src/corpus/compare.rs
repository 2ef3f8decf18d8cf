//! Comparison with golden values.

use num_complex::Complex;
use serde::Serialize;

use crate::array::{Array, ViewError};
use crate::element::{ElementType, with_element};
use crate::numerics::{Numeric, Ordered};

use super::case::Tolerance;

/// How an output differs from its golden values.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// Elements.
    pub elements: usize,
    /// Elements out of tolerance.
    pub failed: usize,
    /// The largest absolute difference of finite values.
    pub max_difference: f64,
    /// The first element out of tolerance.
    pub first_failed: Option<usize>,
    /// Its value, as text.
    pub found: Option<String>,
    /// Its golden value, as text.
    pub expected: Option<String>,
}

/// Compares an output with golden values, an element passing if it is within
/// tolerance of any.
///
/// # Errors
///
/// [`ViewError`] if the arrays differ in type or size.
pub fn compare(
    found: &Array,
    goldens: &[Array],
    tolerance: Tolerance,
) -> Result<Comparison, ViewError> {
    for golden in goldens {
        let (expected, given) = (golden.shape(), found.shape());
        if expected.element() != given.element() {
            let (expected, found) = (expected.element(), given.element());
            return Err(ViewError::Element { expected, found });
        }
        if expected.dims() != given.dims() {
            let (expected, found) = (expected.byte_size(), given.byte_size());
            return Err(ViewError::Length { expected, found });
        }
    }
    let element = found.shape().element();
    with_element!(element, T => {
        let values = found.values::<T>()?;
        let goldens =
            goldens.iter().map(Array::values::<T>).collect::<Result<Vec<_>, _>>()?;
        let mut report = Comparison {
            elements: values.len(),
            failed: 0,
            max_difference: 0.0,
            first_failed: None,
            found: None,
            expected: None,
        };
        for (index, &value) in values.iter().enumerate() {
            let passes =
                goldens.iter().any(|golden| within(value, golden[index], element, tolerance));
            if let Some(golden) = goldens.first() {
                let difference = (value.to_complex() - golden[index].to_complex()).norm();
                if difference.is_finite() && difference > report.max_difference {
                    report.max_difference = difference;
                }
            }
            if !passes {
                report.failed += 1;
                if report.first_failed.is_none() {
                    report.first_failed = Some(index);
                    report.found = Some(text(value));
                    report.expected = goldens.first().map(|golden| text(golden[index]));
                }
            }
        }
        Ok(report)
    })
}

fn text<T: Numeric>(value: T) -> String {
    if T::TYPE.is_complex() {
        let number = value.to_complex();
        format!("{:?}{:+?}i", number.re, number.im)
    } else if T::TYPE.is_float() {
        format!("{:?}", value.to_f64())
    } else {
        format!("{value:?}")
    }
}

fn within<T: Numeric + Ordered>(
    value: T,
    golden: T,
    element: ElementType,
    tolerance: Tolerance,
) -> bool {
    if let Tolerance::Range { lo, hi } = tolerance {
        return (lo..=hi).contains(&value.to_f64());
    }
    if bytemuck::bytes_of(&value) == bytemuck::bytes_of(&golden) {
        return true;
    }
    if !element.is_float() && !element.is_complex() {
        // Truth values may be any byte but 0.
        return element == ElementType::Pred && value == golden;
    }
    let (found, expected) = (value.to_complex(), golden.to_complex());
    match tolerance {
        Tolerance::Exact => same_part(found.re, expected.re) && same_part(found.im, expected.im),
        Tolerance::Ulp { ulp } => {
            let near = |found, expected| near(found, expected, element.part(), ulp);
            near(found.re, expected.re) && near(found.im, expected.im)
        }
        Tolerance::RtolAtol { rtol, atol } => close(found, expected, rtol, atol),
        Tolerance::Range { .. } => false,
    }
}

fn same_part(found: f64, expected: f64) -> bool {
    (found.is_nan() && expected.is_nan()) || found.to_bits() == expected.to_bits()
}

/// Whether at most `ulp` steps lie between two values of `element`.
fn near(found: f64, expected: f64, element: ElementType, ulp: u64) -> bool {
    if found.is_nan() || expected.is_nan() {
        return found.is_nan() && expected.is_nan();
    }
    let place = |value: f64| -> Option<i128> {
        with_element!(element, T => {
            let stored = T::from_f64(value);
            let mut bits = [0_u8; 16];
            let bytes = bytemuck::bytes_of(&stored);
            bits[..bytes.len()].copy_from_slice(bytes);
            let magnitude = u128::from_le_bytes(bits) & !(1 << (element.bit_width() - 1));
            let magnitude = i128::try_from(magnitude).ok()?;
            Some(if value.is_sign_negative() { -magnitude } else { magnitude })
        })
    };
    match (place(found), place(expected)) {
        (Some(found), Some(expected)) => found.abs_diff(expected) <= u128::from(ulp),
        _ => false,
    }
}

fn close(found: Complex<f64>, expected: Complex<f64>, rtol: f64, atol: f64) -> bool {
    if same_part(found.re, expected.re) && same_part(found.im, expected.im) {
        return true;
    }
    if !expected.re.is_finite() || !expected.im.is_finite() {
        let same =
            |found: f64, expected: f64| (found.is_nan() && expected.is_nan()) || found == expected;
        return same(found.re, expected.re) && same(found.im, expected.im);
    }
    (found - expected).norm() <= atol + rtol * expected.norm()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(found: f32, golden: f32, tolerance: Tolerance) -> bool {
        let array = |value: f32| Array::from_values(&[1], &[value]).unwrap();
        compare(&array(found), &[array(golden)], tolerance)
            .unwrap()
            .failed
            == 0
    }

    #[test]
    fn tolerances_mean_what_they_say() {
        let exact = Tolerance::Exact;
        assert!(passes(f32::NAN, -f32::NAN, exact));
        assert!(!passes(-0.0, 0.0, exact));
        let next = f32::from_bits(1_f32.to_bits() + 2);
        assert!(passes(next, 1.0, Tolerance::Ulp { ulp: 2 }));
        assert!(!passes(next, 1.0, Tolerance::Ulp { ulp: 1 }));
        let close = Tolerance::RtolAtol {
            rtol: 0.1,
            atol: 0.0,
        };
        assert!(passes(1.09, 1.0, close));
        assert!(!passes(1.11, 1.0, close));
        assert!(!passes(f32::INFINITY, 1.0, close));
        assert!(!passes(1.0, f32::INFINITY, close));
        assert!(passes(5.0, f32::NAN, Tolerance::Range { lo: 4.0, hi: 6.0 }));
        assert!(!passes(
            7.0,
            f32::NAN,
            Tolerance::Range { lo: 4.0, hi: 6.0 }
        ));
    }
}
