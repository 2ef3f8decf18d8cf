//! Modules of one chain of instructions.

use metaneff_schema::xla::hlo_instruction_proto::SliceDimensions;
use metaneff_schema::xla::{
    DotDimensionNumbers, HloComputationProto, HloInstructionProto, HloModuleProto, LiteralProto,
    PrimitiveType, ShapeProto,
};

const ENTRY: i64 = 1;

/// One link of a chain. Numbers choose; every number is fine for every shape.
#[derive(Clone, Debug)]
pub(crate) enum Link {
    Unary(usize),
    /// `tanh`, then `exponential`, so that the function of that number after
    /// them has operands between 1/e and e.
    Smooth(usize),
    /// With a constant.
    Binary(usize, Vec<i32>),
    /// Elements that compare so with a constant, the constant's elsewhere.
    Select(usize, Vec<i32>),
    /// A new dimension of a size at a place.
    Broadcast(usize, usize),
    Transpose(usize),
    /// Start, limit from the end, stride for each dimension.
    Slice([(usize, usize, usize); 3]),
    /// Of a dimension through a computation.
    Reduce(usize, usize),
    /// Of a dimension with a constant of that many columns, on either side.
    Dot(usize, usize, bool, Vec<i32>),
}

/// A module that grows by one instruction at a time.
pub(crate) struct Chain {
    instructions: Vec<HloInstructionProto>,
    called: Vec<HloComputationProto>,
    next_id: i64,
    /// The newest value.
    last: i64,
    shape: ShapeProto,
}

pub(crate) fn shape_of(element: PrimitiveType, dims: &[i64]) -> ShapeProto {
    ShapeProto {
        element_type: element.into(),
        dimensions: dims.to_vec(),
        ..ShapeProto::default()
    }
}

/// Floats are multiples of `1 / denominator`, so that few results are rounded.
fn literal(shape: &ShapeProto, numbers: &[i32], denominator: f32) -> LiteralProto {
    let count = usize::try_from(shape.dimensions.iter().product::<i64>()).expect("small sizes");
    let numbers: Vec<i32> = numbers.iter().copied().cycle().take(count).collect();
    let mut literal = LiteralProto {
        shape: Some(shape.clone()),
        ..LiteralProto::default()
    };
    if shape.element_type() == PrimitiveType::F32 {
        literal.f32s = numbers.iter().map(|&x| x as f32 / denominator).collect();
    } else {
        literal.s32s = numbers;
    }
    literal
}

impl Chain {
    /// A chain that begins with a parameter.
    pub(crate) fn new(element: PrimitiveType, dims: &[i64]) -> Self {
        let mut chain = Self {
            instructions: Vec::new(),
            called: Vec::new(),
            next_id: 1,
            last: 0,
            shape: shape_of(element, dims),
        };
        chain.last = chain.add("parameter", &chain.shape.clone(), &[], |_| {});
        chain
    }

    fn add(
        &mut self,
        opcode: &str,
        shape: &ShapeProto,
        operands: &[i64],
        fill: impl FnOnce(&mut HloInstructionProto),
    ) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        let mut instruction = HloInstructionProto {
            name: format!("{opcode}.{id}"),
            opcode: opcode.to_owned(),
            shape: Some(shape.clone()),
            id,
            operand_ids: operands.to_vec(),
            ..HloInstructionProto::default()
        };
        fill(&mut instruction);
        self.instructions.push(instruction);
        id
    }

    /// Adds an instruction whose result is the newest value.
    fn advance(
        &mut self,
        opcode: &str,
        shape: ShapeProto,
        operands: &[i64],
        fill: impl FnOnce(&mut HloInstructionProto),
    ) {
        self.last = self.add(opcode, &shape, operands, fill);
        self.shape = shape;
    }

    fn constant(&mut self, shape: &ShapeProto, numbers: &[i32], denominator: f32) -> i64 {
        let literal = literal(shape, numbers, denominator);
        self.add("constant", shape, &[], |constant| {
            constant.literal = Some(Box::new(literal));
        })
    }

    fn is_float(&self) -> bool {
        self.shape.element_type() == PrimitiveType::F32
    }

    pub(crate) fn link(&mut self, link: &Link) {
        let shape = self.shape.clone();
        let last = self.last;
        let rank = shape.dimensions.len();
        match link {
            Link::Unary(choice) => {
                let opcodes = if self.is_float() {
                    ["negate", "abs", "tanh"]
                } else {
                    ["negate", "abs", "not"]
                };
                self.advance(opcodes[choice % 3], shape, &[last], |_| {});
            }
            Link::Smooth(choice) => self.smooth(*choice),
            Link::Binary(choice, numbers) => {
                let other = self.constant(&shape, numbers, 16.0);
                let opcodes = [
                    "add", "subtract", "multiply", "maximum", "minimum", "divide",
                ];
                let operands = if choice % 2 == 0 {
                    [last, other]
                } else {
                    [other, last]
                };
                self.advance(opcodes[choice / 2 % 6], shape, &operands, |_| {});
            }
            Link::Select(choice, numbers) => {
                let other = self.constant(&shape, numbers, 8.0);
                let chosen = shape_of(PrimitiveType::Pred, &shape.dimensions);
                let direction = ["EQ", "NE", "LT", "LE", "GT", "GE"][choice % 6];
                let chosen = self.add("compare", &chosen, &[last, other], |compare| {
                    compare.comparison_direction = direction.to_owned();
                });
                self.advance("select", shape, &[chosen, last, other], |_| {});
            }
            Link::Broadcast(size, place) if rank < 3 => {
                let place = place % (rank + 1);
                let mut dims = shape.dimensions;
                dims.insert(place, *size as i64);
                let kept = (0..=rank).filter(|&d| d != place).map(|d| d as i64);
                let shape = shape_of(self.shape.element_type(), &dims);
                self.advance("broadcast", shape, &[last], |broadcast| {
                    broadcast.dimensions = kept.collect();
                });
            }
            Link::Transpose(choice) => {
                let mut order: Vec<usize> = (0..rank).collect();
                order.rotate_left(choice % rank.max(1));
                if choice / 3 % 2 == 1 {
                    order.reverse();
                }
                let dims: Vec<i64> = order.iter().map(|&d| shape.dimensions[d]).collect();
                let shape = shape_of(shape.element_type(), &dims);
                self.advance("transpose", shape, &[last], |transpose| {
                    transpose.dimensions = order.iter().map(|&d| d as i64).collect();
                });
            }
            Link::Slice(choices) => {
                let mut slices = Vec::new();
                let mut dims = Vec::new();
                for (&dim, &(start, end, stride)) in shape.dimensions.iter().zip(choices) {
                    let start = start as i64 % dim;
                    let limit = (dim - end as i64).max(start + 1);
                    let stride = stride as i64;
                    dims.push((limit - start + stride - 1) / stride);
                    slices.push(SliceDimensions {
                        start,
                        limit,
                        stride,
                    });
                }
                let shape = shape_of(shape.element_type(), &dims);
                self.advance("slice", shape, &[last], |slice| {
                    slice.slice_dimensions = slices;
                });
            }
            Link::Reduce(dimension, choice) if rank > 0 => self.reduce(dimension % rank, *choice),
            Link::Dot(dimension, columns, left, numbers) if rank > 0 => {
                self.dot(dimension % rank, *columns as i64, *left, numbers);
            }
            Link::Broadcast(..) | Link::Reduce(..) | Link::Dot(..) => {}
        }
    }

    fn smooth(&mut self, choice: usize) {
        let shape = shape_of(PrimitiveType::F32, &self.shape.dimensions);
        if !self.is_float() {
            self.advance("convert", shape.clone(), &[self.last], |_| {});
        }
        self.advance("tanh", shape.clone(), &[self.last], |_| {});
        self.advance("exponential", shape.clone(), &[self.last], |_| {});
        let opcode = ["log", "sqrt", "rsqrt", "logistic", "power"][choice % 5];
        let operands = vec![self.last; if opcode == "power" { 2 } else { 1 }];
        self.advance(opcode, shape, &operands, |_| {});
    }

    fn reduce(&mut self, dimension: usize, choice: usize) {
        let element = self.shape.element_type();
        let scalar = shape_of(element, &[]);
        let opcode = ["add", "maximum", "minimum"][choice % 3];
        let outside = std::mem::take(&mut self.instructions);
        let x = self.add("parameter", &scalar, &[], |_| {});
        let y = self.add("parameter", &scalar, &[], |y| y.parameter_number = 1);
        let root_id = self.add(opcode, &scalar, &[x, y], |_| {});
        let called = HloComputationProto {
            name: format!("{opcode}.{root_id}"),
            instructions: std::mem::replace(&mut self.instructions, outside),
            id: ENTRY + root_id,
            root_id,
            ..HloComputationProto::default()
        };
        let init = self.constant(&scalar, &[i32::from(opcode != "add")], 1.0);
        let mut dims = self.shape.dimensions.clone();
        dims.remove(dimension);
        self.advance(
            "reduce",
            shape_of(element, &dims),
            &[self.last, init],
            |reduce| {
                reduce.dimensions = vec![dimension as i64];
                reduce.called_computation_ids = vec![called.id];
            },
        );
        self.called.push(called);
    }

    /// Floats are divided so far that sums of products stay small.
    fn dot(&mut self, dimension: usize, columns: i64, left: bool, numbers: &[i32]) {
        let element = self.shape.element_type();
        let other_shape = shape_of(element, &[self.shape.dimensions[dimension], columns]);
        let other = self.constant(&other_shape, numbers, 256.0);
        let mut numbers = DotDimensionNumbers {
            lhs_contracting_dimensions: vec![dimension as i64],
            rhs_contracting_dimensions: vec![0],
            ..DotDimensionNumbers::default()
        };
        let mut dims = self.shape.dimensions.clone();
        dims.remove(dimension);
        let mut operands = [self.last, other];
        if left {
            dims.insert(0, columns);
            operands.reverse();
            std::mem::swap(
                &mut numbers.lhs_contracting_dimensions,
                &mut numbers.rhs_contracting_dimensions,
            );
        } else {
            dims.push(columns);
        }
        self.advance("dot", shape_of(element, &dims), &operands, |dot| {
            dot.dot_dimension_numbers = Some(numbers);
        });
    }

    /// The module that gives the newest value.
    pub(crate) fn module(&self) -> HloModuleProto {
        let entry = HloComputationProto {
            name: "entry".to_owned(),
            instructions: self.instructions.clone(),
            id: ENTRY,
            root_id: self.last,
            ..HloComputationProto::default()
        };
        let mut computations = self.called.clone();
        computations.push(entry);
        HloModuleProto {
            name: "chain".to_owned(),
            computations,
            entry_computation_id: ENTRY,
            entry_computation_name: "entry".to_owned(),
            ..HloModuleProto::default()
        }
    }

    /// The module that gives every value of the chain.
    pub(crate) fn module_of_all(mut self) -> HloModuleProto {
        let shape = ShapeProto {
            element_type: PrimitiveType::Tuple.into(),
            tuple_shapes: self
                .instructions
                .iter()
                .map(|instruction| instruction.shape.clone().unwrap_or_default())
                .collect(),
            ..ShapeProto::default()
        };
        let ids: Vec<i64> = self
            .instructions
            .iter()
            .map(|instruction| instruction.id)
            .collect();
        self.advance("tuple", shape, &ids, |_| {});
        self.module()
    }
}
