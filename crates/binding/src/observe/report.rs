//! What a run was and did, in numbers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use metaneff_schema::nrt::Status;
use serde::Serialize;

use super::{Call, Event};
use crate::backend::{BackendInfo, Core};

/// Where a run happened and what it did: proof of what executed a model.
///
/// Printed it is a few lines for people; [`to_json`](Self::to_json) is for
/// programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunReport {
    /// The backend.
    pub backend: Option<BackendInfo>,
    /// The models that were loaded, in order.
    pub models: Vec<LoadedModel>,
    /// All calls, by kind.
    pub calls: BTreeMap<Call, CallReport>,
    /// Writes and reads, by slot.
    pub slots: BTreeMap<String, SlotReport>,
    /// Executions that completed without a NaN.
    pub clean: u64,
    /// Executions that completed with one (status 1003).
    pub numerical_errors: u64,
    /// Failed calls, by status.
    pub failures: BTreeMap<Status, u64>,
}

/// A model that was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadedModel {
    /// Its core, where the backend says it.
    pub core: Option<Core>,
    /// Bytes of its NEFF.
    pub neff_size: u64,
    /// SHA-256 of its NEFF, in hexadecimal.
    pub neff_sha256: String,
}

/// Calls of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallReport {
    /// How many.
    pub count: u64,
    /// Bytes of those that succeeded.
    pub bytes: u64,
    /// Time in all of them.
    pub time: Duration,
    /// The longest one.
    pub longest: Duration,
}

/// What was moved for one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotReport {
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read: u64,
}

impl RunReport {
    /// Bytes that went from the host to the device.
    #[must_use]
    pub fn host_to_device(&self) -> u64 {
        self.bytes(Call::Write)
    }

    /// Bytes that came from the device to the host.
    #[must_use]
    pub fn device_to_host(&self) -> u64 {
        self.bytes(Call::Read)
    }

    fn bytes(&self, call: Call) -> u64 {
        self.calls.get(&call).map_or(0, |calls| calls.bytes)
    }

    pub(super) fn add(&mut self, event: &Event) {
        let completed = event.status.is_completed();
        let calls = self.calls.entry(event.call).or_default();
        calls.count += 1;
        calls.time += event.duration;
        calls.longest = calls.longest.max(event.duration);
        if completed {
            calls.bytes += event.bytes;
        } else {
            *self.failures.entry(event.status).or_default() += 1;
        }
        match event.call {
            Call::Execute if event.status == Status::SUCCESS => self.clean += 1,
            Call::Execute if completed => self.numerical_errors += 1,
            Call::Write | Call::Read if completed => {
                let Some(slot) = &event.slot else { return };
                if !self.slots.contains_key(&**slot) {
                    self.slots.insert(slot.to_string(), SlotReport::default());
                }
                if let Some(report) = self.slots.get_mut(&**slot) {
                    if event.call == Call::Write {
                        report.writes += 1;
                        report.written += event.bytes;
                    } else {
                        report.reads += 1;
                        report.read += event.bytes;
                    }
                }
            }
            _ => {}
        }
    }

    /// Forgets the counts.
    pub(super) fn forget(&mut self) {
        *self = Self {
            backend: self.backend.take(),
            models: std::mem::take(&mut self.models),
            ..Self::default()
        };
    }

    /// The report as JSON. Times are in microseconds.
    #[must_use]
    pub fn to_json(&self) -> String {
        let value = Json::of(self);
        match serde_json::to_string_pretty(&value) {
            Ok(text) => text,
            Err(error) => unreachable!("strings and numbers have a text: {error}"),
        }
    }
}

/// The report's form in JSON.
#[derive(Serialize)]
struct Json<'r> {
    backend: Option<JsonBackend<'r>>,
    models: Vec<JsonModel<'r>>,
    calls: BTreeMap<&'static str, JsonCall>,
    slots: BTreeMap<&'r str, JsonSlot>,
    completed_clean: u64,
    completed_with_nan: u64,
    failures: BTreeMap<String, u64>,
}

#[derive(Serialize)]
struct JsonBackend<'r> {
    name: &'r str,
    device: bool,
    version: &'r str,
    location: &'r str,
    instance: &'r str,
    visible_cores: u32,
    total_cores: u32,
}

#[derive(Serialize)]
struct JsonModel<'r> {
    core: Option<u32>,
    neff_size: u64,
    neff_sha256: &'r str,
}

#[derive(Serialize)]
struct JsonCall {
    count: u64,
    bytes: u64,
    time_us: u128,
    longest_us: u128,
}

#[derive(Serialize)]
struct JsonSlot {
    writes: u64,
    written: u64,
    reads: u64,
    read: u64,
}

impl<'r> Json<'r> {
    fn of(report: &'r RunReport) -> Self {
        Self {
            backend: report.backend.as_ref().map(|backend| JsonBackend {
                name: backend.name,
                device: backend.device,
                version: &backend.version,
                location: &backend.location,
                instance: &backend.instance,
                visible_cores: backend.visible_cores,
                total_cores: backend.total_cores,
            }),
            models: report
                .models
                .iter()
                .map(|model| JsonModel {
                    core: model.core.map(Core::index),
                    neff_size: model.neff_size,
                    neff_sha256: &model.neff_sha256,
                })
                .collect(),
            calls: report
                .calls
                .iter()
                .map(|(call, calls)| {
                    let calls = JsonCall {
                        count: calls.count,
                        bytes: calls.bytes,
                        time_us: calls.time.as_micros(),
                        longest_us: calls.longest.as_micros(),
                    };
                    (call.name(), calls)
                })
                .collect(),
            slots: report
                .slots
                .iter()
                .map(|(slot, moved)| {
                    let moved = JsonSlot {
                        writes: moved.writes,
                        written: moved.written,
                        reads: moved.reads,
                        read: moved.read,
                    };
                    (slot.as_str(), moved)
                })
                .collect(),
            completed_clean: report.clean,
            completed_with_nan: report.numerical_errors,
            failures: report
                .failures
                .iter()
                .map(|(status, count)| (status.to_string(), *count))
                .collect(),
        }
    }
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.backend {
            Some(backend) => {
                let kind = if backend.device {
                    "device"
                } else {
                    "no device"
                };
                write!(f, "backend {} ({kind})", backend.name)?;
                for text in [&backend.version, &backend.location, &backend.instance] {
                    if !text.is_empty() {
                        write!(f, ", {text}")?;
                    }
                }
                let (visible, total) = (backend.visible_cores, backend.total_cores);
                write!(f, ", {visible} of {total} cores visible")?;
            }
            None => f.write_str("no backend")?,
        }
        for model in &self.models {
            let (hash, size) = (&model.neff_sha256, model.neff_size);
            match model.core {
                Some(core) => write!(f, "\nmodel on {core}: {size} bytes, sha256 {hash}")?,
                None => write!(f, "\nmodel: {size} bytes, sha256 {hash}")?,
            }
        }
        for (call, calls) in &self.calls {
            let CallReport {
                count, bytes, time, ..
            } = calls;
            write!(
                f,
                "\n{call:8} {count:>8} calls {bytes:>12} bytes {time:>12.3?}"
            )?;
        }
        write!(
            f,
            "\n{} executions clean, {} with a NaN",
            self.clean, self.numerical_errors
        )?;
        for (status, count) in &self.failures {
            write!(f, "\n{count} calls answered {status}")?;
        }
        Ok(())
    }
}
