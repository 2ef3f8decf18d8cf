//! Failures that give everything back, and the crate's error type.

use std::error::Error as StdError;
use std::fmt;

use crate::artifact::ArtifactError;
use crate::buckets::{BucketError, RouteError};
use crate::checkpoint::CheckpointError;
use crate::contract::{ContractError, LookupError, ValidateError};
use crate::device::{DeviceError, ReadError};
#[cfg(feature = "tokio")]
use crate::engine::{EngineError, ServeError, ShutdownError};
use crate::error::BackendError;
use crate::model::{LoadError, UnloadError, WeightsError};
use crate::parallel::SpmdError;
use crate::session::{
    BatchError, BindError, ExecuteError, NumericalError, OutputError, SessionError, StatesError,
};
use crate::tensor::TensorError;

/// A refused step: what was given to it, and the reason.
///
/// It is no [`std::error::Error`] itself, for it holds tensors that borrow from
/// the caller. `?` turns it into [`enum@Error`] or into a boxed error, which keeps
/// the reason and drops the input.
///
/// # Examples
///
/// ```
/// use metaneff_binding::{DType, HostTensor, TensorError};
///
/// let rejected = HostTensor::from_vec([3], vec![1_u8, 2]).unwrap_err();
/// assert!(matches!(rejected.reason(), TensorError::Length { expected: 3, found: 2, .. }));
/// assert_eq!(rejected.into_input(), vec![1, 2]);
///
/// fn boxed() -> Result<(), Box<dyn std::error::Error>> {
///     HostTensor::from_vec([3], vec![1_u8, 2])?;
///     Ok(())
/// }
/// assert_eq!(boxed().unwrap_err().to_string(), "u8 [3] takes 3 bytes, found 2");
/// ```
#[must_use]
pub struct Rejected<T, R = ValidateError> {
    inner: Box<(T, R)>,
}

impl<T, R> Rejected<T, R> {
    pub(crate) fn new(input: T, reason: R) -> Self {
        Self {
            inner: Box::new((input, reason)),
        }
    }

    /// Why the step was refused.
    #[must_use]
    pub fn reason(&self) -> &R {
        &self.inner.1
    }

    /// What was given to the step.
    #[must_use]
    pub fn input(&self) -> &T {
        &self.inner.0
    }

    /// Takes back what was given to the step.
    #[must_use]
    pub fn into_input(self) -> T {
        self.inner.0
    }

    /// Keeps the reason and drops the input.
    #[must_use]
    pub fn into_reason(self) -> R {
        self.inner.1
    }

    /// Takes both apart.
    #[must_use]
    pub fn into_parts(self) -> (T, R) {
        *self.inner
    }
}

impl<T, R: fmt::Debug> fmt::Debug for Rejected<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected")
            .field("reason", &self.inner.1)
            .finish_non_exhaustive()
    }
}

impl<T, R: fmt::Display> fmt::Display for Rejected<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.1.fmt(f)
    }
}

impl<T, R: StdError + 'static> From<Rejected<T, R>> for Box<dyn StdError> {
    fn from(rejected: Rejected<T, R>) -> Self {
        Box::new(rejected.into_reason())
    }
}

impl<T, R: StdError + Send + Sync + 'static> From<Rejected<T, R>>
    for Box<dyn StdError + Send + Sync>
{
    fn from(rejected: Rejected<T, R>) -> Self {
        Box::new(rejected.into_reason())
    }
}

impl<T, R: Into<Self>> From<Rejected<T, R>> for Error {
    fn from(rejected: Rejected<T, R>) -> Self {
        rejected.into_reason().into()
    }
}

/// Any failure of this crate, for callers who pass it on.
///
/// Each step has an error type of its own, which says what that step can do;
/// all of them convert into this one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The metaneff is no valid contract.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// The files of a compiled model cannot be read or do not belong together.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// The model was not loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The model was not unloaded.
    #[error(transparent)]
    Unload(#[from] UnloadError),
    /// Weights were refused.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A checkpoint was not read, or does not fit.
    #[error(transparent)]
    Checkpoint(Box<CheckpointError>),
    /// The session cannot be made.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// There is no such slot.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// A host tensor cannot be made.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A tensor does not fit its slot.
    #[error(transparent)]
    Validate(#[from] ValidateError),
    /// The inputs of a launch were refused.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A call on all ranks failed.
    #[error(transparent)]
    Spmd(#[from] SpmdError),
    /// An engine cannot be made.
    #[cfg(feature = "tokio")]
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A request was not served.
    #[cfg(feature = "tokio")]
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// An engine was not finished in time.
    #[cfg(feature = "tokio")]
    #[error(transparent)]
    Shutdown(#[from] ShutdownError),
    /// A bucket was not added.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// No bucket takes a call.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// A batch was not executed.
    #[error(transparent)]
    Batch(Box<BatchError>),
    /// States were refused.
    #[error(transparent)]
    States(#[from] StatesError),
    /// The execution failed.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// An output holds a NaN, which the caller rejects.
    #[error(transparent)]
    Numerical(#[from] NumericalError),
    /// There is no such output, or it is not there to take.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A tensor was not read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A device buffer refused an access.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A call of the backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

impl From<CheckpointError> for Error {
    fn from(error: CheckpointError) -> Self {
        Self::Checkpoint(Box::new(error))
    }
}

impl From<BatchError> for Error {
    fn from(error: BatchError) -> Self {
        Self::Batch(Box::new(error))
    }
}
