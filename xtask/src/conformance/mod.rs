//! `cargo xtask conformance`: the cases that every backend must pass, on the
//! backends that there are.
//!
//! Cases run in child processes of this program: what crashes or hangs is the
//! failure of one case, and every set-up can be said in the child's environment.

mod child;
mod expectations;
mod html;
mod junit;
mod library;
mod table;
mod targets;

use std::num::ParseIntError;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::{fmt, fs};

use globset::{Glob, GlobMatcher};
use indicatif::{ProgressBar, ProgressStyle};
use metaneff_backend_sim::Sim;
use metaneff_binding::testing::MockBackend;
use metaneff_conformance::{Case, Report, cases, order_cases};

use crate::Outcome;
use crate::shell;

pub(crate) use library::{BUILT as LIBRARY, build as library};
use targets::Kind;

/// Options of `conformance`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Backends to run on; several are separated by commas. Without one, all
    /// that need no device, and `nrt` if a library is named.
    #[arg(long, value_enum, value_delimiter = ',')]
    backend: Vec<Choice>,
    /// The library for the backend `nrt`, instead of the one that the
    /// environment names in METANEFF_LIBNRT, or of a search for `libnrt.so.1`.
    #[arg(long, value_name = "PATH")]
    lib: Option<PathBuf>,
    /// Only cases whose id matches this pattern.
    #[arg(long, value_name = "GLOB")]
    filter: Option<String>,
    /// How to write the report.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write the report to this file instead of standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// In a table, show cases that passed too.
    #[arg(long, short)]
    verbose: bool,
    /// Print the cases and what they show, and run none.
    #[arg(long)]
    list: bool,
    /// Seconds that one case may take.
    #[arg(long, value_name = "SECONDS", default_value_t)]
    deadline: Deadline,
    /// Run the cases whose ids stand on standard input, in this process.
    #[arg(long, value_enum, hide = true)]
    child: Option<Kind>,
}

/// Names a library of a device; where it is set, `nrt` takes part.
const NAMED: &str = "METANEFF_LIBNRT";

impl Args {
    /// The library of a device, if one is named.
    fn named(&self) -> Option<PathBuf> {
        let variable = || std::env::var_os(NAMED).filter(|path| !path.is_empty());
        self.lib.clone().or_else(|| variable().map(PathBuf::from))
    }
}

/// A time limit in seconds.
#[derive(Clone, Copy, Debug)]
struct Deadline(u64);

impl Default for Deadline {
    fn default() -> Self {
        Self(60)
    }
}

impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Deadline {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// Backends to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Choice {
    /// The simulator.
    Sim,
    /// The simulator, with every file decoded and encoded again before a load.
    Recoded,
    /// The simulator behind the trait object that is chosen at run time.
    Any,
    /// A mock that checks the order of calls.
    Mock,
    /// The simulated libnrt.so, through the C interface.
    NrtSim,
    /// The Neuron runtime.
    Nrt,
    /// All of them.
    All,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Failures and a matrix, for people.
    #[default]
    Table,
    /// Every row.
    Json,
    /// What continuous integration reads.
    Junit,
    /// One page for a browser.
    Html,
}

/// What a run is of.
struct Plan {
    kinds: Vec<Kind>,
    generic: Vec<Case<Sim>>,
    order: Vec<Case<MockBackend>>,
}

impl Plan {
    fn new(args: &Args) -> Result<Self, Box<dyn std::error::Error>> {
        let glob = Glob::new(args.filter.as_deref().unwrap_or("*"))?.compile_matcher();
        let plan = Self {
            kinds: kinds(args),
            generic: selected(cases(), &glob),
            order: selected(order_cases(), &glob),
        };
        let of_mock = |kind: &Kind| *kind == Kind::Mock;
        let some = plan.kinds.iter().any(|kind| match of_mock(kind) {
            true => !plan.order.is_empty(),
            false => !plan.generic.is_empty(),
        });
        if some {
            Ok(plan)
        } else {
            Err("no case is selected".into())
        }
    }

    fn total(&self) -> usize {
        let count = |kind: &Kind| match kind {
            Kind::Mock => self.order.len(),
            _ => self.generic.len(),
        };
        self.kinds.iter().map(count).sum()
    }
}

fn selected<B>(cases: Vec<Case<B>>, glob: &GlobMatcher) -> Vec<Case<B>> {
    let chosen = cases.into_iter().filter(|case| glob.is_match(case.id));
    chosen.collect()
}

/// The targets of a choice, each once.
fn kinds(args: &Args) -> Vec<Kind> {
    let device_free = [
        Kind::Sim,
        Kind::Recoded,
        Kind::Any,
        Kind::Mock,
        Kind::NrtSim,
    ];
    let mut kinds: Vec<Kind> = Vec::new();
    let choices = args.backend.iter().flat_map(|choice| match choice {
        Choice::Sim => vec![Kind::Sim],
        Choice::Recoded => vec![Kind::Recoded],
        Choice::Any => vec![Kind::Any],
        Choice::Mock => vec![Kind::Mock],
        Choice::NrtSim => vec![Kind::NrtSim],
        Choice::Nrt => vec![Kind::Nrt],
        Choice::All => [&device_free[..], &[Kind::Nrt]].concat(),
    });
    let mut choices: Vec<_> = choices.collect();
    if choices.is_empty() {
        choices = device_free.to_vec();
        choices.extend(args.named().is_some().then_some(Kind::Nrt));
    }
    for kind in choices {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

pub(crate) fn run(args: &Args) -> Outcome {
    if let Some(kind) = args.child {
        return child::serve(kind, args.lib.as_deref());
    }
    let plan = Plan::new(args)?;
    if args.list {
        let of_mock = plan.kinds.contains(&Kind::Mock);
        let order = if of_mock { &plan.order[..] } else { &[] };
        shell::say(&table::list(&plan.generic, order));
        return Ok(ExitCode::SUCCESS);
    }
    let report = execute(args, &plan)?;
    let text = match args.format {
        Format::Table => table::render(&report, args.verbose),
        Format::Json => serde_json::to_string_pretty(&report)?,
        Format::Junit => junit::render(&report)?,
        Format::Html => html::render(&report),
    };
    match &args.output {
        None => shell::say(&text),
        Some(path) => {
            fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            shell::say(&format!("conformance: {}", report.summary()));
        }
    }
    Ok(if report.is_success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn execute(args: &Args, plan: &Plan) -> Result<Report, Box<dyn std::error::Error>> {
    let mut report = Report::default();
    let bar = progress(plan.total());
    let named = args.named();
    for kind in &plan.kinds {
        let library = targets::library(*kind, named.as_deref())?;
        let run = child::Run {
            kind: *kind,
            library: library.as_deref(),
            deadline: args.deadline.0,
            bar: &bar,
        };
        let table = expectations::TABLE;
        if *kind == Kind::Mock {
            run.all(&plan.order, table, &mut report)?;
            report.hold_to_account(kind.name(), &order_cases(), table);
        } else {
            run.all(&plan.generic, table, &mut report)?;
            report.hold_to_account(kind.name(), &cases::<Sim>(), table);
        }
    }
    report.hold_to_targets(&Kind::names(), expectations::TABLE);
    bar.finish_and_clear();
    Ok(report)
}

/// A bar on standard error, which hides itself where that is no terminal.
fn progress(total: usize) -> ProgressBar {
    let bar = ProgressBar::new(total as u64);
    let template = "{bar:40} {pos}/{len} {msg}";
    bar.with_style(
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser as _;
    use metaneff_conformance::{Expectation, Verdict};

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn args(words: &[&str]) -> Args {
        let line = ["conformance"].iter().chain(words);
        Line::try_parse_from(line)
            .unwrap_or_else(|error| panic!("{error}"))
            .args
    }

    #[test]
    fn targets_are_taken_once_and_in_order() {
        let chosen = |list| kinds(&args(&["--backend", list]));
        assert_eq!(chosen("mock,sim,mock"), [Kind::Mock, Kind::Sim]);
        assert_eq!(chosen("sim,all").first(), Some(&Kind::Sim));
        assert_eq!(chosen("all").len(), Kind::names().len());
        assert!(kinds(&args(&["--lib", "l.so"])).contains(&Kind::Nrt));
    }

    #[test]
    fn a_pattern_selects_by_id_and_an_empty_selection_is_an_error() {
        let plan = Plan::new(&args(&["--backend", "sim", "--filter", "fault/when/*"])).unwrap();
        assert!(plan.generic.len() >= 3 && plan.total() == plan.generic.len());
        assert!(
            plan.generic
                .iter()
                .all(|case| case.id.starts_with("fault/when/"))
        );
        assert!(Plan::new(&args(&["--filter", "no/such/case"])).is_err());
        assert!(Plan::new(&args(&["--filter", "[", "--list"])).is_err());
        let text = table::list(&plan.generic, &plan.order);
        assert!(text.contains("fault/when/nth") && !text.contains("fault/timeout"));
    }

    #[test]
    fn expectations_for_nothing_are_reported() {
        let misspelt = [Expectation::new("simm", "a/b/c", "", "because")];
        let mut report = Report::default();
        report.hold_to_targets(&Kind::names(), &misspelt);
        assert_eq!(
            report.stale_expectations,
            ["an expectation for `a/b/c` names simm, which is no target"]
        );
        assert!(!report.is_success());

        let all = cases::<Sim>();
        let case = all.first().unwrap();
        let table = [Expectation::new("sim", case.id, "", "because")];
        let because = "no such set-up".to_owned();
        let verdict = Verdict::Unsupported { because };
        let outcome = metaneff_conformance::Outcome::new(verdict, Duration::ZERO);
        let mut report = Report::default();
        report.hold_to_targets(&Kind::names(), &table);
        report.add(case, "nrt", outcome.clone(), &table);
        assert!(report.is_success());
        report.add(case, "sim", outcome, &table);
        assert!(!report.is_success());
    }
}
