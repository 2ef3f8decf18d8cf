//! What a runtime did: which calls, how long, how many bytes, for which slot.
//!
//! [`Observed`] is a backend around a backend. It notes every call in a
//! [`Recorder`] and, with the feature `tracing`, opens a span for it. A program
//! that does not wrap its backend pays nothing.
//!
//! A [`RunReport`] says where a run happened and what it moved (user needs, row
//! 26); [`Recorder::write_trace`] writes the calls in the Trace Event Format,
//! which Chrome and Perfetto show.

mod backend;
mod report;
#[cfg(test)]
mod tests;
mod trace;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use metaneff_schema::nrt::Status;

pub use backend::{Observed, ObservedModel, ObservedTensor};
pub use report::{CallReport, LoadedModel, RunReport, SlotReport};

use crate::backend::Core;

/// Events that a recorder keeps unless it is told otherwise.
const DEFAULT_EVENTS: usize = 64 << 10;

/// Notes the calls of a backend.
///
/// Clones are one recorder. It keeps the newest events, as many as it is told,
/// and counts all of them.
#[derive(Clone)]
pub struct Recorder {
    inner: Arc<Inner>,
}

struct Inner {
    start: Instant,
    state: Mutex<State>,
}

struct State {
    events: VecDeque<Event>,
    capacity: usize,
    /// Events that were forgotten.
    dropped: u64,
    report: RunReport,
}

/// One call of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Which call.
    pub call: Call,
    /// The slot or tensor, where the call concerns one.
    pub slot: Option<Arc<str>>,
    /// The core, where it is known.
    pub core: Option<Core>,
    /// Bytes moved or allocated.
    pub bytes: u64,
    /// When it began, from when the recorder was made.
    pub start: Duration,
    /// How long it took.
    pub duration: Duration,
    /// What it answered: success, 1003 for a completion with a NaN, or the
    /// status of its error.
    pub status: Status,
    /// The calling thread, numbered in the order of its first event.
    pub thread: u64,
}

/// A call that is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Call {
    /// [`Backend::load`](crate::Backend::load).
    Load,
    /// [`Backend::unload`](crate::Backend::unload).
    Unload,
    /// [`Backend::allocate`](crate::Backend::allocate).
    Allocate,
    /// [`Backend::write`](crate::Backend::write).
    Write,
    /// [`Backend::read`](crate::Backend::read).
    Read,
    /// [`Backend::copy`](crate::Backend::copy).
    Copy,
    /// [`Backend::bind`](crate::Backend::bind).
    Bind,
    /// [`Backend::execute`](crate::Backend::execute).
    Execute,
}

impl Call {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Unload => "unload",
            Self::Allocate => "allocate",
            Self::Write => "write",
            Self::Read => "read",
            Self::Copy => "copy",
            Self::Bind => "bind",
            Self::Execute => "execute",
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// A recorder that keeps the newest 65,536 events.
    #[must_use]
    pub fn new() -> Self {
        Self::with_events(DEFAULT_EVENTS)
    }

    /// A recorder that keeps so many events.
    #[must_use]
    pub fn with_events(capacity: usize) -> Self {
        Self {
            inner: Arc::new(Inner {
                start: Instant::now(),
                state: Mutex::new(State {
                    events: VecDeque::new(),
                    capacity,
                    dropped: 0,
                    report: RunReport::default(),
                }),
            }),
        }
    }

    /// The events that are kept, oldest first.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.lock().events.iter().cloned().collect()
    }

    /// How many events were forgotten because newer ones came.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// What happened so far.
    #[must_use]
    pub fn report(&self) -> RunReport {
        self.lock().report.clone()
    }

    /// Forgets all events and counts; what is loaded stays noted.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.events.clear();
        state.dropped = 0;
        state.report.forget();
    }

    fn elapsed(&self) -> Duration {
        self.inner.start.elapsed()
    }

    fn note(&self, event: Event) {
        let mut state = self.lock();
        state.report.add(&event);
        if state.events.len() >= state.capacity {
            state.dropped += 1;
            if state.events.pop_front().is_none() {
                return;
            }
        }
        state.events.push_back(event);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counts may be short of one after a panic, and nothing else.
        self.inner
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Recorder")
            .field("events", &state.events.len())
            .field("dropped", &state.dropped)
            .finish_non_exhaustive()
    }
}
