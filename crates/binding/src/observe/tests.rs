//! Noting what a backend in host memory was asked to do.

use serde_json::Value;

use super::*;
use crate::testing::{Fake, add_model};
use crate::{Completion, HostTensor, Model, Runtime};

fn launch(model: &Model<'_, Observed<Fake>>, value: f32) -> Option<Completion> {
    let mut session = model.session().unwrap();
    let inputs = [0_usize, 1].map(|slot| {
        let host = HostTensor::from_vec([2], vec![value; 2]).unwrap();
        session.slot(slot).unwrap().validate(host).unwrap()
    });
    let executed = session.bind(inputs).unwrap().execute(()).ok()?;
    let completion = executed.completion();
    let outputs = executed.tolerate_nan().into_outputs();
    outputs.get(0).unwrap().to_vec::<f32>().unwrap();
    Some(completion)
}

/// Sums; a NaN gives 1003, a negative number 1006.
fn observed(recorder: &Recorder) -> Runtime<Observed<Fake>> {
    let fake = Fake::new().with_program(|launch| {
        let a = launch.f32s("input0");
        launch.set_f32s("output0", &[a[0] * 2.0, a[1] * 2.0]);
        if a[0].is_nan() {
            launch.status = Status::EXEC_COMPLETED_WITH_NUM_ERR;
        } else if a[0] < 0.0 {
            launch.status = Status::EXEC_OOB;
        }
    });
    Runtime::new(Observed::with(fake, recorder.clone()))
}

#[test]
fn a_report_says_where_a_run_was_and_what_it_moved() {
    let recorder = Recorder::new();
    let runtime = observed(&recorder);
    let model = runtime.load(&add_model(), Core::new(3)).unwrap();
    assert_eq!(launch(&model, 1.0), Some(Completion::Clean));
    assert_eq!(launch(&model, f32::NAN), Some(Completion::NumericalError));
    assert_eq!(launch(&model, -1.0), None);
    let report = recorder.report();
    let transfers = runtime.transfers().unwrap();
    assert_eq!(report.host_to_device(), transfers.host_to_device);
    assert_eq!(report.device_to_host(), transfers.device_to_host);
    assert_eq!(report.calls[&Call::Execute].count, 3);
    assert_eq!((report.clean, report.numerical_errors), (1, 1));
    assert_eq!(report.failures, [(Status::EXEC_OOB, 1)].into());
    let input = report.slots["input0"];
    assert_eq!((input.writes, input.written, input.reads), (3, 24, 0));
    let output = report.slots["output0"];
    assert_eq!((output.writes, output.reads, output.read), (0, 2, 16));
    // The NEFF of the model is empty, and so this is SHA-256 of nothing.
    let hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let [loaded] = &report.models[..] else {
        panic!("{:?}", report.models);
    };
    assert_eq!(loaded.core, Some(Core::new(3)));
    assert_eq!((loaded.neff_size, loaded.neff_sha256.as_str()), (0, hash));

    let text = report.to_string();
    assert!(text.starts_with("backend fake (no device), 8 of 8 cores visible\n"));
    assert!(text.contains(&format!("model on core 3: 0 bytes, sha256 {hash}")));
    assert!(text.contains("1 executions clean, 1 with a NaN"));
    assert!(text.ends_with("1 calls answered NRT_EXEC_OOB (1006)"));

    let json: Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["backend"]["name"], "fake");
    assert_eq!(json["models"][0]["neff_sha256"], hash);
    assert_eq!(json["slots"]["input1"]["written"], 24);
    assert_eq!(json["calls"]["execute"]["count"], 3);
    assert_eq!(json["failures"]["NRT_EXEC_OOB (1006)"], 1);

    recorder.clear();
    let report = recorder.report();
    assert!(report.calls.is_empty() && recorder.events().is_empty());
    assert_eq!(report.models.len(), 1);
}

#[test]
fn a_trace_has_a_complete_event_for_each_call() {
    let recorder = Recorder::new();
    let runtime = observed(&recorder);
    let model = runtime.load(&add_model(), Core::new(1)).unwrap();
    launch(&model, 1.0);
    let mut file = Vec::new();
    recorder.write_trace(&mut file).unwrap();
    let json: Value = serde_json::from_slice(&file).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    assert_eq!(events.len(), recorder.events().len());
    let names: Vec<_> = events.iter().map(|e| e["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "load",
            "allocate input0",
            "allocate input1",
            "allocate output0",
            "write input0",
            "bind input0",
            "write input1",
            "bind input1",
            "bind output0",
            "execute",
            "read output0",
        ]
    );
    let mut end = 0.0;
    for event in events {
        assert_eq!((&event["ph"], &event["pid"]), (&"X".into(), &1.into()));
        let start = event["ts"].as_f64().unwrap();
        assert!(start >= end);
        end = start + event["dur"].as_f64().unwrap();
    }
    assert_eq!(events[4]["args"]["slot"], "input0");
    assert_eq!(events[4]["args"]["bytes"], 8);
    assert_eq!(events[4]["cat"], "write");
    assert_eq!(events[9]["args"]["status"], 0);
    assert!(events[9]["args"].get("slot").is_none());
}

#[test]
fn old_events_make_room_and_are_counted() {
    for capacity in [0, 3] {
        let recorder = Recorder::with_events(capacity);
        let runtime = observed(&recorder);
        let model = runtime.load(&add_model(), Core::new(0)).unwrap();
        launch(&model, 1.0);
        let events = recorder.events();
        assert_eq!(events.len(), capacity);
        assert_eq!(recorder.dropped(), 11 - capacity as u64);
        let calls: Vec<Call> = events.iter().map(|event| event.call).collect();
        let newest = [Call::Bind, Call::Execute, Call::Read];
        assert_eq!(calls, newest[3 - capacity..]);
        assert_eq!(recorder.report().calls[&Call::Write].count, 2);
    }
}

#[test]
fn an_observed_backend_gives_everything_back() {
    let fake = Fake::new();
    let (backend, recorder) = Observed::new(fake.clone());
    let runtime = Runtime::new(backend);
    let model = runtime.load(&add_model(), Core::new(0)).unwrap();
    let tensor = runtime
        .allocate(crate::Placement::Device, Core::new(0), 16, c"scratch")
        .unwrap();
    let mut half = tensor.slice(0, 8, c"half").unwrap();
    half.write(0, &[7; 8]).unwrap();
    half.copy_from(&tensor.slice(8, 8, c"rest").unwrap())
        .unwrap();
    assert_eq!(runtime.backend().inner().live().tensors, 2);
    drop((half, tensor));
    model.unload().unwrap();
    assert!(fake.live().is_empty());
    let report = recorder.report();
    assert_eq!(report.calls[&Call::Unload].count, 1);
    assert_eq!(report.calls[&Call::Copy].bytes, 8);
    assert_eq!(report.slots["half"].written, 8);
}
