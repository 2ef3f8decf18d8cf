//! The executor against a reference that is written to be obvious, not fast.
//!
//! The reference shares no code with the executor but for reading files.
#![cfg(feature = "corpus")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "wrapping and rounding are what the reference computes"
)]

mod chain;
mod elementwise;
mod evaluator;
mod movement;
mod random;
mod tolerance;
mod value;

use std::path::Path;

use metaneff_hlo::array::Array;
use metaneff_hlo::corpus::{Case, CaseError};
use metaneff_hlo::options::ExecuteOptions;
use metaneff_hlo::{Executable, Module};
use metaneff_schema::decode_hlo;
use metaneff_schema::xla::{PrimitiveType, ShapeProto};

use evaluator::evaluate;
use tolerance::Tolerance;
use value::{Tensor, Unknown, Value};

/// Cases of the corpus that must have been compared, so that the test does not
/// pass by skipping.
const COMPARED_AT_LEAST: usize = 105;

/// Why a case was not compared, or compared badly.
enum Failure {
    Skipped(String),
    Failed(String),
}

impl From<Unknown> for Failure {
    fn from(unknown: Unknown) -> Self {
        Self::Skipped(unknown.0)
    }
}

impl From<CaseError> for Failure {
    fn from(error: CaseError) -> Self {
        Self::Failed(error.to_string())
    }
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

/// The value of a parameter, of the arrays that come next.
fn argument(shape: &ShapeProto, next: &mut impl Iterator<Item = Tensor>) -> Value {
    if shape.element_type() == PrimitiveType::Tuple {
        let elements = shape.tuple_shapes.iter();
        return Value::Tuple(elements.map(|shape| argument(shape, next)).collect());
    }
    Value::Array(next.next().expect("the case has all inputs"))
}

fn compare(case: &Case) -> Result<(), Failure> {
    if case.inputs.len() != 1 {
        return Err(Failure::Skipped("several devices".to_owned()));
    }
    let bytes = case.module()?;
    let proto = decode_hlo(bytes.clone()).map_err(failed)?;
    let arrays: Vec<Array> = case.inputs[0]
        .iter()
        .map(|tensor| case.array(tensor))
        .collect::<Result<_, _>>()?;
    let tensors: Vec<Tensor> = arrays
        .iter()
        .map(Tensor::from_array)
        .collect::<Result<_, _>>()?;
    let entry = proto
        .computations
        .iter()
        .find(|computation| computation.id == proto.entry_computation_id)
        .expect("the module has an entry");
    let mut parameters: Vec<_> = entry
        .instructions
        .iter()
        .filter(|instruction| instruction.opcode == "parameter")
        .collect();
    parameters.sort_by_key(|instruction| instruction.parameter_number);
    let mut next = tensors.into_iter();
    let arguments: Vec<Value> = parameters
        .iter()
        .map(|instruction| argument(&instruction.shape.clone().unwrap_or_default(), &mut next))
        .collect();
    let expected = evaluate(&proto, &arguments)?;

    let found = execute(&bytes, &arrays).map_err(Failure::Failed)?;
    let expected = expected.leaves();
    if expected.len() != found.len() {
        return Err(failed(format!("{} outputs", found.len())));
    }
    let tolerance = Tolerance::of_module(&proto);
    for (index, (expected, found)) in expected.into_iter().zip(&found).enumerate() {
        tolerance
            .check(expected, &Tensor::from_array(found)?)
            .map_err(|reason| failed(format!("output {index}: {reason}")))?;
    }
    Ok(())
}

/// The executor's outputs in row-major order; inputs are in row-major order,
/// whatever the layouts of the entry are.
fn execute(module: &[u8], arrays: &[Array]) -> Result<Vec<Array>, String> {
    let module = Module::parse(module.to_vec()).map_err(|error| error.to_string())?;
    let executable = Executable::new(module);
    let parameters = executable.module().parameters();
    let shapes = parameters.iter().flat_map(|shape| shape.leaves());
    let inputs: Vec<Array> = arrays
        .iter()
        .zip(shapes)
        .map(|(array, shape)| match shape.layout() {
            Some(layout) => array.to_layout(layout),
            None => Ok(array.clone()),
        })
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    let inputs: Vec<&[u8]> = inputs.iter().map(Array::bytes).collect();
    let execution = executable
        .execute(&inputs, &ExecuteOptions::default())
        .map_err(|error| error.to_string())?;
    let outputs = execution.outputs.iter().map(Array::to_row_major);
    outputs
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())
}

#[test]
fn corpus_agrees() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let (mut compared, mut skipped) = (0, Vec::new());
    let mut failures = Vec::new();
    for case in Case::all(&root).unwrap() {
        match compare(&case) {
            Ok(()) => compared += 1,
            Err(Failure::Skipped(reason)) => skipped.push(format!("{}: {reason}", case.name)),
            Err(Failure::Failed(reason)) => failures.push(format!("{}: {reason}", case.name)),
        }
    }
    println!("{compared} compared, {} skipped:", skipped.len());
    println!("{}", skipped.join("\n"));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(compared >= COMPARED_AT_LEAST, "only {compared} compared");
}
