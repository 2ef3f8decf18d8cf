//! A backend in host memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metaneff_schema::nrt::Status;

use crate::backend::{
    Backend, BackendInfo, Completion, Core, LoadRequest, MemoryStats, Placement, TensorInfo,
    Transfers,
};
use crate::error::{BackendError, Cause};

type Memory = Arc<Mutex<Vec<u8>>>;
type Program = dyn Fn(&mut Launch) + Send + Sync;

/// A backend in host memory that executes a closure.
///
/// Clones share one state, so that a test can look at what its runtime has left
/// behind.
///
/// # Examples
///
/// ```
/// use metaneff_binding::testing::{Fake, add_model};
/// use metaneff_binding::{Core, Runtime};
///
/// let fake = Fake::new();
/// let runtime = Runtime::new(fake.clone());
/// let model = runtime.load(&add_model(), Core::new(0))?;
/// let session = model.session()?;
/// assert_eq!(fake.live().tensors, 3);
/// drop((session, model));
/// assert!(fake.live().is_empty());
/// # Ok::<(), metaneff_binding::Error>(())
/// ```
#[derive(Clone)]
pub struct Fake {
    state: Arc<Mutex<State>>,
    program: Arc<Program>,
    tensors: Option<Arc<[TensorInfo]>>,
    limit: Option<u64>,
}

#[derive(Default)]
struct State {
    next: u64,
    live: BTreeSet<u64>,
    live_counts: Live,
    used: u64,
    calls: Vec<String>,
    /// Fallible calls until one fails, and its status.
    failure: Option<(u64, Status)>,
    transfers: Transfers,
}

/// Objects that a backend has given out and not got back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Live {
    /// Tensors, slices included.
    pub tensors: usize,
    /// Tensor sets.
    pub sets: usize,
    /// Models.
    pub models: usize,
}

impl Live {
    /// Whether everything was given back.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// One execution, as the program of a [`Fake`] sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Launch {
    /// Bytes of the inputs, by name.
    pub inputs: BTreeMap<String, Vec<u8>>,
    /// Bytes of the outputs, by name; what is in them now is what the launch
    /// before has left.
    pub outputs: BTreeMap<String, Vec<u8>>,
    /// How the execution ends; outputs are written on completion only.
    pub status: Status,
}

impl Launch {
    /// The elements of an `f32` input; empty if there is no such input.
    #[must_use]
    pub fn f32s(&self, input: &str) -> Vec<f32> {
        let bytes = self.inputs.get(input).map_or(&[][..], Vec::as_slice);
        <f32 as crate::Element>::collect(bytes)
    }

    /// Sets an output to `f32` elements.
    pub fn set_f32s(&mut self, output: &str, elements: &[f32]) {
        let bytes = <f32 as crate::Element>::bytes(elements).to_vec();
        self.outputs.insert(output.to_owned(), bytes);
    }
}

/// A tensor of a [`Fake`].
#[derive(Debug)]
pub struct FakeTensor {
    id: u64,
    name: CString,
    memory: Memory,
    offset: usize,
    size: usize,
    accounted: u64,
}

/// A tensor set of a [`Fake`].
#[derive(Debug)]
pub struct FakeSet {
    entries: BTreeMap<CString, (u64, Memory)>,
}

/// A model of a [`Fake`].
#[derive(Debug)]
pub struct FakeModel {
    core: Core,
}

impl Default for Fake {
    fn default() -> Self {
        Self::new()
    }
}

impl Fake {
    /// A backend whose models write the sum of all their `f32` inputs to
    /// `output0`.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: Arc::default(),
            program: Arc::new(sum),
            tensors: None,
            limit: None,
        }
    }

    /// Sets what its models do.
    #[must_use]
    pub fn with_program(mut self, program: impl Fn(&mut Launch) + Send + Sync + 'static) -> Self {
        self.program = Arc::new(program);
        self
    }

    /// Sets what its models say of their tensors; else it answers as a library
    /// without that function.
    #[must_use]
    pub fn with_tensors(mut self, tensors: Vec<TensorInfo>) -> Self {
        self.tensors = Some(tensors.into());
        self
    }

    /// Sets the bytes that all tensors may take.
    #[must_use]
    pub fn with_memory(mut self, limit: u64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Makes the call after the next `calls` fallible ones fail with `status`.
    pub fn fail_after(&self, calls: u64, status: Status) {
        self.lock().failure = Some((calls, status));
    }

    /// Takes a failure back that has not happened.
    pub fn recover(&self) {
        self.lock().failure = None;
    }

    /// What has been given out and not been given back.
    #[must_use]
    pub fn live(&self) -> Live {
        self.lock().live_counts
    }

    /// The calls since the last time this was asked, such as `write input0`.
    #[must_use]
    pub fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().calls)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a call, and fails it if it is its turn.
    fn call(
        &self,
        function: &'static str,
        text: impl FnOnce() -> String,
    ) -> Result<MutexGuard<'_, State>, BackendError> {
        let mut state = self.lock();
        state.calls.push(text());
        match &mut state.failure {
            Some((0, status)) => {
                let status = *status;
                state.failure = None;
                Err(BackendError::new(function, status))
            }
            Some((left, _)) => {
                *left -= 1;
                Ok(state)
            }
            None => Ok(state),
        }
    }
}

fn sum(launch: &mut Launch) {
    let mut total: Vec<f32> = Vec::new();
    let names: Vec<String> = launch.inputs.keys().cloned().collect();
    for name in names {
        let elements = launch.f32s(&name);
        total.resize(elements.len().max(total.len()), 0.0);
        for (sum, element) in total.iter_mut().zip(elements) {
            *sum += element;
        }
    }
    launch.set_f32s("output0", &total);
}

fn bytes_of(memory: &Memory) -> MutexGuard<'_, Vec<u8>> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

fn argument(function: &'static str, argument: &'static str, detail: String) -> BackendError {
    BackendError::new(function, Status::INVALID).because(Cause::Argument { argument, detail })
}

impl FakeTensor {
    fn range(
        &self,
        function: &'static str,
        offset: usize,
        size: usize,
    ) -> Result<std::ops::Range<usize>, BackendError> {
        offset
            .checked_add(size)
            .filter(|&end| end <= self.size)
            .map(|end| self.offset + offset..self.offset + end)
            .ok_or_else(|| argument(function, "offset", format!("{offset} + {size}")))
    }
}

impl Backend for Fake {
    type Tensor = FakeTensor;
    type TensorSet = FakeSet;
    type Model = FakeModel;

    fn info(&self) -> BackendInfo {
        BackendInfo::new("fake", 8, 8)
    }

    fn load(&self, request: &LoadRequest) -> Result<FakeModel, BackendError> {
        let mut state = self.call("nrt_load", || "load".to_owned())?;
        state.live_counts.models += 1;
        Ok(FakeModel {
            core: request.core.unwrap_or(Core::new(0)),
        })
    }

    fn unload(&self, _model: FakeModel) -> Result<(), BackendError> {
        let mut state = self.lock();
        state.calls.push("unload".to_owned());
        state.live_counts.models -= 1;
        Ok(())
    }

    fn model_tensors(&self, _model: &FakeModel) -> Result<Vec<TensorInfo>, BackendError> {
        match &self.tensors {
            Some(tensors) => Ok(tensors.to_vec()),
            None => Err(
                BackendError::new("nrt_get_model_tensor_info", Status::FAILURE).because(
                    Cause::MissingSymbol {
                        symbol: "nrt_get_model_tensor_info",
                        library: "fake".to_owned(),
                    },
                ),
            ),
        }
    }

    fn model_core(&self, model: &FakeModel) -> Result<Core, BackendError> {
        Ok(model.core)
    }

    fn allocate(
        &self,
        _placement: Placement,
        core: Core,
        size: usize,
        name: &CStr,
    ) -> Result<FakeTensor, BackendError> {
        let function = "nrt_tensor_allocate";
        let mut state = self.call(function, || format!("allocate {}", name.to_string_lossy()))?;
        if size == 0 {
            return Err(argument(function, "size", "0".to_owned()));
        }
        let requested = size as u64;
        if let Some(limit) = self.limit
            && state.used.saturating_add(requested) > limit
        {
            return Err(
                BackendError::new(function, Status::RESOURCE).because(Cause::Memory {
                    core: Some(core),
                    requested,
                    used: state.used,
                    limit,
                }),
            );
        }
        let mut memory = Vec::new();
        if memory.try_reserve_exact(size).is_err() {
            return Err(BackendError::new(function, Status::FAIL_HOST_MEM_ALLOC)
                .because(Cause::Other(format!("{size} bytes requested of the host"))));
        }
        memory.resize(size, 0);
        state.used += requested;
        state.transfers.allocations += 1;
        Ok(state.give(name, Arc::new(Mutex::new(memory)), 0, size, requested))
    }

    fn slice(
        &self,
        tensor: &FakeTensor,
        offset: usize,
        size: usize,
        name: &CStr,
    ) -> Result<FakeTensor, BackendError> {
        let function = "nrt_tensor_allocate_slice";
        let mut state = self.call(function, || format!("slice {}", name.to_string_lossy()))?;
        let range = tensor.range(function, offset, size)?;
        Ok(state.give(name, Arc::clone(&tensor.memory), range.start, size, 0))
    }

    fn free(&self, tensor: FakeTensor) {
        let mut state = self.lock();
        state
            .calls
            .push(format!("free {}", tensor.name.to_string_lossy()));
        state.live.remove(&tensor.id);
        state.live_counts.tensors -= 1;
        state.used -= tensor.accounted;
    }

    fn tensor_size(&self, tensor: &FakeTensor) -> usize {
        tensor.size
    }

    fn write(&self, tensor: &FakeTensor, offset: usize, data: &[u8]) -> Result<(), BackendError> {
        let function = "nrt_tensor_write";
        let mut state = self.call(function, || {
            format!("write {}", tensor.name.to_string_lossy())
        })?;
        let range = tensor.range(function, offset, data.len())?;
        bytes_of(&tensor.memory)[range].copy_from_slice(data);
        state.transfers.writes += 1;
        state.transfers.host_to_device += data.len() as u64;
        Ok(())
    }

    fn read(&self, tensor: &FakeTensor, offset: usize, out: &mut [u8]) -> Result<(), BackendError> {
        let function = "nrt_tensor_read";
        let mut state = self.call(function, || {
            format!("read {}", tensor.name.to_string_lossy())
        })?;
        let range = tensor.range(function, offset, out.len())?;
        out.copy_from_slice(&bytes_of(&tensor.memory)[range]);
        state.transfers.reads += 1;
        state.transfers.device_to_host += out.len() as u64;
        Ok(())
    }

    fn copy(
        &self,
        source: &FakeTensor,
        source_offset: usize,
        target: &FakeTensor,
        target_offset: usize,
        size: usize,
    ) -> Result<(), BackendError> {
        let function = "nrt_tensor_copy";
        let mut state = self.call(function, || "copy".to_owned())?;
        let from = source.range(function, source_offset, size)?;
        let to = target.range(function, target_offset, size)?;
        let data = bytes_of(&source.memory)[from].to_vec();
        bytes_of(&target.memory)[to].copy_from_slice(&data);
        state.transfers.copies += 1;
        state.transfers.device_to_device += size as u64;
        Ok(())
    }

    fn tensor_set(&self) -> Result<FakeSet, BackendError> {
        let mut state = self.call("nrt_allocate_tensor_set", || "tensor_set".to_owned())?;
        state.live_counts.sets += 1;
        Ok(FakeSet {
            entries: BTreeMap::new(),
        })
    }

    fn bind(
        &self,
        set: &mut FakeSet,
        name: &CStr,
        tensor: &FakeTensor,
    ) -> Result<(), BackendError> {
        let function = "nrt_add_tensor_to_tensor_set";
        let mut state = self.call(function, || format!("bind {}", name.to_string_lossy()))?;
        set.entries
            .insert(name.to_owned(), (tensor.id, Arc::clone(&tensor.memory)));
        state.transfers.binds += 1;
        Ok(())
    }

    fn destroy_set(&self, _set: FakeSet) {
        let mut state = self.lock();
        state.calls.push("destroy_set".to_owned());
        state.live_counts.sets -= 1;
    }

    fn execute(
        &self,
        _model: &FakeModel,
        inputs: &FakeSet,
        outputs: &mut FakeSet,
    ) -> Result<Completion, BackendError> {
        let function = "nrt_execute";
        let live = self.call(function, || "execute".to_owned())?.live.clone();
        let gather = |set: &FakeSet| {
            set.entries
                .iter()
                .map(|(name, (id, memory))| {
                    let name = name.to_string_lossy().into_owned();
                    if live.contains(id) {
                        Ok((name, bytes_of(memory).clone()))
                    } else {
                        Err(BackendError::new(function, Status::INVALID_HANDLE).because(
                            Cause::Binding {
                                name,
                                detail: "the tensor was freed".to_owned(),
                            },
                        ))
                    }
                })
                .collect::<Result<BTreeMap<_, _>, _>>()
        };
        let mut launch = Launch {
            inputs: gather(inputs)?,
            outputs: gather(outputs)?,
            status: Status::SUCCESS,
        };
        (self.program)(&mut launch);
        let finished =
            launch.status.is_completed() || launch.status == Status::EXEC_COMPLETED_WITH_ERR;
        if finished {
            for (name, (_, memory)) in &outputs.entries {
                if let Some(bytes) = launch.outputs.get(name.to_string_lossy().as_ref()) {
                    bytes_of(memory).copy_from_slice(bytes);
                }
            }
        }
        match launch.status {
            Status::SUCCESS => {
                self.lock().transfers.executions += 1;
                Ok(Completion::Clean)
            }
            Status::EXEC_COMPLETED_WITH_NUM_ERR => {
                self.lock().transfers.executions += 1;
                Ok(Completion::NumericalError)
            }
            status => Err(BackendError::new(function, status)),
        }
    }

    fn memory_stats(&self, _core: Core) -> Result<MemoryStats, BackendError> {
        Ok(MemoryStats::new(
            self.lock().used,
            self.limit.unwrap_or(u64::MAX),
        ))
    }

    fn transfers(&self) -> Option<Transfers> {
        Some(self.lock().transfers)
    }
}

impl State {
    fn give(
        &mut self,
        name: &CStr,
        memory: Memory,
        offset: usize,
        size: usize,
        accounted: u64,
    ) -> FakeTensor {
        self.next += 1;
        self.live.insert(self.next);
        self.live_counts.tensors += 1;
        FakeTensor {
            id: self.next,
            name: name.to_owned(),
            memory,
            offset,
            size,
            accounted,
        }
    }
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fake")
            .field("live", &self.live())
            .finish_non_exhaustive()
    }
}
