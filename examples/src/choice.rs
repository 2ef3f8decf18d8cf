//! The choice of a backend, by options of the command line.

use std::fmt::Write as _;
use std::path::PathBuf;

use metaneff_backend_nrt::{Nrt, NrtOptions};
use metaneff_backend_sim::{Instance, Sim};
use metaneff_binding::AnyBackend;

/// What executes a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[expect(clippy::exhaustive_enums, reason = "the backends that there are")]
pub enum Choice {
    /// The simulator, on this machine's CPU.
    #[default]
    Sim,
    /// The Neuron runtime, through libnrt.
    Nrt,
}

/// The options with which an example's backend is chosen.
#[derive(Clone, Debug, Default, clap::Args)]
#[non_exhaustive]
pub struct BackendArgs {
    /// What executes the model. Nothing falls back from one to the other.
    #[arg(long, value_enum, default_value_t)]
    pub backend: Choice,
    /// The library for `--backend nrt`, instead of a search for `libnrt.so.1`.
    #[arg(long, value_name = "PATH")]
    pub lib: Option<PathBuf>,
}

/// Why a backend is not there.
#[derive(Debug, thiserror::Error)]
#[error("the backend `{}` cannot be opened: {reason}{advice}", match choice { Choice::Sim => "sim", Choice::Nrt => "nrt" })]
pub struct OpenError {
    choice: Choice,
    reason: String,
    advice: &'static str,
}

impl BackendArgs {
    /// Opens the chosen backend.
    ///
    /// # Errors
    ///
    /// [`OpenError`] says what was tried and, for libnrt, what this machine has.
    pub fn open(&self) -> Result<AnyBackend, OpenError> {
        let failed = |error: &dyn std::error::Error, advice: &'static str| {
            let mut reason = error.to_string();
            let mut source = error.source();
            while let Some(error) = source {
                let _ = write!(reason, ": {error}");
                source = error.source();
            }
            OpenError {
                choice: self.backend,
                reason,
                advice,
            }
        };
        match self.backend {
            Choice::Sim => Sim::builder()
                .instance(Instance::Trn1_2xlarge)
                .build()
                .map(AnyBackend::new)
                .map_err(|error| failed(&error, "")),
            Choice::Nrt => {
                let mut options = NrtOptions::new();
                if let Some(path) = &self.lib {
                    options = options.library(path);
                }
                Nrt::open(&options)
                    .map(AnyBackend::new)
                    .map_err(|error| failed(&error, ADVICE))
            }
        }
    }
}

/// How to choose otherwise on the command line. The error itself tells what was
/// tried and which devices there are.
const ADVICE: &str =
    "\n  --lib PATH names a library; --backend sim runs the same program on the simulator";

#[cfg(test)]
mod tests {
    use metaneff_binding::Backend as _;

    use super::*;

    #[test]
    fn the_simulator_needs_no_library() {
        let info = BackendArgs::default().open().unwrap().info();
        assert_eq!((info.name, info.device), ("sim", false));
    }

    #[test]
    fn a_missing_library_comes_with_advice() {
        let arguments = BackendArgs {
            backend: Choice::Nrt,
            lib: Some("no/such/libnrt.so.1".into()),
        };
        let text = arguments.open().unwrap_err().to_string();
        for part in ["no/such/libnrt.so.1", "/dev/neuron", "--backend sim"] {
            assert!(text.contains(part), "`{text}` does not name `{part}`");
        }
    }
}
