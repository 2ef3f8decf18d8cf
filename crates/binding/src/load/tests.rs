//! When models are loaded, over a backend in host memory and over a mock.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use metaneff_schema::metaneff::meta_tensor::Type;
use metaneff_schema::metaneff::{MetaNeff, MetaTensor};
use metaneff_schema::nrt::Status;
use proptest::prelude::*;

use super::*;
use crate::testing::{Fake, MockBackend, MockHandle, add_model, model};
use crate::{BackendError, CollectiveContext, Core, HostTensor, Session, UnloadError};

const LONG: Duration = Duration::from_secs(60);

fn loads(fake: &Fake) -> usize {
    let calls = fake.take_calls();
    calls.iter().filter(|call| *call == "load").count()
}

fn lazy() -> Artifact {
    let lazy = add_model().edit(|metaneff| {
        metaneff.set_lazy_load(true);
        Ok(())
    });
    lazy.unwrap()
}

fn in_background() -> Artifact {
    let artifact = add_model().edit(|metaneff| {
        metaneff.set_async_load(true);
        Ok(())
    });
    artifact.unwrap()
}

fn runtime() -> (Fake, SharedRuntime<Fake>) {
    let fake = Fake::new();
    (fake.clone(), SharedRuntime::new(fake))
}

fn sum(session: &mut Session<'_, Fake>) -> Vec<f32> {
    let input = |slot: usize| {
        let host = HostTensor::from_vec([2], vec![1.0_f32, 2.0]).unwrap();
        session.slot(slot).unwrap().validate(host).unwrap()
    };
    let inputs = [input(0), input(1)];
    let ready = session.bind(inputs).unwrap();
    let outputs = ready.execute(()).unwrap().tolerate_nan().into_outputs();
    outputs.get(0).unwrap().to_vec().unwrap()
}

/// A mock whose loads wait until the other end sends, and answer what it sends.
fn held(answers: Receiver<Result<(), Status>>) -> MockBackend {
    let answers = Mutex::new(answers);
    let mut mock = MockBackend::new();
    mock.expect_load()
        .returning(move |_| match answers.lock().unwrap().recv() {
            Ok(Ok(())) => Ok(MockHandle(1)),
            Ok(Err(status)) => Err(BackendError::new("nrt_load", status)),
            Err(_) => Err(BackendError::new("nrt_load", Status::FAILURE)),
        });
    mock.expect_model_core().returning(|_| Ok(Core::new(0)));
    mock
}

fn options() -> LoadOptions {
    LoadOptions::new().without_comparison()
}

#[test]
fn ten_first_uses_load_a_lazy_model_once() {
    let (fake, runtime) = runtime();
    let lazy = runtime.prepare(&lazy(), LoadOptions::new()).open().unwrap();
    assert_eq!(loads(&fake), 0);
    assert_eq!(lazy.state(), LoadState::Unloaded);
    let barrier = Barrier::new(10);
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                barrier.wait();
                let mut session = lazy.get().unwrap().session().unwrap();
                assert_eq!(sum(&mut session), [2.0, 4.0]);
            });
        }
    });
    assert_eq!(loads(&fake), 1);
    assert_eq!(lazy.state(), LoadState::Ready);
    drop((lazy, runtime));
    assert!(fake.live().is_empty());
}

#[test]
fn a_failed_background_load_answers_every_use_and_can_be_tried_again() {
    let (fake, runtime) = runtime();
    fake.fail_after(0, Status::UNSUPPORTED_NEFF_VERSION);
    let unloaded = runtime.prepare(&in_background(), LoadOptions::new());
    let background = unloaded.open().unwrap();
    for _ in 0..2 {
        let error = background.get().unwrap_err();
        assert!(matches!(
            error,
            LoadError::Backend(error) if error.status() == Status::UNSUPPORTED_NEFF_VERSION
        ));
    }
    assert_eq!(background.state(), LoadState::Failed);
    assert_eq!(loads(&fake), 1);
    background.unload().unwrap();
    assert_eq!(background.state(), LoadState::Unloaded);
    background.get().unwrap();
    assert_eq!(background.state(), LoadState::Ready);
}

#[test]
fn a_model_is_loaded_at_once_unless_its_contract_says_otherwise() {
    let (fake, runtime) = runtime();
    fake.fail_after(0, Status::RESOURCE);
    let rejected = runtime
        .prepare(&add_model(), LoadOptions::new())
        .open()
        .unwrap_err();
    assert!(matches!(
        rejected.reason(),
        LoadError::Backend(error) if error.status() == Status::RESOURCE
    ));
    let model = rejected.into_input().open().unwrap();
    assert_eq!(model.state(), LoadState::Ready);
    assert_eq!(loads(&fake), 2);
}

#[test]
fn each_step_of_a_load_is_the_next_ones_evidence() {
    let (fake, runtime) = runtime();
    fake.fail_after(0, Status::FAILURE);
    let unloaded = runtime.prepare(&add_model(), LoadOptions::new().on(Core::new(2)));
    let rejected = unloaded.start().wait().unwrap_err();
    let unloaded = rejected.into_input();
    let model = unloaded.load().unwrap();
    assert_eq!(model.core(), Core::new(2));
    model.unload().unwrap();
    assert!(fake.live().is_empty());
}

#[test]
fn a_model_that_was_waited_for_is_the_callers_alone() {
    let (fake, runtime) = runtime();
    for _ in 0..50 {
        let loading = runtime.prepare(&add_model(), LoadOptions::new()).start();
        loading.wait().unwrap().unload().unwrap();
        assert!(fake.live().is_empty());
        let background = runtime.prepare(&in_background(), LoadOptions::new());
        let background = background.open().unwrap();
        background.get().unwrap();
        background.unload().unwrap();
        assert!(fake.live().is_empty());
    }
}

#[test]
fn a_load_that_hangs_is_waited_for_no_longer_than_asked() {
    let (answer, answers) = mpsc::channel();
    let mut mock = held(answers);
    mock.expect_unload().once().returning(|_| Ok(()));
    let runtime = SharedRuntime::new(mock);
    let loading = runtime.prepare(&add_model(), options()).start();
    let loading = match loading.wait_for(Duration::from_millis(5)) {
        Waited::Loading(loading) => loading,
        other => panic!("{other:?}"),
    };
    assert!(!loading.is_finished());
    answer.send(Ok(())).unwrap();
    match loading.wait_for(LONG) {
        Waited::Ready(model) => drop(model),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_deadline_leaves_the_load_to_a_later_use() {
    let (answer, answers) = mpsc::channel();
    let mut mock = held(answers);
    mock.expect_unload().once().returning(|_| Ok(()));
    let runtime = SharedRuntime::new(mock);
    let lazy = runtime.prepare(&lazy(), options()).open().unwrap();
    let limit = Duration::from_millis(5);
    assert_eq!(
        lazy.get_within(limit).unwrap_err(),
        LoadError::Deadline { limit }
    );
    assert_eq!(lazy.state(), LoadState::Loading);
    assert_eq!(lazy.unload(), Err(UnloadError::InUse));
    answer.send(Ok(())).unwrap();
    lazy.get_within(LONG).unwrap();
    assert_eq!(lazy.state(), LoadState::Ready);
}

#[test]
fn a_load_that_nobody_waits_for_ends_in_an_unload() {
    let (answer, answers) = mpsc::channel();
    let mut mock = held(answers);
    let (unloaded, gone) = mpsc::channel();
    mock.expect_unload().once().returning(move |_| {
        unloaded.send(()).unwrap();
        Ok(())
    });
    let runtime = SharedRuntime::new(mock);
    drop(runtime.prepare(&add_model(), options()).start());
    answer.send(Ok(())).unwrap();
    gone.recv_timeout(LONG).unwrap();
}

#[test]
fn a_rank_of_a_world_is_loaded_as_such() {
    let mut mock = MockBackend::new();
    mock.expect_load()
        .once()
        .withf(|request| {
            request.collectives == Some(CollectiveContext::new(1, 4))
                && request.core == Some(Core::new(3))
        })
        .returning(|_| Ok(MockHandle(1)));
    mock.expect_model_core().returning(|_| Ok(Core::new(3)));
    mock.expect_unload().once().returning(|_| Ok(()));
    let runtime = SharedRuntime::new(mock);
    let rank = options()
        .on(Core::new(3))
        .with_collectives(CollectiveContext::new(1, 4));
    runtime.prepare(&add_model(), rank).load().unwrap();
}

#[test]
fn a_model_in_use_stays_loaded_and_an_unloaded_one_comes_back() {
    let (fake, runtime) = runtime();
    let model = runtime.prepare(&add_model(), LoadOptions::new());
    let model = model.open().unwrap();
    let session = model.get().unwrap().session().unwrap();
    assert_eq!(model.unload(), Err(UnloadError::InUse));
    assert_eq!(model.state(), LoadState::Ready);
    drop(session);
    model.unload().unwrap();
    assert!(fake.live().is_empty());
    assert_eq!(
        sum(&mut model.get().unwrap().session().unwrap()),
        [2.0, 4.0]
    );
    assert_eq!(loads(&fake), 2);
}

#[test]
fn setters_reload_where_the_native_ones_do() {
    let (fake, runtime) = runtime();
    let model = runtime.prepare(&add_model(), LoadOptions::new());
    let model = model.open().unwrap();
    model.set_async_load(true).unwrap();
    model.set_lazy_load(true).unwrap();
    assert_eq!(model.state(), LoadState::Ready);
    assert!(model.artifact().contract().loads_lazily());
    assert!(model.artifact().contract().loads_in_background());

    let mut before = model.get().unwrap().session().unwrap();
    model.set_dynamic_batching(true).unwrap();
    assert_eq!(model.state(), LoadState::Unloaded);
    let after = model.get().unwrap();
    assert!(after.slot(0).unwrap().has_dynamic_batch());
    // A session of before goes on with what it was made from.
    assert!(!before.slot(0).unwrap().has_dynamic_batch());
    assert_eq!(sum(&mut before), [2.0, 4.0]);
    assert_eq!(loads(&fake), 2);

    model
        .set_dynamic_batching_mixed(&[true, false], &[true])
        .unwrap();
    let flags: Vec<bool> = model
        .get()
        .unwrap()
        .contract()
        .inputs()
        .iter()
        .map(crate::Slot::has_dynamic_batch)
        .collect();
    assert_eq!(flags, [true, false]);
    model.set_return_aliases(true).unwrap();
    assert!(model.get().unwrap().contract().returns_aliases());
    // A refused edit changes nothing.
    assert!(model.set_dynamic_batching_mixed(&[true], &[true]).is_err());
    assert_eq!(model.state(), LoadState::Ready);
    drop((before, after, model));
    assert!(fake.live().is_empty());
}

fn weighted() -> Artifact {
    let tensor = |name: &'static str, role: Type| MetaTensor {
        name: name.into(),
        shape: vec![2],
        data_type: 1,
        r#type: role.into(),
        checkpoint_key: (role == Type::InputWeight).then(|| Bytes::from_static(b"w")),
        ..MetaTensor::default()
    };
    let message = MetaNeff {
        input_tensors: vec![
            tensor("input0", Type::UserInput),
            tensor("input1", Type::InputWeight),
        ],
        output_tensors: vec![tensor("output0", Type::UndefinedType)],
        ..MetaNeff::default()
    };
    model(&message).unwrap()
}

fn checkpoint(key: &str) -> Arc<Checkpoint> {
    let header = format!(r#"{{"{key}":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}}}"#);
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend([10.0_f32, 20.0].into_iter().flat_map(f32::to_le_bytes));
    Arc::new(Checkpoint::from_bytes(file).unwrap())
}

#[test]
fn a_checkpoint_is_part_of_the_load() {
    let (fake, runtime) = runtime();
    let unloaded = runtime
        .prepare(&weighted(), LoadOptions::new())
        .with_checkpoint(checkpoint("w"));
    let model = unloaded.start().wait().unwrap();
    let mut session = model.session().unwrap();
    let one = HostTensor::from_vec([2], vec![1.0_f32, 2.0]).unwrap();
    let one = session.slot(0).unwrap().validate(one).unwrap();
    let outputs = session.bind([one]).unwrap().execute(()).unwrap();
    let outputs = outputs.tolerate_nan().into_outputs();
    assert_eq!(
        outputs.get(0).unwrap().to_vec::<f32>().unwrap(),
        [11.0, 22.0]
    );
    drop((session, model));

    let unloaded = runtime
        .prepare(&weighted(), LoadOptions::new())
        .with_checkpoint(checkpoint("v"));
    let rejected = unloaded.load().unwrap_err();
    assert!(matches!(
        rejected.reason(),
        LoadError::Weights { detail } if detail.contains('w')
    ));
    assert!(fake.live().is_empty());
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn asynchronous_first_uses_load_once_and_may_be_dropped() {
    let (fake, runtime) = runtime();
    let model = runtime.prepare(&lazy(), LoadOptions::new()).open().unwrap();
    drop(model.ready());
    assert_eq!(model.state(), LoadState::Unloaded);
    let (first, second) = tokio::join!(model.ready(), model.ready());
    let sums = [first, second].map(|model| sum(&mut model.unwrap().session().unwrap()));
    assert_eq!(sums, [[2.0, 4.0]; 2]);
    assert_eq!(loads(&fake), 1);
}

#[derive(Clone, Debug)]
enum Step {
    Get,
    Hold,
    Release,
    Unload,
    Batching(bool),
    Lazy(bool),
    Aliases(bool),
    Fail(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Get),
        2 => Just(Step::Hold),
        2 => Just(Step::Release),
        2 => Just(Step::Unload),
        1 => any::<bool>().prop_map(Step::Batching),
        1 => any::<bool>().prop_map(Step::Lazy),
        1 => any::<bool>().prop_map(Step::Aliases),
        2 => (0_u64..8).prop_map(Step::Fail),
    ];
    prop::collection::vec(step, 0..40)
}

proptest! {
    #[test]
    fn no_order_of_uses_edits_and_failures_leaks_or_loads_twice(steps in steps()) {
        let (fake, runtime) = runtime();
        let model = runtime.prepare(&lazy(), LoadOptions::new()).open().unwrap();
        let mut held: Vec<Session<'static, Fake>> = Vec::new();
        for step in steps {
            let ready = model.state() == LoadState::Ready;
            let _ = fake.take_calls();
            match step {
                Step::Get => {
                    let got = model.get();
                    prop_assert_eq!(got.is_ok(), model.state() == LoadState::Ready);
                    if ready {
                        prop_assert_eq!(loads(&fake), 0);
                    }
                }
                Step::Hold => held.extend(model.get().ok().and_then(|model| model.session().ok())),
                Step::Release => drop(held.pop()),
                Step::Unload => {
                    let unloaded = model.unload();
                    let expected = match unloaded {
                        Ok(()) => LoadState::Unloaded,
                        Err(UnloadError::InUse) => LoadState::Ready,
                        Err(error) => panic!("{error}"),
                    };
                    prop_assert_eq!(model.state(), expected);
                }
                Step::Batching(value) => {
                    model.set_dynamic_batching(value).unwrap();
                    prop_assert_eq!(model.state(), LoadState::Unloaded);
                }
                Step::Lazy(value) => {
                    let before = model.state();
                    model.set_lazy_load(value).unwrap();
                    prop_assert_eq!(model.state(), before);
                }
                Step::Aliases(value) => model.set_return_aliases(value).unwrap(),
                Step::Fail(calls) => {
                    fake.fail_after(calls, Status::FAILURE);
                    continue;
                }
            }
            fake.recover();
        }
        drop((model, held));
        prop_assert!(fake.live().is_empty());
    }
}

#[test]
fn a_maker_that_panics_leaves_the_turn_to_another() {
    let latch = Latch::new();
    let made = AtomicUsize::new(0);
    thread::scope(|scope| {
        let panicked = scope.spawn(|| latch.get_or_make(|| panic!("a maker may panic")));
        assert!(panicked.join().is_err());
    });
    assert_eq!(latch.progress(), Progress::Idle);
    let value = latch.get_or_make(|| {
        made.fetch_add(1, Ordering::Relaxed);
        5
    });
    assert_eq!((value, latch.peek()), (5, Some(5)));
    assert_eq!(made.into_inner(), 1);
}
