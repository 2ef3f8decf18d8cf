//! Instructions that call a computation on scalars.

use std::sync::Arc;

use crate::array::{ArrayViewMut, Buffer};
use crate::error::ExecuteError;
use crate::ir::{ComputationIndex, Op};
use crate::kernels::{self, Combiner, Comparator, Region};
use crate::lanes::LaneRegion;

use super::run::{Fault, Frame, Run};
use super::value::{Data, Value};

/// A computation on scalars that is executed for each lane: what holds more
/// than elementwise steps.
struct CallRegion<'r, 'a> {
    run: &'r mut Run<'a>,
    computation: ComputationIndex,
}

impl Region for CallRegion<'_, '_> {
    fn call(
        &mut self,
        lanes: usize,
        args: &[&[u8]],
        results: &mut [&mut [u8]],
    ) -> Result<(), Box<ExecuteError>> {
        let lane_of = |bytes: usize| bytes / lanes.max(1);
        for lane in 0..lanes {
            let mut values = Vec::with_capacity(args.len());
            for arg in args {
                let size = lane_of(arg.len());
                let bytes = &arg[lane * size..(lane + 1) * size];
                let buffer = Buffer::copied(bytes).map_err(ExecuteError::from)?;
                values.push(Value::Array(Data::Owned(Arc::new(buffer))));
            }
            let value = self.run.call(self.computation, values)?;
            let shape = self.run.module.computation(self.computation).result_shape();
            let mut leaves = Vec::new();
            value.leaves(shape, &mut leaves);
            for (result, (_, bytes)) in results.iter_mut().zip(leaves) {
                let size = lane_of(result.len());
                result[lane * size..(lane + 1) * size].copy_from_slice(bytes);
            }
        }
        Ok(())
    }
}

impl<'a> Run<'a> {
    /// Calls `then` with a region that evaluates `computation`.
    pub(super) fn with_region<T>(
        &mut self,
        computation: ComputationIndex,
        then: impl FnOnce(&mut dyn Region) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let plan = self.plan;
        match plan
            .region(computation)
            .and_then(|region| region.program.as_ref())
        {
            Some(program) => then(&mut LaneRegion::new(program, self.context())),
            None => then(&mut CallRegion {
                run: self,
                computation,
            }),
        }
    }

    /// Calls `then` with the combiner that `computation` is.
    fn with_combiner<T>(
        &mut self,
        computation: ComputationIndex,
        then: impl FnOnce(Combiner<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let plan = self.plan;
        if let Some(region) = plan.region(computation) {
            if let Some(monoid) = region.monoid {
                return then(Combiner::Monoid(monoid));
            }
            if region.replaces {
                return then(Combiner::Replace);
            }
        }
        self.with_region(computation, |region| then(Combiner::Region(region)))
    }

    /// Calls `then` with the comparator that `computation` is.
    fn with_comparator<T>(
        &mut self,
        computation: ComputationIndex,
        then: impl FnOnce(Comparator<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let plan = self.plan;
        if let Some((operand, comparison)) = plan
            .region(computation)
            .and_then(|region| region.comparison)
        {
            return then(Comparator::Compare {
                operand,
                comparison,
            });
        }
        self.with_region(computation, |region| then(Comparator::Region(region)))
    }

    pub(super) fn map(
        &mut self,
        frame: &Frame<'_, 'a>,
        computation: ComputationIndex,
    ) -> Result<Value<'a>, Fault> {
        let result = frame.result()?;
        let views = frame.views(0..frame.operands.len())?;
        let args: Vec<&[u8]> = views.iter().map(|view| view.bytes()).collect();
        self.filled(result, |mut out, run| {
            run.with_region(computation, |region| {
                region.call(result.element_count(), &args, &mut [out.bytes_mut()])?;
                Ok(())
            })
        })
    }

    pub(super) fn regional(&mut self, frame: &mut Frame<'_, 'a>) -> Result<Value<'a>, Fault> {
        let context = self.context();
        match frame.instruction.op() {
            Op::ReduceWindow {
                window,
                computation,
            } => {
                let arity = frame.operands.len() / 2;
                let operands = frame.views(0..arity)?;
                let inits = frame.views(arity..2 * arity)?;
                let window = window.clone();
                self.filled_all(&frame.results()?, |outs, run| {
                    run.with_combiner(*computation, |combiner| {
                        Ok(kernels::reduce_window(
                            &operands, &inits, &window, combiner, outs, context,
                        )?)
                    })
                })
            }
            Op::SelectAndScatter {
                window,
                select,
                scatter,
            } => {
                let (operand, source, init) = (frame.view(0)?, frame.view(1)?, frame.view(2)?);
                let (select, scatter) = (*select, *scatter);
                self.filled(frame.result()?, |out, run| {
                    run.select_and_scatter(select, scatter, |select, scatter| {
                        Ok(kernels::select_and_scatter(
                            operand, source, init, window, select, scatter, out, context,
                        )?)
                    })
                })
            }
            Op::Scatter { dims, computation } => {
                let arity = frame.operands.len() / 2;
                let mut buffers = Vec::with_capacity(arity);
                for index in 0..arity {
                    let operand = frame.take(index);
                    buffers.push(self.own(operand)?);
                }
                let indices = frame.view(arity)?;
                let updates = frame.views(arity + 1..2 * arity + 1)?;
                self.written(&frame.results()?, buffers, |outs, run| {
                    run.with_combiner(*computation, |combiner| {
                        Ok(kernels::scatter(
                            outs, indices, &updates, dims, combiner, context,
                        )?)
                    })
                })
            }
            Op::Sort {
                dimension,
                computation,
                ..
            } => {
                let mut buffers = Vec::with_capacity(frame.operands.len());
                for index in 0..frame.operands.len() {
                    let operand = frame.take(index);
                    buffers.push(self.own(operand)?);
                }
                self.written(
                    &frame.results()?,
                    buffers,
                    |outs: &mut [ArrayViewMut<'_>], run| {
                        run.with_comparator(*computation, |comparator| {
                            Ok(kernels::sort(outs, *dimension, comparator, context)?)
                        })
                    },
                )
            }
            _ => Err(Fault::Unsupported("the opcode".into())),
        }
    }

    /// Calls `then` with both computations of a `select-and-scatter`. At most
    /// one of them may need more than elementwise steps.
    fn select_and_scatter<T>(
        &mut self,
        select: ComputationIndex,
        scatter: ComputationIndex,
        then: impl FnOnce(Comparator<'_>, Combiner<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let (plan, context) = (self.plan, self.context());
        let Some(selector) = plan.region(select) else {
            return Err(Fault::Unsupported("a computation without a plan".into()));
        };
        if let Some((operand, comparison)) = selector.comparison {
            let comparator = Comparator::Compare {
                operand,
                comparison,
            };
            return self.with_combiner(scatter, |combiner| then(comparator, combiner));
        }
        if let Some(program) = &selector.program {
            let mut region = LaneRegion::new(program, context);
            return self.with_combiner(scatter, |combiner| {
                then(Comparator::Region(&mut region), combiner)
            });
        }
        match plan.region(scatter) {
            Some(region) if region.monoid.is_some() => {
                let monoid = region.monoid.unwrap_or(crate::attributes::Monoid::Add);
                self.with_comparator(select, |comparator| {
                    then(comparator, Combiner::Monoid(monoid))
                })
            }
            _ => Err(Fault::Unsupported(
                "two computations with control flow".into(),
            )),
        }
    }
}
