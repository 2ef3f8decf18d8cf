//! Editing how a model is loaded and batched.

use metaneff_binding::{
    Artifact, Backend, ContractOptions, LoadOptions, LoadState, Runtime, SharedRuntime,
};
use metaneff_schema::xla::PrimitiveType::F32;
use metaneff_schema::{Document, MetaNeffBuilder};
use prost::Message as _;

use crate::case::{Case, Failure, equal, holds, refused};
use crate::graph::Graph;
use crate::models::{Must as _, accumulate, load, pack, run_floats, subtract};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    vec![
        Case::new(
            "edit/bytes/unknown_fields",
            "edits keep unknown fields byte for byte",
            "page 6; user need 66",
            unknown_fields,
        ),
        Case::new(
            "edit/bytes/graph_shared",
            "edits neither copy nor decode the graph",
            "page 6",
            graph_shared,
        ),
        Case::new(
            "edit/reload/batching",
            "a batching setter reloads, a load setter does not",
            "page 6",
            reload,
        ),
        Case::new(
            "edit/outputs/return_aliases",
            "aliased outputs are shown and hidden again",
            "user need 56",
            return_aliases,
        ),
        Case::new(
            "edit/contract/own",
            "an edited model takes no tensors of the model before",
            "page 5",
            own_contract,
        ),
        Case::new(
            "edit/flags/count",
            "a list of flags that is too short changes nothing",
            "page 6, set_dynamic_batching_mixed",
            count,
        ),
    ]
}

/// `x` itself, with a field that no schema has at the end of its metaneff and
/// within its first tensor.
fn with_unknown_fields() -> Result<Artifact, Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let copy = graph.elementwise("copy", &[x]);
    let graph = graph.finish(&[copy]);
    let message = MetaNeffBuilder::from_hlo(graph.clone())?
        .user_input(0, "x")
        .build();
    let mut tensor = message.input_tensors[0].encode_to_vec();
    // Field 99, a varint.
    tensor.extend_from_slice(b"\x98\x06\x07");
    let mut rest = message.clone();
    rest.input_tensors.clear();
    let mut bytes = vec![0x0a];
    bytes.push(u8::try_from(tensor.len())?);
    bytes.extend_from_slice(&tensor);
    bytes.extend_from_slice(&rest.encode_to_vec());
    // Field 77, three bytes.
    bytes.extend_from_slice(b"\xea\x04\x03abc");
    let options = ContractOptions::new();
    Artifact::from_bytes_with(pack(graph)?, bytes, &options).must()
}

fn document(artifact: &Artifact) -> Result<&Document, Failure> {
    let missing = || Failure::new("the artifact has no metaneff");
    artifact.metaneff().ok_or_else(missing)
}

fn unknown_fields<B: Backend>(backend: B) -> Result<(), Failure> {
    let artifact = with_unknown_fields()?;
    let before = document(&artifact)?.to_vec();
    let edited = artifact.edit(|metaneff| {
        metaneff.set_lazy_load(true);
        metaneff.set_dynamic_batching(true);
        Ok(())
    });
    let edited = edited.must()?;
    equal(
        "unknown fields",
        document(&edited)?.unknown_fields().len(),
        2,
    )?;
    let back = edited.edit(|metaneff| {
        metaneff.set_lazy_load(false);
        metaneff.set_dynamic_batching(false);
        Ok(())
    });
    let back = back.must()?;
    equal("unknown fields", document(&back)?.unknown_fields().len(), 2)?;
    let (back, before) = (
        document(&back)?.message()?,
        Document::parse(before)?.message()?,
    );
    equal("inputs", back.input_tensors, before.input_tensors)?;
    equal("outputs", back.output_tensors, before.output_tensors)?;
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &edited)?;
    let mut session = model.session().must()?;
    let found = run_floats(&mut session, &[("x", &[1.0, 2.0])])?;
    equal("x", found, vec![1.0, 2.0])
}

fn graph_shared<B: Backend>(backend: B) -> Result<(), Failure> {
    let artifact = subtract()?;
    let addresses = |artifact: &Artifact| -> Result<Vec<*const u8>, Failure> {
        let chunks = document(artifact)?.chunks();
        Ok(chunks.map(|chunk| chunk.as_ptr()).collect())
    };
    let before = addresses(&artifact)?;
    let edited = artifact.edit(|metaneff| {
        metaneff.set_async_load(true);
        Ok(())
    });
    let edited = edited.must()?;
    let after = addresses(&edited)?;
    let kept = before.iter().filter(|address| after.contains(address));
    // All of it but the configuration, which may be new.
    holds(
        "parts stay where they are",
        kept.count() + 1 >= before.len(),
    )?;
    let graph = |artifact: &Artifact| artifact.graph().map(|graph| graph.as_ptr());
    equal("the graph", graph(&edited), graph(&artifact))?;
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &edited)?;
    let mut session = model.session().must()?;
    let found = run_floats(&mut session, &[("a", &[3.0, 4.0]), ("b", &[1.0, 1.0])])?;
    equal("a - b", found, vec![2.0, 3.0])
}

fn reload<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let model = runtime
        .prepare(&subtract()?, LoadOptions::new())
        .open()
        .must()?;
    model.set_async_load(true).must()?;
    model.set_lazy_load(true).must()?;
    equal("after load setters", model.state(), LoadState::Ready)?;
    model.set_dynamic_batching(true).must()?;
    equal("after a batch setter", model.state(), LoadState::Unloaded)?;
    let loaded = model.get().must()?;
    holds(
        "the new model has the flag",
        loaded.slot("a").must()?.has_dynamic_batch(),
    )?;
    let rows = |values: [f32; 3]| metaneff_binding::HostTensor::from_vec([3], values.to_vec());
    let mut session = loaded.session().must()?;
    let inputs = vec![
        loaded
            .slot("a")
            .must()?
            .validate(rows([5.0, 6.0, 7.0]).must()?)
            .must()?,
        loaded
            .slot("b")
            .must()?
            .validate(rows([1.0, 2.0, 3.0]).must()?)
            .must()?,
    ];
    let outputs = session.execute_batch(inputs).must()?.tolerate_nan();
    let found = outputs.get(0).must()?.to_vec::<f32>().must()?;
    equal("a - b", found, vec![4.0; 3])
}

fn return_aliases<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = Runtime::new(backend);
    let hidden = accumulate(false)?;
    let shown = hidden.edit(|metaneff| {
        metaneff.set_return_aliases(true);
        Ok(())
    });
    for (artifact, expected) in [(&shown.must()?, 2), (&hidden, 1)] {
        let model = load(&runtime, artifact)?;
        let mut session = model.session().must()?;
        let states = session.zero_states().must()?;
        let x = session.slot("x").must()?;
        let x = x.validate(crate::models::floats(&[1.0, 2.0])?).must()?;
        let ready = session.bind([x]).must()?;
        let (outputs, _) = ready.execute(states).must()?.tolerate_nan().into_parts();
        equal("outputs", outputs.len(), expected)?;
    }
    Ok(())
}

fn own_contract<B: Backend>(backend: B) -> Result<(), Failure> {
    let artifact = subtract()?;
    let edited = artifact.with_dynamic_batching(true).must()?;
    let runtime = Runtime::new(backend);
    let model = load(&runtime, &edited)?;
    let mut session = model.session().must()?;
    let slot = artifact.contract().slot("a").must()?;
    let old = slot.validate(crate::models::floats(&[1.0, 2.0])?).must()?;
    let rejected = refused("a tensor of the model before", session.bind([old]))?;
    equal("it is given back", rejected.into_input().len(), 1)
}

fn count<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let model = runtime
        .prepare(&subtract()?, LoadOptions::new())
        .open()
        .must()?;
    refused(
        "one flag for two inputs",
        model.set_dynamic_batching_mixed(&[true], &[true]),
    )?;
    equal("state", model.state(), LoadState::Ready)?;
    let slot = model.get().must()?;
    holds(
        "no flag is set",
        !slot.slot("a").must()?.has_dynamic_batch(),
    )
}
