//! What is printed, and where.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::json;

use crate::exit::{Exit, Failure};

/// Standard output and standard error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    json: bool,
}

impl Console {
    pub(crate) const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether JSON was asked for.
    pub(crate) const fn json(&self) -> bool {
        self.json
    }

    /// Whether somebody watches: only then are there colours and progress bars.
    pub(crate) fn is_terminal() -> bool {
        io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
    }

    /// Prints lines of the result.
    pub(crate) fn say(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            out.write_all(b"\n")?;
        }
        out.flush()?;
        Ok(())
    }

    /// Prints a result as JSON.
    pub(crate) fn document(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
        self.say(&text)
    }

    /// Prints a remark, which is no result, to standard error.
    pub(crate) fn note(&self, text: &str) {
        // Nobody is left to tell when standard error is closed.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// Prints why a verb failed, if it did, and gives its exit code.
    pub(crate) fn end(&self, outcome: Result<Exit, Failure>) -> ExitCode {
        let failure = match outcome {
            Ok(exit) => return exit.into(),
            Err(failure) => failure,
        };
        if let Failure::Output(error) = &failure
            && error.kind() == io::ErrorKind::BrokenPipe
        {
            return Exit::Fine.into();
        }
        if self.json {
            let error = json!({"kind": failure.kind(), "message": failure.to_string()});
            self.note(&json!({ "error": error }).to_string());
        } else {
            self.note(&format!("error: {failure}"));
        }
        failure.exit().into()
    }
}
