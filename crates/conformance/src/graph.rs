//! Small HLO modules, written in code.
//!
//! The cases need graphs of a handful of instructions whose results can be
//! worked out by hand. [`Graph`] builds them as an `HloModuleProto` with sparse
//! 64-bit ids and row-major layouts, as XLA's own builder does.

use bytes::Bytes;
use metaneff_schema::xla::{
    HloComputationProto, HloInputOutputAliasProto, HloInstructionProto, HloModuleProto, Kind,
    LayoutProto, LiteralProto, PrimitiveType, ProgramShapeProto, ReplicaGroup, ShapeProto,
    hlo_input_output_alias_proto::AliasEntryProto,
};
use prost::Message as _;

/// First instruction id; ids of real modules do not fit 32 bits.
const FIRST_ID: i64 = 1 << 32;

/// An instruction of a [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(usize);

/// A module under construction: one computation, its entry.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    instructions: Vec<HloInstructionProto>,
    parameters: Vec<ShapeProto>,
    aliases: Vec<AliasEntryProto>,
}

impl Graph {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds the next parameter.
    pub(crate) fn parameter(&mut self, element: PrimitiveType, dims: &[i64]) -> Node {
        let number = self.parameters.len();
        let shape = array(element, dims);
        self.parameters.push(shape.clone());
        self.push(HloInstructionProto {
            name: format!("p{number}"),
            opcode: "parameter".to_owned(),
            shape: Some(shape),
            parameter_number: index(number),
            ..Default::default()
        })
    }

    /// Adds a scalar `f32` constant.
    pub(crate) fn constant(&mut self, value: f32) -> Node {
        let shape = array(PrimitiveType::F32, &[]);
        self.push(HloInstructionProto {
            opcode: "constant".to_owned(),
            shape: Some(shape.clone()),
            literal: Some(Box::new(LiteralProto {
                shape: Some(shape),
                f32s: vec![value],
                ..Default::default()
            })),
            ..Default::default()
        })
    }

    /// Repeats a scalar over `dims`.
    pub(crate) fn splat(&mut self, scalar: Node, dims: &[i64]) -> Node {
        let element = self.shape(scalar).element_type();
        self.node("broadcast", &[scalar], array(element, dims))
    }

    /// Adds an instruction whose result has the shape of its first operand.
    pub(crate) fn elementwise(&mut self, opcode: &str, operands: &[Node]) -> Node {
        let shape = operands
            .first()
            .map(|node| self.shape(*node).clone())
            .unwrap_or_default();
        self.node(opcode, operands, shape)
    }

    /// Adds `select` of two operands by a predicate of their shape.
    pub(crate) fn select(&mut self, predicate: Node, yes: Node, no: Node) -> Node {
        let shape = self.shape(yes).clone();
        self.node("select", &[predicate, yes, no], shape)
    }

    /// Adds `dot` of two matrices, `[m, k]` by `[k, n]`.
    pub(crate) fn matmul(&mut self, lhs: Node, rhs: Node) -> Node {
        let element = self.shape(lhs).element_type();
        let dims = [self.shape(lhs).dimensions[0], self.shape(rhs).dimensions[1]];
        let node = self.node("dot", &[lhs, rhs], array(element, &dims));
        self.instructions[node.0].dot_dimension_numbers =
            Some(metaneff_schema::xla::DotDimensionNumbers {
                lhs_contracting_dimensions: vec![1],
                rhs_contracting_dimensions: vec![0],
                ..Default::default()
            });
        node
    }

    /// Adds `dynamic-slice` of a vector, `sizes` long from `start` on.
    pub(crate) fn dynamic_slice(&mut self, x: Node, start: Node, sizes: &[i64]) -> Node {
        let element = self.shape(x).element_type();
        let node = self.node("dynamic-slice", &[x, start], array(element, sizes));
        self.instructions[node.0].dynamic_slice_sizes = sizes.to_vec();
        node
    }

    /// Adds `convert` to another element type.
    pub(crate) fn convert(&mut self, x: Node, element: PrimitiveType) -> Node {
        let dims = self.shape(x).dimensions.clone();
        self.node("convert", &[x], array(element, &dims))
    }

    /// Adds `replica-id`: the rank's number, as `u32`.
    pub(crate) fn replica_id(&mut self) -> Node {
        self.node("replica-id", &[], array(PrimitiveType::U32, &[]))
    }

    /// Adds `all-gather` of a vector over the ranks `0..ranks`, in one group.
    pub(crate) fn all_gather(&mut self, x: Node, ranks: usize) -> Node {
        let element = self.shape(x).element_type();
        let dims = [self.shape(x).dimensions[0] * index(ranks)];
        let node = self.node("all-gather", &[x], array(element, &dims));
        let instruction = &mut self.instructions[node.0];
        instruction.dimensions = vec![0];
        instruction.replica_groups = vec![ReplicaGroup {
            replica_ids: (0..ranks).map(index).collect(),
        }];
        node
    }

    /// Lets output `output` take the buffer of parameter `parameter`.
    pub(crate) fn alias(&mut self, output: usize, parameter: usize) {
        self.aliases.push(AliasEntryProto {
            output_shape_index: vec![index(output)],
            parameter_number: index(parameter),
            parameter_shape_index: vec![],
            kind: Kind::MustAlias.into(),
        });
    }

    /// Closes the module with a tuple of `outputs` as its root.
    pub(crate) fn finish(mut self, outputs: &[Node]) -> Bytes {
        let shapes = outputs
            .iter()
            .map(|node| self.shape(*node).clone())
            .collect();
        let shape = ShapeProto {
            element_type: PrimitiveType::Tuple.into(),
            tuple_shapes: shapes,
            ..Default::default()
        };
        let root = self.node("tuple", outputs, shape);
        self.encode(root)
    }

    /// Closes the module with `output` itself as its root.
    pub(crate) fn finish_without_tuple(self, output: Node) -> Bytes {
        self.encode(output)
    }

    fn shape(&self, node: Node) -> &ShapeProto {
        static EMPTY: ShapeProto = ShapeProto {
            element_type: 0,
            dimensions: Vec::new(),
            tuple_shapes: Vec::new(),
            layout: None,
            is_dynamic_dimension: Vec::new(),
        };
        self.instructions[node.0].shape.as_ref().unwrap_or(&EMPTY)
    }

    fn node(&mut self, opcode: &str, operands: &[Node], shape: ShapeProto) -> Node {
        self.push(HloInstructionProto {
            opcode: opcode.to_owned(),
            shape: Some(shape),
            operand_ids: operands
                .iter()
                .map(|node| FIRST_ID + index(node.0))
                .collect(),
            ..Default::default()
        })
    }

    fn push(&mut self, mut instruction: HloInstructionProto) -> Node {
        let node = Node(self.instructions.len());
        instruction.id = FIRST_ID + index(node.0);
        if instruction.name.is_empty() {
            instruction.name = format!("{}.{}", instruction.opcode, node.0);
        }
        self.instructions.push(instruction);
        node
    }

    fn encode(self, root: Node) -> Bytes {
        let program = ProgramShapeProto {
            parameter_names: (0..self.parameters.len())
                .map(|i| format!("p{i}"))
                .collect(),
            parameters: self.parameters,
            result: self.instructions[root.0].shape.clone(),
        };
        let module = HloModuleProto {
            name: "conformance".to_owned(),
            entry_computation_name: "main".to_owned(),
            entry_computation_id: 1,
            host_program_shape: Some(program.clone()),
            computations: vec![HloComputationProto {
                name: "main".to_owned(),
                id: 1,
                root_id: FIRST_ID + index(root.0),
                program_shape: Some(program),
                instructions: self.instructions,
                ..Default::default()
            }],
            input_output_alias: Some(HloInputOutputAliasProto {
                entries: self.aliases,
            }),
            ..Default::default()
        };
        module.encode_to_vec().into()
    }
}

/// A row-major array shape.
pub(crate) fn array(element: PrimitiveType, dims: &[i64]) -> ShapeProto {
    ShapeProto {
        element_type: element.into(),
        dimensions: dims.to_vec(),
        is_dynamic_dimension: vec![false; dims.len()],
        layout: Some(LayoutProto {
            minor_to_major: (0..dims.len()).rev().map(index).collect(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// A small count as the wire has it.
fn index(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
