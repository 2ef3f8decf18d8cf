//! What execution needs to know of each computation, worked out once.

use crate::attributes::{Comparison, Direction, Monoid};
use crate::ir::{BinaryOp, Computation, ComputationIndex, InstructionIndex, Module, Op};
use crate::lanes::{Effort, Fused, Program, fuse};

/// How a module is executed.
#[derive(Debug)]
pub(crate) struct Plan {
    computations: Vec<ComputationPlan>,
    /// The same with chains of elementwise instructions fused.
    fused: Vec<ComputationPlan>,
    regions: Vec<Option<RegionPlan>>,
}

/// How a computation is executed.
#[derive(Debug)]
pub(crate) struct ComputationPlan {
    /// For each instruction, what fusion makes of it; empty without fusion.
    fused: Vec<Option<Fused>>,
    /// For each instruction, whether each operand is used there for the last
    /// time.
    pub(crate) last_uses: Vec<Box<[bool]>>,
    /// For each instruction, whether nothing uses its value.
    pub(crate) unused: Vec<bool>,
    /// For each `get-tuple-element`, whether no later one reads that element,
    /// and nothing else reads the tuple.
    pub(crate) takes_element: Vec<bool>,
}

/// What a computation does that another instruction calls on scalars.
#[derive(Debug)]
pub(crate) struct RegionPlan {
    /// The reduction that it is.
    pub(crate) monoid: Option<Monoid>,
    /// Whether it gives its second parameter back.
    pub(crate) replaces: bool,
    /// The operand and the comparison, if it compares two values of one
    /// operand of `sort`.
    pub(crate) comparison: Option<(usize, Comparison)>,
    /// Its elementwise steps, if it has nothing but them.
    pub(crate) program: Option<Program>,
}

impl Plan {
    pub(crate) fn new(module: &Module) -> Self {
        let mut regions: Vec<Option<RegionPlan>> = Vec::new();
        regions.resize_with(module.computations().len(), || None);
        let mut effort = Effort::new(module.instruction_count());
        for computation in module.computations() {
            for instruction in computation.instructions() {
                if calls_on_scalars(instruction.op()) {
                    for index in instruction.op().computations() {
                        let region = &mut regions[index.get()];
                        if region.is_none() {
                            *region = Some(RegionPlan::new(module, index, &mut effort));
                        }
                    }
                }
            }
        }
        let acting = acting(module);
        let plans = |fused: &dyn Fn(&Computation) -> Vec<Option<Fused>>| {
            let computations = module.computations().iter();
            computations
                .map(|computation| ComputationPlan::new(computation, fused(computation)))
                .collect()
        };
        Self {
            computations: plans(&|_| Vec::new()),
            fused: plans(&|computation| {
                fuse(computation, |instruction| acts(instruction.op(), &acting))
            }),
            regions,
        }
    }

    /// The plan of a computation, with chains fused or every value on its own.
    pub(crate) fn computation(&self, index: ComputationIndex, fused: bool) -> &ComputationPlan {
        let computations = if fused {
            &self.fused
        } else {
            &self.computations
        };
        &computations[index.get()]
    }

    /// The plan of a computation that is called on scalars.
    pub(crate) fn region(&self, index: ComputationIndex) -> Option<&RegionPlan> {
        self.regions[index.get()].as_ref()
    }
}

/// For each computation, whether it does something else than to compute a value.
fn acting(module: &Module) -> Vec<bool> {
    let count = module.computations().len();
    // Until it is looked at, a computation may do anything: that holds for one
    // that is called before its turn.
    let mut acting = vec![true; count];
    for (index, computation) in module.computations().iter().enumerate() {
        let instructions = computation.instructions();
        acting[index] = instructions.iter().any(|instruction| {
            !matches!(instruction.op(), Op::Parameter { .. }) && acts(instruction.op(), &acting)
        });
    }
    acting
}

/// Whether an instruction does something else than to compute a value: it meets
/// other devices, runs code of the user's, draws from a stream, or takes an
/// argument over. A loop without end that computes nothing of use is none.
fn acts(op: &Op, acting: &[bool]) -> bool {
    match op {
        Op::AsyncStart { .. }
        | Op::Collective(_)
        | Op::CustomCall(_)
        | Op::Parameter { .. }
        | Op::Rng(_) => true,
        op => op.computations().iter().any(|index| acting[index.get()]),
    }
}

fn calls_on_scalars(op: &Op) -> bool {
    matches!(
        op,
        Op::Collective(_)
            | Op::Map { .. }
            | Op::Reduce { .. }
            | Op::ReduceWindow { .. }
            | Op::Scatter { .. }
            | Op::SelectAndScatter { .. }
            | Op::Sort { .. }
    )
}

impl ComputationPlan {
    /// What fusion makes of an instruction.
    pub(crate) fn fused(&self, position: usize) -> Option<&Fused> {
        self.fused.get(position)?.as_ref()
    }

    fn new(computation: &Computation, fused: Vec<Option<Fused>>) -> Self {
        let instructions = computation.instructions();
        let operands_of = |position: usize| match fused.get(position) {
            Some(Some(Fused::Absorbed)) => &[][..],
            Some(Some(Fused::Chain(chain))) => chain.inputs(),
            _ => instructions[position].operands(),
        };
        let mut used = vec![false; instructions.len()];
        used[computation.root().get()] = true;
        let mut last_uses = vec![Box::default(); instructions.len()];
        let mut unused = vec![false; instructions.len()];
        // Tuples that something other than a get-tuple-element reads.
        let mut whole = vec![false; instructions.len()];
        whole[computation.root().get()] = true;
        for (position, instruction) in instructions.iter().enumerate().rev() {
            unused[position] = !used[position];
            let operands = operands_of(position);
            let mut last: Box<[bool]> = vec![false; operands.len()].into();
            for (place, operand) in operands.iter().enumerate().rev() {
                last[place] = !std::mem::replace(&mut used[operand.get()], true);
                whole[operand.get()] |= !matches!(instruction.op(), Op::GetTupleElement { .. });
            }
            last_uses[position] = last;
        }
        let mut takes_element = vec![false; instructions.len()];
        let mut read = std::collections::HashSet::new();
        for (position, instruction) in instructions.iter().enumerate().rev() {
            if let (Op::GetTupleElement { index }, &[operand]) =
                (instruction.op(), instruction.operands())
            {
                takes_element[position] = read.insert((operand, *index)) && !whole[operand.get()];
            }
        }
        Self {
            fused,
            last_uses,
            unused,
            takes_element,
        }
    }
}

impl RegionPlan {
    fn new(module: &Module, index: ComputationIndex, effort: &mut Effort) -> Self {
        let computation = module.computation(index);
        Self {
            monoid: monoid(computation),
            replaces: computation.parameters().len() == 2
                && computation.root() == computation.parameters()[1],
            comparison: comparison(computation),
            program: Program::compile(module, index, effort),
        }
    }
}

/// The numbers of the parameters that the root's operands are.
fn root_parameters(computation: &Computation) -> Option<(usize, usize)> {
    let &[x, y] = computation.at(computation.root()).operands() else {
        return None;
    };
    let number = |index: InstructionIndex| match computation.at(index).op() {
        Op::Parameter { number } => Some(*number),
        _ => None,
    };
    Some((number(x)?, number(y)?))
}

fn monoid(computation: &Computation) -> Option<Monoid> {
    let (x, y) = root_parameters(computation)?;
    if computation.parameters().len() != 2 || x == y {
        return None;
    }
    let Op::Binary(op) = computation.at(computation.root()).op() else {
        return None;
    };
    Some(match op {
        BinaryOp::Add => Monoid::Add,
        BinaryOp::Multiply => Monoid::Multiply,
        BinaryOp::Maximum => Monoid::Maximum,
        BinaryOp::Minimum => Monoid::Minimum,
        BinaryOp::And => Monoid::And,
        BinaryOp::Or => Monoid::Or,
        BinaryOp::Xor => Monoid::Xor,
        _ => return None,
    })
}

fn comparison(computation: &Computation) -> Option<(usize, Comparison)> {
    let (x, y) = root_parameters(computation)?;
    let Op::Compare(comparison) = *computation.at(computation.root()).op() else {
        return None;
    };
    if x / 2 != y / 2 || x == y {
        return None;
    }
    let direction = if x < y {
        comparison.direction
    } else {
        match comparison.direction {
            Direction::Lt => Direction::Gt,
            Direction::Le => Direction::Ge,
            Direction::Gt => Direction::Lt,
            Direction::Ge => Direction::Le,
            same => same,
        }
    };
    Some((
        x / 2,
        Comparison {
            direction,
            ..comparison
        },
    ))
}
