//! Tensors: views of storage.

use std::ffi::{CStr, CString};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::time::{Duration, Instant};

use metaneff_binding::{Core, Placement};

use crate::storage::{Snapshot, Storage, StorageError};
use crate::sync::{lock, read, wait_for, write};

/// A tensor of the simulated device: `nrt_tensor_t`.
///
/// Dropping it without [`free`](metaneff_binding::Backend::free) leaks it until
/// the simulator is closed, as the live-object counters show. A clone is the same
/// tensor: its memory stays as long as one of them is held, and it is freed once.
#[derive(Clone, Debug)]
pub struct SimTensor {
    pub(crate) inner: Arc<TensorInner>,
}

/// Where on the device a tensor is: `nrt_tensor_device_allocation_info_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceAllocation {
    /// Address in the device's memory. No two allocations share one; slices are
    /// inside their parent's.
    pub physical_address: u64,
    /// Bytes that the allocation takes: the size, rounded up to the alignment.
    pub size: usize,
    /// Which memory of the chip it is in. Each core is taken to have its own.
    pub hbm_index: u32,
}

/// Identifies a tensor among all that the process has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub(crate) u64);

impl SimTensor {
    /// Identity of this tensor; a slice has its own.
    #[must_use]
    pub fn id(&self) -> TensorId {
        TensorId(self.inner.id)
    }

    /// The name given when it was allocated.
    #[must_use]
    pub fn name(&self) -> &CStr {
        &self.inner.name
    }

    /// The core that it was allocated on.
    #[must_use]
    pub fn core(&self) -> Core {
        self.inner.core
    }

    /// Where its memory is. A tensor with an attached buffer is
    /// [`Placement::Virtual`] whatever it was before.
    #[must_use]
    pub fn placement(&self) -> Placement {
        read(&self.inner.view).placement
    }

    /// Size in bytes; 0 for an empty tensor without a buffer.
    #[must_use]
    pub fn size(&self) -> usize {
        read(&self.inner.view).size
    }

    /// Address of the first byte in this process's memory:
    /// `nrt_tensor_get_va`. `None` while there is no memory.
    ///
    /// The address stays until the tensor is freed or gets another buffer. From
    /// the first call on, a write to the tensor waits for executions that read
    /// it, where it would go to a copy otherwise.
    #[must_use]
    pub fn address(&self) -> Option<usize> {
        let view = read(&self.inner.view).clone();
        view.storage?.address()?.checked_add(view.offset)
    }

    /// The bytes as they are now, if there is memory. This is no call of the
    /// runtime: nothing counts it, delays it or makes it fail.
    #[must_use]
    pub fn peek(&self) -> Option<Vec<u8>> {
        let snapshot = self.inner.view().snapshot().ok()?;
        Some(snapshot.bytes().to_vec())
    }

    /// How often an execution has written this tensor since it was made or
    /// since the last [`reset_completions`](Self::reset_completions).
    #[must_use]
    pub fn completions(&self) -> u64 {
        *lock(&self.inner.completions)
    }

    /// Sets the number of completions to 0:
    /// `nrt_tensor_reset_output_completion`.
    pub fn reset_completions(&self) {
        *lock(&self.inner.completions) = 0;
    }

    /// Waits until an execution has written this tensor `count` times:
    /// `nrt_tensor_check_output_completion`. Answers whether that came within
    /// `limit`; without a limit, it waits as long as it takes.
    #[must_use]
    pub fn wait_completions(&self, count: u64, limit: Option<Duration>) -> bool {
        // A limit beyond what the clock can show is none.
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut completions = lock(&self.inner.completions);
        while *completions < count {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return false;
            }
            completions = wait_for(&self.inner.completed, completions, left);
        }
        true
    }
}

#[derive(Debug)]
pub(crate) struct TensorInner {
    pub(crate) id: u64,
    pub(crate) owner: u64,
    pub(crate) name: CString,
    pub(crate) core: Core,
    pub(crate) view: RwLock<View>,
    completions: Mutex<u64>,
    completed: Condvar,
}

/// What a tensor shows of a storage.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) placement: Placement,
    pub(crate) storage: Option<Arc<Storage>>,
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

/// Why a range of a tensor cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreachable {
    /// The range is not inside the tensor.
    Range { tensor: usize },
    /// The tensor has no memory.
    Empty,
    /// See [`StorageError`].
    Storage(StorageError),
}

impl From<StorageError> for Unreachable {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl TensorInner {
    pub(crate) fn new(id: u64, owner: u64, name: &CStr, core: Core, view: View) -> Arc<Self> {
        Arc::new(Self {
            id,
            owner,
            name: name.to_owned(),
            core,
            view: RwLock::new(view),
            completions: Mutex::new(0),
            completed: Condvar::new(),
        })
    }

    /// Shows `storage` instead of what the tensor showed so far.
    pub(crate) fn attach(&self, storage: Arc<Storage>) {
        let size = storage.size();
        let old = std::mem::replace(
            &mut *write(&self.view),
            View {
                placement: Placement::Virtual,
                storage: Some(storage),
                offset: 0,
                size,
            },
        );
        drop(old);
    }

    pub(crate) fn reclaim(&self) {
        if let Some(storage) = &read(&self.view).storage {
            storage.reclaim();
        }
    }

    pub(crate) fn complete(&self) {
        *lock(&self.completions) += 1;
        self.completed.notify_all();
    }

    pub(crate) fn view(&self) -> View {
        read(&self.view).clone()
    }
}

impl View {
    /// Where `size` bytes from `offset` on are in the storage.
    pub(crate) fn range(
        &self,
        offset: usize,
        size: usize,
    ) -> Result<(&Arc<Storage>, Range<usize>), Unreachable> {
        let end = offset.checked_add(size).filter(|end| *end <= self.size);
        let storage = self.storage.as_ref().ok_or(Unreachable::Empty)?;
        match end {
            Some(end) => Ok((storage, self.offset + offset..self.offset + end)),
            None => Err(Unreachable::Range { tensor: self.size }),
        }
    }

    pub(crate) fn snapshot(&self) -> Result<Snapshot, Unreachable> {
        let (storage, range) = self.range(0, self.size)?;
        Ok(storage.snapshot(range.start, range.len())?)
    }
}
