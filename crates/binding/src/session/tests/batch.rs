//! Batches of any size.

use super::*;
use crate::{BatchError, Ordinal, Shape};
use proptest::prelude::*;

/// `output0 = input0 * input2 + input1`, rows of two: `input0` and `output0` are
/// batched, compiled for `compiled` rows; `input1` is one row for all, `input2` a
/// scalar.
fn scaled(compiled: i64) -> Artifact {
    let mut message = contract(
        &[(USER, &[compiled, 2]), (USER, &[2]), (USER, &[])],
        &[&[compiled, 2]],
        &[],
        false,
    );
    message.input_tensors[0].allow_dynamic_batch_size = true;
    message.output_tensors[0].allow_dynamic_batch_size = true;
    model(&message).unwrap()
}

fn scale(launch: &mut Launch) {
    let bias = launch.f32s("input1");
    let factor = launch.f32s("input2")[0];
    let rows: Vec<_> = launch
        .f32s("input0")
        .chunks(2)
        .flat_map(|row| [row[0] * factor + bias[0], row[1] * factor + bias[1]])
        .collect();
    // A row of zeros is nobody's: the launch is filled up with the caller's rows.
    if rows.iter().any(|value| *value == bias[0]) {
        launch.status = Status::EXEC_COMPLETED_WITH_NUM_ERR;
    }
    launch.set_f32s("output0", &rows);
}

fn rows(count: usize) -> Vec<f32> {
    (1..=u16::try_from(2 * count).unwrap())
        .map(f32::from)
        .collect()
}

fn inputs(session: &Session<'_, Fake>, count: usize) -> Vec<Tensor<Validated<'static>>> {
    let batch = HostTensor::from_vec([count, 2], rows(count)).unwrap();
    let validate = |slot: usize, tensor| session.slot(slot).unwrap().validate(tensor).unwrap();
    vec![
        validate(2, HostTensor::scalar(10_f32)),
        validate(0, batch),
        validate(1, host(&[0.25, 0.5])),
    ]
}

#[test]
fn a_batch_is_cut_filled_up_and_joined() {
    let (fake, runtime) = runtime(scale);
    let model = runtime.load(&scaled(2), core()).unwrap();
    let mut session = model.session().unwrap();
    for (count, launches) in [(5, 3), (1, 1), (2, 1), (4, 2), (0, 0)] {
        let executed = session.execute_batch(inputs(&session, count)).unwrap();
        assert_eq!(executed.launches(), launches);
        let outputs = executed.reject_nan().unwrap();
        let output = outputs.get("output0").unwrap();
        assert_eq!(*output.shape(), [count, 2]);
        let expected: Vec<_> = rows(count)
            .chunks(2)
            .flat_map(|row| [row[0] * 10.0 + 0.25, row[1] * 10.0 + 0.5])
            .collect();
        assert_eq!(output.to_vec::<f32>().unwrap(), expected);
    }
    drop((session, model));
    assert!(fake.live().is_empty());
}

#[test]
fn slots_that_disagree_are_both_named() {
    let mut message = contract(&[(USER, &[2]), (USER, &[4])], &[&[2]], &[], false);
    for tensor in message
        .input_tensors
        .iter_mut()
        .chain(&mut message.output_tensors)
    {
        tensor.allow_dynamic_batch_size = true;
    }
    let artifact = model(&message).unwrap();
    // Each row of the output takes one of the first input and two of the second.
    let (_, runtime) = runtime(|launch: &mut Launch| {
        let pairs = launch.f32s("input1");
        let sums: Vec<_> = launch
            .f32s("input0")
            .iter()
            .zip(pairs.chunks(2))
            .map(|(a, pair)| a + pair[0] + pair[1])
            .collect();
        launch.set_f32s("output0", &sums);
    });
    let model = runtime.load(&artifact, core()).unwrap();
    let mut session = model.session().unwrap();
    let mut run = |a: &[f32], b: &[f32]| {
        let inputs = vec![input(&session, 0, a), input(&session, 1, b)];
        session.execute_batch(inputs)
    };
    let outputs = run(&[1.0, 2.0, 3.0], &[10.0, 10.0, 20.0, 20.0, 30.0, 30.0]).unwrap();
    let outputs = outputs.tolerate_nan();
    assert_eq!(
        outputs.get(0).unwrap().to_vec::<f32>().unwrap(),
        [21.0, 42.0, 63.0]
    );

    let rejected = run(&[1.0, 2.0, 3.0, 4.0], &[0.0; 6]).unwrap_err();
    assert_eq!(
        *rejected.reason(),
        BatchError::Inconsistent {
            first: Ordinal::new(0),
            first_name: "input0".into(),
            first_rows: 4,
            first_compiled: 2,
            second: Ordinal::new(1),
            second_name: "input1".into(),
            second_rows: 6,
            second_compiled: 4,
        }
    );
    assert_eq!(rejected.into_input().len(), 2);
    let rejected = run(&[1.0], &[0.0; 3]).unwrap_err();
    assert!(matches!(
        rejected.reason(),
        BatchError::Multiple {
            rows: 3,
            multiple: 2,
            ..
        }
    ));
}

#[test]
fn what_cannot_be_joined_is_refused() {
    let mut message = contract(&[(USER, &[2])], &[&[3]], &[], false);
    message.input_tensors[0].allow_dynamic_batch_size = true;
    let artifact = model(&message).unwrap();
    let (_, first) = runtime(|_: &mut Launch| {});
    let model = first.load(&artifact, core()).unwrap();
    let mut session = model.session().unwrap();
    let rejected = session
        .execute_batch(vec![input(&session, 0, &[1.0; 3])])
        .unwrap_err();
    assert_eq!(
        *rejected.reason(),
        BatchError::FixedOutput {
            ordinal: Ordinal::new(0),
            name: "output0".into(),
            shape: Shape::from([3]),
        }
    );
    // The compiled batch is one launch, whose outputs are whole.
    assert!(
        session
            .execute_batch(vec![input(&session, 0, &[1.0; 2])])
            .is_ok()
    );

    let (_, second) = runtime(count);
    let model = second.load(&counter(false), core()).unwrap();
    let mut session = model.session().unwrap();
    let rejected = session
        .execute_batch(vec![input(&session, 0, &[1.0; 2])])
        .unwrap_err();
    assert_eq!(*rejected.reason(), BatchError::Stateful { states: 1 });
    // Missing inputs are found as in any launch.
    let rejected = session.execute_batch(vec![]).unwrap_err();
    assert_eq!(*rejected.reason(), BatchError::Stateful { states: 1 });
}

#[test]
fn a_nan_in_one_launch_is_one_of_the_batch() {
    let (_, runtime) = runtime(|launch: &mut Launch| {
        let x = launch.f32s("input0");
        if x[0] < 0.0 {
            launch.status = Status::EXEC_COMPLETED_WITH_NUM_ERR;
        }
        launch.set_f32s("output0", &x);
    });
    let artifact = model(&contract(&[(USER, &[1])], &[&[1]], &[], false))
        .unwrap()
        .with_dynamic_batching(true)
        .unwrap();
    let model = runtime.load(&artifact, core()).unwrap();
    let mut session = model.session().unwrap();
    let executed = session
        .execute_batch(vec![input(&session, 0, &[1.0, -1.0, 2.0])])
        .unwrap();
    let rejected = executed.reject_nan().unwrap_err();
    assert_eq!(
        rejected
            .into_input()
            .get(0)
            .unwrap()
            .to_vec::<f32>()
            .unwrap(),
        [1.0, -1.0, 2.0]
    );
}

proptest! {
    #[test]
    fn every_row_is_computed_once_and_in_order(compiled in 1_i64..6, count in 0_usize..20) {
        let (_, runtime) = runtime(scale);
        let model = runtime.load(&scaled(compiled), core()).unwrap();
        let mut session = model.session().unwrap();
        let executed = session.execute_batch(inputs(&session, count)).unwrap();
        let per_launch = usize::try_from(compiled).unwrap();
        prop_assert_eq!(executed.launches(), count.div_ceil(per_launch));
        let found = executed.tolerate_nan().get(0).unwrap().to_vec::<f32>().unwrap();
        let expected: Vec<_> = rows(count)
            .chunks(2)
            .flat_map(|row| [row[0] * 10.0 + 0.25, row[1] * 10.0 + 0.5])
            .collect();
        prop_assert_eq!(found, expected);
    }
}
