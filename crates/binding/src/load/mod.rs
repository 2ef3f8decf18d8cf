//! When a model is loaded: at once, in the background, or at its first use.
//!
//! | type | what it is | what it can do |
//! |---|---|---|
//! | [`Unloaded`] | an artifact with a place | [`load`](Unloaded::load), [`start`](Unloaded::start), [`open`](Unloaded::open) |
//! | [`Loading`] | the same, while a thread loads it | [`wait`](Loading::wait), [`wait_for`](Loading::wait_for) |
//! | [`Model`] | ready | sessions |
//! | [`DeferredModel`] | any of the three, by the contract's policy | [`get`](DeferredModel::get) |
//!
//! The first three are one another's successors, and a step that fails gives the
//! one before back. [`DeferredModel`] is for callers who hold a handle that does
//! not change its type, as the native `Model` class does. Source: the reference
//! page, sections 6 and 7.

mod deferred;
pub(crate) mod latch;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use deferred::{DeferredModel, LoadState};

use crate::artifact::Artifact;
use crate::backend::Backend;
use crate::checkpoint::Checkpoint;
use crate::failure::Rejected;
use crate::model::{LoadError, Model};
use crate::parallel::detach;
use crate::runtime::{LoadOptions, SharedRuntime};
use latch::{Latch, Progress};

/// A model that is not loaded: an artifact, a place, and perhaps a checkpoint.
///
/// # Examples
///
/// ```
/// use metaneff_binding::testing::{Fake, add_model};
/// use metaneff_binding::{LoadOptions, SharedRuntime};
///
/// let runtime = SharedRuntime::new(Fake::new());
/// let loading = runtime.prepare(&add_model(), LoadOptions::new()).start();
/// // … other work …
/// let model = loading.wait()?;
/// assert_eq!(model.contract().inputs().len(), 2);
/// # Ok::<(), metaneff_binding::Error>(())
/// ```
#[must_use = "nothing is loaded yet"]
pub struct Unloaded<B: Backend> {
    plan: Arc<LoadPlan<B>>,
}

/// What it takes to load a model.
pub(crate) struct LoadPlan<B: Backend> {
    runtime: SharedRuntime<B>,
    artifact: Artifact,
    options: LoadOptions,
    checkpoint: Option<Arc<Checkpoint>>,
}

type Outcome<B> = Result<Model<'static, B>, LoadError>;

impl<B: Backend> Clone for LoadPlan<B> {
    fn clone(&self) -> Self {
        Self {
            runtime: self.runtime.clone(),
            artifact: self.artifact.clone(),
            options: self.options,
            checkpoint: self.checkpoint.clone(),
        }
    }
}

impl<B: Backend> LoadPlan<B> {
    fn load(&self) -> Outcome<B> {
        let model = self.runtime.load_with(&self.artifact, &self.options)?;
        if let Some(checkpoint) = &self.checkpoint {
            model
                .load_checkpoint(checkpoint)
                .map_err(|error| LoadError::Weights {
                    detail: error.to_string(),
                })?;
        }
        Ok(model)
    }

    /// Loads on a thread of its own. Whoever drops the latch does not wait: a
    /// model that nobody takes is unloaded by that thread.
    fn start(self: &Arc<Self>, latch: &Arc<Latch<Outcome<B>>>) {
        if !latch.begin() {
            return;
        }
        let (plan, target) = (Arc::clone(self), Arc::clone(latch));
        let started = detach("metaneff-load", move || {
            target.fill(|| plan.load());
        });
        if let Err(error) = started {
            latch.fill(|| {
                Err(LoadError::Thread {
                    detail: error.to_string(),
                })
            });
        }
    }
}

impl<B: Backend> SharedRuntime<B> {
    /// Says what to load and where, without loading it.
    pub fn prepare(&self, artifact: &Artifact, options: LoadOptions) -> Unloaded<B> {
        Unloaded {
            plan: Arc::new(LoadPlan {
                runtime: self.clone(),
                artifact: artifact.clone(),
                options,
                checkpoint: None,
            }),
        }
    }
}

impl<B: Backend> Unloaded<B> {
    /// Adds a checkpoint, whose weights are part of the load.
    pub fn with_checkpoint(self, checkpoint: Arc<Checkpoint>) -> Self {
        let mut plan = (*self.plan).clone();
        plan.checkpoint = Some(checkpoint);
        Self {
            plan: Arc::new(plan),
        }
    }

    /// The artifact.
    #[must_use]
    pub fn artifact(&self) -> &Artifact {
        &self.plan.artifact
    }

    /// Loads on this thread.
    ///
    /// # Errors
    ///
    /// [`LoadError`], with the unloaded model.
    pub fn load(self) -> Result<Model<'static, B>, Rejected<Self, LoadError>> {
        match self.plan.load() {
            Ok(model) => Ok(model),
            Err(reason) => Err(Rejected::new(self, reason)),
        }
    }

    /// Loads in the background.
    pub fn start(self) -> Loading<B> {
        let latch = Arc::new(Latch::new());
        self.plan.start(&latch);
        Loading {
            plan: self.plan,
            latch,
        }
    }

    /// A handle that is loaded as the contract asks for: at its first use if it
    /// is lazy, in the background if it is asynchronous, or else now.
    ///
    /// # Errors
    ///
    /// [`LoadError`], with the unloaded model, if it is loaded now.
    pub fn open(self) -> Result<DeferredModel<B>, Rejected<Self, LoadError>> {
        let deferred = DeferredModel::new(&self.plan);
        match deferred.settle() {
            Ok(()) => Ok(deferred),
            Err(reason) => Err(Rejected::new(self, reason)),
        }
    }
}

impl<B: Backend> fmt::Debug for Unloaded<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unloaded")
            .field("contract", self.plan.artifact.contract())
            .field("options", &self.plan.options)
            .finish_non_exhaustive()
    }
}

/// A model that a thread of its own is loading.
///
/// Dropping it does not wait; the thread then unloads the model again.
#[must_use = "the model is dropped when it is loaded"]
pub struct Loading<B: Backend> {
    plan: Arc<LoadPlan<B>>,
    latch: Arc<Latch<Outcome<B>>>,
}

/// What came of waiting for a model.
#[derive(Debug)]
#[must_use]
#[expect(
    clippy::exhaustive_enums,
    reason = "a load has succeeded, has failed, or goes on"
)]
pub enum Waited<B: Backend> {
    /// It is loaded.
    Ready(Model<'static, B>),
    /// It was not loaded.
    Failed(Rejected<Unloaded<B>, LoadError>),
    /// It is still being loaded.
    Loading(Loading<B>),
}

impl<B: Backend> Loading<B> {
    /// Whether waiting would be at an end at once.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.latch.progress() != Progress::Busy
    }

    /// Waits for the model.
    ///
    /// # Errors
    ///
    /// [`LoadError`], with the unloaded model.
    pub fn wait(self) -> Result<Model<'static, B>, Rejected<Unloaded<B>, LoadError>> {
        let outcome = self.latch.wait_and_take(None);
        let unloaded = Unloaded { plan: self.plan };
        finished(unloaded, outcome)
    }

    /// Waits no longer than `limit`. A load may hang for ever, for instance while
    /// peers of a world are missing.
    pub fn wait_for(self, limit: Duration) -> Waited<B> {
        let outcome = self.latch.wait_and_take(Some(limit));
        if outcome.is_none() && !self.is_finished() {
            return Waited::Loading(self);
        }
        let unloaded = Unloaded {
            plan: Arc::clone(&self.plan),
        };
        match finished(unloaded, outcome.or_else(|| self.latch.take())) {
            Ok(model) => Waited::Ready(model),
            Err(rejected) => Waited::Failed(rejected),
        }
    }
}

fn finished<B: Backend>(
    unloaded: Unloaded<B>,
    outcome: Option<Outcome<B>>,
) -> Result<Model<'static, B>, Rejected<Unloaded<B>, LoadError>> {
    match outcome {
        Some(Ok(model)) => Ok(model),
        Some(Err(reason)) => Err(Rejected::new(unloaded, reason)),
        None => {
            let detail = "the loading thread panicked".to_owned();
            Err(Rejected::new(unloaded, LoadError::Thread { detail }))
        }
    }
}

impl<B: Backend> fmt::Debug for Loading<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loading")
            .field("finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}
