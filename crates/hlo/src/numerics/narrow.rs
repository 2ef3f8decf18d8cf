//! Floating-point formats narrower than 32 bits.
//!
//! `f16` and `bf16` use the types of the `half` crate, with branch-free conversions here so that loops over slices
//! vectorise. The formats of eight bits and fewer are the newtypes
//! of [`element`](crate::element). Values are rounded to nearest, ties to
//! even; what happens beyond the largest finite value follows the format (XLA `primitive_util`, OCP 8-bit floating point
//! specification 1.0, OCP microscaling formats 1.0):
//!
//! | format | bias | largest | overflow | NaN |
//! |---|---|---|---|---|
//! | f8e5m2 | 15 | 57344 | infinity | exponent all ones |
//! | f8e4m3 | 7 | 240 | infinity | exponent all ones |
//! | f8e3m4 | 3 | 15.5 | infinity | exponent all ones |
//! | f8e4m3fn | 7 | 448 | NaN | 0x7f, 0xff |
//! | f8e4m3b11fnuz | 11 | 30 | NaN | 0x80 |
//! | f8e5m2fnuz | 16 | 57344 | NaN | 0x80 |
//! | f8e4m3fnuz | 8 | 240 | NaN | 0x80 |
//! | f4e2m1fn | 1 | 6 | 6 | none: becomes zero of the opposite sign |
//! | f8e8m0fnu | 127 | 2^127 | NaN | 0xff; zero and negative values too |
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "codes are masked to the width of their format before they are narrowed"
)]

use half::{bf16, f16};

use crate::element::{
    F4E2M1FN, F8E3M4, F8E4M3, F8E4M3B11FNUZ, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU,
};

/// What a format does with the codes beyond its largest finite value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Special {
    /// The largest exponent holds infinity and NaN.
    Ieee,
    /// No infinity; the code with all bits set is NaN.
    Nan,
    /// No infinity and no negative zero, whose code is NaN.
    Unsigned,
    /// Finite values only; overflow saturates.
    Finite,
}

#[derive(Clone, Copy)]
struct Format {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    special: Special,
}

impl Format {
    const fn new(exponent_bits: u32, mantissa_bits: u32, bias: i32, special: Special) -> Self {
        Self {
            exponent_bits,
            mantissa_bits,
            bias,
            special,
        }
    }

    const fn sign_bit(self) -> u32 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    /// Smallest magnitude code that is not finite, or the first code outside the format.
    const fn first_special(self) -> u32 {
        match self.special {
            Special::Ieee => ((1 << self.exponent_bits) - 1) << self.mantissa_bits,
            Special::Nan => self.sign_bit() - 1,
            Special::Unsigned | Special::Finite => self.sign_bit(),
        }
    }

    /// Code of `value`, rounded to nearest even once.
    #[inline(always)]
    const fn encode(self, value: f64) -> u32 {
        let bits = value.to_bits();
        let sign = if bits >> 63 == 1 { self.sign_bit() } else { 0 };
        let magnitude = bits & (u64::MAX >> 1);
        if magnitude > 0x7ff0_0000_0000_0000 {
            return match self.special {
                Special::Ieee => self.first_special() | (1 << (self.mantissa_bits - 1)) | sign,
                Special::Nan => self.first_special() | sign,
                Special::Unsigned => self.sign_bit(),
                Special::Finite => self.sign_bit() ^ sign,
            };
        }
        let exponent = (magnitude >> 52) as i32 - 1023;
        let smallest = 1 - self.bias;
        let significand =
            (magnitude & ((1 << 52) - 1)) | if exponent > -1023 { 1 << 52 } else { 0 };
        // Below the smallest normal value the quantum stays that of the smallest normal value.
        let deficit = if exponent < smallest {
            smallest - exponent
        } else {
            0
        };
        let wide_shift = 52 - self.mantissa_bits as i32 + deficit;
        let shift = if wide_shift > 54 { 54 } else { wide_shift };
        let kept = significand >> shift;
        let rest = significand & ((1 << shift) - 1);
        let half = 1 << (shift - 1);
        let up = rest > half || (rest == half && kept & 1 == 1);
        let quotient = kept + up as u64;
        let step = if exponent > smallest {
            (exponent - smallest) as u64
        } else {
            0
        };
        let code = (step << self.mantissa_bits) + quotient;
        if code >= self.first_special() as u64 {
            return match self.special {
                Special::Ieee | Special::Nan => self.first_special() | sign,
                Special::Unsigned => self.sign_bit(),
                Special::Finite => (self.sign_bit() - 1) | sign,
            };
        }
        if matches!(self.special, Special::Unsigned) && code == 0 {
            return 0;
        }
        code as u32 | sign
    }

    /// Value of `code`; every value of these formats is exact in `f32`.
    const fn decode(self, code: u32) -> f32 {
        let sign = if code & self.sign_bit() != 0 {
            1u32 << 31
        } else {
            0
        };
        let magnitude = code & (self.sign_bit() - 1);
        if matches!(self.special, Special::Unsigned) && code == self.sign_bit() {
            return f32::NAN;
        }
        if magnitude >= self.first_special() {
            let payload = magnitude - self.first_special();
            return match self.special {
                Special::Ieee if payload == 0 => f32::from_bits(0x7f80_0000 | sign),
                _ => f32::from_bits(0x7fc0_0000 | sign),
            };
        }
        let exponent = (magnitude >> self.mantissa_bits) as i32;
        let mantissa = magnitude & ((1 << self.mantissa_bits) - 1);
        if exponent > 0 {
            let biased = (exponent - self.bias + 127) as u32;
            return f32::from_bits(sign | (biased << 23) | (mantissa << (23 - self.mantissa_bits)));
        }
        let quantum_exponent = 1 - self.bias - self.mantissa_bits as i32;
        let quantum = f32::from_bits(((quantum_exponent + 127) as u32) << 23);
        let value = mantissa as f32 * quantum;
        f32::from_bits(value.to_bits() | sign)
    }

    const fn table(self) -> [f32; 256] {
        let mut table = [0.0; 256];
        let mut code = 0;
        while code < 256 {
            table[code as usize] = self.decode(code & (2 * self.sign_bit() - 1));
            code += 1;
        }
        table
    }
}

macro_rules! small_float {
    ($($name:ident: $format:expr;)*) => {$(
        impl $name {
            const FORMAT: Format = $format;
            const TABLE: [f32; 256] = Self::FORMAT.table();

            /// The value, exactly.
            #[inline(always)]
            #[must_use]
            pub(crate) fn to_f32(self) -> f32 {
                Self::TABLE[usize::from(self.0)]
            }

            /// Rounds once to nearest even.
            #[inline(always)]
            #[must_use]
            pub(crate) const fn from_f64(value: f64) -> Self {
                Self(Self::FORMAT.encode(value) as u8)
            }

            /// Rounds once to nearest even.
            #[inline(always)]
            #[must_use]
            pub(crate) const fn from_f32(value: f32) -> Self {
                Self::from_f64(value as f64)
            }
        }
    )*};
}

small_float! {
    F8E5M2: Format::new(5, 2, 15, Special::Ieee);
    F8E4M3: Format::new(4, 3, 7, Special::Ieee);
    F8E3M4: Format::new(3, 4, 3, Special::Ieee);
    F8E4M3FN: Format::new(4, 3, 7, Special::Nan);
    F8E4M3B11FNUZ: Format::new(4, 3, 11, Special::Unsigned);
    F8E5M2FNUZ: Format::new(5, 2, 16, Special::Unsigned);
    F8E4M3FNUZ: Format::new(4, 3, 8, Special::Unsigned);
    F4E2M1FN: Format::new(2, 1, 1, Special::Finite);
}

impl F8E8M0FNU {
    /// The value, exactly.
    #[inline(always)]
    #[must_use]
    pub(crate) const fn to_f32(self) -> f32 {
        f32::from_bits(match self.0 {
            0 => 0x0040_0000,
            255 => 0x7fc0_0000,
            code => (code as u32) << 23,
        })
    }

    /// Rounds to the nearest power of two, halves up; zero, negative values and overflow become NaN.
    #[inline(always)]
    #[must_use]
    pub(crate) const fn from_f64(value: f64) -> Self {
        let bits = value.to_bits();
        if bits == 0 || bits >= 0x7ff0_0000_0000_0000 {
            return Self(255);
        }
        let biased = ((bits + (1 << 51)) >> 52) as i32 - 1023 + 127;
        Self(if biased < 0 {
            0
        } else if biased > 254 {
            255
        } else {
            biased as u8
        })
    }

    /// Rounds to the nearest power of two, halves up; zero, negative values and overflow become NaN.
    #[inline(always)]
    #[must_use]
    pub(crate) const fn from_f32(value: f32) -> Self {
        Self::from_f64(value as f64)
    }
}

/// Widens a `bf16` exactly.
#[inline(always)]
#[must_use]
pub(crate) fn bf16_to_f32(value: bf16) -> f32 {
    f32::from_bits(u32::from(value.to_bits()) << 16)
}

/// Rounds an `f32` to `bf16`, to nearest even; a NaN stays a NaN, made quiet.
#[inline(always)]
#[must_use]
pub(crate) fn bf16_from_f32(value: f32) -> bf16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x40;
    bf16::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 {
        quiet
    } else {
        rounded
    } as u16)
}

/// Widens an `f16` exactly.
#[inline(always)]
#[must_use]
pub(crate) fn f16_to_f32(value: f16) -> f32 {
    const REBIAS: f32 = f32::from_bits((127 + 112) << 23);
    let code = u32::from(value.to_bits());
    let shifted = (code & 0x7fff) << 13;
    // Scaling by 2^112 moves the exponent bias from 15 to 127 and normalises denormals.
    let scaled = (f32::from_bits(shifted) * REBIAS).to_bits();
    let magnitude = if shifted >= 0x0f80_0000 {
        shifted | 0x7f80_0000
    } else {
        scaled
    };
    f32::from_bits(magnitude | ((code & 0x8000) << 16))
}

/// Rounds an `f32` to `f16`, to nearest even; magnitudes from 65520 become infinite.
#[inline(always)]
#[must_use]
pub(crate) fn f16_from_f32(value: f32) -> f16 {
    const DENORMAL_MAGIC: u32 = (127 - 15 + 23 - 10 + 1) << 23;
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let sign = (bits >> 16) & 0x8000;
    let normal = magnitude
        .wrapping_sub(112 << 23)
        .wrapping_add(0xfff + ((magnitude >> 13) & 1))
        >> 13;
    // Adding the magic number lets the adder round at the quantum of f16 denormals.
    let aligned = f32::from_bits(magnitude) + f32::from_bits(DENORMAL_MAGIC);
    let denormal = aligned.to_bits().wrapping_sub(DENORMAL_MAGIC);
    let special = if magnitude > 0x7f80_0000 {
        0x7e00
    } else {
        0x7c00
    };
    let finite = if magnitude < (113 << 23) {
        denormal
    } else {
        normal
    };
    let code = if magnitude >= (143 << 23) {
        special
    } else {
        finite
    };
    f16::from_bits((code | sign) as u16)
}

/// Rounds an `f64` to `f16` once, to nearest even.
#[must_use]
pub(crate) const fn f16_from_f64(value: f64) -> f16 {
    f16::from_bits(Format::new(5, 10, 15, Special::Ieee).encode(value) as u16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn limits_follow_each_format() {
        assert_eq!(F8E4M3FN::from_f32(464.0).0, 0x7e);
        assert_eq!(F8E4M3FN::from_f32(464.1).0, 0x7f);
        assert_eq!(F8E4M3FN::from_f32(f32::NEG_INFINITY).0, 0xff);
        assert_eq!(F8E5M2::from_f32(61439.9).0, 0x7b);
        assert_eq!(F8E5M2::from_f32(61440.0).0, 0x7c);
        assert_eq!(F8E4M3(0x78).to_f32(), f32::INFINITY);
        assert!(F8E4M3FN(0x7f).to_f32().is_nan());
        assert_eq!(F8E4M3FN(0x78).to_f32(), 256.0);
        assert_eq!(F8E4M3B11FNUZ::from_f32(-0.0).0, 0);
        assert_eq!(F8E5M2FNUZ::from_f32(1e9).0, 0x80);
        assert_eq!(F4E2M1FN::from_f32(1e9).0, 7);
        assert_eq!(F4E2M1FN::from_f32(f32::NAN).0, 8);
    }

    /// (largest finite, smallest normal, smallest denormal) as `ml_dtypes.finfo` gives them.
    #[test]
    fn ranges_match_the_published_ones() {
        assert_eq!(F8E3M4(0x6f).to_f32(), 15.5);
        assert_eq!(F8E3M4(0x10).to_f32(), 0.25);
        assert_eq!(F8E3M4(0x01).to_f32(), 0.015625);
        assert_eq!(F8E4M3B11FNUZ(0x7f).to_f32(), 30.0);
        assert_eq!(F8E4M3B11FNUZ(0x01).to_f32(), 1.220_703_1e-4);
        assert_eq!(F8E4M3FNUZ(0x7f).to_f32(), 240.0);
        assert_eq!(F8E5M2FNUZ(0x7f).to_f32(), 57344.0);
        assert_eq!(F8E5M2FNUZ(0x01).to_f32(), 7.629_394_5e-6);
        assert_eq!(F4E2M1FN(1).to_f32(), 0.5);
    }

    #[test]
    fn scale_format_rounds_halves_up() {
        let codes = [
            (1.5, 128),
            (3.0, 129),
            (6.0, 130),
            (2f32.powi(-127), 0),
            (1e-45, 0),
            (0.0, 255),
            (-1.0, 255),
        ];
        for (value, code) in codes {
            assert_eq!(F8E8M0FNU::from_f32(value).0, code, "{value}");
        }
        assert_eq!(F8E8M0FNU(0).to_f32(), 2f32.powi(-127));
    }

    #[test]
    fn codes_survive_a_round_trip() {
        fn check(to: impl Fn(u8) -> f32, from: impl Fn(f32) -> u8, codes: u16) {
            for code in 0..codes {
                let code = u8::try_from(code).unwrap();
                let value = to(code);
                if value.is_nan() {
                    assert!(to(from(value)).is_nan());
                } else {
                    assert_eq!(from(value), code, "{value}");
                }
            }
        }
        check(|c| F8E5M2(c).to_f32(), |v| F8E5M2::from_f32(v).0, 256);
        check(|c| F8E4M3(c).to_f32(), |v| F8E4M3::from_f32(v).0, 256);
        check(|c| F8E3M4(c).to_f32(), |v| F8E3M4::from_f32(v).0, 256);
        check(|c| F8E4M3FN(c).to_f32(), |v| F8E4M3FN::from_f32(v).0, 256);
        check(
            |c| F8E4M3B11FNUZ(c).to_f32(),
            |v| F8E4M3B11FNUZ::from_f32(v).0,
            256,
        );
        check(
            |c| F8E5M2FNUZ(c).to_f32(),
            |v| F8E5M2FNUZ::from_f32(v).0,
            256,
        );
        check(
            |c| F8E4M3FNUZ(c).to_f32(),
            |v| F8E4M3FNUZ::from_f32(v).0,
            256,
        );
        check(|c| F4E2M1FN(c).to_f32(), |v| F4E2M1FN::from_f32(v).0, 16);
        check(|c| F8E8M0FNU(c).to_f32(), |v| F8E8M0FNU::from_f32(v).0, 256);
    }

    #[test]
    fn a_nan_with_only_low_payload_stays_a_nan() {
        let value = f32::from_bits(0x7f80_0001);
        assert!(bf16_from_f32(value).is_nan());
        assert!(f16_from_f32(value).is_nan());
    }

    #[test]
    fn half_precision_matches_the_half_crate_for_all_codes() {
        for code in 0..=u16::MAX {
            let (own, other) = (
                f16_to_f32(f16::from_bits(code)),
                f16::from_bits(code).to_f32(),
            );
            assert!(
                own.to_bits() == other.to_bits() || (own.is_nan() && other.is_nan()),
                "{code:x}"
            );
            assert_eq!(
                bf16_to_f32(bf16::from_bits(code)).to_bits(),
                u32::from(code) << 16
            );
        }
    }

    proptest! {
        #[test]
        fn narrowing_matches_other_implementations(bits in any::<u32>()) {
            let value = f32::from_bits(bits);
            if !value.is_nan() {
                prop_assert_eq!(f16_from_f32(value), f16::from_f32_const(value));
                prop_assert_eq!(f16_from_f32(value), f16_from_f64(f64::from(value)));
                prop_assert_eq!(bf16_from_f32(value), bf16::from_f32(value));
                if value.abs() <= 57344.0 {
                    prop_assert_eq!(F8E5M2::from_f32(value).0, float8::F8E5M2::from_f32(value).to_bits());
                }
                let wide = F8E4M3FN::from_f32(value).to_f32();
                let finite = value.abs() < 448.0;
                prop_assert!(!finite || (wide - value).abs() <= (value.abs() / 16.0).max(0.001));
            }
        }
    }
}
