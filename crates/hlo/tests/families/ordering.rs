//! `sort` and `topk`.

use std::cmp::Ordering;

use metaneff_schema::xla::{HloComputationProto, HloInstructionProto, PrimitiveType};

use crate::build::{calling, computation, tuple, with};
use crate::draw::{Draw, check};
use crate::value::{Tensor, agrees, count, shape};

use PrimitiveType::{Bf16, F32, F64, Pred, S8, S32, S64, U16};

/// How rows are compared: by one operand, or by two, one after the other.
#[derive(Clone, Debug)]
struct Order {
    key: usize,
    direction: &'static str,
    total: bool,
    second: Option<usize>,
}

fn comparator(order: &Order, elements: &[PrimitiveType]) -> HloComputationProto {
    let parameters: Vec<_> = elements
        .iter()
        .flat_map(|&element| [shape(element, &[]), shape(element, &[])])
        .collect();
    let compare = |key: usize, direction: &str, id: i64, total: bool| HloInstructionProto {
        name: format!("compare{id}"),
        opcode: "compare".into(),
        shape: Some(shape(Pred, &[])),
        comparison_direction: direction.into(),
        comparison_type: if total { "TOTALORDER" } else { "" }.into(),
        id,
        operand_ids: vec![2 * key as i64, 2 * key as i64 + 1],
        ..HloInstructionProto::default()
    };
    let mut called = computation("less", 0, &parameters, HloInstructionProto::default());
    called.instructions.pop();
    let mut push = |instruction: HloInstructionProto| {
        called.root_id = instruction.id;
        called.instructions.push(instruction);
    };
    push(compare(order.key, order.direction, 100, order.total));
    if let Some(second) = order.second {
        push(compare(order.key, "EQ", 101, false));
        push(compare(second, "LT", 102, false));
        let logical = |opcode: &str, id, operands: [i64; 2]| HloInstructionProto {
            name: format!("{opcode}{id}"),
            opcode: opcode.into(),
            shape: Some(shape(Pred, &[])),
            id,
            operand_ids: operands.to_vec(),
            ..HloInstructionProto::default()
        };
        push(logical("and", 103, [101, 102]));
        push(logical("or", 104, [100, 103]));
    }
    called
}

impl Order {
    fn of(&self, rows: &[Vec<f64>], a: usize, b: usize) -> Ordering {
        let key = |x: f64, y: f64| {
            if self.total {
                x.total_cmp(&y)
            } else {
                x.partial_cmp(&y).expect("no NaN")
            }
        };
        let first = key(rows[self.key][a], rows[self.key][b]);
        let first = if self.direction == "GT" {
            first.reverse()
        } else {
            first
        };
        match self.second {
            Some(second) => first.then(key(rows[second][a], rows[second][b])),
            None => first,
        }
    }
}

fn keys(draw: &mut Draw, element: PrimitiveType, dims: &[usize], special: bool) -> Tensor {
    let specials = [
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        -f64::NAN,
        1.0,
        -1.0,
    ];
    let float = matches!(element, F32 | F64 | Bf16);
    let low = if element == U16 { 0 } else { -2 };
    let values = (0..count(dims))
        .map(|_| {
            if special && float && draw.flag() {
                draw.pick(&specials)
            } else {
                draw.within(low, 3) as f64
            }
        })
        .collect();
    Tensor::new(element, dims, values)
}

#[test]
fn sorts_agree() {
    check(500, |draw| {
        let rank = draw.size(1, 3);
        let dims: Vec<usize> = (0..rank).map(|_| draw.size(1, 7)).collect();
        let dimension = draw.below(rank);
        let operands = draw.size(1, 3);
        let elements: Vec<PrimitiveType> = (0..operands)
            .map(|_| draw.pick(&[F32, S32, Bf16, S8, F64, U16, S64]))
            .collect();
        let key = draw.below(operands);
        let float = matches!(elements[key], F32 | F64 | Bf16);
        let total = float && draw.flag();
        let order = Order {
            key,
            direction: draw.pick(&["LT", "GT"]),
            total,
            second: (!total && draw.flag()).then(|| draw.below(operands)),
        };
        let inputs: Vec<Tensor> = elements
            .iter()
            .enumerate()
            .map(|(number, &element)| keys(draw, element, &dims, total && number == key))
            .collect();
        let mut expected = inputs.clone();
        let outer: usize = dims[..dimension].iter().product();
        let inner: usize = dims[dimension + 1..].iter().product();
        let length = dims[dimension];
        for line in 0..outer * inner {
            let at = |step: usize| (line / inner * length + step) * inner + line % inner;
            let rows: Vec<Vec<f64>> = inputs
                .iter()
                .map(|input| (0..length).map(|step| input.values[at(step)]).collect())
                .collect();
            let mut positions: Vec<usize> = (0..length).collect();
            positions.sort_by(|&a, &b| order.of(&rows, a, b));
            for (sorted, row) in expected.iter_mut().zip(&rows) {
                for (step, &from) in positions.iter().enumerate() {
                    sorted.values[at(step)] = row[from];
                }
            }
        }
        let shapes: Vec<_> = inputs.iter().map(Tensor::shape).collect();
        let result = if operands == 1 {
            shapes[0].clone()
        } else {
            tuple(&shapes)
        };
        let proto = calling(
            vec![comparator(&order, &elements)],
            "sort",
            &shapes,
            result,
            |op| {
                op.dimensions = vec![dimension as i64];
                op.is_stable = true;
            },
        );
        agrees(&proto, &inputs.iter().collect::<Vec<_>>(), &expected, 0.0)
    });
}

#[test]
fn top_values_agree() {
    check(400, |draw| {
        let rank = draw.size(1, 3);
        let dims: Vec<usize> = (0..rank).map(|_| draw.size(1, 9)).collect();
        let length = dims[rank - 1];
        let k = draw.size(1, length);
        let element = draw.pick(&[F32, S32, Bf16, S8, F64, U16]);
        let operand = keys(draw, element, &dims, true);
        let mut sizes = dims.clone();
        sizes[rank - 1] = k;
        let (mut values, mut places) = (Vec::new(), Vec::new());
        for row in operand.values.chunks(length) {
            let mut order: Vec<usize> = (0..length).collect();
            // In total order, of equal values the first.
            order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
            values.extend(order[..k].iter().map(|&place| row[place]));
            places.extend(order[..k].iter().map(|&place| place as f64));
        }
        let expected = [
            Tensor::new(element, &sizes, values),
            Tensor::new(S32, &sizes, places),
        ];
        let result = tuple(&[expected[0].shape(), expected[1].shape()]);
        let proto = with("topk", &[operand.shape()], result, |op| {
            op.k = k as i64;
            op.largest = true;
        });
        agrees(&proto, &[&operand], &expected, 0.0)
    });
}
