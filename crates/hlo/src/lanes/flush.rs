//! Elementwise operations with denormals flushed to zero, as XLA does on a CPU.

use half::bf16;

use crate::array::{ArrayView, ArrayViewMut};
use crate::element::{Element, ElementType};
use crate::error::KernelError;
use crate::ir::{BinaryOp, UnaryOp};
use crate::kernels::Context;
use crate::numerics::{FlushingMath, NarrowFloat, apply, map, zip_map};

use super::elementwise::{LaneOp, kept};

/// Elements that are flushed at a time.
const CHUNK: usize = 256;

/// Whether denormal operands and results of `op` are flushed: not those of
/// what XLA does on bits, nor of what it computes without arithmetic on them.
fn flushes(op: LaneOp, element: ElementType, result: ElementType) -> bool {
    match op {
        // Between `bf16` and `f32` only bits move, and `bf16` is compared with
        // zero by its bits.
        LaneOp::Convert if element == ElementType::BF16 => result == ElementType::F64,
        // A real part and a power of two are not computed either.
        LaneOp::Convert if result.is_complex() || result == ElementType::F8E8M0FNU => false,
        LaneOp::Convert if element == ElementType::F32 => result != ElementType::BF16,
        LaneOp::Unary(UnaryOp::Tanh) => element == ElementType::F64,
        LaneOp::Unary(op) => !matches!(
            op,
            UnaryOp::Abs
                | UnaryOp::Negate
                | UnaryOp::Sin
                | UnaryOp::Tan
                | UnaryOp::ExpMinusOne
                | UnaryOp::Real
                | UnaryOp::Imag
                | UnaryOp::IsFinite
        ),
        LaneOp::Binary(op) => !matches!(op, BinaryOp::Complex | BinaryOp::Remainder),
        LaneOp::Compare(comparison) => !comparison.total_order,
        LaneOp::Clamp | LaneOp::Convert => true,
        LaneOp::Select | LaneOp::Copy | LaneOp::ReducePrecision { .. } => false,
    }
}

/// Applies `op` to operands of type `T`.
pub(super) fn flushed<T: Element + FlushingMath>(
    op: LaneOp,
    args: &[ArrayView<'_>],
    mut out: ArrayViewMut<'_>,
    context: Context<'_>,
) -> Result<(), KernelError> {
    if !flushes(op, T::TYPE, out.element()) {
        return kept(op, args, out, context);
    }
    match (op, args) {
        (LaneOp::Unary(UnaryOp::Cbrt), &[x]) => {
            map(x.values::<T>()?, out.values_mut::<T>()?, T::cbrt_flushed);
            return Ok(());
        }
        (LaneOp::Binary(BinaryOp::Power), &[x, y]) => {
            let (x, y) = (x.values::<T>()?, y.values::<T>()?);
            zip_map(x, y, out.values_mut::<T>()?, T::pow_flushed);
            return Ok(());
        }
        (LaneOp::Binary(BinaryOp::Atan2), &[y, x]) => {
            let (y, x) = (y.values::<T>()?, x.values::<T>()?);
            zip_map(y, x, out.values_mut::<T>()?, T::atan2_flushed);
            return Ok(());
        }
        _ => {}
    }
    let count = out.element_count();
    let (element, size) = (out.element(), out.element().byte_size());
    let bytes = out.bytes_mut();
    let mut buffers = [[T::zeroed(); CHUNK]; 3];
    for first in (0..count).step_by(CHUNK) {
        let lanes = CHUNK.min(count - first);
        let dims = [lanes];
        for (buffer, arg) in buffers.iter_mut().zip(args) {
            map(
                &arg.values::<T>()?[first..first + lanes],
                &mut buffer[..lanes],
                T::flush,
            );
        }
        let mut views = [ArrayView::EMPTY; 3];
        for (view, buffer) in views.iter_mut().zip(&buffers) {
            *view = ArrayView::new(T::TYPE, &dims, bytemuck::cast_slice(&buffer[..lanes]))?;
        }
        let target = &mut bytes[first * size..(first + lanes) * size];
        let mut target = ArrayViewMut::new(element, &dims, target)?;
        kept(op, &views[..args.len()], target.reborrow(), context)?;
        match element {
            ElementType::F32 => apply(target.values_mut::<f32>()?, f32::flush),
            ElementType::F64 => apply(target.values_mut::<f64>()?, f64::flush),
            ElementType::BF16 => apply(target.values_mut::<bf16>()?, flush_bf16),
            _ => {}
        }
    }
    Ok(())
}

/// Applies `op` to operands of type `bf16`, which is computed in `f32` and has
/// its exponents.
pub(super) fn flushed_bf16(
    op: LaneOp,
    args: &[ArrayView<'_>],
    mut out: ArrayViewMut<'_>,
    context: Context<'_>,
) -> Result<(), KernelError> {
    if !flushes(op, ElementType::BF16, out.element()) {
        return kept(op, args, out, context);
    }
    let count = out.element_count();
    let (element, size) = (out.element(), out.element().byte_size());
    let bytes = out.bytes_mut();
    let mut buffers = [[0_f32; CHUNK]; 3];
    let mut wide = [0_f32; CHUNK];
    for first in (0..count).step_by(CHUNK) {
        let lanes = CHUNK.min(count - first);
        let dims = [lanes];
        for (buffer, arg) in buffers.iter_mut().zip(args) {
            let values = &arg.values::<bf16>()?[first..first + lanes];
            map(values, &mut buffer[..lanes], NarrowFloat::to_f32);
        }
        let mut views = [ArrayView::EMPTY; 3];
        for (view, buffer) in views.iter_mut().zip(&buffers) {
            let values = bytemuck::cast_slice(&buffer[..lanes]);
            *view = ArrayView::new(ElementType::F32, &dims, values)?;
        }
        let views = &views[..args.len()];
        let target = &mut bytes[first * size..(first + lanes) * size];
        let mut target = ArrayViewMut::new(element, &dims, target)?;
        // What keeps its type has a result to be rounded.
        if element == ElementType::BF16 && op != LaneOp::Convert {
            let result = bytemuck::cast_slice_mut(&mut wide[..lanes]);
            let result = ArrayViewMut::new(ElementType::F32, &dims, result)?;
            flushed::<f32>(op, views, result, context)?;
            map(
                &wide[..lanes],
                target.values_mut::<bf16>()?,
                NarrowFloat::from_f32,
            );
        } else {
            flushed::<f32>(op, views, target, context)?;
        }
    }
    Ok(())
}

fn flush_bf16(value: bf16) -> bf16 {
    NarrowFloat::from_f32(NarrowFloat::to_f32(value).flush())
}
