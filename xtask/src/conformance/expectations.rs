//! Cases that are known to fail, each with its reason.

use metaneff_conformance::Expectation;

/// Every known failure. One that passes fails the run, and so does one that
/// names no case.
pub(super) const TABLE: &[Expectation] = &[];
