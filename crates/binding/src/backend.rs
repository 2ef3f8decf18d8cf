//! What a runtime has to offer: the [`Backend`] trait.
//!
//! A backend speaks the vocabulary of libnrt and nothing more. It hands out
//! opaque handles and takes them back; who owns a handle, when it is given back
//! and in which order is the business of the layer above, which wraps every
//! handle once (see [`DeviceTensor`](crate::DeviceTensor) and
//! [`Model`](crate::Model)). That layer also checks all that it can know: names,
//! dtypes, shapes, byte ranges, ordinals. A backend checks what only it can
//! know: cores, memory, the state of the device, and that a handle is its own.
//!
//! Source of every call: `nrt.h` and `nrt_status.h` of the public Neuron
//! headers; each method names the C function that it stands for.

use std::ffi::CStr;
use std::fmt::Debug;
use std::time::Duration;

use bytes::Bytes;
use metaneff_schema::nrt::NrtDtype;

use crate::error::BackendError;

/// A NeuronCore, counted within the cores that the process can see.
///
/// Core 0 is the first visible core, whatever `NEURON_RT_VISIBLE_CORES` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Core(u32);

impl Core {
    /// The core with this index among the visible ones.
    #[must_use]
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The index among the visible cores.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0
    }
}

impl std::fmt::Display for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "core {}", self.0)
    }
}

/// Where a tensor's memory lives: `nrt_tensor_placement_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Placement {
    /// High-bandwidth memory of a core (0).
    Device,
    /// Host memory that the device can reach (1).
    Host,
    /// Ordinary host memory, associated with a core (2).
    Virtual,
}

impl Placement {
    /// The number in the C interface.
    #[must_use]
    pub const fn code(self) -> i32 {
        match self {
            Self::Device => 0,
            Self::Host => 1,
            Self::Virtual => 2,
        }
    }
}

/// Which side of a model a tensor stands on: `nrt_tensor_usage_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a model has these two and no others"
)]
pub enum Side {
    /// The model reads it.
    Input,
    /// The model writes it.
    Output,
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Input => "input",
            Self::Output => "output",
        })
    }
}

/// How an execution ended that did end.
///
/// Status 1003 is a completion: the outputs are valid to read, and at least one
/// of them holds a NaN (`NRT_EXEC_COMPLETED_WITH_NUM_ERR` of `nrt_status.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
#[expect(
    clippy::exhaustive_enums,
    reason = "the runtime has these two and callers match on both"
)]
pub enum Completion {
    /// Status 0.
    Clean,
    /// Status 1003: an output holds a NaN.
    NumericalError,
}

/// One tensor at a loaded model's boundary, as the runtime reports it
/// (`nrt_get_model_tensor_info`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorInfo {
    /// Name in the model's variable table; the key in a tensor set.
    pub name: String,
    /// Which side it stands on.
    pub side: Side,
    /// Size in bytes.
    pub size: usize,
    /// Element type as the runtime reports it. Every 8-bit float is reported as
    /// [`NrtDtype::INT8`], and outputs may be [`NrtDtype::UNKNOWN`].
    pub dtype: NrtDtype,
    /// Dimensions, outermost first.
    pub shape: Vec<u32>,
}

impl TensorInfo {
    /// Describes one tensor.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        side: Side,
        size: usize,
        dtype: NrtDtype,
        shape: Vec<u32>,
    ) -> Self {
        Self {
            name: name.into(),
            side,
            size,
            dtype,
            shape,
        }
    }
}

/// Which backend this is and what it sees. Proof of where a run happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackendInfo {
    /// Short name: `sim`, `nrt`, a mock's own.
    pub name: &'static str,
    /// Whether a Neuron device executes, as far as the backend can tell. The
    /// simulator says `false`; libnrt says `true`, also where a simulator stands
    /// behind its C interface.
    pub device: bool,
    /// Version of the runtime, in its own words.
    pub version: String,
    /// The library's path, or what else stands behind the backend.
    pub location: String,
    /// Instance or device family, such as `trn1.2xlarge`; empty if unknown.
    pub instance: String,
    /// Cores that this process can use.
    pub visible_cores: u32,
    /// Cores of the whole instance.
    pub total_cores: u32,
}

impl BackendInfo {
    /// Describes a backend that sees `visible_cores` of `total_cores`.
    #[must_use]
    pub fn new(name: &'static str, visible_cores: u32, total_cores: u32) -> Self {
        Self {
            name,
            device: false,
            version: String::new(),
            location: String::new(),
            instance: String::new(),
            visible_cores,
            total_cores,
        }
    }
}

/// Device memory of one core (`nrt_get_vnc_memory_stats`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Bytes in use.
    pub used: u64,
    /// Bytes that can be used in all.
    pub limit: u64,
}

impl MemoryStats {
    /// `used` of `limit` bytes.
    #[must_use]
    pub const fn new(used: u64, limit: u64) -> Self {
        Self { used, limit }
    }
}

/// Rank and size of the world that a model's collectives span
/// (`nrt_load_collectives`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectiveContext {
    /// This model's rank in the world: `ctx_device_id`.
    pub rank: u32,
    /// Ranks in the world: `ctx_device_count`.
    pub world_size: u32,
}

impl CollectiveContext {
    /// Rank `rank` of `world_size`.
    #[must_use]
    pub const fn new(rank: u32, world_size: u32) -> Self {
        Self { rank, world_size }
    }
}

/// What to load, and where.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadRequest {
    /// The whole NEFF, header included.
    pub neff: Bytes,
    /// The graph that the NEFF was compiled from, an `HloModuleProto`, where the
    /// caller has it. Libnrt has no use for it; the simulator executes it when
    /// the NEFF carries none.
    pub graph: Option<Bytes>,
    /// The core to load on, or `None` for the first that is free.
    pub core: Option<Core>,
    /// Set for a model whose collectives span several ranks.
    pub collectives: Option<CollectiveContext>,
}

impl LoadRequest {
    /// Loads `neff` on the first free core.
    #[must_use]
    pub const fn new(neff: Bytes) -> Self {
        Self {
            neff,
            graph: None,
            core: None,
            collectives: None,
        }
    }

    /// Names the core.
    #[must_use]
    pub const fn on(mut self, core: Core) -> Self {
        self.core = Some(core);
        self
    }

    /// Adds the graph that the NEFF was compiled from.
    #[must_use]
    pub fn with_graph(mut self, graph: Bytes) -> Self {
        self.graph = Some(graph);
        self
    }

    /// Makes the model one rank of a world.
    #[must_use]
    pub const fn with_collectives(mut self, context: CollectiveContext) -> Self {
        self.collectives = Some(context);
        self
    }
}

/// A runtime that loads and executes compiled models.
///
/// Every method takes `&self` and may be called from several threads at once;
/// [`execute`](Self::execute) in particular holds no lock while the device runs,
/// or collectives between models of one process would deadlock.
///
/// # Handles
///
/// Handles are given back by exactly one call of the matching method. A handle
/// that is dropped without it leaks until the backend is closed; it never frees
/// memory that is still in use. Closing the backend (dropping it) reclaims
/// everything.
///
/// # Errors
///
/// A [`BackendError`] names the call and carries the [`Status`](metaneff_schema::nrt::Status) together with
/// what the backend knows of the reason. No method panics on a bad argument.
pub trait Backend: Debug + Send + Sync + 'static {
    /// Device memory or host memory that the device reaches: `nrt_tensor_t`.
    type Tensor: Debug + Send + Sync + 'static;
    /// Names bound to tensors: `nrt_tensor_set_t`.
    type TensorSet: Debug + Send + Sync + 'static;
    /// A loaded model: `nrt_model_t`.
    type Model: Debug + Send + Sync + 'static;

    /// Which backend this is and what it sees.
    fn info(&self) -> BackendInfo;

    /// Loads a model: `nrt_load`, or `nrt_load_collectives` when the request has
    /// a world.
    ///
    /// The backend checks the NEFF's gates and the core. Loading one rank of a
    /// world does not wait for the others.
    ///
    /// # Errors
    ///
    /// `INVALID` for a NEFF or core that is not valid, `LOAD_NOT_ENOUGH_NC`,
    /// `UNSUPPORTED_NEFF_VERSION`, `RESOURCE`.
    fn load(&self, request: &LoadRequest) -> Result<Self::Model, BackendError>;

    /// Unloads a model: `nrt_unload`.
    ///
    /// # Errors
    ///
    /// What the runtime answers; the handle is gone all the same.
    fn unload(&self, model: Self::Model) -> Result<(), BackendError>;

    /// The tensors at a model's boundary: `nrt_get_model_tensor_info`.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE` for a model that is not this backend's.
    fn model_tensors(&self, model: &Self::Model) -> Result<Vec<TensorInfo>, BackendError>;

    /// The core that a model was loaded on: `nrt_get_model_info`.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE` for a model that is not this backend's.
    fn model_core(&self, model: &Self::Model) -> Result<Core, BackendError>;

    /// Allocates `size` zeroed bytes: `nrt_tensor_allocate`.
    ///
    /// `name` is for people; the key in a tensor set decides a binding.
    ///
    /// # Errors
    ///
    /// `INVALID` for size 0 or a core that does not exist; `RESOURCE` with the
    /// bytes requested, used and available.
    fn allocate(
        &self,
        placement: Placement,
        core: Core,
        size: usize,
        name: &CStr,
    ) -> Result<Self::Tensor, BackendError>;

    /// A view of part of a tensor, sharing its memory: `nrt_tensor_allocate_slice`.
    /// View and parent may be freed in either order.
    ///
    /// # Errors
    ///
    /// `INVALID` when the range is empty or not inside `tensor`.
    fn slice(
        &self,
        tensor: &Self::Tensor,
        offset: usize,
        size: usize,
        name: &CStr,
    ) -> Result<Self::Tensor, BackendError>;

    /// Gives a tensor back: `nrt_tensor_free`. No tensor set that is used again
    /// may still name it.
    fn free(&self, tensor: Self::Tensor);

    /// Size of a tensor in bytes: `nrt_tensor_get_size`.
    fn tensor_size(&self, tensor: &Self::Tensor) -> usize;

    /// Copies `data` into a tensor from byte `offset` on: `nrt_tensor_write`.
    ///
    /// # Errors
    ///
    /// `INVALID` when the range is not inside the tensor.
    fn write(&self, tensor: &Self::Tensor, offset: usize, data: &[u8]) -> Result<(), BackendError>;

    /// Copies bytes of a tensor from `offset` on into `out`: `nrt_tensor_read`.
    ///
    /// # Errors
    ///
    /// `INVALID` when the range is not inside the tensor.
    fn read(
        &self,
        tensor: &Self::Tensor,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), BackendError>;

    /// Copies between tensors without the host: `nrt_tensor_copy`.
    ///
    /// # Errors
    ///
    /// `INVALID` when a range is not inside its tensor, or two device tensors
    /// are on different cores.
    fn copy(
        &self,
        source: &Self::Tensor,
        source_offset: usize,
        target: &Self::Tensor,
        target_offset: usize,
        size: usize,
    ) -> Result<(), BackendError>;

    /// A new, empty tensor set: `nrt_allocate_tensor_set`.
    ///
    /// # Errors
    ///
    /// What the runtime answers.
    fn tensor_set(&self) -> Result<Self::TensorSet, BackendError>;

    /// Binds `name` to `tensor`, replacing what it was bound to:
    /// `nrt_add_tensor_to_tensor_set`. The set refers to the tensor and does not
    /// keep it alive.
    ///
    /// # Errors
    ///
    /// What the runtime answers.
    fn bind(
        &self,
        set: &mut Self::TensorSet,
        name: &CStr,
        tensor: &Self::Tensor,
    ) -> Result<(), BackendError>;

    /// Gives a tensor set back: `nrt_destroy_tensor_set`. Its tensors are not
    /// touched, and may be gone already.
    fn destroy_set(&self, set: Self::TensorSet);

    /// Executes a model: `nrt_execute`. Returns when the outputs are written.
    ///
    /// The same tensor may stand in both sets: the output then takes the input's
    /// place.
    ///
    /// # Errors
    ///
    /// Any status but success and 1003. After an error with a completion status
    /// the outputs may be read all the same.
    fn execute(
        &self,
        model: &Self::Model,
        inputs: &Self::TensorSet,
        outputs: &mut Self::TensorSet,
    ) -> Result<Completion, BackendError>;

    /// Memory of a core: `nrt_get_vnc_memory_stats`.
    ///
    /// # Errors
    ///
    /// `INVALID` for a core that does not exist; a backend without the call says
    /// which symbol is missing.
    fn memory_stats(&self, core: Core) -> Result<MemoryStats, BackendError>;

    /// What the backend has moved so far, where it counts.
    fn transfers(&self) -> Option<Transfers> {
        None
    }

    /// The time limit of one execution, where the backend has one.
    fn execution_timeout(&self) -> Option<Duration> {
        None
    }
}

/// Bytes and calls that a backend has moved since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transfers {
    /// Bytes written from host to tensors.
    pub host_to_device: u64,
    /// Bytes read from tensors to host.
    pub device_to_host: u64,
    /// Bytes copied between tensors.
    pub device_to_device: u64,
    /// Calls of [`Backend::write`].
    pub writes: u64,
    /// Calls of [`Backend::read`].
    pub reads: u64,
    /// Calls of [`Backend::copy`].
    pub copies: u64,
    /// Calls of [`Backend::bind`].
    pub binds: u64,
    /// Calls of [`Backend::execute`] that completed.
    pub executions: u64,
    /// Tensors allocated, slices included.
    pub allocations: u64,
}
