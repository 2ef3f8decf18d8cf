//! User inputs, states and weights.

use metaneff_binding::{
    Argument, Artifact, Backend, BindError, BoundTensor, Checkpoint, Core, Runtime, Session,
    StatesError,
};
use metaneff_schema::xla::PrimitiveType::F32;

use crate::case::{Case, Failure, Setup, equal, holds, refused};
use crate::graph::Graph;
use crate::models::{Must as _, artifact, floats, identity, load, read_floats, subtract};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    vec![
        Case::new(
            "roles/weights/checkpoint",
            "weights come from safetensors by checkpoint key",
            "user need 58",
            checkpoint,
        ),
        Case::new(
            "roles/weights/partial",
            "some weights are replaced and the others stay",
            "user need 59",
            partial,
        ),
        Case::new(
            "roles/weights/shared",
            "two models hold the same weights without a transfer",
            "user need 58",
            shared,
        ),
        Case::new(
            "roles/states/written",
            "a state is written and read by its key between launches",
            "page 3, checkpoint_key",
            written,
        ),
        Case::new(
            "roles/states/shown",
            "a state that an output shows is not launched from",
            "page 4.6",
            shown,
        ),
        Case::new(
            "roles/binding/every_key",
            "ordinal, device name and argument name find one slot",
            "page 4.5",
            every_key,
        ),
        Case::new(
            "roles/binding/not_a_user_input",
            "weights and states are no inputs of a launch",
            "page 5",
            not_a_user_input,
        ),
        Case::new(
            "roles/chain/on_device",
            "an output goes into another model without leaving the device",
            "page 4.6",
            chained,
        ),
        Case::new(
            "roles/chain/checked",
            "an output of another shape or core is refused and given back",
            "user need 14",
            chain_checked,
        )
        .with(Setup::TWO_CORES),
    ]
}

/// `x * w + state + b`, whose sum is also the state's successor.
fn network() -> Result<Artifact, Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let state = graph.parameter(F32, &[2]);
    let w = graph.parameter(F32, &[2]);
    let b = graph.parameter(F32, &[2]);
    let product = graph.elementwise("multiply", &[x, w]);
    let biased = graph.elementwise("add", &[product, b]);
    let sum = graph.elementwise("add", &[biased, state]);
    let output = graph.elementwise("copy", &[sum]);
    graph.alias(1, 1);
    artifact(graph.finish(&[output, sum]), |m| {
        m.user_input(0, "x")
            .state(1, "sum")
            .weight(2, "layer.weight")
            .weight(3, "layer.bias")
    })
}

/// A safetensors file of `f32[2]` tensors.
pub(super) fn safetensors(tensors: &[(&str, [f32; 2])]) -> Vec<u8> {
    let entries = tensors.iter().enumerate().map(|(i, (key, _))| {
        let (start, end) = (8 * i, 8 * (i + 1));
        format!(r#""{key}":{{"dtype":"F32","shape":[2],"data_offsets":[{start},{end}]}}"#)
    });
    let header = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    for (_, values) in tensors {
        file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
    file
}

/// One launch from zero states.
fn launch<B: Backend>(session: &mut Session<'_, B>, x: [f32; 2]) -> Result<Vec<f32>, Failure> {
    let states = session.zero_states().must()?;
    let x = session.slot("x").must()?.validate(floats(&x)?).must()?;
    let executed = session.bind([x]).must()?.execute(states).must()?;
    read_floats(&executed.tolerate_nan().into_outputs(), 0)
}

fn checkpoint<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &network()?)?;
    let file = safetensors(&[
        ("unused", [9.0, 9.0]),
        ("layer.bias", [0.5, 0.25]),
        ("layer.weight", [2.0, 3.0]),
    ]);
    let checkpoint = Checkpoint::from_bytes(file).must()?;
    model.load_checkpoint(&checkpoint).must()?;
    let mut session = model.session().must()?;
    equal(
        "x * w + b",
        launch(&mut session, [1.0, 2.0])?,
        vec![2.5, 6.25],
    )?;
    let half = safetensors(&[("layer.weight", [7.0, 7.0])]);
    let half = Checkpoint::from_bytes(half).must()?;
    refused(
        "a checkpoint without a weight",
        model.load_checkpoint(&half),
    )?;
    equal(
        "unchanged",
        launch(&mut session, [1.0, 2.0])?,
        vec![2.5, 6.25],
    )
}

fn partial<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &network()?)?;
    let weight = |key: &str, values: [f32; 2]| {
        let tensor = floats(&values)?.into_owned();
        model.slot(key).must()?.validate(tensor).must()
    };
    let both = vec![
        weight("layer.weight", [1.0, 1.0])?,
        weight("layer.bias", [10.0, 20.0])?,
    ];
    model.load_weights(both).must()?;
    let mut session = model.session().must()?;
    equal(
        "before",
        launch(&mut session, [1.0, 2.0])?,
        vec![11.0, 22.0],
    )?;
    let newer = vec![weight("layer.weight", [3.0, 3.0])?];
    model.replace_weights(newer).must()?;
    equal("after", launch(&mut session, [1.0, 2.0])?, vec![13.0, 26.0])
}

fn shared<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let (first, second) = (load(&runtime, &network()?)?, load(&runtime, &network()?)?);
    let file = safetensors(&[("layer.weight", [2.0, 3.0]), ("layer.bias", [0.0, 1.0])]);
    first
        .load_checkpoint(&Checkpoint::from_bytes(file).must()?)
        .must()?;
    let before = runtime.transfers();
    second.share_weights(&first).must()?;
    equal("nothing is moved", runtime.transfers(), before)?;
    let mut session = second.session().must()?;
    equal(
        "x * w + b",
        launch(&mut session, [1.0, 2.0])?,
        vec![2.0, 7.0],
    )?;
    // The weights stay when the model that they came from has gone.
    drop(first);
    equal(
        "x * w + b",
        launch(&mut session, [2.0, 2.0])?,
        vec![4.0, 7.0],
    )
}

fn written<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &network()?)?;
    let file = safetensors(&[("layer.weight", [1.0, 1.0]), ("layer.bias", [0.0, 0.0])]);
    model
        .load_checkpoint(&Checkpoint::from_bytes(file).must()?)
        .must()?;
    let mut session = model.session().must()?;
    let mut states = session.zero_states().must()?;
    let given = session.slot("sum").must()?.validate(floats(&[10.0, 20.0])?);
    states.write(given.must()?).must()?;
    let x = session.slot("x").must()?.validate(floats(&[1.0, 2.0])?);
    let ready = session.bind([x.must()?]).must()?;
    let (_, states) = ready.execute(states).must()?.tolerate_nan().into_parts();
    let sum = states.get("sum").must()?.to_vec::<f32>().must()?;
    equal("the state", sum, vec![11.0, 22.0])?;
    let error = refused("a weight is no state", states.get("layer.bias"))?;
    holds("says so", matches!(error, StatesError::NotAState { .. }))
}

fn shown<B: Backend>(backend: B) -> Result<(), Failure> {
    let artifact = network()?.edit(|metaneff| {
        metaneff.set_return_aliases(true);
        Ok(())
    });
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &artifact.must()?)?;
    let file = safetensors(&[("layer.weight", [1.0, 1.0]), ("layer.bias", [0.0, 0.0])]);
    model
        .load_checkpoint(&Checkpoint::from_bytes(file).must()?)
        .must()?;
    let (mut one, mut two) = (model.session().must()?, model.session().must()?);
    let states = one.zero_states().must()?;
    let input = |session: &Session<'_, B>| {
        let x = floats(&[1.0, 2.0])?.into_owned();
        session.slot("x").must()?.validate(x).must()
    };
    let x = input(&one)?;
    let ready = one.bind([x]).must()?;
    let (outputs, states) = ready.execute(states).must()?.tolerate_nan().into_parts();
    equal("outputs", outputs.len(), 2)?;
    let x = input(&two)?;
    let ready = two.bind([x]).must()?;
    let failed = refused("states that are shown", ready.execute(states))?;
    let (_, states) = failed.into_inputs();
    drop(outputs);
    let x = input(&two)?;
    let ready = two.bind([x]).must()?;
    let (outputs, _) = ready.execute(states).must()?.tolerate_nan().into_parts();
    equal("the second sum", read_floats(&outputs, 0)?, vec![2.0, 4.0])
}

fn every_key<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &network()?)?;
    let by_ordinal = model.slot(2).must()?;
    equal("by device name", model.slot("input2").must()?, by_ordinal)?;
    equal("by key", model.slot("layer.weight").must()?, by_ordinal)?;
    equal(
        "an argument",
        model.slot("x").must()?,
        model.slot(0).must()?,
    )
}

fn not_a_user_input<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &network()?)?;
    let mut session = model.session().must()?;
    for key in ["layer.weight", "sum"] {
        let tensor = session.slot(key).must()?.validate(floats(&[1.0, 1.0])?);
        let rejected = refused(key, session.bind([tensor.must()?]))?;
        holds(
            "the slot is named",
            matches!(rejected.reason(), BindError::NotAUserInput { .. }),
        )?;
    }
    Ok(())
}

/// `a - b` on the device.
fn difference<'rt, B: Backend>(
    session: &mut Session<'rt, B>,
    a: [f32; 2],
    b: [f32; 2],
) -> Result<BoundTensor<'rt, B>, Failure> {
    let tensor = |key: &str, values: &[f32; 2]| {
        let tensor = floats(values)?.into_owned();
        session.slot(key).must()?.validate(tensor).must()
    };
    let inputs = [tensor("a", &a)?, tensor("b", &b)?];
    let ready = session.bind(inputs).must()?;
    let mut outputs = ready.execute(()).must()?.tolerate_nan().into_outputs();
    outputs.take(0).must()
}

fn chained<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let (first, second) = (load(&runtime, &subtract()?)?, load(&runtime, &subtract()?)?);
    let (mut first, mut second) = (first.session().must()?, second.session().must()?);
    let output = difference(&mut first, [9.0, 8.0], [1.0, 2.0])?;
    let before = runtime.transfers();
    let a = Argument::Device(second.adopt("a", output).must()?);
    let b = second.slot("b").must()?.validate(floats(&[1.0, 1.0])?);
    let ready = second.bind([a, Argument::Host(b.must()?)]).must()?;
    let outputs = ready.execute(()).must()?.tolerate_nan().into_outputs();
    if let (Some(before), Some(after)) = (before, runtime.transfers()) {
        let moved = after.host_to_device - before.host_to_device;
        equal("bytes to the device", moved, 8)?;
        equal(
            "bytes to the host",
            after.device_to_host,
            before.device_to_host,
        )?;
    }
    equal("a - b - 1", read_floats(&outputs, 0)?, vec![7.0, 5.0])
}

fn chain_checked<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &subtract()?)?;
    let mut session = model.session().must()?;
    let output = difference(&mut session, [9.0, 8.0], [1.0, 2.0])?;
    let wide = load(&runtime, &identity(F32, &[3])?)?;
    let wide = wide.session().must()?;
    let rejected = refused("two elements for three", wide.adopt(0, output))?;
    holds(
        "both slots are named",
        matches!(rejected.reason(), BindError::Unlike { .. }),
    )?;
    let far = runtime.load(&subtract()?, Core::new(1)).must()?;
    let far = far.session().must()?;
    let rejected = refused("another core", far.adopt("a", rejected.into_input()))?;
    match rejected.reason() {
        BindError::CoreMismatch {
            expected, found, ..
        } => {
            let cores = (*expected, *found);
            equal("cores", cores, (Core::new(1), Core::new(0)))?;
        }
        other => return Err(Failure::new(other.to_string())),
    }
    let same = session.adopt("a", rejected.into_input()).must()?;
    equal("the output", same.to_vec::<f32>().must()?, vec![8.0, 6.0])
}
