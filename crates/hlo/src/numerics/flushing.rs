//! Arithmetic under flush-to-zero, where XLA's results on a CPU are more than operands and results flushed.
//!
//! Operations on `f32`, `f64` and `bf16` flush denormal operands and results to zeros of the same sign, with these
//! exceptions (jax 0.10.2): abs, negate, copy, bitcast, select, sine, tan, exponential-minus-one, remainder and all but `f64`
//! tanh keep them; cbrt, power and atan2 are the functions of this module. The types of 16 bits and fewer other than `bf16` keep
//! their denormals, which are normal numbers in `f32`.
#![expect(clippy::cast_possible_truncation, reason = "rounds to f32 on purpose")]

use super::RealMath;

/// Mathematics on `f32` and `f64` with denormals as XLA's CPU code treats them.
pub(crate) trait FlushingMath: RealMath {
    /// The value, or a zero of the same sign for a denormal.
    fn flush(self) -> Self;

    /// Cube root. Of every denormal `f32` it is the same small negative number, as XLA's iteration gives.
    fn cbrt_flushed(self) -> Self;

    /// Power. A denormal base counts as half the smallest denormal, which is what XLA's logarithm takes it for.
    fn pow_flushed(self, exponent: Self) -> Self;

    /// Angle of the point (`x`, `self`). Two denormal `f32` have none: NaN, from XLA's division of zero by zero. A denormal
    /// `f64` over a negative number has the angle -pi whatever its sign.
    fn atan2_flushed(self, x: Self) -> Self;
}

macro_rules! flushing_math {
    ($($float:ident: $half_smallest:expr, $cbrt:expr, $atan2:expr;)*) => {$(
        impl FlushingMath for $float {
            #[inline(always)]
            fn flush(self) -> Self {
                if self.abs() < Self::MIN_POSITIVE { (0.0 as $float).copysign(self) } else { self }
            }

            #[inline(always)]
            fn cbrt_flushed(self) -> Self {
                if self.is_subnormal() { $cbrt(self) } else { RealMath::cbrt(self) }
            }

            #[inline(always)]
            fn pow_flushed(self, exponent: Self) -> Self {
                if !self.is_subnormal() {
                    return RealMath::pow(self, exponent.flush()).flush();
                }
                let exponent = exponent.flush();
                // The sign and the special exponents are those of any small base.
                let sign = RealMath::pow(Self::MIN_POSITIVE.copysign(self), exponent);
                if sign.is_nan() || exponent == 0.0 || exponent.is_infinite() {
                    return sign;
                }
                $half_smallest(exponent).flush().copysign(sign)
            }

            #[inline(always)]
            fn atan2_flushed(self, x: Self) -> Self {
                if !self.is_subnormal() {
                    return RealMath::atan2(self, x.flush()).flush();
                }
                $atan2(self, x)
            }
        }
    )*};
}

flushing_math! {
    f32: |exponent: f32| 2_f64.powi(-150).powf(f64::from(exponent)) as f32, |_| -5.595_173_5e-16, denormal_angle_f32;
    f64: |exponent: f64| f64::from_bits(1).powf(exponent) * 0.5_f64.powf(exponent), |value: f64| 0_f64.copysign(value),
        denormal_angle_f64;
}

/// Angle of the point (`x`, `y`) with a denormal `y`.
fn denormal_angle_f32(y: f32, x: f32) -> f32 {
    if x.is_subnormal() {
        return f32::NAN;
    }
    if x == 1.0 {
        return y;
    }
    RealMath::atan2(if x == 0.0 { y } else { y.flush() }, x)
}

/// Angle of the point (`x`, `y`) with a denormal `y`.
fn denormal_angle_f64(y: f64, x: f64) -> f64 {
    match x.flush() {
        0.0 => std::f64::consts::FRAC_PI_2.copysign(y),
        x if x < 0.0 && x.is_finite() => -std::f64::consts::PI,
        x => RealMath::atan2(y.flush(), x),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that jax 0.10.2 computes.
    #[test]
    fn denormal_bases_count_as_half_the_smallest() {
        assert_eq!(1e-45_f32.pow_flushed(0.5), 2.646_978e-23);
        assert_eq!(1e-40_f32.pow_flushed(0.1), 3.051_757_3e-5);
        assert_eq!((-1e-38_f32).pow_flushed(-1.0), f32::NEG_INFINITY);
        assert!((-1e-38_f32).pow_flushed(0.5).is_nan());
        assert_eq!(1e-310_f64.pow_flushed(-0.5), 537.5_f64.exp2());
        assert_eq!(5e-324_f64.pow_flushed(0.1), 4.357_881_996_052_605e-33);
        assert_eq!((-1e-310_f64).pow_flushed(1.0).to_bits(), 1 << 63);
    }

    #[test]
    fn two_denormals_have_no_angle() {
        assert!(1e-40_f32.atan2_flushed(-1e-40).is_nan());
        assert_eq!(1e-40_f32.atan2_flushed(0.0), std::f32::consts::FRAC_PI_2);
        assert_eq!(1e-45_f32.atan2_flushed(0.001), 0.0);
        assert_eq!((-0.0_f32).atan2_flushed(0.0).to_bits(), 1 << 31);
    }

    #[test]
    fn denormal_doubles_have_xlas_angles() {
        use std::f64::consts::{FRAC_PI_2, PI};
        let angles = [
            (5e-324, 5e-324, FRAC_PI_2),
            (-1e-310, -5e-324, -FRAC_PI_2),
            (5e-324, -1.0, -PI),
            (-1e-310, -7.7, -PI),
            (5e-324, f64::NEG_INFINITY, PI),
            (5e-324, 1.0, 0.0),
            (1.0, -5e-324, FRAC_PI_2),
        ];
        for (y, x, angle) in angles {
            assert_eq!(y.atan2_flushed(x), angle, "{y} over {x}");
        }
    }
}
