//! Why the runtime could not be opened.

use std::fmt::{self, Write as _};
use std::path::PathBuf;

use metaneff_schema::cores::CoreRangeError;
use metaneff_schema::nrt::Status;

use crate::devices::{DeviceHolder, Devices};
use crate::sys::RuntimeVersion;

/// One place where the library was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// Path, or name for the loader's own search.
    pub library: PathBuf,
    /// Whether the file exists; `None` for a name, which the loader looks for in
    /// folders of its own choice.
    pub exists: Option<bool>,
    /// The loader's text.
    pub error: String,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exists = match self.exists {
            Some(true) => "the file exists",
            Some(false) => "no such file",
            None => "searched by the loader",
        };
        write!(f, "{} ({exists}): {}", self.library.display(), self.error)
    }
}

/// The runtime could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No library could be opened.
    #[error("{}", not_found(.attempts, .devices))]
    NotFound {
        /// Every place that was tried, in order.
        attempts: Vec<Attempt>,
        /// The machine's devices.
        devices: Devices,
    },
    /// The library lacks a function that every libnrt has.
    #[error(
        "`{library}`{} has no function `{symbol}`, which every libnrt has",
        version_of(.version)
    )]
    Symbol {
        /// The library.
        library: String,
        /// The function.
        symbol: &'static str,
        /// The library's version, if it tells.
        version: Option<String>,
    },
    /// The library is of another major version than the headers that this crate
    /// follows.
    #[error(
        "`{library}` is version {found}, this crate follows the headers of version {supported}.x"
    )]
    Version {
        /// The library.
        library: String,
        /// Its version.
        found: RuntimeVersion,
        /// The supported major version.
        supported: u64,
    },
    /// A choice of cores is not valid.
    #[error("{variable} is `{value}`: {source}")]
    Cores {
        /// The environment variable that carries the choice.
        variable: &'static str,
        /// Its value, from the options or from the environment.
        value: String,
        /// Why it was refused.
        source: CoreRangeError,
    },
    /// The environment would have to change, and other threads might be reading
    /// it.
    #[error(
        "{variable} is {} and would have to be {}, but the process has {} threads: set it before \
         the process starts, or open the runtime before other threads do",
        shown(.found), shown(.wanted), counted(*.threads)
    )]
    Environment {
        /// The variable.
        variable: &'static str,
        /// The value that it would have to have; `None` is unset.
        wanted: Option<String>,
        /// The value that it has.
        found: Option<String>,
        /// Threads of the process; 0 if the system does not say.
        threads: usize,
    },
    /// The runtime was initialised, and did not take the cores that were chosen.
    #[error("`{library}` was initialised with {visible} cores, {requested} were asked for")]
    CoreCount {
        /// The library.
        library: String,
        /// Cores that were asked for.
        requested: u32,
        /// Cores that the runtime sees.
        visible: u32,
    },
    /// The library is initialised already, with other settings.
    #[error(
        "`{library}` is initialised already, with {setting} `{current}`; `{requested}` cannot \
         take effect before it is closed"
    )]
    AlreadyInitialised {
        /// The library.
        library: String,
        /// Name of the setting.
        setting: &'static str,
        /// Its value.
        current: String,
        /// The value that was asked for.
        requested: String,
    },
    /// `nrt_init` answered with an error.
    #[error(
        "nrt_init of `{library}` answered {status} after {attempts} attempts; {devices}{}",
        held(.holders)
    )]
    Init {
        /// The library.
        library: String,
        /// What it answered.
        status: Status,
        /// How often it was called.
        attempts: u32,
        /// The machine's devices.
        devices: Devices,
        /// Processes that have a device open.
        holders: Vec<DeviceHolder>,
    },
    /// The process was forked from one that initialised a runtime.
    #[error(
        "process {child} was forked after process {parent} initialised the runtime: start a new \
         program instead"
    )]
    Forked {
        /// The process that initialised it.
        parent: u32,
        /// This process.
        child: u32,
    },
}

fn not_found(attempts: &[Attempt], devices: &Devices) -> String {
    let mut text = String::from("no libnrt could be opened");
    for attempt in attempts {
        // Writing to a string does not fail.
        let _ = write!(text, "; tried {attempt}");
    }
    let _ = write!(
        text,
        "; {devices}; install the Neuron runtime or name its library in the options, or choose \
         the simulator: `metaneff_backend_sim::Sim`, or the simulated libnrt.so.1 as the library"
    );
    text
}

fn version_of(version: &Option<String>) -> String {
    version
        .as_ref()
        .map_or_else(String::new, |version| format!(" (version {version})"))
}

fn shown(value: &Option<String>) -> String {
    value
        .as_ref()
        .map_or_else(|| "unset".to_owned(), |value| format!("`{value}`"))
}

fn counted(threads: usize) -> String {
    match threads {
        0 => "an unknown number of".to_owned(),
        known => known.to_string(),
    }
}

fn held(holders: &[DeviceHolder]) -> String {
    let mut text = String::new();
    for holder in holders {
        let (path, process) = (holder.path.display(), holder.process);
        let _ = write!(text, "; process {process} has {path} open");
    }
    text
}
