//! What a launch computes, and how it ends.

use half::{bf16, f16};
use metaneff_binding::{Backend, Completion, Core, Element, HostTensor, Runtime};
use metaneff_schema::xla::PrimitiveType::{self, Bf16, F16, F32, Pred, S8, S16, S32, S64, U8, U16};

use crate::case::{Case, Failure, Setup, equal, holds, refused};
use crate::graph::Graph;
use crate::models::{Must as _, artifact, divide, floats, load, read_floats, run_floats, subtract};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    const MAP: &str = "page 4.2, data type map";
    const COMPLETION: &str = "nrt_status.h, 1003; user need 71";
    vec![
        Case::new(
            "execute/order/operands",
            "operands keep their order",
            "page 4.5",
            operands,
        ),
        Case::new(
            "execute/order/outputs",
            "outputs come in ordinal order",
            "page 4.5",
            outputs,
        ),
        Case::new(
            "execute/order/unused_input",
            "an unused input keeps its slot, and later ones theirs",
            "user need 33",
            unused_input,
        ),
        Case::new(
            "execute/root/without_tuple",
            "a root that is no tuple is output 0",
            "user need 42",
            without_tuple,
        ),
        Case::new(
            "execute/shape/scalar",
            "rank 0 binds its bytes",
            "user need 44",
            scalar,
        ),
        Case::new(
            "execute/shape/matmul",
            "a matrix product over distinct sizes",
            "XLA",
            matmul,
        ),
        Case::new("execute/dtype/f32", "f32 passes unchanged", MAP, |b| {
            passes(b, F32, &[1.5_f32, -0.0, f32::MAX, f32::INFINITY])
        }),
        Case::new("execute/dtype/bf16", "bf16 passes unchanged", MAP, |b| {
            passes(
                b,
                Bf16,
                &[
                    bf16::from_f32(1.0),
                    bf16::from_f32(-2.5),
                    bf16::MAX,
                    bf16::ZERO,
                ],
            )
        }),
        Case::new("execute/dtype/f16", "f16 passes unchanged", MAP, |b| {
            passes(
                b,
                F16,
                &[f16::from_f32(1.0), f16::from_f32(-2.5), f16::MAX, f16::ZERO],
            )
        }),
        Case::new("execute/dtype/s8", "int8 passes unchanged", MAP, |b| {
            passes(b, S8, &[i8::MIN, -1, 0, i8::MAX])
        }),
        Case::new("execute/dtype/u8", "uint8 passes unchanged", MAP, |b| {
            passes(b, U8, &[0_u8, 1, 128, u8::MAX])
        }),
        Case::new("execute/dtype/s16", "int16 passes unchanged", MAP, |b| {
            passes(b, S16, &[i16::MIN, -1, 0, i16::MAX])
        }),
        Case::new("execute/dtype/u16", "uint16 passes unchanged", MAP, |b| {
            passes(b, U16, &[0_u16, 1, 32_768, u16::MAX])
        }),
        Case::new("execute/dtype/s32", "int32 passes unchanged", MAP, |b| {
            passes(b, S32, &[i32::MIN, -1, 0, i32::MAX])
        }),
        Case::new(
            "execute/dtype/s64",
            "int64 comes back as int64",
            "user need 34",
            |b| passes(b, S64, &[i64::MIN, -1, 5_000_000_000, i64::MAX]),
        ),
        Case::new("execute/dtype/bool", "bool passes unchanged", MAP, |b| {
            passes(b, Pred, &[true, false, false, true])
        }),
        Case::new(
            "execute/repeat/same_inputs",
            "a launch repeats",
            "page 4.5",
            repeated,
        ),
        Case::new(
            "execute/repeat/new_inputs",
            "a launch sees its own inputs",
            "page 4.5",
            rewritten,
        ),
        Case::new(
            "execute/completion/clean",
            "numbers complete cleanly",
            COMPLETION,
            clean,
        ),
        Case::new(
            "execute/completion/nan",
            "a NaN in an output is a completion with readable outputs",
            COMPLETION,
            nan,
        ),
        Case::new(
            "execute/completion/infinity",
            "overflow is benign and not reported",
            COMPLETION,
            infinity,
        ),
        Case::new(
            "execute/completion/rejected",
            "a caller may reject a NaN and still has the outputs",
            COMPLETION,
            rejected,
        ),
        Case::new(
            "execute/completion/hidden_nan",
            "a NaN that no output shows is clean by default",
            "user need 71",
            |b| hidden_nan(b, Completion::Clean),
        ),
        Case::new(
            "execute/completion/hidden_nan_device",
            "a NaN in any intermediate counts where the device's policy is asked for",
            "user need 71",
            |b| hidden_nan(b, Completion::NumericalError),
        )
        .with(Setup::ONE_CORE.environment(&[("METANEFF_SIM_NAN", "any")])),
        Case::new(
            "execute/threads/sessions",
            "sessions of one model run from eight threads with their own results",
            "user needs 13, 70",
            threads,
        ),
    ]
}

fn operands<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &subtract()?)?;
    let mut session = model.session().must()?;
    let difference = run_floats(
        &mut session,
        &[("input0", &[5.0, 1.0]), ("input1", &[2.0, 4.0])],
    )?;
    equal("input0 - input1", difference, vec![3.0, -3.0])
}

fn outputs<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let negated = graph.elementwise("negate", &[x]);
    let doubled = graph.elementwise("add", &[x, x]);
    let artifact = artifact(graph.finish(&[negated, x, doubled]), |m| m)?;
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &artifact)?;
    let mut session = model.session().must()?;
    let input = session
        .slot(0)
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let outputs = session
        .bind([input])
        .must()?
        .execute(())
        .must()?
        .tolerate_nan()
        .into_outputs();
    equal("outputs", outputs.len(), 3)?;
    equal("output 0", read_floats(&outputs, 0)?, vec![-1.0, -2.0])?;
    equal("output 1", read_floats(&outputs, 1)?, vec![1.0, 2.0])?;
    equal("output 2", read_floats(&outputs, 2)?, vec![2.0, 4.0])?;
    let by_name = outputs.get("output2").must()?.to_vec::<f32>().must()?;
    equal("output2 by name", by_name, vec![2.0, 4.0])
}

fn unused_input<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let a = graph.parameter(F32, &[1]);
    graph.parameter(F32, &[3]);
    let c = graph.parameter(F32, &[1]);
    let difference = graph.elementwise("subtract", &[a, c]);
    let artifact = artifact(graph.finish(&[difference]), |m| m)?;
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &artifact)?;
    let mut session = model.session().must()?;
    let inputs: &[(&str, &[f32])] = &[
        ("input2", &[4.0]),
        ("input0", &[9.0]),
        ("input1", &[7.0, 7.0, 7.0]),
    ];
    equal(
        "input0 - input2",
        run_floats(&mut session, inputs)?,
        vec![5.0],
    )
}

fn without_tuple<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let sum = graph.elementwise("add", &[x, x]);
    let artifact = artifact(graph.finish_without_tuple(sum), |m| m)?;
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &artifact)?;
    let mut session = model.session().must()?;
    equal(
        "x + x",
        run_floats(&mut session, &[("input0", &[1.0, -3.0])])?,
        vec![2.0, -6.0],
    )
}

fn scalar<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[]);
    let sum = graph.elementwise("add", &[x, x]);
    let artifact = artifact(graph.finish(&[sum]), |m| m)?;
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &artifact)?;
    let mut session = model.session().must()?;
    let slot = session.slot(0).must()?;
    equal("bytes of a scalar", slot.byte_size(), 4)?;
    let input = slot.validate(HostTensor::scalar(1.25_f32)).must()?;
    let outputs = session
        .bind([input])
        .must()?
        .execute(())
        .must()?
        .tolerate_nan()
        .into_outputs();
    equal("x + x", read_floats(&outputs, 0)?, vec![2.5])
}

fn matmul<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let a = graph.parameter(F32, &[2, 3]);
    let b = graph.parameter(F32, &[3, 2]);
    let product = graph.matmul(a, b);
    let artifact = artifact(graph.finish(&[product]), |m| m)?;
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &artifact)?;
    let mut session = model.session().must()?;
    let tensor = |shape: [usize; 2], values: &'static [f32]| HostTensor::from_slice(shape, values);
    let a = tensor([2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).must()?;
    let b = tensor([3, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]).must()?;
    let a = session.slot(0).must()?.validate(a).must()?;
    let b = session.slot(1).must()?.validate(b).must()?;
    let outputs = session
        .bind([a, b])
        .must()?
        .execute(())
        .must()?
        .tolerate_nan()
        .into_outputs();
    equal(
        "shape",
        outputs.get(0).must()?.shape().to_string(),
        "[2, 2]".to_owned(),
    )?;
    equal(
        "product",
        read_floats(&outputs, 0)?,
        vec![4.0, 5.0, 10.0, 11.0],
    )
}

/// Copies four elements through the device and compares their bytes.
fn passes<B: Backend, T: Element + PartialEq + std::fmt::Debug>(
    backend: B,
    element: PrimitiveType,
    values: &[T],
) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(element, &[4]);
    let copy = graph.elementwise("copy", &[x]);
    let artifact = artifact(graph.finish(&[copy]), |m| m)?;
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &artifact)?;
    let mut session = model.session().must()?;
    let host = HostTensor::from_slice([4], values).must()?;
    let bytes = host.bytes().to_vec();
    let input = session.slot(0).must()?.validate(host).must()?;
    let outputs = session
        .bind([input])
        .must()?
        .execute(())
        .must()?
        .tolerate_nan()
        .into_outputs();
    let output = outputs.get(0).must()?;
    equal("elements", output.to_vec::<T>().must()?, values.to_vec())?;
    equal("bytes", output.to_host().must()?.bytes().to_vec(), bytes)
}

fn repeated<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &subtract()?)?;
    let mut session = model.session().must()?;
    for _ in 0..20 {
        let difference = run_floats(&mut session, &[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
        equal("a - b", difference, vec![3.0, -3.0])?;
    }
    Ok(())
}

fn rewritten<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &subtract()?)?;
    let mut session = model.session().must()?;
    for step in [1.0_f32, 2.0, 3.0, 4.0] {
        let difference = run_floats(&mut session, &[("a", &[step, step]), ("b", &[1.0, -step])])?;
        equal("a - b", difference, vec![step - 1.0, step + step])?;
    }
    Ok(())
}

/// Executes `x / y` and gives completion and quotient.
fn quotient<B: Backend>(
    backend: B,
    x: &[f32],
    y: &[f32],
) -> Result<(Completion, Vec<f32>), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &divide()?)?;
    let mut session = model.session().must()?;
    let x = session.slot("x").must()?.validate(floats(x)?).must()?;
    let y = session.slot("y").must()?.validate(floats(y)?).must()?;
    let executed = session.bind([x, y]).must()?.execute(()).must()?;
    let completion = executed.completion();
    Ok((
        completion,
        read_floats(&executed.tolerate_nan().into_outputs(), 0)?,
    ))
}

fn clean<B: Backend>(backend: B) -> Result<(), Failure> {
    let (completion, quotient) = quotient(backend, &[6.0, 1.0], &[3.0, 4.0])?;
    equal("completion", completion, Completion::Clean)?;
    equal("x / y", quotient, vec![2.0, 0.25])
}

fn nan<B: Backend>(backend: B) -> Result<(), Failure> {
    let (completion, quotient) = quotient(backend, &[0.0, 1.0], &[0.0, 4.0])?;
    equal("completion", completion, Completion::NumericalError)?;
    holds("0 / 0 is NaN", quotient[0].is_nan())?;
    equal("the other element", quotient[1], 0.25)
}

fn infinity<B: Backend>(backend: B) -> Result<(), Failure> {
    let (completion, quotient) = quotient(backend, &[1.0, -1.0], &[0.0, 0.0])?;
    equal("completion", completion, Completion::Clean)?;
    equal("x / 0", quotient, vec![f32::INFINITY, f32::NEG_INFINITY])
}

fn rejected<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &divide()?)?;
    let mut session = model.session().must()?;
    let x = session
        .slot("x")
        .must()?
        .validate(floats(&[0.0, 8.0])?)
        .must()?;
    let y = session
        .slot("y")
        .must()?
        .validate(floats(&[0.0, 2.0])?)
        .must()?;
    let executed = session.bind([x, y]).must()?.execute(()).must()?;
    let rejected = refused("a NaN that is rejected", executed.reject_nan())?;
    let outputs = rejected.into_input().into_outputs();
    equal("the other element", read_floats(&outputs, 0)?[1], 4.0)
}

fn hidden_nan<B: Backend>(backend: B, expected: Completion) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[]);
    let never = graph.parameter(Pred, &[]);
    let undefined = graph.elementwise("divide", &[x, x]);
    // `select(never, undefined, x)`: the NaN is computed and not chosen.
    let chosen = graph.select(never, undefined, x);
    let artifact = artifact(graph.finish(&[chosen]), |m| m)?;
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &artifact)?;
    let mut session = model.session().must()?;
    let x = session
        .slot(0)
        .must()?
        .validate(HostTensor::scalar(0.0_f32))
        .must()?;
    let never = session
        .slot(1)
        .must()?
        .validate(HostTensor::scalar(false))
        .must()?;
    let executed = session.bind([x, never]).must()?.execute(()).must()?;
    equal("completion", executed.completion(), expected)?;
    let outputs = executed.tolerate_nan().into_outputs();
    equal("the chosen value", read_floats(&outputs, 0)?, vec![0.0])
}

fn threads<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = runtime.load(&subtract()?, Core::new(0)).must()?;
    std::thread::scope(|scope| {
        let workers: Vec<_> = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
            .into_iter()
            .map(|own| {
                let model = &model;
                scope.spawn(move || {
                    let mut session = model.session().must()?;
                    for _ in 0..25 {
                        let inputs: &[(&str, &[f32])] = &[("a", &[own, 0.0]), ("b", &[0.0, own])];
                        equal("a - b", run_floats(&mut session, inputs)?, vec![own, -own])?;
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| {
            worker
                .join()
                .map_err(|_| Failure::new("a thread panicked"))?
        })
    })
}
