//! Batches of any size.

use metaneff_binding::{
    Artifact, Backend, BatchError, Core, HostTensor, Ordinal, Runtime, Session, Tensor, Validated,
};
use metaneff_schema::xla::PrimitiveType::F32;

use crate::case::{Case, Failure, Setup, equal, holds, refused};
use crate::graph::Graph;
use crate::models::{Must as _, artifact, load};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    vec![
        Case::new(
            "batch/size/any",
            "batches below, at and above the compiled size are split, filled up and joined",
            "user needs 45 and 46",
            any_size,
        ),
        Case::new(
            "batch/size/inconsistent",
            "two slots that disagree are both named",
            "user need 45",
            inconsistent,
        ),
        Case::new(
            "batch/flag/fixed",
            "a slot without the flag keeps its size",
            "user need 50",
            fixed,
        ),
        Case::new(
            "batch/scalar/every_launch",
            "a scalar takes no part and goes into every launch",
            "user need 44",
            scalar,
        ),
        Case::new(
            "batch/cores/even",
            "a batch is spread evenly over cores and joined in order",
            "user needs 47 and 48",
            even,
        )
        .with(Setup::TWO_CORES),
    ]
}

/// `x * scale + bias`, over rows of two, compiled for two rows: `scale` is a
/// scalar, `bias` is `f32[2,2]`.
fn affine(bias_varies: bool) -> Result<Artifact, Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2, 2]);
    let scale = graph.parameter(F32, &[]);
    let bias = graph.parameter(F32, &[2, 2]);
    let scales = graph.splat(scale, &[2, 2]);
    let scaled = graph.elementwise("multiply", &[x, scales]);
    let sum = graph.elementwise("add", &[scaled, bias]);
    let artifact = artifact(graph.finish(&[sum]), |m| {
        m.user_input(0, "x")
            .user_input(1, "scale")
            .user_input(2, "bias")
    })?;
    let flags = [true, false, bias_varies];
    let edited = artifact.edit(|metaneff| metaneff.set_dynamic_batching_mixed(&flags, &[true]));
    edited.must()
}

fn row_values(rows: usize) -> Vec<f32> {
    (1..=2 * rows).map(|value| value as f32).collect()
}

fn tensors<'t>(
    artifact: &Artifact,
    rows: usize,
    bias: &[f32],
) -> Result<Vec<Tensor<Validated<'t>>>, Failure> {
    let slot = |key: &str| artifact.contract().slot(key).must();
    let x = HostTensor::from_vec([rows, 2], row_values(rows)).must()?;
    let bias = HostTensor::from_vec([bias.len() / 2, 2], bias.to_vec()).must()?;
    Ok(vec![
        slot("bias")?.validate(bias).must()?,
        slot("x")?.validate(x).must()?,
        slot("scale")?.validate(HostTensor::scalar(10_f32)).must()?,
    ])
}

fn run<B: Backend>(
    session: &mut Session<'_, B>,
    inputs: Vec<Tensor<Validated<'_>>>,
) -> Result<(Vec<f32>, usize), Failure> {
    let executed = session.execute_batch(inputs).must()?;
    let launches = executed.launches();
    let outputs = executed.reject_nan().must()?;
    Ok((outputs.get(0).must()?.to_vec::<f32>().must()?, launches))
}

fn any_size<B: Backend>(backend: B) -> Result<(), Failure> {
    let artifact = affine(true)?;
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &artifact)?;
    let mut session = model.session().must()?;
    for (rows, launches) in [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (0, 0)] {
        let bias: Vec<f32> = row_values(rows).iter().map(|value| value / 4.0).collect();
        let inputs = tensors(&artifact, rows, &bias)?;
        let expected: Vec<f32> = row_values(rows).iter().map(|value| value * 10.25).collect();
        equal(
            "rows and launches",
            run(&mut session, inputs)?,
            (expected, launches),
        )?;
    }
    Ok(())
}

fn inconsistent<B: Backend>(backend: B) -> Result<(), Failure> {
    let artifact = affine(true)?;
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &artifact)?;
    let mut session = model.session().must()?;
    let inputs = tensors(&artifact, 4, &[0.0; 6])?;
    let rejected = refused("4 and 3 rows", session.execute_batch(inputs))?;
    equal("inputs given back", rejected.input().len(), 3)?;
    match rejected.reason() {
        BatchError::Inconsistent {
            first,
            first_rows,
            second,
            second_rows,
            ..
        } => {
            let mut named = [(*first, *first_rows), (*second, *second_rows)];
            named.sort_unstable();
            let ordinal =
                |key: &str| Ok::<Ordinal, Failure>(artifact.contract().slot(key).must()?.ordinal());
            equal("slots", named, [(ordinal("x")?, 4), (ordinal("bias")?, 3)])
        }
        other => Err(Failure::new(other.to_string())),
    }
}

fn fixed<B: Backend>(backend: B) -> Result<(), Failure> {
    let artifact = affine(false)?;
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &artifact)?;
    let mut session = model.session().must()?;
    // The rows of `bias` are those of each launch.
    let inputs = tensors(&artifact, 4, &[0.0, 0.0, 100.0, 100.0])?;
    let expected = vec![10.0, 20.0, 130.0, 140.0, 50.0, 60.0, 170.0, 180.0];
    equal(
        "rows and launches",
        run(&mut session, inputs)?,
        (expected, 2),
    )?;
    let three = HostTensor::from_vec([3, 2], vec![0.0_f32; 6]).must()?;
    let slot = artifact.contract().slot("bias").must()?;
    drop(refused(
        "three rows without the flag",
        slot.validate(three),
    )?);
    let wide = HostTensor::from_vec([2, 3], vec![0.0_f32; 6]).must()?;
    let slot = artifact.contract().slot("x").must()?;
    refused("another row length", slot.validate(wide)).map(drop)
}

fn scalar<B: Backend>(backend: B) -> Result<(), Failure> {
    let artifact = affine(true)?;
    let slot = artifact.contract().slot("scale").must()?;
    holds("a scalar has no batch", !slot.has_dynamic_batch())?;
    let all = artifact.with_dynamic_batching(true).must()?;
    let slot = all.contract().slot("scale").must()?;
    holds("nor when all others have", !slot.has_dynamic_batch())?;
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &all)?;
    let mut session = model.session().must()?;
    let inputs = tensors(&all, 3, &[0.0; 6])?;
    let expected = vec![10.0, 20.0, 30.0, 40.0, 50.0, 60.0];
    equal(
        "rows and launches",
        run(&mut session, inputs)?,
        (expected, 2),
    )
}

fn even<B: Backend>(backend: B) -> Result<(), Failure> {
    let artifact = affine(true)?;
    let runtime = Runtime::new(backend);
    let cores = [Core::new(0), Core::new(1)];
    let mut replicas = runtime.replicate(&artifact, &cores).must()?;
    let on: Vec<Core> = replicas.models().map(|model| model.core()).collect();
    equal("cores", on, cores.to_vec())?;
    for rows in [9_usize, 1, 4] {
        let inputs = tensors(&artifact, rows, &vec![0.5; 2 * rows])?;
        let executed = replicas.execute_batch(inputs).must()?;
        let outputs = executed.reject_nan().must()?;
        let expected: Vec<f32> = row_values(rows).iter().map(|x| x * 10.0 + 0.5).collect();
        equal(
            "rows",
            outputs.get(0).must()?.to_vec::<f32>().must()?,
            expected,
        )?;
    }
    Ok(())
}
