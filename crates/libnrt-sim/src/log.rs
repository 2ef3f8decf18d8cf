//! What the library says on standard error: `NEURON_RT_LOG_LEVEL`.
//!
//! A C status cannot say why. The reason of every failed call is logged at the
//! level `ERROR`, which is the default, as one line.

use std::collections::BTreeSet;
use std::env;
use std::io::Write as _;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use metaneff_backend_sim::{LogLevel, SimBuilder};
use metaneff_binding::BackendError;
use metaneff_schema::nrt::Status;

const VARIABLE: &str = "NEURON_RT_LOG_LEVEL";

/// The environment has not been read.
const UNREAD: u8 = u8::MAX;

static LEVEL: AtomicU8 = AtomicU8::new(UNREAD);

/// Reads the level from the environment again. A value that is no level leaves
/// the default; `nrt_init` refuses it, and says so.
pub(crate) fn configure() {
    let value = env::var(VARIABLE).unwrap_or_default();
    let level = SimBuilder::from_variables([(VARIABLE, value)])
        .map(|builder| builder.process_settings().log_level)
        .unwrap_or_default();
    set(level);
}

/// From now on, so much is said.
pub(crate) fn set(level: LogLevel) {
    LEVEL.store(number(level), Ordering::Relaxed);
}

const fn number(level: LogLevel) -> u8 {
    match level {
        LogLevel::Off => 0,
        LogLevel::Error => 1,
        LogLevel::Warning => 2,
        LogLevel::Info => 3,
        LogLevel::Debug => 4,
        // Every call, and whatever else there may be.
        _ => 5,
    }
}

fn enabled(level: LogLevel) -> bool {
    if LEVEL.load(Ordering::Relaxed) == UNREAD {
        configure();
    }
    number(level) <= LEVEL.load(Ordering::Relaxed)
}

fn line(level: &str, text: std::fmt::Arguments<'_>) {
    let mut line = format!("libnrt-sim {level}: {text}");
    line.push('\n');
    // There is no one to tell that standard error is closed.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// A call that failed.
pub(crate) fn error(error: &BackendError) {
    if enabled(LogLevel::Error) {
        line("ERROR", format_args!("{error}"));
    }
}

/// Something that works otherwise than the caller may think.
pub(crate) fn warning(text: std::fmt::Arguments<'_>) {
    if enabled(LogLevel::Warning) {
        line("WARN", text);
    }
}

/// What happens in the large.
pub(crate) fn info(text: std::fmt::Arguments<'_>) {
    if enabled(LogLevel::Info) {
        line("INFO", text);
    }
}

/// A call that came back.
pub(crate) fn called(call: &str, status: Status) {
    if enabled(LogLevel::Trace) {
        line("TRACE", format_args!("{call} answered {status}"));
    }
}

/// Says that a function is not simulated, the first time that it is called.
pub(crate) fn once(call: &'static str) {
    static SAID: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    if !enabled(LogLevel::Error) {
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
