//! Calls that no bucket, or more than one, could take.

use std::fmt::Write as _;

use crate::dtype::DType;
use crate::session::SessionError;
use crate::shape::Shape;

/// Why a bucket was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BucketError {
    /// One call could go to either of two buckets.
    #[error("a call with {arguments} could go to bucket `{first}` and to bucket `{second}`")]
    Ambiguous {
        /// The bucket that is there.
        first: String,
        /// The bucket that was to be added.
        second: String,
        /// The arguments that both take.
        arguments: String,
    },
    /// There is a bucket of that name.
    #[error("there is a bucket `{name}` already")]
    Name {
        /// The name.
        name: String,
    },
    /// Two inputs of the bucket have one name.
    #[error("two inputs of bucket `{bucket}` are called `{argument}`")]
    Argument {
        /// The bucket.
        bucket: String,
        /// The name.
        argument: String,
    },
    /// The bucket's session cannot be made.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// Why a call has no bucket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// No bucket takes the arguments.
    #[error("no bucket takes {given}: {}", buckets.join("; "))]
    NoBucket {
        /// What was given.
        given: String,
        /// What each bucket takes.
        buckets: Vec<String>,
    },
}

/// Arguments as text.
pub(super) fn describe<'k>(
    arguments: impl Iterator<Item = (&'k str, Option<DType>, &'k Shape)>,
) -> String {
    let mut text = String::new();
    for (name, dtype, shape) in arguments {
        if !text.is_empty() {
            text.push_str(", ");
        }
        // Writing to a string cannot fail.
        let _ = match dtype {
            Some(dtype) => write!(text, "`{name}` {dtype} {shape}"),
            None => write!(text, "`{name}` {shape}"),
        };
    }
    if text.is_empty() {
        text.push_str("nothing");
    }
    text
}
