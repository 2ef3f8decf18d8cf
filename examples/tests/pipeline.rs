//! What a pipeline is worth, on a simulator that takes its time: shown as times, and asserted by
//! what happened during what.

use std::time::{Duration, Instant};

use metaneff_backend_sim::{Latency, Sim};
use metaneff_binding::{
    Call, Core, Engine, EngineOptions, Model, Observed, Request, SharedRuntime, Tensor, Validated,
};
use metaneff_examples::Package;

const REQUESTS: u32 = 20;
const EXECUTE: Duration = Duration::from_millis(20);
const TRANSFER: Duration = Duration::from_millis(8);

/// The time that all requests take with so many sessions on one core.
fn serve(
    model: &Model<'static, Observed<Sim>>,
    input: &Tensor<Validated<'static>>,
    sessions: usize,
) -> Result<f64, Box<dyn std::error::Error>> {
    let options = EngineOptions::new().sessions(sessions);
    let engine = Engine::new(vec![model.clone()], &options)?;
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    executor.block_on(async {
        let requests = (0..REQUESTS).map(|_| Request::new(vec![input.clone()]));
        let requests: Vec<_> = requests.collect();
        let start = Instant::now();
        for answer in engine.serve_all(requests).await {
            answer?;
        }
        Ok(start.elapsed().as_secs_f64())
    })
}

#[test]
fn requests_are_uploaded_while_others_execute() {
    let latency = Latency::NONE.execute(EXECUTE).transfer(TRANSFER);
    let sim = Sim::builder().latency(latency).build().unwrap();
    let (sim, recorder) = Observed::new(sim);
    let runtime = SharedRuntime::new(sim);
    let package = Package::open("quickstart").unwrap();
    let artifact = package.artifact().unwrap();
    let model = runtime.load(&artifact, Core::new(0)).unwrap();
    model
        .load_weights(package.weights(&artifact).unwrap())
        .unwrap();
    let slot = model.slot("src").unwrap();
    let input = slot.validate(package.array("input.npy").unwrap()).unwrap();

    // Executions during which a write begins.
    let overlapped = || {
        let events = recorder.events();
        let of = |call: Call| events.iter().filter(move |event| event.call == call);
        let during = |execution: &&metaneff_binding::Event| {
            let (start, end) = (execution.start, execution.start + execution.duration);
            of(Call::Write).any(|write| write.start > start && write.start < end)
        };
        of(Call::Execute).filter(during).count()
    };
    // One write, one execution and one read for each request; the execution is
    // the slowest, and itself longer than modelled by what the CPU takes.
    let alone = serve(&model, &input, 1).unwrap();
    assert_eq!(overlapped(), 0, "one session does one thing at a time");
    let pipeline = serve(&model, &input, 3).unwrap();
    let own = alone / f64::from(REQUESTS) - 2.0 * TRANSFER.as_secs_f64();
    let ideal = own * f64::from(REQUESTS);
    println!("alone {alone:.3} s, pipeline {pipeline:.3} s, ideal {ideal:.3} s");
    assert!(overlapped() > 0);
}
