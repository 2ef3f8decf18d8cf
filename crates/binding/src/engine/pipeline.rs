//! The three threads of a core.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

use super::request::Answer;
use super::stats::Counters;
use super::{EngineError, Pending, Request, Response, ServeError, Unserved};
use crate::backend::{Backend, Completion};
use crate::contract::Holder;
use crate::model::Model;
use crate::parallel::detach;
use crate::session::{Session, States};

type Made<B> = Result<States<'static, B>, ServeError>;

/// What a queue holds.
pub(super) enum Job<B: Backend> {
    Launch(Launch<B>),
    /// Zero states are asked for.
    States(oneshot::Sender<Made<B>>),
}

/// A request with the place for its answer.
pub(super) struct Launch<B: Backend> {
    request: Request<B>,
    answer: oneshot::Sender<Answer<B>>,
    submitted: Instant,
}

impl<B: Backend> Job<B> {
    pub(super) fn new(request: Request<B>, submitted: Instant) -> (Self, Pending<B>) {
        let (answer, receiver) = oneshot::channel();
        let pending = Pending::new(receiver, submitted, request.limit);
        let launch = Launch {
            request,
            answer,
            submitted,
        };
        (Self::Launch(launch), pending)
    }

    pub(super) fn states() -> (Self, oneshot::Receiver<Made<B>>) {
        let (send, made) = oneshot::channel();
        (Self::States(send), made)
    }

    /// The request, back from a queue that did not take it.
    pub(super) fn refused(self, reason: ServeError) -> Unserved<B> {
        let request = match self {
            Self::Launch(launch) => Some(launch.request),
            Self::States(_) => None,
        };
        Unserved::new(reason, request)
    }
}

impl<B: Backend> Launch<B> {
    /// Whether it is still to be executed; answers it if it is not.
    fn still_wanted(self, counters: &Counters) -> Option<Self> {
        if self.answer.is_closed() {
            counters.cancelled();
            return None;
        }
        let elapsed = self.submitted.elapsed();
        let reason = match self.request.limit {
            _ if counters.is_discarded() => {
                counters.failed();
                ServeError::Closed
            }
            Some(limit) if elapsed >= limit => {
                counters.expired();
                ServeError::Deadline { limit, elapsed }
            }
            _ => return Some(self),
        };
        answer(self.answer, Err(Unserved::new(reason, Some(self.request))));
        None
    }

    fn fail(self, counters: &Counters, reason: impl Into<ServeError>) {
        counters.failed();
        answer(self.answer, Err(Unserved::new(reason, Some(self.request))));
    }
}

/// Answers; there may be nobody who waits for it.
fn answer<B: Backend>(place: oneshot::Sender<Answer<B>>, answer: Answer<B>) {
    drop(place.send(answer));
}

/// A launch that has completed and is not read yet.
struct Done<B: Backend> {
    states: States<'static, B>,
    completion: Completion,
    on_device: bool,
    answer: oneshot::Sender<Answer<B>>,
}

/// The threads of one core.
pub(super) struct Pipeline;

impl Pipeline {
    /// Starts the threads; they end when the queue is closed and empty. What is
    /// returned then ends.
    pub(super) fn start<B: Backend>(
        model: &Model<'static, B>,
        sessions: usize,
        jobs: mpsc::Receiver<Job<B>>,
        counters: &Arc<Counters>,
    ) -> Result<oneshot::Receiver<()>, EngineError> {
        let (give_back, free) = channel();
        for _ in 0..sessions {
            // The receiver is here.
            let _ = give_back.send(model.session()?);
        }
        let (to_execute, uploaded) = channel();
        let (to_read, executed) = channel();
        let (finished, done) = oneshot::channel();
        let thread = |result: std::io::Result<()>| {
            result.map_err(|error| EngineError::Thread {
                detail: error.to_string(),
            })
        };
        let own = Arc::clone(counters);
        thread(detach("metaneff-upload", move || {
            upload(jobs, &free, &to_execute, &own);
            // The free sessions are given back before the next stage ends.
            drop(free);
            drop(to_execute);
        }))?;
        let (own, spare) = (Arc::clone(counters), give_back.clone());
        thread(detach("metaneff-execute", move || {
            execute(&uploaded, &to_read, &spare, &own);
            drop((uploaded, spare));
            drop(to_read);
        }))?;
        let own = Arc::clone(counters);
        thread(detach("metaneff-read", move || {
            read(&executed, &give_back, &own);
            drop((executed, give_back));
            drop(finished);
        }))?;
        Ok(done)
    }
}

type Uploaded<B> = (Session<'static, B>, Launch<B>);
type Executed<B> = (Session<'static, B>, Done<B>);

/// Writes and binds the inputs of one request after the other.
fn upload<B: Backend>(
    mut jobs: mpsc::Receiver<Job<B>>,
    free: &Receiver<Session<'static, B>>,
    next: &Sender<Uploaded<B>>,
    counters: &Counters,
) {
    // Sessions that were taken and not used. There is no sender here: `free` has
    // to end when the other threads have gone.
    let mut unused = Vec::new();
    while let Some(job) = jobs.blocking_recv() {
        let launch = match job {
            Job::Launch(launch) => launch,
            Job::States(made) => {
                if let Some(session) = unused.pop().or_else(|| free.recv().ok()) {
                    // Nobody may be waiting any more.
                    drop(made.send(session.zero_states().map_err(ServeError::from)));
                    unused.push(session);
                }
                continue;
            }
        };
        let Some(launch) = launch.still_wanted(counters) else {
            continue;
        };
        // As many as were put in come back, so this ends.
        let Some(mut session) = unused.pop().or_else(|| free.recv().ok()) else {
            return launch.fail(counters, ServeError::Closed);
        };
        let Some(launch) = launch.still_wanted(counters) else {
            unused.push(session);
            continue;
        };
        if let Err(error) = session.prepare(&launch.request.inputs) {
            unused.push(session);
            launch.fail(counters, error);
            continue;
        }
        if let Err(unsent) = next.send((session, launch)) {
            return unsent.0.1.fail(counters, ServeError::Closed);
        }
    }
}

/// Executes one uploaded request after the other.
fn execute<B: Backend>(
    uploaded: &Receiver<Uploaded<B>>,
    next: &Sender<Executed<B>>,
    spare: &Sender<Session<'static, B>>,
    counters: &Counters,
) {
    for (mut session, launch) in uploaded {
        let Some(launch) = launch.still_wanted(counters) else {
            drop(spare.send(session));
            continue;
        };
        let Launch {
            request,
            answer: place,
            submitted,
        } = launch;
        let (limit, on_device) = (request.limit, request.on_device);
        let executed = session.prepared(request.inputs).execute(request.states);
        match executed.map(crate::session::Executed::into_states) {
            Ok((states, completion)) => {
                let done = Done {
                    states,
                    completion,
                    on_device,
                    answer: place,
                };
                if let Err(unsent) = next.send((session, done)) {
                    let closed = Unserved::new(ServeError::Closed, None);
                    return answer(unsent.0.1.answer, Err(closed));
                }
            }
            Err(failed) => {
                let reason = failed.reason().clone();
                let (inputs, states) = failed.into_inputs();
                drop(spare.send(session));
                let request = Request {
                    inputs,
                    states,
                    limit,
                    on_device,
                };
                Launch {
                    request,
                    answer: place,
                    submitted,
                }
                .fail(counters, reason);
            }
        }
    }
}

/// Reads the outputs of one executed request after the other.
fn read<B: Backend>(
    executed: &Receiver<Executed<B>>,
    free: &Sender<Session<'static, B>>,
    counters: &Counters,
) {
    for (mut session, done) in executed {
        let Done {
            states,
            completion,
            on_device,
            answer: place,
        } = done;
        let response = outputs(&mut session, states, completion, on_device);
        match response {
            Ok(_) => counters.completed(),
            Err(_) => counters.failed(),
        }
        // Whoever hears of the answer finds the session free.
        drop(free.send(session));
        answer(place, response.map_err(|error| Unserved::new(error, None)));
    }
}

fn outputs<B: Backend>(
    session: &mut Session<'static, B>,
    states: States<'static, B>,
    completion: Completion,
    on_device: bool,
) -> Result<Response<B>, ServeError> {
    let contract = session.contract().clone();
    let mut outputs = session.outputs(&states);
    let mut response = Response {
        outputs: Vec::new(),
        on_device: Vec::new(),
        states: States::from(()),
        completion,
    };
    if on_device {
        for slot in contract.outputs() {
            let donor = slot.alias().map(|input| &contract.inputs()[input.index()]);
            let state = donor.is_some_and(|input| input.holder() == Holder::States);
            if !state && slot.byte_size() > 0 {
                response.on_device.push(outputs.take(slot.ordinal())?);
            }
        }
    } else {
        for view in outputs.iter() {
            response.outputs.push(view.to_host()?);
        }
    }
    drop(outputs);
    response.states = states;
    Ok(response)
}
