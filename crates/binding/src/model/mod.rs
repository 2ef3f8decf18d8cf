//! Loaded models and their weights.

mod versioned;
mod weights;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::artifact::Artifact;
use crate::backend::{Backend, Core, LoadRequest, Placement};
use crate::contract::{
    Contract, ContractId, Holder, JoinError, LookupError, Ordinal, Role, Slot, SlotKey, Variable,
};
use crate::device::DeviceTensor;
use crate::error::{BackendError, Cause};
use crate::failure::Rejected;
use crate::owned::Owned;
use crate::runtime::LoadOptions;
use crate::session::{Session, SessionError};
use crate::tensor::{Tensor, Validated};
use versioned::Versioned;
pub(crate) use weights::Weights;
pub use weights::{CheckpointSummary, WeightsError};

/// A model on a core.
///
/// Clones share the loaded model and its weights; the model is unloaded when the
/// last clone and the last session are gone.
pub struct Model<'rt, B: Backend> {
    inner: Arc<ModelInner<B>>,
    runtime: PhantomData<&'rt ()>,
}

/// Fields are dropped after [`Drop::drop`] has unloaded the model: weights first,
/// the backend last.
pub(crate) struct ModelInner<B: Backend> {
    handle: Owned<B::Model>,
    contract: Contract,
    core: Core,
    plan: Plan,
    weights: Versioned<Weights<B>>,
    backend: Arc<B>,
}

/// What a launch has to know of each slot, worked out once.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) inputs: Box<[InputPlan]>,
    /// For each output, the input whose buffer it takes.
    pub(crate) outputs: Box<[OutputPlan]>,
    /// Inputs whose buffers [`States`](crate::States) holds.
    pub(crate) states: Box<[usize]>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct InputPlan {
    pub(crate) holder: Holder,
    /// 0 for a tensor without elements, which is neither allocated nor bound.
    pub(crate) size: usize,
    pub(crate) alias: Option<usize>,
    /// Position in [`Plan::states`].
    pub(crate) state: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputPlan {
    pub(crate) size: usize,
    pub(crate) alias: Option<usize>,
}

impl Plan {
    fn new(contract: &Contract) -> Self {
        let mut states = Vec::new();
        let inputs = contract
            .inputs()
            .iter()
            .map(|slot| {
                let state = states.len();
                let holder = slot.holder();
                if holder == Holder::States {
                    states.push(slot.ordinal().index());
                }
                InputPlan {
                    holder,
                    size: slot.byte_size(),
                    alias: slot.alias().map(Ordinal::index),
                    state,
                }
            })
            .collect();
        let outputs = contract
            .outputs()
            .iter()
            .map(|slot| OutputPlan {
                size: slot.byte_size(),
                alias: slot.alias().map(Ordinal::index),
            })
            .collect();
        Self {
            inputs,
            outputs,
            states: states.into(),
        }
    }
}

impl<B: Backend> ModelInner<B> {
    pub(crate) fn load(
        backend: &Arc<B>,
        artifact: &Artifact,
        options: &LoadOptions,
    ) -> Result<Arc<Self>, LoadError> {
        let contract = artifact.contract().clone();
        let mut request = LoadRequest::new(artifact.neff().clone());
        request.core = options.core;
        request.graph = artifact.graph().cloned();
        request.collectives = options.collectives;
        let handle = backend.load(&request)?;
        let plan = Plan::new(&contract);
        let weights = Weights::empty(&contract);
        // Whole from here on, so that a failure below unloads.
        let mut model = Self {
            handle: Owned::new(handle),
            contract,
            core: options.core.unwrap_or(Core::new(0)),
            plan,
            weights: Versioned::new(weights),
            backend: Arc::clone(backend),
        };
        model.core = backend.model_core(model.handle())?;
        if options.compare_tensors {
            model.compare_tensors()?;
        }
        Ok(Arc::new(model))
    }

    fn compare_tensors(&self) -> Result<(), LoadError> {
        let tensors = match self.backend.model_tensors(self.handle()) {
            Ok(tensors) => tensors,
            // An older library cannot tell; the NEFF has been compared already.
            Err(error) if matches!(error.cause(), Cause::MissingSymbol { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // Element types and shapes are left out: the runtime reports 8-bit floats
        // as integers and outputs without a type.
        let variables: Vec<_> = tensors
            .iter()
            .map(|t| Variable::new(t.name.as_str(), t.side, t.size as u64))
            .collect();
        self.contract.join_variables(&variables)?;
        Ok(())
    }

    pub(crate) fn handle(&self) -> &B::Model {
        self.handle.get()
    }

    pub(crate) fn contract(&self) -> &Contract {
        &self.contract
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn backend(&self) -> &Arc<B> {
        &self.backend
    }

    /// The weights, which are replaced whole.
    pub(crate) fn weights(&self) -> &Versioned<Weights<B>> {
        &self.weights
    }

    /// Allocates the buffer of an input slot.
    pub(crate) fn allocate(&self, slot: &Slot) -> Result<DeviceTensor<'static, B>, BackendError> {
        DeviceTensor::allocate(
            &self.backend,
            Placement::Device,
            self.core,
            slot.byte_size(),
            slot.device_key(),
        )
    }

    /// Allocates the buffer of a slot and fills it; `None` for a tensor without
    /// elements.
    pub(crate) fn upload(
        &self,
        slot: &Slot,
        bytes: &[u8],
    ) -> Result<Option<DeviceTensor<'static, B>>, BackendError> {
        if slot.byte_size() == 0 {
            return Ok(None);
        }
        let tensor = self.allocate(slot)?;
        self.backend.write(tensor.handle(), 0, bytes)?;
        Ok(Some(tensor))
    }
}

impl<B: Backend> Drop for ModelInner<B> {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            // The handle is gone whatever the answer is, and nobody can hear it.
            let _ = self.backend.unload(handle);
        }
    }
}

impl<B: Backend> Clone for Model<'_, B> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            runtime: PhantomData,
        }
    }
}

impl<'rt, B: Backend> Model<'rt, B> {
    pub(crate) const fn new(inner: Arc<ModelInner<B>>) -> Self {
        Self {
            inner,
            runtime: PhantomData,
        }
    }

    pub(crate) fn inner(&self) -> &ModelInner<B> {
        &self.inner
    }

    /// A session: a tensor set a side, with its buffers.
    ///
    /// Sessions of one model share its weights and nothing else, so they may run
    /// on different threads.
    ///
    /// # Errors
    ///
    /// [`SessionError::UnknownDataType`] if a slot that the session would have
    /// to allocate has no known size; [`SessionError::Backend`] with what the
    /// backend answers. Whatever was allocated is freed.
    pub fn session(&self) -> Result<Session<'rt, B>, SessionError> {
        Session::new(self.clone())
    }

    /// The contract.
    #[must_use]
    pub fn contract(&self) -> &Contract {
        &self.inner.contract
    }

    /// Finds an input slot; see [`Contract::slot`].
    ///
    /// # Errors
    ///
    /// As [`Contract::slot`].
    pub fn slot<'k>(&self, key: impl Into<SlotKey<'k>>) -> Result<&Slot, LookupError> {
        self.contract().slot(key)
    }

    /// The core that the model was loaded on.
    #[must_use]
    pub fn core(&self) -> Core {
        self.inner.core
    }

    /// The backend.
    #[must_use]
    pub fn backend(&self) -> &B {
        &self.inner.backend
    }

    /// Unloads the model now, and says what the runtime answered. Dropping the
    /// last clone unloads it as well, and hears nothing.
    ///
    /// # Errors
    ///
    /// [`UnloadError::InUse`], with the model, while a clone or a session is
    /// alive. After [`UnloadError::Backend`] the model is gone all the same.
    pub fn unload(mut self) -> Result<(), Rejected<Option<Self>, UnloadError>> {
        let Some(inner) = Arc::get_mut(&mut self.inner) else {
            return Err(Rejected::new(Some(self), UnloadError::InUse));
        };
        match inner.handle.take() {
            Some(handle) => inner
                .backend
                .unload(handle)
                .map_err(|error| Rejected::new(None, error.into())),
            None => Ok(()),
        }
    }
}

/// The slot that a tensor was validated for, or the contract that it belongs to
/// if that is another one.
pub(crate) fn own_slot<'c>(
    contract: &'c Contract,
    tensor: &Tensor<Validated<'_>>,
) -> Result<&'c Slot, ContractId> {
    let slot = contract.inputs().get(tensor.ordinal().index());
    slot.filter(|_| tensor.contract() == contract.id())
        .ok_or(tensor.contract())
}

impl<B: Backend> fmt::Debug for Model<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("core", &self.inner.core)
            .field("contract", &self.inner.contract)
            .finish_non_exhaustive()
    }
}

/// Why a model was not loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A call of the backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The loaded model's tensors are not the contract's; it was unloaded again.
    #[error(transparent)]
    Mismatch(#[from] JoinError),
    /// The weights that belong to the load were not read or not taken; the model
    /// was unloaded again.
    #[error("the weights were not loaded: {detail}")]
    Weights {
        /// The checkpoint's error.
        detail: String,
    },
    /// The load goes on after the time that the caller would wait.
    #[error("the model was not loaded within {limit:?}")]
    Deadline {
        /// The time.
        limit: Duration,
    },
    /// There is no thread to load on.
    #[error("no thread could load the model: {detail}")]
    Thread {
        /// The reason.
        detail: String,
    },
}

/// Why a model was not unloaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnloadError {
    /// A clone of the model or a session is alive.
    #[error("the model is in use by a session or a clone")]
    InUse,
    /// The runtime failed; the model is gone all the same.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

/// A slot for which nothing was given.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missing {
    /// The slot.
    pub ordinal: Ordinal,
    /// Its name on the device.
    pub name: String,
    /// Its key: the argument's or the checkpoint's name, where the contract has
    /// one.
    pub key: Option<String>,
    /// Who fills it.
    pub role: Role,
}

impl Missing {
    pub(crate) fn of(slot: &Slot) -> Self {
        let key = slot.user_input_key().or(slot.checkpoint_key());
        Self {
            ordinal: slot.ordinal(),
            name: slot.name().to_owned(),
            key: key.map(|key| String::from_utf8_lossy(key).into_owned()),
            role: slot.role(),
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} `{}`", self.role, self.ordinal, self.name)?;
        match &self.key {
            Some(key) => write!(f, " (`{key}`)"),
            None => Ok(()),
        }
    }
}

/// All slots for which nothing was given.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingSlots {
    /// The slots, by ordinal.
    pub slots: Vec<Missing>,
}

impl fmt::Display for MissingSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing was given")?;
        crate::contract::list(f, &self.slots, 0)
    }
}
