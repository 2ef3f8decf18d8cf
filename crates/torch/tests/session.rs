//! Launches with libtorch's tensors: order, states, arity, failures.

use metaneff_binding::testing::{Fake, add_model, model};
use metaneff_binding::{Artifact, Core, HostTensor, Order, Runtime};
use metaneff_schema::metaneff::{MetaNeff, MetaTensor, ModelConfig};
use metaneff_torch::{ToHost as _, ToTorch as _, TorchError, TorchSession};
use tch::Tensor;

fn floats(tensor: &Tensor) -> Vec<f32> {
    Vec::try_from(tensor.flatten(0, -1)).expect("floats")
}

/// A counter: `output0 = input0 + state`, and the state becomes the sum.
fn counter(returns_aliases: bool) -> Artifact {
    let tensor = |name: &'static str, role, key: Option<&'static str>| MetaTensor {
        name: name.into(),
        data_type: 1,
        r#type: role,
        user_input_key: key.map(Into::into),
        checkpoint_key: (role == 2).then(|| "total".into()),
        ..MetaTensor::default()
    };
    model(&MetaNeff {
        input_tensors: vec![tensor("input0", 1, Some("x")), tensor("input1", 2, None)],
        output_tensors: vec![tensor("output0", 0, None), tensor("output1", 0, None)],
        output_aliases_to: [(1, 1)].into(),
        model_config: Some(ModelConfig {
            return_aliases: returns_aliases,
            ..ModelConfig::default()
        }),
        ..MetaNeff::default()
    })
    .expect("a sound model")
}

fn adder() -> Fake {
    Fake::new().with_program(|launch| {
        let sum = launch.f32s("input0")[0] + launch.f32s("input1")[0];
        launch.set_f32s("output0", &[sum]);
        launch.set_f32s("output1", &[sum]);
    })
}

#[test]
fn inputs_that_could_be_swapped_need_a_confirmed_order() {
    let runtime = Runtime::new(Fake::new());
    let model = runtime
        .load(&add_model(), Core::new(0))
        .expect("a sound model");
    let inputs = [
        Tensor::from_slice(&[1.0_f32, 2.0]),
        Tensor::from_slice(&[3.0_f32, 4.0]),
    ];

    let mut session = TorchSession::new(&model).expect("a session");
    let error = session
        .forward(&inputs, ())
        .expect_err("the order is not confirmed");
    assert!(matches!(error.reason(), TorchError::Model(_)), "{error}");

    let mut session = session.with_order(Order::Confirmed);
    let forward = session.forward(&inputs, ()).expect("a launch");
    assert_eq!(floats(&forward.outputs[0]), [4.0, 6.0]);

    let [a, b] = &inputs;
    let named = session.forward_named(&[("input1", b), ("input0", a)], ());
    assert_eq!(floats(&named.expect("a launch").outputs[0]), [4.0, 6.0]);
}

#[test]
fn the_dtype_and_the_shape_are_checked_before_anything_runs() {
    let runtime = Runtime::new(Fake::new());
    let model = runtime
        .load(&add_model(), Core::new(0))
        .expect("a sound model");
    let mut session = TorchSession::new(&model)
        .expect("a session")
        .with_order(Order::Confirmed);
    let right = Tensor::from_slice(&[1.0_f32, 2.0]);
    for wrong in [
        Tensor::from_slice(&[1.0_f64, 2.0]),
        Tensor::from_slice(&[1.0_f32]),
    ] {
        let error = session
            .forward(&[&right, &wrong], ())
            .expect_err("does not fit");
        assert!(matches!(error.reason(), TorchError::Model(_)), "{error}");
    }
    let count = session.forward(&[&right], ()).expect_err("one is missing");
    assert!(matches!(count.reason(), TorchError::Model(_)), "{count}");
    assert_eq!(runtime.transfers().map(|moved| moved.executions), Some(0));
}

#[test]
fn states_start_as_given_move_on_and_come_back_after_a_failure() {
    let runtime = Runtime::new(adder());
    let model = runtime
        .load(&counter(false), Core::new(0))
        .expect("a sound model");
    let mut session = TorchSession::new(&model).expect("a session");
    let states = session
        .states(&[("total", Tensor::from(10.0_f32))])
        .expect("a state");

    let first = session
        .forward(&[Tensor::from(1.0_f32)], states)
        .expect("a launch");
    assert_eq!(first.outputs.len(), 1, "the aliased output is not returned");
    assert_eq!(floats(&first.outputs[0]), [11.0]);

    let failed = session.forward(&[Tensor::from(1_i64)], first.states);
    let states = failed.expect_err("not a float").into_states();
    let second = session
        .forward(&[Tensor::from(2.0_f32)], states)
        .expect("a launch");
    assert_eq!(floats(&second.outputs[0]), [13.0]);
    let total = second.states.get("total").expect("a state").to_torch();
    assert_eq!(floats(&total.expect("readable")), [13.0]);
}

#[test]
fn aliased_outputs_are_returned_where_the_contract_says_so() {
    let runtime = Runtime::new(adder());
    let model = runtime
        .load(&counter(true), Core::new(0))
        .expect("a sound model");
    let mut session = TorchSession::new(&model).expect("a session");
    let states = session.states::<&str, Tensor>(&[]).expect("zero states");
    let forward = session
        .forward(&[Tensor::from(5.0_f32)], states)
        .expect("a launch");
    let all: Vec<_> = forward.outputs.iter().flat_map(floats).collect();
    assert_eq!(all, [5.0, 5.0]);
}

#[test]
fn a_tuple_has_as_many_outputs_as_the_contract_returns() {
    let runtime = Runtime::new(Fake::new());
    let model = runtime
        .load(&add_model(), Core::new(0))
        .expect("a sound model");
    let mut session = TorchSession::new(&model)
        .expect("a session")
        .with_order(Order::Confirmed);
    let inputs = [
        Tensor::from_slice(&[1.0_f32, 2.0]),
        Tensor::from_slice(&[3.0_f32, 4.0]),
    ];
    let [sum] = session.forward_tuple(&inputs).expect("one output");
    assert_eq!(floats(&sum), [4.0, 6.0]);
    let error = session.forward_tuple::<2>(&inputs).expect_err("not two");
    assert!(
        matches!(
            error,
            TorchError::Arity {
                expected: 2,
                found: 1
            }
        ),
        "{error:?}"
    );
}

#[test]
fn a_transposed_input_arrives_in_its_own_order() {
    let runtime = Runtime::new(Fake::new().with_program(|launch| {
        let values = launch.f32s("input0");
        launch.set_f32s("output0", &values);
    }));
    let tensor = |name: &'static str, role| MetaTensor {
        name: name.into(),
        shape: vec![2, 2],
        data_type: 1,
        r#type: role,
        ..MetaTensor::default()
    };
    let artifact = model(&MetaNeff {
        input_tensors: vec![tensor("input0", 1)],
        output_tensors: vec![tensor("output0", 0)],
        ..MetaNeff::default()
    })
    .expect("a sound model");
    let model = runtime
        .load(&artifact, Core::new(0))
        .expect("a sound model");
    let mut session = TorchSession::new(&model).expect("a session");
    let transposed = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0])
        .reshape([2, 2])
        .tr();
    let forward = session.forward(&[transposed], ()).expect("a launch");
    assert_eq!(floats(&forward.outputs[0]), [1.0, 3.0, 2.0, 4.0]);
}

#[test]
fn a_batch_of_another_size_is_cut_into_launches_and_joined() {
    let artifact = add_model().with_dynamic_batching(true).expect("an edit");
    let runtime = Runtime::new(Fake::new());
    let model = runtime
        .load(&artifact, Core::new(0))
        .expect("a sound model");
    let mut session = TorchSession::new(&model)
        .expect("a session")
        .with_order(Order::Confirmed);
    for (rows, launches) in [(0, 0), (1, 1), (2, 1), (3, 2), (7, 4)] {
        let a: Vec<f32> = (0..rows).map(|row| row as f32).collect();
        let b: Vec<f32> = a.iter().map(|x| x * 10.0).collect();
        let sums: Vec<f32> = a.iter().map(|x| x * 11.0).collect();
        let (a, b) = (Tensor::from_slice(&a), Tensor::from_slice(&b));
        let forward = session.forward(&[&a, &b], ()).expect("a batch");
        assert_eq!(forward.launches, launches, "{rows} rows");
        assert_eq!(forward.outputs[0].size(), [i64::from(rows)]);
        assert_eq!(floats(&forward.outputs[0]), sums);
        let [sum] = session.forward_tuple(&[a, b]).expect("one output");
        assert_eq!(floats(&sum), sums);
    }

    let (three, four) = (
        Tensor::from_slice(&[1.0_f32; 3]),
        Tensor::from_slice(&[1.0_f32; 4]),
    );
    let error = session
        .forward(&[three, four], ())
        .expect_err("batches of two sizes");
    assert!(error.to_string().contains("disagree"), "{error}");
}

#[test]
fn a_batch_of_another_size_gives_the_states_back() {
    let tensor = |name: &'static str, role| MetaTensor {
        name: name.into(),
        shape: vec![2],
        data_type: 1,
        r#type: role,
        checkpoint_key: (role == 2).then(|| "total".into()),
        ..MetaTensor::default()
    };
    let artifact = model(&MetaNeff {
        input_tensors: vec![tensor("input0", 1), tensor("input1", 2)],
        output_tensors: vec![tensor("output0", 0), tensor("output1", 0)],
        output_aliases_to: [(1, 1)].into(),
        ..MetaNeff::default()
    })
    .expect("a sound model")
    .with_dynamic_batching(true)
    .expect("an edit");
    let runtime = Runtime::new(adder());
    let model = runtime
        .load(&artifact, Core::new(0))
        .expect("a sound model");
    let mut session = TorchSession::new(&model).expect("a session");
    let start = Tensor::from_slice(&[1.0_f32, 2.0]);
    let states = session.states(&[("total", start)]).expect("a state");
    let failed = session
        .forward(&[Tensor::from_slice(&[0.0_f32; 3])], states)
        .expect_err("a model with states has the compiled batch");
    let states = failed.into_states();
    let total = states.get("total").expect("a state").to_torch();
    assert_eq!(floats(&total.expect("readable")), [1.0, 2.0]);
}

#[test]
fn an_output_of_a_kind_that_tch_has_no_name_for_is_read() {
    let tensor = |name: &'static str| MetaTensor {
        name: name.into(),
        shape: vec![2],
        data_type: 8, // UINT16
        ..MetaTensor::default()
    };
    let artifact = model(&MetaNeff {
        input_tensors: vec![tensor("input0")],
        output_tensors: vec![tensor("output0")],
        ..MetaNeff::default()
    })
    .expect("a sound model");
    let runtime = Runtime::new(Fake::new().with_program(|launch| {
        let bytes = launch.inputs["input0"].clone();
        launch.outputs.insert("output0".to_owned(), bytes);
    }));
    let model = runtime
        .load(&artifact, Core::new(0))
        .expect("a sound model");
    let host = HostTensor::from_slice([2], &[7_u16, 65_535]).expect("two elements");
    let input = host.to_torch().expect("a kind of libtorch");
    let mut session = TorchSession::new(&model).expect("a session");
    let forward = session.forward(&[input], ()).expect("a launch");
    let back = forward.outputs[0].to_host().expect("a dense tensor");
    assert_eq!(back.to_vec::<u16>().expect("u16"), [7, 65_535]);
}
