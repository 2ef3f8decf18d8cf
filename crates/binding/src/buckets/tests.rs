//! Buckets over a backend in host memory.

use bytes::Bytes;
use metaneff_schema::metaneff::meta_tensor::{DataType, Type};
use metaneff_schema::metaneff::{MetaNeff, MetaTensor};
use metaneff_schema::nrt::Status;

use super::*;
use crate::testing::{Fake, Launch, model};
use crate::{Artifact, Core, ExecuteError, LoadOptions, Runtime, StatesError};

/// `output0 = sum(ids) * scale + state`, the state's successor being the same;
/// `ids` of some length and type, a weight `scale`, a state `cache`.
fn step(length: i64, dtype: DataType, cache: i64) -> Artifact {
    let tensor = |name: &'static str, shape: Vec<i64>, dtype: DataType| MetaTensor {
        name: name.into(),
        shape,
        data_type: dtype.into(),
        ..MetaTensor::default()
    };
    let key = |key: &'static str| Some(Bytes::from_static(key.as_bytes()));
    let mut ids = tensor("input0", vec![1, length], dtype);
    ids.r#type = Type::UserInput.into();
    ids.user_input_key = key("ids");
    let mut scale = tensor("input1", vec![1], DataType::Float);
    scale.r#type = Type::InputWeight.into();
    scale.checkpoint_key = key("scale");
    let mut state = tensor("input2", vec![cache], DataType::Float);
    state.r#type = Type::InputState.into();
    state.checkpoint_key = key("cache");
    model(&MetaNeff {
        input_tensors: vec![ids, scale, state],
        output_tensors: vec![
            tensor("output0", vec![cache], DataType::Float),
            tensor("output1", vec![cache], DataType::Float),
        ],
        output_aliases_to: [(1, 2)].into(),
        ..MetaNeff::default()
    })
    .unwrap()
}

fn program(launch: &mut Launch) {
    let ids: Vec<i32> = launch.inputs["input0"]
        .chunks(4)
        .map(|bytes| i32::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    let sum: i32 = ids.iter().sum();
    if sum < 0 {
        launch.status = Status::EXEC_OOB;
    }
    let scale = launch.f32s("input1")[0];
    let state = launch.f32s("input2");
    let next: Vec<f32> = state
        .iter()
        .map(|state| state + scale * f32::from(i16::try_from(sum).unwrap()))
        .collect();
    launch.set_f32s("output0", &next);
    launch.set_f32s("output1", &next);
}

fn ids(values: &[i32]) -> HostTensor<'static> {
    HostTensor::from_vec([1, values.len()], values.to_vec()).unwrap()
}

fn scale<'rt>(model: &Model<'rt, Fake>, value: f32) {
    let tensor = HostTensor::from_vec([1], vec![value]).unwrap();
    let weight = model.slot("scale").unwrap().validate(tensor).unwrap();
    model.load_weights(vec![weight]).unwrap();
}

#[test]
fn prefill_and_decode_share_weights_and_one_cache() {
    let fake = Fake::new().with_program(program);
    let runtime = Runtime::new(fake.clone());
    let load = |length| {
        let artifact = step(length, DataType::Int32, 2);
        runtime.load(&artifact, Core::new(0)).unwrap()
    };
    let (prefill, decode) = (load(3), load(1));
    scale(&prefill, 2.0);
    let mut buckets = Buckets::new();
    buckets.add("prefill", &prefill).unwrap();
    buckets.add("decode", &decode).unwrap();
    buckets.share_weights().unwrap();
    assert_eq!(buckets.names().collect::<Vec<_>>(), ["prefill", "decode"]);

    let states = buckets.session("prefill").unwrap().zero_states().unwrap();
    let before = runtime.transfers().unwrap();
    let executed = buckets
        .execute(vec![("ids", ids(&[1, 2, 3]))], states)
        .unwrap();
    let (_, mut states) = executed.tolerate_nan().into_parts();
    for (token, expected) in [(4, 20.0), (5, 30.0)] {
        let executed = buckets
            .execute(vec![("ids", ids(&[token]))], states)
            .unwrap();
        let (outputs, next) = executed.tolerate_nan().into_parts();
        assert_eq!(
            outputs.get(0).unwrap().to_vec::<f32>().unwrap(),
            [expected; 2]
        );
        states = next;
    }
    // Back to the longer bucket, with the same cache.
    let executed = buckets
        .execute(vec![("ids", ids(&[1, 1, 1]))], states)
        .unwrap();
    let (outputs, states) = executed.tolerate_nan().into_parts();
    assert_eq!(outputs.get(0).unwrap().to_vec::<f32>().unwrap(), [36.0; 2]);
    drop(outputs);
    // Only the ids went to the device: neither weights nor the cache.
    let after = runtime.transfers().unwrap();
    assert_eq!(
        after.host_to_device - before.host_to_device,
        4 * (3 + 1 + 1 + 3)
    );
    assert_eq!(after.copies, before.copies);
    drop((states, buckets, prefill, decode));
    assert!(fake.live().is_empty());
}

#[test]
fn element_types_choose_a_bucket_and_ambiguity_is_refused_when_it_is_added() {
    let runtime = Runtime::new(Fake::new());
    let load = |length, dtype| {
        let artifact = step(length, dtype, 2);
        runtime.load(&artifact, Core::new(0)).unwrap()
    };
    let mut buckets = Buckets::new();
    buckets.add("f32", &load(4, DataType::Float)).unwrap();
    buckets.add("bf16", &load(4, DataType::Bfloat16)).unwrap();
    buckets.add("i32", &load(4, DataType::Int32)).unwrap();
    let shape = Shape::from([1, 4]);
    for (dtype, name) in [
        (DType::F32, "f32"),
        (DType::BF16, "bf16"),
        (DType::I32, "i32"),
    ] {
        assert_eq!(buckets.route([("ids", dtype, &shape)]).unwrap(), name);
    }
    let error = buckets
        .add("again", &load(4, DataType::Bfloat16))
        .unwrap_err();
    assert!(matches!(
        &error,
        BucketError::Ambiguous { first, second, .. } if first == "bf16" && second == "again"
    ));
    assert_eq!(
        error.to_string(),
        "a call with `ids` bf16 [1, 4] could go to bucket `bf16` and to bucket `again`"
    );
    let error = buckets.add("f32", &load(5, DataType::Float)).unwrap_err();
    assert_eq!(
        error,
        BucketError::Name {
            name: "f32".to_owned()
        }
    );
    assert_eq!(buckets.names().len(), 3);

    for (name, dtype, shape) in [
        ("ids", DType::F64, [1, 4]),
        ("tokens", DType::F32, [1, 4]),
        ("ids", DType::F32, [4, 1]),
    ] {
        let error = buckets
            .route([(name, dtype, &Shape::from(shape))])
            .unwrap_err();
        let RouteError::NoBucket { given, buckets } = &error;
        assert!(given.starts_with(&format!("`{name}` {dtype}")));
        assert_eq!(buckets[0], "`f32` takes `ids` f32 [1, 4]");
    }
    let error = buckets.route([]).unwrap_err();
    assert!(error.to_string().starts_with("no bucket takes nothing: "));
}

#[test]
fn two_arguments_of_one_name_are_refused() {
    let runtime = Runtime::new(Fake::new());
    let tensor = |name: &'static str, key: &'static str| MetaTensor {
        name: name.into(),
        shape: vec![1],
        data_type: 1,
        r#type: Type::UserInput.into(),
        user_input_key: Some(key.into()),
        ..MetaTensor::default()
    };
    let load = |inputs| {
        let output = MetaTensor {
            user_input_key: None,
            r#type: Type::UndefinedType.into(),
            ..tensor("output0", "")
        };
        let artifact = model(&MetaNeff {
            input_tensors: inputs,
            output_tensors: vec![output],
            ..MetaNeff::default()
        });
        runtime.load(&artifact.unwrap(), Core::new(0)).unwrap()
    };
    let keyed = load(vec![tensor("input0", "x"), tensor("input1", "y")]);
    // The first one's key is the second one's device name.
    let unnamed = MetaTensor {
        user_input_key: None,
        ..tensor("input1", "")
    };
    let clash = load(vec![tensor("input0", "input1"), unnamed]);
    let mut buckets = Buckets::new();
    buckets.add("one", &keyed).unwrap();
    let error = buckets.add("two", &clash).unwrap_err();
    assert!(matches!(error, BucketError::Argument { argument, .. } if argument == "input1"));
    // The order in which arguments are named is free.
    let one = Shape::from([1]);
    let arguments = [("y", DType::F32, &one), ("x", DType::F32, &one)];
    assert_eq!(buckets.route(arguments).unwrap(), "one");
    let twice = [("x", DType::F32, &one), ("x", DType::F32, &one)];
    assert!(buckets.route(twice).is_err());
}

#[test]
fn the_smallest_bucket_that_holds_a_prompt_is_found() {
    let runtime = Runtime::new(Fake::new());
    let mut buckets = Buckets::new();
    for (name, length) in [("64", 64), ("16", 16), ("256", 256)] {
        let artifact = step(length, DataType::Int32, 2);
        let model = runtime.load(&artifact, Core::new(0)).unwrap();
        buckets.add(name, &model).unwrap();
    }
    for (length, expected) in [(1, "16"), (16, "16"), (17, "64"), (200, "256")] {
        let shape = Shape::from([1, length]);
        let (name, shapes) = buckets.smallest([("ids", DType::I32, &shape)]).unwrap();
        assert_eq!(name, expected);
        let room = Shape::from([1, expected.parse::<usize>().unwrap()]);
        assert_eq!(shapes, [("ids", &room)]);
    }
    let long = Shape::from([1, 257]);
    assert!(buckets.smallest([("ids", DType::I32, &long)]).is_err());
    let rank = Shape::from([1]);
    assert!(buckets.smallest([("ids", DType::I32, &rank)]).is_err());
}

#[test]
fn a_failed_call_gives_arguments_and_states_back() {
    let fake = Fake::new().with_program(program);
    let runtime = Runtime::new(fake.clone());
    let load = |length, cache, core| {
        let artifact = step(length, DataType::Int32, cache);
        let options = LoadOptions::new().on(Core::new(core));
        runtime.load_with(&artifact, &options).unwrap()
    };
    let (one, two, wide, far) = (load(1, 2, 0), load(2, 2, 0), load(3, 5, 0), load(4, 2, 1));
    let mut buckets = Buckets::new();
    for (name, model) in [("one", &one), ("two", &two), ("wide", &wide), ("far", &far)] {
        scale(model, 1.0);
        buckets.add(name, model).unwrap();
    }
    let mut states = buckets.session("one").unwrap().zero_states().unwrap();
    type Expected = fn(&Error) -> bool;
    let cases: [(&[i32], Expected); 4] = [
        (&[1, 2, 3, 4, 5], |error| matches!(error, Error::Route(_))),
        // Its cache has another shape.
        (&[1, 2, 3], |error| {
            matches!(error, Error::States(StatesError::Unlike { .. }))
        }),
        // It is on another core.
        (&[1, 2, 3, 4], |error| {
            matches!(error, Error::States(StatesError::Unlike { .. }))
        }),
        (&[-9, 1], |error| {
            matches!(
                error,
                Error::Execute(ExecuteError::Backend(error)) if error.status() == Status::EXEC_OOB
            )
        }),
    ];
    for (values, expected) in cases {
        let failed = buckets
            .execute(vec![("ids", ids(values))], states)
            .unwrap_err();
        assert!(expected(failed.reason()), "{failed}");
        let (arguments, returned) = failed.into_inputs();
        assert_eq!(arguments[0].0, "ids");
        assert_eq!(arguments[0].1.to_vec::<i32>().unwrap(), values);
        states = returned;
    }
    let executed = buckets.execute(vec![("ids", ids(&[3]))], states).unwrap();
    let (_, states) = executed.tolerate_nan().into_parts();
    assert_eq!(
        states.get("cache").unwrap().to_vec::<f32>().unwrap(),
        [3.0; 2]
    );

    let failed = buckets.execute(vec![("ids", ids(&[3]))], ()).unwrap_err();
    assert!(matches!(failed.reason(), Error::States(StatesError::Empty)));
    drop((failed, states, buckets, one, two, wide, far));
    assert!(fake.live().is_empty());
}
