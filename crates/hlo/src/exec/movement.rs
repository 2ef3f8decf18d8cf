//! Instructions that move elements.

use crate::array::Buffer;
use crate::attributes::RngDistribution;
use crate::element::ElementType;
use crate::ir::Op;
use crate::kernels;

use super::run::{Fault, Frame, Run};
use super::value::Value;

impl<'a> Run<'a> {
    pub(super) fn movement(&mut self, mut frame: Frame<'_, 'a>) -> Result<Value<'a>, Fault> {
        let context = self.context();
        match frame.instruction.op() {
            Op::Broadcast { dims } => {
                let operand = frame.view(0)?;
                self.filled(frame.result()?, |out, _| {
                    Ok(kernels::broadcast(operand, dims, out)?)
                })
            }
            Op::Transpose { permutation } => {
                let operand = frame.view(0)?;
                self.filled(frame.result()?, |out, _| {
                    Ok(kernels::transpose(operand, permutation, out)?)
                })
            }
            Op::Slice(slices) => {
                let operand = frame.view(0)?;
                self.filled(frame.result()?, |out, _| {
                    Ok(kernels::slice(operand, slices, out)?)
                })
            }
            Op::Reverse { dims } => {
                let operand = frame.view(0)?;
                self.filled(frame.result()?, |out, _| {
                    Ok(kernels::reverse(operand, dims, out)?)
                })
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
            Op::Iota { dimension } => self.filled(frame.result()?, |out, _| {
                Ok(kernels::iota(*dimension, out)?)
            }),
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
                    Ok(kernels::dynamic_update_slice(
                        out, update, &starts, context,
                    )?)
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
            bytes
                .chunks(2)
                .map(|pair| pair[0] & 0xf | pair.get(1).unwrap_or(&0) << 4)
                .collect()
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
                *out = if to == ElementType::S4 {
                    extended
                } else {
                    nibble
                };
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
        let seed = self.options().rng_seed ^ self.steps();
        self.filled(frame.result()?, |out, _| {
            Ok(kernels::rng(distribution, a, b, seed, out)?)
        })
    }
}
