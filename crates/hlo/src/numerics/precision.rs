//! Fewer bits within a type: `reduce-precision` and flushing of denormals.

use half::bf16;
use num_complex::Complex;

use crate::array::ArrayViewMut;
use crate::element::ElementType;
use crate::error::KernelError;

macro_rules! reduce_precision {
    ($name:ident, $float:ident, $bits:ident, $mantissa:expr, $exponent:expr) => {
        /// Rounds to a float of the given field widths, to nearest even, and back. Magnitudes below its smallest
        /// normal value become zero, those beyond its largest infinity; NaN stays NaN, quiet, even without mantissa bits.
        #[inline(always)]
        pub(crate) fn $name(value: $float, exponent_bits: u32, mantissa_bits: u32) -> $float {
            const MANTISSA: u32 = $mantissa;
            const EXPONENT: u32 = $exponent;
            const SIGN: $bits = 1 << (MANTISSA + EXPONENT);
            const INFINITY: $bits = ((1 << EXPONENT) - 1) << MANTISSA;
            if value.is_nan() {
                return $float::from_bits(value.to_bits() | 1 << (MANTISSA - 1));
            }
            let mut bits = value.to_bits();
            if mantissa_bits < MANTISSA {
                let dropped = MANTISSA - mantissa_bits;
                let last = (bits >> dropped) & 1;
                bits = bits.wrapping_add((1 << (dropped - 1)) - 1 + last) & !((1 << dropped) - 1);
            }
            if exponent_bits < EXPONENT {
                let bias: $bits = (1 << (EXPONENT - 1)) - 1;
                let reduced_bias: $bits = (1 << (exponent_bits.max(1) - 1)) - 1;
                let largest = bias + reduced_bias;
                let smallest = bias - reduced_bias + 1;
                let exponent = (bits & INFINITY) >> MANTISSA;
                if exponent > largest {
                    bits = (bits & SIGN) | INFINITY;
                } else if exponent < smallest {
                    bits &= SIGN;
                }
            }
            $float::from_bits(bits)
        }
    };
}

reduce_precision!(reduce_precision_f32, f32, u32, 23, 8);
reduce_precision!(reduce_precision_f64, f64, u64, 52, 11);

/// Flushes denormals to zeros of the same sign, in the types whose denormals XLA flushes on a CPU: `f32`, `f64`,
/// `bf16` and the complex types. Other types stay as they are.
///
/// # Errors
///
/// [`KernelError::View`] if the view is not what it says.
pub(crate) fn flush_denormals(mut values: ArrayViewMut<'_>) -> Result<(), KernelError> {
    match values.element() {
        ElementType::F32 => super::apply(values.values_mut::<f32>()?, flush32),
        ElementType::F64 => super::apply(values.values_mut::<f64>()?, flush64),
        ElementType::BF16 => super::apply(values.values_mut::<bf16>()?, |value| {
            let bits = value.to_bits();
            bf16::from_bits(if bits & 0x7f80 == 0 {
                bits & 0x8000
            } else {
                bits
            })
        }),
        ElementType::C64 => super::apply(values.values_mut::<Complex<f32>>()?, |value| {
            Complex::new(flush32(value.re), flush32(value.im))
        }),
        ElementType::C128 => super::apply(values.values_mut::<Complex<f64>>()?, |value| {
            Complex::new(flush64(value.re), flush64(value.im))
        }),
        _ => {}
    }
    Ok(())
}

#[inline(always)]
fn flush32(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 {
        bits & 0x8000_0000
    } else {
        bits
    })
}

#[inline(always)]
fn flush64(value: f64) -> f64 {
    let bits = value.to_bits();
    f64::from_bits(if bits & 0x7ff0_0000_0000_0000 == 0 {
        bits & (1 << 63)
    } else {
        bits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_exponent_is_reserved() {
        assert_eq!(reduce_precision_f32(240.0, 4, 3), 240.0);
        assert_eq!(reduce_precision_f32(256.0, 4, 3), f32::INFINITY);
        assert_eq!(reduce_precision_f32(-256.0, 4, 3), f32::NEG_INFINITY);
        assert_eq!(reduce_precision_f32(0.015_625, 4, 3), 0.015_625);
        assert_eq!(reduce_precision_f32(-0.007, 4, 3).to_bits(), 1 << 31);
        assert_eq!(
            reduce_precision_f64(1.0 + 1.0 / 1024.0, 5, 10),
            1.0 + 1.0 / 1024.0
        );
        assert!(reduce_precision_f32(f32::from_bits(0x7f80_0001), 5, 2).is_nan());
    }

    #[test]
    fn rounds_to_nearest_even() {
        let bf16 = |value| reduce_precision_f32(value, 8, 7);
        assert_eq!((bf16(1.003_906_25), bf16(1.011_718_75)), (1.0, 1.015_625));
    }
}
