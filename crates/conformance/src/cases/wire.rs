//! The metaneff on the wire: every field of the schema, in every form that a
//! writer may choose.

use metaneff_binding::{
    Backend, ContractError, ContractOptions, Error, Finding, HostTensor, KeyKind, Role,
};
use metaneff_schema::xla::PrimitiveType::F32;

use crate::bench::Bench;
use crate::case::{Case, Failure, equal, holds, refused};
use crate::graph::Graph;
use crate::models::{Must as _, join, pack};
use crate::wire::{Wire, neff, pair, tensor};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    let mut cases = fields();
    cases.extend(messages());
    cases
}

/// Fields of `MetaTensor`.
fn fields<B: Backend>() -> Vec<Case<B>> {
    const TENSOR: &str = "page 2.1, MetaTensor";
    const TYPE: &str = "page 2.1, MetaTensor.Type";
    vec![
        Case::new(
            "wire/name/lookup_key",
            "field 1 names the slot on the device",
            TENSOR,
            |b| doubles(b, pair("input0")),
        ),
        Case::new(
            "wire/shape/packed",
            "field 2 packed, several dimensions in one field",
            "page 2.1; user need 109",
            |b| shaped(b, Wire::new().packed(tensor::SHAPE, &[1, 2])),
        ),
        Case::new(
            "wire/shape/single",
            "field 2 bare, a dimension a field",
            "page 2.1; user need 109",
            |b| {
                let bare = Wire::new().number(tensor::SHAPE, 1);
                shaped(b, bare.number(tensor::SHAPE, 2))
            },
        ),
        Case::new(
            "wire/shape/mixed",
            "both forms of field 2 in one tensor add up in order",
            "page 2.1; user need 109",
            |b| {
                let mixed = Wire::new().packed(tensor::SHAPE, &[1]);
                shaped(b, mixed.number(tensor::SHAPE, 2))
            },
        ),
        Case::new(
            "wire/shape/none",
            "without field 2 a tensor is a scalar",
            "page 2.1; user need 44",
            scalar,
        ),
        Case::new(
            "wire/content/weight",
            "field 4 is the value of a weight that nobody gives",
            "page 2.1, content",
            content,
        ),
        Case::new(
            "wire/content/length",
            "an inline constant of another length is refused",
            "page 2.1, content",
            content_length,
        ),
        Case::new(
            "wire/dynamic_batch/flag",
            "field 5 frees the leading dimension and no other",
            "page 2.1; user need 50",
            dynamic,
        ),
        Case::new(
            "wire/presence/checkpoint_key",
            "field 6 that is absent is not field 6 that is empty",
            "page 2.1, proto3 optional",
            |b| presence(b, tensor::CHECKPOINT_KEY, |slot| slot.checkpoint_key()),
        ),
        Case::new(
            "wire/presence/user_input_key",
            "field 8 that is absent is not field 8 that is empty",
            "page 2.1, proto3 optional",
            |b| presence(b, tensor::USER_INPUT_KEY, |slot| slot.user_input_key()),
        ),
        Case::new(
            "wire/key/quotes_and_accents",
            "keys are bytes and come back as they were written",
            "user need 61",
            odd_keys,
        ),
        Case::new(
            "wire/key/not_text",
            "a key that is no text is refused by a strict contract, kept by a lenient one",
            "page 2.1; user need 61",
            key_not_text,
        ),
        Case::new(
            "wire/type/undefined",
            "an input without a role is the caller's",
            "torch_neuronx 1.13, trace",
            |b| doubles(b, pair("input0").number(tensor::TYPE, 0)),
        ),
        Case::new(
            "wire/type/user_input",
            "role 1 is the caller's",
            TYPE,
            |b| doubles(b, pair("input0").number(tensor::TYPE, 1)),
        ),
        Case::new("wire/type/state", "role 2 is a state", TYPE, |b| {
            held(b, 2, Role::State)
        }),
        Case::new("wire/type/weight", "role 3 is a weight", TYPE, |b| {
            held(b, 3, Role::Weight)
        }),
        Case::new(
            "wire/type/unknown",
            "another role is refused by a strict contract, the caller's in a lenient one",
            TYPE,
            unknown_role,
        ),
    ]
}

/// Fields of `ModelConfig` and `MetaNeff`, and the message as a whole.
fn messages<B: Backend>() -> Vec<Case<B>> {
    const CONFIG: &str = "page 2.2, ModelConfig";
    const NEFF: &str = "page 2.3, MetaNeff";
    const GOLDEN: &str = "page 9";
    vec![
        Case::new(
            "wire/config/numbers",
            "num_infer, timeout and optimal_ncg_size are read and change nothing",
            "page 2.2, fields 1 to 3; page 10",
            |b| {
                let config = Wire::new().number(1, 4).number(2, -1).number(3, 1 << 40);
                with_parts(b, |m| m.message(neff::CONFIG, config))
            },
        ),
        Case::new(
            "wire/config/return_aliases",
            "field 6 of the configuration shows aliased outputs",
            CONFIG,
            |b| aliased(b, &[0x08, 0x01, 0x10, 0x01], Some(&[0x30, 0x01])),
        ),
        Case::new(
            "wire/config/absent",
            "without a configuration aliased outputs are hidden",
            CONFIG,
            |b| aliased(b, &[0x08, 0x01, 0x10, 0x01], None),
        ),
        Case::new(
            "wire/config/merged",
            "two configurations are one, the later winning field by field",
            "page 2.2, proto3",
            |b| {
                with_parts(b, |m| {
                    let first = Wire::new().number(1, 4).number(6, 1);
                    let second = Wire::new().number(1, 9);
                    m.message(neff::CONFIG, first).message(neff::CONFIG, second)
                })
            },
        ),
        Case::new(
            "wire/name/model",
            "field 5 is the model's name, bytes of any kind",
            NEFF,
            model_name,
        ),
        Case::new(
            "wire/alias/entry",
            "an entry of field 6 is output then input",
            "page 2.3, OutputAliasesToEntry",
            |b| aliased(b, &[0x08, 0x01, 0x10, 0x01], Some(&[0x30, 0x01])),
        ),
        Case::new(
            "wire/alias/entry_reversed",
            "an entry may have its value before its key",
            "page 2.3, OutputAliasesToEntry",
            |b| aliased(b, &[0x10, 0x01, 0x08, 0x01], Some(&[0x30, 0x01])),
        ),
        Case::new(
            "wire/alias/no_value",
            "an entry without a value names input 0",
            "user need 52",
            alias_defaults,
        ),
        Case::new(
            "wire/counts/zero",
            "counts of 0 say nothing",
            "page 6, fields 7 to 9",
            |b| {
                with_parts(b, |m| {
                    m.number(neff::USER_INPUTS, 0).number(neff::WEIGHTS, 0)
                })
            },
        ),
        Case::new(
            "wire/counts/right",
            "counts that are right are accepted",
            "page 2.3, fields 7 to 9",
            |b| with_parts(b, |m| m.number(neff::USER_INPUTS, 1)),
        ),
        Case::new(
            "wire/counts/wrong",
            "a count that is wrong is refused",
            "page 2.3, fields 7 to 9",
            wrong_counts,
        ),
        Case::new(
            "wire/unknown/field",
            "fields that nobody knows are passed over, in every message",
            "user need 66",
            |b| {
                doubles_with(b, pair("input0").bytes(99, "later"), |m| {
                    m.number(99, 7)
                        .message(neff::CONFIG, Wire::new().bytes(77, "x"))
                        .raw(&[0x9d, 0x06, 1, 2, 3, 4])
                })
            },
        ),
        Case::new(
            "wire/order/any",
            "fields may stand in any order",
            "page 2, protobuf",
            any_order,
        ),
        Case::new(
            "wire/order/last_wins",
            "of a field that stands twice the later one counts",
            "page 2, protobuf",
            |b| {
                let twice = Wire::new()
                    .number(tensor::DATA_TYPE, 2)
                    .raw(&pair("input0").finish());
                doubles(b, twice)
            },
        ),
        Case::new(
            "wire/graph/in_neff",
            "a graph that the NEFF carries need not stand in the metaneff",
            "page 2.3, field 4",
            |b| with_parts(b, |m| m),
        ),
        Case::new(
            "wire/graph/empty",
            "an empty graph is no graph",
            "page 2.3, field 4",
            |b| with_parts(b, |m| m.bytes(neff::GRAPH, [])),
        ),
        Case::new(
            "wire/golden/section_9",
            "the page's example binds 32 floats in and 32 out",
            GOLDEN,
            |b| golden(b, &[]),
        ),
        Case::new(
            "wire/golden/explicit_zero",
            "the output's role may be written although it is 0",
            GOLDEN,
            |b| golden(b, &[0x38, 0x00]),
        ),
    ]
}

/// A NEFF of `x + x` over `f32[2]`.
fn doubling() -> Result<bytes::Bytes, Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let sum = graph.elementwise("add", &[x, x]);
    pack(graph.finish(&[sum]))
}

/// Runs `x + x` with this input and these further fields.
fn doubles_with<B: Backend>(
    backend: B,
    input: Wire,
    edit: impl FnOnce(Wire) -> Wire,
) -> Result<(), Failure> {
    let message = Wire::new()
        .message(neff::INPUT, input)
        .message(neff::OUTPUT, pair("output0"));
    let artifact = join(doubling()?, edit(message).finish(), &ContractOptions::new())?;
    let mut bench = Bench::new(backend, &artifact)?;
    equal(
        "x + x",
        bench.run(&[("input0", &[1.5, -3.0])])?,
        vec![3.0, -6.0],
    )
}

fn doubles<B: Backend>(backend: B, input: Wire) -> Result<(), Failure> {
    doubles_with(backend, input, |message| message)
}

/// Runs `x + x` with further fields of the whole message.
fn with_parts<B: Backend>(backend: B, edit: impl FnOnce(Wire) -> Wire) -> Result<(), Failure> {
    doubles_with(backend, pair("input0"), edit)
}

/// Runs `x + x` over `f32[1, 2]`, whose input has its shape in this form.
fn shaped<B: Backend>(backend: B, shape: Wire) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[1, 2]);
    let sum = graph.elementwise("add", &[x, x]);
    let named = |name: &str| {
        Wire::new()
            .bytes(tensor::NAME, name)
            .number(tensor::DATA_TYPE, 1)
    };
    let message = Wire::new()
        .message(neff::INPUT, named("input0").raw(&shape.finish()))
        .message(
            neff::OUTPUT,
            named("output0").packed(tensor::SHAPE, &[1, 2]),
        );
    let neff = pack(graph.finish(&[sum]))?;
    let artifact = join(neff, message.finish(), &ContractOptions::new())?;
    let mut bench = Bench::new(backend, &artifact)?;
    let slot = bench.model.slot(0).must()?;
    equal("the shape", slot.shape().dims(), &[1, 2])?;
    let x = HostTensor::from_slice([1, 2], &[1.0_f32, 4.0]).must()?;
    let x = bench.validate("input0", x)?;
    let executed = bench.session.bind([x]).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    equal(
        "x + x",
        outputs.get(0).must()?.to_vec::<f32>().must()?,
        vec![2.0, 8.0],
    )
}

fn scalar<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[]);
    let sum = graph.elementwise("add", &[x, x]);
    let named = |name: &str| {
        Wire::new()
            .bytes(tensor::NAME, name)
            .number(tensor::DATA_TYPE, 1)
    };
    let message = Wire::new()
        .message(neff::INPUT, named("input0"))
        .message(neff::OUTPUT, named("output0"));
    let neff = pack(graph.finish(&[sum]))?;
    let artifact = join(neff, message.finish(), &ContractOptions::new())?;
    let mut bench = Bench::new(backend, &artifact)?;
    let x = bench.validate("input0", HostTensor::scalar(2.5_f32))?;
    let executed = bench.session.bind([x]).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    equal(
        "x + x",
        outputs.get(0).must()?.to_vec::<f32>().must()?,
        vec![5.0],
    )
}

/// `x * w` over `f32[2]`, whose weight has this inline constant.
fn inline(constant: &[u8]) -> Result<metaneff_binding::Artifact, Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let w = graph.parameter(F32, &[2]);
    let product = graph.elementwise("multiply", &[x, w]);
    let weight = pair("input1")
        .number(tensor::TYPE, 3)
        .bytes(tensor::CONTENT, constant);
    let message = Wire::new()
        .message(neff::INPUT, pair("input0"))
        .message(neff::INPUT, weight)
        .message(neff::OUTPUT, pair("output0"));
    join(
        pack(graph.finish(&[product]))?,
        message.finish(),
        &ContractOptions::new(),
    )
}

fn content<B: Backend>(backend: B) -> Result<(), Failure> {
    let artifact = inline(&crate::raw::bytes_of(&[10.0, 100.0]))?;
    let mut bench = Bench::new(backend, &artifact)?;
    bench.model.load_weights(Vec::new()).must()?;
    equal(
        "x * w",
        bench.run(&[("input0", &[2.0, 3.0])])?,
        vec![20.0, 300.0],
    )?;
    // One that is given takes its place.
    let weight = bench.floats("input1", &[1.0, 1.0])?;
    bench.model.load_weights(vec![weight]).must()?;
    equal(
        "x * w",
        bench.run(&[("input0", &[2.0, 3.0])])?,
        vec![2.0, 3.0],
    )
}

fn content_length<B: Backend>(_backend: B) -> Result<(), Failure> {
    refused("a constant of 7 bytes for 8", inline(&[0; 7])).map(drop)
}

fn dynamic<B: Backend>(backend: B) -> Result<(), Failure> {
    let input = pair("input0").number(tensor::DYNAMIC_BATCH, 1);
    let message = Wire::new().message(neff::INPUT, input).message(
        neff::OUTPUT,
        pair("output0").number(tensor::DYNAMIC_BATCH, 1),
    );
    let artifact = join(doubling()?, message.finish(), &ContractOptions::new())?;
    let bench = Bench::new(backend, &artifact)?;
    let slot = bench.model.slot(0).must()?;
    holds("the flag is read", slot.has_dynamic_batch())?;
    let seven = HostTensor::from_vec([7], vec![0.0_f32; 7]).must()?;
    slot.validate(seven).must().map(drop)?;
    let wide = HostTensor::from_vec([2, 1], vec![0.0_f32; 2]).must()?;
    refused("another rank", slot.validate(wide)).map(drop)
}

fn presence<B: Backend>(
    backend: B,
    field: u32,
    key: fn(&metaneff_binding::Slot) -> Option<&[u8]>,
) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let y = graph.parameter(F32, &[2]);
    let sum = graph.elementwise("add", &[x, y]);
    let message = Wire::new()
        .message(neff::INPUT, pair("input0").bytes(field, []))
        .message(neff::INPUT, pair("input1"))
        .message(neff::OUTPUT, pair("output0"));
    let neff = pack(graph.finish(&[sum]))?;
    let artifact = join(neff, message.finish(), &ContractOptions::new())?;
    let mut bench = Bench::new(backend, &artifact)?;
    equal(
        "the empty key",
        key(bench.model.slot(0).must()?),
        Some(&b""[..]),
    )?;
    equal("the absent key", key(bench.model.slot(1).must()?), None)?;
    let sum = bench.run(&[("input0", &[1.0, 2.0]), ("input1", &[3.0, 4.0])])?;
    equal("x + y", sum, vec![4.0, 6.0])
}

fn odd_keys<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let y = graph.parameter(F32, &[2]);
    let difference = graph.elementwise("subtract", &[x, y]);
    let keyed = |name, key: &str| pair(name).bytes(tensor::USER_INPUT_KEY, key);
    let message = Wire::new()
        .message(neff::INPUT, keyed("input0", "b'x"))
        .message(neff::INPUT, keyed("input1", "é"))
        .message(neff::OUTPUT, pair("output0"));
    let neff = pack(graph.finish(&[difference]))?;
    let artifact = join(neff, message.finish(), &ContractOptions::new())?;
    let mut bench = Bench::new(backend, &artifact)?;
    let key = bench.model.slot("é").must()?.user_input_key();
    equal("the key's bytes", key, Some("é".as_bytes()))?;
    let difference = bench.run(&[("é", &[1.0, 1.0]), ("b'x", &[5.0, 7.0])])?;
    equal("x - y", difference, vec![4.0, 6.0])
}

fn key_not_text<B: Backend>(backend: B) -> Result<(), Failure> {
    let message = Wire::new()
        .message(
            neff::INPUT,
            pair("input0").bytes(tensor::CHECKPOINT_KEY, [0xff, 0xfe]),
        )
        .message(neff::OUTPUT, pair("output0"))
        .finish();
    let strict = join(doubling()?, message.clone(), &ContractOptions::new());
    refused("a key that is no text", strict)?;
    let artifact = join(doubling()?, message, &ContractOptions::new().lenient())?;
    let warned = |finding: &Finding| {
        matches!(
            finding,
            Finding::KeyNotUtf8 {
                kind: KeyKind::Checkpoint,
                ..
            }
        )
    };
    holds("it is a warning", artifact.warnings().iter().any(warned))?;
    let mut bench = Bench::new(backend, &artifact)?;
    let key = bench.model.slot(0).must()?.checkpoint_key();
    equal("the key's bytes", key, Some(&[0xff, 0xfe][..]))?;
    equal(
        "x + x",
        bench.run(&[("input0", &[1.0, 2.0])])?,
        vec![2.0, 4.0],
    )
}

/// An input of a role that no caller fills.
fn held<B: Backend>(backend: B, number: i64, role: Role) -> Result<(), Failure> {
    let message = Wire::new()
        .message(neff::INPUT, pair("input0").number(tensor::TYPE, number))
        .message(neff::OUTPUT, pair("output0"));
    let artifact = join(doubling()?, message.finish(), &ContractOptions::new())?;
    let mut bench = Bench::new(backend, &artifact)?;
    equal("the role", bench.model.slot(0).must()?.role(), role)?;
    equal("user inputs", bench.model.contract().user_inputs().len(), 0)?;
    let value = bench.floats("input0", &[4.0, 5.0])?;
    let states = match role {
        Role::State => bench.session.states(vec![value]).must()?,
        _ => {
            bench.model.load_weights(vec![value]).must()?;
            ().into()
        }
    };
    let (outputs, _) = bench.step(&[], states)?;
    equal("x + x", outputs, vec![vec![8.0, 10.0]])
}

fn unknown_role<B: Backend>(backend: B) -> Result<(), Failure> {
    let message = Wire::new()
        .message(neff::INPUT, pair("input0").number(tensor::TYPE, 9))
        .message(neff::OUTPUT, pair("output0"))
        .finish();
    let strict = join(doubling()?, message.clone(), &ContractOptions::new());
    refused("role 9", strict)?;
    let artifact = join(doubling()?, message, &ContractOptions::new().lenient())?;
    let mut bench = Bench::new(backend, &artifact)?;
    equal(
        "the role",
        bench.model.slot(0).must()?.role(),
        Role::UserInput,
    )?;
    equal(
        "x + x",
        bench.run(&[("input0", &[1.0, 2.0])])?,
        vec![2.0, 4.0],
    )
}

/// `(x, s + x)`, whose second output takes the second input's buffer by this
/// entry.
fn aliased<B: Backend>(backend: B, entry: &[u8], config: Option<&[u8]>) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[2]);
    let s = graph.parameter(F32, &[2]);
    let sum = graph.elementwise("add", &[s, x]);
    graph.alias(1, 1);
    let mut message = Wire::new()
        .message(neff::INPUT, pair("input0").number(tensor::TYPE, 1))
        .message(neff::INPUT, pair("input1").number(tensor::TYPE, 2))
        .message(neff::OUTPUT, pair("output0"))
        .message(neff::OUTPUT, pair("output1"))
        .bytes(neff::ALIAS, entry);
    if let Some(config) = config {
        message = message.bytes(neff::CONFIG, config);
    }
    let neff = pack(graph.finish(&[x, sum]))?;
    let artifact = join(neff, message.finish(), &ContractOptions::new())?;
    let mut bench = Bench::new(backend, &artifact)?;
    let mut states = bench.session.zero_states().must()?;
    for step in [1.0, 2.0] {
        let (outputs, next) = bench.step(&[("input0", &[1.0, 10.0])], states)?;
        let mut expected = vec![vec![1.0, 10.0]];
        expected.extend(config.map(|_| vec![step, 10.0 * step]));
        equal("visible outputs", outputs, expected)?;
        states = next;
    }
    let sum = states.get("input1").must()?.to_vec::<f32>().must()?;
    equal("the state", sum, vec![2.0, 20.0])
}

fn alias_defaults<B: Backend>(backend: B) -> Result<(), Failure> {
    let mut graph = Graph::new();
    let s = graph.parameter(F32, &[2]);
    let doubled = graph.elementwise("add", &[s, s]);
    let negated = graph.elementwise("negate", &[s]);
    graph.alias(2, 0);
    let message = Wire::new()
        .message(neff::INPUT, pair("input0").number(tensor::TYPE, 2))
        .message(neff::OUTPUT, pair("output0"))
        .message(neff::OUTPUT, pair("output1"))
        .message(neff::OUTPUT, pair("output2"))
        // Key 2 and no value: output 2 takes the buffer of input 0.
        .raw(&[0x32, 0x02, 0x08, 0x02]);
    let neff = pack(graph.finish(&[negated, s, doubled]))?;
    let artifact = join(neff, message.finish(), &ContractOptions::new())?;
    let mut bench = Bench::new(backend, &artifact)?;
    let start = bench.floats("input0", &[1.0, 3.0])?;
    let states = bench.session.states(vec![start]).must()?;
    let (outputs, states) = bench.step(&[], states)?;
    equal(
        "visible outputs",
        outputs,
        vec![vec![-1.0, -3.0], vec![1.0, 3.0]],
    )?;
    let state = states.get(0).must()?.to_vec::<f32>().must()?;
    equal("the state", state, vec![2.0, 6.0])
}

fn model_name<B: Backend>(backend: B) -> Result<(), Failure> {
    let message = Wire::new()
        .message(neff::INPUT, pair("input0"))
        .message(neff::OUTPUT, pair("output0"))
        .bytes(neff::NAME, [b'm', 0xff, 0]);
    let artifact = join(doubling()?, message.finish(), &ContractOptions::new())?;
    equal("the name", artifact.contract().name(), &[b'm', 0xff, 0][..])?;
    let mut bench = Bench::new(backend, &artifact)?;
    equal(
        "x + x",
        bench.run(&[("input0", &[1.0, 2.0])])?,
        vec![2.0, 4.0],
    )
}

fn wrong_counts<B: Backend>(backend: B) -> Result<(), Failure> {
    for (field, role) in [
        (neff::USER_INPUTS, Role::UserInput),
        (neff::STATES, Role::State),
        (neff::WEIGHTS, Role::Weight),
    ] {
        for count in [2, -1] {
            let message = Wire::new()
                .message(neff::INPUT, pair("input0"))
                .message(neff::OUTPUT, pair("output0"))
                .number(field, count)
                .finish();
            let answer =
                metaneff_binding::Artifact::from_bytes(doubling()?, message).map_err(Error::from);
            let error = refused("a wrong count", answer)?;
            let found = |findings: &ContractError| {
                findings.findings.iter().any(|finding| {
                    matches!(finding, Finding::RoleCount { role: own, declared, .. }
                        if *own == role && *declared == count)
                })
            };
            match &error {
                Error::Artifact(metaneff_binding::ArtifactError::Contract(error)) => {
                    holds("the finding names role and count", found(error))?;
                }
                other => return Err(Failure::new(format!("expected a finding, found {other}"))),
            }
        }
    }
    with_parts(backend, |message| message)
}

fn any_order<B: Backend>(backend: B) -> Result<(), Failure> {
    let input = Wire::new()
        .number(tensor::TYPE, 1)
        .number(tensor::DATA_TYPE, 1)
        .packed(tensor::SHAPE, &[2])
        .bytes(tensor::NAME, "input0");
    let message = Wire::new()
        .message(neff::CONFIG, Wire::new().number(6, 1))
        .message(neff::OUTPUT, pair("output0"))
        .bytes(neff::NAME, "late")
        .message(neff::INPUT, input);
    let artifact = join(doubling()?, message.finish(), &ContractOptions::new())?;
    let mut bench = Bench::new(backend, &artifact)?;
    equal(
        "x + x",
        bench.run(&[("input0", &[1.0, 2.0])])?,
        vec![2.0, 4.0],
    )
}

/// The bytes of the page's section 9, with `more` at the end of the output.
fn golden<B: Backend>(backend: B, more: &[u8]) -> Result<(), Failure> {
    let shape = [0x12, 0x04, 0x01, 0x01, 0x01, 0x20];
    let mut input = b"\x0a\x06input0".to_vec();
    input.extend(shape);
    input.extend([0x18, 0x01, 0x38, 0x01]);
    let mut output = b"\x0a\x07output0".to_vec();
    output.extend(shape);
    output.extend([0x18, 0x01]);
    output.extend(more);
    let mut message = vec![0x0a, 18];
    message.extend(input);
    message.extend([0x12, if more.is_empty() { 17 } else { 19 }]);
    message.extend(output);
    message.extend([0x1a, 0x02, 0x30, 0x01]);

    let mut graph = Graph::new();
    let x = graph.parameter(F32, &[1, 1, 1, 32]);
    let negated = graph.elementwise("negate", &[x]);
    let neff = pack(graph.finish(&[negated]))?;
    let artifact = join(neff, message, &ContractOptions::new())?;
    holds(
        "aliases are returned",
        artifact.contract().returns_aliases(),
    )?;
    let bench = Bench::new(backend, &artifact)?;
    let mut session = bench.session;
    let values: Vec<f32> = (0..32_u8).map(f32::from).collect();
    let x = HostTensor::from_slice([1, 1, 1, 32], &values).must()?;
    let x = session.slot("input0").must()?.validate(x).must()?;
    let executed = session.bind([x]).must()?.execute(()).must()?;
    let outputs = executed.tolerate_nan().into_outputs();
    let negated: Vec<f32> = values.iter().map(|value| -value).collect();
    equal(
        "-x",
        outputs.get("output0").must()?.to_vec::<f32>().must()?,
        negated,
    )
}
