//! Whose an input is, and what a checkpoint gives to those that are not the
//! caller's.

use bytes::Bytes;
use metaneff_binding::{
    Artifact, Backend, Checkpoint, CheckpointError, Core, Role, SharedRuntime, WeightsError,
};
use metaneff_schema::xla::PrimitiveType::F32;

use crate::bench::Bench;
use crate::case::{Case, Failure, equal, holds, refused};
use crate::graph::Graph;
use crate::models::{Must as _, artifact, weighted};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    const KEYS: &str = "page 2.1, checkpoint_key; user need 58";
    vec![
        Case::new(
            "roles/order/any",
            "inputs of all roles in any order: the caller's are counted among themselves",
            "page 4.4",
            any_order,
        ),
        Case::new(
            "roles/checkpoint/states",
            "states come out of a checkpoint by their keys, and are zero where it has none",
            KEYS,
            states,
        ),
        Case::new(
            "roles/checkpoint/missing",
            "a weight that the checkpoint lacks is named, and none is uploaded",
            KEYS,
            missing,
        ),
        Case::new(
            "roles/checkpoint/shape",
            "a weight of another shape is refused before a byte is uploaded",
            KEYS,
            shape,
        ),
    ]
}

/// A safetensors file of `f32` vectors: the size of the header in 8 bytes, the
/// header, the data.
fn safetensors(tensors: &[(&str, &[f32])]) -> Bytes {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, values) in tensors {
        let start = data.len();
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        header.insert(
            (*name).to_owned(),
            serde_json::json!({
                "dtype": "F32",
                "shape": [values.len()],
                "data_offsets": [start, data.len()],
            }),
        );
    }
    let header = serde_json::Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(&data);
    file.into()
}

/// `(a - b) * w + s`, as the inputs `w`, `a`, `s`, `b`; the sum becomes `s`.
fn mixed() -> Result<Artifact, Failure> {
    let mut graph = Graph::new();
    let w = graph.parameter(F32, &[2]);
    let a = graph.parameter(F32, &[2]);
    let s = graph.parameter(F32, &[2]);
    let b = graph.parameter(F32, &[2]);
    let difference = graph.elementwise("subtract", &[a, b]);
    let product = graph.elementwise("multiply", &[difference, w]);
    let sum = graph.elementwise("add", &[product, s]);
    graph.alias(0, 2);
    artifact(graph.finish(&[sum]), |m| {
        m.weight(0, "w")
            .user_input(1, "a")
            .state(2, "s")
            .user_input(3, "b")
            .return_aliases(true)
    })
}

fn any_order<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &mixed()?)?;
    let contract = bench.model.contract();
    let roles: Vec<_> = contract.inputs().iter().map(|slot| slot.role()).collect();
    let expected = vec![Role::Weight, Role::UserInput, Role::State, Role::UserInput];
    equal("the roles", roles, expected)?;
    let own: Vec<_> = contract
        .user_inputs()
        .map(|slot| slot.name().to_owned())
        .collect();
    equal(
        "the caller's",
        own,
        vec!["input1".to_owned(), "input3".to_owned()],
    )?;
    let w = bench.floats("w", &[2.0, 3.0])?;
    bench.model.load_weights(vec![w]).must()?;
    let inputs: [(&str, &[f32]); 2] = [("a", &[5.0, 7.0]), ("b", &[1.0, 1.0])];
    let states = bench.session.zero_states().must()?;
    let (first, states) = bench.step(&inputs, states)?;
    equal("(a - b) * w", first, vec![vec![8.0, 18.0]])?;
    let (second, _) = bench.step(&inputs, states)?;
    equal("twice that", second, vec![vec![16.0, 36.0]])
}

fn states<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut bench = Bench::new(backend, &mixed()?)?;
    let w = bench.floats("w", &[1.0, 1.0])?;
    bench.model.load_weights(vec![w]).must()?;
    let inputs: [(&str, &[f32]); 2] = [("a", &[5.0, 7.0]), ("b", &[1.0, 1.0])];
    for (file, expected) in [
        (safetensors(&[("s", &[0.5, -6.0])]), [4.5, 0.0]),
        (safetensors(&[("other", &[1.0])]), [4.0, 6.0]),
    ] {
        let checkpoint = Checkpoint::from_bytes(file).must()?;
        let states = bench.session.checkpoint_states(&checkpoint).must()?;
        let (outputs, _) = bench.step(&inputs, states)?;
        equal("a - b + s", outputs, vec![expected.to_vec()])?;
    }
    Ok(())
}

fn missing<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let model = runtime.load(&weighted()?, Core::new(0)).must()?;
    let writes = || runtime.transfers().map(|moved| moved.writes);
    let before = writes();
    let checkpoint = Checkpoint::from_bytes(safetensors(&[("layer.bias", &[1.0, 2.0])]));
    let error = refused("no weight", model.load_checkpoint(&checkpoint.must()?))?;
    let named = match &error {
        CheckpointError::Weights(WeightsError::Missing(missing)) => {
            missing.to_string().contains("layer.weight")
        }
        _ => false,
    };
    holds(&format!("`{error}` names the weight"), named)?;
    equal("writes", writes(), before)
}

fn shape<B: Backend>(backend: B) -> Result<(), Failure> {
    let runtime = SharedRuntime::new(backend);
    let model = runtime.load(&weighted()?, Core::new(0)).must()?;
    let writes = || runtime.transfers().map(|moved| moved.writes);
    let before = writes();
    let checkpoint = Checkpoint::from_bytes(safetensors(&[("layer.weight", &[1.0, 2.0, 3.0])]));
    let error = refused("3 for 2", model.load_checkpoint(&checkpoint.must()?))?;
    let text = error.to_string();
    holds(
        &format!("`{text}` has slot and shapes"),
        ["input1", "[3]", "[2]"]
            .iter()
            .all(|part| text.contains(part)),
    )?;
    equal("writes", writes(), before)
}
