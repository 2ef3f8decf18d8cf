//! Instructions that move elements.

use crate::array::{ArrayView, ArrayViewMut, Buffer};
use crate::attributes::{PaddingDim, RngDistribution};
use crate::element::{ElementClass, ElementType, with_element, with_word};
use crate::ir::Op;
use crate::kernels;
use crate::numerics::Numeric;
use crate::shape::ArrayShape;
use crate::strided::{Loop, StridedCopy, dense_strides};

use super::run::{Fault, Frame, Run};
use super::value::Value;

impl<'a> Run<'a> {
    pub(super) fn movement(&mut self, mut frame: Frame<'_, 'a>) -> Result<Value<'a>, Fault> {
        let context = self.context();
        match frame.instruction.op() {
            Op::Broadcast { dims } => {
                let operand = frame.array(0)?;
                let mut strides = vec![0; frame.result()?.rank()];
                for (&dim, stride) in dims.iter().zip(dense_strides(operand.dims())) {
                    strides[dim] = stride;
                }
                self.gathered(&frame, &strides, 0)
            }
            Op::Transpose { permutation } => {
                let own = dense_strides(frame.array(0)?.dims());
                let strides: Vec<isize> = permutation.iter().map(|&dim| own[dim]).collect();
                self.gathered(&frame, &strides, 0)
            }
            Op::Slice(slices) => {
                let own = dense_strides(frame.array(0)?.dims());
                let mut first = 0;
                let mut strides = Vec::with_capacity(own.len());
                for (slice, stride) in slices.iter().zip(own) {
                    first += slice.start * stride.unsigned_abs();
                    strides.push(stride.saturating_mul(slice.stride.cast_signed()));
                }
                self.gathered(&frame, &strides, first)
            }
            Op::Reverse { dims } => {
                let operand = frame.array(0)?;
                let mut strides = dense_strides(operand.dims());
                let mut first = 0;
                for &dim in dims {
                    first += operand.dims()[dim].saturating_sub(1) * strides[dim].unsigned_abs();
                    strides[dim] = -strides[dim];
                }
                self.gathered(&frame, &strides, first)
            }
            Op::Pad(padding) => self.pad(&frame, padding),
            Op::Concatenate { dimension } => self.concatenate(&frame, *dimension),
            Op::Iota { dimension } => {
                self.filled(frame.result()?, |out, _| iota(out, *dimension))
            }
            Op::BitcastConvert => self.bitcast(frame),
            Op::DynamicSlice => {
                let operand = frame.view(0)?;
                let starts = frame.views(1..frame.operands.len())?;
                self.filled(frame.result()?, |out, _| {
                    Ok(kernels::dynamic_slice(operand, &starts, out, context)?)
                })
            }
            Op::DynamicUpdateSlice => {
                let operand = frame.take(0);
                let buffer = self.own(operand)?;
                let update = frame.view(1)?;
                let starts = frame.views(2..frame.operands.len())?;
                self.written(&[frame.result()?], vec![buffer], |outs, _| {
                    let out = outs[0].reborrow();
                    Ok(kernels::dynamic_update_slice(out, update, &starts, context)?)
                })
            }
            Op::GetDimensionSize { dimension } => {
                let size = frame.array(0)?.dims()[*dimension];
                let size = i32::try_from(size).unwrap_or(i32::MAX);
                Ok(Buffer::copied(&size.to_ne_bytes())?.into())
            }
            _ => Err(Fault::Unsupported("the opcode".into())),
        }
    }

    /// The result whose element at an index is the operand's at `first` plus
    /// the index times `strides`.
    fn gathered(
        &mut self,
        frame: &Frame<'_, 'a>,
        strides: &[isize],
        first: usize,
    ) -> Result<Value<'a>, Fault> {
        let operand = frame.view(0)?;
        let result = frame.result()?;
        let copy = StridedCopy::to_dense(result.dims(), strides, first);
        self.filled(result, |out, _| copied(&copy, operand, out))
    }

    fn pad(&mut self, frame: &Frame<'_, 'a>, padding: &[PaddingDim]) -> Result<Value<'a>, Fault> {
        let (operand, value) = (frame.view(0)?, frame.view(1)?);
        let result = frame.result()?;
        let from = dense_strides(operand.dims());
        let to = dense_strides(result.dims());
        let mut loops = Vec::with_capacity(from.len());
        let (mut source, mut target) = (0, 0);
        for (dim, padding) in padding.iter().enumerate() {
            let step = padding.interior + 1;
            let (first, count) =
                visible(operand.dims()[dim], result.dims()[dim], padding.low, step);
            source += first * from[dim].unsigned_abs();
            // The first visible element is not cropped, so it lies within.
            let position = (first * step).saturating_add_signed(padding_low(padding.low));
            target += position * to[dim].unsigned_abs();
            let to = to[dim].saturating_mul(step.cast_signed());
            loops.push(Loop { count, from: from[dim], to });
        }
        let copy = StridedCopy::new(loops, source, target);
        self.filled(result, |mut out, _| {
            with_word!(value.element(), W => {
                let value = value.words::<W>()?[0];
                out.words_mut::<W>()?.fill(value);
            });
            copied(&copy, operand, out)
        })
    }

    fn concatenate(
        &mut self,
        frame: &Frame<'_, 'a>,
        dimension: usize,
    ) -> Result<Value<'a>, Fault> {
        let result = frame.result()?;
        let size = result.element().byte_size();
        let row = |shape: &ArrayShape| shape.dims()[dimension..].iter().product::<usize>() * size;
        let width = row(result);
        let operands = frame.views(0..frame.operands.len())?;
        let widths: Vec<usize> =
            (0..operands.len()).map(|i| frame.array(i).map(row)).collect::<Result<_, _>>()?;
        self.filled(result, |mut out, _| {
            let out = out.bytes_mut();
            let mut first = 0;
            for (operand, &part) in operands.iter().zip(&widths) {
                if part > 0 {
                    let rows = out.chunks_exact_mut(width).zip(operand.bytes().chunks_exact(part));
                    rows.for_each(|(out, row)| out[first..first + part].copy_from_slice(row));
                }
                first += part;
            }
            Ok(())
        })
    }

    fn bitcast(&mut self, mut frame: Frame<'_, 'a>) -> Result<Value<'a>, Fault> {
        let result = frame.result()?;
        let (from, to) = (frame.array(0)?.element(), result.element());
        if from.bit_width() != 4 && to.bit_width() != 4 {
            return Ok(frame.take(0));
        }
        let bytes = frame.view(0)?.bytes();
        let packed: Vec<u8> = if from.bit_width() == 4 {
            bytes.chunks(2).map(|pair| pair[0] & 0xf | pair.get(1).unwrap_or(&0) << 4).collect()
        } else {
            bytes.to_vec()
        };
        self.filled(result, |mut out, _| {
            let out = out.bytes_mut();
            if to.bit_width() != 4 {
                out.copy_from_slice(&packed);
                return Ok(());
            }
            let nibbles = packed.iter().flat_map(|&byte| [byte & 0xf, byte >> 4]);
            for (out, nibble) in out.iter_mut().zip(nibbles) {
                let extended = ((nibble << 4).cast_signed() >> 4).cast_unsigned();
                *out = if to == ElementType::S4 { extended } else { nibble };
            }
            Ok(())
        })
    }

    pub(super) fn rng(
        &mut self,
        frame: &Frame<'_, 'a>,
        distribution: RngDistribution,
    ) -> Result<Value<'a>, Fault> {
        let (a, b) = (frame.view(0)?, frame.view(1)?);
        let mut bits = Bits(self.options().rng_seed ^ self.steps());
        let element = a.element();
        if element.byte_size() == 8 && element.is_integer() {
            // Bounds beyond 2^53 would be inexact.
            return Err(Fault::Unsupported(format!("rng of {element}")));
        }
        self.filled(frame.result()?, |mut out, _| {
            with_element!(element, T => {
                let (a, b) = (a.values::<T>()?[0].to_f64(), b.values::<T>()?[0].to_f64());
                for value in out.values_mut::<T>()? {
                    *value = T::from_f64(match distribution {
                        RngDistribution::Normal => a + b * bits.normal(),
                        RngDistribution::Uniform if element.is_float() => {
                            a + (b - a) * bits.uniform()
                        }
                        RngDistribution::Uniform => (a + (b - a) * bits.uniform()).floor(),
                    });
                }
            });
            Ok(())
        })
    }
}

/// A stream of pseudo-random bits: splitmix64.
struct Bits(u64);

impl Bits {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Uniform in [0, 1), a multiple of 2^-24, so that rounding to `f32` does
    /// not reach 1.
    fn uniform(&mut self) -> f64 {
        let bits = u32::try_from(self.next() >> 40).unwrap_or_default();
        f64::from(bits) * 2_f64.powi(-24)
    }

    /// Standard normal, by the Box-Muller transform.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

fn padding_low(low: i64) -> isize {
    isize::try_from(low).unwrap_or(isize::MAX)
}

/// The first element of a dimension of `size` that padding leaves in a result
/// of `result`, and how many it leaves.
fn visible(size: usize, result: usize, low: i64, step: usize) -> (usize, usize) {
    let position = |element: usize| padding_low(low) + (element * step).cast_signed();
    let first = match usize::try_from(low) {
        Ok(_) => 0,
        Err(_) => usize::try_from(low.unsigned_abs()).unwrap_or(usize::MAX).div_ceil(step),
    };
    if first >= size || position(first) >= result.cast_signed() {
        return (0, 0);
    }
    let room = result - position(first).unsigned_abs();
    (first, (size - first).min(room.div_ceil(step)))
}

fn copied(
    copy: &StridedCopy,
    operand: ArrayView<'_>,
    mut out: ArrayViewMut<'_>,
) -> Result<(), Fault> {
    with_word!(operand.element(), W => {
        copy.run(operand.words::<W>()?, out.words_mut::<W>()?);
    });
    Ok(())
}

fn iota(mut out: ArrayViewMut<'_>, dimension: usize) -> Result<(), Fault> {
    let dims = out.dims();
    let inner: usize = dims[dimension + 1..].iter().product();
    let size = dims[dimension];
    let integral = !matches!(out.element().class(), ElementClass::Float | ElementClass::Complex);
    with_element!(out.element(), T => {
        let out = out.values_mut::<T>()?;
        if out.is_empty() {
            return Ok(());
        }
        for (index, run) in out.chunks_exact_mut(inner).enumerate() {
            let position = u32::try_from(index % size).map_or_else(
                |_| T::from_u64((index % size) as u64),
                |position| {
                    if integral { T::from_u64(position.into()) } else { T::from_f64(position.into()) }
                },
            );
            run.fill(position);
        }
    });
    Ok(())
}
