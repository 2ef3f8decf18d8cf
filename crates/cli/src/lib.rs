//! The `metaneff` command: look into, check, run, measure and repair compiled
//! Neuron models, on a machine without a Neuron device.
//!
//! The library is what the two executables share: `metaneff`, and `neuronx-cc`,
//! which is `metaneff neuronx-cc` under the name by which front ends call their
//! compiler. One module per verb.
//!
//! # Exit codes
//!
//! | code | when |
//! |---|---|
//! | 0 | all is well |
//! | 1 | a finding: the files do not fit each other, outputs differ, a module does not compile |
//! | 2 | usage: an option, or an input that was not given |
//! | 3 | a file that cannot be read, is not what it should be, or cannot be written |
//! | 4 | a backend that cannot be opened, or failed |
//!
//! Results go to standard output, everything else to standard error. A reader of
//! standard output that goes away ends the command quietly.

#![forbid(unsafe_code)]

mod arrays;
mod backend;
mod bench;
mod bind;
mod check;
mod completions;
mod console;
mod devices;
mod edit;
mod exit;
mod extract;
mod files;
mod inspect;
mod neuronx_cc;
mod pack;
mod run;
mod text;
mod unpack;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use console::Console;
use exit::{Exit, Failure};

/// What a verb gives: an exit code, or why it could not do its work.
type Outcome = Result<Exit, Failure>;

const ABOUT: &str = "Look into, check, run, measure and repair compiled Neuron models";

const EXIT_CODES: &str = "Exit codes: 0 fine, 1 a finding, 2 usage, 3 a file that cannot be \
                          read or written, 4 a backend that failed.";

#[derive(Debug, Parser)]
#[command(name = "metaneff", version, about = ABOUT, after_help = EXIT_CODES)]
struct Cli {
    /// Print one JSON document instead of text.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Say what a file is, and what is inside.
    Inspect(inspect::Args),
    /// Tell whether a NEFF and a metaneff belong together.
    Check(check::Args),
    /// Execute a model once.
    Run(Box<run::Args>),
    /// Execute a model many times and measure.
    Bench(Box<bench::Args>),
    /// Change how a model is loaded and batched.
    Edit(edit::Args),
    /// Make a NEFF and a metaneff of an HLO module, for the simulator.
    Pack(pack::Args),
    /// Make a folder of a NEFF.
    Unpack(unpack::Args),
    /// Take the compiled models out of a `.pt` archive.
    Extract(extract::Args),
    /// Say which cores the chosen backend sees.
    Devices(devices::Args),
    /// Print a script that completes this command in a shell.
    Completions(completions::Args),
    /// Pack an HLO module into a NEFF, with neuronx-cc's command line.
    #[command(name = "neuronx-cc", disable_help_flag = true)]
    NeuronxCc {
        /// What neuronx-cc takes; `metaneff neuronx-cc --help` lists it.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// The command line, as clap describes it.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs `metaneff` with the arguments of this process. Called by the name
/// `neuronx-cc`, it is [`neuronx_cc_main`].
#[must_use]
pub fn main() -> ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&name).file_stem();
    if name.is_some_and(|name| name == "neuronx-cc") {
        return neuronx_cc_main();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; a closed pipe is not ours to report.
            let code = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Fine
            };
            let _ = error.print();
            return code.into();
        }
    };
    let console = Console::new(cli.json);
    let outcome = match cli.verb {
        Verb::Inspect(args) => inspect::run(&console, &args),
        Verb::Check(args) => check::run(&console, &args),
        Verb::Run(args) => run::run(&console, &args),
        Verb::Bench(args) => bench::run(&console, &args),
        Verb::Edit(args) => edit::run(&console, &args),
        Verb::Pack(args) => pack::run(&console, &args),
        Verb::Unpack(args) => unpack::run(&console, &args),
        Verb::Extract(args) => extract::run(&console, &args),
        Verb::Devices(args) => devices::run(&console, &args),
        Verb::Completions(args) => completions::run(&console, &args),
        Verb::NeuronxCc { arguments } => neuronx_cc::run(&console, &arguments),
    };
    console.end(outcome)
}

/// Runs `neuronx-cc` with the arguments of this process.
#[must_use]
pub fn neuronx_cc_main() -> ExitCode {
    let console = Console::new(false);
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let outcome = neuronx_cc::run(&console, &arguments);
    console.end(outcome)
}
