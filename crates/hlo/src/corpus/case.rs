//! The description of a case.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::array::Array;
use crate::element::ElementType;

pub use super::npy::NpyError;

/// Why a case cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaseError {
    /// A file cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What failed.
        source: std::io::Error,
    },
    /// `meta.json` does not describe a case.
    #[error("{path}: {source}", path = path.display())]
    Meta {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// An array cannot be read.
    #[error(transparent)]
    Npy(#[from] NpyError),
    /// An array has a type that is not known.
    #[error("element type `{name}` is not known")]
    Element {
        /// The type's name.
        name: String,
    },
    /// Inputs or outputs are listed for some devices only.
    #[error("{found} lists of arrays for {expected} devices")]
    Devices {
        /// Devices of the case.
        expected: usize,
        /// Lists that were found.
        found: usize,
    },
}

/// How much an element may differ from its golden value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Tolerance {
    /// Not at all, but that any NaN equals any other. Zeros have signs. What
    /// holds where a case names no tolerance.
    #[default]
    Exact,
    /// By so many representable values of the type.
    Ulp {
        /// The number.
        ulp: u64,
    },
    /// By `atol + rtol * |golden|`.
    RtolAtol {
        /// The relative part.
        rtol: f64,
        /// The absolute part.
        atol: f64,
    },
    /// Random numbers: they lie within bounds, golden values do not count.
    Range {
        /// Lower bound.
        lo: f64,
        /// Upper bound.
        hi: f64,
    },
}

/// A file with an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tensor {
    /// The file, relative to the case's folder.
    pub file: String,
    /// Name of the element type.
    pub dtype: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Tensors {
    One(Vec<Tensor>),
    PerDevice(Vec<Vec<Tensor>>),
}

#[derive(Deserialize)]
struct Meta {
    name: String,
    category: String,
    inputs: Tensors,
    outputs: Tensors,
    #[serde(default)]
    tolerance: Tolerance,
    #[serde(default)]
    alt_expected: Vec<String>,
    #[serde(default = "one")]
    num_replicas: usize,
    #[serde(default = "one")]
    num_partitions: usize,
}

fn one() -> usize {
    1
}

/// A case.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Case {
    /// The folder.
    pub folder: PathBuf,
    /// The name.
    pub name: String,
    /// The category.
    pub category: String,
    /// Replicas that execute the module.
    pub replicas: usize,
    /// Partitions of each replica.
    pub partitions: usize,
    /// Inputs of each device, replica by replica.
    pub inputs: Vec<Vec<Tensor>>,
    /// Golden outputs of each device.
    pub outputs: Vec<Vec<Tensor>>,
    /// Other accepted outputs, for cases of one device.
    pub alternatives: Vec<String>,
    /// The tolerance.
    pub tolerance: Tolerance,
}

impl Case {
    /// Reads the description of the case in `folder`.
    ///
    /// # Errors
    ///
    /// [`CaseError`] if `meta.json` cannot be read or understood.
    pub fn open(folder: &Path) -> Result<Self, CaseError> {
        let path = folder.join("meta.json");
        let text = std::fs::read(&path).map_err(|source| CaseError::Read {
            path: path.clone(),
            source,
        })?;
        let meta: Meta =
            serde_json::from_slice(&text).map_err(|source| CaseError::Meta { path, source })?;
        let devices = meta.num_replicas.saturating_mul(meta.num_partitions);
        Ok(Self {
            folder: folder.to_owned(),
            name: meta.name,
            category: meta.category,
            replicas: meta.num_replicas,
            partitions: meta.num_partitions,
            inputs: per_device(meta.inputs, devices)?,
            outputs: per_device(meta.outputs, devices)?,
            alternatives: meta.alt_expected,
            tolerance: meta.tolerance,
        })
    }

    /// The cases in the folders of `root`, by name.
    ///
    /// # Errors
    ///
    /// [`CaseError`] if the folder cannot be listed or a case not be read.
    pub fn all(root: &Path) -> Result<Vec<Self>, CaseError> {
        let failed = |source| CaseError::Read {
            path: root.to_owned(),
            source,
        };
        let mut folders = Vec::new();
        for entry in std::fs::read_dir(root).map_err(failed)? {
            let folder = entry.map_err(failed)?.path();
            if folder.join("meta.json").is_file() {
                folders.push(folder);
            }
        }
        folders.sort();
        folders.iter().map(|folder| Self::open(folder)).collect()
    }

    /// The bytes of the module.
    ///
    /// # Errors
    ///
    /// [`CaseError::Read`] if the file cannot be read.
    pub fn module(&self) -> Result<Vec<u8>, CaseError> {
        let path = self.folder.join("module.pb");
        std::fs::read(&path).map_err(|source| CaseError::Read { path, source })
    }

    /// The array of a file.
    ///
    /// # Errors
    ///
    /// [`CaseError`] if the file cannot be read or holds another type.
    pub fn array(&self, tensor: &Tensor) -> Result<Array, CaseError> {
        let element = ElementType::from_name(&tensor.dtype).ok_or_else(|| CaseError::Element {
            name: tensor.dtype.clone(),
        })?;
        Ok(super::npy::read(&self.folder.join(&tensor.file), element)?)
    }
}

fn per_device(tensors: Tensors, devices: usize) -> Result<Vec<Vec<Tensor>>, CaseError> {
    let lists = match tensors {
        Tensors::One(list) => vec![list],
        Tensors::PerDevice(lists) => lists,
    };
    if lists.len() == devices {
        Ok(lists)
    } else {
        Err(CaseError::Devices {
            expected: devices,
            found: lists.len(),
        })
    }
}
