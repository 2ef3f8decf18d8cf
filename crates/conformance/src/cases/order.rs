//! Which calls a backend sees, and in which order: on a mock that expects these
//! and no others.

mod script;

use metaneff_binding::testing::MockBackend;
use metaneff_binding::{BindError, Completion, HostTensor, LoadError, Runtime, SessionError};
use metaneff_schema::nrt::Status;

use crate::bench::Bench;
use crate::case::{Case, Failure, equal, holds, refused};
use crate::models::{Must as _, accumulate, floats, load, read_floats, subtract, weighted};
use script::{Script, pair};

/// The cases of the mock.
#[must_use]
pub fn order_cases() -> Vec<Case<MockBackend>> {
    const BIND: &str = "page 4.5";
    const SET: &str = "page 4.3";
    const BACK: &str = "nrt.h; public clients of the runtime";
    vec![
        Case::new(
            "order/load/calls",
            "a load asks for the core and the tensors, a session makes two sets and a buffer a slot",
            SET,
            loaded,
        ),
        Case::new(
            "order/load/refused",
            "after a refused load nothing is called",
            SET,
            load_refused,
        ),
        Case::new(
            "order/load/other_tensors",
            "a model with other tensors than the contract's is unloaded",
            "page 8; user need 57",
            other_tensors,
        ),
        Case::new(
            "order/load/no_core",
            "a model whose core is not told is unloaded",
            "nrt.h, nrt_get_model_info",
            no_core,
        ),
        Case::new(
            "order/session/no_memory",
            "a session that finds no memory gives back what it had",
            SET,
            no_memory,
        ),
        Case::new(
            "order/launch/write_bind_execute",
            "each input is written and bound in ordinal order, then the model executes",
            BIND,
            launch,
        ),
        Case::new(
            "order/launch/unchanged_slots",
            "an unchanged slot costs no call at the next launch",
            BIND,
            unchanged,
        ),
        Case::new(
            "order/launch/refused_tensor",
            "a tensor that does not fit causes no call",
            "page 5",
            refused_tensor,
        ),
        Case::new(
            "order/launch/missing_input",
            "a launch that lacks an input causes no call",
            "page 5",
            missing_input,
        ),
        Case::new(
            "order/launch/cancelled",
            "a launch that is not executed causes no execution",
            "DESIGN, typestate",
            cancelled,
        ),
        Case::new(
            "order/launch/failed_write",
            "after a failed write nothing is bound and nothing executes",
            BIND,
            failed_write,
        ),
        Case::new(
            "order/launch/failed_bind",
            "a slot whose binding failed is bound anew",
            "page 4.3, add to set",
            failed_bind,
        ),
        Case::new(
            "order/launch/numerical_error",
            "status 1003 completes, and the output is read",
            "page 4.5, status",
            numerical_error,
        ),
        Case::new(
            "order/output/read_when_asked",
            "an output is read when it is asked for, and not before",
            BIND,
            read_when_asked,
        ),
        Case::new(
            "order/state/donated",
            "a state stands on both sides and is neither written, read nor copied",
            "page 4.6",
            donated,
        ),
        Case::new(
            "order/weights/uploaded",
            "weights are allocated and written once, and bound once",
            "user need 58",
            uploaded,
        ),
        Case::new(
            "order/weights/failed",
            "weights that were not all uploaded are given back",
            "user need 59",
            failed_upload,
        ),
        Case::new(
            "order/drop/sets_first",
            "sets go before the tensors that they name, and the model last",
            BACK,
            sets_first,
        ),
    ]
}

fn loaded(mock: MockBackend) -> Result<(), Failure> {
    let artifact = subtract()?;
    let mut script = Script::new(mock);
    script.load(&artifact);
    script.session(&artifact);
    script.end_session(&artifact);
    let runtime = Runtime::new(script.play());
    let model = load(&runtime, &artifact)?;
    drop(model.session().must()?);
    Ok(())
}

fn load_refused(mock: MockBackend) -> Result<(), Failure> {
    let mut script = Script::new(mock);
    script.refuse_load(Status::RESOURCE);
    let runtime = Runtime::new(script.play());
    let answer = runtime.load(&subtract()?, crate::raw::CORE);
    let error = refused("a load without memory", answer)?;
    holds(
        "it is the backend's",
        matches!(error, LoadError::Backend(error) if error.status() == Status::RESOURCE),
    )
}

fn other_tensors(mock: MockBackend) -> Result<(), Failure> {
    let mut script = Script::new(mock);
    // The loaded model has a state that the contract does not know.
    script.load_as(&subtract()?, &accumulate(true)?);
    script.unload();
    let runtime = Runtime::new(script.play());
    let answer = runtime.load(&subtract()?, crate::raw::CORE);
    let error = refused("a model with other tensors", answer)?;
    holds("it is a mismatch", matches!(error, LoadError::Mismatch(_)))
}

fn no_core(mock: MockBackend) -> Result<(), Failure> {
    let mut script = Script::new(mock);
    script.load_without_core(Status::FAILURE);
    script.unload();
    let runtime = Runtime::new(script.play());
    let answer = runtime.load(&subtract()?, crate::raw::CORE);
    refused("a model on no core", answer).map(drop)
}

fn no_memory(mock: MockBackend) -> Result<(), Failure> {
    let artifact = subtract()?;
    let mut script = Script::new(mock);
    script.load(&artifact);
    script.sets();
    script.allocate("input0", 8);
    script.refuse_allocation("input1", Status::RESOURCE);
    script.free("input0");
    script.destroy("outputs");
    script.destroy("inputs");
    script.unload();
    let runtime = Runtime::new(script.play());
    let model = load(&runtime, &artifact)?;
    let error = refused("a session without memory", model.session())?;
    holds(
        "it is the backend's",
        matches!(error, SessionError::Backend(error) if error.status() == Status::RESOURCE),
    )
}

/// A loaded `input0 - input1` whose session is open.
fn opened(mock: MockBackend) -> Result<Script, Failure> {
    let artifact = subtract()?;
    let mut script = Script::new(mock);
    script.load(&artifact);
    script.session(&artifact);
    Ok(script)
}

/// The calls of a first launch up to the execution.
fn first_launch(script: &mut Script, a: [f32; 2], b: [f32; 2]) {
    script.write("input0", &pair(a));
    script.bind("inputs", "input0", "input0");
    script.write("input1", &pair(b));
    script.bind("inputs", "input1", "input1");
    script.bind("outputs", "output0", "output0");
    script.execute(Completion::Clean);
}

const A: [f32; 2] = [5.0, 1.0];
const B: [f32; 2] = [2.0, 4.0];

fn launch(mock: MockBackend) -> Result<(), Failure> {
    let mut script = opened(mock)?;
    first_launch(&mut script, A, B);
    script.read("output0", &pair([3.0, -3.0]));
    script.end_session(&subtract()?);
    let mut bench = Bench::new(script.play(), &subtract()?)?;
    // Given in another order than that of the ordinals.
    let difference = bench.run(&[("b", &B), ("a", &A)])?;
    equal("what the mock answered", difference, vec![3.0, -3.0])
}

fn unchanged(mock: MockBackend) -> Result<(), Failure> {
    let mut script = opened(mock)?;
    first_launch(&mut script, A, B);
    script.read("output0", &pair(A));
    for _ in 0..2 {
        script.write("input0", &pair(A));
        script.write("input1", &pair(B));
        script.execute(Completion::Clean);
        script.read("output0", &pair(A));
    }
    script.end_session(&subtract()?);
    let mut bench = Bench::new(script.play(), &subtract()?)?;
    for _ in 0..3 {
        bench.run(&[("a", &A), ("b", &B)])?;
    }
    Ok(())
}

fn refused_tensor(mock: MockBackend) -> Result<(), Failure> {
    let mut script = opened(mock)?;
    script.end_session(&subtract()?);
    let bench = Bench::new(script.play(), &subtract()?)?;
    let long = HostTensor::from_vec([3], vec![1.0_f32; 3]).must()?;
    refused(
        "a long tensor",
        bench.model.slot("a").must()?.validate(long),
    )
    .map(drop)?;
    let whole = HostTensor::from_vec([2], vec![1_i32; 2]).must()?;
    refused("an integer", bench.model.slot("a").must()?.validate(whole)).map(drop)
}

fn missing_input(mock: MockBackend) -> Result<(), Failure> {
    let mut script = opened(mock)?;
    script.end_session(&subtract()?);
    let mut bench = Bench::new(script.play(), &subtract()?)?;
    let a = bench.floats("a", &A)?;
    let rejected = refused("one input of two", bench.session.bind([a]))?;
    holds(
        "it says what is missing",
        matches!(rejected.reason(), BindError::Missing(_)),
    )
}

fn cancelled(mock: MockBackend) -> Result<(), Failure> {
    let mut script = opened(mock)?;
    script.write("input0", &pair(A));
    script.bind("inputs", "input0", "input0");
    script.write("input1", &pair(B));
    script.bind("inputs", "input1", "input1");
    script.end_session(&subtract()?);
    let mut bench = Bench::new(script.play(), &subtract()?)?;
    let inputs = bench.inputs(&[("a", &A), ("b", &B)])?;
    equal(
        "inputs given back",
        bench.session.bind(inputs).must()?.cancel().len(),
        2,
    )
}

fn failed_write(mock: MockBackend) -> Result<(), Failure> {
    let mut script = opened(mock)?;
    script.write("input0", &pair(A));
    script.bind("inputs", "input0", "input0");
    script.refuse_write("input1", Status::HW_ERROR);
    script.end_session(&subtract()?);
    let mut bench = Bench::new(script.play(), &subtract()?)?;
    let inputs = bench.inputs(&[("a", &A), ("b", &B)])?;
    let rejected = refused("a launch whose write failed", bench.session.bind(inputs))?;
    match rejected.reason() {
        BindError::Backend(error) => equal("status", error.status(), Status::HW_ERROR)?,
        other => {
            return Err(Failure::new(format!(
                "expected the backend's error, found {other}"
            )));
        }
    }
    equal("inputs given back", rejected.into_input().len(), 2)
}

fn failed_bind(mock: MockBackend) -> Result<(), Failure> {
    let mut script = opened(mock)?;
    script.write("input0", &pair(A));
    script.refuse_bind("input0", Status::FAILURE);
    first_launch(&mut script, A, B);
    script.read("output0", &pair(A));
    script.end_session(&subtract()?);
    let mut bench = Bench::new(script.play(), &subtract()?)?;
    let inputs = bench.inputs(&[("a", &A), ("b", &B)])?;
    let rejected = refused("a launch whose binding failed", bench.session.bind(inputs))?;
    let inputs = rejected.into_input();
    let executed = bench.session.bind(inputs).must()?.execute(()).must()?;
    read_floats(&executed.tolerate_nan().into_outputs(), 0).map(drop)
}

fn numerical_error(mock: MockBackend) -> Result<(), Failure> {
    let mut script = opened(mock)?;
    script.write("input0", &pair(A));
    script.bind("inputs", "input0", "input0");
    script.write("input1", &pair(B));
    script.bind("inputs", "input1", "input1");
    script.bind("outputs", "output0", "output0");
    script.execute(Completion::NumericalError);
    script.read("output0", &pair([f32::INFINITY, 7.0]));
    script.end_session(&subtract()?);
    let mut bench = Bench::new(script.play(), &subtract()?)?;
    let inputs = bench.inputs(&[("a", &A), ("b", &B)])?;
    let executed = bench.session.bind(inputs).must()?.execute(()).must()?;
    equal(
        "completion",
        executed.completion(),
        Completion::NumericalError,
    )?;
    let outputs = executed.tolerate_nan().into_outputs();
    equal(
        "the output",
        read_floats(&outputs, 0)?,
        vec![f32::INFINITY, 7.0],
    )
}

fn read_when_asked(mock: MockBackend) -> Result<(), Failure> {
    let mut script = opened(mock)?;
    first_launch(&mut script, A, B);
    script.end_session(&subtract()?);
    let mut bench = Bench::new(script.play(), &subtract()?)?;
    let inputs = bench.inputs(&[("a", &A), ("b", &B)])?;
    let executed = bench.session.bind(inputs).must()?.execute(()).must()?;
    equal("outputs", executed.tolerate_nan().into_outputs().len(), 1)
}

fn donated(mock: MockBackend) -> Result<(), Failure> {
    let artifact = accumulate(false)?;
    let mut script = Script::new(mock);
    script.load(&artifact);
    script.sets();
    script.allocate("input0", 8);
    script.allocate("output0", 8);
    // Fresh memory is zero, so a zero state is allocated and no more.
    script.allocate("input1", 8);
    script.write("input0", &pair(A));
    script.bind("inputs", "input0", "input0");
    script.bind("inputs", "input1", "input1");
    script.bind("outputs", "output0", "output0");
    script.bind("outputs", "output1", "input1");
    script.execute(Completion::Clean);
    script.write("input0", &pair(B));
    script.execute(Completion::Clean);
    script.free("input1");
    script.destroy("inputs");
    script.destroy("outputs");
    script.free("input0");
    script.free("output0");
    script.unload();
    let runtime = Runtime::new(script.play());
    let model = load(&runtime, &artifact)?;
    let mut session = model.session().must()?;
    let mut states = session.zero_states().must()?;
    for values in [A, B] {
        let x = session
            .slot("x")
            .must()?
            .validate(floats(&values)?)
            .must()?;
        let executed = session.bind([x]).must()?.execute(states).must()?;
        states = executed.tolerate_nan().into_parts().1;
    }
    drop(states);
    drop(session);
    Ok(())
}

fn uploaded(mock: MockBackend) -> Result<(), Failure> {
    let artifact = weighted()?;
    let mut script = Script::new(mock);
    script.load(&artifact);
    script.allocate("input1", 8);
    script.write("input1", &pair(B));
    script.sets();
    script.allocate("input0", 8);
    script.allocate("output0", 8);
    script.write("input0", &pair(A));
    script.bind("inputs", "input0", "input0");
    script.bind("inputs", "input1", "input1");
    script.bind("outputs", "output0", "output0");
    script.execute(Completion::Clean);
    script.write("input0", &pair(A));
    script.execute(Completion::Clean);
    script.destroy("inputs");
    script.destroy("outputs");
    script.free("input0");
    script.free("output0");
    script.unload();
    script.free("input1");
    let runtime = Runtime::new(script.play());
    let model = load(&runtime, &artifact)?;
    let weight = model.slot(1).must()?.validate(floats(&B)?).must()?;
    model.load_weights(vec![weight]).must()?;
    let mut session = model.session().must()?;
    for _ in 0..2 {
        let x = session.slot("x").must()?.validate(floats(&A)?).must()?;
        let executed = session.bind([x]).must()?.execute(()).must()?;
        drop(executed.tolerate_nan());
    }
    drop(session);
    Ok(())
}

fn failed_upload(mock: MockBackend) -> Result<(), Failure> {
    let artifact = weighted()?;
    let mut script = Script::new(mock);
    script.load(&artifact);
    script.allocate("input1", 8);
    script.refuse_write("input1", Status::TIMEOUT);
    script.free("input1");
    script.unload();
    let runtime = Runtime::new(script.play());
    let model = load(&runtime, &artifact)?;
    let weight = model.slot(1).must()?.validate(floats(&B)?).must()?;
    let rejected = refused(
        "a weight that is not written",
        model.load_weights(vec![weight]),
    )?;
    equal("weights given back", rejected.into_input().len(), 1)
}

fn sets_first(mock: MockBackend) -> Result<(), Failure> {
    let artifact = subtract()?;
    let mut script = opened(mock)?;
    first_launch(&mut script, A, B);
    script.end_session(&artifact);
    let runtime = Runtime::new(script.play());
    let model = load(&runtime, &artifact)?;
    let mut session = model.session().must()?;
    // The session keeps the model.
    drop(model);
    let a = session.slot("a").must()?.validate(floats(&A)?).must()?;
    let b = session.slot("b").must()?.validate(floats(&B)?).must()?;
    let executed = session.bind([a, b]).must()?.execute(()).must()?;
    drop(executed.tolerate_nan());
    drop(session);
    Ok(())
}
