//! Calls of the library that the trait does not have.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::time::Instant;

use metaneff_binding::{BackendError, Completion};

use crate::nrt::Nrt;
use crate::sys::{DeviceAllocation, NrtModel, NrtTensor, NrtTensorSet, ReadOp, WriteOp};

impl Nrt {
    /// Executes a model `times` times in a row, each time with the outputs of
    /// the time before as inputs: `nrt_execute_repeat`.
    ///
    /// # Errors
    ///
    /// As [`Backend::execute`](metaneff_binding::Backend::execute), and `INVALID`
    /// for 0 times.
    pub fn execute_repeat(
        &self,
        model: &NrtModel,
        inputs: &NrtTensorSet,
        outputs: &mut NrtTensorSet,
        times: u32,
    ) -> Result<Completion, BackendError> {
        let start = Instant::now();
        let answer = self.session().execute_repeat(model, inputs, outputs, times);
        let completion = answer.map_err(|error| {
            self.explain_execution(error, start.elapsed(), model, &[inputs, outputs])
        })?;
        self.shared().counters.executed(times);
        Ok(completion)
    }

    /// Sets `size` bytes from `offset` on to `value`: `nrt_tensor_memset`.
    ///
    /// # Errors
    ///
    /// `INVALID` when the range is not inside the tensor.
    pub fn fill(
        &self,
        tensor: &NrtTensor,
        offset: usize,
        value: u8,
        size: usize,
    ) -> Result<(), BackendError> {
        self.session().fill(tensor, offset, value, size)
    }

    /// Reads many ranges in one call: `nrt_tensor_read_batch`. Ranges of the
    /// same tensor cost least when they stand together.
    ///
    /// # Errors
    ///
    /// `INVALID` when a range is not inside its tensor; nothing was read then.
    pub fn read_batch(&self, ops: &mut [ReadOp<'_>]) -> Result<(), BackendError> {
        self.session().read_batch(ops)?;
        for op in ops {
            self.shared().counters.read(op.out.len());
        }
        Ok(())
    }

    /// Writes many ranges in one call: `nrt_tensor_write_batch`. Ranges of the
    /// same tensor cost least when they stand together.
    ///
    /// # Errors
    ///
    /// `INVALID` when a range is not inside its tensor; nothing was written then.
    pub fn write_batch(&self, ops: &[WriteOp<'_>]) -> Result<(), BackendError> {
        self.session().write_batch(ops)?;
        for op in ops {
            self.shared().counters.wrote(op.data.len());
        }
        Ok(())
    }

    /// Address of a tensor's memory that the CPU can read: `nrt_tensor_get_va`.
    ///
    /// It is valid until the tensor is freed or the runtime closed.
    ///
    /// # Errors
    ///
    /// `FAILURE` if the tensor has none.
    pub fn virtual_address(&self, tensor: &NrtTensor) -> Result<NonNull<c_void>, BackendError> {
        self.session().address(tensor)
    }

    /// Where a tensor lies in device memory:
    /// `nrt_tensor_get_device_allocation_info`.
    ///
    /// # Errors
    ///
    /// What the library answers.
    pub fn device_allocation(&self, tensor: &NrtTensor) -> Result<DeviceAllocation, BackendError> {
        self.session().allocation(tensor)
    }
}
