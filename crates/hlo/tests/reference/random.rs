//! Random modules: each instruction against the reference on the operands
//! that the executor had, so that no error grows along the chain; and the
//! chain's end alone against its end beside all values, bit for bit, since
//! what becomes of dead values must not show.

use std::collections::BTreeMap;

use metaneff_hlo::array::Array;
use metaneff_schema::xla::PrimitiveType;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use prost::Message;

use crate::chain::{Chain, Link};
use crate::evaluator::step;
use crate::execute;
use crate::tolerance::Tolerance;
use crate::value::{Tensor, Value};

fn numbers() -> impl Strategy<Value = Vec<i32>> {
    prop::collection::vec(-16..=16, 1..12)
}

fn link() -> impl Strategy<Value = Link> {
    let part = (0..3_usize, 0..3_usize, 1..3_usize);
    prop_oneof![
        (0..3_usize).prop_map(Link::Unary),
        (0..5_usize).prop_map(Link::Smooth),
        (0..12_usize, numbers()).prop_map(|(choice, numbers)| Link::Binary(choice, numbers)),
        (0..6_usize, numbers()).prop_map(|(choice, numbers)| Link::Select(choice, numbers)),
        (1..4_usize, 0..3_usize).prop_map(|(size, place)| Link::Broadcast(size, place)),
        (0..6_usize).prop_map(Link::Transpose),
        [part.clone(), part.clone(), part].prop_map(Link::Slice),
        (0..3_usize, 0..3_usize).prop_map(|(dimension, choice)| Link::Reduce(dimension, choice)),
        (0..3_usize, 1..4_usize, any::<bool>(), numbers()).prop_map(
            |(dimension, columns, left, numbers)| Link::Dot(dimension, columns, left, numbers)
        ),
    ]
}

fn input(float: bool, dims: &[i64], numbers: &[i32]) -> Array {
    let dims: Vec<usize> = crate::value::sizes(dims);
    let count = dims.iter().product();
    let numbers = numbers.iter().copied().cycle().take(count);
    let array = if float {
        let values: Vec<f32> = numbers.map(|x| x as f32 / 8.0).collect();
        Array::from_values(&dims, &values)
    } else {
        Array::from_values(&dims, &numbers.collect::<Vec<i32>>())
    };
    array.expect("as many values as elements")
}

fn agree(chain: Chain, input: &Array) -> Result<(), String> {
    let short = chain.module();
    let all = chain.module_of_all();
    let outputs = execute(&all.encode_to_vec(), std::slice::from_ref(input))?;
    let tensors: Vec<Value> = outputs
        .iter()
        .map(|array| Tensor::from_array(array).map(Value::Array))
        .collect::<Result<_, _>>()
        .map_err(|unknown| unknown.0)?;
    let arguments = [Value::Array(
        Tensor::from_array(input).map_err(|unknown| unknown.0)?,
    )];
    let entry = all.computations.last().expect("a chain has an entry");
    let values: BTreeMap<i64, &Value> = entry
        .instructions
        .iter()
        .map(|instruction| instruction.id)
        .zip(&tensors)
        .collect();
    for (instruction, found) in entry.instructions.iter().zip(&tensors) {
        let operands: Vec<&Value> = instruction
            .operand_ids
            .iter()
            .map(|id| values[id])
            .collect();
        let expected = step(&all, instruction, &operands, &arguments)
            .and_then(|value| value.tensor().cloned())
            .map_err(|unknown| unknown.0)?;
        let found = found.tensor().map_err(|unknown| unknown.0)?;
        Tolerance::of_opcode(&instruction.opcode)
            .check(&expected, found)
            .map_err(|reason| format!("{}: {reason}", instruction.name))?;
    }
    let alone = execute(&short.encode_to_vec(), std::slice::from_ref(input))?;
    let last = outputs.last().expect("a chain has a value");
    if alone.len() != 1 || alone[0].bytes() != last.bytes() {
        return Err(format!("{alone:?} alone, {last:?} beside all values"));
    }
    Ok(())
}

#[test]
fn random_chains_agree() {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let strategy = (
        any::<bool>(),
        // A long dimension fills vector registers and leaves a remainder.
        prop_oneof![
            prop::collection::vec(1..=4_i64, 0..=3),
            prop::collection::vec(5..=40_i64, 1),
        ],
        numbers(),
        prop::collection::vec(link(), 1..=8),
    );
    runner
        .run(&strategy, |(float, dims, numbers, links)| {
            let element = if float {
                PrimitiveType::F32
            } else {
                PrimitiveType::S32
            };
            let mut chain = Chain::new(element, &dims);
            for link in &links {
                chain.link(link);
            }
            agree(chain, &input(float, &dims, &numbers)).map_err(TestCaseError::fail)
        })
        .unwrap();
}
