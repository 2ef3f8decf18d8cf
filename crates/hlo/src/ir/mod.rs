//! The verified form of a module.
//!
//! Everything here has passed verification: operands come before their users,
//! called computations before their callers, shapes are those that inference
//! gives, parameter numbers are dense. Ids of the message are gone; instructions
//! are known by their index in the computation, computations by their index in
//! the module.

mod op;

use std::fmt;

use crate::shape::Shape;

pub use op::{
    BinaryOp, Collective, CollectiveGroups, CollectiveKind, CustomCall, GroupMode, Literal, Op,
    UnaryOp,
};

/// Index of an instruction in its computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstructionIndex(pub(crate) u32);

/// Index of a computation in its module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ComputationIndex(pub(crate) u32);

impl InstructionIndex {
    /// The index as a number.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl ComputationIndex {
    /// The index as a number.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Instruction {
    pub(crate) name: Box<str>,
    pub(crate) opcode: Box<str>,
    pub(crate) op: Op,
    pub(crate) shape: Shape,
    pub(crate) operands: Box<[InstructionIndex]>,
}

impl Instruction {
    /// The name that the module gives it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The opcode as the module spells it.
    #[must_use]
    pub fn opcode(&self) -> &str {
        &self.opcode
    }

    /// What it does.
    #[must_use]
    pub fn op(&self) -> &Op {
        &self.op
    }

    /// Shape of its result.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Its operands.
    #[must_use]
    pub fn operands(&self) -> &[InstructionIndex] {
        &self.operands
    }
}

/// A computation: instructions in an order in which they can be executed.
#[derive(Clone, Debug)]
pub struct Computation {
    pub(crate) name: Box<str>,
    pub(crate) instructions: Box<[Instruction]>,
    pub(crate) parameters: Box<[InstructionIndex]>,
    pub(crate) root: InstructionIndex,
    /// Calls from here to the innermost computation.
    pub(crate) depth: usize,
}

impl Computation {
    /// The name that the module gives it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The instructions, operands before users.
    #[must_use]
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// The parameters by number.
    #[must_use]
    pub fn parameters(&self) -> &[InstructionIndex] {
        &self.parameters
    }

    /// The instruction whose value is the result.
    #[must_use]
    pub fn root(&self) -> InstructionIndex {
        self.root
    }

    /// The instruction at `index`.
    pub(crate) fn at(&self, index: InstructionIndex) -> &Instruction {
        &self.instructions[index.get()]
    }

    /// Shape of parameter `number`.
    pub(crate) fn parameter_shape(&self, number: usize) -> &Shape {
        &self.at(self.parameters[number]).shape
    }

    /// Shape of the result.
    pub(crate) fn result_shape(&self) -> &Shape {
        &self.at(self.root).shape
    }
}

/// An output that takes a parameter's buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Alias {
    /// Path of the output in the root's shape.
    pub output: Vec<usize>,
    /// Number of the parameter.
    pub parameter: usize,
    /// Path in the parameter's shape.
    pub parameter_path: Vec<usize>,
    /// Whether the alias must be honoured rather than may.
    pub must: bool,
}

/// A parameter whose buffer the caller gives away, for whatever output.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Donor {
    /// Number of the parameter.
    pub parameter: usize,
    /// Path in the parameter's shape.
    pub path: Vec<usize>,
}

/// A verified module.
#[derive(Clone, Debug)]
pub struct Module {
    pub(crate) name: Box<str>,
    pub(crate) computations: Box<[Computation]>,
    pub(crate) entry: ComputationIndex,
    pub(crate) parameters: Box<[Shape]>,
    pub(crate) result: Shape,
    pub(crate) results: Box<[Shape]>,
    pub(crate) aliases: Box<[Alias]>,
    pub(crate) donors: Box<[Donor]>,
}

impl Module {
    /// The module's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Shapes of the parameters by number, with the layouts of the entry.
    #[must_use]
    pub fn parameters(&self) -> &[Shape] {
        &self.parameters
    }

    /// Shape of the result, with the layouts of the entry.
    #[must_use]
    pub fn result(&self) -> &Shape {
        &self.result
    }

    /// Shapes of the outputs: the result's arrays, depth first, with the
    /// layouts of the entry.
    #[must_use]
    pub fn results(&self) -> &[Shape] {
        &self.results
    }

    /// Outputs that take a parameter's buffer.
    #[must_use]
    pub fn aliases(&self) -> &[Alias] {
        &self.aliases
    }

    /// Parameters whose buffers the caller gives away without an alias.
    #[must_use]
    pub fn donors(&self) -> &[Donor] {
        &self.donors
    }

    /// The computations, callees before callers.
    #[must_use]
    pub fn computations(&self) -> &[Computation] {
        &self.computations
    }

    /// The computation at `index`.
    #[must_use]
    pub fn computation(&self, index: ComputationIndex) -> &Computation {
        &self.computations[index.get()]
    }

    /// The entry computation.
    #[must_use]
    pub fn entry(&self) -> &Computation {
        self.computation(self.entry)
    }

    /// Number of instructions in all computations.
    #[must_use]
    pub fn instruction_count(&self) -> usize {
        self.computations
            .iter()
            .map(|computation| computation.instructions.len())
            .sum()
    }
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "module {}", self.name)?;
        for computation in &self.computations {
            writeln!(f, "{}:", computation.name)?;
            for (index, instruction) in computation.instructions.iter().enumerate() {
                let root = if computation.root.get() == index {
                    "root "
                } else {
                    ""
                };
                write!(
                    f,
                    "  {root}{} = {} {}(",
                    instruction.name, instruction.shape, instruction.opcode
                )?;
                for (position, &operand) in instruction.operands.iter().enumerate() {
                    let comma = if position == 0 { "" } else { ", " };
                    write!(f, "{comma}{}", computation.at(operand).name)?;
                }
                writeln!(f, ")")?;
            }
        }
        Ok(())
    }
}
