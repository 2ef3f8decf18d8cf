//! Which code executes which instruction, and control flow.

use crate::array::{ArrayView, ArrayViewMut, Buffer};
use crate::custom::{COLLECTIVE_MATMUL, Call};
use crate::element::{ElementType, Pred};
use crate::ir::{BinaryOp, ComputationIndex, CustomCall, Op, UnaryOp};
use crate::kernels;
use crate::lanes::{LaneOp, apply, lane_op};
use crate::options::Rewrites;
use crate::shape::Shape;

use super::run::{Fault, Frame, Run};
use super::value::Value;

impl<'a> Run<'a> {
    /// The value of an instruction.
    pub(super) fn evaluate(&mut self, frame: Frame<'_, 'a>) -> Result<Value<'a>, Fault> {
        match frame.instruction.op() {
            Op::Constant(literal) => Ok(Value::literal(literal)),
            Op::Tuple => Ok(Value::Tuple(std::mem::take(frame.operands))),
            Op::AfterAll => Ok(Value::Token),
            Op::Copy | Op::Reshape | Op::Domain | Op::OptimizationBarrier | Op::AddDependency => {
                self.identity(frame)
            }
            Op::Call { computation } | Op::Fusion { computation } => {
                Ok(self.call(*computation, std::mem::take(frame.operands))?)
            }
            Op::AsyncStart { computation } => {
                let operands = std::mem::take(frame.operands);
                let result = self.call(*computation, operands.clone())?;
                self.started(&frame, vec![Value::Tuple(operands), result])
            }
            Op::CopyStart => {
                let operand = frame.operands[0].clone();
                self.started(&frame, vec![operand.clone(), operand])
            }
            Op::DivideByPower => self.divide_by_power(&frame),
            Op::While { condition, body } => self.while_loop(frame, *condition, *body),
            Op::Conditional { branches } => self.conditional(frame, branches),
            Op::Collective(collective) if collective.starts => {
                let result = self.collective(&frame, collective)?;
                let operands = match frame.operands.len() {
                    1 => frame.operands[0].clone(),
                    _ => Value::Tuple(frame.operands.clone()),
                };
                self.started(&frame, vec![operands, result])
            }
            Op::Collective(collective) => self.collective(&frame, collective),
            Op::CustomCall(call) => self.custom_call(&frame, call),
            Op::PartitionId | Op::ReplicaId => self.device_id(&frame),
            Op::Map { computation } => self.map(&frame, *computation),
            Op::Reduce { dims, computation } => self.reduce(&frame, dims, *computation),
            Op::Unary(_)
            | Op::Binary(_)
            | Op::Compare(_)
            | Op::Select
            | Op::Clamp
            | Op::Convert
            | Op::ReducePrecision { .. } => self.elementwise(frame),
            Op::Parameter { .. } | Op::GetTupleElement { .. } => {
                Err(Fault::Unsupported("an instruction without a frame".into()))
            }
            Op::BitcastConvert
            | Op::Broadcast { .. }
            | Op::Concatenate { .. }
            | Op::DynamicSlice
            | Op::DynamicUpdateSlice
            | Op::GetDimensionSize { .. }
            | Op::Iota { .. }
            | Op::Pad(_)
            | Op::Reverse { .. }
            | Op::Slice(_)
            | Op::Transpose { .. } => self.movement(frame),
            _ => self.kernel(frame),
        }
    }

    fn identity(&mut self, mut frame: Frame<'_, 'a>) -> Result<Value<'a>, Fault> {
        Ok(frame.take(0))
    }

    fn elementwise(&mut self, mut frame: Frame<'_, 'a>) -> Result<Value<'a>, Fault> {
        let result = frame.result()?;
        if matches!(frame.instruction.op(), Op::Convert)
            && frame.array(0)?.element() == result.element()
        {
            return Ok(frame.take(0));
        }
        let op = lane_op(frame.instruction.op()).unwrap_or(LaneOp::Copy);
        let mut splats = Vec::new();
        for index in 0..frame.operands.len() {
            let view = frame.view(index)?;
            // Bounds of clamp and the predicate of select may be scalars.
            splats.push(if view.dims() == result.dims() {
                None
            } else {
                let mut splat = self
                    .pool
                    .take(result.element_count() * view.element().byte_size())?;
                for element in splat
                    .bytes_mut()
                    .chunks_exact_mut(view.element().byte_size())
                {
                    element.copy_from_slice(view.bytes());
                }
                Some(splat)
            });
        }
        let mut args = Vec::with_capacity(splats.len());
        for (index, splat) in splats.iter().enumerate() {
            let view = frame.view(index)?;
            args.push(match splat {
                None => view,
                Some(splat) => ArrayView::new(view.element(), result.dims(), splat.bytes())?,
            });
        }
        let value = self.filled(result, |out, run| Ok(apply(op, &args, out, run.context())?))?;
        splats
            .into_iter()
            .flatten()
            .for_each(|splat| self.pool.give_buffer(splat));
        Ok(value)
    }

    /// The value of an instruction that starts what it has finished already:
    /// `elements`, and contexts of zeros where the shape has more.
    fn started(
        &mut self,
        frame: &Frame<'_, 'a>,
        mut elements: Vec<Value<'a>>,
    ) -> Result<Value<'a>, Fault> {
        let shapes = frame.instruction.shape().as_tuple().unwrap_or_default();
        for shape in shapes.iter().skip(elements.len()) {
            let mut buffers = shape
                .leaves()
                .iter()
                .map(|leaf| self.pool.zeros(leaf.byte_size()))
                .collect::<Result<Vec<_>, _>>()?
                .into_iter();
            elements.push(nested(shape, &mut buffers));
        }
        Ok(Value::Tuple(elements))
    }

    fn divide_by_power(&mut self, frame: &Frame<'_, 'a>) -> Result<Value<'a>, Fault> {
        let (dividend, base, exponent) = (frame.view(0)?, frame.view(1)?, frame.view(2)?);
        let (result, context) = (frame.result()?, self.context());
        let mut computed = |op, args: &[ArrayView<'_>]| {
            self.filled(result, |out, _| Ok(apply(op, args, out, context)?))
        };
        let (power, divide, multiply) = (BinaryOp::Power, BinaryOp::Divide, BinaryOp::Multiply);
        if context.options.rewrites == Rewrites::None {
            let power = computed(LaneOp::Binary(power), &[base, exponent])?;
            return computed(LaneOp::Binary(divide), &[dividend, power.view(result)?]);
        }
        let negated = computed(LaneOp::Unary(UnaryOp::Negate), &[exponent])?;
        let power = computed(LaneOp::Binary(power), &[base, negated.view(result)?])?;
        computed(LaneOp::Binary(multiply), &[dividend, power.view(result)?])
    }

    fn custom_call(
        &mut self,
        frame: &Frame<'_, 'a>,
        custom: &CustomCall,
    ) -> Result<Value<'a>, Fault> {
        let mut leaves = Vec::new();
        for (index, operand) in frame.operands.iter().enumerate() {
            operand.leaves(frame.shape(index), &mut leaves);
        }
        let operands = leaves
            .iter()
            .map(|(shape, bytes)| ArrayView::new(shape.element(), shape.dims(), bytes))
            .collect::<Result<Vec<_>, _>>()?;
        let call = Call {
            target: &custom.target,
            config: &custom.config,
            operands: &operands,
        };
        if call.target == COLLECTIVE_MATMUL && !self.targets.has(COLLECTIVE_MATMUL) {
            return self.collective_matmul(frame, call);
        }
        let shape = frame.instruction.shape();
        let results = shape.leaves();
        let mut buffers = results
            .iter()
            .map(|result| self.pool.take(result.byte_size()))
            .collect::<Result<Vec<_>, _>>()?;
        let mut outs = results
            .iter()
            .zip(&mut buffers)
            .map(|(result, buffer)| {
                ArrayViewMut::new(result.element(), result.dims(), buffer.bytes_mut())
            })
            .collect::<Result<Vec<_>, _>>()?;
        self.targets
            .call(call, &mut outs)
            .map_err(Fault::CustomCall)?;
        Ok(nested(shape, &mut buffers.into_iter()))
    }

    fn while_loop(
        &mut self,
        mut frame: Frame<'_, 'a>,
        condition: ComputationIndex,
        body: ComputationIndex,
    ) -> Result<Value<'a>, Fault> {
        let mut state = frame.take(0);
        loop {
            let proceed = self.call(condition, vec![state.clone()])?;
            if !truth(&proceed) {
                return Ok(state);
            }
            self.pool.give(proceed);
            state = self.call(body, vec![state])?;
        }
    }

    fn conditional(
        &mut self,
        mut frame: Frame<'_, 'a>,
        branches: &[ComputationIndex],
    ) -> Result<Value<'a>, Fault> {
        let index = frame.view(0)?;
        let last = branches.len() - 1;
        let branch = if index.element() == ElementType::Pred {
            usize::from(index.values::<Pred>()?[0].0 == 0)
        } else {
            // An index without a branch takes the last one.
            usize::try_from(index.values::<i32>()?[0])
                .unwrap_or(last)
                .min(last)
        };
        let arg = frame.take(branch + 1);
        Ok(self.call(branches[branch], vec![arg])?)
    }

    fn kernel(&mut self, mut frame: Frame<'_, 'a>) -> Result<Value<'a>, Fault> {
        let context = self.context();
        match frame.instruction.op() {
            Op::Dot(dims) => {
                let (lhs, rhs) = (frame.view(0)?, frame.view(1)?);
                self.filled(frame.result()?, |out, _| {
                    Ok(kernels::dot(lhs, rhs, dims, out, context)?)
                })
            }
            Op::Convolution(dims) => {
                let (input, kernel) = (frame.view(0)?, frame.view(1)?);
                self.filled(frame.result()?, |out, _| {
                    Ok(kernels::convolution(input, kernel, dims, out, context)?)
                })
            }
            Op::Gather(dims) => {
                let (operand, indices) = (frame.view(0)?, frame.view(1)?);
                self.filled(frame.result()?, |out, _| {
                    Ok(kernels::gather(operand, indices, dims, out, context)?)
                })
            }
            Op::Fft(dims) => {
                let operand = frame.view(0)?;
                self.filled(frame.result()?, |out, _| {
                    Ok(kernels::fft(operand, dims, out, context)?)
                })
            }
            Op::Cholesky { lower } => {
                let operand = frame.view(0)?;
                self.filled(frame.result()?, |out, _| {
                    Ok(kernels::cholesky(operand, *lower, out, context)?)
                })
            }
            Op::TriangularSolve(options) => {
                let (a, b) = (frame.view(0)?, frame.view(1)?);
                self.filled(frame.result()?, |out, _| {
                    Ok(kernels::triangular_solve(a, b, options, out, context)?)
                })
            }
            Op::BatchNormInference { epsilon, feature } => {
                let operands = [0, 1, 2, 3, 4].map(|index| frame.view(index));
                let [a, b, c, d, e] = operands;
                let operands = [a?, b?, c?, d?, e?];
                self.filled(frame.result()?, |out, _| {
                    let (epsilon, feature) = (*epsilon, *feature);
                    Ok(kernels::batch_norm_inference(
                        operands, epsilon, feature, out, context,
                    )?)
                })
            }
            Op::BatchNormTraining { epsilon, feature } => {
                let operands = [frame.view(0)?, frame.view(1)?, frame.view(2)?];
                self.filled_all(&frame.results()?, |outs, _| {
                    let (epsilon, feature) = (*epsilon, *feature);
                    let outs = three(outs)?;
                    Ok(kernels::batch_norm_training(
                        operands, epsilon, feature, outs, context,
                    )?)
                })
            }
            Op::BatchNormGrad { epsilon, feature } => {
                let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|index| frame.view(index));
                let operands = [a?, b?, c?, d?, e?];
                self.filled_all(&frame.results()?, |outs, _| {
                    let (epsilon, feature) = (*epsilon, *feature);
                    let outs = three(outs)?;
                    Ok(kernels::batch_norm_grad(
                        operands, epsilon, feature, outs, context,
                    )?)
                })
            }
            Op::RngBitGenerator(algorithm) => {
                let state = frame.view(0)?;
                self.filled_all(&frame.results()?, |outs, _| {
                    let [new_state, bits] = outs else {
                        return Err(arity(2));
                    };
                    let (new_state, bits) = (new_state.reborrow(), bits.reborrow());
                    Ok(kernels::rng_bit_generator(
                        state, *algorithm, new_state, bits, context,
                    )?)
                })
            }
            Op::TopK { largest } => {
                let operand = frame.view(0)?;
                self.filled_all(&frame.results()?, |outs, _| {
                    let [values, indices] = outs else {
                        return Err(arity(2));
                    };
                    let (values, indices) = (values.reborrow(), indices.reborrow());
                    Ok(kernels::top_k(operand, *largest, values, indices, context)?)
                })
            }
            Op::Rng(distribution) => self.rng(&frame, *distribution),
            Op::ReduceWindow { .. }
            | Op::SelectAndScatter { .. }
            | Op::Scatter { .. }
            | Op::Sort { .. } => self.regional(&mut frame),
            _ => Err(Fault::Unsupported("the opcode".into())),
        }
    }
}

fn three<'v>(outs: &'v mut [ArrayViewMut<'_>]) -> Result<[ArrayViewMut<'v>; 3], Fault> {
    let [a, b, c] = outs else {
        return Err(arity(3));
    };
    Ok([a.reborrow(), b.reborrow(), c.reborrow()])
}

/// Verification has made sure of the number of results.
fn arity(expected: usize) -> Fault {
    Fault::Unsupported(format!("a result of other than {expected} arrays"))
}

/// The value of `shape` whose arrays, depth first, are `buffers`.
fn nested<'a>(shape: &Shape, buffers: &mut impl Iterator<Item = Buffer>) -> Value<'a> {
    match shape {
        Shape::Tuple(elements) => Value::Tuple(
            elements
                .iter()
                .map(|element| nested(element, buffers))
                .collect(),
        ),
        Shape::Array(_) => buffers.next().map_or(Value::Token, Value::from),
        Shape::Token => Value::Token,
    }
}

fn truth(value: &Value<'_>) -> bool {
    matches!(value, Value::Array(data) if data.bytes().first().is_some_and(|&byte| byte != 0))
}
