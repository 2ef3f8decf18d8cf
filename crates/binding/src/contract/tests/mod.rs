//! What a contract takes and what it refuses, by the rows of real producers'
//! and users' mistakes.

mod graph;
mod join;

use metaneff_schema::metaneff::meta_tensor::{DataType, Type};
use metaneff_schema::metaneff::{MetaNeff, MetaTensor, ModelConfig};
use proptest::prelude::*;

use super::*;
use crate::dtype::DType;
use crate::shape::{Shape, SizeOverflow};

fn tensor(name: &str, shape: &[i64], data_type: DataType) -> MetaTensor {
    MetaTensor {
        name: name.to_owned().into(),
        shape: shape.to_vec(),
        data_type: data_type.into(),
        ..MetaTensor::default()
    }
}

fn message(inputs: Vec<MetaTensor>, outputs: Vec<MetaTensor>) -> MetaNeff {
    MetaNeff {
        input_tensors: inputs,
        output_tensors: outputs,
        ..MetaNeff::default()
    }
}

fn strict(message: &MetaNeff) -> Result<Contract, ContractError> {
    Contract::new(message, &ContractOptions::new())
}

fn lenient(message: &MetaNeff) -> Result<Contract, ContractError> {
    Contract::new(message, &ContractOptions::new().lenient())
}

fn findings(message: &MetaNeff) -> Vec<Finding> {
    strict(message).unwrap_err().findings
}

/// A strict contract has this one thing wrong.
fn refused(message: &MetaNeff, expected: &Finding) {
    assert_eq!(findings(message), std::slice::from_ref(expected));
}

#[test]
fn the_page_example_is_a_contract() {
    // Section 9 of the reference page, field for field.
    let mut input = tensor("input0", &[1, 1, 1, 32], DataType::Float);
    input.r#type = Type::UserInput.into();
    let message = MetaNeff {
        model_config: Some(ModelConfig {
            return_aliases: true,
            ..ModelConfig::default()
        }),
        ..message(
            vec![input],
            vec![tensor("output0", &[1, 1, 1, 32], DataType::Float)],
        )
    };
    let contract = strict(&message).unwrap();
    let slot = contract.slot(0).unwrap();
    assert_eq!(slot.name(), "input0");
    assert_eq!(slot.role(), Role::UserInput);
    assert_eq!(slot.dtype(), Some(DType::F32));
    assert_eq!(slot.byte_size(), 128);
    assert!(contract.returns_aliases());
    assert!(contract.warnings().is_empty());
    assert_eq!(contract.output(0).unwrap().var_id(), VarId::Assumed(1));
    assert!(!contract.is_joined());
}

#[test]
fn duplicate_and_missing_names_are_named() {
    let x = |name| tensor(name, &[2], DataType::Float);
    let duplicate = message(vec![], vec![x("output0"), x("output0")]);
    let expected = Finding::DuplicateName {
        side: Side::Output,
        name: "output0".to_owned(),
        first: 0,
        second: 1,
    };
    refused(&duplicate, &expected);
    assert_eq!(lenient(&duplicate).unwrap_err().findings, [expected]);

    let gap = message(vec![x("input0"), x("input2")], vec![]);
    let expected = Finding::MissingSlot {
        side: Side::Input,
        index: 1,
    };
    refused(&gap, &expected);
    assert_eq!(lenient(&gap).unwrap_err().findings, [expected]);
}

#[test]
fn free_names_are_a_warning_of_a_lenient_contract() {
    let free = message(vec![tensor("tokens", &[2], DataType::Int32)], vec![]);
    let expected = Finding::UnexpectedName {
        side: Side::Input,
        ordinal: 0,
        expected: "input0".to_owned(),
        found: "tokens".to_owned(),
    };
    refused(&free, &expected);
    let contract = lenient(&free).unwrap();
    assert_eq!(contract.warnings(), [expected]);
    assert_eq!(contract.slot("tokens").unwrap().ordinal().index(), 0);

    // A leading zero is another name.
    let padded = message(vec![tensor("input00", &[2], DataType::Int32)], vec![]);
    assert!(matches!(
        findings(&padded)[..],
        [Finding::UnexpectedName { .. }]
    ));
    // Names out of order: position and number disagree.
    let swapped = message(
        vec![
            tensor("input1", &[2], DataType::Int32),
            tensor("input0", &[2], DataType::Int32),
        ],
        vec![],
    );
    assert_eq!(findings(&swapped).len(), 2);
}

#[test]
fn names_and_dimensions_that_no_runtime_takes_are_reported_together() {
    // Row 111: a name of bytes ff fe, and dimension -1 of a float.
    let input = MetaTensor {
        name: vec![0xff, 0xfe].into(),
        ..MetaTensor::default()
    };
    let output = MetaTensor {
        shape: vec![-1],
        data_type: 1,
        ..MetaTensor::default()
    };
    let found = findings(&message(vec![input], vec![output]));
    assert!(found.contains(&Finding::NameNotUtf8 {
        side: Side::Input,
        ordinal: 0,
        bytes: vec![0xff, 0xfe],
    }));
    assert!(found.contains(&Finding::BadDimension {
        side: Side::Output,
        ordinal: 0,
        name: String::new(),
        position: 0,
        value: -1,
    }));
    assert!(found.contains(&Finding::NoDataType {
        side: Side::Input,
        ordinal: 0,
        name: "\u{fffd}\u{fffd}".to_owned(),
        number: 0,
    }));

    for name in ["", "a\0b", &"x".repeat(256)] {
        let found = lenient(&message(vec![tensor(name, &[1], DataType::Float)], vec![]))
            .unwrap_err()
            .findings;
        assert!(
            found
                .iter()
                .any(|f| matches!(f, Finding::NameNotUsable { .. })),
            "{name:?}"
        );
    }
}

#[test]
fn sizes_are_exact_or_an_overflow() {
    let large = message(
        vec![tensor("input0", &[65_536, 65_536], DataType::Float)],
        vec![],
    );
    let contract = strict(&large).unwrap();
    assert_eq!(contract.slot(0).unwrap().byte_size(), 17_179_869_184);

    let huge = message(
        vec![tensor("input0", &[1 << 32, 1 << 32], DataType::Float)],
        vec![],
    );
    let expected = Finding::SizeOverflow {
        side: Side::Input,
        ordinal: 0,
        name: "input0".to_owned(),
        source: SizeOverflow {
            shape: Shape::from([1 << 32, 1 << 32]),
            dtype: DType::F32,
        },
    };
    assert_eq!(findings(&huge), [expected]);
}

#[test]
fn unknown_data_types_wait_until_they_are_bound() {
    let mut input = tensor("input0", &[2], DataType::Float);
    input.data_type = 99;
    let contract = strict(&message(vec![input], vec![])).unwrap();
    let slot = contract.slot(0).unwrap();
    assert_eq!(slot.dtype(), None);
    assert_eq!(slot.data_type(), 99);
    let rejected = slot
        .validate(HostTensor::from_slice([2], &[1.0_f32, 2.0]).unwrap())
        .unwrap_err();
    assert_eq!(
        *rejected.reason(),
        ValidateError::UnknownDataType {
            ordinal: Ordinal::new(0),
            name: "input0".to_owned(),
            number: 99,
        }
    );

    // The reserved gap and the undefined number stand for nothing at all.
    for number in [0, 11] {
        let mut input = tensor("input0", &[2], DataType::Float);
        input.data_type = number;
        let found = lenient(&message(vec![input], vec![])).unwrap_err().findings;
        assert!(matches!(found[..], [Finding::NoDataType { number: n, .. }] if n == number));
    }
}

#[test]
fn alias_mistakes_are_four_different_errors() {
    let base = |aliases: &[(i64, i64)]| MetaNeff {
        output_aliases_to: aliases.iter().copied().collect(),
        ..message(
            vec![tensor("input0", &[2], DataType::Float)],
            vec![
                tensor("output0", &[2], DataType::Float),
                tensor("output1", &[2], DataType::Float),
                tensor("output2", &[3], DataType::Float),
            ],
        )
    };
    let cases = [
        (
            base(&[(0, 0), (1, 0)]),
            Finding::AliasedTwice {
                input: 0,
                first: 0,
                second: 1,
            },
        ),
        (
            base(&[(0, 9)]),
            Finding::AliasInputOutOfRange {
                output: 0,
                input: 9,
                inputs: 1,
            },
        ),
        (
            base(&[(-1, 0)]),
            Finding::AliasOutputOutOfRange {
                output: -1,
                input: 0,
                outputs: 3,
            },
        ),
        (
            base(&[(2, 0)]),
            Finding::AliasMismatch {
                output: 2,
                output_shape: Shape::from([3]),
                output_type: 1,
                input: 0,
                input_shape: Shape::from([2]),
                input_type: 1,
                same_size: false,
            },
        ),
    ];
    for (message, expected) in cases {
        refused(&message, &expected);
        assert_eq!(lenient(&message).unwrap_err().findings, [expected]);
    }
    let contract = strict(&base(&[(1, 0)])).unwrap();
    assert_eq!(contract.slot(0).unwrap().alias(), Some(Ordinal::new(1)));
    assert_eq!(contract.output(1).unwrap().alias(), Some(Ordinal::new(0)));
    assert!(!contract.is_visible(contract.output(1).unwrap()));
}

#[test]
fn counts_matter_only_where_they_are_stated() {
    let mut state = tensor("input1", &[2], DataType::Float);
    state.r#type = Type::InputState.into();
    let base = message(vec![tensor("input0", &[2], DataType::Float), state], vec![]);
    assert!(strict(&base).is_ok());
    let stated = MetaNeff {
        num_user_inputs: 1,
        num_states: 2,
        ..base
    };
    let expected = Finding::RoleCount {
        role: Role::State,
        declared: 2,
        found: 1,
    };
    refused(&stated, &expected);
    assert_eq!(lenient(&stated).unwrap().warnings(), [expected]);
}

#[test]
fn keys_keep_their_bytes() {
    let mut input = tensor("input0", &[2], DataType::Float);
    input.checkpoint_key = Some(vec![b'b', b'\'', b'x'].into());
    input.user_input_key = Some("é".into());
    let contract = strict(&message(vec![input], vec![])).unwrap();
    assert_eq!(
        contract.slot("é").unwrap().checkpoint_key(),
        Some(&b"b'x"[..])
    );
    assert_eq!(contract.slot("b'x").unwrap().ordinal().index(), 0);

    let mut input = tensor("input0", &[2], DataType::Float);
    input.user_input_key = Some(vec![0xff].into());
    let odd = message(vec![input], vec![]);
    assert!(matches!(findings(&odd)[..], [Finding::KeyNotUtf8 { .. }]));
    let contract = lenient(&odd).unwrap();
    assert_eq!(
        contract.slot(0).unwrap().user_input_key(),
        Some(&[0xff][..])
    );
}

#[test]
fn shared_keys_are_found_by_neither() {
    let keyed = |name| MetaTensor {
        user_input_key: Some("x".into()),
        ..tensor(name, &[2], DataType::Float)
    };
    let contract = strict(&message(vec![keyed("input0"), keyed("input1")], vec![])).unwrap();
    assert!(matches!(
        contract.warnings(),
        [Finding::DuplicateKey {
            first: 0,
            second: 1,
            ..
        }]
    ));
    assert_eq!(
        contract.slot("x").unwrap_err(),
        LookupError::Ambiguous {
            side: Side::Input,
            key: "x".to_owned(),
            first: Ordinal::new(0),
            second: Ordinal::new(1),
        }
    );
    assert_eq!(
        contract.slot(2).unwrap_err(),
        LookupError::OutOfRange {
            side: Side::Input,
            ordinal: 2,
            count: 2,
        }
    );
}

#[test]
fn checks_run_in_the_order_of_the_native_runtime() {
    let mut input = tensor("input0", &[2, 3], DataType::Float);
    input.allow_dynamic_batch_size = true;
    let contract = strict(&message(
        vec![input],
        vec![tensor("output0", &[2], DataType::Float)],
    ))
    .unwrap();
    let slot = contract.slot(0).unwrap();
    let zeros = |dtype, shape: &[usize]| HostTensor::zeros(dtype, shape).unwrap();

    // Type before shape.
    let rejected = slot.validate(zeros(DType::F16, &[9])).unwrap_err();
    assert_eq!(
        *rejected.reason(),
        ValidateError::DType {
            ordinal: Ordinal::new(0),
            name: "input0".to_owned(),
            expected: DType::F32,
            stored: DType::F32,
            found: DType::F16,
        }
    );
    assert_eq!(rejected.into_input().dtype(), DType::F16);

    assert!(slot.validate(zeros(DType::F32, &[7, 3])).is_ok());
    let rejected = slot.validate(zeros(DType::F32, &[2, 4])).unwrap_err();
    assert_eq!(
        *rejected.reason(),
        ValidateError::Shape {
            ordinal: Ordinal::new(0),
            name: "input0".to_owned(),
            expected: Shape::from([2, 3]),
            dynamic_batch: true,
            found: Shape::from([2, 4]),
        }
    );
    assert_eq!(
        rejected.to_string(),
        "input 0 `input0` takes shape [2, 3] with any leading dimension, found [2, 4]"
    );
    let output = contract.output(0).unwrap();
    assert!(matches!(
        output
            .validate(zeros(DType::F32, &[2]))
            .unwrap_err()
            .reason(),
        ValidateError::Output { .. }
    ));
}

#[test]
fn a_scalar_is_never_part_of_a_batch() {
    let mut input = tensor("input0", &[], DataType::Float);
    input.allow_dynamic_batch_size = true;
    let message = message(vec![input], vec![]);
    let contract = strict(&message).unwrap();
    assert!(matches!(
        contract.warnings(),
        [Finding::DynamicScalar { .. }]
    ));
    let slot = contract.slot(0).unwrap();
    assert!(!slot.has_dynamic_batch());
    assert_eq!(slot.byte_size(), 4);
    assert!(matches!(
        slot.validate(HostTensor::scalar(1.0_f32))
            .unwrap_err()
            .reason(),
        ValidateError::DynamicScalar { .. }
    ));
    let contract = lenient(&message).unwrap();
    assert!(
        contract
            .slot(0)
            .unwrap()
            .validate(HostTensor::scalar(1.0_f32))
            .is_ok()
    );
}

#[test]
fn same_shaped_inputs_are_not_told_apart_by_position() {
    let x = |name| tensor(name, &[2], DataType::Float);
    let contract = strict(&message(vec![x("input0"), x("input1")], vec![])).unwrap();
    let tensors = || {
        vec![
            HostTensor::scalar(1.0_f32),
            HostTensor::from_vec([2], vec![1.0_f32, 2.0]).unwrap(),
        ]
    };
    let rejected = contract
        .validate_in_order(tensors()[..1].to_vec(), Order::Unambiguous)
        .unwrap_err();
    assert_eq!(
        *rejected.reason(),
        ValidateError::Count {
            expected: 2,
            found: 1,
        }
    );
    let rejected = contract
        .validate_in_order(tensors(), Order::Unambiguous)
        .unwrap_err();
    assert!(matches!(rejected.reason(), ValidateError::Shape { .. }));
    assert_eq!(rejected.into_input().len(), 2);

    let both = vec![tensors().remove(1), tensors().remove(1)];
    let rejected = contract
        .validate_in_order(both, Order::Unambiguous)
        .unwrap_err();
    assert_eq!(
        *rejected.reason(),
        ValidateError::AmbiguousOrder {
            first: Ordinal::new(0),
            first_name: "input0".to_owned(),
            second: Ordinal::new(1),
            second_name: "input1".to_owned(),
            dtype: DType::F32,
            shape: Shape::from([2]),
        }
    );
    let confirmed = contract
        .validate_in_order(rejected.into_input(), Order::Confirmed)
        .unwrap();
    assert_eq!(confirmed[1].ordinal().index(), 1);
    assert_eq!(confirmed[1].contract(), contract.id());
}

fn any_tensor() -> impl Strategy<Value = MetaTensor> {
    let name = prop_oneof![
        "(input|output)[0-3]".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    let dim = prop_oneof![0_i64..5, any::<i64>()];
    (
        name,
        prop::collection::vec(dim, 0..4),
        prop_oneof![0_i32..20, any::<i32>()],
        any::<bool>(),
        prop_oneof![-1_i32..5, any::<i32>()],
        prop::option::of(prop::collection::vec(any::<u8>(), 0..3)),
    )
        .prop_map(|(name, shape, data_type, batch, role, key)| MetaTensor {
            name: name.into(),
            shape,
            data_type,
            allow_dynamic_batch_size: batch,
            r#type: role,
            checkpoint_key: key.clone().map(Into::into),
            user_input_key: key.map(Into::into),
            content: vec![1].into(),
        })
}

fn any_message() -> impl Strategy<Value = MetaNeff> {
    let index = || prop_oneof![-1_i64..4, any::<i64>()];
    (
        prop::collection::vec(any_tensor(), 0..4),
        prop::collection::vec(any_tensor(), 0..4),
        prop::collection::btree_map(index(), index(), 0..4),
        prop::collection::vec(any::<u8>(), 0..16),
        index(),
    )
        .prop_map(|(inputs, outputs, aliases, graph, count)| MetaNeff {
            output_aliases_to: aliases,
            serialized_graph_def: graph.into(),
            num_states: count,
            ..message(inputs, outputs)
        })
}

proptest! {
    #[test]
    fn a_contract_never_panics_and_keeps_its_promises(message in any_message()) {
        let _ = strict(&message);
        if let Ok(contract) = lenient(&message) {
            for slot in contract.inputs().iter().chain(contract.outputs()) {
                prop_assert_eq!(contract.side(slot.side())[slot.ordinal().index()].name(), slot.name());
                if let Some(dtype) = slot.stored_dtype() {
                    prop_assert_eq!(slot.shape().byte_size(dtype), Ok(slot.byte_size()));
                }
            }
            for output in contract.outputs() {
                if let Some(input) = output.alias() {
                    let donor = &contract.inputs()[input.index()];
                    prop_assert_eq!(donor.alias(), Some(output.ordinal()));
                    prop_assert_eq!(donor.byte_size(), output.byte_size());
                }
            }
        }
    }
}
