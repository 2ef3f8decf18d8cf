//! What a slot takes: the checks of the page's section 5, and how slots are
//! found.

mod bound;
mod found;

use half::bf16;
use metaneff_binding::{
    Backend, ContractOptions, DType, HostTensor, LookupError, Order, OutputError, ValidateError,
};
use metaneff_schema::xla::PrimitiveType::{self, Bf16, F8e4m3fn, F8e5m2, F32, Pred, S64, U32};

use crate::bench::Bench;
use crate::case::{Case, Failure, equal, holds, refused};
use crate::graph::Graph;
use crate::models::{Must as _, accumulate, artifact, floats, identity, read_floats, subtract};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    let mut cases = checked();
    cases.extend(found::cases());
    cases.extend(bound::cases());
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
