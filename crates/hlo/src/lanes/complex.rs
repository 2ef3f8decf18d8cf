//! Elementwise operations on complex numbers.

use num_complex::Complex;

use crate::array::{ArrayView, ArrayViewMut};
use crate::element::Element;
use crate::error::KernelError;
use crate::ir::{BinaryOp, UnaryOp};
use crate::numerics::{Arithmetic, ComplexMath};

use super::elementwise::unsupported;

/// A complex type over its parts.
pub(super) trait ComplexElement: ComplexMath<Part: Element> + Arithmetic {
    fn parts(self) -> (Self::Part, Self::Part);
    fn of(re: Self::Part, im: Self::Part) -> Self;
    fn negated(self) -> Self;
    fn minus(self, other: Self) -> Self;
}

macro_rules! complex_element {
    ($($part:ident),*) => {$(
        impl ComplexElement for Complex<$part> {
            fn parts(self) -> ($part, $part) {
                (self.re, self.im)
            }
            fn of(re: $part, im: $part) -> Self {
                Self::new(re, im)
            }
            fn negated(self) -> Self {
                -self
            }
            fn minus(self, other: Self) -> Self {
                self - other
            }
        }
    )*};
}

complex_element!(f32, f64);

/// An operation on one complex number.
pub(super) fn unary<T: ComplexElement>(
    op: UnaryOp,
    x: ArrayView<'_>,
    mut out: ArrayViewMut<'_>,
) -> Result<(), KernelError> {
    let x = x.values::<T>()?;
    let part: Option<fn(T) -> T::Part> = match op {
        UnaryOp::Abs => Some(T::absolute),
        UnaryOp::Real => Some(|x| x.parts().0),
        UnaryOp::Imag => Some(|x| x.parts().1),
        _ => None,
    };
    if let Some(part) = part {
        let out = out.values_mut::<T::Part>()?;
        out.iter_mut().zip(x).for_each(|(out, &x)| *out = part(x));
        return Ok(());
    }
    let function: fn(T) -> T = match op {
        UnaryOp::Cos => T::cos,
        UnaryOp::Exp => T::exp,
        UnaryOp::ExpMinusOne => T::exp_m1,
        UnaryOp::Log => T::ln,
        UnaryOp::LogPlusOne => T::ln_1p,
        UnaryOp::Logistic => T::logistic,
        UnaryOp::Negate => T::negated,
        UnaryOp::Rsqrt => T::rsqrt,
        UnaryOp::Sign => T::sign,
        UnaryOp::Sin => T::sin,
        UnaryOp::Sqrt => T::sqrt,
        UnaryOp::Tan => T::tan,
        UnaryOp::Tanh => T::tanh,
        _ => return Err(unsupported(op, T::TYPE)),
    };
    let out = out.values_mut::<T>()?;
    out.iter_mut()
        .zip(x)
        .for_each(|(out, &x)| *out = function(x));
    Ok(())
}

/// An operation on two complex numbers.
pub(super) fn binary<T: ComplexElement>(
    op: BinaryOp,
    x: &[T],
    y: &[T],
    out: &mut [T],
) -> Result<(), KernelError> {
    let function: fn(T, T) -> T = match op {
        BinaryOp::Add => Arithmetic::add,
        BinaryOp::Subtract => T::minus,
        BinaryOp::Multiply => Arithmetic::multiply,
        BinaryOp::Divide => T::divide,
        BinaryOp::Power => T::pow,
        _ => return Err(unsupported(op, T::TYPE)),
    };
    out.iter_mut()
        .zip(x)
        .zip(y)
        .for_each(|((out, &x), &y)| *out = function(x, y));
    Ok(())
}

/// Complex numbers of their parts.
pub(super) fn combine<T: ComplexElement>(
    re: ArrayView<'_>,
    im: ArrayView<'_>,
    mut out: ArrayViewMut<'_>,
) -> Result<(), KernelError> {
    let (re, im) = (re.values::<T::Part>()?, im.values::<T::Part>()?);
    let out = out.values_mut::<T>()?;
    out.iter_mut()
        .zip(re)
        .zip(im)
        .for_each(|((out, &re), &im)| *out = T::of(re, im));
    Ok(())
}
