//! What the examples share: the choice of a backend, `.npy` files, and tables.
//!
//! Nothing here is part of the SDK; an application brings its own. The examples
//! themselves are in `examples/examples`:
//!
//! - `minimal`: the main job, from files to outputs;
//! - `quickstart`: the same with a look at the contract and a check of the result;
//! - `decode`: a decoding loop whose caches are donated step after step;
//! - `generate`: a prompt and further tokens over buckets that share one cache;
//! - `serve`: an asynchronous server with a bounded queue for each core;
//! - `spmd`: one program on two ranks, with an all-reduce;
//! - `embed`: sentence embeddings of MiniLM-L6 with its real weights;
//! - `tiny_framework`: what a framework's author writes, generic over the backend
//!   and tested on a simulator and on a mock.

#![forbid(unsafe_code)]

mod choice;
mod npy;
mod package;
mod table;

use std::process::ExitCode;

pub use choice::{BackendArgs, Choice, OpenError};
pub use npy::{NpyError, read_npy};
pub use package::{Package, PackageError, Signature, Tolerance};
pub use table::{contract_table, describe, transfers_table};

/// What an example ends with: whether its numbers are right, or why it could not
/// find out.
pub type Outcome = Result<bool, Box<dyn std::error::Error>>;

/// Exit code of an example: 0 if its numbers are right, 1 if they are not, 2 if
/// it could not run.
#[must_use]
#[expect(
    clippy::print_stderr,
    reason = "an example's last word to the person who ran it"
)]
pub fn exit(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            let mut source = error.source();
            while let Some(error) = source {
                eprintln!("  because {error}");
                source = error.source();
            }
            ExitCode::from(2)
        }
    }
}
