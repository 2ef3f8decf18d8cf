//! One network compiled for several shapes, and which of them a call goes to.
//!
//! The compiled models share weights and states on the device. A call names its
//! arguments; names, shapes and element types together choose the model. Two
//! models that one call could go to are refused when the second is added, not
//! when the call comes. Source: the user needs, row 63; public routers go by
//! names and shapes alone.

mod error;
#[cfg(test)]
mod tests;

use std::fmt;

pub use error::{BucketError, RouteError};

use crate::backend::Backend;
use crate::contract::{Contract, Slot};
use crate::dtype::DType;
use crate::failure::Error;
use crate::model::{Model, WeightsError};
use crate::session::{Executed, Session, States};
use crate::shape::Shape;
use crate::tensor::{HostTensor, Tensor, Validated};

/// An argument of a call: its name and its tensor.
pub type Named<'a> = (&'a str, HostTensor<'a>);

/// The shapes that a bucket takes, by argument.
pub type NamedShapes<'b> = Vec<(&'b str, &'b Shape)>;

/// One network compiled for several shapes: such as a prefill and a decode step
/// of a language model, each for several lengths.
///
/// # Examples
///
/// ```
/// use metaneff_binding::testing::{Fake, add_model, model};
/// use metaneff_binding::{Buckets, Core, HostTensor, Runtime};
/// # use metaneff_schema::metaneff::{MetaNeff, MetaTensor};
/// # let tensor = |name: &'static str| MetaTensor {
/// #     name: name.into(), shape: vec![4], data_type: 1, ..MetaTensor::default()
/// # };
/// # let long = model(&MetaNeff {
/// #     input_tensors: vec![tensor("input0"), tensor("input1")],
/// #     output_tensors: vec![tensor("output0")],
/// #     ..MetaNeff::default()
/// # })?;
/// let runtime = Runtime::new(Fake::new());
/// let mut buckets = Buckets::new();
/// buckets.add("short", &runtime.load(&add_model(), Core::new(0))?)?; // f32[2] + f32[2]
/// buckets.add("long", &runtime.load(&long, Core::new(0))?)?; // f32[4] + f32[4]
///
/// let row = || HostTensor::from_slice([4], &[1.0_f32, 2.0, 3.0, 4.0]);
/// let executed = buckets.execute(vec![("input0", row()?), ("input1", row()?)], ())?;
/// let outputs = executed.tolerate_nan().into_outputs();
/// assert_eq!(outputs.get(0)?.to_vec::<f32>()?, [2.0, 4.0, 6.0, 8.0]);
/// # Ok::<(), metaneff_binding::Error>(())
/// ```
pub struct Buckets<'rt, B: Backend> {
    buckets: Vec<Bucket<'rt, B>>,
}

struct Bucket<'rt, B: Backend> {
    name: String,
    session: Session<'rt, B>,
    /// By the arguments' names.
    signature: Vec<Parameter>,
}

/// What a bucket takes under one name.
struct Parameter {
    name: String,
    slot: Slot,
}

impl Parameter {
    /// Whether one tensor fits both.
    fn overlaps(&self, other: &Self) -> bool {
        let types = || DType::ALL.iter();
        self.name == other.name
            && self.slot.shape() == other.slot.shape()
            && types().any(|&dtype| self.slot.accepts(dtype) && other.slot.accepts(dtype))
    }

    fn takes(&self, name: &str, dtype: DType, shape: &Shape) -> bool {
        self.name == name && self.slot.shape() == shape && self.slot.accepts(dtype)
    }
}

fn signature(contract: &Contract) -> Vec<Parameter> {
    let mut signature: Vec<_> = contract
        .user_inputs()
        .map(|slot| Parameter {
            name: slot.user_input_key().map_or_else(
                || slot.name().to_owned(),
                |key| String::from_utf8_lossy(key).into_owned(),
            ),
            slot: slot.clone(),
        })
        .collect();
    signature.sort_by(|a, b| a.name.cmp(&b.name));
    signature
}

impl<B: Backend> Default for Buckets<'_, B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'rt, B: Backend> Buckets<'rt, B> {
    /// No buckets yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            buckets: Vec::new(),
        }
    }

    /// Adds a compiled model under a name.
    ///
    /// An argument is named by its slot's user input key, or by its device name
    /// where it has none. Its shape is the compiled one: a flag for dynamic
    /// batches chooses no bucket.
    ///
    /// # Errors
    ///
    /// [`BucketError::Ambiguous`] if a call could go to this bucket and to
    /// another one; [`BucketError::Name`] if the name is taken;
    /// [`BucketError::Argument`] if two inputs have one name;
    /// [`BucketError::Session`]. No bucket is added then.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        model: &Model<'rt, B>,
    ) -> Result<(), BucketError> {
        let name = name.into();
        let signature = signature(model.contract());
        if let Some(pair) = signature
            .windows(2)
            .find(|pair| pair[0].name == pair[1].name)
        {
            return Err(BucketError::Argument {
                bucket: name,
                argument: pair[0].name.clone(),
            });
        }
        for other in &self.buckets {
            if other.name == name {
                return Err(BucketError::Name { name });
            }
            let mut pairs = signature.iter().zip(&other.signature);
            if signature.len() == other.signature.len() && pairs.all(|(a, b)| a.overlaps(b)) {
                return Err(BucketError::Ambiguous {
                    first: other.name.clone(),
                    second: name,
                    arguments: error::describe(signature.iter().map(|parameter| {
                        (
                            parameter.name.as_str(),
                            parameter.slot.dtype(),
                            parameter.slot.shape(),
                        )
                    })),
                });
            }
        }
        let session = model.session()?;
        self.buckets.push(Bucket {
            name,
            session,
            signature,
        });
        Ok(())
    }

    /// Lets all buckets hold the weights of the first one, without a copy; see
    /// [`Model::share_weights`].
    ///
    /// # Errors
    ///
    /// As [`Model::share_weights`]; buckets before the one that fails hold them.
    pub fn share_weights(&self) -> Result<(), WeightsError> {
        let Some((first, others)) = self.buckets.split_first() else {
            return Ok(());
        };
        for other in others {
            other.session.model().share_weights(first.session.model())?;
        }
        Ok(())
    }

    /// The names of the buckets, in the order in which they were added.
    #[must_use]
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.buckets.iter().map(|bucket| bucket.name.as_str())
    }

    /// The session of a bucket.
    #[must_use]
    pub fn session(&mut self, name: &str) -> Option<&mut Session<'rt, B>> {
        let bucket = self.buckets.iter_mut().find(|bucket| bucket.name == name);
        bucket.map(|bucket| &mut bucket.session)
    }

    /// The name of the bucket that a call goes to.
    ///
    /// # Errors
    ///
    /// [`RouteError::NoBucket`] with what was given and what each bucket takes.
    pub fn route<'k>(
        &self,
        arguments: impl IntoIterator<Item = (&'k str, DType, &'k Shape)>,
    ) -> Result<&str, RouteError> {
        let position = self.position(arguments.into_iter().collect())?;
        Ok(&self.buckets[position].name)
    }

    fn position(&self, mut arguments: Vec<(&str, DType, &Shape)>) -> Result<usize, RouteError> {
        arguments.sort_by(|a, b| a.0.cmp(b.0));
        let takes = |bucket: &Bucket<'rt, B>| {
            let mut pairs = bucket.signature.iter().zip(&arguments);
            bucket.signature.len() == arguments.len()
                && pairs
                    .all(|(parameter, (name, dtype, shape))| parameter.takes(name, *dtype, shape))
        };
        self.buckets.iter().position(takes).ok_or_else(|| {
            let given = arguments
                .iter()
                .map(|(name, dtype, shape)| (*name, Some(*dtype), *shape));
            RouteError::NoBucket {
                given: error::describe(given),
                buckets: self.buckets.iter().map(Bucket::describe).collect(),
            }
        })
    }

    /// The bucket with the fewest elements that each argument fits into once it
    /// is filled up: same names, element types and ranks, and no dimension
    /// larger. Equal ones are told by the order in which they were added.
    ///
    /// How to fill up is the model's business; this says to which shapes.
    ///
    /// # Errors
    ///
    /// [`RouteError::NoBucket`].
    pub fn smallest<'k>(
        &self,
        arguments: impl IntoIterator<Item = (&'k str, DType, &'k Shape)>,
    ) -> Result<(&str, NamedShapes<'_>), RouteError> {
        let mut arguments: Vec<_> = arguments.into_iter().collect();
        arguments.sort_by(|a, b| a.0.cmp(b.0));
        let holds = |parameter: &Parameter, (name, dtype, shape): &(&str, DType, &Shape)| {
            let (room, given) = (parameter.slot.shape().dims(), shape.dims());
            parameter.name == *name
                && parameter.slot.accepts(*dtype)
                && room.len() == given.len()
                && room.iter().zip(given).all(|(room, given)| room >= given)
        };
        let fits = self.buckets.iter().filter(|bucket| {
            let mut pairs = bucket.signature.iter().zip(&arguments);
            bucket.signature.len() == arguments.len()
                && pairs.all(|(parameter, argument)| holds(parameter, argument))
        });
        // The first of several least ones.
        match fits.min_by_key(|bucket| bucket.elements()) {
            Some(bucket) => {
                let shapes = bucket.signature.iter();
                let shapes =
                    shapes.map(|parameter| (parameter.name.as_str(), parameter.slot.shape()));
                Ok((&bucket.name, shapes.collect()))
            }
            None => Err(RouteError::NoBucket {
                given: error::describe(
                    arguments
                        .iter()
                        .map(|(name, dtype, shape)| (*name, Some(*dtype), *shape)),
                ),
                buckets: self.buckets.iter().map(Bucket::describe).collect(),
            }),
        }
    }

    /// Executes the bucket that the arguments choose.
    ///
    /// The states may come from any bucket: they are taken over by checkpoint
    /// key, without a copy, and their successors go on to any other.
    ///
    /// # Errors
    ///
    /// [`BucketFailed`], with the arguments and the states.
    pub fn execute<'a>(
        &mut self,
        arguments: Vec<Named<'a>>,
        states: impl Into<States<'rt, B>>,
    ) -> Result<Executed<'_, 'rt, B>, BucketFailed<'a, 'rt, B>> {
        let states = states.into();
        let given = arguments
            .iter()
            .map(|(name, tensor)| (*name, tensor.dtype(), tensor.shape()));
        let position = match self.position(given.collect()) {
            Ok(position) => position,
            Err(error) => return Err(BucketFailed::new(error, arguments, states)),
        };
        let Bucket {
            session, signature, ..
        } = &mut self.buckets[position];
        let states = match session.adopt_states(states) {
            Ok(states) => states,
            Err(rejected) => {
                let (states, error) = rejected.into_parts();
                return Err(BucketFailed::new(error, arguments, states));
            }
        };
        let (names, tensors): (Vec<&'a str>, Vec<_>) = arguments
            .into_iter()
            .map(|(name, tensor)| {
                let slot = signature.iter().find(|parameter| parameter.name == name);
                match slot {
                    Some(parameter) => (name, parameter.slot.admit(tensor)),
                    None => unreachable!("`position` compares the names"),
                }
            })
            .unzip();
        let named = |tensors: Vec<Tensor<Validated<'a>>>| {
            let tensors = tensors.into_iter().map(Tensor::into_unbound);
            names.iter().copied().zip(tensors).collect()
        };
        let ready = match session.bind(tensors) {
            Ok(ready) => ready,
            Err(rejected) => {
                let (tensors, error) = rejected.into_parts();
                return Err(BucketFailed::new(error, named(tensors), states));
            }
        };
        ready.execute(states).map_err(|failed| {
            let error = failed.reason().clone();
            let (tensors, states) = failed.into_inputs();
            BucketFailed::new(error, named(tensors), states)
        })
    }
}

impl<B: Backend> Bucket<'_, B> {
    fn describe(&self) -> String {
        let parameters = self.signature.iter().map(|parameter| {
            (
                parameter.name.as_str(),
                parameter.slot.dtype(),
                parameter.slot.shape(),
            )
        });
        format!("`{}` takes {}", self.name, error::describe(parameters))
    }

    fn elements(&self) -> u128 {
        let elements = |parameter: &Parameter| {
            let dims = parameter.slot.shape().dims().iter();
            dims.fold(1_u128, |product, dim| product.saturating_mul(*dim as u128))
        };
        self.signature
            .iter()
            .map(elements)
            .fold(0, u128::saturating_add)
    }
}

impl<B: Backend> fmt::Debug for Buckets<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.buckets.iter().map(Bucket::describe))
            .finish()
    }
}

/// A call that no bucket has completed, with what was given to it.
///
/// It is no [`std::error::Error`] itself, for it holds what borrows from the
/// caller; `?` turns it into [`enum@Error`] or a boxed error.
#[must_use]
pub struct BucketFailed<'a, 'rt, B: Backend> {
    inner: Box<(Error, Vec<Named<'a>>, States<'rt, B>)>,
}

impl<'a, 'rt, B: Backend> BucketFailed<'a, 'rt, B> {
    fn new(error: impl Into<Error>, arguments: Vec<Named<'a>>, states: States<'rt, B>) -> Self {
        Self {
            inner: Box::new((error.into(), arguments, states)),
        }
    }

    /// Why it failed.
    #[must_use]
    pub fn reason(&self) -> &Error {
        &self.inner.0
    }

    /// Takes back the arguments and the states.
    #[must_use]
    pub fn into_inputs(self) -> (Vec<Named<'a>>, States<'rt, B>) {
        let (_, arguments, states) = *self.inner;
        (arguments, states)
    }

    /// Keeps the reason and drops the rest.
    #[must_use]
    pub fn into_reason(self) -> Error {
        self.inner.0
    }
}

impl<B: Backend> fmt::Debug for BucketFailed<'_, '_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketFailed")
            .field("reason", &self.inner.0)
            .finish_non_exhaustive()
    }
}

impl<B: Backend> fmt::Display for BucketFailed<'_, '_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.0.fmt(f)
    }
}

impl<B: Backend> From<BucketFailed<'_, '_, B>> for Error {
    fn from(failed: BucketFailed<'_, '_, B>) -> Self {
        failed.into_reason()
    }
}

impl<B: Backend> From<BucketFailed<'_, '_, B>> for Box<dyn std::error::Error> {
    fn from(failed: BucketFailed<'_, '_, B>) -> Self {
        Box::new(failed.into_reason())
    }
}

impl<B: Backend> From<BucketFailed<'_, '_, B>> for Box<dyn std::error::Error + Send + Sync> {
    fn from(failed: BucketFailed<'_, '_, B>) -> Self {
        Box::new(failed.into_reason())
    }
}
