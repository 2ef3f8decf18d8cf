//! What calls did, and when: the source of every trace that the library gives.
//!
//! A call that takes place on a core is one [`Span`]. Nothing is kept unless
//! someone asked for it: a system trace in rings that are fetched from, or a
//! recording that is written to a file, in the JSON of Chrome's trace viewer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use std::{fs, io, process};

use metaneff_schema::nrt::Status;
use serde_json::{Value, json};

/// What a span is: the types of a system trace's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// An execution.
    Execute,
    /// A model that is loaded.
    Load,
    /// Bytes that come from a tensor.
    Read,
    /// Bytes that go to a tensor.
    Write,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Execute, Self::Load, Self::Read, Self::Write];

    /// Its name in a system trace.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Execute => "nc_exec_running",
            Self::Load => "nrt_load",
            Self::Read => "nrt_tensor_read",
            Self::Write => "nrt_tensor_write",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// One call on a core.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) kind: Kind,
    pub(crate) core: u32,
    /// Handle of the model, or 0.
    pub(crate) model: usize,
    /// Name of the model or of the tensor.
    pub(crate) name: String,
    pub(crate) bytes: usize,
    pub(crate) status: Status,
    id: u64,
    start: Duration,
    end: Duration,
}

/// What a system trace keeps: `nrt_sys_trace_config_t`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Events of each core that wait to be fetched; the oldest go first.
    pub(crate) capacity: usize,
    /// Cores that are left out.
    pub(crate) without: BTreeSet<u32>,
    pub(crate) kinds: BTreeSet<Kind>,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            capacity: 1 << 16,
            without: BTreeSet::new(),
            kinds: Kind::ALL.into(),
        }
    }
}

impl Filter {
    fn keeps(&self, span: &Span) -> bool {
        self.kinds.contains(&span.kind) && !self.without.contains(&span.core)
    }
}

/// Spans that end up in a file.
#[derive(Debug)]
struct Recording {
    /// The one model that is recorded; all calls are, if none.
    model: Option<usize>,
    filter: Filter,
    /// Keeps the spans only if one of them failed.
    on_fail: bool,
    spans: VecDeque<Span>,
}

#[derive(Debug, Default)]
struct State {
    rings: Option<(Filter, BTreeMap<u32, VecDeque<Span>>)>,
    recordings: BTreeMap<String, Recording>,
    /// The last execution on each core, for continuous profiling.
    latest: Option<BTreeMap<u32, Span>>,
    files: u64,
}

/// Who has a recording.
pub(crate) const WHOLE: &str = "\0trace";
pub(crate) const INSPECT: &str = "\0inspect";

/// The spans of a runtime.
#[derive(Debug)]
pub(crate) struct Recorder {
    active: AtomicBool,
    next: AtomicU64,
    zero: Instant,
    /// When `zero` was, since the epoch.
    epoch: Duration,
    state: Mutex<State>,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self {
            active: AtomicBool::new(false),
            next: AtomicU64::new(1),
            zero: Instant::now(),
            epoch: SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default(),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is kept.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let answer = change(&mut state);
        let active =
            state.rings.is_some() || state.latest.is_some() || !state.recordings.is_empty();
        self.active.store(active, Ordering::Release);
        answer
    }

    /// Notes what `work` did, if anyone wants to know. `describe` tells the core,
    /// the model, a name and a number of bytes.
    pub(crate) fn span<T, E>(
        &self,
        kind: Kind,
        describe: impl FnOnce(&Result<T, E>) -> (u32, usize, String, usize),
        status: impl FnOnce(&Result<T, E>) -> Status,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if !self.active.load(Ordering::Acquire) {
            return work();
        }
        let start = self.zero.elapsed();
        let result = work();
        // A call takes some time, whatever the clock can show.
        let end = self.zero.elapsed().max(start + Duration::from_nanos(1));
        let (core, model, name, bytes) = describe(&result);
        self.keep(Span {
            kind,
            core,
            model,
            name,
            bytes,
            status: status(&result),
            id: self.next.fetch_add(1, Ordering::Relaxed),
            start,
            end,
        });
        result
    }

    fn keep(&self, span: Span) {
        let mut state = self.state();
        if let Some((filter, rings)) = &mut state.rings
            && filter.keeps(&span)
        {
            let ring = rings.entry(span.core).or_default();
            // A span is two events.
            while !ring.is_empty() && (ring.len() + 1) * 2 > filter.capacity {
                ring.pop_front();
            }
            if filter.capacity >= 2 {
                ring.push_back(span.clone());
            }
        }
        if let Some(latest) = &mut state.latest
            && span.kind == Kind::Execute
        {
            latest.insert(span.core, span.clone());
        }
        for recording in state.recordings.values_mut() {
            if recording.filter.keeps(&span) && recording.model.is_none_or(|m| m == span.model) {
                recording.spans.push_back(span.clone());
                while recording.spans.len() > recording.filter.capacity {
                    recording.spans.pop_front();
                }
            }
        }
    }

    /// Starts a system trace; what an earlier one kept is gone.
    pub(crate) fn start(&self, filter: Filter) {
        self.change(|state| state.rings = Some((filter, BTreeMap::new())));
    }

    /// Ends the system trace; answers whether there was one.
    pub(crate) fn stop(&self) -> bool {
        self.change(|state| state.rings.take()).is_some()
    }

    /// Takes events of the system trace, as JSON; of one core, or of all.
    pub(crate) fn fetch(&self, core: Option<u32>, limit: usize) -> String {
        let mut events = Vec::new();
        let mut state = self.state();
        for (index, ring) in state.rings.iter_mut().flat_map(|(_, rings)| rings) {
            if core.is_some_and(|core| core != *index) {
                continue;
            }
            let count = ring.len().min(limit.div_ceil(2));
            for span in ring.drain(..count) {
                events.push(self.event(&span, "start", span.start));
                events.push(self.event(&span, "stop", span.end));
            }
        }
        json!({ "events": events }).to_string()
    }

    fn event(&self, span: &Span, phase: &str, at: Duration) -> Value {
        let at = self.epoch.saturating_add(at);
        let mut data = json!({
            "name": span.name,
            "nc_idx": span.core,
            "status": span.status.0,
            "bytes": span.bytes,
        });
        let clock = match span.kind {
            Kind::Execute => "nc_timestamp_ns",
            Kind::Load | Kind::Read | Kind::Write => "cpu_timestamp_ns",
        };
        data[clock] = nanoseconds(at).into();
        json!({
            "event_type": span.kind.name(),
            "phase": phase,
            "tracking_id": span.id,
            "nc_idx": span.core,
            "data": data,
        })
    }

    /// Starts to record for a file; answers whether it is the first of its name.
    pub(crate) fn record(
        &self,
        name: &str,
        model: Option<usize>,
        filter: Filter,
        on_fail: bool,
    ) -> bool {
        self.change(|state| {
            if state.recordings.contains_key(name) {
                return false;
            }
            let spans = VecDeque::new();
            let recording = Recording {
                model,
                filter,
                on_fail,
                spans,
            };
            state.recordings.insert(name.to_owned(), recording);
            true
        })
    }

    /// Ends a recording; answers the trace that it makes, or `None` if there is
    /// no recording of this name.
    pub(crate) fn finish(&self, name: &str) -> Option<Option<String>> {
        let recording = self.change(|state| state.recordings.remove(name))?;
        let failed = |span: &Span| !span.status.is_completed();
        if recording.on_fail && !recording.spans.iter().any(failed) {
            return Some(None);
        }
        Some(Some(self.chrome(recording.spans.iter())))
    }

    /// Keeps the last execution of each core from now on, or no longer; answers
    /// whether that is a change.
    pub(crate) fn keep_latest(&self, on: bool) -> bool {
        self.change(|state| {
            if state.latest.is_some() == on {
                return false;
            }
            state.latest = on.then(BTreeMap::new);
            true
        })
    }

    /// The trace of the last execution on a core.
    pub(crate) fn latest(&self, core: u32) -> Option<String> {
        let span = self.state().latest.as_ref()?.get(&core)?.clone();
        Some(self.chrome([&span].into_iter()))
    }

    /// Spans in the JSON of Chrome's trace viewer: times in microseconds, cores
    /// as threads.
    fn chrome<'a>(&self, spans: impl Iterator<Item = &'a Span>) -> String {
        let process = process::id();
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let mut cores = BTreeSet::new();
        let mut events: Vec<_> = spans
            .map(|span| {
                cores.insert(span.core);
                json!({
                    "name": span.name,
                    "cat": span.kind.name(),
                    "ph": "X",
                    "ts": micros(self.epoch.saturating_add(span.start)),
                    "dur": micros(span.end.saturating_sub(span.start)),
                    "pid": process,
                    "tid": span.core,
                    "args": {
                        "tracking_id": span.id,
                        "status": span.status.0,
                        "bytes": span.bytes,
                    },
                })
            })
            .collect();
        for core in cores {
            events.push(json!({
                "name": "thread_name", "ph": "M", "pid": process, "tid": core,
                "args": { "name": format!("core {core}") },
            }));
        }
        let source = concat!("metaneff simulator ", env!("CARGO_PKG_VERSION"));
        json!({
            "traceEvents": events,
            "displayTimeUnit": "ns",
            "otherData": { "source": source, "format": "Chrome trace, not NTFF" },
        })
        .to_string()
    }

    /// Writes `text` to a file of its own in `directory`.
    pub(crate) fn save(&self, directory: &Path, prefix: &str, text: &str) -> io::Result<PathBuf> {
        fs::create_dir_all(directory)?;
        let number = {
            let mut state = self.state();
            state.files += 1;
            state.files
        };
        let name = format!("{prefix}_pid_{}_{number}.json", process::id());
        let path = directory.join(name);
        fs::write(&path, text)?;
        Ok(path)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(recorder: &Recorder, kind: Kind, core: u32, status: Status) {
        let describe = |_: &_| (core, 7, format!("on {core}"), 4);
        let done: Result<(), ()> = recorder.span(kind, describe, |_| status, || Ok(()));
        done.unwrap();
    }

    fn events(text: &str) -> Vec<Value> {
        let value: Value = serde_json::from_str(text).unwrap();
        value["events"].as_array().unwrap().clone()
    }

    #[test]
    fn a_system_trace_is_fetched_once_and_forgets_the_oldest() {
        let recorder = Recorder::new();
        run(&recorder, Kind::Execute, 0, Status::SUCCESS);
        let filter = Filter {
            capacity: 5,
            without: [1].into(),
            ..Filter::default()
        };
        recorder.start(filter);
        for core in [0, 0, 0, 1, 2] {
            run(&recorder, Kind::Execute, core, Status::SUCCESS);
        }
        let fetched = events(&recorder.fetch(Some(0), usize::MAX));
        let ids: Vec<_> = fetched.iter().map(|e| e["tracking_id"].as_u64()).collect();
        assert_eq!(ids, [2, 2, 3, 3].map(Some));
        let at = |event: &Value| event["data"]["nc_timestamp_ns"].as_u64().unwrap();
        for pair in fetched.chunks(2) {
            assert_eq!(
                (&pair[0]["phase"], &pair[1]["phase"]),
                (&"start".into(), &"stop".into())
            );
            assert!(at(&pair[0]) < at(&pair[1]));
        }
        assert_eq!(events(&recorder.fetch(None, 1)).len(), 2);
        assert!(events(&recorder.fetch(None, 9)).is_empty());
        assert!(recorder.stop());
        assert!(!recorder.stop());
    }

    #[test]
    fn a_recording_is_a_chrome_trace() {
        let recorder = Recorder::new();
        assert!(recorder.record("a", Some(7), Filter::default(), false));
        assert!(!recorder.record("a", None, Filter::default(), false));
        assert!(recorder.record("b", Some(8), Filter::default(), false));
        assert!(recorder.record("c", None, Filter::default(), true));
        run(&recorder, Kind::Execute, 3, Status::SUCCESS);
        let text = recorder.finish("a").unwrap().unwrap();
        let trace: Value = serde_json::from_str(&text).unwrap();
        let event = &trace["traceEvents"][0];
        assert_eq!((&event["ph"], &event["tid"]), (&"X".into(), &3.into()));
        assert!(event["dur"].as_f64().unwrap() > 0.0);
        let text = recorder.finish("b").unwrap().unwrap();
        let trace: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(trace["traceEvents"], json!([]));
        assert_eq!(recorder.finish("c"), Some(None));
        assert_eq!(recorder.finish("c"), None);
    }

    #[test]
    fn the_latest_execution_of_a_core_is_kept() {
        let recorder = Recorder::new();
        assert!(recorder.keep_latest(true));
        assert!(!recorder.keep_latest(true));
        assert_eq!(recorder.latest(0), None);
        run(&recorder, Kind::Read, 0, Status::SUCCESS);
        assert_eq!(recorder.latest(0), None);
        run(&recorder, Kind::Execute, 0, Status::TIMEOUT);
        assert!(recorder.latest(0).unwrap().contains("\"status\":5"));
        assert!(recorder.keep_latest(false));
        assert_eq!(recorder.latest(0), None);
    }
}
