//! The `.npy` format.
//!
//! Source: numpy's documentation, `numpy.lib.format`.

use std::io::{self, Cursor, Read};

use metaneff_binding::DType;
use npyz::{Endianness, NpyFile, Order, TypeChar};

use super::{Array, Elements};

/// numpy's names of element types; those that it has none for are opaque bytes.
const DESCRIPTIONS: &[(DType, &str)] = &[
    (DType::Bool, "|b1"),
    (DType::I8, "|i1"),
    (DType::U8, "|u1"),
    (DType::I16, "<i2"),
    (DType::U16, "<u2"),
    (DType::I32, "<i4"),
    (DType::U32, "<u4"),
    (DType::I64, "<i8"),
    (DType::U64, "<u8"),
    (DType::F16, "<f2"),
    (DType::F32, "<f4"),
    (DType::F64, "<f8"),
    (DType::BF16, "|V2"),
    (DType::F8E4M3FN, "|V1"),
    (DType::F8E5M2, "|V1"),
    (DType::F8E4M3, "|V1"),
    (DType::F8E3M4, "|V1"),
];

/// The bytes in front of an array's elements, version 1.0, row-major.
pub(super) fn header(dtype: DType, shape: &[usize]) -> Vec<u8> {
    let description = DESCRIPTIONS
        .iter()
        .find(|(known, _)| *known == dtype)
        .map_or("|V1", |(_, text)| *text);
    let dims: Vec<_> = shape.iter().map(usize::to_string).collect();
    let comma = if dims.len() == 1 { "," } else { "" };
    let mut text = format!(
        "{{'descr': '{description}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        dims.join(", ")
    );
    // Magic, version and length are 10 bytes; all together end at a multiple of 64.
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    text.push_str(&" ".repeat(length - text.len() - 1));
    text.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out
}

/// Reads an array whose file has at most `limit` bytes.
pub(super) fn read(reader: impl Read, limit: u64) -> io::Result<Array> {
    let mut reader = reader.take(limit);
    let start = start(&mut reader)?;
    check_shape(&start, limit)?;
    let file = NpyFile::new(Cursor::new(start).chain(reader))?;
    let text = match file.dtype() {
        npyz::DType::Plain(text) => text,
        other => {
            return Err(invalid(format!(
                "records of {} are no array",
                other.descr()
            )));
        }
    };
    let description = text.to_string();
    let size = match text.type_char() {
        // For raw data the field is the size itself.
        TypeChar::RawData => usize::try_from(text.size_field()).unwrap_or_default(),
        _ => text.num_bytes().unwrap_or_default(),
    };
    let plain = format!("{}{}", if size == 1 { "|" } else { "<" }, &description[1..]);
    let known = DESCRIPTIONS.iter().find(|(_, known)| *known == plain);
    let elements = match (known, text.type_char()) {
        (_, TypeChar::RawData) if size > 0 => Elements::Opaque(size),
        (Some((dtype, _)), _) => Elements::Of(*dtype),
        _ => {
            return Err(invalid(format!(
                "elements of type {description} fit no slot"
            )));
        }
    };
    let dims = file.shape().iter().map(|&dim| usize::try_from(dim));
    let shape: Vec<usize> = dims
        .collect::<Result<_, _>>()
        .map_err(|_| invalid(format!("shape {:?} fits no memory", file.shape())))?;
    let expected = shape
        .iter()
        .try_fold(size, |bytes, &dim| bytes.checked_mul(dim))
        .filter(|&bytes| bytes as u64 <= limit)
        .ok_or_else(|| invalid(format!("shape {shape:?} has more elements than the file")))?;
    let order = file.order();
    let mut bytes = Vec::new();
    file.into_inner().read_to_end(&mut bytes)?;
    if bytes.len() != expected {
        let found = bytes.len();
        return Err(invalid(format!(
            "{expected} bytes of elements expected, found {found}"
        )));
    }
    if text.endianness() == Endianness::Big {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    if order == Order::Fortran {
        bytes = row_major(&bytes, &shape, size);
    }
    Ok(Array {
        elements,
        shape,
        bytes: bytes.into(),
    })
}

/// Magic, version, length and text of the header.
fn start(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut start = vec![0; 12];
    reader.read_exact(&mut start)?;
    // Version 1 has a length of two bytes, later ones have four.
    let (length, rest) = match (start.get(..6), start.get(6), start.get(8..)) {
        (Some(b"\x93NUMPY"), Some(1), Some([a, b, ..])) => {
            (u64::from(u16::from_le_bytes([*a, *b])), 2)
        }
        (Some(b"\x93NUMPY"), Some(2 | 3), Some([a, b, c, d])) => {
            (u64::from(u32::from_le_bytes([*a, *b, *c, *d])), 0)
        }
        _ => return Err(invalid("not a .npy file of version 1 to 3".to_owned())),
    };
    let left = length.saturating_sub(rest);
    let read = reader.take(left).read_to_end(&mut start)?;
    if read as u64 != left {
        return Err(invalid(format!(
            "header of {length} bytes announced, found fewer"
        )));
    }
    Ok(start)
}

/// Refuses dimensions whose product is above the file's size, before anything is
/// computed with them.
fn check_shape(start: &[u8], limit: u64) -> io::Result<()> {
    let text = String::from_utf8_lossy(start);
    // Records nest, plain arrays do not; a parser may recurse as deep as a text nests.
    let nested = |open: char| text.matches(open).count() > 1;
    if text.contains('[') || nested('(') || nested('{') {
        return Err(invalid("records are no array".to_owned()));
    }
    let dims = text.split_once("'shape'").and_then(|(_, rest)| {
        let (_, rest) = rest.split_once('(')?;
        Some(rest.split_once(')')?.0)
    });
    let dims = dims.ok_or_else(|| invalid("the header has no shape".to_owned()))?;
    let mut product = Some(1_u64);
    for dim in dims.split(',').map(str::trim).filter(|dim| !dim.is_empty()) {
        let dim = dim.trim_end_matches('L').parse::<u64>();
        let dim = dim.map_err(|_| invalid(format!("the shape ({dims}) is not one of numbers")))?;
        // A zero makes the others harmless only if none of them overflows.
        product = product.and_then(|product| product.checked_mul(dim.max(1)));
    }
    match product {
        Some(product) if product <= limit => Ok(()),
        _ => Err(invalid(format!(
            "shape ({dims}) has more elements than the file"
        ))),
    }
}

/// Turns a column-major array round.
fn row_major(bytes: &[u8], shape: &[usize], size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = vec![0; shape.len()];
    for _ in 0..bytes.len() / size.max(1) {
        let mut at = 0;
        for (&position, &dim) in index.iter().zip(shape).rev() {
            at = at * dim + position;
        }
        out.extend_from_slice(bytes.get(at * size..(at + 1) * size).unwrap_or_default());
        for (position, &dim) in index.iter_mut().zip(shape).rev() {
            *position += 1;
            if *position < dim {
                break;
            }
            *position = 0;
        }
    }
    out
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(description: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let text = format!(
            "{{'descr': '{description}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n"
        );
        let mut out = b"\x93NUMPY\x01\x00".to_vec();
        out.extend_from_slice(&u16::try_from(text.len()).unwrap().to_le_bytes());
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(data);
        out
    }

    #[test]
    fn what_is_written_is_read() {
        for (dtype, _) in DESCRIPTIONS {
            let data = vec![7; 6 * dtype.size()];
            for shape in [vec![6], vec![2, 3], vec![1, 6, 1]] {
                let mut bytes = header(*dtype, &shape);
                assert_eq!(bytes.len() % 64, 0);
                bytes.extend_from_slice(&data);
                let array = read(&*bytes, bytes.len() as u64).unwrap();
                assert_eq!((&array.shape, &*array.bytes), (&shape, &*data));
                match array.elements {
                    Elements::Of(found) => assert_eq!(found, *dtype),
                    found => assert_eq!(found, Elements::Opaque(dtype.size())),
                }
            }
        }
    }

    #[test]
    fn foreign_orders_are_turned_round() {
        let columns = file(
            "<i2",
            "True",
            "(2, 3)",
            &[1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6, 0],
        );
        let array = read(&*columns, 1 << 20).unwrap();
        assert_eq!(&*array.bytes, [1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0]);
        let big = file(">i4", "False", "(1,)", &[0, 0, 1, 2]);
        assert_eq!(&*read(&*big, 1 << 20).unwrap().bytes, [2, 1, 0, 0]);
    }

    #[test]
    fn headers_that_nest_are_refused_before_they_are_parsed() {
        for open in ["[", "(", "{"] {
            let deep = format!("{{'shape': (1,), 'descr': {}", open.repeat(60_000));
            let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
            bytes.extend_from_slice(&u16::try_from(deep.len()).unwrap().to_le_bytes());
            bytes.extend_from_slice(deep.as_bytes());
            let error = read(&*bytes, 1 << 20).unwrap_err();
            assert!(error.to_string().contains("no array"), "{error}");
        }
    }

    proptest! {
        /// Whatever one byte becomes, and wherever the file ends, there is an answer.
        #[test]
        fn damaged_files_end_in_an_answer(at in 0_usize..160, byte in any::<u8>(), end in 0_usize..160) {
            let mut bytes = header(DType::F32, &[2, 4]);
            bytes.extend_from_slice(&[1; 32]);
            if let Some(found) = bytes.get_mut(at) {
                *found = byte;
            }
            bytes.truncate(end.max(at));
            if let Ok(array) = read(&*bytes, bytes.len() as u64) {
                let size = match array.elements {
                    Elements::Of(dtype) => dtype.size(),
                    Elements::Opaque(size) => size,
                    Elements::Raw => 1,
                };
                let elements: usize = array.shape.iter().product();
                prop_assert_eq!(array.bytes.len(), elements * size);
            }
        }
    }

    #[test]
    fn files_that_lie_are_refused() {
        for (bytes, part) in [
            (
                file("<f4", "False", "(2,)", &[0; 4]),
                "8 bytes of elements expected, found 4",
            ),
            (
                file("<f4", "False", "(1,)", &[0; 8]),
                "4 bytes of elements expected, found 8",
            ),
            (
                file("<f4", "False", "(9223372036854775807, 8)", &[]),
                "more elements than the file",
            ),
            (file("<c8", "False", "(1,)", &[0; 8]), "fit no slot"),
            (file("|O", "False", "(1,)", &[0; 8]), "fit no slot"),
            (b"text".to_vec(), ""),
        ] {
            let error = read(&*bytes, 1 << 20).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
