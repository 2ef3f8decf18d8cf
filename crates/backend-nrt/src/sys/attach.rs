//! Tensors in memory of the caller's: `nrt_tensor_attach_buffer`.

use std::ffi::{CStr, c_void};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use metaneff_binding::BackendError;

use super::abi::RawTensor;
use super::handle::{NrtTensor, SharedTensor};
use super::session::Session;

/// A buffer that the library reads and writes. It lives as long as a tensor or
/// slice that lies in it.
#[derive(Debug)]
pub(super) struct Memory(NonNull<[u8]>);

// SAFETY: the buffer belongs to no thread, and Rust code looks into it only when
// nothing else has it any more.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(buffer: Box<[u8]>) -> Self {
        Self(NonNull::from(Box::leak(buffer)))
    }

    /// The buffer, out of its only owner.
    fn into_box(self) -> Box<[u8]> {
        let pointer = ManuallyDrop::new(self).0;
        // SAFETY: the pointer came out of a box, and its only owner is gone.
        unsafe { Box::from_raw(pointer.as_ptr()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the pointer came out of a box, and this is its only owner; the
        // tensors that lay in it have been freed, or nobody can name them.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl Session {
    /// Makes a tensor over a buffer; gives the buffer back if that fails.
    pub(crate) fn attach(
        &self,
        buffer: Box<[u8]>,
        name: &CStr,
    ) -> Result<NrtTensor, (BackendError, Box<[u8]>)> {
        let size = buffer.len();
        let tensor = match self.empty(size, name) {
            Ok(tensor) => tensor,
            Err(error) => return Err((error, buffer)),
        };
        let memory = Memory::new(buffer);
        if let Err(error) = self.put(&tensor, &memory) {
            self.free(NrtTensor {
                shared: Arc::new(tensor),
                size,
                core: None,
            });
            return Err((error, memory.into_box()));
        }
        Ok(NrtTensor {
            shared: Arc::new(tensor.in_memory(Some(Arc::new(memory)))),
            size,
            core: None,
        })
    }

    fn empty(&self, size: usize, name: &CStr) -> Result<SharedTensor, BackendError> {
        let call = self.call("nrt_tensor_allocate_empty")?;
        if size == 0 {
            return Err(call.refuse("size", "the buffer has no bytes, at least 1 is needed"));
        }
        let function = call.optional(call.symbols.nrt_tensor_allocate_empty)?;
        let mut tensor = ptr::null_mut();
        // SAFETY: the name ends with NUL; the call writes one pointer.
        let status = unsafe { function(name.as_ptr(), &raw mut tensor) };
        Ok(SharedTensor::new(call.made::<RawTensor>(status, tensor)?))
    }

    fn put(&self, tensor: &SharedTensor, memory: &Memory) -> Result<(), BackendError> {
        let call = self.call("nrt_tensor_attach_buffer")?;
        let function = call.optional(call.symbols.nrt_tensor_attach_buffer)?;
        let pointer = call.pointer(&tensor.handle)?;
        let (buffer, size) = (memory.0.as_ptr().cast::<c_void>(), memory.0.len());
        // SAFETY: the tensor is this session's; the buffer has `size` bytes and
        // lives until every tensor in it has been freed.
        call.answer(unsafe { function(pointer, buffer, size) })
    }

    /// Frees a tensor and gives its buffer back, if nothing else uses either.
    pub(crate) fn detach(&self, tensor: NrtTensor) -> Result<Box<[u8]>, NrtTensor> {
        let NrtTensor { shared, size, core } = tensor;
        let alone = |memory: &Arc<Memory>| Arc::strong_count(memory) == 1;
        let mut shared = match Arc::try_unwrap(shared) {
            Ok(only) if only.memory.as_ref().is_some_and(alone) => only,
            Ok(shared) => {
                let shared = Arc::new(shared);
                return Err(NrtTensor { shared, size, core });
            }
            Err(shared) => return Err(NrtTensor { shared, size, core }),
        };
        let memory = shared.memory.take().and_then(Arc::into_inner);
        self.free(NrtTensor {
            shared: Arc::new(shared),
            size,
            core,
        });
        // Its only owner had it.
        Ok(memory.map_or_else(Box::default, Memory::into_box))
    }
}
