//! Device memory that frees itself.

use std::ffi::CStr;
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::backend::{Backend, Core, Placement, Side};
use crate::contract::{Ordinal, Slot};
use crate::dtype::DType;
use crate::element::Element;
use crate::error::BackendError;
use crate::owned::Owned;
use crate::shape::Shape;
use crate::tensor::{HostTensor, TensorError};

/// Identity of a device buffer in a slot, never used twice in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BufferId(NonZeroU64);

impl BufferId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // 2^64 buffers outlast any process.
        Self(NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap_or(NonZeroU64::MAX))
    }
}

/// A buffer of the backend, freed exactly once: when this is dropped.
///
/// It cannot outlive its runtime, which `'rt` stands for.
pub struct DeviceTensor<'rt, B: Backend> {
    handle: Owned<B::Tensor>,
    id: BufferId,
    size: usize,
    core: Core,
    placement: Placement,
    backend: Arc<B>,
    runtime: PhantomData<&'rt ()>,
}

/// An access to a device buffer that was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The range is not inside the buffer.
    #[error("{size} bytes from offset {offset} are not inside a buffer of {available} bytes")]
    Range {
        /// First byte of the range.
        offset: usize,
        /// Bytes of the range.
        size: usize,
        /// Bytes of the buffer.
        available: usize,
    },
    /// The backend refused.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

impl<B: Backend> DeviceTensor<'_, B> {
    pub(crate) fn allocate(
        backend: &Arc<B>,
        placement: Placement,
        core: Core,
        size: usize,
        name: &CStr,
    ) -> Result<Self, BackendError> {
        let handle = backend.allocate(placement, core, size, name)?;
        Ok(Self::new(backend, handle, placement, core, size))
    }

    fn new(
        backend: &Arc<B>,
        handle: B::Tensor,
        placement: Placement,
        core: Core,
        size: usize,
    ) -> Self {
        Self {
            handle: Owned::new(handle),
            id: BufferId::next(),
            size,
            core,
            placement,
            backend: Arc::clone(backend),
            runtime: PhantomData,
        }
    }

    pub(crate) fn handle(&self) -> &B::Tensor {
        self.handle.get()
    }

    pub(crate) fn id(&self) -> BufferId {
        self.id
    }

    /// The same buffer, for another slot than before.
    pub(crate) fn for_another_slot(mut self) -> Self {
        self.id = BufferId::next();
        self
    }

    /// Its size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The core that it was allocated for.
    #[must_use]
    pub fn core(&self) -> Core {
        self.core
    }

    /// Where its memory lives.
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// Copies `data` into the buffer from byte `offset` on.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Range`] before any call of the backend, and what the
    /// backend answers.
    pub fn write(&mut self, offset: usize, data: &[u8]) -> Result<(), DeviceError> {
        self.check(offset, data.len())?;
        Ok(self.backend.write(self.handle(), offset, data)?)
    }

    /// Copies bytes of the buffer from `offset` on into `out`.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), DeviceError> {
        self.check(offset, out.len())?;
        Ok(self.backend.read(self.handle(), offset, out)?)
    }

    /// Copies another buffer of the same size into this one, without the host.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Range`] if the sizes differ, and what the backend answers.
    pub fn copy_from(&mut self, source: &DeviceTensor<'_, B>) -> Result<(), DeviceError> {
        if source.size != self.size {
            return Err(DeviceError::Range {
                offset: 0,
                size: source.size,
                available: self.size,
            });
        }
        Ok(self
            .backend
            .copy(source.handle(), 0, self.handle(), 0, self.size)?)
    }

    /// A view of part of the buffer, sharing its memory. Either of the two may be
    /// dropped first.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn slice(&self, offset: usize, size: usize, name: &CStr) -> Result<Self, DeviceError> {
        self.check(offset, size)?;
        let handle = self.backend.slice(self.handle(), offset, size, name)?;
        Ok(Self::new(
            &self.backend,
            handle,
            self.placement,
            self.core,
            size,
        ))
    }

    fn check(&self, offset: usize, size: usize) -> Result<(), DeviceError> {
        let inside = offset.checked_add(size).is_some_and(|end| end <= self.size);
        if inside {
            Ok(())
        } else {
            Err(DeviceError::Range {
                offset,
                size,
                available: self.size,
            })
        }
    }
}

impl<B: Backend> Drop for DeviceTensor<'_, B> {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            self.backend.free(handle);
        }
    }
}

impl<B: Backend> fmt::Debug for DeviceTensor<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceTensor")
            .field("size", &self.size)
            .field("core", &self.core)
            .field("placement", &self.placement)
            .finish_non_exhaustive()
    }
}

/// A tensor on the device, to be read: an output, a state, a bound tensor.
pub struct TensorView<'o, 'rt, B: Backend> {
    slot: &'o Slot,
    device: Option<&'o DeviceTensor<'rt, B>>,
}

impl<B: Backend> Clone for TensorView<'_, '_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for TensorView<'_, '_, B> {}

impl<'o, 'rt, B: Backend> TensorView<'o, 'rt, B> {
    pub(crate) fn new(slot: &'o Slot, device: &'o DeviceTensor<'rt, B>) -> Self {
        Self {
            slot,
            device: Some(device),
        }
    }

    /// A view of a slot that has no buffer because it takes no bytes.
    pub(crate) fn of(slot: &'o Slot, device: Option<&'o DeviceTensor<'rt, B>>) -> Self {
        Self { slot, device }
    }

    /// The slot that the tensor stands in.
    #[must_use]
    pub fn slot(&self) -> &'o Slot {
        self.slot
    }

    /// Its name on the device.
    #[must_use]
    pub fn name(&self) -> &'o str {
        self.slot.name()
    }

    /// What its elements mean; `None` for an element type that is not known.
    #[must_use]
    pub fn dtype(&self) -> Option<DType> {
        self.slot.dtype()
    }

    /// Its dimensions.
    #[must_use]
    pub fn shape(&self) -> &'o Shape {
        self.slot.shape()
    }

    /// The buffer; `None` for a tensor without elements, which has none.
    #[must_use]
    pub fn device(&self) -> Option<&'o DeviceTensor<'rt, B>> {
        self.device
    }

    /// Reads the elements to the host.
    ///
    /// # Errors
    ///
    /// [`ReadError::ElementType`] if the slot's elements are no `T`, and what
    /// the backend answers.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, ReadError> {
        self.check::<T>()?;
        T::read(self.slot.byte_size(), |out| self.fill(out))
    }

    /// Reads the elements into `out`, without an allocation.
    ///
    /// # Errors
    ///
    /// [`ReadError::Length`] if `out` has another number of bytes than the
    /// tensor, and what the backend answers.
    pub fn read_into(&self, out: &mut [u8]) -> Result<(), ReadError> {
        if out.len() != self.slot.byte_size() {
            return Err(ReadError::Length {
                side: self.slot.side(),
                ordinal: self.slot.ordinal(),
                name: self.slot.name().to_owned(),
                expected: self.slot.byte_size(),
                found: out.len(),
            });
        }
        self.fill(out)
    }

    /// Reads the tensor to the host, with its shape and with the type that its
    /// elements mean.
    ///
    /// # Errors
    ///
    /// [`ReadError::Host`] if the host has not enough memory, and what the
    /// backend answers.
    pub fn to_host(&self) -> Result<HostTensor<'static>, ReadError> {
        let dtype = self
            .slot
            .dtype()
            .ok_or_else(|| ReadError::UnknownDataType {
                side: self.slot.side(),
                ordinal: self.slot.ordinal(),
                name: self.slot.name().to_owned(),
                number: self.slot.data_type(),
            })?;
        let bytes = u8::read(self.slot.byte_size(), |out| self.fill(out))?;
        Ok(HostTensor::from_bytes(
            dtype,
            self.slot.shape().clone(),
            bytes,
        )?)
    }

    fn fill(&self, out: &mut [u8]) -> Result<(), ReadError> {
        match self.device {
            Some(device) => Ok(device.read(0, out)?),
            None => Ok(()),
        }
    }

    fn check<T: Element>(&self) -> Result<(), ReadError> {
        if self.slot.accepts(T::DTYPE) {
            return Ok(());
        }
        Err(ReadError::ElementType {
            side: self.slot.side(),
            ordinal: self.slot.ordinal(),
            name: self.slot.name().to_owned(),
            expected: T::DTYPE,
            found: self.slot.dtype(),
        })
    }
}

impl<B: Backend> fmt::Debug for TensorView<'_, '_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorView({})", self.slot)
    }
}

/// Why a tensor was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The elements are of another type than the one asked for.
    #[error(
        "{side} {ordinal} `{name}` holds {}, not {expected}",
        found.map_or("elements of an unknown type", DType::name)
    )]
    ElementType {
        /// Which side.
        side: Side,
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// The type asked for.
        expected: DType,
        /// The slot's type.
        found: Option<DType>,
    },
    /// The element type is not known.
    #[error("{side} {ordinal} `{name}` has data type {number}, which is not known")]
    UnknownDataType {
        /// Which side.
        side: Side,
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// The contract's number.
        number: i32,
    },
    /// The target has another size than the tensor.
    #[error("{side} {ordinal} `{name}` has {expected} bytes, the target {found}")]
    Length {
        /// Which side.
        side: Side,
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// Bytes of the tensor.
        expected: usize,
        /// Bytes of the target.
        found: usize,
    },
    /// The host tensor cannot be made.
    #[error(transparent)]
    Host(#[from] TensorError),
    /// The buffer refused.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
