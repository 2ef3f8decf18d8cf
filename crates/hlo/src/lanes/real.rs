//! Elementwise operations on floating-point numbers.

use crate::error::KernelError;
use crate::ir::{BinaryOp, UnaryOp};
use crate::numerics::{NarrowFloat, RealMath, map, zip_map};

use super::elementwise::unsupported;

/// Elements of narrow types that are computed in `f32` at a time.
const CHUNK: usize = 256;

/// Operations that a type of 32 or 64 bits computes itself.
pub(super) trait Real: RealMath + Copy + 'static {
    fn unary(op: UnaryOp, x: &[Self], out: &mut [Self]) -> Result<(), KernelError>;
    fn binary(op: BinaryOp, x: &[Self], y: &[Self], out: &mut [Self]) -> Result<(), KernelError>;
    fn clamp_all(low: &[Self], x: &[Self], high: &[Self], out: &mut [Self]);
}

macro_rules! real {
    ($($float:ident: $acos:path, $acosh:path, $asin:path, $asinh:path, $atanh:path, $cosh:path, $sinh:path;)*) => {$(
        impl Real for $float {
            fn unary(op: UnaryOp, x: &[Self], out: &mut [Self]) -> Result<(), KernelError> {
                match op {
                    UnaryOp::Abs => map(x, out, $float::abs),
                    UnaryOp::Acos => map(x, out, $acos),
                    UnaryOp::Acosh => map(x, out, $acosh),
                    UnaryOp::Asin => map(x, out, $asin),
                    UnaryOp::Asinh => map(x, out, $asinh),
                    UnaryOp::Atanh => map(x, out, $atanh),
                    UnaryOp::Cbrt => map(x, out, RealMath::cbrt),
                    UnaryOp::Ceil => map(x, out, $float::ceil),
                    UnaryOp::Cos => map(x, out, RealMath::cos),
                    UnaryOp::Cosh => map(x, out, $cosh),
                    UnaryOp::Erf => map(x, out, RealMath::erf),
                    UnaryOp::Exp => map(x, out, RealMath::exp),
                    UnaryOp::ExpMinusOne => map(x, out, RealMath::exp_m1),
                    UnaryOp::Floor => map(x, out, $float::floor),
                    UnaryOp::Imag => out.fill(0.0),
                    UnaryOp::Log => map(x, out, RealMath::ln),
                    UnaryOp::LogPlusOne => map(x, out, RealMath::ln_1p),
                    UnaryOp::Logistic => map(x, out, RealMath::logistic),
                    UnaryOp::Negate => map(x, out, |x| -x),
                    UnaryOp::Real => out.copy_from_slice(x),
                    UnaryOp::RoundNearestAfz => map(x, out, RealMath::round_away),
                    UnaryOp::RoundNearestEven => map(x, out, RealMath::round_even),
                    UnaryOp::Rsqrt => map(x, out, RealMath::rsqrt),
                    UnaryOp::Sign => map(x, out, RealMath::sign),
                    UnaryOp::Sin => map(x, out, RealMath::sin),
                    UnaryOp::Sinh => map(x, out, $sinh),
                    UnaryOp::Sqrt => map(x, out, RealMath::sqrt),
                    UnaryOp::Tan => map(x, out, RealMath::tan),
                    UnaryOp::Tanh => map(x, out, RealMath::tanh),
                    UnaryOp::CountLeadingZeros
                    | UnaryOp::IsFinite
                    | UnaryOp::Not
                    | UnaryOp::PopulationCount => return Err(unsupported(op, stringify!($float))),
                }
                Ok(())
            }

            fn binary(
                op: BinaryOp,
                x: &[Self],
                y: &[Self],
                out: &mut [Self],
            ) -> Result<(), KernelError> {
                match op {
                    BinaryOp::Add => zip_map(x, y, out, |x, y| x + y),
                    BinaryOp::Subtract => zip_map(x, y, out, |x, y| x - y),
                    BinaryOp::Multiply => zip_map(x, y, out, |x, y| x * y),
                    BinaryOp::Divide => zip_map(x, y, out, |x, y| x / y),
                    BinaryOp::Remainder => zip_map(x, y, out, RealMath::rem),
                    BinaryOp::Maximum => zip_map(x, y, out, RealMath::maximum),
                    BinaryOp::Minimum => zip_map(x, y, out, RealMath::minimum),
                    BinaryOp::Power => zip_map(x, y, out, RealMath::pow),
                    BinaryOp::Atan2 => zip_map(x, y, out, RealMath::atan2),
                    _ => return Err(unsupported(op, stringify!($float))),
                }
                Ok(())
            }

            fn clamp_all(low: &[Self], x: &[Self], high: &[Self], out: &mut [Self]) {
                for (((out, &low), &x), &high) in out.iter_mut().zip(low).zip(x).zip(high) {
                    *out = RealMath::clamp(x, low, high);
                }
            }
        }
    )*};
}

real! {
    f32: libm::acosf, libm::acoshf, libm::asinf, libm::asinhf, libm::atanhf, libm::coshf, libm::sinhf;
    f64: libm::acos, libm::acosh, libm::asin, libm::asinh, libm::atanh, libm::cosh, libm::sinh;
}

/// An operation on one operand of a type that is computed in `f32`.
pub(super) fn narrow_unary<T: NarrowFloat>(
    op: UnaryOp,
    x: &[T],
    out: &mut [T],
) -> Result<(), KernelError> {
    let (mut wide, mut result) = ([0.0; CHUNK], [0.0; CHUNK]);
    for (x, out) in x.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
        let (wide, result) = (&mut wide[..x.len()], &mut result[..x.len()]);
        map(x, wide, T::to_f32);
        f32::unary(op, wide, result)?;
        map(result, out, T::from_f32);
    }
    Ok(())
}

/// An operation on two operands of a type that is computed in `f32`.
pub(super) fn narrow_binary<T: NarrowFloat>(
    op: BinaryOp,
    x: &[T],
    y: &[T],
    out: &mut [T],
) -> Result<(), KernelError> {
    let (mut left, mut right, mut result) = ([0.0; CHUNK], [0.0; CHUNK], [0.0; CHUNK]);
    let chunks = x
        .chunks(CHUNK)
        .zip(y.chunks(CHUNK))
        .zip(out.chunks_mut(CHUNK));
    for ((x, y), out) in chunks {
        let (left, right) = (&mut left[..x.len()], &mut right[..x.len()]);
        let result = &mut result[..x.len()];
        map(x, left, T::to_f32);
        map(y, right, T::to_f32);
        f32::binary(op, left, right, result)?;
        map(result, out, T::from_f32);
    }
    Ok(())
}

/// `clamp` of a type that is computed in `f32`.
pub(super) fn narrow_clamp<T: NarrowFloat>(low: &[T], x: &[T], high: &[T], out: &mut [T]) {
    for (((out, &low), &x), &high) in out.iter_mut().zip(low).zip(x).zip(high) {
        *out = T::from_f32(RealMath::clamp(x.to_f32(), low.to_f32(), high.to_f32()));
    }
}
