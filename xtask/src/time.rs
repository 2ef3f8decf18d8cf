//! `cargo xtask time`: how long cases of the corpus take.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use comfy_table::Table;
use globset::Glob;
use metaneff_hlo::array::Array;
use metaneff_hlo::corpus::Case;
use metaneff_hlo::options::ExecuteOptions;
use metaneff_hlo::{Executable, Module};
use serde::Serialize;

use crate::Outcome;
use crate::shell;

/// Executions that come before the ones that count.
const WARM_UP: usize = 3;

/// Options of `time`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder of cases; the project's own if absent.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Only cases whose names match this glob.
    #[arg(long, default_value = "*model__*")]
    filter: String,
    /// Seconds to spend on each case.
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Write the times to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Microseconds of a case.
#[derive(Debug, Serialize)]
struct Times {
    name: String,
    /// From the module's bytes to something that can be executed.
    load: f64,
    /// The first execution.
    first: f64,
    least: f64,
    median: f64,
    runs: usize,
}

#[derive(Serialize)]
struct Report {
    cases: Vec<Times>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let folder = args
        .dir
        .clone()
        .unwrap_or_else(|| shell::root().join("corpus"));
    let glob = Glob::new(&args.filter)?.compile_matcher();
    let mut cases = Case::all(&folder)?;
    cases.retain(|case| glob.is_match(&case.name) && case.inputs.len() == 1);
    if cases.is_empty() {
        return Err(format!("no case of {} is selected", folder.display()).into());
    }
    let limit = Duration::try_from_secs_f64(args.seconds)?;
    let mut table = Table::new();
    table.load_style(comfy_table::presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "case",
        "load µs",
        "first µs",
        "least µs",
        "median µs",
        "runs",
    ]);
    let mut report = Report { cases: Vec::new() };
    for case in &cases {
        let times = times(case, limit)?;
        table.add_row([
            times.name.clone(),
            format!("{:.0}", times.load),
            format!("{:.0}", times.first),
            format!("{:.1}", times.least),
            format!("{:.1}", times.median),
            times.runs.to_string(),
        ]);
        report.cases.push(times);
    }
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_vec_pretty(&report)?)?;
    }
    shell::say(&table.to_string());
    Ok(ExitCode::SUCCESS)
}

fn times(case: &Case, limit: Duration) -> Result<Times, Box<dyn std::error::Error>> {
    let bytes = case.module()?;
    let start = Instant::now();
    let executable = Executable::new(Module::parse(bytes)?);
    let load = microseconds(start);
    let shapes: Vec<_> = executable
        .module()
        .parameters()
        .iter()
        .flat_map(|shape| shape.leaves())
        .collect();
    let mut inputs: Vec<Array> = Vec::new();
    for (tensor, shape) in case.inputs[0].iter().zip(shapes) {
        let array = case.array(tensor)?;
        inputs.push(match shape.layout() {
            Some(layout) => array.to_layout(layout)?,
            None => array,
        });
    }
    let inputs: Vec<&[u8]> = inputs.iter().map(Array::bytes).collect();
    let options = ExecuteOptions::default();
    let execute = || -> Result<f64, Box<dyn std::error::Error>> {
        let start = Instant::now();
        executable.execute(&inputs, &options)?;
        Ok(microseconds(start))
    };
    let first = execute()?;
    for _ in 0..WARM_UP {
        execute()?;
    }
    let mut runs = Vec::new();
    let start = Instant::now();
    while runs.len() < 5 || start.elapsed() < limit {
        runs.push(execute()?);
    }
    runs.sort_by(f64::total_cmp);
    Ok(Times {
        name: case.name.clone(),
        load,
        first,
        least: runs[0],
        median: runs[runs.len() / 2],
        runs: runs.len(),
    })
}

fn microseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}
