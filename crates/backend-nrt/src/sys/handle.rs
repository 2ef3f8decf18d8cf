//! What the library hands out, tied to the initialisation that it belongs to.

use std::ffi::CString;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use indexmap::IndexMap;
use metaneff_binding::Core;

use super::abi::{RawModel, RawSet, RawTensor};
use super::attach::Memory;

/// A pointer from the library, and the session that may use it.
///
/// It is not `Clone`: whoever gives it back to the library has the only one.
pub(super) struct Handle<T> {
    pub(super) pointer: NonNull<T>,
    pub(super) session: u64,
}

// SAFETY: the library's objects belong to no thread, and Rust code never looks
// through the pointer; see the list of what is taken on trust.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:p} of session {}", self.pointer, self.session)
    }
}

/// A loaded model: `nrt_model_t`.
///
/// Dropping it does nothing; [`Backend::unload`](metaneff_binding::Backend::unload)
/// gives it back. After the runtime was closed it is refused, without harm.
#[derive(Debug)]
pub struct NrtModel {
    pub(super) handle: Handle<RawModel>,
    pub(super) core: Option<Core>,
}

impl NrtModel {
    /// The core that the load asked for.
    pub(crate) const fn requested_core(&self) -> Option<Core> {
        self.core
    }
}

/// Memory that models read and write: `nrt_tensor_t`.
///
/// Dropping it does nothing; [`Backend::free`](metaneff_binding::Backend::free)
/// gives it back, at the end of the executions that use it at that moment. After
/// the runtime was closed it is refused, without harm.
#[derive(Debug)]
pub struct NrtTensor {
    pub(super) shared: Arc<SharedTensor>,
    pub(super) size: usize,
    pub(super) core: Option<Core>,
}

impl NrtTensor {
    /// Size in bytes.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// The core whose memory it is in; `None` for host memory.
    pub(crate) const fn core(&self) -> Option<Core> {
        self.core
    }
}

/// Names bound to tensors: `nrt_tensor_set_t`.
///
/// It remembers its tensors, so that executing with one that has been freed is
/// an error and not an access to freed memory.
#[derive(Debug)]
pub struct NrtTensorSet {
    pub(super) handle: Handle<RawSet>,
    pub(super) entries: IndexMap<CString, Entry>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) tensor: Arc<SharedTensor>,
    pub(super) core: Option<Core>,
}

impl NrtTensorSet {
    /// Every name and the core of its tensor.
    pub(crate) fn cores(&self) -> impl Iterator<Item = (&CString, Option<Core>)> {
        self.entries.iter().map(|(name, entry)| (name, entry.core))
    }
}

/// A tensor with the number of executions that use it.
#[derive(Debug)]
pub(super) struct SharedTensor {
    pub(super) handle: Handle<RawTensor>,
    /// The buffer that it was attached to, or its parent was.
    pub(super) memory: Option<Arc<Memory>>,
    /// Bit 0 is set once the owner has freed the tensor; above it is the number
    /// of leases.
    state: AtomicUsize,
}

const FREED: usize = 1;
const LEASE: usize = 2;

impl SharedTensor {
    pub(super) const fn new(handle: Handle<RawTensor>) -> Self {
        Self {
            handle,
            memory: None,
            state: AtomicUsize::new(0),
        }
    }

    /// With the buffer that it lies in.
    pub(super) fn in_memory(mut self, memory: Option<Arc<Memory>>) -> Self {
        self.memory = memory;
        self
    }

    /// Keeps the tensor until [`Self::end_lease`]; false if it has been freed.
    pub(super) fn lease(&self) -> bool {
        self.state
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |state| {
                (state & FREED == 0).then_some(state + LEASE)
            })
            .is_ok()
    }

    /// Ends a lease; true if the caller has to free the tensor.
    pub(super) fn end_lease(&self) -> bool {
        self.state.fetch_sub(LEASE, Ordering::AcqRel) == FREED + LEASE
    }

    /// Marks the tensor as freed; true if the caller has to free it. Called at
    /// most once, by the owner.
    pub(super) fn retire(&self) -> bool {
        self.state.fetch_or(FREED, Ordering::AcqRel) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared() -> SharedTensor {
        SharedTensor::new(Handle {
            pointer: NonNull::dangling(),
            session: 1,
        })
    }

    #[test]
    fn the_last_user_frees() {
        let idle = shared();
        assert!(idle.retire());
        assert!(!idle.lease());

        let used = shared();
        assert!(used.lease() && used.lease());
        assert!(!used.end_lease());
        assert!(!used.retire());
        assert!(!used.lease());
        assert!(used.end_lease());
    }

    #[test]
    fn exactly_one_of_many_threads_frees() {
        for _ in 0..200 {
            let tensor = shared();
            let freed = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..20 {
                            if tensor.lease() && tensor.end_lease() {
                                freed.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    });
                }
                scope.spawn(|| {
                    if tensor.retire() {
                        freed.fetch_add(1, Ordering::Relaxed);
                    }
                });
            });
            assert_eq!(freed.into_inner(), 1);
        }
    }
}
