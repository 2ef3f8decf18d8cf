//! Errors of the backend boundary.

use std::fmt;

use metaneff_schema::nrt::Status;

use crate::backend::Core;

/// A call of the backend that failed.
///
/// # Examples
///
/// ```
/// use metaneff_binding::{BackendError, Cause, Core};
/// use metaneff_schema::nrt::Status;
///
/// let error = BackendError::new("nrt_tensor_allocate", Status::RESOURCE).because(Cause::Memory {
///     core: Some(Core::new(0)),
///     requested: 614_400,
///     used: 614_400,
///     limit: 1_048_576,
/// });
/// assert_eq!(error.status(), Status::RESOURCE);
/// assert_eq!(
///     error.to_string(),
///     "nrt_tensor_allocate answered NRT_RESOURCE (4): 614400 bytes requested on core 0, \
///      614400 of 1048576 in use"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendError {
    inner: Box<Inner>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    call: &'static str,
    status: Status,
    cause: Cause,
}

/// What a backend knows of the reason for a failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Nothing but the status.
    Unknown,
    /// An argument was refused; says which one and why.
    Argument {
        /// The C parameter's name.
        argument: &'static str,
        /// Expected against found.
        detail: String,
    },
    /// Memory ran out.
    Memory {
        /// The core whose memory it is; `None` for host memory.
        core: Option<Core>,
        /// Bytes that the call asked for.
        requested: u64,
        /// Bytes in use before the call.
        used: u64,
        /// Bytes that there are in all.
        limit: u64,
    },
    /// More cores were asked for than there are.
    Cores {
        /// Cores that the call needs, counted from its first one.
        needed: u32,
        /// Cores that the process sees.
        visible: u32,
        /// Cores of the instance.
        total: u32,
    },
    /// Two objects of one call are on different cores.
    CoreMismatch {
        /// What the first object is, such as `model`.
        what: String,
        /// Its core.
        core: Core,
        /// What the other object is, such as ``tensor `input0` ``.
        other: String,
        /// The other's core.
        other_core: Core,
    },
    /// The NEFF was refused.
    Neff {
        /// The gate's message.
        detail: String,
    },
    /// A tensor set does not fit the model.
    Binding {
        /// Name of the variable concerned.
        name: String,
        /// Expected against found.
        detail: String,
    },
    /// The call ran into a time limit.
    Deadline {
        /// The limit, in milliseconds.
        limit_ms: u64,
        /// Time that had passed, in milliseconds.
        elapsed_ms: u64,
    },
    /// The library has no such function.
    MissingSymbol {
        /// The function's name.
        symbol: &'static str,
        /// The library's path.
        library: String,
    },
    /// The process was forked after the runtime was initialised; a child cannot
    /// use its parent's runtime.
    Forked {
        /// Process id that initialised the runtime.
        parent: u32,
        /// Process id of the caller.
        child: u32,
    },
    /// The core is unusable since an earlier failure, until it is reset.
    Poisoned {
        /// The core.
        core: Core,
        /// Status of the failure that poisoned it.
        since: Status,
    },
    /// A reason in the backend's own words.
    Other(String),
}

impl BackendError {
    /// `call` is the C function's name, also where no C is involved.
    #[must_use]
    pub fn new(call: &'static str, status: Status) -> Self {
        Self {
            inner: Box::new(Inner {
                call,
                status,
                cause: Cause::Unknown,
            }),
        }
    }

    /// Adds the reason.
    #[must_use]
    pub fn because(mut self, cause: Cause) -> Self {
        self.inner.cause = cause;
        self
    }

    /// The C function's name.
    #[must_use]
    pub fn call(&self) -> &'static str {
        self.inner.call
    }

    /// What the runtime answered.
    #[must_use]
    pub fn status(&self) -> Status {
        self.inner.status
    }

    /// What the backend knows of the reason.
    #[must_use]
    pub fn cause(&self) -> &Cause {
        &self.inner.cause
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} answered {}", self.inner.call, self.inner.status)?;
        match &self.inner.cause {
            Cause::Unknown => Ok(()),
            cause => write!(f, ": {cause}"),
        }
    }
}

impl std::error::Error for BackendError {}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("no reason was given"),
            Self::Argument { argument, detail } => write!(f, "argument `{argument}`: {detail}"),
            Self::Memory {
                core: Some(core),
                requested,
                used,
                limit,
            } => {
                write!(
                    f,
                    "{requested} bytes requested on {core}, {used} of {limit} in use"
                )
            }
            Self::Memory {
                core: None,
                requested,
                used,
                limit,
            } => {
                write!(
                    f,
                    "{requested} bytes requested of the host, {used} of {limit} in use"
                )
            }
            Self::Cores {
                needed,
                visible,
                total,
            } => {
                write!(f, "{needed} cores needed, {visible} visible of {total}")
            }
            Self::CoreMismatch {
                what,
                core,
                other,
                other_core,
            } => {
                write!(f, "{what} is on {core}, {other} on {other_core}")
            }
            Self::Neff { detail } => write!(f, "NEFF refused: {detail}"),
            Self::Binding { name, detail } => write!(f, "`{name}`: {detail}"),
            Self::Deadline {
                limit_ms,
                elapsed_ms,
            } => {
                write!(f, "limit of {limit_ms} ms passed after {elapsed_ms} ms")
            }
            Self::MissingSymbol { symbol, library } => {
                write!(f, "`{library}` has no function `{symbol}`")
            }
            Self::Forked { parent, child } => write!(
                f,
                "process {child} was forked after process {parent} initialised the runtime"
            ),
            Self::Poisoned { core, since } => {
                write!(f, "{core} is unusable since {since}, until it is reset")
            }
            Self::Other(text) => f.write_str(text),
        }
    }
}
