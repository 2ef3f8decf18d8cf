//! Instructions that move data: every element of the result is one of an
//! operand, of any type, bit for bit.

use metaneff_schema::xla::hlo_instruction_proto::SliceDimensions;
use metaneff_schema::xla::padding_config::PaddingConfigDimension;
use metaneff_schema::xla::{PaddingConfig, PrimitiveType};

use crate::build::with;
use crate::draw::{Draw, check};
use crate::value::{Tensor, agrees, count, i64s, shape};

use PrimitiveType::{Bf16, F16, F32, F64, Pred, S8, S16, S32, S64, U8, U16, U32, U64};

const ELEMENTS: [PrimitiveType; 13] = [
    F32, S32, Bf16, S8, Pred, F16, F64, S64, U8, S16, U16, U32, U64,
];

fn operand(draw: &mut Draw, element: PrimitiveType, dims: &[usize]) -> Tensor {
    Tensor::new(element, dims, draw.values(count(dims), 0, 119))
}

/// An operand of any type and of rank `low` to 4.
fn any_operand(draw: &mut Draw, low: usize) -> Tensor {
    let element = draw.pick(&ELEMENTS);
    let rank = draw.size(low, 4);
    let dims = draw.dims(rank, 5);
    operand(draw, element, &dims)
}

#[test]
fn broadcasts_agree() {
    check(400, |draw| {
        let from = any_operand(draw, 0);
        let rank = from.dims.len() + draw.size(0, 2);
        let kept = draw.subset(rank, from.dims.len());
        let mut dims = draw.dims(rank, 4);
        for (&to, &size) in kept.iter().zip(&from.dims) {
            dims[to] = size;
        }
        let expected = Tensor::build(from.element, &dims, |index| {
            let at: Vec<usize> = kept.iter().map(|&dim| index[dim]).collect();
            from.at(&at)
        });
        let proto = with("broadcast", &[from.shape()], expected.shape(), |op| {
            op.dimensions = i64s(&kept);
        });
        agrees(&proto, &[&from], &[expected], 0.0)
    });
}

#[test]
fn transposes_and_reversals_agree() {
    check(500, |draw| {
        let from = any_operand(draw, 0);
        let rank = from.dims.len();
        let order = draw.order(rank);
        let dims: Vec<usize> = order.iter().map(|&dim| from.dims[dim]).collect();
        let expected = Tensor::build(from.element, &dims, |index| {
            let mut at = vec![0; rank];
            for (&dim, position) in order.iter().zip(index) {
                at[dim] = position;
            }
            from.at(&at)
        });
        let proto = with("transpose", &[from.shape()], expected.shape(), |op| {
            op.dimensions = i64s(&order);
        });
        agrees(&proto, &[&from], &[expected], 0.0)?;

        let chosen = draw.size(0, rank);
        let turned = draw.subset(rank, chosen);
        let expected = Tensor::build(from.element, &from.dims, |mut index| {
            for &dim in &turned {
                index[dim] = from.dims[dim] - 1 - index[dim];
            }
            from.at(&index)
        });
        let proto = with("reverse", &[from.shape()], expected.shape(), |op| {
            op.dimensions = i64s(&turned);
        });
        agrees(&proto, &[&from], &[expected], 0.0)
    });
}

#[test]
fn reshapes_and_copies_agree() {
    check(300, |draw| {
        let from = any_operand(draw, 0);
        // The same elements, with factors moved between dimensions.
        let mut dims = vec![count(&from.dims)];
        for _ in 0..draw.size(0, 3) {
            let place = draw.below(dims.len());
            let whole = dims[place];
            let factors: Vec<usize> = (1..=whole.max(1))
                .filter(|&f| whole.is_multiple_of(f))
                .collect();
            let factor = draw.pick(&factors);
            dims[place] = whole / factor;
            dims.insert(place, factor);
        }
        let expected = Tensor::new(from.element, &dims, from.values.clone());
        for opcode in ["reshape", "bitcast"] {
            let proto = with(opcode, &[from.shape()], expected.shape(), |_| {});
            agrees(&proto, &[&from], std::slice::from_ref(&expected), 0.0)?;
        }
        let proto = with("copy", &[from.shape()], from.shape(), |_| {});
        agrees(&proto, &[&from], std::slice::from_ref(&from), 0.0)
    });
}

#[test]
fn slices_agree() {
    check(400, |draw| {
        let from = any_operand(draw, 1);
        let slices: Vec<SliceDimensions> = from
            .dims
            .iter()
            .map(|&dim| {
                let start = draw.size(0, dim);
                SliceDimensions {
                    start: start as i64,
                    limit: draw.size(start, dim) as i64,
                    stride: draw.size(1, 3) as i64,
                }
            })
            .collect();
        let dims: Vec<usize> = slices
            .iter()
            .map(|slice| ((slice.limit - slice.start) as usize).div_ceil(slice.stride as usize))
            .collect();
        let expected = Tensor::build(from.element, &dims, |index| {
            let at: Vec<usize> = index
                .iter()
                .zip(&slices)
                .map(|(&i, slice)| slice.start as usize + i * slice.stride as usize)
                .collect();
            from.at(&at)
        });
        let proto = with("slice", &[from.shape()], expected.shape(), |op| {
            op.slice_dimensions = slices;
        });
        agrees(&proto, &[&from], &[expected], 0.0)
    });
}

#[test]
fn pads_agree() {
    check(600, |draw| {
        let from = any_operand(draw, 1);
        let value = Tensor::scalar(from.element, draw.within(0, 119) as f64);
        // Edges may be cut off as well.
        let padding: Vec<PaddingConfigDimension> = from
            .dims
            .iter()
            .map(|_| PaddingConfigDimension {
                edge_padding_low: draw.within(-2, 3),
                edge_padding_high: draw.within(-2, 3),
                interior_padding: draw.pick(&[0, 0, 1, 2]),
            })
            .collect();
        let spread = |dim: usize, interior: i64| match dim as i64 {
            0 => 0,
            dim => dim + (dim - 1) * interior,
        };
        let sizes: Vec<i64> = from
            .dims
            .iter()
            .zip(&padding)
            .map(|(&dim, padding)| {
                spread(dim, padding.interior_padding)
                    + padding.edge_padding_low
                    + padding.edge_padding_high
            })
            .collect();
        let dims: Option<Vec<usize>> = sizes.iter().map(|&n| usize::try_from(n).ok()).collect();
        let Some(dims) = dims else {
            // More is cut off than there is: not a module.
            return Ok(());
        };
        let expected = Tensor::build(from.element, &dims, |index| {
            let at: Option<Vec<i64>> = index
                .iter()
                .zip(&padding)
                .map(|(&position, padding)| {
                    let place = position as i64 - padding.edge_padding_low;
                    let step = padding.interior_padding + 1;
                    (place % step == 0).then(|| place / step)
                })
                .collect();
            at.and_then(|at| from.get(&at)).unwrap_or(value.values[0])
        });
        let shapes = [from.shape(), value.shape()];
        let proto = with("pad", &shapes, expected.shape(), |op| {
            op.padding_config = Some(PaddingConfig {
                dimensions: padding,
            });
        });
        agrees(&proto, &[&from, &value], &[expected], 0.0)
    });
}

#[test]
fn concatenations_agree() {
    check(400, |draw| {
        let first = any_operand(draw, 1);
        let dimension = draw.below(first.dims.len());
        let parts: Vec<Tensor> = (0..draw.size(1, 4))
            .map(|_| {
                let mut dims = first.dims.clone();
                dims[dimension] = draw.size(0, 4);
                operand(draw, first.element, &dims)
            })
            .collect();
        let mut dims = first.dims.clone();
        dims[dimension] = parts.iter().map(|part| part.dims[dimension]).sum();
        let expected = Tensor::build(first.element, &dims, |mut index| {
            for part in &parts {
                let size = part.dims[dimension];
                if index[dimension] < size {
                    return part.at(&index);
                }
                index[dimension] -= size;
            }
            f64::NAN
        });
        let shapes: Vec<_> = parts.iter().map(Tensor::shape).collect();
        let proto = with("concatenate", &shapes, expected.shape(), |op| {
            op.dimensions = vec![dimension as i64];
        });
        let inputs: Vec<&Tensor> = parts.iter().collect();
        agrees(&proto, &inputs, &[expected], 0.0)
    });
}

#[test]
fn counts_and_sizes_agree() {
    check(300, |draw| {
        let element = draw.pick(&[S32, F32, U8, S8, Bf16, F16, S64, U16, F64]);
        let rank = draw.size(1, 4);
        let dims = draw.dims(rank, 6);
        let dimension = draw.below(rank);
        let expected = Tensor::build(element, &dims, |index| index[dimension] as f64);
        let proto = with("iota", &[], expected.shape(), |op| {
            op.dimensions = vec![dimension as i64];
        });
        agrees(&proto, &[], std::slice::from_ref(&expected), 0.0)?;

        let size = Tensor::scalar(S32, dims[dimension] as f64);
        let operand = [expected.shape()];
        let proto = with("get-dimension-size", &operand, shape(S32, &[]), |op| {
            op.dimensions = vec![dimension as i64];
        });
        agrees(&proto, &[&expected], &[size], 0.0)
    });
}
