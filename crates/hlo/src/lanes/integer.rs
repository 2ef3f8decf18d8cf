//! Elementwise operations on integers and truth values.

use crate::element::Pred;
use crate::error::KernelError;
use crate::ir::{BinaryOp, UnaryOp};
use crate::numerics::{Arithmetic, IntegerMath};

use super::elementwise::unsupported;

/// An operation on one integer.
pub(super) fn unary<T: IntegerMath + Arithmetic>(
    op: UnaryOp,
    x: &[T],
    out: &mut [T],
) -> Result<(), KernelError> {
    match op {
        UnaryOp::Abs => map(x, out, T::absolute),
        UnaryOp::CountLeadingZeros => map(x, out, T::leading_zeros),
        UnaryOp::Negate => map(x, out, T::negate),
        UnaryOp::Not => map(x, out, T::complement),
        UnaryOp::PopulationCount => map(x, out, T::population_count),
        UnaryOp::Sign => map(x, out, T::sign),
        _ => return Err(unsupported(op, T::TYPE)),
    }
    Ok(())
}

/// An operation on two integers.
pub(super) fn binary<T: IntegerMath + Arithmetic>(
    op: BinaryOp,
    x: &[T],
    y: &[T],
    out: &mut [T],
) -> Result<(), KernelError> {
    match op {
        BinaryOp::Add => zip_map(x, y, out, T::add),
        BinaryOp::Subtract => zip_map(x, y, out, |x: T, y: T| x.add(y.negate())),
        BinaryOp::Multiply => zip_map(x, y, out, T::multiply),
        BinaryOp::Divide => zip_map(x, y, out, T::divide),
        BinaryOp::Remainder => zip_map(x, y, out, T::remainder),
        BinaryOp::Maximum => zip_map(x, y, out, T::maximum),
        BinaryOp::Minimum => zip_map(x, y, out, T::minimum),
        BinaryOp::Power => zip_map(x, y, out, T::power),
        BinaryOp::And => zip_map(x, y, out, T::and),
        BinaryOp::Or => zip_map(x, y, out, T::or),
        BinaryOp::Xor => zip_map(x, y, out, T::xor),
        BinaryOp::ShiftLeft => zip_map(x, y, out, T::shift_left),
        BinaryOp::ShiftRightArithmetic => zip_map(x, y, out, T::shift_right_arithmetic),
        BinaryOp::ShiftRightLogical => zip_map(x, y, out, T::shift_right_logical),
        BinaryOp::Atan2 | BinaryOp::Complex => return Err(unsupported(op, T::TYPE)),
    }
    Ok(())
}

/// Power as XLA compiles it.
pub(super) fn compiled_power<T: IntegerMath + Arithmetic>(x: &[T], y: &[T], out: &mut [T]) {
    zip_map(x, y, out, T::compiled_power);
}

/// An operation on one truth value.
pub(super) fn pred_unary(op: UnaryOp, x: &[Pred], out: &mut [Pred]) -> Result<(), KernelError> {
    match op {
        UnaryOp::Not => map(x, out, |x: Pred| Pred(u8::from(x.0 == 0))),
        _ => return Err(unsupported(op, "pred")),
    }
    Ok(())
}

/// An operation on two truth values.
pub(super) fn pred_binary(
    op: BinaryOp,
    x: &[Pred],
    y: &[Pred],
    out: &mut [Pred],
) -> Result<(), KernelError> {
    match op {
        BinaryOp::Add | BinaryOp::Or | BinaryOp::Maximum => zip_map(x, y, out, Arithmetic::or),
        BinaryOp::Multiply | BinaryOp::And | BinaryOp::Minimum => {
            zip_map(x, y, out, Arithmetic::and);
        }
        BinaryOp::Xor => zip_map(x, y, out, Arithmetic::xor),
        _ => return Err(unsupported(op, "pred")),
    }
    Ok(())
}

/// `out[i] = function(x[i])`. Ten types have these loops, so they are not
/// compiled for every vector unit as those of floating-point numbers are.
fn map<T: Copy>(x: &[T], out: &mut [T], function: impl Fn(T) -> T) {
    out.iter_mut()
        .zip(x)
        .for_each(|(out, &x)| *out = function(x));
}

/// `out[i] = function(x[i], y[i])`.
fn zip_map<T: Copy>(x: &[T], y: &[T], out: &mut [T], function: impl Fn(T, T) -> T) {
    out.iter_mut()
        .zip(x)
        .zip(y)
        .for_each(|((out, &x), &y)| *out = function(x, y));
}
