//! `reduce`, `reduce-window` and `select-and-scatter`.

use metaneff_schema::xla::{HloComputationProto, PrimitiveType, Window};

use crate::build::{calling, computation, tuple};
use crate::draw::{Draw, check};
use crate::products::Spatial;
use crate::value::{Tensor, agrees, count, i64s, indices, rounded, shape};

use PrimitiveType::{Bf16, F32, F64, Pred, S8, S32, U16};

/// A reduction of one operand, by its opcode.
fn monoid(opcode: &str, element: PrimitiveType, first: i64) -> HloComputationProto {
    let scalar = shape(element, &[]);
    let op = metaneff_schema::xla::HloInstructionProto {
        opcode: opcode.into(),
        shape: Some(scalar.clone()),
        ..Default::default()
    };
    computation(opcode, first, &[scalar.clone(), scalar], op)
}

fn combined(opcode: &str, element: PrimitiveType, x: f64, y: f64) -> f64 {
    let value = match opcode {
        "add" => x + y,
        "multiply" => x * y,
        "maximum" => x.max(y),
        "minimum" => x.min(y),
        "and" => f64::from(u8::from(x != 0.0 && y != 0.0)),
        _ => f64::from(u8::from(x != 0.0 || y != 0.0)),
    };
    rounded(element, value)
}

/// An opcode and a type that has it, with small operands.
fn reduction(draw: &mut Draw) -> (&'static str, PrimitiveType) {
    let element = draw.pick(&[F32, S32, F64, S8, Bf16, U16, Pred]);
    let opcodes: &[&str] = match element {
        Pred => &["and", "or"],
        // Products of few numbers stay exact.
        _ => &["add", "maximum", "minimum", "multiply"],
    };
    (draw.pick(opcodes), element)
}

fn operand(draw: &mut Draw, opcode: &str, element: PrimitiveType, dims: &[usize]) -> Tensor {
    let (low, high) = match (opcode, element) {
        (_, Pred) => (0, 1),
        ("multiply", _) => (1, 2),
        (_, U16) => (0, 3),
        _ => (-3, 3),
    };
    Tensor::new(element, dims, draw.values(count(dims), low, high))
}

#[test]
fn reductions_agree() {
    check(400, |draw| {
        let (opcode, element) = reduction(draw);
        let rank = draw.size(0, 4);
        let dims = draw.dims(rank, 4);
        let over = draw.below(rank + 1);
        let over = draw.subset(rank, over);
        let operand = operand(draw, opcode, element, &dims);
        let init = Tensor::scalar(element, 1.0);
        let kept: Vec<usize> = (0..rank).filter(|dim| !over.contains(dim)).collect();
        let sizes: Vec<usize> = kept.iter().map(|&dim| dims[dim]).collect();
        let mut expected = Tensor::build(element, &sizes, |_| 1.0);
        for index in indices(&dims) {
            let to: Vec<usize> = kept.iter().map(|&dim| index[dim]).collect();
            let to = crate::value::flat(&sizes, &to);
            let value = &mut expected.values[to];
            *value = combined(opcode, element, *value, operand.at(&index));
        }
        let proto = calling(
            vec![monoid(opcode, element, 0)],
            "reduce",
            &[operand.shape(), init.shape()],
            expected.shape(),
            |op| op.dimensions = i64s(&over),
        );
        agrees(&proto, &[&operand, &init], &[expected], 0.0)
    });
}

fn spatials(draw: &mut Draw, dims: &[usize]) -> Vec<Spatial> {
    dims.iter().map(|&dim| Spatial::new(draw, dim, 3)).collect()
}

#[test]
fn windows_agree() {
    check(500, |draw| {
        let (opcode, element) = reduction(draw);
        let rank = draw.size(1, 3);
        let dims: Vec<usize> = (0..rank).map(|_| draw.size(1, 5)).collect();
        let mut windows = spatials(draw, &dims);
        // Now and then a window over all that came before, which has code of
        // its own.
        if draw.seldom(4) {
            for window in &mut windows {
                window.window = Spatial::new(&mut draw.clone(), 1, 1).window;
                (window.window.size, window.window.stride) = (1, 1);
                (window.window.padding_low, window.window.padding_high) = (0, 0);
                (window.window.window_dilation, window.window.base_dilation) = (1, 1);
            }
            let dim = draw.below(rank);
            let reach = dims[dim] as i64 - 1;
            windows[dim].window.size = reach + 1;
            if draw.flag() {
                windows[dim].window.padding_high = reach;
            } else {
                windows[dim].window.padding_low = reach;
            }
        }
        let operand = operand(draw, opcode, element, &dims);
        let init = Tensor::scalar(element, 1.0);
        let sizes: Vec<usize> = windows.iter().map(Spatial::outputs).collect();
        let shape_of_window: Vec<usize> = windows
            .iter()
            .map(|spatial| spatial.window.size as usize)
            .collect();
        let met = |index: &[usize]| -> Vec<Vec<usize>> {
            indices(&shape_of_window)
                .into_iter()
                .filter_map(|position| {
                    (0..rank)
                        .map(|dim| windows[dim].meets(index[dim], position[dim]))
                        .collect()
                })
                .collect()
        };
        let expected = Tensor::build(element, &sizes, |index| {
            met(&index).iter().fold(1.0, |sum, at| {
                combined(opcode, element, sum, operand.at(at))
            })
        });
        let window = Window {
            dimensions: windows.iter().map(|spatial| spatial.window).collect(),
        };
        let proto = calling(
            vec![monoid(opcode, element, 0)],
            "reduce-window",
            &[operand.shape(), init.shape()],
            expected.shape(),
            |op| op.window = Some(window.clone()),
        );
        agrees(&proto, &[&operand, &init], &[expected], 0.0)?;

        // Variadic: sums and maxima of two operands at once.
        let floats = Tensor::new(F32, &dims, draw.values(count(&dims), -3, 3));
        let integers = Tensor::new(S32, &dims, draw.values(count(&dims), -9, 9));
        let inits = [Tensor::scalar(F32, 2.0), Tensor::scalar(S32, -5.0)];
        let sums = Tensor::build(F32, &sizes, |index| {
            met(&index).iter().fold(2.0, |sum, at| sum + floats.at(at))
        });
        let maxima = Tensor::build(S32, &sizes, |index| {
            met(&index)
                .iter()
                .fold(-5.0, |max, at| integers.at(at).max(max))
        });
        let proto = calling(
            vec![crate::indexing::region("both", &[F32, S32])],
            "reduce-window",
            &[
                floats.shape(),
                integers.shape(),
                inits[0].shape(),
                inits[1].shape(),
            ],
            tuple(&[sums.shape(), maxima.shape()]),
            |op| op.window = Some(window),
        );
        let inputs = [&floats, &integers, &inits[0], &inits[1]];
        agrees(&proto, &inputs, &[sums, maxima], 0.0)
    });
}

fn selector(direction: &str, element: PrimitiveType) -> HloComputationProto {
    let scalar = shape(element, &[]);
    let op = metaneff_schema::xla::HloInstructionProto {
        opcode: "compare".into(),
        shape: Some(shape(Pred, &[])),
        comparison_direction: direction.into(),
        ..Default::default()
    };
    computation("select", 100, &[scalar.clone(), scalar], op)
}

#[test]
fn selections_agree() {
    check(400, |draw| {
        let element = draw.pick(&[F32, S32, F64, S8]);
        let direction = draw.pick(&["GE", "LE", "GT", "LT"]);
        let rank = draw.size(1, 3);
        let dims: Vec<usize> = (0..rank).map(|_| draw.size(1, 5)).collect();
        let windows: Vec<Spatial> = dims
            .iter()
            .map(|&dim| {
                let mut spatial = Spatial::new(draw, dim, dim.min(3));
                let window = &mut spatial.window;
                // Dilations are no part of this operation.
                (window.window_dilation, window.base_dilation) = (1, 1);
                window.padding_low = window.padding_low.clamp(0, window.size - 1);
                window.padding_high = window.padding_high.clamp(0, window.size - 1);
                spatial
            })
            .collect();
        let operand = Tensor::new(element, &dims, draw.values(count(&dims), -4, 4));
        let sizes: Vec<usize> = windows.iter().map(Spatial::outputs).collect();
        let source = Tensor::new(element, &sizes, draw.values(count(&sizes), -4, 4));
        let init = Tensor::scalar(element, 1.0);
        let window: Vec<usize> = windows
            .iter()
            .map(|spatial| spatial.window.size as usize)
            .collect();
        let stays = |x: f64, y: f64| match direction {
            "GE" => x >= y,
            "LE" => x <= y,
            "GT" => x > y,
            _ => x < y,
        };
        let mut expected = Tensor::build(element, &dims, |_| 1.0);
        for index in indices(&sizes) {
            let mut selected: Option<Vec<usize>> = None;
            for position in indices(&window) {
                let at: Option<Vec<usize>> = (0..rank)
                    .map(|dim| windows[dim].meets(index[dim], position[dim]))
                    .collect();
                let Some(at) = at else { continue };
                selected = match selected {
                    Some(best) if stays(operand.at(&best), operand.at(&at)) => Some(best),
                    _ => Some(at),
                };
            }
            if let Some(at) = selected {
                let to = crate::value::flat(&dims, &at);
                let value = expected.values[to] + source.at(&index);
                expected.values[to] = rounded(element, value);
            }
        }
        let proto = calling(
            vec![selector(direction, element), monoid("add", element, 0)],
            "select-and-scatter",
            &[operand.shape(), source.shape(), init.shape()],
            expected.shape(),
            |op| {
                op.window = Some(Window {
                    dimensions: windows.iter().map(|spatial| spatial.window).collect(),
                });
            },
        );
        agrees(&proto, &[&operand, &source, &init], &[expected], 0.0)
    });
}
