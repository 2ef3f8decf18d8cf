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
    /// Level of the log, as the variable has it.
    pub log_level: Option<String>,
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
            log_level: None,
            debug_events: 1 << 16,
            inspect_directory: PathBuf::from("./output"),
        }
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
