//! What is bound to slots: states, weights, tensors on the device, outputs.

use metaneff_binding::{
    Backend, BindError, Core, ExecuteError, OutputError, Runtime, StatesError, WeightsError,
};
use metaneff_schema::xla::PrimitiveType::F32;

use crate::bench::Bench;
use crate::case::{Case, Failure, Setup, equal, holds, refused};
use crate::graph::Graph;
use crate::models::{
    Must as _, accumulate, artifact, floats, identity, load, read_floats, subtract, weighted,
};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    const TYPES: &str = "DESIGN, typestate";
    vec![
        Case::new(
            "slot/bind/state_as_input",
            "a state is no input of a launch",
            TYPES,
            state_as_input,
        ),
        Case::new(
            "slot/bind/weight_as_input",
            "a weight is no input of a launch",
            TYPES,
            weight_as_input,
        ),
        Case::new(
            "slot/bind/input_as_state",
            "an input is no state",
            TYPES,
            input_as_state,
        ),
        Case::new(
            "slot/bind/input_as_weight",
            "an input is no weight",
            TYPES,
            input_as_weight,
        ),
        Case::new(
            "slot/bind/foreign_states",
            "states of another model are refused and given back",
            TYPES,
            foreign_states,
        ),
        Case::new(
            "slot/bind/states_shown",
            "states that outputs still show are not given away",
            "page 4.6",
            states_shown,
        ),
        Case::new(
            "slot/device/uploaded",
            "a tensor that was uploaded once is bound many times",
            "page 4.5, device tensors",
            uploaded,
        ),
        Case::new(
            "slot/device/lent",
            "a tensor on loan stays the caller's",
            "page 4.5, device tensors",
            lent,
        ),
        Case::new(
            "slot/device/lent_to_donation",
            "a tensor on loan is not given to an output",
            "user need 54",
            lent_to_donation,
        ),
        Case::new(
            "slot/device/adopted",
            "an output becomes the next model's input without the host",
            "page 4.6; user need 126",
            adopted,
        ),
        Case::new(
            "slot/device/unlike",
            "an output of another shape is not adopted, and is given back",
            "page 5",
            unlike,
        ),
        Case::new(
            "slot/device/other_core",
            "a tensor of another core is refused with both cores",
            "user need 14",
            other_core,
        )
        .with(Setup::TWO_CORES),
        Case::new(
            "slot/output/taken",
            "an output that was taken is not there a second time",
            "page 4.6",
            taken,
        ),
        Case::new(
            "slot/output/element_type",
            "reading an output as another type is refused",
            "user need 49",
            read_as_other,
        ),
        Case::new(
            "slot/output/read_into",
            "an output is read into the caller's memory, whose size must fit",
            "nrt.h, nrt_tensor_read",
            read_into,
        ),
        Case::new(
            "slot/weights/foreign",
            "weights of another model are refused and given back",
            TYPES,
            foreign_weights,
        ),
        Case::new(
            "slot/states/written",
            "a state is written between launches",
            "page 4.6",
            state_written,
        ),
    ]
}
fn state_as_input<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &accumulate(true)?)?;
    let x = bench.floats("x", &[1.0, 2.0])?;
    let sum = bench.floats("sum", &[1.0, 2.0])?;
    let rejected = refused("a state as input", bench.session.bind([x, sum]))?;
    holds(
        "the reason",
        matches!(rejected.reason(), BindError::NotAUserInput { .. }),
    )
}

fn weight_as_input<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &weighted()?)?;
    let x = bench.floats("x", &[1.0, 2.0])?;
    let w = bench.floats("layer.weight", &[1.0, 2.0])?;
    let rejected = refused("a weight as input", bench.session.bind([x, w]))?;
    holds(
        "the reason",
        matches!(rejected.reason(), BindError::NotAUserInput { .. }),
    )
}

fn input_as_state<B: Backend>(backend: B) -> Result<(), Failure> {
    let bench = Bench::new(backend, &accumulate(true)?)?;
    let x = bench.floats("x", &[1.0, 2.0])?;
    let rejected = refused("an input as state", bench.session.states(vec![x]))?;
    holds(
        "the reason",
        matches!(rejected.reason(), StatesError::NotAState { .. }),
    )
}

fn input_as_weight<B: Backend>(backend: B) -> Result<(), Failure> {
    let bench = Bench::new(backend, &weighted()?)?;
    let x = bench.floats("x", &[1.0, 2.0])?;
    let rejected = refused("an input as weight", bench.model.load_weights(vec![x]))?;
    holds(
        "the reason",
        matches!(rejected.reason(), WeightsError::NotAWeight { .. }),
    )
}

fn foreign_states<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let artifact = accumulate(true)?;
    let one = load(&runtime, &artifact)?;
    let other = load(&runtime, &accumulate(true)?)?;
    let states = other.session().must()?.zero_states().must()?;
    let mut session = one.session().must()?;
    let x = session
        .slot("x")
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let failed = refused(
        "another model's states",
        session.bind([x]).must()?.execute(states),
    )?;
    holds(
        "the reason",
        matches!(failed.reason(), ExecuteError::ForeignStates { .. }),
    )?;
    let (_, states) = failed.into_inputs();
    equal("states given back", states.len(), 1)
}

fn states_shown<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &accumulate(true)?)?;
    let mut one = model.session().must()?;
    let mut two = model.session().must()?;
    let states = one.zero_states().must()?;
    let x = one
        .slot("x")
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let executed = one.bind([x]).must()?.execute(states).must()?;
    let (outputs, states) = executed.tolerate_nan().into_parts();
    let x = two
        .slot("x")
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let failed = refused(
        "states that are shown",
        two.bind([x]).must()?.execute(states),
    )?;
    equal(
        "the reason",
        failed.reason().clone(),
        ExecuteError::StatesShown,
    )?;
    let ([x], states) = failed.into_inputs();
    equal("the shown state", read_floats(&outputs, 1)?, vec![1.0, 2.0])?;
    drop(outputs);
    let executed = two.bind([x]).must()?.execute(states).must()?;
    equal(
        "the next",
        read_floats(&executed.tolerate_nan().into_outputs(), 1)?,
        vec![2.0, 4.0],
    )
}

fn uploaded<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &subtract()?)?;
    let a = bench
        .session
        .upload(bench.floats("a", &[5.0, 1.0])?)
        .must()?;
    let b = bench
        .session
        .upload(bench.floats("b", &[2.0, 4.0])?)
        .must()?;
    let moved = bench.moved(|bench| {
        for _ in 0..3 {
            let executed = bench.session.bind((&a, &b)).must()?.execute(()).must()?;
            drop(executed.tolerate_nan());
        }
        Ok(())
    })?;
    if let Some(moved) = moved {
        equal("bytes to the device", moved.host_to_device, 0)?;
        equal("executions", moved.executions, 3)?;
    }
    equal("a", a.to_vec::<f32>().must()?, vec![5.0, 1.0])
}

fn lent<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &subtract()?)?;
    let a = bench
        .session
        .upload(bench.floats("a", &[5.0, 1.0])?)
        .must()?;
    for b in [[2.0, 4.0], [1.0, 1.0]] {
        let lent = &a;
        let b_tensor = bench.session.upload(bench.floats("b", &b)?).must()?;
        let executed = bench
            .session
            .bind((lent, b_tensor))
            .must()?
            .execute(())
            .must()?;
        let outputs = executed.tolerate_nan().into_outputs();
        equal(
            "a - b",
            read_floats(&outputs, 0)?,
            vec![5.0 - b[0], 1.0 - b[1]],
        )?;
    }
    equal("a", a.to_vec::<f32>().must()?, vec![5.0, 1.0])
}

/// `buffer + buffer`, whose output takes the buffer.
fn donating() -> Result<metaneff_binding::Artifact, Failure> {
    let mut graph = Graph::new();
    let buffer = graph.parameter(F32, &[2]);
    let sum = graph.elementwise("add", &[buffer, buffer]);
    graph.alias(0, 0);
    artifact(graph.finish(&[sum]), |m| m.return_aliases(true))
}

fn lent_to_donation<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &donating()?)?;
    let buffer = bench
        .session
        .upload(bench.floats("input0", &[1.0, 3.0])?)
        .must()?;
    let rejected = refused("a donation on loan", bench.session.bind([&buffer]))?;
    holds(
        "the reason",
        matches!(rejected.reason(), BindError::LentToOutput { .. }),
    )?;
    equal("the buffer", buffer.to_vec::<f32>().must()?, vec![1.0, 3.0])
}

fn adopted<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut first = Bench::new(backend, &subtract()?)?;
    let second = first.runtime.load(&weighted()?, Core::new(0)).must()?;
    let weight = second
        .slot(1)
        .must()?
        .validate(floats(&[10.0, 100.0])?)
        .must()?;
    second.load_weights(vec![weight]).must()?;
    let mut next = second.session().must()?;
    let inputs = first.inputs(&[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
    let executed = first.session.bind(inputs).must()?.execute(()).must()?;
    let difference = executed.tolerate_nan().into_outputs().take(0).must()?;
    let x = next.adopt("x", difference).must()?;
    let executed = next.bind([x]).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    equal("(a - b) * w", read_floats(&outputs, 0)?, vec![30.0, -300.0])
}

fn unlike<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut first = Bench::new(backend, &subtract()?)?;
    let second = first
        .runtime
        .load(&identity(F32, &[2, 1])?, Core::new(0))
        .must()?;
    let next = second.session().must()?;
    let inputs = first.inputs(&[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
    let executed = first.session.bind(inputs).must()?.execute(()).must()?;
    let difference = executed.tolerate_nan().into_outputs().take(0).must()?;
    let rejected = refused("[2] for [2, 1]", next.adopt(0, difference))?;
    holds(
        "the reason",
        matches!(rejected.reason(), BindError::Unlike { .. }),
    )?;
    let difference = rejected.into_input();
    equal("a - b", difference.to_vec::<f32>().must()?, vec![3.0, -3.0])
}

fn other_core<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut first = Bench::new(backend, &subtract()?)?;
    let second = first
        .runtime
        .load(&identity(F32, &[2])?, Core::new(1))
        .must()?;
    let next = second.session().must()?;
    let inputs = first.inputs(&[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
    let executed = first.session.bind(inputs).must()?.execute(()).must()?;
    let difference = executed.tolerate_nan().into_outputs().take(0).must()?;
    let rejected = refused("core 0 for core 1", next.adopt(0, difference))?;
    match rejected.reason() {
        BindError::CoreMismatch {
            expected, found, ..
        } => equal("the cores", (expected.index(), found.index()), (1, 0)),
        other => Err(Failure::new(format!("expected both cores, found {other}"))),
    }
}

fn taken<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &subtract()?)?;
    let inputs = bench.inputs(&[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
    let executed = bench.session.bind(inputs).must()?.execute(()).must()?;
    let mut outputs = executed.tolerate_nan().into_outputs();
    let first = outputs.take(0).must()?;
    let error = refused("taking it again", outputs.take(0))?;
    holds("the reason", matches!(error, OutputError::Taken { .. }))?;
    refused("reading it there", outputs.get(0)).map(drop)?;
    drop(outputs);
    // The next launch has a buffer of its own.
    let difference = bench.run(&[("a", &[1.0, 1.0]), ("b", &[0.0, 1.0])])?;
    equal("the next", difference, vec![1.0, 0.0])?;
    equal("the first", first.to_vec::<f32>().must()?, vec![3.0, -3.0])
}

fn read_as_other<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &subtract()?)?;
    let inputs = bench.inputs(&[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
    let executed = bench.session.bind(inputs).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    let output = outputs.get(0).must()?;
    refused("f32 as i32", output.to_vec::<i32>()).map(drop)?;
    equal("a - b", output.to_vec::<f32>().must()?, vec![3.0, -3.0])
}

fn read_into<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &subtract()?)?;
    let inputs = bench.inputs(&[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
    let executed = bench.session.bind(inputs).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    let output = outputs.get(0).must()?;
    refused("7 bytes of 8", output.read_into(&mut [0; 7])).map(drop)?;
    let mut bytes = [0; 8];
    output.read_into(&mut bytes).must()?;
    equal("a - b", bytes.to_vec(), crate::raw::bytes_of(&[3.0, -3.0]))
}

fn foreign_weights<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let one = load(&runtime, &weighted()?)?;
    let other = load(&runtime, &weighted()?)?;
    let weight = other
        .slot(1)
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let rejected = refused("another model's weight", one.load_weights(vec![weight]))?;
    holds(
        "the reason",
        matches!(rejected.reason(), WeightsError::ForeignTensor { .. }),
    )?;
    other.load_weights(rejected.into_input()).must()
}

fn state_written<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &accumulate(false)?)?;
    let states = bench.session.zero_states().must()?;
    let (_, mut states) = bench.step(&[("x", &[1.0, 2.0])], states)?;
    states.write(bench.floats("sum", &[100.0, 200.0])?).must()?;
    let (_, states) = bench.step(&[("x", &[1.0, 2.0])], states)?;
    let sum = states.get("sum").must()?.to_vec::<f32>().must()?;
    equal("the state", sum, vec![101.0, 202.0])
}
