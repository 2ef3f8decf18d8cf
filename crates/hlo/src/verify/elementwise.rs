//! Shape inference of elementwise instructions.

use crate::attributes::{Comparison, Direction};
use crate::element::{ElementClass, ElementType};
use crate::ir::{BinaryOp, Op, UnaryOp};
use crate::shape::{ArrayShape, Shape};

use super::problem::{Problem, mismatch, require};
use super::scope::{Scope, same_dims, same_element, scalar};

/// What an operation demands of its operands' element type.
struct Demand(&'static str, fn(ElementType) -> bool);

const FLOAT: Demand = Demand("a floating-point type", ElementType::is_float);
const FLOAT_OR_COMPLEX: Demand = Demand("a floating-point or complex type", |e| {
    e.is_float() || e.is_complex()
});
const INTEGER: Demand = Demand("an integer type", ElementType::is_integer);
const BITS: Demand = Demand("pred or an integer type", |e| {
    e.is_integer() || e.class() == ElementClass::Pred
});
const SIGNED: Demand = Demand("a signed, floating-point or complex type", |e| {
    matches!(
        e.class(),
        ElementClass::Signed | ElementClass::Float | ElementClass::Complex
    )
});
const NUMBER: Demand = Demand("a number type", |e| e.class() != ElementClass::Pred);
const REAL: Demand = Demand("a real type", |e| !e.is_complex());
const REAL_NUMBER: Demand = Demand("a real number type", |e| {
    !e.is_complex() && e.class() != ElementClass::Pred
});
const ANY: Demand = Demand("any type", |_| true);

/// Checks an operation on one operand.
pub(super) fn unary(scope: &Scope<'_>, op: UnaryOp) -> Result<Op, Problem> {
    scope.count(1)?;
    let operand = scope.array(0)?;
    let demand = match op {
        UnaryOp::Abs | UnaryOp::Sign => SIGNED,
        UnaryOp::Negate => NUMBER,
        UnaryOp::Not => BITS,
        UnaryOp::PopulationCount | UnaryOp::CountLeadingZeros => INTEGER,
        UnaryOp::Cos
        | UnaryOp::Sin
        | UnaryOp::Tan
        | UnaryOp::Exp
        | UnaryOp::ExpMinusOne
        | UnaryOp::Log
        | UnaryOp::LogPlusOne
        | UnaryOp::Logistic
        | UnaryOp::Tanh
        | UnaryOp::Sqrt
        | UnaryOp::Rsqrt
        | UnaryOp::Real
        | UnaryOp::Imag => FLOAT_OR_COMPLEX,
        _ => FLOAT,
    };
    demanded(&demand, operand)?;
    let element = match op {
        UnaryOp::IsFinite => ElementType::Pred,
        UnaryOp::Abs | UnaryOp::Real | UnaryOp::Imag => operand.element().part(),
        _ => operand.element(),
    };
    scope.infers_array(element, operand.dims())?;
    Ok(Op::Unary(op))
}

/// Checks an operation on two operands.
pub(super) fn binary(scope: &Scope<'_>, op: BinaryOp) -> Result<Op, Problem> {
    scope.count(2)?;
    let (lhs, rhs) = (scope.array(0)?, scope.array(1)?);
    same_element(lhs, rhs)?;
    same_dims(lhs, rhs)?;
    let demand = match op {
        BinaryOp::Add | BinaryOp::Multiply => ANY,
        BinaryOp::Maximum | BinaryOp::Minimum => REAL,
        BinaryOp::Subtract | BinaryOp::Divide | BinaryOp::Power => NUMBER,
        BinaryOp::Remainder => REAL_NUMBER,
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => BITS,
        BinaryOp::ShiftLeft | BinaryOp::ShiftRightArithmetic | BinaryOp::ShiftRightLogical => {
            INTEGER
        }
        BinaryOp::Atan2 => FLOAT,
        BinaryOp::Complex => Demand("f32 or f64", |e| {
            matches!(e, ElementType::F32 | ElementType::F64)
        }),
    };
    demanded(&demand, lhs)?;
    let element = match (op, lhs.element()) {
        (BinaryOp::Complex, ElementType::F64) => ElementType::C128,
        (BinaryOp::Complex, _) => ElementType::C64,
        (_, element) => element,
    };
    scope.infers_array(element, lhs.dims())?;
    Ok(Op::Binary(op))
}

/// Checks `compare`.
pub(super) fn compare(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(2)?;
    let (lhs, rhs) = (scope.array(0)?, scope.array(1)?);
    same_element(lhs, rhs)?;
    same_dims(lhs, rhs)?;
    let direction = match scope.proto.comparison_direction.as_str() {
        "EQ" => Direction::Eq,
        "NE" => Direction::Ne,
        "LT" => Direction::Lt,
        "LE" => Direction::Le,
        "GT" => Direction::Gt,
        "GE" => Direction::Ge,
        other => {
            return Err(mismatch(
                "comparison direction",
                "EQ, NE, LT, LE, GT or GE",
                other,
            ));
        }
    };
    let class = lhs.element().class();
    let kinds: &[&str] = match class {
        ElementClass::Float => &["", "FLOAT", "TOTALORDER"],
        ElementClass::Complex => &["", "FLOAT"],
        ElementClass::Signed => &["", "SIGNED"],
        ElementClass::Unsigned | ElementClass::Pred => &["", "UNSIGNED"],
    };
    let kind = scope.proto.comparison_type.as_str();
    require(
        kinds.contains(&kind),
        "comparison type",
        format_args!("one for {}", lhs.element()),
        kind,
    )?;
    if class == ElementClass::Complex {
        require(
            matches!(direction, Direction::Eq | Direction::Ne),
            "comparison direction of complex numbers",
            "EQ or NE",
            &scope.proto.comparison_direction,
        )?;
    }
    scope.infers_array(ElementType::Pred, lhs.dims())?;
    Ok(Op::Compare(Comparison {
        direction,
        total_order: kind == "TOTALORDER",
    }))
}

/// Checks `select`.
pub(super) fn select(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(3)?;
    let (predicate, on_true, on_false) = (scope.array(0)?, scope.array(1)?, scope.array(2)?);
    require(
        predicate.element() == ElementType::Pred,
        "element type of the predicate",
        ElementType::Pred,
        predicate.element(),
    )?;
    same_element(on_true, on_false)?;
    same_dims(on_true, on_false)?;
    if predicate.rank() != 0 {
        same_dims(on_true, predicate)?;
    }
    scope.infers_array(on_true.element(), on_true.dims())?;
    Ok(Op::Select)
}

/// Checks `clamp`.
pub(super) fn clamp(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(3)?;
    let (low, operand, high) = (scope.array(0)?, scope.array(1)?, scope.array(2)?);
    demanded(&REAL, operand)?;
    for bound in [low, high] {
        same_element(operand, bound)?;
        if bound.rank() != 0 {
            same_dims(operand, bound)?;
        }
    }
    scope.infers_array(operand.element(), operand.dims())?;
    Ok(Op::Clamp)
}

/// Checks `convert`.
pub(super) fn convert(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(1)?;
    let (operand, result) = (scope.array(0)?, scope.result()?);
    require(
        !operand.element().is_complex() || result.element().is_complex(),
        "element type converted to",
        "a complex type",
        result.element(),
    )?;
    scope.infers_array(result.element(), operand.dims())?;
    Ok(Op::Convert)
}

/// Checks `bitcast-convert`.
pub(super) fn bitcast_convert(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(1)?;
    let (operand, result) = (scope.array(0)?, scope.result()?);
    let (from, to) = (operand.element(), result.element());
    require(
        from.is_complex() == to.is_complex(),
        "element type converted to",
        "complex if and only if the operand is",
        to,
    )?;
    let pred = |element| element == ElementType::Pred;
    require(
        pred(from) == pred(to),
        "element type converted to",
        from,
        to,
    )?;
    let (from_bits, to_bits) = (from.bit_width(), to.bit_width());
    let mut dims = operand.dims().to_vec();
    if to_bits < from_bits {
        require(
            from_bits % to_bits == 0,
            "bit width",
            format_args!("a divisor of {from_bits}"),
            to_bits,
        )?;
        dims.push(from_bits / to_bits);
    } else if to_bits > from_bits {
        require(
            to_bits % from_bits == 0,
            "bit width",
            format_args!("a multiple of {from_bits}"),
            to_bits,
        )?;
        let expected = to_bits / from_bits;
        let last = dims.pop();
        require(
            last == Some(expected),
            "last dimension of the operand",
            expected,
            operand,
        )?;
    }
    scope.infers_array(to, dims)?;
    Ok(Op::BitcastConvert)
}

/// Checks `reduce-precision`.
pub(super) fn reduce_precision(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(1)?;
    let operand = scope.array(0)?;
    demanded(&FLOAT, operand)?;
    let exponent_bits = u32::try_from(scope.proto.exponent_bits)
        .ok()
        .filter(|&bits| bits >= 1);
    let exponent_bits = exponent_bits
        .ok_or_else(|| mismatch("exponent bits", "1 or more", scope.proto.exponent_bits))?;
    let mantissa_bits = u32::try_from(scope.proto.mantissa_bits)
        .map_err(|_| mismatch("mantissa bits", "0 or more", scope.proto.mantissa_bits))?;
    scope.infers_array(operand.element(), operand.dims())?;
    Ok(Op::ReducePrecision {
        exponent_bits,
        mantissa_bits,
    })
}

/// Checks `map`.
pub(super) fn map(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.at_least(1)?;
    let operands = scope.arrays(0..scope.operands.len())?;
    let first = operands[0];
    for operand in &operands {
        same_dims(first, operand)?;
    }
    let dims = Scope::dims("dimensions", &scope.proto.dimensions, first.rank())?;
    require(
        dims.iter().copied().eq(0..first.rank()),
        "dimensions",
        "all in order",
        format_args!("{dims:?}"),
    )?;
    let (computation, called) = scope.called()?;
    let parameters: Vec<Shape> = operands
        .iter()
        .map(|operand| ArrayShape::scalar(operand.element()).into())
        .collect();
    let result = called.result_shape();
    let array = result
        .as_array()
        .ok_or_else(|| mismatch("result of the called computation", "a scalar", result))?;
    scalar("result of the called computation", array)?;
    super::scope::signature(called, &parameters, result)?;
    scope.infers_array(array.element(), first.dims())?;
    Ok(Op::Map { computation })
}

fn demanded(demand: &Demand, operand: &ArrayShape) -> Result<(), Problem> {
    require(
        (demand.1)(operand.element()),
        "element type of an operand",
        demand.0,
        operand.element(),
    )
}
