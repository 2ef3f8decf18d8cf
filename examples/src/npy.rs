//! Host tensors from `.npy` files.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use metaneff_binding::{HostTensor, Shape, TensorError};

/// Why a file is no host tensor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NpyError {
    /// It cannot be read.
    #[error("`{}` cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It holds what the examples do not need.
    #[error("`{}` holds {found}, expected {expected}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What is needed.
        expected: &'static str,
        /// What it holds.
        found: String,
    },
    /// Its size and its shape differ.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

/// Reads an array of `f32` or `i32` in row-major order.
///
/// # Errors
///
/// [`NpyError`] names the file.
pub fn read_npy(path: impl AsRef<Path>) -> Result<HostTensor<'static>, NpyError> {
    let path = path.as_ref();
    let failed = |source| NpyError::Read {
        path: path.to_owned(),
        source,
    };
    let unsupported = |expected, found| NpyError::Unsupported {
        path: path.to_owned(),
        expected,
        found,
    };
    let file = File::open(path).map_err(failed)?;
    let array = npyz::NpyFile::new(BufReader::new(file)).map_err(failed)?;
    if array.order() != npyz::Order::C {
        let found = "an array in column-major order".to_owned();
        return Err(unsupported("row-major order", found));
    }
    let shape = array
        .shape()
        .iter()
        .map(|&dim| usize::try_from(dim))
        .collect::<Result<Shape, _>>()
        .map_err(|_| unsupported("a shape that fits memory", format!("{:?}", array.shape())))?;
    let descr = array.dtype().descr();
    let tensor = match descr.trim_matches('\'') {
        "<f4" => HostTensor::from_vec(shape, array.into_vec::<f32>().map_err(failed)?),
        "<i4" => HostTensor::from_vec(shape, array.into_vec::<i32>().map_err(failed)?)
            .map_err(|rejected| rejected.into_reason())
            .map(Ok)?,
        _ => return Err(unsupported("'<f4' or '<i4'", descr)),
    };
    tensor.map_err(|rejected| rejected.into_reason().into())
}
