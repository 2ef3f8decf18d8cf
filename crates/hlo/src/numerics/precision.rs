//! Fewer bits within a type: `reduce-precision`.

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
        assert_eq!((bf16(1.003_906_3), bf16(1.011_718_8)), (1.0, 1.015_625));
    }
}
