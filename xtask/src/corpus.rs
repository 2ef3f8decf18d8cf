//! `cargo xtask corpus`: runs HLO cases and compares with their goldens.

use std::path::PathBuf;
use std::process::ExitCode;

use comfy_table::Table;
use globset::Glob;
use metaneff_hlo::corpus::{Case, Outcome as CaseOutcome, Verdict, run_case, trace_case};
use metaneff_hlo::options::ExecuteOptions;
use serde::Serialize;

use crate::Outcome;
use crate::shell;

/// Options of `corpus`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// A folder of cases; the repository's `corpus` unless given.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Only cases whose name matches this pattern.
    #[arg(long, value_name = "GLOB")]
    filter: Option<String>,
    /// Also write the results to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Instead of running cases, print the statistics of every instruction of
    /// this one.
    #[arg(long, value_name = "CASE", conflicts_with = "filter")]
    trace: Option<String>,
}

#[derive(Serialize)]
struct Report<'a> {
    passed: usize,
    failed: usize,
    unsupported: usize,
    cases: &'a [CaseOutcome],
}

pub(crate) fn run(args: &Args) -> Outcome {
    let folder = args
        .dir
        .clone()
        .unwrap_or_else(|| shell::root().join("corpus"));
    if let Some(name) = &args.trace {
        return trace(&Case::open(&folder.join(name))?, args);
    }
    let glob = Glob::new(args.filter.as_deref().unwrap_or("*"))?.compile_matcher();
    let mut cases = Case::all(&folder)?;
    cases.retain(|case| glob.is_match(&case.name));
    if cases.is_empty() {
        return Err(format!("no case of {} is selected", folder.display()).into());
    }
    let options = ExecuteOptions::as_xla();
    let mut outcomes = Vec::with_capacity(cases.len());
    for case in &cases {
        let outcome = run_case(case, &options);
        let word = match outcome.verdict {
            Verdict::Passed => "passed",
            Verdict::Unsupported => "unsupported",
            _ => "FAILED",
        };
        let reason = outcome.reason.as_deref().unwrap_or_default();
        let separator = if reason.is_empty() { "" } else { ": " };
        shell::say(&format!("{word:11} {}{separator}{reason}", case.name));
        outcomes.push(outcome);
    }
    let count = |verdict| {
        outcomes
            .iter()
            .filter(|outcome| outcome.verdict == verdict)
            .count()
    };
    let report = Report {
        passed: count(Verdict::Passed),
        failed: count(Verdict::Failed),
        unsupported: count(Verdict::Unsupported),
        cases: &outcomes,
    };
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_vec_pretty(&report)?)?;
    }
    shell::say(&format!(
        "corpus: {} passed, {} failed, {} unsupported",
        report.passed, report.failed, report.unsupported
    ));
    Ok(if report.passed == outcomes.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn trace(case: &Case, args: &Args) -> Outcome {
    let entries = trace_case(case, &ExecuteOptions::as_xla())?;
    let mut table = Table::new();
    table.load_style(comfy_table::presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "step",
        "computation",
        "instruction",
        "opcode",
        "shape",
        "NaN",
        "inf",
        "min",
        "max",
        "mean",
        "digest",
    ]);
    let number =
        |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.6e}"));
    for entry in &entries {
        table.add_row([
            entry.step.to_string(),
            entry.computation.clone(),
            entry.instruction.clone(),
            entry.opcode.clone(),
            entry.shape.clone(),
            entry.nan.to_string(),
            entry.infinite.to_string(),
            number(entry.min),
            number(entry.max),
            number(entry.mean),
            entry.digest.clone(),
        ]);
    }
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_vec_pretty(&entries)?)?;
    }
    shell::say(&table.to_string());
    Ok(ExitCode::SUCCESS)
}
