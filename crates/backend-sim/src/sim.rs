//! The simulator as a [`Backend`].

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use metaneff_binding::{
    Backend, BackendError, BackendInfo, Cause, Completion, Core, LoadRequest, MemoryStats,
    Placement, TensorInfo, Transfers,
};
use metaneff_schema::nrt::Status;

use crate::clock::{Closed, Gate};
use crate::config::{Config, SimBuilder, Topology};
use crate::core::CoreState;
use crate::fault::{Armed, Call, Fault, Stop, Verdict};
use crate::memory::Ledger;
use crate::model::{ModelInner, SimModel};
use crate::neff::NeffReader;
use crate::program::Reader;
use crate::report::{CoreStats, Counters, LiveObjects, RunReport};
use crate::set::SimTensorSet;
use crate::storage::ExternalMemory;
use crate::sync::lock;
use crate::tensor::{SimTensor, TensorInner};
use crate::world::World;

/// Numbers simulators and objects through the whole process, so that no two
/// ever share one.
static NEXT: AtomicU64 = AtomicU64::new(1);

pub(crate) fn next_id() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A simulated Neuron instance.
///
/// It is ready from [`build`](SimBuilder::build) until it is
/// [closed](Self::close) or dropped; either takes back every tensor, set and
/// model. What is still held of them afterwards is harmless: calls answer
/// `NRT_CLOSED`, and giving a handle back does nothing. A handle of one
/// simulator is `NRT_INVALID_HANDLE` to every other.
///
/// Executions of several threads take place at the same time. None of them holds
/// a lock while it computes, so ranks of one process can meet in a collective.
///
/// # Examples
///
/// Memory is accounted to the byte, and every error says how much there was:
///
/// ```
/// use metaneff_backend_sim::Sim;
/// use metaneff_binding::{Backend, Cause, Core, Placement};
/// use metaneff_schema::nrt::Status;
///
/// let sim = Sim::builder().memory_limit(1 << 20).build()?;
/// let core = Core::new(0);
/// let first = sim.allocate(Placement::Device, core, 614_400, c"first")?;
/// let error = sim.allocate(Placement::Device, core, 614_400, c"second").unwrap_err();
/// assert_eq!(error.status(), Status::RESOURCE);
/// assert_eq!(
///     error.cause(),
///     &Cause::Memory { core: Some(core), requested: 614_400, used: 614_400, limit: 1 << 20 }
/// );
/// sim.free(first);
/// let second = sim.allocate(Placement::Device, core, 614_400, c"second")?;
/// # sim.free(second);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Sim {
    pub(crate) shared: Shared,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) id: u64,
    pub(crate) config: Config,
    pub(crate) topology: Topology,
    pub(crate) cores: Vec<CoreState>,
    pub(crate) host: Arc<Ledger>,
    pub(crate) registry: Mutex<Registry>,
    pub(crate) counters: Counters,
    pub(crate) faults: Armed,
    pub(crate) gate: Gate,
    pub(crate) worlds: Mutex<HashMap<u32, Arc<World>>>,
    pub(crate) reader: Box<dyn Reader>,
}

/// What was handed out and not given back.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) tensors: HashMap<u64, Arc<TensorInner>>,
    pub(crate) models: HashMap<u64, Arc<ModelInner>>,
    pub(crate) sets: HashSet<u64>,
}

impl Sim {
    /// Starts to set up a simulator.
    pub fn builder() -> SimBuilder {
        SimBuilder::default()
    }

    pub(crate) fn start(config: Config, topology: Topology) -> Self {
        Self::with_reader(config, topology, Box::new(NeffReader))
    }

    pub(crate) fn with_reader(config: Config, topology: Topology, reader: Box<dyn Reader>) -> Self {
        let memory = config.memory_per_core();
        let cores = 0..topology.visible.count();
        let shared = Shared {
            id: next_id(),
            topology,
            cores: cores
                .map(|index| CoreState::new(Core::new(index), memory))
                .collect(),
            host: Ledger::new(config.host_memory_limit),
            registry: Mutex::default(),
            counters: Counters::default(),
            faults: Armed::new(&config.faults),
            gate: Gate::default(),
            worlds: Mutex::default(),
            reader,
            config,
        };
        Self { shared }
    }

    /// Closes the simulator: `nrt_close`. Every later call answers
    /// `NRT_CLOSED`, and so does every call that waits. Closing twice does
    /// nothing.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Whether [`close`](Self::close) has been called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.gate.check().is_err()
    }

    /// The simulated cores.
    #[must_use]
    pub fn topology(&self) -> Topology {
        self.shared.topology
    }

    /// The simulated instance type.
    #[must_use]
    pub fn instance(&self) -> crate::Instance {
        self.shared.config.instance
    }

    /// Plans a fault from now on; its calls are counted from now.
    pub fn inject(&self, fault: Fault) {
        self.shared.faults.arm(fault);
    }

    /// Makes a core usable again after a failure that poisoned it. Models and
    /// tensors on it stay.
    ///
    /// # Errors
    ///
    /// `INVALID` for a core that does not exist; `CLOSED`.
    pub fn reset_core(&self, core: Core) -> Result<(), BackendError> {
        let call = "nrt_reset_core";
        self.shared.open(call)?;
        self.shared.core(call, core)?.reset();
        Ok(())
    }

    /// What a core has done.
    ///
    /// # Errors
    ///
    /// `INVALID` for a core that does not exist; `CLOSED`.
    pub fn core_stats(&self, core: Core) -> Result<CoreStats, BackendError> {
        let call = "nrt_get_vnc_memory_stats";
        self.shared.open(call)?;
        Ok(self.shared.core(call, core)?.stats())
    }

    /// Bytes of host memory in use by tensors placed there, and the limit.
    #[must_use]
    pub fn host_memory(&self) -> MemoryStats {
        let host = &self.shared.host;
        MemoryStats::new(host.used(), host.limit())
    }

    /// What was handed out and not given back.
    #[must_use]
    pub fn live_objects(&self) -> LiveObjects {
        let registry = lock(&self.shared.registry);
        LiveObjects {
            tensors: registry.tensors.len(),
            sets: registry.sets.len(),
            models: registry.models.len(),
        }
    }

    /// Where and how a model's last execution took place; `None` before the
    /// first.
    #[must_use]
    pub fn last_run(&self, model: &SimModel) -> Option<RunReport> {
        lock(&model.inner.last_run).clone()
    }

    /// As [`load`](Backend::load), on `cores` logical cores: `nrt_load` with a
    /// `vnc_count`, which callers set to 1 or leave open.
    ///
    /// # Errors
    ///
    /// As [`load`](Backend::load).
    pub fn load_on(
        &self,
        request: &LoadRequest,
        cores: Option<u32>,
    ) -> Result<SimModel, BackendError> {
        self.shared.load(request, cores)
    }

    /// A tensor without memory: `nrt_tensor_allocate_empty`.
    ///
    /// # Errors
    ///
    /// `CLOSED`.
    pub fn allocate_empty(&self, name: &CStr) -> Result<SimTensor, BackendError> {
        self.shared.allocate_empty(name)
    }

    /// Makes `memory` the memory of a tensor: `nrt_tensor_attach_buffer`. The
    /// memory that the tensor had is freed unless a slice still shows it, and
    /// the tensor's placement is [`Placement::Virtual`] from then on.
    ///
    /// # Errors
    ///
    /// `INVALID` for memory of size 0; `INVALID_HANDLE`; `CLOSED`.
    pub fn attach(
        &self,
        tensor: &SimTensor,
        memory: Arc<dyn ExternalMemory>,
    ) -> Result<(), BackendError> {
        self.shared.attach(tensor, memory)
    }

    /// Sets `size` bytes from `offset` on to `value`: `nrt_tensor_memset`.
    ///
    /// # Errors
    ///
    /// `INVALID` when the range is not inside the tensor; `CLOSED`.
    pub fn fill(
        &self,
        tensor: &SimTensor,
        offset: usize,
        value: u8,
        size: usize,
    ) -> Result<(), BackendError> {
        self.shared.fill(tensor, offset, value, size)
    }

    /// Where on the device a tensor is: `nrt_tensor_get_device_allocation_info`.
    ///
    /// # Errors
    ///
    /// `INVALID` for a tensor that is not in device memory; `CLOSED`.
    pub fn device_allocation(
        &self,
        tensor: &SimTensor,
    ) -> Result<crate::DeviceAllocation, BackendError> {
        self.shared.device_allocation(tensor)
    }

    /// Waits until all ranks of a world have come here: `nrt_barrier`.
    ///
    /// # Errors
    ///
    /// `TIMEOUT` if not all have come within `limit`; `INVALID` for a rank that
    /// is not of the world; `CLOSED`.
    pub fn barrier(
        &self,
        context: metaneff_binding::CollectiveContext,
        limit: Option<Duration>,
    ) -> Result<(), BackendError> {
        self.shared.gather("nrt_barrier", context, &[], limit)?;
        Ok(())
    }

    /// Brings `part` together with those of the ranks of `group`, in the group's
    /// order; ranks of other groups do the same at their own time. Only calls of
    /// the same name meet.
    ///
    /// # Errors
    ///
    /// As [`barrier`](Self::barrier); `INVALID` for a rank that is not of the
    /// group.
    pub fn exchange(
        &self,
        call: &'static str,
        context: metaneff_binding::CollectiveContext,
        group: &[u32],
        part: &[u8],
        limit: Option<Duration>,
    ) -> Result<Vec<Arc<[u8]>>, BackendError> {
        self.shared
            .exchange(call, context, group.to_vec(), part, limit)
    }

    /// Brings `part` together with those of all ranks of a world, in the order
    /// of the ranks: `nrt_all_gather`.
    ///
    /// # Errors
    ///
    /// As [`barrier`](Self::barrier).
    pub fn all_gather(
        &self,
        context: metaneff_binding::CollectiveContext,
        part: &[u8],
        limit: Option<Duration>,
    ) -> Result<Vec<u8>, BackendError> {
        let parts = self.shared.gather("nrt_all_gather", context, part, limit)?;
        Ok(parts.concat())
    }
}

impl Shared {
    pub(crate) fn close(&self) {
        if !self.gate.close() {
            return;
        }
        for world in lock(&self.worlds).values() {
            world.close();
        }
        let registry = std::mem::take(&mut *lock(&self.registry));
        for tensor in registry.tensors.values() {
            tensor.reclaim();
        }
        for model in registry.models.values() {
            self.retire(model);
        }
    }

    pub(crate) fn open(&self, call: &'static str) -> Result<(), BackendError> {
        self.gate.check().map_err(|closed| closed.at(call))
    }

    pub(crate) fn core(&self, call: &'static str, core: Core) -> Result<&CoreState, BackendError> {
        let index = usize::try_from(core.index()).ok();
        let state = index.and_then(|index| self.cores.get(index));
        state.ok_or_else(|| {
            invalid(
                call,
                "vnc",
                format!("{core} does not exist, {} are visible", self.cores.len()),
            )
        })
    }

    /// Whether a handle is one of this simulator's.
    pub(crate) fn owns(
        &self,
        call: &'static str,
        owner: u64,
        what: &str,
    ) -> Result<(), BackendError> {
        if owner == self.id {
            return Ok(());
        }
        let text =
            format!("the {what} belongs to another runtime, or to this one before it was closed");
        Err(BackendError::new(call, Status::INVALID_HANDLE).because(Cause::Other(text)))
    }

    /// What every call that can fail by plan does first: it counts itself, waits
    /// as long as it is told to, and fails if it is told to.
    pub(crate) fn enter(
        &self,
        call: &'static str,
        kind: Call,
        core: Option<Core>,
        latency: Duration,
    ) -> Result<(), BackendError> {
        self.open(call)?;
        let verdict = self.faults.judge(kind, core);
        self.obey(call, core, verdict, latency, Instant::now(), None)
    }

    /// Carries out what was decided on a call that started at `start` and may
    /// take `limit`.
    pub(crate) fn obey(
        &self,
        call: &'static str,
        core: Option<Core>,
        verdict: Verdict,
        latency: Duration,
        start: Instant,
        limit: Option<Duration>,
    ) -> Result<(), BackendError> {
        let pause = verdict.delay.saturating_add(latency);
        let stop = match verdict.stop {
            Some(Stop::Hang(own)) => {
                let shortest = [own, limit].into_iter().flatten().min();
                // A limit beyond what the clock can show is none.
                let until = shortest.and_then(|limit| start.checked_add(limit));
                self.gate.sleep(until).map_err(|c| c.at(call))?;
                return Err(timeout(call, shortest.unwrap_or_default(), start));
            }
            other => other,
        };
        if pause > Duration::ZERO {
            let allowed = limit.map_or(pause, |limit| limit.min(pause));
            let until = start.checked_add(allowed);
            self.gate.sleep(until).map_err(|c| c.at(call))?;
            if let Some(limit) = limit.filter(|limit| *limit < pause) {
                return Err(timeout(call, limit, start));
            }
        }
        match stop {
            Some(Stop::Poison(status)) => {
                if let Some(core) = core {
                    self.core(call, core)?.poison(status);
                }
                Err(injected(call, status))
            }
            Some(Stop::Fail(status)) => Err(injected(call, status)),
            Some(Stop::Hang(_)) | None => Ok(()),
        }
    }
}

impl Closed {
    pub(crate) fn at(self, call: &'static str) -> BackendError {
        BackendError::new(call, Status::CLOSED)
            .because(Cause::Other("the runtime has been closed".to_owned()))
    }
}

pub(crate) fn invalid(
    call: &'static str,
    argument: &'static str,
    detail: impl Into<String>,
) -> BackendError {
    BackendError::new(call, Status::INVALID).because(Cause::Argument {
        argument,
        detail: detail.into(),
    })
}

pub(crate) fn injected(call: &'static str, status: Status) -> BackendError {
    BackendError::new(call, status).because(Cause::Other("an injected fault".to_owned()))
}

pub(crate) fn timeout(call: &'static str, limit: Duration, start: Instant) -> BackendError {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    BackendError::new(call, Status::TIMEOUT).because(Cause::Deadline {
        limit_ms: ms(limit),
        elapsed_ms: ms(start.elapsed()),
    })
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Backend for Sim {
    type Tensor = SimTensor;
    type TensorSet = SimTensorSet;
    type Model = SimModel;

    fn info(&self) -> BackendInfo {
        let topology = self.shared.topology;
        let mut info = BackendInfo::new("sim", topology.visible.count(), topology.total);
        info.version = env!("CARGO_PKG_VERSION").to_owned();
        info.location = "simulator in this process".to_owned();
        info.instance = self.shared.config.instance.to_string();
        info
    }

    fn load(&self, request: &LoadRequest) -> Result<SimModel, BackendError> {
        self.shared.load(request, None)
    }

    fn unload(&self, model: SimModel) -> Result<(), BackendError> {
        self.shared.unload(&model)
    }

    fn model_tensors(&self, model: &SimModel) -> Result<Vec<TensorInfo>, BackendError> {
        let call = "nrt_get_model_tensor_info";
        self.shared.open(call)?;
        self.shared.owns(call, model.inner.owner, "model")?;
        Ok(model.inner.tensors.clone())
    }

    fn model_core(&self, model: &SimModel) -> Result<Core, BackendError> {
        let call = "nrt_get_model_info";
        self.shared.open(call)?;
        self.shared.owns(call, model.inner.owner, "model")?;
        Ok(model.inner.core)
    }

    fn allocate(
        &self,
        placement: Placement,
        core: Core,
        size: usize,
        name: &CStr,
    ) -> Result<SimTensor, BackendError> {
        self.shared.allocate(placement, core, size, name)
    }

    fn slice(
        &self,
        tensor: &SimTensor,
        offset: usize,
        size: usize,
        name: &CStr,
    ) -> Result<SimTensor, BackendError> {
        self.shared.slice(tensor, offset, size, name)
    }

    fn free(&self, tensor: SimTensor) {
        self.shared.free(&tensor);
    }

    fn tensor_size(&self, tensor: &SimTensor) -> usize {
        tensor.size()
    }

    fn write(&self, tensor: &SimTensor, offset: usize, data: &[u8]) -> Result<(), BackendError> {
        self.shared.write(tensor, offset, data)
    }

    fn read(&self, tensor: &SimTensor, offset: usize, out: &mut [u8]) -> Result<(), BackendError> {
        self.shared.read(tensor, offset, out)
    }

    fn copy(
        &self,
        source: &SimTensor,
        source_offset: usize,
        target: &SimTensor,
        target_offset: usize,
        size: usize,
    ) -> Result<(), BackendError> {
        let from = (source, source_offset);
        self.shared.copy(from, (target, target_offset), size)
    }

    fn tensor_set(&self) -> Result<SimTensorSet, BackendError> {
        let set = SimTensorSet::new(next_id(), self.shared.id);
        let mut registry = lock(&self.shared.registry);
        self.shared.open("nrt_allocate_tensor_set")?;
        registry.sets.insert(set.id);
        Ok(set)
    }

    fn bind(
        &self,
        set: &mut SimTensorSet,
        name: &CStr,
        tensor: &SimTensor,
    ) -> Result<(), BackendError> {
        self.shared.bind(set, name, tensor)
    }

    fn destroy_set(&self, set: SimTensorSet) {
        lock(&self.shared.registry).sets.remove(&set.id);
    }

    fn execute(
        &self,
        model: &SimModel,
        inputs: &SimTensorSet,
        outputs: &mut SimTensorSet,
    ) -> Result<Completion, BackendError> {
        self.shared.execute(model, inputs, outputs)
    }

    fn memory_stats(&self, core: Core) -> Result<MemoryStats, BackendError> {
        let call = "nrt_get_vnc_memory_stats";
        self.shared.open(call)?;
        let memory = &self.shared.core(call, core)?.memory;
        Ok(MemoryStats::new(memory.used(), memory.limit()))
    }

    fn transfers(&self) -> Option<Transfers> {
        Some(self.shared.counters.transfers())
    }

    fn execution_timeout(&self) -> Option<Duration> {
        self.shared.config.execution_timeout
    }
}
