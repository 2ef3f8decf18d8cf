//! What the library says on standard error: `NEURON_RT_LOG_LEVEL`.
//!
//! A C status cannot say why. The reason of every failed call is logged at the
//! level `ERROR`, which is the default, as one line.

use std::collections::BTreeSet;
use std::env;
use std::io::Write as _;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use metaneff_binding::BackendError;
use metaneff_schema::nrt::Status;

/// Levels of `NEURON_RT_LOG_LEVEL`, quietest first.
const LEVELS: &[&[&str]] = &[
    &["OFF", "NONE", "FATAL", "CRITICAL"],
    &["ERROR"],
    &["WARN", "WARNING"],
    &["INFO"],
    &["DEBUG"],
    &["TRACE"],
];

const ERROR: u8 = 1;
const WARNING: u8 = 2;
const INFO: u8 = 3;
const TRACE: u8 = 5;

/// The environment has not been read.
const UNREAD: u8 = u8::MAX;

static LEVEL: AtomicU8 = AtomicU8::new(UNREAD);

fn level_of(text: &str) -> Option<u8> {
    let text = text.trim().to_ascii_uppercase();
    let found = LEVELS
        .iter()
        .position(|names| names.contains(&text.as_str()));
    found.and_then(|index| u8::try_from(index).ok())
}

/// Reads the level from the environment again.
pub(crate) fn configure() {
    let text = env::var("NEURON_RT_LOG_LEVEL").unwrap_or_default();
    LEVEL.store(level_of(&text).unwrap_or(ERROR), Ordering::Relaxed);
}

fn enabled(level: u8) -> bool {
    if LEVEL.load(Ordering::Relaxed) == UNREAD {
        configure();
    }
    level <= LEVEL.load(Ordering::Relaxed)
}

fn line(level: &str, text: std::fmt::Arguments<'_>) {
    let mut line = format!("libnrt-sim {level}: {text}");
    line.push('\n');
    // There is no one to tell that standard error is closed.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// A call that failed.
pub(crate) fn error(error: &BackendError) {
    if enabled(ERROR) {
        line("ERROR", format_args!("{error}"));
    }
}

/// Something that works otherwise than the caller may think.
pub(crate) fn warning(text: std::fmt::Arguments<'_>) {
    if enabled(WARNING) {
        line("WARN", text);
    }
}

/// What happens in the large.
pub(crate) fn info(text: std::fmt::Arguments<'_>) {
    if enabled(INFO) {
        line("INFO", text);
    }
}

/// A call that came back.
pub(crate) fn called(call: &str, status: Status) {
    if enabled(TRACE) {
        line("TRACE", format_args!("{call} answered {status}"));
    }
}

/// Says that a function is not simulated, the first time that it is called.
pub(crate) fn once(call: &'static str) {
    static SAID: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    if !enabled(ERROR) {
        return;
    }
    let first = SAID
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(call);
    if first {
        line(
            "ERROR",
            format_args!("{call} is called, which the simulator does not have"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::level_of;

    #[test]
    fn levels_are_known_by_any_of_their_names() {
        assert_eq!(level_of("error"), Some(super::ERROR));
        assert_eq!(level_of(" Warning "), Some(super::WARNING));
        assert_eq!(level_of("INFO"), Some(super::INFO));
        assert_eq!(level_of("trace"), Some(super::TRACE));
        assert_eq!(level_of("off"), Some(0));
        assert_eq!(level_of("loud"), None);
    }
}
