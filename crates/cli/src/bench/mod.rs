//! `metaneff bench`: executes a model many times and measures.

mod stats;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use metaneff_binding::{AnyBackend, Runtime, Session, States, Tensor, Validated};
use serde_json::{Value, json};

use crate::Outcome;
use crate::backend::{BackendArgs, describe};
use crate::bind::BindArgs;
use crate::console::Console;
use crate::exit::{Exit, Failure};
use crate::files;
use crate::run::{load, prepare};
use crate::text::{plural, table};

use stats::Stats;

const EXAMPLES: &str = "\
Examples:
  metaneff bench model.neff model.metaneff --random 1
  metaneff bench model.neff model.metaneff --random 1 --iterations 1000 --json > before.json
  metaneff bench model.neff model.metaneff --random 1 --baseline before.json --max-regression 10

On the simulator the times are those of this machine's CPU and say nothing of a device.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    bind: BindArgs,
    #[command(flatten)]
    backend: BackendArgs,
    /// The core to load the model on.
    #[arg(long, default_value_t = 0, help_heading = "Backend")]
    core: u32,
    /// Executions that are measured.
    #[arg(short = 'n', long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Executions before the first that is measured.
    #[arg(long, default_value_t = 10)]
    warmup: u32,
    /// Compare with a document that `--json` printed earlier.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// A median that is slower than the baseline's by more per cent is a finding.
    #[arg(long, value_name = "PERCENT", requires = "baseline")]
    max_regression: Option<f64>,
}

/// What was measured of every execution.
#[derive(Default)]
struct Samples {
    /// Inputs in, execution, outputs out.
    total: Vec<Duration>,
    /// The execution alone.
    device: Vec<Duration>,
    /// All but the execution.
    host: Vec<Duration>,
}

pub(crate) fn run(console: &Console, args: &Args) -> Outcome {
    let baseline = args.baseline.as_deref().map(read_baseline).transpose()?;
    let artifact = args.bind.artifact()?;
    let mut bindings = args.bind.bindings(artifact.contract())?;
    if let Some(remark) = bindings.remark() {
        console.note(&remark);
    }
    let runtime = Runtime::new(args.backend.open()?);
    let info = runtime.info();
    let model = load(&runtime, &artifact, args.core)?;
    let (mut session, mut states) = prepare(&model, &mut bindings)?;

    let bar = progress(console, u64::from(args.warmup) + u64::from(args.iterations));
    let mut samples = Samples::default();
    for iteration in 0..args.warmup.saturating_add(args.iterations) {
        let (times, next) = once(&mut session, &bindings.inputs, states)?;
        states = next;
        bar.inc(1);
        if iteration >= args.warmup {
            let [total, device] = times;
            samples.total.push(total);
            samples.device.push(device);
            samples.host.push(total.saturating_sub(device));
        }
    }
    bar.finish_and_clear();

    let total = Stats::of(&samples.total);
    let device = Stats::of(&samples.device);
    let host = Stats::of(&samples.host);
    let change = baseline.map(|median| (median, (total.p50 / median - 1.0) * 100.0));
    if console.json() {
        console.document(&json!({
            "backend": { "name": info.name, "instance": info.instance, "device": info.device },
            "iterations": args.iterations,
            "warmup": args.warmup,
            "total": total.json(),
            "device": device.json(),
            "host": host.json(),
            "throughput_per_second": total.throughput(),
            "baseline": change.map(|(median, percent)| json!({ "p50_us": median, "change_percent": percent })),
        }))?;
    } else {
        let mut text = format!("{}\n", describe(&info));
        let _ = writeln!(
            text,
            "{} after {} of warm-up, {:.1} executions a second",
            plural(args.iterations as usize, "execution"),
            args.warmup,
            total.throughput()
        );
        text.push_str(&times_table(&[
            ("total", &total),
            ("execution", &device),
            ("transfers and host", &host),
        ]));
        text.push_str(&stats::histogram(&samples.total));
        if let Some((median, percent)) = change {
            let _ = writeln!(
                text,
                "median {:.1} µs, in the baseline {median:.1} µs: {percent:+.1} %",
                total.p50
            );
        }
        console.say(&text)?;
    }
    let slower = match (change, args.max_regression) {
        (Some((_, percent)), Some(limit)) => percent > limit,
        _ => false,
    };
    Ok(if slower { Exit::Finding } else { Exit::Fine })
}

/// One execution: its times, and the states for the next.
fn once<'rt>(
    session: &mut Session<'rt, AnyBackend>,
    inputs: &[Tensor<Validated<'static>>],
    states: States<'rt, AnyBackend>,
) -> Result<([Duration; 2], States<'rt, AnyBackend>), Failure> {
    let inputs = inputs.to_vec();
    let start = Instant::now();
    let ready = session
        .bind(inputs)
        .map_err(|rejected| Failure::backend(&rejected.into_reason()))?;
    let launched = Instant::now();
    let executed = ready
        .execute(states)
        .map_err(|failed| Failure::backend(&failed.into_reason()))?;
    let device = launched.elapsed();
    let (outputs, states) = executed.tolerate_nan().into_parts();
    for view in outputs.iter() {
        let _read = view.to_host().map_err(|error| Failure::backend(&error))?;
    }
    drop(outputs);
    Ok(([start.elapsed(), device], states))
}

fn progress(console: &Console, length: u64) -> ProgressBar {
    if !console.shows_progress() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(length);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {elapsed}") {
        bar.set_style(style);
    }
    bar
}

/// The median of an earlier run.
fn read_baseline(path: &Path) -> Result<f64, Failure> {
    let bytes = files::read(path)?;
    let document: Value =
        serde_json::from_slice(&bytes).map_err(|error| Failure::file(path, &error))?;
    let median = document["total"]["p50_us"]
        .as_f64()
        .filter(|median| *median > 0.0);
    median.ok_or_else(|| Failure::File {
        path: path.to_owned(),
        reason:
            "no number above zero at `total.p50_us`, expected what `metaneff bench --json` prints"
                .to_owned(),
    })
}

fn times_table(rows: &[(&str, &Stats)]) -> String {
    let mut out = table(&["µs", "#mean", "#min", "#p50", "#p99", "#max", "#std dev"]);
    for (name, stats) in rows {
        let numbers = [
            stats.mean,
            stats.min,
            stats.p50,
            stats.p99,
            stats.max,
            stats.deviation,
        ];
        let cells = numbers.iter().map(|number| format!("{number:.1}"));
        out.add_row(std::iter::once((*name).to_owned()).chain(cells));
    }
    format!("{out}\n")
}
