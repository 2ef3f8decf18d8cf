//! Weights: uploaded once, shared by sessions, replaced whole.

use super::*;
use crate::{BindError, Ordinal, Role, WeightsError};

/// `output0 = input0 + input1`, where `input1` is the weight `layer.weight`.
fn weighted() -> Artifact {
    let mut message = contract(
        &[(USER, &[2]), (WEIGHT, &[2]), (WEIGHT, &[2])],
        &[&[2]],
        &[],
        false,
    );
    message.input_tensors[1].checkpoint_key = Some("layer.weight".into());
    message.input_tensors[2].content = vec![0; 8].into();
    model(&message).unwrap()
}

fn run(session: &mut Session<'_, Fake>) -> Vec<f32> {
    let x = input(session, 0, &[1.0, 2.0]);
    let ready = session.bind([x]).unwrap();
    let outputs = ready.execute(()).unwrap().tolerate_nan().into_outputs();
    outputs.get(0).unwrap().to_vec().unwrap()
}

#[test]
fn weights_are_uploaded_once_and_replaced_whole() {
    let (fake, runtime) = runtime(|launch: &mut Launch| {
        let sum = add(&launch.f32s("input0"), &launch.f32s("input1"));
        launch.set_f32s("output0", &sum);
    });
    let model = runtime.load(&weighted(), core()).unwrap();
    let (mut first, mut second) = (model.session().unwrap(), model.session().unwrap());

    let x = input(&first, 0, &[1.0, 2.0]);
    let rejected = first.bind([x]).unwrap_err();
    let BindError::Missing(missing) = rejected.reason() else {
        panic!("{rejected}");
    };
    assert_eq!(missing.slots.len(), 2);
    assert_eq!(missing.slots[0].key.as_deref(), Some("layer.weight"));
    assert_eq!(missing.slots[0].role, Role::Weight);

    let weight = |elements: &[f32]| {
        let slot = model.slot("layer.weight").unwrap();
        vec![slot.validate(host(elements)).unwrap()]
    };
    model.load_weights(weight(&[10.0, 20.0])).unwrap();
    let before = runtime.transfers().unwrap();
    assert_eq!(run(&mut first), [11.0, 22.0]);
    assert_eq!(run(&mut second), [11.0, 22.0]);
    let after = runtime.transfers().unwrap();
    assert_eq!(after.host_to_device - before.host_to_device, 2 * 8);

    model.load_weights(weight(&[5.0, 5.0])).unwrap();
    assert_eq!(run(&mut first), [6.0, 7.0]);
    // A refused or failed replacement changes nothing.
    assert!(model.load_weights(vec![]).is_err());
    fake.fail_after(1, Status::RESOURCE);
    let rejected = model.load_weights(weight(&[9.0, 9.0])).unwrap_err();
    assert!(matches!(rejected.reason(), WeightsError::Backend(_)));
    assert_eq!(
        rejected.into_input()[0].to_vec::<f32>().unwrap(),
        [9.0, 9.0]
    );
    assert_eq!(run(&mut second), [6.0, 7.0]);

    drop((first, second, model));
    assert!(fake.live().is_empty());
}

#[test]
fn weights_are_told_apart_from_everything_else() {
    let (_, runtime) = runtime(count);
    let model = runtime.load(&weighted(), core()).unwrap();
    let session = model.session().unwrap();
    let rejected = model
        .load_weights(vec![input(&session, 0, &[1.0, 2.0])])
        .unwrap_err();
    assert_eq!(
        *rejected.reason(),
        WeightsError::NotAWeight {
            ordinal: Ordinal::new(0),
            name: "input0".to_owned(),
            role: Role::UserInput,
        }
    );
    let twice = vec![
        input(&session, 1, &[1.0, 2.0]),
        input(&session, 1, &[1.0, 2.0]),
    ];
    let rejected = model.load_weights(twice).unwrap_err();
    assert!(matches!(rejected.reason(), WeightsError::Duplicate { .. }));
    let other = runtime.load(&weighted(), core()).unwrap();
    let foreign = input(&other.session().unwrap(), 1, &[1.0, 2.0]);
    let rejected = model.load_weights(vec![foreign]).unwrap_err();
    assert!(matches!(
        rejected.reason(),
        WeightsError::ForeignTensor { .. }
    ));
    let rejected = model.load_weights(vec![]).unwrap_err();
    assert!(matches!(
        rejected.reason(),
        WeightsError::Missing(missing) if missing.slots.len() == 1
    ));
}

#[test]
fn weights_that_an_output_overwrites_are_states() {
    // The weight-layout transform: every weight is its own output.
    let (_, runtime) = runtime(|launch: &mut Launch| {
        let turned: Vec<f32> = launch.f32s("input0").into_iter().rev().collect();
        launch.set_f32s("output0", &turned);
    });
    let artifact = model(&contract(&[(WEIGHT, &[2])], &[&[2]], &[(0, 0)], true)).unwrap();
    let model = runtime.load(&artifact, core()).unwrap();
    let mut session = model.session().unwrap();
    let weight = input(&session, 0, &[1.0, 2.0]);
    let states = session.states(vec![weight]).unwrap();
    let ready = session.bind(()).unwrap();
    let (outputs, states) = ready.execute(states).unwrap().tolerate_nan().into_parts();
    assert_eq!(outputs.get(0).unwrap().to_vec::<f32>().unwrap(), [2.0, 1.0]);
    assert_eq!(states.get(0).unwrap().to_vec::<f32>().unwrap(), [2.0, 1.0]);
}
