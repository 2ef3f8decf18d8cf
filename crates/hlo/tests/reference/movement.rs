//! Instructions that move elements without computing.

use metaneff_schema::xla::{HloInstructionProto, LiteralProto};

use crate::value::{Kind, Tensor, Unknown, size, sizes};

/// The array of a constant. Other layouts than the row-major one are unknown.
pub(crate) fn constant(literal: &LiteralProto) -> Result<Tensor, Unknown> {
    let shape = literal.shape.clone().unwrap_or_default();
    if let Some(layout) = &shape.layout
        && !layout.minor_to_major.is_sorted_by(|a, b| a > b)
    {
        return Err(Unknown("constant in another layout".to_owned()));
    }
    let kind = Kind::of(&shape)?;
    let values: Vec<f64> = match kind {
        Kind::F32 => literal.f32s.iter().map(|&x| f64::from(x)).collect(),
        Kind::S32 => literal.s32s.iter().map(|&x| f64::from(x)).collect(),
        Kind::S64 => literal.s64s.iter().map(|&x| x as f64).collect(),
        Kind::Pred => literal.preds.iter().map(|&x| f64::from(x)).collect(),
    };
    Tensor {
        kind,
        dims: sizes(&shape.dimensions),
        values,
    }
    .representable()
}

/// The result of an instruction that moves elements.
pub(crate) fn movement(
    instruction: &HloInstructionProto,
    operands: &[&Tensor],
) -> Result<Tensor, Unknown> {
    let shape = instruction.shape.clone().unwrap_or_default();
    let dimensions = sizes(&instruction.dimensions);
    let dims = sizes(&shape.dimensions);
    let first = operands.first().copied();
    let source = || first.ok_or_else(|| Unknown("no operand".to_owned()));
    match instruction.opcode.as_str() {
        "iota" => {
            let kind = Kind::of(&shape)?;
            Tensor::build(
                &shape,
                |index| Ok(kind.wrapped(index[dimensions[0]] as i64)),
            )
        }
        "reshape" => Ok(Tensor {
            dims,
            ..source()?.clone()
        }),
        "broadcast" => {
            let source = source()?;
            Tensor::build(&shape, |index| {
                let from: Vec<usize> = dimensions.iter().map(|&d| index[d]).collect();
                Ok(source.at(&from))
            })
        }
        "transpose" => {
            let source = source()?;
            Tensor::build(&shape, |index| {
                let mut from = index.to_vec();
                for (place, &dimension) in dimensions.iter().enumerate() {
                    from[dimension] = index[place];
                }
                Ok(source.at(&from))
            })
        }
        "reverse" => {
            let source = source()?;
            Tensor::build(&shape, |index| {
                let mut from = index.to_vec();
                for &dimension in &dimensions {
                    from[dimension] = dims[dimension] - 1 - index[dimension];
                }
                Ok(source.at(&from))
            })
        }
        "slice" => {
            let source = source()?;
            Tensor::build(&shape, |index| {
                let parts = index.iter().zip(&instruction.slice_dimensions);
                let from: Vec<usize> = parts
                    .map(|(&position, slice)| size(slice.start) + position * size(slice.stride))
                    .collect();
                Ok(source.at(&from))
            })
        }
        "concatenate" => Tensor::build(&shape, |index| {
            let mut from = index.to_vec();
            for operand in operands {
                if from[dimensions[0]] < operand.dims[dimensions[0]] {
                    return Ok(operand.at(&from));
                }
                from[dimensions[0]] -= operand.dims[dimensions[0]];
            }
            Err(Unknown("operands shorter than the result".to_owned()))
        }),
        "pad" => pad(instruction, source()?, operands[1].values[0]),
        "dynamic-slice" => {
            let source = source()?;
            let start = clamped(&operands[1..], &source.dims, &dims)?;
            Tensor::build(&shape, |index| {
                let parts = index.iter().zip(&start);
                let from: Vec<usize> = parts.map(|(position, start)| position + start).collect();
                Ok(source.at(&from))
            })
        }
        "dynamic-update-slice" => {
            let (source, update) = (source()?, operands[1]);
            let start = clamped(&operands[2..], &source.dims, &update.dims)?;
            Tensor::build(&shape, |index| {
                let inside = (0..index.len())
                    .all(|d| index[d] >= start[d] && index[d] - start[d] < update.dims[d]);
                if !inside {
                    return Ok(source.at(index));
                }
                let parts = index.iter().zip(&start);
                let from: Vec<usize> = parts.map(|(position, start)| position - start).collect();
                Ok(update.at(&from))
            })
        }
        "gather" => gather(instruction, source()?, operands[1]),
        other => Err(Unknown(other.to_owned())),
    }
}

/// Where a window of `window` begins in `dims`, moved so that it lies inside.
fn clamped(starts: &[&Tensor], dims: &[usize], window: &[usize]) -> Result<Vec<usize>, Unknown> {
    if starts.len() != dims.len() {
        return Err(Unknown("start indices in one array".to_owned()));
    }
    let parts = starts.iter().zip(dims.iter().zip(window));
    Ok(parts
        .map(|(start, (dim, window))| inside(start.values[0], dim - window))
        .collect())
}

fn inside(start: f64, last: usize) -> usize {
    size((start as i64).clamp(0, last as i64))
}

/// Each result element is either an operand's, or padding.
fn pad(
    instruction: &HloInstructionProto,
    source: &Tensor,
    padding: f64,
) -> Result<Tensor, Unknown> {
    let shape = instruction.shape.clone().unwrap_or_default();
    let config = instruction.padding_config.clone().unwrap_or_default();
    Tensor::build(&shape, |index| {
        let mut from = Vec::new();
        for (d, config) in config.dimensions.iter().enumerate() {
            let distance = index[d] as i64 - config.edge_padding_low;
            let step = config.interior_padding + 1;
            if distance < 0 || distance % step != 0 || size(distance / step) >= source.dims[d] {
                return Ok(padding);
            }
            from.push(size(distance / step));
        }
        Ok(source.at(&from))
    })
}

fn gather(
    instruction: &HloInstructionProto,
    source: &Tensor,
    starts: &Tensor,
) -> Result<Tensor, Unknown> {
    let shape = instruction.shape.clone().unwrap_or_default();
    let numbers = instruction
        .gather_dimension_numbers
        .clone()
        .unwrap_or_default();
    let offset_dims = sizes(&numbers.offset_dims);
    let collapsed = sizes(&numbers.collapsed_slice_dims);
    let batching = sizes(&numbers.operand_batching_dims);
    let vector_dim = size(numbers.index_vector_dim);
    let slice_sizes = sizes(&instruction.gather_slice_sizes);
    let kept: Vec<usize> = (0..source.dims.len())
        .filter(|d| !collapsed.contains(d) && !batching.contains(d))
        .collect();
    Tensor::build(&shape, |index| {
        // Where in `starts` the window's index vector lies.
        let mut place: Vec<usize> = (0..index.len())
            .filter(|d| !offset_dims.contains(d))
            .map(|d| index[d])
            .collect();
        let has_vector = vector_dim < starts.dims.len();
        if has_vector {
            place.insert(vector_dim, 0);
        }
        let mut from = vec![0; source.dims.len()];
        for (component, &d) in numbers.start_index_map.iter().enumerate() {
            if has_vector {
                place[vector_dim] = component;
            }
            let d = size(d);
            from[d] = inside(starts.at(&place), source.dims[d] - slice_sizes[d]);
        }
        for (&d, &batch) in batching.iter().zip(&numbers.start_indices_batching_dims) {
            from[d] = place[size(batch)];
        }
        for (&d, &offset) in kept.iter().zip(&offset_dims) {
            from[d] += index[offset];
        }
        Ok(source.at(&from))
    })
}
