//! What cases run on.

use std::path::{Path, PathBuf};

use metaneff_backend_nrt::{Nrt, NrtLibrary, NrtOptions};
use metaneff_backend_sim::{Sim, SimBuilder};
use metaneff_binding::testing::MockBackend;
use metaneff_binding::{AnyBackend, Backend as _};
use metaneff_conformance::{Packing, Setup, Target, Unavailable};

use super::library::build;

/// A target by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    Sim,
    Recoded,
    Any,
    Mock,
    NrtSim,
    Nrt,
}

impl Kind {
    /// The names of all of them.
    pub(super) fn names() -> Vec<&'static str> {
        let kinds = <Self as clap::ValueEnum>::value_variants();
        kinds.iter().map(|kind| kind.name()).collect()
    }

    /// Name in reports and on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Recoded => "recoded",
            Self::Any => "any",
            Self::Mock => "mock",
            Self::NrtSim => "nrt-sim",
            Self::Nrt => "nrt",
        }
    }

    /// Whether a set-up is said in the process's environment.
    pub(super) const fn reads_environment(self) -> bool {
        matches!(self, Self::NrtSim | Self::Nrt)
    }
}

/// The library that a target needs: the simulated one is built, a real one is
/// opened once, to say now if it cannot be.
pub(super) fn library(
    kind: Kind,
    named: Option<&Path>,
) -> Result<Option<PathBuf>, Box<dyn std::error::Error>> {
    match kind {
        Kind::NrtSim => build().map(Some),
        Kind::Nrt => {
            let found = NrtLibrary::open(&options(named))?;
            Ok(Some(
                named.map_or_else(|| found.path().into(), Path::to_owned),
            ))
        }
        Kind::Sim | Kind::Recoded | Kind::Any | Kind::Mock => Ok(None),
    }
}

fn options(library: Option<&Path>) -> NrtOptions {
    match library {
        Some(path) => NrtOptions::new().library(path),
        None => NrtOptions::new(),
    }
}

fn simulator(setup: &Setup) -> Result<Sim, Unavailable> {
    let builder = SimBuilder::from_variables(setup.variables())
        .map_err(|error| Unavailable::new(error.to_string()))?;
    builder
        .build()
        .map_err(|error| Unavailable::new(error.to_string()))
}

/// The simulator, set up as each case asks.
pub(super) struct Simulated {
    pub(super) kind: Kind,
}

impl Target for Simulated {
    type Backend = Sim;

    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn open(&self, setup: &Setup) -> Result<Sim, Unavailable> {
        simulator(setup)
    }

    fn packing(&self) -> Packing {
        match self.kind {
            Kind::Recoded => Packing::Recoded,
            _ => Packing::AsWritten,
        }
    }
}

/// The simulator behind the object-safe twin of the trait.
pub(super) struct Erased;

impl Target for Erased {
    type Backend = AnyBackend;

    fn name(&self) -> &'static str {
        Kind::Any.name()
    }

    fn open(&self, setup: &Setup) -> Result<AnyBackend, Unavailable> {
        simulator(setup).map(AnyBackend::new)
    }
}

/// A mock that expects nothing yet: each case says what it expects.
pub(super) struct Mock;

impl Target for Mock {
    type Backend = MockBackend;

    fn name(&self) -> &'static str {
        Kind::Mock.name()
    }

    fn open(&self, _setup: &Setup) -> Result<MockBackend, Unavailable> {
        Ok(MockBackend::new())
    }
}

/// A libnrt, which has read its set-up from the environment.
pub(super) struct Runtime<'a> {
    pub(super) kind: Kind,
    pub(super) library: Option<&'a Path>,
}

impl Target for Runtime<'_> {
    type Backend = Nrt;

    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn open(&self, setup: &Setup) -> Result<Nrt, Unavailable> {
        if let Some(name) = setup.simulated()
            && self.kind == Kind::Nrt
        {
            return Err(Unavailable::new(format!(
                "a device has no switch like {name}"
            )));
        }
        let nrt = Nrt::open(&options(self.library))
            .map_err(|error| Unavailable::new(error.to_string()))?;
        let visible = nrt.info().visible_cores;
        if visible == setup.cores {
            Ok(nrt)
        } else {
            Err(Unavailable::new(format!(
                "{visible} cores are visible, the case needs {}",
                setup.cores
            )))
        }
    }
}
