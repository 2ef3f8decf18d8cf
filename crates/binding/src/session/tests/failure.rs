//! Failures give everything back and leak nothing.

use super::*;
use crate::testing::Live;
use crate::{Completion, Error, ExecuteError, LoadError, NumericalError, Side, TensorInfo};

#[test]
fn a_failed_execution_hands_back_inputs_and_states() {
    let (_, runtime) = runtime(faulty(Status::EXEC_OOB));
    let model = runtime.load(&counter(false), core()).unwrap();
    let mut session = model.session().unwrap();
    let states = session.zero_states().unwrap();
    let bad = input(&session, 0, &[-1.0, 0.0]);
    let failed = session.bind([bad]).unwrap().execute(states).unwrap_err();
    let ExecuteError::Backend(error) = failed.reason() else {
        panic!("{failed}");
    };
    assert_eq!(error.status(), Status::EXEC_OOB);
    assert!(failed.outputs().is_none());
    let ([bad], states) = failed.into_inputs();
    assert_eq!(bad.to_vec::<f32>().unwrap(), [-1.0, 0.0]);

    let good = input(&session, 0, &[1.0, 0.0]);
    let ready = session.bind([good]).unwrap();
    let outputs = ready.execute(states).unwrap().tolerate_nan().into_outputs();
    assert_eq!(outputs.get(0).unwrap().to_vec::<f32>().unwrap(), [1.0, 0.0]);
}

#[test]
fn a_completion_with_an_error_keeps_its_outputs() {
    let (_, runtime) = runtime(faulty(Status::EXEC_COMPLETED_WITH_ERR));
    let model = runtime.load(&counter(true), core()).unwrap();
    let mut session = model.session().unwrap();
    let states = session.zero_states().unwrap();
    let bad = input(&session, 0, &[-1.0, 0.0]);
    let failed = session.bind([bad]).unwrap().execute(states).unwrap_err();
    let outputs = failed.outputs().unwrap();
    assert_eq!(
        outputs.get(0).unwrap().to_vec::<f32>().unwrap(),
        [-1.0, 0.0]
    );
    assert_eq!(
        outputs.get(1).unwrap().to_vec::<f32>().unwrap(),
        [-1.0, 0.0]
    );
    let (_, states) = failed.into_inputs();
    assert_eq!(states.len(), 1);
}

#[test]
fn a_nan_is_a_completion_that_the_caller_may_reject() {
    let (_, runtime) = runtime(faulty(Status::EXEC_COMPLETED_WITH_NUM_ERR));
    let model = runtime.load(&counter(false), core()).unwrap();
    let mut session = model.session().unwrap();
    let states = session.zero_states().unwrap();
    let bad = input(&session, 0, &[-1.0, 0.0]);
    let executed = session.bind([bad]).unwrap().execute(states).unwrap();
    assert_eq!(executed.completion(), Completion::NumericalError);
    let rejected = executed.reject_nan().unwrap_err();
    assert_eq!(*rejected.reason(), NumericalError {});
    let (outputs, states) = rejected.into_input().into_parts();
    assert_eq!(
        outputs.get(0).unwrap().to_vec::<f32>().unwrap(),
        [-1.0, 0.0]
    );

    let good = input(&session, 0, &[2.0, 0.0]);
    let executed = session.bind([good]).unwrap().execute(states).unwrap();
    assert_eq!(executed.completion(), Completion::Clean);
    let outputs = executed.reject_nan().unwrap().into_outputs();
    assert_eq!(outputs.get(0).unwrap().to_vec::<f32>().unwrap(), [1.0, 0.0]);
}

/// The main job, with every kind of slot.
fn scenario(runtime: &Runtime<Fake>) -> Result<f32, Error> {
    let artifact = model(&contract(
        &[(USER, &[2]), (STATE, &[2]), (WEIGHT, &[2]), (LEGACY, &[2])],
        &[&[2], &[2], &[2]],
        &[(1, 1), (2, 3)],
        true,
    ))?;
    let model = runtime.load(&artifact, core())?;
    let weight = model.slot(2)?.validate(host(&[1.0, 1.0]))?;
    model.load_weights(vec![weight])?;
    let mut session = model.session()?;
    let start = session.slot(1)?.validate(host(&[4.0, 4.0]))?;
    let mut states = session.states(vec![start])?;
    let mut last = 0.0;
    for _ in 0..2 {
        let x = session.slot(0)?.validate(host(&[1.0, 2.0]))?;
        let cache = session.slot(3)?.validate(host(&[0.0, 0.0]))?;
        let executed = session.bind([x, cache])?.execute(states)?;
        let (mut outputs, next) = executed.tolerate_nan().into_parts();
        last = outputs.get(0)?.to_vec::<f32>()?[0];
        let cache = outputs.take(2)?;
        drop(outputs);
        let x = session.slot(0)?.validate(host(&[1.0, 2.0]))?;
        let x = session.upload(x)?;
        let executed = session.bind([x, cache])?.execute(next)?;
        states = executed.tolerate_nan().into_parts().1;
    }
    Ok(last)
}

#[test]
fn whichever_call_fails_nothing_leaks() {
    for calls in 0.. {
        let (fake, runtime) = runtime(count);
        fake.fail_after(calls, Status::FAILURE);
        let result = scenario(&runtime);
        assert!(
            fake.live().is_empty(),
            "after {calls} calls: {:?}",
            fake.live()
        );
        if result.is_ok() {
            assert!(calls > 20, "the scenario makes {calls} calls");
            break;
        }
    }
}

#[test]
fn a_refused_write_leaves_the_session_as_it_was() {
    let (fake, runtime) = runtime(count);
    let model = runtime.load(&counter(false), core()).unwrap();
    let mut session = model.session().unwrap();
    let mut states = session.zero_states().unwrap();
    let mut arguments = [input(&session, 0, &[1.0, 1.0])];
    for calls in 0..6 {
        fake.fail_after(calls, Status::FAILURE);
        match session.bind(arguments) {
            Err(rejected) => arguments = rejected.into_input(),
            Ok(ready) => match ready.execute(states) {
                Err(failed) => (arguments, states) = failed.into_inputs(),
                Ok(executed) => {
                    states = executed.tolerate_nan().into_parts().1;
                    arguments = [input(&session, 0, &[1.0, 1.0])];
                }
            },
        }
        fake.recover();
    }
    let sum = states.get(1).unwrap().to_vec::<f32>().unwrap();
    assert!(sum[0] >= 1.0, "{sum:?}");
}

#[test]
fn memory_errors_say_how_much() {
    let fake = Fake::new().with_memory(20);
    let runtime = Runtime::new(fake.clone());
    let model = runtime.load(&counter(false), core()).unwrap();
    let session = model.session().unwrap();
    let error = session.zero_states().unwrap_err();
    assert_eq!(
        error.to_string(),
        "nrt_tensor_allocate answered NRT_RESOURCE (4): 8 bytes requested on core 0, 16 of 20 in use"
    );
    drop(session);
    assert_eq!(
        fake.live(),
        Live {
            models: 1,
            ..Live::default()
        }
    );
}

#[test]
fn a_loaded_model_has_the_contracts_tensors() {
    let tensor = |name, side, size| {
        TensorInfo::new(
            name,
            side,
            size,
            metaneff_schema::nrt::NrtDtype::UNKNOWN,
            vec![],
        )
    };
    let whole = vec![
        tensor("input0", Side::Input, 8),
        tensor("input1", Side::Input, 8),
        tensor("output0", Side::Output, 8),
        tensor("output1", Side::Output, 8),
    ];
    let load = |tensors: Vec<TensorInfo>| {
        let fake = Fake::new().with_tensors(tensors);
        let runtime = Runtime::new(fake.clone());
        let result = runtime.load(&counter(false), core()).map(drop);
        assert!(fake.live().is_empty());
        result
    };
    assert_eq!(load(whole.clone()), Ok(()));
    let Err(LoadError::Mismatch(error)) = load(whole[1..].to_vec()) else {
        panic!("a model without `input0`");
    };
    assert_eq!(
        error.to_string(),
        "the contract does not fit the device program: the device has no input `input0` (ordinal 0)"
    );
}
