//! The one runtime of the process: from `nrt_init` to `nrt_close`, and again.

use std::collections::BTreeMap;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use metaneff_backend_sim::{
    Framework, Instance, Legality, Lifecycle, ProcessSettings, Sim, SimBuilder, SimTensor,
    SimTensorSet, Topology,
};
use metaneff_binding::{
    Backend as _, BackendError, Cause, CollectiveContext, Completion, Core, Side,
};
use metaneff_schema::nrt::Status;

use crate::api::asynchronous::experimental::Callback;
use crate::export::{failed, failure, invalid};
use crate::handles::{self, Model};
use crate::locks::{Owned, Taken};
use crate::search::Search;
use crate::sendrecv::Network;
use crate::streams::Streams;
use crate::trace::{self, Recorder};
use crate::units::{self, Units};
use crate::{log, stack};

static LIFECYCLE: Lifecycle = Lifecycle::new();
static CURRENT: RwLock<Option<Arc<Runtime>>> = RwLock::new(None);

/// Held while the runtime comes or goes.
static CHANGE: Mutex<()> = Mutex::new(());

/// The process that has the runtime; 0 where there is none.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// What there is between `nrt_init` and `nrt_close`.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) sim: Arc<Sim>,
    pub(crate) settings: ProcessSettings,
    pub(crate) units: Units,
    pub(crate) recorder: Recorder,
    pub(crate) streams: Streams,
    pub(crate) network: Network,
    /// Told of executions that no one waits for.
    pub(crate) callback: Mutex<Option<Callback>>,
    /// What each core is of the world that was built for it.
    pub(crate) ranks: Mutex<BTreeMap<u32, CollectiveContext>>,
    locks: Mutex<Option<Owned>>,
}

/// The runtime, for the exported function `call`.
///
/// # Errors
///
/// `UNINITIALIZED` before `nrt_init` and in a process that was forked after it,
/// `CLOSED` after `nrt_close`.
pub(crate) fn current(call: &'static str) -> Result<Arc<Runtime>, BackendError> {
    check_process(call)?;
    let current = CURRENT.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = &*current {
        return Ok(Arc::clone(runtime));
    }
    drop(current);
    LIFECYCLE.runtime(call)?;
    // Between the two, the runtime is just coming.
    Err(failure(call, Status::UNINITIALIZED))
}

/// Refuses calls that the state of the process does not allow, for functions
/// that need no runtime to do their work.
pub(crate) fn check(call: &'static str) -> Result<(), BackendError> {
    check_process(call)?;
    match Legality::of(call).refusal(LIFECYCLE.state()) {
        Some(status) => Err(failure(call, status)),
        None => Ok(()),
    }
}

/// A child cannot use what its parent initialised: locks may be held by threads
/// that the child does not have. Takes no lock itself.
fn check_process(call: &'static str) -> Result<(), BackendError> {
    let parent = OWNER.load(Ordering::Acquire);
    let child = process::id();
    if parent == 0 || parent == child {
        return Ok(());
    }
    Err(failure(call, Status::UNINITIALIZED).because(Cause::Forked { parent, child }))
}

fn change() -> MutexGuard<'static, ()> {
    CHANGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A simulator set up by the environment.
pub(crate) fn builder(call: &'static str) -> Result<SimBuilder, BackendError> {
    SimBuilder::from_environment()
        .map_err(|error| failure(call, Status::INVALID).because(Cause::Other(error.to_string())))
}

/// `nrt_init`.
pub(crate) fn init(call: &'static str, framework: u32) -> Result<(), BackendError> {
    check_process(call)?;
    let _change = change();
    log::configure();
    let builder = builder(call)?;
    let settings = builder.process_settings().clone();
    log::set(settings.log_level);
    let (locks, builder) = own(call, builder)?;
    let builder = builder.graph_source(Arc::new(Search::new(settings.graph_path.clone())));
    let sim = LIFECYCLE.init(Framework(framework), builder)?;
    OWNER.store(process::id(), Ordering::Release);
    let topology = sim.topology();
    log::info(format_args!(
        "simulating {}, cores {} of {}; no Neuron device takes part",
        sim.instance(),
        topology.visible,
        topology.total
    ));
    let runtime = Arc::new(Runtime {
        streams: Streams::new(settings.debug_events),
        sim,
        settings,
        units: Units::default(),
        recorder: Recorder::new(),
        network: Network::default(),
        callback: Mutex::default(),
        ranks: Mutex::default(),
        locks: Mutex::new(locks),
    });
    *CURRENT.write().unwrap_or_else(PoisonError::into_inner) = Some(runtime);
    Ok(())
}

/// Takes the cores that the builder asks for, where processes share an instance.
fn own(
    call: &'static str,
    builder: SimBuilder,
) -> Result<(Option<Owned>, SimBuilder), BackendError> {
    // What is initialised already has its cores, and is told so.
    let initialised = LIFECYCLE.runtime(call).is_ok();
    let Some(directory) = builder.process_settings().lock_directory.clone() else {
        return Ok((None, builder));
    };
    if initialised {
        return Ok((None, builder));
    }
    let topology = of_builder(call, &builder)?;
    let taken = match builder.requested_cores() {
        None => Owned::take(&directory, topology.visible).map(|owned| (owned, builder.clone())),
        Some(count) => Owned::take_free(&directory, count, topology.total)
            .map(|(owned, range)| (owned, builder.clone().visible_cores(range))),
    };
    match taken {
        Ok((owned, builder)) => Ok((Some(owned), builder)),
        Err(taken) => {
            let status = match taken {
                Taken::By { .. } => Status::EXEC_NC_BUSY,
                Taken::Unusable(_) => Status::FAILURE,
            };
            Err(failed(call, status, taken.to_string()))
        }
    }
}

/// `nrt_close`.
pub(crate) fn close(call: &'static str) -> Result<(), BackendError> {
    check_process(call)?;
    let change = change();
    let runtime = CURRENT
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let Some(runtime) = runtime else {
        return Ok(());
    };
    let live = runtime.sim.live_objects();
    LIFECYCLE.close();
    handles::forget();
    runtime.streams.close();
    runtime.network.close();
    drop(lock(&runtime.locks).take());
    // A child that is forked from now on shares nothing with this process.
    OWNER.store(0, Ordering::Release);
    // A callback may close the runtime too while this waits for it.
    drop(change);
    runtime.units.close();
    log::info(format_args!("closed; {live:?} were live"));
    Ok(())
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The instance: the runtime's, else what the environment asks for.
pub(crate) fn instance(call: &'static str) -> Result<Instance, BackendError> {
    match current(call) {
        Ok(runtime) => Ok(runtime.sim.instance()),
        Err(_) => Ok(builder(call)?.chosen_instance()),
    }
}

/// Chips that the process can open.
pub(crate) fn chips(call: &'static str) -> Result<u32, BackendError> {
    Ok(topology(call)?.chips)
}

/// The cores: the runtime's, else those that the environment asks for.
pub(crate) fn topology(call: &'static str) -> Result<Topology, BackendError> {
    if let Ok(runtime) = current(call) {
        return Ok(runtime.sim.topology());
    }
    of_builder(call, &builder(call)?)
}

fn of_builder(call: &'static str, builder: &SimBuilder) -> Result<Topology, BackendError> {
    let topology = builder.topology();
    topology.map_err(|error| failed(call, error.status(), error.to_string()))
}

/// A core's index among the visible ones, from C.
pub(crate) fn core(
    call: &'static str,
    argument: &'static str,
    vnc: i32,
) -> Result<Core, BackendError> {
    u32::try_from(vnc)
        .map(Core::new)
        .map_err(|_| invalid(call, argument, format!("there is no core {vnc}")))
}

/// The status that a result stands for.
pub(crate) fn status_of(result: &Result<Status, BackendError>) -> Status {
    match result {
        Ok(status) => *status,
        Err(error) => error.status(),
    }
}

/// What some result stands for, where nothing but failure has a status.
pub(crate) fn outcome_of<T>(result: &Result<T, BackendError>) -> Status {
    match result {
        Ok(_) => Status::SUCCESS,
        Err(error) => error.status(),
    }
}

impl Runtime {
    /// Executes a model once, on sets that no one else changes.
    pub(crate) fn execute(
        &self,
        model: &Model,
        inputs: &SimTensorSet,
        outputs: &mut SimTensorSet,
    ) -> Result<Status, BackendError> {
        let model = &model.model;
        let describe = |_: &_| {
            let outputs = model
                .tensors()
                .iter()
                .filter(|info| info.side == Side::Output);
            let bytes = outputs.map(|info| info.size).sum();
            (
                model.core().index(),
                identity(model.id()),
                model.name().to_owned(),
                bytes,
            )
        };
        let result = self
            .recorder
            .span(trace::Kind::Execute, describe, status_of, || {
                let completion = stack::roomy(|| self.sim.execute(model, inputs, outputs))?;
                Ok(match completion {
                    Completion::Clean => Status::SUCCESS,
                    Completion::NumericalError => Status::EXEC_COMPLETED_WITH_NUM_ERR,
                })
            });
        if result.is_ok() {
            self.streams.outputs(model, outputs);
        }
        result
    }

    /// Reads bytes of a tensor.
    pub(crate) fn read(
        &self,
        tensor: &SimTensor,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), BackendError> {
        let size = out.len();
        let work = || self.sim.read(tensor, offset, out);
        self.recorder.span(
            trace::Kind::Read,
            |_| described(tensor, size),
            outcome_of,
            work,
        )
    }

    /// Writes bytes of a tensor.
    pub(crate) fn write(
        &self,
        tensor: &SimTensor,
        offset: usize,
        data: &[u8],
    ) -> Result<(), BackendError> {
        let size = data.len();
        let work = || self.sim.write(tensor, offset, data);
        self.recorder.span(
            trace::Kind::Write,
            |_| described(tensor, size),
            outcome_of,
            work,
        )
    }

    /// Waits for executions that no one waited for, which may use any tensor.
    pub(crate) fn settle(&self) {
        if self.settings.inflight_limit.is_none() {
            return;
        }
        for core in 0..self.sim.topology().visible.count() {
            self.units.drain(core, units::Kind::Implicit, false);
        }
    }
}

/// A tensor as a trace has it.
fn described(tensor: &SimTensor, size: usize) -> (u32, usize, String, usize) {
    let name = tensor.name().to_string_lossy().into_owned();
    (tensor.core().index(), 0, name, size)
}

/// A model's identity in traces.
pub(crate) fn identity(id: u64) -> usize {
    usize::try_from(id).unwrap_or(usize::MAX)
}
