//! The state of one core.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use metaneff_binding::Core;
use metaneff_schema::nrt::Status;

use crate::memory::Ledger;
use crate::report::CoreStats;
use crate::sync::lock;

#[derive(Debug)]
pub(crate) struct CoreState {
    pub(crate) core: Core,
    pub(crate) memory: Arc<Ledger>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    models: u32,
    running: u32,
    executions: u64,
    numerical_errors: u64,
    failures: u64,
    busy: Duration,
    poisoned: Option<Status>,
}

/// An execution that takes place, until dropped.
#[derive(Debug)]
pub(crate) struct Running<'a>(&'a CoreState);

impl CoreState {
    pub(crate) fn new(core: Core, memory_limit: u64) -> Self {
        Self {
            core,
            memory: Ledger::new(memory_limit),
            state: Mutex::default(),
        }
    }

    pub(crate) fn models(&self) -> u32 {
        lock(&self.state).models
    }

    pub(crate) fn add_model(&self) {
        lock(&self.state).models += 1;
    }

    pub(crate) fn remove_model(&self) {
        let mut state = lock(&self.state);
        state.models = state.models.saturating_sub(1);
    }

    pub(crate) fn poisoned(&self) -> Option<Status> {
        lock(&self.state).poisoned
    }

    /// Makes the core unusable; the first failure stays the reason.
    pub(crate) fn poison(&self, status: Status) {
        lock(&self.state).poisoned.get_or_insert(status);
    }

    pub(crate) fn reset(&self) {
        lock(&self.state).poisoned = None;
    }

    /// Counts an execution in; `None` if it is to be the only one and is not.
    pub(crate) fn run(&self, exclusive: bool) -> Option<Running<'_>> {
        let mut state = lock(&self.state);
        if exclusive && state.running > 0 {
            return None;
        }
        state.running += 1;
        Some(Running(self))
    }

    pub(crate) fn record(&self, status: Status, elapsed: Duration) {
        let mut state = lock(&self.state);
        state.busy += elapsed;
        if status.is_completed() {
            state.executions += 1;
        } else {
            state.failures += 1;
        }
        if status == Status::EXEC_COMPLETED_WITH_NUM_ERR {
            state.numerical_errors += 1;
        }
    }

    pub(crate) fn stats(&self) -> CoreStats {
        let state = lock(&self.state);
        CoreStats {
            models: state.models,
            running: state.running,
            executions: state.executions,
            numerical_errors: state.numerical_errors,
            failures: state.failures,
            busy: state.busy,
            memory_used: self.memory.used(),
            memory_peak: self.memory.peak(),
            memory_limit: self.memory.limit(),
            poisoned: state.poisoned,
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).running -= 1;
    }
}
