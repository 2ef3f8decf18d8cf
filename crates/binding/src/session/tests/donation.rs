//! Buffers that move from a launch to the next.

use super::*;
use crate::{Argument, BindError, ExecuteError, Ordinal, OutputError};

#[test]
fn states_move_through_a_loop_without_a_copy() {
    let (fake, runtime) = runtime(count);
    let model = runtime.load(&counter(false), core()).unwrap();
    let mut session = model.session().unwrap();
    let mut cache = session.zero_states().unwrap();
    let before = runtime.transfers().unwrap();
    for step in 1..=16_u8 {
        let ids = input(&session, 0, &[1.0, f32::from(step)]);
        let (outputs, next) = session
            .bind([ids])
            .unwrap()
            .execute(cache)
            .unwrap()
            .tolerate_nan()
            .into_parts();
        // Aliased outputs are hidden, and keep their ordinal.
        assert_eq!(outputs.len(), 1);
        assert_eq!(
            outputs.get(1).unwrap_err(),
            OutputError::Hidden {
                ordinal: Ordinal::new(1),
                name: "output1".to_owned(),
                input: Ordinal::new(1),
            }
        );
        let sum = f32::from(step) * f32::from(step + 1) / 2.0;
        assert_eq!(
            outputs.get(0).unwrap().to_vec::<f32>().unwrap(),
            [f32::from(step), sum]
        );
        cache = next;
    }
    let after = runtime.transfers().unwrap();
    assert_eq!(after.host_to_device - before.host_to_device, 16 * 8);
    assert_eq!(after.device_to_device, 0);
    assert_eq!(after.allocations, before.allocations);
    // Two inputs, two outputs, once.
    assert_eq!(after.binds - before.binds, 4);
    drop((cache, session, model));
    assert!(fake.live().is_empty());
}

#[test]
fn aliases_follow_the_output_ordinal_in_either_order() {
    for (state_output, other) in [(0, 1), (1, 0)] {
        let (_, runtime) = runtime(move |launch: &mut Launch| {
            let state: Vec<f32> = launch.f32s("input0").iter().map(|x| x + 1.0).collect();
            let ys = launch.f32s("input1");
            launch.set_f32s(&format!("output{state_output}"), &state);
            launch.set_f32s(&format!("output{other}"), &ys);
        });
        let shapes: [&[i64]; 2] = if state_output == 0 {
            [&[3], &[1]]
        } else {
            [&[1], &[3]]
        };
        let artifact = model(&contract(
            &[(STATE, &[3]), (USER, &[1])],
            &shapes,
            &[(state_output, 0)],
            true,
        ))
        .unwrap();
        let model = runtime.load(&artifact, core()).unwrap();
        let mut session = model.session().unwrap();
        let state = input(&session, 0, &[1.0, 2.0, 3.0]);
        let states = session.states(vec![state]).unwrap();
        let x = input(&session, 1, &[0.0]);
        let (outputs, states) = session
            .bind([x])
            .unwrap()
            .execute(states)
            .unwrap()
            .tolerate_nan()
            .into_parts();
        assert_eq!(
            states.get(0).unwrap().to_vec::<f32>().unwrap(),
            [2.0, 3.0, 4.0]
        );
        let shown = outputs.get(usize::try_from(state_output).unwrap()).unwrap();
        assert_eq!(shown.to_vec::<f32>().unwrap(), [2.0, 3.0, 4.0]);
        assert_eq!(outputs.len(), 2);
    }
}

#[test]
fn states_that_an_output_shows_wait_for_it() {
    let (_, runtime) = runtime(count);
    let model = runtime.load(&counter(true), core()).unwrap();
    let (mut first, mut second) = (model.session().unwrap(), model.session().unwrap());
    let states = first.zero_states().unwrap();
    let one = input(&first, 0, &[1.0, 1.0]);
    let (outputs, states) = first
        .bind([one.clone()])
        .unwrap()
        .execute(states)
        .unwrap()
        .tolerate_nan()
        .into_parts();
    let failed = second.bind([one]).unwrap().execute(states).unwrap_err();
    assert_eq!(*failed.reason(), ExecuteError::StatesShown);
    assert_eq!(outputs.get(1).unwrap().to_vec::<f32>().unwrap(), [1.0, 1.0]);
    let (arguments, states) = failed.into_inputs();
    drop(outputs);
    let outputs = second
        .bind(arguments)
        .unwrap()
        .execute(states)
        .unwrap()
        .tolerate_nan()
        .into_outputs();
    assert_eq!(outputs.get(0).unwrap().to_vec::<f32>().unwrap(), [2.0, 2.0]);
}

#[test]
fn two_sequences_share_a_session() {
    let (_, runtime) = runtime(count);
    let model = runtime.load(&counter(false), core()).unwrap();
    let mut session = model.session().unwrap();
    let mut a = session.zero_states().unwrap();
    let mut b = session.zero_states().unwrap();
    for _ in 0..3 {
        let x = input(&session, 0, &[1.0, 0.0]);
        a = session
            .bind([x])
            .unwrap()
            .execute(a)
            .unwrap()
            .tolerate_nan()
            .into_parts()
            .1;
        let x = input(&session, 0, &[10.0, 0.0]);
        b = session
            .bind([x])
            .unwrap()
            .execute(b)
            .unwrap()
            .tolerate_nan()
            .into_parts()
            .1;
    }
    assert_eq!(a.get(1).unwrap().to_vec::<f32>().unwrap(), [3.0, 0.0]);
    assert_eq!(
        b.get("input1").unwrap().to_vec::<f32>().unwrap(),
        [30.0, 0.0]
    );
    b.write(input(&session, 1, &[5.0, 5.0])).unwrap();
    assert_eq!(b.get(1).unwrap().to_vec::<f32>().unwrap(), [5.0, 5.0]);
}

/// A contract without roles whose cache is the caller's: `input1` becomes `output1`.
fn legacy() -> Artifact {
    model(&contract(
        &[(LEGACY, &[2]), (LEGACY, &[2])],
        &[&[2], &[2]],
        &[(1, 1)],
        false,
    ))
    .unwrap()
}

#[test]
fn a_donated_user_input_comes_back_bound() {
    let (fake, runtime) = runtime(count);
    let model = runtime.load(&legacy(), core()).unwrap();
    let mut session = model.session().unwrap();
    let x = input(&session, 0, &[1.0, 2.0]);
    let cache = input(&session, 1, &[10.0, 20.0]);
    let (mut outputs, _) = session
        .bind([x, cache])
        .unwrap()
        .execute(())
        .unwrap()
        .tolerate_nan()
        .into_parts();
    let mut cache = outputs.take(1).unwrap();
    assert_eq!(
        outputs.take(1).unwrap_err(),
        OutputError::Taken {
            ordinal: Ordinal::new(1),
            name: "output1".to_owned(),
        }
    );
    assert_eq!(cache.slot().name(), "input1");
    let before = runtime.transfers().unwrap();
    for step in 2..5_u8 {
        let x = input(&session, 0, &[1.0, 2.0]);
        let (mut outputs, _) = session
            .bind([Argument::Device(cache), Argument::Host(x)])
            .unwrap()
            .execute(())
            .unwrap()
            .tolerate_nan()
            .into_parts();
        let sum = 10.0 + f32::from(step);
        assert_eq!(outputs.get(0).unwrap().to_vec::<f32>().unwrap()[0], sum);
        cache = outputs.take("output1").unwrap();
    }
    let after = runtime.transfers().unwrap();
    assert_eq!(after.host_to_device - before.host_to_device, 3 * 8);
    assert_eq!(after.allocations, before.allocations);
    assert_eq!(after.binds, before.binds);
    assert_eq!(cache.to_vec::<f32>().unwrap(), [14.0, 28.0]);
    drop((cache, session, model));
    assert!(fake.live().is_empty());
}

#[test]
fn a_successor_that_nobody_takes_is_staged_again() {
    let (_, runtime) = runtime(count);
    let model = runtime.load(&legacy(), core()).unwrap();
    let mut session = model.session().unwrap();
    for _ in 0..2 {
        for start in [10.0, 20.0] {
            let (x, cache) = (
                input(&session, 0, &[1.0, 1.0]),
                input(&session, 1, &[start, 0.0]),
            );
            let ready = session.bind((cache, x)).unwrap();
            let outputs = ready.execute(()).unwrap().tolerate_nan().into_outputs();
            let sum = outputs.get(0).unwrap().to_vec::<f32>().unwrap();
            assert_eq!(sum, [start + 1.0, 1.0]);
        }
    }
    // Two staging buffers and one output, once.
    assert_eq!(runtime.transfers().unwrap().allocations, 3);
    assert_eq!(runtime.transfers().unwrap().binds, 4);
}

#[test]
fn a_tensor_on_loan_is_not_donated() {
    let (_, runtime) = runtime(count);
    let model = runtime.load(&legacy(), core()).unwrap();
    let mut session = model.session().unwrap();
    let shared = session.upload(input(&session, 0, &[1.0, 2.0])).unwrap();
    let cache = session.upload(input(&session, 1, &[0.0, 0.0])).unwrap();
    let rejected = session.bind([&shared, &cache]).unwrap_err();
    assert_eq!(
        *rejected.reason(),
        BindError::LentToOutput {
            ordinal: Ordinal::new(1),
            name: "input1".to_owned(),
            output: Ordinal::new(1),
        }
    );
    let outputs = session
        .bind((&shared, cache))
        .unwrap()
        .execute(())
        .unwrap()
        .tolerate_nan()
        .into_outputs();
    assert_eq!(outputs.get(0).unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0]);
    assert_eq!(shared.to_vec::<f32>().unwrap(), [1.0, 2.0]);
}

#[test]
fn an_output_becomes_the_next_models_input_on_the_device() {
    let (fake, runtime) = runtime(count);
    let model = runtime.load(&counter(false), core()).unwrap();
    let other = runtime.load(&counter(false), core()).unwrap();
    let (mut first, mut second) = (model.session().unwrap(), other.session().unwrap());
    let states = first.zero_states().unwrap();
    let x = input(&first, 0, &[1.0, 2.0]);
    let (mut outputs, _states) = first
        .bind([x])
        .unwrap()
        .execute(states)
        .unwrap()
        .tolerate_nan()
        .into_parts();
    let output = outputs.take(0).unwrap();
    assert!(matches!(outputs.get(0), Err(OutputError::Taken { .. })));
    // An output is no input until it is moved to one.
    let rejected = first.bind([output]).unwrap_err();
    assert!(matches!(rejected.reason(), BindError::Unlike { .. }));
    let [output] = rejected.into_input();
    let rejected = second.adopt("input9", output).unwrap_err();
    assert!(matches!(rejected.reason(), BindError::Lookup(_)));
    let moved = second.adopt(0, rejected.into_input()).unwrap();
    let states = second.zero_states().unwrap();
    let before = runtime.transfers().unwrap();
    let ready = second.bind([moved]).unwrap();
    let outputs = ready.execute(states).unwrap().tolerate_nan().into_outputs();
    assert_eq!(outputs.get(0).unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0]);
    assert_eq!(
        runtime.transfers().unwrap().host_to_device,
        before.host_to_device
    );
    // The first session allocates a buffer for the output that was taken.
    let states = first.zero_states().unwrap();
    let x = input(&first, 0, &[3.0, 4.0]);
    let ready = first.bind([x]).unwrap();
    let outputs = ready.execute(states).unwrap().tolerate_nan().into_outputs();
    assert_eq!(outputs.get(0).unwrap().to_vec::<f32>().unwrap(), [3.0, 4.0]);
    drop((first, second, _states, model, other));
    assert!(fake.live().is_empty());
}
