//! Contracts beside their graphs.

use metaneff_schema::xla::hlo_input_output_alias_proto::AliasEntryProto;
use metaneff_schema::xla::{
    HloComputationProto, HloInputOutputAliasProto, HloInstructionProto, HloModuleProto,
    PrimitiveType, ProgramShapeProto, ShapeProto,
};
use prost::Message;

use super::*;

fn array(element_type: PrimitiveType, dimensions: &[i64]) -> ShapeProto {
    ShapeProto {
        element_type: element_type.into(),
        dimensions: dimensions.to_vec(),
        ..ShapeProto::default()
    }
}

fn tuple(shapes: Vec<ShapeProto>) -> ShapeProto {
    ShapeProto {
        element_type: PrimitiveType::Tuple.into(),
        tuple_shapes: shapes,
        ..ShapeProto::default()
    }
}

fn module(parameters: Vec<ShapeProto>, result: ShapeProto) -> HloModuleProto {
    HloModuleProto {
        name: "m".to_owned(),
        computations: vec![HloComputationProto {
            id: 7,
            program_shape: Some(ProgramShapeProto {
                parameters,
                result: Some(result),
                ..ProgramShapeProto::default()
            }),
            ..HloComputationProto::default()
        }],
        entry_computation_id: 7,
        ..HloModuleProto::default()
    }
}

fn with_graph(mut message: MetaNeff, module: &HloModuleProto) -> MetaNeff {
    message.serialized_graph_def = module.encode_to_vec().into();
    message
}

#[test]
fn the_graph_says_what_stored_elements_mean() {
    let base = message(
        vec![
            tensor("input0", &[1], DataType::Int32),
            tensor("input1", &[1], DataType::Int8),
            tensor("input2", &[1], DataType::Uint8),
        ],
        vec![tensor("output0", &[1], DataType::Int32)],
    );
    let graph = module(
        vec![
            array(PrimitiveType::U32, &[1]),
            array(PrimitiveType::F8e4m3fn, &[1]),
            array(PrimitiveType::Pred, &[1]),
        ],
        array(PrimitiveType::U32, &[1]),
    );
    let contract = strict(&with_graph(base, &graph)).unwrap();
    let slot = contract.slot(0).unwrap();
    assert_eq!(slot.dtype(), Some(DType::U32));
    assert_eq!(slot.stored_dtype(), Some(DType::I32));
    assert!(slot.accepts(DType::U32) && slot.accepts(DType::I32));
    // An 8-bit float that is stored as an integer is no integer.
    let float = contract.slot(1).unwrap();
    assert!(float.accepts(DType::F8E4M3FN) && !float.accepts(DType::I8));
    assert!(!float.accepts(DType::F8E5M2));
    let truth = contract.slot(2).unwrap();
    assert!(truth.accepts(DType::Bool) && truth.accepts(DType::U8));
}

#[test]
fn the_graph_has_to_agree() {
    let x = || tensor("input0", &[2], DataType::Float);
    let y = |name| tensor(name, &[2], DataType::Float);
    let f32s = |dims: &[i64]| array(PrimitiveType::F32, dims);

    // A non-tuple root is one output.
    let single = with_graph(
        message(vec![x()], vec![y("output0")]),
        &module(vec![f32s(&[2])], f32s(&[2])),
    );
    assert!(strict(&single).is_ok());

    // Two results, one output.
    let lost = with_graph(
        message(vec![x()], vec![y("output0")]),
        &module(vec![f32s(&[2])], tuple(vec![f32s(&[2]), f32s(&[2])])),
    );
    let expected = Finding::GraphCount {
        side: Side::Output,
        contract: 1,
        graph: 2,
    };
    refused(&lost, &expected);
    assert_eq!(lenient(&lost).unwrap_err().findings, [expected]);

    // No results at all.
    let none = with_graph(
        message(vec![x()], vec![]),
        &module(vec![f32s(&[2])], tuple(vec![])),
    );
    assert!(strict(&none).is_ok());

    // Another type of the same width, and another shape of the same size.
    let other = with_graph(
        message(vec![x()], vec![y("output0")]),
        &module(vec![array(PrimitiveType::S32, &[2])], f32s(&[1, 2])),
    );
    assert_eq!(
        findings(&other),
        [
            Finding::GraphDType {
                side: Side::Input,
                ordinal: 0,
                name: "input0".to_owned(),
                stored: DType::F32,
                graph: "S32".to_owned(),
                same_size: true,
            },
            Finding::GraphShape {
                side: Side::Output,
                ordinal: 0,
                name: "output0".to_owned(),
                contract: Shape::from([2]),
                graph: vec![1, 2],
                same_size: true,
            },
        ]
    );
    assert_eq!(lenient(&other).unwrap().warnings().len(), 2);

    let wide = with_graph(
        message(vec![x()], vec![y("output0")]),
        &module(vec![f32s(&[2])], array(PrimitiveType::F64, &[2])),
    );
    assert_eq!(lenient(&wide).unwrap_err().findings.len(), 1);
}

#[test]
fn the_graph_and_the_contract_have_the_same_aliases() {
    let mut graph = module(
        vec![tuple(vec![
            array(PrimitiveType::F32, &[3]),
            array(PrimitiveType::F32, &[2]),
        ])],
        tuple(vec![
            array(PrimitiveType::F32, &[2]),
            array(PrimitiveType::F32, &[3]),
        ]),
    );
    graph.input_output_alias = Some(HloInputOutputAliasProto {
        entries: vec![AliasEntryProto {
            output_shape_index: vec![0],
            parameter_number: 0,
            parameter_shape_index: vec![1],
            kind: 2,
        }],
    });
    let base = message(
        vec![
            tensor("input0", &[3], DataType::Float),
            tensor("input1", &[2], DataType::Float),
        ],
        vec![
            tensor("output0", &[2], DataType::Float),
            tensor("output1", &[3], DataType::Float),
        ],
    );
    let same = MetaNeff {
        output_aliases_to: [(0, 1)].into(),
        ..base.clone()
    };
    assert!(strict(&with_graph(same, &graph)).is_ok());
    assert_eq!(
        findings(&with_graph(base.clone(), &graph)),
        [Finding::AliasOnlyInGraph {
            output: 0,
            input: 1
        }]
    );
    let other = MetaNeff {
        output_aliases_to: [(1, 0)].into(),
        ..base
    };
    assert_eq!(
        findings(&with_graph(other.clone(), &graph)),
        [
            Finding::AliasOnlyInGraph {
                output: 0,
                input: 1
            },
            Finding::AliasOnlyInContract {
                output: 1,
                input: 0
            },
        ]
    );

    graph.input_output_alias.as_mut().unwrap().entries[0].parameter_number = 5;
    assert!(matches!(
        findings(&with_graph(other, &graph))[..],
        [Finding::GraphNotReadable { .. }]
    ));
}

#[test]
fn a_graph_without_program_shapes_is_read_from_its_instructions() {
    let mut graph = module(vec![], tuple(vec![]));
    let entry = &mut graph.computations[0];
    entry.program_shape = None;
    entry.root_id = 3;
    let parameter = |id, number, dims: &[i64]| HloInstructionProto {
        id,
        opcode: "parameter".to_owned(),
        parameter_number: number,
        shape: Some(array(PrimitiveType::F32, dims)),
        ..HloInstructionProto::default()
    };
    entry.instructions = vec![
        parameter(2, 1, &[3]),
        parameter(1, 0, &[2]),
        HloInstructionProto {
            id: 3,
            opcode: "add".to_owned(),
            shape: Some(array(PrimitiveType::F32, &[2])),
            ..HloInstructionProto::default()
        },
    ];
    let base = message(
        vec![
            tensor("input0", &[2], DataType::Float),
            tensor("input1", &[3], DataType::Float),
        ],
        vec![tensor("output0", &[2], DataType::Float)],
    );
    assert!(strict(&with_graph(base.clone(), &graph)).is_ok());

    graph.computations[0].root_id = 9;
    assert!(matches!(
        findings(&with_graph(base.clone(), &graph))[..],
        [Finding::GraphNotReadable { .. }]
    ));
    let broken = MetaNeff {
        serialized_graph_def: vec![0x0a, 0xff].into(),
        ..base
    };
    assert!(matches!(
        lenient(&broken).unwrap().warnings(),
        [Finding::GraphNotReadable { .. }]
    ));
    let options = ContractOptions::new().without_graph();
    assert!(
        Contract::new(&broken, &options)
            .unwrap()
            .warnings()
            .is_empty()
    );
}
