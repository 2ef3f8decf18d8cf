//! Making, describing and freeing tensors.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use metaneff_binding::{Backend as _, BackendError, Core, Placement};
use metaneff_schema::nrt::Status;

use crate::abi::{Allocation, MemoryStats};
use crate::api::lifecycle::copy_out;
use crate::buffer::Attached;
use crate::export::{export, failed, failure, invalid};
use crate::handles::{Handle, Tensor};
use crate::log;
use crate::pointers::{BytesMut, Out, Text};
use crate::runtime;

/// How often a wait looks whether the runtime was closed.
const LOOK: Duration = Duration::from_millis(100);

/// After this long, a wait without a limit says so, as the header has it.
const PATIENCE: Duration = Duration::from_secs(30);

export! {
    header "nrt.h", node "NRT_2.0.0";

    /// Allocates zeroed memory. Host and virtual memory belong to the first core
    /// where the caller names none.
    fn nrt_tensor_allocate(
        call; placement: c_int, vnc: c_int, size: usize, name: Text, tensor: Out<Handle<Tensor>>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let place = tensor.place(call, "tensor")?;
        let placement = match placement {
            0 => Placement::Device,
            1 => Placement::Host,
            2 => Placement::Virtual,
            other => {
                return Err(invalid(call, "tensor_placement", format!("{other} is no placement")));
            }
        };
        let core = if vnc == -1 && placement != Placement::Device {
            Core::new(0)
        } else {
            runtime::core(call, "vnc", vnc)?
        };
        let made = runtime.sim.allocate(placement, core, size, name_of(&name))?;
        place.set(Handle::new(Tensor::new(made)));
        Ok(Status::SUCCESS)
    }

    /// A tensor without memory.
    fn nrt_tensor_allocate_empty(call; name: Text, tensor: Out<Handle<Tensor>>) -> Status {
        let runtime = runtime::current(call)?;
        let place = tensor.place(call, "tensor")?;
        let made = runtime.sim.allocate_empty(name_of(&name))?;
        place.set(Handle::new(Tensor::new(made)));
        Ok(Status::SUCCESS)
    }

    /// Makes the caller's memory that of the tensor. Memory that the tensor had
    /// is freed.
    fn nrt_tensor_attach_buffer(
        call; tensor: Handle<Tensor>, buffer: BytesMut, size: usize,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let tensor = tensor.get(call, "tensor")?;
        let memory = Attached::new(buffer.address(call, "buffer")?, size);
        let memory = memory.ok_or_else(|| {
            invalid(call, "size", format!("a buffer cannot have {size} bytes"))
        })?;
        runtime.sim.attach(&tensor.tensor, Arc::new(memory))?;
        tensor.address.store(0, Ordering::Relaxed);
        Ok(Status::SUCCESS)
    }

    /// A tensor that shows part of another one's memory.
    fn nrt_tensor_allocate_slice(
        call; tensor_source: Handle<Tensor>, offset: usize, size: usize, name: Text,
        tensor_slice: Out<Handle<Tensor>>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let place = tensor_slice.place(call, "tensor_slice")?;
        let source = tensor_source.get(call, "tensor_source")?;
        let made = runtime.sim.slice(&source.tensor, offset, size, name_of(&name))?;
        place.set(Handle::new(Tensor::new(made)));
        Ok(Status::SUCCESS)
    }

    /// Frees a tensor and sets the caller's pointer to null. What is in use by a
    /// call goes when the call ends.
    fn nrt_tensor_free(call; tensor: Out<Handle<Tensor>>) {
        let Some(handle) = tensor.release() else {
            return Ok(());
        };
        // After nrt_close there is nothing left to free.
        let Ok(runtime) = runtime::current(call) else {
            return Ok(());
        };
        if let Ok(tensor) = handle.take(call, "tensor") {
            runtime.sim.free(tensor.tensor.clone());
        }
        Ok(())
    }

    /// Size in bytes; 0 for what is no tensor.
    fn nrt_tensor_get_size(call; tensor: Handle<Tensor>) -> usize {
        runtime::current(call)?;
        Ok(tensor.get(call, "tensor")?.tensor.size())
    }

    /// Address of the first byte, which stays until the tensor is freed. The CPU
    /// can read there.
    fn nrt_tensor_get_va(call; tensor: Handle<Tensor>) -> *mut c_void {
        runtime::current(call)?;
        let tensor = tensor.get(call, "tensor")?;
        let address = tensor.tensor.address();
        let address = address.ok_or_else(|| invalid(call, "tensor", "the tensor has no memory"))?;
        tensor.address.store(address, Ordering::Relaxed);
        Ok(ptr::with_exposed_provenance_mut(address))
    }

    /// Where on the device the tensor is.
    fn nrt_tensor_get_device_allocation_info(
        call; tensor: Handle<Tensor>, alloc_info: Out<Allocation>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let place = alloc_info.place(call, "alloc_info")?;
        let tensor = tensor.get(call, "tensor")?;
        let allocation = runtime.sim.device_allocation(&tensor.tensor)?;
        place.set(Allocation {
            physical_address: allocation.physical_address,
            size: allocation.size,
            hbm_index: c_int::try_from(allocation.hbm_index).unwrap_or(c_int::MAX),
        });
        Ok(Status::SUCCESS)
    }

    /// Waits until executions have written the tensor as often as expected.
    fn nrt_tensor_check_output_completion(
        call; output_tensor: Handle<Tensor>, timeout: i64, expected_completion_count: u64,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let tensor = output_tensor.get(call, "output_tensor")?;
        let start = Instant::now();
        let limit = u64::try_from(timeout).ok().map(Duration::from_micros);
        let mut warned = false;
        loop {
            let left = limit.map_or(LOOK, |limit| limit.saturating_sub(start.elapsed()).min(LOOK));
            if tensor.tensor.wait_completions(expected_completion_count, Some(left)) {
                return Ok(Status::SUCCESS);
            }
            if runtime.sim.is_closed() {
                return Err(failure(call, Status::CLOSED));
            }
            if limit.is_some_and(|limit| start.elapsed() >= limit) {
                let done = tensor.tensor.completions();
                let text = format!("{done} of {expected_completion_count} completions");
                return Err(failed(call, Status::TIMEOUT, text));
            }
            if !warned && limit.is_none() && start.elapsed() >= PATIENCE {
                warned = true;
                log::warning(format_args!("{call} has waited for {PATIENCE:?}"));
            }
        }
    }

    /// Sets the number of completions to 0.
    fn nrt_tensor_reset_output_completion(call; output_tensor: Handle<Tensor>) -> Status {
        runtime::current(call)?;
        output_tensor.get(call, "output_tensor")?.tensor.reset_completions();
        Ok(Status::SUCCESS)
    }

    /// Memory of a core, as much of the struct as the caller knows.
    fn nrt_get_vnc_memory_stats(
        call; vnc: u32, stats: Out<u8>, stats_size_in: usize, stats_size_out: Out<usize>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let memory = runtime.sim.memory_stats(Core::new(vnc))?;
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let known = MemoryStats {
            bytes_used: size(memory.used),
            bytes_limit: size(memory.limit),
        };
        let mut bytes = Vec::with_capacity(size_of::<MemoryStats>());
        bytes.extend_from_slice(&known.bytes_used.to_ne_bytes());
        bytes.extend_from_slice(&known.bytes_limit.to_ne_bytes());
        let written = copy_out(call, "stats", &stats, &bytes, stats_size_in)?;
        if let Some(place) = stats_size_out.optional() {
            place.set(written);
        }
        Ok(Status::SUCCESS)
    }
}

fn name_of(name: &Text) -> &CStr {
    name.optional().unwrap_or(c"")
}

/// The tensor whose memory has `size` bytes from `address` on, and the offset
/// there.
pub(crate) fn at(
    call: &'static str,
    address: usize,
    size: usize,
) -> Result<(metaneff_backend_sim::SimTensor, usize), BackendError> {
    use crate::handles::Object as _;
    let found = Tensor::table().search(|tensor| {
        let start = tensor.address.load(Ordering::Relaxed);
        let offset = address.checked_sub(start).filter(|_| start != 0)?;
        let inside = offset.checked_add(size)? <= tensor.tensor.size();
        inside.then(|| (tensor.tensor.clone(), offset))
    });
    found.ok_or_else(|| {
        let detail = format!(
            "no tensor has {size} bytes at {address:#x}, of those whose address was asked for"
        );
        invalid(call, "dest", detail)
    })
}
