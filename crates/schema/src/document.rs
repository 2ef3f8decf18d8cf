//! Editing a metaneff without loss.
//!
//! Decoding a message and writing it again drops what this version does not
//! know, and copies the graph. A [`Document`] keeps the bytes: an edit replaces
//! the few fields concerned, and everything else is the original memory.
//!
//! Source: page "metaneff Protobuf + var/mem_ref Device I/O ABI", section 6, for
//! what the native setters write.

use std::io;
use std::ops::Range;

use bytes::Bytes;

use crate::metaneff::MetaNeff;
use crate::wire::{Fields, WireError, WireType, put_varint};
use crate::{DecodeError, decode_metaneff};

/// Fields of `MetaNeff`.
const INPUT_TENSORS: u32 = 1;
const OUTPUT_TENSORS: u32 = 2;
const MODEL_CONFIG: u32 = 3;
const OUTPUT_ALIASES_TO: u32 = 6;
const LAST_FIELD: u32 = 9;

/// Fields of `MetaTensor`.
const NAME: u32 = 1;
const ALLOW_DYNAMIC_BATCH_SIZE: u32 = 5;
const LAST_TENSOR_FIELD: u32 = 8;

/// Fields of `ModelConfig`.
const ASYNC_LOAD: u32 = 4;
const LAZY_LOAD: u32 = 5;
const RETURN_ALIASES: u32 = 6;

/// A field that this version has no name for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownField {
    /// The message it stands in, such as `input_tensors[3]`; empty for the top.
    pub path: String,
    /// Its number.
    pub number: u32,
    /// How its value is written.
    pub wire_type: WireType,
    /// Its bytes in the document, tag included.
    pub range: Range<usize>,
}

/// Why a document cannot be edited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The number of flags is not the number of tensors.
    #[error("{found} flags for {side} tensors, expected {expected}")]
    Count {
        /// `input` or `output`.
        side: &'static str,
        /// Tensors on that side.
        expected: usize,
        /// Flags given.
        found: usize,
    },
    /// There is no such tensor.
    #[error("there is no {side} {ordinal}, the metaneff has {count}")]
    Ordinal {
        /// Which side: `input` or `output`.
        side: &'static str,
        /// The tensor asked for.
        ordinal: usize,
        /// Tensors on that side.
        count: usize,
    },
}

/// One field of the top message, tag included.
#[derive(Clone, Debug)]
struct Piece {
    number: u32,
    bytes: Bytes,
}

/// A metaneff as bytes, to be edited field by field.
///
/// # Examples
///
/// ```
/// use bytes::Bytes;
/// use metaneff_schema::Document;
///
/// // A configuration with `return_aliases`, and a field 99 of a newer producer.
/// let wire = Bytes::from_static(b"\x1a\x02\x30\x01\x98\x06\x2a");
/// let mut document = Document::parse(wire)?;
/// assert_eq!(document.unknown_fields()[0].number, 99);
/// document.set_async_load(true);
/// assert_eq!(document.to_vec(), b"\x1a\x04\x30\x01\x20\x01\x98\x06\x2a");
/// # Ok::<(), metaneff_schema::DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Document {
    pieces: Vec<Piece>,
}

impl Document {
    /// Takes a metaneff; the bytes are shared, not copied.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] when they are no metaneff.
    pub fn parse(bytes: impl Into<Bytes>) -> Result<Self, DecodeError> {
        let bytes = bytes.into();
        decode_metaneff(bytes.clone())?;
        let pieces = Fields::new(&bytes)
            .map(|field| {
                let field = field?;
                Ok(Piece {
                    number: field.number,
                    bytes: bytes.slice(field.range),
                })
            })
            .collect::<Result<_, WireError>>()
            .map_err(|cause| DecodeError::Wire {
                message: "MetaNeff",
                cause,
            })?;
        Ok(Self { pieces })
    }

    /// A document of a message that was made in code.
    #[must_use]
    pub fn of(message: &MetaNeff) -> Self {
        let bytes = Bytes::from(prost::Message::encode_to_vec(message));
        let pieces = Fields::new(&bytes).flatten().map(|field| Piece {
            number: field.number,
            bytes: bytes.slice(field.range),
        });
        Self {
            pieces: pieces.collect(),
        }
    }

    /// The message as it stands now. The graph is shared.
    ///
    /// # Errors
    ///
    /// None for a document that was parsed; the signature is that of decoding.
    pub fn message(&self) -> Result<MetaNeff, DecodeError> {
        let mut message = MetaNeff::default();
        for piece in &self.pieces {
            prost::Message::merge(&mut message, piece.bytes.clone()).map_err(|cause| {
                DecodeError::Fields {
                    message: "MetaNeff",
                    cause,
                }
            })?;
        }
        Ok(message)
    }

    /// Fields that this version has no name for, in the document's order. They
    /// survive every edit.
    #[must_use]
    pub fn unknown_fields(&self) -> Vec<UnknownField> {
        let mut unknown = Vec::new();
        let mut base = 0;
        let (mut inputs, mut outputs) = (0, 0);
        for piece in &self.pieces {
            let inner = match piece.number {
                INPUT_TENSORS => {
                    inputs += 1;
                    Some((format!("input_tensors[{}]", inputs - 1), LAST_TENSOR_FIELD))
                }
                OUTPUT_TENSORS => {
                    outputs += 1;
                    Some((
                        format!("output_tensors[{}]", outputs - 1),
                        LAST_TENSOR_FIELD,
                    ))
                }
                MODEL_CONFIG => Some(("model_config".to_owned(), RETURN_ALIASES)),
                OUTPUT_ALIASES_TO => Some(("output_aliases_to".to_owned(), 2)),
                _ => None,
            };
            if let (Some((path, last)), Some(payload)) = (inner, payload(&piece.bytes)) {
                collect(
                    &mut unknown,
                    &path,
                    last,
                    &piece.bytes[payload.clone()],
                    base + payload.start,
                );
            } else if piece.number > LAST_FIELD {
                collect(&mut unknown, "", LAST_FIELD, &piece.bytes, base);
            }
            base += piece.bytes.len();
        }
        unknown
    }

    /// Loads in the background (`ModelConfig.async_load`).
    pub fn set_async_load(&mut self, value: bool) {
        self.set_config(ASYNC_LOAD, value);
    }

    /// Loads at the first use (`ModelConfig.lazy_load`).
    pub fn set_lazy_load(&mut self, value: bool) {
        self.set_config(LAZY_LOAD, value);
    }

    /// Returns aliased outputs to the caller (`ModelConfig.return_aliases`).
    pub fn set_return_aliases(&mut self, value: bool) {
        self.set_config(RETURN_ALIASES, value);
    }

    /// Lets the leading dimension of every tensor vary, or of none.
    pub fn set_dynamic_batching(&mut self, value: bool) {
        for piece in &mut self.pieces {
            if matches!(piece.number, INPUT_TENSORS | OUTPUT_TENSORS) {
                set_flag(piece, ALLOW_DYNAMIC_BATCH_SIZE, value);
            }
        }
    }

    /// Lets the leading dimension of chosen tensors vary: one flag a tensor, in
    /// the order of their ordinals.
    ///
    /// # Errors
    ///
    /// [`EditError::Count`] when the numbers differ; nothing is changed then.
    pub fn set_dynamic_batching_mixed(
        &mut self,
        inputs: &[bool],
        outputs: &[bool],
    ) -> Result<(), EditError> {
        let sides = [
            ("input", INPUT_TENSORS, inputs),
            ("output", OUTPUT_TENSORS, outputs),
        ];
        for (side, number, flags) in sides {
            let expected = self
                .pieces
                .iter()
                .filter(|piece| piece.number == number)
                .count();
            if expected != flags.len() {
                return Err(EditError::Count {
                    side,
                    expected,
                    found: flags.len(),
                });
            }
        }
        for (_, number, flags) in sides {
            let tensors = self
                .pieces
                .iter_mut()
                .filter(|piece| piece.number == number);
            for (piece, value) in tensors.zip(flags) {
                set_flag(piece, ALLOW_DYNAMIC_BATCH_SIZE, *value);
            }
        }
        Ok(())
    }

    /// Renames an input: the key by which the device finds it, and nothing else.
    ///
    /// # Errors
    ///
    /// [`EditError::Ordinal`] if there is no such input.
    pub fn set_input_name(&mut self, ordinal: usize, name: &str) -> Result<(), EditError> {
        self.set_name("input", INPUT_TENSORS, ordinal, name)
    }

    /// Renames an output, as [`set_input_name`](Self::set_input_name) an input.
    ///
    /// # Errors
    ///
    /// [`EditError::Ordinal`] if there is no such output.
    pub fn set_output_name(&mut self, ordinal: usize, name: &str) -> Result<(), EditError> {
        self.set_name("output", OUTPUT_TENSORS, ordinal, name)
    }

    fn set_name(
        &mut self,
        side: &'static str,
        number: u32,
        ordinal: usize,
        name: &str,
    ) -> Result<(), EditError> {
        let count = self
            .pieces
            .iter()
            .filter(|piece| piece.number == number)
            .count();
        let mut tensors = self
            .pieces
            .iter_mut()
            .filter(|piece| piece.number == number);
        let Some(piece) = tensors.nth(ordinal) else {
            return Err(EditError::Ordinal {
                side,
                ordinal,
                count,
            });
        };
        let Some(range) = payload(&piece.bytes) else {
            return Ok(());
        };
        let body = &piece.bytes[range];
        // Writers put the name first.
        let mut edited = encode(NAME, name.as_bytes()).to_vec();
        for field in Fields::new(body)
            .flatten()
            .filter(|field| field.number != NAME)
        {
            edited.extend_from_slice(&body[field.range]);
        }
        piece.bytes = encode(piece.number, &edited);
        Ok(())
    }

    /// The document in parts that are written one after the other. Parts that no
    /// edit touched are the original memory.
    pub fn chunks(&self) -> impl Iterator<Item = &Bytes> {
        self.pieces.iter().map(|piece| &piece.bytes)
    }

    /// Bytes of the whole document.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chunks().map(Bytes::len).sum()
    }

    /// Whether the document has no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Writes the document without putting it together in memory first.
    ///
    /// # Errors
    ///
    /// What the writer answers.
    pub fn write_to(&self, mut writer: impl io::Write) -> io::Result<()> {
        self.chunks().try_for_each(|chunk| writer.write_all(chunk))
    }

    /// The document in one piece; copies the graph.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len());
        for chunk in self.chunks() {
            out.extend_from_slice(chunk);
        }
        out
    }

    /// A message that stands several times is merged by readers, and the last
    /// value counts: all but the last lose the flag.
    fn set_config(&mut self, number: u32, value: bool) {
        let mut last = true;
        for piece in self
            .pieces
            .iter_mut()
            .rev()
            .filter(|piece| piece.number == MODEL_CONFIG)
        {
            set_flag(piece, number, last && value);
            last = false;
        }
        if last && value {
            let mut piece = Piece {
                number: MODEL_CONFIG,
                bytes: encode(MODEL_CONFIG, &[]),
            };
            set_flag(&mut piece, number, true);
            self.pieces.push(piece);
        }
    }
}

fn collect(unknown: &mut Vec<UnknownField>, path: &str, last: u32, bytes: &[u8], base: usize) {
    for field in Fields::new(bytes)
        .flatten()
        .filter(|field| field.number > last)
    {
        unknown.push(UnknownField {
            path: path.to_owned(),
            number: field.number,
            wire_type: field.wire_type,
            range: base + field.range.start..base + field.range.end,
        });
    }
}

/// Where the contents of a piece with a length stand in it.
fn payload(piece: &[u8]) -> Option<Range<usize>> {
    let field = Fields::new(piece).next()?.ok()?;
    (field.wire_type == WireType::Length).then_some(field.payload)
}

/// Sets a bool in the message that a piece holds. A bool that has the value
/// already, by itself or by default, leaves every byte as it is.
fn set_flag(piece: &mut Piece, number: u32, value: bool) {
    let Some(range) = payload(&piece.bytes) else {
        return;
    };
    let body = &piece.bytes[range];
    let mut now = false;
    for field in Fields::new(body)
        .flatten()
        .filter(|field| field.number == number)
    {
        now = field.varint != 0;
    }
    if now == value {
        return;
    }
    let mut edited = Vec::with_capacity(body.len() + 2);
    for field in Fields::new(body)
        .flatten()
        .filter(|field| field.number != number)
    {
        edited.extend_from_slice(&body[field.range]);
    }
    if value {
        put_varint(&mut edited, u64::from(number) << 3);
        edited.push(1);
    }
    piece.bytes = encode(piece.number, &edited);
}

fn encode(number: u32, body: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(body.len() + 8);
    put_varint(&mut out, u64::from(number) << 3 | 2);
    put_varint(&mut out, body.len() as u64);
    out.extend_from_slice(body);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two inputs (one with an unknown field 20), one output, a graph of 1 MiB,
    /// an unknown field 99.
    fn wire() -> Bytes {
        let mut out = b"\x0a\x0b\x0a\x06input0\xa0\x01\x07\x0a\x0a\x0a\x06input1\x28\x01".to_vec();
        out.extend_from_slice(b"\x12\x09\x0a\x07output0");
        out.extend_from_slice(&encode(4, &vec![5; 1 << 20]));
        out.extend_from_slice(b"\x9a\x06\x02hi");
        out.into()
    }

    #[test]
    fn an_unchanged_document_is_the_same_bytes() {
        let mut document = Document::parse(wire()).unwrap();
        assert_eq!(document.to_vec(), wire());
        document.set_async_load(false);
        document.set_lazy_load(false);
        assert_eq!(document.to_vec(), wire());
        assert_eq!(document.len(), wire().len());
    }

    #[test]
    fn a_name_is_changed_and_nothing_else() {
        let mut document = Document::parse(wire()).unwrap();
        document.set_input_name(0, "ids").unwrap();
        document.set_output_name(0, "logits").unwrap();
        let mut expected =
            b"\x0a\x08\x0a\x03ids\xa0\x01\x07\x0a\x0a\x0a\x06input1\x28\x01".to_vec();
        expected.extend_from_slice(b"\x12\x08\x0a\x06logits");
        expected.extend_from_slice(&wire()[b"\x0a\x0b\x0a\x06input0\xa0\x01\x07\x0a\x0a\x0a\x06input1\x28\x01\x12\x09\x0a\x07output0".len()..]);
        assert_eq!(document.to_vec(), expected);
        assert_eq!(
            document.set_input_name(2, "x"),
            Err(EditError::Ordinal {
                side: "input",
                ordinal: 2,
                count: 2
            })
        );
    }

    #[test]
    fn an_edit_keeps_unknown_fields_and_shares_the_graph() {
        let wire = wire();
        let mut document = Document::parse(wire.clone()).unwrap();
        document.set_dynamic_batching(true);
        document.set_async_load(true);
        document.set_lazy_load(true);
        let graph = document
            .chunks()
            .find(|chunk| chunk.len() > 1 << 20)
            .unwrap();
        assert!(wire.as_ptr_range().contains(&graph.as_ptr()));
        let message = document.message().unwrap();
        assert!(
            message
                .input_tensors
                .iter()
                .all(|tensor| tensor.allow_dynamic_batch_size)
        );
        assert!(message.output_tensors[0].allow_dynamic_batch_size);
        let config = message.model_config.unwrap();
        assert!(config.async_load && config.lazy_load && !config.return_aliases);
        let unknown = document.unknown_fields();
        let bytes = document.to_vec();
        let found: Vec<_> = unknown
            .iter()
            .map(|field| {
                (
                    field.path.as_str(),
                    field.number,
                    &bytes[field.range.clone()],
                )
            })
            .collect();
        let expected: [(&str, u32, &[u8]); 2] = [
            ("input_tensors[0]", 20, b"\xa0\x01\x07"),
            ("", 99, b"\x9a\x06\x02hi"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn edits_that_are_taken_back_restore_the_bytes() {
        let mut document = Document::parse(&b"\x1a\x02\x30\x01"[..]).unwrap();
        document.set_async_load(true);
        document.set_async_load(false);
        assert_eq!(document.to_vec(), b"\x1a\x02\x30\x01");
    }

    #[test]
    fn mixed_batching_sets_chosen_tensors_or_nothing() {
        let mut document = Document::parse(wire()).unwrap();
        let error = document
            .set_dynamic_batching_mixed(&[true], &[true])
            .unwrap_err();
        assert_eq!(
            error,
            EditError::Count {
                side: "input",
                expected: 2,
                found: 1
            }
        );
        assert_eq!(document.to_vec(), wire());
        document
            .set_dynamic_batching_mixed(&[true, false], &[false])
            .unwrap();
        let message = document.message().unwrap();
        let flags: Vec<_> = message
            .input_tensors
            .iter()
            .map(|t| t.allow_dynamic_batch_size)
            .collect();
        assert_eq!(flags, [true, false]);
    }

    #[test]
    fn a_repeated_configuration_counts_by_its_last_value() {
        let mut document = Document::parse(&b"\x1a\x02\x20\x01\x1a\x02\x30\x01"[..]).unwrap();
        document.set_async_load(false);
        let config = document.message().unwrap().model_config.unwrap();
        assert!(!config.async_load && config.return_aliases);
        document.set_async_load(true);
        assert!(document.message().unwrap().model_config.unwrap().async_load);
    }
}
