//! What a backend tells of itself, of its models, and of what it moved.

use metaneff_binding::{Backend, Core, LoadRequest, Side};
use metaneff_schema::xla::PrimitiveType::F32;

use crate::bench::Bench;
use crate::case::{Case, Failure, Setup, equal, holds};
use crate::graph::Graph;
use crate::models::{Must as _, accumulate, identity, pack, subtract};
use crate::raw::{CORE, Raw, allocate, invalid};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    const INFO: &str = "nrt.h, nrt_get_model_tensor_info";
    const COUNTED: &str = "user need 58, counters";
    vec![
        Case::new(
            "info/cores/visible",
            "visible cores count from 0 within those that were chosen",
            "user need 10",
            chosen,
        )
        .with(Setup::ONE_CORE.environment(&[("NEURON_RT_VISIBLE_CORES", "1")])),
        Case::new(
            "info/cores/range",
            "a range of cores is visible, and numbered from 0",
            "user need 10",
            range,
        )
        .with(Setup::TWO_CORES.environment(&[
            ("METANEFF_SIM_INSTANCE", "trn1.32xlarge"),
            ("NEURON_RT_VISIBLE_CORES", "4-5"),
        ])),
        Case::new(
            "info/cores/list",
            "a list of cores is visible, and numbered from 0",
            "user need 10",
            range,
        )
        .with(Setup::TWO_CORES.environment(&[
            ("METANEFF_SIM_INSTANCE", "trn1.32xlarge"),
            ("NEURON_RT_VISIBLE_CORES", "6,7"),
        ])),
        Case::new(
            "info/version/told",
            "a backend tells version, place and instance",
            "user needs 26, 31",
            |b| {
                let info = b.info();
                holds("a version", !info.version.is_empty())?;
                holds("a place", !info.location.is_empty())?;
                holds("an instance", !info.instance.is_empty())
            },
        ),
        Case::new(
            "info/tensors/scalar",
            "a scalar is reported as one element",
            "nrt.h, nrt_get_model_tensor_info",
            scalar,
        ),
        Case::new(
            "info/tensors/empty",
            "a tensor without elements is not reported",
            "nrt.h, nrt_get_model_tensor_info",
            empty,
        ),
        Case::new(
            "info/tensors/state",
            "an aliased state is reported on both sides",
            INFO,
            state,
        ),
        Case::new(
            "info/tensors/repeated",
            "asking twice answers the same, and asking costs no memory",
            INFO,
            repeated,
        ),
        Case::new(
            "info/memory/limit",
            "memory in use is no more than there is",
            "nrt.h, nrt_get_vnc_memory_stats",
            |b| {
                let stats = b.memory_stats(CORE)?;
                holds("used is at most the limit", stats.used <= stats.limit)?;
                holds("there is memory", stats.limit > 0)
            },
        ),
        Case::new(
            "info/memory/no_core",
            "memory of a core that is none is refused",
            "user need 4",
            |b| invalid("core 1 of 1", b.memory_stats(Core::new(1))),
        ),
        Case::new(
            "info/memory/model",
            "a loaded model takes memory, and an unloaded one none",
            "nrt.h, nrt_get_vnc_memory_stats",
            model_memory,
        ),
        Case::new(
            "info/counted/transfers",
            "writes, reads and copies are counted in calls and bytes",
            COUNTED,
            transfers,
        ),
        Case::new(
            "info/counted/launch",
            "a launch moves its inputs and nothing else",
            COUNTED,
            launch,
        ),
        Case::new(
            "info/counted/refused",
            "what is refused is not counted",
            COUNTED,
            uncounted,
        ),
        Case::new(
            "info/timeout/none_or_positive",
            "a limit of an execution is a time or none",
            "runtime configuration guide, NEURON_RT_EXEC_TIMEOUT",
            |b| {
                holds(
                    "it is not 0",
                    b.execution_timeout().is_none_or(|limit| !limit.is_zero()),
                )
            },
        ),
    ]
}

fn chosen<B: Backend>(backend: B) -> Result<(), Failure> {
    let info = backend.info();
    equal("visible", info.visible_cores, 1)?;
    holds("there are more", info.total_cores > 1)?;
    let mut raw = Raw::new(&backend)?;
    equal(
        "the core in this process",
        backend.model_core(&raw.model)?,
        CORE,
    )?;
    raw.bound(&backend, [5.0, 1.0], [2.0, 4.0])?;
    raw.execute(&backend)?;
    raw.close(&backend)
}

fn range<B: Backend>(backend: B) -> Result<(), Failure> {
    equal("visible", backend.info().visible_cores, 2)?;
    let request = LoadRequest::new(subtract()?.neff().clone()).on(Core::new(1));
    let model = backend.load(&request)?;
    equal("the second", backend.model_core(&model)?, Core::new(1))?;
    Ok(backend.unload(model)?)
}

/// What is reported of a model's side.
fn shapes<B: Backend>(
    backend: &B,
    model: &B::Model,
    side: Side,
) -> Result<Vec<(String, Vec<u32>, usize)>, Failure> {
    let mut found: Vec<_> = backend
        .model_tensors(model)?
        .into_iter()
        .filter(|info| info.side == side)
        .map(|info| (info.name, info.shape, info.size))
        .collect();
    found.sort();
    Ok(found)
}

fn scalar<B: Backend>(backend: B) -> Result<(), Failure> {
    let raw = Raw::load(&backend, identity(F32, &[])?.neff().clone())?;
    let found = shapes(&backend, &raw.model, Side::Input)?;
    equal("inputs", found, vec![("input0".to_owned(), vec![1], 4)])?;
    raw.close(&backend)
}

fn empty<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    graph.parameter(F32, &[0, 4]);
    let x = graph.parameter(F32, &[2]);
    let copy = graph.elementwise("copy", &[x]);
    let raw = Raw::load(&backend, pack(graph.finish(&[copy]))?)?;
    let found = shapes(&backend, &raw.model, Side::Input)?;
    equal("inputs", found, vec![("input1".to_owned(), vec![2], 8)])?;
    raw.close(&backend)
}

fn state<B: Backend>(backend: B) -> Result<(), Failure> {
    let raw = Raw::load(&backend, accumulate(true)?.neff().clone())?;
    for (side, names) in [
        (Side::Input, ["input0", "input1"]),
        (Side::Output, ["output0", "output1"]),
    ] {
        let found = shapes(&backend, &raw.model, side)?;
        let found: Vec<_> = found.into_iter().map(|(name, ..)| name).collect();
        equal("names", found, names.map(str::to_owned).to_vec())?;
    }
    raw.close(&backend)
}

fn repeated<B: Backend>(backend: B) -> Result<(), Failure> {
    let raw = Raw::new(&backend)?;
    let first = backend.model_tensors(&raw.model)?;
    let before = backend.memory_stats(CORE)?.used;
    for _ in 0..20 {
        equal("tensors", backend.model_tensors(&raw.model)?, first.clone())?;
    }
    equal("memory in use", backend.memory_stats(CORE)?.used, before)?;
    raw.close(&backend)
}

fn model_memory<B: Backend>(backend: B) -> Result<(), Failure> {
    let used = || backend.memory_stats(CORE).map(|stats| stats.used);
    let before = used()?;
    let model = backend.load(&LoadRequest::new(subtract()?.neff().clone()).on(CORE))?;
    holds("more is in use", used()? > before)?;
    backend.unload(model)?;
    equal("memory in use", used()?, before)
}

fn transfers<B: Backend>(backend: B) -> Result<(), Failure> {
    let Some(before) = backend.transfers() else {
        return Ok(());
    };
    let source = allocate(&backend, 10)?;
    let target = allocate(&backend, 10)?;
    backend.write(&source, 0, &[1; 7])?;
    backend.write(&source, 7, &[2; 3])?;
    backend.copy(&source, 0, &target, 0, 5)?;
    backend.read(&target, 0, &mut [0; 4])?;
    let after = backend.transfers().unwrap_or_default();
    equal("allocations", after.allocations - before.allocations, 2)?;
    let writes = (
        after.writes - before.writes,
        after.host_to_device - before.host_to_device,
    );
    equal("writes, bytes to the device", writes, (2, 10))?;
    let copies = (
        after.copies - before.copies,
        after.device_to_device - before.device_to_device,
    );
    equal("copies, bytes between tensors", copies, (1, 5))?;
    let reads = (
        after.reads - before.reads,
        after.device_to_host - before.device_to_host,
    );
    equal("reads, bytes from the device", reads, (1, 4))?;
    backend.free(source);
    backend.free(target);
    Ok(())
}

fn launch<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &subtract()?)?;
    let moved = bench.moved(|bench| {
        let inputs = bench.inputs(&[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
        let executed = bench.session.bind(inputs).must()?.execute(()).must()?;
        drop(executed.tolerate_nan());
        Ok(())
    })?;
    let Some(moved) = moved else {
        return Ok(());
    };
    equal("bytes to the device", moved.host_to_device, 16)?;
    equal("bytes from the device", moved.device_to_host, 0)?;
    equal("bytes between tensors", moved.device_to_device, 0)?;
    equal("executions", moved.executions, 1)?;
    equal("allocations", moved.allocations, 0)
}

fn uncounted<B: Backend>(backend: B) -> Result<(), Failure> {
    let tensor = allocate(&backend, 4)?;
    let Some(before) = backend.transfers() else {
        return Ok(());
    };
    invalid("past the end", backend.write(&tensor, 2, &[1; 3]))?;
    invalid("past the end", backend.read(&tensor, 2, &mut [0; 3]))?;
    invalid("0 bytes", allocate(&backend, 0))?;
    let after = backend.transfers().unwrap_or_default();
    equal("what was moved", after, before)?;
    backend.free(tensor);
    Ok(())
}
