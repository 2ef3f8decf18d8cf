//! `metaneff neuronx-cc` under the name by which front ends call it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    metaneff_cli::neuronx_cc_main()
}
