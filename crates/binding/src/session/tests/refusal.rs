//! Inputs and states that do not belong together.

use super::*;
use crate::{BindError, Core, ExecuteError, Ordinal, Role, StatesError};

fn pair() -> Artifact {
    let mut message = contract(
        &[(USER, &[2]), (USER, &[2]), (STATE, &[2])],
        &[&[2]],
        &[],
        false,
    );
    message.input_tensors[1].user_input_key = Some("mask".into());
    message.input_tensors[0].allow_dynamic_batch_size = true;
    model(&message).unwrap()
}

#[test]
fn all_missing_slots_are_listed() {
    let (fake, runtime) = runtime(count);
    let model = runtime.load(&pair(), core()).unwrap();
    let mut session = model.session().unwrap();
    let _ = fake.take_calls();
    let rejected = session.bind(()).unwrap_err();
    let BindError::Missing(missing) = rejected.reason() else {
        panic!("{rejected}");
    };
    assert_eq!(missing.slots.len(), 2);
    assert_eq!(missing.slots[1].ordinal, Ordinal::new(1));
    assert_eq!(missing.slots[1].key.as_deref(), Some("mask"));
    assert_eq!(
        rejected.to_string(),
        "nothing was given: user input 0 `input0`; user input 1 `input1` (`mask`)"
    );
    // Nothing has reached the device.
    assert_eq!(fake.take_calls(), [""; 0]);
}

#[test]
fn inputs_come_in_any_order_and_once() {
    let (_, runtime) = runtime(|launch: &mut Launch| {
        let difference: Vec<f32> = launch
            .f32s("input0")
            .iter()
            .zip(launch.f32s("input1"))
            .map(|(a, b)| a - b)
            .collect();
        launch.set_f32s("output0", &difference);
    });
    let model = runtime.load(&pair(), core()).unwrap();
    let mut session = model.session().unwrap();
    let x = || host(&[5.0, 5.0]);
    let mask = session
        .slot("mask")
        .unwrap()
        .validate(host(&[1.0, 2.0]))
        .unwrap();
    let first = session.slot("input0").unwrap().validate(x()).unwrap();
    let states = session.zero_states().unwrap();
    let ready = session.bind([mask, first.clone()]).unwrap();
    let outputs = ready.execute(states).unwrap().tolerate_nan().into_outputs();
    assert_eq!(outputs.get(0).unwrap().to_vec::<f32>().unwrap(), [4.0, 3.0]);

    let rejected = session.bind([first.clone(), first]).unwrap_err();
    assert_eq!(
        *rejected.reason(),
        BindError::Duplicate {
            ordinal: Ordinal::new(0),
            name: "input0".to_owned(),
        }
    );
    assert_eq!(rejected.into_input().len(), 2);
}

#[test]
fn tensors_of_another_contract_are_refused() {
    let (_, runtime) = runtime(count);
    let (ours, theirs) = (counter(false), counter(false));
    let model = runtime.load(&ours, core()).unwrap();
    let other = runtime.load(&theirs, core()).unwrap();
    let (mut session, foreign) = (model.session().unwrap(), other.session().unwrap());

    let x = input(&foreign, 0, &[1.0, 2.0]);
    let rejected = session.bind([x]).unwrap_err();
    assert!(matches!(
        rejected.reason(),
        BindError::ForeignTensor { expected, found, .. }
            if *expected == ours.contract().id() && *found == theirs.contract().id()
    ));
    let [x] = rejected.into_input();
    assert!(session.upload(x).is_err());

    let rejected = session
        .states(vec![input(&foreign, 1, &[1.0, 2.0])])
        .unwrap_err();
    assert!(matches!(
        rejected.reason(),
        StatesError::ForeignTensor { .. }
    ));

    let states = foreign.zero_states().unwrap();
    let x = input(&session, 0, &[1.0, 2.0]);
    let failed = session.bind([x]).unwrap().execute(states).unwrap_err();
    assert!(matches!(
        failed.reason(),
        ExecuteError::ForeignStates { .. }
    ));
    let (x, states) = failed.into_inputs();
    assert_eq!(states.contract(), Some(theirs.contract().id()));

    let failed = session.bind(x).unwrap().execute(()).unwrap_err();
    assert_eq!(
        *failed.reason(),
        ExecuteError::StatesMissing { expected: 1 }
    );

    // A second load of the same artifact is the same contract.
    let again = runtime.load(&ours, core()).unwrap();
    let x = input(&again.session().unwrap(), 0, &[1.0, 2.0]);
    assert!(session.bind([x]).is_ok());
}

#[test]
fn states_are_no_user_inputs_and_the_other_way_round() {
    let (_, runtime) = runtime(count);
    let model = runtime.load(&counter(false), core()).unwrap();
    let mut session = model.session().unwrap();
    let (x, state) = (
        input(&session, 0, &[1.0, 2.0]),
        input(&session, 1, &[1.0, 2.0]),
    );
    let rejected = session.bind([x.clone(), state.clone()]).unwrap_err();
    assert_eq!(
        *rejected.reason(),
        BindError::NotAUserInput {
            ordinal: Ordinal::new(1),
            name: "input1".to_owned(),
            role: Role::State,
        }
    );
    let rejected = session.states(vec![x]).unwrap_err();
    assert!(matches!(
        rejected.reason(),
        StatesError::NotAState {
            role: Role::UserInput,
            ..
        }
    ));
    let rejected = session.states(vec![state.clone(), state]).unwrap_err();
    assert!(matches!(rejected.reason(), StatesError::Duplicate { .. }));
    let states = session.zero_states().unwrap();
    assert!(matches!(states.get(0), Err(StatesError::NotAState { .. })));
    assert!(matches!(states.get("nothing"), Err(StatesError::Lookup(_))));
}

#[test]
fn a_launch_takes_the_compiled_batch() {
    let (_, runtime) = runtime(count);
    let model = runtime.load(&pair(), core()).unwrap();
    let mut session = model.session().unwrap();
    let rows = session
        .slot(0)
        .unwrap()
        .validate(host(&[1.0, 2.0, 3.0]))
        .unwrap();
    let rejected = session.bind([rows]).unwrap_err();
    assert!(matches!(
        rejected.reason(),
        BindError::Batch { compiled, found, .. } if *compiled == [2] && *found == [3]
    ));
}

#[test]
fn device_tensors_stay_on_their_core() {
    let (_, runtime) = runtime(count);
    let artifact = counter(false);
    let model = runtime.load(&artifact, core()).unwrap();
    let other = runtime.load(&artifact, Core::new(1)).unwrap();
    let mut session = model.session().unwrap();
    let elsewhere = other.session().unwrap();
    let x = elsewhere.upload(input(&elsewhere, 0, &[1.0, 2.0])).unwrap();
    let rejected = session.bind([x]).unwrap_err();
    assert_eq!(
        *rejected.reason(),
        BindError::CoreMismatch {
            ordinal: Ordinal::new(0),
            name: "input0".to_owned(),
            expected: Core::new(0),
            found: Core::new(1),
        }
    );
    let [x] = rejected.into_input();
    assert!(matches!(
        session.adopt(0, x).unwrap_err().reason(),
        BindError::CoreMismatch { .. }
    ));
}

#[test]
fn an_unknown_output_type_is_no_session() {
    let (fake, runtime) = runtime(count);
    let mut message = contract(&[(USER, &[2])], &[&[2]], &[], false);
    message.output_tensors[0].data_type = 99;
    let model = runtime.load(&model(&message).unwrap(), core()).unwrap();
    assert!(matches!(
        model.session().unwrap_err(),
        crate::SessionError::UnknownDataType { number: 99, .. }
    ));
    drop(model);
    assert!(fake.live().is_empty());
}
