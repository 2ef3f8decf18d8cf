//! Arrays from `.npy` files.

use std::path::{Path, PathBuf};

use npyz::{DType, NpyHeader, Order};

use crate::array::{Array, Buffer, ViewError};
use crate::element::ElementType;
use crate::shape::ArrayShape;

/// Why a file is no array of the wanted shape.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NpyError {
    /// The file cannot be read, or is no `.npy` file.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What failed.
        source: std::io::Error,
    },
    /// The file's header does not suit the element type.
    #[error("{path}: expected {expected}, found {found}", path = path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What the header should say.
        expected: String,
        /// What it says.
        found: String,
    },
    /// The file holds more or fewer bytes than its shape takes.
    #[error("{path}: {source}", path = path.display())]
    Size {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: ViewError,
    },
}

/// Reads an array of `element`s. Types that numpy lacks are stored as integers
/// of their size.
pub(super) fn read(path: &Path, element: ElementType) -> Result<Array, NpyError> {
    let failed = |source| NpyError::Read {
        path: path.to_owned(),
        source,
    };
    let bytes = std::fs::read(path).map_err(failed)?;
    let mut rest = &bytes[..];
    let header = NpyHeader::from_reader(&mut rest).map_err(failed)?;
    let mismatch = |expected: String, found: String| NpyError::Header {
        path: path.to_owned(),
        expected,
        found,
    };
    if header.order() != Order::C {
        return Err(mismatch("C order".into(), "Fortran order".into()));
    }
    let found = match header.dtype() {
        DType::Plain(plain) => plain.to_string(),
        other => other.descr(),
    };
    let wanted = descriptions(element);
    if !wanted.contains(&found.as_str()) {
        return Err(mismatch(format!("{wanted:?}"), found));
    }
    let dims = header.shape().iter().map(|&dim| usize::try_from(dim));
    let shape = dims
        .collect::<Result<Vec<_>, _>>()
        .ok()
        .and_then(|dims| ArrayShape::new(element, dims).ok())
        .ok_or_else(|| mismatch("a shape that fits".into(), format!("{:?}", header.shape())))?;
    Buffer::copied(rest)
        .and_then(|data| Array::new(shape, data))
        .map_err(|source| NpyError::Size {
            path: path.to_owned(),
            source,
        })
}

fn descriptions(element: ElementType) -> &'static [&'static str] {
    match element {
        ElementType::Pred => &["|b1"],
        ElementType::S4 | ElementType::S8 => &["|i1"],
        ElementType::S16 => &["<i2"],
        ElementType::S32 => &["<i4"],
        ElementType::S64 => &["<i8"],
        ElementType::U16 | ElementType::BF16 => &["<u2"],
        ElementType::U32 => &["<u4"],
        ElementType::U64 => &["<u8"],
        ElementType::F16 => &["<f2"],
        ElementType::F32 => &["<f4"],
        ElementType::F64 => &["<f8"],
        ElementType::C64 => &["<c8"],
        ElementType::C128 => &["<c16"],
        _ => &["|u1"],
    }
}
