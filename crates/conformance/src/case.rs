//! What a case is, and how it says that it failed.

use std::fmt;
use std::panic::Location;

use metaneff_binding::Backend;

/// What a case asks of the backend that it runs on.
///
/// A target that cannot be set up so reports the case as unsupported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setup {
    /// Cores that must be visible, at least.
    pub cores: u32,
    /// Device memory of each core in bytes, exactly.
    pub memory_limit: Option<u64>,
    /// Any NaN counts as a numerical error, also one that no output shows.
    pub nan_in_any_intermediate: bool,
    /// An index out of bounds is an error instead of being clamped or dropped.
    pub strict_bounds: bool,
    /// A failure of the `call`-th execution (counted from 1) with this status.
    pub failing_execution: Option<(u64, i32)>,
}

impl Setup {
    /// One visible core and nothing else.
    pub const ONE_CORE: Self = Self {
        cores: 1,
        memory_limit: None,
        nan_in_any_intermediate: false,
        strict_bounds: false,
        failing_execution: None,
    };

    /// Two visible cores.
    pub const TWO_CORES: Self = Self {
        cores: 2,
        ..Self::ONE_CORE
    };
}

/// One thing that every backend must do alike.
#[non_exhaustive]
pub struct Case<B> {
    /// `group/subject/variant`; unique.
    pub id: &'static str,
    /// What holds when the case passes.
    pub shows: &'static str,
    /// Where that is laid down: page section, header, or the need it answers.
    pub source: &'static str,
    /// What the backend must be like.
    pub setup: Setup,
    /// The case itself, on a backend of its own.
    pub run: fn(B) -> Result<(), Failure>,
}

impl<B: Backend> Case<B> {
    /// A case for one visible core.
    pub(crate) const fn new(
        id: &'static str,
        shows: &'static str,
        source: &'static str,
        run: fn(B) -> Result<(), Failure>,
    ) -> Self {
        Self {
            id,
            shows,
            source,
            setup: Setup::ONE_CORE,
            run,
        }
    }

    /// Replaces the set-up.
    pub(crate) const fn with(mut self, setup: Setup) -> Self {
        self.setup = setup;
        self
    }

    /// The part of the id before the first slash.
    #[must_use]
    pub fn group(&self) -> &'static str {
        self.id.split('/').next().unwrap_or(self.id)
    }
}

impl<B> fmt::Debug for Case<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case")
            .field("id", &self.id)
            .field("shows", &self.shows)
            .finish_non_exhaustive()
    }
}

/// Why a case failed, and where it noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    message: String,
    line: u32,
    file: &'static str,
}

impl Failure {
    /// A failure noticed at the caller's line.
    #[must_use]
    #[track_caller]
    pub fn new(message: impl Into<String>) -> Self {
        let location = Location::caller();
        Self {
            message: message.into(),
            line: location.line(),
            file: location.file(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}:{})", self.message, self.file, self.line)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    #[track_caller]
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            message.push_str(": ");
            message.push_str(&error.to_string());
            source = error.source();
        }
        Self::new(message)
    }
}

/// Fails unless both sides are equal.
#[track_caller]
pub(crate) fn equal<T: PartialEq + fmt::Debug>(
    what: &str,
    found: T,
    expected: T,
) -> Result<(), Failure> {
    if found == expected {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{what}: expected {expected:?}, found {found:?}"
    )))
}

/// Fails unless `condition` holds.
#[track_caller]
pub(crate) fn holds(what: &str, condition: bool) -> Result<(), Failure> {
    if condition {
        Ok(())
    } else {
        Err(Failure::new(format!("does not hold: {what}")))
    }
}

/// Takes the error out of a result that must be one.
#[track_caller]
pub(crate) fn refused<T, E>(what: &str, result: Result<T, E>) -> Result<E, Failure> {
    match result {
        Ok(_) => Err(Failure::new(format!(
            "{what}: expected an error, and it succeeded"
        ))),
        Err(error) => Ok(error),
    }
}
