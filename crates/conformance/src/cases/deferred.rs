//! Loads that fail or do not end: at once, in the background, at the first use.

use std::time::Duration;

use metaneff_binding::{
    Artifact, Backend, Core, LoadError, LoadOptions, LoadState, SharedRuntime, Waited,
};
use metaneff_schema::nrt::Status;

use crate::case::{Case, Failure, Setup, equal, holds, refused};
use crate::models::{Must as _, subtract};

/// Time that a load may take at most: it fails the case.
const LONG: Duration = Duration::from_secs(30);

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    const POLICY: &str = "page 6, lazy_load and async_load; user need 64";
    vec![
        Case::new(
            "load/lazy/error",
            "a lazy model that cannot be loaded says so at its first use, and at each after",
            POLICY,
            lazy_error,
        ),
        Case::new(
            "load/policy/at_once",
            "a model without a policy is loaded when it is opened, or is not opened",
            POLICY,
            at_once,
        ),
        Case::new(
            "load/background/gives_back",
            "a load in the background that fails gives the unloaded model back",
            POLICY,
            gives_back,
        ),
        Case::new(
            "load/background/hangs",
            "a load that does not end is waited for no longer than its limit",
            "user need 7",
            hangs,
        )
        .with(Setup::ONE_CORE.environment(&[("METANEFF_SIM_FAULTS", "load@1=hang:2s")])),
    ]
}

fn lazy() -> Result<Artifact, Failure> {
    let edited = subtract()?.edit(|document| {
        document.set_lazy_load(true);
        Ok(())
    });
    edited.must()
}

/// A core that no target has.
fn nowhere() -> LoadOptions {
    LoadOptions::new().on(Core::new(999))
}

fn core_refused(error: &LoadError) -> Result<(), Failure> {
    match error {
        LoadError::Backend(error) => equal("the status", error.status(), Status::INVALID),
        other => Err(Failure::new(format!("expected a status, found {other}"))),
    }
}

fn lazy_error<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let model = runtime.prepare(&lazy()?, nowhere()).open().must()?;
    let first = refused("core 999", model.get())?;
    core_refused(&first)?;
    let second = refused("core 999 again", model.get())?.to_string();
    equal("the second error", second, first.to_string())?;
    equal("the state", model.state(), LoadState::Failed)
}

fn at_once<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let artifact = subtract()?;
    let model = runtime
        .prepare(&artifact, LoadOptions::new())
        .open()
        .must()?;
    equal("the state", model.state(), LoadState::Ready)?;
    let rejected = refused("core 999", runtime.prepare(&artifact, nowhere()).open())?;
    let (unloaded, _) = rejected.into_parts();
    equal(
        "the contract",
        unloaded.artifact().contract().id(),
        artifact.contract().id(),
    )
}

fn gives_back<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let rejected = refused(
        "core 999",
        runtime.prepare(&subtract()?, nowhere()).start().wait(),
    )?;
    core_refused(rejected.reason())?;
    let (unloaded, _) = rejected.into_parts();
    refused("core 999 again", unloaded.load()).map(drop)
}

fn hangs<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let loading = runtime.prepare(&subtract()?, LoadOptions::new()).start();
    let loading = match loading.wait_for(Duration::from_millis(20)) {
        Waited::Loading(loading) => loading,
        Waited::Ready(_) => return Err(Failure::new("it was loaded at once")),
        Waited::Failed(rejected) => return Err(Failure::new(rejected.reason().to_string())),
    };
    // The load ends with the runtime's own limit.
    match loading.wait_for(LONG) {
        Waited::Failed(rejected) => holds(
            "the runtime gave up",
            matches!(rejected.reason(), LoadError::Backend(_)),
        ),
        Waited::Ready(_) => Err(Failure::new("it was loaded after all")),
        Waited::Loading(_) => Err(Failure::new("it is still being loaded")),
    }
}
