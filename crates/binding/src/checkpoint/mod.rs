//! Checkpoints: safetensors files, read one tensor at a time.
//!
//! A file is read by ranges and not mapped: one that shrinks under a mapping
//! would end the process, here it is an error. At most one tensor is in host
//! memory at a time, and nothing larger than the file is ever allocated.

mod header;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::contract::{Contract, Slot, ValidateError};
use crate::dtype::DType;
use crate::failure::Rejected;
use crate::model::WeightsError;
use crate::session::StatesError;
use crate::shape::Shape;
use crate::tensor::{HostTensor, Tensor, TensorError, Validated};

pub use header::HeaderError;

/// A safetensors file: tensors by key.
///
/// # Examples
///
/// ```
/// use metaneff_binding::{Checkpoint, DType};
///
/// let header = br#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
/// let mut file = (header.len() as u64).to_le_bytes().to_vec();
/// file.extend_from_slice(header);
/// file.extend_from_slice(&[0, 0, 128, 63, 0, 0, 0, 64]);
///
/// let checkpoint = Checkpoint::from_bytes(file)?;
/// assert_eq!(checkpoint.keys().collect::<Vec<_>>(), ["w"]);
/// assert_eq!(checkpoint.dtype("w"), Some(DType::F32));
/// assert_eq!(checkpoint.read("w")?.to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), metaneff_binding::Error>(())
/// ```
pub struct Checkpoint {
    source: Source,
    /// Where the tensors' bytes start.
    data: u64,
    entries: BTreeMap<String, Entry>,
}

enum Source {
    File { path: PathBuf, file: Mutex<File> },
    Memory(Bytes),
}

/// One tensor of the file; its range is inside of the file.
#[derive(Clone, Debug)]
struct Entry {
    /// The element type, `None` for one that no slot can have.
    dtype: Option<DType>,
    /// The element type in the file's words.
    written: String,
    shape: Shape,
    start: u64,
    size: usize,
}

impl Checkpoint {
    /// Opens a safetensors file and reads its header.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Io`], and [`CheckpointError::Header`] for a header that
    /// does not describe the file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CheckpointError> {
        let path = path.as_ref();
        let failed = |source| CheckpointError::Io {
            path: path.to_owned(),
            source,
        };
        let mut file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let (entries, data) = header::read(&mut file, size)
            .map_err(failed)?
            .map_err(|reason| CheckpointError::Header {
                path: Some(path.to_owned()),
                reason,
            })?;
        let source = Source::File {
            path: path.to_owned(),
            file: Mutex::new(file),
        };
        Ok(Self {
            source,
            data,
            entries,
        })
    }

    /// Opens the shard of one rank in a folder:
    /// `tp{rank}_sharded_checkpoint.safetensors`, as neuronx-distributed writes it.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Rank`] if there is no such rank, and as
    /// [`open`](Self::open).
    pub fn open_rank(
        folder: impl AsRef<Path>,
        rank: u32,
        world_size: u32,
    ) -> Result<Self, CheckpointError> {
        if rank >= world_size {
            return Err(CheckpointError::Rank { rank, world_size });
        }
        let name = format!("tp{rank}_sharded_checkpoint.safetensors");
        Self::open(folder.as_ref().join(name))
    }

    /// Takes a safetensors file from memory. Tensors that are read share it.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Header`].
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<Self, CheckpointError> {
        let bytes = bytes.into();
        let (entries, data) = header::read(&mut &*bytes, bytes.len() as u64)
            .unwrap_or_else(|_| Err(HeaderError::NoLength))
            .map_err(|reason| CheckpointError::Header { path: None, reason })?;
        Ok(Self {
            source: Source::Memory(bytes),
            data,
            entries,
        })
    }

    /// The keys, in their order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The element type of a tensor; `None` if there is none of that key, or if
    /// no slot can have its type.
    #[must_use]
    pub fn dtype(&self, key: &str) -> Option<DType> {
        self.entries.get(key)?.dtype
    }

    /// The dimensions of a tensor.
    #[must_use]
    pub fn shape(&self, key: &str) -> Option<&Shape> {
        self.entries.get(key).map(|entry| &entry.shape)
    }

    /// Reads a tensor.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::UnknownKey`], [`CheckpointError::ElementType`], and
    /// [`CheckpointError::Io`].
    pub fn read(&self, key: &str) -> Result<HostTensor<'static>, CheckpointError> {
        let (entry, dtype) = self.entry(key)?;
        let bytes = self.bytes(entry)?;
        Ok(HostTensor::from_bytes(dtype, entry.shape.clone(), bytes)?)
    }

    /// Reads the tensor that a slot names by its checkpoint key, and validates it
    /// for that slot.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and [`CheckpointError::Validate`] if it does not
    /// fit, which is noticed before it is read.
    pub fn tensor(&self, slot: &Slot) -> Result<Tensor<Validated<'static>>, CheckpointError> {
        self.compare(slot)?;
        let tensor = self.read(key(slot)?)?;
        slot.validate(tensor)
            .map_err(Rejected::into_reason)
            .map_err(CheckpointError::Validate)
    }

    /// Whether a tensor is there for a slot.
    #[must_use]
    pub fn has(&self, slot: &Slot) -> bool {
        key(slot).is_ok_and(|key| self.entries.contains_key(key))
    }

    /// Whether the tensor for a slot has its element type and shape.
    pub(crate) fn compare(&self, slot: &Slot) -> Result<(), CheckpointError> {
        let (entry, dtype) = self.entry(key(slot)?)?;
        slot.check_type(dtype, &entry.shape)
            .map_err(CheckpointError::Validate)
    }

    /// Keys that no input of a contract names.
    pub(crate) fn unused(&self, contract: &Contract) -> Vec<String> {
        let named: std::collections::HashSet<_> = contract
            .inputs()
            .iter()
            .filter_map(Slot::checkpoint_key)
            .collect();
        let unused = self.keys().filter(|key| !named.contains(key.as_bytes()));
        unused.map(str::to_owned).collect()
    }

    fn entry(&self, key: &str) -> Result<(&Entry, DType), CheckpointError> {
        let entry = self
            .entries
            .get(key)
            .ok_or_else(|| CheckpointError::UnknownKey {
                key: key.to_owned(),
            })?;
        let dtype = entry.dtype.ok_or_else(|| CheckpointError::ElementType {
            key: key.to_owned(),
            found: entry.written.clone(),
        })?;
        Ok((entry, dtype))
    }

    fn bytes(&self, entry: &Entry) -> Result<Bytes, CheckpointError> {
        let start = self.data + entry.start;
        match &self.source {
            Source::Memory(bytes) => {
                // The header was compared with the size of the memory.
                let start = usize::try_from(start).unwrap_or(usize::MAX);
                Ok(bytes.slice(start..start + entry.size))
            }
            Source::File { path, file } => {
                let mut out = vec![0; entry.size];
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(start))
                    .and_then(|_| file.read_exact(&mut out))
                    .map_err(|source| CheckpointError::Io {
                        path: path.clone(),
                        source,
                    })?;
                Ok(out.into())
            }
        }
    }
}

/// A slot's checkpoint key; keys of safetensors are UTF-8.
fn key(slot: &Slot) -> Result<&str, CheckpointError> {
    let bytes = slot.checkpoint_key().unwrap_or_default();
    std::str::from_utf8(bytes).map_err(|_| CheckpointError::UnknownKey {
        key: String::from_utf8_lossy(bytes).into_owned(),
    })
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoint")
            .field("keys", &self.entries.len())
            .finish_non_exhaustive()
    }
}

/// Why a checkpoint was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file cannot be read.
    #[error("`{}` cannot be read", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The header does not describe the file.
    #[error(
        "{}: {reason}",
        path.as_ref().map_or("the checkpoint".to_owned(), |path| format!("`{}`", path.display()))
    )]
    Header {
        /// The file, if it is one.
        path: Option<PathBuf>,
        /// What is wrong.
        reason: HeaderError,
    },
    /// There is no tensor of that key.
    #[error("the checkpoint has no tensor `{key}`")]
    UnknownKey {
        /// The key.
        key: String,
    },
    /// No slot can have elements of the tensor's type.
    #[error("tensor `{key}` of the checkpoint has elements of type {found}")]
    ElementType {
        /// The key.
        key: String,
        /// The type, in the file's words.
        found: String,
    },
    /// There is no such rank.
    #[error("there is no rank {rank} in a world of {world_size}")]
    Rank {
        /// The rank asked for.
        rank: u32,
        /// Ranks of the world.
        world_size: u32,
    },
    /// The tensor does not fit its slot.
    #[error(transparent)]
    Validate(ValidateError),
    /// The host tensor cannot be made.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The model refused the weights.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The session refused the states.
    #[error(transparent)]
    States(#[from] StatesError),
}
