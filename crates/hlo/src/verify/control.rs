//! Checks of control flow, tuples and other plumbing.

use metaneff_schema::xla;

use crate::attributes::{RngAlgorithm, RngDistribution};
use crate::element::ElementType;
use crate::ir::{ComputationIndex, CustomCall, Op};
use crate::shape::{ArrayShape, Shape};

use super::problem::{Problem, mismatch, require};
use super::scope::{Scope, integer, same_element, scalar, signature};

/// Checks `parameter`.
pub(super) fn parameter(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(0)?;
    Ok(Op::Parameter {
        number: Scope::size("parameter number", scope.proto.parameter_number)?,
    })
}

/// Checks `constant`.
pub(super) fn constant(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(0)?;
    let literal = scope
        .proto
        .literal
        .as_ref()
        .ok_or_else(|| mismatch("literal", "one", "none"))?;
    Ok(Op::Constant(super::shapes::literal(
        literal,
        scope.declared,
    )?))
}

/// Checks an instruction that gives its operand back.
pub(super) fn identity(scope: &Scope<'_>, op: Op) -> Result<Op, Problem> {
    scope.count(1)?;
    scope.infers(scope.operands[0])?;
    Ok(op)
}

/// Checks `tuple`.
pub(super) fn tuple(scope: &Scope<'_>) -> Result<Op, Problem> {
    let elements = scope.declared.as_tuple();
    let elements = elements.ok_or_else(|| mismatch("shape", "a tuple", scope.declared))?;
    scope.count(elements.len())?;
    for (element, operand) in elements.iter().zip(scope.operands) {
        require(
            element.same(operand),
            "element of the shape",
            operand,
            element,
        )?;
    }
    Ok(Op::Tuple)
}

/// Checks `get-tuple-element`.
pub(super) fn get_tuple_element(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(1)?;
    let operand = scope.operands[0];
    let elements = operand
        .as_tuple()
        .ok_or_else(|| mismatch("operand", "a tuple", operand))?;
    let index = Scope::dim("tuple index", scope.proto.tuple_index, elements.len())?;
    scope.infers(&elements[index])?;
    Ok(Op::GetTupleElement { index })
}

/// Checks `after-all`.
pub(super) fn after_all(scope: &Scope<'_>) -> Result<Op, Problem> {
    for operand in scope.operands {
        token(operand)?;
    }
    scope.infers(&Shape::Token)?;
    Ok(Op::AfterAll)
}

/// Checks `add-dependency`.
pub(super) fn add_dependency(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(2)?;
    token(scope.operands[1])?;
    scope.infers(scope.operands[0])?;
    Ok(Op::AddDependency)
}

fn token(operand: &Shape) -> Result<(), Problem> {
    require(*operand == Shape::Token, "operand", Shape::Token, operand)
}

/// Checks `call` and `fusion`.
pub(super) fn call(
    scope: &Scope<'_>,
    op: impl FnOnce(ComputationIndex) -> Op,
) -> Result<Op, Problem> {
    let (computation, called) = scope.called()?;
    looked_at(scope)?;
    signature(called, scope.operands, scope.declared)?;
    Ok(op(computation))
}

/// Counts the shapes of the operands, which the message does not repeat.
fn looked_at(scope: &Scope<'_>) -> Result<(), Problem> {
    let mut operands = scope.operands.iter();
    operands.try_for_each(|operand| scope.work.look(operand))
}

/// Checks `async-start`: a call whose result comes with its operands.
pub(super) fn async_start(scope: &Scope<'_>) -> Result<Op, Problem> {
    let (computation, called) = scope.called()?;
    looked_at(scope)?;
    let operands = scope.operands.iter().map(|&shape| shape.clone()).collect();
    let inner = started(scope, &Shape::Tuple(operands))?;
    signature(called, scope.operands, inner.declared)?;
    Ok(Op::AsyncStart { computation })
}

/// Checks `async-update`, which gives what was started.
pub(super) fn async_update(scope: &Scope<'_>) -> Result<Op, Problem> {
    follows(scope, &["async-start", "async-update"])?;
    scope.infers(scope.operands[0])?;
    Ok(Op::Copy)
}

/// Checks `copy-start`: copy, operand, context.
pub(super) fn copy_start(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(1)?;
    let inner = started(scope, scope.operands[0])?;
    inner.infers(scope.operands[0])?;
    Ok(Op::CopyStart)
}

/// Checks the rest of an instruction that starts another one: its value is a
/// tuple of `operands`, the result and contexts. Gives the scope of the result.
pub(super) fn started<'a>(scope: &Scope<'a>, operands: &Shape) -> Result<Scope<'a>, Problem> {
    let [given, declared, contexts @ ..] = scope.declared.as_tuple().unwrap_or_default() else {
        return Err(mismatch(
            "shape",
            "a tuple of operands and result",
            scope.declared,
        ));
    };
    require(
        given.same(operands),
        "operands of the shape",
        operands,
        given,
    )?;
    for context in contexts {
        let array = context.as_array();
        require(
            array.is_some_and(|array| array.rank() == 0 && array.element().is_integer()),
            "context of the shape",
            "an integer",
            context,
        )?;
    }
    Ok(Scope { declared, ..*scope })
}

/// Checks an instruction that takes element `index` of what one of `starts` has
/// started.
pub(super) fn done(scope: &Scope<'_>, starts: &[&str], index: usize) -> Result<Op, Problem> {
    follows(scope, starts)?;
    let operand = scope.operands[0];
    let result = operand.as_tuple().and_then(|elements| elements.get(index));
    let result = result.ok_or_else(|| mismatch("operand", "a tuple", operand))?;
    scope.infers(result)?;
    Ok(Op::GetTupleElement { index })
}

/// Demands that the only operand is of one of these opcodes.
pub(super) fn follows(scope: &Scope<'_>, opcodes: &[&str]) -> Result<(), Problem> {
    scope.count(1)?;
    let found = scope.opcodes[0];
    require(
        opcodes.contains(&found),
        "opcode of the operand",
        opcodes.join(" or "),
        found,
    )
}

/// Checks `while`.
pub(super) fn while_loop(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(1)?;
    scope.calls(2)?;
    // The body comes first, as the message has it.
    let (body, body_called) = scope.called_at(0)?;
    let (condition, condition_called) = scope.called_at(1)?;
    let state = std::slice::from_ref(scope.operands[0]);
    signature(
        condition_called,
        state,
        &ArrayShape::scalar(ElementType::Pred).into(),
    )?;
    signature(body_called, state, &state[0])?;
    scope.infers(&state[0])?;
    Ok(Op::While { condition, body })
}

/// Checks `conditional`.
pub(super) fn conditional(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.at_least(1)?;
    let index = scope.array(0)?;
    scalar("branch index", index)?;
    let found = scope.proto.called_computation_ids.len();
    match index.element() {
        ElementType::Pred => require(found == 2, "number of branches", 2, found)?,
        ElementType::S32 => require(found >= 1, "number of branches", "1 or more", found)?,
        other => {
            return Err(mismatch(
                "element type of the branch index",
                "pred or s32",
                other,
            ));
        }
    }
    scope.count(found + 1)?;
    let mut branches = Vec::with_capacity(found);
    looked_at(scope)?;
    for branch in 0..found {
        let (index, called) = scope.called_at(branch)?;
        signature(
            called,
            std::slice::from_ref(scope.operands[branch + 1]),
            scope.declared,
        )?;
        branches.push(index);
    }
    Ok(Op::Conditional {
        branches: branches.into(),
    })
}

/// Checks `custom-call`: whether its target is known shows when it runs.
pub(super) fn custom_call(scope: &Scope<'_>) -> Result<Op, Problem> {
    let proto = scope.proto;
    require(
        !proto.custom_call_target.is_empty(),
        "custom call target",
        "a name",
        "none",
    )?;
    let computations = (0..proto.called_computation_ids.len())
        .map(|index| scope.called_at(index).map(|(index, _)| index))
        .collect::<Result<_, _>>()?;
    Ok(Op::CustomCall(Box::new(CustomCall {
        target: proto.custom_call_target.clone(),
        config: proto.backend_config.to_vec(),
        computations,
    })))
}

/// Checks `rng`.
pub(super) fn rng(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(2)?;
    let (a, b, result) = (scope.array(0)?, scope.array(1)?, scope.result()?);
    scalar("parameter of the distribution", a)?;
    scalar("parameter of the distribution", b)?;
    same_element(a, b)?;
    same_element(a, result)?;
    let distribution = match xla::RandomDistribution::try_from(scope.proto.distribution) {
        Ok(xla::RandomDistribution::RngUniform) => RngDistribution::Uniform,
        Ok(xla::RandomDistribution::RngNormal) => RngDistribution::Normal,
        _ => return Err(mismatch("distribution", "1 or 2", scope.proto.distribution)),
    };
    let element = a.element();
    require(
        element.is_float()
            || (distribution == RngDistribution::Uniform
                && (element.is_integer() || element == ElementType::Pred)),
        "element type of the distribution",
        "a floating-point type, or a real one if uniform",
        element,
    )?;
    Ok(Op::Rng(distribution))
}

/// Checks `rng-bit-generator`.
pub(super) fn rng_bit_generator(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(1)?;
    let state = scope.array(0)?;
    let (algorithm, lengths): (_, &[usize]) =
        match xla::RandomAlgorithm::try_from(scope.proto.rng_algorithm) {
            Ok(xla::RandomAlgorithm::RngDefault) => (RngAlgorithm::Default, &[2, 3]),
            Ok(xla::RandomAlgorithm::RngThreeFry) => (RngAlgorithm::ThreeFry, &[2]),
            Ok(xla::RandomAlgorithm::RngPhilox) => (RngAlgorithm::Philox, &[2, 3]),
            Err(_) => {
                return Err(mismatch(
                    "rng algorithm",
                    "0 to 2",
                    scope.proto.rng_algorithm,
                ));
            }
        };
    require(
        state.element() == ElementType::U64
            && state.rank() == 1
            && lengths.contains(&state.dims()[0]),
        "state",
        format_args!("u64 of {lengths:?} words"),
        state,
    )?;
    let [first, bits] = scope.declared.as_tuple().unwrap_or_default() else {
        return Err(mismatch(
            "shape",
            "a tuple of state and bits",
            scope.declared,
        ));
    };
    let same_state = first.as_array().is_some_and(|first| first.same(state));
    require(same_state, "state of the shape", state, first)?;
    let bits = bits
        .as_array()
        .ok_or_else(|| mismatch("bits", "an array", bits))?;
    integer("bits", bits)?;
    Ok(Op::RngBitGenerator(algorithm))
}
