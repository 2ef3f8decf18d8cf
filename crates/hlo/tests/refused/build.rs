//! Small modules, written in code.

use metaneff_schema::xla::{
    ConvolutionDimensionNumbers, DotDimensionNumbers, GatherDimensionNumbers, HloComputationProto,
    HloInputOutputAliasProto, HloInstructionProto, HloModuleProto, LiteralProto, PaddingConfig,
    PrimitiveType, ReplicaGroup, ScatterDimensionNumbers, ShapeProto, Window, WindowDimension,
    hlo_input_output_alias_proto::AliasEntryProto, hlo_instruction_proto::SliceDimensions,
    padding_config::PaddingConfigDimension,
};

pub(crate) const PRED: PrimitiveType = PrimitiveType::Pred;
pub(crate) const S32: PrimitiveType = PrimitiveType::S32;
pub(crate) const F32: PrimitiveType = PrimitiveType::F32;
pub(crate) const U64: PrimitiveType = PrimitiveType::U64;

pub(crate) fn array(element: PrimitiveType, dims: &[i64]) -> ShapeProto {
    ShapeProto {
        element_type: element.into(),
        dimensions: dims.to_vec(),
        ..ShapeProto::default()
    }
}

pub(crate) fn f32(dims: &[i64]) -> ShapeProto {
    array(F32, dims)
}

pub(crate) fn tuple(elements: &[ShapeProto]) -> ShapeProto {
    ShapeProto {
        element_type: PrimitiveType::Tuple.into(),
        tuple_shapes: elements.to_vec(),
        ..ShapeProto::default()
    }
}

/// A computation of `parameters`, then `op` on them all, its root. Ids count
/// from `first`.
pub(crate) fn computation(
    name: &str,
    first: i64,
    parameters: &[ShapeProto],
    op: HloInstructionProto,
) -> HloComputationProto {
    let mut instructions: Vec<HloInstructionProto> = parameters
        .iter()
        .zip(0..)
        .map(|(shape, number)| HloInstructionProto {
            name: format!("p{number}"),
            opcode: "parameter".into(),
            shape: Some(shape.clone()),
            parameter_number: number,
            id: first + number,
            ..HloInstructionProto::default()
        })
        .collect();
    let root = (first..).nth(parameters.len()).unwrap_or(first);
    let operand_ids = if op.operand_ids.is_empty() && op.opcode != "constant" {
        (first..root).collect()
    } else {
        op.operand_ids.clone()
    };
    instructions.push(HloInstructionProto {
        name: "root".into(),
        id: root,
        operand_ids,
        ..op
    });
    HloComputationProto {
        name: name.into(),
        instructions,
        id: first,
        root_id: root,
        ..HloComputationProto::default()
    }
}

pub(crate) fn module(computations: Vec<HloComputationProto>) -> HloModuleProto {
    HloModuleProto {
        name: "m".into(),
        entry_computation_id: computations.last().map_or(0, |entry| entry.id),
        computations,
        ..HloModuleProto::default()
    }
}

/// A module of one instruction on parameters.
pub(crate) fn of(opcode: &str, parameters: &[ShapeProto], shape: ShapeProto) -> HloModuleProto {
    with(opcode, parameters, shape, |_| {})
}

pub(crate) fn with(
    opcode: &str,
    parameters: &[ShapeProto],
    shape: ShapeProto,
    change: impl FnOnce(&mut HloInstructionProto),
) -> HloModuleProto {
    let mut op = HloInstructionProto {
        opcode: opcode.into(),
        shape: Some(shape),
        ..HloInstructionProto::default()
    };
    change(&mut op);
    module(vec![computation("entry", 1000, parameters, op)])
}

/// The sum of two scalars.
pub(crate) fn add(element: PrimitiveType) -> HloComputationProto {
    let scalar = array(element, &[]);
    let op = HloInstructionProto {
        opcode: "add".into(),
        shape: Some(scalar.clone()),
        ..HloInstructionProto::default()
    };
    computation("add", 0, &[scalar.clone(), scalar], op)
}

pub(crate) fn less(element: PrimitiveType) -> HloComputationProto {
    let scalar = array(element, &[]);
    let op = HloInstructionProto {
        opcode: "compare".into(),
        shape: Some(array(PRED, &[])),
        comparison_direction: "LT".into(),
        ..HloInstructionProto::default()
    };
    computation("less", 100, &[scalar.clone(), scalar], op)
}

/// A module whose entry's instruction calls `called`.
pub(crate) fn calling(
    called: Vec<HloComputationProto>,
    opcode: &str,
    parameters: &[ShapeProto],
    shape: ShapeProto,
    change: impl FnOnce(&mut HloInstructionProto),
) -> HloModuleProto {
    let ids = called.iter().map(|computation| computation.id).collect();
    let mut proto = with(opcode, parameters, shape, |op| {
        op.called_computation_ids = ids;
        change(op);
    });
    let entry = proto.computations.remove(0);
    proto.computations = called;
    proto.computations.push(entry);
    proto
}

pub(crate) fn window(size: i64) -> Window {
    Window {
        dimensions: vec![WindowDimension {
            size,
            stride: 1,
            window_dilation: 1,
            base_dilation: 1,
            ..WindowDimension::default()
        }],
    }
}

pub(crate) fn dot(lhs: &[i64], rhs: &[i64]) -> impl FnOnce(&mut HloInstructionProto) {
    let numbers = DotDimensionNumbers {
        lhs_contracting_dimensions: lhs.to_vec(),
        rhs_contracting_dimensions: rhs.to_vec(),
        ..DotDimensionNumbers::default()
    };
    |op| op.dot_dimension_numbers = Some(numbers)
}

pub(crate) fn dimensions(dims: &[i64]) -> impl FnOnce(&mut HloInstructionProto) {
    let dims = dims.to_vec();
    |op| op.dimensions = dims
}

pub(crate) fn slice(start: i64, limit: i64, stride: i64) -> impl FnOnce(&mut HloInstructionProto) {
    move |op| {
        op.slice_dimensions = vec![SliceDimensions {
            start,
            limit,
            stride,
        }];
    }
}

pub(crate) fn padding(low: i64, high: i64, interior: i64) -> impl FnOnce(&mut HloInstructionProto) {
    let dimension = PaddingConfigDimension {
        edge_padding_low: low,
        edge_padding_high: high,
        interior_padding: interior,
    };
    move |op| {
        op.padding_config = Some(PaddingConfig {
            dimensions: vec![dimension],
        });
    }
}

pub(crate) fn conv(kernel_features: i64) -> HloModuleProto {
    let parameters = [f32(&[1, 2, 5]), f32(&[kernel_features, 3, 3])];
    with("convolution", &parameters, f32(&[1, 3, 3]), |op| {
        op.window = Some(window(3));
        op.convolution_dimension_numbers = Some(ConvolutionDimensionNumbers {
            input_batch_dimension: 0,
            input_feature_dimension: 1,
            input_spatial_dimensions: vec![2],
            kernel_input_feature_dimension: 0,
            kernel_output_feature_dimension: 1,
            kernel_spatial_dimensions: vec![2],
            output_batch_dimension: 0,
            output_feature_dimension: 1,
            output_spatial_dimensions: vec![2],
        });
    })
}

pub(crate) fn gather(
    sizes: &[i64],
    change: impl FnOnce(&mut GatherDimensionNumbers),
) -> HloModuleProto {
    let mut numbers = GatherDimensionNumbers {
        offset_dims: vec![1],
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: 1,
        ..GatherDimensionNumbers::default()
    };
    change(&mut numbers);
    with(
        "gather",
        &[f32(&[5, 4]), array(S32, &[3])],
        f32(&[3, 4]),
        |op| {
            op.gather_dimension_numbers = Some(numbers);
            op.gather_slice_sizes = sizes.to_vec();
        },
    )
}

pub(crate) fn scatter(
    updates: &[i64],
    change: impl FnOnce(&mut ScatterDimensionNumbers),
) -> HloModuleProto {
    let mut numbers = ScatterDimensionNumbers {
        update_window_dims: vec![1],
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDimensionNumbers::default()
    };
    change(&mut numbers);
    let parameters = [f32(&[5, 4]), array(S32, &[3]), f32(updates)];
    calling(vec![add(F32)], "scatter", &parameters, f32(&[5, 4]), |op| {
        op.scatter_dimension_numbers = Some(numbers);
    })
}

pub(crate) fn groups(lists: &[&[i64]]) -> Vec<ReplicaGroup> {
    lists
        .iter()
        .map(|ids| ReplicaGroup {
            replica_ids: ids.to_vec(),
        })
        .collect()
}

/// An `all-reduce` of two numbers.
pub(crate) fn all_reduce(change: impl FnOnce(&mut HloInstructionProto)) -> HloModuleProto {
    calling(
        vec![add(F32)],
        "all-reduce",
        &[f32(&[2])],
        f32(&[2]),
        change,
    )
}

/// A `reduce-scatter` of four numbers over groups of two.
pub(crate) fn reduce_scatter(lists: &[&[i64]]) -> HloModuleProto {
    let called = vec![add(F32)];
    calling(called, "reduce-scatter", &[f32(&[4])], f32(&[2]), |op| {
        op.dimensions = vec![0];
        op.replica_groups = groups(lists);
    })
}

/// A collective of arrays along their only dimension.
pub(crate) fn along(opcode: &str, size: i64, result: i64, lists: &[&[i64]]) -> HloModuleProto {
    with(opcode, &[f32(&[size])], f32(&[result]), |op| {
        op.dimensions = vec![0];
        op.replica_groups = groups(lists);
    })
}

pub(crate) fn constant(literal: LiteralProto) -> HloModuleProto {
    with("constant", &[], f32(&[2]), |op| {
        op.literal = Some(Box::new(literal));
    })
}

pub(crate) fn literal(values: &[f32]) -> LiteralProto {
    LiteralProto {
        shape: Some(f32(&[2])),
        f32s: values.to_vec(),
        ..LiteralProto::default()
    }
}

pub(crate) fn changed(
    mut proto: HloModuleProto,
    change: impl FnOnce(&mut HloModuleProto),
) -> HloModuleProto {
    change(&mut proto);
    proto
}

pub(crate) fn vectors(opcode: &str) -> HloModuleProto {
    of(opcode, &[f32(&[2]), f32(&[2])], f32(&[2]))
}

pub(crate) fn alias(output: &[i64], parameter_number: i64) -> HloInputOutputAliasProto {
    let entry = AliasEntryProto {
        output_shape_index: output.to_vec(),
        parameter_number,
        ..AliasEntryProto::default()
    };
    HloInputOutputAliasProto {
        entries: vec![entry],
    }
}
