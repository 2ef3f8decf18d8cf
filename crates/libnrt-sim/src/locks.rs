//! Cores that processes own: `METANEFF_SIM_LOCK_DIR`.
//!
//! A core's lock file is held locked by the process that owns the core and has
//! its process id in it. The system lets go of it when the process ends, however
//! it ends, so that a file that is left over means nothing.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;
use std::process;

use metaneff_schema::cores::CoreRange;

/// Locks of cores, until dropped.
#[derive(Debug)]
pub(crate) struct Owned {
    files: Vec<File>,
}

/// Why cores cannot be had.
#[derive(Debug)]
pub(crate) enum Taken {
    /// Another process owns a core.
    By { core: u32, owner: String },
    /// The lock files cannot be used.
    Unusable(String),
}

impl Owned {
    /// Takes all cores of a range, or none.
    pub(crate) fn take(directory: &Path, cores: CoreRange) -> Result<Self, Taken> {
        let unusable = |error: std::io::Error| {
            Taken::Unusable(format!("lock files in {}: {error}", directory.display()))
        };
        fs::create_dir_all(directory).map_err(unusable)?;
        let mut owned = Self { files: Vec::new() };
        for core in cores.indices() {
            let path = directory.join(format!("core{core}.lock"));
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).create(true).truncate(false);
            let mut file = options.open(&path).map_err(unusable)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let owner = owner(&mut file);
                    return Err(Taken::By { core, owner });
                }
                Err(TryLockError::Error(error)) => return Err(unusable(error)),
            }
            file.set_len(0).map_err(unusable)?;
            writeln!(file, "{}", process::id()).map_err(unusable)?;
            owned.files.push(file);
        }
        Ok(owned)
    }

    /// Takes the first `count` cores in a row that no one owns, of `total`.
    pub(crate) fn take_free(
        directory: &Path,
        count: u32,
        total: u32,
    ) -> Result<(Self, CoreRange), Taken> {
        let mut reason = None;
        for first in 0..=total.saturating_sub(count) {
            let Some(range) = CoreRange::new(first, count) else {
                break;
            };
            match Self::take(directory, range) {
                Ok(owned) => return Ok((owned, range)),
                Err(taken @ Taken::Unusable(_)) => return Err(taken),
                Err(taken) => reason = reason.or(Some(taken)),
            }
        }
        let none = || Taken::Unusable(format!("{count} of {total} cores are asked for"));
        Err(reason.unwrap_or_else(none))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        for file in &self.files {
            // A child that was forked has the file open too; it owns nothing.
            let _ = file.unlock();
        }
    }
}

/// What the owner of a lock file says of itself.
fn owner(file: &mut File) -> String {
    let mut text = String::new();
    let read = file
        .rewind()
        .and_then(|()| file.take(64).read_to_string(&mut text));
    match (read, text.trim()) {
        (Ok(_), pid) if !pid.is_empty() => format!("process {pid}"),
        _ => "a process that has not said which".to_owned(),
    }
}

impl std::fmt::Display for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::By { core, owner } => {
                write!(f, "core {core} of the instance is owned by {owner}")
            }
            Self::Unusable(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_has_one_owner() {
        let directory = tempfile::tempdir().unwrap();
        let range = |text: &str| text.parse::<CoreRange>().unwrap();
        let first = Owned::take(directory.path(), range("0-1")).unwrap();
        let error = Owned::take(directory.path(), range("1-2")).unwrap_err();
        let text = format!(
            "core 1 of the instance is owned by process {}",
            process::id()
        );
        assert_eq!(error.to_string(), text);
        // A refusal takes nothing.
        let third = Owned::take(directory.path(), range("2")).unwrap();
        let (free, which) = Owned::take_free(directory.path(), 2, 8).unwrap();
        assert_eq!(which, range("3-4"));
        let error = Owned::take_free(directory.path(), 4, 8).unwrap_err();
        assert!(error.to_string().starts_with("core 0"), "{error}");
        drop((first, third, free));
        assert!(Owned::take(directory.path(), range("0-7")).is_ok());
    }
}
