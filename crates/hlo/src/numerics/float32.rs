//! Elementary functions of `f32`.
//!
//! All but a few are free of branches and calls, so that loops over slices vectorise. `exp`, `tanh`, `logistic`, `log`
//! and `erf` are polynomials evaluated in `f32`; the others are evaluated in `f64` and rounded once. Polynomials are
//! minimax fits on the reduced range; constants of the range reduction carry trailing zeros, so that the products with
//! small integers are exact.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "bit patterns are reinterpreted, and results are rounded to f32 on purpose"
)]

/// Adding this to a value below 2^22 leaves its nearest integer in the low bits.
const ROUND32: f32 = 12_582_912.0;
/// Adding this to a value below 2^51 leaves its nearest integer in the low bits.
const ROUND64: f64 = 6_755_399_441_055_744.0;

const LN2_HIGH32: f32 = 0.693_359_4;
const LN2_LOW32: f32 = -2.121_944_4e-4;
const LN2_HIGH64: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN2_LOW64: f64 = 1.908_214_929_270_587_7e-10;

/// Value of the polynomial with the given coefficients, lowest first.
#[inline(always)]
fn polynomial32<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[N - 1];
    let mut index = N - 1;
    while index > 0 {
        index -= 1;
        sum = sum * x + coefficients[index];
    }
    sum
}

/// Value of the polynomial with the given coefficients, lowest first.
#[inline(always)]
fn polynomial64<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = coefficients[N - 1];
    let mut index = N - 1;
    while index > 0 {
        index -= 1;
        sum = sum * x + coefficients[index];
    }
    sum
}

/// `value * 2^exponent` for exponents from -252 to 254, in two exact steps and at most one rounding.
#[inline(always)]
fn scale32(value: f32, exponent: i32) -> f32 {
    let half = exponent >> 1;
    let first = f32::from_bits(((half + 127) << 23) as u32);
    let second = f32::from_bits(((exponent - half + 127) << 23) as u32);
    value * first * second
}

/// `e^x`; at most 1 ulp from the exact value, infinity from 88.73, denormals below -87.34.
#[inline(always)]
#[must_use]
pub(crate) fn exp(x: f32) -> f32 {
    let low = if x < -105.0 { -105.0 } else { x };
    let clamped = if low > 90.0 { 90.0 } else { low };
    let shifted = clamped * std::f32::consts::LOG2_E + ROUND32;
    let integer = shifted - ROUND32;
    let exponent = (shifted.to_bits() as i32).wrapping_sub(ROUND32.to_bits() as i32);
    let r = clamped - integer * LN2_HIGH32 - integer * LN2_LOW32;
    let tail = polynomial32(
        r,
        [
            0.500_000_01,
            0.166_665_13,
            0.041_666_187,
            0.008_369_578,
            0.001_395_178_3,
        ],
    );
    let fraction = 1.0 + (r + r * r * tail);
    // A NaN gives an arbitrary exponent; clamping keeps its arithmetic in range and the fraction keeps the NaN.
    scale32(fraction, exponent.clamp(-252, 254))
}

/// `e^x - 1` of a narrowed argument, in `f64` with a relative error below 1e-13.
#[inline(always)]
fn expm1_wide(x: f64) -> f64 {
    let low = if x < -745.0 { -745.0 } else { x };
    let clamped = if low > 710.0 { 710.0 } else { low };
    let (exponent, tail) = reduce_exponential(clamped);
    let scale = power_of_two(exponent);
    scale * tail + (scale - 1.0)
}

/// `n` and `e^r - 1` with `x = n ln 2 + r`.
#[inline(always)]
fn reduce_exponential(x: f64) -> (i64, f64) {
    let shifted = x * std::f64::consts::LOG2_E + ROUND64;
    let integer = shifted - ROUND64;
    let exponent = (shifted.to_bits() as i64).wrapping_sub(ROUND64.to_bits() as i64);
    let r = x - integer * LN2_HIGH64 - integer * LN2_LOW64;
    let tail = polynomial64(
        r,
        [
            0.500_000_000_000_000_1,
            0.166_666_666_666_666_96,
            0.041_666_666_666_502_407,
            0.008_333_333_333_309_015,
            0.001_388_888_895_069_349,
            1.984_126_991_417_691_7e-4,
            2.480_148_590_833_174_9e-5,
            2.755_721_867_122_163_4e-6,
            2.763_278_843_646_700_2e-7,
            2.511_720_605_785_740_6e-8,
        ],
    );
    (exponent, r + r * r * tail)
}

/// `2^exponent` for exponents from -1022 to 1023; others are clamped.
#[inline(always)]
fn power_of_two(exponent: i64) -> f64 {
    let low = if exponent < -1022 { -1022 } else { exponent };
    let clamped = if low > 1023 { 1023 } else { low };
    f64::from_bits(((clamped + 1023) << 52) as u64)
}

/// `e^x - 1`; correctly rounded but for rare halfway cases.
#[inline(always)]
#[must_use]
pub(crate) fn expm1(x: f32) -> f32 {
    let value = expm1_wide(f64::from(x)) as f32;
    // Also keeps the sign of zero.
    if x.abs() < 1e-8 { x } else { value }
}

/// `ln x` of a positive normal value, with a relative error below 1e-15 away from 1.
#[inline(always)]
fn log_wide(x: f64) -> f64 {
    // The offset moves the significand's range to [sqrt(1/2), sqrt(2)).
    const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    let bits = x.to_bits().wrapping_sub(SQRT_HALF);
    // An i32 converts to f64 in one vector instruction.
    let exponent = f64::from((bits as i64 >> 52) as i32);
    let f = f64::from_bits((bits & ((1 << 52) - 1)).wrapping_add(SQRT_HALF)) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let tail = polynomial64(
        z,
        [
            0.666_666_666_666_673_7,
            0.399_999_999_993_954_67,
            0.285_714_287_482_470_4,
            0.222_221_980_577_297_26,
            0.181_835_930_293_322_47,
            0.153_132_692_524_593_92,
            0.148_042_169_932_917_3,
        ],
    );
    // ln(1 + f) = f - s (f - z * tail), which keeps f exact near 1.
    exponent * LN2_HIGH64 + (exponent * LN2_LOW64 + (f - s * (f - z * tail)))
}

/// `ln x`; at most 1 ulp from the exact value, of denormals too.
#[inline(always)]
#[must_use]
pub(crate) fn log(x: f32) -> f32 {
    const SQRT_HALF: u32 = 0x3f35_04f3;
    let tiny = x < f32::MIN_POSITIVE;
    let scaled = if tiny { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits().wrapping_sub(SQRT_HALF);
    let exponent = (bits as i32 >> 23) as f32 - if tiny { 23.0 } else { 0.0 };
    let f = f32::from_bits((bits & 0x007f_ffff).wrapping_add(SQRT_HALF)) - 1.0;
    let tail = polynomial32(
        f,
        [
            0.333_333_1,
            -0.249_999_87,
            0.200_022_22,
            -0.166_692_34,
            0.142_187_33,
            -0.123_847_36,
            0.118_728_195,
            -0.117_872_834,
            0.069_125_38,
        ],
    );
    let square = f * f;
    let low = exponent * LN2_LOW32 + square * f * tail;
    let value = exponent * LN2_HIGH32 + (f + (low - 0.5 * square));
    let positive = if x < f32::INFINITY { value } else { x };
    let bounded = if x == 0.0 {
        f32::NEG_INFINITY
    } else {
        positive
    };
    if x < 0.0 { f32::NAN } else { bounded }
}

/// `ln(1 + x)`; correctly rounded but for rare halfway cases.
#[inline(always)]
#[must_use]
pub(crate) fn log1p(x: f32) -> f32 {
    let wide = f64::from(x);
    let sum = 1.0 + wide;
    // The rounding of the sum is put back to first order.
    let value = (log_wide(sum) + (wide - (sum - 1.0)) / sum) as f32;
    let regular = if x < f32::INFINITY { value } else { x };
    let bounded = if x == -1.0 {
        f32::NEG_INFINITY
    } else {
        regular
    };
    let real = if x < -1.0 { f32::NAN } else { bounded };
    if x.abs() < 1e-8 { x } else { real }
}

/// Hyperbolic tangent; at most 2 ulp from the exact value, exactly 1 from 9.
#[inline(always)]
#[must_use]
pub(crate) fn tanh(x: f32) -> f32 {
    let magnitude = x.abs();
    let square = x * x;
    let tail = polynomial32(
        square,
        [
            -0.333_333_3,
            0.133_332_1,
            -0.053_947_194,
            0.021_702_91,
            -0.008_182_54,
            0.002_147_422_3,
        ],
    );
    let small = magnitude + magnitude * square * tail;
    let bounded = if magnitude > 9.0 { 9.0 } else { magnitude };
    let large = 1.0 - 2.0 / (exp(2.0 * bounded) + 1.0);
    let value = if magnitude < 0.625 { small } else { large };
    let saturated = if magnitude >= 9.0 { 1.0 } else { value };
    saturated.copysign(x)
}

/// `1 / (1 + e^-x)`; at most 2 ulp from the exact value.
#[inline(always)]
#[must_use]
pub(crate) fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Error function; at most 2 ulp from the exact value.
#[inline(always)]
#[must_use]
pub(crate) fn erf(x: f32) -> f32 {
    let magnitude = x.abs();
    let small = magnitude
        * polynomial32(
            x * x,
            [
                1.128_379_2,
                -0.376_126_38,
                0.112_837_83,
                -0.026_865_445,
                0.005_221_075,
                -8.484_711e-4,
                1.127_054_2e-4,
                -9.680_136e-6,
            ],
        );
    let bounded = if magnitude > 4.0 { 4.0 } else { magnitude };
    let large = 1.0
        - exp(polynomial32(
            bounded,
            [
                1.880_282_4e-4,
                -1.129_578_4,
                -0.633_219_9,
                -0.108_418_57,
                0.025_208_278,
                -0.004_204_579,
                4.413_417_3e-4,
                -2.168_746_1e-5,
            ],
        ));
    let value = if magnitude < 1.0 { small } else { large };
    value.copysign(x)
}

/// Sine and cosine of the argument reduced to a quarter turn, and the number of quarter turns.
#[inline(always)]
fn sine_cosine(x: f32) -> (f64, f64, i64) {
    const HALF_PI_HIGH: f64 = f64::from_bits(0x3ff9_21fb_5000_0000);
    const HALF_PI_MIDDLE: f64 = f64::from_bits(0x3e51_10b4_6000_0000);
    const HALF_PI_LOW: f64 = f64::from_bits(0x3c91_a626_3314_5c06);
    let wide = f64::from(x);
    let shifted = wide * std::f64::consts::FRAC_2_PI + ROUND64;
    let turns = shifted - ROUND64;
    let quadrant = (shifted.to_bits() as i64).wrapping_sub(ROUND64.to_bits() as i64);
    let r = wide - turns * HALF_PI_HIGH - turns * HALF_PI_MIDDLE - turns * HALF_PI_LOW;
    let z = r * r;
    let sine = r + r
        * z
        * polynomial64(
            z,
            [
                -0.166_666_666_666_298_98,
                0.008_333_333_324_957_568,
                -1.984_126_364_680_560_4e-4,
                2.755_531_954_093_832_4e-6,
                -2.475_883_436_431_489_4e-8,
            ],
        );
    let cosine = 1.0 - 0.5 * z
        + z * z
            * polynomial64(
                z,
                [
                    0.041_666_666_666_598_943,
                    -0.001_388_888_887_784_500_5,
                    2.480_158_078_173_134_3e-5,
                    -2.755_553_236_057_446e-7,
                    2.064_548_216_927_079_3e-9,
                ],
            );
    (sine, cosine, quadrant)
}

/// Magnitude up to which the trigonometric functions reduce their argument exactly enough.
pub(crate) const TRIGONOMETRIC_LIMIT: f32 = 33_554_432.0;

/// Sine of a magnitude up to 2^25; correctly rounded but for rare halfway cases.
#[inline(always)]
pub(crate) fn sin_reduced(x: f32) -> f32 {
    let (sine, cosine, quadrant) = sine_cosine(x);
    let value = if quadrant & 1 == 0 { sine } else { cosine };
    let signed = if quadrant & 2 == 0 { value } else { -value };
    if x == 0.0 { x } else { signed as f32 }
}

/// Cosine of a magnitude up to 2^25; correctly rounded but for rare halfway cases.
#[inline(always)]
pub(crate) fn cos_reduced(x: f32) -> f32 {
    let (sine, cosine, quadrant) = sine_cosine(x);
    let value = if quadrant & 1 == 0 { cosine } else { sine };
    let signed = if (quadrant + 1) & 2 == 0 {
        value
    } else {
        -value
    };
    signed as f32
}

/// Tangent of a magnitude up to 2^25; correctly rounded but for rare halfway cases.
#[inline(always)]
pub(crate) fn tan_reduced(x: f32) -> f32 {
    let (sine, cosine, quadrant) = sine_cosine(x);
    let odd = quadrant & 1 != 0;
    let value = if odd { -cosine / sine } else { sine / cosine };
    if x == 0.0 { x } else { value as f32 }
}

/// Sine; correctly rounded but for rare halfway cases.
#[must_use]
pub(crate) fn sin(x: f32) -> f32 {
    if x.abs() < TRIGONOMETRIC_LIMIT {
        sin_reduced(x)
    } else {
        libm::sinf(x)
    }
}

/// Cosine; correctly rounded but for rare halfway cases.
#[must_use]
pub(crate) fn cos(x: f32) -> f32 {
    if x.abs() < TRIGONOMETRIC_LIMIT {
        cos_reduced(x)
    } else {
        libm::cosf(x)
    }
}

/// Tangent; correctly rounded but for rare halfway cases.
#[must_use]
pub(crate) fn tan(x: f32) -> f32 {
    if x.abs() < TRIGONOMETRIC_LIMIT {
        tan_reduced(x)
    } else {
        libm::tanf(x)
    }
}

/// Cube root; correctly rounded but for rare halfway cases.
#[inline(always)]
#[must_use]
pub(crate) fn cbrt(x: f32) -> f32 {
    let wide = f64::from(x).abs();
    // A third of the exponent; the constant restores the bias and centres the error.
    let high = (wide.to_bits() >> 32) as u32;
    let mut root = f64::from_bits(u64::from(high / 3 + 715_094_163) << 32);
    let mut step = 0;
    while step < 3 {
        let cube = root * root * root;
        root *= (cube + 2.0 * wide) / (2.0 * cube + wide);
        step += 1;
    }
    let value = (root as f32).copysign(x);
    if wide > 0.0 && wide < f64::INFINITY {
        value
    } else {
        x
    }
}

/// `x^y` as C's `pow`; correctly rounded but for rare halfway cases.
#[inline(always)]
#[must_use]
pub(crate) fn pow(x: f32, y: f32) -> f32 {
    let magnitude = f64::from(x).abs();
    let exponent = f64::from(y);
    let logarithm = log_wide(magnitude);
    let bounded = if magnitude == 0.0 {
        f64::NEG_INFINITY
    } else {
        logarithm
    };
    let finite = if magnitude < f64::INFINITY {
        bounded
    } else {
        magnitude
    };
    let power = (expm1_wide(exponent * finite) + 1.0) as f32;
    let product = exponent * finite;
    let small = if product < -103.98 { 0.0 } else { power };
    let value = if product > 88.73 {
        f32::INFINITY
    } else {
        small
    };
    let integral = exponent.trunc() == exponent;
    let halved = exponent * 0.5;
    let odd = integral && halved.trunc() != halved;
    let signed = if odd && x.is_sign_negative() {
        -value
    } else {
        value
    };
    let real = if x < 0.0 && x > f32::NEG_INFINITY && !integral {
        f32::NAN
    } else {
        signed
    };
    let known = if x.is_nan() || y.is_nan() {
        x + y
    } else {
        real
    };
    let unit = if x == -1.0 && y.is_infinite() {
        1.0
    } else {
        known
    };
    if x == 1.0 || y == 0.0 { 1.0 } else { unit }
}

/// Angle of the point (`x`, `y`) as C's `atan2`; correctly rounded but for rare halfway cases.
#[inline(always)]
#[must_use]
pub(crate) fn atan2(y: f32, x: f32) -> f32 {
    const TAN_PI_8: f64 = 0.414_213_562_373_095_03;
    let (width, height) = (f64::from(x).abs(), f64::from(y).abs());
    let steep = height > width;
    let (small, large) = if steep {
        (width, height)
    } else {
        (height, width)
    };
    let quotient = small / large;
    let ratio = if large == 0.0 { 0.0 } else { quotient };
    let ratio = if small == f64::INFINITY { 1.0 } else { ratio };
    let past = ratio > TAN_PI_8;
    let t = if past {
        (ratio - 1.0) / (ratio + 1.0)
    } else {
        ratio
    };
    let z = t * t;
    let tail = polynomial64(
        z,
        [
            -0.333_333_333_332_613_84,
            0.199_999_999_829_150_83,
            -0.142_857_128_872_906_58,
            0.111_110_548_487_959_5,
            -0.090_896_225_620_371_17,
            0.076_743_938_375_599_5,
            -0.065_106_871_373_922_67,
            0.050_388_042_636_019_09,
            -0.025_492_417_504_435_533,
        ],
    );
    let reduced = t + t * z * tail;
    let first = if past {
        reduced + std::f64::consts::FRAC_PI_4
    } else {
        reduced
    };
    let quarter = if steep {
        std::f64::consts::FRAC_PI_2 - first
    } else {
        first
    };
    let half = if x.is_sign_negative() {
        std::f64::consts::PI - quarter
    } else {
        quarter
    };
    let value = (half as f32).copysign(y);
    if x.is_nan() || y.is_nan() {
        x + y
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance in units in the last place of the nearest `f32` to `exact`.
    fn ulps(got: f32, exact: f64) -> u32 {
        let rounded = exact as f32;
        if got.is_nan() && rounded.is_nan() {
            return 0;
        }
        let place = |value: f32| {
            let bits = value.to_bits().cast_signed();
            if bits < 0 {
                i32::MIN.wrapping_sub(bits)
            } else {
                bits
            }
        };
        place(got).abs_diff(place(rounded))
    }

    /// A sample of all magnitudes up to `limit`, both signs, and a dense one up to 10.
    fn samples(limit: f32) -> impl Iterator<Item = f32> {
        let patterns = (0..=0x7f7f_ffff_u32).step_by(90_001).map(f32::from_bits);
        let dense = (0_u16..20_000).map(|step| f32::from(step) * 5e-4);
        patterns
            .chain(dense)
            .filter(move |value| *value <= limit)
            .flat_map(|value| [value, -value])
    }

    fn worst(limit: f32, function: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64) -> u32 {
        samples(limit)
            .map(|x| ulps(function(x), exact(f64::from(x))))
            .max()
            .unwrap_or(0)
    }

    #[test]
    fn errors_stay_within_the_stated_bounds() {
        assert!(worst(f32::MAX, exp, f64::exp) <= 1);
        assert!(worst(f32::MAX, expm1, f64::exp_m1) <= 1);
        assert!(worst(f32::MAX, |x| log(x.abs()), |x| x.abs().ln()) <= 1);
        assert!(worst(f32::MAX, log1p, f64::ln_1p) <= 1);
        assert!(worst(8.9, tanh, f64::tanh) <= 2);
        assert!(worst(80.0, logistic, |x| 1.0 / (1.0 + (-x).exp())) <= 2);
        assert!(worst(f32::MAX, erf, libm::erf) <= 2);
        assert!(worst(f32::MAX, sin, f64::sin) <= 1);
        assert!(worst(f32::MAX, cos, f64::cos) <= 1);
        assert!(worst(f32::MAX, tan, f64::tan) <= 1);
        assert!(worst(f32::MAX, cbrt, f64::cbrt) <= 1);
    }

    #[test]
    fn functions_of_two_values_stay_within_their_bounds() {
        let values = [
            -1e30, -7.5, -3.0, -1.0, -0.3, -1e-40, 1e-40, 2e-20, 0.5, 0.999, 1.0, 1.5, 42.0, 3e38,
        ];
        let exponents = [
            -30.0, -2.5, -1.0, -0.1, 0.0, 0.001, 0.5, 1.0, 2.0, 3.0, 17.0, 100.5,
        ];
        for x in values {
            for y in exponents {
                assert!(
                    ulps(pow(x, y), f64::from(x).powf(f64::from(y))) <= 1,
                    "{x} {y}"
                );
            }
            for y in values {
                assert!(
                    ulps(atan2(y, x), f64::from(y).atan2(f64::from(x))) <= 1,
                    "{y} {x}"
                );
            }
        }
    }

    #[test]
    fn special_values_follow_c() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let specials = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -3.0, inf, -inf, nan];
        for x in specials {
            for y in specials {
                let (got, want) = (pow(x, y), x.powf(y));
                assert!(
                    got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
                    "{x}^{y}: {got} {want}"
                );
                let (got, want) = (atan2(y, x), y.atan2(x));
                assert!(
                    ulps(got, f64::from(want)) <= 1 && (got == 0.0) == (want == 0.0),
                    "{y} {x}"
                );
                assert!(
                    got.is_nan() || got.is_sign_negative() == want.is_sign_negative(),
                    "{y} {x}"
                );
            }
        }
        assert_eq!((exp(inf), exp(-inf), exp(88.73)), (inf, 0.0, inf));
        assert_eq!(
            (log(0.0), log(inf), log1p(-1.0), log1p(inf)),
            (-inf, inf, -inf, inf)
        );
        assert!(
            log(-1.0).is_nan() && log1p(-1.5).is_nan() && exp(nan).is_nan() && tanh(nan).is_nan()
        );
        assert!(
            erf(nan).is_nan() && sin(inf).is_nan() && cbrt(nan).is_nan() && logistic(nan).is_nan()
        );
        assert_eq!(
            (tanh(9.0), tanh(-inf), erf(-inf), logistic(-inf)),
            (1.0, -1.0, -1.0, 0.0)
        );
        for function in [expm1, log1p, tanh, erf, sin, tan, cbrt] {
            assert_eq!(function(-0.0).to_bits(), 1 << 31);
        }
    }
}
