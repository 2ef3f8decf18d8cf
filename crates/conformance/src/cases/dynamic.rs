//! Dynamic batches, and edits of a metaneff: what the native setters write.

use bytes::Bytes;
use metaneff_binding::{Artifact, Backend, BatchError, ContractOptions, HostTensor};
use metaneff_schema::Document;
use metaneff_schema::xla::PrimitiveType::F32;

use crate::bench::Bench;
use crate::case::{Case, Failure, equal, holds, refused};
use crate::graph::Graph;
use crate::models::{Must as _, floats, join, pack};
use crate::wire::{Wire, neff, pair, tensor};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    const ROWS: &str = "page 5, get_slices; user need 46";
    const SETTERS: &str = "page 6";
    vec![
        Case::new(
            "dynamic/rows/multiple",
            "4 rows of 2 are two launches",
            ROWS,
            |b| rows(b, 4, 2),
        ),
        Case::new(
            "dynamic/rows/remainder",
            "5 rows of 2 are three launches, and no row of the filling is seen",
            ROWS,
            |b| rows(b, 5, 3),
        ),
        Case::new(
            "dynamic/rows/fewer",
            "1 row of 2 is one launch",
            ROWS,
            |b| rows(b, 1, 1),
        ),
        Case::new("dynamic/rows/none", "no rows are no launch", ROWS, |b| {
            rows(b, 0, 0)
        }),
        Case::new(
            "dynamic/rows/inconsistent",
            "inputs of 4 and 3 rows are refused, and both are named",
            "user need 45",
            inconsistent,
        ),
        Case::new(
            "dynamic/rows/fixed_input",
            "an input that is not marked is given whole to every launch",
            "page 4.1; user need 45",
            fixed_input,
        ),
        Case::new(
            "edit/async_load/set",
            "the flag is written, nothing else changes, and the model runs",
            SETTERS,
            |b| {
                edited(b, Document::set_async_load, |message| {
                    config(message).async_load
                })
            },
        ),
        Case::new(
            "edit/lazy_load/set",
            "the flag is written, nothing else changes, and the model runs",
            SETTERS,
            |b| {
                edited(b, Document::set_lazy_load, |message| {
                    config(message).lazy_load
                })
            },
        ),
        Case::new(
            "edit/dynamic_batching/set",
            "every tensor of both sides is marked",
            SETTERS,
            |b| {
                edited(b, Document::set_dynamic_batching, |message| {
                    let sides = message.input_tensors.iter().chain(&message.output_tensors);
                    sides.clone().count() == 2 && sides.clone().all(|t| t.allow_dynamic_batch_size)
                })
            },
        ),
        Case::new(
            "edit/dynamic_batching/mixed",
            "tensors are marked one by one, and a wrong number of marks changes nothing",
            SETTERS,
            mixed,
        ),
        Case::new(
            "edit/unknown_fields/kept",
            "fields that nobody knows survive an edit",
            "page 6; user need 66",
            unknown_kept,
        ),
        Case::new(
            "edit/flag/undone",
            "a flag that is set and taken back gives the first bytes' meaning again",
            SETTERS,
            undone,
        ),
    ]
}

/// `x + x` over rows of `f32[2, 3]`, both sides marked.
fn rows<B: Backend>(backend: B, count: usize, launches: usize) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2, 3]);
    let sum = graph.elementwise("add", &[x, x]);
    let artifact = crate::models::artifact(graph.finish(&[sum]), |m| m.dynamic_batch())?;
    let mut bench = Bench::new(backend, &artifact)?;
    let values: Vec<f32> = (0..count * 3)
        .map(|at| u16::try_from(at).map_or(0.0, f32::from))
        .collect();
    let x = HostTensor::from_slice([count, 3], &values).must()?;
    let x = bench.validate("input0", x)?;
    let executed = bench.session.execute_batch(vec![x]).must()?;
    equal("launches", executed.launches(), launches)?;
    let outputs = executed.tolerate_nan();
    let output = outputs.get(0).must()?;
    equal("the shape", output.shape().dims(), &[count, 3])?;
    let doubled: Vec<f32> = values.iter().map(|value| 2.0 * value).collect();
    equal("x + x", output.to_vec::<f32>().must()?, doubled)
}

fn inconsistent<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let a = graph.parameter(F32, &[2]);
    let b = graph.parameter(F32, &[2]);
    let sum = graph.elementwise("add", &[a, b]);
    let artifact = crate::models::artifact(graph.finish(&[sum]), |m| m.dynamic_batch())?;
    let mut bench = Bench::new(backend, &artifact)?;
    let inputs = bench.inputs(&[("input0", &[1.0; 4]), ("input1", &[1.0; 3])])?;
    let rejected = refused("4 and 3 rows", bench.session.execute_batch(inputs))?;
    match rejected.reason() {
        BatchError::Inconsistent {
            first_name,
            first_rows,
            second_name,
            second_rows,
            ..
        } => {
            equal(
                "the first",
                (first_name.as_str(), *first_rows),
                ("input0", 4),
            )?;
            equal(
                "the second",
                (second_name.as_str(), *second_rows),
                ("input1", 3),
            )?;
        }
        other => return Err(Failure::new(format!("expected both inputs, found {other}"))),
    }
    equal("inputs given back", rejected.into_input().len(), 2)
}

fn fixed_input<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let w = graph.parameter(F32, &[2]);
    let product = graph.elementwise("multiply", &[x, w]);
    let marked = |name| pair(name).number(tensor::DYNAMIC_BATCH, 1);
    let message = Wire::new()
        .message(neff::INPUT, marked("input0"))
        .message(neff::INPUT, pair("input1"))
        .message(neff::OUTPUT, marked("output0"));
    let file = pack(graph.finish(&[product]))?;
    let artifact = join(file, message.finish(), &ContractOptions::new())?;
    let mut bench = Bench::new(backend, &artifact)?;
    let x = bench.validate("input0", floats(&[1.0, 2.0, 3.0, 4.0])?)?;
    let w = bench.floats("input1", &[10.0, 100.0])?;
    let outputs = bench
        .session
        .execute_batch(vec![x, w])
        .must()?
        .tolerate_nan();
    let product = outputs.get(0).must()?.to_vec::<f32>().must()?;
    equal("x * w", product, vec![10.0, 200.0, 30.0, 400.0])
}

/// A NEFF of `x + x` over `f32[2]`, and a metaneff with fields of a later time.
fn files() -> Result<(Bytes, Vec<u8>), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let sum = graph.elementwise("add", &[x, x]);
    let message = Wire::new()
        .message(neff::INPUT, pair("input0").bytes(99, "later"))
        .message(neff::OUTPUT, pair("output0"))
        .message(neff::CONFIG, Wire::new().number(1, 4).bytes(77, "later"))
        .number(99, 7);
    Ok((pack(graph.finish(&[sum]))?, message.finish()))
}

fn config(message: &metaneff_schema::metaneff::MetaNeff) -> metaneff_schema::metaneff::ModelConfig {
    message.model_config.unwrap_or_default()
}

fn still_doubles<B: Backend>(backend: B, neff: Bytes, metaneff: Vec<u8>) -> Result<(), Failure> {
    let artifact: Artifact = join(neff, metaneff, &ContractOptions::new())?;
    let mut bench = Bench::new(backend, &artifact)?;
    equal(
        "x + x",
        bench.run(&[("input0", &[1.5, -3.0])])?,
        vec![3.0, -6.0],
    )
}

fn edited<B: Backend>(
    backend: B,
    set: fn(&mut Document, bool),
    is_set: impl Fn(&metaneff_schema::metaneff::MetaNeff) -> bool,
) -> Result<(), Failure> {
    let (neff, bytes) = files()?;
    let mut document = Document::parse(bytes)?;
    let before = document.message()?;
    holds("it is not set", !is_set(&before))?;
    set(&mut document, true);
    let message = document.message()?;
    holds("it is set", is_set(&message))?;
    equal("fields of a later time", document.unknown_fields().len(), 3)?;
    still_doubles(backend, neff, document.to_vec())
}

fn mixed<B: Backend>(backend: B) -> Result<(), Failure> {
    let (neff, bytes) = files()?;
    let mut document = Document::parse(bytes.clone())?;
    let answer = document.set_dynamic_batching_mixed(&[true, false], &[true]);
    refused("two marks for one input", answer).map(drop)?;
    equal("the bytes", document.to_vec(), bytes)?;
    document.set_dynamic_batching_mixed(&[true], &[false])?;
    let message = document.message()?;
    let marks = (
        message.input_tensors[0].allow_dynamic_batch_size,
        message.output_tensors[0].allow_dynamic_batch_size,
    );
    equal("the marks", marks, (true, false))?;
    still_doubles(backend, neff, document.to_vec())
}

fn unknown_kept<B: Backend>(backend: B) -> Result<(), Failure> {
    let (neff, bytes) = files()?;
    let mut document = Document::parse(bytes)?;
    let paths = |document: &Document| -> Vec<_> {
        let fields = document.unknown_fields();
        fields
            .into_iter()
            .map(|field| (field.path, field.number))
            .collect()
    };
    let before = paths(&document);
    equal("fields of a later time", before.len(), 3)?;
    document.set_async_load(true);
    document.set_return_aliases(true);
    document.set_dynamic_batching(true);
    equal("the same fields", paths(&document), before)?;
    still_doubles(backend, neff, document.to_vec())
}

fn undone<B: Backend>(backend: B) -> Result<(), Failure> {
    let (neff, bytes) = files()?;
    let mut document = Document::parse(bytes)?;
    let before = document.message()?;
    document.set_lazy_load(true);
    document.set_lazy_load(false);
    equal("the message", document.message()?, before)?;
    still_doubles(backend, neff, document.to_vec())
}
