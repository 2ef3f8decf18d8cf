//! One program on two ranks.

use bytes::Bytes;
use metaneff_binding::{
    Argument, Artifact, Backend, Core, ExecuteError, HostTensor, RankError, Runtime, SpmdError,
    SpmdInputs, SpmdModel, SpmdOptions, Tensor, Validated,
};
use metaneff_schema::nrt::Status;
use metaneff_schema::xla::PrimitiveType::F32;
use metaneff_schema::xla::{HloModuleProto, ReplicaGroup};
use prost::Message as _;

use crate::case::{Case, Failure, Setup, equal, holds, refused};
use crate::graph::Graph;
use crate::models::{Must as _, accumulate, artifact, subtract};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    let two = Setup::TWO_CORES;
    vec![
        Case::new(
            "spmd/inputs/replicated",
            "every rank gets the same inputs and gives the same outputs",
            "page 4.4",
            replicated,
        )
        .with(two),
        Case::new(
            "spmd/inputs/ranked",
            "every rank gets inputs and states of its own",
            "page 4.4",
            ranked,
        )
        .with(two),
        Case::new(
            "spmd/outputs/on_device",
            "outputs stay on their cores and go into the next launch",
            "page 4.5",
            on_device,
        )
        .with(two),
        Case::new(
            "spmd/collectives/all_reduce",
            "ranks that execute at once complete each other's sums",
            "page 7, load_collectives",
            all_reduce,
        )
        .with(two),
        Case::new(
            "spmd/failure/one_rank",
            "a failing rank is named, and the others go on",
            "page 4.5",
            one_rank,
        )
        .with(two.environment(&[("METANEFF_SIM_FAULTS", "execute@1=fail:1006")])),
        Case::new(
            "spmd/world/bounds",
            "a rank outside of the world is refused",
            "user need 62",
            bounds,
        )
        .with(two),
    ]
}

type Input = Tensor<Validated<'static>>;

fn input<B: Backend>(
    model: &SpmdModel<'_, B>,
    key: &str,
    values: [f32; 2],
) -> Result<Input, Failure> {
    let tensor = HostTensor::from_vec([2], values.to_vec()).must()?;
    model.slot(key).must()?.validate(tensor).must()
}

fn alone() -> SpmdOptions {
    SpmdOptions::new(2, 2).without_collectives()
}

fn replicated<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = runtime.load_spmd(&subtract()?, &alone()).must()?;
    let cores: Vec<Core> = model.ranks().map(|(_, rank)| rank.core()).collect();
    equal("cores", cores, vec![Core::new(0), Core::new(1)])?;
    let mut session = model.session().must()?;
    let inputs = vec![
        input(&model, "b", [1.0, 2.0])?,
        input(&model, "a", [5.0, 5.0])?,
    ];
    let executed = session.execute(SpmdInputs::replicated(inputs), ()).must()?;
    let (outputs, _) = executed.tolerate_nan().into_parts();
    let first = outputs.first().get(0).must()?.to_vec::<f32>().must()?;
    equal("rank 0", first, vec![4.0, 3.0])?;
    let second = outputs.rank(1).must()?.get(0).must()?;
    equal("rank 1", second.to_vec::<f32>().must()?, vec![4.0, 3.0])
}

fn ranked<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = runtime.load_spmd(&accumulate(false)?, &alone()).must()?;
    let mut session = model.session().must()?;
    let mut states = session.zero_states().must()?;
    states
        .write(1, input(&model, "sum", [100.0, 200.0])?)
        .must()?;
    for step in 1..=3_u8 {
        let inputs = vec![
            vec![input(&model, "x", [1.0, 2.0])?],
            vec![input(&model, "x", [10.0, 20.0])?],
        ];
        let executed = session.execute(SpmdInputs::ranked(inputs), states).must()?;
        let (_, next) = executed.tolerate_nan().into_parts();
        states = next;
        let step = f32::from(step);
        for (rank, expected) in [
            (0, [step, 2.0 * step]),
            (1, [100.0 + 10.0 * step, 200.0 + 20.0 * step]),
        ] {
            let sum = states.get(rank, "sum").must()?.to_vec::<f32>().must()?;
            equal("the rank's sum", sum, expected.to_vec())?;
        }
    }
    Ok(())
}

fn on_device<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = runtime.load_spmd(&subtract()?, &alone()).must()?;
    let mut session = model.session().must()?;
    let both = vec![
        input(&model, "a", [9.0, 8.0])?,
        input(&model, "b", [1.0, 2.0])?,
    ];
    let executed = session.execute(SpmdInputs::replicated(both), ()).must()?;
    let (outputs, _) = executed.tolerate_nan().into_parts();
    let mut taken = Vec::new();
    for mut rank in outputs.into_ranks() {
        taken.push(rank.take(0).must()?);
    }
    let mut inputs = Vec::new();
    for (rank, tensor) in (0..).zip(taken) {
        let session = session.rank(rank).must()?;
        inputs.push(vec![
            Argument::Device(session.adopt("a", tensor).must()?),
            Argument::Host(input(&model, "b", [1.0, 1.0])?),
        ]);
    }
    let before = runtime.transfers();
    let executed = session.execute(SpmdInputs::Ranked(inputs), ()).must()?;
    let (outputs, _) = executed.tolerate_nan().into_parts();
    if let (Some(before), Some(after)) = (before, runtime.transfers()) {
        let moved = after.host_to_device - before.host_to_device;
        equal("bytes to the device", moved, 16)?;
    }
    for rank in 0..2 {
        let output = outputs.rank(rank).must()?.get(0).must()?;
        equal("a - b - 1", output.to_vec::<f32>().must()?, vec![7.0, 5.0])?;
    }
    Ok(())
}

/// `x` summed over two ranks.
fn summed() -> Result<Artifact, Failure> {
    let mut sum = Graph::new();
    let a = sum.parameter(F32, &[]);
    let b = sum.parameter(F32, &[]);
    let added = sum.elementwise("add", &[a, b]);
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let whole = graph.elementwise("all-reduce", &[x]);
    let decode = |bytes: Bytes| HloModuleProto::decode(bytes);
    let mut module = decode(graph.finish(&[whole]))?;
    let reducer = decode(sum.finish_without_tuple(added))?;
    // The reducer's ids follow those of the entry.
    const AFTER: i64 = 1 << 20;
    for mut computation in reducer.computations {
        computation.id = 2;
        computation.name = "sum".to_owned();
        computation.root_id += AFTER;
        for instruction in &mut computation.instructions {
            instruction.id += AFTER;
            for operand in &mut instruction.operand_ids {
                *operand += AFTER;
            }
        }
        module.computations.insert(0, computation);
    }
    for computation in &mut module.computations {
        let reduces = computation.instructions.iter_mut();
        for instruction in reduces.filter(|instruction| instruction.opcode == "all-reduce") {
            instruction.called_computation_ids = vec![2];
            instruction.replica_groups = vec![ReplicaGroup {
                replica_ids: vec![0, 1],
            }];
        }
    }
    artifact(module.encode_to_vec().into(), |m| m.user_input(0, "x"))
}

fn all_reduce<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = runtime
        .load_spmd(&summed()?, &SpmdOptions::new(2, 2))
        .must()?;
    let mut session = model.session().must()?;
    for round in 1..=3_u8 {
        let round = f32::from(round);
        let inputs = vec![
            vec![input(&model, "x", [round, 1.0])?],
            vec![input(&model, "x", [10.0, 2.0 * round])?],
        ];
        let executed = session.execute(SpmdInputs::ranked(inputs), ()).must()?;
        let (outputs, _) = executed.tolerate_nan().into_parts();
        for rank in 0..2 {
            let whole = outputs.rank(rank).must()?.get(0).must()?;
            let expected = vec![10.0 + round, 1.0 + 2.0 * round];
            equal("the sum", whole.to_vec::<f32>().must()?, expected)?;
        }
    }
    Ok(())
}

fn one_rank<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = runtime.load_spmd(&accumulate(false)?, &alone()).must()?;
    let mut session = model.session().must()?;
    let states = session.zero_states().must()?;
    let inputs = || {
        Ok::<_, Failure>(SpmdInputs::ranked(vec![
            vec![input(&model, "x", [1.0, 1.0])?],
            vec![input(&model, "x", [2.0, 2.0])?],
        ]))
    };
    // One of the two executions is the first, whichever it is.
    let failed = refused("a faulty rank", session.execute(inputs()?, states))?;
    let Some(rank) = failed.reason().failed_rank() else {
        return Err(Failure::new(failed.to_string()));
    };
    if let SpmdError::Ranks { outcomes } = failed.reason() {
        equal("outcomes", outcomes.len(), 2)?;
        for outcome in outcomes {
            match &outcome.result {
                Err(RankError::Execute(ExecuteError::Backend(error))) => {
                    equal("status", error.status(), Status::EXEC_OOB)?;
                    equal("rank", outcome.rank, rank)?;
                }
                Ok(()) => {}
                Err(other) => return Err(Failure::new(other.to_string())),
            }
        }
    }
    let (returned, states) = failed.into_inputs();
    let given_back: Vec<bool> = returned.iter().map(Option::is_some).collect();
    equal("inputs given back", given_back, vec![rank == 0, rank == 1])?;
    let executed = session.execute(inputs()?, states).must()?;
    let (_, states) = executed.tolerate_nan().into_parts();
    for (local, step) in [(0_u32, 1.0), (1, 2.0)] {
        // The rank that failed has one step less.
        let steps = if local == rank { 1.0 } else { 2.0 };
        let sum = states.get(local, "sum").must()?.to_vec::<f32>().must()?;
        equal("the rank's sum", sum, vec![step * steps; 2])?;
    }
    Ok(())
}

fn bounds<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let artifact = subtract()?;
    let outside = SpmdOptions::new(2, 2).from_rank(1);
    let error = refused("rank 2 of 2", runtime.load_spmd(&artifact, &outside))?;
    holds(
        "the world is named",
        matches!(error, SpmdError::World { .. }),
    )?;
    let model = runtime.load_spmd(&artifact, &alone()).must()?;
    let error = refused("rank 2", model.rank(2).map(drop))?;
    holds(
        "the rank is named",
        matches!(error, SpmdError::Rank { rank: 2, .. }),
    )
}
