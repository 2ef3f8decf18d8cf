//! Where arrays come from: files and folders on the command line.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use metaneff_binding::Checkpoint;

use super::{Array, Elements, npy, npz};
use crate::exit::Failure;
use crate::files;

/// What a file or folder holds: one array without a name, or several by name.
#[derive(Debug)]
pub(crate) enum Source {
    One(Entry),
    Many(BTreeMap<String, Entry>),
}

/// An array that is read when it is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Npy,
    Npz(String),
    Safetensors(String),
    Raw,
}

impl Source {
    /// Looks at a file's name and, for what has several arrays, at its directory.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let found = fs::metadata(path).map_err(|error| Failure::file(path, &error))?;
        if found.is_dir() {
            return folder(path);
        }
        let named = |names: Vec<String>, kind: fn(String) -> Kind| {
            let entries = names.into_iter().map(|name| {
                let entry = Entry {
                    path: path.to_owned(),
                    kind: kind(name.clone()),
                };
                (name, entry)
            });
            Self::Many(entries.collect())
        };
        Ok(match extension(path).as_str() {
            "npz" => named(npz::names(&npz::open(path)?), Kind::Npz),
            "safetensors" => {
                let checkpoint =
                    Checkpoint::open(path).map_err(|error| Failure::file(path, &error))?;
                named(
                    checkpoint.keys().map(str::to_owned).collect(),
                    Kind::Safetensors,
                )
            }
            "npy" => Self::One(Entry {
                path: path.to_owned(),
                kind: Kind::Npy,
            }),
            _ => Self::One(Entry {
                path: path.to_owned(),
                kind: Kind::Raw,
            }),
        })
    }
}

/// Every array in a folder under its file's name: `.npy` and, as the runtime
/// dumps the inputs of a failed execution, `.bin`.
fn folder(path: &Path) -> Result<Source, Failure> {
    let failed = |error: std::io::Error| Failure::file(path, &error);
    let mut entries = BTreeMap::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let kind = match extension(&file).as_str() {
            "npy" => Kind::Npy,
            "bin" => Kind::Raw,
            _ => continue,
        };
        let name = file
            .file_stem()
            .map(|name| name.to_string_lossy().into_owned());
        entries.insert(name.unwrap_or_default(), Entry { path: file, kind });
    }
    if entries.is_empty() {
        return Err(Failure::File {
            path: path.to_owned(),
            reason: "the folder has no .npy and no .bin".to_owned(),
        });
    }
    Ok(Source::Many(entries))
}

fn extension(path: &Path) -> String {
    let extension = path
        .extension()
        .map(|extension| extension.to_string_lossy());
    extension.unwrap_or_default().to_lowercase()
}

impl Entry {
    pub(crate) fn read(&self) -> Result<Array, Failure> {
        let failed = |error: &dyn std::error::Error| Failure::file(&self.path, error);
        match &self.kind {
            Kind::Npy => {
                let file = File::open(&self.path).map_err(|error| failed(&error))?;
                let size = file.metadata().map_err(|error| failed(&error))?.len();
                npy::read(BufReader::new(file), size).map_err(|error| failed(&error))
            }
            Kind::Npz(name) => {
                let mut archive = npz::open(&self.path)?;
                npz::read(&mut archive, name).map_err(|error| Failure::File {
                    path: self.path.clone(),
                    reason: format!("array `{name}`: {error}"),
                })
            }
            Kind::Safetensors(name) => {
                let checkpoint = Checkpoint::open(&self.path).map_err(|error| failed(&error))?;
                let tensor = checkpoint.read(name).map_err(|error| failed(&error))?;
                Ok(Array {
                    elements: Elements::Of(tensor.dtype()),
                    shape: tensor.shape().dims().to_vec(),
                    bytes: bytes::Bytes::copy_from_slice(tensor.bytes()),
                })
            }
            Kind::Raw => Ok(Array {
                elements: Elements::Raw,
                shape: Vec::new(),
                bytes: files::read(&self.path)?,
            }),
        }
    }
}
