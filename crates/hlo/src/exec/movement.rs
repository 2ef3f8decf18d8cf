//! Instructions that move elements.

use crate::array::Buffer;
use crate::attributes::RngDistribution;
use crate::element::{ElementType, with_element};
use crate::ir::Op;
use crate::kernels;
use crate::numerics::Numeric;

use super::run::{Fault, Frame, Run};
use super::value::Value;

impl<'a> Run<'a> {
    pub(super) fn movement(&mut self, mut frame: Frame<'_, 'a>) -> Result<Value<'a>, Fault> {
        let context = self.context();
        match frame.instruction.op() {
            Op::Broadcast { dims } => {
                let operand = frame.view(0)?;
                self.filled(frame.result()?, |out, _| Ok(kernels::broadcast(operand, dims, out)?))
            }
            Op::Transpose { permutation } => {
                let operand = frame.view(0)?;
                self.filled(frame.result()?, |out, _| {
                    Ok(kernels::transpose(operand, permutation, out)?)
                })
            }
            Op::Slice(slices) => {
                let operand = frame.view(0)?;
                self.filled(frame.result()?, |out, _| Ok(kernels::slice(operand, slices, out)?))
            }
            Op::Reverse { dims } => {
                let operand = frame.view(0)?;
                self.filled(frame.result()?, |out, _| Ok(kernels::reverse(operand, dims, out)?))
            }
            Op::Pad(padding) => {
                let (operand, value) = (frame.view(0)?, frame.view(1)?);
                self.filled(frame.result()?, |out, _| {
                    Ok(kernels::pad(operand, value, padding, out)?)
                })
            }
            Op::Concatenate { dimension } => {
                let operands = frame.views(0..frame.operands.len())?;
                self.filled(frame.result()?, |out, _| {
                    Ok(kernels::concatenate(&operands, *dimension, out)?)
                })
            }
            Op::Iota { dimension } => {
                self.filled(frame.result()?, |out, _| Ok(kernels::iota(*dimension, out)?))
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
