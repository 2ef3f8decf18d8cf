//! Running cases, and what came of it.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use metaneff_binding::Backend;
use serde::Serialize;

use crate::case::{Case, Setup};

/// Something that cases run on: a name, and a way to make a backend.
pub trait Target {
    /// The backend that it makes.
    type Backend: Backend;

    /// Name in the report: `sim`, `nrt`, …
    fn name(&self) -> &'static str;

    /// Makes a fresh backend for one case.
    ///
    /// # Errors
    ///
    /// A reason why this target cannot be set up so.
    fn open(&self, setup: &Setup) -> Result<Self::Backend, Unavailable>;
}

/// Why a target cannot be set up as a case asks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{because}")]
#[non_exhaustive]
pub struct Unavailable {
    /// The reason.
    pub because: String,
}

impl Unavailable {
    /// With this reason.
    #[must_use]
    pub fn new(because: impl Into<String>) -> Self {
        Self {
            because: because.into(),
        }
    }
}

/// A case that is known not to pass on a target.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Expectation {
    /// The target's name.
    pub target: &'static str,
    /// The case's id.
    pub case: &'static str,
    /// Part of the failure's message.
    pub message: &'static str,
    /// Why that is so.
    pub because: &'static str,
}

impl Expectation {
    /// `case` fails on `target` with a message that contains `message`.
    #[must_use]
    pub const fn new(
        target: &'static str,
        case: &'static str,
        message: &'static str,
        because: &'static str,
    ) -> Self {
        Self {
            target,
            case,
            message,
            because,
        }
    }
}

/// What came of one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// It holds.
    Passed,
    /// It does not hold.
    Failed {
        /// What was noticed, and where.
        message: String,
    },
    /// It does not hold, as expected.
    ExpectedFailure {
        /// Why that is expected.
        because: String,
    },
    /// It holds although a failure is expected: the expectation is stale.
    UnexpectedPass {
        /// Why a failure was expected.
        because: String,
    },
    /// The target cannot be set up as the case asks.
    Unsupported {
        /// Why not.
        because: String,
    },
}

impl Verdict {
    /// Whether this verdict fails the run.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::UnexpectedPass { .. })
    }

    /// One word for a table.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed { .. } => "FAILED",
            Self::ExpectedFailure { .. } => "expected failure",
            Self::UnexpectedPass { .. } => "UNEXPECTED PASS",
            Self::Unsupported { .. } => "unsupported",
        }
    }

    /// The reason, where there is one.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::Passed => "",
            Self::Failed { message } => message,
            Self::ExpectedFailure { because }
            | Self::UnexpectedPass { because }
            | Self::Unsupported { because } => because,
        }
    }
}

/// One case on one target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// The case's id.
    pub case: &'static str,
    /// The target's name.
    pub target: &'static str,
    /// What the case shows.
    pub shows: &'static str,
    /// Where that is laid down.
    pub source: &'static str,
    /// What came of it.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Time that the case took, in microseconds.
    #[serde(rename = "micros", serialize_with = "micros")]
    pub elapsed: Duration,
}

fn micros<S: serde::Serializer>(elapsed: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX))
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// One row a case and target, in the cases' order.
    pub rows: Vec<Row>,
    /// Expectations that name no case or no target of the run.
    pub stale_expectations: Vec<String>,
}

impl Report {
    /// Rows whose verdict fails the run.
    pub fn failures(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.verdict.is_failure())
    }

    /// Whether nothing failed and no expectation is stale.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.stale_expectations.is_empty() && self.failures().next().is_none()
    }

    /// Adds the rows of another target.
    pub fn extend(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.stale_expectations.extend(other.stale_expectations);
    }

    /// One line: how many passed, failed, and were not run.
    #[must_use]
    pub fn summary(&self) -> String {
        let count = |word: &str| {
            self.rows
                .iter()
                .filter(|row| row.verdict.word() == word)
                .count()
        };
        let failed = self.failures().count() + self.stale_expectations.len();
        let mut line = format!("{} passed, {failed} failed", count("passed"));
        for word in ["expected failure", "unsupported"] {
            if count(word) > 0 {
                let _ = write!(line, ", {} {word}", count(word));
            }
        }
        line
    }
}

/// Runs the cases that `selected` picks on `target`, each on a backend of its
/// own. Never stops at a failure; a case that panics has failed.
pub fn run<T: Target>(
    target: &T,
    cases: &[Case<T::Backend>],
    expectations: &[Expectation],
    selected: impl Fn(&str) -> bool,
) -> Report {
    let mut report = Report::default();
    for case in cases.iter().filter(|case| selected(case.id)) {
        let start = Instant::now();
        let verdict = expected(judge(target, case), target.name(), case.id, expectations);
        report.rows.push(Row {
            case: case.id,
            target: target.name(),
            shows: case.shows,
            source: case.source,
            verdict,
            elapsed: start.elapsed(),
        });
    }
    for expectation in expectations.iter().filter(|e| e.target == target.name()) {
        if !cases.iter().any(|case| case.id == expectation.case) {
            report.stale_expectations.push(format!(
                "an expectation for {} names `{}`, which is no case",
                expectation.target, expectation.case
            ));
        }
    }
    report
}

fn judge<T: Target>(target: &T, case: &Case<T::Backend>) -> Verdict {
    let backend = match target.open(&case.setup) {
        Ok(backend) => backend,
        Err(Unavailable { because }) => return Verdict::Unsupported { because },
    };
    match catch_unwind(AssertUnwindSafe(|| (case.run)(backend))) {
        Ok(Ok(())) => Verdict::Passed,
        Ok(Err(failure)) => Verdict::Failed {
            message: failure.to_string(),
        },
        Err(panic) => {
            let text = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned());
            Verdict::Failed {
                message: format!("panicked: {}", text.unwrap_or_default()),
            }
        }
    }
}

fn expected(verdict: Verdict, target: &str, case: &str, expectations: &[Expectation]) -> Verdict {
    let Some(expectation) = expectations
        .iter()
        .find(|e| e.target == target && e.case == case)
    else {
        return verdict;
    };
    let because = expectation.because.to_owned();
    match verdict {
        Verdict::Passed => Verdict::UnexpectedPass { because },
        Verdict::Failed { message } if message.contains(expectation.message) => {
            Verdict::ExpectedFailure { because }
        }
        other => other,
    }
}
