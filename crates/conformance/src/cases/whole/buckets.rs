//! One network compiled for several arguments.

use metaneff_binding::{
    Artifact, Backend, BucketError, Buckets, Checkpoint, DType, Error, Runtime, Shape,
};
use metaneff_schema::xla::PrimitiveType::{Bf16, F32};

use super::roles::safetensors;
use crate::case::{Case, Failure, equal, holds, refused};
use crate::graph::Graph;
use crate::models::{Must as _, artifact, floats, identity, load, read_floats};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    vec![
        Case::new(
            "buckets/share/states_and_weights",
            "buckets go on from each other's states, with one copy of the weights",
            "user needs 58 and 63",
            share,
        ),
        Case::new(
            "buckets/route/element_type",
            "element types choose between buckets of one shape",
            "user need 63",
            element_type,
        ),
        Case::new(
            "buckets/add/ambiguous",
            "two buckets for one call are refused when the second is added",
            "user need 63",
            ambiguous,
        ),
        Case::new(
            "buckets/route/none",
            "a call without a bucket gives everything back",
            "user need 63",
            none,
        ),
    ]
}

/// `state * w + x`, and `+ y` where it is asked for; the sum is the state's
/// successor.
fn step(two: bool) -> Result<Artifact, Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let y = two.then(|| graph.parameter(F32, &[2]));
    let state = graph.parameter(F32, &[2]);
    let w = graph.parameter(F32, &[2]);
    let kept = graph.elementwise("multiply", &[state, w]);
    let mut sum = graph.elementwise("add", &[kept, x]);
    if let Some(y) = y {
        sum = graph.elementwise("add", &[sum, y]);
    }
    let output = graph.elementwise("copy", &[sum]);
    let first = if two { 2 } else { 1 };
    graph.alias(1, first);
    artifact(graph.finish(&[output, sum]), |m| {
        let m = m.user_input(0, "x");
        let m = if two { m.user_input(1, "y") } else { m };
        m.state(first, "cache").weight(first + 1, "decay")
    })
}

fn share<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let (one, two) = (
        load(&runtime, &step(false)?)?,
        load(&runtime, &step(true)?)?,
    );
    let weights = safetensors(&[("decay", [2.0, 3.0])]);
    one.load_checkpoint(&Checkpoint::from_bytes(weights).must()?)
        .must()?;
    let mut buckets = Buckets::new();
    buckets.add("one", &one).must()?;
    buckets.add("two", &two).must()?;
    buckets.share_weights().must()?;
    let Some(session) = buckets.session("two") else {
        return Err(Failure::new("no bucket `two`"));
    };
    let states = session.zero_states().must()?;
    let before = runtime.transfers();
    let arguments = vec![("y", floats(&[1.0, 1.0])?), ("x", floats(&[4.0, 5.0])?)];
    let executed = buckets.execute(arguments, states).must()?;
    let (outputs, states) = executed.tolerate_nan().into_parts();
    equal("0 * w + x + y", read_floats(&outputs, 0)?, vec![5.0, 6.0])?;
    drop(outputs);
    let arguments = vec![("x", floats(&[1.0, 1.0])?)];
    let executed = buckets.execute(arguments, states).must()?;
    let (outputs, states) = executed.tolerate_nan().into_parts();
    equal("state * w + x", read_floats(&outputs, 0)?, vec![11.0, 19.0])?;
    drop(outputs);
    let arguments = vec![("x", floats(&[0.0, 0.0])?), ("y", floats(&[1.0, 1.0])?)];
    let executed = buckets.execute(arguments, states).must()?;
    let (outputs, _) = executed.tolerate_nan().into_parts();
    equal(
        "state * w + x + y",
        read_floats(&outputs, 0)?,
        vec![23.0, 58.0],
    )?;
    if let (Some(before), Some(after)) = (before, runtime.transfers()) {
        let moved = after.host_to_device - before.host_to_device;
        equal("bytes to the device", moved, 5 * 8)?;
        equal(
            "bytes copied",
            after.device_to_device,
            before.device_to_device,
        )?;
    }
    Ok(())
}

fn element_type<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let mut buckets = Buckets::new();
    for (name, element) in [("f32", F32), ("bf16", Bf16)] {
        let model = load(&runtime, &identity(element, &[2])?)?;
        buckets.add(name, &model).must()?;
    }
    let shape = Shape::from([2]);
    for (dtype, name) in [(DType::F32, "f32"), (DType::BF16, "bf16")] {
        let bucket = buckets.route([("input0", dtype, &shape)]).must()?;
        equal("the bucket", bucket, name)?;
    }
    let executed = buckets
        .execute(vec![("input0", floats(&[3.0, 4.0])?)], ())
        .must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    equal("the output", read_floats(&outputs, 0)?, vec![3.0, 4.0])
}

fn ambiguous<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &step(false)?)?;
    let mut buckets = Buckets::new();
    buckets.add("first", &model).must()?;
    match refused("the same arguments", buckets.add("second", &model))? {
        BucketError::Ambiguous { first, second, .. } => {
            equal("both are named", (&*first, &*second), ("first", "second"))
        }
        other => Err(Failure::new(other.to_string())),
    }
}

fn none<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &step(false)?)?;
    let mut buckets = Buckets::new();
    buckets.add("one", &model).must()?;
    let Some(session) = buckets.session("one") else {
        return Err(Failure::new("no bucket `one`"));
    };
    let states = session.zero_states().must()?;
    let arguments = vec![("x", floats(&[1.0, 2.0, 3.0])?)];
    let failed = refused("three elements", buckets.execute(arguments, states))?;
    holds("no route", matches!(failed.reason(), Error::Route(_)))?;
    let (arguments, states) = failed.into_inputs();
    equal("arguments given back", arguments.len(), 1)?;
    equal("states given back", states.len(), 1)
}
