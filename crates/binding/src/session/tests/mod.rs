//! Sessions over a backend in host memory, and over a mock.

mod batch;
mod calls;
mod donation;
mod failure;
mod refusal;
mod sequences;
mod weights;

use metaneff_schema::metaneff::meta_tensor::{DataType, Type};
use metaneff_schema::metaneff::{MetaNeff, MetaTensor, ModelConfig};
use metaneff_schema::nrt::Status;
use metaneff_schema::xla::{
    HloComputationProto, HloModuleProto, PrimitiveType, ProgramShapeProto, ShapeProto,
};
use prost::Message;

use crate::testing::{Fake, Launch, model};
use crate::{Artifact, Core, HostTensor, Runtime, Session, Tensor, Validated};

const USER: Type = Type::UserInput;
const STATE: Type = Type::InputState;
const WEIGHT: Type = Type::InputWeight;
const LEGACY: Type = Type::UndefinedType;

/// A contract of `f32` tensors: inputs by role and shape, outputs by shape,
/// aliases from output to input.
fn contract(
    inputs: &[(Type, &[i64])],
    outputs: &[&[i64]],
    aliases: &[(i64, i64)],
    return_aliases: bool,
) -> MetaNeff {
    let tensor = |name: String, shape: &[i64], role: Type| MetaTensor {
        name: name.into(),
        shape: shape.to_vec(),
        data_type: 1,
        r#type: role.into(),
        ..MetaTensor::default()
    };
    MetaNeff {
        input_tensors: (0..)
            .zip(inputs)
            .map(|(i, &(role, shape))| tensor(format!("input{i}"), shape, role))
            .collect(),
        output_tensors: (0..)
            .zip(outputs)
            .map(|(i, shape)| tensor(format!("output{i}"), shape, Type::UndefinedType))
            .collect(),
        output_aliases_to: aliases.iter().copied().collect(),
        model_config: Some(ModelConfig {
            return_aliases,
            ..ModelConfig::default()
        }),
        ..MetaNeff::default()
    }
}

/// One step of a running sum: `input0` is added to the state `input1`, whose
/// successor is `output1`; `output0` is the sum.
fn counter(return_aliases: bool) -> Artifact {
    model(&contract(
        &[(USER, &[2]), (STATE, &[2])],
        &[&[2], &[2]],
        &[(1, 1)],
        return_aliases,
    ))
    .unwrap()
}

fn count(launch: &mut Launch) {
    let sum = add(&launch.f32s("input0"), &launch.f32s("input1"));
    launch.set_f32s("output0", &sum);
    launch.set_f32s("output1", &sum);
}

/// A counter that answers another status when it is given a negative number.
fn faulty(status: Status) -> impl Fn(&mut Launch) {
    move |launch| {
        count(launch);
        if launch.f32s("input0")[0] < 0.0 {
            launch.status = status;
        }
    }
}

fn add(a: &[f32], b: &[f32]) -> Vec<f32> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn host(elements: &[f32]) -> HostTensor<'static> {
    HostTensor::from_vec([elements.len()], elements.to_vec()).unwrap()
}

fn input(
    session: &Session<'_, Fake>,
    ordinal: usize,
    elements: &[f32],
) -> Tensor<Validated<'static>> {
    let slot = session.slot(ordinal).unwrap();
    slot.validate(host(elements)).unwrap()
}

fn runtime(program: impl Fn(&mut Launch) + Send + Sync + 'static) -> (Fake, Runtime<Fake>) {
    let fake = Fake::new().with_program(program);
    (fake.clone(), Runtime::new(fake))
}

fn core() -> Core {
    Core::new(0)
}

#[test]
fn handles_may_cross_threads() {
    fn check<T: Send + Sync>() {}
    check::<Session<'static, Fake>>();
    check::<crate::Model<'static, Fake>>();
    check::<crate::States<'static, Fake>>();
    check::<Tensor<Validated<'static>>>();
    check::<crate::BoundTensor<'static, Fake>>();
    check::<crate::SharedRuntime<Fake>>();
}

#[test]
fn what_a_launch_carries_is_small() {
    assert_eq!(size_of::<crate::Ordinal>(), size_of::<usize>());
    assert_eq!(size_of::<crate::Slot>(), size_of::<usize>());
    assert_eq!(
        size_of::<crate::States<'static, Fake>>(),
        size_of::<usize>()
    );
    assert!(size_of::<Tensor<Validated<'static>>>() <= 112);
}

#[test]
fn shared_handles_keep_the_backend() {
    let (fake, runtime) = runtime(count);
    let shared = runtime.into_shared();
    let model = shared.clone().load(&counter(false), core()).unwrap();
    drop(shared);
    let worker = std::thread::spawn(move || {
        let mut session = model.session().unwrap();
        drop(model);
        let states = session.zero_states().unwrap();
        let one = input(&session, 0, &[1.0, 2.0]);
        let ready = session.bind([one]).unwrap();
        let outputs = ready.execute(states).unwrap().tolerate_nan().into_outputs();
        outputs.get(0).unwrap().to_vec::<f32>().unwrap()
    });
    assert_eq!(worker.join().unwrap(), [1.0, 2.0]);
    assert!(fake.live().is_empty());
}

#[test]
fn a_backend_may_be_chosen_at_run_time() {
    let fake = Fake::new().with_program(count);
    let runtime = Runtime::new(crate::AnyBackend::new(fake.clone()));
    let model = runtime.load(&counter(false), core()).unwrap();
    let mut session = model.session().unwrap();
    let states = session.zero_states().unwrap();
    let one = session
        .slot(0)
        .unwrap()
        .validate(host(&[1.0, 2.0]))
        .unwrap();
    let (outputs, states) = session
        .bind([one])
        .unwrap()
        .execute(states)
        .unwrap()
        .tolerate_nan()
        .into_parts();
    assert_eq!(
        outputs.get("output0").unwrap().to_vec::<f32>().unwrap(),
        [1.0, 2.0]
    );
    assert_eq!(states.get(1).unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0]);
    drop((states, session, model));
    assert!(fake.live().is_empty());
}

#[test]
fn tensors_without_elements_have_no_buffer() {
    let (fake, runtime) = runtime(|launch| {
        assert_eq!(launch.inputs.len(), 1);
        launch.set_f32s("output1", &[7.0]);
    });
    let artifact = model(&contract(
        &[(USER, &[0, 4]), (USER, &[2]), (STATE, &[3, 0])],
        &[&[0], &[1], &[3, 0]],
        &[(2, 2)],
        true,
    ))
    .unwrap();
    let model = runtime.load(&artifact, core()).unwrap();
    let mut session = model.session().unwrap();
    assert_eq!(fake.live().tensors, 2);
    let empty: [f32; 0] = [];
    let nothing = HostTensor::from_slice([0, 4], &empty).unwrap();
    let nothing = session.slot(0).unwrap().validate(nothing).unwrap();
    let some = input(&session, 1, &[1.0, 2.0]);
    let states = session.zero_states().unwrap();
    let (mut outputs, states) = session
        .bind([some, nothing])
        .unwrap()
        .execute(states)
        .unwrap()
        .tolerate_nan()
        .into_parts();
    assert_eq!(outputs.get(0).unwrap().to_vec::<f32>().unwrap(), empty);
    assert_eq!(outputs.get(2).unwrap().to_vec::<f32>().unwrap(), empty);
    assert_eq!(
        states.get(2).unwrap().to_host().unwrap().shape().dims(),
        [3, 0]
    );
    assert!(matches!(
        outputs.take(0),
        Err(crate::OutputError::Empty { .. })
    ));
}

#[test]
fn a_scalar_binds_four_bytes() {
    let (_, runtime) = runtime(|launch| launch.set_f32s("output0", &launch.f32s("input0")));
    let artifact = model(&contract(&[(USER, &[])], &[&[]], &[], false)).unwrap();
    let model = runtime.load(&artifact, core()).unwrap();
    let mut session = model.session().unwrap();
    let scalar = session
        .slot(0)
        .unwrap()
        .validate(HostTensor::scalar(2.5_f32))
        .unwrap();
    let ready = session.bind([scalar]).unwrap();
    let outputs = ready.execute(()).unwrap().tolerate_nan().into_outputs();
    assert_eq!(outputs.get(0).unwrap().to_vec::<f32>().unwrap(), [2.5]);
    assert!(matches!(
        outputs.get(0).unwrap().to_vec::<i32>(),
        Err(crate::ReadError::ElementType { .. })
    ));
    assert!(matches!(
        outputs.get(0).unwrap().read_into(&mut [0; 3]),
        Err(crate::ReadError::Length {
            expected: 4,
            found: 3,
            ..
        })
    ));
}

#[test]
fn a_model_in_use_is_not_unloaded() {
    let (fake, runtime) = runtime(count);
    let model = runtime.load(&counter(false), core()).unwrap();
    let session = model.session().unwrap();
    let rejected = model.unload().unwrap_err();
    assert_eq!(*rejected.reason(), crate::UnloadError::InUse);
    let model = rejected.into_input().unwrap();
    drop(session);
    let _ = fake.take_calls();
    model.unload().unwrap();
    assert_eq!(fake.take_calls(), ["unload"]);
    assert!(fake.live().is_empty());
}

#[test]
fn a_buffer_checks_its_range_before_the_backend_does() {
    let fake = Fake::new();
    let runtime = Runtime::new(fake.clone());
    let mut buffer = runtime
        .allocate(crate::Placement::Device, core(), 8, c"x")
        .unwrap();
    let _ = fake.take_calls();
    assert_eq!(
        buffer.write(usize::MAX, &[1, 2]).unwrap_err(),
        crate::DeviceError::Range {
            offset: usize::MAX,
            size: 2,
            available: 8,
        }
    );
    assert!(buffer.read(7, &mut [0; 2]).is_err());
    assert!(buffer.slice(4, 5, c"y").is_err());
    assert_eq!(fake.take_calls(), [""; 0]);

    let view = buffer.slice(4, 4, c"y").unwrap();
    buffer.write(4, &[9]).unwrap();
    let mut byte = [0];
    drop(buffer);
    view.read(0, &mut byte).unwrap();
    assert_eq!(byte, [9]);
    drop(view);
    assert!(fake.live().is_empty());
}

/// A model that hands `input0` back as `output0`.
fn echo(data_type: i32, graph: Option<PrimitiveType>) -> Artifact {
    let mut message = contract(&[(USER, &[1])], &[&[1]], &[], false);
    message.input_tensors[0].data_type = data_type;
    message.output_tensors[0].data_type = data_type;
    if let Some(element_type) = graph {
        let shape = ShapeProto {
            element_type: element_type.into(),
            dimensions: vec![1],
            ..ShapeProto::default()
        };
        let module = HloModuleProto {
            host_program_shape: Some(ProgramShapeProto {
                parameters: vec![shape.clone()],
                result: Some(shape),
                ..ProgramShapeProto::default()
            }),
            computations: vec![HloComputationProto::default()],
            ..HloModuleProto::default()
        };
        message.serialized_graph_def = module.encode_to_vec().into();
    }
    model(&message).unwrap()
}

#[test]
fn an_unsigned_parameter_comes_back_unsigned() {
    let (_, runtime) = runtime(|launch| {
        let bytes = launch.inputs["input0"].clone();
        launch.outputs.insert("output0".to_owned(), bytes);
    });
    let artifact = echo(DataType::Int32.into(), Some(PrimitiveType::U32));
    let model = runtime.load(&artifact, core()).unwrap();
    let mut session = model.session().unwrap();
    let x = HostTensor::from_slice([1], &[4_294_967_295_u32]).unwrap();
    let x = session.slot(0).unwrap().validate(x).unwrap();
    let ready = session.bind([x]).unwrap();
    let outputs = ready.execute(()).unwrap().tolerate_nan().into_outputs();
    let output = outputs.get(0).unwrap();
    assert_eq!(output.to_vec::<u32>().unwrap(), [4_294_967_295]);
    // The stored type is there too, by its own name.
    assert_eq!(output.to_vec::<i32>().unwrap(), [-1]);
    assert_eq!(output.to_host().unwrap().dtype(), crate::DType::U32);
}

#[test]
fn an_integer_is_an_eight_bit_float_only_if_it_is_asked_for() {
    let (_, runtime) = runtime(|launch| {
        let bytes = launch.inputs["input0"].clone();
        launch.outputs.insert("output0".to_owned(), bytes);
    });
    let artifacts = [
        echo(DataType::F8e4m3fn.into(), None),
        echo(DataType::Int8.into(), Some(PrimitiveType::F8e4m3fn)),
    ];
    for artifact in artifacts {
        let model = runtime.load(&artifact, core()).unwrap();
        let mut session = model.session().unwrap();
        let raw = HostTensor::from_slice([1], &[0x7f_i8]).unwrap();
        let rejected = session.slot(0).unwrap().validate(raw).unwrap_err();
        assert!(matches!(
            rejected.reason(),
            crate::ValidateError::DType {
                expected: crate::DType::F8E4M3FN,
                found: crate::DType::I8,
                ..
            }
        ));
        let float = rejected
            .into_input()
            .reinterpret(crate::DType::F8E4M3FN)
            .unwrap();
        let x = session.slot(0).unwrap().validate(float).unwrap();
        let ready = session.bind([x]).unwrap();
        let outputs = ready.execute(()).unwrap().tolerate_nan().into_outputs();
        let output = outputs.get(0).unwrap();
        assert!(output.to_vec::<i8>().is_err());
        assert!(output.to_vec::<float8::F8E4M3>().unwrap()[0].is_nan());
        assert_eq!(output.to_host().unwrap().as_raw_i8(), [0x7f]);
    }
}
