//! Loading and unloading models.

use std::ffi::CString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use metaneff_binding::{
    BackendError, Cause, CollectiveContext, Core, LoadRequest, Side, TensorInfo,
};
use metaneff_schema::nrt::Status;

use crate::fault::Call;
use crate::memory::Charge;
use crate::program::{Compiled, Package, Port, Program};
use crate::report::{RunReport, wide};
use crate::sim::{Shared, invalid, next_id};
use crate::sync::lock;
use crate::world::{MAX_WORLD_SIZE, World};

/// A loaded model: `nrt_model_t`. A clone is the same model.
#[derive(Clone, Debug)]
pub struct SimModel {
    pub(crate) inner: Arc<ModelInner>,
}

impl SimModel {
    /// Name of the model.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Number of the model, unique in this process.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// The first core that it was loaded on.
    #[must_use]
    pub fn core(&self) -> Core {
        self.inner.core
    }

    /// Logical cores that it occupies: `nrt_get_model_vnc_count`.
    #[must_use]
    pub fn core_count(&self) -> u32 {
        self.inner.cores
    }

    /// The tensors at its boundary, also after it was unloaded.
    #[must_use]
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.inner.tensors
    }

    /// Rank and world, if it was loaded with them.
    #[must_use]
    pub fn collectives(&self) -> Option<CollectiveContext> {
        self.inner.collectives
    }
}

#[derive(Debug)]
pub(crate) struct ModelInner {
    pub(crate) id: u64,
    pub(crate) owner: u64,
    pub(crate) name: String,
    pub(crate) hash: String,
    pub(crate) core: Core,
    pub(crate) cores: u32,
    pub(crate) tensors: Vec<TensorInfo>,
    pub(crate) inputs: Vec<Slot>,
    pub(crate) outputs: Vec<Slot>,
    pub(crate) program: Arc<dyn Program>,
    pub(crate) identity: u64,
    pub(crate) collectives: Option<CollectiveContext>,
    pub(crate) world: Option<Arc<World>>,
    pub(crate) last_run: Mutex<Option<RunReport>>,
    charge: Mutex<Option<Charge>>,
    unloaded: AtomicBool,
}

/// What a parameter reads or a result writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// The tensor of this name and size.
    Tensor { name: CString, bytes: usize },
    /// Nothing: the array has no elements, and the NEFF no variable for it.
    Empty,
}

impl Shared {
    pub(crate) fn load(
        &self,
        request: &LoadRequest,
        cores: Option<u32>,
    ) -> Result<SimModel, BackendError> {
        let call = if request.collectives.is_some() {
            "nrt_load_collectives"
        } else {
            "nrt_load"
        };
        self.enter(call, Call::Load, request.core, self.config.latency.load)?;
        if let Some(context) = request.collectives {
            check_rank(call, "ctx_device_id", context)?;
        }
        if let Some(core) = request.core {
            self.core(call, core)?;
        }
        let compiled = self.reader.read(request, &self.config).map_err(|refusal| {
            let detail = refusal.detail;
            BackendError::new(call, refusal.status).because(Cause::Neff { detail })
        })?;
        let refused =
            |detail| BackendError::new(call, Status::INVALID).because(Cause::Neff { detail });
        let (inputs, outputs) =
            join(&compiled.package, compiled.program.as_ref()).map_err(refused)?;
        let cores = self.cores_needed(call, &compiled.package, cores)?;
        let core = self.place(call, request.core, cores)?;
        if let Some(since) = self.core(call, core)?.poisoned() {
            let poisoned = Cause::Poisoned { core, since };
            return Err(BackendError::new(call, since).because(poisoned));
        }
        self.admit(call, request, compiled, (inputs, outputs), (core, cores))
    }

    fn admit(
        &self,
        call: &'static str,
        request: &LoadRequest,
        compiled: Compiled,
        (inputs, outputs): (Vec<Slot>, Vec<Slot>),
        (core, cores): (Core, u32),
    ) -> Result<SimModel, BackendError> {
        let package = compiled.package;
        let memory = package.scratch.saturating_add(wide(compiled.graph.len()));
        let charge = self.core(call, core)?.memory.charge(memory);
        let charge = charge.map_err(|shortage| shortage.at(call, Some(core)))?;
        let mut hasher = DefaultHasher::new();
        compiled.graph.hash(&mut hasher);
        let inner = Arc::new(ModelInner {
            id: next_id(),
            owner: self.id,
            name: package.name,
            hash: package.hash,
            core,
            cores,
            tensors: package.tensors,
            inputs,
            outputs,
            program: compiled.program,
            identity: hasher.finish(),
            collectives: request.collectives,
            world: request.collectives.map(|context| self.world(context)),
            last_run: Mutex::default(),
            charge: Mutex::new(Some(charge)),
            unloaded: AtomicBool::new(false),
        });
        let mut registry = lock(&self.registry);
        self.open(call)?;
        for core in self.span(core, cores) {
            core.add_model();
        }
        registry.models.insert(inner.id, Arc::clone(&inner));
        Ok(SimModel { inner })
    }

    pub(crate) fn unload(&self, model: &SimModel) -> Result<(), BackendError> {
        let call = "nrt_unload";
        self.open(call)?;
        self.owns(call, model.inner.owner, "model")?;
        let removed = lock(&self.registry).models.remove(&model.inner.id);
        if let Some(model) = removed {
            self.retire(&model);
        }
        // Whatever is answered, the handle is gone, and so is the model.
        let core = Some(model.inner.core);
        self.enter(call, Call::Unload, core, std::time::Duration::ZERO)
    }

    /// Gives back what a model occupies, once.
    pub(crate) fn retire(&self, model: &ModelInner) {
        if model.unloaded.swap(true, Ordering::AcqRel) {
            return;
        }
        for core in self.span(model.core, model.cores) {
            core.remove_model();
        }
        drop(lock(&model.charge).take());
    }

    pub(crate) fn world(&self, context: CollectiveContext) -> Arc<World> {
        let mut worlds = lock(&self.worlds);
        let world = worlds.entry(context.world_size).or_default();
        // Closing shuts the gate before it closes the worlds that there are.
        if self.gate.check().is_err() {
            world.close();
        }
        Arc::clone(world)
    }

    fn span(&self, core: Core, cores: u32) -> impl Iterator<Item = &crate::core::CoreState> {
        let last = core.index().saturating_add(cores);
        let range = core.index()..last;
        self.cores
            .iter()
            .filter(move |state| range.contains(&state.core.index()))
    }

    /// Logical cores for the model, which a caller may ask for too.
    fn cores_needed(
        &self,
        call: &'static str,
        package: &Package,
        asked: Option<u32>,
    ) -> Result<u32, BackendError> {
        let own = self.config.virtual_core_size;
        if package.virtual_core_size > own {
            let detail = format!(
                "compiled for logical cores of {} physical ones, the runtime's have {own}",
                package.virtual_core_size
            );
            return Err(BackendError::new(call, Status::INVALID).because(Cause::Neff { detail }));
        }
        let needed = package.physical_cores.max(1).div_ceil(own);
        match asked {
            None => Ok(needed),
            Some(count) if count >= needed && count % needed == 0 => Ok(count),
            Some(count) => Err(invalid(
                call,
                "vnc_count",
                format!("the model takes a multiple of {needed} cores, not {count}"),
            )),
        }
    }

    /// The first of `needed` cores: the one asked for, or the first that is
    /// free, or the one with the fewest models.
    fn place(
        &self,
        call: &'static str,
        asked: Option<Core>,
        needed: u32,
    ) -> Result<Core, BackendError> {
        let visible = self.topology.visible.count();
        let fits = |first: u32| first.checked_add(needed).is_some_and(|end| end <= visible);
        let found = match asked {
            Some(core) => fits(core.index()).then_some(core),
            None => {
                let candidates = self.cores.iter().filter(|state| fits(state.core.index()));
                let load = |first: Core| self.span(first, needed).map(|c| c.models()).max();
                candidates
                    .map(|state| state.core)
                    .min_by_key(|core| load(*core))
            }
        };
        found.ok_or_else(|| {
            let first = asked.map_or(0, Core::index);
            let status = Status::LOAD_NOT_ENOUGH_NC;
            BackendError::new(call, status).because(Cause::Cores {
                needed: first.saturating_add(needed),
                visible,
                total: self.topology.total,
            })
        })
    }
}

/// Whether there is such a rank in such a world.
pub(crate) fn check_rank(
    call: &'static str,
    argument: &'static str,
    context: CollectiveContext,
) -> Result<(), BackendError> {
    if context.world_size > MAX_WORLD_SIZE {
        let size = context.world_size;
        let detail = format!("a world has at most {MAX_WORLD_SIZE} ranks here, not {size}");
        return Err(invalid(call, argument, detail));
    }
    if context.rank < context.world_size {
        Ok(())
    } else {
        Err(stranger(call, argument, context))
    }
}

pub(crate) fn stranger(
    call: &'static str,
    argument: &'static str,
    context: CollectiveContext,
) -> BackendError {
    let (rank, size) = (context.rank, context.world_size);
    invalid(
        call,
        argument,
        format!("rank {rank} is not in a world of {size}"),
    )
}

/// Which tensor each parameter reads and each result writes.
///
/// The name is the key, and sizes are compared in bytes: an array of 64-bit
/// integers stands in a NEFF as twice as many 32-bit ones.
fn join(package: &Package, program: &dyn Program) -> Result<(Vec<Slot>, Vec<Slot>), String> {
    let mut findings = Vec::new();
    let mut side = |side: Side, ports: &[Port]| {
        let mut variables: Vec<&TensorInfo> =
            package.tensors.iter().filter(|t| t.side == side).collect();
        let mut slots = Vec::with_capacity(ports.len());
        for port in ports {
            let at = variables.iter().position(|info| info.name == port.name);
            let slot = match at.map(|at| variables.swap_remove(at)) {
                None if port.bytes == 0 => Some(Slot::Empty),
                None => {
                    findings.push(format!(
                        "{side} `{}` of the graph is not in the NEFF",
                        port.name
                    ));
                    None
                }
                Some(info) if info.size != port.bytes => {
                    findings.push(format!(
                        "{side} `{}` has {} bytes in the NEFF, {} in the graph",
                        port.name, info.size, port.bytes
                    ));
                    None
                }
                Some(_) => match CString::new(port.name.as_str()) {
                    Ok(name) => Some(Slot::Tensor {
                        name,
                        bytes: port.bytes,
                    }),
                    Err(_) => {
                        findings.push(format!("{side} name {:?} has a zero byte", port.name));
                        None
                    }
                },
            };
            slots.extend(slot);
        }
        for info in variables {
            findings.push(format!(
                "{side} `{}` of the NEFF is not in the graph",
                info.name
            ));
        }
        slots
    };
    let inputs = side(Side::Input, program.inputs());
    let outputs = side(Side::Output, program.outputs());
    if findings.is_empty() {
        Ok((inputs, outputs))
    } else {
        Err(format!(
            "NEFF and graph do not fit: {}",
            findings.join("; ")
        ))
    }
}
