//! Running cases, and what came of it.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use metaneff_binding::Backend;
use serde::{Deserialize, Serialize};

use crate::case::{Case, Setup};
use crate::packing::Packing;

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

    /// How the cases' files reach the backend.
    fn packing(&self) -> Packing {
        Packing::AsWritten
    }
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

impl Row {
    /// The part of the case's id before the first slash.
    #[must_use]
    pub fn group(&self) -> &'static str {
        self.case.split('/').next().unwrap_or(self.case)
    }
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
    /// Expectations that name no case or no target, or a case that a target is not
    /// run with.
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

    /// Adds what came of a case on a target, seen through the expectations.
    pub fn add<B>(
        &mut self,
        case: &Case<B>,
        target: &'static str,
        outcome: Outcome,
        expectations: &[Expectation],
    ) {
        let unsupported = matches!(outcome.verdict, Verdict::Unsupported { .. });
        let named = |e: &Expectation| e.target == target && e.case == case.id;
        if unsupported && expectations.iter().any(named) {
            self.stale_expectations.push(format!(
                "an expectation for {target} names `{}`, which is unsupported there",
                case.id
            ));
        }
        self.rows.push(Row {
            case: case.id,
            target,
            shows: case.shows,
            source: case.source,
            verdict: expected(outcome.verdict, target, case.id, expectations),
            elapsed: Duration::from_micros(outcome.micros),
        });
    }

    /// Notes the expectations for a target that name none of its cases.
    pub fn hold_to_account<B>(
        &mut self,
        target: &str,
        cases: &[Case<B>],
        expectations: &[Expectation],
    ) {
        for expectation in expectations.iter().filter(|e| e.target == target) {
            if !cases.iter().any(|case| case.id == expectation.case) {
                self.stale_expectations.push(format!(
                    "an expectation for {} names `{}`, which is no case",
                    expectation.target, expectation.case
                ));
            }
        }
    }

    /// Notes the expectations that name none of `targets`, which are all that
    /// there are, also those that take no part in the run.
    pub fn hold_to_targets(&mut self, targets: &[&str], expectations: &[Expectation]) {
        let absent = |e: &&Expectation| !targets.contains(&e.target);
        for expectation in expectations.iter().filter(absent) {
            self.stale_expectations.push(format!(
                "an expectation for `{}` names {}, which is no target",
                expectation.case, expectation.target
            ));
        }
    }

    /// The targets, in the order of their first rows.
    #[must_use]
    pub fn targets(&self) -> Vec<&'static str> {
        distinct(self.rows.iter().map(|row| row.target))
    }

    /// How many cases came to what on each of the [`targets`](Self::targets).
    #[must_use]
    pub fn tallies(&self) -> Vec<Tally> {
        let of = |target| Tally::of(self.rows.iter().filter(|row| row.target == target));
        self.targets().into_iter().map(of).collect()
    }

    /// How many cases of each group came to what on each target: a line a group,
    /// with a cell a target of [`targets`](Self::targets).
    #[must_use]
    pub fn matrix(&self) -> Vec<(&'static str, Vec<Tally>)> {
        let targets = self.targets();
        let groups = distinct(self.rows.iter().map(Row::group));
        let line = |group| {
            let cell = |target: &&str| {
                let rows = self.rows.iter();
                Tally::of(rows.filter(|row| row.group() == group && row.target == *target))
            };
            (group, targets.iter().map(cell).collect())
        };
        groups.into_iter().map(line).collect()
    }

    /// One line: how many passed, failed, and were not run.
    #[must_use]
    pub fn summary(&self) -> String {
        let tally = Tally::of(self.rows.iter());
        let failed = tally.failed + self.stale_expectations.len();
        let mut line = format!("{} passed, {failed} failed", tally.passed);
        for (count, word) in [
            (tally.expected, "expected failure"),
            (tally.unsupported, "unsupported"),
        ] {
            if count > 0 {
                let _ = write!(line, ", {count} {word}");
            }
        }
        line
    }
}

/// How many cases came to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Tally {
    /// They hold.
    pub passed: usize,
    /// They do not hold, or hold against an expectation.
    pub failed: usize,
    /// They do not hold, as expected.
    pub expected: usize,
    /// The target cannot be set up so.
    pub unsupported: usize,
}

impl Tally {
    fn of<'a>(rows: impl Iterator<Item = &'a Row>) -> Self {
        rows.fold(Self::default(), |mut tally, row| {
            *match row.verdict {
                Verdict::Passed => &mut tally.passed,
                Verdict::Failed { .. } | Verdict::UnexpectedPass { .. } => &mut tally.failed,
                Verdict::ExpectedFailure { .. } => &mut tally.expected,
                Verdict::Unsupported { .. } => &mut tally.unsupported,
            } += 1;
            tally
        })
    }

    /// All of them.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.passed + self.failed + self.expected + self.unsupported
    }
}

/// Each value once, in the order of first appearance.
fn distinct(values: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

/// What came of one case on one target, before any expectation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// What came of it.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Time that it took, in microseconds.
    pub micros: u64,
}

impl Outcome {
    /// A verdict after so much time.
    #[must_use]
    pub fn new(verdict: Verdict, elapsed: Duration) -> Self {
        Self {
            verdict,
            micros: u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

/// Runs one case on a backend of its own. A case that panics has failed.
pub fn judge<T: Target>(target: &T, case: &Case<T::Backend>) -> Outcome {
    let start = Instant::now();
    let verdict = verdict(target, case);
    Outcome::new(verdict, start.elapsed())
}

/// Runs the cases that `selected` picks on `target`, in this process. Never
/// stops at a failure.
pub fn run<T: Target>(
    target: &T,
    cases: &[Case<T::Backend>],
    expectations: &[Expectation],
    selected: impl Fn(&str) -> bool,
) -> Report {
    let mut report = Report::default();
    for case in cases.iter().filter(|case| selected(case.id)) {
        report.add(case, target.name(), judge(target, case), expectations);
    }
    report.hold_to_account(target.name(), cases, expectations);
    report
}

fn verdict<T: Target>(target: &T, case: &Case<T::Backend>) -> Verdict {
    let backend = match target.open(&case.setup) {
        Ok(backend) => backend,
        Err(Unavailable { because }) => return Verdict::Unsupported { because },
    };
    let run = || target.packing().during(|| (case.run)(backend));
    match catch_unwind(AssertUnwindSafe(run)) {
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
