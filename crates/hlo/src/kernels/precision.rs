//! `reduce-precision`.

use super::Context;
use crate::array::{ArrayView, ArrayViewMut};
use crate::element::{ElementType, with_element};
use crate::error::KernelError;
use crate::numerics::{Numeric, map, reduce_precision_f32, reduce_precision_f64};

/// `reduce-precision`; types narrower than `f32` are reduced as `f32` and rounded back.
///
/// # Errors
///
/// [`KernelError::Unsupported`] if the elements are not floats.
pub(crate) fn reduce_precision(
    operand: ArrayView<'_>,
    exponent_bits: u32,
    mantissa_bits: u32,
    mut out: ArrayViewMut<'_>,
    _context: Context<'_>,
) -> Result<(), KernelError> {
    let element = operand.element();
    if !element.is_float() {
        let what = format!("reduce-precision of {element}");
        return Err(KernelError::Unsupported { what });
    }
    if element == ElementType::F64 {
        map(
            operand.values::<f64>()?,
            out.values_mut::<f64>()?,
            |value| reduce_precision_f64(value, exponent_bits, mantissa_bits),
        );
        return Ok(());
    }
    with_element!(element, T => {
        map(operand.values::<T>()?, out.values_mut::<T>()?, |value| {
            // Every float narrower than f64 is exact in f32.
            let wide = f32::from_f64(value.to_f64());
            T::from_f64(f64::from(reduce_precision_f32(wide, exponent_bits, mantissa_bits)))
        });
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::testing::{array, run};
    use crate::options::ExecuteOptions;

    #[test]
    fn narrow_types_round_in_single_precision() {
        let options = ExecuteOptions::default();
        let operand = array(&[2], &[1.015_625, 300.0].map(half::bf16::from_f32));
        let got: Vec<half::bf16> = run(&[2], |out| {
            reduce_precision(operand.view(), 4, 3, out, Context { options: &options })
        });
        assert_eq!(got, [1.0, f32::INFINITY].map(half::bf16::from_f32));
    }
}
