//! A launch from ready to completed.

use std::error::Error as StdError;
use std::fmt;

use metaneff_schema::nrt::Status;

use super::{Arguments, Outputs, Session, States};
use crate::backend::{Backend, Completion};
use crate::contract::{ContractId, Role};
use crate::error::BackendError;
use crate::failure::{Error, Rejected};

/// A launch whose user inputs are written and bound.
#[must_use = "a launch does nothing until it is executed"]
pub struct Ready<'s, 'rt, B: Backend, A> {
    session: &'s mut Session<'rt, B>,
    arguments: A,
}

impl<'s, 'rt, B: Backend, A: Arguments<'rt, B>> Ready<'s, 'rt, B, A> {
    pub(super) const fn new(session: &'s mut Session<'rt, B>, arguments: A) -> Self {
        Self { session, arguments }
    }

    /// Gives the inputs back without executing.
    #[must_use]
    pub fn cancel(self) -> A {
        self.arguments
    }

    /// Executes the model once.
    ///
    /// The states are consumed, and their successors come back with the outputs;
    /// no data moves for them. `()` stands for no states.
    ///
    /// # Errors
    ///
    /// [`Failed`], with the inputs and the states. A device that failed while it
    /// ran may have written to the states' buffers. Status 1004 is a completion
    /// with an error, after which the outputs are there to look at.
    pub fn execute(
        self,
        states: impl Into<States<'rt, B>>,
    ) -> Result<Executed<'s, 'rt, B>, Failed<'s, 'rt, B, A>> {
        let mut states = states.into();
        if let Err(reason) = self.check(&mut states) {
            return Err(Failed::new(reason, self.arguments, states, None));
        }
        match self.session.launch(&self.arguments, &mut states) {
            Ok(completion) => {
                self.session.donate(self.arguments);
                Ok(Executed {
                    session: self.session,
                    states,
                    completion,
                })
            }
            Err(error) => {
                let completed = error.status() == Status::EXEC_COMPLETED_WITH_ERR;
                let outputs = completed.then(|| Outputs::new(self.session, &states));
                Err(Failed::new(error.into(), self.arguments, states, outputs))
            }
        }
    }

    /// Whether the states are this contract's, and no output shows them.
    fn check(&self, states: &mut States<'rt, B>) -> Result<(), ExecuteError> {
        let expected = self.session.model().inner().plan().states.len();
        let contract = self.session.contract().id();
        match states.contract() {
            None if expected == 0 => Ok(()),
            None => Err(ExecuteError::StatesMissing { expected }),
            Some(found) if found != contract => Err(ExecuteError::ForeignStates {
                expected: contract,
                found,
            }),
            Some(_) if states.exclusive().is_none() => Err(ExecuteError::StatesShown),
            Some(_) => Ok(()),
        }
    }
}

impl<B: Backend, A> fmt::Debug for Ready<'_, '_, B, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

/// A launch that has ended, before the caller has said what a NaN means to it.
#[must_use = "an execution may have completed with a numerical error"]
pub struct Executed<'s, 'rt, B: Backend> {
    session: &'s mut Session<'rt, B>,
    states: States<'rt, B>,
    completion: Completion,
}

impl<'s, 'rt, B: Backend> Executed<'s, 'rt, B> {
    /// How it ended.
    pub fn completion(&self) -> Completion {
        self.completion
    }

    /// Takes the outputs whether or not one of them holds a NaN, as the native
    /// runtime does.
    pub fn tolerate_nan(self) -> Completed<'s, 'rt, B> {
        Completed {
            session: self.session,
            states: self.states,
            completion: self.completion,
        }
    }

    /// Takes the outputs only if none of them holds a NaN.
    ///
    /// # Errors
    ///
    /// [`NumericalError`], with the completed launch.
    pub fn reject_nan(
        self,
    ) -> Result<Completed<'s, 'rt, B>, Rejected<Completed<'s, 'rt, B>, NumericalError>> {
        match self.completion {
            Completion::Clean => Ok(self.tolerate_nan()),
            Completion::NumericalError => {
                Err(Rejected::new(self.tolerate_nan(), NumericalError {}))
            }
        }
    }
}

#[cfg(feature = "tokio")]
impl<'rt, B: Backend> Executed<'_, 'rt, B> {
    /// The states alone; the outputs stay in the session.
    pub(crate) fn into_states(self) -> (States<'rt, B>, Completion) {
        (self.states, self.completion)
    }
}

impl<B: Backend> fmt::Debug for Executed<'_, '_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executed")
            .field("completion", &self.completion)
            .finish_non_exhaustive()
    }
}

/// A launch whose outputs are there to read.
#[must_use = "the states come back with the outputs"]
pub struct Completed<'s, 'rt, B: Backend> {
    session: &'s mut Session<'rt, B>,
    states: States<'rt, B>,
    completion: Completion,
}

impl<'s, 'rt, B: Backend> Completed<'s, 'rt, B> {
    /// How it ended.
    pub fn completion(&self) -> Completion {
        self.completion
    }

    /// The outputs, which borrow the session until its next launch, and the
    /// states for that launch.
    #[must_use]
    pub fn into_parts(self) -> (Outputs<'s, 'rt, B>, States<'rt, B>) {
        let outputs = Outputs::new(self.session, &self.states);
        (outputs, self.states)
    }

    /// The outputs alone, for a model without states; states are freed.
    #[must_use]
    pub fn into_outputs(self) -> Outputs<'s, 'rt, B> {
        self.into_parts().0
    }
}

impl<B: Backend> fmt::Debug for Completed<'_, '_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completed")
            .field("completion", &self.completion)
            .finish_non_exhaustive()
    }
}

/// An output holds a NaN: status 1003.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the execution completed with a NaN in an output (status 1003)")]
#[non_exhaustive]
pub struct NumericalError {}

/// Why an execution failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// The model keeps states and none were given.
    #[error("the model keeps {expected} {role}s and none were given", role = Role::State)]
    StatesMissing {
        /// States of the contract.
        expected: usize,
    },
    /// The states belong to another contract.
    #[error("the states belong to contract {found}, not {expected}")]
    ForeignStates {
        /// This model's contract.
        expected: ContractId,
        /// The states' contract.
        found: ContractId,
    },
    /// An output of an earlier launch still shows the states' buffers.
    #[error("outputs of an earlier launch still show the states")]
    StatesShown,
    /// The runtime failed, or completed with an error.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

/// A failed execution, with everything that was given to it.
///
/// It is no [`std::error::Error`] itself, for it holds what borrows from the
/// caller; `?` turns it into [`enum@Error`] or a boxed error.
#[must_use]
pub struct Failed<'s, 'rt, B: Backend, A> {
    inner: Box<Parts<'s, 'rt, B, A>>,
}

struct Parts<'s, 'rt, B: Backend, A> {
    reason: ExecuteError,
    arguments: A,
    states: States<'rt, B>,
    outputs: Option<Outputs<'s, 'rt, B>>,
}

impl<'s, 'rt, B: Backend, A> Failed<'s, 'rt, B, A> {
    fn new(
        reason: ExecuteError,
        arguments: A,
        states: States<'rt, B>,
        outputs: Option<Outputs<'s, 'rt, B>>,
    ) -> Self {
        Self {
            inner: Box::new(Parts {
                reason,
                arguments,
                states,
                outputs,
            }),
        }
    }

    /// Why it failed.
    #[must_use]
    pub fn reason(&self) -> &ExecuteError {
        &self.inner.reason
    }

    /// The outputs, where the execution completed in spite of the error.
    #[must_use]
    pub fn outputs(&self) -> Option<&Outputs<'s, 'rt, B>> {
        self.inner.outputs.as_ref()
    }

    /// Takes back the inputs and the states.
    #[must_use]
    pub fn into_inputs(self) -> (A, States<'rt, B>) {
        (self.inner.arguments, self.inner.states)
    }

    /// Keeps the reason and drops the rest.
    #[must_use]
    pub fn into_reason(self) -> ExecuteError {
        self.inner.reason
    }
}

impl<B: Backend, A> fmt::Debug for Failed<'_, '_, B, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failed")
            .field("reason", &self.inner.reason)
            .field("outputs", &self.inner.outputs.is_some())
            .finish_non_exhaustive()
    }
}

impl<B: Backend, A> fmt::Display for Failed<'_, '_, B, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.reason.fmt(f)
    }
}

impl<B: Backend, A> From<Failed<'_, '_, B, A>> for Box<dyn StdError> {
    fn from(failed: Failed<'_, '_, B, A>) -> Self {
        Box::new(failed.into_reason())
    }
}

impl<B: Backend, A> From<Failed<'_, '_, B, A>> for Box<dyn StdError + Send + Sync> {
    fn from(failed: Failed<'_, '_, B, A>) -> Self {
        Box::new(failed.into_reason())
    }
}

impl<B: Backend, A> From<Failed<'_, '_, B, A>> for Error {
    fn from(failed: Failed<'_, '_, B, A>) -> Self {
        failed.into_reason().into()
    }
}
