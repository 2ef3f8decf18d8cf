//! Element types: each of the page's 16 numbers, and what a model computes in
//! those that few models use.

use metaneff_binding::{Backend, ContractOptions, DType, HostTensor, Side};
use metaneff_schema::nrt::NrtDtype;
use metaneff_schema::xla::PrimitiveType::{
    self, Bf16, F8e4m3fn, F8e5m2, F16, F32, F64, Pred, S8, S16, S32, S64, U8, U16, U64,
};

use crate::bench::Bench;
use crate::case::{Case, Failure, equal};
use crate::graph::Graph;
use crate::models::{Must as _, identity, join, pack};
use crate::raw::Raw;
use crate::wire::{Wire, neff, tensor};

/// A case a number of `MetaTensor.DataType`.
macro_rules! numbers {
    ($($id:literal, $number:literal, $element:ident, $dtype:ident, $shows:literal;)+) => {
        vec![$(
            Case::new(
                concat!("dtype/number/", $id),
                $shows,
                "page 2.1, DataType; page 4.2",
                |b| number(b, $number, $element, DType::$dtype),
            ),
        )+]
    };
}

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    const REPORTED: &str = "nrt.h, nrt_get_model_tensor_info";
    let mut cases = numbers! {
        "float", 1, F32, F32, "1 is FLOAT: f32, 4 bytes";
        "int32", 2, S32, I32, "2 is INT32: int32, 4 bytes";
        "byte", 3, U8, U8, "3 is BYTE: a byte";
        "string", 4, U8, U8, "4 is STRING: a byte";
        "bool", 5, Pred, Bool, "5 is BOOL: a byte";
        "uint8", 6, U8, U8, "6 is UINT8: a byte";
        "int8", 7, S8, I8, "7 is INT8: a byte";
        "uint16", 8, U16, U16, "8 is UINT16: 2 bytes";
        "int16", 9, S16, I16, "9 is INT16: 2 bytes";
        "int64", 10, S64, I64, "10 is INT64: 8 bytes";
        "float16", 12, F16, F16, "12 is FLOAT16: 2 bytes";
        "double", 13, F64, F64, "13 is DOUBLE: 8 bytes";
        "bfloat16", 14, Bf16, BF16, "14 is BFLOAT16: 2 bytes";
        "f8e4m3fn", 15, F8e4m3fn, F8E4M3FN, "15 is F8E4M3FN: a byte";
        "f8e5m2", 16, F8e5m2, F8E5M2, "16 is F8E5M2: a byte";
        "pred_as_uint8", 6, Pred, Bool, "a bool may be stored as UINT8, as transformers-neuronx does";
        "f8_as_int8", 7, F8e4m3fn, F8E4M3FN, "a float8 may be stored as INT8, as transformers-neuronx does";
        "u16_as_int16", 9, U16, U16, "u16 may be stored as INT16, as transformers-neuronx does";
        "u64_as_int64", 10, U64, U64, "u64 is stored as INT64";
    };
    cases.extend([
        Case::new(
            "dtype/compute/f64",
            "f64 is computed in 64 bits",
            "page 4.2, DOUBLE",
            double,
        ),
        Case::new(
            "dtype/compute/int64",
            "int64 is computed in 64 bits",
            "user needs 34, 35",
            wide,
        ),
        Case::new(
            "dtype/compute/converted",
            "a model converts between element types",
            "XLA, convert",
            converted,
        ),
        Case::new(
            "dtype/reported/float8",
            "every float8 is reported as int8",
            REPORTED,
            |b| reported(b, F8e5m2, NrtDtype::INT8, &[4], 4),
        ),
        Case::new(
            "dtype/reported/bool",
            "a bool is reported as uint8",
            REPORTED,
            |b| reported(b, Pred, NrtDtype::UINT8, &[4], 4),
        ),
        Case::new(
            "dtype/reported/bf16",
            "bf16 is reported as what it is",
            REPORTED,
            |b| reported(b, Bf16, NrtDtype::BFLOAT16, &[4], 8),
        ),
    ]);
    cases
}

/// `x` itself over four elements, whose type has this number.
fn number<B: Backend>(
    backend: B,
    number: i64,
    element: PrimitiveType,
    dtype: DType,
) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(element, &[4]);
    let copy = graph.elementwise("copy", &[x]);
    let described = |name: &str| {
        Wire::new()
            .bytes(tensor::NAME, name)
            .packed(tensor::SHAPE, &[4])
            .number(tensor::DATA_TYPE, number)
    };
    let message = Wire::new()
        .message(neff::INPUT, described("input0"))
        .message(neff::OUTPUT, described("output0"));
    let neff = pack(graph.finish(&[copy]))?;
    let artifact = join(neff, message.finish(), &ContractOptions::new())?;
    let mut bench = Bench::new(backend, &artifact)?;
    let slot = bench.model.slot(0).must()?;
    equal("what is meant", slot.dtype(), Some(dtype))?;
    equal("bytes", slot.byte_size(), 4 * dtype.size())?;
    // A pattern without NaNs in any type, and with 0 and 1 only for bools.
    let bytes: Vec<u8> = match dtype {
        DType::Bool => vec![1, 0, 0, 1],
        _ => (1..=4 * dtype.size())
            .map(|at| u8::try_from(at % 64).unwrap_or(0))
            .collect(),
    };
    let x = HostTensor::from_bytes(dtype, [4], bytes.clone()).must()?;
    let x = bench.validate("input0", x)?;
    let executed = bench.session.bind([x]).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    let host = outputs.get(0).must()?.to_host().must()?;
    equal("the type that comes back", host.dtype(), dtype)?;
    equal("the bytes", host.bytes(), bytes.as_slice())
}

fn double<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F64, &[2]);
    let sum = graph.elementwise("add", &[x, x]);
    let artifact = crate::models::artifact(graph.finish(&[sum]), |m| m)?;
    let mut bench = Bench::new(backend, &artifact)?;
    let values = [1.0 + 2.0_f64.powi(-50), 1e300];
    let x = HostTensor::from_slice([2], &values).must()?;
    let x = bench.validate("input0", x)?;
    let executed = bench.session.bind([x]).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    let sum = outputs.get(0).must()?.to_vec::<f64>().must()?;
    equal("x + x", sum, vec![2.0 + 2.0_f64.powi(-49), 2e300])
}

fn wide<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(S64, &[3]);
    let product = graph.elementwise("multiply", &[x, x]);
    let artifact = crate::models::artifact(graph.finish(&[product]), |m| m)?;
    let mut bench = Bench::new(backend, &artifact)?;
    let x = HostTensor::from_slice([3], &[1_i64 << 31, -3_000_000_000, 5]).must()?;
    let x = bench.validate("input0", x)?;
    let executed = bench.session.bind([x]).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    let squares = outputs.get(0).must()?.to_vec::<i64>().must()?;
    equal(
        "x * x",
        squares,
        vec![1 << 62, 9_000_000_000_000_000_000, 25],
    )
}

fn converted<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[4]);
    let whole = graph.convert(x, S8);
    let artifact = crate::models::artifact(graph.finish(&[whole]), |m| m)?;
    let mut bench = Bench::new(backend, &artifact)?;
    let x = bench.floats("input0", &[1.9, -1.9, 300.0, -300.0])?;
    let executed = bench.session.bind([x]).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    let whole = outputs.get(0).must()?.to_vec::<i8>().must()?;
    equal(
        "truncated and saturated",
        whole,
        vec![1, -1, i8::MAX, i8::MIN],
    )
}

fn reported<B: Backend>(
    backend: B,
    element: PrimitiveType,
    dtype: NrtDtype,
    shape: &[u32],
    size: usize,
) -> Result<(), Failure> {
    let artifact = identity(element, &[4])?;
    let raw = Raw::load(&backend, artifact.neff().clone())?;
    let tensors = backend.model_tensors(&raw.model)?;
    let input = tensors.iter().find(|info| info.side == Side::Input);
    let input = input.ok_or_else(|| Failure::new("no input is reported"))?;
    equal("type", input.dtype, dtype)?;
    equal("shape", input.shape.as_slice(), shape)?;
    equal("size", input.size, size)?;
    raw.close(&backend)
}
