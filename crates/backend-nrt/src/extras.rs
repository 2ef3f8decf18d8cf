//! Calls of the library that the trait does not have.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use metaneff_binding::{BackendError, CollectiveContext, Completion, Core};

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

    /// Makes a tensor over memory of the caller's: `nrt_tensor_allocate_empty`
    /// and `nrt_tensor_attach_buffer`. It is host memory; its bytes are read and
    /// written through the tensor only, until [`detach`](Self::detach) gives the
    /// buffer back. Freeing the tensor and its slices frees the buffer.
    ///
    /// # Errors
    ///
    /// [`Unattached`], with the buffer: `INVALID` for one without bytes, and
    /// what the library answers.
    pub fn attach(&self, buffer: Box<[u8]>, name: &CStr) -> Result<NrtTensor, Unattached> {
        let tensor = self
            .session()
            .attach(buffer, name)
            .map_err(|(error, buffer)| Unattached { error, buffer })?;
        self.shared().counters.allocated();
        Ok(tensor)
    }

    /// Frees a tensor that was [attached](Self::attach) and gives its buffer
    /// back.
    ///
    /// # Errors
    ///
    /// The tensor, if it is not attached to a buffer, or if a slice, a tensor
    /// set or a request has it.
    pub fn detach(&self, tensor: NrtTensor) -> Result<Box<[u8]>, NrtTensor> {
        self.session().detach(tensor)
    }

    /// How many cores a model runs on: `nrt_get_model_vnc_count`.
    ///
    /// # Errors
    ///
    /// What the library answers.
    pub fn model_cores(&self, model: &NrtModel) -> Result<u32, BackendError> {
        self.session().model_cores(model)
    }

    /// How many instances of a model there are: `nrt_get_model_instance_count`.
    ///
    /// # Errors
    ///
    /// What the library answers.
    pub fn model_instances(&self, model: &NrtModel) -> Result<u32, BackendError> {
        self.session().model_instances(model)
    }

    /// Waits until an output has been written `count` times since the
    /// [reset](Self::reset_completions): `nrt_tensor_check_output_completion`.
    /// Without a limit it waits for as long as it takes.
    ///
    /// # Errors
    ///
    /// `TIMEOUT` if the limit passes before.
    pub fn check_completions(
        &self,
        tensor: &NrtTensor,
        limit: Option<Duration>,
        count: u64,
    ) -> Result<(), BackendError> {
        let limit = limit.map_or(-1, |limit| {
            i64::try_from(limit.as_micros()).unwrap_or(i64::MAX)
        });
        self.session().check_completion(tensor, limit, count)
    }

    /// Counts the writes of an output from 0 on:
    /// `nrt_tensor_reset_output_completion`.
    ///
    /// # Errors
    ///
    /// What the library answers.
    pub fn reset_completions(&self, tensor: &NrtTensor) -> Result<(), BackendError> {
        self.session().reset_completion(tensor)
    }

    /// Joins the ranks of a world, before their models are loaded:
    /// `nrt_build_global_comm`. Every rank calls it.
    ///
    /// # Errors
    ///
    /// `INVALID` for a rank beyond the world, and what the library answers.
    pub fn build_communicator(
        &self,
        core: Core,
        world: CollectiveContext,
    ) -> Result<(), BackendError> {
        self.check_core("nrt_build_global_comm", core)?;
        self.session().build_communicator(core, world)
    }

    /// Returns when every rank of a world has called it: `nrt_barrier`.
    ///
    /// # Errors
    ///
    /// As [`build_communicator`](Self::build_communicator).
    pub fn barrier(&self, core: Core, world: CollectiveContext) -> Result<(), BackendError> {
        self.check_core("nrt_barrier", core)?;
        self.session().barrier(core, world)
    }

    /// Gathers as many bytes from every rank of a world: `nrt_all_gather`.
    ///
    /// # Errors
    ///
    /// As [`build_communicator`](Self::build_communicator), and `INVALID` unless
    /// `output` has room for exactly the bytes of all ranks.
    pub fn all_gather(
        &self,
        core: Core,
        world: CollectiveContext,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), BackendError> {
        self.check_core("nrt_all_gather", core)?;
        self.session().all_gather(core, world, input, output)
    }

    /// Records the executions of a model from now on: `nrt_profile_start`.
    ///
    /// # Errors
    ///
    /// What the library answers.
    pub fn start_profile(&self, model: &NrtModel, file: &CStr) -> Result<(), BackendError> {
        self.session().start_profile(model, file)
    }

    /// Ends a recording and writes it to its file: `nrt_profile_stop`.
    ///
    /// # Errors
    ///
    /// What the library answers.
    pub fn stop_profile(&self, file: &CStr) -> Result<(), BackendError> {
        self.session().stop_profile(file)
    }
}

/// A buffer that no tensor was made over.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct Unattached {
    /// Why not.
    #[source]
    pub error: BackendError,
    /// The buffer.
    pub buffer: Box<[u8]>,
}
