//! Compiled models inside of saved TorchScript files, read without torch.
//!
//! `torch.jit.save` writes a zip: `data.pkl` has the module's attributes,
//! `constants.pkl` the constants of its code, and `data/0`, `constants/0` and so
//! on the bytes of tensors. A module that was compiled for Neuron holds objects
//! of `torch.classes.neuron.Model` or `SPMDModel`, whose pickled state has the
//! NEFF and the metaneff as strings. torch refuses to load such a file where the
//! Neuron extension is missing ("Unknown type name", "Unknown builtin op").
//!
//! Sources: the TorchScript serialization document of PyTorch
//! (`torch/csrc/jit/docs/serialization.md`) and its pickler; for the classes and
//! the modules around them, the public sources of neuronx-distributed and the
//! reference page, sections 6 and 7. The state's layout is not published, so
//! the two are told by what they are: a NEFF by its header, a metaneff by its
//! fields.

mod pickle;
mod tensor;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use bytes::Bytes;
use zip::ZipArchive;
use zip::result::ZipError;

pub use pickle::PickleError;
pub use tensor::ScriptTensor;

use pickle::Pickle;
use walk::Found;

/// Bytes that a compressed member may expand to. TorchScript writes the members
/// that are read here without compression.
const MAX_EXPANSION: u64 = 1 << 30;

/// A saved TorchScript file.
///
/// # Examples
///
/// ```no_run
/// use metaneff_schema::script::ScriptArchive;
///
/// let archive = ScriptArchive::open("model.pt")?;
/// for model in archive.models() {
///     println!("{}: NEFF of {} bytes", model.name, model.neff.len());
/// }
/// # Ok::<(), metaneff_schema::script::ScriptError>(())
/// ```
#[derive(Debug)]
pub struct ScriptArchive<R = File> {
    zip: ZipArchive<R>,
    models: Vec<ScriptModel>,
    tensors: Vec<ScriptTensor>,
}

/// A compiled model in a saved TorchScript file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScriptModel {
    /// Where it stands: `model` for the module of a trace, or a path such as
    /// `nxd_model.spmd_models["decode"]`; `CONSTANTS.c0` for a constant of the
    /// code, named after the NEFF's.
    pub name: String,
    /// What held it.
    pub kind: ScriptKind,
    /// The NEFF.
    pub neff: Bytes,
    /// The metaneff.
    pub metaneff: Bytes,
    /// The integers and booleans of the object's state, in order: such as the
    /// ranks of an `SPMDModel`.
    pub numbers: Vec<i64>,
}

/// What holds a compiled model in a saved TorchScript file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScriptKind {
    /// An object of `torch.classes.neuron.Model`.
    Model,
    /// An object of `torch.classes.neuron.SPMDModel`.
    SpmdModel,
    /// Constants of the code, as files of the first generation have them.
    Constants,
}

impl std::fmt::Display for ScriptKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Model => "torch.classes.neuron.Model",
            Self::SpmdModel => "torch.classes.neuron.SPMDModel",
            Self::Constants => "constants",
        })
    }
}

/// Why a file gave no compiled model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The file is no zip.
    #[error("the file is no zip archive: {detail}")]
    Zip {
        /// What the reader says.
        detail: String,
    },
    /// The zip was not written by TorchScript.
    #[error(
        "no member `data.pkl` in a zip of {members} members: it is no saved TorchScript module"
    )]
    NotScript {
        /// Members of the zip.
        members: usize,
    },
    /// A member cannot be read.
    #[error("`{member}` cannot be read: {detail}")]
    Member {
        /// Its name.
        member: String,
        /// The reason.
        detail: String,
    },
    /// A compressed member is larger than is allowed.
    #[error("`{member}` expands beyond {limit} bytes")]
    Expansion {
        /// Its name.
        member: String,
        /// The limit.
        limit: u64,
    },
    /// A member is no pickle that TorchScript writes.
    #[error("`{member}`: {cause}")]
    Pickle {
        /// Its name.
        member: String,
        /// What is wrong, and where.
        cause: PickleError,
    },
    /// The values nest deeper than is allowed.
    #[error("`{member}` nests deeper than {limit} values")]
    Depth {
        /// The member.
        member: String,
        /// The limit.
        limit: usize,
    },
    /// The paths to models and tensors are longer than the file warrants.
    #[error("`{member}`: the names of its models and tensors take more than {limit} bytes")]
    Names {
        /// The member.
        member: String,
        /// The limit.
        limit: usize,
    },
    /// A model's state, or the constants, do not have one NEFF for one metaneff.
    #[error(
        "`{name}` ({kind}) has {neffs} strings that are a NEFF and {metaneffs} that are a \
         metaneff, expected one for one"
    )]
    Blobs {
        /// The model.
        name: String,
        /// What holds it.
        kind: ScriptKind,
        /// Strings that are a NEFF.
        neffs: usize,
        /// Strings that are a metaneff.
        metaneffs: usize,
    },
    /// The module has nothing that was compiled for Neuron.
    #[error("the module holds no model that was compiled for Neuron")]
    NoModel,
    /// There is no such tensor.
    #[error("no tensor `{name}`")]
    NoTensor {
        /// The name.
        name: String,
    },
    /// A tensor's elements do not stand one after the other in its storage.
    #[error("tensor `{name}`: {detail}")]
    Tensor {
        /// Its name.
        name: String,
        /// What is wrong.
        detail: String,
    },
}

impl ScriptArchive {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// [`ScriptError`] says which member, and what of it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ScriptError> {
        Self::read(File::open(path)?)
    }
}

impl<R: Read + Seek> ScriptArchive<R> {
    /// Reads the values of a file; tensors stay where they are.
    ///
    /// # Errors
    ///
    /// As [`open`](ScriptArchive::open).
    pub fn read(reader: R) -> Result<Self, ScriptError> {
        let mut zip = ZipArchive::new(reader).map_err(|error| match error {
            ZipError::Io(error) => ScriptError::Io(error),
            error => ScriptError::Zip {
                detail: error.to_string(),
            },
        })?;
        let zip_error = |error: ZipError| ScriptError::Zip {
            detail: error.to_string(),
        };
        if zip.has_overlapping_files().map_err(zip_error)? {
            return Err(ScriptError::Zip {
                detail: "two members have bytes in common".to_owned(),
            });
        }
        let Some(prefix) = prefix(&zip) else {
            return Err(ScriptError::NotScript { members: zip.len() });
        };
        let attributes = format!("{prefix}data.pkl");
        let bytes = Bytes::from(member(&mut zip, &attributes)?);
        let Found {
            mut models,
            mut tensors,
            ..
        } = walk::attributes(&attributes, &prefix, &bytes)?;

        let constants = format!("{prefix}constants.pkl");
        if zip.index_for_name(&constants).is_some() {
            let bytes = Bytes::from(member(&mut zip, &constants)?);
            let mut found = walk::constants(&constants, &prefix, &bytes)?;
            let mut storages = HashSet::new();
            for tensor in &found.tensors {
                if tensor.is_bytes() && storages.insert(&tensor.member) {
                    let bytes = read_tensor(&mut zip, tensor)?;
                    found.blobs.add(&tensor.name, &bytes);
                }
            }
            models.extend(found.blobs.pair("CONSTANTS", ScriptKind::Constants)?);
            tensors.append(&mut found.tensors);
        }
        Ok(Self {
            zip,
            models,
            tensors,
        })
    }

    /// The compiled models, in the order in which the file has them.
    #[must_use]
    pub fn models(&self) -> &[ScriptModel] {
        &self.models
    }

    /// The only compiled model.
    ///
    /// # Errors
    ///
    /// [`ScriptError::NoModel`] if there is none, [`ScriptError::Blobs`] if there
    /// are several.
    pub fn model(&self) -> Result<&ScriptModel, ScriptError> {
        match &self.models[..] {
            [model] => Ok(model),
            [] => Err(ScriptError::NoModel),
            [first, ..] => Err(ScriptError::Blobs {
                name: first.name.clone(),
                kind: first.kind,
                neffs: self.models.len(),
                metaneffs: self.models.len(),
            }),
        }
    }

    /// The tensors of the module, such as weights that were compiled as inputs,
    /// and those among the constants.
    #[must_use]
    pub fn tensors(&self) -> &[ScriptTensor] {
        &self.tensors
    }

    /// The bytes of a tensor: its elements in the order of its dimensions,
    /// little-endian.
    ///
    /// # Errors
    ///
    /// [`ScriptError::NoTensor`], [`ScriptError::Tensor`] if the tensor is a view
    /// whose elements do not follow one another, and what the member answers.
    pub fn tensor(&mut self, name: &str) -> Result<Bytes, ScriptError> {
        let found = self.tensors.iter().find(|tensor| tensor.name == name);
        let Some(tensor) = found else {
            return Err(ScriptError::NoTensor {
                name: name.to_owned(),
            });
        };
        read_tensor(&mut self.zip, tensor)
    }
}

/// The folder of `data.pkl`, with its slash.
fn prefix<R: Read + Seek>(zip: &ZipArchive<R>) -> Option<String> {
    let names = zip.file_names_raw();
    let mut folders = names.filter_map(|name| {
        let folder = std::str::from_utf8(name).ok()?.strip_suffix("data.pkl")?;
        let deep = folder.trim_end_matches('/').contains('/');
        let whole = folder.is_empty() || folder.ends_with('/');
        (whole && !deep).then(|| folder.to_owned())
    });
    folders.next()
}

fn member<R: Read + Seek>(zip: &mut ZipArchive<R>, name: &str) -> Result<Vec<u8>, ScriptError> {
    let failed = |detail: String| ScriptError::Member {
        member: name.to_owned(),
        detail,
    };
    let file = zip
        .by_name(name)
        .map_err(|error| failed(error.to_string()))?;
    let (size, packed) = (file.size(), file.compressed_size());
    if size > packed && size > MAX_EXPANSION {
        return Err(ScriptError::Expansion {
            member: name.to_owned(),
            limit: MAX_EXPANSION,
        });
    }
    // The announced size is only a limit: memory grows with what is read.
    let mut bytes = Vec::new();
    file.take(size)
        .read_to_end(&mut bytes)
        .map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 != size {
        let found = bytes.len();
        return Err(failed(format!("{size} bytes are announced, found {found}")));
    }
    Ok(bytes)
}

fn read_tensor<R: Read + Seek>(
    zip: &mut ZipArchive<R>,
    tensor: &ScriptTensor,
) -> Result<Bytes, ScriptError> {
    let range = tensor.range()?;
    let storage = Bytes::from(member(zip, &tensor.member)?);
    let size = storage.len();
    if range.end <= size {
        Ok(storage.slice(range))
    } else {
        Err(ScriptError::Tensor {
            name: tensor.name.clone(),
            detail: format!("byte {} of a storage of {size} bytes", range.end),
        })
    }
}
