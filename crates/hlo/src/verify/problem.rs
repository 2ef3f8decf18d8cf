//! What verification finds wrong.

use std::fmt::Display;

use metaneff_schema::DecodeError;

use crate::error::Site;

/// Why a module is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The bytes are no `HloModuleProto`.
    #[error("the bytes are no HLO module: {0}")]
    Decode(DecodeError),
    /// Something is wrong with the module as a whole.
    #[error("module `{module}`: {problem}")]
    Module {
        /// The module's name.
        module: String,
        /// What is wrong.
        problem: Problem,
    },
    /// Something is wrong with a computation as a whole.
    #[error("computation `{computation}`: {problem}")]
    Computation {
        /// The computation's name.
        computation: String,
        /// What is wrong.
        problem: Problem,
    },
    /// Something is wrong with an instruction.
    #[error("{site}: {problem}")]
    Instruction {
        /// The instruction.
        site: Box<Site>,
        /// What is wrong.
        problem: Problem,
    },
}

impl From<DecodeError> for VerifyError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl VerifyError {
    /// What is wrong, unless the bytes could not be decoded.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Decode(_) => None,
            Self::Module { problem, .. }
            | Self::Computation { problem, .. }
            | Self::Instruction { problem, .. } => Some(problem),
        }
    }
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Something differs from what the other parts of the module demand.
    #[error("{what}: expected {expected}, found {found}")]
    Mismatch {
        /// What differs.
        what: &'static str,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// An id names nothing that came before.
    #[error("{what} {id} is not defined before its use")]
    UndefinedId {
        /// What the id should name.
        what: &'static str,
        /// The id.
        id: i64,
    },
    /// Two things have one id.
    #[error("{what} {id} is defined twice")]
    DuplicateId {
        /// What the id names.
        what: &'static str,
        /// The id.
        id: i64,
    },
    /// The opcode is none of HLO's.
    #[error("the opcode is not known")]
    Opcode,
    /// The opcode is one of HLO's, but cannot be executed here.
    #[error("the opcode is not supported: {reason}")]
    RefusedOpcode {
        /// Why.
        reason: &'static str,
    },
    /// Something is legal but not supported.
    #[error("{what} {found} is not supported")]
    Unsupported {
        /// What is not supported.
        what: &'static str,
        /// What it is.
        found: String,
    },
    /// A size overflows 63 bits.
    #[error("{what} overflows")]
    Overflow {
        /// The size that overflows.
        what: &'static str,
    },
    /// Something is larger or deeper than is allowed.
    #[error("{what} is {found}, more than the limit of {limit}")]
    Limit {
        /// What is too large.
        what: &'static str,
        /// The limit.
        limit: usize,
        /// What it is.
        found: usize,
    },
}

/// A [`Problem::Mismatch`].
pub(super) fn mismatch(what: &'static str, expected: impl Display, found: impl Display) -> Problem {
    Problem::Mismatch {
        what,
        expected: expected.to_string(),
        found: found.to_string(),
    }
}

/// A [`Problem::Mismatch`] unless `holds`.
pub(super) fn require(
    holds: bool,
    what: &'static str,
    expected: impl Display,
    found: impl Display,
) -> Result<(), Problem> {
    if holds {
        Ok(())
    } else {
        Err(mismatch(what, expected, found))
    }
}
