//! How a simulator is set up.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use metaneff_hlo::CustomCalls;
use metaneff_hlo::options::{Denormals, DotRounding, NanPolicy, NarrowReduce, OobPolicy, Rewrites};
use metaneff_schema::cores::{CoreRange, CoreRangeError};
use metaneff_schema::nrt::Status;

use crate::environment::VariableError;
use crate::fault::FaultPlan;
use crate::instance::{Instance, Profile};
#[cfg(doc)]
use crate::memory::ALIGNMENT;
use crate::process::{GraphSource, ProcessSettings};
use crate::sim::Sim;

/// Time limit of an execution on Trn1 and Inf2 unless configured otherwise:
/// `NEURON_RT_EXEC_TIMEOUT` in the runtime's developer guide.
pub const DEFAULT_EXECUTION_TIMEOUT: Duration = Duration::from_secs(600);

/// Largest tensor in host memory: one page of physical memory, 4 MiB, by the
/// runtime's developer guide (`nrt_tensor_allocate`).
pub const HOST_TENSOR_LIMIT: u64 = 4 << 20;

/// How numbers are computed. Part of every [`RunReport`](crate::RunReport).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Numerics {
    /// When a NaN makes an execution answer status 1003.
    pub nan_policy: NanPolicy,
    /// What an index outside its array does; `Strict` answers status 1006.
    pub oob_policy: OobPolicy,
    /// What becomes of denormal numbers.
    pub denormals: Denormals,
    /// Rounding of the operands of matrix products.
    pub dot_rounding: DotRounding,
    /// How reductions accumulate types narrower than 32 bits.
    pub narrow_reduce: NarrowReduce,
    /// Whether a compiler's rewrites that change results count.
    pub rewrites: Rewrites,
    /// Seed of the numbers that `rng` draws.
    pub rng_seed: u64,
}

/// Time that calls take in addition to what they really take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Latency {
    /// Of one execution.
    pub execute: Duration,
    /// Of loading a model.
    pub load: Duration,
    /// Of one read, write or copy.
    pub transfer: Duration,
}

impl Latency {
    /// No additional time.
    pub const NONE: Self = Self {
        execute: Duration::ZERO,
        load: Duration::ZERO,
        transfer: Duration::ZERO,
    };

    /// With this time for an execution.
    #[must_use]
    pub const fn execute(mut self, time: Duration) -> Self {
        self.execute = time;
        self
    }

    /// With this time for a load.
    #[must_use]
    pub const fn load(mut self, time: Duration) -> Self {
        self.load = time;
        self
    }

    /// With this time for a read, write or copy.
    #[must_use]
    pub const fn transfer(mut self, time: Duration) -> Self {
        self.transfer = time;
        self
    }
}

/// What happens when a core that executes is asked to execute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Concurrency {
    /// Executions run at the same time, each on its own thread.
    #[default]
    Shared,
    /// The second one answers `NRT_EXEC_NC_BUSY` (1005).
    Exclusive,
}

/// What happens to names in a tensor set that the model does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExtraNames {
    /// The execution answers `NRT_INVALID`.
    #[default]
    Refuse,
    /// Nothing.
    Ignore,
}

/// Everything a simulator is set up with, checked.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) instance: Instance,
    pub(crate) virtual_core_size: u32,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) host_memory_limit: u64,
    pub(crate) numerics: Numerics,
    pub(crate) custom_calls: CustomCalls,
    pub(crate) step_budget: Option<u64>,
    pub(crate) compute_memory_limit: Option<usize>,
    pub(crate) latency: Latency,
    pub(crate) execution_timeout: Option<Duration>,
    pub(crate) faults: FaultPlan,
    pub(crate) concurrency: Concurrency,
    pub(crate) extra_names: ExtraNames,
    pub(crate) validate_hash: bool,
    pub(crate) allow_legacy_neff: bool,
    pub(crate) input_dump: Option<InputDump>,
    pub(crate) devices: Option<u32>,
    pub(crate) graphs: Option<Arc<dyn GraphSource>>,
}

/// Writes an execution's inputs to files when it ends in a certain status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InputDump {
    pub(crate) status: Status,
    pub(crate) directory: PathBuf,
}

impl Config {
    pub(crate) fn profile(&self) -> Profile {
        self.instance.profile()
    }

    /// Bytes of device memory of one logical core.
    pub(crate) fn memory_per_core(&self) -> u64 {
        let physical = self.profile().memory_per_core;
        self.memory_limit
            .unwrap_or(physical * u64::from(self.virtual_core_size))
    }
}

/// Sets up a [`Sim`].
///
/// # Examples
///
/// ```
/// use metaneff_backend_sim::{Instance, Sim};
/// use metaneff_binding::Backend;
///
/// let sim = Sim::builder()
///     .instance(Instance::Trn2_48xlarge)
///     .visible_cores("8-11".parse()?)
///     .memory_limit(1 << 20)
///     .build()?;
/// let info = sim.info();
/// assert_eq!((info.visible_cores, info.total_cores), (4, 64));
/// assert!(!info.device);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct SimBuilder {
    config: Config,
    virtual_core_size: Option<u32>,
    visible: Option<CoreRange>,
    core_count: u32,
    process: ProcessSettings,
}

/// Why a simulator cannot be set up so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The visible cores are not the instance's.
    #[error("visible cores: {0}")]
    Cores(#[from] CoreRangeError),
    /// Physical cores cannot be joined so.
    #[error("{instance} cannot join {requested} physical cores to one, only {supported}")]
    VirtualCoreSize {
        /// The instance type.
        instance: Instance,
        /// What was asked for.
        requested: u32,
        /// What there is.
        supported: &'static str,
    },
    /// An environment variable cannot be read.
    #[error(transparent)]
    Variable(#[from] VariableError),
}

impl ConfigError {
    /// What `nrt_init` answers to such a set-up.
    #[must_use]
    pub const fn status(&self) -> Status {
        Status::INVALID
    }
}

/// The cores of a simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Topology {
    /// Chips that the process can open.
    pub chips: u32,
    /// Logical cores of the instance: `nrt_get_total_vnc_count`.
    pub total: u32,
    /// The logical cores that the process sees: `nrt_get_visible_vnc_count`.
    pub visible: CoreRange,
    /// Physical cores that make one logical core.
    pub virtual_core_size: u32,
}

impl Default for SimBuilder {
    fn default() -> Self {
        Self {
            config: Config {
                instance: Instance::Trn1_2xlarge,
                virtual_core_size: 1,
                memory_limit: None,
                host_memory_limit: u64::MAX,
                numerics: Numerics::default(),
                custom_calls: CustomCalls::default(),
                step_budget: None,
                compute_memory_limit: None,
                latency: Latency::NONE,
                execution_timeout: Some(DEFAULT_EXECUTION_TIMEOUT),
                faults: FaultPlan::new(),
                concurrency: Concurrency::default(),
                extra_names: ExtraNames::default(),
                validate_hash: false,
                allow_legacy_neff: false,
                input_dump: None,
                devices: None,
                graphs: None,
            },
            process: ProcessSettings::default(),
            virtual_core_size: None,
            visible: None,
            core_count: 0,
        }
    }
}

impl SimBuilder {
    /// The instance type; [`Instance::Trn1_2xlarge`] unless set.
    pub const fn instance(mut self, instance: Instance) -> Self {
        self.config.instance = instance;
        self
    }

    /// The logical cores that the process sees, all of them unless set. Core 0
    /// of the simulator is the first of these.
    pub const fn visible_cores(mut self, cores: CoreRange) -> Self {
        self.visible = Some(cores);
        self
    }

    /// The number of cores that the process sees, from the first on; 0 means
    /// all. [`visible_cores`](Self::visible_cores) wins over it.
    pub const fn core_count(mut self, count: u32) -> Self {
        self.core_count = count;
        self
    }

    /// Physical cores that make one logical core (LNC): 1, or 2 on Trn2 and
    /// Trn3, whose default is 2.
    pub const fn virtual_core_size(mut self, size: u32) -> Self {
        self.virtual_core_size = Some(size);
        self
    }

    /// Bytes of device memory of each logical core, instead of the instance's.
    /// Rounded down to a multiple of [`ALIGNMENT`].
    pub const fn memory_limit(mut self, bytes: u64) -> Self {
        self.config.memory_limit = Some(bytes);
        self
    }

    /// Bytes of host memory for tensors placed there; no limit unless set.
    /// Rounded down to a multiple of [`ALIGNMENT`].
    pub const fn host_memory_limit(mut self, bytes: u64) -> Self {
        self.config.host_memory_limit = bytes;
        self
    }

    /// When a NaN makes an execution answer status 1003.
    pub const fn nan_policy(mut self, policy: NanPolicy) -> Self {
        self.config.numerics.nan_policy = policy;
        self
    }

    /// What an index outside its array does.
    pub const fn oob_policy(mut self, policy: OobPolicy) -> Self {
        self.config.numerics.oob_policy = policy;
        self
    }

    /// What becomes of denormal numbers.
    pub const fn denormals(mut self, denormals: Denormals) -> Self {
        self.config.numerics.denormals = denormals;
        self
    }

    /// Rounding of the operands of matrix products.
    pub const fn dot_rounding(mut self, rounding: DotRounding) -> Self {
        self.config.numerics.dot_rounding = rounding;
        self
    }

    /// How reductions accumulate types narrower than 32 bits. A device's vector
    /// engine does so in 32 bits, which is the default.
    pub const fn narrow_reduce(mut self, narrow_reduce: NarrowReduce) -> Self {
        self.config.numerics.narrow_reduce = narrow_reduce;
        self
    }

    /// Whether a compiler's rewrites that change results count. A device
    /// executes what its own compiler made of the graph; which rewrites that
    /// does is not public.
    pub const fn rewrites(mut self, rewrites: Rewrites) -> Self {
        self.config.numerics.rewrites = rewrites;
        self
    }

    /// Seed of the numbers that the opcode `rng` draws, 0 unless set: every
    /// execution draws the same ones. What a device draws is not public, so
    /// that no seed gives its numbers.
    pub const fn rng_seed(mut self, seed: u64) -> Self {
        self.config.numerics.rng_seed = seed;
        self
    }

    /// Targets of custom calls, [`CustomCalls::default`] unless set. On a
    /// device a target is part of the compiled program, and the compiler
    /// refuses those it does not know; here the graph is executed, and a target
    /// that is not public, such as a kernel of one's own, has to be given.
    ///
    /// # Examples
    ///
    /// ```
    /// use metaneff_backend_sim::{CustomCalls, Sim};
    ///
    /// let mut targets = CustomCalls::default();
    /// targets.register("Twice", |call, results| {
    ///     let [input] = call.operands else {
    ///         return Err(call.mismatch("number of operands", 1, call.operands.len()));
    ///     };
    ///     for (out, x) in results[0].values_mut::<f32>()?.iter_mut().zip(input.values::<f32>()?) {
    ///         *out = 2.0 * x;
    ///     }
    ///     Ok(())
    /// });
    /// let sim = Sim::builder().custom_calls(targets).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn custom_calls(mut self, targets: CustomCalls) -> Self {
        self.config.custom_calls = targets;
        self
    }

    /// Host memory, in bytes, that the intermediate values of one execution may
    /// take; no limit unless set. An execution that needs more answers
    /// `NRT_FAIL_HOST_MEM_ALLOC` and names the instruction.
    pub const fn compute_memory_limit(mut self, bytes: usize) -> Self {
        self.config.compute_memory_limit = Some(bytes);
        self
    }

    /// Instructions that one execution may take, loop bodies counted each time;
    /// no limit unless set. An execution that takes more answers
    /// `NRT_TIMEOUT`.
    pub const fn step_budget(mut self, steps: u64) -> Self {
        self.config.step_budget = Some(steps);
        self
    }

    /// Time that calls take in addition.
    pub const fn latency(mut self, latency: Latency) -> Self {
        self.config.latency = latency;
        self
    }

    /// Time limit of one execution, [`DEFAULT_EXECUTION_TIMEOUT`] unless set;
    /// `None` for no limit. An execution that takes longer answers
    /// `NRT_TIMEOUT`.
    pub const fn execution_timeout(mut self, limit: Option<Duration>) -> Self {
        self.config.execution_timeout = limit;
        self
    }

    /// Faults to show.
    pub fn faults(mut self, plan: FaultPlan) -> Self {
        self.config.faults = plan;
        self
    }

    /// What happens when a core that executes is asked to execute.
    pub const fn concurrency(mut self, concurrency: Concurrency) -> Self {
        self.config.concurrency = concurrency;
        self
    }

    /// What happens to names in a tensor set that the model does not have.
    pub const fn extra_names(mut self, extra_names: ExtraNames) -> Self {
        self.config.extra_names = extra_names;
        self
    }

    /// Whether loading compares a NEFF's hash with its data.
    pub const fn validate_hash(mut self, validate: bool) -> Self {
        self.config.validate_hash = validate;
        self
    }

    /// Whether a NEFF for another architecture is loaded all the same.
    pub const fn allow_legacy_neff(mut self, allow: bool) -> Self {
        self.config.allow_legacy_neff = allow;
        self
    }

    /// Writes the inputs of every execution that ends in `status` to a new
    /// folder in `directory`: `input{i}.bin` and `model_name.txt`, as
    /// `NEURON_RT_DBG_DUMP_INPUTS_ON_ERR` asks of the runtime.
    pub fn dump_inputs(mut self, status: Status, directory: impl Into<PathBuf>) -> Self {
        self.config.input_dump = Some(InputDump {
            status,
            directory: directory.into(),
        });
        self
    }

    /// Chips that the process can open, where it is not all of the instance's:
    /// a container may be given a part. More than there are count as all.
    pub const fn devices(mut self, count: u32) -> Self {
        self.config.devices = Some(count);
        self
    }

    /// Where to look for the graph of a NEFF that carries none and is loaded
    /// without one.
    pub fn graph_source(mut self, source: Arc<dyn GraphSource>) -> Self {
        self.config.graphs = Some(source);
        self
    }

    /// How many cores the process sees, where it asks for a number of them and
    /// leaves open which: the first ones, unless another process owns those.
    #[must_use]
    pub const fn requested_cores(&self) -> Option<u32> {
        match (self.visible, self.core_count) {
            (Some(_), _) | (None, 0) => None,
            (None, count) => Some(count),
        }
    }

    /// Settings of the process around the simulator.
    #[must_use]
    pub const fn process_settings(&self) -> &ProcessSettings {
        &self.process
    }

    pub(crate) fn process(mut self, set: impl FnOnce(&mut ProcessSettings)) -> Self {
        set(&mut self.process);
        self
    }

    /// The instance type that is set.
    #[must_use]
    pub const fn chosen_instance(&self) -> Instance {
        self.config.instance
    }

    /// The cores that a simulator set up so would have. `nrt_init` is not
    /// needed to ask for them.
    ///
    /// # Errors
    ///
    /// [`ConfigError`].
    pub fn topology(&self) -> Result<Topology, ConfigError> {
        let instance = self.config.instance;
        let profile = instance.profile();
        let size = self.virtual_core_size.unwrap_or(profile.virtual_core_size);
        let supported = if profile.virtual_core_size == 1 {
            "1"
        } else {
            "1 or 2"
        };
        if size == 0 || size > profile.virtual_core_size {
            return Err(ConfigError::VirtualCoreSize {
                instance,
                requested: size,
                supported,
            });
        }
        let per_chip = profile.physical_cores / profile.chips;
        let chips = self
            .config
            .devices
            .map_or(profile.chips, |d| d.min(profile.chips));
        let total = per_chip * chips / size;
        Ok(Topology {
            chips,
            total,
            visible: CoreRange::choose(self.visible, self.core_count, total)?,
            virtual_core_size: size,
        })
    }

    /// Starts the simulator.
    ///
    /// # Errors
    ///
    /// [`ConfigError`].
    pub fn build(self) -> Result<Sim, ConfigError> {
        let topology = self.topology()?;
        Ok(Sim::start(self.resolved(topology), topology))
    }

    pub(crate) fn resolved(self, topology: Topology) -> Config {
        let mut config = self.config;
        config.virtual_core_size = topology.virtual_core_size;
        config
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }
}
