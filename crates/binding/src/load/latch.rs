//! A value that is made once, whoever asks first.

use std::fmt;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex, MutexGuard};

/// A value that one thread makes while the others wait for it.
pub(crate) struct Latch<T> {
    phase: Mutex<Phase<T>>,
    changed: Condvar,
}

enum Phase<T> {
    Idle,
    Busy,
    Done(T),
}

/// What a latch is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Idle,
    Busy,
    Done,
}

/// Lets others try if the maker panics.
struct Maker<'l, T>(&'l Latch<T>);

impl<T> Drop for Maker<'_, T> {
    fn drop(&mut self) {
        let mut phase = self.0.lock();
        if matches!(*phase, Phase::Busy) {
            *phase = Phase::Idle;
        }
        drop(phase);
        self.0.changed.notify_all();
    }
}

impl<T: Clone> Latch<T> {
    pub(crate) fn new() -> Self {
        Self {
            phase: Mutex::new(Phase::Idle),
            changed: Condvar::new(),
        }
    }

    /// The value; made by this thread if no other has begun to make it.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T) -> T {
        loop {
            if self.begin() {
                return self.finish(make);
            }
            if let Some(value) = self.wait() {
                return value;
            }
            // The maker panicked: it is this thread's turn, or another's.
        }
    }

    /// Whether this thread has to call [`finish`](Self::finish) now.
    pub(crate) fn begin(&self) -> bool {
        let mut phase = self.lock();
        let idle = matches!(*phase, Phase::Idle);
        if idle {
            *phase = Phase::Busy;
        }
        idle
    }

    /// As [`finish`](Self::finish), and keeps no copy of the value.
    pub(crate) fn fill(&self, make: impl FnOnce() -> T) {
        let maker = Maker(self);
        let value = make();
        *self.lock() = Phase::Done(value);
        drop(maker);
    }

    /// Makes the value, after [`begin`](Self::begin) has said so.
    pub(crate) fn finish(&self, make: impl FnOnce() -> T) -> T {
        let maker = Maker(self);
        let value = make();
        *self.lock() = Phase::Done(value.clone());
        drop(maker);
        value
    }

    /// Waits while the value is being made; `None` if nobody is making it.
    pub(crate) fn wait(&self) -> Option<T> {
        let mut phase = self.lock();
        while matches!(*phase, Phase::Busy) {
            phase = self
                .changed
                .wait(phase)
                .unwrap_or_else(PoisonError::into_inner);
        }
        value(&phase)
    }

    /// As [`wait`](Self::wait), and no longer than `limit`.
    pub(crate) fn wait_for(&self, limit: Duration) -> Option<T> {
        let start = Instant::now();
        let mut phase = self.lock();
        while matches!(*phase, Phase::Busy) {
            let left = limit.checked_sub(start.elapsed())?;
            phase = self
                .changed
                .wait_timeout(phase, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        value(&phase)
    }

    pub(crate) fn progress(&self) -> Progress {
        match *self.lock() {
            Phase::Idle => Progress::Idle,
            Phase::Busy => Progress::Busy,
            Phase::Done(_) => Progress::Done,
        }
    }

    /// The value, where it is made.
    pub(crate) fn peek(&self) -> Option<T> {
        value(&self.lock())
    }
}

impl<T> Latch<T> {
    /// Waits while the value is being made and takes it out, no longer than
    /// `limit` if there is one.
    pub(crate) fn wait_and_take(&self, limit: Option<Duration>) -> Option<T> {
        let start = Instant::now();
        let mut phase = self.lock();
        while matches!(*phase, Phase::Busy) {
            phase = match limit {
                None => self
                    .changed
                    .wait(phase)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(limit) => {
                    let left = limit.checked_sub(start.elapsed())?;
                    self.changed
                        .wait_timeout(phase, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
        drop(phase);
        self.take()
    }

    /// Takes the value out; the next to ask makes it again.
    pub(crate) fn take(&self) -> Option<T> {
        let mut phase = self.lock();
        match std::mem::replace(&mut *phase, Phase::Idle) {
            Phase::Done(value) => Some(value),
            other => {
                *phase = other;
                None
            }
        }
    }

    /// Puts a value back that was taken, unless another is being made.
    pub(crate) fn put_back(&self, value: T) {
        let mut phase = self.lock();
        if matches!(*phase, Phase::Idle) {
            *phase = Phase::Done(value);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Phase<T>> {
        // A phase is replaced whole, so a panic elsewhere leaves it sound.
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn value<T: Clone>(phase: &Phase<T>) -> Option<T> {
    match phase {
        Phase::Done(value) => Some(value.clone()),
        Phase::Idle | Phase::Busy => None,
    }
}

impl<T> fmt::Debug for Latch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latch").finish_non_exhaustive()
    }
}
