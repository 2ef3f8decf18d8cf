//! When a model is loaded.

use std::sync::Arc;

use bytes::Bytes;
use metaneff_binding::{
    Artifact, Backend, Call, Checkpoint, Contract, ContractOptions, Core, HostTensor, LoadError,
    LoadOptions, LoadState, Model, Observed, Recorder, SharedRuntime, UnloadError,
};
use metaneff_schema::metaneff::ModelConfig;
use metaneff_schema::nrt::Status;

use super::roles::safetensors;
use crate::case::{Case, Failure, Setup, equal, holds, refused};
use crate::models::{Must as _, read_floats, subtract, weighted};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    vec![
        Case::new(
            "load/policy/lazy",
            "ten first uses at once load a lazy model once",
            "user need 64",
            lazy,
        ),
        Case::new(
            "load/policy/background_error",
            "the error of a background load answers the first use and every other",
            "user need 64",
            background_error,
        ),
        Case::new(
            "load/policy/background",
            "a model that is loaded in the background is used as any other",
            "page 7",
            background,
        ),
        Case::new(
            "load/policy/unload",
            "a model is unloaded, stays so while it is in use, and comes back",
            "page 7",
            unload,
        ),
        Case::new(
            "load/policy/placement",
            "a prepared model goes to the core that it is told",
            "page 7, set_neuron_devices",
            placement,
        )
        .with(Setup::TWO_CORES),
        Case::new(
            "load/policy/checkpoint",
            "a checkpoint is part of the load",
            "user need 58",
            checkpoint,
        ),
    ]
}

fn observed<B: Backend>(backend: B) -> (SharedRuntime<Observed<B>>, Recorder) {
    let (backend, recorder) = Observed::new(backend);
    (SharedRuntime::new(backend), recorder)
}

fn calls(recorder: &Recorder, call: Call) -> u64 {
    let report = recorder.report();
    report.calls.get(&call).map_or(0, |calls| calls.count)
}

fn difference<B: Backend>(model: &Model<'static, B>) -> Result<Vec<f32>, Failure> {
    let mut session = model.session().must()?;
    let tensor = |key: &str, values: [f32; 2]| {
        let tensor = HostTensor::from_vec([2], values.to_vec()).must()?;
        session.slot(key).must()?.validate(tensor).must()
    };
    let inputs = [tensor("a", [5.0, 1.0])?, tensor("b", [2.0, 4.0])?];
    let executed = session.bind(inputs).must()?.execute(()).must()?;
    read_floats(&executed.tolerate_nan().into_outputs(), 0)
}

fn edited(set: impl FnOnce(&mut metaneff_schema::Document)) -> Result<Artifact, Failure> {
    let edited = subtract()?.edit(|metaneff| {
        set(metaneff);
        Ok(())
    });
    edited.must()
}

fn lazy<B: Backend>(backend: B) -> Result<(), Failure> {
    let (runtime, recorder) = observed(backend);
    let artifact = edited(|metaneff| metaneff.set_lazy_load(true))?;
    let model = runtime
        .prepare(&artifact, LoadOptions::new())
        .open()
        .must()?;
    equal(
        "loads before the first use",
        calls(&recorder, Call::Load),
        0,
    )?;
    equal("state", model.state(), LoadState::Unloaded)?;
    let results = std::thread::scope(|scope| {
        let users: Vec<_> = (0..10)
            .map(|_| scope.spawn(|| difference(&model.get().must()?)))
            .collect();
        let join = |user: std::thread::ScopedJoinHandle<'_, Result<Vec<f32>, Failure>>| {
            let panicked = |_| Failure::new("a user panicked");
            user.join().map_err(panicked)?
        };
        users.into_iter().map(join).collect::<Result<Vec<_>, _>>()
    })?;
    equal("a - b", results, vec![vec![3.0, -3.0]; 10])?;
    equal(
        "loads after ten first uses",
        calls(&recorder, Call::Load),
        1,
    )
}

fn background_error<B: Backend>(backend: B) -> Result<(), Failure> {
    let good = subtract()?;
    let Some(document) = good.metaneff() else {
        return Err(Failure::new("the artifact has no metaneff"));
    };
    let mut message = document.message()?;
    message.model_config = Some(ModelConfig {
        async_load: true,
        ..ModelConfig::default()
    });
    let contract = Contract::new(&message, &ContractOptions::new()).must()?;
    let corrupt = Artifact::from_contract(Bytes::from_static(b"no NEFF"), contract);
    let runtime = SharedRuntime::new(backend);
    let model = runtime
        .prepare(&corrupt, LoadOptions::new())
        .open()
        .must()?;
    for _ in 0..2 {
        match refused("a corrupt NEFF", model.get())? {
            LoadError::Backend(error) => equal("status", error.status(), Status::INVALID)?,
            other => return Err(Failure::new(other.to_string())),
        }
    }
    equal("state", model.state(), LoadState::Failed)?;
    // The runtime goes on.
    let good = runtime.load(&good, Core::new(0)).must()?;
    equal("a - b", difference(&good)?, vec![3.0, -3.0])
}

fn background<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let artifact = edited(|metaneff| metaneff.set_async_load(true))?;
    let model = runtime
        .prepare(&artifact, LoadOptions::new())
        .open()
        .must()?;
    equal("a - b", difference(&model.get().must()?)?, vec![3.0, -3.0])?;
    equal("state", model.state(), LoadState::Ready)?;
    let loading = runtime.prepare(&artifact, LoadOptions::new()).start();
    equal(
        "a - b",
        difference(&loading.wait().must()?)?,
        vec![3.0, -3.0],
    )
}

fn unload<B: Backend>(backend: B) -> Result<(), Failure> {
    let (runtime, recorder) = observed(backend);
    let model = runtime
        .prepare(&subtract()?, LoadOptions::new())
        .open()
        .must()?;
    let session = model.get().must()?.session().must()?;
    let error = refused("a model in use", model.unload())?;
    holds("it is in use", error == UnloadError::InUse)?;
    drop(session);
    model.unload().must()?;
    equal("unloads", calls(&recorder, Call::Unload), 1)?;
    equal("state", model.state(), LoadState::Unloaded)?;
    equal("a - b", difference(&model.get().must()?)?, vec![3.0, -3.0])?;
    equal("loads", calls(&recorder, Call::Load), 2)
}

fn placement<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    for core in [Core::new(1), Core::new(0)] {
        let options = LoadOptions::new().on(core);
        let model = runtime.prepare(&subtract()?, options).load().must()?;
        equal("core", model.core(), core)?;
        equal("a - b", difference(&model)?, vec![3.0, -3.0])?;
    }
    Ok(())
}

fn checkpoint<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let file = safetensors(&[("layer.weight", [2.0, 3.0])]);
    let file = Arc::new(Checkpoint::from_bytes(file).must()?);
    let unloaded = runtime
        .prepare(&weighted()?, LoadOptions::new())
        .with_checkpoint(file);
    let model = unloaded.start().wait().must()?;
    let mut session = model.session().must()?;
    let x = HostTensor::from_vec([2], vec![5.0_f32, 7.0]).must()?;
    let x = session.slot("x").must()?.validate(x).must()?;
    let executed = session.bind([x]).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    equal("x * w", read_floats(&outputs, 0)?, vec![10.0, 21.0])
}
