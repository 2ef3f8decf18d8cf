//! One execution: its state and the walk over instructions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use crate::array::{ArrayView, ArrayViewMut, Buffer, ViewError};
use crate::custom::{CustomCallError, CustomCalls};
use crate::error::{ExecuteError, KernelError, Site};
use crate::ir::{Computation, ComputationIndex, Instruction, Module, Op};
use crate::kernels::Context;
use crate::lanes::{Chain, Fused};
use crate::options::{ExecuteOptions, NanPolicy};
use crate::plan::Plan;
use crate::shape::{ArrayShape, Shape};
use crate::world::CollectiveError;

use super::has_nan;
use super::value::{Data, Pool, Value};

/// An instruction that was executed, as an observer sees it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The computation.
    pub computation: &'a Computation,
    /// The instruction.
    pub instruction: &'a Instruction,
    /// Number of instructions that were executed before.
    pub step: u64,
    /// The arrays of its value, depth first.
    pub arrays: Vec<ArrayView<'a>>,
}

/// The state of an execution.
pub(super) struct Run<'a> {
    pub(super) module: &'a Module,
    pub(super) plan: &'a Plan,
    pub(super) targets: &'a CustomCalls,
    options: &'a ExecuteOptions,
    pub(super) pool: Pool,
    steps: u64,
    numerical_error: bool,
    observer: Option<&'a mut dyn FnMut(Event<'_>)>,
    /// Whether nobody looks at the values of single instructions.
    fuses: bool,
    /// How often each collective was executed.
    rounds: HashMap<(u32, u32), u64>,
}

/// Why an instruction failed, before its name is attached.
pub(super) enum Fault {
    Kernel(KernelError),
    Unsupported(String),
    Collective(CollectiveError),
    CustomCall(CustomCallError),
    /// An error that names its instruction already.
    Named(ExecuteError),
}

impl From<KernelError> for Fault {
    fn from(error: KernelError) -> Self {
        match error {
            KernelError::Region(inner) => match *inner {
                ExecuteError::Region { source } => Self::Kernel(source),
                other => Self::Named(other),
            },
            other => Self::Kernel(other),
        }
    }
}

impl From<ViewError> for Fault {
    fn from(error: ViewError) -> Self {
        Self::Kernel(error.into())
    }
}

impl From<Box<ExecuteError>> for Fault {
    fn from(error: Box<ExecuteError>) -> Self {
        KernelError::Region(error).into()
    }
}

impl From<ExecuteError> for Fault {
    fn from(error: ExecuteError) -> Self {
        Self::Named(error)
    }
}

/// An instruction in its computation, with the values of its operands.
pub(super) struct Frame<'f, 'a> {
    pub(super) computation: &'a Computation,
    pub(super) instruction: &'a Instruction,
    pub(super) operands: &'f mut Vec<Value<'a>>,
    /// Indices of the computation and the instruction.
    pub(super) place: (u32, u32),
}

impl<'a> Frame<'_, 'a> {
    /// Shape of operand `index`.
    pub(super) fn shape(&self, index: usize) -> &'a Shape {
        self.computation
            .at(self.instruction.operands()[index])
            .shape()
    }

    /// Shape of operand `index`, an array.
    pub(super) fn array(&self, index: usize) -> Result<&'a ArrayShape, Fault> {
        as_array(self.shape(index))
    }

    /// Operand `index`, an array.
    pub(super) fn view(&self, index: usize) -> Result<ArrayView<'_>, Fault> {
        Ok(self.operands[index].view(self.array(index)?)?)
    }

    /// Operands from `first` on, arrays.
    pub(super) fn views(&self, range: std::ops::Range<usize>) -> Result<Vec<ArrayView<'_>>, Fault> {
        range.map(|index| self.view(index)).collect()
    }

    /// Shape of the result, an array.
    pub(super) fn result(&self) -> Result<&'a ArrayShape, Fault> {
        as_array(self.instruction.shape())
    }

    /// Shapes of the result's arrays: the one it is, or those of the tuple.
    pub(super) fn results(&self) -> Result<Vec<&'a ArrayShape>, Fault> {
        arrays_of(self.instruction.shape())
    }

    /// Operand `index`, of which the frame keeps a token.
    pub(super) fn take(&mut self, index: usize) -> Value<'a> {
        std::mem::replace(&mut self.operands[index], Value::Token)
    }
}

/// The array that a shape is, or those of the tuple.
pub(super) fn arrays_of(shape: &Shape) -> Result<Vec<&ArrayShape>, Fault> {
    match shape {
        Shape::Tuple(elements) => elements.iter().map(as_array).collect(),
        shape => Ok(vec![as_array(shape)?]),
    }
}

/// Verification has made sure that this is an array.
fn as_array(shape: &Shape) -> Result<&ArrayShape, Fault> {
    shape
        .as_array()
        .ok_or_else(|| Fault::Unsupported(format!("a value of shape {shape}")))
}

impl<'a> Run<'a> {
    pub(super) fn new(
        module: &'a Module,
        plan: &'a Plan,
        targets: &'a CustomCalls,
        options: &'a ExecuteOptions,
        pool: Pool,
        observer: Option<&'a mut dyn FnMut(Event<'_>)>,
    ) -> Self {
        Self {
            module,
            plan,
            targets,
            options,
            pool: pool.limited(options.memory_limit),
            steps: 0,
            numerical_error: false,
            fuses: observer.is_none()
                && options.nan_policy != NanPolicy::AnyIntermediate
                && options.memory_limit.is_none(),
            observer,
            rounds: HashMap::new(),
        }
    }

    pub(super) fn options(&self) -> &'a ExecuteOptions {
        self.options
    }

    pub(super) fn context(&self) -> Context<'a> {
        Context {
            options: self.options,
        }
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    pub(super) fn numerical_error(&self) -> bool {
        self.numerical_error
    }

    pub(super) fn into_pool(self) -> Pool {
        self.pool
    }

    /// Executes a computation.
    ///
    /// An untrusted module nests calls no deeper than verification allows, and
    /// each takes a frame of this function only: what is large lies on the heap.
    pub(super) fn call(
        &mut self,
        index: ComputationIndex,
        args: Vec<Value<'a>>,
    ) -> Result<Value<'a>, ExecuteError> {
        let (module, plan) = (self.module, self.plan);
        let computation = module.computation(index);
        let plan = plan.computation(index, self.fuses);
        let mut args: Vec<Option<Value<'a>>> = args.into_iter().map(Some).collect();
        let mut slots: Vec<Option<Value<'a>>> = Vec::new();
        slots.resize_with(computation.instructions().len(), || None);
        let mut operands = Vec::new();
        for (position, instruction) in computation.instructions().iter().enumerate() {
            self.count(computation, instruction)?;
            let chain = match plan.fused(position) {
                Some(Fused::Absorbed) => continue,
                Some(Fused::Chain(chain)) => Some(&**chain),
                None => None,
            };
            let value = match instruction.op() {
                Op::Parameter { number } => args.get_mut(*number).and_then(Option::take),
                Op::GetTupleElement { index } => {
                    let operand = instruction.operands()[0].get();
                    let takes = plan.takes_element[position];
                    let value = element(&mut slots[operand], *index, takes);
                    if plan.last_uses[position][0]
                        && let Some(tuple) = slots[operand].take()
                    {
                        self.pool.give(tuple);
                    }
                    value
                }
                _ => {
                    operands.clear();
                    let last_uses = &plan.last_uses[position];
                    let given = chain.map_or(instruction.operands(), Chain::inputs);
                    for (&operand, &last) in given.iter().zip(last_uses) {
                        let slot = &mut slots[operand.get()];
                        let value = if last { slot.take() } else { slot.clone() };
                        operands.push(value.unwrap_or(Value::Token));
                    }
                    let place = (index.0, u32::try_from(position).unwrap_or(u32::MAX));
                    let frame = Frame {
                        computation,
                        instruction,
                        operands: &mut operands,
                        place,
                    };
                    let value = match chain {
                        Some(chain) => self.chain(&frame, chain),
                        None => self.evaluate(frame),
                    };
                    let value = value.map_err(|fault| named(fault, computation, instruction))?;
                    operands
                        .drain(..)
                        .for_each(|operand| self.pool.give(operand));
                    Some(value)
                }
            };
            // A parameter appears once, so its argument is still there.
            let value = value.unwrap_or(Value::Token);
            self.observe(computation, instruction, &value)
                .map_err(|fault| named(fault, computation, instruction))?;
            if plan.unused[position] {
                self.pool.give(value);
            } else {
                slots[position] = Some(value);
            }
        }
        let root = slots[computation.root().get()]
            .take()
            .unwrap_or(Value::Token);
        slots
            .into_iter()
            .flatten()
            .for_each(|value| self.pool.give(value));
        Ok(root)
    }

    /// The value of a chain, whose inputs are the operands of `frame`.
    fn chain(&mut self, frame: &Frame<'_, 'a>, chain: &Chain) -> Result<Value<'a>, Fault> {
        let (computation, result) = (frame.computation, frame.result()?);
        let mut registers = chain
            .scratch(result.element_count())
            .map(|size| self.pool.take(size))
            .collect::<Result<Vec<_>, _>>()?;
        let inputs = chain.inputs().iter().zip(&*frame.operands);
        let args = inputs
            .map(|(&input, value)| Ok(value.view(as_array(computation.at(input).shape())?)?))
            .collect::<Result<Vec<_>, Fault>>()?;
        let value = self.filled(result, |out, run| {
            chain
                .evaluate(&args, out, &mut registers, run.context())
                .map_err(|(position, error)| {
                    let instruction = &computation.instructions()[position];
                    Fault::Named(named(error.into(), computation, instruction))
                })
        })?;
        registers
            .into_iter()
            .for_each(|register| self.pool.give_buffer(register));
        Ok(value)
    }

    /// A name for the collective of a frame, the same on all devices, and the
    /// number of its executions before this one.
    pub(super) fn next_round(&mut self, frame: &Frame<'_, 'a>) -> ((u32, u32), u64) {
        let round = self.rounds.entry(frame.place).or_default();
        *round += 1;
        (frame.place, *round - 1)
    }

    /// Counts a step and checks the limits.
    fn count(
        &mut self,
        computation: &Computation,
        instruction: &Instruction,
    ) -> Result<(), ExecuteError> {
        if let Some(budget) = self.options.step_budget
            && self.steps >= budget
        {
            return Err(ExecuteError::StepBudget {
                site: site(computation, instruction),
                budget,
            });
        }
        if let Some(deadline) = self.options.deadline
            && Instant::now() >= deadline
        {
            return Err(ExecuteError::Deadline {
                site: site(computation, instruction),
            });
        }
        self.steps += 1;
        Ok(())
    }

    fn observe(
        &mut self,
        computation: &Computation,
        instruction: &Instruction,
        value: &Value<'_>,
    ) -> Result<(), Fault> {
        let looks_for_nan =
            self.options.nan_policy == NanPolicy::AnyIntermediate && !self.numerical_error;
        if self.observer.is_none() && !looks_for_nan {
            return Ok(());
        }
        let mut leaves = Vec::new();
        value.leaves(instruction.shape(), &mut leaves);
        let arrays = leaves
            .iter()
            .map(|(shape, bytes)| ArrayView::new(shape.element(), shape.dims(), bytes))
            .collect::<Result<Vec<_>, _>>()?;
        if looks_for_nan {
            for &array in &arrays {
                self.numerical_error |= has_nan(array)?;
            }
        }
        if let Some(observer) = &mut self.observer {
            observer(Event {
                computation,
                instruction,
                step: self.steps - 1,
                arrays,
            });
        }
        Ok(())
    }

    /// A result of `shape` that `fill` writes.
    pub(super) fn filled(
        &mut self,
        shape: &ArrayShape,
        fill: impl FnOnce(ArrayViewMut<'_>, &mut Self) -> Result<(), Fault>,
    ) -> Result<Value<'a>, Fault> {
        let mut buffer = self.pool.take(shape.byte_size())?;
        fill(
            ArrayViewMut::new(shape.element(), shape.dims(), buffer.bytes_mut())?,
            self,
        )?;
        Ok(buffer.into())
    }

    /// Results of `shapes` that `fill` writes: one alone, several as a tuple.
    pub(super) fn filled_all(
        &mut self,
        shapes: &[&ArrayShape],
        fill: impl FnOnce(&mut [ArrayViewMut<'_>], &mut Self) -> Result<(), Fault>,
    ) -> Result<Value<'a>, Fault> {
        let buffers = shapes
            .iter()
            .map(|shape| self.pool.take(shape.byte_size()))
            .collect::<Result<Vec<_>, _>>()?;
        self.written(shapes, buffers, fill)
    }

    /// `buffers` as results of `shapes` that `fill` changes.
    pub(super) fn written(
        &mut self,
        shapes: &[&ArrayShape],
        mut buffers: Vec<Buffer>,
        fill: impl FnOnce(&mut [ArrayViewMut<'_>], &mut Self) -> Result<(), Fault>,
    ) -> Result<Value<'a>, Fault> {
        let mut views = shapes
            .iter()
            .zip(&mut buffers)
            .map(|(shape, buffer)| {
                ArrayViewMut::new(shape.element(), shape.dims(), buffer.bytes_mut())
            })
            .collect::<Result<Vec<_>, _>>()?;
        fill(&mut views, self)?;
        drop(views);
        let mut values: Vec<Value<'a>> = buffers.into_iter().map(Value::from).collect();
        Ok(if values.len() == 1 {
            values.remove(0)
        } else {
            Value::Tuple(values)
        })
    }

    /// A buffer with the bytes of an array: its own if nothing else holds it,
    /// else a copy.
    pub(super) fn own(&mut self, value: Value<'a>) -> Result<Buffer, Fault> {
        let Value::Array(data) = value else {
            return Err(Fault::Unsupported("a tuple to be written".into()));
        };
        let data = match data {
            Data::Owned(shared) => match Arc::try_unwrap(shared) {
                Ok(buffer) => return Ok(buffer),
                Err(shared) => Data::Owned(shared),
            },
            borrowed @ Data::Borrowed(_) => borrowed,
        };
        Ok(self.pool.copy(data.bytes())?)
    }
}

/// Element `index` of the tuple in `slot`: moved out if nothing reads it later.
fn element<'a>(slot: &mut Option<Value<'a>>, index: usize, takes: bool) -> Option<Value<'a>> {
    match slot {
        Some(Value::Tuple(elements)) if takes => elements
            .get_mut(index)
            .map(|element| std::mem::replace(element, Value::Token)),
        Some(Value::Tuple(elements)) => elements.get(index).cloned(),
        _ => None,
    }
}

fn site(computation: &Computation, instruction: &Instruction) -> Box<Site> {
    Box::new(Site {
        opcode: instruction.opcode().to_owned(),
        instruction: instruction.name().to_owned(),
        computation: computation.name().to_owned(),
    })
}

fn named(fault: Fault, computation: &Computation, instruction: &Instruction) -> ExecuteError {
    match fault {
        Fault::Kernel(KernelError::View(ViewError::Limit { needed, limit })) => {
            ExecuteError::MemoryLimit {
                site: site(computation, instruction),
                needed,
                limit,
            }
        }
        Fault::Kernel(source) => ExecuteError::Kernel {
            site: site(computation, instruction),
            source,
        },
        Fault::Unsupported(what) => ExecuteError::Unsupported {
            site: site(computation, instruction),
            what,
        },
        Fault::Collective(source) => ExecuteError::Collective {
            site: site(computation, instruction),
            source,
        },
        Fault::CustomCall(source) => ExecuteError::CustomCall {
            site: site(computation, instruction),
            source,
        },
        Fault::Named(error) => error,
    }
}
