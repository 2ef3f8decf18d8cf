//! Integer mathematics: two's complement, wrapping, with XLA's values where C has none.

use crate::element::{S4, U4};

/// Mathematics on an integer type.
pub(crate) trait IntegerMath: Copy {
    /// Quotient, truncated towards zero; all ones if `divisor` is 0, and MIN for MIN / -1.
    fn divide(self, divisor: Self) -> Self;
    /// Remainder with the sign of `self`; `self` if `divisor` is 0.
    fn remainder(self, divisor: Self) -> Self;
    /// Power, wrapping; for negative exponents 0, or a unit if `self` is one.
    fn power(self, exponent: Self) -> Self;
    /// Power as XLA compiles it for CPUs: the sign bit of an unsigned exponent
    /// is a sign too, and of other exponents the low six bits count.
    fn compiled_power(self, exponent: Self) -> Self;
    /// Left shift; 0 if `amount` is negative or not below the width.
    fn shift_left(self, amount: Self) -> Self;
    /// Right shift that fills with zeros; 0 if `amount` is negative or not below the width.
    fn shift_right_logical(self, amount: Self) -> Self;
    /// Right shift that fills with the highest bit, of unsigned types too.
    fn shift_right_arithmetic(self, amount: Self) -> Self;
    /// Magnitude, wrapping.
    fn absolute(self) -> Self;
    /// Negation, wrapping.
    fn negate(self) -> Self;
    /// Complement of each bit.
    fn complement(self) -> Self;
    /// -1, 0 or 1.
    fn sign(self) -> Self;
    /// Number of one bits.
    fn population_count(self) -> Self;
    /// Number of zero bits above the highest one bit.
    fn leading_zeros(self) -> Self;
    /// `min(max(low, self), high)`: `high` if the bounds cross.
    fn clamp(self, low: Self, high: Self) -> Self;
}

macro_rules! integer_math {
    ($($int:ident, $signed:ident, $unsigned:ident, $absolute:expr, $signum:expr;)*) => {$(
        #[expect(
            clippy::allow_attributes,
            reason = "which casts lose a sign or wrap depends on the type that the macro expands for"
        )]
        #[allow(
            clippy::cast_possible_wrap,
            clippy::cast_sign_loss,
            clippy::cast_possible_truncation,
            clippy::unnecessary_cast,
            reason = "bit patterns are reinterpreted, counts of bits fit every width"
        )]
        impl IntegerMath for $int {
            #[inline(always)]
            fn divide(self, divisor: Self) -> Self {
                if divisor == 0 { !0 } else { self.wrapping_div(divisor) }
            }

            #[inline(always)]
            fn remainder(self, divisor: Self) -> Self {
                if divisor == 0 { self } else { self.wrapping_rem(divisor) }
            }

            #[inline]
            fn power(self, exponent: Self) -> Self {
                if Self::MIN != 0 && (exponent as $signed) < 0 {
                    return match self as $signed {
                        1 => 1,
                        -1 if exponent & 1 == 0 => 1,
                        -1 => !0,
                        _ => 0,
                    };
                }
                let (mut base, mut left, mut product) = (self, exponent as $unsigned, 1 as Self);
                while left > 0 {
                    if left & 1 == 1 {
                        product = product.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    left >>= 1;
                }
                product
            }

            #[inline]
            fn compiled_power(self, exponent: Self) -> Self {
                if (exponent as $signed) < 0 {
                    // As the signed number of the same bits.
                    return (self as $signed).power(exponent as $signed) as Self;
                }
                self.power(exponent & 63)
            }

            #[inline(always)]
            fn shift_left(self, amount: Self) -> Self {
                let amount = amount as $unsigned;
                if u64::from(amount) < u64::from(Self::BITS) {
                    self.wrapping_shl(amount as u32)
                } else {
                    0
                }
            }

            #[inline(always)]
            fn shift_right_logical(self, amount: Self) -> Self {
                let amount = amount as $unsigned;
                if u64::from(amount) < u64::from(Self::BITS) {
                    (self as $unsigned).wrapping_shr(amount as u32) as Self
                } else {
                    0
                }
            }

            #[inline(always)]
            fn shift_right_arithmetic(self, amount: Self) -> Self {
                let amount = u64::from(amount as $unsigned).min(u64::from(Self::BITS - 1));
                (self as $signed).wrapping_shr(amount as u32) as Self
            }

            #[inline(always)]
            fn absolute(self) -> Self {
                $absolute(self)
            }

            #[inline(always)]
            fn negate(self) -> Self {
                self.wrapping_neg()
            }

            #[inline(always)]
            fn complement(self) -> Self {
                !self
            }

            #[inline(always)]
            fn sign(self) -> Self {
                $signum(self)
            }

            #[inline(always)]
            fn population_count(self) -> Self {
                self.count_ones() as Self
            }

            #[inline(always)]
            fn leading_zeros(self) -> Self {
                $int::leading_zeros(self) as Self
            }

            #[inline(always)]
            fn clamp(self, low: Self, high: Self) -> Self {
                low.max(self).min(high)
            }
        }
    )*};
}

integer_math! {
    i8, i8, u8, i8::wrapping_abs, i8::signum;
    i16, i16, u16, i16::wrapping_abs, i16::signum;
    i32, i32, u32, i32::wrapping_abs, i32::signum;
    i64, i64, u64, i64::wrapping_abs, i64::signum;
    u8, i8, u8, std::convert::identity, |value: u8| value.min(1);
    u16, i16, u16, std::convert::identity, |value: u16| value.min(1);
    u32, i32, u32, std::convert::identity, |value: u32| value.min(1);
    u64, i64, u64, std::convert::identity, |value: u64| value.min(1);
}

impl S4 {
    /// The low four bits of `value`, sign-extended.
    #[inline(always)]
    pub(crate) const fn wrap(value: i8) -> Self {
        Self(value << 4 >> 4)
    }
}

impl U4 {
    /// The low four bits of `value`.
    #[inline(always)]
    pub(crate) const fn wrap(value: u8) -> Self {
        Self(value & 0xf)
    }
}

macro_rules! nibble_math {
    ($($nibble:ident: $byte:ident;)*) => {$(
        #[expect(
            clippy::allow_attributes,
            reason = "which casts lose a sign or wrap depends on the type that the macro expands for"
        )]
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_possible_wrap,
            clippy::cast_sign_loss,
            clippy::unnecessary_cast,
            reason = "bit patterns are reinterpreted"
        )]
        impl IntegerMath for $nibble {
            fn divide(self, divisor: Self) -> Self {
                Self::wrap(self.0.divide(divisor.0))
            }

            fn remainder(self, divisor: Self) -> Self {
                Self::wrap(self.0.remainder(divisor.0))
            }

            fn power(self, exponent: Self) -> Self {
                Self::wrap(self.0.power(exponent.0))
            }

            fn compiled_power(self, exponent: Self) -> Self {
                self.power(exponent)
            }

            fn shift_left(self, amount: Self) -> Self {
                Self::wrap(self.0.shift_left(amount.0))
            }

            fn shift_right_logical(self, amount: Self) -> Self {
                let amount = amount.0 as u8;
                Self::wrap(if amount < 4 { ((self.0 as u8 & 0xf) >> amount) as $byte } else { 0 })
            }

            fn shift_right_arithmetic(self, amount: Self) -> Self {
                let extended = (self.0 as i8) << 4 >> 4;
                Self::wrap((extended >> (amount.0 as u8).min(3)) as $byte)
            }

            fn absolute(self) -> Self {
                Self::wrap(self.0.absolute())
            }

            fn negate(self) -> Self {
                Self::wrap(self.0.negate())
            }

            fn complement(self) -> Self {
                Self::wrap(!self.0)
            }

            fn sign(self) -> Self {
                Self::wrap(IntegerMath::sign(self.0))
            }

            fn population_count(self) -> Self {
                Self::wrap((self.0 as u8 & 0xf).count_ones() as $byte)
            }

            fn leading_zeros(self) -> Self {
                Self::wrap((u8::leading_zeros(self.0 as u8 & 0xf) - 4) as $byte)
            }

            fn clamp(self, low: Self, high: Self) -> Self {
                Self(IntegerMath::clamp(self.0, low.0, high.0))
            }
        }
    )*};
}

nibble_math! {
    S4: i8;
    U4: u8;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_by_zero_and_of_the_smallest_value() {
        assert_eq!((7_i32.divide(0), 7_u8.divide(0)), (-1, 255));
        assert_eq!((7_i32.remainder(0), 7_u8.remainder(0)), (7, 7));
        assert_eq!((i32::MIN.divide(-1), i32::MIN.remainder(-1)), (i32::MIN, 0));
        assert_eq!(((-7_i32).divide(2), (-7_i32).remainder(2)), (-3, -1));
        assert_eq!(i8::MIN.absolute(), i8::MIN);
        assert_eq!(S4(-8).divide(S4(-1)), S4(-8));
    }

    #[test]
    fn shifts_past_the_width() {
        assert_eq!(
            (
                1_i32.shift_left(32),
                1_i32.shift_left(-1),
                1_i32.shift_left(31)
            ),
            (0, 0, i32::MIN)
        );
        assert_eq!(
            (
                (-8_i32).shift_right_logical(32),
                (-8_i32).shift_right_logical(1)
            ),
            (0, 0x7fff_fffc)
        );
        assert_eq!(
            (
                (-8_i32).shift_right_arithmetic(99),
                8_i32.shift_right_arithmetic(-1)
            ),
            (-1, 0)
        );
        assert_eq!(
            (
                0x80_u8.shift_right_arithmetic(1),
                0x80_u8.shift_right_arithmetic(8)
            ),
            (0xc0, 0xff)
        );
        assert_eq!(u64::MAX.shift_left(u64::MAX), 0);
        assert_eq!(S4(-8).shift_right_logical(S4(1)), S4(4));
        assert_eq!(U4(8).shift_right_arithmetic(U4(1)), U4(12));
    }

    #[test]
    fn powers() {
        assert_eq!(
            (2_i32.power(-1), 1_i32.power(-3), (-1_i32).power(-3)),
            (0, 1, -1)
        );
        assert_eq!((0_i32.power(0), 2_i32.power(31)), (1, i32::MIN));
        assert_eq!((3_u8.power(254), 2_u64.power(64)), (57, 0));
    }

    #[test]
    fn counts_of_bits() {
        assert_eq!(
            (
                IntegerMath::leading_zeros(-1_i8),
                IntegerMath::leading_zeros(0_u16)
            ),
            (0, 16)
        );
        assert_eq!(
            (S4(1).leading_zeros(), S4(-1).population_count()),
            (S4(3), S4(4))
        );
        assert_eq!((-3_i64).sign(), -1);
    }

    #[test]
    fn clamp_prefers_the_upper_bound() {
        assert_eq!(
            [1, 4, 7].map(|x: i32| IntegerMath::clamp(x, 5, 3)),
            [3, 3, 3]
        );
    }

    #[test]
    fn xlas_powers_have_short_signed_exponents() {
        assert_eq!(3_u64.compiled_power(5), 243);
        assert_eq!(6_u64.compiled_power(2_307_976_756_778_553_091), 216);
        assert_eq!(3_i32.compiled_power(65), 3);
        assert_eq!(3_u8.compiled_power(200), 0);
        assert_eq!(u8::MAX.compiled_power(201), u8::MAX);
        assert_eq!((-1_i64).compiled_power(-2), 1);
    }
}
