//! One model on several cores: ranks of a world, replicas, pools of sessions.

use std::thread;

use metaneff_binding::{
    Artifact, Backend, Core, HostTensor, RankError, SessionPool, SharedRuntime, SpmdError,
    SpmdInputs, SpmdOptions, Tensor, Validated,
};
use metaneff_schema::xla::PrimitiveType::F32;

use crate::case::{Case, Failure, Setup, equal, refused};
use crate::graph::Graph;
use crate::models::{Must as _, artifact, floats, read_floats, run_floats, subtract, weighted};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    const RANKS: &str = "page 4.4, SPMDModel";
    const ROWS: &str = "user needs 47, 48";
    let mut cases = vec![
        Case::new(
            "spmd/rank/own_number",
            "every rank knows its number in the world",
            "nrt.h, nrt_load_collectives",
            own_number,
        ),
        Case::new(
            "spmd/gather/rank_order",
            "what all ranks gather is in the order of the ranks, on every one",
            "nrt.h, nrt_load_collectives",
            gathered,
        ),
        Case::new(
            "spmd/weights/own",
            "each rank has weights of its own",
            RANKS,
            own_weights,
        ),
        Case::new(
            "spmd/bind/all_or_none",
            "an input that one rank refuses keeps every rank from executing",
            "page 4.5, forward",
            all_or_none,
        ),
        Case::new(
            "spmd/cores/not_enough",
            "a rank without a core fails the load, is named, and leaves nothing loaded",
            "user need 8",
            too_few,
        ),
        Case::new(
            "batch/replicas/fewer_rows",
            "a core that has no rows to compute is left in peace",
            ROWS,
            fewer_rows,
        ),
        Case::new(
            "batch/replicas/weights",
            "weights are on all replicas or on none",
            "user need 59",
            replicated_weights,
        ),
    ];
    for case in &mut cases {
        case.setup = Setup::TWO_CORES;
    }
    cases.push(Case::new(
        "threads/pool/shared",
        "many threads share few sessions, and each reads its own outputs",
        "page 4.3, TensorSetPool",
        pooled,
    ));
    cases
}

fn world(ranks: u32) -> SpmdOptions {
    SpmdOptions::new(ranks, ranks)
}

/// `f32[n]` for the first input.
fn first<'a>(
    contract: &metaneff_binding::Contract,
    values: &'a [f32],
) -> Result<Vec<Tensor<Validated<'a>>>, Failure> {
    Ok(vec![
        contract.slot(0).must()?.validate(floats(values)?).must()?,
    ])
}

/// `x + the rank's number`.
fn own_number<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let rank = graph.replica_id();
    let rank = graph.convert(rank, F32);
    let rank = graph.splat(rank, &[2]);
    let sum = graph.elementwise("add", &[x, rank]);
    let artifact = artifact(graph.finish(&[sum]), |m| m)?;
    let runtime = SharedRuntime::new(backend);
    let model = runtime.load_spmd(&artifact, &world(2)).must()?;
    let mut session = model.session().must()?;
    let x = first(model.contract(), &[10.0, 20.0])?;
    let executed = session.execute(SpmdInputs::replicated(x), ()).must()?;
    let (outputs, _) = executed.tolerate_nan().into_parts();
    let own = |rank| read_floats(outputs.rank(rank).must()?, 0);
    equal("rank 0", own(0)?, vec![10.0, 20.0])?;
    equal("rank 1", own(1)?, vec![11.0, 21.0])
}

fn gathered<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let all = graph.all_gather(x, 2);
    let artifact = artifact(graph.finish(&[all]), |m| m)?;
    let runtime = SharedRuntime::new(backend);
    let model = runtime.load_spmd(&artifact, &world(2)).must()?;
    let mut session = model.session().must()?;
    let inputs = vec![
        first(model.contract(), &[1.0, 2.0])?,
        first(model.contract(), &[3.0, 4.0])?,
    ];
    let executed = session.execute(SpmdInputs::ranked(inputs), ()).must()?;
    let (outputs, _) = executed.tolerate_nan().into_parts();
    for rank in 0..2 {
        let all = read_floats(outputs.rank(rank).must()?, 0)?;
        equal("both parts", all, vec![1.0, 2.0, 3.0, 4.0])?;
    }
    Ok(())
}

fn double() -> Result<Artifact, Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let sum = graph.elementwise("add", &[x, x]);
    artifact(graph.finish(&[sum]), |m| m.dynamic_batch())
}

fn own_weights<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let alone = world(2).without_collectives();
    let model = runtime.load_spmd(&weighted()?, &alone).must()?;
    for (rank, values) in [(0, [2.0, 3.0]), (1, [5.0, 7.0])] {
        let slot = model.slot("layer.weight").must()?;
        let weight = slot.validate(floats(&values)?).must()?;
        model.rank(rank).must()?.load_weights(vec![weight]).must()?;
    }
    let mut session = model.session().must()?;
    let x = first(model.contract(), &[10.0, 100.0])?;
    let executed = session.execute(SpmdInputs::replicated(x), ()).must()?;
    let (outputs, _) = executed.tolerate_nan().into_parts();
    let own = |rank| read_floats(outputs.rank(rank).must()?, 0);
    equal("rank 0", own(0)?, vec![20.0, 300.0])?;
    equal("rank 1", own(1)?, vec![50.0, 700.0])
}

fn all_or_none<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let alone = world(2).without_collectives();
    let model = runtime.load_spmd(&subtract()?, &alone).must()?;
    let mut session = model.session().must()?;
    let input = |key: &str| -> Result<_, Failure> {
        let slot = model.slot(key).must()?;
        slot.validate(HostTensor::from_vec([2], vec![1.0_f32, 2.0]).must()?)
            .must()
    };
    let before = runtime.transfers();
    let inputs = vec![vec![input("a")?, input("b")?], vec![input("a")?]];
    let failed = refused(
        "one of two",
        session.execute(SpmdInputs::ranked(inputs), ()),
    )?;
    equal("the rank", failed.reason().failed_rank(), Some(1))?;
    let executions = |transfers: Option<metaneff_binding::Transfers>| {
        transfers.map(|transfers| transfers.executions)
    };
    let after = executions(runtime.transfers());
    equal("executions", after, executions(before))?;
    let (inputs, _) = failed.into_inputs();
    let given_back: Vec<_> = inputs
        .iter()
        .map(|inputs| inputs.as_ref().map(Vec::len))
        .collect();
    equal("inputs given back", given_back, vec![Some(2), Some(1)])
}

fn too_few<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let used =
        |core| -> Result<_, Failure> { Ok(runtime.memory_stats(Core::new(core)).must()?.used) };
    let before = [used(0)?, used(1)?];
    let answer = runtime.load_spmd(&double()?, &world(3).without_collectives());
    let error = refused("3 ranks on 2 cores", answer)?;
    equal("the rank", error.failed_rank(), Some(2))?;
    match &error {
        SpmdError::Ranks { outcomes } => {
            let failed = |outcome: &metaneff_binding::RankOutcome| match &outcome.result {
                Ok(()) => None,
                Err(error) => Some(matches!(error, RankError::Load(_))),
            };
            let found: Vec<_> = outcomes.iter().map(failed).collect();
            equal("the ranks", found, vec![None, None, Some(true)])?;
        }
        other => return Err(Failure::new(format!("expected the ranks, found {other}"))),
    }
    equal("memory in use", [used(0)?, used(1)?], before)
}

/// Doubles `count` rows over two cores; gives the launches of each.
fn spread<B: Backend>(backend: B, count: u16) -> Result<usize, Failure> {
    let runtime = SharedRuntime::new(backend);
    let cores = [Core::new(0), Core::new(1)];
    let mut replicas = runtime.replicate(&double()?, &cores).must()?;
    equal("the replicas", replicas.instance_count(), 2)?;
    let rows: Vec<f32> = (0..count).map(f32::from).collect();
    let x = replicas.slot("input0").must()?;
    let x = x.validate(floats(&rows)?).must()?;
    let executed = replicas.execute_batch(vec![x]).must()?;
    let launches = executed.launches();
    let outputs = executed.tolerate_nan();
    let found = outputs.get(0).must()?.to_vec::<f32>().must()?;
    let doubled: Vec<f32> = rows.iter().map(|row| 2.0 * row).collect();
    equal("the rows", found, doubled)?;
    Ok(launches)
}

fn fewer_rows<B: Backend>(backend: B) -> Result<(), Failure> {
    equal("launches", spread(backend, 1)?, 1)
}

fn replicated_weights<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let cores = [Core::new(0), Core::new(1)];
    let replicas = runtime.replicate(&weighted()?, &cores).must()?;
    let slot = |key| replicas.slot(key).must();
    let stray = slot("x")?.validate(floats(&[1.0, 1.0])?).must()?;
    let _given_back = refused("no weight", replicas.load_weights(vec![stray]))?;
    for model in replicas.models() {
        let _given_back = refused("a bind without weights", {
            let mut session = model.session().must()?;
            let x = slot("x")?.validate(floats(&[1.0, 1.0])?).must()?;
            session.bind(vec![x]).map(drop)
        })?;
    }
    let weight = slot("layer.weight")?.validate(floats(&[3.0, 4.0])?);
    replicas.load_weights(vec![weight.must()?]).must()?;
    for model in replicas.models() {
        let mut session = model.session().must()?;
        let product = run_floats(&mut session, &[("x", &[2.0, 5.0])])?;
        equal("the product", product, vec![6.0, 20.0])?;
    }
    Ok(())
}

fn pooled<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let model = runtime.load(&subtract()?, Core::new(0)).must()?;
    let pool = SessionPool::new(&model, 2).must()?;
    let work = |thread: u16| -> Result<(), Failure> {
        for round in 0..10_u16 {
            let (a, b) = (f32::from(thread), f32::from(round));
            let mut session = pool.acquire();
            let inputs: [(&str, &[f32]); 2] = [("a", &[a, b]), ("b", &[b, a])];
            let difference = run_floats(&mut session, &inputs)?;
            equal("the difference", difference, vec![a - b, b - a])?;
        }
        Ok(())
    };
    let results = thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..4)
            .map(|number| scope.spawn(move || work(number)))
            .collect();
        threads
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect::<Vec<_>>()
    });
    for result in results {
        result.map_err(|_| Failure::new("a thread panicked"))??;
    }
    equal("free sessions", pool.available(), 2)
}
