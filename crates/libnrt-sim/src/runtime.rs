//! The one runtime of the process: from `nrt_init` to `nrt_close`, and again.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use metaneff_backend_sim::{
    Framework, Instance, Legality, Lifecycle, Sim, SimBuilder, SimTensorSet, Topology,
};
use metaneff_binding::{Backend as _, BackendError, Cause, Completion, Core};
use metaneff_schema::nrt::Status;

use crate::export::{failure, invalid};
use crate::handles::{self, Model};
use crate::log;

/// A stack with less left than this is not computed on.
const RED_ZONE: usize = 512 << 10;

/// The stack that is made instead.
const STACK: usize = 16 << 20;

static LIFECYCLE: Lifecycle = Lifecycle::new();
static CURRENT: RwLock<Option<Arc<Runtime>>> = RwLock::new(None);

/// Held while the runtime comes or goes.
static CHANGE: Mutex<()> = Mutex::new(());

/// The process that initialised the runtime; 0 before.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// What there is between `nrt_init` and `nrt_close`.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) sim: Arc<Sim>,
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
    let sim = LIFECYCLE.init(Framework(framework), builder)?;
    OWNER.store(process::id(), Ordering::Release);
    let topology = sim.topology();
    log::info(format_args!(
        "simulating {}, cores {} of {}; no Neuron device takes part",
        sim.instance(),
        topology.visible,
        topology.total
    ));
    let runtime = Arc::new(Runtime { sim });
    *CURRENT.write().unwrap_or_else(PoisonError::into_inner) = Some(runtime);
    Ok(())
}

/// `nrt_close`.
pub(crate) fn close(call: &'static str) -> Result<(), BackendError> {
    check_process(call)?;
    let _change = change();
    let runtime = CURRENT
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    LIFECYCLE.close();
    if let Some(runtime) = runtime {
        handles::forget();
        log::info(format_args!(
            "closed; {:?} were live",
            runtime.sim.live_objects()
        ));
    }
    Ok(())
}

/// The instance: the runtime's, else what the environment asks for.
pub(crate) fn instance(call: &'static str) -> Result<Instance, BackendError> {
    match current(call) {
        Ok(runtime) => Ok(runtime.sim.instance()),
        Err(_) => Ok(builder(call)?.chosen_instance()),
    }
}

/// The cores: the runtime's, else those that the environment asks for.
pub(crate) fn topology(call: &'static str) -> Result<Topology, BackendError> {
    if let Ok(runtime) = current(call) {
        return Ok(runtime.sim.topology());
    }
    builder(call)?
        .topology()
        .map_err(|error| failure(call, error.status()).because(Cause::Other(error.to_string())))
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

/// Computes on a stack that is large enough, whoever calls.
pub(crate) fn roomy<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(RED_ZONE, STACK, work)
}

impl Runtime {
    /// Executes a model once, on sets that no one else changes.
    pub(crate) fn execute(
        &self,
        model: &Model,
        inputs: &SimTensorSet,
        outputs: &mut SimTensorSet,
    ) -> Result<Status, BackendError> {
        let completion = roomy(|| self.sim.execute(&model.model, inputs, outputs))?;
        Ok(match completion {
            Completion::Clean => Status::SUCCESS,
            Completion::NumericalError => Status::EXEC_COMPLETED_WITH_NUM_ERR,
        })
    }
}
