//! `metaneff run`: executes a model once.

mod compare;
mod profile;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use metaneff_binding::{
    AnyBackend, Artifact, Completion, Core, HostTensor, Model, Runtime, Session, States,
};
use serde_json::{Value, json};

use crate::Outcome;
use crate::arrays::{number, write_npz};
use crate::backend::{BackendArgs, Choice, describe};
use crate::bind::{BindArgs, Bindings};
use crate::console::Console;
use crate::exit::{Exit, Failure};
use crate::text::{plural, shown, table};

use profile::Timeline;

const EXAMPLES: &str = "\
Examples:
  metaneff run model.neff model.metaneff --random 1
  metaneff run model.neff model.metaneff -i src=input.npy -w weights/ --expect golden.npy
  metaneff run model.neff model.metaneff -i input_dump_1_h_nn_3/       # replay of a dump
  metaneff run model.neff model.metaneff --zeros --backend nrt --lib /opt/aws/neuron/lib/libnrt.so.1
  metaneff run model.neff --random 1 --profile --trace trace.json      # open it in Perfetto

Exit code 1 if outputs differ from --expect, or have a NaN under --reject-nan.";

/// Elements of an output that are printed.
const SHOWN: usize = 6;

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
    /// Write the outputs as `.npz`.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Compare with `.npz` or `.safetensors` by output name, or with `.npy`.
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// Relative tolerance of the comparison.
    #[arg(long, default_value_t = 1e-5)]
    rtol: f64,
    /// Absolute tolerance of the comparison.
    #[arg(long, default_value_t = 1e-8)]
    atol: f64,
    /// A NaN in an output is a finding.
    #[arg(long)]
    reject_nan: bool,
    /// Write what took place when, in Chrome's trace format, which Perfetto opens.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print the time by opcode; executes the module once more on this machine.
    #[arg(long)]
    profile: bool,
}

/// What a run gave.
struct Ran {
    completion: Completion,
    outputs: Vec<(String, HostTensor<'static>)>,
}

pub(crate) fn run(console: &Console, args: &Args) -> Outcome {
    if args.profile && args.backend.backend == Choice::Nrt {
        return Err(Failure::Usage(
            "--profile looks into the simulator; it cannot be combined with --backend nrt"
                .to_owned(),
        ));
    }
    let mut timeline = Timeline::new();
    let artifact = timeline.span("read the model", || args.bind.artifact())?;
    let bindings = timeline.span("read the inputs", || {
        args.bind.bindings(artifact.contract())
    })?;
    if let Some(remark) = bindings.remark() {
        console.note(&remark);
    }
    let backend = timeline.span("open the backend", || args.backend.open())?;
    let runtime = Runtime::new(backend);
    let info = runtime.info();
    let model = timeline.span("load", || load(&runtime, &artifact, args.core))?;

    let by_slot = (args.profile || args.trace.is_some()).then(|| profile::by_slot(&bindings));
    let ran = execute(&model, bindings, &mut timeline)?;
    let profile = match by_slot {
        Some(inputs) if args.backend.backend == Choice::Sim => {
            profile::execute(&artifact, &inputs, &args.backend, &mut timeline)?
        }
        _ => None,
    };
    if let Some(path) = &args.output {
        write_npz(path, &ran.outputs)?;
    }
    if let Some(path) = &args.trace {
        timeline.write(path)?;
    }
    let verdict = args
        .expect
        .as_deref()
        .map(|path| compare::compare(path, &ran.outputs, args.rtol, args.atol))
        .transpose()?;

    if console.json() {
        console.document(&json!({
            "backend": {
                "name": info.name,
                "instance": info.instance,
                "version": info.version,
                "location": info.location,
                "device": info.device,
            },
            "completion": completion_name(ran.completion),
            "outputs": ran.outputs.iter().map(|(name, tensor)| output_json(name, tensor)).collect::<Vec<_>>(),
            "comparison": verdict.as_ref().map(|verdict| &verdict.document),
            "profile": profile.as_ref().filter(|_| args.profile).map(profile::Profile::json),
        }))?;
    } else {
        let mut text = format!("{}\n", describe(&info));
        let _ = writeln!(text, "completion: {}", completion_text(ran.completion));
        text.push_str(&outputs_table(&ran.outputs));
        if let Some(profile) = profile.as_ref().filter(|_| args.profile) {
            text.push_str(&profile.text());
        }
        if let Some(verdict) = &verdict {
            text.push_str(&verdict.text);
        }
        console.say(&text)?;
    }
    let nan = args.reject_nan && ran.completion == Completion::NumericalError;
    let differs = verdict.is_some_and(|verdict| !verdict.equal);
    Ok(if nan || differs {
        Exit::Finding
    } else {
        Exit::Fine
    })
}

/// Loads a model on a core.
pub(crate) fn load<'rt>(
    runtime: &'rt Runtime<AnyBackend>,
    artifact: &Artifact,
    core: u32,
) -> Result<Model<'rt, AnyBackend>, Failure> {
    runtime
        .load(artifact, Core::new(core))
        .map_err(|error| Failure::backend(&error))
}

/// Uploads weights and states.
pub(crate) fn prepare<'rt>(
    model: &Model<'rt, AnyBackend>,
    bindings: &mut Bindings,
) -> Result<(Session<'rt, AnyBackend>, States<'rt, AnyBackend>), Failure> {
    let weights = std::mem::take(&mut bindings.weights);
    if !weights.is_empty() {
        model
            .load_weights(weights)
            .map_err(|rejected| Failure::backend(&rejected.into_reason()))?;
    }
    let session = model.session().map_err(|error| Failure::backend(&error))?;
    let states = session
        .states(std::mem::take(&mut bindings.states))
        .map_err(|rejected| Failure::backend(&rejected.into_reason()))?;
    Ok((session, states))
}

fn execute(
    model: &Model<'_, AnyBackend>,
    mut bindings: Bindings,
    timeline: &mut Timeline,
) -> Result<Ran, Failure> {
    let (mut session, states) = timeline.span("upload", || prepare(model, &mut bindings))?;
    let inputs = std::mem::take(&mut bindings.inputs);
    let ready = timeline.span("bind", || {
        session
            .bind(inputs)
            .map_err(|rejected| Failure::backend(&rejected.into_reason()))
    })?;
    let start = Instant::now();
    let executed = ready
        .execute(states)
        .map_err(|failed| Failure::backend(&failed.into_reason()))?;
    timeline.add("execute", start);
    let completion = executed.completion();
    let (outputs, states) = executed.tolerate_nan().into_parts();
    let outputs = timeline.span("read the outputs", || {
        let mut read = Vec::new();
        for view in outputs.iter() {
            let tensor = view.to_host().map_err(|error| Failure::backend(&error))?;
            read.push((view.name().to_owned(), tensor));
        }
        Ok::<_, Failure>(read)
    })?;
    drop(states);
    Ok(Ran {
        completion,
        outputs,
    })
}

const fn completion_name(completion: Completion) -> &'static str {
    match completion {
        Completion::Clean => "clean",
        Completion::NumericalError => "numerical_error",
    }
}

const fn completion_text(completion: Completion) -> &'static str {
    match completion {
        Completion::Clean => "clean",
        Completion::NumericalError => {
            "numerical error (1003): an output has a NaN; the outputs are there"
        }
    }
}

fn outputs_table(outputs: &[(String, HostTensor<'static>)]) -> String {
    let mut rows = table(&[
        "output",
        "dtype",
        "shape",
        "#min",
        "#max",
        "#mean",
        "#NaN",
        "first elements",
    ]);
    for (name, tensor) in outputs {
        let summary = Summary::of(tensor);
        rows.add_row([
            shown(name),
            tensor.dtype().to_string(),
            tensor.shape().to_string(),
            cell(summary.min, !tensor.dtype().is_float()),
            cell(summary.max, !tensor.dtype().is_float()),
            cell(summary.mean, false),
            summary.nans.to_string(),
            first(tensor, SHOWN),
        ]);
    }
    format!("{}\n{rows}\n", plural(outputs.len(), "output"))
}

/// Of the elements that are numbers; `None` where there are none.
struct Summary {
    min: Option<f64>,
    max: Option<f64>,
    mean: Option<f64>,
    nans: usize,
}

impl Summary {
    fn of(tensor: &HostTensor<'static>) -> Self {
        let dtype = tensor.dtype();
        let (mut min, mut max, mut sum) = (f64::INFINITY, f64::NEG_INFINITY, 0.0);
        let (mut nans, mut numbers) = (0, 0_u32);
        for element in tensor.bytes().chunks_exact(dtype.size()) {
            let value = number::value(dtype, element);
            if value.is_nan() {
                nans += 1;
                continue;
            }
            min = min.min(value);
            max = max.max(value);
            sum += value;
            numbers = numbers.saturating_add(1);
        }
        let some = |value: f64| (numbers > 0).then_some(value);
        Self {
            min: some(min),
            max: some(max),
            mean: some(sum / f64::from(numbers.max(1))),
            nans,
        }
    }
}

/// A number for a table, whole ones without a fraction.
fn cell(value: Option<f64>, whole: bool) -> String {
    match value {
        None => String::new(),
        Some(value) if whole => format!("{value}"),
        // Adding zero takes the sign of a negative zero away.
        Some(value) => format!("{:.6}", (value * 1e6).round() / 1e6 + 0.0),
    }
}

fn first(tensor: &HostTensor<'static>, limit: usize) -> String {
    let dtype = tensor.dtype();
    let elements = tensor.bytes().chunks_exact(dtype.size());
    let more = if elements.len() > limit { ", …" } else { "" };
    let texts: Vec<_> = elements
        .take(limit)
        .map(|element| number::shown(dtype, element))
        .collect();
    format!("{}{more}", texts.join(", "))
}

fn output_json(name: &str, tensor: &HostTensor<'static>) -> Value {
    let summary = Summary::of(tensor);
    let dtype = tensor.dtype();
    let elements = tensor.bytes().chunks_exact(dtype.size());
    let texts: Vec<_> = elements
        .take(SHOWN)
        .map(|element| number::shown(dtype, element))
        .collect();
    json!({
        "name": name,
        "dtype": dtype.name(),
        "shape": tensor.shape().dims(),
        "min": summary.min,
        "max": summary.max,
        "mean": summary.mean,
        "nans": summary.nans,
        "first": texts,
    })
}
