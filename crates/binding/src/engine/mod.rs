//! Serving requests without blocking: a queue and a pipeline for each core.
//!
//! ```text
//!            queue (bounded)   ┌──────────┐   ┌───────────┐   ┌────────┐
//! submit ──▶ ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ ─▶  upload  ├──▶│  execute  ├──▶│  read  ├──▶ Pending
//!                              └────▲─────┘   └───────────┘   └───┬────┘
//!                                   └──────── free sessions ◀─────┘
//! ```
//!
//! Each stage is a thread with a stack that the runtime's calls fit on (user
//! needs, rows 1 and 121), so that one request is uploaded and another one read
//! while a third one executes. A request owns what it needs: dropping its
//! [`Pending`] drops nothing that the device uses (row 122).

mod error;
mod pipeline;
mod request;
mod stats;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::sync::oneshot;

pub use error::{EngineError, ServeError, ShutdownError, Unserved};
pub use request::{Pending, Request, Response};
pub use stats::EngineStats;

use crate::backend::{Backend, Core};
use crate::contract::{Contract, LookupError, Slot, SlotKey};
use crate::model::Model;
use crate::session::States;
use pipeline::{Job, Pipeline};
use stats::Counters;

/// How an [`Engine`] works.
///
/// # Defaults
///
/// A queue of 32 requests and three sessions for each core: one that is
/// uploaded to, one that executes, and one that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineOptions {
    /// Requests that wait for a core; more of them wait outside. At least 1.
    pub queue: usize,
    /// Sessions for a core, so requests that are on the device at a time. At
    /// least 1; with 1 nothing overlaps.
    pub sessions: usize,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            queue: 32,
            sessions: 3,
        }
    }
}

impl EngineOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many requests wait for a core.
    #[must_use]
    pub const fn queue(mut self, queue: usize) -> Self {
        self.queue = queue;
        self
    }

    /// Sets how many requests are on the device at a time.
    #[must_use]
    pub const fn sessions(mut self, sessions: usize) -> Self {
        self.sessions = sessions;
        self
    }
}

/// Serves requests on one or several cores, for asynchronous callers.
///
/// Requests of one core are completed in the order in which they were submitted.
///
/// # Examples
///
/// ```
/// use metaneff_binding::testing::{Fake, add_model};
/// use metaneff_binding::{Core, Engine, EngineOptions, Error, HostTensor, Request, SharedRuntime};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// let runtime = SharedRuntime::new(Fake::new());
/// let model = runtime.load(&add_model(), Core::new(0))?;
/// let engine = Engine::new(vec![model], &EngineOptions::new())?;
///
/// let row = |x| HostTensor::from_vec([2], vec![x, 1.0_f32]);
/// let a = engine.slot("input0")?.validate(row(1.0)?)?;
/// let b = engine.slot("input1")?.validate(row(2.0)?)?;
/// let pending = engine.submit(Request::new(vec![a, b])).await?;
/// let response = pending.await?;
/// assert_eq!(response.outputs[0].to_vec::<f32>()?, [3.0, 2.0]);
/// engine.shutdown(std::time::Duration::from_secs(5)).await?;
/// # Ok(())
/// # }
/// ```
pub struct Engine<B: Backend> {
    cores: Vec<Served<B>>,
    contract: Contract,
    /// Where the search for the next core starts.
    next: AtomicUsize,
}

/// One core of an engine.
struct Served<B: Backend> {
    core: Core,
    queue: mpsc::Sender<Job<B>>,
    counters: Arc<Counters>,
    /// Ends when the pipeline has given everything back.
    done: oneshot::Receiver<()>,
}

impl<B: Backend> Engine<B> {
    /// Starts a pipeline for each of the models, which are one artifact loaded on
    /// several cores.
    ///
    /// # Errors
    ///
    /// [`EngineError`] if there is no model, if two of them differ, or if a
    /// session or a thread cannot be made; what was started ends.
    pub fn new(
        models: Vec<Model<'static, B>>,
        options: &EngineOptions,
    ) -> Result<Self, EngineError> {
        let Some(first) = models.first() else {
            return Err(EngineError::NoModel);
        };
        let contract = first.contract().clone();
        let mut cores = Vec::with_capacity(models.len());
        for model in models {
            if model.contract().id() != contract.id() {
                return Err(EngineError::Contracts {
                    first: contract.id(),
                    other: model.contract().id(),
                });
            }
            let counters = Arc::new(Counters::default());
            let (queue, jobs) = mpsc::channel(options.queue.max(1));
            let (core, sessions) = (model.core(), options.sessions.max(1));
            let done = Pipeline::start(&model, sessions, jobs, &counters)?;
            cores.push(Served {
                core,
                queue,
                counters,
                done,
            });
        }
        Ok(Self {
            cores,
            contract,
            next: AtomicUsize::new(0),
        })
    }

    /// The contract of all models.
    #[must_use]
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// Finds an input slot; see [`Contract::slot`].
    ///
    /// # Errors
    ///
    /// As [`Contract::slot`].
    pub fn slot<'k>(&self, key: impl Into<SlotKey<'k>>) -> Result<&Slot, LookupError> {
        self.contract.slot(key)
    }

    /// The cores.
    pub fn cores(&self) -> impl ExactSizeIterator<Item = Core> {
        self.cores.iter().map(|served| served.core)
    }

    /// What has become of the requests so far.
    #[must_use]
    pub fn stats(&self) -> EngineStats {
        let counters = self.cores.iter().map(|served| &*served.counters);
        counters.fold(EngineStats::default(), EngineStats::with)
    }

    /// Puts a request into the queue of a core; waits while it is full.
    ///
    /// The request goes to the core that its states and device tensors are on,
    /// or else to the one with the most room. The future may be dropped while it
    /// waits: the request is then not submitted.
    ///
    /// # Errors
    ///
    /// [`Unserved`], with the request: if the device tensors of the request are
    /// on no core of the engine, or if the engine has ended.
    pub async fn submit(&self, request: Request<B>) -> Result<Pending<B>, Unserved<B>> {
        let (served, request) = self.choose(request)?;
        let (job, pending) = Job::new(request, Instant::now());
        match served.queue.send(job).await {
            Ok(()) => {
                served.counters.submitted();
                Ok(pending)
            }
            Err(error) => Err(error.0.refused(ServeError::Closed)),
        }
    }

    /// Puts a request into the queue of a core, if there is room.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit), and [`ServeError::Full`].
    pub fn try_submit(&self, request: Request<B>) -> Result<Pending<B>, Unserved<B>> {
        let (served, request) = self.choose(request)?;
        let (job, pending) = Job::new(request, Instant::now());
        match served.queue.try_send(job) {
            Ok(()) => {
                served.counters.submitted();
                Ok(pending)
            }
            Err(TrySendError::Full(job)) => Err(job.refused(ServeError::Full)),
            Err(TrySendError::Closed(job)) => Err(job.refused(ServeError::Closed)),
        }
    }

    /// Serves many requests, on all cores; the answers come in the order of the
    /// requests, whichever core was the first.
    pub async fn serve_all(
        &self,
        requests: impl IntoIterator<Item = Request<B>>,
    ) -> Vec<Result<Response<B>, Unserved<B>>> {
        let mut pending = Vec::new();
        for request in requests {
            pending.push(self.submit(request).await);
        }
        let mut answers = Vec::with_capacity(pending.len());
        for pending in pending {
            answers.push(match pending {
                Ok(pending) => pending.await,
                Err(unserved) => Err(unserved),
            });
        }
        answers
    }

    /// Takes no more requests, serves those in the queues, and waits until the
    /// cores have given everything back; no longer than `limit`.
    ///
    /// # Errors
    ///
    /// [`ShutdownError`] with the cores that were not finished in time. Requests
    /// in their queues are then refused, and what executes there ends by itself,
    /// with its buffers alive until then.
    pub async fn shutdown(mut self, limit: Duration) -> Result<(), ShutdownError> {
        let end = tokio::time::Instant::now() + limit;
        let mut running = Vec::new();
        let cores = std::mem::take(&mut self.cores);
        let mut closing = Vec::with_capacity(cores.len());
        for served in cores {
            drop(served.queue);
            closing.push((served.core, served.done, served.counters));
        }
        for (core, done, counters) in closing {
            // A pipeline that panicked has ended too.
            if tokio::time::timeout_at(end, done).await.is_err() {
                counters.discard();
                running.push(core);
            }
        }
        match running.is_empty() {
            true => Ok(()),
            false => Err(ShutdownError { limit, running }),
        }
    }

    /// The core that a request goes to.
    fn choose(&self, request: Request<B>) -> Result<(&Served<B>, Request<B>), Unserved<B>> {
        match request.core() {
            Some(core) => match self.cores.iter().find(|served| served.core == core) {
                Some(served) => Ok((served, request)),
                None => Err(Unserved::new(
                    ServeError::Core {
                        found: core,
                        cores: self.cores().collect(),
                    },
                    Some(request),
                )),
            },
            None => {
                let count = self.cores.len();
                let start = self.next.fetch_add(1, Ordering::Relaxed);
                let turns = (0..count).map(|turn| &self.cores[start.wrapping_add(turn) % count]);
                // The last of several with equal room, so the first from the end.
                let most = turns.rev().max_by_key(|served| served.queue.capacity());
                match most {
                    Some(served) => Ok((served, request)),
                    None => Err(Unserved::new(ServeError::Closed, Some(request))),
                }
            }
        }
    }

    /// States of zero bytes on a core, for a sequence of requests.
    ///
    /// # Errors
    ///
    /// [`Unserved`] if the core is none of the engine's, or if the backend
    /// refuses.
    pub async fn zero_states(&self, core: Core) -> Result<States<'static, B>, Unserved<B>> {
        let Some(served) = self.cores.iter().find(|served| served.core == core) else {
            return Err(Unserved::new(
                ServeError::Core {
                    found: core,
                    cores: self.cores().collect(),
                },
                None,
            ));
        };
        let (job, made) = Job::states();
        if served.queue.send(job).await.is_err() {
            return Err(Unserved::new(ServeError::Closed, None));
        }
        match made.await {
            Ok(Ok(states)) => Ok(states),
            Ok(Err(error)) => Err(Unserved::new(error, None)),
            Err(_) => Err(Unserved::new(ServeError::Closed, None)),
        }
    }
}

impl<B: Backend> Drop for Engine<B> {
    fn drop(&mut self) {
        for served in &self.cores {
            served.counters.discard();
        }
    }
}

impl<B: Backend> fmt::Debug for Engine<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("cores", &self.cores().collect::<Vec<_>>())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// Runs blocking work of this crate, such as a load, on a thread of its own with
/// a stack that the runtime's calls fit on; no worker of the executor waits.
///
/// # Errors
///
/// [`ServeError::Thread`] if no thread can be started, [`ServeError::Panicked`]
/// if the work panics.
pub async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ServeError> {
    let done = begin(work)?;
    done.await.map_err(|_| ServeError::Panicked)
}

fn begin<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<impl Future<Output = Result<T, oneshot::error::RecvError>>, ServeError> {
    let (send, done) = oneshot::channel();
    crate::parallel::detach("metaneff-work", move || {
        // Nobody may be waiting any more.
        let _ = send.send(work());
    })
    .map_err(|error| ServeError::Thread {
        detail: error.to_string(),
    })?;
    Ok(done)
}
