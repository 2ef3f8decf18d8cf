//! `cargo xtask conformance`: the cases that every backend must pass, on the
//! backends that there are.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::process::ExitCode;

use comfy_table::Table;
use globset::{Glob, GlobMatcher};
use metaneff_backend_nrt::{Nrt, NrtOptions};
use metaneff_backend_sim::fault::{Action, Call, Fault, FaultPlan, When};
use metaneff_backend_sim::{Instance, NanPolicy, OobPolicy, Sim};
use metaneff_binding::Backend as _;
use metaneff_conformance::{Expectation, Report, Setup, Target, Unavailable, cases};
use metaneff_schema::nrt::Status;

use crate::Outcome;
use crate::shell;

/// Cases that are known to fail on a target, each with its reason.
const EXPECTATIONS: &[Expectation] = &[];

/// Options of `conformance`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Backends to run on.
    #[arg(long, value_enum, default_value_t)]
    backend: Choice,
    /// The library for the Neuron runtime, instead of a search for
    /// `libnrt.so.1`.
    #[arg(long, value_name = "PATH")]
    lib: Option<PathBuf>,
    /// Only cases whose id matches this pattern.
    #[arg(long, value_name = "GLOB")]
    filter: Option<String>,
    /// How to print the report.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Print the cases and what they show, and run none.
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Choice {
    /// The simulator.
    #[default]
    Sim,
    /// The Neuron runtime, through libnrt.
    Nrt,
    /// Both.
    All,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    #[default]
    Table,
    Json,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let glob = Glob::new(args.filter.as_deref().unwrap_or("*"))?.compile_matcher();
    let selected = cases::<Sim>()
        .iter()
        .filter(|case| glob.is_match(case.id))
        .count();
    if selected == 0 {
        return Err("no case is selected".into());
    }
    if args.list {
        list(&glob);
        return Ok(ExitCode::SUCCESS);
    }
    let mut report = Report::default();
    if matches!(args.backend, Choice::Sim | Choice::All) {
        report.extend(run_on(&SimTarget, &glob));
    }
    if matches!(args.backend, Choice::Nrt | Choice::All) {
        let mut options = NrtOptions::new();
        if let Some(path) = &args.lib {
            options = options.library(path);
        }
        // Without a library no case says anything, so this is no report.
        drop(Nrt::open(&options)?);
        report.extend(run_on(&NrtTarget { options }, &glob));
    }
    match args.format {
        Format::Table => print(&report),
        Format::Json => shell::say(&serde_json::to_string_pretty(&report)?),
    }
    Ok(if report.is_success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn run_on<T: Target>(target: &T, glob: &GlobMatcher) -> Report {
    metaneff_conformance::run(target, &cases(), EXPECTATIONS, |id| glob.is_match(id))
}

fn list(glob: &GlobMatcher) {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::UTF8_BORDERS_ONLY);
    table.set_header(["case", "shows", "source"]);
    for case in cases::<Sim>().iter().filter(|case| glob.is_match(case.id)) {
        table.add_row([case.id, case.shows, case.source]);
    }
    shell::say(&table.to_string());
}

fn print(report: &Report) {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::UTF8_BORDERS_ONLY);
    table.set_header(["case", "target", "verdict", "µs", "reason"]);
    for row in &report.rows {
        table.add_row([
            row.case.to_owned(),
            row.target.to_owned(),
            row.verdict.word().to_owned(),
            row.elapsed.as_micros().to_string(),
            row.verdict.reason().to_owned(),
        ]);
    }
    shell::say(&table.to_string());
    for stale in &report.stale_expectations {
        shell::complain(stale);
    }
    shell::say(&format!("conformance: {}", report.summary()));
}

/// The simulator, set up as each case asks.
struct SimTarget;

impl Target for SimTarget {
    type Backend = Sim;

    fn name(&self) -> &'static str {
        "sim"
    }

    fn open(&self, setup: &Setup) -> Result<Sim, Unavailable> {
        let instance = Instance::ALL
            .iter()
            .copied()
            .find(|instance| {
                let profile = instance.profile();
                profile.physical_cores / profile.virtual_core_size >= setup.cores
            })
            .ok_or_else(|| Unavailable::new(format!("no instance has {} cores", setup.cores)))?;
        let mut builder = Sim::builder().instance(instance).core_count(setup.cores);
        if let Some(bytes) = setup.memory_limit {
            builder = builder.memory_limit(bytes);
        }
        if setup.nan_in_any_intermediate {
            builder = builder.nan_policy(NanPolicy::AnyIntermediate);
        }
        if setup.strict_bounds {
            builder = builder.oob_policy(OobPolicy::Strict);
        }
        if let Some((call, status)) = setup.failing_execution {
            let call = NonZeroU64::new(call)
                .ok_or_else(|| Unavailable::new("executions are counted from 1"))?;
            let action = Action::Fail(Status(status));
            let fault = Fault::new(Call::Execute, When::Nth(call), action);
            builder = builder.faults(FaultPlan::new().with(fault));
        }
        builder
            .build()
            .map_err(|error| Unavailable::new(error.to_string()))
    }
}

/// The Neuron runtime, which has no switches but those of its environment.
struct NrtTarget {
    options: NrtOptions,
}

impl Target for NrtTarget {
    type Backend = Nrt;

    fn name(&self) -> &'static str {
        "nrt"
    }

    fn open(&self, setup: &Setup) -> Result<Nrt, Unavailable> {
        let plain = Setup::default();
        let switches = [
            ("a memory limit", setup.memory_limit != plain.memory_limit),
            ("a NaN policy", setup.nan_in_any_intermediate),
            ("strict bounds", setup.strict_bounds),
            ("an injected failure", setup.failing_execution.is_some()),
        ];
        if let Some((what, _)) = switches.iter().find(|(_, asked)| *asked) {
            return Err(Unavailable::new(format!("libnrt has no switch for {what}")));
        }
        let nrt = Nrt::open(&self.options).map_err(|error| Unavailable::new(error.to_string()))?;
        let visible = nrt.info().visible_cores;
        if visible < setup.cores {
            return Err(Unavailable::new(format!(
                "{visible} cores are visible, the case needs {}",
                setup.cores
            )));
        }
        Ok(nrt)
    }
}
