//! What a library around the simulator is set up with.

use std::fmt::Debug;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use bytes::Bytes;

/// Settings of the process rather than of the instance: a [`Sim`](crate::Sim)
/// itself has no use for them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessSettings {
    /// Folders to search for the graph of a NEFF that carries none.
    pub graph_path: Vec<PathBuf>,
    /// Folder of the lock files that processes own cores with; without it, each
    /// process has an instance of its own.
    pub lock_directory: Option<PathBuf>,
    /// Bytes of its caller's stack that an execution touches.
    pub touched_stack: usize,
    /// Executions that `nrt_execute` may have under way on one core without
    /// waiting for them; without it, `nrt_execute` waits.
    pub inflight_limit: Option<NonZeroUsize>,
    /// What a library says on standard error.
    pub log_level: LogLevel,
    /// Events that a debug stream keeps for its reader; later ones are dropped.
    pub debug_events: usize,
    /// Folder that an inspection writes its trace to.
    pub inspect_directory: PathBuf,
}

impl Default for ProcessSettings {
    fn default() -> Self {
        Self {
            graph_path: Vec::new(),
            lock_directory: None,
            touched_stack: 0,
            inflight_limit: None,
            log_level: LogLevel::default(),
            debug_events: 1 << 16,
            inspect_directory: PathBuf::from("./output"),
        }
    }
}

/// What goes to a log: everything up to this level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// Calls that failed.
    #[default]
    Error,
    /// What works otherwise than the caller may think.
    Warning,
    /// What happens in the large.
    Info,
    /// Nothing more than [`LogLevel::Info`], so far.
    Debug,
    /// Every call.
    Trace,
}

impl LogLevel {
    /// The level of a name, in capitals or not.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name.trim().to_ascii_uppercase().as_str() {
            "OFF" | "NONE" | "FATAL" | "CRITICAL" => Self::Off,
            "ERROR" => Self::Error,
            "WARN" | "WARNING" => Self::Warning,
            "INFO" => Self::Info,
            "DEBUG" => Self::Debug,
            "TRACE" => Self::Trace,
            _ => return None,
        })
    }
}

/// Where else graphs may be found.
pub trait GraphSource: Debug + Send + Sync {
    /// The graph that `neff` was compiled from, an `HloModuleProto`.
    ///
    /// # Errors
    ///
    /// What was looked for, and where, as the end of a sentence.
    fn graph(&self, neff: &Bytes) -> Result<Bytes, String>;
}
