//! The header of a safetensors file: a length, and a JSON map of tensors.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io::{self, Read};

use safetensors::Dtype;
use safetensors::tensor::Metadata;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};

use super::Entry;
use crate::dtype::DType;
use crate::shape::Shape;

/// Largest header, as the format's own readers have it.
const HEADER_LIMIT: u64 = 100_000_000;

/// Bytes of the length in front of the header.
const LENGTH: u64 = 8;

/// Why a safetensors header was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The file is too short for the length of its header.
    #[error("the file has less than 8 bytes")]
    NoLength,
    /// The header is longer than the format allows, or than the file.
    #[error("a header of {found} bytes is more than {limit}")]
    TooLarge {
        /// Bytes by the file's first word.
        found: u64,
        /// Bytes that it may have.
        limit: u64,
    },
    /// The header is no map of tensors whose offsets, shapes and types agree.
    #[error("the header is refused: {detail}")]
    Invalid {
        /// The format's own reader's words.
        detail: String,
    },
    /// Two tensors have one key.
    #[error("key `{key}` stands twice in the header")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// The tensors end before or after the file does.
    #[error("the tensors take {expected} bytes, the file has {found} for them")]
    Size {
        /// Bytes by the header.
        expected: u64,
        /// Bytes after the header.
        found: u64,
    },
}

type Entries = BTreeMap<String, Entry>;

/// Reads the header of a file of `size` bytes: the tensors, and where their
/// bytes start.
pub(super) fn read(
    file: &mut impl Read,
    size: u64,
) -> io::Result<Result<(Entries, u64), HeaderError>> {
    let Some(rest) = size.checked_sub(LENGTH) else {
        return Ok(Err(HeaderError::NoLength));
    };
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    let found = u64::from_le_bytes(length);
    let limit = HEADER_LIMIT.min(rest);
    let bytes = usize::try_from(found).ok().filter(|_| found <= limit);
    let Some(bytes) = bytes else {
        return Ok(Err(HeaderError::TooLarge { found, limit }));
    };
    let mut header = vec![0; bytes];
    file.read_exact(&mut header)?;
    Ok(parse(&header, rest - found).map(|entries| (entries, LENGTH + found)))
}

fn parse(header: &[u8], data: u64) -> Result<Entries, HeaderError> {
    let invalid = |detail: String| HeaderError::Invalid { detail };
    if let Some(key) = duplicate(header).map_err(|error| invalid(error.to_string()))? {
        return Err(HeaderError::DuplicateKey { key });
    }
    // Compares every shape with its offsets, and leaves no gap between tensors.
    let metadata: Metadata =
        serde_json::from_slice(header).map_err(|error| invalid(error.to_string()))?;
    let mut entries = BTreeMap::new();
    let mut end = 0;
    for (key, info) in metadata.tensors() {
        let (start, stop) = info.data_offsets;
        end = end.max(stop as u64);
        entries.insert(
            key,
            Entry {
                dtype: dtype(info.dtype),
                written: info.dtype.to_string(),
                shape: Shape::from(info.shape.as_slice()),
                start: start as u64,
                size: stop - start,
            },
        );
    }
    if end == data {
        Ok(entries)
    } else {
        Err(HeaderError::Size {
            expected: end,
            found: data,
        })
    }
}

/// The first key that stands twice.
fn duplicate(header: &[u8]) -> Result<Option<String>, serde_json::Error> {
    struct Keys;
    impl<'de> Visitor<'de> for Keys {
        type Value = Option<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of tensors")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut seen = HashSet::new();
            let mut twice = None;
            while let Some((key, IgnoredAny)) = map.next_entry::<String, _>()? {
                if twice.is_none() && seen.contains(&key) {
                    twice = Some(key);
                } else {
                    seen.insert(key);
                }
            }
            Ok(twice)
        }
    }
    serde_json::Deserializer::from_slice(header).deserialize_map(Keys)
}

/// The element type of the format's, `None` for one that no slot can have.
fn dtype(dtype: Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::BOOL => DType::Bool,
        Dtype::U8 => DType::U8,
        Dtype::I8 => DType::I8,
        Dtype::I16 => DType::I16,
        Dtype::U16 => DType::U16,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::I32 => DType::I32,
        Dtype::U32 => DType::U32,
        Dtype::F32 => DType::F32,
        Dtype::F64 => DType::F64,
        Dtype::I64 => DType::I64,
        Dtype::U64 => DType::U64,
        // The format's E4M3 is the one without infinities.
        Dtype::F8_E4M3 => DType::F8E4M3FN,
        Dtype::F8_E5M2 => DType::F8E5M2,
        _ => return None,
    })
}
