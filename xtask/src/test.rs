//! `cargo xtask test`: all tests, with one verdict.

use std::process::ExitCode;

use crate::Outcome;
use crate::libtorch::Torch;
use crate::shell::{self, cargo, succeeds};

/// Options of `test`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Use `cargo test` even where `cargo nextest` is installed.
    #[arg(long)]
    no_nextest: bool,
    /// Leave out the crate over libtorch.
    #[arg(long)]
    no_torch: bool,
}

/// Runs unit and integration tests, then the documentation's examples. All run,
/// also after a failure. The crate over libtorch takes part where a libtorch can
/// be had.
pub(crate) fn run(args: &Args) -> Outcome {
    let torch = if args.no_torch {
        Torch::LeftOut("--no-torch was given".to_owned())
    } else {
        Torch::wherever_possible()?
    };
    let mut failed = Vec::new();
    let mut suites = Vec::new();
    let whole = ["--workspace", "--all-features", "--no-fail-fast"];
    if !args.no_nextest && shell::has_nextest() {
        suites.push(cargo(["nextest", "run"]));
    } else {
        suites.push(cargo(["test", "--lib", "--bins", "--tests", "--examples"]));
    }
    suites.push(cargo(["test", "--doc"]));
    for suite in &mut suites {
        torch.scope(suite.args(whole));
    }
    for mut suite in suites {
        if !succeeds(&mut suite)? {
            failed.push(shell::words(&suite));
        }
    }
    if let Torch::LeftOut(reason) = &torch {
        shell::say(&format!("SKIPPED: metaneff-torch: {reason}"));
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
