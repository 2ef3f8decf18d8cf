//! The protobuf wire format, field by field and without a schema.
//!
//! Source: the encoding guide of Protocol Buffers. A reader here never
//! allocates, never recurses, and never looks past the bytes it was given.

use std::ops::Range;

/// Groups inside groups that a reader follows, as in protobuf's own readers.
pub(crate) const MAX_DEPTH: usize = 100;

/// How a field's value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WireType {
    /// A base-128 number (0).
    Varint,
    /// Eight bytes (1).
    Fixed64,
    /// A length and that many bytes (2).
    Length,
    /// Fields up to an end marker (3); deprecated.
    Group,
    /// Four bytes (5).
    Fixed32,
}

/// Why bytes are not fields.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes end inside a field.
    #[error("field at byte {offset} needs {needed} bytes, found {found}")]
    Truncated {
        /// Where the missing bytes should start.
        offset: usize,
        /// Bytes that the field announces.
        needed: u64,
        /// Bytes that there are.
        found: usize,
    },
    /// A base-128 number has more than ten bytes.
    #[error("number at byte {offset} has more than 10 bytes")]
    Overlong {
        /// Where the number starts.
        offset: usize,
    },
    /// A tag that no field can have.
    #[error("tag {tag:#x} at byte {offset} is not valid")]
    Tag {
        /// Where the tag starts.
        offset: usize,
        /// The tag.
        tag: u64,
    },
    /// Groups or messages inside each other, more than a reader follows.
    #[error("nesting at byte {offset} is deeper than {limit}")]
    TooDeep {
        /// Where the limit is passed.
        offset: usize,
        /// The limit.
        limit: usize,
    },
}

/// One field of a message.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// The field's number.
    pub(crate) number: u32,
    /// How its value is written.
    pub(crate) wire_type: WireType,
    /// The whole field, tag included, in the bytes that the reader was given.
    pub(crate) range: Range<usize>,
    /// The value without tag and length.
    pub(crate) payload: Range<usize>,
    /// The value of a base-128 number, else 0.
    pub(crate) varint: u64,
}

/// Iterates over the fields of `bytes[start..end]`; ranges are those of `bytes`.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Fields<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    fn varint(&mut self) -> Result<u64, WireError> {
        let offset = self.position;
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let byte = *self.bytes.get(self.position).ok_or(WireError::Truncated {
                offset: self.position,
                needed: 1,
                found: 0,
            })?;
            self.position += 1;
            if shift < 64 {
                value |= u64::from(byte & 0x7f) << shift;
            }
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(WireError::Overlong { offset })
    }

    fn skip(&mut self, count: u64) -> Result<Range<usize>, WireError> {
        let start = self.position;
        let found = self.bytes.len() - start;
        match usize::try_from(count) {
            Ok(count) if count <= found => {
                self.position += count;
                Ok(start..self.position)
            }
            _ => Err(WireError::Truncated {
                offset: start,
                needed: count,
                found,
            }),
        }
    }

    fn tag(&mut self) -> Result<(u32, u64), WireError> {
        let offset = self.position;
        let tag = self.varint()?;
        match u32::try_from(tag >> 3) {
            Ok(number) if number != 0 && number < (1 << 29) => Ok((number, tag & 7)),
            _ => Err(WireError::Tag { offset, tag }),
        }
    }

    fn field(&mut self) -> Result<Field, WireError> {
        let start = self.position;
        let (number, kind) = self.tag()?;
        let mut varint = 0;
        let (wire_type, payload) = match kind {
            0 => {
                let from = self.position;
                varint = self.varint()?;
                (WireType::Varint, from..self.position)
            }
            1 => (WireType::Fixed64, self.skip(8)?),
            2 => {
                let length = self.varint()?;
                (WireType::Length, self.skip(length)?)
            }
            3 => (WireType::Group, self.group(number, start)?),
            5 => (WireType::Fixed32, self.skip(4)?),
            _ => {
                let tag = u64::from(number) << 3 | kind;
                return Err(WireError::Tag { offset: start, tag });
            }
        };
        Ok(Field {
            number,
            wire_type,
            range: start..self.position,
            payload,
            varint,
        })
    }

    /// Skips a group that has just been opened, groups inside it included.
    fn group(&mut self, number: u32, start: usize) -> Result<Range<usize>, WireError> {
        let from = self.position;
        let mut open = [0_u32; MAX_DEPTH];
        open[0] = number;
        let mut depth = 1;
        loop {
            let offset = self.position;
            let (number, kind) = self.tag()?;
            match kind {
                0 => {
                    self.varint()?;
                }
                1 => {
                    self.skip(8)?;
                }
                2 => {
                    let length = self.varint()?;
                    self.skip(length)?;
                }
                3 => {
                    let slot = open.get_mut(depth).ok_or(WireError::TooDeep {
                        offset: start,
                        limit: MAX_DEPTH,
                    })?;
                    *slot = number;
                    depth += 1;
                }
                4 if open[depth - 1] == number => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(from..offset);
                    }
                }
                5 => {
                    self.skip(4)?;
                }
                _ => {
                    let tag = u64::from(number) << 3 | kind;
                    return Err(WireError::Tag { offset, tag });
                }
            }
        }
    }
}

impl Iterator for Fields<'_> {
    type Item = Result<Field, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.position >= self.bytes.len() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.position = self.bytes.len();
        }
        Some(field)
    }
}

/// Appends a base-128 number.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<Field>, WireError> {
        Fields::new(bytes).collect()
    }

    #[test]
    fn fields_have_ranges_and_values() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 0x02, 0xaa, 0xbb, 0x1d, 1, 2, 3, 4];
        let fields = all(&bytes).unwrap();
        assert_eq!(fields.len(), 3);
        assert_eq!(
            (fields[0].number, fields[0].varint, fields[0].range.clone()),
            (1, 150, 0..3)
        );
        assert_eq!(
            (fields[1].wire_type, fields[1].payload.clone()),
            (WireType::Length, 5..7)
        );
        assert_eq!(
            (fields[2].wire_type, fields[2].range.clone()),
            (WireType::Fixed32, 7..12)
        );
    }

    #[test]
    fn a_length_beyond_the_data_is_named() {
        let error = all(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]).unwrap_err();
        assert_eq!(
            error,
            WireError::Truncated {
                offset: 6,
                needed: 0xffff_ffff,
                found: 0
            }
        );
    }

    #[test]
    fn groups_are_skipped_up_to_a_depth() {
        let nested = |depth: usize| [vec![0x0b; depth], vec![0x0c; depth]].concat();
        assert_eq!(all(&nested(100)).unwrap()[0].payload, 1..199);
        let deep = all(&nested(101)).unwrap_err();
        assert_eq!(
            deep,
            WireError::TooDeep {
                offset: 0,
                limit: 100
            }
        );
        assert!(matches!(
            all(&[0x0b, 0x14]),
            Err(WireError::Tag {
                offset: 1,
                tag: 0x14
            })
        ));
    }

    #[test]
    fn tags_and_numbers_that_cannot_be_are_refused() {
        assert!(matches!(all(&[0x00]), Err(WireError::Tag { .. })));
        assert!(matches!(all(&[0x0e]), Err(WireError::Tag { .. })));
        assert_eq!(
            all(&[0xff; 11]).unwrap_err(),
            WireError::Overlong { offset: 0 }
        );
    }
}
