//! Pools, replicas and ranks over a backend in host memory.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use metaneff_schema::metaneff::meta_tensor::Type;
use metaneff_schema::metaneff::{MetaNeff, MetaTensor};
use metaneff_schema::nrt::Status;
use proptest::prelude::*;

use crate::testing::{Fake, Launch, add_model, model};
use crate::{
    Argument, Artifact, BatchError, BindError, Completion, Core, Error, ExecuteError, HostTensor,
    RankError, Runtime, SessionPool, Slot, SpmdError, SpmdInputs, SpmdOptions, StatesError, Tensor,
    Validated, WeightsError,
};

fn host(elements: &[f32]) -> HostTensor<'static> {
    HostTensor::from_vec([elements.len()], elements.to_vec()).unwrap()
}

fn admit(slot: &Slot, elements: &[f32]) -> Tensor<Validated<'static>> {
    slot.validate(host(elements)).unwrap()
}

/// `output0 = input0 + input1 + input2`, a user input, a state and a weight;
/// the state's successor is the same sum.
fn stateful() -> Artifact {
    let tensor = |name: &'static str, role: Type, key: Option<&'static str>| MetaTensor {
        name: name.into(),
        shape: vec![2],
        data_type: 1,
        r#type: role.into(),
        checkpoint_key: key.map(|key| Bytes::from_static(key.as_bytes())),
        ..MetaTensor::default()
    };
    let message = MetaNeff {
        input_tensors: vec![
            tensor("input0", Type::UserInput, None),
            tensor("input1", Type::InputState, Some("sum")),
            tensor("input2", Type::InputWeight, Some("bias")),
        ],
        output_tensors: vec![
            tensor("output0", Type::UndefinedType, None),
            tensor("output1", Type::UndefinedType, None),
        ],
        output_aliases_to: [(1, 1)].into(),
        ..MetaNeff::default()
    };
    model(&message).unwrap()
}

/// Answers NaN for inputs above 100 and fails for negative ones.
fn accumulate(launch: &mut Launch) {
    let (x, state, bias) = (
        launch.f32s("input0"),
        launch.f32s("input1"),
        launch.f32s("input2"),
    );
    let sum: Vec<f32> = (0..2).map(|i| x[i] + state[i] + bias[i]).collect();
    launch.set_f32s("output0", &sum);
    launch.set_f32s("output1", &sum);
    if x[0] < 0.0 {
        launch.status = Status::EXEC_HW_ERR_COLLECTIVES;
    } else if x[0] > 100.0 {
        launch.status = Status::EXEC_COMPLETED_WITH_NUM_ERR;
    }
}

fn runtime(program: impl Fn(&mut Launch) + Send + Sync + 'static) -> (Fake, Runtime<Fake>) {
    let fake = Fake::new().with_program(program);
    (fake.clone(), Runtime::new(fake))
}

#[test]
fn a_pool_lends_each_session_to_one_thread_at_a_time() {
    let fake = Fake::new();
    let runtime = Runtime::new(fake.clone());
    let model = runtime.load(&add_model(), Core::new(0)).unwrap();
    let pool = SessionPool::new(&model, 3).unwrap();
    let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for worker in 0..8_u8 {
            let (pool, inside, most) = (&pool, &inside, &most);
            scope.spawn(move || {
                for round in 0..20_u8 {
                    let mut session = pool.acquire();
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    let x = [f32::from(worker), f32::from(round)];
                    let inputs =
                        [0_usize, 1].map(|ordinal| admit(session.slot(ordinal).unwrap(), &x));
                    let executed = session.bind(inputs).unwrap().execute(()).unwrap();
                    let outputs = executed.tolerate_nan().into_outputs();
                    let sum = outputs.get(0).unwrap().to_vec::<f32>().unwrap();
                    assert_eq!(sum, [x[0] * 2.0, x[1] * 2.0]);
                    drop(outputs);
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert!(most.into_inner() <= 3);
    assert_eq!((pool.size(), pool.available()), (3, 3));
    drop((pool, model));
    assert!(fake.live().is_empty());
}

#[test]
fn an_exhausted_pool_says_so_in_time() {
    let runtime = Runtime::new(Fake::new());
    let model = runtime.load(&add_model(), Core::new(0)).unwrap();
    let pool = SessionPool::new(&model, 1).unwrap();
    let held = pool.acquire();
    assert!(pool.try_acquire().is_none());
    assert!(pool.acquire_within(Duration::from_millis(2)).is_none());
    drop(held);
    assert!(pool.acquire_within(Duration::from_millis(2)).is_some());
    let none = SessionPool::new(&model, 0).unwrap();
    assert!(none.try_acquire().is_none());
}

#[test]
fn a_pool_that_cannot_be_filled_leaves_nothing_behind() {
    let fake = Fake::new();
    let runtime = Runtime::new(fake.clone());
    let model = runtime.load(&add_model(), Core::new(0)).unwrap();
    fake.fail_after(9, Status::RESOURCE);
    SessionPool::new(&model, 4).unwrap_err();
    drop(model);
    assert!(fake.live().is_empty());
}

#[test]
fn five_rows_on_three_cores_are_two_two_and_one() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let (fake, runtime) = runtime(move |launch| {
        let (a, b) = (launch.f32s("input0"), launch.f32s("input1"));
        log.lock().unwrap().push(a.clone());
        launch.set_f32s("output0", &[a[0] + b[0], a[1] + b[1]]);
    });
    let artifact = add_model().with_dynamic_batching(true).unwrap();
    let cores = [0, 1, 2].map(Core::new);
    let mut replicas = runtime.replicate(&artifact, &cores).unwrap();
    let on: Vec<Core> = replicas.models().map(crate::Model::core).collect();
    assert_eq!(on, cores);
    for count in [5_u8, 6, 1, 0, 17] {
        let rows: Vec<f32> = (1..=count).map(f32::from).collect();
        let a = admit(replicas.slot(0).unwrap(), &rows);
        let b = admit(replicas.slot(1).unwrap(), &rows);
        let executed = replicas.execute_batch(vec![a, b]).unwrap();
        let outputs = executed.reject_nan().unwrap();
        let doubled: Vec<f32> = rows.iter().map(|row| row * 2.0).collect();
        assert_eq!(outputs.get(0).unwrap().to_vec::<f32>().unwrap(), doubled);
        let parts: BTreeSet<String> = seen
            .lock()
            .unwrap()
            .drain(..)
            .map(|part| format!("{part:?}"))
            .collect();
        if count == 5 {
            let expected = ["[1.0, 2.0]", "[3.0, 4.0]", "[5.0, 5.0]"];
            assert_eq!(parts, expected.map(str::to_owned).into());
        }
    }
    drop(replicas);
    assert!(fake.live().is_empty());
}

#[test]
fn a_replica_that_fails_gives_the_batch_back() {
    let (fake, runtime) = runtime(|launch| {
        let sum = launch.f32s("input0");
        if sum[0] > 3.0 {
            launch.status = Status::EXEC_HW_ERR_DMA_ABORT;
        }
        launch.set_f32s("output0", &sum);
    });
    let artifact = add_model().with_dynamic_batching(true).unwrap();
    let mut replicas = runtime
        .replicate(&artifact, &[Core::new(0), Core::new(1)])
        .unwrap();
    let rows = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let inputs: Vec<_> = [0_usize, 1]
        .map(|ordinal| admit(replicas.slot(ordinal).unwrap(), &rows))
        .into();
    let rejected = replicas.execute_batch(inputs).unwrap_err();
    assert!(matches!(
        rejected.reason(),
        BatchError::Execute(ExecuteError::Backend(error))
            if error.status() == Status::EXEC_HW_ERR_DMA_ABORT
    ));
    assert_eq!(rejected.input()[1].to_vec::<f32>().unwrap(), rows);

    let mut none = runtime.replicate(&artifact, &[]).unwrap();
    assert!(none.slot(0).is_err());
    let rejected = none.execute_batch(rejected.into_input()).unwrap_err();
    assert!(matches!(rejected.reason(), BatchError::NoReplicas));
    drop((none, replicas));
    assert!(fake.live().is_empty());
}

#[test]
fn replicas_of_which_one_is_not_loaded_are_not_made() {
    let fake = Fake::new();
    let runtime = Runtime::new(fake.clone());
    fake.fail_after(8, Status::RESOURCE);
    let error = runtime
        .replicate(&add_model(), &[Core::new(0), Core::new(1)])
        .unwrap_err();
    assert!(matches!(error, Error::Load(_) | Error::Session(_)));
    assert!(fake.live().is_empty());
}

#[test]
fn replicas_take_their_weights_together_or_not_at_all() {
    let (fake, runtime) = runtime(accumulate);
    let replicas = runtime
        .replicate(&stateful(), &[Core::new(0), Core::new(1)])
        .unwrap();
    let bias = admit(replicas.slot(2).unwrap(), &[1.0, 2.0]);
    // The second replica's upload fails.
    fake.fail_after(3, Status::FAILURE);
    let rejected = replicas.load_weights(vec![bias]).unwrap_err();
    assert!(matches!(rejected.reason(), WeightsError::Backend(_)));
    for model in replicas.models() {
        let mut session = model.session().unwrap();
        let x = admit(session.slot(0).unwrap(), &[0.0, 0.0]);
        let rejected = session.bind([x]).unwrap_err();
        assert!(matches!(rejected.reason(), BindError::Missing(_)));
    }
    replicas.load_weights(rejected.into_input()).unwrap();
    drop(replicas);
    assert!(fake.live().is_empty());
}

#[test]
fn ranks_have_states_and_inputs_of_their_own() {
    let (fake, runtime) = runtime(accumulate);
    let options = SpmdOptions::new(2, 4).from_rank(2).from_core(Core::new(5));
    let model = runtime.load_spmd(&stateful(), &options).unwrap();
    assert_eq!((model.local_ranks(), model.world_size()), (2, 4));
    assert_eq!(model.rank(3).unwrap().core(), Core::new(6));
    for rank in [1, 4] {
        assert!(matches!(
            model.rank(rank),
            Err(SpmdError::Rank {
                first: 2,
                count: 2,
                ..
            })
        ));
    }
    let bias = admit(model.slot("bias").unwrap(), &[0.5, 0.5]);
    model.load_weights(vec![bias]).unwrap();
    let mut session = model.session().unwrap();
    let mut states = session.zero_states().unwrap();
    let first = admit(model.slot("sum").unwrap(), &[10.0, 20.0]);
    states.write(2, first).unwrap();
    let stray = admit(model.slot("sum").unwrap(), &[10.0, 20.0]);
    let rejected = states.write(4, stray).unwrap_err();
    assert!(matches!(rejected.reason(), SpmdError::Rank { rank: 4, .. }));

    let slot = model.slot(0).unwrap();
    let ranked = vec![
        vec![admit(slot, &[1.0, 2.0])],
        vec![admit(slot, &[3.0, 4.0])],
    ];
    let executed = session.execute(SpmdInputs::ranked(ranked), states).unwrap();
    let (outputs, states) = executed.reject_nan().unwrap().into_parts();
    let read = |rank: u32| outputs.rank(rank).unwrap().get(0).unwrap().to_vec::<f32>();
    assert_eq!(read(2).unwrap(), [11.5, 22.5]);
    assert_eq!(read(3).unwrap(), [3.5, 4.5]);
    assert_eq!(
        outputs.first().get(0).unwrap().to_vec::<f32>().unwrap(),
        [11.5, 22.5]
    );
    assert!(outputs.rank(4).is_err());
    let state = states.get(3, "sum").unwrap().to_vec::<f32>().unwrap();
    assert_eq!(state, [3.5, 4.5]);
    assert!(states.get(1, "sum").is_err());

    // Outputs that are left on the device go into the next launch.
    let mut kept = outputs.into_ranks();
    let taken: Vec<_> = kept.iter_mut().map(|rank| rank.take(0).unwrap()).collect();
    drop(kept);
    let mut inputs = Vec::new();
    for (rank, tensor) in (2..).zip(taken) {
        let session = session.rank(rank).unwrap();
        inputs.push(vec![Argument::Device(session.adopt(0, tensor).unwrap())]);
    }
    let before = runtime.transfers().unwrap();
    let executed = session.execute(SpmdInputs::Ranked(inputs), states).unwrap();
    let (outputs, states) = executed.tolerate_nan().into_parts();
    let moved = runtime.transfers().unwrap();
    assert_eq!(moved.host_to_device, before.host_to_device);
    let sum = outputs.rank(3).unwrap().get(0).unwrap().to_vec::<f32>();
    assert_eq!(sum.unwrap(), [7.5, 9.5]);
    drop(outputs);
    drop((states, session, model));
    assert!(fake.live().is_empty());
}

#[test]
fn all_ranks_execute_at_the_same_time() {
    // Each rank waits for the others, as in a collective.
    let meeting = Arc::new(Barrier::new(4));
    let (_, runtime) = runtime(move |launch| {
        meeting.wait();
        launch.set_f32s("output0", &launch.f32s("input0"));
    });
    let model = runtime
        .load_spmd(&add_model(), &SpmdOptions::new(4, 4))
        .unwrap();
    let mut session = model.session().unwrap();
    for value in [1.0, 2.0] {
        let inputs = [0_usize, 1].map(|ordinal| admit(model.slot(ordinal).unwrap(), &[value; 2]));
        let inputs = SpmdInputs::replicated(inputs.into());
        let executed = session.execute(inputs, ()).unwrap();
        assert_eq!(executed.completions(), [Completion::Clean; 4]);
        let (outputs, _) = executed.tolerate_nan().into_parts();
        for rank in 0..4 {
            let output = outputs.rank(rank).unwrap().get(0).unwrap();
            assert_eq!(output.to_vec::<f32>().unwrap(), [value; 2]);
        }
    }
}

#[test]
fn a_failing_rank_is_named_and_the_others_go_on() {
    let (fake, runtime) = runtime(accumulate);
    let model = runtime
        .load_spmd(&stateful(), &SpmdOptions::new(3, 3).without_collectives())
        .unwrap();
    let bias = admit(model.slot("bias").unwrap(), &[0.0, 0.0]);
    model.load_weights(vec![bias]).unwrap();
    let mut session = model.session().unwrap();
    let states = session.zero_states().unwrap();
    let slot = model.slot(0).unwrap();
    let row = |x: f32| vec![admit(slot, &[x, 0.0])];
    let inputs = SpmdInputs::ranked(vec![row(1.0), row(-1.0), row(2.0)]);
    let failed = session.execute(inputs, states).unwrap_err();
    assert_eq!(failed.reason().failed_rank(), Some(1));
    let text = failed.to_string();
    assert!(text.contains("rank 0: no failure") && text.contains("rank 1: "));
    let SpmdError::Ranks { outcomes } = failed.reason() else {
        panic!("{text}");
    };
    assert!(matches!(
        &outcomes[1].result,
        Err(RankError::Execute(ExecuteError::Backend(error)))
            if error.status() == Status::EXEC_HW_ERR_COLLECTIVES
    ));
    let (inputs, states) = failed.into_inputs();
    assert!(inputs[0].is_none() && inputs[2].is_none());
    let returned = inputs[1].as_deref().unwrap();
    assert!(matches!(
        returned,
        [Argument::Host(x)] if x.to_vec::<f32>().unwrap() == [-1.0, 0.0]
    ));
    // Ranks that completed have moved on; the other one has not.
    let state = |rank: u32| states.get(rank, "sum").unwrap().to_vec::<f32>().unwrap();
    assert_eq!(
        [state(0), state(1), state(2)],
        [[1.0, 0.0], [0.0, 0.0], [2.0, 0.0]]
    );

    let inputs = SpmdInputs::ranked(vec![row(1.0), row(101.0), row(1.0)]);
    let executed = session.execute(inputs, states).unwrap();
    assert_eq!(executed.completion(), Completion::NumericalError);
    let rejected = executed.reject_nan().unwrap_err();
    let (outputs, states) = rejected.into_input().into_parts();
    let sum = outputs.rank(2).unwrap().get(0).unwrap().to_vec::<f32>();
    assert_eq!(sum.unwrap(), [3.0, 0.0]);
    drop(outputs);
    drop((states, session, model));
    assert!(fake.live().is_empty());
}

#[test]
fn no_rank_is_executed_unless_all_are_bound() {
    let (fake, runtime) = runtime(accumulate);
    let model = runtime
        .load_spmd(&stateful(), &SpmdOptions::new(2, 2))
        .unwrap();
    let bias = admit(model.slot("bias").unwrap(), &[0.0, 0.0]);
    model.load_weights(vec![bias]).unwrap();
    let mut session = model.session().unwrap();
    let mut states = session.zero_states().unwrap();
    let slot = model.slot(0).unwrap();
    let cases = [
        vec![vec![admit(slot, &[1.0, 0.0])], vec![]],
        vec![vec![admit(slot, &[1.0, 0.0])]],
    ];
    let _ = fake.take_calls();
    for (case, inputs) in cases.into_iter().enumerate() {
        let count = inputs.len();
        let failed = session
            .execute(SpmdInputs::ranked(inputs), states)
            .unwrap_err();
        match failed.reason() {
            SpmdError::Ranks { outcomes } if case == 0 => {
                assert!(outcomes[0].result.is_ok());
                assert!(matches!(
                    outcomes[1].result,
                    Err(RankError::Bind(BindError::Missing(_)))
                ));
            }
            SpmdError::Count {
                expected: 2,
                found: 1,
                ..
            } if case == 1 => {}
            other => panic!("{other:?}"),
        }
        let (inputs, returned) = failed.into_inputs();
        assert_eq!(inputs.len(), count);
        assert!(matches!(inputs[0].as_deref(), Some([Argument::Host(_)])));
        states = returned;
    }
    assert!(!fake.take_calls().contains(&"execute".to_owned()));
    assert!(states.get(0, "sum").is_ok());
    let foreign = crate::testing::add_model();
    let other = runtime.load(&foreign, Core::new(0)).unwrap();
    let stray = admit(other.slot(0).unwrap(), &[0.0, 0.0]);
    let rejected = states.write(0, stray).unwrap_err();
    assert!(matches!(
        rejected.reason(),
        SpmdError::Ranks { outcomes }
            if matches!(outcomes[0].result, Err(RankError::States(StatesError::ForeignTensor { .. })))
    ));
    drop((states, session, model, other));
    assert!(fake.live().is_empty());
}

#[test]
fn a_world_that_its_ranks_do_not_fit_in_is_refused() {
    let fake = Fake::new();
    let runtime = Runtime::new(fake.clone());
    for options in [
        SpmdOptions::new(0, 2),
        SpmdOptions::new(3, 2),
        SpmdOptions::new(1, 2).from_rank(2),
        SpmdOptions::new(2, u32::MAX).from_rank(u32::MAX),
        SpmdOptions::new(2, 2).from_core(Core::new(u32::MAX)),
    ] {
        let error = runtime.load_spmd(&add_model(), &options).unwrap_err();
        assert!(matches!(error, SpmdError::World { .. }));
    }
    // One rank of three is not loaded: the others are unloaded again.
    fake.fail_after(1, Status::LOAD_NOT_ENOUGH_NC);
    let error = runtime
        .load_spmd(&add_model(), &SpmdOptions::new(3, 3))
        .unwrap_err();
    assert!(matches!(error, SpmdError::Ranks { ref outcomes } if outcomes.len() == 3));
    assert!(fake.live().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_number_of_cores_gives_what_one_gives(
        rows in prop::collection::vec(-100_i16..100, 0..40),
        cores in 1_u32..6,
    ) {
        let fake = Fake::new();
        let runtime = Runtime::new(fake.clone());
        let artifact = add_model().with_dynamic_batching(true).unwrap();
        let cores: Vec<Core> = (0..cores).map(Core::new).collect();
        let mut replicas = runtime.replicate(&artifact, &cores).unwrap();
        let rows: Vec<f32> = rows.into_iter().map(f32::from).collect();
        let inputs = |slots: [&Slot; 2]| slots.map(|slot| admit(slot, &rows)).to_vec();
        let given = inputs([replicas.slot(0).unwrap(), replicas.slot(1).unwrap()]);
        let spread = replicas.execute_batch(given).unwrap();
        // No core gets two rows more than another one: as many launches as pairs
        // of the even parts.
        let even = |core: usize| {
            let (size, larger) = (rows.len() / cores.len(), rows.len() % cores.len());
            (size + usize::from(core < larger)).div_ceil(2)
        };
        prop_assert_eq!(spread.launches(), (0..cores.len()).map(even).sum::<usize>());

        let model = runtime.load(&artifact, Core::new(0)).unwrap();
        let mut session = model.session().unwrap();
        let given = inputs([model.slot(0).unwrap(), model.slot(1).unwrap()]);
        let alone = session.execute_batch(given).unwrap().tolerate_nan();
        let spread = spread.tolerate_nan();
        prop_assert_eq!(
            spread.get(0).unwrap().to_vec::<f32>().unwrap(),
            alone.get(0).unwrap().to_vec::<f32>().unwrap()
        );
        drop((replicas, session, model));
        prop_assert!(fake.live().is_empty());
    }
}
