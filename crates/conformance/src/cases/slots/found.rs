//! How slots are found: by ordinal, by name, by key.

use metaneff_binding::{Backend, ContractOptions, LookupError, Order, Runtime};
use metaneff_schema::xla::FrontendAttributes;
use metaneff_schema::xla::PrimitiveType::F32;
use prost::Message as _;

use crate::bench::Bench;
use crate::case::{Case, Failure, equal, holds, refused};
use crate::graph::Graph;
use crate::models::{
    Must as _, accumulate, artifact, artifact_with, floats, load, read_floats, subtract, weighted,
};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
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
            "page 2.1, name; user need 39",
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
