//! Requests that are served while the caller goes on.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use metaneff_binding::{Backend as _, BackendError, Cause, Completion, Core};
use metaneff_schema::nrt::Status;

use crate::capability::Capability;
use crate::nrt::Nrt;
use crate::sys::{Executable, Flight, Held, NrtModel, NrtTensor, NrtTensorSet};

/// How a [`Queue`] has its requests served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QueueMode {
    /// By the library: `nrta_tensor_write`, `nrta_execute_schedule`, …
    Library,
    /// By threads that make the calls that wait: `nrt_tensor_write`,
    /// `nrt_execute`, …
    Threads,
}

/// Requests to one core: writes, reads, copies and executions.
///
/// Each of the four kinds is served in its own order and beside the others, as
/// the execution units of `nrt_async.h` do: a write may end before an execution
/// that was requested earlier. A request that needs what another one makes is
/// made when that one has ended.
///
/// A request keeps what it uses. A tensor that is freed meanwhile lives until
/// the request ends, and dropping a [`Pending`] or the queue takes nothing away
/// from the device (user needs, row 122).
///
/// # Examples
///
/// ```
/// use metaneff_backend_nrt::{Nrt, NrtOptions, QueueMode};
/// use metaneff_binding::{Backend, Core, Placement};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let Ok(nrt) = Nrt::open(&NrtOptions::new()) else {
///     return Ok(()); // no library on this machine
/// };
/// let queue = nrt.queue(Core::new(0))?;
/// let tensor = nrt.allocate(Placement::Device, Core::new(0), 4, c"t")?;
/// let written = queue.write(&tensor, 0, vec![1, 2, 3, 4].into())?;
/// written.wait()?;
/// assert_eq!(queue.read(&tensor, 1, 2)?.wait()?, [2, 3]);
/// nrt.free(tensor);
/// # Ok(())
/// # }
/// ```
pub struct Queue {
    nrt: Nrt,
    core: Core,
    mode: QueueMode,
    units: [Sender<Job>; 4],
}

type Job = Box<dyn FnOnce() + Send>;

/// Execution units: `nrta_xu_t`.
#[derive(Clone, Copy)]
enum Unit {
    Read,
    Write,
    Copy,
    Compute,
}

const UNITS: [&str; 4] = ["nrt-read", "nrt-write", "nrt-copy", "nrt-compute"];

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("core", &self.core)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

impl Nrt {
    /// A queue for a core, in the library's own way if it has all functions of
    /// [`Capability::Requests`], and else on threads.
    ///
    /// # Errors
    ///
    /// `INVALID` for a core that does not exist, `RESOURCE` if no thread can be
    /// started.
    pub fn queue(&self, core: Core) -> Result<Queue, BackendError> {
        let mode = match self.library().supports(Capability::Requests) {
            true => QueueMode::Library,
            false => QueueMode::Threads,
        };
        self.queue_in(core, mode)
    }

    /// A queue for a core, in a mode of the caller's choice.
    ///
    /// # Errors
    ///
    /// As [`Nrt::queue`], and `FAILURE` with the first missing function for
    /// [`QueueMode::Library`].
    pub fn queue_in(&self, core: Core, mode: QueueMode) -> Result<Queue, BackendError> {
        const CALL: &str = "nrta_execute_schedule";
        self.check_core(CALL, core)?;
        let library = self.library();
        if mode == QueueMode::Library
            && let Some(symbol) = library.lacking(Capability::Requests).first()
        {
            let library = library.path().to_owned();
            return Err(BackendError::new(symbol, Status::FAILURE)
                .because(Cause::MissingSymbol { symbol, library }));
        }
        let [read, write, copy, compute] = UNITS.map(start);
        let units = [read, write, copy, compute];
        let mut senders = Vec::with_capacity(units.len());
        for unit in units {
            senders.push(unit.map_err(|error| {
                BackendError::new(CALL, Status::RESOURCE).because(Cause::Other(error.to_string()))
            })?);
        }
        let units = <[Sender<Job>; 4]>::try_from(senders)
            .map_err(|_| BackendError::new(CALL, Status::FAILURE))?;
        Ok(Queue {
            nrt: self.clone(),
            core,
            mode,
            units,
        })
    }
}

/// Starts the thread of one unit, which ends when its queue is gone and its jobs
/// are done.
fn start(name: &str) -> std::io::Result<Sender<Job>> {
    let (sender, jobs) = channel::<Job>();
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || jobs.into_iter().for_each(|job| job()))?;
    Ok(sender)
}

impl Queue {
    /// The core.
    #[must_use]
    pub const fn core(&self) -> Core {
        self.core
    }

    /// How requests are served.
    #[must_use]
    pub const fn mode(&self) -> QueueMode {
        self.mode
    }

    /// Writes `data` into a tensor from byte `offset` on.
    ///
    /// # Errors
    ///
    /// `INVALID` when the range is not inside the tensor, `QUEUE_FULL`, and what
    /// else the library answers. Nothing is scheduled then.
    pub fn write(
        &self,
        tensor: &NrtTensor,
        offset: usize,
        data: Bytes,
    ) -> Result<Pending<()>, BackendError> {
        let mut held = Held::new(self.nrt.clone());
        let tensor = held.tensor("nrta_tensor_write", tensor)?;
        let size = data.len();
        self.check_range("nrta_tensor_write", &tensor, offset, size)?;
        let nrt = self.nrt.clone();
        if self.mode == QueueMode::Library {
            let flight = Flight::<Bytes>::write(held, self.core, &tensor, offset, data)?;
            return Ok(self.submit(Unit::Write, move || {
                let _clean = flight.finish()?.1?;
                nrt.shared().counters.wrote(size);
                Ok(())
            }));
        }
        Ok(self.submit(Unit::Write, move || {
            let answer = nrt.write(&tensor, offset, &data);
            drop(held);
            answer
        }))
    }

    /// Reads `size` bytes of a tensor from `offset` on.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn read(
        &self,
        tensor: &NrtTensor,
        offset: usize,
        size: usize,
    ) -> Result<Pending<Vec<u8>>, BackendError> {
        let mut held = Held::new(self.nrt.clone());
        let tensor = held.tensor("nrta_tensor_read", tensor)?;
        self.check_range("nrta_tensor_read", &tensor, offset, size)?;
        let nrt = self.nrt.clone();
        if self.mode == QueueMode::Library {
            let flight = Flight::read(held, self.core, &tensor, offset, size)?;
            return Ok(self.submit(Unit::Read, move || {
                let (bytes, outcome) = flight.finish()?;
                let _clean = outcome?;
                nrt.shared().counters.read(size);
                Ok(bytes.into_vec())
            }));
        }
        Ok(self.submit(Unit::Read, move || {
            let mut out = vec![0; size];
            let answer = nrt.read(&tensor, offset, &mut out);
            drop(held);
            answer.map(|()| out)
        }))
    }

    /// Copies `size` bytes between two tensors, each from its offset on.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write), and `INVALID` for tensors of two cores.
    pub fn copy(
        &self,
        source: (&NrtTensor, usize),
        target: (&NrtTensor, usize),
        size: usize,
    ) -> Result<Pending<()>, BackendError> {
        let mut held = Held::new(self.nrt.clone());
        let from = held.tensor("nrta_tensor_copy", source.0)?;
        let to = held.tensor("nrta_tensor_copy", target.0)?;
        self.check_range("nrta_tensor_copy", &from, source.1, size)?;
        self.check_range("nrta_tensor_copy", &to, target.1, size)?;
        let (at, onto) = (source.1, target.1);
        let nrt = self.nrt.clone();
        if self.mode == QueueMode::Library {
            let flight = Flight::<()>::copy(held, self.core, (&from, at), (&to, onto), size)
                .map_err(|error| Nrt::explain_copy(error, &from, &to))?;
            return Ok(self.submit(Unit::Copy, move || {
                let _clean = flight.finish()?.1?;
                nrt.shared().counters.copied(size);
                Ok(())
            }));
        }
        Ok(self.submit(Unit::Copy, move || {
            let answer = nrt.copy(&from, at, &to, onto, size);
            drop(held);
            answer
        }))
    }

    /// Executes a model. Its sets come back with the outcome, also if nobody
    /// waits for it: they are given back to the runtime then.
    ///
    /// # Errors
    ///
    /// [`Unscheduled`], with all that was brought.
    pub fn execute(&self, launch: Launch) -> Result<Pending<Executed>, Unscheduled> {
        let mut held = Held::new(self.nrt.clone());
        let sets = held
            .set("nrta_execute_schedule", &launch.inputs)
            .and_then(|()| held.set("nrta_execute_schedule", &launch.outputs));
        if let Err(error) = sets {
            return Err(Unscheduled::new(error, launch));
        }
        let nrt = self.nrt.clone();
        let start = Instant::now();
        if self.mode == QueueMode::Library {
            let flight = Flight::execute(held, self.core, launch)
                .map_err(|(error, launch)| Unscheduled::new(error, launch))?;
            return Ok(self.submit(Unit::Compute, move || {
                let (launch, completion) = flight.finish()?;
                Ok(Executed::new(launch, completion, start, nrt))
            }));
        }
        Ok(self.submit(Unit::Compute, move || {
            let mut launch = launch;
            let (model, inputs, outputs) = launch.parts();
            let session = nrt.session();
            let completion = session.execute_held(&held, model, inputs, outputs);
            drop(held);
            Ok(Executed::new(launch, completion, start, nrt))
        }))
    }

    fn check_range(
        &self,
        call: &'static str,
        tensor: &NrtTensor,
        offset: usize,
        size: usize,
    ) -> Result<(), BackendError> {
        self.nrt.session().check_range(call, tensor, offset, size)
    }

    /// Hands a job to the thread of a unit.
    fn submit<T: Send + 'static>(
        &self,
        unit: Unit,
        work: impl FnOnce() -> Result<T, BackendError> + Send + 'static,
    ) -> Pending<T> {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move || {
            // Where nobody waits any more the answer is dropped.
            let _ = sender.send(work());
        });
        let [read, write, copy, compute] = &self.units;
        let sender = match unit {
            Unit::Read => read,
            Unit::Write => write,
            Unit::Copy => copy,
            Unit::Compute => compute,
        };
        // A thread that is gone drops the job, and with it its end of the
        // channel, which says so.
        let _ = sender.send(job);
        Pending { receiver }
    }
}

/// A model with its tensor sets.
///
/// The model is shared, so that many launches can be under way; it is unloaded
/// through its last owner.
#[derive(Debug)]
#[expect(
    clippy::exhaustive_structs,
    reason = "what nrt_execute takes, and no more"
)]
pub struct Launch {
    /// The model.
    pub model: Arc<NrtModel>,
    /// What it reads.
    pub inputs: NrtTensorSet,
    /// What it writes.
    pub outputs: NrtTensorSet,
}

impl Executable for Launch {
    fn parts(&mut self) -> (&NrtModel, &NrtTensorSet, &mut NrtTensorSet) {
        (&self.model, &self.inputs, &mut self.outputs)
    }
}

/// An execution that was not scheduled.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct Unscheduled {
    /// Why not.
    #[source]
    pub error: BackendError,
    /// What was brought.
    pub launch: Box<Launch>,
}

impl Unscheduled {
    fn new(error: BackendError, launch: Launch) -> Self {
        let launch = Box::new(launch);
        Self { error, launch }
    }
}

/// An execution that has ended. Dropping it gives back the sets that are left in
/// it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Executed {
    /// The model and its sets, to be taken for the next execution.
    pub launch: Option<Launch>,
    completion: Result<Completion, BackendError>,
    nrt: Nrt,
}

impl Executed {
    /// Counts an execution, or says why it failed.
    fn new(
        launch: Launch,
        completion: Result<Completion, BackendError>,
        start: Instant,
        nrt: Nrt,
    ) -> Self {
        let completion = completion.map_err(|error| {
            let sets = [&launch.inputs, &launch.outputs];
            nrt.explain_execution(error, start.elapsed(), &launch.model, &sets)
        });
        if completion.is_ok() {
            nrt.shared().counters.executed(1);
        }
        Self {
            launch: Some(launch),
            completion,
            nrt,
        }
    }

    /// How it ended.
    ///
    /// # Errors
    ///
    /// As [`Backend::execute`](metaneff_binding::Backend::execute).
    pub fn completion(&self) -> Result<Completion, BackendError> {
        self.completion.clone()
    }
}

impl Drop for Executed {
    fn drop(&mut self) {
        if let Some(launch) = self.launch.take() {
            self.nrt.destroy_set(launch.inputs);
            self.nrt.destroy_set(launch.outputs);
        }
    }
}

/// The answer to a request, which can be waited for or polled.
///
/// Dropping it does not cancel the request.
#[must_use]
pub struct Pending<T> {
    receiver: oneshot::Receiver<Result<T, BackendError>>,
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}

impl<T> Pending<T> {
    /// Waits until the request has ended.
    ///
    /// # Errors
    ///
    /// What the request ended with.
    pub fn wait(self) -> Result<T, BackendError> {
        self.receiver.recv().unwrap_or_else(|_| Err(lost()))
    }

    /// Waits until the request has ended or `limit` has passed.
    ///
    /// # Errors
    ///
    /// The request itself, if it has not ended.
    pub fn wait_for(self, limit: Duration) -> Result<Result<T, BackendError>, Self> {
        match self.receiver.recv_timeout(limit) {
            Ok(answer) => Ok(answer),
            Err(oneshot::RecvTimeoutError::Timeout) => Err(self),
            Err(oneshot::RecvTimeoutError::Disconnected) => Ok(Err(lost())),
        }
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, BackendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let receiver = Pin::new(&mut self.receiver);
        receiver
            .poll(context)
            .map(|answer| answer.unwrap_or_else(|_| Err(lost())))
    }
}

fn lost() -> BackendError {
    BackendError::new("nrta_is_completed", Status::FAILURE)
        .because(Cause::Other("the thread of the queue has ended".to_owned()))
}
