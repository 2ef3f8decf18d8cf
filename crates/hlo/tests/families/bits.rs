//! `convert`, `bitcast-convert`, `reduce-precision` and `rng-bit-generator`.

use half::{bf16, f16};
use metaneff_hlo::element::ElementType;
use metaneff_schema::xla::{PrimitiveType, RandomAlgorithm};

use crate::build::{array, of, tuple, with};
use crate::draw::{Draw, check};
use crate::value::execute_bytes;

use PrimitiveType as P;

/// A floating-point format of at most a byte: bits of exponent and mantissa,
/// bias, and what its last codes are.
#[derive(Clone, Copy, Debug)]
struct Format {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    special: Special,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Special {
    /// Infinity and NaN under the largest exponent.
    Ieee,
    /// NaN at the largest code of either sign, no infinity.
    OneNan,
    /// NaN in the place of negative zero only.
    Unsigned,
    /// Neither.
    None,
}

fn format(element: P) -> Option<Format> {
    let (exponent, mantissa, bias, special) = match element {
        P::F8e5m2 => (5, 2, 15, Special::Ieee),
        P::F8e4m3 => (4, 3, 7, Special::Ieee),
        P::F8e3m4 => (3, 4, 3, Special::Ieee),
        P::F8e4m3fn => (4, 3, 7, Special::OneNan),
        P::F8e4m3b11fnuz => (4, 3, 11, Special::Unsigned),
        P::F8e4m3fnuz => (4, 3, 8, Special::Unsigned),
        P::F8e5m2fnuz => (5, 2, 16, Special::Unsigned),
        P::F4e2m1fn => (2, 1, 1, Special::None),
        _ => return None,
    };
    Some(Format {
        exponent,
        mantissa,
        bias,
        special,
    })
}

impl Format {
    /// The magnitude of the code without a sign, were no code special.
    fn magnitude(self, code: u32) -> f64 {
        let mantissa = f64::from(code & ((1 << self.mantissa) - 1));
        let exponent = (code >> self.mantissa) as i32;
        let unit = f64::from(1 << self.mantissa);
        if exponent == 0 {
            mantissa / unit * 2_f64.powi(1 - self.bias)
        } else {
            (1.0 + mantissa / unit) * 2_f64.powi(exponent - self.bias)
        }
    }

    fn sign_bit(self) -> u32 {
        1 << (self.exponent + self.mantissa)
    }

    /// Codes of finite numbers, without a sign: those below this one.
    fn finite(self) -> u32 {
        match self.special {
            Special::Ieee => ((1 << self.exponent) - 1) << self.mantissa,
            Special::OneNan => self.sign_bit() - 1,
            Special::Unsigned | Special::None => self.sign_bit(),
        }
    }

    fn decode(self, code: u8) -> f64 {
        let code = u32::from(code);
        let magnitude = code & (self.sign_bit() - 1);
        let negative = code & self.sign_bit() != 0;
        if self.special == Special::Unsigned && code == self.sign_bit() {
            return f64::NAN;
        }
        let value = if magnitude < self.finite() {
            self.magnitude(magnitude)
        } else if self.special == Special::Ieee && magnitude == self.finite() {
            f64::INFINITY
        } else {
            f64::NAN
        };
        if negative { -value } else { value }
    }

    /// The nearest number, of two the one with the even code. Beyond the
    /// largest, the next number there would be counts as what overflow gives.
    fn encode(self, value: f64) -> f64 {
        if value.is_nan() {
            // Only in a type without NaN: zero.
            return if self.special == Special::None {
                -0.0
            } else {
                value
            };
        }
        let overflow = match self.special {
            Special::Ieee => f64::INFINITY,
            Special::None => self.magnitude(self.finite() - 1),
            _ => f64::NAN,
        };
        let value_of = |code: u32| match code < self.finite() {
            true => self.magnitude(code),
            false => overflow,
        };
        let mut nearest = 0;
        for code in 0..=self.finite() {
            let distance = (self.magnitude(code) - value.abs()).abs();
            let best = (self.magnitude(nearest) - value.abs()).abs();
            if distance < best || (distance == best && code % 2 == 0) {
                nearest = code;
            }
        }
        let beyond = value.abs() >= self.magnitude(self.finite());
        let result = if beyond { overflow } else { value_of(nearest) };
        if self.special == Special::Unsigned && result == 0.0 {
            return 0.0;
        }
        if value.is_sign_negative() {
            -result
        } else {
            result
        }
    }
}

/// An integer type: its bits, and whether it has a sign.
pub(crate) fn integer(element: P) -> Option<(u32, bool)> {
    Some(match element {
        P::S4 => (4, true),
        P::S8 => (8, true),
        P::S16 => (16, true),
        P::S32 => (32, true),
        P::S64 => (64, true),
        P::U4 => (4, false),
        P::U8 => (8, false),
        P::U16 => (16, false),
        P::U32 => (32, false),
        P::U64 => (64, false),
        _ => return None,
    })
}

/// A number: an integer or a float, exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Integer(i128),
    Float(f64),
}

pub(crate) fn width(element: P) -> usize {
    ElementType::from_proto(element.into())
        .expect("a known type")
        .byte_size()
}

pub(crate) fn decode(element: P, bytes: &[u8]) -> Number {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let word = u64::from_le_bytes(word);
    if let Some((bits, signed)) = integer(element) {
        let value = i128::from(word) & ((1 << bits) - 1);
        let negative = signed && value >> (bits - 1) == 1;
        return Number::Integer(if negative { value - (1 << bits) } else { value });
    }
    Number::Float(match element {
        P::Pred => return Number::Integer(i128::from(word != 0)),
        P::F16 => f16::from_bits(word as u16).to_f64(),
        P::Bf16 => bf16::from_bits(word as u16).to_f64(),
        P::F32 => f64::from(f32::from_bits(word as u32)),
        P::F64 => f64::from_bits(word),
        narrow => format(narrow).expect("a float").decode(word as u8),
    })
}

/// The conversion by the rules: integers wrap; floats truncate and saturate to
/// integers, NaN being 0, and round to nearest even to floats, once.
fn converted(value: Number, to: P) -> Number {
    if to == P::Pred {
        return Number::Integer(match value {
            Number::Integer(value) => i128::from(value != 0),
            Number::Float(value) => i128::from(value != 0.0),
        });
    }
    if let Some((bits, signed)) = integer(to) {
        let (low, high) = if signed {
            (-(1_i128 << (bits - 1)), (1 << (bits - 1)) - 1)
        } else {
            (0, (1_i128 << bits) - 1)
        };
        return Number::Integer(match value {
            Number::Integer(value) => {
                let wrapped = value & ((1 << bits) - 1);
                if wrapped > high {
                    wrapped - (1 << bits)
                } else {
                    wrapped
                }
            }
            Number::Float(value) => (value as i128).clamp(low, high),
        });
    }
    let value = match value {
        // Exact for what the test draws: below 2^53, or a power of two.
        Number::Integer(value) => value as f64,
        Number::Float(value) => value,
    };
    Number::Float(match to {
        P::F16 => f16::from_f64(value).to_f64(),
        // Through f32, as XLA does.
        P::Bf16 => bf16::from_f32(value as f32).to_f64(),
        P::F32 => f64::from(value as f32),
        P::F64 => value,
        narrow => format(narrow).expect("a float").encode(value),
    })
}

fn same(expected: Number, found: Number) -> bool {
    match (expected, found) {
        (Number::Float(x), Number::Float(y)) => {
            x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan())
        }
        (x, y) => x == y,
    }
}

const NUMBERS: [P; 22] = [
    P::F32,
    P::S32,
    P::Bf16,
    P::F16,
    P::F64,
    P::S8,
    P::U8,
    P::S16,
    P::U16,
    P::U32,
    P::S64,
    P::U64,
    P::Pred,
    P::F8e5m2,
    P::F8e4m3,
    P::F8e3m4,
    P::F8e4m3fn,
    P::F8e4m3b11fnuz,
    P::F8e4m3fnuz,
    P::F8e5m2fnuz,
    P::S4,
    P::U4,
];

/// An element of random bits, often near the edges of other types.
fn element_of(draw: &mut Draw, element: P) -> Vec<u8> {
    let bits =
        |draw: &mut Draw| (0..4).fold(0_u64, |word, _| word << 16 | draw.below(1 << 16) as u64);
    let edges = [
        0.0,
        -0.0,
        0.5,
        1.5,
        2.5,
        -2.5,
        7.0,
        -8.0,
        15.0,
        127.0,
        128.0,
        -129.0,
        240.0,
        248.0,
        255.5,
        256.0,
        448.0,
        464.0,
        465.0,
        480.0,
        61440.0,
        65504.0,
        65520.0,
        2_147_483_648.0,
        -2_147_483_649.0,
        9.3e18,
        -9.3e18,
        1.9e19,
        1e-5,
        3.0e-8,
        1e38,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        0.015_625,
        0.001_953_125,
        0.000_976_562_5,
        0.002_929_687_5,
    ];
    let float = draw.flag().then(|| {
        let edge = draw.pick(&edges);
        edge * if draw.seldom(3) {
            1.0 + 2_f64.powi(-9)
        } else {
            1.0
        }
    });
    let bytes: Vec<u8> = match (element, float) {
        (P::F64, Some(x)) => x.to_le_bytes().to_vec(),
        (P::F32, Some(x)) => (x as f32).to_le_bytes().to_vec(),
        (P::F16, Some(x)) => f16::from_f64(x).to_le_bytes().to_vec(),
        (P::Bf16, Some(x)) => bf16::from_f64(x).to_le_bytes().to_vec(),
        (P::S64 | P::U64, _) => {
            // Floats of the test must hold them.
            let value = if draw.flag() {
                1 << draw.below(64)
            } else {
                bits(draw) >> 11
            };
            value.to_le_bytes().to_vec()
        }
        (P::Pred, _) => vec![u8::from(draw.flag())],
        (P::S4, _) => vec![(draw.below(16) as i8 - 8).to_le_bytes()[0]],
        (P::U4, _) => vec![draw.below(16) as u8],
        _ => bits(draw).to_le_bytes()[..width(element)].to_vec(),
    };
    bytes
}

#[test]
fn conversions_agree() {
    check(2000, |draw| {
        let (from, to) = (draw.pick(&NUMBERS), draw.pick(&NUMBERS));
        let n = draw.size(1, 20);
        let input: Vec<u8> = (0..n).flat_map(|_| element_of(draw, from)).collect();
        let dims = [n as i64];
        let proto = of("convert", &[array(from, &dims)], array(to, &dims));
        let output = execute_bytes(&proto, std::slice::from_ref(&input))?;
        let found = output[0].bytes().chunks_exact(width(to));
        for (x, y) in input.chunks_exact(width(from)).zip(found) {
            let x = decode(from, x);
            // The same type moves bits, and no rounding happens within f32.
            let expected = if from == to { x } else { converted(x, to) };
            let found = decode(to, y);
            if !same(expected, found) {
                return Err(format!(
                    "{from:?} {x:?} to {to:?} is {found:?}, not {expected:?}"
                ));
            }
        }
        Ok(())
    });
}

#[test]
fn bits_are_kept() {
    let types = [
        P::F32,
        P::S8,
        P::U8,
        P::S16,
        P::U16,
        P::F16,
        P::Bf16,
        P::S32,
        P::U32,
        P::F64,
        P::S64,
        P::U64,
        P::F8e5m2,
        P::F8e4m3fn,
        P::C64,
    ];
    check(500, |draw| {
        let (from, to) = (draw.pick(&types), draw.pick(&types));
        if (from == P::C64) != (to == P::C64) {
            return Ok(());
        }
        let (from_width, to_width) = (width(from), width(to));
        let rank = draw.size(0, 2);
        let mut dims = draw.dims(rank, 4);
        let mut to_dims = dims.clone();
        if from_width < to_width {
            dims.push(to_width / from_width);
        } else if from_width > to_width {
            to_dims.push(from_width / to_width);
        }
        let bytes = crate::value::count(&dims) * from_width;
        let input: Vec<u8> = (0..bytes).map(|_| draw.below(256) as u8).collect();
        let proto = of(
            "bitcast-convert",
            &[crate::value::shape(from, &dims)],
            crate::value::shape(to, &to_dims),
        );
        let output = execute_bytes(&proto, std::slice::from_ref(&input))?;
        if output[0].bytes() == input {
            Ok(())
        } else {
            Err(format!("{input:?} became {:?}", output[0].bytes()))
        }
    });
}

/// A power of two, denormal ones too.
fn exp2(power: i32) -> f64 {
    f64::from(power).exp2()
}

/// The number of so many bits that `value` rounds to: what is below the least
/// normal one is zero, what is beyond the largest infinite.
fn reduced(value: f64, exponent: u32, mantissa: u32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let bias = (1 << (exponent - 1)) - 1;
    let power = value.abs().log2().floor() as i32;
    // The logarithm may be off by one near powers of two.
    let power = if exp2(power) > value.abs() {
        power - 1
    } else {
        power
    };
    let power = if exp2(power + 1) <= value.abs() {
        power + 1
    } else {
        power
    };
    let unit = exp2(power - mantissa as i32);
    let rounded = (value.abs() / unit).round_ties_even() * unit;
    let result = if rounded < exp2(1 - bias) {
        0.0
    } else if rounded >= exp2(bias + 1) {
        f64::INFINITY
    } else {
        rounded
    };
    result.copysign(value)
}

#[test]
fn precisions_agree() {
    check(1500, |draw| {
        let element = draw.pick(&[P::F32, P::Bf16, P::F64]);
        let most = match element {
            P::F64 => (11, 52),
            P::F32 => (8, 23),
            _ => (8, 7),
        };
        let (exponent, mantissa) = (draw.size(2, most.0) as u32, draw.size(1, most.1) as u32);
        let n = draw.size(1, 12);
        let input: Vec<u8> = (0..n).flat_map(|_| element_of(draw, element)).collect();
        let shape = array(element, &[n as i64]);
        let proto = with(
            "reduce-precision",
            std::slice::from_ref(&shape),
            shape.clone(),
            |op| {
                op.exponent_bits = exponent as i32;
                op.mantissa_bits = mantissa as i32;
            },
        );
        let output = execute_bytes(&proto, std::slice::from_ref(&input))?;
        let size = width(element);
        for (x, y) in input
            .chunks_exact(size)
            .zip(output[0].bytes().chunks_exact(size))
        {
            let (Number::Float(x), found) = (decode(element, x), decode(element, y)) else {
                return Err("a float is expected".into());
            };
            let smallest = if element == P::F64 {
                f64::MIN_POSITIVE
            } else {
                f64::from(f32::MIN_POSITIVE)
            };
            if x.abs() < smallest {
                // Denormal operands are the flush's business.
                continue;
            }
            let expected = Number::Float(reduced(x, exponent, mantissa));
            if !same(expected, found) {
                return Err(format!(
                    "{x:e} in e{exponent}m{mantissa} is {found:?}, not {expected:?}"
                ));
            }
        }
        Ok(())
    });
}

/// Two words of Threefry 2x32 with 20 rounds.
fn threefry(key: [u32; 2], counter: u64) -> [u32; 2] {
    let keys = [key[0], key[1], 0x1bd1_1bda ^ key[0] ^ key[1]];
    let mut x = counter as u32;
    let mut y = (counter >> 32) as u32;
    x = x.wrapping_add(keys[0]);
    y = y.wrapping_add(keys[1]);
    let rotations = [13, 15, 26, 6, 17, 29, 16, 24];
    for round in 0..20_usize {
        x = x.wrapping_add(y);
        y = y.rotate_left(rotations[round % 8]) ^ x;
        if round % 4 == 3 {
            let block = round / 4 + 1;
            x = x.wrapping_add(keys[block % 3]);
            y = y
                .wrapping_add(keys[(block + 1) % 3])
                .wrapping_add(block as u32);
        }
    }
    [x, y]
}

/// Four words of Philox 4x32 with 10 rounds.
fn philox(key: u64, counter: [u64; 2]) -> [u32; 4] {
    let mut words = [
        counter[0] as u32,
        (counter[0] >> 32) as u32,
        counter[1] as u32,
        (counter[1] >> 32) as u32,
    ];
    let mut keys = [key as u32, (key >> 32) as u32];
    for _ in 0..10 {
        let even = u64::from(words[0]) * 0xd251_1f53;
        let odd = u64::from(words[2]) * 0xcd9e_8d57;
        words = [
            (odd >> 32) as u32 ^ words[1] ^ keys[0],
            odd as u32,
            (even >> 32) as u32 ^ words[3] ^ keys[1],
            even as u32,
        ];
        keys = [
            keys[0].wrapping_add(0x9e37_79b9),
            keys[1].wrapping_add(0xbb67_ae85),
        ];
    }
    words
}

fn words_of(state: &[u64]) -> Vec<u8> {
    state.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn random_bits_agree() {
    check(300, |draw| {
        let word =
            |draw: &mut Draw| (0..4).fold(0_u64, |word, _| word << 16 | draw.below(1 << 16) as u64);
        let philox_state = draw.flag();
        let n = 2 * draw.size(1, 9);
        let element = draw.pick(&[P::U32, P::U64, P::U8, P::U16, P::S32]);
        let state: Vec<u64> = (0..if philox_state { 3 } else { 2 })
            .map(|_| word(draw))
            .collect();
        let key = [state[0] as u32, (state[0] >> 32) as u32];
        let words = if element == P::U64 { 2 * n } else { n };
        let (bits, next): (Vec<u32>, Vec<u64>) = if philox_state {
            let blocks = words.div_ceil(4) as u64;
            let at = |block: u64| {
                let (low, carry) = state[1].overflowing_add(block);
                [low, state[2].wrapping_add(u64::from(carry))]
            };
            let bits = (0..blocks).flat_map(|block| philox(state[0], at(block)));
            let end = at(blocks);
            (bits.take(words).collect(), vec![state[0], end[0], end[1]])
        } else {
            let blocks = words as u64 / 2;
            let pairs: Vec<[u32; 2]> = (0..blocks)
                .map(|block| threefry(key, state[1].wrapping_add(block)))
                .collect();
            (
                pairs.concat(),
                vec![state[0], state[1].wrapping_add(blocks)],
            )
        };
        let state_shape = array(P::U64, &[state.len() as i64]);
        let proto = with(
            "rng-bit-generator",
            std::slice::from_ref(&state_shape),
            tuple(&[state_shape.clone(), array(element, &[n as i64])]),
            |op| {
                op.rng_algorithm = match philox_state {
                    true => RandomAlgorithm::RngPhilox,
                    false => RandomAlgorithm::RngThreeFry,
                }
                .into();
            },
        );
        let outputs = execute_bytes(&proto, &[words_of(&state)])?;
        if outputs[0].bytes() != words_of(&next) {
            return Err(format!(
                "state {state:?} became {:?}, not {next:?}",
                outputs[0]
            ));
        }
        // Narrow types take the low bits of a word each.
        let expected: Vec<u8> = if element == P::U64 {
            bits.iter().flat_map(|word| word.to_le_bytes()).collect()
        } else {
            let size = width(element);
            bits.iter()
                .flat_map(|word| word.to_le_bytes()[..size].to_vec())
                .collect()
        };
        if outputs[1].bytes() == expected {
            Ok(())
        } else {
            Err(format!(
                "bits {:?} instead of {expected:?}",
                outputs[1].bytes()
            ))
        }
    });
}
