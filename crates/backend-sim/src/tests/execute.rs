//! Executing models.

use std::ffi::CStr;
use std::thread;
use std::time::Duration;

use metaneff_binding::{
    Backend, BackendError, Cause, CollectiveContext, Completion, Core, Placement,
};
use metaneff_schema::nrt::Status;

use super::{CORE, contents, device, give_back, load, request, run, set, shared, sim, start};
use crate::{
    Concurrency, Denormals, ExtraNames, Latency, NanPolicy, OobPolicy, Sim, SimModel, SimTensor,
};

const INC: &str = "in:a:4 out:b:4 op:inc";
const SWAP: &str = "in:a:4 in:b:4 out:c:4 out:d:4 op:swap";

/// Executes on these tensors and gives the sets back.
fn on(
    sim: &Sim,
    model: &SimModel,
    inputs: &[(&CStr, &SimTensor)],
    outputs: &[(&CStr, &SimTensor)],
) -> Result<Completion, BackendError> {
    let inputs = set(sim, inputs);
    let mut outputs = set(sim, outputs);
    let result = sim.execute(model, &inputs, &mut outputs);
    give_back(sim, [inputs, outputs], []);
    result
}

fn binding(error: &BackendError) -> (&str, &str) {
    match error.cause() {
        Cause::Binding { name, detail } => (name, detail),
        other => panic!("{other:?}"),
    }
}

#[test]
fn outputs_are_written_and_the_report_says_where_it_ran() {
    let sim = start(Sim::builder().denormals(Denormals::FlushToZero));
    let model = load(&sim, INC);
    assert_eq!(sim.last_run(&model), None);
    let (result, bytes) = run(&sim, &model, &[1, 2, 3, 255]);
    assert_eq!((result, bytes), (Ok(Completion::Clean), vec![2, 3, 4, 0]));
    let report = sim.last_run(&model).unwrap();
    assert_eq!(
        (report.backend, report.instance.name()),
        ("sim", "trn1.2xlarge")
    );
    assert_eq!((report.core, report.model.as_str()), (CORE, "toy"));
    assert_eq!((report.input_bytes, report.output_bytes), (4, 4));
    assert_eq!(report.status, Status::SUCCESS);
    assert_eq!(report.numerics.denormals, Denormals::FlushToZero);
    assert_eq!(sim.transfers().unwrap().executions, 1);
}

#[test]
fn names_decide_and_all_of_them_are_needed() {
    let sim = sim();
    let model = load(&sim, INC);
    let (a, b) = (device(&sim, &[1; 4]), device(&sim, &[0; 4]));
    let missing = on(&sim, &model, &[], &[(c"b", &b)]).unwrap_err();
    assert_eq!(missing.status(), Status::INVALID);
    assert_eq!(
        binding(&missing),
        ("a", "the input set has no tensor of this name")
    );
    let missing = on(&sim, &model, &[(c"a", &a)], &[]).unwrap_err();
    assert_eq!(
        binding(&missing),
        ("b", "the output set has no tensor of this name")
    );
    let extra = on(&sim, &model, &[(c"a", &a), (c"z", &a)], &[(c"b", &b)]).unwrap_err();
    assert_eq!(extra.status(), Status::INVALID);
    assert_eq!(
        binding(&extra),
        ("z", "the model has no input of this name")
    );
    assert_eq!(contents(&sim, &b), [0; 4]);
    let stats = sim.core_stats(CORE).unwrap();
    assert_eq!((stats.executions, stats.failures), (0, 3));

    let lenient = start(Sim::builder().extra_names(ExtraNames::Ignore));
    let model = load(&lenient, INC);
    let (a, b) = (device(&lenient, &[1; 4]), device(&lenient, &[0; 4]));
    let result = on(&lenient, &model, &[(c"a", &a), (c"z", &a)], &[(c"b", &b)]);
    assert_eq!(result, Ok(Completion::Clean));
}

#[test]
fn sizes_must_agree() {
    let sim = sim();
    let model = load(&sim, INC);
    let (a, b) = (device(&sim, &[1; 5]), device(&sim, &[0; 4]));
    let error = on(&sim, &model, &[(c"a", &a)], &[(c"b", &b)]).unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
    assert_eq!(
        binding(&error),
        ("a", "the input takes 4 bytes, its tensor has 5")
    );
    let fits = sim.slice(&a, 1, 4, c"slice").unwrap();
    on(&sim, &model, &[(c"a", &fits)], &[(c"b", &b)])
        .map(drop)
        .unwrap();
    assert_eq!(contents(&sim, &b), [2; 4]);
}

#[test]
fn tensors_of_another_core_are_refused_by_both_names() {
    let sim = sim();
    let model = load(&sim, INC);
    let one = Core::new(1);
    let there = sim.allocate(Placement::Device, one, 4, c"there").unwrap();
    let b = device(&sim, &[0; 4]);
    let error = on(&sim, &model, &[(c"a", &there)], &[(c"b", &b)]).unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
    let mismatch = Cause::CoreMismatch {
        what: "model `toy`".to_owned(),
        core: CORE,
        other: "input tensor `a`".to_owned(),
        other_core: one,
    };
    assert_eq!(error.cause(), &mismatch);
    // Host memory belongs to no core.
    let host = sim.allocate(Placement::Host, one, 4, c"host").unwrap();
    on(&sim, &model, &[(c"a", &host)], &[(c"b", &b)])
        .map(drop)
        .unwrap();
}

#[test]
fn inputs_are_read_before_outputs_are_written() {
    let sim = sim();
    let model = load(&sim, SWAP);
    let (x, y) = (device(&sim, &[1; 4]), device(&sim, &[2; 4]));
    let address = x.address();
    for round in 0..4_u8 {
        let inputs = [(c"a", &x), (c"b", &y)];
        on(&sim, &model, &inputs, &[(c"c", &x), (c"d", &y)])
            .map(drop)
            .unwrap();
        let (want_x, want_y) = if round % 2 == 0 { (2, 1) } else { (1, 2) };
        assert_eq!(
            (contents(&sim, &x), contents(&sim, &y)),
            (vec![want_x; 4], vec![want_y; 4])
        );
    }
    assert_eq!(x.address(), address);

    // Outputs that overlap an input, and each other not.
    let whole = device(&sim, &[1, 2, 3, 4, 5, 6, 7, 8]);
    let low = sim.slice(&whole, 0, 4, c"low").unwrap();
    let middle = sim.slice(&whole, 2, 4, c"middle").unwrap();
    let inc = load(&sim, INC);
    on(&sim, &inc, &[(c"a", &low)], &[(c"b", &middle)])
        .map(drop)
        .unwrap();
    assert_eq!(contents(&sim, &whole), [1, 2, 2, 3, 4, 5, 7, 8]);
    let inputs = [(c"a", &x), (c"b", &y)];
    let error = on(&sim, &model, &inputs, &[(c"c", &middle), (c"d", &low)]).unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
    assert_eq!(binding(&error), ("d", "output `c` is in the same memory"));
}

#[test]
fn a_freed_tensor_in_a_set_is_found_out() {
    let sim = sim();
    let model = load(&sim, INC);
    let (a, b) = (device(&sim, &[1; 4]), device(&sim, &[0; 4]));
    let inputs = set(&sim, &[(c"a", &a)]);
    let mut outputs = set(&sim, &[(c"b", &b)]);
    sim.free(a);
    let error = sim.execute(&model, &inputs, &mut outputs).unwrap_err();
    assert_eq!(error.status(), Status::EXEC_BAD_INPUT);
    assert_eq!(binding(&error), ("a", "the input tensor was freed"));
    let empty = sim.allocate_empty(c"empty").unwrap();
    let error = on(&sim, &model, &[(c"a", &empty)], &[(c"b", &b)]).unwrap_err();
    assert_eq!(error.status(), Status::EXEC_BAD_INPUT);
    assert_eq!(
        binding(&error),
        ("empty", "the tensor has no memory attached")
    );
    // A set does not touch its tensors when it goes.
    sim.free(b);
    give_back(&sim, [inputs, outputs], []);
}

#[test]
fn policies_decide_what_a_nan_and_an_index_outside_answer() {
    let nan = "in:a:4 out:b:4 op:nan";
    let sim = sim();
    let model = load(&sim, nan);
    let (result, bytes) = run(&sim, &model, &[1; 4]);
    assert_eq!(
        (result, bytes),
        (Ok(Completion::NumericalError), vec![2; 4])
    );
    let stats = sim.core_stats(CORE).unwrap();
    assert_eq!((stats.executions, stats.numerical_errors), (1, 1));
    let report = sim.last_run(&model).unwrap();
    assert_eq!(report.status, Status::EXEC_COMPLETED_WITH_NUM_ERR);
    let deaf = start(Sim::builder().nan_policy(NanPolicy::Ignore));
    let model = load(&deaf, nan);
    assert_eq!(run(&deaf, &model, &[1; 4]).0, Ok(Completion::Clean));

    let oob = "in:a:4 out:b:4 op:oob";
    let model = load(&sim, oob);
    assert_eq!(run(&sim, &model, &[1; 4]).0, Ok(Completion::Clean));
    let strict = start(Sim::builder().oob_policy(OobPolicy::Strict));
    let model = load(&strict, oob);
    let (result, bytes) = run(&strict, &model, &[1; 4]);
    let error = result.unwrap_err();
    assert_eq!(error.status(), Status::EXEC_OOB);
    assert_eq!(error.cause(), &Cause::Other("index 9 of 8".to_owned()));
    assert_eq!(bytes, [0xee; 4]);
}

#[test]
fn an_execution_that_never_ends_is_ended() {
    let limit = Duration::from_millis(20);
    let sim = start(Sim::builder().execution_timeout(Some(limit)));
    assert_eq!(sim.execution_timeout(), Some(limit));
    let model = load(&sim, "in:a:4 out:b:4 op:spin");
    let error = run(&sim, &model, &[1; 4]).0.unwrap_err();
    assert_eq!(error.status(), Status::TIMEOUT);
    assert!(
        matches!(error.cause(), Cause::Deadline { limit_ms: 20, elapsed_ms } if *elapsed_ms >= 20)
    );
    let model = load(&sim, INC);
    assert_eq!(run(&sim, &model, &[1; 4]).0, Ok(Completion::Clean));

    let sim = start(Sim::builder().step_budget(1000));
    let model = load(&sim, "in:a:4 out:b:4 op:spin");
    let error = run(&sim, &model, &[1; 4]).0.unwrap_err();
    assert_eq!(error.status(), Status::TIMEOUT);
    assert!(error.to_string().contains("1000 steps"), "{error}");
}

#[test]
fn latency_is_part_of_the_time_limit() {
    let latency = Latency::NONE.execute(Duration::from_secs(3600));
    let limit = Some(Duration::from_millis(5));
    let sim = start(Sim::builder().latency(latency).execution_timeout(limit));
    let model = load(&sim, INC);
    let (result, bytes) = run(&sim, &model, &[1; 4]);
    let error = result.unwrap_err();
    assert_eq!(error.status(), Status::TIMEOUT);
    assert!(matches!(error.cause(), Cause::Deadline { limit_ms: 5, .. }));
    assert_eq!(bytes, [0xee; 4]);
}

#[test]
fn threads_get_the_results_of_one_thread() {
    let sim = shared(Sim::builder());
    let model = load(&sim, INC);
    let weights = device(&sim, &[1, 2, 3, 4]);
    let inputs = set(&sim, &[(c"a", &weights)]);
    thread::scope(|scope| {
        for id in 0..8_u8 {
            let (sim, model, inputs) = (&sim, &model, &inputs);
            scope.spawn(move || {
                let b = device(sim, &[0; 4]);
                let mut outputs = set(sim, &[(c"b", &b)]);
                for step in 0..200_u8 {
                    let own = [id, step, 7, 9];
                    let (result, bytes) = run(sim, model, &own);
                    assert_eq!(result, Ok(Completion::Clean));
                    assert_eq!(bytes, own.map(|b| b.wrapping_add(1)));
                    sim.execute(model, inputs, &mut outputs).map(drop).unwrap();
                    assert_eq!(contents(sim, &b), [2, 3, 4, 5]);
                }
                give_back(sim, [outputs], [b]);
            });
        }
    });
    assert_eq!(sim.core_stats(CORE).unwrap().executions, 8 * 400);
    assert_eq!(sim.core_stats(CORE).unwrap().running, 0);
    assert_eq!(sim.live_objects().total(), 3);
}

#[test]
fn an_exclusive_core_is_busy() {
    let sim = shared(Sim::builder().concurrency(Concurrency::Exclusive));
    let model = sim
        .load(&request("in:a:1 out:b:2 op:gather").with_collectives(CollectiveContext::new(0, 2)))
        .unwrap();
    let peer = sim
        .load(&request("in:a:1 out:b:2 op:gather").with_collectives(CollectiveContext::new(1, 2)))
        .unwrap();
    let one = Core::new(1);
    assert_eq!((model.core(), peer.core()), (CORE, one));
    let a = device(&sim, &[1]);
    let b = device(&sim, &[0; 2]);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| on(&sim, &model, &[(c"a", &a)], &[(c"b", &b)]));
        while sim.core_stats(CORE).unwrap().running == 0 {
            thread::yield_now();
        }
        let busy = on(&sim, &model, &[(c"a", &a)], &[(c"b", &b)]).unwrap_err();
        assert_eq!(busy.status(), Status::EXEC_NC_BUSY);
        // The other core is free, and its rank lets the first one finish.
        let a = sim.allocate(Placement::Device, one, 1, c"a").unwrap();
        let b = sim.allocate(Placement::Device, one, 2, c"b").unwrap();
        sim.write(&a, 0, &[2]).unwrap();
        on(&sim, &peer, &[(c"a", &a)], &[(c"b", &b)])
            .map(drop)
            .unwrap();
        assert_eq!(contents(&sim, &b), [1, 2]);
        waiting.join().unwrap().map(drop).unwrap();
    });
    assert_eq!(contents(&sim, &b), [1, 2]);
}

#[test]
fn a_peer_that_does_not_come_is_named() {
    let limit = Duration::from_millis(10);
    let sim = start(Sim::builder().execution_timeout(Some(limit)));
    let rank = request("in:a:1 out:b:3 op:gather").with_collectives(CollectiveContext::new(1, 3));
    let model = sim.load(&rank.on(CORE)).unwrap();
    let (a, b) = (device(&sim, &[1]), device(&sim, &[0; 3]));
    let error = on(&sim, &model, &[(c"a", &a)], &[(c"b", &b)]).unwrap_err();
    assert_eq!(error.status(), Status::TIMEOUT);
    assert!(error.to_string().contains("absent: [0, 2]"), "{error}");
    let report = sim.last_run(&model).unwrap();
    assert_eq!(report.collectives, Some(CollectiveContext::new(1, 3)));
}

#[test]
fn ranks_meet_outside_a_model_too() {
    let sim = shared(Sim::builder());
    thread::scope(|scope| {
        for rank in 0..4_u8 {
            let sim = &sim;
            scope.spawn(move || {
                let context = CollectiveContext::new(u32::from(rank), 4);
                sim.barrier(context, None).unwrap();
                let all = sim.all_gather(context, &[rank, rank * 2], None).unwrap();
                assert_eq!(all, [0, 0, 1, 2, 2, 4, 3, 6]);
            });
        }
    });
    let alone = CollectiveContext::new(0, 2);
    let error = sim
        .barrier(alone, Some(Duration::from_millis(1)))
        .unwrap_err();
    assert_eq!(
        (error.call(), error.status()),
        ("nrt_barrier", Status::TIMEOUT)
    );
    assert!(error.to_string().contains("1 of 2 ranks came"), "{error}");
    for (rank, size) in [(2, 2), (0, 0), (0, u32::MAX)] {
        let error = sim
            .barrier(CollectiveContext::new(rank, size), None)
            .unwrap_err();
        assert_eq!(error.status(), Status::INVALID);
    }
}

#[test]
fn completions_of_outputs_are_counted() {
    let sim = shared(Sim::builder());
    let model = load(&sim, INC);
    let (a, b) = (device(&sim, &[1; 4]), device(&sim, &[0; 4]));
    assert!(!b.wait_completions(1, Some(Duration::from_millis(1))));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| b.wait_completions(2, None));
        for _ in 0..2 {
            on(&sim, &model, &[(c"a", &a)], &[(c"b", &b)])
                .map(drop)
                .unwrap();
        }
        assert!(waiting.join().unwrap());
    });
    assert_eq!((a.completions(), b.completions()), (0, 2));
    b.reset_completions();
    assert!(!b.wait_completions(1, Some(Duration::ZERO)));
    assert!(b.wait_completions(0, None));
}

#[test]
fn a_failing_program_answers_its_status_and_writes_nothing() {
    let sim = sim();
    for (op, status, text) in [
        ("fail", Status::FAILURE, "unsupported"),
        (
            "peer",
            Status::EXEC_HW_ERR_COLLECTIVES,
            "device 1 of the world failed",
        ),
        ("memory", Status::FAIL_HOST_MEM_ALLOC, "9 bytes"),
    ] {
        let model = load(&sim, &format!("in:a:4 out:b:4 op:{op}"));
        let (result, bytes) = run(&sim, &model, &[1; 4]);
        let error = result.unwrap_err();
        assert_eq!(error.status(), status);
        assert_eq!(error.cause(), &Cause::Other(text.to_owned()));
        assert_eq!(bytes, [0xee; 4]);
    }
}
