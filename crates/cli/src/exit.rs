//! How a verb ends.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::text::printable;

/// The exit codes; the crate's page has what each means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Fine = 0,
    Finding = 1,
    Usage = 2,
    File = 3,
    Backend = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a verb could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line asks for what cannot be.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read, or is not what it should be.
    #[error("`{}`: {reason}", path.display())]
    File { path: PathBuf, reason: String },
    /// A file cannot be written; what was there before is untouched.
    #[error("`{}` cannot be written: {reason}", path.display())]
    Write { path: PathBuf, reason: String },
    /// A backend cannot be opened, or failed.
    #[error("{0}")]
    Backend(String),
    /// Standard output cannot be written.
    #[error("standard output cannot be written: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    /// What is wrong with a file, with all its causes.
    pub(crate) fn file(path: &Path, reason: &dyn std::error::Error) -> Self {
        Self::File {
            path: path.to_owned(),
            reason: chain(reason),
        }
    }

    /// A backend's error, with all its causes.
    pub(crate) fn backend(reason: &dyn std::error::Error) -> Self {
        Self::Backend(chain(reason))
    }

    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::File { .. } | Self::Write { .. } | Self::Output(_) => Exit::File,
            Self::Backend(_) => Exit::Backend,
        }
    }

    /// The name of the kind, for programs.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Usage(_) => "usage",
            Self::File { .. } => "file",
            Self::Write { .. } => "write",
            Self::Backend(_) => "backend",
            Self::Output(_) => "output",
        }
    }
}

/// An error with its causes, unless a cause only repeats what was said. Names out
/// of files may be in it, so it is made safe for a terminal.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            let _ = write!(text, ": {cause}");
        }
        source = error.source();
    }
    printable(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_named_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] io::Error);
        assert_eq!(chain(&Outer(io::Error::other("inner"))), "outer: inner");
        #[derive(Debug, thiserror::Error)]
        #[error("outer: {0}")]
        struct Told(#[source] io::Error);
        assert_eq!(chain(&Told(io::Error::other("inner"))), "outer: inner");
    }
}
