//! What became of every rank.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::checkpoint::CheckpointError;
use crate::contract::list;
use crate::model::{LoadError, WeightsError};
use crate::parallel::NotStarted;
use crate::session::{BindError, ExecuteError, SessionError, StatesError};

/// What became of one rank in a call that concerned all of them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RankOutcome {
    /// Its number in the world.
    pub rank: u32,
    /// Why it failed, or that it did not.
    pub result: Result<(), RankError>,
}

impl fmt::Display for RankOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.result {
            Ok(()) => write!(f, "rank {}: no failure", self.rank),
            Err(error) => write!(f, "rank {}: {error}", self.rank),
        }
    }
}

/// Why a rank failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RankError {
    /// It was not loaded.
    #[error(transparent)]
    Load(LoadError),
    /// Its weights were refused.
    #[error(transparent)]
    Weights(WeightsError),
    /// Its shard was not read, or does not fit.
    #[error(transparent)]
    Checkpoint(Arc<CheckpointError>),
    /// Its session cannot be made.
    #[error(transparent)]
    Session(SessionError),
    /// Its states were refused.
    #[error(transparent)]
    States(StatesError),
    /// Its inputs were refused; no rank was executed.
    #[error(transparent)]
    Bind(BindError),
    /// Its execution failed.
    #[error(transparent)]
    Execute(ExecuteError),
}

/// Why a call on all ranks failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpmdError {
    /// The ranks of this process are not in the world, or there are none.
    #[error("{local_ranks} ranks from {first_rank} are no ranks of a world of {world_size}")]
    World {
        /// The first rank of this process.
        first_rank: u32,
        /// Ranks of this process.
        local_ranks: u32,
        /// Ranks of the world.
        world_size: u32,
    },
    /// The rank is not this process's.
    #[error("rank {rank} is none of the {count} ranks from {first}")]
    Rank {
        /// The rank asked for.
        rank: u32,
        /// The first rank of this process.
        first: u32,
        /// Ranks of this process.
        count: usize,
    },
    /// A list has not one entry for each rank.
    #[error("{what} for {found} ranks were given, expected {expected}")]
    Count {
        /// What was given.
        what: &'static str,
        /// Ranks of this process.
        expected: usize,
        /// Entries given.
        found: usize,
    },
    /// A thread for a rank cannot be started; nothing was done.
    #[error("no thread could work for a rank: {detail}")]
    Thread {
        /// The reason.
        detail: String,
    },
    /// A rank failed; all of them are listed.
    #[error("{}", Listed(outcomes))]
    Ranks {
        /// What became of every rank, by number.
        outcomes: Vec<RankOutcome>,
    },
}

impl SpmdError {
    /// The first rank that failed, where one did.
    #[must_use]
    pub fn failed_rank(&self) -> Option<u32> {
        match self {
            Self::Ranks { outcomes } => {
                let failed = outcomes.iter().find(|outcome| outcome.result.is_err());
                failed.map(|outcome| outcome.rank)
            }
            _ => None,
        }
    }
}

impl From<io::Error> for SpmdError {
    fn from(error: io::Error) -> Self {
        Self::Thread {
            detail: error.to_string(),
        }
    }
}

impl<I> From<NotStarted<I>> for SpmdError {
    fn from(failed: NotStarted<I>) -> Self {
        failed.error.into()
    }
}

struct Listed<'o>(&'o [RankOutcome]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rank failed")?;
        list(f, self.0, 0)
    }
}

/// The values of all ranks, or what became of every one.
pub(super) fn all<T, E>(
    first: u32,
    results: Vec<Result<T, E>>,
    failed: impl Fn(E) -> RankError,
) -> Result<Vec<T>, SpmdError> {
    if results.iter().all(Result::is_ok) {
        return Ok(results.into_iter().flatten().collect());
    }
    let outcomes = (first..)
        .zip(results)
        .map(|(rank, result)| RankOutcome {
            rank,
            result: result.map(drop).map_err(&failed),
        })
        .collect();
    Err(SpmdError::Ranks { outcomes })
}
