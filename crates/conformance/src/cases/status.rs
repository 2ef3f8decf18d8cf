//! Statuses: each number arrives as it is, with the call that it comes from,
//! and nothing of the caller's is lost.

use metaneff_binding::{
    Backend, BackendError, BindError, Cause, Completion, Core, ExecuteError, HostTensor, LoadError,
    LoadRequest, Runtime, SessionError,
};
use metaneff_schema::nrt::Status;
use metaneff_schema::xla::PrimitiveType::{F32, S32};

use crate::bench::Bench;
use crate::case::{Case, Failure, Setup, equal, holds, refused};
use crate::graph::Graph;
use crate::models::{Must as _, accumulate, artifact, load, pack, subtract};
use crate::raw::{CORE, Raw, allocate, floats_of};

/// One core, with this plan of faults.
macro_rules! faults {
    ($plan:expr) => {
        Setup::ONE_CORE.environment(&[("METANEFF_SIM_FAULTS", $plan)])
    };
}

/// A case an execution that answers a status.
macro_rules! executions {
    ($($id:literal, $number:literal, $shows:literal;)+) => {
        vec![$(
            Case::new(
                concat!("status/execute/", $id),
                $shows,
                "nrt_status.h; user needs 6, 125",
                |b| execution(b, Status($number)),
            )
            .with(faults!(concat!("execute@1=fail:", stringify!($number)))),
        )+]
    };
}

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    let mut cases = executed();
    cases.extend(called());
    cases.extend(provoked());
    cases
}

/// Statuses of an execution.
fn executed<B: Backend>() -> Vec<Case<B>> {
    executions! {
        "failure", 1, "NRT_FAILURE, the general failure";
        "invalid", 2, "NRT_INVALID, a bad argument";
        "invalid_handle", 3, "NRT_INVALID_HANDLE, an object that is none";
        "resource", 4, "NRT_RESOURCE, nothing left to run with";
        "timeout", 5, "NRT_TIMEOUT, too long";
        "hw_error", 6, "NRT_HW_ERROR, the device failed";
        "queue_full", 7, "NRT_QUEUE_FULL, try again later";
        "host_memory", 11, "NRT_FAIL_HOST_MEM_ALLOC, the host has no memory";
        "queue_empty", 15, "NRT_QUEUE_EMPTY, nothing to take";
        "unrecoverable", 101, "NRT_EXEC_UNIT_UNRECOVERABLE, as a failure of one call";
        "bad_input", 1002, "NRT_EXEC_BAD_INPUT, inputs that the program cannot take";
        "nc_busy", 1005, "NRT_EXEC_NC_BUSY, the core executes another program";
        "out_of_bounds", 1006, "NRT_EXEC_OOB, an access out of bounds";
        "coll_pending", 1100, "NRT_COLL_PENDING, peers are not ready";
        "collectives", 1200, "NRT_EXEC_HW_ERR_COLLECTIVES, a peer or a link failed";
        "hbm_ue", 1201, "NRT_EXEC_HW_ERR_HBM_UE, memory is broken";
        "nc_ue", 1202, "NRT_EXEC_HW_ERR_NC_UE, the core is broken";
        "dma_abort", 1203, "NRT_EXEC_HW_ERR_DMA_ABORT, a transfer was given up";
        "nq_overflow", 1204, "NRT_EXEC_SW_NQ_OVERFLOW, notifications were lost";
        "repairable_hbm_ue", 1205, "NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE, memory that a reset repairs";
        "network_proxy", 1206, "NRT_NETWORK_PROXY_FAILURE, the network failed";
        "unknown", 4242, "a number that no header names is kept";
    }
}

/// Statuses of other calls.
fn called<B: Backend>() -> Vec<Case<B>> {
    const HEADER: &str = "nrt.h; nrt_status.h";
    vec![
        Case::new(
            "status/load/resource",
            "a load that finds no memory gives the model's size away, and the next one works",
            "user need 3",
            |b| load_fails(b, Status::RESOURCE),
        )
        .with(faults!("load@1=fail:NRT_RESOURCE")),
        Case::new(
            "status/load/host_memory",
            "a load for which the host has no memory is reported as such",
            HEADER,
            |b| load_fails(b, Status::FAIL_HOST_MEM_ALLOC),
        )
        .with(faults!("load@1=fail:NRT_FAIL_HOST_MEM_ALLOC")),
        Case::new(
            "status/load/hw_error",
            "a load on a device that fails is reported as such",
            HEADER,
            |b| load_fails(b, Status::HW_ERROR),
        )
        .with(faults!("load@1=fail:NRT_HW_ERROR")),
        Case::new(
            "status/unload/failure",
            "after a failed unload the model is gone all the same",
            "nrt.h, nrt_unload",
            unload_fails,
        )
        .with(faults!("unload@1=fail:NRT_FAILURE")),
        Case::new(
            "status/allocate/second",
            "a session whose second buffer is refused leaves nothing allocated",
            "page 4.3, allocation",
            session_fails,
        )
        .with(faults!("allocate@2=fail:NRT_RESOURCE")),
        Case::new(
            "status/write/failure",
            "an input that cannot be written comes back, and the launch can be tried again",
            "page 4.5, nrt_tensor_write",
            write_fails,
        )
        .with(faults!("write@2=fail:NRT_HW_ERROR")),
        Case::new(
            "status/read/failure",
            "an output that cannot be read can be read again",
            HEADER,
            read_fails,
        )
        .with(faults!("read@1=fail:NRT_TIMEOUT")),
        Case::new(
            "status/copy/failure",
            "a copy that fails leaves the target as it was",
            HEADER,
            copy_fails,
        )
        .with(faults!("copy@1=fail:NRT_FAILURE")),
        Case::new(
            "status/bind/failure",
            "a binding that fails is made by the next launch",
            "page 4.3, add to set",
            bind_fails,
        )
        .with(faults!("bind@2=fail:NRT_FAILURE")),
        Case::new(
            "status/execute/1003_injected",
            "1003 is a completion: the outputs are valid and the caller sees it",
            "page 4.5; nrt_status.h, 1003",
            completes_numerically,
        )
        .with(faults!("execute@1=fail:1003")),
    ]
}

/// Statuses that come of what was done.
fn provoked<B: Backend>() -> Vec<Case<B>> {
    vec![
        Case::new(
            "status/cores/not_enough",
            "a model of more cores than there are answers 9 with both numbers",
            "user need 8",
            not_enough_cores,
        ),
        Case::new(
            "status/cores/beyond",
            "a model of two cores does not begin on the last one",
            "user need 8",
            beyond_last_core,
        )
        .with(Setup::TWO_CORES),
        Case::new(
            "status/bounds/clamped",
            "an index out of bounds is clamped by default, as XLA does",
            "user need 72",
            |b| out_of_bounds(b, None),
        ),
        Case::new(
            "status/bounds/strict",
            "an index out of bounds answers 1006 where the device's way is asked for",
            "user need 72",
            |b| out_of_bounds(b, Some(Status::EXEC_OOB)),
        )
        .with(Setup::ONE_CORE.environment(&[("METANEFF_SIM_OOB", "strict")])),
        Case::new(
            "status/busy/exclusive",
            "a core that executes answers 1005 to a second caller where cores are exclusive",
            "nrt_status.h, NRT_EXEC_NC_BUSY",
            busy,
        )
        .with(Setup::ONE_CORE.environment(&[
            ("METANEFF_SIM_CONCURRENCY", "exclusive"),
            ("METANEFF_SIM_LATENCY", "300ms"),
        ])),
        Case::new(
            "status/nan/ignored",
            "a NaN is no numerical error where nobody looks",
            "user need 71",
            |b| nan(b, Completion::Clean),
        )
        .with(Setup::ONE_CORE.environment(&[("METANEFF_SIM_NAN", "ignore")])),
        Case::new(
            "status/nan/repeated",
            "1003 of one launch does not stick to the next",
            "nrt_status.h, 1003; user need 71",
            |b| nan(b, Completion::NumericalError),
        ),
    ]
}

/// The second launch works, after a first one that answered `status`.
fn execution<B: Backend>(backend: B, status: Status) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &accumulate(false)?)?;
    let states = bench.session.zero_states().must()?;
    let x = bench.floats("x", &[1.0, 2.0])?;
    let failed = refused(
        "the launch",
        bench.session.bind([x]).must()?.execute(states),
    )?;
    match failed.reason() {
        ExecuteError::Backend(error) => {
            equal("call", error.call(), "nrt_execute")?;
            equal("status", error.status(), status)?;
            let number = status.0.to_string();
            holds(
                "the text has the number",
                error.to_string().contains(&number),
            )?;
        }
        other => {
            return Err(Failure::new(format!(
                "expected the backend's, found {other}"
            )));
        }
    }
    holds("there are no outputs", failed.outputs().is_none())?;
    let ([x], states) = failed.into_inputs();
    let executed = bench.session.bind([x]).must()?.execute(states).must()?;
    let (_, states) = executed.tolerate_nan().into_parts();
    let sum = states.get("sum").must()?.to_vec::<f32>().must()?;
    equal("the state after one launch", sum, vec![1.0, 2.0])
}

fn load_fails<B: Backend>(backend: B, status: Status) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let artifact = subtract()?;
    match refused("the load", runtime.load(&artifact, CORE))? {
        LoadError::Backend(error) => {
            equal("call", error.call(), "nrt_load")?;
            equal("status", error.status(), status)?;
        }
        other => {
            return Err(Failure::new(format!(
                "expected the backend's, found {other}"
            )));
        }
    }
    load(&runtime, &artifact).map(drop)
}

fn unload_fails<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let before = runtime.memory_stats(CORE)?.used;
    let model = load(&runtime, &subtract()?)?;
    let rejected = refused("the unload", model.unload())?;
    match rejected.reason() {
        metaneff_binding::UnloadError::Backend(error) => {
            equal("status", error.status(), Status::FAILURE)?;
        }
        other => {
            return Err(Failure::new(format!(
                "expected the backend's, found {other}"
            )));
        }
    }
    holds("no model is given back", rejected.into_input().is_none())?;
    equal("memory in use", runtime.memory_stats(CORE)?.used, before)
}

fn session_fails<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &subtract()?)?;
    let before = runtime.memory_stats(CORE)?.used;
    match refused("the session", model.session())? {
        SessionError::Backend(error) => equal("status", error.status(), Status::RESOURCE)?,
        other => {
            return Err(Failure::new(format!(
                "expected the backend's, found {other}"
            )));
        }
    }
    equal("memory in use", runtime.memory_stats(CORE)?.used, before)?;
    model.session().must().map(drop)
}

/// The reason of a refused bind, if it is the backend's.
fn backends(reason: &BindError) -> Result<&BackendError, Failure> {
    match reason {
        BindError::Backend(error) => Ok(error),
        other => Err(Failure::new(format!(
            "expected the backend's, found {other}"
        ))),
    }
}

fn write_fails<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &subtract()?)?;
    let inputs = bench.inputs(&[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
    let rejected = refused("the launch", bench.session.bind(inputs))?;
    let error = backends(rejected.reason())?;
    equal("call", error.call(), "nrt_tensor_write")?;
    equal("status", error.status(), Status::HW_ERROR)?;
    let inputs = rejected.into_input();
    let executed = bench.session.bind(inputs).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    equal(
        "a - b",
        outputs.get(0).must()?.to_vec::<f32>().must()?,
        vec![3.0, -3.0],
    )
}

fn read_fails<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &subtract()?)?;
    let inputs = bench.inputs(&[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
    let executed = bench.session.bind(inputs).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    let output = outputs.get(0).must()?;
    let error = refused("the first read", output.to_vec::<f32>())?;
    holds(
        "it names the call",
        error.to_string().contains("nrt_tensor_read"),
    )?;
    equal("a - b", output.to_vec::<f32>().must()?, vec![3.0, -3.0])
}

fn copy_fails<B: Backend>(backend: B) -> Result<(), Failure> {
    let source = allocate(&backend, 4)?;
    let target = allocate(&backend, 4)?;
    backend.write(&source, 0, &[1, 2, 3, 4])?;
    let error = refused("the copy", backend.copy(&source, 0, &target, 0, 4))?;
    equal("status", error.status(), Status::FAILURE)?;
    let mut bytes = [9; 4];
    backend.read(&target, 0, &mut bytes)?;
    equal("the target", bytes, [0; 4])?;
    backend.copy(&source, 0, &target, 0, 4)?;
    backend.free(source);
    backend.free(target);
    Ok(())
}

fn bind_fails<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &subtract()?)?;
    let inputs = bench.inputs(&[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
    let rejected = refused("the launch", bench.session.bind(inputs))?;
    let error = backends(rejected.reason())?;
    equal("call", error.call(), "nrt_add_tensor_to_tensor_set")?;
    equal("inputs given back", rejected.into_input().len(), 2)?;
    let difference = bench.run(&[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
    equal("a - b", difference, vec![3.0, -3.0])
}

fn completes_numerically<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &subtract()?)?;
    let inputs = bench.inputs(&[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
    let executed = bench.session.bind(inputs).must()?.execute(()).must()?;
    equal(
        "completion",
        executed.completion(),
        Completion::NumericalError,
    )?;
    let outputs = executed.tolerate_nan().into_outputs();
    equal(
        "a - b",
        outputs.get(0).must()?.to_vec::<f32>().must()?,
        vec![3.0, -3.0],
    )
}

/// A NEFF of `input0 - input1` that asks for so many cores.
fn of_cores(cores: u32) -> Result<bytes::Bytes, Failure> {
    let mut graph = Graph::new();
    let a = graph.parameter(F32, &[2]);
    let b = graph.parameter(F32, &[2]);
    let difference = graph.elementwise("subtract", &[a, b]);
    let neff = metaneff_schema::neff::NeffBuilder::from_hlo(graph.finish(&[difference]))?;
    Ok(neff.cores(cores, 1).build())
}

fn not_enough_cores<B: Backend>(backend: B) -> Result<(), Failure> {
    let before = backend.memory_stats(CORE)?.used;
    let error = refused(
        "two cores of one",
        backend.load(&LoadRequest::new(of_cores(2)?)),
    )?;
    equal("status", error.status(), Status::LOAD_NOT_ENOUGH_NC)?;
    match error.cause() {
        Cause::Cores {
            needed, visible, ..
        } => {
            equal("needed and visible", (*needed, *visible), (2, 1))?;
        }
        other => {
            return Err(Failure::new(format!(
                "expected both numbers, found {other}"
            )));
        }
    }
    equal("memory in use", backend.memory_stats(CORE)?.used, before)
}

fn beyond_last_core<B: Backend>(backend: B) -> Result<(), Failure> {
    let request = LoadRequest::new(of_cores(2)?);
    let error = refused(
        "from core 1 on",
        backend.load(&request.clone().on(Core::new(1))),
    )?;
    equal("status", error.status(), Status::LOAD_NOT_ENOUGH_NC)?;
    let model = backend.load(&request)?;
    equal("the first core", backend.model_core(&model)?, CORE)?;
    Ok(backend.unload(model)?)
}

fn out_of_bounds<B: Backend>(backend: B, expected: Option<Status>) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[4]);
    let start = graph.parameter(S32, &[]);
    let slice = graph.dynamic_slice(x, start, &[2]);
    let artifact = artifact(graph.finish(&[slice]), |m| m)?;
    let mut bench = Bench::new(backend, &artifact)?;
    let x = bench.floats("input0", &[1.0, 2.0, 3.0, 4.0])?;
    let start = bench.validate("input1", HostTensor::scalar(i32::MAX))?;
    let answer = bench.session.bind([x, start]).must()?.execute(());
    match (answer, expected) {
        (Ok(executed), None) => {
            let outputs = executed.tolerate_nan().into_outputs();
            let slice = outputs.get(0).must()?.to_vec::<f32>().must()?;
            equal("the last two", slice, vec![3.0, 4.0])
        }
        (Err(failed), Some(status)) => match failed.reason() {
            ExecuteError::Backend(error) => equal("status", error.status(), status),
            other => Err(Failure::new(format!(
                "expected the backend's, found {other}"
            ))),
        },
        (Ok(_), Some(status)) => Err(Failure::new(format!("expected {status}, and it completed"))),
        (Err(failed), None) => Err(Failure::new(format!("expected a clamp, found {failed}"))),
    }
}

fn busy<B: Backend>(backend: B) -> Result<(), Failure> {
    let neff = pack_pair()?;
    let mut one = Raw::load(&backend, neff.clone())?;
    let mut two = Raw::load(&backend, neff)?;
    let first = one.bound(&backend, [5.0, 1.0], [2.0, 4.0])?;
    two.bound(&backend, [5.0, 1.0], [2.0, 4.0])?;
    let backend = &backend;
    let (first_answer, second_answer) = std::thread::scope(|scope| {
        let running = scope.spawn(|| one.execute(backend));
        // Until the first one is at the core, the second one may be it.
        let second = two.execute(backend);
        (running.join(), second)
    });
    let first_answer = first_answer.map_err(|_| Failure::new("a thread panicked"))?;
    let refusals: Vec<_> = [first_answer, second_answer]
        .into_iter()
        .filter_map(Result::err)
        .map(|error| error.status())
        .collect();
    equal("refusals", refusals, vec![Status::EXEC_NC_BUSY])?;
    one.execute(backend)?;
    equal(
        "a - b",
        floats_of(backend, &one.tensors[first])?,
        vec![3.0, -3.0],
    )?;
    one.close(backend)?;
    two.close(backend)
}

fn pack_pair() -> Result<bytes::Bytes, Failure> {
    let mut graph = Graph::new();
    let a = graph.parameter(F32, &[2]);
    let b = graph.parameter(F32, &[2]);
    let difference = graph.elementwise("subtract", &[a, b]);
    pack(graph.finish(&[difference]))
}

fn nan<B: Backend>(backend: B, expected: Completion) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &crate::models::divide()?)?;
    for (x, completion) in [([0.0, 1.0], expected), ([4.0, 6.0], Completion::Clean)] {
        let inputs = bench.inputs(&[("x", &x), ("y", &[0.0, 2.0])])?;
        let executed = bench.session.bind(inputs).must()?.execute(()).must()?;
        equal("completion", executed.completion(), completion)?;
        let outputs = executed.tolerate_nan().into_outputs();
        let quotient = outputs.get(0).must()?.to_vec::<f32>().must()?;
        equal("the second element", quotient[1], x[1] / 2.0)?;
    }
    Ok(())
}
