//! One program on several cores: the ranks of a world that this process has.
//!
//! Source: the reference page, sections 4.4, 4.5 and 7 (`SPMDModel`,
//! `SPMDRankedTask`).

mod error;
mod session;
mod states;

use std::fmt;
use std::path::Path;

pub use error::{RankError, RankOutcome, SpmdError};
pub use session::{SpmdCompleted, SpmdExecuted, SpmdFailed, SpmdInputs, SpmdOutputs, SpmdSession};
pub use states::SpmdStates;

use super::together;
use crate::artifact::Artifact;
use crate::backend::{Backend, CollectiveContext, Core};
use crate::checkpoint::Checkpoint;
use crate::contract::{Contract, LookupError, Slot, SlotKey};
use crate::failure::Rejected;
use crate::model::{LoadError, Model};
use crate::runtime::{LoadOptions, Runtime, SharedRuntime};
use crate::tensor::{Tensor, Validated};

/// Which ranks of a world this process loads, and where.
///
/// # Defaults
///
/// Ranks from 0 on cores from 0, with collectives over the whole world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpmdOptions {
    /// Ranks of this process.
    pub local_ranks: u32,
    /// Ranks of the world.
    pub world_size: u32,
    /// The first rank of this process.
    pub first_rank: u32,
    /// The core of the first rank; the others follow.
    pub first_core: Core,
    /// Whether the ranks talk to one another.
    pub collectives: bool,
}

impl SpmdOptions {
    /// `local_ranks` ranks of a world of `world_size`.
    #[must_use]
    pub const fn new(local_ranks: u32, world_size: u32) -> Self {
        Self {
            local_ranks,
            world_size,
            first_rank: 0,
            first_core: Core::new(0),
            collectives: true,
        }
    }

    /// Names the first rank of this process.
    #[must_use]
    pub const fn from_rank(mut self, rank: u32) -> Self {
        self.first_rank = rank;
        self
    }

    /// Names the core of the first rank.
    #[must_use]
    pub const fn from_core(mut self, core: Core) -> Self {
        self.first_core = core;
        self
    }

    /// Loads every rank on its own: the program has no collectives.
    #[must_use]
    pub const fn without_collectives(mut self) -> Self {
        self.collectives = false;
        self
    }

    fn rank(&self, local: u32) -> LoadOptions {
        let options = LoadOptions::new().on(Core::new(self.first_core.index() + local));
        if self.collectives {
            let rank = self.first_rank + local;
            options.with_collectives(CollectiveContext::new(rank, self.world_size))
        } else {
            options
        }
    }

    fn check(&self) -> Result<(), SpmdError> {
        let inside = self
            .first_rank
            .checked_add(self.local_ranks)
            .is_some_and(|end| end <= self.world_size);
        let cores = self.first_core.index().checked_add(self.local_ranks);
        if inside && self.local_ranks > 0 && cores.is_some() {
            Ok(())
        } else {
            Err(SpmdError::World {
                first_rank: self.first_rank,
                local_ranks: self.local_ranks,
                world_size: self.world_size,
            })
        }
    }
}

/// The local ranks of one program, each on a core of its own.
///
/// All ranks have one contract; each has weights and states of its own.
///
/// # Examples
///
/// ```
/// use metaneff_binding::testing::{Fake, add_model};
/// use metaneff_binding::{HostTensor, Runtime, SpmdInputs, SpmdOptions};
///
/// let runtime = Runtime::new(Fake::new());
/// let model = runtime.load_spmd(&add_model(), &SpmdOptions::new(2, 2))?;
/// let mut session = model.session()?;
///
/// let a = model.slot("input0")?.validate(HostTensor::from_slice([2], &[1.0_f32, 2.0])?)?;
/// let b = model.slot("input1")?.validate(HostTensor::from_slice([2], &[3.0_f32, 4.0])?)?;
/// let executed = session.execute(SpmdInputs::replicated(vec![a, b]), ())?;
/// let (outputs, _) = executed.tolerate_nan().into_parts();
/// assert_eq!(outputs.first().get(0)?.to_vec::<f32>()?, [4.0, 6.0]);
/// assert_eq!(outputs.rank(1)?.get(0)?.to_vec::<f32>()?, [4.0, 6.0]);
/// # Ok::<(), metaneff_binding::Error>(())
/// ```
pub struct SpmdModel<'rt, B: Backend> {
    /// Not empty.
    ranks: Vec<Model<'rt, B>>,
    options: SpmdOptions,
}

impl<B: Backend> Runtime<B> {
    /// Loads the local ranks of a program, all at once.
    ///
    /// # Errors
    ///
    /// [`SpmdError::World`] if the ranks are not in the world;
    /// [`SpmdError::Ranks`] with what became of every rank if one was not loaded:
    /// the others are then unloaded.
    pub fn load_spmd(
        &self,
        artifact: &Artifact,
        options: &SpmdOptions,
    ) -> Result<SpmdModel<'_, B>, SpmdError> {
        SpmdModel::load(options, |rank| self.load_with(artifact, &rank))
    }
}

impl<B: Backend> SharedRuntime<B> {
    /// Loads the local ranks of a program, all at once.
    ///
    /// # Errors
    ///
    /// As [`Runtime::load_spmd`].
    pub fn load_spmd(
        &self,
        artifact: &Artifact,
        options: &SpmdOptions,
    ) -> Result<SpmdModel<'static, B>, SpmdError> {
        SpmdModel::load(options, |rank| self.load_with(artifact, &rank))
    }
}

impl<'rt, B: Backend> SpmdModel<'rt, B> {
    fn load(
        options: &SpmdOptions,
        load: impl Fn(LoadOptions) -> Result<Model<'rt, B>, LoadError> + Sync,
    ) -> Result<Self, SpmdError> {
        options.check()?;
        let ranks = (0..options.local_ranks).collect();
        let loaded = together(ranks, |local| load(options.rank(local)))?;
        let ranks = error::all(options.first_rank, loaded, RankError::Load)?;
        Ok(Self {
            ranks,
            options: *options,
        })
    }

    /// How many ranks this process has.
    #[must_use]
    pub fn local_ranks(&self) -> usize {
        self.ranks.len()
    }

    /// How many ranks the world has.
    #[must_use]
    pub fn world_size(&self) -> u32 {
        self.options.world_size
    }

    /// The model of a rank, by its number in the world.
    ///
    /// # Errors
    ///
    /// [`SpmdError::Rank`] if the rank is not this process's.
    pub fn rank(&self, rank: u32) -> Result<&Model<'rt, B>, SpmdError> {
        of_rank(&self.ranks, self.options.first_rank, rank)
    }

    /// The local ranks, with their numbers in the world.
    pub fn ranks(&self) -> impl Iterator<Item = (u32, &Model<'rt, B>)> {
        (self.options.first_rank..).zip(&self.ranks)
    }

    /// The contract of every rank.
    #[must_use]
    pub fn contract(&self) -> &Contract {
        self.ranks[0].contract()
    }

    /// Finds an input slot; see [`Contract::slot`].
    ///
    /// # Errors
    ///
    /// As [`Contract::slot`].
    pub fn slot<'k>(&self, key: impl Into<SlotKey<'k>>) -> Result<&Slot, LookupError> {
        self.contract().slot(key)
    }

    /// Uploads the same weights to every rank: to all of them, or to none.
    ///
    /// # Errors
    ///
    /// [`SpmdError::Ranks`], with all tensors.
    pub fn load_weights<'a>(
        &self,
        tensors: Vec<Tensor<Validated<'a>>>,
    ) -> Result<(), Rejected<Vec<Tensor<Validated<'a>>>, SpmdError>> {
        let staged: Vec<_> = self
            .ranks
            .iter()
            .map(|model| model.stage_weights(&tensors))
            .collect();
        match error::all(self.options.first_rank, staged, RankError::Weights) {
            Ok(staged) => {
                for (model, staged) in self.ranks.iter().zip(staged) {
                    model.commit_weights(staged);
                }
                Ok(())
            }
            Err(reason) => Err(Rejected::new(tensors, reason)),
        }
    }

    /// Uploads each rank's weights from its shard in a folder; see
    /// [`Checkpoint::open_rank`]. Ranks before one that fails keep their new
    /// weights.
    ///
    /// # Errors
    ///
    /// [`SpmdError::Ranks`].
    pub fn load_checkpoints(&self, folder: impl AsRef<Path>) -> Result<(), SpmdError> {
        let folder = folder.as_ref();
        let ranks = self.ranks().collect();
        let loaded = together(ranks, |(rank, model): (u32, &Model<'rt, B>)| {
            let shard = Checkpoint::open_rank(folder, rank, self.options.world_size)?;
            model.load_checkpoint(&shard).map(drop)
        })?;
        let failed = |error| RankError::Checkpoint(std::sync::Arc::new(error));
        error::all(self.options.first_rank, loaded, failed).map(drop)
    }

    /// A session of every rank.
    ///
    /// # Errors
    ///
    /// [`SpmdError::Ranks`]; what was allocated is freed.
    pub fn session(&self) -> Result<SpmdSession<'rt, B>, SpmdError> {
        let sessions = self.ranks.iter().map(Model::session).collect();
        let sessions = error::all(self.options.first_rank, sessions, RankError::Session)?;
        Ok(SpmdSession::new(sessions, self.options))
    }
}

/// One of a list that starts with `first`, by its number in the world.
fn of_rank<T>(list: &[T], first: u32, rank: u32) -> Result<&T, SpmdError> {
    rank.checked_sub(first)
        .and_then(|local| list.get(usize::try_from(local).ok()?))
        .ok_or_else(|| outside(list.len(), first, rank))
}

fn outside(count: usize, first: u32, rank: u32) -> SpmdError {
    SpmdError::Rank { rank, first, count }
}

impl<B: Backend> fmt::Debug for SpmdModel<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpmdModel")
            .field("options", &self.options)
            .field("contract", self.contract())
            .finish_non_exhaustive()
    }
}
