//! A handle whose model is loaded as its contract asks for.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metaneff_schema::{Document, EditError};

use super::latch::{Latch, Progress};
use super::{LoadPlan, Outcome};
use crate::artifact::{Artifact, ArtifactError};
use crate::backend::Backend;
use crate::model::{LoadError, Model, UnloadError};

/// A model that is loaded at its first use, in the background, or at once, as its
/// contract says; and unloaded and loaded again when it is edited.
///
/// Clones are one handle. However many threads use it first, it is loaded once; a
/// failed load answers every use, until [`unload`](Self::unload) forgets it.
///
/// # Examples
///
/// ```
/// use metaneff_binding::testing::{Fake, add_model};
/// use metaneff_binding::{LoadOptions, LoadState, SharedRuntime};
///
/// let artifact = add_model().edit(|metaneff| {
///     metaneff.set_lazy_load(true);
///     Ok(())
/// })?;
/// let runtime = SharedRuntime::new(Fake::new());
/// let model = runtime.prepare(&artifact, LoadOptions::new()).open()?;
/// assert_eq!(model.state(), LoadState::Unloaded);
/// let session = model.get()?.session()?;
/// assert_eq!(model.state(), LoadState::Ready);
/// # Ok::<(), metaneff_binding::Error>(())
/// ```
pub struct DeferredModel<B: Backend> {
    cell: Arc<Mutex<Cell<B>>>,
}

struct Cell<B: Backend> {
    plan: Arc<LoadPlan<B>>,
    latch: Arc<Latch<Outcome<B>>>,
}

/// How far a [`DeferredModel`] has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a load has not begun, goes on, has succeeded or has failed"
)]
pub enum LoadState {
    /// Its next use loads it.
    Unloaded,
    /// A thread loads it; its next use waits.
    Loading,
    /// It is loaded.
    Ready,
    /// It was not loaded; its uses answer why.
    Failed,
}

impl<B: Backend> Clone for DeferredModel<B> {
    fn clone(&self) -> Self {
        Self {
            cell: Arc::clone(&self.cell),
        }
    }
}

impl<B: Backend> DeferredModel<B> {
    pub(super) fn new(plan: &Arc<LoadPlan<B>>) -> Self {
        Self {
            cell: Arc::new(Mutex::new(Cell {
                plan: Arc::clone(plan),
                latch: Arc::new(Latch::new()),
            })),
        }
    }

    /// Does what the contract's policy asks for before the first use.
    pub(super) fn settle(&self) -> Result<(), LoadError> {
        let (plan, latch) = self.parts();
        let contract = plan.artifact.contract();
        if contract.loads_lazily() {
            Ok(())
        } else if contract.loads_in_background() {
            plan.start(&latch);
            Ok(())
        } else {
            self.get().map(drop)
        }
    }

    /// The loaded model. The first use loads it, or waits for the background.
    ///
    /// # Errors
    ///
    /// The error of the load, the same at every use.
    pub fn get(&self) -> Result<Model<'static, B>, LoadError> {
        let (plan, latch) = self.parts();
        latch.get_or_make(|| plan.load())
    }

    /// As [`get`](Self::get), and no longer than `limit`: the load goes on in the
    /// background after that, and a later use waits for it.
    ///
    /// # Errors
    ///
    /// [`LoadError::Deadline`], and the error of the load.
    pub fn get_within(&self, limit: Duration) -> Result<Model<'static, B>, LoadError> {
        let (plan, latch) = self.parts();
        plan.start(&latch);
        latch
            .wait_for(limit)
            .unwrap_or(Err(LoadError::Deadline { limit }))
    }

    /// As [`get`](Self::get), for asynchronous callers: no worker of the executor
    /// waits. Dropping the future leaves the load to a later use.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), and [`LoadError::Thread`].
    #[cfg(feature = "tokio")]
    pub async fn ready(&self) -> Result<Model<'static, B>, LoadError> {
        let model = self.clone();
        let loaded = crate::engine::off_thread(move || model.get()).await;
        loaded.unwrap_or_else(|error| {
            Err(LoadError::Thread {
                detail: error.to_string(),
            })
        })
    }

    /// How far it has come.
    #[must_use]
    pub fn state(&self) -> LoadState {
        let (_, latch) = self.parts();
        match (latch.progress(), latch.peek()) {
            (_, Some(Ok(_))) => LoadState::Ready,
            (_, Some(Err(_))) => LoadState::Failed,
            (Progress::Busy, None) => LoadState::Loading,
            (Progress::Idle | Progress::Done, None) => LoadState::Unloaded,
        }
    }

    /// The artifact as it is edited now.
    #[must_use]
    pub fn artifact(&self) -> Artifact {
        self.parts().0.artifact.clone()
    }

    /// Unloads the model; its next use loads it again. A load that failed is
    /// forgotten.
    ///
    /// # Errors
    ///
    /// [`UnloadError::InUse`] while a session or another holder of the model is
    /// alive, or while it is being loaded; it then stays loaded.
    pub fn unload(&self) -> Result<(), UnloadError> {
        let (_, latch) = self.parts();
        if latch.progress() == Progress::Busy {
            return Err(UnloadError::InUse);
        }
        let Some(Ok(model)) = latch.take() else {
            return Ok(());
        };
        model.unload().map_err(|rejected| {
            let (model, reason) = rejected.into_parts();
            if let Some(model) = model {
                latch.put_back(Ok(model));
            }
            reason
        })
    }

    /// Lets it be loaded in the background (`set_async_load`). What is loaded
    /// stays loaded.
    ///
    /// # Errors
    ///
    /// As [`Artifact::edit`].
    pub fn set_async_load(&self, value: bool) -> Result<(), ArtifactError> {
        self.edit(false, |metaneff| {
            metaneff.set_async_load(value);
            Ok(())
        })
    }

    /// Lets it be loaded at its first use (`set_lazy_load`). What is loaded stays
    /// loaded.
    ///
    /// # Errors
    ///
    /// As [`Artifact::edit`].
    pub fn set_lazy_load(&self, value: bool) -> Result<(), ArtifactError> {
        self.edit(false, |metaneff| {
            metaneff.set_lazy_load(value);
            Ok(())
        })
    }

    /// Lets all slots but scalars take part in batches, or none
    /// (`set_dynamic_batching`). The next use loads the model again, as the
    /// native setter does; sessions of before go on with the old contract.
    ///
    /// # Errors
    ///
    /// As [`Artifact::edit`].
    pub fn set_dynamic_batching(&self, value: bool) -> Result<(), ArtifactError> {
        self.replace(true, |artifact| artifact.with_dynamic_batching(value))
    }

    /// Lets chosen slots take part in batches (`set_dynamic_batching_mixed`): one
    /// flag a slot, by ordinal. The next use loads the model again.
    ///
    /// # Errors
    ///
    /// As [`Artifact::edit`].
    pub fn set_dynamic_batching_mixed(
        &self,
        inputs: &[bool],
        outputs: &[bool],
    ) -> Result<(), ArtifactError> {
        self.edit(true, |metaneff| {
            metaneff.set_dynamic_batching_mixed(inputs, outputs)
        })
    }

    /// Returns the outputs that take an input's buffer, or hides them. The next
    /// use loads the model again.
    ///
    /// # Errors
    ///
    /// As [`Artifact::edit`].
    pub fn set_return_aliases(&self, value: bool) -> Result<(), ArtifactError> {
        self.edit(true, |metaneff| {
            metaneff.set_return_aliases(value);
            Ok(())
        })
    }

    fn edit(
        &self,
        reload: bool,
        edit: impl FnOnce(&mut Document) -> Result<(), EditError>,
    ) -> Result<(), ArtifactError> {
        self.replace(reload, |artifact| artifact.edit(edit))
    }

    fn replace(
        &self,
        reload: bool,
        edit: impl FnOnce(&Artifact) -> Result<Artifact, ArtifactError>,
    ) -> Result<(), ArtifactError> {
        let mut cell = self.lock();
        let mut plan = (*cell.plan).clone();
        plan.artifact = edit(&plan.artifact)?;
        cell.plan = Arc::new(plan);
        // The model of before is unloaded outside of the lock.
        let old = reload.then(|| std::mem::replace(&mut cell.latch, Arc::new(Latch::new())));
        drop(cell);
        drop(old);
        Ok(())
    }

    fn parts(&self) -> (Arc<LoadPlan<B>>, Arc<Latch<Outcome<B>>>) {
        let cell = self.lock();
        (Arc::clone(&cell.plan), Arc::clone(&cell.latch))
    }

    fn lock(&self) -> MutexGuard<'_, Cell<B>> {
        // Its parts are replaced whole, so a panic elsewhere leaves it sound.
        self.cell.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Backend> fmt::Debug for DeferredModel<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeferredModel")
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
