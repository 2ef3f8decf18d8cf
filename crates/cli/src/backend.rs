//! The choice of a backend.

use std::path::PathBuf;

use metaneff_backend_nrt::{Nrt, NrtOptions};
use metaneff_backend_sim::{Instance, NanPolicy, OobPolicy, Sim};
use metaneff_binding::{AnyBackend, BackendInfo};

use crate::exit::{Failure, chain};

/// Options of every verb that executes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BackendArgs {
    /// What executes the model. Nothing falls back from one to the other.
    #[arg(long, value_enum, default_value_t, help_heading = "Backend")]
    pub(crate) backend: Choice,
    /// The library for `--backend nrt`, instead of a search for `libnrt.so.1`.
    #[arg(long, value_name = "PATH", help_heading = "Backend")]
    lib: Option<PathBuf>,
    /// What the simulator simulates.
    #[arg(long, value_name = "TYPE", default_value = "trn1.2xlarge", value_parser = instance, help_heading = "Backend")]
    instance: Instance,
    /// When the simulator reports a NaN.
    #[arg(long, value_enum, default_value_t, help_heading = "Backend")]
    nan: Nan,
    /// What an index outside of its array does in the simulator.
    #[arg(long, value_enum, default_value_t, help_heading = "Backend")]
    oob: Oob,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Choice {
    /// The simulator, on this machine's CPU.
    #[default]
    Sim,
    /// The Neuron runtime, through libnrt.
    Nrt,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Nan {
    /// Never.
    Ignore,
    /// When an output has one.
    #[default]
    Outputs,
    /// When the result of any instruction has one, as devices do.
    Any,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Oob {
    /// Reads are clamped, writes dropped.
    #[default]
    Xla,
    /// The execution fails, as on a device.
    Strict,
}

fn instance(text: &str) -> Result<Instance, String> {
    text.parse::<Instance>().map_err(|error| error.to_string())
}

impl BackendArgs {
    /// Opens the chosen backend.
    pub(crate) fn open(&self) -> Result<AnyBackend, Failure> {
        match self.backend {
            Choice::Sim => self
                .sim()
                .map(AnyBackend::new)
                .map_err(|error| Failure::backend(&error)),
            Choice::Nrt => {
                let mut options = NrtOptions::new();
                if let Some(path) = &self.lib {
                    options = options.library(path);
                }
                Nrt::open(&options).map(AnyBackend::new).map_err(|error| {
                    Failure::Backend(format!(
                        "{}\n  --lib PATH names a library; --backend sim runs the model on this \
                         machine's CPU",
                        chain(&error)
                    ))
                })
            }
        }
    }

    /// The simulator that the options describe.
    pub(crate) fn sim(&self) -> Result<Sim, metaneff_backend_sim::ConfigError> {
        Sim::builder()
            .instance(self.instance)
            .nan_policy(self.nan_policy())
            .oob_policy(self.oob_policy())
            .build()
    }

    pub(crate) const fn nan_policy(&self) -> NanPolicy {
        match self.nan {
            Nan::Ignore => NanPolicy::Ignore,
            Nan::Outputs => NanPolicy::Outputs,
            Nan::Any => NanPolicy::AnyIntermediate,
        }
    }

    pub(crate) const fn oob_policy(&self) -> OobPolicy {
        match self.oob {
            Oob::Xla => OobPolicy::Xla,
            Oob::Strict => OobPolicy::Strict,
        }
    }

    pub(crate) fn library(&self) -> Option<&PathBuf> {
        self.lib.as_ref()
    }
}

/// Where a run takes place, in one line.
pub(crate) fn describe(info: &BackendInfo) -> String {
    let mut text = format!("backend: {}", info.name);
    for (name, value) in [
        ("instance", &info.instance),
        ("version", &info.version),
        ("at", &info.location),
    ] {
        if !value.is_empty() {
            text.push_str(&format!(", {name} {value}"));
        }
    }
    let device = if info.device {
        "on a device"
    } else {
        "no device"
    };
    text.push_str(&format!(
        ", {} of {} cores visible, {device}",
        info.visible_cores, info.total_cores
    ));
    text
}
