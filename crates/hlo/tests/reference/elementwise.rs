//! Elementwise instructions, one element at a time.

use metaneff_schema::xla::HloInstructionProto;

use crate::value::{Kind, Tensor, Unknown};

/// The result of an elementwise instruction.
pub(crate) fn elementwise(
    instruction: &HloInstructionProto,
    operands: &[&Tensor],
) -> Result<Tensor, Unknown> {
    let shape = instruction.shape.clone().unwrap_or_default();
    let opcode = instruction.opcode.as_str();
    let kind = operands[0].kind;
    Tensor::build(&shape, |index| {
        let x = |number: usize| operands[number].at(index);
        match opcode {
            "compare" => compare(instruction, x(0), x(1)),
            "select" => Ok(if scalar_or(operands[0], index) != 0.0 {
                x(1)
            } else {
                x(2)
            }),
            "clamp" => {
                let (low, high) = (scalar_or(operands[0], index), scalar_or(operands[2], index));
                Ok(minimum(maximum(low, x(1)), high))
            }
            "convert" => Ok(convert(x(0), kind, Kind::of(&shape)?)),
            "copy" => Ok(x(0)),
            _ if operands.len() == 1 && kind == Kind::F32 => unary_float(opcode, x(0)),
            _ if operands.len() == 1 => unary_integer(opcode, kind, x(0)),
            _ if kind == Kind::F32 => binary_float(opcode, x(0), x(1)),
            _ => binary_integer(opcode, kind, x(0), x(1)),
        }
    })
}

/// The element of an operand that may be a scalar beside arrays.
fn scalar_or(operand: &Tensor, index: &[usize]) -> f64 {
    if operand.dims.is_empty() {
        operand.values[0]
    } else {
        operand.at(index)
    }
}

fn unknown(opcode: &str) -> Result<f64, Unknown> {
    Err(Unknown(opcode.to_owned()))
}

fn truth(value: bool) -> f64 {
    f64::from(u8::from(value))
}

fn compare(instruction: &HloInstructionProto, x: f64, y: f64) -> Result<f64, Unknown> {
    if instruction.comparison_type == "TOTALORDER" {
        return unknown("compare of the total order");
    }
    match instruction.comparison_direction.as_str() {
        "EQ" => Ok(truth(x == y)),
        "NE" => Ok(truth(x != y)),
        "LT" => Ok(truth(x < y)),
        "LE" => Ok(truth(x <= y)),
        "GT" => Ok(truth(x > y)),
        "GE" => Ok(truth(x >= y)),
        other => unknown(other),
    }
}

/// Conversion of floats to integers truncates, saturates and takes NaN to 0;
/// integers wrap.
fn convert(value: f64, from: Kind, to: Kind) -> f64 {
    match (from, to) {
        (_, Kind::Pred) => truth(value != 0.0),
        (Kind::F32, Kind::S32) => f64::from(value as i32),
        (Kind::F32, Kind::S64) => (value as i64) as f64,
        (_, Kind::S32) => to.wrapped(value as i64),
        (_, Kind::F32 | Kind::S64) => value,
    }
}

/// A NaN wins, and 0 is greater than -0.
fn maximum(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        f64::NAN
    } else if x == y {
        if x.is_sign_positive() { x } else { y }
    } else if x > y {
        x
    } else {
        y
    }
}

fn minimum(x: f64, y: f64) -> f64 {
    -maximum(-x, -y)
}

fn unary_float(opcode: &str, x: f64) -> Result<f64, Unknown> {
    match opcode {
        "negate" => Ok(-x),
        "abs" => Ok(x.abs()),
        "floor" => Ok(x.floor()),
        "ceil" => Ok(x.ceil()),
        "exponential" => Ok(x.exp()),
        "exponential-minus-one" => Ok(x.exp_m1()),
        "tanh" => Ok(x.tanh()),
        "log" => Ok(x.ln()),
        "log-plus-one" => Ok(x.ln_1p()),
        "sqrt" => Ok(x.sqrt()),
        "rsqrt" => Ok(1.0 / x.sqrt()),
        "sine" => Ok(x.sin()),
        "cosine" => Ok(x.cos()),
        "logistic" => Ok(1.0 / (1.0 + (-x).exp())),
        "cbrt" => Ok(x.cbrt()),
        "tan" => Ok(x.tan()),
        "sign" if x == 0.0 || x.is_nan() => Ok(x),
        "sign" => Ok(x.signum()),
        "round-nearest-afz" => Ok(x.round()),
        "round-nearest-even" => Ok(x.round_ties_even()),
        "is-finite" => Ok(truth(x.is_finite())),
        other => unknown(other),
    }
}

fn unary_integer(opcode: &str, kind: Kind, x: f64) -> Result<f64, Unknown> {
    let number = x as i64;
    match opcode {
        "not" if kind == Kind::Pred => Ok(truth(number == 0)),
        "not" => Ok(kind.wrapped(!number)),
        "negate" if kind.is_integer() => Ok(kind.wrapped(number.wrapping_neg())),
        "abs" if kind.is_integer() => Ok(kind.wrapped(number.wrapping_abs())),
        other => unknown(other),
    }
}

fn binary_float(opcode: &str, x: f64, y: f64) -> Result<f64, Unknown> {
    match opcode {
        "add" => Ok(x + y),
        "subtract" => Ok(x - y),
        "multiply" => Ok(x * y),
        "divide" => Ok(x / y),
        "remainder" => Ok(x % y),
        "maximum" => Ok(maximum(x, y)),
        "minimum" => Ok(minimum(x, y)),
        "power" => Ok(x.powf(y)),
        "atan2" => Ok(x.atan2(y)),
        other => unknown(other),
    }
}

/// Division by 0 gives -1; the least number divided by -1 gives itself.
fn binary_integer(opcode: &str, kind: Kind, x: f64, y: f64) -> Result<f64, Unknown> {
    let (a, b) = (x as i64, y as i64);
    match opcode {
        "and" => return Ok(kind.wrapped(a & b)),
        "or" => return Ok(kind.wrapped(a | b)),
        "xor" => return Ok(kind.wrapped(a ^ b)),
        "maximum" => return Ok(maximum(x, y)),
        "minimum" => return Ok(minimum(x, y)),
        _ if kind == Kind::Pred => return unknown(opcode),
        _ => {}
    }
    let exact = match opcode {
        "add" => a.checked_add(b),
        "subtract" => a.checked_sub(b),
        "multiply" => a.checked_mul(b),
        "divide" if b == 0 => Some(-1),
        "divide" => Some(a.wrapping_div(b)),
        "remainder" if b == 0 => Some(a),
        "remainder" => Some(a.wrapping_rem(b)),
        other => return unknown(other),
    };
    match exact {
        Some(number) if kind == Kind::S32 || number.abs() < 1 << 53 => Ok(kind.wrapped(number)),
        _ => unknown("integers beyond 2^53"),
    }
}
