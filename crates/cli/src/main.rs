//! The `metaneff` command.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    metaneff_cli::main()
}
