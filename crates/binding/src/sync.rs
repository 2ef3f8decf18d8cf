//! The locks of what threads share. Tests that explore schedules replace this
//! module (`tests/schedules.rs`).

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
