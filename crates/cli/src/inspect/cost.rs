//! What a module costs, estimated from its shapes.
//!
//! Products and convolutions count two operations for each element that goes
//! into a sum, elementwise instructions one for each element of the result,
//! reductions one for each element that they take. Bodies of loops are counted
//! once: how often they run is known only at execution.

use metaneff_hlo::Module;
use metaneff_hlo::ir::{Computation, ComputationIndex, Instruction, Op};
use metaneff_hlo::shape::Shape;

/// The estimate.
#[derive(Debug, Default)]
pub(super) struct Cost {
    pub(super) flops: u64,
    /// Loops among the instructions.
    pub(super) loops: usize,
    pub(super) parameter_bytes: u64,
    pub(super) result_bytes: u64,
    pub(super) constant_bytes: u64,
    /// Bytes of intermediate values that are alive together in the entry
    /// computation, when each dies after its last use.
    pub(super) peak_bytes: u64,
    /// Name, shape and size, the largest first.
    pub(super) constants: Vec<(String, String, u64)>,
}

impl Cost {
    pub(super) fn of(module: &Module) -> Self {
        let bytes = |shapes: &[Shape]| shapes.iter().map(size).sum();
        let mut cost = Self {
            parameter_bytes: bytes(module.parameters()),
            result_bytes: bytes(module.results()),
            peak_bytes: peak(module.entry()),
            ..Self::default()
        };
        let instructions = module.computations().iter().flat_map(|c| c.instructions());
        for instruction in instructions {
            match instruction.op() {
                Op::Constant(_) => {
                    let (name, shape) = (instruction.name(), instruction.shape());
                    cost.constants
                        .push((name.to_owned(), shape.to_string(), size(shape)));
                }
                Op::While { .. } => cost.loops += 1,
                _ => {}
            }
        }
        cost.constants
            .sort_by_key(|(_, _, bytes)| std::cmp::Reverse(*bytes));
        cost.constant_bytes = cost.constants.iter().map(|(_, _, bytes)| bytes).sum();
        let mut known = vec![None; module.computations().len()];
        let entry = module
            .computations()
            .iter()
            .position(|c| std::ptr::eq(c, module.entry()));
        cost.flops = entry.map_or(0, |entry| flops(module, entry, &mut known));
        cost
    }
}

fn size(shape: &Shape) -> u64 {
    shape
        .leaves()
        .iter()
        .map(|array| array.byte_size() as u64)
        .sum()
}

fn elements(shape: &Shape) -> u64 {
    shape
        .leaves()
        .iter()
        .map(|array| array.element_count() as u64)
        .sum()
}

/// Operations of a computation; those that were counted are known.
fn flops(module: &Module, index: usize, known: &mut Vec<Option<u64>>) -> u64 {
    if let Some(found) = known.get(index).copied().flatten() {
        return found;
    }
    // A verified module has no recursion, so a zero here is never read.
    if let Some(slot) = known.get_mut(index) {
        *slot = Some(0);
    }
    let Some(computation) = module.computations().get(index) else {
        return 0;
    };
    let mut total = 0_u64;
    for instruction in computation.instructions() {
        total = total.saturating_add(own(computation, instruction));
        let called = |index: &ComputationIndex, known: &mut Vec<Option<u64>>| {
            flops(module, index.get(), known)
        };
        match instruction.op() {
            Op::Call { computation } | Op::Fusion { computation } => {
                total = total.saturating_add(called(computation, known));
            }
            Op::While { condition, body } => {
                total = total.saturating_add(called(condition, known));
                total = total.saturating_add(called(body, known));
            }
            Op::Conditional { branches } => {
                let most = branches.iter().map(|branch| called(branch, known)).max();
                total = total.saturating_add(most.unwrap_or_default());
            }
            _ => {}
        }
    }
    if let Some(slot) = known.get_mut(index) {
        *slot = Some(total);
    }
    total
}

/// Operations of one instruction without the computations that it calls.
fn own(computation: &Computation, instruction: &Instruction) -> u64 {
    let result = elements(instruction.shape());
    let operand = |position: usize| {
        let index = instruction.operands().get(position)?;
        Some(computation.instructions().get(index.get())?.shape())
    };
    let dims = |position: usize| {
        let dims = operand(position)
            .and_then(Shape::as_array)
            .map(|array| array.dims());
        dims.unwrap_or_default()
    };
    match instruction.op() {
        Op::Unary(_)
        | Op::Binary(_)
        | Op::Compare(_)
        | Op::Select
        | Op::Clamp
        | Op::Map { .. }
        | Op::DivideByPower => result,
        Op::Reduce { .. } | Op::Scatter { .. } | Op::Sort { .. } => {
            operand(0).map_or(result, elements)
        }
        Op::ReduceWindow { window, .. } | Op::SelectAndScatter { window, .. } => {
            let window: u64 = window.dims.iter().map(|dim| dim.size as u64).product();
            result.saturating_mul(window)
        }
        Op::Dot(dot) => {
            let left = dims(0);
            let depth: u64 = dot
                .lhs_contracting
                .iter()
                .filter_map(|&dim| left.get(dim).map(|&size| size as u64))
                .product();
            result.saturating_mul(depth).saturating_mul(2)
        }
        Op::Convolution(convolution) => {
            let kernel = dims(1);
            let depth: u64 = convolution
                .kernel_spatial
                .iter()
                .chain([&convolution.kernel_input_feature])
                .filter_map(|&dim| kernel.get(dim).map(|&size| size as u64))
                .product();
            result.saturating_mul(depth).saturating_mul(2)
        }
        _ => 0,
    }
}

/// Bytes alive together, parameters and constants aside.
fn peak(computation: &Computation) -> u64 {
    let instructions = computation.instructions();
    let mut last = vec![0; instructions.len()];
    for (index, instruction) in instructions.iter().enumerate() {
        for operand in instruction.operands() {
            if let Some(last) = last.get_mut(operand.get()) {
                *last = index;
            }
        }
    }
    let mut dying = vec![0_u64; instructions.len()];
    let (mut alive, mut most) = (0_u64, 0_u64);
    for (index, instruction) in instructions.iter().enumerate() {
        let bytes = match instruction.op() {
            Op::Parameter { .. } | Op::Constant(_) | Op::Tuple | Op::GetTupleElement { .. } => 0,
            _ => size(instruction.shape()),
        };
        alive = alive.saturating_add(bytes);
        most = most.max(alive);
        let end = last.get(index).copied().unwrap_or_default().max(index);
        if let Some(dying) = dying.get_mut(end) {
            *dying = dying.saturating_add(bytes);
        }
        alive = alive.saturating_sub(dying.get(index).copied().unwrap_or_default());
    }
    most
}
