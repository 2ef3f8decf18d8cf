//! A bounded store of things that are taken and put back.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex, MutexGuard};

/// Things of which each has one holder at a time.
pub(crate) struct Store<T> {
    things: Mutex<Vec<T>>,
    returned: Condvar,
}

impl<T> Store<T> {
    pub(crate) fn new(things: Vec<T>) -> Self {
        Self {
            things: Mutex::new(things),
            returned: Condvar::new(),
        }
    }

    /// Takes one; waits until there is one.
    pub(crate) fn take(&self) -> T {
        let mut things = self.lock();
        loop {
            if let Some(thing) = things.pop() {
                return thing;
            }
            things = self
                .returned
                .wait(things)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes one if there is one.
    pub(crate) fn try_take(&self) -> Option<T> {
        self.lock().pop()
    }

    /// Takes one; waits no longer than `limit`.
    pub(crate) fn take_within(&self, limit: Duration) -> Option<T> {
        let start = Instant::now();
        let mut things = self.lock();
        loop {
            if let Some(thing) = things.pop() {
                return Some(thing);
            }
            let left = limit.checked_sub(start.elapsed())?;
            things = self
                .returned
                .wait_timeout(things, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Puts one back.
    pub(crate) fn put(&self, thing: T) {
        self.lock().push(thing);
        self.returned.notify_one();
    }

    /// How many there are to take.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        // A push or a pop is done or not, so a panic elsewhere leaves it sound.
        self.things.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
