//! Calls, loops, branches, tuples, and what gives its operand.

use metaneff_schema::xla::{
    HloComputationProto, HloInstructionProto, HloModuleProto, LiteralProto, PrimitiveType,
    RandomDistribution, ShapeProto,
};

use crate::build::{array, computation, module, tuple};
use crate::draw::{Draw, check};
use crate::value::{Tensor, agrees, count, execute_bytes, rounded, shape};

use PrimitiveType::{F32, F64, Pred, S32, U8};

fn token() -> ShapeProto {
    array(PrimitiveType::Token, &[])
}

fn op(id: i64, opcode: &str, shape: ShapeProto, operands: &[i64]) -> HloInstructionProto {
    HloInstructionProto {
        name: format!("{opcode}.{id}"),
        opcode: opcode.into(),
        shape: Some(shape),
        id,
        operand_ids: operands.to_vec(),
        ..HloInstructionProto::default()
    }
}

/// A scalar constant of 32 bits.
fn number(id: i64, value: i32) -> HloInstructionProto {
    let scalar = array(S32, &[]);
    let mut constant = op(id, "constant", scalar.clone(), &[]);
    constant.literal = Some(Box::new(LiteralProto {
        shape: Some(scalar),
        s32s: vec![value],
        ..LiteralProto::default()
    }));
    constant
}

/// A computation of parameters with ids from `first`, then these instructions,
/// the last of them its root.
fn body(
    first: i64,
    parameters: &[ShapeProto],
    instructions: Vec<HloInstructionProto>,
) -> HloComputationProto {
    let mut body = computation("body", first, parameters, HloInstructionProto::default());
    body.instructions.pop();
    body.instructions.extend(instructions);
    body.root_id = body.instructions.last().expect("an instruction").id;
    body
}

/// Steps that a called computation takes, one after another, on two operands.
#[derive(Clone, Debug)]
struct Recipe(Vec<(&'static str, bool)>);

impl Recipe {
    fn new(draw: &mut Draw) -> Self {
        let steps = (0..draw.size(1, 5))
            .map(|_| {
                let opcode = draw.pick(&["add", "subtract", "multiply", "maximum", "minimum"]);
                (opcode, draw.flag())
            })
            .collect();
        Self(steps)
    }

    /// Of parameters `first` and `first + 1`.
    fn computation(&self, first: i64, shape: &ShapeProto) -> HloComputationProto {
        let mut last = first;
        let mut instructions = Vec::new();
        for (id, &(opcode, swapped)) in (first + 2..).zip(&self.0) {
            let operands = if swapped {
                [first + 1, last]
            } else {
                [last, first + 1]
            };
            instructions.push(op(id, opcode, shape.clone(), &operands));
            last = id;
        }
        body(first, &[shape.clone(), shape.clone()], instructions)
    }

    fn of(&self, element: PrimitiveType, x: f64, y: f64) -> f64 {
        self.0.iter().fold(x, |last, &(opcode, swapped)| {
            let (a, b) = if swapped { (y, last) } else { (last, y) };
            let value = match opcode {
                "add" => a + b,
                "subtract" => a - b,
                "multiply" => a * b,
                "maximum" => a.max(b),
                _ => a.min(b),
            };
            rounded(element, value)
        })
    }
}

#[test]
fn calls_agree() {
    check(500, |draw| {
        let element = draw.pick(&[S32, F32, U8, F64]);
        let rank = draw.size(0, 3);
        let dims = draw.dims(rank, 6);
        // Whole numbers whose products floats hold.
        let mut operand = || Tensor::new(element, &dims, draw.values(count(&dims), 0, 4));
        let (x, y) = (operand(), operand());
        let recipe = Recipe::new(draw);
        let values = x.values.iter().zip(&y.values);
        let expected = values.map(|(&x, &y)| recipe.of(element, x, y)).collect();
        let expected = Tensor::new(element, &dims, expected);
        for opcode in ["call", "fusion", "map"] {
            let operated = if opcode == "map" {
                shape(element, &[])
            } else {
                x.shape()
            };
            let called = recipe.computation(100, &operated);
            let call = HloInstructionProto {
                opcode: opcode.into(),
                shape: Some(x.shape()),
                called_computation_ids: vec![100],
                fusion_kind: if opcode == "fusion" { "kLoop" } else { "" }.into(),
                dimensions: if opcode == "map" {
                    (0..rank as i64).collect()
                } else {
                    Vec::new()
                },
                ..HloInstructionProto::default()
            };
            let entry = computation("entry", 1000, &[x.shape(), y.shape()], call);
            let proto = module(vec![called, entry]);
            agrees(&proto, &[&x, &y], std::slice::from_ref(&expected), 0.0)
                .map_err(|error| format!("{opcode} of {recipe:?}: {error}"))?;
        }
        Ok(())
    });
}

#[test]
fn branches_agree() {
    check(400, |draw| {
        let by_pred = draw.flag();
        let branches = if by_pred { 2 } else { draw.size(1, 4) };
        let recipes: Vec<Recipe> = (0..branches).map(|_| Recipe::new(draw)).collect();
        let operands: Vec<Tensor> = (0..branches)
            .map(|_| Tensor::new(S32, &[2], draw.values(2, -4, 4)))
            .collect();
        let chosen = if by_pred {
            Tensor::scalar(Pred, draw.below(2) as f64)
        } else {
            Tensor::scalar(S32, draw.within(-2, 6) as f64)
        };
        // True is the first branch; a number without a branch is the last.
        let branch = match chosen.values[0] as i64 {
            truth if by_pred => 1 - truth as usize,
            number => usize::try_from(number).map_or(branches - 1, |n| n.min(branches - 1)),
        };
        // Each branch doubles what its recipe makes of its operand and 3.
        let mut computations: Vec<HloComputationProto> = Vec::new();
        for (place, recipe) in (0_i64..).zip(&recipes) {
            let scalar = array(S32, &[2]);
            let inner = 100 + 200 * place;
            computations.push(recipe.computation(inner, &scalar));
            let mut three = op(inner + 102, "broadcast", scalar.clone(), &[inner + 101]);
            three.dimensions = Vec::new();
            let mut call = op(
                inner + 103,
                "call",
                scalar.clone(),
                &[inner + 100, inner + 102],
            );
            call.called_computation_ids = vec![inner];
            computations.push(body(
                inner + 100,
                std::slice::from_ref(&scalar),
                vec![number(inner + 101, 3), three, call],
            ));
        }
        let mut shapes = vec![chosen.shape()];
        shapes.extend(operands.iter().map(Tensor::shape));
        let conditional = HloInstructionProto {
            opcode: "conditional".into(),
            shape: Some(array(S32, &[2])),
            called_computation_ids: (0..branches as i64).map(|n| 200 + 200 * n).collect(),
            ..HloInstructionProto::default()
        };
        computations.push(computation("entry", 2000, &shapes, conditional));
        let values = operands[branch].values.iter();
        let expected = values.map(|&x| recipes[branch].of(S32, x, 3.0)).collect();
        let expected = Tensor::new(S32, &[2], expected);
        let mut inputs = vec![&chosen];
        inputs.extend(&operands);
        agrees(&module(computations), &inputs, &[expected], 0.0)
    });
}

/// `while i < limit { (i, x) = (i + 1, recipe(x, i)) }`, from (`start`, x).
fn counting(recipe: &Recipe) -> HloModuleProto {
    let scalar = array(S32, &[]);
    let state = tuple(&[scalar.clone(), scalar.clone(), scalar.clone()]);
    let element = |id, index, of| {
        let mut element = op(id, "get-tuple-element", array(S32, &[]), &[of]);
        element.tuple_index = index;
        element
    };
    let mut less = op(302, "compare", array(Pred, &[]), &[301, 303]);
    less.comparison_direction = "LT".into();
    let mut call = op(405, "call", scalar.clone(), &[403, 401]);
    call.called_computation_ids = vec![100];
    let state_of = std::slice::from_ref(&state);
    let entry_state = op(2003, "tuple", state.clone(), &[2000, 2001, 2002]);
    let mut looped = op(2004, "while", state.clone(), &[2003]);
    looped.called_computation_ids = vec![400, 300];
    module(vec![
        recipe.computation(100, &scalar),
        body(
            300,
            state_of,
            vec![element(301, 0, 300), element(303, 1, 300), less],
        ),
        body(
            400,
            state_of,
            vec![
                element(401, 0, 400),
                element(402, 1, 400),
                element(403, 2, 400),
                number(404, 1),
                call,
                op(406, "add", scalar.clone(), &[401, 404]),
                op(407, "tuple", state.clone(), &[406, 402, 405]),
            ],
        ),
        body(
            2000,
            &[scalar.clone(), scalar.clone(), scalar],
            vec![entry_state, looped],
        ),
    ])
}

#[test]
fn loops_agree() {
    check(300, |draw| {
        let recipe = Recipe::new(draw);
        let [start, limit, x] = [(-3, 5), (-3, 12), (-9, 9)]
            .map(|(low, high)| Tensor::scalar(S32, draw.within(low, high) as f64));
        let (mut i, mut last) = (start.values[0], x.values[0]);
        while i < limit.values[0] {
            last = recipe.of(S32, last, i);
            i += 1.0;
        }
        let expected = [i, limit.values[0], last].map(|value| Tensor::scalar(S32, value));
        agrees(&counting(&recipe), &[&start, &limit, &x], &expected, 0.0)
    });
}

#[test]
fn operands_are_passed_on() {
    check(200, |draw| {
        let element = draw.pick(&[F32, S32, U8]);
        let rank = draw.size(0, 3);
        let dims = draw.dims(rank, 4);
        let x = Tensor::new(element, &dims, draw.values(count(&dims), 0, 99));
        let y = Tensor::scalar(S32, 7.0);
        // A nest of tuples through everything that gives its operand.
        let inner = tuple(&[x.shape(), y.shape()]);
        let nest = tuple(&[inner.clone(), x.shape()]);
        let mut instructions = vec![
            op(1010, "tuple", inner.clone(), &[1000, 1001]),
            op(1011, "tuple", nest.clone(), &[1010, 1000]),
        ];
        let mut last = 1011;
        for id in 1020..1020 + draw.size(0, 5) as i64 {
            let opcode = draw.pick(&["opt-barrier", "optimization-barrier", "domain", "copy"]);
            instructions.push(op(id, opcode, nest.clone(), &[last]));
            last = id;
        }
        let element = |id, index, shape: &ShapeProto, of| {
            let mut element = op(id, "get-tuple-element", shape.clone(), &[of]);
            element.tuple_index = index;
            element
        };
        instructions.extend([
            op(1030, "after-all", token(), &[]),
            op(1031, "after-all", token(), &[1030, 1030]),
            element(1032, 0, &inner, last),
            element(1033, 0, &x.shape(), 1032),
            element(1034, 1, &y.shape(), 1032),
            op(1035, "add-dependency", x.shape(), &[1033, 1031]),
            op(1036, "tuple", inner, &[1035, 1034]),
        ]);
        let entry = body(1000, &[x.shape(), y.shape()], instructions);
        let proto = module(vec![entry]);
        agrees(&proto, &[&x, &y], &[x.clone(), y.clone()], 0.0)
    });
}

/// Random numbers have no golden values: bounds, moments, and the same again.
#[test]
fn random_numbers_are_of_their_distribution() {
    check(60, |draw| {
        let normal = draw.flag();
        let element = if normal {
            F32
        } else {
            draw.pick(&[F32, S32, F64])
        };
        let low = draw.within(-9, 9) as f64;
        let (a, b) = if normal {
            (low, draw.size(1, 4) as f64)
        } else {
            (low, low + draw.size(1, 50) as f64)
        };
        let n = 4096;
        let mut rng = op(1002, "rng", shape(element, &[n]), &[1000, 1001]);
        rng.distribution = match normal {
            true => RandomDistribution::RngNormal,
            false => RandomDistribution::RngUniform,
        }
        .into();
        let scalar = shape(element, &[]);
        let proto = module(vec![body(1000, &[scalar.clone(), scalar], vec![rng])]);
        let inputs = [Tensor::scalar(element, a), Tensor::scalar(element, b)];
        let inputs = inputs.map(|input| input.bytes());
        let outputs = execute_bytes(&proto, &inputs)?;
        if execute_bytes(&proto, &inputs)?[0].bytes() != outputs[0].bytes() {
            return Err("two executions differ".into());
        }
        let found = Tensor::from_bytes(&shape(element, &[n]), outputs[0].bytes()).values;
        let mean = found.iter().sum::<f64>() / n as f64;
        let variance = found.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
        let whole = element == S32;
        let (expected_mean, deviation) = match (normal, whole) {
            (true, _) => (a, b),
            (false, true) => ((a + b - 1.0) / 2.0, (((b - a).powi(2) - 1.0) / 12.0).sqrt()),
            (false, false) => ((a + b) / 2.0, (b - a) / 12_f64.sqrt()),
        };
        // Six standard errors of the mean.
        let bounds = normal || found.iter().all(|&x| a <= x && x < b);
        let mean_holds = (mean - expected_mean).abs() <= 6.0 * deviation / 64.0;
        let deviation_holds = (variance.sqrt() - deviation).abs() <= 0.1 * deviation;
        if bounds && mean_holds && deviation_holds {
            Ok(())
        } else {
            Err(format!(
                "{a} to {b}: mean {mean}, deviation {}; expected {expected_mean}, {deviation}",
                variance.sqrt()
            ))
        }
    });
}
