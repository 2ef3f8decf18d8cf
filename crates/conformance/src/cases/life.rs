//! Who outlives whom: models, sessions, tensors, sets, and the runtime.

use metaneff_binding::{
    Backend, Core, LoadRequest, Placement, Rejected, Runtime, SharedRuntime, UnloadError,
};

use crate::bench::Bench;
use crate::case::{Case, Failure, Setup, equal, holds, refused};
use crate::models::{Must as _, accumulate, load, run_floats, subtract, weighted};
use crate::raw::{CORE, Raw, allocate, read};

const A: (&str, &[f32]) = ("a", &[5.0, 1.0]);
const B: (&str, &[f32]) = ("b", &[2.0, 4.0]);

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    const CLIENTS: &str = "nrt.h; public clients of the runtime";
    const RELOAD: &str = "user need 28";
    vec![
        Case::new(
            "life/model/before_session",
            "a session keeps its model loaded",
            "page 7, Model",
            model_first,
        ),
        Case::new(
            "life/model/clones",
            "clones of a model share it, and the last one unloads it",
            "page 7, Model",
            clones,
        ),
        Case::new(
            "life/unload/explicit",
            "an unload gives memory back and says what the runtime answered",
            "page 7, unload",
            unload,
        ),
        Case::new(
            "life/unload/in_use",
            "a model in use is not unloaded, and is given back",
            "page 7, unload",
            unload_in_use,
        ),
        Case::new(
            "life/shared/stored",
            "handles of a shared runtime outlive it and may be dropped in any order",
            "DESIGN, runtime",
            stored,
        ),
        Case::new(
            "life/shared/other_thread",
            "a session may move to another thread and end there",
            "user need 70",
            other_thread,
        ),
        Case::new(
            "life/states/after_session",
            "states stay readable after their session and model",
            "page 4.6",
            states_after,
        ),
        Case::new(
            "life/outputs/taken",
            "an output that is taken stays readable after its session",
            "page 4.6",
            taken_after,
        ),
        Case::new(
            "life/tensor/after_unload",
            "tensors may be freed after their model",
            CLIENTS,
            tensors_after_model,
        ),
        Case::new(
            "life/tensor/every_order",
            "tensors, sets and model may be given back in every order",
            CLIENTS,
            every_order,
        ),
        Case::new(
            "life/tensor/freed_in_set",
            "an execution with a tensor that has been freed is refused",
            "user need 70",
            freed_in_set,
        ),
        Case::new(
            "life/close/everything_alive",
            "a runtime may be closed with everything alive",
            "user need 29",
            everything_alive,
        ),
        Case::new(
            "life/memory/all_comes_back",
            "a model with weights, states and sessions leaves no memory behind",
            RELOAD,
            all_comes_back,
        ),
        Case::new(
            "life/memory/refused_load",
            "a load that is refused leaves no memory behind",
            RELOAD,
            refused_load,
        ),
        Case::new(
            "life/memory/thousand_tensors",
            "a thousand tensors come and go",
            RELOAD,
            thousand_tensors,
        ),
        Case::new(
            "life/models/many",
            "twenty models on one core keep apart",
            "user need 13",
            many_models,
        ),
        Case::new(
            "life/cores/other_memory",
            "memory of one core is not the other's",
            "nrt.h, nrt_get_vnc_memory_stats",
            other_memory,
        )
        .with(Setup::TWO_CORES),
    ]
}

fn model_first<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &subtract()?)?;
    let Bench { model, session, .. } = &mut bench;
    let other = session.model().clone();
    drop(std::mem::replace(model, other));
    equal("a - b", bench.run(&[A, B])?, vec![3.0, -3.0])
}

fn clones<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let used = || runtime.memory_stats(CORE).map(|stats| stats.used);
    let before = used()?;
    let model = load(&runtime, &subtract()?)?;
    let loaded = used()?;
    let clone = model.clone();
    equal("memory of a clone", used()?, loaded)?;
    drop(model);
    equal(
        "a - b",
        run_floats(&mut clone.session().must()?, &[A, B])?,
        vec![3.0, -3.0],
    )?;
    equal("memory of the last one", used()?, loaded)?;
    drop(clone);
    equal("memory afterwards", used()?, before)
}

fn unload<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let before = runtime.memory_stats(CORE)?.used;
    let model = load(&runtime, &subtract()?)?;
    model.unload().must()?;
    equal("memory in use", runtime.memory_stats(CORE)?.used, before)
}

fn unload_in_use<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &subtract()?)?;
    let mut session = model.session().must()?;
    let rejected: Rejected<_, UnloadError> = refused("a model in use", model.unload())?;
    holds(
        "the reason",
        matches!(rejected.reason(), UnloadError::InUse),
    )?;
    let model = rejected.into_input();
    equal("a - b", run_floats(&mut session, &[A, B])?, vec![3.0, -3.0])?;
    drop(session);
    match model {
        Some(model) => model.unload().must(),
        None => Err(Failure::new("the model is gone")),
    }
}

fn stored<B: Backend>(backend: B) -> Result<(), Failure> {
    let Bench {
        mut session,
        model,
        runtime,
    } = Bench::new(backend, &subtract()?)?;
    let spare = runtime.allocate(Placement::Device, CORE, 4, c"spare")?;
    drop(runtime);
    drop(model);
    equal("a - b", run_floats(&mut session, &[A, B])?, vec![3.0, -3.0])?;
    drop(session);
    let mut bytes = [9; 4];
    spare.read(0, &mut bytes)?;
    equal("the spare tensor", bytes, [0; 4])
}

fn other_thread<B: Backend>(backend: B) -> Result<(), Failure> {
    let Bench {
        mut session,
        model,
        runtime,
    } = Bench::new(backend, &subtract()?)?;
    let worker = std::thread::spawn(move || {
        let difference = run_floats(&mut session, &[A, B])?;
        drop(session);
        equal("a - b", difference, vec![3.0, -3.0])
    });
    worker
        .join()
        .map_err(|_| Failure::new("the thread panicked"))??;
    drop(model);
    drop(runtime);
    Ok(())
}

fn states_after<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &accumulate(false)?)?;
    let states = bench.session.zero_states().must()?;
    let (_, states) = bench.step(&[("x", &[1.0, 2.0])], states)?;
    drop(bench);
    let sum = states.get("sum").must()?.to_vec::<f32>().must()?;
    equal("the state", sum, vec![1.0, 2.0])
}

fn taken_after<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &subtract()?)?;
    let inputs = bench.inputs(&[A, B])?;
    let executed = bench.session.bind(inputs).must()?.execute(()).must()?;
    let taken = executed.tolerate_nan().into_outputs().take(0).must()?;
    drop(bench);
    equal("a - b", taken.to_vec::<f32>().must()?, vec![3.0, -3.0])
}

fn tensors_after_model<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut raw = Raw::new(&backend)?;
    let result = raw.bound(&backend, [5.0, 1.0], [2.0, 4.0])?;
    raw.execute(&backend)?;
    let Raw {
        model,
        inputs,
        outputs,
        tensors,
    } = raw;
    backend.unload(model)?;
    let bytes = read(&backend, &tensors[result])?;
    equal("a - b", bytes, crate::raw::bytes_of(&[3.0, -3.0]))?;
    tensors.into_iter().for_each(|tensor| backend.free(tensor));
    backend.destroy_set(inputs);
    backend.destroy_set(outputs);
    Ok(())
}

fn every_order<B: Backend>(backend: B) -> Result<(), Failure> {
    let before = backend.memory_stats(CORE)?.used;
    const ORDERS: [[u8; 3]; 6] = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for order in ORDERS {
        let mut raw = Raw::new(&backend)?;
        raw.bound(&backend, [5.0, 1.0], [2.0, 4.0])?;
        raw.execute(&backend)?;
        let Raw {
            model,
            inputs,
            outputs,
            tensors,
        } = raw;
        let (mut model, mut sets) = (Some(model), Some((inputs, outputs)));
        let mut tensors = Some(tensors);
        for step in order {
            match step {
                0 => model.take().map_or(Ok(()), |model| backend.unload(model))?,
                1 => {
                    for tensor in tensors.take().into_iter().flatten() {
                        backend.free(tensor);
                    }
                }
                _ => {
                    if let Some((inputs, outputs)) = sets.take() {
                        backend.destroy_set(outputs);
                        backend.destroy_set(inputs);
                    }
                }
            }
        }
        equal("memory in use", backend.memory_stats(CORE)?.used, before)?;
    }
    Ok(())
}

fn freed_in_set<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut raw = Raw::new(&backend)?;
    raw.bound(&backend, [5.0, 1.0], [2.0, 4.0])?;
    backend.free(raw.tensors.remove(0));
    let error = refused("an execution without its input", raw.execute(&backend))?;
    holds("it is no completion", !error.status().is_completed())?;
    let again = raw.tensor(&backend, [7.0, 7.0])?;
    raw.input(&backend, c"input0", again)?;
    raw.execute(&backend)?;
    equal("a - b", raw.floats(&backend, 1)?, vec![5.0, 3.0])?;
    raw.close(&backend)
}

fn everything_alive<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut raw = Raw::new(&backend)?;
    raw.bound(&backend, [5.0, 1.0], [2.0, 4.0])?;
    raw.execute(&backend)?;
    let slice = backend.slice(&raw.tensors[0], 0, 4, c"s")?;
    drop(backend);
    // Handles that outlive their runtime do nothing.
    drop((raw.model, raw.inputs, raw.outputs, raw.tensors, slice));
    Ok(())
}

fn all_comes_back<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let before = runtime.memory_stats(CORE)?.used;
    for _ in 0..3 {
        let model = runtime.load(&weighted()?, CORE).must()?;
        let values = [2.0_f32, 3.0];
        let weight = crate::models::floats(&values)?;
        let weight = model.slot(1).must()?.validate(weight).must()?;
        model.load_weights(vec![weight]).must()?;
        let mut one = model.session().must()?;
        let mut two = model.session().must()?;
        for session in [&mut one, &mut two] {
            equal(
                "x * w",
                run_floats(session, &[("x", &[1.0, 1.0])])?,
                vec![2.0, 3.0],
            )?;
        }
        let stateful = runtime.load(&accumulate(true)?, CORE).must()?;
        let session = stateful.session().must()?;
        let states = session.zero_states().must()?;
        holds(
            "memory is in use",
            runtime.memory_stats(CORE)?.used > before,
        )?;
        drop((one, two, model, stateful, session, states));
        equal("memory in use", runtime.memory_stats(CORE)?.used, before)?;
    }
    Ok(())
}

fn refused_load<B: Backend>(backend: B) -> Result<(), Failure> {
    let before = backend.memory_stats(CORE)?.used;
    let whole = subtract()?.neff().clone();
    for cut in [10, 100, 1000] {
        let file = whole.slice(..whole.len() - cut);
        refused("a cut file", backend.load(&LoadRequest::new(file).on(CORE)))?;
    }
    equal("memory in use", backend.memory_stats(CORE)?.used, before)
}

fn thousand_tensors<B: Backend>(backend: B) -> Result<(), Failure> {
    let before = backend.memory_stats(CORE)?.used;
    let mut alive = std::collections::VecDeque::new();
    for index in 0..1000_usize {
        let size = 1 + index % 97;
        let tensor = allocate(&backend, size)?;
        let last = [u8::try_from(index % 251)?];
        backend.write(&tensor, size - 1, &last)?;
        alive.push_back((tensor, last));
        if alive.len() > 50
            && let Some((tensor, last)) = alive.pop_front()
        {
            let bytes = read(&backend, &tensor)?;
            equal(
                "the last byte",
                bytes.last().copied(),
                last.first().copied(),
            )?;
            backend.free(tensor);
        }
    }
    alive
        .into_iter()
        .for_each(|(tensor, _)| backend.free(tensor));
    equal("memory in use", backend.memory_stats(CORE)?.used, before)
}

fn many_models<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let artifact = weighted()?;
    let mut sessions = Vec::new();
    for factor in (0..20_u8).map(f32::from) {
        let model = load(&runtime, &artifact)?;
        let values = [factor, factor + 0.5];
        let weight = crate::models::floats(&values)?;
        let weight = model.slot(1).must()?.validate(weight).must()?;
        model.load_weights(vec![weight]).must()?;
        sessions.push((model.session().must()?, factor));
    }
    for (session, factor) in sessions.iter_mut().rev() {
        let product = run_floats(session, &[("x", &[1.0, 2.0])])?;
        equal("x * w", product, vec![*factor, 2.0 * *factor + 1.0])?;
    }
    Ok(())
}

fn other_memory<B: Backend>(backend: B) -> Result<(), Failure> {
    let used = |core| {
        backend
            .memory_stats(Core::new(core))
            .map(|stats| stats.used)
    };
    let (zero, one) = (used(0)?, used(1)?);
    let tensor = backend.allocate(Placement::Device, Core::new(1), 4096, c"t")?;
    equal("core 0", used(0)?, zero)?;
    holds("core 1 has 4096 more", used(1)? >= one + 4096)?;
    backend.free(tensor);
    equal("core 1", used(1)?, one)
}
