//! Elementary functions of complex numbers.
//!
//! Those of `c64` are evaluated in `f64` and rounded once, but for those whose rounding in `f32` shows in XLA's results: the
//! quotient, magnitude, sign, logistic, `exp_m1`, `ln_1p` and sine.

use num_complex::Complex;

use super::RealMath;

/// Mathematics on a complex type; branch cuts as in C's Annex G.
pub(crate) trait ComplexMath: Copy {
    /// Type of the parts.
    type Part;

    /// Quotient.
    fn divide(self, divisor: Self) -> Self;
    /// Magnitude.
    fn absolute(self) -> Self::Part;
    /// e to the power `self`.
    fn exp(self) -> Self;
    /// `exp(self) - 1`, without cancellation.
    fn exp_m1(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// `ln(1 + self)`, without cancellation in the real part.
    fn ln_1p(self) -> Self;
    /// Hyperbolic tangent.
    fn tanh(self) -> Self;
    /// `1 / (1 + exp(-self))`.
    fn logistic(self) -> Self;
    /// Sine.
    fn sin(self) -> Self;
    /// Cosine.
    fn cos(self) -> Self;
    /// Tangent.
    fn tan(self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// Reciprocal of the square root.
    fn rsqrt(self) -> Self;
    /// Principal cube root.
    fn cbrt(self) -> Self;
    /// Principal power.
    fn pow(self, exponent: Self) -> Self;
    /// `-i ln((x + i self) / sqrt(x² + self²))`: the angle when both are real.
    fn atan2(self, x: Self) -> Self;
    /// Unit of the same direction; 0 for 0.
    fn sign(self) -> Self;
}

fn finite_or(value: f64, scale: f64) -> f64 {
    // Avoids infinity times zero.
    if value == 0.0 { value } else { value * scale }
}

impl ComplexMath for Complex<f64> {
    type Part = f64;

    fn divide(self, divisor: Self) -> Self {
        divide64(self, divisor)
    }

    fn absolute(self) -> f64 {
        self.re.hypot(self.im)
    }

    fn exp(self) -> Self {
        let scale = self.re.exp();
        if self.im == 0.0 {
            return Self::new(scale, self.im);
        }
        if self.re == f64::NEG_INFINITY && !self.im.is_finite() {
            return Self::new(0.0, 0.0);
        }
        if self.re == f64::INFINITY && !self.im.is_finite() {
            return Self::new(f64::INFINITY, f64::NAN);
        }
        Self::new(scale * self.im.cos(), scale * self.im.sin())
    }

    fn exp_m1(self) -> Self {
        if self.im == 0.0 {
            return Self::new(self.re.exp_m1(), self.im);
        }
        let half_sine = (self.im * 0.5).sin();
        let real = finite_or(self.im.cos(), self.re.exp_m1()) - 2.0 * half_sine * half_sine;
        Self::new(real, finite_or(self.im.sin(), self.re.exp()))
    }

    fn ln(self) -> Self {
        let magnitude = self.absolute();
        let real = if (0.5..2.0).contains(&magnitude) {
            // Near the unit circle the logarithm of the magnitude cancels.
            let (large, small) = (
                self.re.abs().max(self.im.abs()),
                self.re.abs().min(self.im.abs()),
            );
            0.5 * ((large - 1.0) * (large + 1.0) + small * small).ln_1p()
        } else {
            magnitude.ln()
        };
        Self::new(real, self.im.atan2(self.re))
    }

    fn ln_1p(self) -> Self {
        let magnitude = self.absolute();
        let real = if magnitude < 0.5 {
            0.5 * (self.re * (2.0 + self.re) + self.im * self.im).ln_1p()
        } else {
            Complex::new(1.0 + self.re, self.im).ln().re
        };
        Self::new(real, self.im.atan2(1.0 + self.re))
    }

    fn tanh(self) -> Self {
        if self.re.is_infinite() {
            return Self::new(1f64.copysign(self.re), 0f64.copysign((2.0 * self.im).sin()));
        }
        if self.re.abs() > 22.0 {
            let (sine, cosine) = self.im.sin_cos();
            let decay = (-2.0 * self.re.abs()).exp();
            return Self::new(1f64.copysign(self.re), 4.0 * sine * cosine * decay);
        }
        // Kahan's formula.
        let tangent = self.im.tan();
        let beta = 1.0 + tangent * tangent;
        let sine = self.re.sinh();
        let rho = (1.0 + sine * sine).sqrt();
        if tangent.is_infinite() {
            return Self::new(rho / sine, 1.0 / tangent);
        }
        let denominator = 1.0 + beta * sine * sine;
        Self::new(beta * rho * sine / denominator, tangent / denominator)
    }

    fn logistic(self) -> Self {
        let exponential = ComplexMath::exp(-self);
        ComplexMath::divide(
            Self::new(1.0, 0.0),
            Self::new(1.0 + exponential.re, exponential.im),
        )
    }

    fn sin(self) -> Self {
        let (sine, cosine) = self.re.sin_cos();
        Self::new(
            finite_or(sine, self.im.cosh()),
            finite_or(self.im.sinh(), cosine),
        )
    }

    fn cos(self) -> Self {
        let (sine, cosine) = self.re.sin_cos();
        Self::new(
            finite_or(cosine, self.im.cosh()),
            finite_or(-self.im.sinh(), sine),
        )
    }

    fn tan(self) -> Self {
        let turned = ComplexMath::tanh(Self::new(-self.im, self.re));
        Self::new(turned.im, -turned.re)
    }

    fn sqrt(self) -> Self {
        if self.im.is_infinite() {
            return Self::new(f64::INFINITY, self.im);
        }
        if self.re == 0.0 && self.im == 0.0 {
            return Self::new(0.0, self.im);
        }
        if self.re == f64::INFINITY {
            let small = if self.im.is_nan() {
                self.im
            } else {
                0f64.copysign(self.im)
            };
            return Self::new(f64::INFINITY, small);
        }
        if self.re == f64::NEG_INFINITY {
            let small = if self.im.is_nan() { self.im } else { 0.0 };
            return Self::new(small, f64::INFINITY.copysign(self.im));
        }
        let root = (0.5 * (self.re.abs() + self.absolute())).sqrt();
        if self.re >= 0.0 {
            Self::new(root, self.im / (2.0 * root))
        } else {
            Self::new(self.im.abs() / (2.0 * root), root.copysign(self.im))
        }
    }

    fn rsqrt(self) -> Self {
        if self.re == 0.0 && self.im == 0.0 {
            return Self::new(f64::INFINITY, f64::NAN);
        }
        if self.re.is_infinite() || self.im.is_infinite() {
            return Self::new(0.0, 0.0);
        }
        ComplexMath::divide(Self::new(1.0, 0.0), ComplexMath::sqrt(self))
    }

    fn cbrt(self) -> Self {
        if self.re == 0.0 && self.im == 0.0 {
            return self;
        }
        let angle = self.im.atan2(self.re) / 3.0;
        let magnitude = self.absolute().cbrt();
        Self::new(magnitude * angle.cos(), magnitude * angle.sin())
    }

    fn pow(self, exponent: Self) -> Self {
        if exponent.re == 0.0 && exponent.im == 0.0 {
            return Self::new(1.0, 0.0);
        }
        if self.re == 0.0 && self.im == 0.0 {
            return if exponent.re > 0.0 && exponent.im == 0.0 {
                Self::new(0.0, 0.0)
            } else {
                Self::new(f64::NAN, f64::NAN)
            };
        }
        ComplexMath::exp(exponent * ComplexMath::ln(self))
    }

    fn atan2(self, x: Self) -> Self {
        let length = ComplexMath::sqrt(x * x + self * self);
        let unit = ComplexMath::divide(Self::new(x.re - self.im, x.im + self.re), length);
        let logarithm = ComplexMath::ln(unit);
        Self::new(logarithm.im, -logarithm.re)
    }

    fn sign(self) -> Self {
        let magnitude = self.absolute();
        if magnitude == 0.0 {
            return self;
        }
        Self::new(self.re / magnitude, self.im / magnitude)
    }
}

macro_rules! quotient {
    ($name:ident, $part:ident) => {
        /// Smith's quotient with fused steps, as XLA computes it; C's Annex G for zeros, infinities and NaN.
        fn $name(dividend: Complex<$part>, divisor: Complex<$part>) -> Complex<$part> {
            let (a, b, c, d) = (dividend.re, dividend.im, divisor.re, divisor.im);
            let (real, imaginary) = if c.abs() < d.abs() {
                let ratio = c / d;
                let denominator = c.mul_add(ratio, d);
                (
                    a.mul_add(ratio, b) / denominator,
                    b.mul_add(ratio, -a) / denominator,
                )
            } else {
                let ratio = d / c;
                let denominator = d.mul_add(ratio, c);
                (
                    b.mul_add(ratio, a) / denominator,
                    (-a).mul_add(ratio, b) / denominator,
                )
            };
            if !real.is_nan() || !imaginary.is_nan() {
                return Complex::new(real, imaginary);
            }
            let unit = |value: $part| {
                if value.is_infinite() {
                    1.0
                } else {
                    0.0 as $part
                }
                .copysign(value)
            };
            if c == 0.0 && d == 0.0 && (!a.is_nan() || !b.is_nan()) {
                let infinity = $part::INFINITY.copysign(c);
                return Complex::new(infinity * a, infinity * b);
            }
            if (a.is_infinite() || b.is_infinite()) && c.is_finite() && d.is_finite() {
                let (a, b) = (unit(a), unit(b));
                return Complex::new(
                    $part::INFINITY * (a * c + b * d),
                    $part::INFINITY * (b * c - a * d),
                );
            }
            if (c.is_infinite() || d.is_infinite()) && a.is_finite() && b.is_finite() {
                let (c, d) = (unit(c), unit(d));
                return Complex::new(0.0 * (a * c + b * d), 0.0 * (b * c - a * d));
            }
            Complex::new(real, imaginary)
        }
    };
}

quotient!(divide32, f32);
quotient!(divide64, f64);

/// `e^x - 1` with XLA's error of up to 3 ulp: `tanh(x/2) (e^x + 1)` near 0, with the rational tanh that XLA takes from Eigen.
fn expm1_by_tanh(x: f32) -> f32 {
    const NUMERATOR: [f32; 7] = [
        -2.760_768_5e-16,
        2.000_188e-13,
        -8.604_672e-11,
        5.122_297e-8,
        1.485_722_4e-5,
        6.372_619e-4,
        4.893_524_6e-3,
    ];
    const DENOMINATOR: [f32; 4] = [1.198_258_4e-6, 1.185_347_1e-4, 2.268_434_6e-3, 4.893_525e-3];
    let exponential = RealMath::exp(x);
    if x.abs() > 0.5 || x.is_nan() {
        return exponential - 1.0;
    }
    let half = 0.5 * x;
    if half.abs() < 0.0004 {
        return half * (exponential + 1.0);
    }
    let square = half * half;
    let horner = |coefficients: &[f32]| {
        coefficients
            .iter()
            .fold(0.0, |sum, &next| sum * square + next)
    };
    half * horner(&NUMERATOR) / horner(&DENOMINATOR) * (exponential + 1.0)
}

/// `e^x / 2` and `e^-x / 2`.
fn halved_exponentials(x: f32) -> (f32, f32) {
    let exponential = RealMath::exp(x);
    (0.5 * exponential, 0.5 / exponential)
}

fn widen(value: Complex<f32>) -> Complex<f64> {
    Complex::new(f64::from(value.re), f64::from(value.im))
}

#[expect(clippy::cast_possible_truncation, reason = "rounds to nearest even")]
fn narrow(value: Complex<f64>) -> Complex<f32> {
    Complex::new(value.re as f32, value.im as f32)
}

macro_rules! by_widening {
    ($($unary:ident),*; $($binary:ident),*) => {
        impl ComplexMath for Complex<f32> {
            type Part = f32;

            fn absolute(self) -> f32 {
                let (re, im) = (self.re.abs(), self.im.abs());
                let (small, large) = if re < im { (re, im) } else { (im, re) };
                let ratio = small / large;
                if large == 0.0 || large.is_infinite() || self.re.is_nan() || self.im.is_nan() {
                    return re + im;
                }
                large * (1.0 + ratio * ratio).sqrt()
            }

            fn sign(self) -> Self {
                let magnitude = self.absolute();
                if magnitude == 0.0 { self } else { Self::new(self.re / magnitude, self.im / magnitude) }
            }

            fn logistic(self) -> Self {
                let scale = RealMath::exp(-self.re);
                let (sine, cosine) = (RealMath::sin(-self.im), RealMath::cos(-self.im));
                divide32(Self::new(1.0, 0.0), Self::new(1.0 + scale * cosine, scale * sine))
            }

            fn exp_m1(self) -> Self {
                let minus_one = expm1_by_tanh(self.re);
                // The cosine less one is all that needs more precision.
                let half_sine = RealMath::sin(0.5 * f64::from(self.im));
                #[expect(clippy::cast_possible_truncation, reason = "rounds to nearest even")]
                let deficit = (-2.0 * half_sine * half_sine) as f32;
                let real = minus_one * deficit + minus_one + deficit;
                Self::new(real, (minus_one + 1.0) * RealMath::sin(self.im))
            }

            fn ln_1p(self) -> Self {
                let square = self.re * (self.re + 2.0) + self.im * self.im;
                Self::new(0.5 * RealMath::ln_1p(square), RealMath::atan2(self.im, self.re + 1.0))
            }

            fn sin(self) -> Self {
                let (grown, shrunk) = halved_exponentials(self.im);
                Self::new(RealMath::sin(self.re) * (grown + shrunk), RealMath::cos(self.re) * (grown - shrunk))
            }

            fn divide(self, divisor: Self) -> Self {
                divide32(self, divisor)
            }

            $(fn $unary(self) -> Self {
                narrow(ComplexMath::$unary(widen(self)))
            })*

            $(fn $binary(self, other: Self) -> Self {
                narrow(ComplexMath::$binary(widen(self), widen(other)))
            })*
        }
    };
}

by_widening!(
    exp, ln, tanh, cos, tan, sqrt, rsqrt, cbrt;
    pow, atan2
);

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: Complex<f64>, b: Complex<f64>) -> bool {
        (a - b).norm() <= 1e-14 * b.norm().max(1.0)
    }

    #[test]
    fn functions_agree_with_their_identities() {
        for (re, im) in [
            (0.3, 0.7),
            (-1.2, 0.4),
            (2.0, -3.0),
            (-0.1, -0.2),
            (0.0, 1.0),
        ] {
            let z = Complex::new(re, im);
            assert!(close(ComplexMath::exp(ComplexMath::ln(z)), z));
            let root = ComplexMath::sqrt(z);
            assert!(close(root * root, z));
            assert!(close(ComplexMath::rsqrt(z) * root, Complex::new(1.0, 0.0)));
            let cube = ComplexMath::cbrt(z);
            assert!(close(cube * cube * cube, z));
            assert!(close(ComplexMath::exp_m1(z) + 1.0, ComplexMath::exp(z)));
            assert!(close(ComplexMath::ln_1p(z), ComplexMath::ln(z + 1.0)));
            let (sine, cosine) = (ComplexMath::sin(z), ComplexMath::cos(z));
            assert!(
                (sine * sine + cosine * cosine - 1.0).norm() <= 1e-14 * sine.norm_sqr().max(1.0)
            );
            assert!(close(ComplexMath::tan(z) * cosine, sine));
            assert!(close(ComplexMath::tanh(z), z.tanh()));
            assert!(close(
                z.divide(Complex::new(1.0, 2.0)) * Complex::new(1.0, 2.0),
                z
            ));
        }
    }

    #[test]
    fn quotients_neither_overflow_nor_vanish() {
        let huge = Complex::new(1e300, 1e300);
        assert_eq!(ComplexMath::divide(huge, huge), Complex::new(1.0, 0.0));
        assert_eq!(
            huge.divide(Complex::new(f64::INFINITY, 0.0)),
            Complex::new(0.0, 0.0)
        );
        assert_eq!(
            Complex::new(1.0, 0.0).divide(Complex::new(0.0, 0.0)).re,
            f64::INFINITY
        );
    }
}
