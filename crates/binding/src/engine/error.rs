//! Why requests are not served.

use std::fmt;
use std::time::Duration;

use super::Request;
use crate::backend::{Backend, Core};
use crate::contract::ContractId;
use crate::device::ReadError;
use crate::error::BackendError;
use crate::failure::Error;
use crate::session::{BindError, ExecuteError, OutputError, SessionError};

/// Why an engine cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// There is nothing to serve.
    #[error("there is no model to serve")]
    NoModel,
    /// Two models were not loaded from one artifact.
    #[error("the models belong to contracts {first} and {other}; one artifact is needed")]
    Contracts {
        /// The first model's contract.
        first: ContractId,
        /// Another model's contract.
        other: ContractId,
    },
    /// A session cannot be made.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A thread cannot be started.
    #[error("no thread could serve requests: {detail}")]
    Thread {
        /// The reason.
        detail: String,
    },
}

/// Why a request was not served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The queue has no room.
    #[error("the queue is full")]
    Full,
    /// The engine takes no more requests, or has given up those in its queues.
    #[error("the engine has ended")]
    Closed,
    /// The request was not served in time.
    #[error("the request was not served within {limit:?}, after {elapsed:?}")]
    Deadline {
        /// The time that it had.
        limit: Duration,
        /// The time that has passed since it was submitted.
        elapsed: Duration,
    },
    /// What the request brings is on a core that the engine does not serve.
    #[error(
        "the request's tensors are on {found}, the engine serves {}",
        list(cores)
    )]
    Core {
        /// Where the request's tensors are.
        found: Core,
        /// The engine's cores.
        cores: Vec<Core>,
    },
    /// The inputs were refused.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The execution failed.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// An output is not there.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// An output was not read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A call of the backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// No thread can be started.
    #[error("no thread could do the work: {detail}")]
    Thread {
        /// The reason.
        detail: String,
    },
    /// The thread that worked on it panicked.
    #[error("the thread that worked on it panicked")]
    Panicked,
}

fn list(cores: &[Core]) -> String {
    let cores: Vec<_> = cores.iter().map(Core::to_string).collect();
    cores.join(", ")
}

/// A request that was not served.
///
/// It is no [`std::error::Error`] itself, for it holds the request; `?` turns it
/// into [`enum@Error`] or a boxed error.
#[must_use]
pub struct Unserved<B: Backend> {
    inner: Box<(ServeError, Option<Request<B>>)>,
}

impl<B: Backend> Unserved<B> {
    pub(super) fn new(reason: impl Into<ServeError>, request: Option<Request<B>>) -> Self {
        Self {
            inner: Box::new((reason.into(), request)),
        }
    }

    /// Why it was not served.
    #[must_use]
    pub fn reason(&self) -> &ServeError {
        &self.inner.0
    }

    /// Takes the request back. There is none while the device still works on it,
    /// as after a deadline that passed during the execution: its buffers are
    /// freed when the device is done.
    #[must_use]
    pub fn into_request(self) -> Option<Request<B>> {
        self.inner.1
    }

    /// Keeps the reason and drops the request.
    #[must_use]
    pub fn into_reason(self) -> ServeError {
        self.inner.0
    }
}

impl<B: Backend> fmt::Debug for Unserved<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unserved")
            .field("reason", &self.inner.0)
            .finish_non_exhaustive()
    }
}

impl<B: Backend> fmt::Display for Unserved<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.0.fmt(f)
    }
}

impl<B: Backend> From<Unserved<B>> for Error {
    fn from(unserved: Unserved<B>) -> Self {
        unserved.into_reason().into()
    }
}

impl<B: Backend> From<Unserved<B>> for Box<dyn std::error::Error> {
    fn from(unserved: Unserved<B>) -> Self {
        Box::new(unserved.into_reason())
    }
}

impl<B: Backend> From<Unserved<B>> for Box<dyn std::error::Error + Send + Sync> {
    fn from(unserved: Unserved<B>) -> Self {
        Box::new(unserved.into_reason())
    }
}

/// Cores that were not finished when an engine was shut down.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not finished within {limit:?}: {}", list(running))]
#[non_exhaustive]
pub struct ShutdownError {
    /// The time that they had.
    pub limit: Duration,
    /// The cores.
    pub running: Vec<Core>,
}
