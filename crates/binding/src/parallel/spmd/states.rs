//! The states of every rank.

use std::fmt;

use super::error::RankError;
use super::{SpmdError, of_rank, outside};
use crate::backend::Backend;
use crate::contract::SlotKey;
use crate::device::TensorView;
use crate::failure::Rejected;
use crate::parallel::RankOutcome;
use crate::session::States;
use crate::tensor::{Tensor, Validated};

/// The states of one sequence, on every local rank.
///
/// As [`States`] are, they are consumed by a launch, which gives their
/// successors back: while an execution is in flight there is nothing to read or
/// to write.
///
/// `()` converts into it, for programs that keep no state.
pub struct SpmdStates<'rt, B: Backend> {
    pub(super) ranks: Vec<States<'rt, B>>,
    pub(super) first_rank: u32,
}

impl<B: Backend> From<()> for SpmdStates<'_, B> {
    fn from((): ()) -> Self {
        Self {
            ranks: Vec::new(),
            first_rank: 0,
        }
    }
}

impl<'rt, B: Backend> SpmdStates<'rt, B> {
    /// One state of one rank, to be read.
    ///
    /// # Errors
    ///
    /// [`SpmdError::Rank`] if the rank is not this process's; as
    /// [`States::get`].
    pub fn get<'k>(
        &self,
        rank: u32,
        key: impl Into<SlotKey<'k>>,
    ) -> Result<TensorView<'_, 'rt, B>, SpmdError> {
        of_rank(&self.ranks, self.first_rank, rank)?
            .get(key)
            .map_err(|error| failed(rank, RankError::States(error)))
    }

    /// Overwrites one state of one rank.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get) and [`States::write`], with the tensor.
    pub fn write<'a>(
        &mut self,
        rank: u32,
        tensor: Tensor<Validated<'a>>,
    ) -> Result<(), Rejected<Tensor<Validated<'a>>, SpmdError>> {
        let count = self.ranks.len();
        let states = rank
            .checked_sub(self.first_rank)
            .and_then(|local| self.ranks.get_mut(usize::try_from(local).ok()?));
        let Some(states) = states else {
            return Err(Rejected::new(tensor, outside(count, self.first_rank, rank)));
        };
        states.write(tensor).map_err(|rejected| {
            let (tensor, reason) = rejected.into_parts();
            Rejected::new(tensor, failed(rank, RankError::States(reason)))
        })
    }

    /// The states of every local rank, with its number in the world.
    pub fn ranks(&self) -> impl Iterator<Item = (u32, &States<'rt, B>)> {
        (self.first_rank..).zip(&self.ranks)
    }
}

fn failed(rank: u32, error: RankError) -> SpmdError {
    SpmdError::Ranks {
        outcomes: vec![RankOutcome {
            rank,
            result: Err(error),
        }],
    }
}

impl<B: Backend> fmt::Debug for SpmdStates<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.ranks()).finish()
    }
}
