//! Choosing a backend at run time.

use std::any::Any;
use std::ffi::CStr;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use metaneff_schema::nrt::Status;

use crate::backend::{
    Backend, BackendInfo, Completion, Core, LoadRequest, MemoryStats, Placement, TensorInfo,
    Transfers,
};
use crate::error::{BackendError, Cause};

/// A handle of some backend: anything that prints and may cross threads.
pub trait DynHandle: Any + Debug + Send + Sync {}

impl<T: Any + Debug + Send + Sync> DynHandle for T {}

/// A boxed handle of some backend.
#[derive(Debug)]
pub struct AnyHandle {
    handle: Box<dyn DynHandle>,
}

impl AnyHandle {
    fn new(handle: impl DynHandle) -> Self {
        Self {
            handle: Box::new(handle),
        }
    }

    fn get<T: DynHandle>(&self, call: &'static str) -> Result<&T, BackendError> {
        let handle: &dyn Any = &*self.handle;
        handle.downcast_ref().ok_or_else(|| foreign(call))
    }

    fn get_mut<T: DynHandle>(&mut self, call: &'static str) -> Result<&mut T, BackendError> {
        let handle: &mut dyn Any = &mut *self.handle;
        handle.downcast_mut().ok_or_else(|| foreign(call))
    }

    fn take<T: DynHandle>(self) -> Option<T> {
        let handle: Box<dyn Any> = self.handle;
        handle.downcast().ok().map(|handle| *handle)
    }
}

#[cold]
fn foreign(call: &'static str) -> BackendError {
    BackendError::new(call, Status::INVALID_HANDLE)
        .because(Cause::Other("the handle is of another backend".to_owned()))
}

/// The object-safe twin of [`Backend`], which every backend has.
///
/// Its methods are those of [`Backend`] with boxed handles. A handle of another
/// backend is answered with `INVALID_HANDLE`; a call that takes the handle over
/// and answers nothing drops it.
pub trait DynBackend: Debug + Send + Sync {
    /// Which backend this is and what it sees. See [`Backend::info`].
    fn dyn_info(&self) -> BackendInfo;

    /// Loads a model. See [`Backend::load`].
    ///
    /// # Errors
    ///
    /// As [`Backend::load`].
    fn dyn_load(&self, request: &LoadRequest) -> Result<AnyHandle, BackendError>;

    /// Unloads a model. See [`Backend::unload`].
    ///
    /// # Errors
    ///
    /// As [`Backend::unload`].
    fn dyn_unload(&self, model: AnyHandle) -> Result<(), BackendError>;

    /// The tensors at a model's boundary. See [`Backend::model_tensors`].
    ///
    /// # Errors
    ///
    /// As [`Backend::model_tensors`].
    fn dyn_model_tensors(&self, model: &AnyHandle) -> Result<Vec<TensorInfo>, BackendError>;

    /// The core that a model was loaded on. See [`Backend::model_core`].
    ///
    /// # Errors
    ///
    /// As [`Backend::model_core`].
    fn dyn_model_core(&self, model: &AnyHandle) -> Result<Core, BackendError>;

    /// Allocates zeroed bytes. See [`Backend::allocate`].
    ///
    /// # Errors
    ///
    /// As [`Backend::allocate`].
    fn dyn_allocate(
        &self,
        placement: Placement,
        core: Core,
        size: usize,
        name: &CStr,
    ) -> Result<AnyHandle, BackendError>;

    /// A view of part of a tensor. See [`Backend::slice`].
    ///
    /// # Errors
    ///
    /// As [`Backend::slice`].
    fn dyn_slice(
        &self,
        tensor: &AnyHandle,
        offset: usize,
        size: usize,
        name: &CStr,
    ) -> Result<AnyHandle, BackendError>;

    /// Gives a tensor back. See [`Backend::free`].
    fn dyn_free(&self, tensor: AnyHandle);

    /// Size of a tensor in bytes; 0 for a handle of another backend. See [`Backend::tensor_size`].
    fn dyn_tensor_size(&self, tensor: &AnyHandle) -> usize;

    /// Copies `data` into a tensor. See [`Backend::write`].
    ///
    /// # Errors
    ///
    /// As [`Backend::write`].
    fn dyn_write(&self, tensor: &AnyHandle, offset: usize, data: &[u8])
    -> Result<(), BackendError>;

    /// Copies bytes of a tensor into `out`. See [`Backend::read`].
    ///
    /// # Errors
    ///
    /// As [`Backend::read`].
    fn dyn_read(
        &self,
        tensor: &AnyHandle,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), BackendError>;

    /// Copies between tensors. See [`Backend::copy`].
    ///
    /// # Errors
    ///
    /// As [`Backend::copy`].
    fn dyn_copy(
        &self,
        source: &AnyHandle,
        source_offset: usize,
        target: &AnyHandle,
        target_offset: usize,
        size: usize,
    ) -> Result<(), BackendError>;

    /// A new, empty tensor set. See [`Backend::tensor_set`].
    ///
    /// # Errors
    ///
    /// As [`Backend::tensor_set`].
    fn dyn_tensor_set(&self) -> Result<AnyHandle, BackendError>;

    /// Binds `name` to `tensor`. See [`Backend::bind`].
    ///
    /// # Errors
    ///
    /// As [`Backend::bind`].
    fn dyn_bind(
        &self,
        set: &mut AnyHandle,
        name: &CStr,
        tensor: &AnyHandle,
    ) -> Result<(), BackendError>;

    /// Gives a tensor set back. See [`Backend::destroy_set`].
    fn dyn_destroy_set(&self, set: AnyHandle);

    /// Executes a model. See [`Backend::execute`].
    ///
    /// # Errors
    ///
    /// As [`Backend::execute`].
    fn dyn_execute(
        &self,
        model: &AnyHandle,
        inputs: &AnyHandle,
        outputs: &mut AnyHandle,
    ) -> Result<Completion, BackendError>;

    /// Memory of a core. See [`Backend::memory_stats`].
    ///
    /// # Errors
    ///
    /// As [`Backend::memory_stats`].
    fn dyn_memory_stats(&self, core: Core) -> Result<MemoryStats, BackendError>;

    /// What the backend has moved so far, where it counts. See [`Backend::transfers`].
    fn dyn_transfers(&self) -> Option<Transfers>;

    /// The time limit of one execution, where there is one. See [`Backend::execution_timeout`].
    fn dyn_execution_timeout(&self) -> Option<Duration>;
}

impl<B: Backend> DynBackend for B {
    fn dyn_info(&self) -> BackendInfo {
        Backend::info(self)
    }

    fn dyn_load(&self, request: &LoadRequest) -> Result<AnyHandle, BackendError> {
        Backend::load(self, request).map(AnyHandle::new)
    }

    fn dyn_unload(&self, model: AnyHandle) -> Result<(), BackendError> {
        match model.take::<B::Model>() {
            Some(model) => Backend::unload(self, model),
            None => Err(foreign("nrt_unload")),
        }
    }

    fn dyn_model_tensors(&self, model: &AnyHandle) -> Result<Vec<TensorInfo>, BackendError> {
        Backend::model_tensors(self, model.get::<B::Model>("nrt_get_model_tensor_info")?)
    }

    fn dyn_model_core(&self, model: &AnyHandle) -> Result<Core, BackendError> {
        Backend::model_core(self, model.get::<B::Model>("nrt_get_model_info")?)
    }

    fn dyn_allocate(
        &self,
        placement: Placement,
        core: Core,
        size: usize,
        name: &CStr,
    ) -> Result<AnyHandle, BackendError> {
        Backend::allocate(self, placement, core, size, name).map(AnyHandle::new)
    }

    fn dyn_slice(
        &self,
        tensor: &AnyHandle,
        offset: usize,
        size: usize,
        name: &CStr,
    ) -> Result<AnyHandle, BackendError> {
        Backend::slice(
            self,
            tensor.get::<B::Tensor>("nrt_tensor_allocate_slice")?,
            offset,
            size,
            name,
        )
        .map(AnyHandle::new)
    }

    fn dyn_free(&self, tensor: AnyHandle) {
        if let Some(tensor) = tensor.take::<B::Tensor>() {
            Backend::free(self, tensor);
        }
    }

    fn dyn_tensor_size(&self, tensor: &AnyHandle) -> usize {
        tensor
            .get::<B::Tensor>("nrt_tensor_get_size")
            .map_or(0, |tensor| Backend::tensor_size(self, tensor))
    }

    fn dyn_write(
        &self,
        tensor: &AnyHandle,
        offset: usize,
        data: &[u8],
    ) -> Result<(), BackendError> {
        Backend::write(
            self,
            tensor.get::<B::Tensor>("nrt_tensor_write")?,
            offset,
            data,
        )
    }

    fn dyn_read(
        &self,
        tensor: &AnyHandle,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), BackendError> {
        Backend::read(
            self,
            tensor.get::<B::Tensor>("nrt_tensor_read")?,
            offset,
            out,
        )
    }

    fn dyn_copy(
        &self,
        source: &AnyHandle,
        source_offset: usize,
        target: &AnyHandle,
        target_offset: usize,
        size: usize,
    ) -> Result<(), BackendError> {
        Backend::copy(
            self,
            source.get::<B::Tensor>("nrt_tensor_copy")?,
            source_offset,
            target.get::<B::Tensor>("nrt_tensor_copy")?,
            target_offset,
            size,
        )
    }

    fn dyn_tensor_set(&self) -> Result<AnyHandle, BackendError> {
        Backend::tensor_set(self).map(AnyHandle::new)
    }

    fn dyn_bind(
        &self,
        set: &mut AnyHandle,
        name: &CStr,
        tensor: &AnyHandle,
    ) -> Result<(), BackendError> {
        Backend::bind(
            self,
            set.get_mut::<B::TensorSet>("nrt_add_tensor_to_tensor_set")?,
            name,
            tensor.get::<B::Tensor>("nrt_add_tensor_to_tensor_set")?,
        )
    }

    fn dyn_destroy_set(&self, set: AnyHandle) {
        if let Some(set) = set.take::<B::TensorSet>() {
            Backend::destroy_set(self, set);
        }
    }

    fn dyn_execute(
        &self,
        model: &AnyHandle,
        inputs: &AnyHandle,
        outputs: &mut AnyHandle,
    ) -> Result<Completion, BackendError> {
        Backend::execute(
            self,
            model.get::<B::Model>("nrt_execute")?,
            inputs.get::<B::TensorSet>("nrt_execute")?,
            outputs.get_mut::<B::TensorSet>("nrt_execute")?,
        )
    }

    fn dyn_memory_stats(&self, core: Core) -> Result<MemoryStats, BackendError> {
        Backend::memory_stats(self, core)
    }

    fn dyn_transfers(&self) -> Option<Transfers> {
        Backend::transfers(self)
    }

    fn dyn_execution_timeout(&self) -> Option<Duration> {
        Backend::execution_timeout(self)
    }
}

/// A backend that is chosen at run time; itself a [`Backend`].
///
/// # Examples
///
/// ```
/// use metaneff_binding::testing::Fake;
/// use metaneff_binding::{AnyBackend, Runtime};
///
/// fn choose(name: &str) -> Option<AnyBackend> {
///     match name {
///         "fake" => Some(AnyBackend::new(Fake::new())),
///         _ => None,
///     }
/// }
///
/// let runtime = Runtime::new(choose("fake").unwrap());
/// assert_eq!(runtime.info().name, "fake");
/// ```
#[derive(Clone, Debug)]
pub struct AnyBackend {
    inner: Arc<dyn DynBackend>,
}

impl AnyBackend {
    /// Hides which backend it is.
    #[must_use]
    pub fn new(backend: impl Backend) -> Self {
        Self {
            inner: Arc::new(backend),
        }
    }
}

impl Backend for AnyBackend {
    type Tensor = AnyHandle;
    type TensorSet = AnyHandle;
    type Model = AnyHandle;

    fn info(&self) -> BackendInfo {
        self.inner.dyn_info()
    }

    fn load(&self, request: &LoadRequest) -> Result<AnyHandle, BackendError> {
        self.inner.dyn_load(request)
    }

    fn unload(&self, model: AnyHandle) -> Result<(), BackendError> {
        self.inner.dyn_unload(model)
    }

    fn model_tensors(&self, model: &AnyHandle) -> Result<Vec<TensorInfo>, BackendError> {
        self.inner.dyn_model_tensors(model)
    }

    fn model_core(&self, model: &AnyHandle) -> Result<Core, BackendError> {
        self.inner.dyn_model_core(model)
    }

    fn allocate(
        &self,
        placement: Placement,
        core: Core,
        size: usize,
        name: &CStr,
    ) -> Result<AnyHandle, BackendError> {
        self.inner.dyn_allocate(placement, core, size, name)
    }

    fn slice(
        &self,
        tensor: &AnyHandle,
        offset: usize,
        size: usize,
        name: &CStr,
    ) -> Result<AnyHandle, BackendError> {
        self.inner.dyn_slice(tensor, offset, size, name)
    }

    fn free(&self, tensor: AnyHandle) {
        self.inner.dyn_free(tensor);
    }

    fn tensor_size(&self, tensor: &AnyHandle) -> usize {
        self.inner.dyn_tensor_size(tensor)
    }

    fn write(&self, tensor: &AnyHandle, offset: usize, data: &[u8]) -> Result<(), BackendError> {
        self.inner.dyn_write(tensor, offset, data)
    }

    fn read(&self, tensor: &AnyHandle, offset: usize, out: &mut [u8]) -> Result<(), BackendError> {
        self.inner.dyn_read(tensor, offset, out)
    }

    fn copy(
        &self,
        source: &AnyHandle,
        source_offset: usize,
        target: &AnyHandle,
        target_offset: usize,
        size: usize,
    ) -> Result<(), BackendError> {
        self.inner
            .dyn_copy(source, source_offset, target, target_offset, size)
    }

    fn tensor_set(&self) -> Result<AnyHandle, BackendError> {
        self.inner.dyn_tensor_set()
    }

    fn bind(
        &self,
        set: &mut AnyHandle,
        name: &CStr,
        tensor: &AnyHandle,
    ) -> Result<(), BackendError> {
        self.inner.dyn_bind(set, name, tensor)
    }

    fn destroy_set(&self, set: AnyHandle) {
        self.inner.dyn_destroy_set(set);
    }

    fn execute(
        &self,
        model: &AnyHandle,
        inputs: &AnyHandle,
        outputs: &mut AnyHandle,
    ) -> Result<Completion, BackendError> {
        self.inner.dyn_execute(model, inputs, outputs)
    }

    fn memory_stats(&self, core: Core) -> Result<MemoryStats, BackendError> {
        self.inner.dyn_memory_stats(core)
    }

    fn transfers(&self) -> Option<Transfers> {
        self.inner.dyn_transfers()
    }

    fn execution_timeout(&self) -> Option<Duration> {
        self.inner.dyn_execution_timeout()
    }
}
