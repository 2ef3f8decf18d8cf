//! The models that the cases run: graphs whose results are worked out by hand.

use bytes::Bytes;
use metaneff_binding::{
    Artifact, Backend, ContractOptions, Core, HostTensor, Model, Outputs, Runtime, Session,
};
use metaneff_schema::MetaNeffBuilder;
use metaneff_schema::neff::NeffBuilder;
use metaneff_schema::xla::PrimitiveType::{self, F32};
use prost::Message as _;

use crate::case::Failure;
use crate::graph::Graph;
use crate::packing::Packing;

/// Passes an error of the SDK on as a case's failure.
pub(crate) trait Must<T> {
    /// The value, or the failure at the caller's line.
    #[track_caller]
    fn must(self) -> Result<T, Failure>;
}

impl<T, E: Into<metaneff_binding::Error>> Must<T> for Result<T, E> {
    #[track_caller]
    fn must(self) -> Result<T, Failure> {
        match self {
            Ok(value) => Ok(value),
            Err(error) => Err(Failure::from(error.into())),
        }
    }
}

/// Packs a graph, with the metaneff that `edit` makes of the default one.
pub(crate) fn artifact(
    graph: Bytes,
    edit: impl FnOnce(MetaNeffBuilder) -> MetaNeffBuilder,
) -> Result<Artifact, Failure> {
    artifact_with(graph, &ContractOptions::new(), edit)
}

/// As [`artifact`], with a contract that is checked by `options`.
pub(crate) fn artifact_with(
    graph: Bytes,
    options: &ContractOptions,
    edit: impl FnOnce(MetaNeffBuilder) -> MetaNeffBuilder,
) -> Result<Artifact, Failure> {
    let message = edit(MetaNeffBuilder::from_hlo(graph.clone())?).build();
    join(pack(graph)?, message.encode_to_vec(), options)
}

/// A NEFF that carries `graph`.
pub(crate) fn pack(graph: Bytes) -> Result<Bytes, Failure> {
    Ok(NeffBuilder::from_hlo(graph)?.build())
}

/// Both files, on their way to a load.
pub(crate) fn join(
    neff: Bytes,
    metaneff: Vec<u8>,
    options: &ContractOptions,
) -> Result<Artifact, Failure> {
    let packing = Packing::current();
    let (neff, metaneff) = (packing.neff(neff)?, packing.metaneff(metaneff)?);
    Artifact::from_bytes_with(neff, metaneff, options).must()
}

/// `x` itself, over `element[dims]`.
pub(crate) fn identity(element: PrimitiveType, dims: &[i64]) -> Result<Artifact, Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(element, dims);
    let copy = graph.elementwise("copy", &[x]);
    artifact(graph.finish(&[copy]), |m| m)
}

/// `input0 - input1` over `f32[2]`, with the keys `a` and `b`.
pub(crate) fn subtract() -> Result<Artifact, Failure> {
    let mut graph = Graph::new();
    let a = graph.parameter(F32, &[2]);
    let b = graph.parameter(F32, &[2]);
    let difference = graph.elementwise("subtract", &[a, b]);
    artifact(graph.finish(&[difference]), |m| {
        m.user_input(0, "a").user_input(1, "b")
    })
}

/// `(state + x, state + x)` over `f32[2]`: output 1 takes the state's buffer.
pub(crate) fn accumulate(return_aliases: bool) -> Result<Artifact, Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let state = graph.parameter(F32, &[2]);
    let sum = graph.elementwise("add", &[state, x]);
    let doubled = graph.elementwise("add", &[sum, sum]);
    graph.alias(1, 1);
    artifact(graph.finish(&[doubled, sum]), |m| {
        m.user_input(0, "x")
            .state(1, "sum")
            .return_aliases(return_aliases)
    })
}

/// `x / y` over `f32[2]`: a place to make infinities and NaNs.
pub(crate) fn divide() -> Result<Artifact, Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let y = graph.parameter(F32, &[2]);
    let quotient = graph.elementwise("divide", &[x, y]);
    artifact(graph.finish(&[quotient]), |m| {
        m.user_input(0, "x").user_input(1, "y")
    })
}

/// `x + w` over `f32[2]`, with the weight `w`.
pub(crate) fn weighted() -> Result<Artifact, Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let w = graph.parameter(F32, &[2]);
    let product = graph.elementwise("multiply", &[x, w]);
    artifact(graph.finish(&[product]), |m| {
        m.user_input(0, "x").weight(1, "layer.weight")
    })
}

/// A runtime's model on core 0.
pub(crate) fn load<'rt, B: Backend>(
    runtime: &'rt Runtime<B>,
    artifact: &Artifact,
) -> Result<Model<'rt, B>, Failure> {
    runtime.load(artifact, Core::new(0)).must()
}

/// A host tensor of `f32[n]`.
pub(crate) fn floats(values: &[f32]) -> Result<HostTensor<'_>, Failure> {
    HostTensor::from_slice([values.len()], values).must()
}

/// Fills user inputs by key, executes without states, and reads output 0.
pub(crate) fn run_floats<B: Backend>(
    session: &mut Session<'_, B>,
    inputs: &[(&str, &[f32])],
) -> Result<Vec<f32>, Failure> {
    let tensors = inputs
        .iter()
        .map(|(key, values)| session.slot(*key).must()?.validate(floats(values)?).must())
        .collect::<Result<Vec<_>, _>>()?;
    let completed = session
        .bind(tensors)
        .must()?
        .execute(())
        .must()?
        .tolerate_nan();
    read_floats(&completed.into_outputs(), 0)
}

/// Reads an output of `f32`.
pub(crate) fn read_floats<B: Backend>(
    outputs: &Outputs<'_, '_, B>,
    ordinal: usize,
) -> Result<Vec<f32>, Failure> {
    outputs.get(ordinal).must()?.to_vec::<f32>().must()
}
