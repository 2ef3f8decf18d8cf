//! A backend that notes the calls of another one.

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metaneff_schema::nrt::Status;
use sha2::{Digest, Sha256};

use super::{Call, Event, LoadedModel, Recorder};
use crate::backend::{
    Backend, BackendInfo, Completion, Core, LoadRequest, MemoryStats, Placement, TensorInfo,
    Transfers,
};
use crate::error::BackendError;

/// A backend whose calls a [`Recorder`] notes.
///
/// # Examples
///
/// ```
/// use metaneff_binding::testing::{Fake, add_model};
/// use metaneff_binding::{Core, Observed, Runtime};
///
/// let (backend, recorder) = Observed::new(Fake::new());
/// let runtime = Runtime::new(backend);
/// let model = runtime.load(&add_model(), Core::new(0))?;
/// let session = model.session()?;
/// let report = recorder.report();
/// assert_eq!(report.backend.as_ref().map(|backend| backend.name), Some("fake"));
/// assert_eq!(report.models.len(), 1);
/// # Ok::<(), metaneff_binding::Error>(())
/// ```
#[derive(Debug)]
pub struct Observed<B: Backend> {
    inner: B,
    recorder: Recorder,
}

/// A tensor of an [`Observed`] backend, which knows its name.
#[derive(Debug)]
pub struct ObservedTensor<T> {
    inner: T,
    name: Arc<str>,
    core: Option<Core>,
}

/// A model of an [`Observed`] backend, which knows its core.
#[derive(Debug)]
pub struct ObservedModel<M> {
    inner: M,
    core: Option<Core>,
}

impl<B: Backend> Observed<B> {
    /// Wraps a backend, with a recorder of its own.
    #[must_use]
    pub fn new(backend: B) -> (Self, Recorder) {
        let recorder = Recorder::new();
        (Self::with(backend, recorder.clone()), recorder)
    }

    /// Wraps a backend.
    #[must_use]
    pub fn with(backend: B, recorder: Recorder) -> Self {
        recorder.lock().report.backend = Some(backend.info());
        Self {
            inner: backend,
            recorder,
        }
    }

    /// The backend.
    #[must_use]
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// Makes a call, and notes it.
    fn call<T>(
        &self,
        call: Call,
        slot: Option<&Arc<str>>,
        core: Option<Core>,
        bytes: usize,
        work: impl FnOnce() -> Result<T, BackendError>,
        completed: impl FnOnce(&T) -> Status,
    ) -> Result<T, BackendError> {
        #[cfg(feature = "tracing")]
        let span = span(call, slot, core, bytes);
        #[cfg(feature = "tracing")]
        let entered = span.enter();
        let start = self.recorder.elapsed();
        let result = work();
        let duration = self.recorder.elapsed().saturating_sub(start);
        let status = match &result {
            Ok(value) => completed(value),
            Err(error) => error.status(),
        };
        #[cfg(feature = "tracing")]
        {
            span.record("status", status.0);
            if let Err(error) = &result {
                tracing::warn!(%error);
            }
            drop(entered);
        }
        self.recorder.note(Event {
            call,
            slot: slot.cloned(),
            core,
            bytes: bytes as u64,
            start,
            duration,
            status,
            thread: thread_number(),
        });
        result
    }
}

fn success<T>(_: &T) -> Status {
    Status::SUCCESS
}

/// Threads in the order in which they were first seen.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

#[cfg(feature = "tracing")]
fn span(call: Call, slot: Option<&Arc<str>>, core: Option<Core>, bytes: usize) -> tracing::Span {
    let slot = slot.map(|slot| &**slot);
    let core = core.map(Core::index);
    macro_rules! spans {
        ($($call:ident $name:literal),+ $(,)?) => {
            match call {
                $(Call::$call => tracing::debug_span!(
                    target: "metaneff",
                    $name,
                    slot,
                    core,
                    bytes,
                    status = tracing::field::Empty,
                ),)+
            }
        };
    }
    spans!(
        Load "load",
        Unload "unload",
        Allocate "allocate",
        Write "write",
        Read "read",
        Copy "copy",
        Bind "bind",
        Execute "execute",
    )
}

impl<B: Backend> Backend for Observed<B> {
    type Tensor = ObservedTensor<B::Tensor>;
    type TensorSet = B::TensorSet;
    type Model = ObservedModel<B::Model>;

    fn info(&self) -> BackendInfo {
        self.inner.info()
    }

    fn load(&self, request: &LoadRequest) -> Result<Self::Model, BackendError> {
        let bytes = request.neff.len();
        let work = || self.inner.load(request);
        let inner = self.call(Call::Load, None, request.core, bytes, work, success)?;
        let core = self.inner.model_core(&inner).ok().or(request.core);
        let digest = Sha256::digest(&request.neff);
        let hash = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.recorder.lock().report.models.push(LoadedModel {
            core,
            neff_size: bytes as u64,
            neff_sha256: hash,
        });
        Ok(ObservedModel { inner, core })
    }

    fn unload(&self, model: Self::Model) -> Result<(), BackendError> {
        let ObservedModel { inner, core } = model;
        let work = || self.inner.unload(inner);
        self.call(Call::Unload, None, core, 0, work, success)
    }

    fn model_tensors(&self, model: &Self::Model) -> Result<Vec<TensorInfo>, BackendError> {
        self.inner.model_tensors(&model.inner)
    }

    fn model_core(&self, model: &Self::Model) -> Result<Core, BackendError> {
        self.inner.model_core(&model.inner)
    }

    fn allocate(
        &self,
        placement: Placement,
        core: Core,
        size: usize,
        name: &CStr,
    ) -> Result<Self::Tensor, BackendError> {
        let text: Arc<str> = name.to_string_lossy().into();
        let work = || self.inner.allocate(placement, core, size, name);
        let core = Some(core);
        let inner = self.call(Call::Allocate, Some(&text), core, size, work, success)?;
        Ok(ObservedTensor {
            inner,
            name: text,
            core,
        })
    }

    fn slice(
        &self,
        tensor: &Self::Tensor,
        offset: usize,
        size: usize,
        name: &CStr,
    ) -> Result<Self::Tensor, BackendError> {
        let inner = self.inner.slice(&tensor.inner, offset, size, name)?;
        Ok(ObservedTensor {
            inner,
            name: name.to_string_lossy().into(),
            core: tensor.core,
        })
    }

    fn free(&self, tensor: Self::Tensor) {
        self.inner.free(tensor.inner);
    }

    fn tensor_size(&self, tensor: &Self::Tensor) -> usize {
        self.inner.tensor_size(&tensor.inner)
    }

    fn write(&self, tensor: &Self::Tensor, offset: usize, data: &[u8]) -> Result<(), BackendError> {
        let work = || self.inner.write(&tensor.inner, offset, data);
        let slot = Some(&tensor.name);
        self.call(Call::Write, slot, tensor.core, data.len(), work, success)
    }

    fn read(
        &self,
        tensor: &Self::Tensor,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), BackendError> {
        let size = out.len();
        let work = || self.inner.read(&tensor.inner, offset, out);
        let slot = Some(&tensor.name);
        self.call(Call::Read, slot, tensor.core, size, work, success)
    }

    fn copy(
        &self,
        source: &Self::Tensor,
        source_offset: usize,
        target: &Self::Tensor,
        target_offset: usize,
        size: usize,
    ) -> Result<(), BackendError> {
        let (from, to) = (&source.inner, &target.inner);
        let work = || {
            self.inner
                .copy(from, source_offset, to, target_offset, size)
        };
        let slot = Some(&target.name);
        self.call(Call::Copy, slot, target.core, size, work, success)
    }

    fn tensor_set(&self) -> Result<Self::TensorSet, BackendError> {
        self.inner.tensor_set()
    }

    fn bind(
        &self,
        set: &mut Self::TensorSet,
        name: &CStr,
        tensor: &Self::Tensor,
    ) -> Result<(), BackendError> {
        let slot: Arc<str> = name.to_string_lossy().into();
        let work = || self.inner.bind(set, name, &tensor.inner);
        self.call(Call::Bind, Some(&slot), tensor.core, 0, work, success)
    }

    fn destroy_set(&self, set: Self::TensorSet) {
        self.inner.destroy_set(set);
    }

    fn execute(
        &self,
        model: &Self::Model,
        inputs: &Self::TensorSet,
        outputs: &mut Self::TensorSet,
    ) -> Result<Completion, BackendError> {
        let work = || self.inner.execute(&model.inner, inputs, outputs);
        self.call(
            Call::Execute,
            None,
            model.core,
            0,
            work,
            |completion| match completion {
                Completion::Clean => Status::SUCCESS,
                Completion::NumericalError => Status::EXEC_COMPLETED_WITH_NUM_ERR,
            },
        )
    }

    fn memory_stats(&self, core: Core) -> Result<MemoryStats, BackendError> {
        self.inner.memory_stats(core)
    }

    fn transfers(&self) -> Option<Transfers> {
        self.inner.transfers()
    }

    fn execution_timeout(&self) -> Option<Duration> {
        self.inner.execution_timeout()
    }
}
