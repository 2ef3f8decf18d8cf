//! `convert` between any two element types.
//!
//! Values pass through a buffer of the widest type of their class, which holds each of them exactly, so that there are as
//! many loops as types rather than as pairs of types. The pairs that models use most have loops of their own.
#![expect(
    clippy::cast_possible_truncation,
    reason = "the casts from floats saturate, as XLA's do"
)]

use half::{bf16, f16};
use num_complex::Complex;

use super::{Numeric, map};
use crate::array::{ArrayView, ArrayViewMut};
use crate::element::{ElementClass, ElementType, Pred, with_element};
use crate::error::KernelError;

const CHUNK: usize = 512;

/// Widest type of a class of numbers.
trait Hub: Copy {
    const ZERO: Self;
    fn take<T: Numeric>(value: T) -> Self;
    fn give<T: Numeric>(self) -> T;
}

impl Hub for f64 {
    const ZERO: Self = 0.0;

    #[inline(always)]
    fn take<T: Numeric>(value: T) -> Self {
        value.to_f64()
    }

    #[inline(always)]
    fn give<T: Numeric>(self) -> T {
        T::from_f64(self)
    }
}

impl Hub for i64 {
    const ZERO: Self = 0;

    #[inline(always)]
    fn take<T: Numeric>(value: T) -> Self {
        value.to_i64()
    }

    #[inline(always)]
    fn give<T: Numeric>(self) -> T {
        T::from_i64(self)
    }
}

impl Hub for u64 {
    const ZERO: Self = 0;

    #[inline(always)]
    fn take<T: Numeric>(value: T) -> Self {
        value.to_u64()
    }

    #[inline(always)]
    fn give<T: Numeric>(self) -> T {
        T::from_u64(self)
    }
}

impl Hub for Complex<f64> {
    const ZERO: Self = Self { re: 0.0, im: 0.0 };

    #[inline(always)]
    fn take<T: Numeric>(value: T) -> Self {
        value.to_complex()
    }

    #[inline(always)]
    fn give<T: Numeric>(self) -> T {
        T::from_complex(self)
    }
}

/// `convert` between any two element types of equal dimensions.
///
/// Floats become integers by truncation, saturating, with 0 for NaN; integers wrap; everything becomes `pred` by
/// comparison with 0; everything else rounds to nearest even. Complex numbers lose their imaginary part.
///
/// # Errors
///
/// [`KernelError::View`] if a view is not what it says.
pub(crate) fn convert(
    operand: ArrayView<'_>,
    mut out: ArrayViewMut<'_>,
) -> Result<(), KernelError> {
    use ElementType as E;
    match (operand.element(), out.element()) {
        (from, to) if from == to && from != E::Pred => {
            out.bytes_mut().copy_from_slice(operand.bytes());
        }
        (E::F32, E::BF16) => pair::<f32, bf16>(operand, out, Numeric::store)?,
        (E::BF16, E::F32) => pair::<bf16, f32>(operand, out, Numeric::load)?,
        (E::F32, E::F16) => pair::<f32, f16>(operand, out, Numeric::store)?,
        (E::F16, E::F32) => pair::<f16, f32>(operand, out, Numeric::load)?,
        (E::F32, E::S32) => pair::<f32, i32>(operand, out, |value| value as i32)?,
        (E::S32, E::F32) => pair::<i32, f32>(operand, out, |value| value as f32)?,
        (E::Pred, E::F32) => {
            pair::<Pred, f32>(operand, out, |value| if value.0 == 0 { 0.0 } else { 1.0 })?;
        }
        (E::Pred, E::S32) => pair::<Pred, i32>(operand, out, |value| i32::from(value.0 != 0))?,
        (from, _) => match from.class() {
            ElementClass::Float => through::<f64>(operand, out)?,
            ElementClass::Signed => through::<i64>(operand, out)?,
            ElementClass::Unsigned | ElementClass::Pred => through::<u64>(operand, out)?,
            ElementClass::Complex => through::<Complex<f64>>(operand, out)?,
        },
    }
    Ok(())
}

fn pair<S: Numeric, D: Numeric>(
    operand: ArrayView<'_>,
    mut out: ArrayViewMut<'_>,
    function: impl Fn(S) -> D,
) -> Result<(), KernelError> {
    map(operand.values::<S>()?, out.values_mut::<D>()?, function);
    Ok(())
}

fn through<H: Hub>(operand: ArrayView<'_>, mut out: ArrayViewMut<'_>) -> Result<(), KernelError> {
    let mut buffer = [H::ZERO; CHUNK];
    let count = operand.element_count().min(out.element_count());
    for start in (0..count).step_by(CHUNK) {
        let end = count.min(start + CHUNK);
        let hub = &mut buffer[..end - start];
        with_element!(operand.element(), T => {
            map(&operand.values::<T>()?[start..end], hub, H::take::<T>);
        });
        with_element!(out.element(), T => {
            map(hub, &mut out.values_mut::<T>()?[start..end], H::give::<T>);
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::element::{Element, F8E4M3FN, S4, U4};
    use crate::shape::ArrayShape;

    fn converted<S: Element, D: Element>(values: &[S]) -> Vec<D> {
        let source = Array::from_values(&[values.len()], values).unwrap();
        let shape = ArrayShape::new(D::TYPE, [values.len()]).unwrap();
        let mut buffer = crate::array::Buffer::zeroed(shape.byte_size()).unwrap();
        let out = ArrayViewMut::new(D::TYPE, shape.dims(), buffer.bytes_mut()).unwrap();
        convert(source.view(), out).unwrap();
        bytemuck::cast_slice(buffer.bytes()).to_vec()
    }

    #[test]
    fn floats_truncate_and_saturate() {
        let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1.9, 300.5, 3e9];
        assert_eq!(
            converted::<_, i32>(&values),
            [0, i32::MAX, i32::MIN, -1, 300, i32::MAX]
        );
        assert_eq!(converted::<_, u8>(&values), [0, 255, 0, 0, 255, 255]);
        assert_eq!(converted::<_, S4>(&values), [0, 7, -8, -1, 7, 7].map(S4));
        assert_eq!(converted::<_, U4>(&values), [0, 15, 0, 0, 15, 15].map(U4));
        assert_eq!(
            converted::<_, Pred>(&[f32::NAN, 0.0, -0.0, 0.1]),
            [1, 0, 0, 1].map(Pred)
        );
    }

    #[test]
    fn integers_wrap_and_extend() {
        assert_eq!(converted::<_, i8>(&[-1_i64, 200, 1 << 40]), [-1, -56, 0]);
        assert_eq!(converted::<_, i64>(&[-1_i8]), [-1]);
        assert_eq!(converted::<_, u64>(&[-1_i8]), [u64::MAX]);
        assert_eq!(converted::<_, i32>(&[u32::MAX]), [-1]);
        assert_eq!(
            converted::<_, f32>(&[u64::MAX]),
            [18_446_744_073_709_551_615.0]
        );
        assert_eq!(converted::<_, Pred>(&[0_u16, 256]), [0, 1].map(Pred));
        assert_eq!(
            converted::<_, F8E4M3FN>(&[449_i32, 465]),
            [0x7e, 0x7f].map(F8E4M3FN)
        );
    }

    #[test]
    fn chunks_join_seamlessly() {
        let values: Vec<f64> = (0..1500).map(f64::from).collect();
        let floats = converted::<f64, f16>(&values);
        assert!(
            floats
                .iter()
                .zip(&values)
                .all(|(a, b)| f64::from(a.to_f32()) == *b)
        );
    }

    #[test]
    fn complex_numbers_lose_their_imaginary_part() {
        assert_eq!(converted::<_, f32>(&[Complex::new(1.5_f64, 2.0)]), [1.5]);
        assert_eq!(
            converted::<_, Complex<f64>>(&[2_i32]),
            [Complex::new(2.0, 0.0)]
        );
    }
}
