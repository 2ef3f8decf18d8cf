//! Where the library is looked for.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::devices::Devices;
use crate::error::{Attempt, OpenError};
use crate::options::NrtOptions;
use crate::sys::{Library, OpenFailure};

/// The library's name, which the loader looks for by itself.
const NAME: &str = "libnrt.so.1";

/// Where the packages of AWS install it, below the root.
const INSTALLED: &str = "opt/aws/neuron/lib/libnrt.so.1";

/// Opens the first library of the candidates that can be opened.
///
/// A library that opens but lacks a function ends the search: it is the one that
/// other programs would get, and it is broken.
pub(crate) fn find(options: &NrtOptions) -> Result<Library, OpenError> {
    open_first(&candidates(options), &options.root)
}

fn candidates(options: &NrtOptions) -> Vec<PathBuf> {
    match &options.library {
        Some(path) => vec![path.clone()],
        None => vec![PathBuf::from(NAME), options.root.join(INSTALLED)],
    }
}

fn open_first(candidates: &[PathBuf], root: &Path) -> Result<Library, OpenError> {
    let mut attempts = Vec::new();
    for candidate in candidates {
        match Library::open(OsStr::new(candidate)) {
            Ok(library) => return Ok(library),
            Err(OpenFailure::Symbol {
                path,
                symbol,
                version,
            }) => {
                return Err(OpenError::Symbol {
                    library: path,
                    symbol,
                    version,
                });
            }
            Err(OpenFailure::Dlopen(error)) => attempts.push(Attempt {
                library: candidate.clone(),
                exists: has_folder(candidate).then(|| candidate.exists()),
                error,
            }),
        }
    }
    Err(OpenError::NotFound {
        attempts,
        devices: Devices::scan(root),
    })
}

/// Whether the loader takes the text as a path and not as a name.
fn has_folder(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().contains(&b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_search_is_the_loader_and_then_the_package() {
        let usual = candidates(&NrtOptions::new());
        assert_eq!(
            usual,
            [
                Path::new("libnrt.so.1"),
                Path::new("/opt/aws/neuron/lib/libnrt.so.1")
            ]
        );
        let explicit = candidates(&NrtOptions::new().library("here.so"));
        assert_eq!(explicit, [Path::new("here.so")]);
    }

    #[test]
    fn every_place_is_told_with_what_happened_there() {
        let root = tempfile::tempdir().unwrap();
        let text = root.path().join("text.so");
        std::fs::write(&text, "not a library").unwrap();
        let places = [
            PathBuf::from("libnrt-absent.so.1"),
            root.path().join("absent.so"),
            text.clone(),
        ];
        let error = open_first(&places, root.path()).unwrap_err();
        let message = error.to_string();
        let OpenError::NotFound { attempts, devices } = error else {
            panic!("{message}");
        };
        let exists: Vec<_> = attempts.iter().map(|attempt| attempt.exists).collect();
        assert_eq!(exists, [None, Some(false), Some(true)]);
        assert!(attempts[0].error.contains("libnrt-absent.so.1"));
        assert!(devices.nodes().is_empty());
        for fact in [
            "tried libnrt-absent.so.1 (searched by the loader)",
            "absent.so (no such file)",
            "text.so (the file exists)",
            "there is no ",
            "dev/neuron*",
            "metaneff_backend_sim::Sim",
        ] {
            assert!(message.contains(fact), "{fact}: {message}");
        }
    }
}
