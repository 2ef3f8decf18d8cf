//! Counting what becomes of requests.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What has become of the requests of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineStats {
    /// Requests that were put into a queue.
    pub submitted: u64,
    /// Requests that were answered with outputs.
    pub completed: u64,
    /// Requests that were refused or failed.
    pub failed: u64,
    /// Requests whose time had passed before they were executed.
    pub expired: u64,
    /// Requests that nobody waited for any more before they were executed.
    pub cancelled: u64,
}

impl EngineStats {
    pub(super) fn with(self, counters: &Counters) -> Self {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            submitted: self.submitted + read(&counters.submitted),
            completed: self.completed + read(&counters.completed),
            failed: self.failed + read(&counters.failed),
            expired: self.expired + read(&counters.expired),
            cancelled: self.cancelled + read(&counters.cancelled),
        }
    }
}

/// The counters of one core, and whether its queue is given up.
#[derive(Debug, Default)]
pub(super) struct Counters {
    submitted: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    expired: AtomicU64,
    cancelled: AtomicU64,
    discarded: AtomicBool,
}

impl Counters {
    pub(super) fn submitted(&self) {
        self.submitted.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn completed(&self) {
        self.completed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn expired(&self) {
        self.expired.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn cancelled(&self) {
        self.cancelled.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives up what has not begun to execute.
    pub(super) fn discard(&self) {
        self.discarded.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_discarded(&self) -> bool {
        self.discarded.load(Ordering::Relaxed)
    }
}
