//! Numbers: conversion between element types and scalar mathematics.

use half::{bf16, f16};

use crate::array::{ArrayView, ArrayViewMut};
use crate::element::{
    Element, F4E2M1FN, F8E3M4, F8E4M3, F8E4M3B11FNUZ, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ,
    F8E8M0FNU,
};
use crate::error::KernelError;

/// `convert` between any two element types of equal dimensions.
///
/// # Errors
///
/// [`KernelError`] if the types are not supported.
pub fn convert(operand: ArrayView<'_>, out: ArrayViewMut<'_>) -> Result<(), KernelError> {
    let what = format!("convert from {} to {}", operand.element(), out.element());
    Err(KernelError::Unsupported { what })
}

/// A floating-point type that is computed in `f32`: narrower than `f32`.
pub trait NarrowFloat: Element {
    /// The value as `f32`, exactly.
    fn to_f32(self) -> f32;
    /// The nearest value, ties to even, by the overflow rules of the type.
    fn from_f32(value: f32) -> Self;
}

impl NarrowFloat for f16 {
    fn to_f32(self) -> f32 {
        Self::to_f32(self)
    }
    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }
}

impl NarrowFloat for bf16 {
    fn to_f32(self) -> f32 {
        Self::to_f32(self)
    }
    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }
}

macro_rules! pending_floats {
    ($($name:ty),*) => {$(
        impl NarrowFloat for $name {
            fn to_f32(self) -> f32 {
                f32::NAN
            }
            fn from_f32(_value: f32) -> Self {
                Self(0)
            }
        }
    )*};
}

pending_floats!(
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
pub trait RealMath: Copy {
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
    /// Sign: -1, -0, +0, 1 or NaN.
    fn sign(self) -> Self;
}

macro_rules! real_math {
    ($($float:ident: $erf:path),*) => {$(
        impl RealMath for $float {
            fn exp(self) -> Self { $float::exp(self) }
            fn exp_m1(self) -> Self { $float::exp_m1(self) }
            fn ln(self) -> Self { $float::ln(self) }
            fn ln_1p(self) -> Self { $float::ln_1p(self) }
            fn tanh(self) -> Self { $float::tanh(self) }
            fn logistic(self) -> Self { 1.0 / (1.0 + $float::exp(-self)) }
            fn sin(self) -> Self { $float::sin(self) }
            fn cos(self) -> Self { $float::cos(self) }
            fn tan(self) -> Self { $float::tan(self) }
            fn erf(self) -> Self { $erf(self) }
            fn sqrt(self) -> Self { $float::sqrt(self) }
            fn rsqrt(self) -> Self { 1.0 / $float::sqrt(self) }
            fn cbrt(self) -> Self { $float::cbrt(self) }
            fn pow(self, exponent: Self) -> Self { $float::powf(self, exponent) }
            fn atan2(self, x: Self) -> Self { $float::atan2(self, x) }
            fn rem(self, divisor: Self) -> Self { self % divisor }
            fn maximum(self, other: Self) -> Self {
                if self.is_nan() || other.is_nan() { return $float::NAN; }
                if self == other {
                    return if self.is_sign_positive() { self } else { other };
                }
                if self > other { self } else { other }
            }
            fn minimum(self, other: Self) -> Self {
                if self.is_nan() || other.is_nan() { return $float::NAN; }
                if self == other {
                    return if self.is_sign_negative() { self } else { other };
                }
                if self < other { self } else { other }
            }
            fn sign(self) -> Self {
                if self.is_nan() || self == 0.0 { self } else { (1.0 as $float).copysign(self) }
            }
        }
    )*};
}

real_math!(f32: libm::erff, f64: libm::erf);
