//! A value that is replaced whole while others use it.

use std::sync::{Arc, PoisonError};

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// A shared value with the number of its version, so that whoever holds one can
/// tell cheaply whether there is a newer one.
#[derive(Debug)]
pub(crate) struct Versioned<T> {
    current: Mutex<Arc<T>>,
    /// Changed only while the lock is held.
    epoch: AtomicU64,
}

impl<T> Versioned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            current: Mutex::new(Arc::new(value)),
            epoch: AtomicU64::new(0),
        }
    }

    /// Changes with every replacement.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The value of now, with its epoch.
    pub(crate) fn get(&self) -> (Arc<T>, u64) {
        let current = self.lock();
        (Arc::clone(&current), self.epoch())
    }

    /// Puts what `next` makes of the value of now in its place.
    pub(crate) fn replace(&self, next: impl FnOnce(&T) -> T) {
        let old = {
            let mut current = self.lock();
            let next = Arc::new(next(&current));
            self.epoch.fetch_add(1, Ordering::Release);
            std::mem::replace(&mut *current, next)
        };
        // Freed outside of the lock, unless somebody still uses it.
        drop(old);
    }

    fn lock(&self) -> MutexGuard<'_, Arc<T>> {
        // The guarded value is replaced whole, so a panic elsewhere leaves it sound.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
