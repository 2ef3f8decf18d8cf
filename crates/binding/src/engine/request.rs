//! Requests, and the answers that are waited for.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::Sleep;

use super::{ServeError, Unserved};
use crate::backend::{Backend, Completion, Core};
use crate::session::{Argument, States};
use crate::tensor::{BoundTensor, HostTensor, Tensor, Validated};

/// One launch, with all that it needs.
pub struct Request<B: Backend> {
    pub(super) inputs: Vec<Argument<'static, 'static, B>>,
    pub(super) states: States<'static, B>,
    pub(super) limit: Option<Duration>,
    pub(super) on_device: bool,
}

impl<B: Backend> Request<B> {
    /// A launch of a model without states, with inputs from the host.
    #[must_use]
    pub fn new(inputs: Vec<Tensor<Validated<'static>>>) -> Self {
        Self::with_arguments(inputs.into_iter().map(Argument::Host).collect())
    }

    /// A launch of a model without states, with inputs from the host or the
    /// device.
    #[must_use]
    pub fn with_arguments(inputs: Vec<Argument<'static, 'static, B>>) -> Self {
        Self {
            inputs,
            states: States::from(()),
            limit: None,
            on_device: false,
        }
    }

    /// Adds the states of its sequence, whose successors come with the response.
    #[must_use]
    pub fn with_states(mut self, states: States<'static, B>) -> Self {
        self.states = states;
        self
    }

    /// Sets the time that it has, from when it is submitted.
    #[must_use]
    pub const fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Leaves the outputs on the device, for launches of other models.
    #[must_use]
    pub const fn leaving_outputs_on_device(mut self) -> Self {
        self.on_device = true;
        self
    }

    /// The inputs.
    #[must_use]
    pub fn inputs(&self) -> &[Argument<'static, 'static, B>] {
        &self.inputs
    }

    /// Takes back inputs and states.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Argument<'static, 'static, B>>, States<'static, B>) {
        (self.inputs, self.states)
    }

    /// The core of its device tensors, where it has any.
    pub(super) fn core(&self) -> Option<Core> {
        let device = self.inputs.iter().find_map(|input| match input {
            Argument::Host(_) => None,
            Argument::Device(tensor) => Some(tensor.state.device.core()),
            Argument::Lent(tensor) => Some(tensor.state.device.core()),
        });
        device.or_else(|| self.states.core())
    }
}

impl<B: Backend> fmt::Debug for Request<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("inputs", &self.inputs.len())
            .field("states", &self.states.len())
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// The answer to a [`Request`].
#[non_exhaustive]
pub struct Response<B: Backend> {
    /// The outputs that the caller sees, by ordinal; none if they were left on
    /// the device.
    pub outputs: Vec<HostTensor<'static>>,
    /// The outputs that were left on the device, by ordinal: those with elements
    /// that are no states.
    pub on_device: Vec<BoundTensor<'static, B>>,
    /// The successors of the request's states.
    pub states: States<'static, B>,
    /// How the execution ended.
    pub completion: Completion,
}

impl<B: Backend> fmt::Debug for Response<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("outputs", &self.outputs)
            .field("completion", &self.completion)
            .finish_non_exhaustive()
    }
}

pub(super) type Answer<B> = Result<Response<B>, Unserved<B>>;

/// A request in the queue or on the device.
///
/// Dropping it cancels the request: one that has not begun to execute is not
/// executed, and one that executes keeps its buffers until the device is done.
#[must_use = "dropping it cancels the request"]
pub struct Pending<B: Backend> {
    answer: oneshot::Receiver<Answer<B>>,
    submitted: Instant,
    limit: Option<Duration>,
    /// Made when it is first polled, which is inside of an executor.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<B: Backend> Pending<B> {
    pub(super) const fn new(
        answer: oneshot::Receiver<Answer<B>>,
        submitted: Instant,
        limit: Option<Duration>,
    ) -> Self {
        Self {
            answer,
            submitted,
            limit,
            timer: None,
        }
    }
}

impl<B: Backend> Future for Pending<B> {
    type Output = Answer<B>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer<B>> {
        let pending = self.get_mut();
        match Pin::new(&mut pending.answer).poll(context) {
            Poll::Ready(Ok(answer)) => return Poll::Ready(answer),
            // The pipeline has gone without an answer.
            Poll::Ready(Err(_)) => {
                return Poll::Ready(Err(Unserved::new(ServeError::Panicked, None)));
            }
            Poll::Pending => {}
        }
        let Some(limit) = pending.limit else {
            return Poll::Pending;
        };
        let submitted = pending.submitted;
        let timer = pending.timer.get_or_insert_with(|| {
            let left = limit.saturating_sub(submitted.elapsed());
            Box::pin(tokio::time::sleep(left))
        });
        timer.as_mut().poll(context).map(|()| {
            // From here on nobody waits for the answer.
            pending.answer.close();
            match pending.answer.try_recv() {
                Ok(answer) => answer,
                Err(_) => Err(Unserved::new(
                    ServeError::Deadline {
                        limit,
                        elapsed: submitted.elapsed(),
                    },
                    None,
                )),
            }
        })
    }
}

impl<B: Backend> fmt::Debug for Pending<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
