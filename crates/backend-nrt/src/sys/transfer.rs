//! Moving bytes between host and tensors, one range or many at once.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use metaneff_binding::BackendError;
use metaneff_schema::nrt::Status;

use super::abi::{RawAllocation, RawBatch, RawBatchOp, RawTensor};
use super::handle::NrtTensor;
use super::session::{Call, Session};

/// One range to read in a batch.
#[derive(Debug)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a tensor, a place in it, and the host's bytes"
)]
pub struct ReadOp<'a> {
    /// Where to read.
    pub tensor: &'a NrtTensor,
    /// First byte within the tensor.
    pub offset: usize,
    /// Where the bytes go; as many as there is room for.
    pub out: &'a mut [u8],
}

/// One range to write in a batch.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a tensor, a place in it, and the host's bytes"
)]
pub struct WriteOp<'a> {
    /// Where to write.
    pub tensor: &'a NrtTensor,
    /// First byte within the tensor.
    pub offset: usize,
    /// The bytes to write.
    pub data: &'a [u8],
}

/// Where a tensor lies in device memory
/// (`nrt_tensor_get_device_allocation_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceAllocation {
    /// Address in the device's own memory.
    pub physical_address: u64,
    /// Bytes allocated, which may be more than the tensor has.
    pub size: usize,
    /// Which of the device's memories it is.
    pub hbm_index: i32,
}

impl Session {
    pub(crate) fn read(
        &self,
        tensor: &NrtTensor,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), BackendError> {
        let call = self.call("nrt_tensor_read")?;
        let pointer = call.tensor(tensor)?;
        call.range("offset", tensor, offset, out.len())?;
        let function = call.symbols.nrt_tensor_read;
        let (buffer, size) = (out.as_mut_ptr().cast::<c_void>(), out.len());
        // SAFETY: the tensor is this session's and has the range; the buffer is
        // borrowed exclusively and has `size` bytes.
        call.answer(unsafe { function(pointer, buffer, offset, size) })
    }

    pub(crate) fn write(
        &self,
        tensor: &NrtTensor,
        offset: usize,
        data: &[u8],
    ) -> Result<(), BackendError> {
        let call = self.call("nrt_tensor_write")?;
        let pointer = call.tensor(tensor)?;
        call.range("offset", tensor, offset, data.len())?;
        let function = call.symbols.nrt_tensor_write;
        let (buffer, size) = (data.as_ptr().cast::<c_void>(), data.len());
        // SAFETY: the tensor is this session's and has the range; the buffer has
        // `size` bytes and is read only.
        call.answer(unsafe { function(pointer, buffer, offset, size) })
    }

    pub(crate) fn copy(
        &self,
        source: (&NrtTensor, usize),
        target: (&NrtTensor, usize),
        size: usize,
    ) -> Result<(), BackendError> {
        let call = self.call("nrt_tensor_copy")?;
        let from = call.tensor(source.0)?;
        let to = call.tensor(target.0)?;
        call.range("src_offset", source.0, source.1, size)?;
        call.range("dst_offset", target.0, target.1, size)?;
        let function = call.optional(call.symbols.nrt_tensor_copy)?;
        // SAFETY: both tensors are this session's and have their range.
        call.answer(unsafe { function(from, source.1, to, target.1, size) })
    }

    pub(crate) fn fill(
        &self,
        tensor: &NrtTensor,
        offset: usize,
        value: u8,
        size: usize,
    ) -> Result<(), BackendError> {
        let call = self.call("nrt_tensor_memset")?;
        let pointer = call.tensor(tensor)?;
        call.range("offset", tensor, offset, size)?;
        let function = call.optional(call.symbols.nrt_tensor_memset)?;
        // SAFETY: the tensor is this session's and has the range.
        call.answer(unsafe { function(pointer, offset as u64, c_int::from(value), size) })
    }

    pub(crate) fn read_batch(&self, ops: &mut [ReadOp<'_>]) -> Result<(), BackendError> {
        let call = self.call("nrt_tensor_read_batch")?;
        let mut batch = Batch::default();
        for op in &mut *ops {
            let (buffer, size) = (op.out.as_mut_ptr().cast::<c_void>(), op.out.len());
            batch.push(&call, op.tensor, op.offset, size, buffer)?;
        }
        let function = call.optional(call.symbols.nrt_tensor_read_batch)?;
        let batches = batch.finish(&call)?;
        // SAFETY: the lists are as long as they say; the tensors are this
        // session's and have the ranges; the buffers are borrowed exclusively.
        call.answer(unsafe { function(batches.as_ptr(), batches.len() as u64, TRACKED) })
    }

    pub(crate) fn write_batch(&self, ops: &[WriteOp<'_>]) -> Result<(), BackendError> {
        let call = self.call("nrt_tensor_write_batch")?;
        let mut batch = Batch::default();
        for op in ops {
            // One type serves both ways in C; a write reads the buffer only.
            let buffer = op.data.as_ptr().cast::<c_void>().cast_mut();
            batch.push(&call, op.tensor, op.offset, op.data.len(), buffer)?;
        }
        let function = call.optional(call.symbols.nrt_tensor_write_batch)?;
        let batches = batch.finish(&call)?;
        // SAFETY: the lists are as long as they say; the tensors are this
        // session's and have the ranges; the buffers are read only.
        call.answer(unsafe { function(batches.as_ptr(), batches.len() as u64, TRACKED) })
    }

    pub(crate) fn address(&self, tensor: &NrtTensor) -> Result<NonNull<c_void>, BackendError> {
        let call = self.call("nrt_tensor_get_va")?;
        let pointer = call.tensor(tensor)?;
        let function = call.optional(call.symbols.nrt_tensor_get_va)?;
        // SAFETY: the tensor is this session's.
        let address = unsafe { function(pointer) };
        NonNull::new(address)
            .ok_or_else(|| call.broken("the tensor has no virtual address".to_owned()))
    }

    pub(crate) fn allocation(&self, tensor: &NrtTensor) -> Result<DeviceAllocation, BackendError> {
        let call = self.call("nrt_tensor_get_device_allocation_info")?;
        let pointer = call.tensor(tensor)?;
        let function = call.optional(call.symbols.nrt_tensor_get_device_allocation_info)?;
        let mut info = RawAllocation::default();
        // SAFETY: the tensor is this session's; the call fills one structure.
        let status: Status = unsafe { function(pointer, &raw mut info) };
        call.answer(status)?;
        Ok(DeviceAllocation {
            physical_address: info.physical_address,
            size: info.size,
            hbm_index: info.hbm_index,
        })
    }
}

/// The runtime keeps the order of a batch and of executions that use its tensors.
const TRACKED: bool = false;

/// Ranges of consecutive entries of the same tensor, in C's form.
#[derive(Default)]
struct Batch {
    ops: Vec<RawBatchOp>,
    /// Each tensor with the number of its ranges.
    groups: Vec<(*const RawTensor, usize)>,
    /// The lists that C reads, which point into `ops`.
    raw: Vec<RawBatch>,
}

impl Batch {
    fn push(
        &mut self,
        call: &Call<'_>,
        tensor: &NrtTensor,
        offset: usize,
        size: usize,
        buffer: *mut c_void,
    ) -> Result<(), BackendError> {
        let pointer = call.tensor(tensor)?.cast_const();
        call.range("ops", tensor, offset, size)?;
        self.ops.push(RawBatchOp {
            offset: offset as u64,
            size: size as u64,
            buffer,
        });
        match self.groups.last_mut() {
            Some((last, count)) if *last == pointer => *count += 1,
            _ => self.groups.push((pointer, 1)),
        }
        Ok(())
    }

    fn finish(&mut self, call: &Call<'_>) -> Result<&[RawBatch], BackendError> {
        let mut rest = self.ops.as_slice();
        for (tensor, count) in &self.groups {
            let (ops, after) = rest.split_at(*count);
            rest = after;
            let count = u32::try_from(*count)
                .map_err(|_| call.refuse("num_ops", format!("{count} ranges of one tensor")))?;
            self.raw.push(RawBatch {
                tensor: *tensor,
                ops: ops.as_ptr(),
                count,
            });
        }
        Ok(&self.raw)
    }
}
