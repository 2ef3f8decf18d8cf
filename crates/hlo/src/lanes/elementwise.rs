//! One elementwise operation on slices.

use std::fmt;

use num_complex::Complex;

use crate::array::{ArrayView, ArrayViewMut};
use crate::attributes::{Comparison, Direction};
use crate::element::{Element, ElementType, Pred, S4, U4, with_element, with_narrow, with_word};
use crate::error::KernelError;
use crate::ir::{BinaryOp, UnaryOp};
use crate::kernels::{self, Context};
use crate::numerics::{IntegerMath, NarrowFloat, Ordered, convert, map, zip_map};
use crate::options::{Denormals, Rewrites};

use super::complex::{self, ComplexElement};
use super::flush::{flushed, flushed_bf16};
use super::integer;
use super::real::{Real, narrow_binary, narrow_clamp, narrow_unary};

/// An elementwise operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LaneOp {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Compare(Comparison),
    /// Truth value, then the two choices.
    Select,
    /// Lower bound, value, upper bound.
    Clamp,
    Convert,
    /// The same bits under another type of the same width, or a plain copy.
    Copy,
    ReducePrecision {
        exponent_bits: u32,
        mantissa_bits: u32,
    },
}

/// Evaluates `$body` with `$T` bound to the integer type that stores
/// `$element`, or `$other`.
macro_rules! with_integer {
    ($element:expr, $T:ident => $body:expr, else $other:expr) => {
        match $element {
            ElementType::S4 => {
                type $T = S4;
                $body
            }
            ElementType::S8 => {
                type $T = i8;
                $body
            }
            ElementType::S16 => {
                type $T = i16;
                $body
            }
            ElementType::S32 => {
                type $T = i32;
                $body
            }
            ElementType::S64 => {
                type $T = i64;
                $body
            }
            ElementType::U4 => {
                type $T = U4;
                $body
            }
            ElementType::U8 => {
                type $T = u8;
                $body
            }
            ElementType::U16 => {
                type $T = u16;
                $body
            }
            ElementType::U32 => {
                type $T = u32;
                $body
            }
            ElementType::U64 => {
                type $T = u64;
                $body
            }
            _ => $other,
        }
    };
}

/// Applies `op` to operands of as many elements as `out`.
pub(crate) fn apply(
    op: LaneOp,
    args: &[ArrayView<'_>],
    out: ArrayViewMut<'_>,
    context: Context<'_>,
) -> Result<(), KernelError> {
    if context.options.denormals == Denormals::FlushToZero {
        match args.first().map(ArrayView::element) {
            Some(ElementType::F32) => return flushed::<f32>(op, args, out, context),
            Some(ElementType::F64) => return flushed::<f64>(op, args, out, context),
            Some(ElementType::BF16) => return flushed_bf16(op, args, out, context),
            _ => {}
        }
    }
    if context.options.rewrites == Rewrites::Xla
        && let (LaneOp::Binary(BinaryOp::Power), &[x, y]) = (op, args)
    {
        let mut out = out;
        return with_integer!(x.element(),
            T => {
                integer::compiled_power::<T>(x.values()?, y.values()?, out.values_mut()?);
                Ok(())
            },
            else kept(op, args, out, context));
    }
    kept(op, args, out, context)
}

/// Applies `op` with denormals kept.
pub(super) fn kept(
    op: LaneOp,
    args: &[ArrayView<'_>],
    mut out: ArrayViewMut<'_>,
    context: Context<'_>,
) -> Result<(), KernelError> {
    match (op, args) {
        (LaneOp::Unary(op), &[x]) => unary(op, x, out),
        (LaneOp::Binary(op), &[x, y]) => binary(op, x, y, out),
        (LaneOp::Compare(comparison), &[x, y]) => compare(comparison, x, y, out),
        (LaneOp::Select, &[predicate, x, y]) => select(predicate, x, y, out),
        (LaneOp::Clamp, &[low, x, high]) => clamp(low, x, high, out),
        (LaneOp::Convert, &[x]) => convert(x, out),
        (LaneOp::Copy, &[x]) => {
            out.bytes_mut().copy_from_slice(x.bytes());
            Ok(())
        }
        (
            LaneOp::ReducePrecision {
                exponent_bits,
                mantissa_bits,
            },
            &[x],
        ) => kernels::reduce_precision(x, exponent_bits, mantissa_bits, out, context),
        _ => Err(KernelError::Unsupported {
            what: format!("{op:?} of {} operands", args.len()),
        }),
    }
}

/// The error for an operation that a type does not have.
pub(super) fn unsupported(op: impl fmt::Debug, element: impl fmt::Display) -> KernelError {
    KernelError::Unsupported {
        what: format!("{op:?} of {element}"),
    }
}

fn unary(op: UnaryOp, x: ArrayView<'_>, mut out: ArrayViewMut<'_>) -> Result<(), KernelError> {
    if op == UnaryOp::IsFinite {
        return is_finite(x, out);
    }
    match x.element() {
        ElementType::F32 => f32::unary(op, x.values()?, out.values_mut()?),
        ElementType::F64 => f64::unary(op, x.values()?, out.values_mut()?),
        ElementType::C64 => complex::unary::<Complex<f32>>(op, x, out),
        ElementType::C128 => complex::unary::<Complex<f64>>(op, x, out),
        ElementType::Pred => integer::pred_unary(op, x.values()?, out.values_mut()?),
        element => with_integer!(element,
            T => integer::unary::<T>(op, x.values()?, out.values_mut()?),
            else with_narrow!(element,
                T => narrow_unary::<T>(op, x.values()?, out.values_mut()?),
                else Err(unsupported(op, element)))),
    }
}

fn is_finite(x: ArrayView<'_>, mut out: ArrayViewMut<'_>) -> Result<(), KernelError> {
    let element = x.element();
    let out = out.values_mut::<Pred>()?;
    let pred = |finite| Pred(u8::from(finite));
    match element {
        ElementType::F32 => map(x.values::<f32>()?, out, |x| pred(x.is_finite())),
        ElementType::F64 => map(x.values::<f64>()?, out, |x| pred(x.is_finite())),
        _ => with_narrow!(element,
            T => map(x.values::<T>()?, out, |x| pred(NarrowFloat::to_f32(x).is_finite())),
            else return Err(unsupported(UnaryOp::IsFinite, element))),
    }
    Ok(())
}

fn binary(
    op: BinaryOp,
    x: ArrayView<'_>,
    y: ArrayView<'_>,
    mut out: ArrayViewMut<'_>,
) -> Result<(), KernelError> {
    match (op, x.element()) {
        (BinaryOp::Complex, ElementType::F32) => complex::combine::<Complex<f32>>(x, y, out),
        (BinaryOp::Complex, ElementType::F64) => complex::combine::<Complex<f64>>(x, y, out),
        (_, ElementType::F32) => f32::binary(op, x.values()?, y.values()?, out.values_mut()?),
        (_, ElementType::F64) => f64::binary(op, x.values()?, y.values()?, out.values_mut()?),
        (_, ElementType::C64) => complex_binary::<Complex<f32>>(op, x, y, out),
        (_, ElementType::C128) => complex_binary::<Complex<f64>>(op, x, y, out),
        (_, ElementType::Pred) => {
            integer::pred_binary(op, x.values()?, y.values()?, out.values_mut()?)
        }
        (_, element) => with_integer!(element,
            T => integer::binary::<T>(op, x.values()?, y.values()?, out.values_mut()?),
            else with_narrow!(element,
                T => narrow_binary::<T>(op, x.values()?, y.values()?, out.values_mut()?),
                else Err(unsupported(op, element)))),
    }
}

fn complex_binary<T: ComplexElement>(
    op: BinaryOp,
    x: ArrayView<'_>,
    y: ArrayView<'_>,
    mut out: ArrayViewMut<'_>,
) -> Result<(), KernelError> {
    complex::binary::<T>(op, x.values()?, y.values()?, out.values_mut()?)
}

fn compare(
    comparison: Comparison,
    x: ArrayView<'_>,
    y: ArrayView<'_>,
    mut out: ArrayViewMut<'_>,
) -> Result<(), KernelError> {
    let out = out.values_mut::<Pred>()?;
    macro_rules! plain {
        ($($variant:ident => $T:ty),*) => {
            match x.element() {
                $(ElementType::$variant if !comparison.total_order => {
                    compare_plain::<$T>(comparison.direction, x.values()?, y.values()?, out);
                })*
                element => with_element!(element, T => {
                    let (x, y) = (x.values::<T>()?, y.values::<T>()?);
                    for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
                        *out = Pred(u8::from(x.holds(comparison, y)));
                    }
                }),
            }
        };
    }
    plain!(F32 => f32, F64 => f64, S32 => i32, S64 => i64, U32 => u32, U64 => u64);
    Ok(())
}

fn compare_plain<T: Element + PartialOrd>(
    direction: Direction,
    x: &[T],
    y: &[T],
    out: &mut [Pred],
) {
    let pred = |holds| Pred(u8::from(holds));
    match direction {
        Direction::Eq => zip_map(x, y, out, |x, y| pred(x == y)),
        Direction::Ne => zip_map(x, y, out, |x, y| pred(x != y)),
        Direction::Lt => zip_map(x, y, out, |x, y| pred(x < y)),
        Direction::Le => zip_map(x, y, out, |x, y| pred(x <= y)),
        Direction::Gt => zip_map(x, y, out, |x, y| pred(x > y)),
        Direction::Ge => zip_map(x, y, out, |x, y| pred(x >= y)),
    }
}

fn select(
    predicate: ArrayView<'_>,
    x: ArrayView<'_>,
    y: ArrayView<'_>,
    mut out: ArrayViewMut<'_>,
) -> Result<(), KernelError> {
    let predicate = predicate.values::<Pred>()?;
    with_word!(x.element(), W => {
        let (x, y) = (x.words::<W>()?, y.words::<W>()?);
        let out = out.words_mut::<W>()?;
        for (((out, p), &x), &y) in out.iter_mut().zip(predicate).zip(x).zip(y) {
            *out = if p.0 != 0 { x } else { y };
        }
    });
    Ok(())
}

fn clamp(
    low: ArrayView<'_>,
    x: ArrayView<'_>,
    high: ArrayView<'_>,
    mut out: ArrayViewMut<'_>,
) -> Result<(), KernelError> {
    match x.element() {
        ElementType::F32 => {
            f32::clamp_all(
                low.values()?,
                x.values()?,
                high.values()?,
                out.values_mut()?,
            );
        }
        ElementType::F64 => {
            f64::clamp_all(
                low.values()?,
                x.values()?,
                high.values()?,
                out.values_mut()?,
            );
        }
        ElementType::Pred => {
            let (low, x, high) = (
                low.values::<Pred>()?,
                x.values::<Pred>()?,
                high.values::<Pred>()?,
            );
            let out = out.values_mut::<Pred>()?;
            for (((out, low), x), high) in out.iter_mut().zip(low).zip(x).zip(high) {
                *out = Pred(u8::from((low.0 != 0 || x.0 != 0) && high.0 != 0));
            }
        }
        element => with_integer!(element,
            T => {
                let (low, x, high) = (low.values::<T>()?, x.values::<T>()?, high.values::<T>()?);
                let out = out.values_mut::<T>()?;
                for (((out, &low), &x), &high) in out.iter_mut().zip(low).zip(x).zip(high) {
                    *out = IntegerMath::clamp(x, low, high);
                }
            },
            else with_narrow!(element,
                T => narrow_clamp::<T>(low.values()?, x.values()?, high.values()?, out.values_mut()?),
                else return Err(unsupported(LaneOp::Clamp, element)))),
    }
    Ok(())
}
