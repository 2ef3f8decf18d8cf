//! A runtime owns its backend; what it gives out cannot outlive it.

use std::ffi::CStr;
use std::sync::Arc;

use crate::artifact::Artifact;
use crate::backend::{
    Backend, BackendInfo, CollectiveContext, Core, MemoryStats, Placement, Transfers,
};
use crate::device::DeviceTensor;
use crate::error::BackendError;
use crate::model::{LoadError, Model, ModelInner};

/// A backend and all that comes from it.
///
/// Models, sessions and tensors borrow from the runtime, so the compiler keeps
/// them inside its life. [`into_shared`](Self::into_shared) gives up that check
/// for handles without a lifetime, which servers need; they keep the backend
/// alive by counting.
///
/// # Examples
///
/// ```
/// use metaneff_binding::Runtime;
/// use metaneff_binding::testing::Fake;
///
/// let runtime = Runtime::new(Fake::new());
/// assert_eq!(runtime.info().name, "fake");
/// assert!(!runtime.info().device);
/// ```
#[derive(Debug)]
pub struct Runtime<B: Backend> {
    backend: Arc<B>,
}

/// A runtime that its models keep alive.
///
/// The handles that it gives out are `'static`: they may be stored beside it,
/// sent to other threads, and dropped in any order. The backend is closed when
/// the last of them is gone.
#[derive(Debug)]
pub struct SharedRuntime<B: Backend> {
    backend: Arc<B>,
}

impl<B: Backend> Clone for SharedRuntime<B> {
    fn clone(&self) -> Self {
        Self {
            backend: Arc::clone(&self.backend),
        }
    }
}

/// How to load a model.
///
/// # Defaults
///
/// The first free core, no collectives, tensors compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadOptions {
    /// The core, or `None` for the first that is free.
    pub core: Option<Core>,
    /// Set for a model whose collectives span several ranks.
    pub collectives: Option<CollectiveContext>,
    /// Whether the loaded model's tensors are compared with the contract.
    pub compare_tensors: bool,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            core: None,
            collectives: None,
            compare_tensors: true,
        }
    }
}

impl LoadOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the core.
    #[must_use]
    pub const fn on(mut self, core: Core) -> Self {
        self.core = Some(core);
        self
    }

    /// Makes the model one rank of a world.
    #[must_use]
    pub const fn with_collectives(mut self, context: CollectiveContext) -> Self {
        self.collectives = Some(context);
        self
    }

    /// Takes the loaded model's word for its tensors.
    #[must_use]
    pub const fn without_comparison(mut self) -> Self {
        self.compare_tensors = false;
        self
    }
}

impl<B: Backend> Runtime<B> {
    /// Takes over a backend.
    #[must_use]
    pub fn new(backend: B) -> Self {
        Self {
            backend: Arc::new(backend),
        }
    }

    /// Gives up the lifetime check for handles that count.
    #[must_use]
    pub fn into_shared(self) -> SharedRuntime<B> {
        SharedRuntime {
            backend: self.backend,
        }
    }

    /// Loads a model on a core.
    ///
    /// # Errors
    ///
    /// [`LoadError::Backend`] with what the runtime answers;
    /// [`LoadError::Mismatch`] if the loaded model's tensors are not the
    /// contract's.
    pub fn load(&self, artifact: &Artifact, core: Core) -> Result<Model<'_, B>, LoadError> {
        self.load_with(artifact, &LoadOptions::new().on(core))
    }

    /// Loads a model.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn load_with(
        &self,
        artifact: &Artifact,
        options: &LoadOptions,
    ) -> Result<Model<'_, B>, LoadError> {
        ModelInner::load(&self.backend, artifact, options).map(Model::new)
    }

    /// Allocates a zeroed buffer that belongs to no model.
    ///
    /// # Errors
    ///
    /// What the backend answers.
    pub fn allocate(
        &self,
        placement: Placement,
        core: Core,
        size: usize,
        name: &CStr,
    ) -> Result<DeviceTensor<'_, B>, BackendError> {
        DeviceTensor::allocate(&self.backend, placement, core, size, name)
    }

    /// The backend.
    #[must_use]
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Which backend this is and what it sees.
    #[must_use]
    pub fn info(&self) -> BackendInfo {
        self.backend.info()
    }

    /// Memory of a core.
    ///
    /// # Errors
    ///
    /// What the backend answers.
    pub fn memory_stats(&self, core: Core) -> Result<MemoryStats, BackendError> {
        self.backend.memory_stats(core)
    }

    /// What the backend has moved so far, where it counts.
    #[must_use]
    pub fn transfers(&self) -> Option<Transfers> {
        self.backend.transfers()
    }
}

impl<B: Backend> SharedRuntime<B> {
    /// Takes over a backend.
    #[must_use]
    pub fn new(backend: B) -> Self {
        Runtime::new(backend).into_shared()
    }

    /// Loads a model on a core.
    ///
    /// # Errors
    ///
    /// As [`Runtime::load`].
    pub fn load(&self, artifact: &Artifact, core: Core) -> Result<Model<'static, B>, LoadError> {
        self.load_with(artifact, &LoadOptions::new().on(core))
    }

    /// Loads a model.
    ///
    /// # Errors
    ///
    /// As [`Runtime::load`].
    pub fn load_with(
        &self,
        artifact: &Artifact,
        options: &LoadOptions,
    ) -> Result<Model<'static, B>, LoadError> {
        ModelInner::load(&self.backend, artifact, options).map(Model::new)
    }

    /// Allocates a zeroed buffer that belongs to no model.
    ///
    /// # Errors
    ///
    /// What the backend answers.
    pub fn allocate(
        &self,
        placement: Placement,
        core: Core,
        size: usize,
        name: &CStr,
    ) -> Result<DeviceTensor<'static, B>, BackendError> {
        DeviceTensor::allocate(&self.backend, placement, core, size, name)
    }

    /// The backend.
    #[must_use]
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Which backend this is and what it sees.
    #[must_use]
    pub fn info(&self) -> BackendInfo {
        self.backend.info()
    }

    /// Memory of a core.
    ///
    /// # Errors
    ///
    /// What the backend answers.
    pub fn memory_stats(&self, core: Core) -> Result<MemoryStats, BackendError> {
        self.backend.memory_stats(core)
    }

    /// What the backend has moved so far, where it counts.
    #[must_use]
    pub fn transfers(&self) -> Option<Transfers> {
        self.backend.transfers()
    }
}
