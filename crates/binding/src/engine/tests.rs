//! Serving requests over a backend in host memory.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use metaneff_schema::metaneff::meta_tensor::Type;
use metaneff_schema::metaneff::{MetaNeff, MetaTensor};
use metaneff_schema::nrt::Status;
use proptest::prelude::*;

use super::*;
use crate::testing::{Fake, Launch, add_model, model};
use crate::{Argument, Artifact, BindError, ExecuteError, HostTensor, SharedRuntime};

const LONG: Duration = Duration::from_secs(60);

fn engine(fake: &Fake, artifact: &Artifact, cores: u32, options: &EngineOptions) -> Engine<Fake> {
    let runtime = SharedRuntime::new(fake.clone());
    let models = (0..cores).map(|core| runtime.load(artifact, Core::new(core)).unwrap());
    Engine::new(models.collect(), options).unwrap()
}

fn request(engine: &Engine<Fake>, value: f32) -> Request<Fake> {
    let input = |slot: usize| {
        let host = HostTensor::from_vec([2], vec![value, 1.0]).unwrap();
        engine.slot(slot).unwrap().validate(host).unwrap()
    };
    Request::new(vec![input(0), input(1)])
}

fn first(response: &Response<Fake>) -> f32 {
    response.outputs[0].to_vec::<f32>().unwrap()[0]
}

/// Waits for what another thread does.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !done() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        thread::yield_now();
    }
}

/// A backend whose executions wait for a message each, and fail for negative
/// inputs; the number of executions that have begun.
fn gated() -> (Fake, Sender<()>, Arc<AtomicUsize>) {
    let (open, gate): (_, Receiver<()>) = channel();
    let gate = Mutex::new(gate);
    let begun = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&begun);
    let fake = Fake::new().with_program(move |launch| {
        count.fetch_add(1, Ordering::SeqCst);
        // An end without a sender is open.
        let _ = gate.lock().unwrap_or_else(PoisonError::into_inner).recv();
        add(launch);
    });
    (fake, open, begun)
}

fn add(launch: &mut Launch) {
    let (a, b) = (launch.f32s("input0"), launch.f32s("input1"));
    launch.set_f32s("output0", &[a[0] + b[0], a[1] + b[1]]);
    if a[0] < 0.0 {
        launch.status = Status::EXEC_OOB;
    }
}

fn gone(fake: &Fake) {
    until("everything is given back", || fake.live().is_empty());
}

#[tokio::test]
async fn a_request_is_uploaded_while_another_one_executes() {
    let base = Fake::new();
    let probe = base.clone();
    // Each execution waits until the inputs of the next request are written.
    let fake = base.with_program(move |launch| {
        let index = launch.f32s("input0")[0];
        if index < 7.0 {
            until("the next upload", || {
                let writes = probe.transfers().map_or(0, |transfers| transfers.writes);
                writes as f32 >= 2.0 * (index + 2.0)
            });
        }
        add(launch);
    });
    let engine = engine(&fake, &add_model(), 1, &EngineOptions::new());
    let requests: Vec<_> = (0_u8..8)
        .map(|value| request(&engine, f32::from(value)))
        .collect();
    let answers = engine.serve_all(requests).await;
    for (value, answer) in (0_u8..).zip(answers) {
        assert_eq!(first(&answer.unwrap()), 2.0 * f32::from(value));
    }
    assert_eq!(engine.stats().completed, 8);
    engine.shutdown(LONG).await.unwrap();
    assert!(fake.live().is_empty());
}

#[tokio::test]
async fn a_full_queue_gives_the_request_back() {
    let (fake, open, _) = gated();
    let options = EngineOptions::new().queue(1).sessions(1);
    let engine = engine(&fake, &add_model(), 1, &options);
    let mut pending = Vec::new();
    let mut value = 0.0;
    // One executes, one waits for its session, one is in the queue.
    until("the queue is full", || {
        match engine.try_submit(request(&engine, value)) {
            Ok(taken) => {
                pending.push(taken);
                value += 1.0;
                false
            }
            Err(unserved) => {
                assert!(matches!(unserved.reason(), ServeError::Full));
                let request = unserved.into_request().unwrap();
                assert!(matches!(
                    request.inputs(),
                    [Argument::Host(a), _] if a.to_vec::<f32>().unwrap() == [value, 1.0]
                ));
                pending.len() == 3
            }
        }
    });
    drop(open);
    for (value, pending) in (0_u8..).zip(pending) {
        assert_eq!(first(&pending.await.unwrap()), 2.0 * f32::from(value));
    }
    engine.shutdown(LONG).await.unwrap();
    assert!(fake.live().is_empty());
}

#[tokio::test]
async fn a_deadline_passes_in_the_queue_and_on_the_device() {
    let (fake, open, begun) = gated();
    let options = EngineOptions::new().sessions(1);
    let engine = engine(&fake, &add_model(), 1, &options);
    // Long enough to begin in time on a busy machine.
    let long = Duration::from_millis(500);
    let on_device = engine
        .submit(request(&engine, 1.0).within(long))
        .await
        .unwrap();
    until("the first executes", || begun.load(Ordering::SeqCst) == 1);
    let limit = Duration::from_millis(5);
    let waited_for = engine.submit(request(&engine, 2.0).within(limit));
    let waited_for = waited_for.await.unwrap();
    let forgotten = engine.submit(request(&engine, 3.0).within(limit));
    let forgotten = forgotten.await.unwrap();
    for (pending, limit) in [(on_device, long), (waited_for, limit)] {
        let unserved = pending.await.unwrap_err();
        assert!(matches!(
            unserved.reason(),
            ServeError::Deadline { limit: found, elapsed } if *found == limit && *elapsed >= limit
        ));
        // The device may still be at work on it.
        assert!(unserved.into_request().is_none());
    }
    open.send(()).unwrap();
    until("the last is found expired", || engine.stats().expired == 1);
    let unserved = forgotten.await.unwrap_err();
    assert!(matches!(unserved.reason(), ServeError::Deadline { .. }));
    assert!(unserved.into_request().is_some());
    // Neither of the two in the queue was executed.
    drop(open);
    let served = engine.submit(request(&engine, 4.0)).await.unwrap();
    assert_eq!(first(&served.await.unwrap()), 8.0);
    assert_eq!(begun.load(Ordering::SeqCst), 2);
    assert_eq!(engine.stats().cancelled, 1);
    engine.shutdown(LONG).await.unwrap();
    assert!(fake.live().is_empty());
}

#[tokio::test]
async fn a_dropped_request_keeps_its_buffers_until_the_device_is_done() {
    let base = Fake::new();
    let (probe, begun) = (base.clone(), Arc::new(AtomicUsize::new(0)));
    let (open, gate) = channel::<()>();
    let (gate, count) = (Mutex::new(gate), Arc::clone(&begun));
    let alive = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&alive);
    let fake = base.with_program(move |launch| {
        count.fetch_add(1, Ordering::SeqCst);
        let _ = gate.lock().unwrap_or_else(PoisonError::into_inner).recv();
        seen.store(probe.live().tensors, Ordering::SeqCst);
        add(launch);
    });
    let engine = engine(&fake, &add_model(), 1, &EngineOptions::new().sessions(1));
    let running = engine.submit(request(&engine, 1.0)).await.unwrap();
    let queued = engine.submit(request(&engine, 2.0)).await.unwrap();
    until("the first executes", || begun.load(Ordering::SeqCst) == 1);
    drop((running, queued));
    open.send(()).unwrap();
    until("the second is left out", || engine.stats().cancelled == 1);
    drop(open);
    engine.shutdown(LONG).await.unwrap();
    assert_eq!(begun.load(Ordering::SeqCst), 1);
    assert_eq!(alive.load(Ordering::SeqCst), 3);
    assert!(fake.live().is_empty());
}

#[tokio::test]
async fn a_refused_or_failed_request_comes_back_and_the_next_is_served() {
    let fake = Fake::new().with_program(add);
    let engine = engine(&fake, &add_model(), 1, &EngineOptions::new().sessions(1));
    let whole = request(&engine, -1.0);
    let mut half = request(&engine, 5.0);
    half.inputs.pop();
    let unserved = engine.submit(half).await.unwrap().await.unwrap_err();
    assert!(matches!(
        unserved.reason(),
        ServeError::Bind(BindError::Missing(_))
    ));
    assert_eq!(unserved.into_request().unwrap().inputs().len(), 1);
    let unserved = engine.submit(whole).await.unwrap().await.unwrap_err();
    assert!(matches!(
        unserved.reason(),
        ServeError::Execute(ExecuteError::Backend(error)) if error.status() == Status::EXEC_OOB
    ));
    assert_eq!(unserved.into_request().unwrap().inputs().len(), 2);
    let served = engine.submit(request(&engine, 5.0)).await.unwrap();
    assert_eq!(first(&served.await.unwrap()), 10.0);
    let stats = engine.stats();
    assert_eq!((stats.submitted, stats.failed, stats.completed), (3, 2, 1));
}

/// A running sum in a state, and its sum with the input as the output.
fn counter() -> Artifact {
    let tensor = |name: &'static str, role: Type| MetaTensor {
        name: name.into(),
        shape: vec![1],
        data_type: 1,
        r#type: role.into(),
        ..MetaTensor::default()
    };
    model(&MetaNeff {
        input_tensors: vec![
            tensor("input0", Type::UserInput),
            tensor("input1", Type::InputState),
        ],
        output_tensors: vec![
            tensor("output0", Type::UndefinedType),
            tensor("output1", Type::UndefinedType),
        ],
        output_aliases_to: [(1, 1)].into(),
        ..MetaNeff::default()
    })
    .unwrap()
}

#[tokio::test]
async fn sequences_carry_their_states_and_stay_on_their_core() {
    let fake = Fake::new().with_program(|launch| {
        let sum = launch.f32s("input0")[0] + launch.f32s("input1")[0];
        launch.set_f32s("output0", &[sum]);
        launch.set_f32s("output1", &[sum]);
    });
    let engine = engine(&fake, &counter(), 2, &EngineOptions::new());
    let one = |value: f32| {
        let host = HostTensor::from_vec([1], vec![value]).unwrap();
        Request::new(vec![engine.slot(0).unwrap().validate(host).unwrap()])
    };
    let mut sums = Vec::new();
    for core in engine.cores() {
        let mut states = engine.zero_states(core).await.unwrap();
        assert_eq!(states.core(), Some(core));
        for value in [1.0, 2.0, 4.0] {
            let pending = engine.submit(one(value).with_states(states)).await.unwrap();
            let response = pending.await.unwrap();
            sums.push(first(&response));
            states = response.states;
        }
        assert_eq!(states.core(), Some(core));
    }
    assert_eq!(sums, [1.0, 3.0, 7.0, 1.0, 3.0, 7.0]);

    // Without states the launch is refused.
    let unserved = engine.submit(one(1.0)).await.unwrap().await.unwrap_err();
    assert!(matches!(
        unserved.reason(),
        ServeError::Execute(ExecuteError::StatesMissing { .. })
    ));
    let far = SharedRuntime::new(fake.clone());
    let far = far.load(&counter(), Core::new(5)).unwrap();
    let states = far.session().unwrap().zero_states().unwrap();
    let unserved = engine
        .submit(one(1.0).with_states(states))
        .await
        .unwrap_err();
    assert!(matches!(
        unserved.reason(),
        ServeError::Core { found, .. } if *found == Core::new(5)
    ));
    assert!(unserved.to_string().ends_with("serves core 0, core 1"));
    drop(unserved);
    let unserved = engine.zero_states(Core::new(7)).await.unwrap_err();
    assert!(matches!(unserved.reason(), ServeError::Core { .. }));
    drop(far);
    engine.shutdown(LONG).await.unwrap();
    gone(&fake);
}

#[tokio::test]
async fn outputs_stay_on_the_device_for_the_next_model() {
    let fake = Fake::new().with_program(add);
    let engine = engine(&fake, &add_model(), 1, &EngineOptions::new());
    let left = request(&engine, 1.0).leaving_outputs_on_device();
    let mut response = engine.submit(left).await.unwrap().await.unwrap();
    assert!(response.outputs.is_empty());
    let output = response.on_device.pop().unwrap();
    assert_eq!(output.to_vec::<f32>().unwrap(), [2.0, 2.0]);
    // The next launch has a buffer of its own for its output.
    let again = engine.submit(request(&engine, 4.0)).await.unwrap();
    assert_eq!(first(&again.await.unwrap()), 8.0);
    assert_eq!(output.to_vec::<f32>().unwrap(), [2.0, 2.0]);
}

#[tokio::test]
async fn answers_of_several_cores_come_in_the_order_of_the_requests() {
    let fake = Fake::new().with_program(|launch| {
        // Some take longer than others.
        let rounds = 37 * (u32::from(launch.inputs["input0"][2]) % 7);
        (0..rounds).for_each(|_| thread::yield_now());
        add(launch);
    });
    let engine = engine(&fake, &add_model(), 3, &EngineOptions::new().queue(2));
    let requests: Vec<_> = (0_u8..100)
        .map(|value| request(&engine, f32::from(value)))
        .collect();
    let answers = engine.serve_all(requests).await;
    for (value, answer) in (0_u8..).zip(answers) {
        assert_eq!(first(&answer.unwrap()), 2.0 * f32::from(value));
    }
    engine.shutdown(LONG).await.unwrap();
    assert!(fake.live().is_empty());
}

#[tokio::test]
async fn a_shutdown_serves_what_is_queued_and_is_bounded_in_time() {
    let (fake, open, begun) = gated();
    let engine = engine(&fake, &add_model(), 1, &EngineOptions::new());
    let mut pending = Vec::new();
    for value in [1.0, 2.0, 3.0] {
        pending.push(engine.submit(request(&engine, value)).await.unwrap());
    }
    drop(open);
    engine.shutdown(LONG).await.unwrap();
    for (pending, expected) in pending.into_iter().zip([2.0, 4.0, 6.0]) {
        assert_eq!(first(&pending.await.unwrap()), expected);
    }
    assert!(fake.live().is_empty());
    assert_eq!(begun.load(Ordering::SeqCst), 3);

    let (fake, open, begun) = gated();
    let engine = self::engine(&fake, &add_model(), 1, &EngineOptions::new());
    let running = engine.submit(request(&engine, 1.0)).await.unwrap();
    let queued = engine.submit(request(&engine, 2.0)).await.unwrap();
    until("the first executes", || begun.load(Ordering::SeqCst) == 1);
    let limit = Duration::from_millis(5);
    let error = engine.shutdown(limit).await.unwrap_err();
    assert_eq!(error.running, [Core::new(0)]);
    drop(open);
    // What executes is answered, what waits is not executed.
    assert_eq!(first(&running.await.unwrap()), 2.0);
    let unserved = queued.await.unwrap_err();
    assert!(matches!(unserved.reason(), ServeError::Closed));
    drop(unserved);
    gone(&fake);
    assert_eq!(begun.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_dropped_engine_refuses_what_is_queued() {
    let (fake, open, begun) = gated();
    let engine = engine(&fake, &add_model(), 1, &EngineOptions::new().sessions(1));
    let running = engine.submit(request(&engine, 1.0)).await.unwrap();
    let queued = engine.submit(request(&engine, 2.0)).await.unwrap();
    until("the first executes", || begun.load(Ordering::SeqCst) == 1);
    drop(engine);
    drop(open);
    assert_eq!(first(&running.await.unwrap()), 2.0);
    let unserved = queued.await.unwrap_err();
    assert!(matches!(unserved.reason(), ServeError::Closed));
    drop(unserved);
    gone(&fake);
}

#[tokio::test]
async fn a_panic_on_a_worker_is_an_answer() {
    let fake = Fake::new().with_program(|launch| {
        assert!(launch.f32s("input0")[0] < 100.0, "a backend may panic");
        add(launch);
    });
    let engine = engine(&fake, &add_model(), 1, &EngineOptions::new().sessions(1));
    let good = engine.submit(request(&engine, 1.0)).await.unwrap();
    assert_eq!(first(&good.await.unwrap()), 2.0);
    let bad = engine.submit(request(&engine, 100.0)).await.unwrap();
    let unserved = bad.await.unwrap_err();
    assert!(matches!(unserved.reason(), ServeError::Panicked));
    // The core is lost, and says so from then on.
    until("the queue is closed", || {
        engine
            .try_submit(request(&engine, 2.0))
            .is_err_and(|unserved| matches!(unserved.reason(), ServeError::Closed))
    });
    drop(engine);
    gone(&fake);
}

#[tokio::test]
async fn workers_have_stacks_that_the_runtime_fits_on() {
    // The library copies about 4 MB onto the caller's stack.
    let fake = Fake::new().with_program(|launch| {
        let notifications = std::hint::black_box([0_u8; 4_194_016]);
        assert_eq!(notifications[17], 0);
        add(launch);
    });
    let engine = engine(&fake, &add_model(), 1, &EngineOptions::new());
    let served = engine.submit(request(&engine, 1.0)).await.unwrap();
    assert_eq!(first(&served.await.unwrap()), 2.0);
}

#[tokio::test]
async fn blocking_work_has_a_thread_of_its_own() {
    let runtime = SharedRuntime::new(Fake::new());
    let here = thread::current().id();
    let (model, there) = off_thread(move || {
        let model = runtime.load(&add_model(), Core::new(3)).unwrap();
        (model, thread::current().id())
    })
    .await
    .unwrap();
    assert_eq!(model.core(), Core::new(3));
    assert_ne!(here, there);
    let error = off_thread(|| panic!("work may panic")).await.unwrap_err();
    assert!(matches!(error, ServeError::Panicked));
}

#[test]
fn an_engine_without_a_model_or_of_two_artifacts_is_refused() {
    let fake = Fake::new();
    let options = EngineOptions::new();
    assert_eq!(
        Engine::<Fake>::new(Vec::new(), &options).unwrap_err(),
        EngineError::NoModel
    );
    let runtime = SharedRuntime::new(fake.clone());
    let models = [add_model(), add_model()].map(|artifact| {
        let model = runtime.load(&artifact, Core::new(0));
        model.unwrap()
    });
    let error = Engine::new(models.into(), &options).unwrap_err();
    assert!(matches!(error, EngineError::Contracts { .. }));
    let model = runtime.load(&add_model(), Core::new(0)).unwrap();
    fake.fail_after(7, Status::RESOURCE);
    let error = Engine::new(vec![model], &options).unwrap_err();
    assert!(matches!(error, EngineError::Session(_)));
    gone(&fake);
}

#[derive(Clone, Debug)]
enum Step {
    Submit { value: i8, limit: Option<u8> },
    Drop(prop::sample::Index),
    Await(prop::sample::Index),
    Fail(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (any::<i8>(), prop::option::of(0_u8..3))
            .prop_map(|(value, limit)| Step::Submit { value, limit }),
        2 => any::<prop::sample::Index>().prop_map(Step::Drop),
        2 => any::<prop::sample::Index>().prop_map(Step::Await),
        1 => (0_u64..12).prop_map(Step::Fail),
    ];
    prop::collection::vec(step, 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_order_of_requests_drops_and_failures_leaks(steps in steps(), bounded in any::<bool>()) {
        let fake = Fake::new().with_program(add);
        let executor = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        executor.block_on(async {
            let engine = engine(&fake, &add_model(), 2, &EngineOptions::new().queue(3));
            let mut pending = Vec::new();
            for step in steps {
                match step {
                    Step::Submit { value, limit } => {
                        let mut request = request(&engine, f32::from(value));
                        if let Some(limit) = limit {
                            request = request.within(Duration::from_millis(limit.into()));
                        }
                        pending.push((value, engine.submit(request).await.unwrap()));
                    }
                    Step::Drop(index) if !pending.is_empty() => {
                        drop(pending.swap_remove(index.index(pending.len())));
                    }
                    Step::Await(index) if !pending.is_empty() => {
                        let (value, answer) = pending.swap_remove(index.index(pending.len()));
                        if let Ok(response) = answer.await {
                            assert!(value >= 0);
                            assert_eq!(first(&response), 2.0 * f32::from(value));
                        }
                    }
                    Step::Fail(calls) => fake.fail_after(calls, Status::FAILURE),
                    Step::Drop(_) | Step::Await(_) => {}
                }
            }
            let left = pending.split_off(pending.len() / 2);
            drop(pending);
            if bounded {
                engine.shutdown(LONG).await.unwrap();
            } else {
                drop(engine);
            }
            for (_, answer) in left {
                drop(answer.await);
            }
        });
        gone(&fake);
    }
}

#[test]
fn an_engine_may_be_shared_and_its_futures_sent() {
    fn check<T: Send + Sync>() {}
    fn send<T: Send>(_: T) {}
    check::<Engine<Fake>>();
    check::<Request<Fake>>();
    let fake = Fake::new();
    let engine = engine(&fake, &add_model(), 1, &EngineOptions::new());
    send(engine.submit(request(&engine, 1.0)));
    send(engine.zero_states(Core::new(0)));
    check::<Pending<Fake>>();
}
