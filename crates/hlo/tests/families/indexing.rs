//! `gather`, `scatter`, `dynamic-slice` and `dynamic-update-slice`.

use metaneff_schema::xla::{
    GatherDimensionNumbers, HloComputationProto, HloInstructionProto, PrimitiveType,
    ScatterDimensionNumbers,
};

use crate::build::{calling, computation, tuple, with};
use crate::draw::{Draw, check};
use crate::value::{Tensor, agrees, count, i64s, indices, shape};

use PrimitiveType::{Bf16, F32, F64, Pred, S8, S16, S32, S64, U8, U32};

/// The dimension numbers that `gather` and `scatter` share.
#[derive(Clone, Debug)]
struct Numbers {
    operand: Vec<usize>,
    indices: Vec<usize>,
    /// Window sizes of every operand dimension.
    window: Vec<usize>,
    /// Dimensions without a window in result or updates.
    collapsed: Vec<usize>,
    operand_batching: Vec<usize>,
    indices_batching: Vec<usize>,
    /// Operand dimension of each component of an index vector.
    map: Vec<usize>,
    vector_dim: usize,
    /// Dimensions of result or updates that are of the window.
    offset: Vec<usize>,
    /// Sizes of result or updates.
    outer: Vec<usize>,
}

fn numbers(draw: &mut Draw) -> Numbers {
    let rank = draw.size(1, 4);
    let operand: Vec<usize> = (0..rank).map(|_| draw.size(1, 4)).collect();
    let batching = if rank > 1 { draw.below(2) } else { 0 };
    let operand_batching = draw.subset(rank, batching);
    let others: Vec<usize> = (0..rank)
        .filter(|dim| !operand_batching.contains(dim))
        .collect();
    let mapped = draw.below(others.len() + 1);
    let map: Vec<usize> = draw.order(others.len())[..mapped]
        .iter()
        .map(|&position| others[position])
        .collect();
    let window: Vec<usize> = (0..rank)
        .map(|dim| {
            if operand_batching.contains(&dim) {
                1
            } else {
                draw.size(1, operand[dim])
            }
        })
        .collect();
    let collapsed: Vec<usize> = others
        .iter()
        .copied()
        .filter(|&dim| window[dim] == 1 && draw.flag())
        .collect();
    let batch_rank = draw.size(batching, 2);
    let mut batch: Vec<usize> = (0..batch_rank).map(|_| draw.size(1, 3)).collect();
    let batch_of = draw.subset(batch_rank, batching);
    for (&position, &dim) in batch_of.iter().zip(&operand_batching) {
        batch[position] = operand[dim];
    }
    // A vector of one component need not have a dimension.
    let implicit = map.len() == 1 && draw.flag();
    let vector_dim = if implicit {
        batch_rank
    } else {
        draw.below(batch_rank + 1)
    };
    let mut index_dims = batch.clone();
    if !implicit {
        index_dims.insert(vector_dim, map.len());
    }
    let indices_batching = batch_of
        .iter()
        .map(|&position| position + usize::from(!implicit && position >= vector_dim))
        .collect();
    let sizes: Vec<usize> = (0..rank)
        .filter(|dim| !collapsed.contains(dim) && !operand_batching.contains(dim))
        .map(|dim| window[dim])
        .collect();
    let outer_rank = batch_rank + sizes.len();
    let offset = draw.subset(outer_rank, sizes.len());
    let (mut batch_sizes, mut window_sizes) = (batch.into_iter(), sizes.into_iter());
    let outer = (0..outer_rank)
        .map(|dim| {
            if offset.contains(&dim) {
                window_sizes.next()
            } else {
                batch_sizes.next()
            }
        })
        .map(|size| size.expect("as many sizes as dimensions"))
        .collect();
    Numbers {
        operand,
        indices: index_dims,
        window,
        collapsed,
        operand_batching,
        indices_batching,
        map,
        vector_dim,
        offset,
        outer,
    }
}

impl Numbers {
    /// Where in the operand the window of an index of result or updates starts,
    /// not clamped, and the place in the window, by the steps of the
    /// specification.
    fn place(&self, starts: &Tensor, index: &[usize]) -> (Vec<i64>, Vec<usize>) {
        let batch: Vec<usize> = (0..index.len())
            .filter(|dim| !self.offset.contains(dim))
            .map(|dim| index[dim])
            .collect();
        let has_vector = self.vector_dim < self.indices.len();
        let mut start = vec![0; self.operand.len()];
        for (component, &dim) in self.map.iter().enumerate() {
            let mut at = batch.clone();
            if has_vector {
                at.insert(self.vector_dim, component);
            }
            start[dim] = starts.at(&at) as i64;
        }
        for (&dim, &from) in self.operand_batching.iter().zip(&self.indices_batching) {
            let position = from - usize::from(has_vector && from > self.vector_dim);
            start[dim] = batch[position] as i64;
        }
        let mut within = vec![0; self.operand.len()];
        let mut offsets = self.offset.iter().map(|&dim| index[dim]);
        for (dim, within) in within.iter_mut().enumerate() {
            if !self.collapsed.contains(&dim) && !self.operand_batching.contains(&dim) {
                *within = offsets.next().expect("a place for each dimension");
            }
        }
        (start, within)
    }

    fn starts(&self, draw: &mut Draw) -> Tensor {
        let element = draw.pick(&[S32, S64, U32, S8, U8, S16]);
        let low = if matches!(element, U32 | U8) { 0 } else { -3 };
        let values = draw.values(count(&self.indices), low, 6);
        Tensor::new(element, &self.indices, values)
    }
}

#[test]
fn gathers_agree() {
    check(600, |draw| {
        let numbers = numbers(draw);
        let element = draw.pick(&[F32, S32, Bf16, Pred, F64, S8]);
        let operand = Tensor::new(
            element,
            &numbers.operand,
            draw.values(count(&numbers.operand), 0, 99),
        );
        let starts = numbers.starts(draw);
        let expected = Tensor::build(element, &numbers.outer, |index| {
            let (start, within) = numbers.place(&starts, &index);
            let at: Vec<usize> = (0..start.len())
                .map(|dim| {
                    let limit = numbers.operand[dim] - numbers.window[dim];
                    start[dim].clamp(0, limit as i64) as usize + within[dim]
                })
                .collect();
            operand.at(&at)
        });
        let proto = with(
            "gather",
            &[operand.shape(), starts.shape()],
            expected.shape(),
            |op| {
                op.gather_slice_sizes = i64s(&numbers.window);
                op.gather_dimension_numbers = Some(GatherDimensionNumbers {
                    offset_dims: i64s(&numbers.offset),
                    collapsed_slice_dims: i64s(&numbers.collapsed),
                    start_index_map: i64s(&numbers.map),
                    index_vector_dim: numbers.vector_dim as i64,
                    operand_batching_dims: i64s(&numbers.operand_batching),
                    start_indices_batching_dims: i64s(&numbers.indices_batching),
                });
            },
        );
        agrees(&proto, &[&operand, &starts], &[expected], 0.0)
    });
}

/// How an update is combined, by name; of two operands, sum and maximum.
pub(crate) fn region(name: &str, elements: &[PrimitiveType]) -> HloComputationProto {
    let scalars: Vec<_> = elements
        .iter()
        .chain(elements)
        .map(|&element| shape(element, &[]))
        .collect();
    let instruction = |opcode: &str, id, operand_ids: &[i64], element| HloInstructionProto {
        name: format!("i{id}"),
        opcode: opcode.into(),
        shape: Some(shape(element, &[])),
        id,
        operand_ids: operand_ids.to_vec(),
        ..HloInstructionProto::default()
    };
    let mut called = computation(
        "combine",
        0,
        &scalars,
        HloInstructionProto {
            opcode: "tuple".into(),
            shape: Some(tuple(&scalars[..elements.len()])),
            operand_ids: vec![10, 11],
            ..HloInstructionProto::default()
        },
    );
    match (name, elements) {
        // The second parameter itself.
        ("set", _) => {
            called.instructions.pop();
            called.root_id = 1;
        }
        (opcode, &[element]) => {
            called.instructions.pop();
            called
                .instructions
                .push(instruction(opcode, 10, &[0, 1], element));
            called.root_id = 10;
            // Parameters bind by number, not by order.
            called.instructions.swap(0, 1);
        }
        (_, &[first, second]) => {
            let root = called.instructions.pop().expect("a root");
            called
                .instructions
                .push(instruction("add", 10, &[0, 2], first));
            called
                .instructions
                .push(instruction("maximum", 11, &[1, 3], second));
            called.instructions.push(root);
        }
        _ => panic!("one operand or two"),
    }
    called
}

fn combined(name: &str, x: f64, update: f64) -> f64 {
    match name {
        "add" => x + update,
        "subtract" => x - update,
        "multiply" => x * update,
        "maximum" => x.max(update),
        "minimum" => x.min(update),
        _ => update,
    }
}

#[test]
fn scatters_agree() {
    check(800, |draw| {
        let numbers = numbers(draw);
        let names: Vec<&str> = match draw.below(4) {
            0 => vec!["add", "maximum"],
            _ => vec![draw.pick(&["add", "set", "maximum", "minimum", "subtract", "multiply"])],
        };
        let elements: Vec<PrimitiveType> = match names.len() {
            1 => vec![draw.pick(&[F32, S32, Bf16, U8, F64, S64])],
            _ => vec![F32, S32],
        };
        let operands: Vec<Tensor> = elements
            .iter()
            .map(|&element| {
                let values = draw.values(count(&numbers.operand), 0, 2);
                Tensor::new(element, &numbers.operand, values)
            })
            .collect();
        let starts = numbers.starts(draw);
        let updates: Vec<Tensor> = elements
            .iter()
            .map(|&element| {
                let values = draw.values(count(&numbers.outer), 0, 2);
                Tensor::new(element, &numbers.outer, values)
            })
            .collect();
        let mut expected = operands.clone();
        // Windows in the order of their index vectors, one after another.
        let mut places = indices(&numbers.outer);
        places.sort_by_key(|index| {
            let batch: Vec<usize> = (0..index.len())
                .filter(|dim| !numbers.offset.contains(dim))
                .map(|dim| index[dim])
                .collect();
            batch
        });
        for index in places {
            let (start, within) = numbers.place(&starts, &index);
            let fits = (0..start.len()).all(|dim| {
                start[dim] >= 0 && start[dim] as usize + numbers.window[dim] <= numbers.operand[dim]
            });
            if !fits {
                continue;
            }
            let at: Vec<usize> = start
                .iter()
                .zip(&within)
                .map(|(&start, within)| start as usize + within)
                .collect();
            let at = crate::value::flat(&numbers.operand, &at);
            for ((name, result), update) in names.iter().zip(&mut expected).zip(&updates) {
                let value = combined(name, result.values[at], update.at(&index));
                result.values[at] = crate::value::rounded(result.element, value);
            }
        }
        let mut inputs: Vec<&Tensor> = operands.iter().collect();
        inputs.push(&starts);
        inputs.extend(&updates);
        let shapes: Vec<_> = inputs.iter().map(|input| input.shape()).collect();
        let result = match &expected[..] {
            [one] => one.shape(),
            several => tuple(&several.iter().map(Tensor::shape).collect::<Vec<_>>()),
        };
        let proto = calling(
            vec![region(names[0], &elements)],
            "scatter",
            &shapes,
            result,
            |op| {
                op.scatter_dimension_numbers = Some(ScatterDimensionNumbers {
                    update_window_dims: i64s(&numbers.offset),
                    inserted_window_dims: i64s(&numbers.collapsed),
                    scatter_dims_to_operand_dims: i64s(&numbers.map),
                    index_vector_dim: numbers.vector_dim as i64,
                    input_batching_dims: i64s(&numbers.operand_batching),
                    scatter_indices_batching_dims: i64s(&numbers.indices_batching),
                });
            },
        );
        agrees(&proto, &inputs, &expected, 0.0)
    });
}

#[test]
fn dynamic_slices_agree() {
    check(400, |draw| {
        let rank = draw.size(1, 4);
        let dims = draw.dims(rank, 5);
        let sizes: Vec<usize> = dims.iter().map(|&dim| draw.size(0, dim)).collect();
        let element = draw.pick(&[F32, S8, Bf16, S64, Pred]);
        let index_element = draw.pick(&[S32, S64, U32, S8, U8]);
        let low = if matches!(index_element, U32 | U8) {
            0
        } else {
            -4
        };
        let operand = Tensor::new(element, &dims, draw.values(count(&dims), 0, 99));
        let update = Tensor::new(element, &sizes, draw.values(count(&sizes), 0, 99));
        let starts: Vec<Tensor> = (0..rank)
            .map(|_| Tensor::scalar(index_element, draw.within(low, 7) as f64))
            .collect();
        let clamped: Vec<usize> = (0..rank)
            .map(|dim| (starts[dim].values[0].max(0.0) as usize).min(dims[dim] - sizes[dim]))
            .collect();
        let sliced = Tensor::build(element, &sizes, |index| {
            let at: Vec<usize> = index.iter().zip(&clamped).map(|(i, s)| i + s).collect();
            operand.at(&at)
        });
        let updated = Tensor::build(element, &dims, |index| {
            let at: Vec<i64> = index
                .iter()
                .zip(&clamped)
                .map(|(&i, &s)| i as i64 - s as i64)
                .collect();
            update.get(&at).unwrap_or_else(|| operand.at(&index))
        });
        let mut inputs = vec![&operand];
        inputs.extend(&starts);
        let shapes: Vec<_> = inputs.iter().map(|input| input.shape()).collect();
        let proto = with("dynamic-slice", &shapes, sliced.shape(), |op| {
            op.dynamic_slice_sizes = i64s(&sizes);
        });
        agrees(&proto, &inputs, &[sliced], 0.0)?;
        inputs.insert(1, &update);
        let shapes: Vec<_> = inputs.iter().map(|input| input.shape()).collect();
        let proto = with("dynamic-update-slice", &shapes, updated.shape(), |_| {});
        agrees(&proto, &inputs, &[updated], 0.0)
    });
}
