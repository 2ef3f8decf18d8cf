//! Computations on scalars, flattened.

use std::collections::HashMap;

use crate::array::{ArrayView, ArrayViewMut, Buffer};
use crate::element::ElementType;
use crate::error::{ExecuteError, KernelError};
use crate::ir::{Computation, ComputationIndex, InstructionIndex, Literal, Module, Op};
use crate::kernels::{Context, Region};
use crate::shape::Shape;

use super::elementwise::{LaneOp, apply};

/// Lanes that are evaluated at a time.
pub(super) const BLOCK: usize = 1024;
/// Steps that a program may have; calls are written out, so their number can
/// exceed that of the module's instructions.
const MAX_STEPS: usize = 4096;

/// Instructions and tuple elements that the programs of a module may look at,
/// each call anew: calls that call twice double them.
#[derive(Debug)]
pub(crate) struct Effort(usize);

impl Effort {
    /// In proportion to a module of so many instructions.
    pub(crate) fn new(instructions: usize) -> Self {
        Self(instructions.saturating_mul(16).saturating_add(1 << 20))
    }

    /// Spends so much; `None` if it is used up.
    fn spend(&mut self, number: usize) -> Option<()> {
        self.0 = self.0.checked_sub(number)?;
        Some(())
    }
}

/// Where a step finds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Input(usize),
    Register(usize),
}

#[derive(Clone, Debug)]
struct Step {
    op: LaneOp,
    args: Vec<Source>,
    out: usize,
}

/// A computation whose parameters and results are scalars, as a list of
/// elementwise steps on registers.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    inputs: Vec<ElementType>,
    registers: Vec<ElementType>,
    /// Registers that hold a constant, and its bytes.
    constants: Vec<(usize, Vec<u8>)>,
    steps: Vec<Step>,
    outputs: Vec<Source>,
}

impl Program {
    /// The program of a computation; `None` if the computation does anything
    /// but elementwise work on scalars, or is too large.
    pub(crate) fn compile(
        module: &Module,
        computation: ComputationIndex,
        effort: &mut Effort,
    ) -> Option<Self> {
        let mut program = Self {
            inputs: Vec::new(),
            registers: Vec::new(),
            constants: Vec::new(),
            steps: Vec::new(),
            outputs: Vec::new(),
        };
        let body = module.computation(computation);
        let mut args = Vec::new();
        for number in 0..body.parameters().len() {
            args.push(Bound::One(Source::Input(number)));
            program.inputs.push(scalar(body.parameter_shape(number))?);
        }
        program.outputs = match program.flatten(module, body, args, effort)? {
            Bound::One(source) => vec![source],
            Bound::Many(sources) => sources
                .into_iter()
                .map(|bound| match bound {
                    Bound::One(source) => Some(source),
                    Bound::Many(_) => None,
                })
                .collect::<Option<_>>()?,
        };
        Some(program)
    }

    fn flatten(
        &mut self,
        module: &Module,
        body: &Computation,
        args: Vec<Bound>,
        effort: &mut Effort,
    ) -> Option<Bound> {
        let mut values: HashMap<InstructionIndex, Bound> = HashMap::new();
        for (position, instruction) in body.instructions().iter().enumerate() {
            let operands: Vec<Bound> = instruction
                .operands()
                .iter()
                .map(|operand| {
                    let bound = values.get(operand)?;
                    effort.spend(bound.len())?;
                    Some(bound.clone())
                })
                .collect::<Option<_>>()?;
            effort.spend(1)?;
            let value = match instruction.op() {
                Op::Parameter { number } => args.get(*number)?.clone(),
                Op::Tuple => Bound::Many(operands),
                Op::GetTupleElement { index } => match operands.into_iter().next()? {
                    Bound::Many(elements) => elements.get(*index)?.clone(),
                    Bound::One(_) => return None,
                },
                Op::OptimizationBarrier | Op::Domain => operands.into_iter().next()?,
                Op::Call { computation } | Op::Fusion { computation } => {
                    self.flatten(module, module.computation(*computation), operands, effort)?
                }
                Op::Constant(Literal::Array(array)) => {
                    let element = scalar(instruction.shape())?;
                    let register = self.register(element);
                    self.constants.push((register, array.bytes().to_vec()));
                    Bound::One(Source::Register(register))
                }
                op => self.step(lane_op(op)?, instruction.shape(), operands)?,
            };
            let index = InstructionIndex(u32::try_from(position).ok()?);
            values.insert(index, value);
        }
        values.remove(&body.root())
    }

    fn step(&mut self, op: LaneOp, shape: &Shape, operands: Vec<Bound>) -> Option<Bound> {
        let element = scalar(shape)?;
        let args: Vec<Source> = operands
            .into_iter()
            .map(|operand| match operand {
                Bound::One(source) => Some(source),
                Bound::Many(_) => None,
            })
            .collect::<Option<_>>()?;
        if op == LaneOp::Copy {
            let same = args
                .first()
                .is_some_and(|&source| self.element(source) == element);
            let width = self.element(*args.first()?).bit_width();
            if same {
                return args.first().copied().map(Bound::One);
            }
            if width != element.bit_width() {
                return None;
            }
        }
        if self.steps.len() >= MAX_STEPS {
            return None;
        }
        let out = self.register(element);
        self.steps.push(Step { op, args, out });
        Some(Bound::One(Source::Register(out)))
    }

    fn register(&mut self, element: ElementType) -> usize {
        self.registers.push(element);
        self.registers.len() - 1
    }

    fn element(&self, source: Source) -> ElementType {
        match source {
            Source::Input(index) => self.inputs[index],
            Source::Register(index) => self.registers[index],
        }
    }

    /// Registers for up to `lanes` lanes, constants filled in.
    fn scratch(&self, lanes: usize) -> Result<Vec<Buffer>, KernelError> {
        let lanes = lanes.min(BLOCK);
        let mut registers = self
            .registers
            .iter()
            .map(|element| Buffer::zeroed(lanes * element.byte_size()))
            .collect::<Result<Vec<_>, _>>()?;
        for (register, bytes) in &self.constants {
            for lane in registers[*register]
                .bytes_mut()
                .chunks_exact_mut(bytes.len())
            {
                lane.copy_from_slice(bytes);
            }
        }
        Ok(registers)
    }

    /// Evaluates lanes `first..first + lanes` of the arguments.
    fn block(
        &self,
        registers: &mut [Buffer],
        first: usize,
        lanes: usize,
        args: &[&[u8]],
        results: &mut [&mut [u8]],
        context: Context<'_>,
    ) -> Result<(), KernelError> {
        let dims = [lanes];
        let range = |element: ElementType| {
            let size = element.byte_size();
            first * size..(first + lanes) * size
        };
        for step in &self.steps {
            let mut out = std::mem::take(&mut registers[step.out]);
            let mut views = [EMPTY; 3];
            for (view, &source) in views.iter_mut().zip(&step.args) {
                let element = self.element(source);
                let bytes = match source {
                    Source::Input(index) => &args[index][range(element)],
                    Source::Register(index) => {
                        &registers[index].bytes()[..lanes * element.byte_size()]
                    }
                };
                *view = ArrayView::new(element, &dims, bytes)?;
            }
            let element = self.registers[step.out];
            let bytes = &mut out.bytes_mut()[..lanes * element.byte_size()];
            let target = ArrayViewMut::new(element, &dims, bytes)?;
            apply(step.op, &views[..step.args.len()], target, context)?;
            registers[step.out] = out;
        }
        for (result, &source) in results.iter_mut().zip(&self.outputs) {
            let element = self.element(source);
            let bytes = match source {
                Source::Input(index) => &args[index][range(element)],
                Source::Register(index) => &registers[index].bytes()[..lanes * element.byte_size()],
            };
            result[range(element)].copy_from_slice(bytes);
        }
        Ok(())
    }
}

const EMPTY: ArrayView<'static> = ArrayView::EMPTY;

/// What an instruction of the computation stands for.
#[derive(Clone, Debug)]
enum Bound {
    One(Source),
    Many(Vec<Self>),
}

impl Bound {
    /// Values in it, and tuples.
    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(elements) => 1 + elements.iter().map(Self::len).sum::<usize>(),
        }
    }
}

fn scalar(shape: &Shape) -> Option<ElementType> {
    shape
        .as_array()
        .filter(|array| array.element_count() == 1)
        .map(|array| array.element())
}

/// The elementwise operation that an instruction on scalars is.
pub(crate) fn lane_op(op: &Op) -> Option<LaneOp> {
    Some(match *op {
        Op::Unary(op) => LaneOp::Unary(op),
        Op::Binary(op) => LaneOp::Binary(op),
        Op::Compare(comparison) => LaneOp::Compare(comparison),
        Op::Select => LaneOp::Select,
        Op::Clamp => LaneOp::Clamp,
        Op::Convert => LaneOp::Convert,
        Op::ReducePrecision {
            exponent_bits,
            mantissa_bits,
        } => LaneOp::ReducePrecision {
            exponent_bits,
            mantissa_bits,
        },
        Op::BitcastConvert
        | Op::Broadcast { .. }
        | Op::Copy
        | Op::Reshape
        | Op::Reverse { .. }
        | Op::Transpose { .. } => LaneOp::Copy,
        _ => return None,
    })
}

/// A program with its registers: evaluates a called computation.
#[derive(Debug)]
pub(crate) struct LaneRegion<'a> {
    program: &'a Program,
    registers: Vec<Buffer>,
    capacity: usize,
    context: Context<'a>,
    describe: fn(KernelError) -> Box<ExecuteError>,
}

impl<'a> LaneRegion<'a> {
    /// A region that runs `program`.
    pub(crate) fn new(program: &'a Program, context: Context<'a>) -> Self {
        Self {
            program,
            registers: Vec::new(),
            capacity: 0,
            context,
            describe: |source| Box::new(ExecuteError::Region { source }),
        }
    }

    fn evaluate(
        &mut self,
        lanes: usize,
        args: &[&[u8]],
        results: &mut [&mut [u8]],
    ) -> Result<(), KernelError> {
        let needed = lanes.min(BLOCK);
        if self.capacity < needed {
            self.registers = self.program.scratch(needed)?;
            self.capacity = needed;
        }
        let mut first = 0;
        while first < lanes {
            let count = BLOCK.min(lanes - first);
            let registers = &mut self.registers;
            self.program
                .block(registers, first, count, args, results, self.context)?;
            first += count;
        }
        Ok(())
    }
}

impl Region for LaneRegion<'_> {
    fn call(
        &mut self,
        lanes: usize,
        args: &[&[u8]],
        results: &mut [&mut [u8]],
    ) -> Result<(), Box<ExecuteError>> {
        self.evaluate(lanes, args, results).map_err(self.describe)
    }
}
