//! Shapes and literals as the messages give them.

use metaneff_schema::xla::{LayoutProto, LiteralProto, PrimitiveType, ShapeProto};

use crate::array::{Array, Buffer};
use crate::element::ElementType;
use crate::ir::Literal;
use crate::shape::{ArrayShape, Layout, Shape};

use super::problem::{Problem, mismatch, require};

/// Tuples in tuples that a shape may have.
pub(super) const MAX_SHAPE_DEPTH: usize = 32;
/// Dimensions that an array may have.
const MAX_RANK: usize = 64;

/// The shape that `proto` describes.
pub(super) fn shape(proto: &ShapeProto) -> Result<Shape, Problem> {
    nested(proto, 0)
}

fn nested(proto: &ShapeProto, depth: usize) -> Result<Shape, Problem> {
    if depth > MAX_SHAPE_DEPTH {
        return Err(Problem::Limit {
            what: "depth of a tuple shape",
            limit: MAX_SHAPE_DEPTH,
            found: depth,
        });
    }
    match PrimitiveType::try_from(proto.element_type) {
        Ok(PrimitiveType::Tuple) => {
            require(
                proto.dimensions.is_empty(),
                "dimensions of a tuple",
                0,
                proto.dimensions.len(),
            )?;
            let elements = proto
                .tuple_shapes
                .iter()
                .map(|element| nested(element, depth + 1));
            return Ok(Shape::Tuple(elements.collect::<Result<_, _>>()?));
        }
        Ok(PrimitiveType::Token) => return Ok(Shape::Token),
        _ => {}
    }
    require(
        proto.tuple_shapes.is_empty(),
        "tuple shapes of an array",
        0,
        proto.tuple_shapes.len(),
    )?;
    let element = ElementType::from_proto(proto.element_type).ok_or_else(|| {
        let number = proto.element_type;
        let found = PrimitiveType::try_from(number).map_or_else(
            |_| number.to_string(),
            |known| known.as_str_name().to_lowercase(),
        );
        Problem::Unsupported {
            what: "element type",
            found,
        }
    })?;
    if proto.is_dynamic_dimension.iter().any(|&dynamic| dynamic) {
        return Err(Problem::Unsupported {
            what: "shape",
            found: "with a dynamic dimension".into(),
        });
    }
    if proto.dimensions.len() > MAX_RANK {
        return Err(Problem::Limit {
            what: "rank",
            limit: MAX_RANK,
            found: proto.dimensions.len(),
        });
    }
    let dims = proto
        .dimensions
        .iter()
        .map(|&dim| usize::try_from(dim).map_err(|_| mismatch("dimension", "0 or more", dim)));
    let array =
        ArrayShape::new(element, dims.collect::<Result<Box<[usize]>, _>>()?).map_err(|_| {
            Problem::Overflow {
                what: "size of the shape",
            }
        })?;
    let layout = match &proto.layout {
        Some(proto) => layout(proto, &array)?,
        None => None,
    };
    let rank = array.rank();
    array
        .with_layout(layout)
        .map(Shape::Array)
        .ok_or_else(|| mismatch("rank of the layout", rank, "another"))
}

fn layout(proto: &LayoutProto, array: &ArrayShape) -> Result<Option<Layout>, Problem> {
    if !proto.tiles.is_empty() {
        return Err(Problem::Unsupported {
            what: "layout",
            found: "with tiles".into(),
        });
    }
    let bits = proto.element_size_in_bits;
    let own = array.element().bit_width();
    if bits != 0
        && usize::try_from(bits) != Ok(own.max(4))
        && usize::try_from(bits) != Ok(array.element().byte_size() * 8)
    {
        return Err(Problem::Unsupported {
            what: "layout",
            found: format!("with elements of {bits} bits"),
        });
    }
    if proto.tail_padding_alignment_in_elements > 1 {
        return Err(Problem::Unsupported {
            what: "layout",
            found: "with tail padding".into(),
        });
    }
    if proto.minor_to_major.is_empty() && array.rank() != 0 {
        return Ok(None);
    }
    let order = proto
        .minor_to_major
        .iter()
        .map(|&dim| usize::try_from(dim).unwrap_or(usize::MAX));
    let order: Box<[usize]> = order.collect();
    let found = format!("{:?}", proto.minor_to_major);
    let expected = || format!("a permutation of {} dimensions", array.rank());
    require(order.len() == array.rank(), "layout", expected(), &found)?;
    Layout::new(order)
        .map(Some)
        .ok_or_else(|| mismatch("layout", expected(), found))
}

/// The value of a constant of shape `declared`.
pub(super) fn literal(proto: &LiteralProto, declared: &Shape) -> Result<Literal, Problem> {
    let own = proto.shape.as_ref().map(shape).transpose()?;
    let own = own.ok_or_else(|| mismatch("literal", "a shape", "none"))?;
    require(own.same(declared), "shape of the literal", declared, &own)?;
    value(proto, &own)
}

fn value(proto: &LiteralProto, shape: &Shape) -> Result<Literal, Problem> {
    let array = match shape {
        Shape::Token => return Ok(Literal::Token),
        Shape::Tuple(elements) => {
            require(
                proto.tuple_literals.len() == elements.len(),
                "elements of the literal",
                elements.len(),
                proto.tuple_literals.len(),
            )?;
            let values = proto
                .tuple_literals
                .iter()
                .zip(elements)
                .map(|(literal, element)| {
                    // The shape of the whole stands for those of the elements.
                    if let Some(own) = literal.shape.as_ref().map(self::shape).transpose()? {
                        require(own.same(element), "shape of the literal", element, own)?;
                    }
                    value(literal, element)
                });
            return Ok(Literal::Tuple(values.collect::<Result<_, _>>()?));
        }
        Shape::Array(array) => array,
    };
    if !proto.sparse_indices.is_empty() {
        return Err(Problem::Unsupported {
            what: "literal",
            found: "of sparse elements".into(),
        });
    }
    let stored = stored(proto, array)?;
    let plain = ArrayShape::new(array.element(), array.dims()).map_err(|_| Problem::Overflow {
        what: "size of the literal",
    })?;
    let in_layout = plain
        .with_layout(array.layout().cloned())
        .and_then(|shape| Array::new(shape, stored).ok())
        .ok_or_else(|| mismatch("bytes of the literal", array.byte_size(), "another number"))?;
    in_layout
        .to_row_major()
        .map(Literal::Array)
        .map_err(|_| Problem::Overflow {
            what: "size of the literal",
        })
}

/// The elements in the literal's order.
fn stored(proto: &LiteralProto, shape: &ArrayShape) -> Result<Buffer, Problem> {
    let pods = |found: usize, bytes: &[u8]| count(found, shape, bytes);
    let parts = |values: &[u8]| {
        // Interleaved parts: both counts are of elements.
        count(values.len() / shape.element().byte_size(), shape, values)
    };
    match shape.element() {
        ElementType::Pred => {
            let bytes: Vec<u8> = proto.preds.iter().map(|&value| u8::from(value)).collect();
            pods(bytes.len(), &bytes)
        }
        ElementType::S32 => pods(proto.s32s.len(), bytemuck::cast_slice(&proto.s32s)),
        ElementType::S64 => pods(proto.s64s.len(), bytemuck::cast_slice(&proto.s64s)),
        ElementType::U32 => pods(proto.u32s.len(), bytemuck::cast_slice(&proto.u32s)),
        ElementType::U64 => pods(proto.u64s.len(), bytemuck::cast_slice(&proto.u64s)),
        ElementType::F32 => pods(proto.f32s.len(), bytemuck::cast_slice(&proto.f32s)),
        ElementType::F64 => pods(proto.f64s.len(), bytemuck::cast_slice(&proto.f64s)),
        ElementType::C64 => parts(bytemuck::cast_slice(&proto.c64s)),
        ElementType::C128 => parts(bytemuck::cast_slice(&proto.c128s)),
        ElementType::S8 => block(&proto.s8s, shape),
        ElementType::U8 => block(&proto.u8s, shape),
        ElementType::S16 => block(&proto.s16s, shape),
        ElementType::U16 => block(&proto.u16s, shape),
        ElementType::F16 => block(&proto.f16s, shape),
        ElementType::BF16 => block(&proto.bf16s, shape),
        ElementType::F8E5M2 => block(&proto.f8e5m2s, shape),
        ElementType::F8E4M3 => block(&proto.f8e4m3s, shape),
        ElementType::F8E4M3FN => block(&proto.f8e4m3fns, shape),
        ElementType::F8E4M3B11FNUZ => block(&proto.f8e4m3b11fnuzs, shape),
        ElementType::F8E5M2FNUZ => block(&proto.f8e5m2fnuzs, shape),
        ElementType::F8E4M3FNUZ => block(&proto.f8e4m3fnuzs, shape),
        ElementType::F8E3M4 => block(&proto.f8e3m4s, shape),
        ElementType::F8E8M0FNU => block(&proto.f8e8m0fnus, shape),
        ElementType::S4 => nibbles(&proto.s4s, shape, sign_extend),
        ElementType::U4 => nibbles(&proto.u4s, shape, |nibble| nibble),
        ElementType::F4E2M1FN => nibbles(&proto.f4e2m1fns, shape, |nibble| nibble),
    }
}

fn count(found: usize, shape: &ArrayShape, bytes: &[u8]) -> Result<Buffer, Problem> {
    require(
        found == shape.element_count() && bytes.len() == shape.byte_size(),
        "elements of the literal",
        shape.element_count(),
        found,
    )?;
    Buffer::copied(bytes).map_err(|_| Problem::Overflow {
        what: "size of the literal",
    })
}

fn block(bytes: &[u8], shape: &ArrayShape) -> Result<Buffer, Problem> {
    require(
        bytes.len() == shape.byte_size(),
        "bytes of the literal",
        shape.byte_size(),
        bytes.len(),
    )?;
    Buffer::copied(bytes).map_err(|_| Problem::Overflow {
        what: "size of the literal",
    })
}

fn sign_extend(nibble: u8) -> u8 {
    ((nibble << 4).cast_signed() >> 4).cast_unsigned()
}

/// Unpacks two elements a byte, the first in the low nibble.
fn nibbles(packed: &[u8], shape: &ArrayShape, widen: impl Fn(u8) -> u8) -> Result<Buffer, Problem> {
    let count = shape.element_count();
    require(
        packed.len() == count.div_ceil(2),
        "bytes of the literal",
        count.div_ceil(2),
        packed.len(),
    )?;
    let bytes: Vec<u8> = packed
        .iter()
        .flat_map(|&byte| [widen(byte & 0xf), widen(byte >> 4)])
        .take(count)
        .collect();
    Buffer::copied(&bytes).map_err(|_| Problem::Overflow {
        what: "size of the literal",
    })
}
