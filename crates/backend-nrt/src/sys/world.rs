//! Ranks, profiles, and what else a framework asks of a device.

use std::ffi::{CStr, c_void};

use metaneff_binding::{BackendError, CollectiveContext, Core};
use metaneff_schema::nrt::Status;

use super::handle::{NrtModel, NrtTensor};
use super::session::{Call, Session};

impl Session {
    pub(crate) fn build_communicator(
        &self,
        core: Core,
        world: CollectiveContext,
    ) -> Result<(), BackendError> {
        let call = self.call("nrt_build_global_comm")?;
        let function = call.optional(call.symbols.nrt_build_global_comm)?;
        call.meet(core, world, |vnc, rank, ranks| {
            // SAFETY: three numbers.
            unsafe { function(vnc, rank, ranks) }
        })
    }

    pub(crate) fn barrier(&self, core: Core, world: CollectiveContext) -> Result<(), BackendError> {
        let call = self.call("nrt_barrier")?;
        let function = call.optional(call.symbols.nrt_barrier)?;
        call.meet(core, world, |vnc, rank, ranks| {
            // SAFETY: three numbers.
            unsafe { function(vnc, rank, ranks) }
        })
    }

    pub(crate) fn all_gather(
        &self,
        core: Core,
        world: CollectiveContext,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), BackendError> {
        let call = self.call("nrt_all_gather")?;
        let function = call.optional(call.symbols.nrt_all_gather)?;
        let size = u32::try_from(input.len())
            .map_err(|_| call.refuse("rank_input_size", format!("{} bytes", input.len())))?;
        let needed = u64::from(size) * u64::from(world.world_size);
        if output.len() as u64 != needed {
            let detail = format!("has {} bytes, {needed} are gathered", output.len());
            return Err(call.refuse("output", detail));
        }
        // One type serves both ways in C; the input is read only.
        let source = input.as_ptr().cast::<c_void>().cast_mut();
        let target = output.as_mut_ptr().cast::<c_void>();
        call.meet(core, world, |vnc, rank, ranks| {
            // SAFETY: the input has `size` bytes; the output, which is borrowed
            // exclusively, as many for each rank.
            unsafe { function(vnc, rank, ranks, size, source, target) }
        })
    }

    pub(crate) fn start_profile(&self, model: &NrtModel, file: &CStr) -> Result<(), BackendError> {
        let call = self.call("nrt_profile_start")?;
        let pointer = call.pointer(&model.handle)?;
        let function = call.optional(call.symbols.nrt_profile_start)?;
        // SAFETY: the model is this session's; the path ends with NUL.
        call.answer(call.deep(|| unsafe { function(pointer, file.as_ptr()) }))
    }

    pub(crate) fn stop_profile(&self, file: &CStr) -> Result<(), BackendError> {
        let call = self.call("nrt_profile_stop")?;
        let function = call.optional(call.symbols.nrt_profile_stop)?;
        // SAFETY: the path ends with NUL.
        call.answer(call.deep(|| unsafe { function(file.as_ptr()) }))
    }

    pub(crate) fn model_cores(&self, model: &NrtModel) -> Result<u32, BackendError> {
        let call = self.call("nrt_get_model_vnc_count")?;
        let pointer = call.pointer(&model.handle)?;
        let function = call.optional(call.symbols.nrt_get_model_vnc_count)?;
        let mut count = 0;
        // SAFETY: the model is this session's; the call writes one `u32`.
        call.answer(unsafe { function(pointer, &raw mut count) })?;
        Ok(count)
    }

    pub(crate) fn model_instances(&self, model: &NrtModel) -> Result<u32, BackendError> {
        let call = self.call("nrt_get_model_instance_count")?;
        let pointer = call.pointer(&model.handle)?;
        let function = call.optional(call.symbols.nrt_get_model_instance_count)?;
        let mut count = 0;
        // SAFETY: the model is this session's; the call writes one `u32`.
        call.answer(unsafe { function(pointer, &raw mut count) })?;
        Ok(count)
    }

    pub(crate) fn check_completion(
        &self,
        tensor: &NrtTensor,
        microseconds: i64,
        count: u64,
    ) -> Result<(), BackendError> {
        let call = self.call("nrt_tensor_check_output_completion")?;
        let pointer = call.tensor(tensor)?;
        let function = call.optional(call.symbols.nrt_tensor_check_output_completion)?;
        // SAFETY: the tensor is this session's, and borrowed until the call
        // returns.
        call.answer(unsafe { function(pointer, microseconds, count) })
    }

    pub(crate) fn reset_completion(&self, tensor: &NrtTensor) -> Result<(), BackendError> {
        let call = self.call("nrt_tensor_reset_output_completion")?;
        let pointer = call.tensor(tensor)?;
        let function = call.optional(call.symbols.nrt_tensor_reset_output_completion)?;
        // SAFETY: the tensor is this session's.
        call.answer(unsafe { function(pointer) })
    }
}

impl Call<'_> {
    /// A call that all ranks of a world make.
    fn meet(
        &self,
        core: Core,
        world: CollectiveContext,
        call: impl FnOnce(i32, u32, u32) -> Status,
    ) -> Result<(), BackendError> {
        let CollectiveContext {
            rank, world_size, ..
        } = world;
        if rank >= world_size {
            let detail = format!("rank {rank} of {world_size}, counted from 0");
            return Err(self.refuse("g_device_id", detail));
        }
        let core = self.core(core)?;
        self.answer(self.deep(|| call(core, rank, world_size)))
    }
}
