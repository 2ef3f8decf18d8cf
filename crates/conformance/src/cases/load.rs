//! Loading: gates, cores, tensor information.

use bytes::Bytes;
use metaneff_binding::{Backend, Core, LoadRequest, Runtime, Side};
use metaneff_schema::nrt::{NrtDtype, Status};

use crate::case::{Case, Failure, Setup, equal, holds, refused};
use crate::models::{Must as _, load, run_floats, subtract};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    const GATES: &str = "NEFF header; user need 31";
    vec![
        Case::new("load/neff/empty", "no bytes are no NEFF", GATES, |b| {
            gate(b, |_| Bytes::new(), Status::INVALID)
        }),
        Case::new("load/neff/truncated", "a cut file is refused", GATES, |b| {
            gate(b, |file| file.slice(..file.len() - 100), Status::INVALID)
        }),
        Case::new(
            "load/neff/garbage",
            "a damaged package is refused",
            GATES,
            |b| gate(b, |file| damaged(&file), Status::INVALID),
        ),
        Case::new(
            "load/neff/version",
            "a newer format is refused",
            GATES,
            |b| {
                gate(
                    b,
                    |file| with_u64(&file, 0x18, 3),
                    Status::UNSUPPORTED_NEFF_VERSION,
                )
            },
        ),
        Case::new(
            "load/neff/features",
            "unknown features are refused",
            "user need 2",
            |b| {
                gate(
                    b,
                    |file| with_u64(&file, 0x220, 1 << 40),
                    Status::UNSUPPORTED_NEFF_VERSION,
                )
            },
        ),
        Case::new(
            "load/tensors/reported",
            "the model's tensors are reported",
            "nrt.h, tensor info",
            tensors,
        ),
        Case::new(
            "load/core/none",
            "a core that is none is refused",
            "user need 8",
            no_core,
        ),
        Case::new(
            "load/core/chosen",
            "two models run on two cores",
            "user need 13",
            two_cores,
        )
        .with(Setup::TWO_CORES),
        Case::new(
            "load/core/first_free",
            "without a choice the first core is taken",
            "nrt.h, nrt_load",
            first_free,
        ),
        Case::new(
            "load/core/mismatch",
            "a tensor of another core is refused",
            "user need 14",
            mismatch,
        )
        .with(Setup::TWO_CORES),
        Case::new(
            "load/repeat/reload",
            "a model is loaded and unloaded again and again",
            "user need 28",
            reload,
        ),
        Case::new(
            "load/repeat/two_of_one",
            "one file may be loaded twice",
            "user need 13",
            twice,
        ),
        Case::new(
            "info/report/cores",
            "a backend says what it is and what it sees",
            "user need 26",
            info,
        ),
    ]
}

fn packed() -> Result<Bytes, Failure> {
    Ok(subtract()?.neff().clone())
}

fn with_u64(file: &Bytes, offset: usize, value: u64) -> Bytes {
    let mut file = file.to_vec();
    file[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
    file.into()
}

/// Overwrites the start of the package.
fn damaged(file: &Bytes) -> Bytes {
    let mut file = file.to_vec();
    file[1024..1100].fill(0x5a);
    file.into()
}

fn gate<B: Backend>(
    backend: B,
    edit: impl FnOnce(Bytes) -> Bytes,
    expected: Status,
) -> Result<(), Failure> {
    let request = LoadRequest::new(edit(packed()?)).on(Core::new(0));
    equal(
        "status",
        refused("the file", backend.load(&request))?.status(),
        expected,
    )?;
    // The refusal leaves nothing behind that a good file would trip over.
    let model = backend.load(&LoadRequest::new(packed()?).on(Core::new(0)))?;
    Ok(backend.unload(model)?)
}

fn tensors<B: Backend>(backend: B) -> Result<(), Failure> {
    let model = backend.load(&LoadRequest::new(packed()?).on(Core::new(0)))?;
    let mut found: Vec<_> = backend
        .model_tensors(&model)?
        .into_iter()
        .map(|info| (info.side, info.name, info.size, info.dtype, info.shape))
        .collect();
    found.sort();
    let row = |side, name: &str| (side, name.to_owned(), 8, NrtDtype::FLOAT32, vec![2]);
    let expected = vec![
        row(Side::Input, "input0"),
        row(Side::Input, "input1"),
        row(Side::Output, "output0"),
    ];
    equal("tensors", found, expected)?;
    equal("core", backend.model_core(&model)?, Core::new(0))?;
    Ok(backend.unload(model)?)
}

fn no_core<B: Backend>(backend: B) -> Result<(), Failure> {
    let core = Core::new(backend.info().visible_cores);
    let error = refused(
        "a core that is none",
        backend.load(&LoadRequest::new(packed()?).on(core)),
    )?;
    let status = error.status();
    holds(
        "the status names the core",
        matches!(status, Status::INVALID | Status::LOAD_NOT_ENOUGH_NC),
    )
}

fn two_cores<B: Backend>(backend: B) -> Result<(), Failure> {
    let artifact = subtract()?;
    let runtime = Runtime::new(backend);
    let zero = runtime.load(&artifact, Core::new(0)).must()?;
    let one = runtime.load(&artifact, Core::new(1)).must()?;
    equal(
        "cores",
        (zero.core(), one.core()),
        (Core::new(0), Core::new(1)),
    )?;
    for model in [zero, one] {
        let mut session = model.session().must()?;
        let difference = run_floats(&mut session, &[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
        equal("a - b", difference, vec![3.0, -3.0])?;
    }
    Ok(())
}

fn first_free<B: Backend>(backend: B) -> Result<(), Failure> {
    let model = backend.load(&LoadRequest::new(packed()?))?;
    let core = backend.model_core(&model)?;
    holds(
        "the core is visible",
        core.index() < backend.info().visible_cores,
    )?;
    Ok(backend.unload(model)?)
}

fn mismatch<B: Backend>(backend: B) -> Result<(), Failure> {
    use metaneff_binding::Placement::Device;
    let model = backend.load(&LoadRequest::new(packed()?).on(Core::new(1)))?;
    let mut inputs = backend.tensor_set()?;
    let mut outputs = backend.tensor_set()?;
    let wrong = backend.allocate(Device, Core::new(0), 8, c"input0")?;
    let right = backend.allocate(Device, Core::new(1), 8, c"input1")?;
    let result = backend.allocate(Device, Core::new(1), 8, c"output0")?;
    backend.bind(&mut inputs, c"input0", &wrong)?;
    backend.bind(&mut inputs, c"input1", &right)?;
    backend.bind(&mut outputs, c"output0", &result)?;
    let execution = backend.execute(&model, &inputs, &mut outputs);
    let error = refused("a tensor of core 0 on core 1", execution)?;
    let text = error.to_string();
    holds(
        "both cores are named",
        text.contains("core 0") && text.contains("core 1"),
    )?;
    backend.destroy_set(inputs);
    backend.destroy_set(outputs);
    [wrong, right, result]
        .into_iter()
        .for_each(|tensor| backend.free(tensor));
    Ok(backend.unload(model)?)
}

fn reload<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let artifact = subtract()?;
    let used = || runtime.memory_stats(Core::new(0)).map(|stats| stats.used);
    let before = used()?;
    for _ in 0..50 {
        let model = load(&runtime, &artifact)?;
        let mut session = model.session().must()?;
        run_floats(&mut session, &[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
    }
    equal("memory in use", used()?, before)
}

fn twice<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let artifact = subtract()?;
    let one = load(&runtime, &artifact)?;
    let two = load(&runtime, &artifact)?;
    drop(one);
    let mut session = two.session().must()?;
    let difference = run_floats(&mut session, &[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
    equal("a - b", difference, vec![3.0, -3.0])
}

fn info<B: Backend>(backend: B) -> Result<(), Failure> {
    let info = backend.info();
    holds("it has a name", !info.name.is_empty())?;
    holds("it sees a core", info.visible_cores >= 1)?;
    holds(
        "it sees no more than there are",
        info.visible_cores <= info.total_cores,
    )
}
