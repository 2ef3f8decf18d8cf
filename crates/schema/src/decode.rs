//! Decoding untrusted messages within bounds.
//!
//! Protobuf lets two bytes announce an empty message, and an empty message costs
//! its whole struct in memory. So the bytes are walked before they are decoded:
//! every length is inside its message, nesting ends, and what decoding will
//! allocate stays in proportion to the input.

use std::mem::size_of;

use bytes::Bytes;
use prost::Message;

use crate::metaneff::{MetaNeff, MetaTensor};
use crate::wire::{Field, Fields, MAX_DEPTH, WireError, WireType};
use crate::xla;

/// Bytes that decoding may allocate for each byte of input.
pub const MAX_AMPLIFICATION: usize = 48;

/// Bytes that decoding may allocate whatever the input's size.
pub const FREE_ALLOCATION: usize = 64 << 10;

/// Why bytes are not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes are not fields.
    #[error("{message} is not a protobuf message: {cause}")]
    Wire {
        /// The message that was expected.
        message: &'static str,
        /// What is wrong, and at which byte.
        cause: WireError,
    },
    /// Decoding would allocate out of proportion to the input.
    #[error("{message} of {size} bytes would need {needed} bytes when decoded, limit {limit}")]
    OutOfProportion {
        /// The message that was expected.
        message: &'static str,
        /// Bytes of the input.
        size: usize,
        /// Bytes that decoding needs at least when this was noticed.
        needed: usize,
        /// Bytes that an input of this size may need.
        limit: usize,
    },
    /// A field has a type that its message does not give it.
    #[error("{message} cannot be decoded: {cause}")]
    Fields {
        /// The message that was expected.
        message: &'static str,
        /// Which field of which message, in the decoder's words.
        cause: prost::DecodeError,
    },
    /// The bytes are an `HloProto`, which wraps the module.
    #[error(
        "found an HloProto, expected the HloModuleProto in its field 1; `unwrap_hlo_proto` takes it out"
    )]
    Wrapped,
    /// The bytes are not an `HloProto` with a module.
    #[error("expected an HloProto, found no module in its field 1")]
    NotWrapped,
}

/// Decodes a metaneff. The graph, names and keys share the input's memory.
///
/// Unknown fields are skipped here; [`Document`](crate::Document) keeps them.
/// Enum numbers are kept as they are.
///
/// # Errors
///
/// [`DecodeError`] for bytes that are not fields, nest deeper than 100, have a
/// field of another type, or would need more than 48 times their size.
///
/// # Examples
///
/// ```
/// use bytes::Bytes;
/// use metaneff_schema::decode_metaneff;
///
/// let wire = Bytes::from_static(b"\x0a\x12\x0a\x06input0\x12\x04\x01\x01\x01\x20\x18\x01\x38\x01");
/// let message = decode_metaneff(wire)?;
/// assert_eq!(message.input_tensors[0].shape, [1, 1, 1, 32]);
/// # Ok::<(), metaneff_schema::DecodeError>(())
/// ```
pub fn decode_metaneff(bytes: impl Into<Bytes>) -> Result<MetaNeff, DecodeError> {
    let bytes = bytes.into();
    let message = "MetaNeff";
    Budget::check(&bytes, Node::MetaNeff, message)?;
    let count = |number| count_of(&bytes, number);
    let mut metaneff = MetaNeff {
        input_tensors: Vec::with_capacity(count(1)),
        output_tensors: Vec::with_capacity(count(2)),
        ..MetaNeff::default()
    };
    metaneff
        .merge(bytes)
        .map_err(|cause| DecodeError::Fields { message, cause })?;
    Ok(metaneff)
}

/// Decodes an HLO module. Literals of 16 bits and below share the input's memory.
///
/// Ids are opaque 64-bit numbers; nothing but the wire is checked.
///
/// # Errors
///
/// As [`decode_metaneff`]; an `HloProto` around the module is
/// [`DecodeError::Wrapped`].
pub fn decode_hlo(bytes: impl Into<Bytes>) -> Result<xla::HloModuleProto, DecodeError> {
    let bytes = bytes.into();
    let message = "HloModuleProto";
    if is_wrapped(&bytes) {
        return Err(DecodeError::Wrapped);
    }
    Budget::check(&bytes, Node::Module, message)?;
    let mut module = xla::HloModuleProto {
        computations: Vec::with_capacity(count_of(&bytes, 3)),
        ..Default::default()
    };
    for field in Fields::new(&bytes).flatten() {
        let outcome = if field.number == 3 && field.wire_type == WireType::Length {
            let body = bytes.slice(field.payload);
            let mut computation = xla::HloComputationProto {
                instructions: Vec::with_capacity(count_of(&body, 2)),
                ..Default::default()
            };
            let outcome = computation.merge(body);
            module.computations.push(computation);
            outcome
        } else {
            module.merge(bytes.slice(field.range))
        };
        outcome.map_err(|cause| DecodeError::Fields { message, cause })?;
    }
    Ok(module)
}

/// Takes the bytes of the module out of an `HloProto`, as some dumps have it.
///
/// # Errors
///
/// [`DecodeError::NotWrapped`] when there is no module in field 1.
pub fn unwrap_hlo_proto(bytes: &Bytes) -> Result<Bytes, DecodeError> {
    if !is_wrapped(bytes) {
        return Err(DecodeError::NotWrapped);
    }
    Fields::new(bytes)
        .flatten()
        .find(|field| field.number == 1)
        .map(|field| bytes.slice(field.payload))
        .ok_or(DecodeError::NotWrapped)
}

/// Whether the bytes look like an `HloProto`: no computation (field 3 of a
/// module, a message with instructions) of their own, and a field 1 that has
/// one. In a module, field 1 is the name.
fn is_wrapped(bytes: &[u8]) -> bool {
    let has = |bytes: &[u8], number: u32, inner: u32| {
        Fields::new(bytes).map_while(Result::ok).any(|field| {
            field.number == number
                && field.wire_type == WireType::Length
                && Fields::new(&bytes[field.payload])
                    .map_while(Result::ok)
                    .any(|field| field.number == inner && field.wire_type == WireType::Length)
        })
    };
    let computation = |bytes: &[u8]| has(bytes, 3, 2);
    !computation(bytes)
        && Fields::new(bytes).map_while(Result::ok).any(|field| {
            field.number == 1
                && field.wire_type == WireType::Length
                && computation(&bytes[field.payload])
        })
}

fn count_of(bytes: &[u8], number: u32) -> usize {
    Fields::new(bytes)
        .flatten()
        .filter(|field| field.number == number)
        .count()
}

/// A message that can hold messages, for the walk over the bytes.
#[derive(Clone, Copy, Debug)]
enum Node {
    MetaNeff,
    MetaTensor,
    Module,
    Computation,
    Instruction,
    Literal,
    Shape,
    Program,
    Window,
    Padding,
    Attributes,
    Devices,
    Aliases,
    Layout,
    Leaf,
}

impl Node {
    /// What a field of this message holds, and the memory that one more of it
    /// takes. A vector that grows holds its old and its new memory for a moment,
    /// three times its contents; those of `decode_*` above never grow.
    const fn child(self, number: u32) -> Option<(Self, usize)> {
        const MAP_NODE: usize = 640;
        const fn vec<T>() -> usize {
            3 * size_of::<T>()
        }
        Some(match (self, number) {
            (Self::MetaNeff, 1 | 2) => (Self::MetaTensor, size_of::<MetaTensor>()),
            (Self::MetaNeff, 6) => (Self::Leaf, MAP_NODE / 5),
            (Self::MetaNeff, 3) => (Self::Leaf, 0),
            (Self::Module, 3) => (Self::Computation, size_of::<xla::HloComputationProto>()),
            (Self::Module | Self::Computation, 4) => (Self::Program, 0),
            (Self::Module, 8 | 18) => (Self::Aliases, 0),
            (Self::Module, 19) | (Self::Instruction, 68) => (Self::Attributes, MAP_NODE),
            (Self::Aliases, 1) => (
                Self::Leaf,
                vec::<xla::hlo_input_output_alias_proto::AliasEntryProto>(),
            ),
            (Self::Computation, 2) => (Self::Instruction, size_of::<xla::HloInstructionProto>()),
            (Self::Program, 1) | (Self::Shape, 4) | (Self::Instruction, 57) => {
                (Self::Shape, vec::<xla::ShapeProto>())
            }
            (Self::Program, 2) | (Self::Instruction, 3) | (Self::Literal, 1) => (Self::Shape, 0),
            (Self::Shape, 5) => (Self::Layout, 0),
            (Self::Layout, 6) => (Self::Leaf, vec::<xla::TileProto>()),
            (Self::Instruction, 8) => (Self::Literal, size_of::<xla::LiteralProto>()),
            (Self::Literal, 10) => (Self::Literal, vec::<xla::LiteralProto>()),
            (Self::Instruction, 15) => (Self::Window, 0),
            (Self::Window, 1) => (Self::Leaf, vec::<xla::WindowDimension>()),
            (Self::Instruction, 17) => (
                Self::Leaf,
                vec::<xla::hlo_instruction_proto::SliceDimensions>(),
            ),
            (Self::Instruction, 21) => (Self::Padding, 0),
            (Self::Padding, 1) => (
                Self::Leaf,
                vec::<xla::padding_config::PaddingConfigDimension>(),
            ),
            (Self::Instruction, 49) | (Self::Devices, 1) => {
                (Self::Leaf, vec::<xla::ReplicaGroup>())
            }
            (Self::Instruction, 52) => (Self::Leaf, vec::<xla::SourceTarget>()),
            (Self::Instruction, 87) => (Self::Devices, 0),
            (Self::Attributes, 1) => (Self::Leaf, MAP_NODE / 5),
            (Self::Instruction, 7 | 16 | 30 | 33 | 48 | 51 | 59 | 62 | 92) | (Self::Devices, 2) => {
                (Self::Leaf, 0)
            }
            _ => return None,
        })
    }
}

/// Walks a message and adds up what decoding it allocates.
struct Budget {
    needed: usize,
    limit: usize,
    size: usize,
    message: &'static str,
}

impl Budget {
    fn check(bytes: &[u8], node: Node, message: &'static str) -> Result<(), DecodeError> {
        let limit = bytes
            .len()
            .saturating_mul(MAX_AMPLIFICATION)
            .saturating_add(FREE_ALLOCATION);
        Self {
            needed: 0,
            limit,
            size: bytes.len(),
            message,
        }
        .walk(bytes, node, 0, 0)
    }

    fn walk(
        &mut self,
        bytes: &[u8],
        node: Node,
        base: usize,
        depth: usize,
    ) -> Result<(), DecodeError> {
        let message = self.message;
        let wire = |cause| DecodeError::Wire { message, cause };
        if depth >= MAX_DEPTH {
            return Err(wire(WireError::TooDeep {
                offset: base,
                limit: MAX_DEPTH,
            }));
        }
        for field in Fields::new(bytes) {
            let Field {
                number,
                wire_type,
                payload,
                ..
            } = field.map_err(|cause: WireError| wire(cause.shifted(base)))?;
            if wire_type != WireType::Length {
                continue;
            }
            if let Some((child, cost)) = node.child(number) {
                self.needed = self.needed.saturating_add(cost);
                if self.needed > self.limit {
                    let Self {
                        needed,
                        limit,
                        size,
                        message,
                    } = *self;
                    return Err(DecodeError::OutOfProportion {
                        message,
                        size,
                        needed,
                        limit,
                    });
                }
                let start = base + payload.start;
                self.walk(&bytes[payload], child, start, depth + 1)?;
            }
        }
        Ok(())
    }
}

impl WireError {
    /// The same error in bytes that start `base` bytes into a larger whole.
    fn shifted(mut self, base: usize) -> Self {
        match &mut self {
            Self::Truncated { offset, .. }
            | Self::Overlong { offset }
            | Self::Tag { offset, .. }
            | Self::TooDeep { offset, .. } => *offset += base,
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metaneff::{ModelConfig, meta_tensor::Type};

    const INPUT: &[u8] = b"\x0a\x06input0\x12\x04\x01\x01\x01\x20\x18\x01\x38\x01";

    fn golden() -> Vec<u8> {
        let mut wire = vec![0x0a, 0x12];
        wire.extend_from_slice(INPUT);
        wire.extend_from_slice(b"\x12\x13\x0a\x07output0\x12\x04\x01\x01\x01\x20\x18\x01\x38\x00");
        wire.extend_from_slice(b"\x1a\x02\x30\x01");
        wire
    }

    #[test]
    fn the_pages_worked_example_decodes_and_encodes() {
        let message = decode_metaneff(golden()).unwrap();
        let input = &message.input_tensors[0];
        assert_eq!(&input.name[..], b"input0");
        assert_eq!(input.shape, [1, 1, 1, 32]);
        assert_eq!(input.r#type(), Type::UserInput);
        assert_eq!(message.output_tensors[0].r#type(), Type::UndefinedType);
        assert!(message.model_config.as_ref().unwrap().return_aliases);
        assert_eq!(input.encode_to_vec(), INPUT);
        let config = ModelConfig {
            return_aliases: true,
            ..Default::default()
        };
        assert_eq!(config.encode_to_vec(), b"\x30\x01");
    }

    #[test]
    fn shapes_may_be_packed_unpacked_and_mixed() {
        for shape in [
            &b"\x12\x02\x02\x03"[..],
            b"\x10\x02\x10\x03",
            b"\x12\x01\x02\x10\x03",
        ] {
            let mut wire = vec![0x0a, u8::try_from(shape.len()).unwrap()];
            wire.extend_from_slice(shape);
            assert_eq!(
                decode_metaneff(wire).unwrap().input_tensors[0].shape,
                [2, 3]
            );
        }
    }

    #[test]
    fn map_entries_default_and_the_last_duplicate_wins() {
        let wire = [
            0x32, 2, 0x08, 2, 0x32, 2, 0x10, 5, 0x32, 4, 0x08, 2, 0x10, 1,
        ];
        let aliases = decode_metaneff(wire.to_vec()).unwrap().output_aliases_to;
        assert_eq!(aliases.into_iter().collect::<Vec<_>>(), [(0, 5), (2, 1)]);
        let single = decode_metaneff(vec![0x32, 2, 0x08, 2])
            .unwrap()
            .output_aliases_to;
        assert_eq!(single[&2], 0);
    }

    #[test]
    fn presence_is_explicit_and_unknown_numbers_stay() {
        let message = decode_metaneff(b"\x0a\x06\x18\x63\x32\x00\x38\x09".to_vec()).unwrap();
        let tensor = &message.input_tensors[0];
        assert_eq!((tensor.data_type, tensor.r#type), (99, 9));
        assert_eq!(tensor.checkpoint_key.as_deref(), Some(&b""[..]));
        assert_eq!(tensor.user_input_key, None);
    }

    #[test]
    fn a_large_graph_is_not_copied() {
        let mut wire = vec![0x22];
        crate::wire::put_varint(&mut wire, 64 << 20);
        wire.resize(wire.len() + (64 << 20), 7);
        let wire = Bytes::from(wire);
        let graph = decode_metaneff(wire.clone()).unwrap().serialized_graph_def;
        assert_eq!(graph.len(), 64 << 20);
        assert!(wire.as_ptr_range().contains(&graph.as_ptr()));
    }

    #[test]
    fn deep_groups_end_in_an_error_on_a_small_stack() {
        let deep = std::thread::Builder::new().stack_size(256 << 10).spawn(|| {
            let error = decode_metaneff(vec![0x0b; 100_000]).unwrap_err();
            assert!(matches!(
                error,
                DecodeError::Wire {
                    cause: WireError::TooDeep { .. },
                    ..
                }
            ));
            let mut shape = Vec::new();
            for _ in 0..200 {
                let mut outer = vec![0x22];
                crate::wire::put_varint(&mut outer, shape.len() as u64);
                outer.append(&mut shape);
                shape = outer;
            }
            let mut module = vec![0x22];
            let mut program = vec![0x12];
            crate::wire::put_varint(&mut program, shape.len() as u64);
            program.append(&mut shape);
            crate::wire::put_varint(&mut module, program.len() as u64);
            module.append(&mut program);
            let error = decode_hlo(module).unwrap_err();
            assert!(matches!(
                error,
                DecodeError::Wire {
                    cause: WireError::TooDeep { .. },
                    ..
                }
            ));
        });
        deep.unwrap().join().unwrap();
    }

    #[test]
    fn empty_messages_are_not_worth_their_memory() {
        let error = decode_metaneff([0x0a, 0x00].repeat(100_000)).unwrap_err();
        assert!(matches!(
            error,
            DecodeError::OutOfProportion { size: 200_000, .. }
        ));
        let mut computation = [0x12, 0x00].repeat(100_000);
        let mut module = vec![0x1a];
        crate::wire::put_varint(&mut module, computation.len() as u64);
        module.append(&mut computation);
        let error = decode_hlo(module).unwrap_err();
        assert!(matches!(
            error,
            DecodeError::OutOfProportion {
                message: "HloModuleProto",
                ..
            }
        ));
    }

    #[test]
    fn a_huge_length_is_refused_before_anything_is_allocated() {
        let error = decode_metaneff(b"\x0a\xff\xff\xff\xff\x0f".to_vec()).unwrap_err();
        assert!(matches!(
            error,
            DecodeError::Wire {
                cause: WireError::Truncated {
                    needed: 0xffff_ffff,
                    ..
                },
                ..
            }
        ));
    }

    #[test]
    fn a_wrapped_module_is_told_from_a_module() {
        let module = xla::HloModuleProto {
            name: "m".to_owned(),
            computations: vec![xla::HloComputationProto {
                instructions: vec![xla::HloInstructionProto::default()],
                ..Default::default()
            }],
            ..Default::default()
        };
        let wrapped = xla::HloProto {
            hlo_module: Some(module.clone()),
        };
        let wrapped = Bytes::from(wrapped.encode_to_vec());
        assert_eq!(decode_hlo(wrapped.clone()), Err(DecodeError::Wrapped));
        let inner = unwrap_hlo_proto(&wrapped).unwrap();
        assert_eq!(decode_hlo(inner.clone()).unwrap(), module);
        assert_eq!(unwrap_hlo_proto(&inner), Err(DecodeError::NotWrapped));
    }
}
