//! Graphs: modules that are not well formed, and what a load says of them.

use bytes::Bytes;
use metaneff_binding::{
    Artifact, ArtifactError, Backend, ContractOptions, Finding, LoadRequest, Side,
};
use metaneff_schema::xla::HloModuleProto;
use metaneff_schema::xla::PrimitiveType::{F32, S32};
use metaneff_schema::{MetaNeffBuilder, decode_hlo};
use prost::Message as _;

use super::neff::{accept, refuse};
use crate::bench::Bench;
use crate::case::{Case, Failure, equal, holds, refused};
use crate::graph::{Graph, array};
use crate::models::{artifact, pack};
use crate::package::Parts;
use crate::raw::{CORE, Raw};
use crate::wire::Wire;

/// Where the packer puts the graph.
const GRAPH: &str = "metaneff/hlo_module.pb";

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    const VERIFIED: &str = "user need 69";
    vec![
        Case::new(
            "graph/bytes/none",
            "a NEFF without a graph is refused with what was looked for",
            "user need 69",
            |b| refuse(b, Parts::new()?.without(GRAPH).build()?),
        ),
        Case::new(
            "graph/bytes/cut",
            "a graph that ends early is refused",
            "user need 108",
            |b| {
                let graph = subtraction();
                with_graph(b, graph[..graph.len() - 3].to_vec())
            },
        ),
        Case::new(
            "graph/bytes/text",
            "HLO as text is refused",
            VERIFIED,
            |b| {
                with_graph(
                    b,
                    b"HloModule m\n\nENTRY %m { ROOT %p = f32[] parameter(0) }".to_vec(),
                )
            },
        ),
        Case::new(
            "graph/bytes/wrapped",
            "a module within an HloProto is found",
            VERIFIED,
            |b| {
                let wrapped = Wire::new().bytes(1, subtraction());
                accept(b, Parts::new()?.with(GRAPH, wrapped.finish()).build()?)
            },
        ),
        Case::new(
            "graph/opcode/unknown",
            "an opcode that nobody knows is refused by name",
            "user need 100",
            |b| {
                named(b, "quantum-fold", |module| {
                    instruction(module, 2).opcode = "quantum-fold".into();
                })
            },
        ),
        Case::new(
            "graph/custom_call/unknown",
            "a custom call that nobody knows is refused by its target",
            "user need 100",
            |b| {
                named(b, "Foo", |module| {
                    let call = instruction(module, 2);
                    call.opcode = "custom-call".into();
                    call.custom_call_target = "Foo".into();
                })
            },
        ),
        Case::new(
            "graph/shape/wrong",
            "a result of another shape than its operands give is refused",
            VERIFIED,
            |b| {
                broken(b, |module| {
                    instruction(module, 2).shape = Some(array(F32, &[3]));
                })
            },
        ),
        Case::new(
            "graph/dtype/mixed",
            "operands of different element types are refused",
            "user needs 69, 102",
            |b| {
                broken(b, |module| {
                    instruction(module, 1).shape = Some(array(S32, &[2]));
                })
            },
        ),
        Case::new(
            "graph/operand/unknown",
            "an operand that is no instruction is refused",
            VERIFIED,
            |b| broken(b, |module| instruction(module, 2).operand_ids[1] = 77),
        ),
        Case::new(
            "graph/operand/itself",
            "an instruction that needs itself is refused",
            VERIFIED,
            |b| {
                broken(b, |module| {
                    let own = instruction(module, 2).id;
                    instruction(module, 2).operand_ids[1] = own;
                })
            },
        ),
        Case::new(
            "graph/parameter/twice",
            "two parameters of one number are refused",
            VERIFIED,
            |b| broken(b, |module| instruction(module, 1).parameter_number = 0),
        ),
        Case::new(
            "graph/entry/none",
            "a module without its entry is refused",
            VERIFIED,
            |b| {
                broken(b, |module| {
                    module.entry_computation_id = 99;
                    module.entry_computation_name = "nowhere".into();
                })
            },
        ),
        Case::new(
            "graph/id/twice",
            "two instructions of one id are refused",
            "user needs 68, 69",
            |b| {
                broken(b, |module| {
                    let first = instruction(module, 0).id;
                    instruction(module, 1).id = first;
                })
            },
        ),
        Case::new(
            "graph/id/sparse",
            "ids of 64 bits with gaps are followed",
            "user need 68",
            sparse,
        ),
        Case::new(
            "graph/contract/count",
            "a metaneff with fewer outputs than its graph is refused",
            "user need 57",
            |_| {
                contract_finds(
                    |builder| builder,
                    |message| message.output_tensors.truncate(1),
                    |finding| {
                        matches!(
                            finding,
                            Finding::GraphCount {
                                side: Side::Output,
                                contract: 1,
                                graph: 2
                            }
                        )
                    },
                )
            },
        ),
        Case::new(
            "graph/contract/shape",
            "a metaneff of another shape than its graph is refused with both",
            "user needs 57, 67",
            |_| {
                contract_finds(
                    |builder| builder,
                    |message| message.input_tensors[0].shape = vec![3],
                    |finding| {
                        matches!(
                            finding,
                            Finding::GraphShape {
                                ordinal: 0,
                                same_size: false,
                                ..
                            }
                        )
                    },
                )
            },
        ),
        Case::new(
            "graph/contract/dtype",
            "a metaneff of another element type than its graph is refused with both",
            "user need 38",
            |_| {
                contract_finds(
                    |builder| builder,
                    |message| message.input_tensors[0].data_type = 2,
                    |finding| matches!(finding, Finding::GraphDType { ordinal: 0, .. }),
                )
            },
        ),
        Case::new(
            "graph/contract/alias_only_here",
            "an alias that the graph does not have is refused",
            "user need 51",
            |_| {
                contract_finds(
                    |builder| builder.alias(0, 0),
                    |_| {},
                    |finding| {
                        matches!(
                            finding,
                            Finding::AliasOnlyInContract {
                                output: 0,
                                input: 0
                            }
                        )
                    },
                )
            },
        ),
        Case::new(
            "graph/contract/alias_only_there",
            "an alias that only the graph has is refused",
            "user need 51",
            |_| {
                contract_finds(
                    |builder| builder,
                    |message| message.output_aliases_to.clear(),
                    |finding| {
                        matches!(
                            finding,
                            Finding::AliasOnlyInGraph {
                                output: 1,
                                input: 0
                            }
                        )
                    },
                )
            },
        ),
        Case::new(
            "graph/output/none",
            "a module without outputs is refused, not run to no end",
            "user need 41",
            no_output,
        ),
    ]
}

/// `input0 - input1` over `f32[2]`, with a tuple as root: instructions 0 and 1
/// are the parameters, 2 is the difference, 3 the root.
fn subtraction() -> Bytes {
    let mut graph = Graph::new();
    let a = graph.parameter(F32, &[2]);
    let b = graph.parameter(F32, &[2]);
    let difference = graph.elementwise("subtract", &[a, b]);
    graph.finish(&[difference])
}

fn instruction(
    module: &mut HloModuleProto,
    at: usize,
) -> &mut metaneff_schema::xla::HloInstructionProto {
    &mut module.computations[0].instructions[at]
}

/// Puts a graph into a NEFF that was made for a good one.
fn with_graph<B: Backend>(backend: B, graph: Vec<u8>) -> Result<(), Failure> {
    refuse(backend, Parts::new()?.with(GRAPH, graph).build()?)
}

fn broken<B: Backend>(backend: B, edit: impl FnOnce(&mut HloModuleProto)) -> Result<(), Failure> {
    let mut module = decode_hlo(subtraction())?;
    edit(&mut module);
    with_graph(backend, module.encode_to_vec())
}

/// The load is refused, or the execution is, and says `word` where the backend
/// gives a reason at all.
fn named<B: Backend>(
    backend: B,
    word: &str,
    edit: impl FnOnce(&mut HloModuleProto),
) -> Result<(), Failure> {
    let mut module = decode_hlo(subtraction())?;
    edit(&mut module);
    let file = Parts::new()?.with(GRAPH, module.encode_to_vec()).build()?;
    let error = match backend.load(&LoadRequest::new(file.clone()).on(CORE)) {
        Err(error) => error,
        Ok(model) => {
            backend.unload(model)?;
            let mut raw = Raw::load(&backend, file)?;
            raw.bound(&backend, [5.0, 1.0], [2.0, 4.0])?;
            let error = refused("the execution", raw.execute(&backend))?;
            raw.close(&backend)?;
            error
        }
    };
    holds("it is no completion", !error.status().is_completed())?;
    let silent = *error.cause() == metaneff_binding::Cause::Unknown;
    holds(
        &format!("`{error}` says {word}"),
        silent || error.to_string().contains(word),
    )
}

fn sparse<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut module = decode_hlo(subtraction())?;
    let renumber = |id: i64| id * 1_000_003 + (1 << 40);
    for computation in &mut module.computations {
        computation.root_id = renumber(computation.root_id);
        for instruction in &mut computation.instructions {
            instruction.id = renumber(instruction.id);
            instruction
                .operand_ids
                .iter_mut()
                .for_each(|id| *id = renumber(*id));
        }
    }
    let artifact = artifact(module.encode_to_vec().into(), |m| m)?;
    let mut bench = Bench::new(backend, &artifact)?;
    let difference = bench.run(&[("input0", &[5.0, 1.0]), ("input1", &[2.0, 4.0])])?;
    equal("input0 - input1", difference, vec![3.0, -3.0])
}

/// What a strict contract finds in a changed metaneff of `(x, s + x)`, whose
/// second output takes the first input's buffer.
fn contract_finds(
    build: impl FnOnce(MetaNeffBuilder) -> MetaNeffBuilder,
    edit: impl FnOnce(&mut metaneff_schema::metaneff::MetaNeff),
    expected: impl Fn(&Finding) -> bool,
) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let s = graph.parameter(F32, &[2]);
    let x = graph.parameter(F32, &[2]);
    let sum = graph.elementwise("add", &[s, x]);
    graph.alias(1, 0);
    let graph = graph.finish(&[x, sum]);
    let mut message = build(MetaNeffBuilder::from_hlo(graph.clone())?).build();
    edit(&mut message);
    let options = ContractOptions::new();
    let answer = Artifact::from_bytes_with(pack(graph)?, message.encode_to_vec(), &options);
    match refused("the metaneff", answer)? {
        ArtifactError::Contract(error) => {
            let found = format!("the finding is among {:?}", error.findings);
            holds(&found, error.findings.iter().any(expected))
        }
        other => Err(Failure::new(format!("expected findings, found {other}"))),
    }
}

fn no_output<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    graph.parameter(F32, &[2]);
    let empty = graph.finish(&[]);
    refused("a NEFF without an output", pack(empty.clone()))?;
    // Neither does the loader take such a graph in a NEFF that has one.
    let file = Parts::new()?.with(GRAPH, empty).build()?;
    refuse(backend, file)
}
