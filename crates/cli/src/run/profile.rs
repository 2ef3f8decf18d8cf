//! What took place when: by step of the run, by instruction, by opcode.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use metaneff_binding::Artifact;
use metaneff_hlo::options::ExecuteOptions;
use metaneff_hlo::{Executable, Module};
use metaneff_schema::decode_hlo;
use serde_json::{Value, json};

use crate::backend::BackendArgs;
use crate::bind::Bindings;
use crate::exit::Failure;
use crate::files;
use crate::text::{count, table};

/// Instructions that a trace keeps at most: loops can execute any number.
const TRACED: usize = 100_000;

/// Spans in the order of their start.
#[derive(Debug)]
pub(super) struct Timeline {
    origin: Instant,
    spans: Vec<Span>,
}

#[derive(Debug)]
struct Span {
    name: String,
    lane: Lane,
    start: Duration,
    length: Duration,
    detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Host = 1,
    Instructions = 2,
}

impl Timeline {
    pub(super) fn new() -> Self {
        Self {
            origin: Instant::now(),
            spans: Vec::new(),
        }
    }

    /// Times a step.
    pub(super) fn span<T>(&mut self, name: &str, step: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = step();
        self.add(name, start);
        result
    }

    /// Adds a step that began at `start` and ends now.
    pub(super) fn add(&mut self, name: &str, start: Instant) {
        self.spans.push(Span {
            name: name.to_owned(),
            lane: Lane::Host,
            start: start.duration_since(self.origin),
            length: start.elapsed(),
            detail: String::new(),
        });
    }

    /// Writes the spans in Chrome's trace format.
    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let mut events = vec![
            json!({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "metaneff run"}}),
            json!({"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "host"}}),
        ];
        if self
            .spans
            .iter()
            .any(|span| span.lane == Lane::Instructions)
        {
            let name = "instructions, executed once more for this trace";
            events.push(json!({"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": name}}));
        }
        events.extend(self.spans.iter().map(|span| {
            let mut event = json!({
                "ph": "X",
                "pid": 1,
                "tid": span.lane as u8,
                "name": span.name,
                "ts": micros(span.start),
                "dur": micros(span.length),
            });
            if !span.detail.is_empty() {
                event["args"] = json!({ "instruction": span.detail });
            }
            event
        }));
        let document = json!({ "displayTimeUnit": "ns", "traceEvents": events });
        let text = document.to_string();
        files::write(path, [text.as_bytes()])
    }
}

/// Time by opcode.
#[derive(Debug, Default)]
pub(super) struct Profile {
    opcodes: BTreeMap<String, (u64, Duration)>,
    total: Duration,
}

/// The bytes of every input, by ordinal.
pub(super) fn by_slot(bindings: &Bindings) -> BTreeMap<usize, Bytes> {
    let tensors = bindings
        .inputs
        .iter()
        .chain(&bindings.states)
        .chain(&bindings.weights);
    let bytes = tensors.map(|tensor| {
        (
            tensor.ordinal().index(),
            Bytes::copy_from_slice(tensor.bytes()),
        )
    });
    bytes.collect()
}

/// Executes the module once more, with a look at every instruction. An
/// instruction that calls a computation has the time of what it adds to it.
pub(super) fn execute(
    artifact: &Artifact,
    inputs: &BTreeMap<usize, Bytes>,
    backend: &BackendArgs,
    timeline: &mut Timeline,
) -> Result<Option<Profile>, Failure> {
    let Some(graph) = artifact.graph() else {
        return Ok(None);
    };
    let proto = decode_hlo(graph.clone()).map_err(|error| Failure::backend(&error))?;
    let module = Module::verify(&proto).map_err(|error| Failure::backend(&error))?;
    let executable = Executable::new(module);
    let zeros: Vec<Vec<u8>> = artifact
        .contract()
        .inputs()
        .iter()
        .map(|slot| match inputs.contains_key(&slot.ordinal().index()) {
            true => Vec::new(),
            // States begin at zero; a constant of the contract is given as it is.
            false if slot.content().is_empty() => vec![0; slot.byte_size()],
            false => slot.content().to_vec(),
        })
        .collect();
    let arguments: Vec<&[u8]> = zeros
        .iter()
        .enumerate()
        .map(|(ordinal, zeros)| inputs.get(&ordinal).map_or(&**zeros, |bytes| &**bytes))
        .collect();
    let mut options = ExecuteOptions::default();
    options.nan_policy = backend.nan_policy();
    options.oob_policy = backend.oob_policy();
    let mut profile = Profile::default();
    let mut before = Instant::now();
    let mut traced = 0;
    let origin = timeline.origin;
    let spans = &mut timeline.spans;
    executable
        .execute_traced(&arguments, &options, &mut |event| {
            let length = before.elapsed();
            let opcode = event.instruction.opcode();
            let entry = profile.opcodes.entry(opcode.to_owned()).or_default();
            entry.0 += 1;
            entry.1 += length;
            profile.total += length;
            if traced < TRACED {
                traced += 1;
                spans.push(Span {
                    name: opcode.to_owned(),
                    lane: Lane::Instructions,
                    start: before.duration_since(origin),
                    length,
                    detail: format!(
                        "{} = {} in {}",
                        event.instruction.name(),
                        event.instruction.shape(),
                        event.computation.name()
                    ),
                });
            }
            before = Instant::now();
        })
        .map_err(|error| Failure::backend(&error))?;
    Ok(Some(profile))
}

impl Profile {
    fn sorted(&self) -> Vec<(&str, u64, Duration)> {
        let mut rows: Vec<_> = self
            .opcodes
            .iter()
            .map(|(name, (number, time))| (name.as_str(), *number, *time))
            .collect();
        rows.sort_by_key(|(name, _, time)| (std::cmp::Reverse(*time), *name));
        rows
    }

    pub(super) fn text(&self) -> String {
        let mut rows = table(&["opcode", "#executed", "#µs", "#share"]);
        for (name, number, time) in self.sorted() {
            let share = time.as_secs_f64() / self.total.as_secs_f64().max(f64::MIN_POSITIVE);
            rows.add_row([
                name.to_owned(),
                count(number),
                format!("{:.1}", time.as_secs_f64() * 1e6),
                format!("{:.1} %", share * 100.0),
            ]);
        }
        let mut text = String::new();
        let _ = writeln!(
            text,
            "time by opcode on this machine's CPU, which says nothing of a device"
        );
        let _ = writeln!(text, "{rows}");
        text
    }

    pub(super) fn json(&self) -> Value {
        self.sorted()
            .iter()
            .map(|(name, number, time)| {
                json!({ "opcode": name, "executed": number, "microseconds": time.as_secs_f64() * 1e6 })
            })
            .collect()
    }
}
