//! Waiting that ends when the simulator is closed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use crate::sync::{lock, wait_for};

/// Whether the simulator is open, and a place to wait until it is not.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    closed: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

/// The simulator was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed;

impl Gate {
    /// Closes the gate; answers whether it was open.
    pub(crate) fn close(&self) -> bool {
        let guard = lock(&self.lock);
        let first = !self.closed.swap(true, Ordering::AcqRel);
        drop(guard);
        self.wake.notify_all();
        first
    }

    pub(crate) fn check(&self) -> Result<(), Closed> {
        if self.closed.load(Ordering::Acquire) {
            Err(Closed)
        } else {
            Ok(())
        }
    }

    /// Waits until `until`, or for ever.
    pub(crate) fn sleep(&self, until: Option<Instant>) -> Result<(), Closed> {
        let mut guard = lock(&self.lock);
        loop {
            self.check()?;
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(());
            }
            guard = wait_for(&self.wake, guard, left);
        }
    }
}
