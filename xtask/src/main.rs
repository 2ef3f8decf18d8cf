//! Development tasks: `cargo xtask <verb>`.
//!
//! One module per verb. Every verb exits with 0 when all is well, 1 when it
//! found something, and 2 when it could not run.

#![forbid(unsafe_code)]

mod ci;
mod conformance;
mod corpus;
mod deps;
mod fixtures;
mod libtorch;
mod man;
mod shell;
mod test;
mod tidy;
mod time;
mod verify;
mod weights;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Result of a verb: an exit code, or the reason why it could not run.
type Outcome = Result<ExitCode, Box<dyn std::error::Error>>;

#[derive(Debug, Parser)]
#[command(name = "xtask", bin_name = "cargo xtask", about = "Development tasks")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Runs all tests: unit, integration and documentation.
    Test(test::Args),
    /// Runs what continuous integration runs.
    Ci(ci::Args),
    /// Runs the cases that every backend must pass.
    Conformance(conformance::Args),
    /// Runs HLO cases and compares with their goldens.
    Corpus(corpus::Args),
    /// Times HLO cases; `tools/xla_baseline.py` compares with XLA.
    Time(time::Args),
    /// Tells which HLO modules the verifier accepts, and why not.
    Verify(verify::Args),
    /// Puts a CPU-only libtorch together in the target directory.
    Libtorch(libtorch::Args),
    /// Fetches the weights of the example `embed`.
    Weights,
    /// Packs the examples' models.
    Fixtures(fixtures::Args),
    /// Writes the manual pages of the `metaneff` command.
    Man(man::Args),
    /// Checks that dependencies between the crates point one way only.
    Deps,
    /// Checks the sources for what no compiler looks at.
    Tidy,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().verb {
        Verb::Test(args) => test::run(&args),
        Verb::Ci(args) => ci::run(&args),
        Verb::Conformance(args) => conformance::run(&args),
        Verb::Corpus(args) => corpus::run(&args),
        Verb::Time(args) => time::run(&args),
        Verb::Verify(args) => verify::run(&args),
        Verb::Libtorch(args) => libtorch::run(&args),
        Verb::Weights => weights::run(),
        Verb::Fixtures(args) => fixtures::run(&args),
        Verb::Man(args) => man::run(&args),
        Verb::Deps => deps::run(),
        Verb::Tidy => tidy::run(),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            shell::complain(&format!("cannot run: {error}"));
            ExitCode::from(2)
        }
    }
}
