//! Reading and writing files.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use flate2::read::GzDecoder;
use metaneff_schema::{DecodeError, decode_hlo, unwrap_hlo_proto};
use tempfile::NamedTempFile;

use crate::exit::Failure;

/// Bytes that a compressed file may expand to: as often its own size, and what
/// every file may.
const MAX_EXPANSION: u64 = 64;
const FREE_EXPANSION: u64 = 1 << 20;

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reads a file whole.
pub(crate) fn read(path: &Path) -> Result<Bytes, Failure> {
    match fs::read(path) {
        Ok(bytes) => Ok(bytes.into()),
        Err(error) => Err(Failure::file(path, &error)),
    }
}

/// Reads an `HloModuleProto`: bare, in an `HloProto`, either of them compressed
/// with gzip, as compile caches have them.
pub(crate) fn read_hlo(path: &Path) -> Result<Bytes, Failure> {
    let bytes = read(path)?;
    let bytes = if bytes.starts_with(&GZIP) {
        expand(&bytes).map_err(|error| Failure::file(path, &error))?
    } else {
        bytes
    };
    match decode_hlo(bytes.clone()) {
        Err(DecodeError::Wrapped) => {
            unwrap_hlo_proto(&bytes).map_err(|error| Failure::file(path, &error))
        }
        _ => Ok(bytes),
    }
}

fn expand(bytes: &[u8]) -> io::Result<Bytes> {
    let limit = (bytes.len() as u64).saturating_mul(MAX_EXPANSION) + FREE_EXPANSION;
    let mut expanded = Vec::new();
    GzDecoder::new(bytes)
        .take(limit + 1)
        .read_to_end(&mut expanded)?;
    if expanded.len() as u64 > limit {
        let text = format!("the gzip stream expands to more than {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(expanded.into())
}

/// Writes a file: all of it or nothing, by way of a temporary file beside it.
/// What is no regular file, such as a pipe, is written to directly.
pub(crate) fn write<'a>(
    path: &Path,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(), Failure> {
    Staged::new(path, chunks)
        .and_then(Staged::finish)
        .map_err(|error| refused(path, &error))
}

/// Writes several files: none takes its name before all of them are written.
pub(crate) fn write_all(files: &[(PathBuf, Bytes)]) -> Result<(), Failure> {
    let mut staged = Vec::new();
    for (path, bytes) in files {
        let file = Staged::new(path, [&**bytes]).map_err(|error| refused(path, &error))?;
        staged.push((path, file));
    }
    // A pipe may still refuse; a file that is whole only changes its name.
    staged.sort_by_key(|(_, file)| matches!(file, Staged::Beside { .. }));
    for (path, file) in staged {
        file.finish().map_err(|error| refused(path, &error))?;
    }
    Ok(())
}

fn refused(path: &Path, error: &io::Error) -> Failure {
    Failure::Write {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}

/// A file that is ready to be written.
enum Staged<'a> {
    /// Whole, beside the target, without its name.
    Beside {
        file: NamedTempFile,
        target: PathBuf,
    },
    /// What is no regular file, and the bytes for it.
    Direct { file: File, chunks: Vec<&'a [u8]> },
}

impl<'a> Staged<'a> {
    fn new(path: &Path, chunks: impl IntoIterator<Item = &'a [u8]>) -> io::Result<Self> {
        // A link stays a link: the file that it names is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match fs::metadata(&target) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => {
                let file = File::options().write(true).open(&target)?;
                let chunks = chunks.into_iter().collect();
                return Ok(Self::Direct { file, chunks });
            }
            // Replacing a file does not ask for the right to write it; its owner does.
            Ok(found) if found.permissions().readonly() => {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            _ => {}
        }
        let folder = match target.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        // The error for the folder, not for a temporary name in it.
        fs::metadata(&folder)?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".metaneff-");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            // The process's mask takes its part away, as from every new file.
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        let mut file = builder.tempfile_in(&folder)?;
        for part in chunks {
            file.write_all(part)?;
        }
        file.as_file().sync_all()?;
        Ok(Self::Beside { file, target })
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Beside { file, target } => {
                file.persist(&target).map_err(|error| error.error)?;
                Ok(())
            }
            Self::Direct { mut file, chunks } => {
                chunks.into_iter().try_for_each(|part| file.write_all(part))
            }
        }
    }
}
