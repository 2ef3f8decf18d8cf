//! Element types and the Rust types that store them.

use std::fmt;

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};
use metaneff_schema::xla::PrimitiveType;
use num_complex::Complex;

/// Type of an array's elements.
///
/// In memory each element takes [`byte_size`](Self::byte_size) bytes, little
/// endian. The 4-bit types take a whole byte: `s4` sign-extended, `u4`
/// and `f4e2m1fn` in the low nibble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ElementType {
    /// Truth value, a byte of 0 or 1.
    Pred,
    /// Signed 4-bit integer.
    S4,
    /// Signed 8-bit integer.
    S8,
    /// Signed 16-bit integer.
    S16,
    /// Signed 32-bit integer.
    S32,
    /// Signed 64-bit integer.
    S64,
    /// Unsigned 4-bit integer.
    U4,
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// IEEE 754 binary16.
    F16,
    /// Upper half of a binary32.
    BF16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// Eight bits, 5 of exponent, with infinities.
    F8E5M2,
    /// Eight bits, 4 of exponent, with infinities.
    F8E4M3,
    /// Eight bits, 4 of exponent, no infinities, one NaN a sign.
    F8E4M3FN,
    /// Eight bits, 4 of exponent, bias 11, no infinities, NaN is `0x80`.
    F8E4M3B11FNUZ,
    /// Eight bits, 5 of exponent, bias 16, no infinities, NaN is `0x80`.
    F8E5M2FNUZ,
    /// Eight bits, 4 of exponent, bias 8, no infinities, NaN is `0x80`.
    F8E4M3FNUZ,
    /// Eight bits, 3 of exponent, with infinities.
    F8E3M4,
    /// Four bits, 2 of exponent, neither infinities nor NaN.
    F4E2M1FN,
    /// Eight bits of exponent only: powers of two, NaN is `0xff`.
    F8E8M0FNU,
    /// Pair of binary32: real, imaginary.
    C64,
    /// Pair of binary64: real, imaginary.
    C128,
}

/// What kind of number an element type holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ElementClass {
    /// Truth values.
    Pred,
    /// Two's complement integers.
    Signed,
    /// Unsigned integers.
    Unsigned,
    /// Floating-point numbers.
    Float,
    /// Complex numbers.
    Complex,
}

impl ElementType {
    /// Every element type.
    pub const ALL: [Self; 26] = [
        Self::Pred,
        Self::S4,
        Self::S8,
        Self::S16,
        Self::S32,
        Self::S64,
        Self::U4,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F16,
        Self::BF16,
        Self::F32,
        Self::F64,
        Self::F8E5M2,
        Self::F8E4M3,
        Self::F8E4M3FN,
        Self::F8E4M3B11FNUZ,
        Self::F8E5M2FNUZ,
        Self::F8E4M3FNUZ,
        Self::F8E3M4,
        Self::F4E2M1FN,
        Self::F8E8M0FNU,
        Self::C64,
        Self::C128,
    ];

    /// The element type that a number of `xla_data.proto`'s `PrimitiveType`
    /// names; `None` for numbers that are unknown, name no array, or name a
    /// type of fewer than 4 bits.
    #[must_use]
    pub fn from_proto(number: i32) -> Option<Self> {
        Some(match PrimitiveType::try_from(number).ok()? {
            PrimitiveType::Pred => Self::Pred,
            PrimitiveType::S4 => Self::S4,
            PrimitiveType::S8 => Self::S8,
            PrimitiveType::S16 => Self::S16,
            PrimitiveType::S32 => Self::S32,
            PrimitiveType::S64 => Self::S64,
            PrimitiveType::U4 => Self::U4,
            PrimitiveType::U8 => Self::U8,
            PrimitiveType::U16 => Self::U16,
            PrimitiveType::U32 => Self::U32,
            PrimitiveType::U64 => Self::U64,
            PrimitiveType::F16 => Self::F16,
            PrimitiveType::Bf16 => Self::BF16,
            PrimitiveType::F32 => Self::F32,
            PrimitiveType::F64 => Self::F64,
            PrimitiveType::F8e5m2 => Self::F8E5M2,
            PrimitiveType::F8e4m3 => Self::F8E4M3,
            PrimitiveType::F8e4m3fn => Self::F8E4M3FN,
            PrimitiveType::F8e4m3b11fnuz => Self::F8E4M3B11FNUZ,
            PrimitiveType::F8e5m2fnuz => Self::F8E5M2FNUZ,
            PrimitiveType::F8e4m3fnuz => Self::F8E4M3FNUZ,
            PrimitiveType::F8e3m4 => Self::F8E3M4,
            PrimitiveType::F4e2m1fn => Self::F4E2M1FN,
            PrimitiveType::F8e8m0fnu => Self::F8E8M0FNU,
            PrimitiveType::C64 => Self::C64,
            PrimitiveType::C128 => Self::C128,
            _ => return None,
        })
    }

    /// The number of this type in `xla_data.proto`'s `PrimitiveType`.
    #[must_use]
    pub fn to_proto(self) -> PrimitiveType {
        match self {
            Self::Pred => PrimitiveType::Pred,
            Self::S4 => PrimitiveType::S4,
            Self::S8 => PrimitiveType::S8,
            Self::S16 => PrimitiveType::S16,
            Self::S32 => PrimitiveType::S32,
            Self::S64 => PrimitiveType::S64,
            Self::U4 => PrimitiveType::U4,
            Self::U8 => PrimitiveType::U8,
            Self::U16 => PrimitiveType::U16,
            Self::U32 => PrimitiveType::U32,
            Self::U64 => PrimitiveType::U64,
            Self::F16 => PrimitiveType::F16,
            Self::BF16 => PrimitiveType::Bf16,
            Self::F32 => PrimitiveType::F32,
            Self::F64 => PrimitiveType::F64,
            Self::F8E5M2 => PrimitiveType::F8e5m2,
            Self::F8E4M3 => PrimitiveType::F8e4m3,
            Self::F8E4M3FN => PrimitiveType::F8e4m3fn,
            Self::F8E4M3B11FNUZ => PrimitiveType::F8e4m3b11fnuz,
            Self::F8E5M2FNUZ => PrimitiveType::F8e5m2fnuz,
            Self::F8E4M3FNUZ => PrimitiveType::F8e4m3fnuz,
            Self::F8E3M4 => PrimitiveType::F8e3m4,
            Self::F4E2M1FN => PrimitiveType::F4e2m1fn,
            Self::F8E8M0FNU => PrimitiveType::F8e8m0fnu,
            Self::C64 => PrimitiveType::C64,
            Self::C128 => PrimitiveType::C128,
        }
    }

    /// Name of the type in HLO text, such as `bf16`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pred => "pred",
            Self::S4 => "s4",
            Self::S8 => "s8",
            Self::S16 => "s16",
            Self::S32 => "s32",
            Self::S64 => "s64",
            Self::U4 => "u4",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F8E5M2 => "f8e5m2",
            Self::F8E4M3 => "f8e4m3",
            Self::F8E4M3FN => "f8e4m3fn",
            Self::F8E4M3B11FNUZ => "f8e4m3b11fnuz",
            Self::F8E5M2FNUZ => "f8e5m2fnuz",
            Self::F8E4M3FNUZ => "f8e4m3fnuz",
            Self::F8E3M4 => "f8e3m4",
            Self::F4E2M1FN => "f4e2m1fn",
            Self::F8E8M0FNU => "f8e8m0fnu",
            Self::C64 => "c64",
            Self::C128 => "c128",
        }
    }

    /// The type that [`name`](Self::name) calls `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|element| element.name() == name)
    }

    /// Bytes that an element takes in memory: 1, 2, 4, 8 or 16.
    #[must_use]
    pub const fn byte_size(self) -> usize {
        match self {
            Self::Pred
            | Self::S4
            | Self::S8
            | Self::U4
            | Self::U8
            | Self::F8E5M2
            | Self::F8E4M3
            | Self::F8E4M3FN
            | Self::F8E4M3B11FNUZ
            | Self::F8E5M2FNUZ
            | Self::F8E4M3FNUZ
            | Self::F8E3M4
            | Self::F4E2M1FN
            | Self::F8E8M0FNU => 1,
            Self::S16 | Self::U16 | Self::F16 | Self::BF16 => 2,
            Self::S32 | Self::U32 | Self::F32 => 4,
            Self::S64 | Self::U64 | Self::F64 | Self::C64 => 8,
            Self::C128 => 16,
        }
    }

    /// Bits that carry information: 1 for `pred`, 4 for the 4-bit types.
    #[must_use]
    pub const fn bit_width(self) -> usize {
        match self {
            Self::Pred => 1,
            Self::S4 | Self::U4 | Self::F4E2M1FN => 4,
            other => other.byte_size() * 8,
        }
    }

    /// What kind of number the type holds.
    #[must_use]
    pub const fn class(self) -> ElementClass {
        match self {
            Self::Pred => ElementClass::Pred,
            Self::S4 | Self::S8 | Self::S16 | Self::S32 | Self::S64 => ElementClass::Signed,
            Self::U4 | Self::U8 | Self::U16 | Self::U32 | Self::U64 => ElementClass::Unsigned,
            Self::C64 | Self::C128 => ElementClass::Complex,
            _ => ElementClass::Float,
        }
    }

    /// Whether the type is a floating-point type.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self.class(), ElementClass::Float)
    }

    /// Whether the type is a signed or unsigned integer type; `pred` is not.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        matches!(self.class(), ElementClass::Signed | ElementClass::Unsigned)
    }

    /// Whether the type is a complex type.
    #[must_use]
    pub const fn is_complex(self) -> bool {
        matches!(self.class(), ElementClass::Complex)
    }

    /// The type of a complex type's parts; the type itself for all others.
    #[must_use]
    pub const fn part(self) -> Self {
        match self {
            Self::C64 => Self::F32,
            Self::C128 => Self::F64,
            other => other,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

mod sealed {
    #[expect(unnameable_types, reason = "nothing outside may implement it")]
    pub trait Sealed {}
}

/// Rust type that stores one element.
///
/// The trait is sealed: each [`ElementType`] has one implementor.
pub trait Element: sealed::Sealed + Pod + Send + Sync + PartialEq + fmt::Debug {
    /// The element type that `Self` stores.
    const TYPE: ElementType;
}

macro_rules! implement_element {
    ($($rust:ty => $variant:ident),* $(,)?) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const TYPE: ElementType = ElementType::$variant;
        }
    )*};
}

macro_rules! byte_newtype {
    ($($(#[$doc:meta])* $name:ident($inner:ty)),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
        #[repr(transparent)]
        #[expect(clippy::exhaustive_structs, reason = "the type is its byte")]
        pub struct $name(pub $inner);
    )*};
}

byte_newtype! {
    /// Truth value: 0 or 1; any other byte reads as true.
    Pred(u8),
    /// Signed 4-bit integer, sign-extended to a byte.
    S4(i8),
    /// Unsigned 4-bit integer in the low nibble.
    U4(u8),
    /// Bits of an [`ElementType::F8E5M2`].
    F8E5M2(u8),
    /// Bits of an [`ElementType::F8E4M3`].
    F8E4M3(u8),
    /// Bits of an [`ElementType::F8E4M3FN`].
    F8E4M3FN(u8),
    /// Bits of an [`ElementType::F8E4M3B11FNUZ`].
    F8E4M3B11FNUZ(u8),
    /// Bits of an [`ElementType::F8E5M2FNUZ`].
    F8E5M2FNUZ(u8),
    /// Bits of an [`ElementType::F8E4M3FNUZ`].
    F8E4M3FNUZ(u8),
    /// Bits of an [`ElementType::F8E3M4`].
    F8E3M4(u8),
    /// Bits of an [`ElementType::F4E2M1FN`] in the low nibble.
    F4E2M1FN(u8),
    /// Bits of an [`ElementType::F8E8M0FNU`].
    F8E8M0FNU(u8),
}

implement_element! {
    Pred => Pred,
    S4 => S4, i8 => S8, i16 => S16, i32 => S32, i64 => S64,
    U4 => U4, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f16 => F16, bf16 => BF16, f32 => F32, f64 => F64,
    F8E5M2 => F8E5M2, F8E4M3 => F8E4M3, F8E4M3FN => F8E4M3FN,
    F8E4M3B11FNUZ => F8E4M3B11FNUZ, F8E5M2FNUZ => F8E5M2FNUZ,
    F8E4M3FNUZ => F8E4M3FNUZ, F8E3M4 => F8E3M4,
    F4E2M1FN => F4E2M1FN, F8E8M0FNU => F8E8M0FNU,
    Complex<f32> => C64, Complex<f64> => C128,
}

/// Evaluates `$body` with `$T` bound to the Rust type that stores `$element`.
macro_rules! with_element {
    ($element:expr, $T:ident => $body:expr) => {
        $crate::element::with_element!(@match $element, $T, $body;
            Pred => $crate::element::Pred,
            S4 => $crate::element::S4, S8 => i8, S16 => i16, S32 => i32, S64 => i64,
            U4 => $crate::element::U4, U8 => u8, U16 => u16, U32 => u32, U64 => u64,
            F16 => half::f16, BF16 => half::bf16, F32 => f32, F64 => f64,
            F8E5M2 => $crate::element::F8E5M2, F8E4M3 => $crate::element::F8E4M3,
            F8E4M3FN => $crate::element::F8E4M3FN,
            F8E4M3B11FNUZ => $crate::element::F8E4M3B11FNUZ,
            F8E5M2FNUZ => $crate::element::F8E5M2FNUZ,
            F8E4M3FNUZ => $crate::element::F8E4M3FNUZ,
            F8E3M4 => $crate::element::F8E3M4, F4E2M1FN => $crate::element::F4E2M1FN,
            F8E8M0FNU => $crate::element::F8E8M0FNU,
            C64 => num_complex::Complex<f32>, C128 => num_complex::Complex<f64>)
    };
    (@match $element:expr, $T:ident, $body:expr; $($variant:ident => $rust:ty),*) => {
        match $element {
            $($crate::element::ElementType::$variant => { type $T = $rust; $body })*
        }
    };
}

/// Evaluates `$body` with `$T` bound to an unsigned integer type as wide as an
/// element of `$element` (`[u64; 2]` for 16 bytes): for code that only moves
/// elements.
macro_rules! with_word {
    ($element:expr, $T:ident => $body:expr) => {
        match $element.byte_size() {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            8 => {
                type $T = u64;
                $body
            }
            _ => {
                type $T = [u64; 2];
                $body
            }
        }
    };
}

/// Evaluates `$body` with `$T` bound to the narrow floating-point type that
/// stores `$element`, or `$other`.
macro_rules! with_narrow {
    ($element:expr, $T:ident => $body:expr, else $other:expr) => {
        match $element {
            $crate::element::ElementType::F16 => {
                type $T = half::f16;
                $body
            }
            $crate::element::ElementType::BF16 => {
                type $T = half::bf16;
                $body
            }
            $crate::element::ElementType::F8E5M2 => {
                type $T = $crate::element::F8E5M2;
                $body
            }
            $crate::element::ElementType::F8E4M3 => {
                type $T = $crate::element::F8E4M3;
                $body
            }
            $crate::element::ElementType::F8E4M3FN => {
                type $T = $crate::element::F8E4M3FN;
                $body
            }
            $crate::element::ElementType::F8E4M3B11FNUZ => {
                type $T = $crate::element::F8E4M3B11FNUZ;
                $body
            }
            $crate::element::ElementType::F8E5M2FNUZ => {
                type $T = $crate::element::F8E5M2FNUZ;
                $body
            }
            $crate::element::ElementType::F8E4M3FNUZ => {
                type $T = $crate::element::F8E4M3FNUZ;
                $body
            }
            $crate::element::ElementType::F8E3M4 => {
                type $T = $crate::element::F8E3M4;
                $body
            }
            $crate::element::ElementType::F4E2M1FN => {
                type $T = $crate::element::F4E2M1FN;
                $body
            }
            $crate::element::ElementType::F8E8M0FNU => {
                type $T = $crate::element::F8E8M0FNU;
                $body
            }
            _ => $other,
        }
    };
}

pub(crate) use {with_element, with_narrow, with_word};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_round_trip() {
        for element in ElementType::ALL {
            assert_eq!(
                ElementType::from_proto(element.to_proto() as i32),
                Some(element)
            );
            assert_eq!(ElementType::from_name(element.name()), Some(element));
            let size = with_element!(element, T => {
                assert_eq!(T::TYPE, element);
                size_of::<T>()
            });
            assert_eq!(size, element.byte_size());
        }
        assert_eq!(ElementType::from_proto(13), None);
        assert_eq!(ElementType::from_proto(999), None);
    }
}
