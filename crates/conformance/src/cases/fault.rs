//! Faults: calls that are slow, that do not come back, and cores that an error
//! leaves unusable.

use std::time::{Duration, Instant};

use metaneff_binding::{Backend, BackendError, Cause, Core, LoadRequest};
use metaneff_schema::nrt::Status;

use crate::bench::Bench;
use crate::case::{Case, Failure, Setup, equal, holds, refused};
use crate::models::subtract;
use crate::raw::{CORE, Raw, allocate, read};

/// One core, with this plan of faults.
macro_rules! faults {
    ($plan:expr) => {
        Setup::ONE_CORE.environment(&[("METANEFF_SIM_FAULTS", $plan)])
    };
}

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    const TIMEOUT: &str = "user need 5";
    const STICKY: &str = "user need 24";
    vec![
        Case::new(
            "fault/delay/execute",
            "a slow execution takes its time and completes",
            "user need 5, delay",
            delayed,
        )
        .with(faults!("execute@1=delay:40ms")),
        Case::new(
            "fault/hang/execute",
            "an execution that does not end answers 5 at its limit, and the next one works",
            TIMEOUT,
            |b| hangs(b, 60),
        )
        .with(faults!("execute@1=hang:60ms")),
        Case::new(
            "fault/timeout/latency",
            "an execution that is too slow answers 5 at the limit",
            TIMEOUT,
            |b| times_out(b, 50),
        )
        .with(Setup::ONE_CORE.environment(&[
            ("METANEFF_SIM_TIMEOUT", "50ms"),
            ("METANEFF_SIM_LATENCY", "10s"),
        ])),
        Case::new(
            "fault/timeout/seconds",
            "the runtime's own limit is in seconds, and the error has limit and time",
            "runtime configuration guide, NEURON_RT_EXEC_TIMEOUT; user need 5",
            runtimes_limit,
        )
        .with(Setup::ONE_CORE.environment(&[
            ("NEURON_RT_EXEC_TIMEOUT", "1"),
            ("METANEFF_SIM_FAULTS", "execute@1=hang"),
        ])),
        Case::new(
            "fault/hang/load",
            "a load that does not end answers 5 at its limit, and the next one works",
            "user need 7",
            load_hangs,
        )
        .with(faults!("load@1=hang:60ms")),
        Case::new(
            "fault/when/nth",
            "the third execution fails and no other",
            "user need 24",
            |b| pattern(b, &[true, true, false, true, true, true]),
        )
        .with(faults!("execute@3=fail:1")),
        Case::new(
            "fault/when/from",
            "all executions from the third on fail",
            "user need 24",
            |b| pattern(b, &[true, true, false, false, false, false]),
        )
        .with(faults!("execute@3+=fail:1")),
        Case::new(
            "fault/when/every",
            "every second execution fails",
            "user need 24",
            |b| pattern(b, &[true, false, true, false, true, false]),
        )
        .with(faults!("execute@%2=fail:1")),
        Case::new(
            "fault/core/one_of_two",
            "a fault on one core does not reach the other",
            "user need 24",
            one_core,
        )
        .with(Setup::TWO_CORES.environment(&[("METANEFF_SIM_FAULTS", "execute/1@*=fail:1")])),
        Case::new(
            "fault/sticky/dma_abort",
            "after 1203 every execution fails with the same root cause",
            STICKY,
            |b| sticks(b, Status::EXEC_HW_ERR_DMA_ABORT),
        )
        .with(faults!("execute@2=poison:1203")),
        Case::new(
            "fault/sticky/unrecoverable",
            "after 101 every execution fails with the same root cause",
            STICKY,
            |b| sticks(b, Status::EXEC_UNIT_UNRECOVERABLE),
        )
        .with(faults!("execute@2=poison:101")),
        Case::new(
            "fault/sticky/hbm",
            "after 1201 every execution fails with the same root cause",
            STICKY,
            |b| sticks(b, Status::EXEC_HW_ERR_HBM_UE),
        )
        .with(faults!("execute@2=poison:1201")),
        Case::new(
            "fault/sticky/load",
            "a core that is unusable takes no model",
            STICKY,
            poisoned_load,
        )
        .with(faults!("execute@1=poison:1202")),
        Case::new(
            "fault/sticky/other_core",
            "the other core goes on",
            STICKY,
            other_core,
        )
        .with(Setup::TWO_CORES.environment(&[("METANEFF_SIM_FAULTS", "execute/0@1=poison:1203")])),
        Case::new(
            "fault/sticky/memory",
            "memory of an unusable core can still be read and freed",
            "user need 5, resources droppable",
            memory_stays,
        )
        .with(faults!("execute@1=poison:1203")),
    ]
}

/// A bound `input0 - input1` on a core.
fn bound<B: Backend>(backend: &B) -> Result<(Raw<B>, usize), Failure> {
    let mut raw = Raw::new(backend)?;
    let result = raw.bound(backend, [5.0, 1.0], [2.0, 4.0])?;
    Ok((raw, result))
}

fn delayed<B: Backend>(backend: B) -> Result<(), Failure> {
    let (mut raw, result) = bound(&backend)?;
    let start = Instant::now();
    raw.execute(&backend)?;
    holds(
        "it took its time",
        start.elapsed() >= Duration::from_millis(40),
    )?;
    equal("a - b", raw.floats(&backend, result)?, vec![3.0, -3.0])?;
    raw.close(&backend)
}

/// The error of a call that ran into a limit of so many milliseconds.
fn timed_out(error: &BackendError, start: Instant, limit: u64) -> Result<(), Failure> {
    equal("status", error.status(), Status::TIMEOUT)?;
    holds(
        "the limit passed",
        start.elapsed() >= Duration::from_millis(limit),
    )?;
    match error.cause() {
        Cause::Deadline {
            limit_ms,
            elapsed_ms,
        } => {
            equal("the limit", *limit_ms, limit)?;
            holds("the time is told", *elapsed_ms >= limit)
        }
        // A library tells no reasons; what is known is the time that passed.
        other => holds(
            &format!("`{other}` has the time"),
            other.to_string().contains("ms"),
        ),
    }
}

fn hangs<B: Backend>(backend: B, limit: u64) -> Result<(), Failure> {
    let (mut raw, result) = bound(&backend)?;
    let start = Instant::now();
    let error = refused("an execution that hangs", raw.execute(&backend))?;
    timed_out(&error, start, limit)?;
    raw.execute(&backend)?;
    equal("a - b", raw.floats(&backend, result)?, vec![3.0, -3.0])?;
    raw.close(&backend)
}

fn times_out<B: Backend>(backend: B, limit: u64) -> Result<(), Failure> {
    let (mut raw, _) = bound(&backend)?;
    let start = Instant::now();
    let error = refused("an execution that is slow", raw.execute(&backend))?;
    timed_out(&error, start, limit)?;
    holds(
        "it did not wait for the end",
        start.elapsed() < Duration::from_secs(5),
    )?;
    raw.close(&backend)
}

fn runtimes_limit<B: Backend>(backend: B) -> Result<(), Failure> {
    equal(
        "the limit",
        backend.execution_timeout(),
        Some(Duration::from_secs(1)),
    )?;
    let (mut raw, _) = bound(&backend)?;
    let start = Instant::now();
    let error = refused("an execution that hangs", raw.execute(&backend))?;
    match error.cause() {
        Cause::Deadline {
            limit_ms: 1000,
            elapsed_ms,
        } => {
            holds("the time is told", *elapsed_ms >= 1000)?;
        }
        other => {
            return Err(Failure::new(format!(
                "expected limit and time, found {other}"
            )));
        }
    }
    timed_out(&error, start, 1000)?;
    raw.close(&backend)
}

fn load_hangs<B: Backend>(backend: B) -> Result<(), Failure> {
    let request = LoadRequest::new(subtract()?.neff().clone()).on(CORE);
    let start = Instant::now();
    let error = refused("a load that hangs", backend.load(&request))?;
    equal("status", error.status(), Status::TIMEOUT)?;
    holds(
        "the limit passed",
        start.elapsed() >= Duration::from_millis(60),
    )?;
    let model = backend.load(&request)?;
    Ok(backend.unload(model)?)
}

fn pattern<B: Backend>(backend: B, expected: &[bool]) -> Result<(), Failure> {
    let (mut raw, _) = bound(&backend)?;
    let found: Vec<_> = expected
        .iter()
        .map(|_| raw.execute(&backend).is_ok())
        .collect();
    equal("which of them complete", found.as_slice(), expected)?;
    raw.close(&backend)
}

fn one_core<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = metaneff_binding::Runtime::new(backend);
    let artifact = subtract()?;
    let launch = |core| -> Result<bool, Failure> {
        use crate::models::Must as _;
        let model = runtime.load(&artifact, core).must()?;
        let mut session = model.session().must()?;
        let inputs: &[(&str, &[f32])] = &[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])];
        Ok(crate::models::run_floats(&mut session, inputs).is_ok())
    };
    let completed = [launch(CORE)?, launch(Core::new(1))?, launch(CORE)?];
    equal("which of them complete", completed, [true, false, true])
}

fn sticks<B: Backend>(backend: B, status: Status) -> Result<(), Failure> {
    let (mut raw, result) = bound(&backend)?;
    raw.execute(&backend)?;
    for _ in 0..3 {
        let error = refused("an execution on the core", raw.execute(&backend))?;
        equal("status", error.status(), status)?;
        if let Cause::Poisoned { core, since } = error.cause() {
            equal("core and root cause", (*core, *since), (CORE, status))?;
        }
    }
    equal(
        "the earlier result",
        raw.floats(&backend, result)?,
        vec![3.0, -3.0],
    )?;
    raw.close(&backend)
}

fn poisoned_load<B: Backend>(backend: B) -> Result<(), Failure> {
    let (mut raw, _) = bound(&backend)?;
    refused("the execution", raw.execute(&backend))?;
    let request = LoadRequest::new(subtract()?.neff().clone()).on(CORE);
    let error = refused("a load on the core", backend.load(&request))?;
    equal("status", error.status(), Status::EXEC_HW_ERR_NC_UE)?;
    raw.close(&backend)
}

fn other_core<B: Backend>(backend: B) -> Result<(), Failure> {
    let (mut raw, _) = bound(&backend)?;
    refused("the execution", raw.execute(&backend))?;
    raw.close(&backend)?;
    let request = LoadRequest::new(subtract()?.neff().clone()).on(Core::new(1));
    let model = backend.load(&request)?;
    Ok(backend.unload(model)?)
}

fn memory_stays<B: Backend>(backend: B) -> Result<(), Failure> {
    let before = backend.memory_stats(CORE)?.used;
    let tensor = allocate(&backend, 3)?;
    backend.write(&tensor, 0, &[1, 2, 3])?;
    let (mut raw, _) = bound(&backend)?;
    refused("the execution", raw.execute(&backend))?;
    equal("the tensor", read(&backend, &tensor)?, vec![1, 2, 3])?;
    backend.free(tensor);
    raw.close(&backend)?;
    equal("memory in use", backend.memory_stats(CORE)?.used, before)?;
    // And a runtime whose core is unusable can be left.
    drop(Bench::new(backend, &subtract()?));
    Ok(())
}
