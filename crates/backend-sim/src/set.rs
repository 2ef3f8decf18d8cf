//! Tensor sets: names bound to tensors.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::sync::{Arc, Weak};

use crate::tensor::{SimTensor, TensorId, TensorInner};

/// The longest name that a tensor may have in a set, without its end mark:
/// `NRT_TENSOR_NAME_MAX` of `nrt.h` less one.
pub const MAX_NAME: usize = 255;

/// Names bound to tensors: `nrt_tensor_set_t`.
///
/// A set refers to its tensors and keeps none of them alive. One that was freed
/// is found out when the set is executed.
///
/// A clone has the bindings of its moment and shares them until either is bound
/// anew, so that a call can go on with a set that others change.
#[derive(Clone, Debug)]
pub struct SimTensorSet {
    pub(crate) id: u64,
    pub(crate) owner: u64,
    entries: Arc<BTreeMap<CString, Entry>>,
}

#[derive(Clone, Debug)]
struct Entry {
    id: u64,
    tensor: Weak<TensorInner>,
}

/// What a set has under a name.
#[derive(Debug)]
pub(crate) enum Bound {
    Tensor(Arc<TensorInner>),
    Freed,
    Nothing,
}

impl SimTensorSet {
    pub(crate) fn new(id: u64, owner: u64) -> Self {
        Self {
            id,
            owner,
            entries: Arc::default(),
        }
    }

    /// The tensor bound to `name`, freed or not:
    /// `nrt_get_tensor_from_tensor_set`.
    #[must_use]
    pub fn tensor(&self, name: &CStr) -> Option<TensorId> {
        self.entries.get(name).map(|entry| TensorId(entry.id))
    }

    /// The tensor bound to `name`, unless it was freed.
    #[must_use]
    pub fn bound(&self, name: &CStr) -> Option<SimTensor> {
        match self.get(name) {
            Bound::Tensor(inner) => Some(SimTensor { inner }),
            Bound::Freed | Bound::Nothing => None,
        }
    }

    /// The bound names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &CStr> {
        self.entries.keys().map(CString::as_c_str)
    }

    /// Number of bound names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no name is bound.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Binds `name` to what `source` has under `source_name`, if it has it:
    /// how `nrt_execute_repeat` makes an output the next execution's input.
    pub fn borrow_from(&mut self, name: &str, source: &Self, source_name: &str) {
        let names = (CString::new(name), CString::new(source_name));
        if let (Ok(name), Ok(source_name)) = names
            && let Some(entry) = source.entries.get(source_name.as_c_str())
        {
            Arc::make_mut(&mut self.entries).insert(name, entry.clone());
        }
    }

    pub(crate) fn bind(&mut self, name: &CStr, tensor: &Arc<TensorInner>) {
        let entry = Entry {
            id: tensor.id,
            tensor: Arc::downgrade(tensor),
        };
        let entries = Arc::make_mut(&mut self.entries);
        match entries.get_mut(name) {
            Some(bound) => *bound = entry,
            None => {
                entries.insert(name.to_owned(), entry);
            }
        }
    }

    pub(crate) fn get(&self, name: &CStr) -> Bound {
        match self.entries.get(name) {
            None => Bound::Nothing,
            Some(entry) => entry.tensor.upgrade().map_or(Bound::Freed, Bound::Tensor),
        }
    }
}
