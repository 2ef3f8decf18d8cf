//! The trait over the calls of the library.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use metaneff_binding::{
    Backend, BackendError, BackendInfo, Cause, Completion, Core, LoadRequest, MemoryStats,
    Placement, TensorInfo, Transfers,
};

use crate::nrt::Nrt;
use crate::sys::{NrtModel, NrtTensor, NrtTensorSet};

/// What has been moved so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    host_to_device: AtomicU64,
    device_to_host: AtomicU64,
    device_to_device: AtomicU64,
    writes: AtomicU64,
    reads: AtomicU64,
    copies: AtomicU64,
    binds: AtomicU64,
    executions: AtomicU64,
    allocations: AtomicU64,
}

impl Counters {
    pub(crate) fn wrote(&self, bytes: usize) {
        add(&self.host_to_device, bytes as u64);
        add(&self.writes, 1);
    }

    pub(crate) fn read(&self, bytes: usize) {
        add(&self.device_to_host, bytes as u64);
        add(&self.reads, 1);
    }

    pub(crate) fn copied(&self, bytes: usize) {
        add(&self.device_to_device, bytes as u64);
        add(&self.copies, 1);
    }

    pub(crate) fn allocated(&self) {
        add(&self.allocations, 1);
    }

    pub(crate) fn executed(&self, times: u32) {
        add(&self.executions, u64::from(times));
    }
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

impl Backend for Nrt {
    type Tensor = NrtTensor;
    type TensorSet = NrtTensorSet;
    type Model = NrtModel;

    fn info(&self) -> BackendInfo {
        self.shared().info.clone()
    }

    fn load(&self, request: &LoadRequest) -> Result<Self::Model, BackendError> {
        if let Some(core) = request.core {
            let call = match request.collectives {
                None => "nrt_load",
                Some(_) => "nrt_load_collectives",
            };
            self.check_core(call, core)?;
        }
        self.session()
            .load(request)
            .map_err(|error| self.explain_load(error, request))
    }

    fn unload(&self, model: Self::Model) -> Result<(), BackendError> {
        self.session().unload(model)
    }

    fn model_tensors(&self, model: &Self::Model) -> Result<Vec<TensorInfo>, BackendError> {
        self.session().model_tensors(model)
    }

    /// A library without `nrt_get_model_info` answers the core that the load
    /// asked for, if it asked for one.
    fn model_core(&self, model: &Self::Model) -> Result<Core, BackendError> {
        let answer = self.session().model_core(model);
        match (answer, model.requested_core()) {
            (Err(error), Some(core)) if matches!(error.cause(), Cause::MissingSymbol { .. }) => {
                Ok(core)
            }
            (answer, _) => answer,
        }
    }

    fn allocate(
        &self,
        placement: Placement,
        core: Core,
        size: usize,
        name: &CStr,
    ) -> Result<Self::Tensor, BackendError> {
        self.check_core("nrt_tensor_allocate", core)?;
        let tensor = self
            .session()
            .allocate(placement, core, size, name)
            .map_err(|error| self.explain_memory(error, placement, core, size))?;
        self.shared().counters.allocated();
        Ok(tensor)
    }

    fn slice(
        &self,
        tensor: &Self::Tensor,
        offset: usize,
        size: usize,
        name: &CStr,
    ) -> Result<Self::Tensor, BackendError> {
        let slice = self.session().slice(tensor, offset, size, name)?;
        self.shared().counters.allocated();
        Ok(slice)
    }

    /// At the end of the executions that use the tensor, if there are any now.
    fn free(&self, tensor: Self::Tensor) {
        self.session().free(tensor);
    }

    fn tensor_size(&self, tensor: &Self::Tensor) -> usize {
        tensor.size()
    }

    fn write(&self, tensor: &Self::Tensor, offset: usize, data: &[u8]) -> Result<(), BackendError> {
        self.session().write(tensor, offset, data)?;
        self.shared().counters.wrote(data.len());
        Ok(())
    }

    fn read(
        &self,
        tensor: &Self::Tensor,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), BackendError> {
        self.session().read(tensor, offset, out)?;
        self.shared().counters.read(out.len());
        Ok(())
    }

    fn copy(
        &self,
        source: &Self::Tensor,
        source_offset: usize,
        target: &Self::Tensor,
        target_offset: usize,
        size: usize,
    ) -> Result<(), BackendError> {
        self.session()
            .copy((source, source_offset), (target, target_offset), size)
            .map_err(|error| Self::explain_copy(error, source, target))?;
        self.shared().counters.copied(size);
        Ok(())
    }

    fn tensor_set(&self) -> Result<Self::TensorSet, BackendError> {
        self.session().tensor_set()
    }

    fn bind(
        &self,
        set: &mut Self::TensorSet,
        name: &CStr,
        tensor: &Self::Tensor,
    ) -> Result<(), BackendError> {
        self.session().bind(set, name, tensor)?;
        add(&self.shared().counters.binds, 1);
        Ok(())
    }

    fn destroy_set(&self, set: Self::TensorSet) {
        self.session().destroy_set(set);
    }

    fn execute(
        &self,
        model: &Self::Model,
        inputs: &Self::TensorSet,
        outputs: &mut Self::TensorSet,
    ) -> Result<Completion, BackendError> {
        let start = Instant::now();
        let answer = self.session().execute(model, inputs, outputs);
        let completion = answer.map_err(|error| {
            self.explain_execution(error, start.elapsed(), model, &[inputs, outputs])
        })?;
        self.shared().counters.executed(1);
        Ok(completion)
    }

    fn memory_stats(&self, core: Core) -> Result<MemoryStats, BackendError> {
        self.check_core("nrt_get_vnc_memory_stats", core)?;
        self.session().memory_stats(core)
    }

    fn transfers(&self) -> Option<Transfers> {
        let counters = &self.shared().counters;
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut transfers = Transfers::default();
        transfers.host_to_device = value(&counters.host_to_device);
        transfers.device_to_host = value(&counters.device_to_host);
        transfers.device_to_device = value(&counters.device_to_device);
        transfers.writes = value(&counters.writes);
        transfers.reads = value(&counters.reads);
        transfers.copies = value(&counters.copies);
        transfers.binds = value(&counters.binds);
        transfers.executions = value(&counters.executions);
        transfers.allocations = value(&counters.allocations);
        Some(transfers)
    }

    /// `NEURON_RT_EXEC_TIMEOUT` as it was when the runtime was initialised.
    /// Without it the library has a limit of its own, which it does not tell.
    fn execution_timeout(&self) -> Option<Duration> {
        self.shared().timeout
    }
}
