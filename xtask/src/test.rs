//! `cargo xtask test`: all tests, with one verdict.

use std::process::ExitCode;

use crate::Outcome;
use crate::shell::{self, cargo, succeeds};

/// Options of `test`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Use `cargo test` even where `cargo nextest` is installed.
    #[arg(long)]
    no_nextest: bool,
}

/// Runs unit and integration tests, then the documentation's examples. All run,
/// also after a failure.
pub(crate) fn run(args: &Args) -> Outcome {
    let mut failed = Vec::new();
    let mut suites = Vec::new();
    if !args.no_nextest && shell::has_nextest() {
        suites.push(cargo([
            "nextest",
            "run",
            "--workspace",
            "--all-features",
            "--no-fail-fast",
        ]));
    } else {
        suites.push(cargo([
            "test",
            "--workspace",
            "--all-features",
            "--lib",
            "--bins",
            "--tests",
            "--examples",
            "--no-fail-fast",
        ]));
    }
    suites.push(cargo([
        "test",
        "--workspace",
        "--all-features",
        "--doc",
        "--no-fail-fast",
    ]));
    for mut suite in suites {
        if !succeeds(&mut suite)? {
            failed.push(shell::words(&suite));
        }
    }
    if failed.is_empty() {
        shell::say("all tests passed");
        return Ok(ExitCode::SUCCESS);
    }
    for suite in failed {
        shell::complain(&format!("failed: {suite}"));
    }
    Ok(ExitCode::FAILURE)
}
