//! Planned faults.

use std::thread;
use std::time::Duration;

use metaneff_binding::{Backend, Cause, CollectiveContext, Completion, Core, Placement};
use metaneff_schema::nrt::Status;

use super::{CORE, device, load, request, run, shared, sim, start};
use crate::{Action, Call, Fault, Sim};

const INC: &str = "in:a:4 out:b:4 op:inc";

fn planned(faults: &str) -> Sim {
    start(Sim::builder().faults(faults.parse().unwrap()))
}

#[test]
fn the_nth_call_fails_and_no_other() {
    let sim = planned("execute@2=fail:NRT_EXEC_SW_NQ_OVERFLOW");
    let model = load(&sim, INC);
    assert_eq!(run(&sim, &model, &[1; 4]).0, Ok(Completion::Clean));
    let (result, bytes) = run(&sim, &model, &[1; 4]);
    let error = result.unwrap_err();
    assert_eq!(error.call(), "nrt_execute");
    assert_eq!(error.status(), Status::EXEC_SW_NQ_OVERFLOW);
    assert_eq!(bytes, [0xee; 4]);
    assert_eq!(run(&sim, &model, &[1; 4]).0, Ok(Completion::Clean));
}

#[test]
fn after_a_completion_status_the_outputs_are_there() {
    let sim = planned("execute@1=fail:1004; execute@2=fail:1003");
    let model = load(&sim, INC);
    let (result, bytes) = run(&sim, &model, &[1; 4]);
    assert_eq!(
        result.unwrap_err().status(),
        Status::EXEC_COMPLETED_WITH_ERR
    );
    assert_eq!(bytes, [2; 4]);
    let (result, bytes) = run(&sim, &model, &[1; 4]);
    assert_eq!(
        (result, bytes),
        (Ok(Completion::NumericalError), vec![2; 4])
    );
    let stats = sim.core_stats(CORE).unwrap();
    assert_eq!((stats.executions, stats.failures), (1, 1));
}

#[test]
fn every_kind_of_call_can_fail() {
    let sim = planned(
        "load@1=fail:4; unload@1=fail:1; allocate@1=fail:4; read@1=fail:6; write@1=fail:6; \
         copy@1=fail:6; bind@1=fail:2; meet@1=fail:1200; meet@2=hang:1ms",
    );
    let status = |result: Result<(), metaneff_binding::BackendError>| result.unwrap_err().status();
    assert_eq!(status(sim.load(&request(INC)).map(drop)), Status::RESOURCE);
    let model = load(&sim, INC);
    let allocate = || sim.allocate(Placement::Device, CORE, 4, c"t");
    assert_eq!(status(allocate().map(drop)), Status::RESOURCE);
    let tensor = allocate().unwrap();
    assert_eq!(status(sim.write(&tensor, 0, &[1])), Status::HW_ERROR);
    assert_eq!(status(sim.read(&tensor, 0, &mut [1])), Status::HW_ERROR);
    assert_eq!(
        status(sim.copy(&tensor, 0, &tensor, 0, 1)),
        Status::HW_ERROR
    );
    let mut set = sim.tensor_set().unwrap();
    assert_eq!(status(sim.bind(&mut set, c"a", &tensor)), Status::INVALID);
    assert!(set.is_empty());
    let alone = CollectiveContext::new(0, 1);
    for wanted in [Status::EXEC_HW_ERR_COLLECTIVES, Status::TIMEOUT] {
        assert_eq!(status(sim.barrier(alone, None)), wanted);
    }
    sim.barrier(alone, None).unwrap();
    // The handle is gone whatever the answer is.
    assert_eq!(status(sim.unload(model)), Status::FAILURE);
    assert_eq!(sim.live_objects().models, 0);
}

#[test]
fn a_poisoned_core_fails_for_the_first_reason_until_it_is_reset() {
    let sim = planned("execute@2=poison:1203; execute@3=poison:101");
    let model = load(&sim, INC);
    assert_eq!(run(&sim, &model, &[1; 4]).0, Ok(Completion::Clean));
    let error = run(&sim, &model, &[1; 4]).0.unwrap_err();
    assert_eq!(error.status(), Status::EXEC_HW_ERR_DMA_ABORT);
    for _ in 0..3 {
        let error = run(&sim, &model, &[1; 4]).0.unwrap_err();
        assert_eq!(error.status(), Status::EXEC_HW_ERR_DMA_ABORT);
        let poisoned = Cause::Poisoned {
            core: CORE,
            since: Status::EXEC_HW_ERR_DMA_ABORT,
        };
        assert_eq!(error.cause(), &poisoned);
    }
    let error = sim.load(&request(INC).on(CORE)).unwrap_err();
    assert_eq!(error.status(), Status::EXEC_HW_ERR_DMA_ABORT);
    let since = sim.core_stats(CORE).unwrap().poisoned;
    assert_eq!(since, Some(Status::EXEC_HW_ERR_DMA_ABORT));
    // The other core is well.
    let other = sim.load(&request(INC).on(Core::new(1))).unwrap();
    assert_eq!(sim.model_core(&other).unwrap(), Core::new(1));
    sim.reset_core(CORE).unwrap();
    assert_eq!(run(&sim, &model, &[1; 4]).0, Ok(Completion::Clean));
    assert_eq!(
        sim.reset_core(Core::new(2)).unwrap_err().status(),
        Status::INVALID
    );
}

#[test]
fn a_delay_beyond_the_limit_is_a_timeout_and_the_next_call_works() {
    let limit = Duration::from_millis(10);
    let sim = start(
        Sim::builder()
            .faults(
                "execute@1=delay:1000s; execute@2=delay:1ms"
                    .parse()
                    .unwrap(),
            )
            .execution_timeout(Some(limit)),
    );
    let model = load(&sim, INC);
    let error = run(&sim, &model, &[1; 4]).0.unwrap_err();
    assert_eq!(error.status(), Status::TIMEOUT);
    assert!(matches!(
        error.cause(),
        Cause::Deadline { limit_ms: 10, .. }
    ));
    assert_eq!(run(&sim, &model, &[1; 4]).0, Ok(Completion::Clean));
}

#[test]
fn a_hung_call_ends_at_its_limit() {
    let sim = planned("load@1=hang:5ms; execute@1=hang:5ms");
    let error = sim.load(&request(INC)).unwrap_err();
    assert_eq!(error.status(), Status::TIMEOUT);
    assert!(
        matches!(error.cause(), Cause::Deadline { limit_ms: 5, elapsed_ms } if *elapsed_ms >= 5)
    );
    assert_eq!(sim.live_objects().models, 0);
    let model = load(&sim, INC);
    let error = run(&sim, &model, &[1; 4]).0.unwrap_err();
    assert_eq!(error.status(), Status::TIMEOUT);
}

#[test]
fn closing_ends_a_load_that_never_returns() {
    let sim = shared(Sim::builder().faults("load@1=hang".parse().unwrap()));
    thread::scope(|scope| {
        let hung = scope.spawn(|| sim.load(&request(INC)).map(drop));
        sim.close();
        assert_eq!(hung.join().unwrap().unwrap_err().status(), Status::CLOSED);
    });
}

#[test]
fn faults_can_be_planned_later() {
    let sim = sim();
    let tensor = device(&sim, &[1]);
    sim.inject(Fault::first(Call::Write, Action::Fail(Status::HW_ERROR)).on(CORE));
    assert_eq!(
        sim.write(&tensor, 0, &[1]).unwrap_err().status(),
        Status::HW_ERROR
    );
    sim.write(&tensor, 0, &[1]).unwrap();
    sim.inject(Fault::always(Call::Write, Action::Fail(Status::HW_ERROR)));
    for _ in 0..3 {
        assert!(sim.write(&tensor, 0, &[1]).is_err());
    }
}

#[test]
fn inputs_are_dumped_on_the_status_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let builder = Sim::builder().dump_inputs(Status::EXEC_COMPLETED_WITH_NUM_ERR, directory.path());
    let sim = start(builder.faults("execute@2=fail:1003".parse().unwrap()));
    let model = load(&sim, INC);
    run(&sim, &model, &[1; 4]).0.map(drop).unwrap();
    assert_eq!(sim.last_run(&model).unwrap().input_dump, None);
    run(&sim, &model, &[1, 2, 3, 4]).0.map(drop).unwrap();
    let folder = sim.last_run(&model).unwrap().input_dump.unwrap();
    assert!(folder.starts_with(directory.path()));
    let folder_name = folder.file_name().unwrap().to_str().unwrap();
    assert!(folder_name.starts_with("input_dump_") && folder_name.contains("_h_nn_"));
    let read = |file| std::fs::read(folder.join(file)).unwrap();
    assert_eq!(read("input0.bin"), [1, 2, 3, 4]);
    assert_eq!(read("model_name.txt"), b"toy");
}
