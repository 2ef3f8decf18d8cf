//! Why a tensor does not cross, and failed launches that give the states back.

use std::fmt;

use metaneff_binding::{Backend, DType, Rejected, States, TensorError};
use tch::{Device, TchError};

/// Why a tensor cannot go from libtorch to a model or back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TorchError {
    /// The tensor is undefined: libtorch's null tensor.
    #[error("the tensor is undefined")]
    Undefined,
    /// The tensor is on another device; `to_device(Device::Cpu)` copies it.
    #[error("the tensor is on {found:?}, expected Cpu")]
    Device {
        /// Where it is.
        found: Device,
    },
    /// The elements are of a kind that no slot has, such as complex numbers.
    #[error("elements of kind {found} fit no slot")]
    Kind {
        /// The kind's name, or ATen's number of it.
        found: String,
    },
    /// libtorch has no kind for the elements.
    #[error("libtorch has no kind for {dtype}")]
    NoKind {
        /// The element type.
        dtype: DType,
    },
    /// The tensor has no dense memory: it is sparse, of oneDNN's layout, or a
    /// tensor without data.
    #[error("the tensor has no dense memory: {reason}")]
    NotDense {
        /// What it is, in libtorch's words where it said so.
        reason: String,
    },
    /// The tensor is not contiguous, and the caller forbade a copy.
    #[error("shape {shape:?} with strides {strides:?} is not contiguous, and copies are forbidden")]
    NotContiguous {
        /// Its dimensions.
        shape: Vec<i64>,
        /// Its strides in elements.
        strides: Vec<i64>,
    },
    /// A dimension does not fit the other side's integer type.
    #[error("dimension {dimension} of shape {shape} does not fit")]
    Dimension {
        /// Which one, from 0.
        dimension: usize,
        /// The whole shape.
        shape: String,
    },
    /// Another number of outputs was asked for than the model returns.
    #[error("the model returns {found} outputs, expected {expected}")]
    Arity {
        /// Outputs asked for.
        expected: usize,
        /// Outputs that the contract returns.
        found: usize,
    },
    /// libtorch refused.
    #[error(transparent)]
    Torch(#[from] TchError),
    /// The host tensor cannot be made.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The model refused.
    #[error(transparent)]
    Model(#[from] metaneff_binding::Error),
}

impl<T, R: Into<metaneff_binding::Error>> From<Rejected<T, R>> for TorchError {
    fn from(rejected: Rejected<T, R>) -> Self {
        Self::Model(rejected.into_reason().into())
    }
}

/// A failed [`forward`](crate::TorchSession::forward), with the states that were
/// given to it.
///
/// `?` turns it into a [`TorchError`], which keeps the reason.
#[must_use]
pub struct ForwardError<'rt, B: Backend> {
    inner: Box<(TorchError, States<'rt, B>)>,
}

impl<'rt, B: Backend> ForwardError<'rt, B> {
    pub(crate) fn new(reason: impl Into<TorchError>, states: States<'rt, B>) -> Self {
        Self {
            inner: Box::new((reason.into(), states)),
        }
    }

    /// Why it failed.
    #[must_use]
    pub fn reason(&self) -> &TorchError {
        &self.inner.0
    }

    /// Takes the states back.
    ///
    /// A device that failed while it ran may have written to their buffers.
    #[must_use]
    pub fn into_states(self) -> States<'rt, B> {
        self.inner.1
    }

    /// Keeps the reason and drops the states.
    #[must_use]
    pub fn into_reason(self) -> TorchError {
        self.inner.0
    }
}

impl<B: Backend> fmt::Debug for ForwardError<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForwardError")
            .field("reason", &self.inner.0)
            .finish_non_exhaustive()
    }
}

impl<B: Backend> fmt::Display for ForwardError<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.0.fmt(f)
    }
}

impl<B: Backend> From<ForwardError<'_, B>> for TorchError {
    fn from(error: ForwardError<'_, B>) -> Self {
        error.into_reason()
    }
}
