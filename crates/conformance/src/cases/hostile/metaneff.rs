//! Metaneffs: bytes that are no message, and messages that are no contract.

use bytes::Bytes;
use metaneff_binding::{
    Artifact, ArtifactError, Backend, ContractOptions, Finding, JoinMismatch, SessionError, Side,
};
use metaneff_schema::xla::PrimitiveType::{F32, S32};

use crate::bench::Bench;
use crate::case::{Case, Failure, equal, holds, refused};
use crate::graph::Graph;
use crate::models::{Must as _, pack};
use crate::wire::{Wire, neff, pair, tensor};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    const BYTES: &str = "user need 108";
    const NAMES: &str = "page 4.5, note on names; user need 39";
    vec![
        Case::new(
            "metaneff/bytes/prefixes",
            "no beginning of a metaneff is taken for the whole",
            BYTES,
            prefixes,
        ),
        Case::new(
            "metaneff/bytes/flips",
            "a metaneff with one bit changed is refused or computes what the NEFF says",
            BYTES,
            flips,
        ),
        Case::new(
            "metaneff/bytes/length_beyond",
            "a length beyond the data is refused before anything is allocated",
            BYTES,
            |b| undecodable(b, b"\x0a\xff\xff\xff\xff\x0f"),
        ),
        Case::new(
            "metaneff/bytes/long_number",
            "a number of eleven bytes is refused",
            BYTES,
            |b| undecodable(b, b"\x38\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ),
        Case::new(
            "metaneff/bytes/field_zero",
            "a field of number 0 is refused",
            "page 2, protobuf",
            |b| undecodable(b, b"\x00\x01"),
        ),
        Case::new(
            "metaneff/bytes/wire_type",
            "a known field of a wrong wire type is refused",
            "page 2, protobuf",
            |b| undecodable(b, b"\x0d\x01\x02\x03\x04"),
        ),
        Case::new(
            "metaneff/bytes/nested_groups",
            "100000 nested groups are refused and not followed",
            "user need 107",
            |b| undecodable(b, &[0x0b; 100_000]),
        ),
        Case::new(
            "metaneff/name/not_text",
            "a name that is no text and a negative dimension are both reported",
            "user need 111",
            not_text,
        ),
        Case::new(
            "metaneff/name/empty",
            "an empty name is refused",
            NAMES,
            |b| unusable(b, ""),
        ),
        Case::new(
            "metaneff/name/zero_byte",
            "a name with a zero byte is refused, for C would cut it",
            NAMES,
            |b| unusable(b, "input0\0x"),
        ),
        Case::new(
            "metaneff/name/too_long",
            "a name of 256 bytes is refused, for the runtime's tables end there",
            "nrt.h, NRT_TENSOR_NAME_MAX",
            |b| unusable(b, &"n".repeat(256)),
        ),
        Case::new(
            "metaneff/name/twice",
            "two inputs of one name are refused",
            NAMES,
            |b| {
                finds(b, [pair("input0"), pair("input0")], |finding| {
                    matches!(
                        finding,
                        Finding::DuplicateName {
                            side: Side::Input,
                            first: 0,
                            second: 1,
                            ..
                        }
                    )
                })
            },
        ),
        Case::new(
            "metaneff/name/gap",
            "a gap in the numbering is refused with the missing number",
            NAMES,
            |b| {
                finds(b, [pair("input0"), pair("input2")], |finding| {
                    matches!(
                        finding,
                        Finding::MissingSlot {
                            side: Side::Input,
                            index: 1
                        }
                    )
                })
            },
        ),
        Case::new(
            "metaneff/name/exchanged",
            "names in another order than the ordinals are refused",
            NAMES,
            |b| {
                finds(b, [pair("input1"), pair("input0")], |finding| {
                    matches!(finding, Finding::UnexpectedName { ordinal: 0, found, .. }
                        if found == "input1")
                })
            },
        ),
        Case::new(
            "metaneff/dtype/undefined",
            "a tensor without an element type is refused",
            "page 2.1, DataType 0",
            |b| untyped(b, 0),
        ),
        Case::new(
            "metaneff/dtype/reserved",
            "the reserved element type 11 is refused",
            "page 2.1, DataType 11",
            |b| untyped(b, 11),
        ),
        Case::new(
            "metaneff/shape/negative",
            "a negative dimension is refused",
            "user need 111",
            |b| {
                let input = shaped("input1", &[-2]);
                finds(b, [pair("input0"), input], |finding| {
                    matches!(
                        finding,
                        Finding::BadDimension {
                            ordinal: 1,
                            value: -2,
                            ..
                        }
                    )
                })
            },
        ),
        Case::new(
            "metaneff/shape/overflow",
            "a tensor of more than 64 bits of bytes is refused",
            "user need 30",
            |b| {
                let input = shaped("input1", &[1 << 32, 1 << 32]);
                finds(b, [pair("input0"), input], |finding| {
                    matches!(finding, Finding::SizeOverflow { ordinal: 1, .. })
                })
            },
        ),
        Case::new(
            "metaneff/shape/large",
            "16 GiB are counted right, and found to differ from the NEFF",
            "user need 30",
            large,
        ),
        Case::new(
            "metaneff/neff/missing_variable",
            "a slot that the NEFF does not have is reported by name",
            "page 8",
            missing_variable,
        ),
        Case::new(
            "metaneff/neff/extra_variable",
            "a variable that the metaneff does not have is reported by name",
            "page 8",
            extra_variable,
        ),
        Case::new(
            "metaneff/neff/other_size",
            "a slot of another size than its variable is reported with both",
            "page 8",
            other_size,
        ),
        Case::new(
            "metaneff/neff/other_dtype",
            "a slot of another element type than its variable is reported with both",
            "page 8",
            other_dtype,
        ),
    ]
}

/// The alias map.
pub(super) fn aliases<B: Backend>() -> Vec<Case<B>> {
    const NEED: &str = "user need 53";
    vec![
        Case::new(
            "metaneff/alias/twice",
            "two outputs in one input's buffer are refused",
            NEED,
            |b| {
                misaliased(b, &[(0, 0), (1, 0)], |finding| {
                    matches!(
                        finding,
                        Finding::AliasedTwice {
                            input: 0,
                            first: 0,
                            second: 1
                        }
                    )
                })
            },
        ),
        Case::new(
            "metaneff/alias/no_input",
            "an alias of an input that is none is refused",
            NEED,
            |b| {
                misaliased(b, &[(0, 9)], |finding| {
                    matches!(
                        finding,
                        Finding::AliasInputOutOfRange {
                            input: 9,
                            inputs: 2,
                            ..
                        }
                    )
                })
            },
        ),
        Case::new(
            "metaneff/alias/no_output",
            "an alias of an output that is none is refused",
            NEED,
            |b| {
                misaliased(b, &[(-1, 0)], |finding| {
                    matches!(finding, Finding::AliasOutputOutOfRange { output: -1, .. })
                })
            },
        ),
        Case::new(
            "metaneff/alias/other_shape",
            "an alias of another shape is refused with both shapes",
            NEED,
            |b| {
                misaliased(b, &[(0, 1)], |finding| {
                    matches!(
                        finding,
                        Finding::AliasMismatch {
                            output: 0,
                            input: 1,
                            same_size: false,
                            ..
                        }
                    )
                })
            },
        ),
    ]
}

/// A NEFF of `(input0 - input1, input0 - input1)` over `f32[2]`.
fn program() -> Result<Bytes, Failure> {
    let mut graph = Graph::new();
    let a = graph.parameter(F32, &[2]);
    let b = graph.parameter(F32, &[2]);
    let difference = graph.elementwise("subtract", &[a, b]);
    pack(graph.finish(&[difference]))
}

fn message(inputs: [Wire; 2]) -> Vec<u8> {
    inputs
        .into_iter()
        .fold(Wire::new(), |message, input| {
            message.message(neff::INPUT, input)
        })
        .message(neff::OUTPUT, pair("output0"))
        .finish()
}

fn shaped(name: &str, dims: &[i64]) -> Wire {
    Wire::new()
        .bytes(tensor::NAME, name)
        .packed(tensor::SHAPE, dims)
        .number(tensor::DATA_TYPE, 1)
}

/// A good pair still runs after whatever was refused.
fn still_runs<B: Backend>(backend: B) -> Result<(), Failure> {
    let whole = message([pair("input0"), pair("input1")]);
    let artifact = Artifact::from_bytes(program()?, whole).must()?;
    let mut bench = Bench::new(backend, &artifact)?;
    let difference = bench.run(&[("input0", &[5.0, 1.0]), ("input1", &[2.0, 4.0])])?;
    equal("input0 - input1", difference, vec![3.0, -3.0])
}

fn prefixes<B: Backend>(backend: B) -> Result<(), Failure> {
    let whole = message([pair("input0"), pair("input1")]);
    let neff = program()?;
    for end in 0..whole.len() {
        let prefix = whole[..end].to_vec();
        refused("a beginning", Artifact::from_bytes(neff.clone(), prefix))?;
    }
    still_runs(backend)
}

fn flips<B: Backend>(backend: B) -> Result<(), Failure> {
    let whole = message([pair("input0"), pair("input1")]);
    let neff = program()?;
    let runtime = metaneff_binding::Runtime::new(backend);
    let mut loaded = 0_usize;
    for bit in 0..8 * whole.len() {
        let mut changed = whole.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let Ok(artifact) = Artifact::from_bytes(neff.clone(), changed) else {
            continue;
        };
        loaded += 1;
        let model = runtime.load(&artifact, crate::raw::CORE).must()?;
        let names: Vec<_> = model
            .contract()
            .inputs()
            .iter()
            .map(|slot| slot.name())
            .collect();
        equal("the names", names, vec!["input0", "input1"])?;
        // A bit of a data type's number makes it one that nobody knows.
        match model.session() {
            Ok(_) | Err(SessionError::UnknownDataType { .. }) => {}
            Err(other) => return Err(other.into()),
        }
    }
    // A bit of a field's number makes it a field that nobody knows.
    holds("some load", loaded > 0)
}

fn undecodable<B: Backend>(backend: B, bytes: &[u8]) -> Result<(), Failure> {
    let answer = Artifact::from_bytes(program()?, bytes.to_vec());
    let error = refused("bytes that are no metaneff", answer)?;
    holds(
        "it is the decoder's",
        matches!(error, ArtifactError::Decode(_)),
    )?;
    still_runs(backend)
}

/// The findings of a strict contract for this message.
fn findings(neff: Bytes, message: Vec<u8>) -> Result<Vec<Finding>, Failure> {
    let answer = Artifact::from_bytes_with(neff, message, &ContractOptions::new());
    match refused("the metaneff", answer)? {
        ArtifactError::Contract(error) => Ok(error.findings),
        other => Err(Failure::new(format!("expected findings, found {other}"))),
    }
}

fn finds<B: Backend>(
    backend: B,
    inputs: [Wire; 2],
    expected: impl Fn(&Finding) -> bool,
) -> Result<(), Failure> {
    let found = findings(program()?, message(inputs))?;
    holds(
        &format!("the finding is among {found:?}"),
        found.iter().any(expected),
    )?;
    still_runs(backend)
}

fn not_text<B: Backend>(backend: B) -> Result<(), Failure> {
    let bytes = b"\x0a\x12\x0a\x02\xff\xfe\x12\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x18\x01";
    let found = findings(program()?, bytes.to_vec())?;
    let name = |finding: &Finding| matches!(finding, Finding::NameNotUtf8 { bytes, .. } if bytes == &[0xff, 0xfe]);
    let dimension = |finding: &Finding| matches!(finding, Finding::BadDimension { value: -1, .. });
    holds("the name is reported", found.iter().any(name))?;
    holds("the dimension is reported", found.iter().any(dimension))?;
    still_runs(backend)
}

fn unusable<B: Backend>(backend: B, name: &str) -> Result<(), Failure> {
    let name = name.to_owned();
    finds(
        backend,
        [pair("input0"), pair(&name)],
        |finding| matches!(finding, Finding::NameNotUsable { ordinal: 1, name: own, .. } if *own == name),
    )
}

fn untyped<B: Backend>(backend: B, number: i32) -> Result<(), Failure> {
    let input = Wire::new()
        .bytes(tensor::NAME, "input1")
        .packed(tensor::SHAPE, &[2])
        .number(tensor::DATA_TYPE, number.into());
    finds(
        backend,
        [pair("input0"), input],
        |finding| matches!(finding, Finding::NoDataType { ordinal: 1, number: own, .. } if *own == number),
    )
}

fn large<B: Backend>(backend: B) -> Result<(), Failure> {
    let inputs = [pair("input0"), shaped("input1", &[65_536, 65_536])];
    let found = mismatches(program()?, message(inputs))?;
    let size = |mismatch: &JoinMismatch| {
        matches!(
            mismatch,
            JoinMismatch::Size {
                expected: 17_179_869_184,
                found: 8,
                ..
            }
        )
    };
    holds("both sizes are reported", found.iter().any(size))?;
    still_runs(backend)
}

/// What differs between the message and the NEFF, with the graph left out.
fn mismatches(neff: Bytes, message: Vec<u8>) -> Result<Vec<JoinMismatch>, Failure> {
    let options = ContractOptions::new().without_graph();
    let answer = Artifact::from_bytes_with(neff, message, &options);
    match refused("the pair", answer)? {
        ArtifactError::Join(error) => Ok(error.mismatches),
        other => Err(Failure::new(format!("expected mismatches, found {other}"))),
    }
}

fn missing_variable<B: Backend>(backend: B) -> Result<(), Failure> {
    let message = Wire::new()
        .message(neff::INPUT, pair("input0"))
        .message(neff::INPUT, pair("input1"))
        .message(neff::INPUT, pair("input2"))
        .message(neff::OUTPUT, pair("output0"));
    let found = mismatches(program()?, message.finish())?;
    let missing = |mismatch: &JoinMismatch| matches!(mismatch, JoinMismatch::MissingVariable { name, .. } if name == "input2");
    holds("the slot is named", found.iter().any(missing))?;
    still_runs(backend)
}

fn extra_variable<B: Backend>(backend: B) -> Result<(), Failure> {
    let message = Wire::new()
        .message(neff::INPUT, pair("input0"))
        .message(neff::OUTPUT, pair("output0"));
    let found = mismatches(program()?, message.finish())?;
    let extra = |mismatch: &JoinMismatch| matches!(mismatch, JoinMismatch::ExtraVariable { name, side: Side::Input } if name == "input1");
    holds("the variable is named", found.iter().any(extra))?;
    still_runs(backend)
}

fn other_size<B: Backend>(backend: B) -> Result<(), Failure> {
    let found = mismatches(
        program()?,
        message([pair("input0"), shaped("input1", &[3])]),
    )?;
    let size = |mismatch: &JoinMismatch| {
        matches!(
            mismatch,
            JoinMismatch::Size {
                expected: 12,
                found: 8,
                ..
            }
        )
    };
    holds("both sizes are reported", found.iter().any(size))?;
    still_runs(backend)
}

fn other_dtype<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let a = graph.parameter(F32, &[2]);
    let b = graph.parameter(S32, &[2]);
    let copy = graph.elementwise("copy", &[a]);
    let _unused = b;
    let neff = pack(graph.finish(&[copy]))?;
    let found = mismatches(neff, message([pair("input0"), pair("input1")]))?;
    let dtype = |mismatch: &JoinMismatch| matches!(mismatch, JoinMismatch::DType { .. });
    holds("the type is reported", found.iter().any(dtype))?;
    still_runs(backend)
}

/// `(a, a)` over `f32[2]` with an unused `f32[3]`, aliased so.
fn misaliased<B: Backend>(
    backend: B,
    entries: &[(i64, i64)],
    expected: impl Fn(&Finding) -> bool,
) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let a = graph.parameter(F32, &[2]);
    graph.parameter(F32, &[3]);
    let copy = graph.elementwise("copy", &[a]);
    let twice = graph.elementwise("add", &[a, a]);
    let mut message = Wire::new()
        .message(neff::INPUT, pair("input0"))
        .message(neff::INPUT, shaped("input1", &[3]))
        .message(neff::OUTPUT, pair("output0"))
        .message(neff::OUTPUT, pair("output1"));
    for (output, input) in entries {
        let entry = Wire::new().number(1, *output).number(2, *input);
        message = message.message(neff::ALIAS, entry);
    }
    let found = findings(pack(graph.finish(&[copy, twice]))?, message.finish())?;
    holds(
        &format!("the finding is among {found:?}"),
        found.iter().any(expected),
    )?;
    still_runs(backend)
}
