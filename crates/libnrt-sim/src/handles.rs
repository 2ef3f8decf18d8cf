//! Handles: what C holds of the library's objects.
//!
//! A handle is a number in the shape of a pointer. It is looked up in the table
//! of its kind and never dereferenced, and no number is given out twice. So a
//! handle that was freed, made before `nrt_init`, or never given out at all is
//! found to be none, and giving it back again does nothing.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use metaneff_backend_sim::{SimModel, SimTensor, SimTensorSet};
use metaneff_binding::{BackendError, Cause};
use metaneff_schema::nrt::Status;

use crate::api::asynchronous::Tracker;
use crate::cc::Collective;
use crate::export::invalid;
use crate::pointers::Out;
use crate::sendrecv::{Communicator, Request};

/// The first handle. Small numbers are left out, for null and for mistakes.
const FIRST: usize = 0x10_0000;

/// Distance of two handles: they look aligned, as pointers are.
const STEP: usize = 16;

static NEXT: AtomicUsize = AtomicUsize::new(FIRST);

/// What can stand behind a handle.
pub(crate) trait Object: Send + Sync + Sized + 'static {
    /// What it is called in messages.
    const NAME: &'static str;

    /// All that are live.
    fn table() -> &'static Table<Self>;
}

/// The live objects of one kind.
#[derive(Debug)]
pub(crate) struct Table<T> {
    objects: RwLock<BTreeMap<usize, Arc<T>>>,
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        Self {
            objects: RwLock::new(BTreeMap::new()),
        }
    }

    /// Takes all objects out.
    pub(crate) fn clear(&self) {
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        let all = std::mem::take(&mut *objects);
        drop(objects);
        drop(all);
    }

    fn find(&self, address: usize) -> Option<Arc<T>> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.get(&address).map(Arc::clone)
    }

    /// The first object that is what is wanted.
    pub(crate) fn search<R>(&self, wanted: impl Fn(&T) -> Option<R>) -> Option<R> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.values().find_map(|object| wanted(object))
    }
}

/// A handle of a `T`: an opaque pointer of the headers.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Handle<T>(*mut c_void, PhantomData<fn() -> T>);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T: Object> Handle<T> {
    const NULL: Self = Self(ptr::null_mut(), PhantomData);

    /// Makes a handle for `object`.
    pub(crate) fn new(object: T) -> Self {
        let address = NEXT.fetch_add(STEP, Ordering::Relaxed);
        let mut objects = T::table()
            .objects
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        objects.insert(address, Arc::new(object));
        Self::from_address(address)
    }

    pub(crate) fn from_address(address: usize) -> Self {
        Self(ptr::without_provenance_mut(address), PhantomData)
    }

    pub(crate) fn address(self) -> usize {
        self.0.addr()
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The object.
    ///
    /// # Errors
    ///
    /// `INVALID` for null, `INVALID_HANDLE` for what is no live handle.
    pub(crate) fn get(
        self,
        call: &'static str,
        argument: &'static str,
    ) -> Result<Arc<T>, BackendError> {
        if self.is_null() {
            return Err(invalid(call, argument, "the handle is null"));
        }
        T::table()
            .find(self.address())
            .ok_or_else(|| self.dead(call, argument))
    }

    /// Takes the object out; the handle is dead from now on.
    pub(crate) fn take(
        self,
        call: &'static str,
        argument: &'static str,
    ) -> Result<Arc<T>, BackendError> {
        if self.is_null() {
            return Err(invalid(call, argument, "the handle is null"));
        }
        let mut objects = T::table()
            .objects
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let object = objects.remove(&self.address());
        drop(objects);
        object.ok_or_else(|| self.dead(call, argument))
    }

    fn dead(self, call: &'static str, argument: &'static str) -> BackendError {
        let detail = format!(
            "{:#x} is no live {}: it was freed, or made before the runtime was closed",
            self.address(),
            T::NAME
        );
        BackendError::new(call, Status::INVALID_HANDLE)
            .because(Cause::Argument { argument, detail })
    }
}

impl<T: Object> Out<Handle<T>> {
    /// Reads the handle that is to be freed, and puts null in its place. `None`
    /// where there is nothing to free.
    pub(crate) fn release(&self) -> Option<Handle<T>> {
        let handle = self.optional()?.get();
        self.optional()?.set(Handle::NULL);
        (!handle.is_null()).then_some(handle)
    }
}

/// Declares a kind of object and its table.
macro_rules! object {
    ($type:ty, $name:literal) => {
        impl $crate::handles::Object for $type {
            const NAME: &'static str = $name;

            fn table() -> &'static $crate::handles::Table<Self> {
                static TABLE: $crate::handles::Table<$type> = $crate::handles::Table::new();
                &TABLE
            }
        }
    };
}

pub(crate) use object;

/// What stands behind a `nrt_tensor_t`.
#[derive(Debug)]
pub(crate) struct Tensor {
    pub(crate) tensor: SimTensor,
    /// Address of the first byte, once it was given out; else 0.
    pub(crate) address: AtomicUsize,
}

/// What stands behind a `nrt_tensor_set_t`.
#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) entries: Mutex<Entries>,
}

/// The names of a set.
#[derive(Clone, Debug)]
pub(crate) struct Entries {
    pub(crate) set: SimTensorSet,
    pub(crate) handles: Arc<BTreeMap<CString, usize>>,
}

/// What stands behind a `nrt_model_t`.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) model: SimModel,
}

object!(Tensor, "tensor");
object!(Set, "tensor set");
object!(Model, "model");

impl Tensor {
    pub(crate) fn new(tensor: SimTensor) -> Self {
        Self {
            tensor,
            address: AtomicUsize::new(0),
        }
    }
}

impl Set {
    pub(crate) fn new(set: SimTensorSet) -> Self {
        let entries = Entries {
            set,
            handles: Arc::default(),
        };
        Self {
            entries: Mutex::new(entries),
        }
    }

    /// The set as it is now, which others may go on changing.
    pub(crate) fn snapshot(&self) -> SimTensorSet {
        self.lock().set.clone()
    }

    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets everything that belongs to a runtime.
pub(crate) fn forget() {
    Tensor::table().clear();
    Set::table().clear();
    Model::table().clear();
    Tracker::table().clear();
    Collective::table().clear();
    Communicator::table().clear();
    Request::table().clear();
}
