//! What a slot takes: the checks of the page's section 5, and how slots are
//! found.

use half::bf16;
use metaneff_binding::{
    Backend, BindError, ContractOptions, Core, DType, ExecuteError, HostTensor, LookupError, Order,
    OutputError, Runtime, StatesError, ValidateError, WeightsError,
};
use metaneff_schema::xla::FrontendAttributes;
use metaneff_schema::xla::PrimitiveType::{self, Bf16, F8e4m3fn, F8e5m2, F32, Pred, S64, U32};
use prost::Message as _;

use crate::bench::Bench;
use crate::case::{Case, Failure, Setup, equal, holds, refused};
use crate::graph::Graph;
use crate::models::{
    Must as _, accumulate, artifact, artifact_with, floats, identity, load, read_floats, subtract,
    weighted,
};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    let mut cases = checked();
    cases.extend(found());
    cases.extend(bound());
    cases
}

fn checked<B: Backend>() -> Vec<Case<B>> {
    const PAGE: &str = "page 5";
    vec![
        Case::new(
            "slot/order/count_first",
            "a wrong number of tensors is told before a wrong type",
            "page 5, count",
            count_first,
        ),
        Case::new(
            "slot/order/dtype_before_shape",
            "a wrong type is told before a wrong shape",
            "page 5, per tensor",
            dtype_first,
        ),
        Case::new(
            "slot/order/states_skipped",
            "states and weights are no part of the caller's tensors",
            "page 5, is_input fast path",
            states_skipped,
        ),
        Case::new(
            "slot/dtype/float8_is_not_int8",
            "int8 is refused for float8 unless it is reinterpreted",
            "user need 36",
            float8,
        ),
        Case::new(
            "slot/dtype/float8_flavours",
            "one float8 is not the other",
            "user need 37",
            flavours,
        ),
        Case::new(
            "slot/dtype/u32_in_int32",
            "u32 is stored as INT32, and comes back as u32",
            "user need 38",
            unsigned,
        ),
        Case::new(
            "slot/dtype/stored_type_accepted",
            "a whole number may be given in the stored type as well",
            "user need 38",
            stored_type,
        ),
        Case::new(
            "slot/dtype/bf16_is_not_f16",
            "bf16 and f16 are not exchanged for having one size",
            PAGE,
            not_f16,
        ),
        Case::new(
            "slot/dtype/bool_is_not_f32",
            "a bool slot takes bool and bytes, and no f32",
            PAGE,
            boolean,
        ),
        Case::new(
            "slot/dtype/unknown_number",
            "a data type that nobody knows is parsed, and refused when it is bound",
            "user need 110",
            unknown_number,
        ),
        Case::new(
            "slot/shape/scalar",
            "a vector of one element is no scalar",
            "user need 44",
            scalar_shape,
        ),
        Case::new(
            "slot/batch/scalar_strict",
            "a scalar with a dynamic batch is refused by a strict contract",
            "page 5, dynamic-batch sanity",
            scalar_batch_strict,
        ),
        Case::new(
            "slot/batch/scalar_lenient",
            "a scalar with a dynamic batch is never part of one in a lenient contract",
            "user need 44",
            scalar_batch_lenient,
        ),
        Case::new(
            "slot/output/not_filled",
            "an output is filled by the model and by nobody else",
            PAGE,
            output_refused,
        ),
        Case::new(
            "slot/ordinal/range",
            "an ordinal beyond the slots is refused with their number",
            "page 5, ordinal",
            ordinal_range,
        ),
        Case::new(
            "slot/int64/split",
            "int64 that the NEFF shows as twice as many int32 is int64",
            "user needs 34, 35",
            int64_split,
        ),
        Case::new(
            "slot/empty/input",
            "an input without elements is neither allocated nor bound",
            "user need 43",
            empty_input,
        ),
        Case::new(
            "slot/empty/output",
            "an output without elements is an empty tensor",
            "user need 43",
            empty_output,
        ),
    ]
}

fn found<B: Backend>() -> Vec<Case<B>> {
    const KEYS: &str = "user need 32; page 2.1, keys";
    vec![
        Case::new(
            "slot/find/ordinal_name_key",
            "a slot is found by ordinal, by name and by key",
            KEYS,
            three_ways,
        ),
        Case::new(
            "slot/find/same_key_twice",
            "a key that two inputs share finds neither",
            KEYS,
            shared_key,
        ),
        Case::new(
            "slot/find/key_of_other_name",
            "a key that is another slot's name finds neither",
            KEYS,
            crossed,
        ),
        Case::new(
            "slot/find/checkpoint_key",
            "states and weights are found by their checkpoint keys",
            "page 2.1, checkpoint_key",
            checkpoint_keys,
        ),
        Case::new(
            "slot/name/free",
            "names of a free form are bound as they are, by a lenient contract",
            "metaneff.md, names",
            free_names,
        ),
        Case::new(
            "slot/var_id/joined",
            "with a NEFF at hand every slot has its variable's id",
            "page 8; page 1",
            joined,
        ),
        Case::new(
            "slot/position/unambiguous",
            "positions alone are enough where no two inputs could be exchanged",
            "user need 32",
            unambiguous,
        ),
    ]
}

fn bound<B: Backend>() -> Vec<Case<B>> {
    const TYPES: &str = "DESIGN, typestate";
    vec![
        Case::new(
            "slot/bind/state_as_input",
            "a state is no input of a launch",
            TYPES,
            state_as_input,
        ),
        Case::new(
            "slot/bind/weight_as_input",
            "a weight is no input of a launch",
            TYPES,
            weight_as_input,
        ),
        Case::new(
            "slot/bind/input_as_state",
            "an input is no state",
            TYPES,
            input_as_state,
        ),
        Case::new(
            "slot/bind/input_as_weight",
            "an input is no weight",
            TYPES,
            input_as_weight,
        ),
        Case::new(
            "slot/bind/foreign_states",
            "states of another model are refused and given back",
            TYPES,
            foreign_states,
        ),
        Case::new(
            "slot/bind/states_shown",
            "states that outputs still show are not given away",
            "page 4.6",
            states_shown,
        ),
        Case::new(
            "slot/device/uploaded",
            "a tensor that was uploaded once is bound many times",
            "page 4.5, device tensors",
            uploaded,
        ),
        Case::new(
            "slot/device/lent",
            "a tensor on loan stays the caller's",
            "page 4.5, device tensors",
            lent,
        ),
        Case::new(
            "slot/device/lent_to_donation",
            "a tensor on loan is not given to an output",
            "user need 54",
            lent_to_donation,
        ),
        Case::new(
            "slot/device/adopted",
            "an output becomes the next model's input without the host",
            "page 4.6; user need 126",
            adopted,
        ),
        Case::new(
            "slot/device/unlike",
            "an output of another shape is not adopted, and is given back",
            "page 5",
            unlike,
        ),
        Case::new(
            "slot/device/other_core",
            "a tensor of another core is refused with both cores",
            "user need 14",
            other_core,
        )
        .with(Setup::TWO_CORES),
        Case::new(
            "slot/output/taken",
            "an output that was taken is not there a second time",
            "page 4.6",
            taken,
        ),
        Case::new(
            "slot/output/element_type",
            "reading an output as another type is refused",
            "user need 49",
            read_as_other,
        ),
        Case::new(
            "slot/output/read_into",
            "an output is read into the caller's memory, whose size must fit",
            "nrt.h, nrt_tensor_read",
            read_into,
        ),
        Case::new(
            "slot/weights/foreign",
            "weights of another model are refused and given back",
            TYPES,
            foreign_weights,
        ),
        Case::new(
            "slot/states/written",
            "a state is written between launches",
            "page 4.6",
            state_written,
        ),
    ]
}

fn count_first<B: Backend>(backend: B) -> Result<(), Failure> {
    let bench = Bench::new(backend, &subtract()?)?;
    let whole = HostTensor::from_vec([2], vec![1_i32; 2]).must()?;
    let contract = bench.model.contract();
    let rejected = refused(
        "one of two",
        contract.validate_in_order(vec![whole], Order::Confirmed),
    )?;
    holds(
        "the count is told",
        matches!(
            rejected.reason(),
            ValidateError::Count {
                expected: 2,
                found: 1
            }
        ),
    )?;
    equal("tensors given back", rejected.into_input().len(), 1)
}

fn dtype_first<B: Backend>(backend: B) -> Result<(), Failure> {
    let bench = Bench::new(backend, &subtract()?)?;
    let both = HostTensor::from_vec([3], vec![1_i32; 3]).must()?;
    let rejected = refused(
        "int32[3] for f32[2]",
        bench.model.slot(0).must()?.validate(both),
    )?;
    holds(
        "the type is told",
        matches!(rejected.reason(), ValidateError::DType { .. }),
    )
}

fn states_skipped<B: Backend>(backend: B) -> Result<(), Failure> {
    let bench = Bench::new(backend, &accumulate(true)?)?;
    let contract = bench.model.contract();
    equal("user inputs", contract.user_inputs().len(), 1)?;
    let x = vec![floats(&[1.0, 2.0])?];
    contract
        .validate_in_order(x, Order::Unambiguous)
        .must()
        .map(drop)
}

/// Runs `x` itself over `[4]` with these bytes, given as `given`.
fn same_bytes<B: Backend>(
    backend: B,
    element: PrimitiveType,
    given: DType,
    bytes: [u8; 4],
) -> Result<(), Failure> {
    let bench = Bench::new(backend, &identity(element, &[4])?)?;
    let mut session = bench.session;
    let x = HostTensor::from_bytes(given, [4], bytes.to_vec()).must()?;
    let slot = session.slot(0).must()?;
    let own = slot
        .dtype()
        .ok_or_else(|| Failure::new("the slot has no type"))?;
    let x = match given == own {
        true => x,
        false => {
            let rejected = refused("another type", slot.validate(x))?;
            rejected.into_input().reinterpret(own).must()?
        }
    };
    let x = slot.validate(x).must()?;
    let executed = session.bind([x]).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    let host = outputs.get(0).must()?.to_host().must()?;
    equal("the type", host.dtype(), own)?;
    equal("the bytes", host.bytes(), &bytes[..])
}

fn float8<B: Backend>(backend: B) -> Result<(), Failure> {
    same_bytes(backend, F8e4m3fn, DType::I8, [0x38, 0x7e, 0xb8, 0x00])
}

fn flavours<B: Backend>(backend: B) -> Result<(), Failure> {
    same_bytes(backend, F8e5m2, DType::F8E4M3FN, [0x3c, 0x7b, 0xbc, 0x00])
}

fn unsigned<B: Backend>(backend: B) -> Result<(), Failure> {
    let bench = Bench::new(backend, &identity(U32, &[2])?)?;
    let mut session = bench.session;
    let slot = session.slot(0).must()?;
    equal("what is meant", slot.dtype(), Some(DType::U32))?;
    equal("what is stored", slot.stored_dtype(), Some(DType::I32))?;
    let x = slot
        .validate(HostTensor::from_vec([2], vec![u32::MAX, 7]).must()?)
        .must()?;
    let executed = session.bind([x]).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    let values = outputs.get(0).must()?.to_vec::<u32>().must()?;
    equal("the values", values, vec![u32::MAX, 7])
}

fn stored_type<B: Backend>(backend: B) -> Result<(), Failure> {
    let bench = Bench::new(backend, &identity(U32, &[2])?)?;
    let mut session = bench.session;
    let x = HostTensor::from_vec([2], vec![-1_i32, 7]).must()?;
    let x = session.slot(0).must()?.validate(x).must()?;
    let executed = session.bind([x]).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    let output = outputs.get(0).must()?;
    equal("as i32", output.to_vec::<i32>().must()?, vec![-1, 7])?;
    equal("as u32", output.to_vec::<u32>().must()?, vec![u32::MAX, 7])
}

fn not_f16<B: Backend>(backend: B) -> Result<(), Failure> {
    let bench = Bench::new(backend, &identity(Bf16, &[1])?)?;
    let slot = bench.model.slot(0).must()?;
    let half = HostTensor::from_vec([1], vec![half::f16::from_f32(1.0)]).must()?;
    refused("f16 for bf16", slot.validate(half)).map(drop)?;
    let brain = HostTensor::from_vec([1], vec![bf16::from_f32(1.0)]).must()?;
    slot.validate(brain).must().map(drop)
}

fn boolean<B: Backend>(backend: B) -> Result<(), Failure> {
    let bench = Bench::new(backend, &identity(Pred, &[1])?)?;
    let slot = bench.model.slot(0).must()?;
    let flag = HostTensor::from_vec([1], vec![true]).must()?;
    slot.validate(flag).must().map(drop)?;
    let real = HostTensor::from_vec([1], vec![1.0_f32]).must()?;
    refused("f32 for bool", slot.validate(real)).map(drop)
}

fn unknown_number<B: Backend>(backend: B) -> Result<(), Failure> {
    use crate::wire::{Wire, neff, pair, tensor};
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let copy = graph.elementwise("copy", &[x]);
    let input = Wire::new()
        .bytes(tensor::NAME, "input0")
        .packed(tensor::SHAPE, &[2])
        .number(tensor::DATA_TYPE, 99);
    let message = Wire::new()
        .message(neff::INPUT, input)
        .message(neff::OUTPUT, pair("output0"));
    let neff = crate::models::pack(graph.finish(&[copy]))?;
    let artifact = crate::models::join(neff, message.finish(), &ContractOptions::new())?;
    let bench = Bench::new(backend, &artifact)?;
    let slot = bench.model.slot(0).must()?;
    equal("the number", slot.data_type(), 99)?;
    let rejected = refused("a tensor for it", slot.validate(floats(&[1.0, 2.0])?))?;
    holds(
        "the number is told",
        matches!(
            rejected.reason(),
            ValidateError::UnknownDataType { number: 99, .. }
        ),
    )
}

fn scalar_shape<B: Backend>(backend: B) -> Result<(), Failure> {
    let bench = Bench::new(backend, &identity(F32, &[])?)?;
    let slot = bench.model.slot(0).must()?;
    refused("[1] for a scalar", slot.validate(floats(&[1.0])?)).map(drop)?;
    slot.validate(HostTensor::scalar(1.0_f32)).must().map(drop)
}

/// `x` itself, a scalar whose input is marked as batched.
fn batched_scalar(options: &ContractOptions) -> Result<metaneff_binding::Artifact, Failure> {
    use crate::wire::{Wire, neff, tensor};
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[]);
    let copy = graph.elementwise("copy", &[x]);
    let named = |name: &str| {
        Wire::new()
            .bytes(tensor::NAME, name)
            .number(tensor::DATA_TYPE, 1)
    };
    let message = Wire::new()
        .message(
            neff::INPUT,
            named("input0").number(tensor::DYNAMIC_BATCH, 1),
        )
        .message(neff::OUTPUT, named("output0"));
    let neff = crate::models::pack(graph.finish(&[copy]))?;
    crate::models::join(neff, message.finish(), options)
}

fn scalar_batch_strict<B: Backend>(backend: B) -> Result<(), Failure> {
    let bench = Bench::new(backend, &batched_scalar(&ContractOptions::new())?)?;
    let slot = bench.model.slot(0).must()?;
    let rejected = refused("the scalar", slot.validate(HostTensor::scalar(1.0_f32)))?;
    holds(
        "the reason",
        matches!(rejected.reason(), ValidateError::DynamicScalar { .. }),
    )
}

fn scalar_batch_lenient<B: Backend>(backend: B) -> Result<(), Failure> {
    let artifact = batched_scalar(&ContractOptions::new().lenient())?;
    let mut bench = Bench::new(backend, &artifact)?;
    holds(
        "it is no batch",
        !bench.model.slot(0).must()?.has_dynamic_batch(),
    )?;
    let x = bench.validate("input0", HostTensor::scalar(2.5_f32))?;
    let executed = bench.session.bind([x]).must()?.execute(()).must()?;
    equal(
        "x",
        read_floats(&executed.tolerate_nan().into_outputs(), 0)?,
        vec![2.5],
    )
}

fn output_refused<B: Backend>(backend: B) -> Result<(), Failure> {
    let bench = Bench::new(backend, &subtract()?)?;
    let output = bench.model.contract().output(0).must()?;
    let rejected = refused(
        "a tensor for an output",
        output.validate(floats(&[1.0, 2.0])?),
    )?;
    holds(
        "the reason",
        matches!(rejected.reason(), ValidateError::Output { .. }),
    )
}

fn ordinal_range<B: Backend>(backend: B) -> Result<(), Failure> {
    let bench = Bench::new(backend, &subtract()?)?;
    let error = refused("ordinal 2 of 2", bench.model.slot(2))?;
    holds(
        "the number of slots is told",
        matches!(
            error,
            LookupError::OutOfRange {
                ordinal: 2,
                count: 2,
                ..
            }
        ),
    )
}

fn int64_split<B: Backend>(backend: B) -> Result<(), Failure> {
    use crate::package::{Parts, TABLE};
    use serde_json::json;
    let whole = identity(S64, &[2, 2])?;
    let file = Parts::of(whole.neff().clone())?.edit(TABLE, |table| {
        for name in ["input0", "output0"] {
            let variable = &mut table["var"][name];
            variable["shape"] = json!([2, 4]);
            variable["element_size"] = json!(4);
            variable["dtype"] = json!("int32");
        }
    })?;
    let contract = whole.contract().clone();
    let neff = file.build()?;
    let parsed = metaneff_schema::neff::Neff::parse(
        neff.clone(),
        &metaneff_schema::neff::ParseOptions::default(),
    )?;
    let artifact = metaneff_binding::Artifact::from_contract(neff, contract.join(&parsed)?);
    let mut bench = Bench::new(backend, &artifact)?;
    let values = vec![i64::MIN, -1, 5_000_000_000, i64::MAX];
    let x = HostTensor::from_vec([2, 2], values.clone()).must()?;
    let x = bench.validate("input0", x)?;
    let executed = bench.session.bind([x]).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    let output = outputs.get(0).must()?;
    equal("the shape", output.shape().dims(), &[2, 2])?;
    equal("the values", output.to_vec::<i64>().must()?, values)
}

fn empty_input<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    graph.parameter(F32, &[0, 4]);
    let x = graph.parameter(F32, &[2]);
    let copy = graph.elementwise("copy", &[x]);
    let artifact = artifact(graph.finish(&[copy]), |m| m)?;
    let mut bench = Bench::new(backend, &artifact)?;
    let none = HostTensor::from_vec([0, 4], Vec::<f32>::new()).must()?;
    let none = bench.validate("input0", none)?;
    let x = bench.floats("input1", &[1.0, 2.0])?;
    let executed = bench.session.bind([none, x]).must()?.execute(()).must()?;
    equal(
        "x",
        read_floats(&executed.tolerate_nan().into_outputs(), 0)?,
        vec![1.0, 2.0],
    )
}

fn empty_output<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let none = graph.parameter(F32, &[0, 4]);
    let x = graph.parameter(F32, &[2]);
    let negated = graph.elementwise("negate", &[none]);
    let copy = graph.elementwise("copy", &[x]);
    let artifact = artifact(graph.finish(&[negated, copy]), |m| m)?;
    let mut bench = Bench::new(backend, &artifact)?;
    let none = HostTensor::from_vec([0, 4], Vec::<f32>::new()).must()?;
    let none = bench.validate("input0", none)?;
    let x = bench.floats("input1", &[1.0, 2.0])?;
    let executed = bench.session.bind([none, x]).must()?.execute(()).must()?;
    let mut outputs = executed.tolerate_nan().into_outputs();
    equal("no elements", read_floats(&outputs, 0)?, vec![])?;
    let error = refused("taking what has no buffer", outputs.take(0))?;
    holds("the reason", matches!(error, OutputError::Empty { .. }))?;
    equal("x", read_floats(&outputs, 1)?, vec![1.0, 2.0])
}

fn three_ways<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &subtract()?)?;
    for key in ["input1", "b"] {
        equal(
            "the ordinal",
            bench.model.slot(key).must()?.ordinal().index(),
            1,
        )?;
    }
    equal("the name", bench.model.slot(1).must()?.name(), "input1")?;
    let difference = bench.run(&[("b", &[2.0, 4.0]), ("input0", &[5.0, 1.0])])?;
    equal("a - b", difference, vec![3.0, -3.0])
}

fn shared_key<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let a = graph.parameter(F32, &[2]);
    let b = graph.parameter(F32, &[2]);
    let difference = graph.elementwise("subtract", &[a, b]);
    let artifact = artifact(graph.finish(&[difference]), |m| {
        m.user_input(0, "x").user_input(1, "x")
    })?;
    let mut bench = Bench::new(backend, &artifact)?;
    let error = refused("a shared key", bench.model.slot("x"))?;
    holds(
        "both are told",
        matches!(error, LookupError::Ambiguous { .. }),
    )?;
    let difference = bench.run(&[("input0", &[5.0, 1.0]), ("input1", &[2.0, 4.0])])?;
    equal("by name", difference, vec![3.0, -3.0])
}

fn crossed<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let a = graph.parameter(F32, &[2]);
    let b = graph.parameter(F32, &[2]);
    let difference = graph.elementwise("subtract", &[a, b]);
    let artifact = artifact(graph.finish(&[difference]), |m| {
        m.user_input(0, "input1").user_input(1, "b")
    })?;
    let bench = Bench::new(backend, &artifact)?;
    let error = refused("a key that is a name", bench.model.slot("input1"))?;
    holds(
        "both are told",
        matches!(error, LookupError::Ambiguous { .. }),
    )
}

fn checkpoint_keys<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let stateful = load(&runtime, &accumulate(true)?)?;
    equal(
        "the state",
        stateful.slot("sum").must()?.ordinal().index(),
        1,
    )?;
    let weighted = load(&runtime, &weighted()?)?;
    equal(
        "the weight",
        weighted.slot("layer.weight").must()?.ordinal().index(),
        1,
    )
}

fn free_names<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let doubled = graph.elementwise("add", &[x, x]);
    let mut module = metaneff_schema::decode_hlo(graph.finish(&[doubled]))?;
    let instructions = &mut module.computations[0].instructions;
    let name = |key: &str, name: &str| {
        Some(FrontendAttributes {
            map: [(key.to_owned(), name.to_owned())].into(),
        })
    };
    instructions[0].frontend_attributes = name("neff_input_names", "left");
    instructions[2].frontend_attributes = name("neff_output_names", "doubled");
    let graph: bytes::Bytes = module.encode_to_vec().into();
    refused("a strict contract", artifact(graph.clone(), |m| m)).map(drop)?;
    let lenient = artifact_with(graph, &ContractOptions::new().lenient(), |m| m)?;
    equal("warnings", lenient.warnings().len(), 2)?;
    let mut bench = Bench::new(backend, &lenient)?;
    equal(
        "x + x",
        bench.run(&[("left", &[1.0, 2.0])])?,
        vec![2.0, 4.0],
    )
}

fn joined<B: Backend>(backend: B) -> Result<(), Failure> {
    use metaneff_binding::VarId;
    let artifact = subtract()?;
    holds("the contract is joined", artifact.contract().is_joined())?;
    let bench = Bench::new(backend, &artifact)?;
    let contract = bench.model.contract();
    let slots = contract.inputs().iter().chain(contract.outputs());
    let ids: Vec<_> = slots.map(|slot| slot.var_id()).collect();
    let expected = [0, 1, 2].map(VarId::Joined);
    equal("the ids", ids.as_slice(), &expected[..])
}

fn unambiguous<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    graph.parameter(F32, &[3]);
    let copy = graph.elementwise("copy", &[x]);
    let artifact = artifact(graph.finish(&[copy]), |m| m)?;
    let mut bench = Bench::new(backend, &artifact)?;
    let tensors = vec![floats(&[1.0, 2.0])?, floats(&[0.0, 0.0, 0.0])?];
    let contract = bench.model.contract().clone();
    let inputs = contract
        .validate_in_order(tensors, Order::Unambiguous)
        .must()?;
    let executed = bench.session.bind(inputs).must()?.execute(()).must()?;
    equal(
        "x",
        read_floats(&executed.tolerate_nan().into_outputs(), 0)?,
        vec![1.0, 2.0],
    )
}

fn state_as_input<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &accumulate(true)?)?;
    let x = bench.floats("x", &[1.0, 2.0])?;
    let sum = bench.floats("sum", &[1.0, 2.0])?;
    let rejected = refused("a state as input", bench.session.bind([x, sum]))?;
    holds(
        "the reason",
        matches!(rejected.reason(), BindError::NotAUserInput { .. }),
    )
}

fn weight_as_input<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &weighted()?)?;
    let x = bench.floats("x", &[1.0, 2.0])?;
    let w = bench.floats("layer.weight", &[1.0, 2.0])?;
    let rejected = refused("a weight as input", bench.session.bind([x, w]))?;
    holds(
        "the reason",
        matches!(rejected.reason(), BindError::NotAUserInput { .. }),
    )
}

fn input_as_state<B: Backend>(backend: B) -> Result<(), Failure> {
    let bench = Bench::new(backend, &accumulate(true)?)?;
    let x = bench.floats("x", &[1.0, 2.0])?;
    let rejected = refused("an input as state", bench.session.states(vec![x]))?;
    holds(
        "the reason",
        matches!(rejected.reason(), StatesError::NotAState { .. }),
    )
}

fn input_as_weight<B: Backend>(backend: B) -> Result<(), Failure> {
    let bench = Bench::new(backend, &weighted()?)?;
    let x = bench.floats("x", &[1.0, 2.0])?;
    let rejected = refused("an input as weight", bench.model.load_weights(vec![x]))?;
    holds(
        "the reason",
        matches!(rejected.reason(), WeightsError::NotAWeight { .. }),
    )
}

fn foreign_states<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let artifact = accumulate(true)?;
    let one = load(&runtime, &artifact)?;
    let other = load(&runtime, &accumulate(true)?)?;
    let states = other.session().must()?.zero_states().must()?;
    let mut session = one.session().must()?;
    let x = session
        .slot("x")
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let failed = refused(
        "another model's states",
        session.bind([x]).must()?.execute(states),
    )?;
    holds(
        "the reason",
        matches!(failed.reason(), ExecuteError::ForeignStates { .. }),
    )?;
    let (_, states) = failed.into_inputs();
    equal("states given back", states.len(), 1)
}

fn states_shown<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &accumulate(true)?)?;
    let mut one = model.session().must()?;
    let mut two = model.session().must()?;
    let states = one.zero_states().must()?;
    let x = one
        .slot("x")
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let executed = one.bind([x]).must()?.execute(states).must()?;
    let (outputs, states) = executed.tolerate_nan().into_parts();
    let x = two
        .slot("x")
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let failed = refused(
        "states that are shown",
        two.bind([x]).must()?.execute(states),
    )?;
    equal(
        "the reason",
        failed.reason().clone(),
        ExecuteError::StatesShown,
    )?;
    let ([x], states) = failed.into_inputs();
    equal("the shown state", read_floats(&outputs, 1)?, vec![1.0, 2.0])?;
    drop(outputs);
    let executed = two.bind([x]).must()?.execute(states).must()?;
    equal(
        "the next",
        read_floats(&executed.tolerate_nan().into_outputs(), 1)?,
        vec![2.0, 4.0],
    )
}

fn uploaded<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &subtract()?)?;
    let a = bench
        .session
        .upload(bench.floats("a", &[5.0, 1.0])?)
        .must()?;
    let b = bench
        .session
        .upload(bench.floats("b", &[2.0, 4.0])?)
        .must()?;
    let moved = bench.moved(|bench| {
        for _ in 0..3 {
            let executed = bench.session.bind((&a, &b)).must()?.execute(()).must()?;
            drop(executed.tolerate_nan());
        }
        Ok(())
    })?;
    if let Some(moved) = moved {
        equal("bytes to the device", moved.host_to_device, 0)?;
        equal("executions", moved.executions, 3)?;
    }
    equal("a", a.to_vec::<f32>().must()?, vec![5.0, 1.0])
}

fn lent<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &subtract()?)?;
    let a = bench
        .session
        .upload(bench.floats("a", &[5.0, 1.0])?)
        .must()?;
    for b in [[2.0, 4.0], [1.0, 1.0]] {
        let lent = &a;
        let b_tensor = bench.session.upload(bench.floats("b", &b)?).must()?;
        let executed = bench
            .session
            .bind((lent, b_tensor))
            .must()?
            .execute(())
            .must()?;
        let outputs = executed.tolerate_nan().into_outputs();
        equal(
            "a - b",
            read_floats(&outputs, 0)?,
            vec![5.0 - b[0], 1.0 - b[1]],
        )?;
    }
    equal("a", a.to_vec::<f32>().must()?, vec![5.0, 1.0])
}

/// `buffer + buffer`, whose output takes the buffer.
fn donating() -> Result<metaneff_binding::Artifact, Failure> {
    let mut graph = Graph::new();
    let buffer = graph.parameter(F32, &[2]);
    let sum = graph.elementwise("add", &[buffer, buffer]);
    graph.alias(0, 0);
    artifact(graph.finish(&[sum]), |m| m.return_aliases(true))
}

fn lent_to_donation<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &donating()?)?;
    let buffer = bench
        .session
        .upload(bench.floats("input0", &[1.0, 3.0])?)
        .must()?;
    let rejected = refused("a donation on loan", bench.session.bind([&buffer]))?;
    holds(
        "the reason",
        matches!(rejected.reason(), BindError::LentToOutput { .. }),
    )?;
    equal("the buffer", buffer.to_vec::<f32>().must()?, vec![1.0, 3.0])
}

fn adopted<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut first = Bench::new(backend, &subtract()?)?;
    let second = first.runtime.load(&weighted()?, Core::new(0)).must()?;
    let weight = second
        .slot(1)
        .must()?
        .validate(floats(&[10.0, 100.0])?)
        .must()?;
    second.load_weights(vec![weight]).must()?;
    let mut next = second.session().must()?;
    let inputs = first.inputs(&[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
    let executed = first.session.bind(inputs).must()?.execute(()).must()?;
    let difference = executed.tolerate_nan().into_outputs().take(0).must()?;
    let x = next.adopt("x", difference).must()?;
    let executed = next.bind([x]).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    equal("(a - b) * w", read_floats(&outputs, 0)?, vec![30.0, -300.0])
}

fn unlike<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut first = Bench::new(backend, &subtract()?)?;
    let second = first
        .runtime
        .load(&identity(F32, &[2, 1])?, Core::new(0))
        .must()?;
    let next = second.session().must()?;
    let inputs = first.inputs(&[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
    let executed = first.session.bind(inputs).must()?.execute(()).must()?;
    let difference = executed.tolerate_nan().into_outputs().take(0).must()?;
    let rejected = refused("[2] for [2, 1]", next.adopt(0, difference))?;
    holds(
        "the reason",
        matches!(rejected.reason(), BindError::Unlike { .. }),
    )?;
    let difference = rejected.into_input();
    equal("a - b", difference.to_vec::<f32>().must()?, vec![3.0, -3.0])
}

fn other_core<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut first = Bench::new(backend, &subtract()?)?;
    let second = first
        .runtime
        .load(&identity(F32, &[2])?, Core::new(1))
        .must()?;
    let next = second.session().must()?;
    let inputs = first.inputs(&[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
    let executed = first.session.bind(inputs).must()?.execute(()).must()?;
    let difference = executed.tolerate_nan().into_outputs().take(0).must()?;
    let rejected = refused("core 0 for core 1", next.adopt(0, difference))?;
    match rejected.reason() {
        BindError::CoreMismatch {
            expected, found, ..
        } => equal("the cores", (expected.index(), found.index()), (1, 0)),
        other => Err(Failure::new(format!("expected both cores, found {other}"))),
    }
}

fn taken<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &subtract()?)?;
    let inputs = bench.inputs(&[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
    let executed = bench.session.bind(inputs).must()?.execute(()).must()?;
    let mut outputs = executed.tolerate_nan().into_outputs();
    let first = outputs.take(0).must()?;
    let error = refused("taking it again", outputs.take(0))?;
    holds("the reason", matches!(error, OutputError::Taken { .. }))?;
    refused("reading it there", outputs.get(0)).map(drop)?;
    drop(outputs);
    // The next launch has a buffer of its own.
    let difference = bench.run(&[("a", &[1.0, 1.0]), ("b", &[0.0, 1.0])])?;
    equal("the next", difference, vec![1.0, 0.0])?;
    equal("the first", first.to_vec::<f32>().must()?, vec![3.0, -3.0])
}

fn read_as_other<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &subtract()?)?;
    let inputs = bench.inputs(&[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
    let executed = bench.session.bind(inputs).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    let output = outputs.get(0).must()?;
    refused("f32 as i32", output.to_vec::<i32>()).map(drop)?;
    equal("a - b", output.to_vec::<f32>().must()?, vec![3.0, -3.0])
}

fn read_into<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &subtract()?)?;
    let inputs = bench.inputs(&[("a", &[5.0, 1.0]), ("b", &[2.0, 4.0])])?;
    let executed = bench.session.bind(inputs).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    let output = outputs.get(0).must()?;
    refused("7 bytes of 8", output.read_into(&mut [0; 7])).map(drop)?;
    let mut bytes = [0; 8];
    output.read_into(&mut bytes).must()?;
    equal("a - b", bytes.to_vec(), crate::raw::bytes_of(&[3.0, -3.0]))
}

fn foreign_weights<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let one = load(&runtime, &weighted()?)?;
    let other = load(&runtime, &weighted()?)?;
    let weight = other
        .slot(1)
        .must()?
        .validate(floats(&[1.0, 2.0])?)
        .must()?;
    let rejected = refused("another model's weight", one.load_weights(vec![weight]))?;
    holds(
        "the reason",
        matches!(rejected.reason(), WeightsError::ForeignTensor { .. }),
    )?;
    other.load_weights(rejected.into_input()).must()
}

fn state_written<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &accumulate(false)?)?;
    let states = bench.session.zero_states().must()?;
    let (_, mut states) = bench.step(&[("x", &[1.0, 2.0])], states)?;
    states.write(bench.floats("sum", &[100.0, 200.0])?).must()?;
    let (_, states) = bench.step(&[("x", &[1.0, 2.0])], states)?;
    let sum = states.get("sum").must()?.to_vec::<f32>().must()?;
    equal("the state", sum, vec![101.0, 202.0])
}
