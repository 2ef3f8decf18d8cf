//! The types that arithmetic runs in, and how each element type reaches its own.

use half::{bf16, f16};
use num_complex::Complex;

use super::{NarrowFloat, RealMath};
use crate::attributes::Monoid;
use crate::element::{
    Element, ElementClass, ElementType, F4E2M1FN, F8E3M4, F8E4M3, F8E4M3B11FNUZ, F8E4M3FN,
    F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU, Pred, S4, U4,
};

/// An element type with the type that computes for it.
pub(crate) trait Numeric: Element {
    /// `f32` for floats narrower than that, the type itself for all others.
    type Compute: Arithmetic;

    /// The value in the compute type, exactly.
    fn load(self) -> Self::Compute;

    /// The nearest value to a computed one.
    fn store(value: Self::Compute) -> Self;

    /// The value as `f64`; exact for floats, the real part of complex numbers.
    fn to_f64(self) -> f64;
    /// The value as `i64`; exact for signed integers, wrapped for unsigned ones.
    fn to_i64(self) -> i64;
    /// The value as `u64`; exact for unsigned integers, wrapped for signed ones.
    fn to_u64(self) -> u64;
    /// The value as a complex number; exact for floats and complex numbers.
    fn to_complex(self) -> Complex<f64> {
        Complex::new(self.to_f64(), 0.0)
    }
    /// Converts a float: integers truncate and saturate, NaN becomes 0.
    fn from_f64(value: f64) -> Self;
    /// Converts a signed integer: integers wrap.
    fn from_i64(value: i64) -> Self;
    /// Converts an unsigned integer: integers wrap.
    fn from_u64(value: u64) -> Self;
    /// Converts a complex number: the imaginary part is lost but in complex types.
    fn from_complex(value: Complex<f64>) -> Self {
        Self::from_f64(value.re)
    }
}

/// A type that arithmetic runs in.
pub(crate) trait Arithmetic: Numeric<Compute = Self> {
    /// The neutral element of [`add`](Self::add).
    const ZERO: Self;

    /// Sum; integers wrap, `pred` takes or.
    fn add(self, other: Self) -> Self;
    /// Product; integers wrap, `pred` takes and.
    fn multiply(self, other: Self) -> Self;
    /// Maximum; NaN wins. Complex numbers have none and keep `self`.
    fn maximum(self, other: Self) -> Self;
    /// Minimum; NaN wins. Complex numbers have none and keep `self`.
    fn minimum(self, other: Self) -> Self;
    /// Bitwise and; floats and complex numbers have none and keep `self`.
    fn and(self, other: Self) -> Self;
    /// Bitwise or; floats and complex numbers have none and keep `self`.
    fn or(self, other: Self) -> Self;
    /// Bitwise exclusive or; floats and complex numbers have none and keep `self`.
    fn xor(self, other: Self) -> Self;

    /// One step of a reduction.
    #[inline(always)]
    fn combine(monoid: Monoid, accumulator: Self, value: Self) -> Self {
        match monoid {
            Monoid::Add => accumulator.add(value),
            Monoid::Multiply => accumulator.multiply(value),
            Monoid::Maximum => accumulator.maximum(value),
            Monoid::Minimum => accumulator.minimum(value),
            Monoid::And => accumulator.and(value),
            Monoid::Or => accumulator.or(value),
            Monoid::Xor => accumulator.xor(value),
        }
    }
}

/// Whether the reduction is defined on the element type.
pub(crate) fn supports(element: ElementType, monoid: Monoid) -> bool {
    match element.class() {
        ElementClass::Pred | ElementClass::Signed | ElementClass::Unsigned => true,
        ElementClass::Float => !matches!(monoid, Monoid::And | Monoid::Or | Monoid::Xor),
        ElementClass::Complex => matches!(monoid, Monoid::Add | Monoid::Multiply),
    }
}

macro_rules! integers {
    ($($int:ident),*) => {$(
        #[expect(
            clippy::allow_attributes,
            reason = "which casts lose a sign or wrap depends on the type that the macro expands for"
        )]
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_possible_wrap,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            clippy::cast_lossless,
            clippy::unnecessary_cast,
            reason = "conversions wrap between integers and saturate from floats, as the casts do"
        )]
        impl Numeric for $int {
            type Compute = Self;

            #[inline(always)]
            fn load(self) -> Self {
                self
            }

            #[inline(always)]
            fn store(value: Self) -> Self {
                value
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }

            #[inline(always)]
            fn to_i64(self) -> i64 {
                self as i64
            }

            #[inline(always)]
            fn to_u64(self) -> u64 {
                self as u64
            }

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as Self
            }

            #[inline(always)]
            fn from_i64(value: i64) -> Self {
                value as Self
            }

            #[inline(always)]
            fn from_u64(value: u64) -> Self {
                value as Self
            }
        }

        impl Arithmetic for $int {
            const ZERO: Self = 0;

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn multiply(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            #[inline(always)]
            fn maximum(self, other: Self) -> Self {
                self.max(other)
            }

            #[inline(always)]
            fn minimum(self, other: Self) -> Self {
                self.min(other)
            }

            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }

            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! wrapped {
    ($($name:ident($inner:ident): $wrap:expr, $from_f64:expr;)*) => {$(
        impl Numeric for $name {
            type Compute = Self;

            #[inline(always)]
            fn load(self) -> Self {
                self
            }

            #[inline(always)]
            fn store(value: Self) -> Self {
                value
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self.0)
            }

            #[inline(always)]
            fn to_i64(self) -> i64 {
                self.0.to_i64()
            }

            #[inline(always)]
            fn to_u64(self) -> u64 {
                self.0.to_u64()
            }

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                $from_f64(value)
            }

            #[inline(always)]
            fn from_i64(value: i64) -> Self {
                $wrap($inner::from_i64(value))
            }

            #[inline(always)]
            fn from_u64(value: u64) -> Self {
                $wrap($inner::from_u64(value))
            }
        }

        impl Arithmetic for $name {
            const ZERO: Self = Self(0);

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                $wrap(self.0.add(other.0))
            }

            #[inline(always)]
            fn multiply(self, other: Self) -> Self {
                $wrap(self.0.multiply(other.0))
            }

            #[inline(always)]
            fn maximum(self, other: Self) -> Self {
                Self(self.0.max(other.0))
            }

            #[inline(always)]
            fn minimum(self, other: Self) -> Self {
                Self(self.0.min(other.0))
            }

            #[inline(always)]
            fn and(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }

            #[inline(always)]
            fn or(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                Self(self.0 ^ other.0)
            }
        }
    )*};
}

wrapped! {
    S4(i8): Self::wrap, |value: f64| Self(i8::from_f64(value.clamp(-8.0, 7.0)));
    U4(u8): Self::wrap, |value: f64| Self(u8::from_f64(value.clamp(0.0, 15.0)));
}

impl Pred {
    /// 1 for true, 0 for false.
    #[inline(always)]
    pub(crate) const fn from_bool(value: bool) -> Self {
        Self(value as u8)
    }
}

impl Numeric for Pred {
    type Compute = Self;

    #[inline(always)]
    fn load(self) -> Self {
        self
    }

    #[inline(always)]
    fn store(value: Self) -> Self {
        value
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(u8::from(self.0 != 0))
    }

    #[inline(always)]
    fn to_i64(self) -> i64 {
        i64::from(self.0 != 0)
    }

    #[inline(always)]
    fn to_u64(self) -> u64 {
        u64::from(self.0 != 0)
    }

    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        Self::from_bool(value != 0.0)
    }

    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        Self::from_bool(value != 0)
    }

    #[inline(always)]
    fn from_u64(value: u64) -> Self {
        Self::from_bool(value != 0)
    }

    #[inline(always)]
    fn from_complex(value: Complex<f64>) -> Self {
        Self::from_bool(value.re != 0.0 || value.im != 0.0)
    }
}

impl Arithmetic for Pred {
    const ZERO: Self = Self(0);

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.or(other)
    }

    #[inline(always)]
    fn multiply(self, other: Self) -> Self {
        self.and(other)
    }

    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        self.or(other)
    }

    #[inline(always)]
    fn minimum(self, other: Self) -> Self {
        self.and(other)
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self::from_bool(self.0 != 0 && other.0 != 0)
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self::from_bool(self.0 | other.0 != 0)
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self::from_bool((self.0 != 0) != (other.0 != 0))
    }
}

macro_rules! wide_floats {
    ($($float:ident),*) => {$(
        #[expect(
            clippy::allow_attributes,
            reason = "which casts round depends on the type that the macro expands for"
        )]
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            clippy::cast_lossless,
            clippy::unnecessary_cast,
            reason = "conversions round to nearest even and saturate, as the casts do"
        )]
        impl Numeric for $float {
            type Compute = Self;

            #[inline(always)]
            fn load(self) -> Self {
                self
            }

            #[inline(always)]
            fn store(value: Self) -> Self {
                value
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }

            #[inline(always)]
            fn to_i64(self) -> i64 {
                self as i64
            }

            #[inline(always)]
            fn to_u64(self) -> u64 {
                self as u64
            }

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as Self
            }

            #[inline(always)]
            fn from_i64(value: i64) -> Self {
                value as Self
            }

            #[inline(always)]
            fn from_u64(value: u64) -> Self {
                value as Self
            }
        }

        impl Arithmetic for $float {
            const ZERO: Self = 0.0;

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn multiply(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn maximum(self, other: Self) -> Self {
                RealMath::maximum(self, other)
            }

            #[inline(always)]
            fn minimum(self, other: Self) -> Self {
                RealMath::minimum(self, other)
            }

            #[inline(always)]
            fn and(self, _other: Self) -> Self {
                self
            }

            #[inline(always)]
            fn or(self, _other: Self) -> Self {
                self
            }

            #[inline(always)]
            fn xor(self, _other: Self) -> Self {
                self
            }
        }
    )*};
}

wide_floats!(f32, f64);

macro_rules! narrow_floats {
    ($($float:ident),*) => {$(
        impl Numeric for $float {
            type Compute = f32;

            #[inline(always)]
            fn load(self) -> f32 {
                NarrowFloat::to_f32(self)
            }

            #[inline(always)]
            fn store(value: f32) -> Self {
                NarrowFloat::from_f32(value)
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self.load())
            }

            #[inline(always)]
            fn to_i64(self) -> i64 {
                self.load().to_i64()
            }

            #[inline(always)]
            fn to_u64(self) -> u64 {
                self.load().to_u64()
            }

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                NarrowFloat::from_f64(value)
            }

            #[inline(always)]
            fn from_i64(value: i64) -> Self {
                Self::store(f32::from_i64(value))
            }

            #[inline(always)]
            fn from_u64(value: u64) -> Self {
                Self::store(f32::from_u64(value))
            }
        }
    )*};
}

narrow_floats!(
    f16,
    bf16,
    F8E5M2,
    F8E4M3,
    F8E4M3FN,
    F8E4M3B11FNUZ,
    F8E5M2FNUZ,
    F8E4M3FNUZ,
    F8E3M4,
    F4E2M1FN,
    F8E8M0FNU
);

macro_rules! complex_numbers {
    ($($part:ident),*) => {$(
        impl Numeric for Complex<$part> {
            type Compute = Self;

            #[inline(always)]
            fn load(self) -> Self {
                self
            }

            #[inline(always)]
            fn store(value: Self) -> Self {
                value
            }

            fn to_f64(self) -> f64 {
                self.re.to_f64()
            }

            fn to_i64(self) -> i64 {
                self.re.to_i64()
            }

            fn to_u64(self) -> u64 {
                self.re.to_u64()
            }

            fn to_complex(self) -> Complex<f64> {
                Complex::new(self.re.to_f64(), self.im.to_f64())
            }

            fn from_f64(value: f64) -> Self {
                Self::new($part::from_f64(value), 0.0)
            }

            fn from_i64(value: i64) -> Self {
                Self::new($part::from_i64(value), 0.0)
            }

            fn from_u64(value: u64) -> Self {
                Self::new($part::from_u64(value), 0.0)
            }

            fn from_complex(value: Complex<f64>) -> Self {
                Self::new($part::from_f64(value.re), $part::from_f64(value.im))
            }
        }

        impl Arithmetic for Complex<$part> {
            const ZERO: Self = Self { re: 0.0, im: 0.0 };

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn multiply(self, other: Self) -> Self {
                self * other
            }

            fn maximum(self, _other: Self) -> Self {
                self
            }

            fn minimum(self, _other: Self) -> Self {
                self
            }

            fn and(self, _other: Self) -> Self {
                self
            }

            fn or(self, _other: Self) -> Self {
                self
            }

            fn xor(self, _other: Self) -> Self {
                self
            }
        }
    )*};
}

complex_numbers!(f32, f64);
