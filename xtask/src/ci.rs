//! `cargo xtask ci`: everything that must hold on the main branch.

use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::Outcome;
use crate::libtorch::Torch;
use crate::shell::{self, cargo, succeeds};
use crate::weights::{self, Weights};
use crate::{conformance, corpus, deps, fixtures, libtorch, test, tidy};

/// Options of `ci`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Stop at the first step that fails.
    #[arg(long)]
    fail_fast: bool,
}

/// One step: a name, and what to run.
struct Step {
    name: &'static str,
    run: fn() -> Outcome,
}

const STEPS: &[Step] = &[
    Step {
        name: "format",
        run: || command(&mut cargo(["fmt", "--all", "--check"])),
    },
    Step {
        name: "tidy",
        run: tidy::run,
    },
    Step {
        name: "dependencies",
        run: deps::run,
    },
    Step {
        name: "clippy",
        run: || {
            let mut clippy = cargo(["clippy", "--workspace", "--all-features", "--all-targets"]);
            Torch::wherever_possible()?.scope(&mut clippy);
            command(clippy.args(["--", "-D", "warnings"]))
        },
    },
    Step {
        name: "documentation",
        run: || {
            let mut doc = cargo([
                "doc",
                "--workspace",
                "--no-deps",
                "--document-private-items",
            ]);
            Torch::wherever_possible()?.scope(&mut doc);
            command(doc.env("RUSTDOCFLAGS", "-D warnings"))
        },
    },
    Step {
        name: "tests",
        run: || test::run(&test::Args::default()),
    },
    Step {
        name: "conformance",
        run: || conformance::run(&conformance::Args::default()),
    },
    Step {
        name: "examples",
        run: examples,
    },
    Step {
        name: "fixtures",
        run: || fixtures::run(&fixtures::Args::CHECK),
    },
    Step {
        name: "corpus",
        run: || corpus::run(&corpus::Args::default()),
    },
];

fn command(command: &mut Command) -> Outcome {
    Ok(if succeeds(command)? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn run_example(name: &str) -> Command {
    let mut run = cargo(["run", "--quiet", "--package", "metaneff-examples"]);
    run.args(["--example", name]);
    run
}

/// Each example checks its own numbers.
fn examples() -> Outcome {
    let mut runs = Vec::new();
    for example in [
        "minimal",
        "quickstart",
        "decode",
        "generate",
        "serve",
        "spmd",
        "tiny_framework",
    ] {
        runs.push(run_example(example));
    }
    match weights::provide()? {
        Weights::Ready(folder) => {
            let mut run = run_example("embed");
            run.args(["--", "--weights"]).arg(folder);
            runs.push(run);
        }
        Weights::Missing(reason) => shell::say(&format!("embed is left out: {reason}")),
    }
    if let Torch::Included(folder) = Torch::wherever_possible()? {
        let mut run = cargo(["run", "--quiet", "--package", "metaneff-torch"]);
        run.args(["--example", "torch_forward"]);
        run.envs(libtorch::environment(&folder));
        runs.push(run);
    }
    for mut run in runs {
        if !succeeds(&mut run)? {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs every step, also after a failure, and closes with a table of verdicts.
pub(crate) fn run(args: &Args) -> Outcome {
    let mut verdicts = Vec::new();
    for step in STEPS {
        shell::say(&format!("\n=== {}", step.name));
        let start = Instant::now();
        let passed = match (step.run)() {
            Ok(code) => code == ExitCode::SUCCESS,
            Err(error) => {
                shell::complain(&format!("{} cannot run: {error}", step.name));
                false
            }
        };
        verdicts.push((step.name, passed, start.elapsed()));
        if !passed && args.fail_fast {
            break;
        }
    }
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_BORDERS_ONLY);
    table.set_header(["step", "verdict", "seconds"]);
    for (name, passed, elapsed) in &verdicts {
        let verdict = if *passed { "passed" } else { "FAILED" };
        table.add_row([
            (*name).to_owned(),
            verdict.to_owned(),
            format!("{:.0}", elapsed.as_secs_f64()),
        ]);
    }
    let failed = verdicts.iter().filter(|(_, passed, _)| !passed).count();
    shell::say(&format!(
        "\n{table}\nci: {} passed, {failed} failed",
        verdicts.len() - failed
    ));
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
