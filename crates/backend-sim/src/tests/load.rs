//! Loading models.

use metaneff_binding::{Backend, Cause, CollectiveContext, Core, Side};
use metaneff_schema::nrt::Status;

use super::{CORE, load, request, run, sim, start};
use crate::{Instance, Sim};

const INC: &str = "in:a:4 out:b:4 op:inc";

#[test]
fn tensor_information_outlives_the_model() {
    let sim = sim();
    let model = load(&sim, INC);
    let tensors = sim.model_tensors(&model).unwrap();
    assert_eq!(tensors.len(), 2);
    assert_eq!(
        (tensors[0].name.as_str(), tensors[0].side),
        ("a", Side::Input)
    );
    assert_eq!(
        (tensors[1].size, tensors[1].shape.as_slice()),
        (4, &[4][..])
    );
    assert_eq!(sim.model_core(&model).unwrap(), CORE);
    assert_eq!(model.core_count(), 1);
    sim.unload(model).unwrap();
    assert_eq!(tensors[0].name, "a");
}

#[test]
fn without_a_core_the_first_free_one_is_taken_and_then_the_emptiest() {
    let sim = sim();
    let place = || {
        let model = sim.load(&request(INC)).unwrap();
        let core = sim.model_core(&model).unwrap().index();
        (model, core)
    };
    let (first, a) = place();
    let (_second, b) = place();
    let (_third, c) = place();
    assert_eq!((a, b, c), (0, 1, 0));
    sim.unload(first).unwrap();
    let models = |core| sim.core_stats(Core::new(core)).unwrap().models;
    assert_eq!((models(0), models(1)), (1, 1));
}

#[test]
fn more_cores_than_there_are_say_how_many() {
    let sim = start(Sim::builder().visible_cores("1".parse().unwrap()));
    let error = sim.load(&request("cores:2 out:b:4 op:inc")).unwrap_err();
    assert_eq!(error.status(), Status::LOAD_NOT_ENOUGH_NC);
    let cores = Cause::Cores {
        needed: 2,
        visible: 1,
        total: 2,
    };
    assert_eq!(error.cause(), &cores);
    let error = sim.load_on(&request(INC), Some(2)).unwrap_err();
    assert_eq!(
        (error.status(), error.cause()),
        (Status::LOAD_NOT_ENOUGH_NC, &cores)
    );
    assert_eq!(sim.live_objects().total(), 0);
    assert_eq!(sim.memory_stats(CORE).unwrap().used, 0);
    let error = sim.load(&request(INC).on(Core::new(1))).unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
}

#[test]
fn a_model_may_span_cores() {
    let sim = start(Sim::builder().instance(Instance::Inf2_24xlarge));
    let program = "cores:3 in:a:4 out:b:4 op:inc";
    let place = || {
        let model = sim.load(&request(program)).unwrap();
        sim.model_core(&model).unwrap().index()
    };
    assert_eq!((0..5).map(|_| place()).collect::<Vec<_>>(), [0, 3, 6, 9, 0]);
    let error = sim.load(&request(program).on(Core::new(10))).unwrap_err();
    assert_eq!(
        error.cause(),
        &Cause::Cores {
            needed: 13,
            visible: 12,
            total: 12
        }
    );
    let twice = sim.load_on(&request(program), Some(6)).unwrap();
    assert_eq!(twice.core_count(), 6);
    let error = sim.load_on(&request(program), Some(4)).unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
}

#[test]
fn logical_cores_are_compared() {
    let trn2 = Sim::builder().instance(Instance::Trn2_3xlarge);
    let program = "cores:2 lnc:2 in:a:4 out:b:4 op:inc";
    let sim = start(trn2.clone());
    assert_eq!(sim.load(&request(program)).unwrap().core_count(), 1);
    let sim = start(trn2.virtual_core_size(1));
    let error = sim.load(&request(program)).unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
    assert!(matches!(error.cause(), Cause::Neff { .. }));
}

#[test]
fn a_refused_file_answers_the_status_of_its_gate() {
    let sim = sim();
    let error = sim.load(&request("gate")).unwrap_err();
    assert_eq!(error.call(), "nrt_load");
    assert_eq!(error.status(), Status::UNSUPPORTED_NEFF_VERSION);
    let detail = "major version 3".to_owned();
    assert_eq!(error.cause(), &Cause::Neff { detail });
}

#[test]
fn neff_and_graph_must_have_the_same_tensors() {
    let sim = sim();
    let error = sim
        .load(&request(
            "graph-in:a:8 neff-in:a:4 graph-in:x:4 neff-in:y:4 graph-out:b:4 op:inc",
        ))
        .unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
    let Cause::Neff { detail } = error.cause() else {
        panic!("{error}");
    };
    for finding in [
        "input `a` has 4 bytes in the NEFF, 8 in the graph",
        "input `x` of the graph is not in the NEFF",
        "input `y` of the NEFF is not in the graph",
        "output `b` of the graph is not in the NEFF",
    ] {
        assert!(detail.contains(finding), "{detail}");
    }
    // An array without elements has no variable.
    let model = load(
        &sim,
        "in:a:4 graph-in:none:0 out:b:4 graph-out:nil:0 op:inc",
    );
    let (result, bytes) = run(&sim, &model, &[1, 2, 3, 4]);
    result.map(drop).unwrap();
    assert_eq!(bytes, [2, 3, 4, 5]);
}

#[test]
fn a_model_is_charged_with_its_scratch_and_its_graph() {
    let program = "scratch:1000 in:a:4 out:b:4 op:inc";
    let sim = start(Sim::builder().memory_limit(2048));
    let model = load(&sim, program);
    let charged = (1000 + program.len()).next_multiple_of(64);
    let used = sim.memory_stats(CORE).unwrap().used;
    assert_eq!(used, u64::try_from(charged).unwrap());
    let error = sim.load(&request(program).on(CORE)).unwrap_err();
    assert_eq!(error.status(), Status::RESOURCE);
    let shortage = Cause::Memory {
        core: Some(CORE),
        requested: 1000 + u64::try_from(program.len()).unwrap(),
        used,
        limit: 2048,
    };
    assert_eq!(error.cause(), &shortage);
    sim.unload(model).unwrap();
    assert_eq!(sim.memory_stats(CORE).unwrap().used, 0);
    assert_eq!(sim.live_objects().total(), 0);
}

#[test]
fn a_rank_outside_its_world_is_refused() {
    let sim = sim();
    let wrong = request(INC).with_collectives(CollectiveContext::new(2, 2));
    let error = sim.load(&wrong).unwrap_err();
    assert_eq!(
        (error.call(), error.status()),
        ("nrt_load_collectives", Status::INVALID)
    );
}

#[test]
fn a_thousand_rounds_leave_nothing() {
    let sim = sim();
    for round in 0..1000_u32 {
        let model = load(&sim, INC);
        let [byte, ..] = round.to_le_bytes();
        let (result, bytes) = run(&sim, &model, &[byte; 4]);
        result.map(drop).unwrap();
        assert_eq!(bytes, [byte.wrapping_add(1); 4]);
        sim.unload(model).unwrap();
    }
    assert_eq!(sim.live_objects().total(), 0);
    let stats = sim.core_stats(CORE).unwrap();
    assert_eq!((stats.models, stats.running, stats.memory_used), (0, 0, 0));
    assert_eq!(stats.executions, 1000);
    assert_eq!(stats.memory_peak, 3 * 64);
}
