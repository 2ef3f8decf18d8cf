//! What is printed, and where.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::text::printable;

/// Colours of a terminal: for what is bad, good and doubtful.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Colour {
    Red,
    Green,
    Yellow,
}

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

    /// Text in a colour, if somebody watches.
    pub(crate) fn paint(&self, colour: Colour, text: &str) -> String {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if plain || !io::stdout().is_terminal() {
            return text.to_owned();
        }
        let code = match colour {
            Colour::Red => 31,
            Colour::Green => 32,
            Colour::Yellow => 33,
        };
        format!("\x1b[1;{code}m{text}\x1b[0m")
    }

    /// Whether somebody watches: only then is there a progress bar.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.json && io::stderr().is_terminal() && io::stdout().is_terminal()
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
        let _ = writeln!(io::stderr().lock(), "{}", printable(text));
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
