//! Comparison, with IEEE 754 and with total order.

use num_complex::Complex;

use crate::attributes::{Comparison, Direction};
use crate::element::{
    Element, F4E2M1FN, F8E3M4, F8E4M3, F8E4M3B11FNUZ, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ,
    F8E8M0FNU, Pred, S4, U4,
};
use half::{bf16, f16};

/// An element type whose values compare.
pub(crate) trait Ordered: Element {
    /// Integer that orders as the values do in total order: -NaN < -inf < … < -0 < +0 < … < inf < NaN.
    type Key: Ord + Copy;

    /// The value's place in total order.
    fn key(self) -> Self::Key;

    /// The value as one that IEEE 754 comparison (or integer comparison) orders.
    fn compare(self, direction: Direction, other: Self) -> bool;

    /// Whether the comparison holds for `self` on the left and `other` on the right.
    #[inline(always)]
    fn holds(self, comparison: Comparison, other: Self) -> bool {
        if comparison.total_order {
            by(comparison.direction, &self.key(), &other.key())
        } else {
            self.compare(comparison.direction, other)
        }
    }
}

#[inline(always)]
fn by<T: PartialOrd>(direction: Direction, left: &T, right: &T) -> bool {
    match direction {
        Direction::Eq => left == right,
        Direction::Ne => left != right,
        Direction::Lt => left < right,
        Direction::Le => left <= right,
        Direction::Gt => left > right,
        Direction::Ge => left >= right,
    }
}

macro_rules! ordered_integers {
    ($($name:ty: $key:ty, $get:expr;)*) => {$(
        impl Ordered for $name {
            type Key = $key;

            #[inline(always)]
            fn key(self) -> $key {
                $get(self)
            }

            #[inline(always)]
            fn compare(self, direction: Direction, other: Self) -> bool {
                by(direction, &self.key(), &other.key())
            }
        }
    )*};
}

ordered_integers! {
    i8: i8, |value| value;
    i16: i16, |value| value;
    i32: i32, |value| value;
    i64: i64, |value| value;
    u8: u8, |value| value;
    u16: u16, |value| value;
    u32: u32, |value| value;
    u64: u64, |value| value;
    Pred: bool, |value: Self| value.0 != 0;
    S4: i8, |value: Self| value.0;
    U4: u8, |value: Self| value.0;
}

/// Sign and magnitude in 16 bits of a type whose NaN takes the place of -0: it
/// is a negative one, beyond all numbers.
#[inline(always)]
fn only_nan(bits: u8) -> i16 {
    let sign = if bits & 0x80 == 0 { 0 } else { i16::MIN };
    if bits == 0x80 {
        -1
    } else {
        sign | i16::from(bits & 0x7f)
    }
}

macro_rules! ordered_floats {
    ($($name:ty: $key:ty, $bits:expr, $value:expr;)*) => {$(
        impl Ordered for $name {
            type Key = $key;

            #[inline(always)]
            fn key(self) -> $key {
                let bits: $key = $bits(self);
                // Negative values order against their magnitude.
                bits ^ ((bits >> (<$key>::BITS - 1)) & <$key>::MAX)
            }

            #[inline(always)]
            fn compare(self, direction: Direction, other: Self) -> bool {
                by(direction, &$value(self), &$value(other))
            }
        }
    )*};
}

ordered_floats! {
    f32: i32, |value: Self| value.to_bits().cast_signed(), |value| value;
    f64: i64, |value: Self| value.to_bits().cast_signed(), |value| value;
    f16: i16, |value: Self| value.to_bits().cast_signed(), super::NarrowFloat::to_f32;
    bf16: i16, |value: Self| value.to_bits().cast_signed(), super::NarrowFloat::to_f32;
    F8E5M2: i8, |value: Self| value.0.cast_signed(), Self::to_f32;
    F8E4M3: i8, |value: Self| value.0.cast_signed(), Self::to_f32;
    F8E4M3FN: i8, |value: Self| value.0.cast_signed(), Self::to_f32;
    F8E4M3B11FNUZ: i16, |value: Self| only_nan(value.0), Self::to_f32;
    F8E5M2FNUZ: i16, |value: Self| only_nan(value.0), Self::to_f32;
    F8E4M3FNUZ: i16, |value: Self| only_nan(value.0), Self::to_f32;
    F8E3M4: i8, |value: Self| value.0.cast_signed(), Self::to_f32;
    F4E2M1FN: i8, |value: Self| (value.0 << 4).cast_signed(), Self::to_f32;
}

impl Ordered for F8E8M0FNU {
    type Key = u8;

    #[inline(always)]
    fn key(self) -> u8 {
        self.0
    }

    #[inline(always)]
    fn compare(self, direction: Direction, other: Self) -> bool {
        by(direction, &self.to_f32(), &other.to_f32())
    }
}

macro_rules! ordered_complex {
    ($($part:ty: $key:ty;)*) => {$(
        impl Ordered for Complex<$part> {
            type Key = ($key, $key);

            fn key(self) -> Self::Key {
                (self.re.key(), self.im.key())
            }

            /// Complex numbers are equal or not; no one precedes another.
            fn compare(self, direction: Direction, other: Self) -> bool {
                match direction {
                    Direction::Eq => self == other,
                    Direction::Ne => self != other,
                    _ => false,
                }
            }
        }
    )*};
}

ordered_complex! {
    f32: i32;
    f64: i64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_order_places_nan_and_zero() {
        let ascending = [
            -f32::NAN,
            f32::NEG_INFINITY,
            -1.0,
            -1e-45,
            -0.0,
            0.0,
            1e-45,
            1.0,
            f32::INFINITY,
            f32::NAN,
        ];
        assert!(ascending.is_sorted_by(|a, b| a.key() < b.key()));
        let total = |direction| Comparison {
            direction,
            total_order: true,
        };
        assert!(!0_f32.holds(total(Direction::Eq), -0.0));
        assert!(f32::NAN.holds(total(Direction::Eq), f32::NAN));
        assert!(F4E2M1FN(8).holds(total(Direction::Lt), F4E2M1FN(0)));
    }

    #[test]
    fn nan_is_unordered() {
        for direction in [
            Direction::Eq,
            Direction::Lt,
            Direction::Le,
            Direction::Gt,
            Direction::Ge,
        ] {
            assert!(!f32::NAN.compare(direction, 1.0));
        }
        assert!(f32::NAN.compare(Direction::Ne, f32::NAN));
        assert!(f16::from_bits(0x8000).compare(Direction::Eq, f16::from_bits(0)));
    }

    #[test]
    fn the_only_nan_is_least() {
        let [nan, least, zero] = [0x80, 0xff, 0].map(F8E4M3FNUZ);
        assert!(nan.key() < least.key() && least.key() < zero.key());
    }
}
