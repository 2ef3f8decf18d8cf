//! A libnrt that does nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Why there is no stub.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StubError {
    /// There is no compiler, or no room for its output.
    #[error("a C compiler is needed (`cc`, or the one that CC names)")]
    Io(#[from] std::io::Error),
    /// The compiler failed.
    #[error("`{compiler}` failed: {status}")]
    Compiler {
        /// Its name.
        compiler: String,
        /// How it ended.
        status: std::process::ExitStatus,
    },
}

/// A compiled `libnrt_stub.so`, whose file is removed with it.
#[derive(Debug)]
pub struct Stub {
    folder: tempfile::TempDir,
}

impl Stub {
    /// Compiles the library with the system's C compiler, optimised.
    ///
    /// # Errors
    ///
    /// [`StubError`].
    pub fn compile() -> Result<Self, StubError> {
        let stub = Self {
            folder: tempfile::tempdir()?,
        };
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/stub/nrt.c");
        let status = Command::new(&compiler)
            .args(["-shared", "-fPIC", "-O2", source, "-o"])
            .arg(stub.path())
            .status()?;
        if status.success() {
            return Ok(stub);
        }
        Err(StubError::Compiler {
            compiler: compiler.to_string_lossy().into_owned(),
            status,
        })
    }

    /// The library's file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        Path::new(self.folder.path()).join("libnrt_stub.so")
    }
}
