//! What a case is, and how it says that it failed.

use std::fmt;
use std::panic::Location;

/// What a case asks of the backend that it runs on.
///
/// It is said in the environment's words: those of the runtime, which every
/// library reads when it is initialised, and those of the simulator under the
/// prefix [`SIMULATED`], which no device has. A target that cannot be set up so
/// reports the case as unsupported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Setup {
    /// Cores that are visible, exactly.
    pub cores: u32,
    /// Further variables with their values.
    pub environment: &'static [(&'static str, &'static str)],
}

/// Prefix of the variables that only the simulator reads.
pub const SIMULATED: &str = "METANEFF_SIM_";

impl Setup {
    /// One visible core and nothing else.
    pub const ONE_CORE: Self = Self {
        cores: 1,
        environment: &[],
    };

    /// Two visible cores.
    pub const TWO_CORES: Self = Self {
        cores: 2,
        ..Self::ONE_CORE
    };

    /// With these variables.
    #[must_use]
    pub const fn environment(
        mut self,
        environment: &'static [(&'static str, &'static str)],
    ) -> Self {
        self.environment = environment;
        self
    }

    /// Every variable that says this set-up, the number of cores included.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![("NEURON_RT_NUM_CORES", self.cores.to_string())];
        let stated = self.environment.iter();
        variables.extend(stated.map(|(name, value)| (*name, (*value).to_owned())));
        variables
    }

    /// The first variable that only the simulator reads.
    #[must_use]
    pub fn simulated(&self) -> Option<&'static str> {
        let mut names = self.environment.iter().map(|(name, _)| *name);
        names.find(|name| name.starts_with(SIMULATED))
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} visible", self.cores)?;
        let mut rest = self.environment.iter();
        rest.try_for_each(|(name, value)| write!(f, ", {name}={value}"))
    }
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

impl<B> Case<B> {
    /// A case for one visible core.
    #[must_use]
    pub const fn new(
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
    #[must_use]
    pub const fn with(mut self, setup: Setup) -> Self {
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
