//! Opening, closing and late calls.

use metaneff_binding::{Backend, BackendError, Placement};
use metaneff_schema::nrt::Status;

use super::{CORE, device, load, request, set, sim};
use crate::{Framework, Legality, Lifecycle, Sim, State};

#[test]
fn every_call_answers_closed_after_close() {
    let sim = sim();
    let model = load(&sim, "in:a:4 out:b:4 op:inc");
    let (a, b) = (device(&sim, &[1; 4]), device(&sim, &[0; 4]));
    let inputs = set(&sim, &[(c"a", &a)]);
    let mut outputs = set(&sim, &[(c"b", &b)]);
    sim.close();
    assert!(sim.is_closed());
    let results: Vec<Result<(), BackendError>> = vec![
        sim.load(&request("in:a:4 out:b:4 op:inc")).map(drop),
        sim.execute(&model, &inputs, &mut outputs).map(drop),
        sim.model_tensors(&model).map(drop),
        sim.model_core(&model).map(drop),
        sim.allocate(Placement::Device, CORE, 1, c"t").map(drop),
        sim.allocate_empty(c"t").map(drop),
        sim.slice(&a, 0, 1, c"t").map(drop),
        sim.write(&a, 0, &[1]),
        sim.read(&a, 0, &mut [1]),
        sim.copy(&a, 0, &b, 0, 1),
        sim.fill(&a, 0, 0, 1),
        sim.tensor_set().map(drop),
        sim.bind(&mut outputs, c"b", &b),
        sim.memory_stats(CORE).map(drop),
        sim.core_stats(CORE).map(drop),
        sim.reset_core(CORE),
        sim.unload(model),
    ];
    for result in results {
        assert_eq!(result.unwrap_err().status(), Status::CLOSED);
    }
    // Late frees are harmless, and the memory is gone already.
    assert_eq!((a.address(), sim.live_objects().total()), (None, 0));
    sim.free(a);
    sim.destroy_set(inputs);
    sim.close();
    drop(sim);
    drop((b, outputs));
}

#[test]
fn handles_and_runtime_may_go_in_either_order() {
    for runtime_first in [false, true] {
        let one = sim();
        let tensor = device(&one, &[1; 4]);
        let slice = one.slice(&tensor, 1, 2, c"slice").unwrap();
        if runtime_first {
            drop(one);
            assert_eq!((tensor.address(), slice.address()), (None, None));
            let other = sim();
            assert_eq!(
                other.write(&tensor, 0, &[1]).unwrap_err().status(),
                Status::INVALID_HANDLE
            );
            other.free(tensor);
            other.free(slice);
            assert_eq!(other.live_objects().total(), 0);
        } else {
            one.free(tensor);
            one.free(slice);
            drop(one);
        }
    }
}

#[test]
fn the_states_answer_as_their_table_says() {
    let runtime = Lifecycle::default();
    let calls = [
        ("nrt_get_total_nc_count", None, None),
        ("nrt_get_visible_vnc_count", None, None),
        ("nrt_get_version", None, None),
        ("nrt_tensor_free", None, None),
        ("nrt_close", None, None),
        ("nrt_load", Some(13), Some(14)),
        ("nrt_execute", Some(13), Some(14)),
        ("nrt_tensor_allocate", Some(13), Some(14)),
        ("nrt_get_vnc_memory_stats", Some(13), Some(14)),
    ];
    for (call, before, after) in calls {
        let refusal = |state| Legality::of(call).refusal(state).map(|status| status.0);
        assert_eq!(refusal(State::Start), before, "{call}");
        assert_eq!(refusal(State::Initialized), None, "{call}");
        assert_eq!(refusal(State::Closed), after, "{call}");
    }
    assert_eq!(runtime.state(), State::Start);
    // Closing what was never opened changes nothing.
    runtime.close();
    let error = runtime.runtime("nrt_load").unwrap_err();
    assert_eq!(
        (error.call(), error.status()),
        ("nrt_load", Status::UNINITIALIZED)
    );
    runtime
        .init(Framework::NO_FRAMEWORK, Sim::builder())
        .unwrap();
    assert_eq!(runtime.state(), State::Initialized);
    runtime.close();
    assert_eq!(runtime.state(), State::Closed);
    let error = runtime.runtime("nrt_load").unwrap_err();
    assert_eq!(error.status(), Status::CLOSED);
}

#[test]
fn a_runtime_is_initialised_and_closed_again_and_again() {
    let runtime = Lifecycle::new();
    let mut last = None;
    for round in 0..100_usize {
        let sim = runtime.init(Framework::PYTORCH, Sim::builder()).unwrap();
        let tensor = device(&sim, &[1; 64]);
        assert_eq!(sim.memory_stats(CORE).unwrap().used, 64, "{round}");
        if let Some(late) = last.replace(tensor) {
            let error = sim.write(&late, 0, &[1]).unwrap_err();
            assert_eq!(error.status(), Status::INVALID_HANDLE);
            sim.free(late);
        }
        assert_eq!(sim.live_objects().tensors, 1);
        runtime.close();
        assert_eq!(sim.live_objects().tensors, 0);
    }
}

#[test]
fn an_initialisation_that_cannot_be_is_refused() {
    let runtime = Lifecycle::new();
    let status = |result: Result<_, BackendError>| result.map(drop).unwrap_err().status();
    for framework in [0, 6, u32::MAX] {
        let result = runtime.init(Framework(framework), Sim::builder());
        assert_eq!(status(result), Status::INVALID);
    }
    let beyond = Sim::builder().visible_cores("0-2".parse().unwrap());
    assert_eq!(
        status(runtime.init(Framework::MXNET, beyond)),
        Status::INVALID
    );
    let lnc = Sim::builder().virtual_core_size(2);
    assert_eq!(status(runtime.init(Framework::MXNET, lnc)), Status::INVALID);
    // The two with a known framework have been counted.
    let plan = "init@3=fail:4; init@4=hang:1ms; init@4=delay:9s; init@5=hang; init@1=fail:1";
    let faulty = Sim::builder().faults(plan.parse().unwrap());
    for want in [Status::RESOURCE, Status::TIMEOUT, Status::TIMEOUT] {
        assert_eq!(status(runtime.init(Framework::MXNET, faulty.clone())), want);
    }
    assert_eq!(runtime.state(), State::Start);
    runtime.init(Framework::MXNET, Sim::builder()).unwrap();
    let again = runtime.init(Framework::MXNET, Sim::builder());
    assert_eq!(status(again), Status::INVALID);
}
