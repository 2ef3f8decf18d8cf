//! Many threads, and threads with little stack.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use metaneff_binding::{Backend, Core, Runtime, SharedRuntime};

use crate::bench::Bench;
use crate::case::{Case, Failure, Setup, equal, holds};
use crate::models::{Must as _, accumulate, floats, load, run_floats, subtract};
use crate::raw::{CORE, Raw, allocate, bytes_of, read};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    const MANY: &str = "user needs 13, 70";
    vec![
        Case::new(
            "threads/models/own",
            "eight threads load, run and unload models of their own",
            MANY,
            own_models,
        ),
        Case::new(
            "threads/cores/two",
            "four threads a core run on two cores at once",
            "user need 13",
            two_cores,
        )
        .with(Setup::TWO_CORES),
        Case::new(
            "threads/states/own",
            "sequences on different threads do not mix",
            "page 4.6; user need 70",
            own_states,
        ),
        Case::new(
            "threads/tensors/allocated",
            "eight threads allocate, fill, read and free",
            MANY,
            tensors,
        ),
        Case::new(
            "threads/tensor/free_while_executing",
            "a tensor that is freed while others execute harms none of them",
            "user need 70",
            free_while_executing,
        ),
        Case::new(
            "threads/weights/replaced",
            "weights that are replaced meanwhile are seen whole",
            "user need 59",
            replaced,
        ),
        Case::new(
            "threads/stack/small",
            "a thread with 256 KiB of stack loads and executes",
            "user need 1",
            small_stack,
        ),
        Case::new(
            "threads/drop/elsewhere",
            "a runtime may end on another thread than it began on",
            "user need 70",
            elsewhere,
        ),
    ]
}

/// Runs `work` on so many threads, with the thread's number.
fn on_threads(count: u8, work: impl Fn(u8) -> Result<(), Failure> + Sync) -> Result<(), Failure> {
    thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (0..count)
            .map(|own| scope.spawn(move || work(own)))
            .collect();
        workers.into_iter().try_for_each(|worker| {
            worker
                .join()
                .map_err(|_| Failure::new("a thread panicked"))?
        })
    })
}

fn own_models<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let before = runtime.memory_stats(CORE)?.used;
    let artifact = subtract()?;
    on_threads(8, |own| {
        let own = f32::from(own);
        for _ in 0..5 {
            let model = load(&runtime, &artifact)?;
            let mut session = model.session().must()?;
            let inputs: &[(&str, &[f32])] = &[("a", &[own, 1.0]), ("b", &[1.0, own])];
            equal(
                "a - b",
                run_floats(&mut session, inputs)?,
                vec![own - 1.0, 1.0 - own],
            )?;
        }
        Ok(())
    })?;
    equal("memory in use", runtime.memory_stats(CORE)?.used, before)
}

fn two_cores<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let artifact = subtract()?;
    let models = [0, 1].map(|core| runtime.load(&artifact, Core::new(core)));
    let [zero, one] = models;
    let models = [zero.must()?, one.must()?];
    on_threads(8, |own| {
        let model = &models[usize::from(own % 2)];
        equal("the core", model.core(), Core::new(u32::from(own % 2)))?;
        let mut session = model.session().must()?;
        let own = f32::from(own);
        for _ in 0..20 {
            let inputs: &[(&str, &[f32])] = &[("a", &[own, 0.0]), ("b", &[0.0, own])];
            equal("a - b", run_floats(&mut session, inputs)?, vec![own, -own])?;
        }
        Ok(())
    })
}

fn own_states<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &accumulate(false)?)?;
    on_threads(8, |own| {
        let mut session = model.session().must()?;
        let mut states = session.zero_states().must()?;
        let own = f32::from(own);
        for _ in 0..20 {
            let values = [own, 1.0];
            let x = session
                .slot("x")
                .must()?
                .validate(floats(&values)?)
                .must()?;
            let executed = session.bind([x]).must()?.execute(states).must()?;
            states = executed.tolerate_nan().into_parts().1;
        }
        let sum = states.get("sum").must()?.to_vec::<f32>().must()?;
        equal("the sum", sum, vec![20.0 * own, 20.0])
    })
}

fn tensors<B: Backend>(backend: B) -> Result<(), Failure> {
    let before = backend.memory_stats(CORE)?.used;
    on_threads(8, |own| {
        for round in 0..25_u8 {
            let tensor = allocate(&backend, 64)?;
            backend.write(&tensor, 0, &[own ^ round; 64])?;
            equal("contents", read(&backend, &tensor)?, vec![own ^ round; 64])?;
            backend.free(tensor);
        }
        Ok(())
    })?;
    equal("memory in use", backend.memory_stats(CORE)?.used, before)
}

fn free_while_executing<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut raw = Raw::new(&backend)?;
    let result = raw.bound(&backend, [5.0, 1.0], [2.0, 4.0])?;
    let rounds = AtomicUsize::new(0);
    thread::scope(|scope| {
        let freeing = scope.spawn(|| -> Result<(), Failure> {
            while rounds.load(Ordering::Acquire) < 50 {
                let tensor = allocate(&backend, 8)?;
                let slice = backend.slice(&tensor, 0, 4, c"s")?;
                backend.free(tensor);
                backend.free(slice);
            }
            Ok(())
        });
        let executing = (0..50).try_for_each(|_| {
            let answer = raw.execute(&backend);
            rounds.fetch_add(1, Ordering::Release);
            answer
        });
        rounds.store(50, Ordering::Release);
        let freed = freeing
            .join()
            .map_err(|_| Failure::new("a thread panicked"))?;
        executing?;
        freed
    })?;
    equal("a - b", raw.floats(&backend, result)?, vec![3.0, -3.0])?;
    raw.close(&backend)
}

fn replaced<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &crate::models::weighted()?)?;
    let weights = |value: f32| -> Result<(), Failure> {
        let values = [value, value];
        let weight = model.slot(1).must()?.validate(floats(&values)?).must()?;
        model.load_weights(vec![weight]).must()
    };
    weights(1.0)?;
    on_threads(5, |own| {
        if own == 0 {
            return (2..30_u8).try_for_each(|value| weights(f32::from(value)));
        }
        let mut session = model.session().must()?;
        for _ in 0..20 {
            let product = run_floats(&mut session, &[("x", &[1.0, 1.0])])?;
            // Both elements come of one set of weights, whichever it is.
            equal(
                "the second element",
                product[1].to_bits(),
                product[0].to_bits(),
            )?;
        }
        Ok(())
    })
}

fn small_stack<B: Backend>(backend: B) -> Result<(), Failure> {
    let work = || -> Result<(), Failure> {
        let mut bench = Bench::new(backend, &subtract()?)?;
        let difference = bench.run(&[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
        equal("a - b", difference, vec![3.0, -3.0])
    };
    thread::scope(|scope| {
        let builder = thread::Builder::new().stack_size(256 << 10);
        let worker = builder.spawn_scoped(scope, work)?;
        worker
            .join()
            .map_err(|_| Failure::new("the thread panicked"))?
    })
}

fn elsewhere<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let model = runtime.load(&subtract()?, CORE).must()?;
    let mut session = model.session().must()?;
    drop((runtime, model));
    let worker = thread::spawn(move || {
        let answer = run_floats(&mut session, &[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])]);
        // The last handle goes here, and the backend with it.
        drop(session);
        answer
    });
    let difference = worker
        .join()
        .map_err(|_| Failure::new("the thread panicked"))??;
    holds("a - b", bytes_of(&difference) == bytes_of(&[3.0, -3.0]))
}
