//! An asynchronous server: requests come from many tasks, wait in a bounded
//! queue, and are uploaded while others execute.
//!
//! Every answer is compared with a launch of its own, made before. The times are
//! printed for people; nothing depends on them.
//!
//! ```console
//! $ cargo run --release --example serve -- --requests 1000 --cores 2
//! ```
#![expect(clippy::print_stdout, reason = "an example shows its results")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use metaneff_binding::{
    AnyBackend, Core, Engine, EngineOptions, HostTensor, Model, Observed, Recorder, Request,
    SharedRuntime, Slot, Tensor, Validated,
};
use metaneff_examples::{BackendArgs, Outcome, Package, describe, exit};

/// The backend, whose calls are noted.
type Backend = Observed<AnyBackend>;

/// Serves a transformer layer to many tasks.
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    backend: BackendArgs,
    /// Requests in all.
    #[arg(long, default_value_t = 1000)]
    requests: usize,
    /// Tasks that submit them.
    #[arg(long, default_value_t = 32)]
    tasks: usize,
    /// Cores that serve them.
    #[arg(long, default_value_t = 2)]
    cores: u32,
    /// Time that a request has, in milliseconds.
    #[arg(long, default_value_t = 60_000)]
    deadline: u64,
    /// Where to write a trace for Chrome and Perfetto.
    #[arg(long, value_name = "PATH")]
    trace: Option<std::path::PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let executor = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build();
    match executor {
        Ok(executor) => exit(executor.block_on(run(&args))),
        Err(error) => exit(Err(error.into())),
    }
}

/// One of eight different inputs.
fn input(
    slot: &Slot,
    data: &[f32],
    kind: usize,
) -> Result<Tensor<Validated<'static>>, metaneff_binding::Error> {
    let scale = [1.0, -1.0, 0.5, 2.0, 0.25, -0.5, 1.5, -2.0][kind % 8];
    let scaled = data.iter().map(|value| value * scale).collect();
    let tensor = HostTensor::from_vec(slot.shape().clone(), scaled)?;
    Ok(slot.validate(tensor)?)
}

/// The answers, by launches that wait for one another.
fn answers(
    model: &Model<'static, Backend>,
    data: &[f32],
) -> Result<Vec<Vec<f32>>, metaneff_binding::Error> {
    let mut session = model.session()?;
    let slot = session.slot("src")?.clone();
    let mut answers = Vec::new();
    for kind in 0..8 {
        let ready = session.bind([input(&slot, data, kind)?])?;
        let outputs = ready.execute(())?.reject_nan()?.into_outputs();
        answers.push(outputs.get(0)?.to_vec::<f32>()?);
    }
    Ok(answers)
}

async fn run(args: &Args) -> Outcome {
    let package = Package::open("quickstart")?;
    let artifact = package.artifact()?;
    let data: Arc<[f32]> = package.array("input.npy")?.to_vec::<f32>()?.into();

    let recorder = Recorder::new();
    let backend = Observed::with(args.backend.open()?, recorder.clone());
    let runtime = SharedRuntime::new(backend);
    println!("{}", describe(&runtime.info()));
    let mut models = Vec::new();
    for core in (0..args.cores).map(Core::new) {
        // Loading blocks, and takes a large stack: not on a worker of the executor.
        let load = {
            let (runtime, artifact) = (runtime.clone(), artifact.clone());
            move || runtime.load(&artifact, core)
        };
        let model = metaneff_binding::off_thread(load).await??;
        model.load_weights(package.weights(&artifact)?)?;
        models.push(model);
    }
    let Some(first) = models.first().cloned() else {
        return Err("there is no core to serve on".into());
    };
    let expected = metaneff_binding::off_thread({
        let data = Arc::clone(&data);
        move || answers(&first, &data)
    });
    let expected = Arc::new(expected.await??);
    recorder.clear();

    let engine = Arc::new(Engine::new(models, &EngineOptions::new())?);
    let start = Instant::now();
    let mut tasks = Vec::new();
    for task in 0..args.tasks.max(1) {
        let (engine, data) = (Arc::clone(&engine), Arc::clone(&data));
        let expected = Arc::clone(&expected);
        let kinds = (task..args.requests).step_by(args.tasks.max(1));
        let limit = Duration::from_millis(args.deadline);
        tasks.push(tokio::spawn(async move {
            client(&engine, &data, &expected, kinds, limit)
                .await
                .map_err(|error| error.to_string())
        }));
    }
    let (mut times, mut right) = (Vec::new(), true);
    for task in tasks {
        let (task_times, task_right) = task.await??;
        times.extend(task_times);
        right &= task_right;
    }
    let elapsed = start.elapsed();

    times.sort_unstable();
    let percentile = |percent: usize| times.get(times.len().saturating_sub(1) * percent / 100);
    let stats = engine.stats();
    println!(
        "{} requests from {} tasks on {} cores in {elapsed:.2?}: p50 {:.2?}, p99 {:.2?}",
        times.len(),
        args.tasks,
        args.cores,
        percentile(50).copied().unwrap_or_default(),
        percentile(99).copied().unwrap_or_default(),
    );
    println!("{stats:?}");
    match Arc::try_unwrap(engine) {
        Ok(engine) => engine.shutdown(Duration::from_secs(30)).await?,
        Err(_) => return Err("a task still holds the engine".into()),
    }
    println!("{}", recorder.report());
    if let Some(path) = &args.trace {
        recorder.write_trace(std::io::BufWriter::new(std::fs::File::create(path)?))?;
        println!("trace: {}", path.display());
    }
    Ok(right && times.len() == args.requests && stats.completed == args.requests as u64)
}

/// Submits one request after the other; how long each took, and whether all
/// answers were right.
async fn client(
    engine: &Engine<Backend>,
    data: &[f32],
    expected: &[Vec<f32>],
    kinds: impl Iterator<Item = usize>,
    limit: Duration,
) -> Result<(Vec<Duration>, bool), metaneff_binding::Error> {
    let slot = engine.slot("src")?.clone();
    let (mut times, mut right) = (Vec::new(), true);
    for kind in kinds {
        let request = Request::new(vec![input(&slot, data, kind)?]).within(limit);
        let start = Instant::now();
        let response = engine.submit(request).await?.await?;
        times.push(start.elapsed());
        right &= response.outputs[0].to_vec::<f32>()? == expected[kind % 8];
    }
    Ok((times, right))
}
