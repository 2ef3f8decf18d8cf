//! Chains of elementwise instructions, evaluated a block of lanes at a time,
//! so that values in between never leave the cache.
//!
//! A chain has one result. Each step does what the instruction alone would do,
//! so that results are the same bit for bit.

use std::collections::HashMap;

use crate::array::{ArrayView, ArrayViewMut, Buffer, ViewError};
use crate::element::{ElementType, with_word};
use crate::error::KernelError;
use crate::ir::{Computation, Instruction, InstructionIndex, Op};
use crate::kernels::Context;
use crate::shape::ArrayShape;

use super::elementwise::{LaneOp, apply};
use super::program::{BLOCK, lane_op};

/// Instructions that a chain may have.
const MAX_MEMBERS: usize = 64;

/// What fusion makes of an instruction.
#[derive(Debug)]
pub(crate) enum Fused {
    /// It is evaluated as a part of a later one.
    Absorbed,
    /// It is the end of a chain.
    Chain(Box<Chain>),
}

/// How the lanes of a chain read an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spread {
    /// All lanes the only element.
    One,
    /// Lane `i` element `i % n`.
    Inner(usize),
    /// Lane `i` element `i / n`.
    Outer(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Input(usize),
    Register(usize),
}

/// An array, spread over a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Load {
    input: usize,
    element: ElementType,
    spread: Spread,
    register: usize,
}

#[derive(Debug)]
struct Step {
    op: LaneOp,
    args: Vec<(Source, ElementType)>,
    element: ElementType,
    /// Nothing for the result.
    out: Option<usize>,
    /// Which instruction it is.
    position: usize,
}

/// Elementwise instructions that become one.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    inputs: Vec<InstructionIndex>,
    loads: Vec<Load>,
    steps: Vec<Step>,
    /// Bytes of a lane of each register.
    registers: Vec<usize>,
}

/// Finds the chains of a computation: for each instruction, what becomes of it.
/// One whose value nothing uses is left out, unless `acts` says that it does
/// something else than to compute a value.
pub(crate) fn fuse(
    computation: &Computation,
    acts: impl Fn(&Instruction) -> bool,
) -> Vec<Option<Fused>> {
    let instructions = computation.instructions();
    let mut uses = vec![0_usize; instructions.len()];
    uses[computation.root().get()] += 1;
    let mut fused: Vec<Option<Fused>> = Vec::new();
    fused.resize_with(instructions.len(), || None);
    for (position, instruction) in instructions.iter().enumerate().rev() {
        if uses[position] == 0 && !acts(instruction) {
            fused[position] = Some(Fused::Absorbed);
            continue;
        }
        for operand in instruction.operands() {
            uses[operand.get()] += 1;
        }
    }
    for position in (0..instructions.len()).rev() {
        if fused[position].is_some() || step_of(computation, position).is_none() {
            continue;
        }
        let members = members(computation, position, &uses, &fused);
        if members.len() < 2 {
            continue;
        }
        let Some(chain) = Chain::new(computation, &members) else {
            continue;
        };
        for &member in &members {
            fused[member] = Some(Fused::Absorbed);
        }
        fused[position] = Some(Fused::Chain(Box::new(chain)));
    }
    fused
}

/// The operation and shape of an instruction that can be a step.
fn step_of(computation: &Computation, position: usize) -> Option<(LaneOp, &ArrayShape)> {
    let instruction = &computation.instructions()[position];
    let op = lane_op(instruction.op()).filter(|&op| op != LaneOp::Copy)?;
    let shape = instruction.shape().as_array()?;
    // What changes nothing is not worth a pass.
    let same = op == LaneOp::Convert
        && instruction.operands().iter().all(|&operand| {
            let operand = computation.at(operand).shape().as_array();
            operand.is_none_or(|operand| operand.element() == shape.element())
        });
    (!same).then_some((op, shape))
}

/// How the elements of a `broadcast` lie in its operand.
fn broadcast_of(computation: &Computation, position: usize) -> Option<(&ArrayShape, Spread)> {
    let instruction = &computation.instructions()[position];
    let Op::Broadcast { dims } = instruction.op() else {
        return None;
    };
    let shape = instruction.shape().as_array()?;
    let operand = computation.at(*instruction.operands().first()?);
    let count = operand.shape().as_array()?.element_count();
    let (rank, kept) = (shape.rank(), dims.len());
    let spread = if count == 1 {
        Spread::One
    } else if dims.iter().copied().eq(rank - kept..rank) {
        Spread::Inner(count)
    } else if dims.iter().copied().eq(0..kept) {
        Spread::Outer(shape.dims()[kept..].iter().product())
    } else {
        return None;
    };
    Some((shape, spread))
}

/// The instructions that only the one at `end` needs, and itself, in order.
fn members(
    computation: &Computation,
    end: usize,
    uses: &[usize],
    fused: &[Option<Fused>],
) -> Vec<usize> {
    let instructions = computation.instructions();
    let Some(shape) = instructions[end].shape().as_array() else {
        return Vec::new();
    };
    let joins = |position: usize| {
        let own = step_of(computation, position)
            .map(|(_, own)| own)
            .or_else(|| Some(broadcast_of(computation, position)?.0));
        own.is_some_and(|own| own.dims() == shape.dims()) && fused[position].is_none()
    };
    let mut found = vec![end];
    let mut counts: HashMap<usize, usize> = HashMap::new();
    let mut next = 0;
    while let Some(&member) = found.get(next) {
        next += 1;
        if step_of(computation, member).is_none() {
            continue;
        }
        for operand in instructions[member].operands() {
            let operand = operand.get();
            let count = counts.entry(operand).or_default();
            *count += 1;
            if *count == uses[operand] && found.len() < MAX_MEMBERS && joins(operand) {
                found.push(operand);
            }
        }
    }
    found.sort_unstable();
    found
}

/// Registers that are free, and what each holds at most.
#[derive(Default)]
struct Registers {
    sizes: Vec<usize>,
    free: Vec<usize>,
}

impl Registers {
    fn take(&mut self, element: ElementType) -> usize {
        let register = self.free.pop().unwrap_or_else(|| {
            self.sizes.push(0);
            self.sizes.len() - 1
        });
        self.sizes[register] = self.sizes[register].max(element.byte_size());
        register
    }
}

impl Chain {
    fn new(computation: &Computation, members: &[usize]) -> Option<Self> {
        let instructions = computation.instructions();
        let end = *members.last()?;
        let dims = instructions[end].shape().as_array()?.dims();
        let mut chain = Self::default();
        // Where each value is, and which step reads it last.
        let mut values: HashMap<usize, (Source, ElementType)> = HashMap::new();
        let mut last: HashMap<usize, usize> = HashMap::new();
        let mut registers = Registers::default();
        for &member in members {
            if step_of(computation, member).is_some() {
                for operand in instructions[member].operands() {
                    last.insert(operand.get(), member);
                }
            }
        }
        for &member in members {
            let instruction = &instructions[member];
            let Some((op, shape)) = step_of(computation, member) else {
                let (_, spread) = broadcast_of(computation, member)?;
                let operand = *instruction.operands().first()?;
                let element = instruction.shape().as_array()?.element();
                let source = chain.load(operand, element, spread, &mut registers);
                values.insert(member, (source, element));
                continue;
            };
            let mut args = Vec::with_capacity(instruction.operands().len());
            for &operand in instruction.operands() {
                let inside = values.get(&operand.get());
                args.push(match inside {
                    Some(&value) => value,
                    None => {
                        let given = computation.at(operand).shape().as_array()?;
                        let element = given.element();
                        let source = if given.dims() == dims {
                            Source::Input(chain.input(operand))
                        } else {
                            chain.load(operand, element, Spread::One, &mut registers)
                        };
                        (source, element)
                    }
                });
            }
            let element = shape.element();
            let out = (member != end).then(|| registers.take(element));
            if let Some(out) = out {
                values.insert(member, (Source::Register(out), element));
            }
            // What a load filled stays for the next block.
            for operand in instruction.operands() {
                if last.get(&operand.get()) == Some(&member)
                    && step_of(computation, operand.get()).is_some()
                    && let Some((Source::Register(register), _)) = values.remove(&operand.get())
                {
                    registers.free.push(register);
                }
            }
            chain.steps.push(Step {
                op,
                args,
                element,
                out,
                position: member,
            });
        }
        chain.registers = registers.sizes;
        Some(chain)
    }

    fn input(&mut self, operand: InstructionIndex) -> usize {
        let known = self.inputs.iter().position(|&input| input == operand);
        known.unwrap_or_else(|| {
            self.inputs.push(operand);
            self.inputs.len() - 1
        })
    }

    fn load(
        &mut self,
        operand: InstructionIndex,
        element: ElementType,
        spread: Spread,
        registers: &mut Registers,
    ) -> Source {
        let input = self.input(operand);
        let same = |load: &&Load| load.input == input && load.spread == spread;
        let register = if let Some(load) = self.loads.iter().find(same) {
            load.register
        } else {
            // Never one that steps have used: it holds its value from block to
            // block.
            registers.sizes.push(element.byte_size());
            let register = registers.sizes.len() - 1;
            self.loads.push(Load {
                input,
                element,
                spread,
                register,
            });
            register
        };
        Source::Register(register)
    }

    /// The instructions whose values the chain reads.
    pub(crate) fn inputs(&self) -> &[InstructionIndex] {
        &self.inputs
    }

    /// Bytes of each register for a result of so many elements.
    pub(crate) fn scratch(&self, elements: usize) -> impl Iterator<Item = usize> {
        let lanes = elements.min(BLOCK);
        self.registers.iter().map(move |size| size * lanes)
    }

    /// Evaluates the chain.
    ///
    /// # Errors
    ///
    /// What failed, and the position of the instruction.
    pub(crate) fn evaluate(
        &self,
        args: &[ArrayView<'_>],
        mut out: ArrayViewMut<'_>,
        registers: &mut [Buffer],
        context: Context<'_>,
    ) -> Result<(), (usize, KernelError)> {
        let elements = out.element_count();
        let end = self.steps.last().map_or(0, |step| step.position);
        let at_end = |error: ViewError| (end, KernelError::from(error));
        let result = out.bytes_mut();
        let mut first = 0;
        while first < elements {
            let lanes = BLOCK.min(elements - first);
            for load in &self.loads {
                if first == 0 || load.spread != Spread::One {
                    let target = registers[load.register].bytes_mut();
                    fill(load, args[load.input], target, first, lanes).map_err(at_end)?;
                }
            }
            for step in &self.steps {
                let failed = |error| (step.position, error);
                step.run(args, result, registers, (first, lanes), context)
                    .map_err(failed)?;
            }
            first += lanes;
        }
        Ok(())
    }
}

impl Step {
    /// Evaluates lanes `first..first + lanes`.
    fn run(
        &self,
        args: &[ArrayView<'_>],
        result: &mut [u8],
        registers: &mut [Buffer],
        (first, lanes): (usize, usize),
        context: Context<'_>,
    ) -> Result<(), KernelError> {
        let dims = [lanes];
        // A step never writes to a register that it reads.
        let mut own = match self.out {
            Some(register) => std::mem::take(&mut registers[register]),
            None => Buffer::default(),
        };
        let mut views = [ArrayView::EMPTY; 3];
        for (view, &(source, element)) in views.iter_mut().zip(&self.args) {
            let size = element.byte_size();
            let bytes = match source {
                Source::Input(index) => &args[index].bytes()[first * size..(first + lanes) * size],
                Source::Register(index) => &registers[index].bytes()[..lanes * size],
            };
            *view = ArrayView::new(element, &dims, bytes)?;
        }
        let size = self.element.byte_size();
        let target = match self.out {
            Some(_) => &mut own.bytes_mut()[..lanes * size],
            None => &mut result[first * size..(first + lanes) * size],
        };
        let target = ArrayViewMut::new(self.element, &dims, target)?;
        apply(self.op, &views[..self.args.len()], target, context)?;
        if let Some(register) = self.out {
            registers[register] = own;
        }
        Ok(())
    }
}

/// Fills a register with the elements that lanes `first..first + lanes` read.
fn fill(
    load: &Load,
    from: ArrayView<'_>,
    target: &mut [u8],
    first: usize,
    lanes: usize,
) -> Result<(), ViewError> {
    let dims = [lanes];
    let target = &mut target[..lanes * load.element.byte_size()];
    let mut target = ArrayViewMut::new(load.element, &dims, target)?;
    with_word!(load.element, W => {
        let (from, target) = (from.words::<W>()?, target.words_mut::<W>()?);
        match load.spread {
            Spread::One => target.fill(from[0]),
            Spread::Inner(n) => {
                let mut at = first % n;
                let mut rest = target;
                while !rest.is_empty() {
                    let (part, after) = rest.split_at_mut(rest.len().min(n - at));
                    part.copy_from_slice(&from[at..at + part.len()]);
                    (rest, at) = (after, 0);
                }
            }
            Spread::Outer(n) => {
                let (mut row, mut left) = (first / n, n - first % n);
                let mut rest = target;
                while !rest.is_empty() {
                    let (part, after) = rest.split_at_mut(rest.len().min(left));
                    part.fill(from[row]);
                    (rest, row, left) = (after, row + 1, n);
                }
            }
        }
    });
    Ok(())
}
