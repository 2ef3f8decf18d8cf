//! Execution units: queues of work that a thread each carries out in order.
//!
//! A unit is one queue of one kind on one core. Its requests are numbered from 1
//! on, and a sequence id is the unit in the top 16 bits and the number below
//! (`nrt_async.h`). Threads are started when a unit is first used, and have
//! stacks that any execution fits on.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use metaneff_schema::nrt::Status;

use crate::log;

/// Requests that may wait in one queue.
pub(crate) const MAX_PENDING: usize = 4096;

/// Queues of each kind and core.
pub(crate) const QUEUES: u16 = 4;

/// Stack of a unit's thread.
const STACK: usize = 16 << 20;

const NUMBER_BITS: u32 = 48;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

/// Kinds of units: `nrta_xu_t`, and the one of implicit asynchronous execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read = 0,
    Write = 1,
    Op = 2,
    Compute = 3,
    Collectives = 4,
    /// `nrt_execute` that does not wait. The headers have no number for it.
    Implicit = 5,
}

const KINDS: u16 = 6;

impl Kind {
    /// A kind that the header numbers.
    pub(crate) fn numbered(number: u32) -> Option<Self> {
        let kinds = [
            Self::Read,
            Self::Write,
            Self::Op,
            Self::Compute,
            Self::Collectives,
        ];
        kinds.get(usize::try_from(number).ok()?).copied()
    }

    const fn index(self) -> u16 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Op => 2,
            Self::Compute => 3,
            Self::Collectives => 4,
            Self::Implicit => 5,
        }
    }
}

/// Work, and what is told of its outcome once it counts as done; both get the
/// sequence id.
pub(crate) struct Job {
    pub(crate) work: Box<dyn FnOnce(u64) -> Status + Send>,
    pub(crate) done: Option<Box<dyn FnOnce(u64, Status) + Send>>,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").finish_non_exhaustive()
    }
}

/// All units of a runtime.
#[derive(Debug, Default)]
pub(crate) struct Units {
    units: Mutex<BTreeMap<u16, Arc<Unit>>>,
}

/// One queue and its thread.
#[derive(Debug)]
struct Unit {
    id: u16,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Job>,
    issued: u64,
    completed: u64,
    /// Those whose outcome was told, too.
    told: u64,
    /// Who waits for which number.
    watchers: Vec<(u64, UnixStream)>,
    closed: bool,
    thread: Option<JoinHandle<()>>,
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Full,
    Closed,
    NoThread,
}

thread_local! {
    static WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Whether this is the thread of a unit, which cannot wait for units.
pub(crate) fn is_worker() -> bool {
    WORKER.get()
}

fn unit_id(core: u32, kind: Kind, queue: u16) -> Option<u16> {
    let core = u16::try_from(core).ok()?;
    let index = core.checked_mul(KINDS)?.checked_add(kind.index())?;
    // The unit 0 is none, so that no sequence id is 0.
    index
        .checked_mul(QUEUES)?
        .checked_add(queue)?
        .checked_add(1)
}

/// The number of a request within its unit.
pub(crate) fn number(sequence: u64) -> u64 {
    sequence & NUMBER_MASK
}

/// The unit and the number of a sequence id.
fn parts(sequence: u64) -> (u16, u64) {
    let unit = u16::try_from(sequence >> NUMBER_BITS).unwrap_or(0);
    (unit, number(sequence))
}

impl Units {
    fn units(&self) -> MutexGuard<'_, BTreeMap<u16, Arc<Unit>>> {
        self.units.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: u16) -> Option<Arc<Unit>> {
        self.units().get(&id).map(Arc::clone)
    }

    /// Puts a request at the end of a queue with room for `room` that are not
    /// done; `wait` for room, or refuse. Answers its sequence id.
    pub(crate) fn push(
        &self,
        (core, kind, queue): (u32, Kind, u16),
        room: usize,
        wait: bool,
        job: Job,
    ) -> Result<u64, Refused> {
        let id = unit_id(core, kind, queue).ok_or(Refused::NoThread)?;
        let unit = {
            let mut units = self.units();
            Arc::clone(units.entry(id).or_insert_with(|| Arc::new(Unit::new(id))))
        };
        Unit::push(&unit, room, wait, job)
    }

    /// Whether a request is done; `None` if there is none of this id.
    pub(crate) fn is_completed(&self, sequence: u64) -> Option<bool> {
        let (id, number) = parts(sequence);
        let unit = self.find(id)?;
        let state = unit.state();
        (1..=state.issued)
            .contains(&number)
            .then(|| number <= state.completed)
    }

    /// The id of the last request of a queue that is done.
    pub(crate) fn last(&self, core: u32, kind: Kind, queue: u16) -> Option<u64> {
        let id = unit_id(core, kind, queue)?;
        let completed = self.find(id).map_or(0, |unit| unit.state().completed);
        Some((u64::from(id) << NUMBER_BITS) | completed)
    }

    /// A socket that can be read from when a request is done; `None` if there is
    /// none of this id.
    pub(crate) fn watch(&self, sequence: u64) -> Option<std::io::Result<UnixStream>> {
        let (id, number) = parts(sequence);
        let unit = self.find(id)?;
        let mut state = unit.state();
        if !(1..=state.issued).contains(&number) {
            return None;
        }
        Some(UnixStream::pair().map(|(here, there)| {
            if number <= state.completed || state.closed {
                tell(here);
            } else {
                state.watchers.push((number, here));
            }
            there
        }))
    }

    /// Waits until all that is in the queue now is done; and, if asked for, until
    /// whoever wants to know of it was told.
    pub(crate) fn drain(&self, core: u32, kind: Kind, told: bool) {
        let Some(unit) = unit_id(core, kind, 0).and_then(|id| self.find(id)) else {
            return;
        };
        if is_worker() {
            return;
        }
        let mut state = unit.state();
        let last = state.issued;
        let reached = |state: &State| match told {
            true => state.told >= last,
            false => state.completed >= last,
        };
        while !reached(&state) && !state.closed {
            state = unit.wait(state);
        }
    }

    /// Ends all units: what has begun is waited for, the rest is dropped.
    pub(crate) fn close(&self) {
        let units = std::mem::take(&mut *self.units());
        let mut threads = Vec::new();
        for unit in units.values() {
            let mut state = unit.state();
            state.closed = true;
            let dropped = std::mem::take(&mut state.waiting);
            let watchers = std::mem::take(&mut state.watchers);
            threads.extend(state.thread.take());
            drop(state);
            unit.changed.notify_all();
            drop(dropped);
            watchers.into_iter().for_each(|(_, socket)| tell(socket));
        }
        for thread in threads {
            // A callback may close the runtime that called it.
            if thread.thread().id() != thread::current().id() {
                // A worker catches what its jobs do.
                let _ = thread.join();
            }
        }
    }
}

/// Makes the other end readable. Closing does that too, should there be no room.
fn tell(mut socket: UnixStream) {
    let _ = socket.write(&[1]);
}

impl Unit {
    fn new(id: u16) -> Self {
        Self {
            id,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.changed.wait(state);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn push(unit: &Arc<Self>, room: usize, wait: bool, job: Job) -> Result<u64, Refused> {
        let mut state = unit.state();
        loop {
            if state.closed {
                return Err(Refused::Closed);
            }
            let pending = state.issued - state.completed;
            if usize::try_from(pending).is_ok_and(|pending| pending < room) {
                break;
            }
            if !wait || is_worker() {
                return Err(Refused::Full);
            }
            state = unit.wait(state);
        }
        if state.thread.is_none() {
            let worker = Arc::clone(unit);
            let thread = thread::Builder::new()
                .name(format!("nrt-unit-{}", unit.id))
                .stack_size(STACK)
                .spawn(move || worker.work());
            state.thread = Some(thread.map_err(|_| Refused::NoThread)?);
        }
        state.issued += 1;
        state.waiting.push_back(job);
        let sequence = (u64::from(unit.id) << NUMBER_BITS) | state.issued;
        drop(state);
        unit.changed.notify_all();
        Ok(sequence)
    }

    /// Carries out the requests until the unit is closed.
    fn work(&self) {
        WORKER.set(true);
        loop {
            let mut state = self.state();
            let job = loop {
                if state.closed {
                    return;
                }
                match state.waiting.pop_front() {
                    Some(job) => break job,
                    None => state = self.wait(state),
                }
            };
            let number = state.completed + 1;
            drop(state);
            let sequence = (u64::from(self.id) << NUMBER_BITS) | number;
            let status = caught(move || (job.work)(sequence)).unwrap_or(Status::FAILURE);
            let mut state = self.state();
            state.completed = number;
            let watchers = std::mem::take(&mut state.watchers);
            let (done, left): (Vec<_>, Vec<_>) = watchers
                .into_iter()
                .partition(|(wanted, _)| *wanted <= number);
            state.watchers = left;
            drop(state);
            self.changed.notify_all();
            done.into_iter().for_each(|(_, socket)| tell(socket));
            if let Some(done) = job.done {
                caught(move || done(sequence, status));
            }
            self.state().told = number;
            self.changed.notify_all();
        }
    }
}

fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(work));
    if result.is_err() {
        log::warning(format_args!("the simulator panicked in the background"));
    }
    result.ok()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::mpsc;

    use super::*;

    fn job(work: impl FnOnce() -> Status + Send + 'static) -> Job {
        Job {
            work: Box::new(|_| work()),
            done: None,
        }
    }

    const UNIT: (u32, Kind, u16) = (1, Kind::Compute, 0);

    #[test]
    fn requests_are_done_in_order_and_numbered() {
        let units = Units::default();
        let (go, wait) = mpsc::channel::<()>();
        let (say, told) = mpsc::channel();
        let first = units.push(
            UNIT,
            9,
            false,
            job(move || {
                wait.recv().unwrap();
                Status::SUCCESS
            }),
        );
        let first = first.unwrap();
        let sender = say.clone();
        let second = Job {
            work: Box::new(|_| Status::TIMEOUT),
            done: Some(Box::new(move |id, status| {
                sender.send((id, status)).unwrap()
            })),
        };
        let second = units.push(UNIT, 9, false, second).unwrap();
        assert_eq!(second, first + 1);
        assert_eq!(number(first), 1);
        assert_eq!(units.is_completed(first), Some(false));
        assert_eq!(units.is_completed(second + 1), None);
        assert_eq!(units.is_completed(0), None);
        let mut ready = units.watch(second).unwrap().unwrap();
        ready.set_nonblocking(true).unwrap();
        assert!(ready.read(&mut [0]).is_err());
        go.send(()).unwrap();
        ready.set_nonblocking(false).unwrap();
        assert_eq!(ready.read(&mut [0; 2]).unwrap(), 1);
        assert_eq!(units.is_completed(second), Some(true));
        assert_eq!(units.last(1, Kind::Compute, 0), Some(second));
        assert_eq!(told.recv().unwrap(), (second, Status::TIMEOUT));
        units.close();
    }

    #[test]
    fn a_full_queue_refuses_and_a_closed_one_drops() {
        let units = Units::default();
        let (go, wait) = mpsc::channel::<()>();
        let (began, begun) = mpsc::channel::<()>();
        let blocked = job(move || {
            began.send(()).unwrap();
            // Ends when the sender goes.
            let _ = wait.recv();
            Status::SUCCESS
        });
        units.push(UNIT, 2, false, blocked).unwrap();
        begun.recv().unwrap();
        let second = units.push(UNIT, 2, false, job(|| unreachable!())).unwrap();
        let third = units.push(UNIT, 2, false, job(|| Status::SUCCESS));
        assert_eq!(third, Err(Refused::Full));
        let mut ready = units.watch(second).unwrap().unwrap();
        let closer = thread::spawn(move || {
            units.close();
            units
        });
        // Who waits is told, whatever became of the request.
        assert_eq!(ready.read(&mut [0; 2]).unwrap(), 1);
        drop(go);
        let units = closer.join().unwrap();
        assert_eq!(units.is_completed(second), None);
    }

    #[test]
    fn a_panic_is_a_failure_and_no_more() {
        let units = Units::default();
        let (say, told) = mpsc::channel();
        let broken = Job {
            work: Box::new(|_| panic!("on purpose")),
            done: Some(Box::new(move |id, status| say.send((id, status)).unwrap())),
        };
        let sequence = units.push(UNIT, 9, false, broken).unwrap();
        assert_eq!(told.recv().unwrap(), (sequence, Status::FAILURE));
        units.push(UNIT, 9, false, job(|| Status::SUCCESS)).unwrap();
        units.drain(1, Kind::Compute, true);
        assert_eq!(units.last(1, Kind::Compute, 0).map(number), Some(2));
        units.close();
    }
}
