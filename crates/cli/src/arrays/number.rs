//! Elements as numbers, whatever their type: for printing and comparison.

use metaneff_binding::DType;

/// The parts of a float: bits of its exponent and of its mantissa, and whether
/// the largest exponent is for infinities and NaNs, or for one NaN only.
struct Format {
    exponent: u32,
    mantissa: u32,
    infinities: bool,
}

const fn format(dtype: DType) -> Option<Format> {
    let (exponent, mantissa, infinities) = match dtype {
        DType::F64 => (11, 52, true),
        DType::F32 => (8, 23, true),
        DType::BF16 => (8, 7, true),
        DType::F16 => (5, 10, true),
        DType::F8E5M2 => (5, 2, true),
        DType::F8E4M3 => (4, 3, true),
        DType::F8E3M4 => (3, 4, true),
        DType::F8E4M3FN => (4, 3, false),
        _ => return None,
    };
    Some(Format {
        exponent,
        mantissa,
        infinities,
    })
}

/// The bits of an element, little-endian.
fn bits(element: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(element) {
        *to = *from;
    }
    u64::from_le_bytes(bytes)
}

/// An element's value. Integers of more than 53 bits are rounded.
#[expect(
    clippy::cast_precision_loss,
    reason = "integers that a double cannot hold are rounded, as documented"
)]
pub(crate) fn value(dtype: DType, element: &[u8]) -> f64 {
    let bits = bits(element);
    if let Some(format) = format(dtype) {
        return float(&format, bits);
    }
    match dtype {
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => signed(dtype, bits) as f64,
        _ => bits as f64,
    }
}

/// The sign extended from an element's width.
fn signed(dtype: DType, bits: u64) -> i64 {
    let unused = 64 - 8 * u32::try_from(dtype.size().min(8)).unwrap_or(8);
    (bits << unused).cast_signed() >> unused
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a mantissa has at most 53 bits, an exponent at most 11"
)]
fn float(format: &Format, bits: u64) -> f64 {
    let (e, m) = (format.exponent, format.mantissa);
    let negative = bits >> (e + m) & 1 == 1;
    let exponent = bits >> m & ((1 << e) - 1);
    let mantissa = bits & ((1 << m) - 1);
    let (top, full) = ((1 << e) - 1, (1 << m) - 1);
    let bias = (1_i32 << (e - 1)) - 1;
    let magnitude = if exponent == top && format.infinities {
        if mantissa == 0 {
            f64::INFINITY
        } else {
            f64::NAN
        }
    } else if exponent == top && mantissa == full {
        f64::NAN
    } else if exponent == 0 {
        mantissa as f64 * power(1 - bias - m as i32)
    } else {
        (mantissa | 1 << m) as f64 * power(exponent as i32 - bias - m as i32)
    };
    if negative { -magnitude } else { magnitude }
}

/// Two to a power; in two steps, for those that no normal double has.
fn power(exponent: i32) -> f64 {
    let half = exponent / 2;
    2_f64.powi(half) * 2_f64.powi(exponent - half)
}

/// Where an element stands among all of its type, in steps from zero: neighbours
/// differ by one. `None` for a NaN.
pub(crate) fn place(dtype: DType, element: &[u8]) -> Option<i128> {
    let bits = bits(element);
    let Some(format) = format(dtype) else {
        return Some(match dtype {
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => i128::from(signed(dtype, bits)),
            _ => i128::from(bits),
        });
    };
    if float(&format, bits).is_nan() {
        return None;
    }
    let sign = 1_u64 << (format.exponent + format.mantissa);
    let magnitude = i128::from(bits & (sign - 1));
    Some(if bits & sign == 0 {
        magnitude
    } else {
        -magnitude
    })
}

/// An element for people.
pub(crate) fn shown(dtype: DType, element: &[u8]) -> String {
    let bits = bits(element);
    match dtype {
        DType::Bool => (bits != 0).to_string(),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => bits.to_string(),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => signed(dtype, bits).to_string(),
        DType::F64 => format!("{:?}", f64::from_bits(bits)),
        // The shortest text that gives the same f32 back.
        _ => {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "every narrower float is an f32"
            )]
            let value = value(dtype, element) as f32;
            format!("{value:?}")
        }
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    #[test]
    fn narrow_floats_have_their_values() {
        for bits in 0..=u16::MAX {
            let bytes = bits.to_le_bytes();
            let same = |found: f64, expected: f64| {
                assert!(
                    found == expected || found.is_nan() && expected.is_nan(),
                    "{bits:#x}: {found} {expected}"
                );
            };
            same(value(DType::F16, &bytes), f16::from_bits(bits).to_f64());
            same(value(DType::BF16, &bytes), bf16::from_bits(bits).to_f64());
        }
        // From the format's own definition: the largest number, and the NaN above it.
        assert_eq!(value(DType::F8E4M3FN, &[0x7e]), 448.0);
        assert!(value(DType::F8E4M3FN, &[0x7f]).is_nan());
        assert_eq!(value(DType::F8E5M2, &[0x7b]), 57344.0);
        assert_eq!(value(DType::F8E5M2, &[0xfc]), f64::NEG_INFINITY);
        assert_eq!(value(DType::F8E3M4, &[0x6f]), 15.5);
        assert_eq!(value(DType::F8E4M3, &[0x77]), 240.0);
    }

    #[test]
    fn wide_floats_have_their_values() {
        for number in [0.0, -1.5, f64::MIN_POSITIVE, 5e-324, f64::MAX, 1e-310] {
            assert_eq!(value(DType::F64, &number.to_le_bytes()), number);
        }
        for number in [1.0_f32, f32::MIN_POSITIVE, 1e-45, f32::MAX, -3.25] {
            assert_eq!(value(DType::F32, &number.to_le_bytes()), f64::from(number));
        }
    }

    #[test]
    fn neighbours_are_one_step_apart() {
        let place = |number: f32| place(DType::F32, &number.to_le_bytes());
        assert_eq!(place(0.0), place(-0.0));
        assert_eq!(
            place(f32::from_bits(1)).unwrap() - place(-f32::from_bits(1)).unwrap(),
            2
        );
        assert_eq!(
            place(1.0).unwrap() + 1,
            place(f32::from_bits(1_f32.to_bits() + 1)).unwrap()
        );
        assert_eq!(place(f32::NAN), None);
        assert_eq!(super::place(DType::I8, &[0xff]), Some(-1));
        assert_eq!(super::place(DType::U8, &[0xff]), Some(255));
    }

    #[test]
    fn elements_are_shown_in_their_type() {
        assert_eq!(shown(DType::I16, &[0xfe, 0xff]), "-2");
        assert_eq!(shown(DType::Bool, &[2]), "true");
        assert_eq!(shown(DType::F32, &0.1_f32.to_le_bytes()), "0.1");
        assert_eq!(shown(DType::F64, &0.1_f64.to_le_bytes()), "0.1");
    }
}
