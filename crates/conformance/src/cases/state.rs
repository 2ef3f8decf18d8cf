//! States, aliases, donation and weights.

use metaneff_binding::{
    Backend, BindError, Core, ExecuteError, OutputError, Runtime, StatesError, WeightsError,
};
use metaneff_schema::nrt::Status;
use metaneff_schema::xla::PrimitiveType::F32;

use crate::case::{Case, Failure, Setup, equal, holds, refused};
use crate::graph::Graph;
use crate::models::{
    Must as _, accumulate, artifact, floats, load, read_floats, run_floats, subtract, weighted,
};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    const DONATION: &str = "page 4.6";
    vec![
        Case::new(
            "alias/state/donated",
            "a state moves through launches and accumulates",
            DONATION,
            donated,
        ),
        Case::new(
            "alias/state/never_copied",
            "a donated state causes no transfer of its own",
            "user need 58",
            never_copied,
        ),
        Case::new(
            "alias/state/given",
            "a state starts from given values",
            DONATION,
            given,
        ),
        Case::new(
            "alias/state/read",
            "a state is read back by its key",
            DONATION,
            read_back,
        ),
        Case::new(
            "alias/state/independent",
            "two sequences of one session do not mix",
            DONATION,
            independent,
        ),
        Case::new(
            "alias/state/missing",
            "a launch without the state is refused and gives its inputs back",
            DONATION,
            missing_state,
        ),
        Case::new(
            "alias/output_order/state_first",
            "an alias follows the output's index, not its place in the code",
            "user need 55",
            state_first,
        ),
        Case::new(
            "alias/return_aliases/false",
            "aliased outputs are hidden and the state still changes",
            "user need 56",
            hidden,
        ),
        Case::new(
            "alias/return_aliases/true",
            "aliased outputs are shown",
            "user need 56",
            shown,
        ),
        Case::new(
            "alias/caller/rebound",
            "an aliased user input comes back as a device tensor and is bound again",
            "torch_neuronx 1.13, trace",
            rebound,
        ),
        Case::new(
            "alias/failure/state_returned",
            "a failed execution gives states and inputs back",
            "DESIGN, donation",
            failed,
        )
        .with(Setup::ONE_CORE.environment(&[("METANEFF_SIM_FAULTS", "execute@2=fail:1")])),
        Case::new(
            "alias/failure/completed_with_error",
            "status 1004 keeps the outputs reachable",
            "user need 6",
            completed_with_error,
        )
        .with(Setup::ONE_CORE.environment(&[("METANEFF_SIM_FAULTS", "execute@1=fail:1004")])),
        Case::new(
            "weights/resident/uploaded_once",
            "weights move once",
            "user need 58",
            resident,
        ),
        Case::new(
            "weights/replace/atomic",
            "replacing weights is all or nothing",
            "user need 59",
            replaced,
        ),
        Case::new(
            "weights/missing/named",
            "a missing weight is named",
            "page 5",
            missing_weight,
        ),
        Case::new(
            "weights/constant/equal",
            "a weight and a constant of the same value compute the same",
            "user need 60",
            constant,
        ),
    ]
}

fn donated<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &accumulate(true)?)?;
    let mut session = model.session().must()?;
    let mut state = session.zero_states().must()?;
    for step in 1..=5_u8 {
        let x = session
            .slot("x")
            .must()?
            .validate(floats(&[1.0, 2.0])?)
            .must()?;
        let (outputs, next) = session
            .bind([x])
            .must()?
            .execute(state)
            .must()?
            .tolerate_nan()
            .into_parts();
        let sum = f32::from(step);
        equal(
            "twice the sum",
            read_floats(&outputs, 0)?,
            vec![2.0 * sum, 4.0 * sum],
        )?;
        drop(outputs);
        state = next;
    }
    equal(
        "the sum",
        state.get("sum").must()?.to_vec::<f32>().must()?,
        vec![5.0, 10.0],
    )
}

fn never_copied<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &accumulate(false)?)?;
    let mut session = model.session().must()?;
    let state = session.zero_states().must()?;
    let Some(before) = runtime.transfers() else {
        return Ok(());
    };
    let x = session
        .slot("x")
        .must()?
        .validate(floats(&[1.0, 1.0])?)
        .must()?;
    let (_, state) = session
        .bind([x])
        .must()?
        .execute(state)
        .must()?
        .tolerate_nan()
        .into_parts();
    let x = session
        .slot("x")
        .must()?
        .validate(floats(&[1.0, 1.0])?)
        .must()?;
    let _ = session
        .bind([x])
        .must()?
        .execute(state)
        .must()?
        .tolerate_nan();
    let after = runtime.transfers().unwrap_or_default();
    equal(
        "bytes to the device",
        after.host_to_device - before.host_to_device,
        16,
    )?;
    equal(
        "bytes from the device",
        after.device_to_host - before.device_to_host,
        0,
    )?;
    equal(
        "bytes between tensors",
        after.device_to_device - before.device_to_device,
        0,
    )
}

fn given<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &accumulate(true)?)?;
    let mut session = model.session().must()?;
    let start = session
        .slot("sum")
        .must()?
        .validate(floats(&[10.0, 20.0])?)
        .must()?;
    let state = session.states(vec![start]).must()?;
    let x = session
        .slot("x")
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let (outputs, _) = session
        .bind([x])
        .must()?
        .execute(state)
        .must()?
        .tolerate_nan()
        .into_parts();
    equal("the sum", read_floats(&outputs, 1)?, vec![11.0, 22.0])
}

fn read_back<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &accumulate(true)?)?;
    let session = model.session().must()?;
    let start = session
        .slot("sum")
        .must()?
        .validate(floats(&[3.0, 4.0])?)
        .must()?;
    let state = session.states(vec![start]).must()?;
    equal(
        "the state",
        state.get("sum").must()?.to_vec::<f32>().must()?,
        vec![3.0, 4.0],
    )?;
    let error = refused("reading an input as a state", state.get("x"))?;
    holds(
        "the error says that it is none",
        matches!(error, StatesError::NotAState { .. }),
    )
}

fn independent<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &accumulate(false)?)?;
    let mut session = model.session().must()?;
    let mut one = session.zero_states().must()?;
    let mut two = session.zero_states().must()?;
    for _ in 0..3 {
        let x = session
            .slot("x")
            .must()?
            .validate(floats(&[1.0, 1.0])?)
            .must()?;
        one = session
            .bind([x])
            .must()?
            .execute(one)
            .must()?
            .tolerate_nan()
            .into_parts()
            .1;
        let x = session
            .slot("x")
            .must()?
            .validate(floats(&[100.0, 0.0])?)
            .must()?;
        two = session
            .bind([x])
            .must()?
            .execute(two)
            .must()?
            .tolerate_nan()
            .into_parts()
            .1;
    }
    equal(
        "the first",
        one.get("sum").must()?.to_vec::<f32>().must()?,
        vec![3.0, 3.0],
    )?;
    equal(
        "the second",
        two.get("sum").must()?.to_vec::<f32>().must()?,
        vec![300.0, 0.0],
    )
}

fn missing_state<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &accumulate(true)?)?;
    let mut session = model.session().must()?;
    let x = session
        .slot("x")
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let failed = refused(
        "a launch without state",
        session.bind([x]).must()?.execute(()),
    )?;
    equal(
        "the reason",
        failed.reason().clone(),
        ExecuteError::StatesMissing { expected: 1 },
    )?;
    let ([x], _) = failed.into_inputs();
    equal("the input", x.to_vec::<f32>().must()?, vec![1.0, 2.0])
}

fn state_first<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let state = graph.parameter(F32, &[3]);
    let x = graph.parameter(F32, &[3]);
    let next = graph.elementwise("add", &[state, x]);
    let shown = graph.elementwise("negate", &[next]);
    graph.alias(0, 0);
    let artifact = artifact(graph.finish(&[next, shown]), |m| {
        m.state(0, "s").user_input(1, "x").return_aliases(true)
    })?;
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &artifact)?;
    let mut session = model.session().must()?;
    let start = session
        .slot("s")
        .must()?
        .validate(floats(&[1.0, 2.0, 3.0])?)
        .must()?;
    let state = session.states(vec![start]).must()?;
    let x = session
        .slot("x")
        .must()?
        .validate(floats(&[0.0, 0.0, 1.0])?)
        .must()?;
    let (outputs, state) = session
        .bind([x])
        .must()?
        .execute(state)
        .must()?
        .tolerate_nan()
        .into_parts();
    equal(
        "output 1",
        read_floats(&outputs, 1)?,
        vec![-1.0, -2.0, -4.0],
    )?;
    drop(outputs);
    equal(
        "the state",
        state.get("s").must()?.to_vec::<f32>().must()?,
        vec![1.0, 2.0, 4.0],
    )
}

fn hidden<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &accumulate(false)?)?;
    let mut session = model.session().must()?;
    let state = session.zero_states().must()?;
    let x = session
        .slot("x")
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let (outputs, state) = session
        .bind([x])
        .must()?
        .execute(state)
        .must()?
        .tolerate_nan()
        .into_parts();
    equal("visible outputs", outputs.len(), 1)?;
    let error = refused("reading a hidden output", outputs.get(1))?;
    holds(
        "the error says that it is hidden",
        matches!(error, OutputError::Hidden { .. }),
    )?;
    drop(outputs);
    equal(
        "the state",
        state.get("sum").must()?.to_vec::<f32>().must()?,
        vec![1.0, 2.0],
    )
}

fn shown<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &accumulate(true)?)?;
    let mut session = model.session().must()?;
    let state = session.zero_states().must()?;
    let x = session
        .slot("x")
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let (outputs, _) = session
        .bind([x])
        .must()?
        .execute(state)
        .must()?
        .tolerate_nan()
        .into_parts();
    equal("visible outputs", outputs.len(), 2)?;
    equal(
        "the state's output",
        read_floats(&outputs, 1)?,
        vec![1.0, 2.0],
    )
}

fn rebound<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let buffer = graph.parameter(F32, &[2]);
    let sum = graph.elementwise("add", &[buffer, buffer]);
    graph.alias(0, 0);
    let artifact = artifact(graph.finish(&[sum]), |m| {
        m.without_roles().return_aliases(true)
    })?;
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &artifact)?;
    let mut session = model.session().must()?;
    let host = session
        .slot(0)
        .must()?
        .validate(floats(&[1.0, 3.0])?)
        .must()?;
    let mut bound = session.upload(host).must()?;
    for _ in 0..3 {
        let executed = session.bind([bound]).must()?.execute(()).must()?;
        let mut outputs = executed.tolerate_nan().into_outputs();
        bound = outputs.take(0).must()?;
    }
    equal(
        "doubled three times",
        bound.to_vec::<f32>().must()?,
        vec![8.0, 24.0],
    )
}

fn failed<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &accumulate(false)?)?;
    let mut session = model.session().must()?;
    let state = session.zero_states().must()?;
    let x = session
        .slot("x")
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let state = session
        .bind([x])
        .must()?
        .execute(state)
        .must()?
        .tolerate_nan()
        .into_parts()
        .1;
    let x = session
        .slot("x")
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let failed = refused(
        "the second launch",
        session.bind([x]).must()?.execute(state),
    )?;
    match failed.reason() {
        ExecuteError::Backend(error) => equal("status", error.status(), Status::FAILURE)?,
        other => {
            return Err(Failure::new(format!(
                "expected a backend's error, found {other}"
            )));
        }
    }
    let ([x], state) = failed.into_inputs();
    let sum = state.get("sum").must()?.to_vec::<f32>().must()?;
    equal("the state after the failure", sum, vec![1.0, 2.0])?;
    let state = session
        .bind([x])
        .must()?
        .execute(state)
        .must()?
        .tolerate_nan()
        .into_parts()
        .1;
    equal(
        "the state",
        state.get("sum").must()?.to_vec::<f32>().must()?,
        vec![2.0, 4.0],
    )
}

fn completed_with_error<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &subtract()?)?;
    let mut session = model.session().must()?;
    let a = session
        .slot("a")
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let b = session
        .slot("b")
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let failed = refused("status 1004", session.bind([a, b]).must()?.execute(()))?;
    let outputs = failed
        .outputs()
        .ok_or_else(|| Failure::new("the outputs are gone"))?;
    equal("outputs", outputs.len(), 1)?;
    outputs.get(0).must()?.to_vec::<f32>().must().map(drop)
}

fn resident<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &weighted()?)?;
    let weight = model
        .slot("layer.weight")
        .must()?
        .validate(floats(&[2.0, 3.0])?)
        .must()?;
    model.load_weights(vec![weight]).must()?;
    let mut session = model.session().must()?;
    equal(
        "x * w",
        run_floats(&mut session, &[("x", &[1.0, 1.0])])?,
        vec![2.0, 3.0],
    )?;
    let Some(before) = runtime.transfers() else {
        return Ok(());
    };
    equal(
        "x * w",
        run_floats(&mut session, &[("x", &[2.0, 2.0])])?,
        vec![4.0, 6.0],
    )?;
    let after = runtime.transfers().unwrap_or_default();
    equal(
        "bytes to the device",
        after.host_to_device - before.host_to_device,
        8,
    )
}

fn replaced<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &weighted()?)?;
    let weight = |values| {
        model
            .slot("layer.weight")
            .must()?
            .validate(floats(values)?)
            .must()
    };
    model.load_weights(vec![weight(&[2.0, 2.0])?]).must()?;
    let mut session = model.session().must()?;
    equal(
        "w = 2",
        run_floats(&mut session, &[("x", &[3.0, 3.0])])?,
        vec![6.0, 6.0],
    )?;
    model.load_weights(vec![weight(&[5.0, 5.0])?]).must()?;
    equal(
        "w = 5",
        run_floats(&mut session, &[("x", &[3.0, 3.0])])?,
        vec![15.0, 15.0],
    )?;
    let twice = vec![weight(&[7.0, 7.0])?, weight(&[8.0, 8.0])?];
    let rejected = refused("two tensors for one weight", model.load_weights(twice))?;
    equal("tensors given back", rejected.input().len(), 2)?;
    equal(
        "still w = 5",
        run_floats(&mut session, &[("x", &[3.0, 3.0])])?,
        vec![15.0, 15.0],
    )
}

fn missing_weight<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &weighted()?)?;
    let rejected = refused("no weights", model.load_weights(Vec::new()))?;
    match rejected.reason() {
        WeightsError::Missing(missing) => {
            let key = missing.slots.first().and_then(|slot| slot.key.as_deref());
            equal("the missing key", key, Some("layer.weight"))?;
        }
        other => {
            return Err(Failure::new(format!(
                "expected a missing weight, found {other}"
            )));
        }
    }
    let mut session = model.session().must()?;
    let x = session
        .slot("x")
        .must()?
        .validate(floats(&[1.0, 1.0])?)
        .must()?;
    let rejected = refused("a launch without weights", session.bind([x]))?;
    holds(
        "the reason is what is missing",
        matches!(rejected.reason(), BindError::Missing(_)),
    )
}

fn constant<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let w = graph.constant(0.1);
    let w = graph.splat(w, &[2]);
    let product = graph.elementwise("multiply", &[x, w]);
    let inlined = artifact(graph.finish(&[product]), |m| m.user_input(0, "x"))?;
    let runtime = Runtime::new(backend);
    let inlined = runtime.load(&inlined, Core::new(0)).must()?;
    let separate = runtime.load(&weighted()?, Core::new(0)).must()?;
    let weight = separate
        .slot("layer.weight")
        .must()?
        .validate(floats(&[0.1, 0.1])?)
        .must()?;
    separate.load_weights(vec![weight]).must()?;
    let x = [1.0_f32 / 3.0, 1e-7];
    let inputs: &[(&str, &[f32])] = &[("x", &x)];
    let product = x.map(|x| (x * 0.1).to_bits());
    let one = run_floats(&mut inlined.session().must()?, inputs)?;
    let two = run_floats(&mut separate.session().must()?, inputs)?;
    for (what, found) in [("the constant's", one), ("the weight's", two)] {
        let bits: Vec<_> = found.iter().map(|x| x.to_bits()).collect();
        equal(what, bits, product.to_vec())?;
    }
    Ok(())
}
