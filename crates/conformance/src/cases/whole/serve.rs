//! Requests for asynchronous callers.

use std::future::Future;
use std::time::Duration;

use metaneff_binding::{
    Artifact, Backend, Call, Core, Engine, EngineOptions, ExecuteError, HostTensor, Observed,
    Request, ServeError, SharedRuntime,
};
use metaneff_schema::nrt::Status;

use crate::case::{Case, Failure, Setup, equal, holds, refused};
use crate::models::{Must as _, accumulate, subtract};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    const SLOW: Setup = Setup::ONE_CORE.environment(&[
        ("METANEFF_SIM_LATENCY", "20ms"),
        ("METANEFF_SIM_TRANSFER_LATENCY", "2ms"),
    ]);
    vec![
        Case::new(
            "async/order/submission",
            "answers of two cores come in the order of the requests",
            "user need 48",
            order,
        )
        .with(Setup::TWO_CORES),
        Case::new(
            "async/pipeline/overlap",
            "a request is uploaded while another one executes",
            "user need 121",
            overlap,
        )
        .with(SLOW),
        Case::new(
            "async/deadline/passed",
            "a deadline passes on the device, and the next request is served",
            "user needs 5 and 7",
            deadline,
        )
        .with(SLOW),
        Case::new(
            "async/cancel/dropped",
            "dropped requests leave the core usable",
            "user need 122",
            cancelled,
        )
        .with(SLOW),
        Case::new(
            "async/failure/request_returned",
            "a failed request comes back whole",
            "user need 6",
            failed,
        )
        .with(Setup::ONE_CORE.environment(&[("METANEFF_SIM_FAULTS", "execute@1=fail:1006")])),
        Case::new(
            "async/states/sequence",
            "a sequence carries its states from request to request",
            "page 4.6",
            sequence,
        ),
        Case::new(
            "async/shutdown/drained",
            "a shutdown serves what is queued",
            "user need 121",
            shutdown,
        ),
    ]
}

const LONG: Duration = Duration::from_secs(60);

fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    executor.block_on(future)
}

fn engine<B: Backend>(
    runtime: &SharedRuntime<B>,
    artifact: &Artifact,
    cores: u32,
) -> Result<Engine<B>, Failure> {
    let models = (0..cores).map(|core| runtime.load(artifact, Core::new(core)).must());
    let models = models.collect::<Result<Vec<_>, _>>()?;
    Engine::new(models, &EngineOptions::new()).must()
}

/// `a - 1`.
fn request<B: Backend>(engine: &Engine<B>, a: f32) -> Result<Request<B>, Failure> {
    let tensor = |key: &str, value: f32| {
        let tensor = HostTensor::from_vec([2], vec![value; 2]).must()?;
        engine.slot(key).must()?.validate(tensor).must()
    };
    Ok(Request::new(vec![tensor("a", a)?, tensor("b", 1.0)?]))
}

fn first(outputs: &[HostTensor<'static>]) -> Result<f32, Failure> {
    let Some(output) = outputs.first() else {
        return Err(Failure::new("no output"));
    };
    let values = output.to_vec::<f32>().must()?;
    values
        .first()
        .copied()
        .ok_or_else(|| Failure::new("no value"))
}

fn order<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let engine = engine(&runtime, &subtract()?, 2)?;
    block_on(async {
        let requests = (0..50_u8).map(|i| request(&engine, f32::from(i)));
        let requests = requests.collect::<Result<Vec<_>, _>>()?;
        let answers = engine.serve_all(requests).await;
        for (i, answer) in (0_u8..).zip(answers) {
            let response = answer.must()?;
            equal("a - 1", first(&response.outputs)?, f32::from(i) - 1.0)?;
        }
        engine.shutdown(LONG).await.must()
    })
}

fn overlap<B: Backend>(backend: B) -> Result<(), Failure> {
    let (backend, recorder) = Observed::new(backend);
    let runtime = SharedRuntime::new(backend);
    let engine = engine(&runtime, &subtract()?, 1)?;
    block_on(async {
        let requests = (0..6_u8).map(|i| request(&engine, f32::from(i)));
        let requests = requests.collect::<Result<Vec<_>, _>>()?;
        let answers = engine.serve_all(requests).await;
        for (answer, a) in answers.into_iter().zip(0..6_u8) {
            equal("a - 1", first(&answer.must()?.outputs)?, f32::from(a) - 1.0)?;
        }
        engine.shutdown(LONG).await.must()
    })?;
    let events = recorder.events();
    let of = |call: Call| events.iter().filter(move |event| event.call == call);
    let mut pairs = of(Call::Execute)
        .flat_map(|execution| of(Call::Write).map(move |write| (execution, write)));
    holds(
        "a write begins during an execution",
        pairs.any(|(execution, write)| {
            write.start > execution.start && write.start < execution.start + execution.duration
        }),
    )
}

fn deadline<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let engine = engine(&runtime, &subtract()?, 1)?;
    block_on(async {
        let limit = Duration::from_millis(1);
        let late = request(&engine, 3.0)?.within(limit);
        let late = engine.submit(late).await.must()?;
        let unserved = refused("20 ms within 1 ms", late.await)?;
        holds(
            "it is the deadline",
            matches!(unserved.reason(), ServeError::Deadline { .. }),
        )?;
        let next = engine.submit(request(&engine, 4.0)?).await.must()?;
        equal("a - 1", first(&next.await.must()?.outputs)?, 3.0)?;
        engine.shutdown(LONG).await.must()
    })
}

fn cancelled<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let engine = engine(&runtime, &subtract()?, 1)?;
    block_on(async {
        for i in 0..5_u8 {
            drop(
                engine
                    .submit(request(&engine, f32::from(i))?)
                    .await
                    .must()?,
            );
        }
        let next = engine.submit(request(&engine, 4.0)?).await.must()?;
        equal("a - 1", first(&next.await.must()?.outputs)?, 3.0)?;
        let stats = engine.stats();
        equal(
            "all are accounted for",
            stats.cancelled + stats.completed,
            stats.submitted,
        )?;
        engine.shutdown(LONG).await.must()
    })
}

fn failed<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let engine = engine(&runtime, &subtract()?, 1)?;
    block_on(async {
        let pending = engine.submit(request(&engine, 9.0)?).await.must()?;
        let unserved = refused("a faulty core", pending.await)?;
        match unserved.reason() {
            ServeError::Execute(ExecuteError::Backend(error)) => {
                equal("status", error.status(), Status::EXEC_OOB)?;
            }
            other => return Err(Failure::new(other.to_string())),
        }
        let Some(request) = unserved.into_request() else {
            return Err(Failure::new("the request is gone"));
        };
        let again = engine.submit(request).await.must()?;
        equal("a - 1", first(&again.await.must()?.outputs)?, 8.0)?;
        engine.shutdown(LONG).await.must()
    })
}

fn sequence<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let engine = engine(&runtime, &accumulate(false)?, 1)?;
    block_on(async {
        let mut states = engine.zero_states(Core::new(0)).await.must()?;
        for step in 1..=4_u8 {
            let x = HostTensor::from_vec([2], vec![1.0_f32, 1.0]).must()?;
            let x = engine.slot("x").must()?.validate(x).must()?;
            let request = Request::new(vec![x]).with_states(states);
            let response = engine.submit(request).await.must()?.await.must()?;
            let doubled = first(&response.outputs)?;
            equal("twice the sum", doubled, 2.0 * f32::from(step))?;
            states = response.states;
        }
        engine.shutdown(LONG).await.must()
    })
}

fn shutdown<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let engine = engine(&runtime, &subtract()?, 1)?;
    block_on(async {
        let mut pending = Vec::new();
        for i in 0..8_u8 {
            pending.push(
                engine
                    .submit(request(&engine, f32::from(i))?)
                    .await
                    .must()?,
            );
        }
        engine.shutdown(LONG).await.must()?;
        for (i, pending) in (0_u8..).zip(pending) {
            let response = pending.await.must()?;
            equal("a - 1", first(&response.outputs)?, f32::from(i) - 1.0)?;
        }
        Ok(())
    })
}
