//! Numbers: conversion between element types and scalar mathematics.
//!
//! Everything here follows XLA: types narrower than `f32` compute in `f32` and round once, conversions to integers
//! truncate and saturate, integer arithmetic wraps, division by zero has a value.

use half::{bf16, f16};

use crate::element::{
    Element, F4E2M1FN, F8E3M4, F8E4M3, F8E4M3B11FNUZ, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ,
    F8E8M0FNU,
};

mod arithmetic;
mod complex;
mod convert;
mod float32;
mod float64;
mod flushing;
mod integer;
mod narrow;
mod order;
mod precision;
mod simd;

pub(crate) use arithmetic::{Arithmetic, Numeric, supports};
pub(crate) use complex::ComplexMath;
pub(crate) use convert::convert;
pub(crate) use flushing::FlushingMath;
pub(crate) use integer::IntegerMath;
pub(crate) use order::Ordered;
pub(crate) use precision::{reduce_precision_f32, reduce_precision_f64};
pub(crate) use simd::{apply, map, run, zip_map};

/// A floating-point type that is computed in `f32`: narrower than `f32`.
pub(crate) trait NarrowFloat: Element {
    /// The value as `f32`, exactly.
    fn to_f32(self) -> f32;
    /// The nearest value, ties to even, by the overflow rules of the type.
    fn from_f32(value: f32) -> Self;
    /// The nearest value, by the same rules, rounded as XLA does: once, but for `bf16`, which passes through `f32`.
    fn from_f64(value: f64) -> Self;
}

impl NarrowFloat for f16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        narrow::f16_to_f32(self)
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        narrow::f16_from_f32(value)
    }

    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        narrow::f16_from_f64(value)
    }
}

impl NarrowFloat for bf16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        narrow::bf16_to_f32(self)
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        narrow::bf16_from_f32(value)
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "XLA rounds to f32 first")]
    fn from_f64(value: f64) -> Self {
        narrow::bf16_from_f32(value as f32)
    }
}

macro_rules! narrow_floats {
    ($($name:ty),*) => {$(
        impl NarrowFloat for $name {
            #[inline(always)]
            fn to_f32(self) -> f32 {
                <$name>::to_f32(self)
            }

            #[inline(always)]
            fn from_f32(value: f32) -> Self {
                <$name>::from_f32(value)
            }

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                <$name>::from_f64(value)
            }
        }
    )*};
}

narrow_floats!(
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

/// Mathematics on `f32` and `f64`, with XLA's special values.
///
/// Greatest errors found against exact values, in units in the last place:
///
/// | function | `f32` | `f64` |
/// |---|---|---|
/// | `sqrt`, `rem`, `floor`, `ceil`, roundings, `sign`, `maximum`, `minimum` | 0 | 0 |
/// | `exp`, `ln`, `rsqrt` | 1 | 1 |
/// | `tanh`, `logistic`, `erf` | 2 | 2 |
/// | `exp_m1`, `ln_1p`, `sin`, `cos`, `tan`, `cbrt`, `pow`, `atan2` | 1 | 1 |
pub(crate) trait RealMath: Copy {
    /// e to the power `self`.
    fn exp(self) -> Self;
    /// `exp(self) - 1`.
    fn exp_m1(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// `ln(1 + self)`.
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
    /// Error function.
    fn erf(self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// Reciprocal of the square root.
    fn rsqrt(self) -> Self;
    /// Cube root.
    fn cbrt(self) -> Self;
    /// `self` to the power `exponent`.
    fn pow(self, exponent: Self) -> Self;
    /// Angle of the point (`x`, `self`).
    fn atan2(self, x: Self) -> Self;
    /// Remainder with the sign of `self`.
    fn rem(self, divisor: Self) -> Self;
    /// Maximum; NaN wins, +0 over -0.
    fn maximum(self, other: Self) -> Self;
    /// Minimum; NaN wins, -0 over +0.
    fn minimum(self, other: Self) -> Self;
    /// `minimum(maximum(low, self), high)`: NaN wins, `high` if the bounds cross.
    fn clamp(self, low: Self, high: Self) -> Self;
    /// Sign: -1, -0, +0, 1 or NaN.
    fn sign(self) -> Self;
    /// Nearest integer, halves to the even one.
    fn round_even(self) -> Self;
    /// Nearest integer, halves away from zero.
    fn round_away(self) -> Self;
}

macro_rules! real_math {
    ($($float:ident: $module:ident),*) => {$(
        impl RealMath for $float {
            #[inline(always)]
            fn exp(self) -> Self { $module::exp(self) }
            #[inline(always)]
            fn exp_m1(self) -> Self { $module::expm1(self) }
            #[inline(always)]
            fn ln(self) -> Self { $module::log(self) }
            #[inline(always)]
            fn ln_1p(self) -> Self { $module::log1p(self) }
            #[inline(always)]
            fn tanh(self) -> Self { $module::tanh(self) }
            #[inline(always)]
            fn logistic(self) -> Self { $module::logistic(self) }
            #[inline(always)]
            fn sin(self) -> Self { $module::sin(self) }
            #[inline(always)]
            fn cos(self) -> Self { $module::cos(self) }
            #[inline(always)]
            fn tan(self) -> Self { $module::tan(self) }
            #[inline(always)]
            fn erf(self) -> Self { $module::erf(self) }
            #[inline(always)]
            fn sqrt(self) -> Self { $float::sqrt(self) }
            #[inline(always)]
            fn rsqrt(self) -> Self { 1.0 / $float::sqrt(self) }
            #[inline(always)]
            fn cbrt(self) -> Self { $module::cbrt(self) }
            #[inline(always)]
            fn pow(self, exponent: Self) -> Self { $module::pow(self, exponent) }
            #[inline(always)]
            fn atan2(self, x: Self) -> Self { $module::atan2(self, x) }
            #[inline(always)]
            fn rem(self, divisor: Self) -> Self { self % divisor }
            #[inline(always)]
            fn maximum(self, other: Self) -> Self {
                let equal = Self::from_bits(self.to_bits() & other.to_bits());
                let larger = if self > other { self } else { other };
                let ordered = if self == other { equal } else { larger };
                if self.is_nan() { self } else { ordered }
            }
            #[inline(always)]
            fn minimum(self, other: Self) -> Self {
                let equal = Self::from_bits(self.to_bits() | other.to_bits());
                let smaller = if self < other { self } else { other };
                let ordered = if self == other { equal } else { smaller };
                if self.is_nan() { self } else { ordered }
            }
            #[inline(always)]
            fn clamp(self, low: Self, high: Self) -> Self {
                RealMath::minimum(RealMath::maximum(low, self), high)
            }
            #[inline(always)]
            fn sign(self) -> Self {
                let unit = (1.0 as $float).copysign(self);
                if self == 0.0 || self.is_nan() { self } else { unit }
            }
            #[inline(always)]
            fn round_even(self) -> Self { self.round_ties_even() }
            #[inline(always)]
            fn round_away(self) -> Self { self.round() }
        }
    )*};
}

real_math!(f32: float32, f64: float64);
