//! The reference: one instruction after the other.

use std::collections::BTreeMap;

use metaneff_schema::xla::{HloComputationProto, HloInstructionProto, HloModuleProto};

use crate::elementwise::elementwise;
use crate::movement::{constant, movement};
use crate::value::{Kind, Tensor, Unknown, Value, indices, size, sizes};

/// The module's value for `arguments`.
pub(crate) fn evaluate(module: &HloModuleProto, arguments: &[Value]) -> Result<Value, Unknown> {
    call(module, module.entry_computation_id, arguments)
}

/// The value of the computation with an id.
fn call(module: &HloModuleProto, id: i64, arguments: &[Value]) -> Result<Value, Unknown> {
    let computation = computation(module, id);
    let mut values: BTreeMap<i64, Value> = BTreeMap::new();
    for instruction in &computation.instructions {
        let operands: Vec<&Value> = instruction
            .operand_ids
            .iter()
            .map(|id| &values[id])
            .collect();
        let value = step(module, instruction, &operands, arguments)?;
        values.insert(instruction.id, value);
    }
    Ok(values[&computation.root_id].clone())
}

fn computation(module: &HloModuleProto, id: i64) -> &HloComputationProto {
    module
        .computations
        .iter()
        .find(|computation| computation.id == id)
        .expect("a verified module has the computations that it names")
}

/// The value of one instruction of a computation that was called with
/// `arguments`.
pub(crate) fn step(
    module: &HloModuleProto,
    instruction: &HloInstructionProto,
    operands: &[&Value],
    arguments: &[Value],
) -> Result<Value, Unknown> {
    match instruction.opcode.as_str() {
        "parameter" => return Ok(arguments[size(instruction.parameter_number)].clone()),
        "constant" => {
            let literal = instruction.literal.clone().unwrap_or_default();
            return Ok(Value::Array(constant(&literal)?));
        }
        "tuple" => {
            let elements = operands.iter().map(|&value| value.clone());
            return Ok(Value::Tuple(elements.collect()));
        }
        "get-tuple-element" => {
            return match operands[0] {
                Value::Tuple(elements) => Ok(elements[size(instruction.tuple_index)].clone()),
                Value::Array(_) => Err(Unknown("an element of an array".to_owned())),
            };
        }
        "call" => {
            let arguments: Vec<Value> = operands.iter().map(|&value| value.clone()).collect();
            return call(module, instruction.called_computation_ids[0], &arguments);
        }
        "opt-barrier" => return Ok(operands[0].clone()),
        "conditional" => {
            let (branch, arguments) = chosen(instruction, operands)?;
            return call(module, branch, arguments);
        }
        "while" => {
            let mut state = operands[0].clone();
            let called = &instruction.called_computation_ids;
            let (body, condition) = (called[0], called[1]);
            while call(module, condition, std::slice::from_ref(&state))?
                .tensor()?
                .values[0]
                != 0.0
            {
                state = call(module, body, std::slice::from_ref(&state))?;
            }
            return Ok(state);
        }
        _ => {}
    }
    let tensors: Vec<&Tensor> = operands
        .iter()
        .map(|value| value.tensor())
        .collect::<Result<_, _>>()?;
    match instruction.opcode.as_str() {
        "reduce" => reduce(module, instruction, &tensors),
        "map" => {
            let shape = instruction.shape.clone().unwrap_or_default();
            let called = instruction.called_computation_ids[0];
            let mapped = Tensor::build(&shape, |index| {
                let elements = tensors
                    .iter()
                    .map(|tensor| Tensor::scalar(tensor.kind, tensor.at(index)));
                let arguments: Vec<Value> = elements.map(Value::Array).collect();
                Ok(call(module, called, &arguments)?.tensor()?.values[0])
            })?;
            Ok(Value::Array(mapped))
        }
        "dot" => Ok(Value::Array(dot(instruction, tensors[0], tensors[1])?)),
        "iota"
        | "reshape"
        | "broadcast"
        | "transpose"
        | "reverse"
        | "slice"
        | "concatenate"
        | "pad"
        | "dynamic-slice"
        | "dynamic-update-slice"
        | "gather" => Ok(Value::Array(movement(instruction, &tensors)?)),
        other if tensors.is_empty() || !is_elementwise(other) => Err(Unknown(other.to_owned())),
        _ => Ok(Value::Array(elementwise(instruction, &tensors)?)),
    }
}

/// The branch of a conditional and its argument: the first for true, the one
/// of a number, the last for numbers that no branch has.
fn chosen<'a>(
    instruction: &HloInstructionProto,
    operands: &[&'a Value],
) -> Result<(i64, &'a [Value]), Unknown> {
    let called = &instruction.called_computation_ids;
    let index = operands[0].tensor()?;
    let number = if index.kind == Kind::Pred {
        usize::from(index.values[0] == 0.0)
    } else {
        usize::try_from(index.values[0] as i64)
            .unwrap_or(usize::MAX)
            .min(called.len() - 1)
    };
    Ok((called[number], std::slice::from_ref(operands[number + 1])))
}

/// Whether the opcode is one that [`elementwise`] may know. An unknown one on
/// empty arrays would be taken for known otherwise.
fn is_elementwise(opcode: &str) -> bool {
    const KNOWN: &str = "compare select clamp convert copy negate abs floor ceil exponential \
        exponential-minus-one tanh log log-plus-one sqrt rsqrt sine cosine logistic is-finite not \
        sign cbrt tan atan2 round-nearest-afz round-nearest-even add subtract multiply divide remainder maximum minimum power and or xor";
    KNOWN.split_whitespace().any(|known| known == opcode)
}

/// Calls the computation for one element after the other, in row-major order.
fn reduce(
    module: &HloModuleProto,
    instruction: &HloInstructionProto,
    operands: &[&Tensor],
) -> Result<Value, Unknown> {
    let (arrays, inits) = operands.split_at(operands.len() / 2);
    let reduced = sizes(&instruction.dimensions);
    let dims = &arrays[0].dims;
    let kept: Vec<usize> = (0..dims.len()).filter(|d| !reduced.contains(d)).collect();
    let result_dims: Vec<usize> = kept.iter().map(|&d| dims[d]).collect();
    let reduced_dims: Vec<usize> = reduced.iter().map(|&d| dims[d]).collect();
    let mut results: Vec<Tensor> = inits
        .iter()
        .map(|init| Tensor {
            kind: init.kind,
            dims: result_dims.clone(),
            values: Vec::new(),
        })
        .collect();
    for outer in indices(&result_dims) {
        let mut state: Vec<Value> = inits
            .iter()
            .map(|&init| Value::Array(init.clone()))
            .collect();
        for inner in indices(&reduced_dims) {
            let mut index = vec![0; dims.len()];
            for (&d, &position) in kept.iter().zip(&outer) {
                index[d] = position;
            }
            for (&d, &position) in reduced.iter().zip(&inner) {
                index[d] = position;
            }
            let mut arguments = state;
            for array in arrays {
                let element = Tensor::scalar(array.kind, array.at(&index));
                arguments.push(Value::Array(element));
            }
            state = match call(module, instruction.called_computation_ids[0], &arguments)? {
                Value::Tuple(values) => values,
                value @ Value::Array(_) => vec![value],
            };
        }
        for (result, value) in results.iter_mut().zip(&state) {
            result.values.push(value.tensor()?.values[0]);
        }
    }
    let mut values: Vec<Value> = results.into_iter().map(Value::Array).collect();
    Ok(if values.len() == 1 {
        values.remove(0)
    } else {
        Value::Tuple(values)
    })
}

/// The result's dimensions are the batch dimensions, those that only the left
/// operand has, those that only the right one has. Sums of floats are rounded
/// once.
fn dot(instruction: &HloInstructionProto, lhs: &Tensor, rhs: &Tensor) -> Result<Tensor, Unknown> {
    let shape = instruction.shape.clone().unwrap_or_default();
    let numbers = instruction
        .dot_dimension_numbers
        .clone()
        .unwrap_or_default();
    let kind = Kind::of(&shape)?;
    if kind != lhs.kind || kind != rhs.kind || kind == Kind::Pred || kind == Kind::S64 {
        return Err(Unknown("dot of other types".to_owned()));
    }
    let lhs_batch = sizes(&numbers.lhs_batch_dimensions);
    let rhs_batch = sizes(&numbers.rhs_batch_dimensions);
    let lhs_contracted = sizes(&numbers.lhs_contracting_dimensions);
    let rhs_contracted = sizes(&numbers.rhs_contracting_dimensions);
    let free = |rank: usize, batch: &[usize], contracted: &[usize]| -> Vec<usize> {
        (0..rank)
            .filter(|d| !batch.contains(d) && !contracted.contains(d))
            .collect()
    };
    let lhs_free = free(lhs.dims.len(), &lhs_batch, &lhs_contracted);
    let rhs_free = free(rhs.dims.len(), &rhs_batch, &rhs_contracted);
    let contracted_dims: Vec<usize> = lhs_contracted.iter().map(|&d| lhs.dims[d]).collect();
    Tensor::build(&shape, |index| {
        let (batch, rest) = index.split_at(lhs_batch.len());
        let (left, right) = rest.split_at(lhs_free.len());
        let mut sum = 0.0;
        let mut integer_sum = 0_i64;
        for inner in indices(&contracted_dims) {
            let x = lhs.at(&placed(
                lhs.dims.len(),
                &[
                    (&lhs_batch, batch),
                    (&lhs_free, left),
                    (&lhs_contracted, &inner),
                ],
            ));
            let y = rhs.at(&placed(
                rhs.dims.len(),
                &[
                    (&rhs_batch, batch),
                    (&rhs_free, right),
                    (&rhs_contracted, &inner),
                ],
            ));
            sum += x * y;
            integer_sum = integer_sum.wrapping_add((x as i64).wrapping_mul(y as i64));
        }
        Ok(if kind == Kind::F32 {
            sum
        } else {
            kind.wrapped(integer_sum)
        })
    })
}

/// The index that has the positions of each part at the part's dimensions.
fn placed(rank: usize, parts: &[(&[usize], &[usize])]) -> Vec<usize> {
    let mut index = vec![0; rank];
    for (dimensions, positions) in parts {
        for (&d, &position) in dimensions.iter().zip(*positions) {
            index[d] = position;
        }
    }
    index
}
