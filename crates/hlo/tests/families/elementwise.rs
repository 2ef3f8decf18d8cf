//! Elementwise instructions on every type of real numbers.

use half::{bf16, f16};
use metaneff_schema::xla::{HloInstructionProto, PrimitiveType, ShapeProto};

use crate::bits::{Number, decode, integer, width};
use crate::build::{array, with};
use crate::draw::{Draw, check};
use crate::value::execute_bytes;

use PrimitiveType as P;

/// The number of so many bits that `value` wraps to.
fn wrapped(element: P, value: i128) -> i128 {
    let Some((bits, signed)) = integer(element) else {
        return value & 1;
    };
    let low = value & ((1 << bits) - 1);
    if signed && low >> (bits - 1) == 1 {
        low - (1 << bits)
    } else {
        low
    }
}

/// The bits of a number, without a sign.
fn pattern(element: P, value: i128) -> i128 {
    let bits = integer(element).map_or(1, |(bits, _)| bits);
    value & ((1 << bits) - 1)
}

/// A number of the type, often near its ends.
fn whole(draw: &mut Draw, element: P) -> i128 {
    let any = (0..4).fold(0, |word, _| word << 16 | draw.below(1 << 16) as i128);
    let small = i128::from(draw.within(-9, 70));
    let bits = integer(element).map_or(1, |(bits, _)| bits);
    let high = (1_i128 << (bits - 1)) - 1;
    let edges = [0, 1, -1, high, high + 1, -high, high - 1];
    let edge = draw.pick(&edges);
    wrapped(element, draw.pick(&[small, any, edge]))
}

fn encoded(element: P, values: &[i128]) -> Vec<u8> {
    let bytes = |&value: &i128| value.to_le_bytes()[..width(element)].to_vec();
    values.iter().flat_map(bytes).collect()
}

fn unary_integer(opcode: &str, element: P, x: i128) -> i128 {
    let bits = integer(element).map_or(1, |(bits, _)| bits);
    let ones = pattern(element, x).count_ones();
    let used = 128 - pattern(element, x).leading_zeros();
    match opcode {
        "negate" => -x,
        "abs" => x.abs(),
        "sign" => x.signum(),
        "not" => !x,
        "popcnt" => ones.into(),
        _ => (bits - used).into(),
    }
}

/// By the specification and, where that leaves a result open, by XLA: a
/// division by 0 has all bits set, its remainder is the dividend; a shift by
/// the width or more leaves nothing but the sign.
fn binary_integer(opcode: &str, element: P, x: i128, y: i128) -> i128 {
    let (bits, signed) = integer(element).unwrap_or((1, false));
    let amount = pattern(element, y);
    let within = amount < bits.into();
    match opcode {
        "add" if element == P::Pred => x | y,
        "add" => x + y,
        "subtract" => x - y,
        "multiply" => x.wrapping_mul(y),
        "divide" if y == 0 => -1,
        "divide" => x / y,
        "remainder" if y == 0 => x,
        "remainder" => x % y,
        "maximum" => x.max(y),
        "minimum" => x.min(y),
        "and" => x & y,
        "or" => x | y,
        "xor" => x ^ y,
        "power" if signed && y < 0 => match x {
            1 => 1,
            -1 if y % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        },
        "power" => {
            let product = (0..128).rev().fold(1, |product, bit| {
                // The low bits are right where the product overflows.
                let square = wrapped(element, i128::wrapping_mul(product, product));
                if y >> bit & 1 == 1 {
                    wrapped(element, i128::wrapping_mul(square, x))
                } else {
                    square
                }
            });
            if y == 0 { 1 } else { product }
        }
        "shift-left" if within => x << amount,
        "shift-right-logical" if within => pattern(element, x) >> amount,
        "shift-left" | "shift-right-logical" => 0,
        // Of unsigned numbers too the highest bit is the sign.
        _ => {
            let sign = pattern(element, x) >> (bits - 1) & 1;
            let extended = pattern(element, x) - (sign << bits);
            extended >> amount.min(127)
        }
    }
}

fn compared<T: PartialOrd>(direction: &str, x: &T, y: &T) -> bool {
    match direction {
        "EQ" => x == y,
        "NE" => x != y,
        "LT" => x < y,
        "LE" => x <= y,
        "GT" => x > y,
        _ => x >= y,
    }
}

const DIRECTIONS: [&str; 6] = ["EQ", "NE", "LT", "LE", "GT", "GE"];

/// Executes one instruction on vectors, or scalars where the shape is one.
fn result_of(
    opcode: &str,
    shapes: &[ShapeProto],
    result: ShapeProto,
    change: impl FnOnce(&mut HloInstructionProto),
    inputs: &[Vec<u8>],
) -> Result<Vec<u8>, String> {
    let outputs = execute_bytes(&with(opcode, shapes, result, change), inputs)?;
    Ok(outputs[0].bytes().to_vec())
}

fn same_bytes(opcode: &str, element: P, expected: &[u8], found: &[u8]) -> Result<(), String> {
    if expected == found {
        return Ok(());
    }
    Err(format!(
        "{opcode} of {element:?} is {found:?} instead of {expected:?}"
    ))
}

#[test]
fn integers_agree() {
    check(3000, |draw| {
        let element = draw.pick(&[
            P::S32,
            P::U32,
            P::S8,
            P::U8,
            P::S16,
            P::U16,
            P::S64,
            P::U64,
            P::S4,
            P::U4,
            P::Pred,
        ]);
        let signed = integer(element).is_some_and(|(_, signed)| signed);
        // Long enough for vector registers and a remainder.
        let n = draw.pick(&[1, 5, 37]);
        let mut numbers = || (0..n).map(|_| whole(draw, element)).collect::<Vec<i128>>();
        let (x, y, z) = (numbers(), numbers(), numbers());
        let dims = [n];
        let vector = array(element, &dims);
        let bytes = [&x, &y, &z].map(|values| encoded(element, values));
        let both = [vector.clone(), vector.clone()];

        let mut unary = vec!["not"];
        if element != P::Pred {
            unary.extend(["negate", "popcnt", "count-leading-zeros"]);
        }
        if signed {
            unary.extend(["abs", "sign"]);
        }
        let opcode = draw.pick(&unary);
        let expected: Vec<i128> = x
            .iter()
            .map(|&x| wrapped(element, unary_integer(opcode, element, x)))
            .collect();
        let found = result_of(opcode, &both[..1], vector.clone(), |_| {}, &bytes[..1])?;
        same_bytes(opcode, element, &encoded(element, &expected), &found)?;

        let mut binary = vec!["add", "multiply", "maximum", "minimum", "and", "or", "xor"];
        if element != P::Pred {
            binary.extend([
                "subtract",
                "divide",
                "remainder",
                "power",
                "shift-left",
                "shift-right-logical",
                "shift-right-arithmetic",
            ]);
        }
        let opcode = draw.pick(&binary);
        let expected: Vec<i128> = x
            .iter()
            .zip(&y)
            .map(|(&x, &y)| wrapped(element, binary_integer(opcode, element, x, y)))
            .collect();
        let found = result_of(opcode, &both, vector.clone(), |_| {}, &bytes[..2])?;
        same_bytes(opcode, element, &encoded(element, &expected), &found)?;

        let direction = draw.pick(&DIRECTIONS);
        let truths: Vec<u8> = x
            .iter()
            .zip(&y)
            .map(|(x, y)| u8::from(compared(direction, x, y)))
            .collect();
        let preds = array(P::Pred, &dims);
        let change = |op: &mut HloInstructionProto| op.comparison_direction = direction.into();
        let found = result_of("compare", &both, preds.clone(), change, &bytes[..2])?;
        same_bytes(direction, element, &truths, &found)?;

        // The upper bound wins where the bounds cross.
        let clamped: Vec<i128> = (0..x.len()).map(|i| x[i].max(y[i]).min(z[i])).collect();
        let [operand, low, high] = bytes.clone();
        let shapes = [vector.clone(), vector.clone(), vector.clone()];
        let found = result_of(
            "clamp",
            &shapes,
            vector.clone(),
            |_| {},
            &[low, operand, high],
        )?;
        same_bytes("clamp", element, &encoded(element, &clamped), &found)?;

        let scalar = draw.flag();
        let chosen = |i: usize| truths[if scalar { 0 } else { i }] == 1;
        let selected: Vec<i128> = (0..x.len())
            .map(|i| if chosen(i) { x[i] } else { y[i] })
            .collect();
        let predicate = if scalar { array(P::Pred, &[]) } else { preds };
        let truths = if scalar { truths[..1].to_vec() } else { truths };
        let shapes = [predicate, vector.clone(), vector.clone()];
        let [x, y, _] = bytes;
        let found = result_of("select", &shapes, vector, |_| {}, &[truths, x, y])?;
        same_bytes("select", element, &encoded(element, &selected), &found)
    });
}

/// How far a result may be from the exact one: relative, and absolute.
fn allowed(element: P) -> (f64, f64) {
    match element {
        P::F64 => (4e-14, 1e-300),
        P::F32 => (2e-6, 1e-37),
        P::F16 => (1.01 * 2_f64.powi(-10), 1.3e-7),
        _ => (1.01 * 2_f64.powi(-7), 1e-37),
    }
}

fn held(element: P, value: f64) -> Vec<u8> {
    match element {
        P::F64 => value.to_le_bytes().to_vec(),
        P::F32 => (value as f32).to_le_bytes().to_vec(),
        P::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
        _ => bf16::from_f32(value as f32).to_le_bytes().to_vec(),
    }
}

fn float(element: P, bytes: &[u8]) -> f64 {
    match decode(element, bytes) {
        Number::Float(value) => value,
        Number::Integer(value) => value as f64,
    }
}

/// A number of the type: mostly of usual size, at times special.
fn real(draw: &mut Draw, element: P) -> f64 {
    let specials = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        0.5,
        2.5,
        -2.5,
        1e-3,
        12345.678,
        3.0e-5,
    ];
    let usual = draw.within(-4000, 4000) as f64 / 512.0 + draw.below(1000) as f64 / 7001.0;
    let near_zero = usual * 2_f64.powi(-(draw.below(14) as i32));
    let special = draw.pick(&specials);
    let value = draw.pick(&[usual, usual, near_zero, special]);
    float(element, &held(element, value))
}

/// The error function by its series of positive terms.
fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x.abs() > 6.0 {
        return 1_f64.copysign(x);
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp() * sum
}

/// A NaN wins, and 0 is greater than -0.
fn larger(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    if x.total_cmp(&y).is_ge() { x } else { y }
}

fn smaller(x: f64, y: f64) -> f64 {
    -larger(-x, -y)
}

type Unary = (&'static str, fn(f64) -> f64);
type Binary = (&'static str, fn(f64, f64) -> f64);

/// What rounds to the nearest number of the type.
const EXACT_UNARY: [Unary; 9] = [
    ("abs", f64::abs),
    ("negate", |x| -x),
    ("ceil", f64::ceil),
    ("floor", f64::floor),
    ("round-nearest-afz", f64::round),
    ("round-nearest-even", f64::round_ties_even),
    ("sign", |x| {
        if x == 0.0 || x.is_nan() {
            x
        } else {
            x.signum()
        }
    }),
    ("sqrt", f64::sqrt),
    ("copy", |x| x),
];

const EXACT_BINARY: [Binary; 7] = [
    ("add", |x, y| x + y),
    ("subtract", |x, y| x - y),
    ("multiply", |x, y| x * y),
    ("divide", |x, y| x / y),
    ("remainder", |x, y| x % y),
    ("maximum", larger),
    ("minimum", smaller),
];

const UNARY: [Unary; 19] = [
    ("acos", f64::acos),
    ("acosh", f64::acosh),
    ("asin", f64::asin),
    ("asinh", f64::asinh),
    ("atanh", f64::atanh),
    ("cbrt", f64::cbrt),
    ("cosh", f64::cosh),
    ("cosine", f64::cos),
    ("erf", erf),
    ("exponential", f64::exp),
    ("exponential-minus-one", f64::exp_m1),
    ("log", f64::ln),
    ("log-plus-one", f64::ln_1p),
    ("logistic", |x| 1.0 / (1.0 + (-x).exp())),
    ("rsqrt", |x| 1.0 / x.sqrt()),
    ("sine", f64::sin),
    ("sinh", f64::sinh),
    ("tan", f64::tan),
    ("tanh", f64::tanh),
];

const BINARY: [Binary; 2] = [("atan2", f64::atan2), ("power", f64::powf)];

fn near(element: P, expected: f64, found: f64, exact: bool) -> bool {
    let rounded = float(element, &held(element, expected));
    if rounded.is_nan() || found.is_nan() {
        return rounded.is_nan() && found.is_nan();
    }
    if exact {
        return rounded.to_bits() == found.to_bits();
    }
    let (relative, absolute) = allowed(element);
    rounded == found || (expected - found).abs() <= relative * expected.abs() + absolute
}

#[test]
fn floats_agree() {
    check(4000, |draw| {
        let element = draw.pick(&[P::F32, P::Bf16, P::F16, P::F64]);
        let n = draw.pick(&[1, 5, 37]);
        let mut numbers = || (0..n).map(|_| real(draw, element)).collect::<Vec<f64>>();
        let (x, y, z) = (numbers(), numbers(), numbers());
        let dims = [n];
        let vector = array(element, &dims);
        let bytes = [&x, &y, &z]
            .map(|values| -> Vec<u8> { values.iter().flat_map(|&x| held(element, x)).collect() });
        let shapes = [vector.clone(), vector.clone(), vector.clone()];
        let agree = |opcode: &str, expected: Vec<f64>, found: Vec<u8>, exact: bool| {
            let found = found.chunks_exact(width(element));
            for (place, (expected, found)) in expected.into_iter().zip(found).enumerate() {
                let found = float(element, found);
                if !near(element, expected, found, exact) {
                    return Err(format!(
                        "{opcode} of {element:?} {:e}, {:e}, {:e} is {found:e}, not {expected:e}",
                        x[place], y[place], z[place]
                    ));
                }
            }
            Ok(())
        };
        let of_unary = |(opcode, function): Unary, exact| {
            let expected = x.iter().map(|&x| function(x)).collect();
            let found = result_of(opcode, &shapes[..1], vector.clone(), |_| {}, &bytes[..1])?;
            agree(opcode, expected, found, exact)
        };
        let of_binary = |(opcode, function): Binary, exact| {
            let expected = x.iter().zip(&y).map(|(&x, &y)| function(x, y)).collect();
            let found = result_of(opcode, &shapes[..2], vector.clone(), |_| {}, &bytes[..2])?;
            agree(opcode, expected, found, exact)
        };
        of_unary(draw.pick(&EXACT_UNARY), true)?;
        of_binary(draw.pick(&EXACT_BINARY), true)?;
        of_unary(draw.pick(&UNARY), false)?;
        of_binary(draw.pick(&BINARY), false)?;

        let clamped = (0..x.len())
            .map(|i| smaller(larger(x[i], y[i]), z[i]))
            .collect();
        let [operand, low, high] = bytes.clone();
        let found = result_of(
            "clamp",
            &shapes,
            vector.clone(),
            |_| {},
            &[low, operand, high],
        )?;
        agree("clamp", clamped, found, true)?;

        let preds = array(P::Pred, &dims);
        let finite: Vec<u8> = x.iter().map(|x| u8::from(x.is_finite())).collect();
        let found = result_of(
            "is-finite",
            &shapes[..1],
            preds.clone(),
            |_| {},
            &bytes[..1],
        )?;
        same_bytes("is-finite", element, &finite, &found)?;

        let (direction, total) = (draw.pick(&DIRECTIONS), draw.flag());
        let truths: Vec<u8> = x
            .iter()
            .zip(&y)
            .map(|(x, y)| {
                u8::from(if total {
                    compared(direction, &x.total_cmp(y), &std::cmp::Ordering::Equal)
                } else {
                    compared(direction, x, y)
                })
            })
            .collect();
        let change = |op: &mut HloInstructionProto| {
            op.comparison_direction = direction.into();
            op.comparison_type = if total { "TOTALORDER" } else { "" }.into();
        };
        let found = result_of("compare", &shapes[..2], preds.clone(), change, &bytes[..2])?;
        same_bytes(direction, element, &truths, &found)?;

        let selected = (0..x.len())
            .map(|i| if truths[i] == 1 { x[i] } else { y[i] })
            .collect();
        let inputs = [truths.clone(), bytes[0].clone(), bytes[1].clone()];
        let shapes = [preds, vector.clone(), vector.clone()];
        let found = result_of("select", &shapes, vector.clone(), |_| {}, &inputs)?;
        agree("select", selected, found, true)
    });
}
