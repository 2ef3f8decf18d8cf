//! Rewrites of XLA's compiler that change results, marked, so that goldens of
//! compiled modules are met where the options ask for them.

use std::sync::Arc;

use crate::ir::{BinaryOp, Computation, Instruction, Module, Op};

/// The module with divisions by powers as instructions of three operands.
/// XLA's compiler makes a product with the power of the negated exponent of
/// them. That is the same for floating-point numbers but for rounding, and left
/// as it is there; for integers it is 0 wherever the exponent is positive.
pub(crate) fn as_compiled(module: Arc<Module>) -> Arc<Module> {
    let applies = |computation: &Computation| {
        computation
            .instructions()
            .iter()
            .any(|instruction| divided(computation, instruction))
    };
    if !module.computations().iter().any(applies) {
        return module;
    }
    let mut module = Arc::unwrap_or_clone(module);
    for computation in &mut module.computations {
        for index in 0..computation.instructions.len() {
            if divided(computation, &computation.instructions[index]) {
                let [dividend, power] = computation.instructions[index].operands[..] else {
                    continue;
                };
                let mut operands = vec![dividend];
                operands.extend(&*computation.at(power).operands);
                let instruction = &mut computation.instructions[index];
                instruction.op = Op::DivideByPower;
                instruction.operands = operands.into();
            }
        }
    }
    Arc::new(module)
}

/// Whether an instruction divides integers by an integer power.
fn divided(computation: &Computation, instruction: &Instruction) -> bool {
    let integral = instruction
        .shape()
        .as_array()
        .is_some_and(|array| array.element().is_integer());
    integral
        && matches!(instruction.op(), Op::Binary(BinaryOp::Divide))
        && matches!(
            computation.at(instruction.operands()[1]).op(),
            Op::Binary(BinaryOp::Power)
        )
}
