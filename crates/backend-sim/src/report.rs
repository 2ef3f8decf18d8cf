//! What a simulator has done: counters and reports.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metaneff_binding::{CollectiveContext, Core, Transfers};
use metaneff_schema::nrt::Status;

use crate::config::Numerics;
use crate::instance::Instance;

/// Where and how one execution took place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunReport {
    /// Always `sim`: no Neuron device took part.
    pub backend: &'static str,
    /// The simulated instance.
    pub instance: Instance,
    /// The core.
    pub core: Core,
    /// The model's name.
    pub model: String,
    /// The hash in the NEFF's header, in hexadecimal digits.
    pub neff_hash: String,
    /// Rank and world, for a model that has them.
    pub collectives: Option<CollectiveContext>,
    /// Bytes read from input tensors.
    pub input_bytes: u64,
    /// Bytes written to output tensors.
    pub output_bytes: u64,
    /// How numbers were computed.
    pub numerics: Numerics,
    /// What the execution answered.
    pub status: Status,
    /// How long it took, additional time included.
    pub elapsed: Duration,
    /// Where the inputs were dumped, if they were.
    pub input_dump: Option<PathBuf>,
}

/// What one core has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoreStats {
    /// Models loaded now.
    pub models: u32,
    /// Executions that take place now.
    pub running: u32,
    /// Executions that completed, those with a NaN included.
    pub executions: u64,
    /// Executions that answered status 1003.
    pub numerical_errors: u64,
    /// Executions that failed.
    pub failures: u64,
    /// Time spent in executions.
    pub busy: Duration,
    /// Bytes of device memory in use now.
    pub memory_used: u64,
    /// Bytes of device memory that were in use at most.
    pub memory_peak: u64,
    /// Bytes of device memory in all.
    pub memory_limit: u64,
    /// The status that made the core unusable, if it is.
    pub poisoned: Option<Status>,
}

/// Objects that were handed out and not given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveObjects {
    /// Tensors, slices included.
    pub tensors: usize,
    /// Tensor sets.
    pub sets: usize,
    /// Models.
    pub models: usize,
}

impl LiveObjects {
    /// All of them.
    #[must_use]
    pub const fn total(self) -> usize {
        self.tensors + self.sets + self.models
    }
}

/// Counts what is moved.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) host_to_device: AtomicU64,
    pub(crate) device_to_host: AtomicU64,
    pub(crate) device_to_device: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) copies: AtomicU64,
    pub(crate) binds: AtomicU64,
    pub(crate) executions: AtomicU64,
    pub(crate) allocations: AtomicU64,
}

/// A number of bytes or objects, which 64 bits hold on every platform.
pub(crate) fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, number: u64) {
        counter.fetch_add(number, Ordering::Relaxed);
    }

    pub(crate) fn transfers(&self) -> Transfers {
        let mut transfers = Transfers::default();
        for (to, from) in [
            (&mut transfers.host_to_device, &self.host_to_device),
            (&mut transfers.device_to_host, &self.device_to_host),
            (&mut transfers.device_to_device, &self.device_to_device),
            (&mut transfers.writes, &self.writes),
            (&mut transfers.reads, &self.reads),
            (&mut transfers.copies, &self.copies),
            (&mut transfers.binds, &self.binds),
            (&mut transfers.executions, &self.executions),
            (&mut transfers.allocations, &self.allocations),
        ] {
            *to = from.load(Ordering::Relaxed);
        }
        transfers
    }
}
