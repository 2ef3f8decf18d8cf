//! Moving bytes in and out of tensors.

use std::ffi::c_int;
use std::sync::Arc;

use metaneff_binding::{Backend as _, BackendError};
use metaneff_schema::nrt::Status;

use crate::abi::{Batch, BatchOp};
use crate::export::{export, invalid};
use crate::handles::{Handle, Tensor};
use crate::pointers::{Array, Bytes, BytesMut};
use crate::runtime;

export! {
    header "nrt.h", node "NRT_2.0.0";

    /// Reads bytes of a tensor.
    fn nrt_tensor_read(
        call; tensor: Handle<Tensor>, buf: BytesMut, offset: usize, size: usize,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let tensor = tensor.get(call, "tensor")?;
        let mut buf = buf;
        runtime.settle();
        runtime.read(&tensor.tensor, offset, buf.slice(call, "buf", size)?)?;
        Ok(Status::SUCCESS)
    }

    /// Writes bytes of a tensor.
    fn nrt_tensor_write(
        call; tensor: Handle<Tensor>, buf: Bytes, offset: usize, size: usize,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let tensor = tensor.get(call, "tensor")?;
        runtime.settle();
        runtime.write(&tensor.tensor, offset, buf.slice(call, "buf", size)?)?;
        Ok(Status::SUCCESS)
    }

    /// Reads from several tensors. All is checked before the first byte moves.
    fn nrt_tensor_read_batch(
        call; batches: Array<Batch>, num_batches: u64, unchecked: bool,
    ) -> Status {
        let runtime = runtime::current(call)?;
        if !unchecked {
            runtime.settle();
        }
        for (tensor, op) in operations(call, batches, num_batches)? {
            let mut buffer = BytesMut::new(op.buffer);
            let (offset, size) = range(call, &op)?;
            runtime.read(&tensor.tensor, offset, buffer.slice(call, "buffer", size)?)?;
        }
        Ok(Status::SUCCESS)
    }

    /// Writes to several tensors. All is checked before the first byte moves.
    fn nrt_tensor_write_batch(
        call; batches: Array<Batch>, num_batches: u64, unchecked: bool,
    ) -> Status {
        let runtime = runtime::current(call)?;
        if !unchecked {
            runtime.settle();
        }
        for (tensor, op) in operations(call, batches, num_batches)? {
            let mut buffer = BytesMut::new(op.buffer);
            let (offset, size) = range(call, &op)?;
            runtime.write(&tensor.tensor, offset, buffer.slice(call, "buffer", size)?)?;
        }
        Ok(Status::SUCCESS)
    }

    /// Copies between tensors, which share a core if both are on the device.
    fn nrt_tensor_copy(
        call; src: Handle<Tensor>, src_offset: usize, dst: Handle<Tensor>, dst_offset: usize,
        size: usize,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let source = src.get(call, "src")?;
        let target = dst.get(call, "dst")?;
        runtime.settle();
        runtime.sim.copy(&source.tensor, src_offset, &target.tensor, dst_offset, size)?;
        Ok(Status::SUCCESS)
    }

    /// Sets bytes to `value`, of which the lowest 8 bits count.
    fn nrt_tensor_memset(
        call; tensor: Handle<Tensor>, offset: u64, value: c_int, size: usize,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let tensor = tensor.get(call, "tensor")?;
        let offset = usize::try_from(offset)
            .map_err(|_| invalid(call, "offset", format!("{offset} exceeds any memory")))?;
        let [byte, ..] = value.to_le_bytes();
        runtime.settle();
        runtime.sim.fill(&tensor.tensor, offset, byte, size)?;
        Ok(Status::SUCCESS)
    }
}

pub(crate) mod experimental {
    //! `nrt_experimental.h`.

    use super::{Bytes, BytesMut, Status, export, runtime};
    use crate::api::tensor;

    export! {
        header "nrt_experimental.h", node "NRT_2.0.0";

        /// Writes to an address that `nrt_tensor_get_va` gave, or behind it.
        fn nrt_memcpy_to_device(call; dest: BytesMut, src: Bytes, size: usize) -> Status {
            let runtime = runtime::current(call)?;
            let address = dest.address(call, "dest")?.addr().get();
            let data = src.slice(call, "src", size)?;
            let (tensor, offset) = tensor::at(call, address, size)?;
            runtime.settle();
            runtime.write(&tensor, offset, data)?;
            Ok(Status::SUCCESS)
        }
    }
}

/// The operations of all batches, checked.
fn operations(
    call: &'static str,
    batches: Array<Batch>,
    count: u64,
) -> Result<Vec<(Arc<Tensor>, BatchOp)>, BackendError> {
    let count = usize::try_from(count)
        .map_err(|_| invalid(call, "num_batches", format!("{count} exceeds any memory")))?;
    let mut operations = Vec::new();
    for batch in batches.to_vec(call, "batches", count)? {
        let tensor = batch.tensor.get(call, "tensor")?;
        let count = usize::try_from(batch.num_ops).unwrap_or(usize::MAX);
        for op in batch.ops.to_vec(call, "ops", count)? {
            let (offset, size) = range(call, &op)?;
            let available = tensor.tensor.size();
            if offset.checked_add(size).is_none_or(|end| end > available) {
                let detail = format!(
                    "{size} bytes from {offset} on are not inside a tensor of {available} bytes"
                );
                return Err(invalid(call, "ops", detail));
            }
            if op.buffer.is_null() {
                return Err(invalid(call, "buffer", "the pointer is null"));
            }
            operations.push((Arc::clone(&tensor), op));
        }
    }
    Ok(operations)
}

fn range(call: &'static str, op: &BatchOp) -> Result<(usize, usize), BackendError> {
    match (usize::try_from(op.offset), usize::try_from(op.size)) {
        (Ok(offset), Ok(size)) => Ok((offset, size)),
        _ => Err(invalid(call, "ops", "the range exceeds any memory")),
    }
}
