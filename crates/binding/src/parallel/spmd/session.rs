//! Launches of all local ranks at once.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::error::{RankError, all};
use super::{SpmdError, SpmdOptions, SpmdStates, of_rank, outside};
use crate::backend::{Backend, Completion};
use crate::checkpoint::Checkpoint;
use crate::failure::{Error, Rejected};
use crate::parallel::{NotStarted, RankOutcome, together};
use crate::session::{
    Argument, BindError, Completed, Executed, Failed, NumericalError, Outputs, Ready, Session,
    States,
};
use crate::tensor::{Tensor, Validated};

/// Inputs of one rank.
type Inputs<'a, 'rt, B> = Vec<Argument<'a, 'rt, B>>;

/// What came of binding one rank's inputs.
type RankBound<'s, 'a, 'rt, B> =
    Result<Ready<'s, 'rt, B, Inputs<'a, 'rt, B>>, Rejected<Inputs<'a, 'rt, B>, BindError>>;

/// What came of executing one rank.
type RankExecuted<'s, 'a, 'rt, B> =
    Result<Executed<'s, 'rt, B>, Failed<'s, 'rt, B, Inputs<'a, 'rt, B>>>;

/// The inputs of a launch of all ranks.
#[derive(Debug)]
#[non_exhaustive]
pub enum SpmdInputs<'a, 'rt, B: Backend> {
    /// Every rank gets the same host tensors, which are not copied for that.
    Replicated(Vec<Tensor<Validated<'a>>>),
    /// Every local rank, by number, gets inputs of its own.
    Ranked(Vec<Vec<Argument<'a, 'rt, B>>>),
}

impl<'a, 'rt, B: Backend> SpmdInputs<'a, 'rt, B> {
    /// The same host tensors for every rank.
    #[must_use]
    pub fn replicated(tensors: Vec<Tensor<Validated<'a>>>) -> Self {
        Self::Replicated(tensors)
    }

    /// Host tensors of each local rank, by number.
    #[must_use]
    pub fn ranked(ranks: Vec<Vec<Tensor<Validated<'a>>>>) -> Self {
        let host = |rank: Vec<_>| rank.into_iter().map(Argument::Host).collect();
        Self::Ranked(ranks.into_iter().map(host).collect())
    }

    fn for_ranks(self, ranks: usize) -> Vec<Inputs<'a, 'rt, B>> {
        match self {
            Self::Replicated(tensors) => (0..ranks)
                .map(|_| tensors.iter().cloned().map(Argument::Host).collect())
                .collect(),
            Self::Ranked(inputs) => inputs,
        }
    }
}

/// A session of every local rank.
pub struct SpmdSession<'rt, B: Backend> {
    sessions: Vec<Session<'rt, B>>,
    options: SpmdOptions,
}

impl<'rt, B: Backend> SpmdSession<'rt, B> {
    pub(super) const fn new(sessions: Vec<Session<'rt, B>>, options: SpmdOptions) -> Self {
        Self { sessions, options }
    }

    /// The session of a rank, by its number in the world: to upload a tensor, or
    /// to launch the rank alone.
    ///
    /// # Errors
    ///
    /// [`SpmdError::Rank`] if the rank is not this process's.
    pub fn rank(&mut self, rank: u32) -> Result<&mut Session<'rt, B>, SpmdError> {
        let (count, first) = (self.sessions.len(), self.options.first_rank);
        rank.checked_sub(first)
            .and_then(|local| self.sessions.get_mut(usize::try_from(local).ok()?))
            .ok_or_else(|| outside(count, first, rank))
    }

    /// States of zero bytes on every rank.
    ///
    /// # Errors
    ///
    /// [`SpmdError::Ranks`]; what was allocated is freed.
    pub fn zero_states(&self) -> Result<SpmdStates<'rt, B>, SpmdError> {
        let states = self.sessions.iter().map(Session::zero_states).collect();
        let failed = |error| RankError::States(crate::session::StatesError::Backend(error));
        Ok(self.states(all(self.options.first_rank, states, failed)?))
    }

    /// States from each rank's shard in a folder; those that are not in it are
    /// zero. See [`Checkpoint::open_rank`].
    ///
    /// # Errors
    ///
    /// [`SpmdError::Ranks`]; what was allocated is freed.
    pub fn checkpoint_states(
        &self,
        folder: impl AsRef<Path>,
    ) -> Result<SpmdStates<'rt, B>, SpmdError> {
        let first = self.options.first_rank;
        let states = (first..)
            .zip(&self.sessions)
            .map(|(rank, session)| {
                let shard = Checkpoint::open_rank(&folder, rank, self.options.world_size)?;
                session.checkpoint_states(&shard)
            })
            .collect();
        let failed = |error| RankError::Checkpoint(Arc::new(error));
        Ok(self.states(all(first, states, failed)?))
    }

    const fn states(&self, ranks: Vec<States<'rt, B>>) -> SpmdStates<'rt, B> {
        SpmdStates {
            ranks,
            first_rank: self.options.first_rank,
        }
    }

    /// Executes every rank once, all of them at the same time.
    ///
    /// No rank is executed unless the inputs of all of them are bound. A rank that
    /// fails does not touch the others, which can be executed again.
    ///
    /// # Errors
    ///
    /// [`SpmdFailed`], with what became of every rank, the inputs of those that
    /// did not complete, and the states of all.
    pub fn execute<'a>(
        &mut self,
        inputs: SpmdInputs<'a, 'rt, B>,
        states: impl Into<SpmdStates<'rt, B>>,
    ) -> Result<SpmdExecuted<'_, 'rt, B>, SpmdFailed<'a, 'rt, B>> {
        let states = states.into();
        let count = self.sessions.len();
        let first_rank = self.options.first_rank;
        let inputs = inputs.for_ranks(count);
        let given = [
            ("inputs", inputs.len()),
            (
                "states",
                if states.ranks.is_empty() {
                    count
                } else {
                    states.ranks.len()
                },
            ),
        ];
        for (what, found) in given {
            if found != count {
                let error = SpmdError::Count {
                    what,
                    expected: count,
                    found,
                };
                return Err(SpmdFailed::unchanged(error, inputs, states));
            }
        }
        let jobs = self.sessions.iter_mut().zip(inputs).collect();
        let bound = together(jobs, |(session, inputs): (&mut Session<'rt, B>, _)| {
            session.bind(inputs)
        });
        let bound = match bound {
            Ok(bound) => bound,
            Err(NotStarted { error, inputs }) => {
                let (_, inputs): (Vec<_>, _) = inputs.into_iter().unzip();
                return Err(SpmdFailed::unchanged(error.into(), inputs, states));
            }
        };
        if bound.iter().any(Result::is_err) {
            return Err(SpmdFailed::unbound(first_rank, bound, states));
        }
        let mut ranks = states.ranks;
        ranks.resize_with(count, || States::from(()));
        let jobs = bound.into_iter().flatten().zip(ranks).collect();
        match together(
            jobs,
            |(ready, states): (Ready<'_, 'rt, B, _>, States<'rt, B>)| ready.execute(states),
        ) {
            Ok(results) => SpmdExecuted::new(first_rank, results),
            Err(NotStarted { error, inputs }) => {
                let (ready, ranks): (Vec<_>, _) = inputs.into_iter().unzip();
                let inputs = ready.into_iter().map(Ready::cancel).collect();
                let states = SpmdStates { ranks, first_rank };
                Err(SpmdFailed::unchanged(error.into(), inputs, states))
            }
        }
    }
}

impl<B: Backend> fmt::Debug for SpmdSession<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpmdSession")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// A launch of all ranks that has ended, before the caller has said what a NaN
/// means to it.
#[must_use = "an execution may have completed with a numerical error"]
pub struct SpmdExecuted<'s, 'rt, B: Backend> {
    ranks: Vec<Executed<'s, 'rt, B>>,
    first_rank: u32,
}

impl<'s, 'rt, B: Backend> SpmdExecuted<'s, 'rt, B> {
    fn new<'a>(
        first_rank: u32,
        results: Vec<RankExecuted<'s, 'a, 'rt, B>>,
    ) -> Result<Self, SpmdFailed<'a, 'rt, B>> {
        if results.iter().any(Result::is_err) {
            return Err(SpmdFailed::failed(first_rank, results));
        }
        Ok(Self {
            ranks: results.into_iter().flatten().collect(),
            first_rank,
        })
    }

    /// How it ended: with a numerical error if one of the ranks did.
    pub fn completion(&self) -> Completion {
        let nan = |rank: &Executed<'_, '_, B>| rank.completion() == Completion::NumericalError;
        if self.ranks.iter().any(nan) {
            Completion::NumericalError
        } else {
            Completion::Clean
        }
    }

    /// How each local rank ended, by number.
    #[must_use]
    pub fn completions(&self) -> Vec<Completion> {
        self.ranks.iter().map(Executed::completion).collect()
    }

    /// Takes the outputs whether or not one of them holds a NaN.
    pub fn tolerate_nan(self) -> SpmdCompleted<'s, 'rt, B> {
        let ranks = self.ranks.into_iter().map(Executed::tolerate_nan);
        SpmdCompleted {
            ranks: ranks.collect(),
            first_rank: self.first_rank,
        }
    }

    /// Takes the outputs only if none of them holds a NaN.
    ///
    /// # Errors
    ///
    /// [`NumericalError`], with the completed launch.
    pub fn reject_nan(
        self,
    ) -> Result<SpmdCompleted<'s, 'rt, B>, Rejected<SpmdCompleted<'s, 'rt, B>, NumericalError>>
    {
        match self.completion() {
            Completion::Clean => Ok(self.tolerate_nan()),
            Completion::NumericalError => {
                Err(Rejected::new(self.tolerate_nan(), NumericalError {}))
            }
        }
    }
}

impl<B: Backend> fmt::Debug for SpmdExecuted<'_, '_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.ranks).finish()
    }
}

/// A launch of all ranks whose outputs are there to read.
#[must_use = "the states come back with the outputs"]
pub struct SpmdCompleted<'s, 'rt, B: Backend> {
    ranks: Vec<Completed<'s, 'rt, B>>,
    first_rank: u32,
}

impl<'s, 'rt, B: Backend> SpmdCompleted<'s, 'rt, B> {
    /// The outputs of every rank, on the device until they are read or taken, and
    /// the states for the next launch.
    #[must_use]
    pub fn into_parts(self) -> (SpmdOutputs<'s, 'rt, B>, SpmdStates<'rt, B>) {
        let first_rank = self.first_rank;
        let parts = self.ranks.into_iter().map(Completed::into_parts);
        let (outputs, states) = parts.unzip();
        let states = SpmdStates {
            ranks: states,
            first_rank,
        };
        let outputs = SpmdOutputs {
            ranks: outputs,
            first_rank,
        };
        (outputs, states)
    }
}

impl<B: Backend> fmt::Debug for SpmdCompleted<'_, '_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.ranks).finish()
    }
}

/// The outputs of every local rank.
#[derive(Debug)]
pub struct SpmdOutputs<'s, 'rt, B: Backend> {
    ranks: Vec<Outputs<'s, 'rt, B>>,
    first_rank: u32,
}

impl<'s, 'rt, B: Backend> SpmdOutputs<'s, 'rt, B> {
    /// The outputs of this process's first rank: what a replicated call returns.
    #[must_use]
    pub fn first(&self) -> &Outputs<'s, 'rt, B> {
        &self.ranks[0]
    }

    /// The outputs of a rank, by its number in the world.
    ///
    /// # Errors
    ///
    /// [`SpmdError::Rank`] if the rank is not this process's.
    pub fn rank(&self, rank: u32) -> Result<&Outputs<'s, 'rt, B>, SpmdError> {
        of_rank(&self.ranks, self.first_rank, rank)
    }

    /// The outputs of every local rank, by number: to take their buffers, which
    /// then stay on the device.
    #[must_use]
    pub fn into_ranks(self) -> Vec<Outputs<'s, 'rt, B>> {
        self.ranks
    }
}

/// A failed launch of all ranks, with what was given to it.
///
/// It is no [`std::error::Error`] itself, for it holds what borrows from the
/// caller; `?` turns it into [`enum@Error`] or a boxed error.
#[must_use]
pub struct SpmdFailed<'a, 'rt, B: Backend> {
    inner: Box<Parts<'a, 'rt, B>>,
}

struct Parts<'a, 'rt, B: Backend> {
    error: SpmdError,
    inputs: Vec<Option<Inputs<'a, 'rt, B>>>,
    states: SpmdStates<'rt, B>,
}

impl<'a, 'rt, B: Backend> SpmdFailed<'a, 'rt, B> {
    fn new(
        error: SpmdError,
        inputs: Vec<Option<Inputs<'a, 'rt, B>>>,
        states: SpmdStates<'rt, B>,
    ) -> Self {
        Self {
            inner: Box::new(Parts {
                error,
                inputs,
                states,
            }),
        }
    }

    /// Nothing was bound.
    fn unchanged(
        error: SpmdError,
        inputs: Vec<Inputs<'a, 'rt, B>>,
        states: SpmdStates<'rt, B>,
    ) -> Self {
        Self::new(error, inputs.into_iter().map(Some).collect(), states)
    }

    /// The inputs of a rank were refused, so nothing was executed.
    fn unbound(
        first: u32,
        bound: Vec<RankBound<'_, 'a, 'rt, B>>,
        states: SpmdStates<'rt, B>,
    ) -> Self {
        let (mut outcomes, mut inputs) = (Vec::new(), Vec::new());
        for (rank, bound) in (first..).zip(bound) {
            let (given, result) = match bound {
                Ok(ready) => (ready.cancel(), Ok(())),
                Err(rejected) => {
                    let (given, reason) = rejected.into_parts();
                    (given, Err(RankError::Bind(reason)))
                }
            };
            inputs.push(Some(given));
            outcomes.push(RankOutcome { rank, result });
        }
        Self::new(SpmdError::Ranks { outcomes }, inputs, states)
    }

    /// The execution of a rank failed.
    fn failed(first_rank: u32, results: Vec<RankExecuted<'_, 'a, 'rt, B>>) -> Self {
        let (mut outcomes, mut inputs, mut ranks) = (Vec::new(), Vec::new(), Vec::new());
        for (rank, result) in (first_rank..).zip(results) {
            let (given, states, result) = match result {
                Ok(executed) => (None, executed.tolerate_nan().into_parts().1, Ok(())),
                Err(failed) => {
                    let reason = RankError::Execute(failed.reason().clone());
                    let (given, states) = failed.into_inputs();
                    (Some(given), states, Err(reason))
                }
            };
            inputs.push(given);
            ranks.push(states);
            outcomes.push(RankOutcome { rank, result });
        }
        let states = SpmdStates { ranks, first_rank };
        Self::new(SpmdError::Ranks { outcomes }, inputs, states)
    }

    /// Why it failed.
    #[must_use]
    pub fn reason(&self) -> &SpmdError {
        &self.inner.error
    }

    /// Takes back the inputs and states of every local rank, by number: `None`
    /// for the inputs of a rank that completed, whose states are the successors.
    #[must_use]
    #[expect(clippy::type_complexity, reason = "a list of each rank's inputs")]
    pub fn into_inputs(self) -> (Vec<Option<Vec<Argument<'a, 'rt, B>>>>, SpmdStates<'rt, B>) {
        (self.inner.inputs, self.inner.states)
    }

    /// Keeps the reason and drops the rest.
    #[must_use]
    pub fn into_reason(self) -> SpmdError {
        self.inner.error
    }
}

impl<B: Backend> fmt::Debug for SpmdFailed<'_, '_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpmdFailed")
            .field("reason", &self.inner.error)
            .finish_non_exhaustive()
    }
}

impl<B: Backend> fmt::Display for SpmdFailed<'_, '_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.error.fmt(f)
    }
}

impl<B: Backend> From<SpmdFailed<'_, '_, B>> for Box<dyn std::error::Error> {
    fn from(failed: SpmdFailed<'_, '_, B>) -> Self {
        Box::new(failed.into_reason())
    }
}

impl<B: Backend> From<SpmdFailed<'_, '_, B>> for Box<dyn std::error::Error + Send + Sync> {
    fn from(failed: SpmdFailed<'_, '_, B>) -> Self {
        Box::new(failed.into_reason())
    }
}

impl<B: Backend> From<SpmdFailed<'_, '_, B>> for Error {
    fn from(failed: SpmdFailed<'_, '_, B>) -> Self {
        failed.into_reason().into()
    }
}
