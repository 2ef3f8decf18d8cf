//! `cargo xtask corpus`: runs HLO cases and compares with their goldens.

use std::path::PathBuf;
use std::process::ExitCode;

use comfy_table::Table;
use globset::Glob;
use metaneff_hlo::Difference;
use metaneff_hlo::corpus::{
    Case, Outcome as CaseOutcome, TraceEntry, Verdict, first_change, first_difference, run_case,
    trace_case,
};
use metaneff_hlo::options::{DotRounding, ExecuteOptions, NarrowReduce};
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
    /// How to compute.
    #[arg(long, value_enum, default_value_t = Mode::Xla)]
    mode: Mode,
    /// With `--trace`: name the first instruction whose results differ from
    /// those of this mode.
    #[arg(long, value_enum, value_name = "MODE", requires = "trace")]
    against: Option<Mode>,
    /// With `--trace`: name the first instruction whose results differ from those
    /// in this file, which `--json` wrote.
    #[arg(long, value_name = "FILE", requires = "trace")]
    golden: Option<PathBuf>,
    /// With `--against`: how far results may be apart, relative to values above
    /// one and absolute below.
    #[arg(long, default_value_t = 0.0, requires = "against")]
    tolerance: f64,
}

/// A named set of options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    /// As XLA on a CPU: denormals are flushed, reductions of narrow types round
    /// at every step, and its rewrites that change results count.
    #[default]
    Xla,
    /// By the specification, the defaults: denormals are kept, reductions of
    /// narrow types are in f32, and no rewrites count.
    Ieee,
    /// As `xla`, rewrites included, with the operands of matrix products
    /// rounded to bf16.
    Bf16,
    /// As `xla`, rewrites included, with reductions of narrow types in f32.
    Wide,
}

impl Mode {
    fn options(self) -> ExecuteOptions {
        let mut options = ExecuteOptions::as_xla();
        match self {
            Self::Xla => {}
            Self::Ieee => return ExecuteOptions::default(),
            Self::Bf16 => options.dot_rounding = DotRounding::Bf16,
            Self::Wide => options.narrow_reduce = NarrowReduce::Wide,
        }
        options
    }
}

#[derive(Serialize)]
struct Report<'a> {
    mode: Mode,
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
    let options = args.mode.options();
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
        mode: args.mode,
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
    let options = args.mode.options();
    let entries = trace_case(case, &options)?;
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
    let outcome = run_case(case, &options);
    let passed = outcome.verdict == Verdict::Passed;
    shell::say(&match outcome.reason {
        None => "the outputs are within the case's tolerance".to_owned(),
        Some(reason) => format!("the outputs are not as in the case: {reason}"),
    });
    let mut differs = false;
    if let Some(against) = args.against {
        let found = first_difference(case, &options, &against.options(), args.tolerance)?;
        differs = found.is_some();
        shell::say(&found.map_or_else(
            || "no instruction's results differ between the modes".to_owned(),
            |difference| first_to_differ(&difference),
        ));
    }
    if let Some(path) = &args.golden {
        let golden: Vec<TraceEntry> = serde_json::from_slice(&std::fs::read(path)?)?;
        let found = first_change(&golden, &entries);
        differs |= found.is_some();
        shell::say(&match found {
            None => "no instruction's results differ from the golden ones".to_owned(),
            Some(step) => entries.get(step).map_or_else(
                || format!("step {step}: the golden trace goes on"),
                |entry| {
                    format!(
                        "step {step}: the first to differ is {} instruction `{}` of computation `{}`",
                        entry.opcode, entry.instruction, entry.computation
                    )
                },
            ),
        });
    }
    Ok(if passed && !differs {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn first_to_differ(difference: &Difference) -> String {
    let Difference {
        step, left, right, ..
    } = difference;
    let Some(values) = &difference.values else {
        return format!("step {step}: the modes part, {left} against {right}");
    };
    format!(
        "step {step}: the first to differ is {left}: {} of {} elements of array {}, by {:e} at most; element {}: {:e} against {:e}",
        values.differing,
        values.elements,
        values.array,
        values.largest,
        values.element,
        values.left,
        values.right
    )
}
