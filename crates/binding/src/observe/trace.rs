//! Events in the Trace Event Format.
//!
//! Source: "Trace Event Format", the document of the Chromium project; complete
//! events have phase `X`, times in microseconds.

use std::io::{self, Write};

use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};

use super::{Event, Recorder};

/// The file: what `chrome://tracing` and Perfetto open.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'e> {
    trace_events: Lines<'e>,
    display_time_unit: &'static str,
}

struct Lines<'e>(&'e [Event]);

impl Serialize for Lines<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for event in self.0 {
            list.serialize_element(&Line::of(event))?;
        }
        list.end()
    }
}

#[derive(Serialize)]
struct Line<'e> {
    name: String,
    cat: &'static str,
    ph: &'static str,
    ts: f64,
    dur: f64,
    /// A core is shown as a process, with the threads that called for it.
    pid: u32,
    tid: u64,
    args: Arguments<'e>,
}

#[derive(Serialize)]
struct Arguments<'e> {
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<&'e str>,
    bytes: u64,
    status: i32,
}

impl<'e> Line<'e> {
    fn of(event: &'e Event) -> Self {
        let micros = |duration: std::time::Duration| duration.as_secs_f64() * 1e6;
        let slot = event.slot.as_deref();
        Self {
            name: match slot {
                Some(slot) => format!("{} {slot}", event.call),
                None => event.call.name().to_owned(),
            },
            cat: event.call.name(),
            ph: "X",
            ts: micros(event.start),
            dur: micros(event.duration),
            pid: event.core.map_or(0, crate::Core::index),
            tid: event.thread,
            args: Arguments {
                slot,
                bytes: event.bytes,
                status: event.status.0,
            },
        }
    }
}

impl Recorder {
    /// Writes the events that are kept as a trace for Chrome (`chrome://tracing`)
    /// and Perfetto.
    ///
    /// # Errors
    ///
    /// What the writer answers.
    pub fn write_trace(&self, mut out: impl Write) -> io::Result<()> {
        let events = self.events();
        let file = File {
            trace_events: Lines(&events),
            display_time_unit: "ms",
        };
        serde_json::to_writer(&mut out, &file)?;
        out.flush()
    }
}
