//! Resident weights: uploaded once, replaced whole or in part, shared.

use std::fmt;
use std::sync::Arc;

use super::{Missing, MissingSlots, Model, own_slot};
use crate::backend::{Backend, Core};
use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::contract::{Contract, ContractId, Holder, Ordinal, Role, Slot};
use crate::device::DeviceTensor;
use crate::error::BackendError;
use crate::failure::Rejected;
use crate::shape::Shape;
use crate::tensor::{Tensor, Validated};

/// A weight's buffer; several models and sets of weights may share it.
type Resident<B> = Option<Arc<DeviceTensor<'static, B>>>;

/// Uploaded weights by input ordinal; every session holds the set that it binds.
pub(crate) struct Weights<B: Backend> {
    pub(crate) tensors: Box<[Resident<B>]>,
}

impl<B: Backend> Weights<B> {
    pub(super) fn empty(contract: &Contract) -> Self {
        Self {
            tensors: contract.inputs().iter().map(|_| None).collect(),
        }
    }

    /// These weights with some of them replaced.
    fn with(&self, replaced: Vec<(usize, Resident<B>)>) -> Self {
        let mut tensors = self.tensors.clone();
        for (ordinal, tensor) in replaced {
            tensors[ordinal] = tensor;
        }
        Self { tensors }
    }
}

/// Uploaded weights that no session binds yet.
pub(crate) struct Staged<B: Backend>(Vec<(usize, Resident<B>)>);

/// What a checkpoint gave to a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointSummary {
    /// Weights that were uploaded.
    pub weights: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Keys of the checkpoint that no slot of the model asks for.
    pub unused: Vec<String>,
}

impl fmt::Display for CheckpointSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (weights, bytes) = (self.weights, self.bytes);
        write!(f, "{weights} weights, {bytes} bytes, ")?;
        write!(f, "{} keys unused", self.unused.len())
    }
}

impl<B: Backend> Model<'_, B> {
    /// Uploads all weights and hands them to every session, at their next bind.
    ///
    /// All or nothing: the weights of before stay in use until every new one is
    /// on the device, and for good if one is refused. A weight that is not given
    /// is taken from the contract's inline constant, if it has one.
    ///
    /// # Errors
    ///
    /// [`WeightsError`], with all tensors.
    pub fn load_weights<'a>(
        &self,
        tensors: Vec<Tensor<Validated<'a>>>,
    ) -> Result<(), Rejected<Vec<Tensor<Validated<'a>>>, WeightsError>> {
        match self.upload_all(&tensors) {
            Ok(uploaded) => {
                self.inner
                    .weights()
                    .replace(|weights| weights.with(uploaded));
                Ok(())
            }
            Err(reason) => Err(Rejected::new(tensors, reason)),
        }
    }

    /// Replaces some of the weights and leaves the others as they are.
    ///
    /// All or nothing, as in [`load_weights`](Self::load_weights): a launch sees
    /// either every old weight or every new one, and a refused replacement
    /// changes none of them.
    ///
    /// # Errors
    ///
    /// [`WeightsError`], with all tensors.
    ///
    /// # Examples
    ///
    /// ```
    /// # use metaneff_binding::testing::{Fake, model};
    /// # use metaneff_binding::{Core, HostTensor, Runtime};
    /// # use metaneff_schema::metaneff::{MetaNeff, MetaTensor};
    /// # let tensor = |name: &'static str, role, key: Option<&'static str>| MetaTensor {
    /// #     name: name.into(), data_type: 1, r#type: role, checkpoint_key: key.map(Into::into),
    /// #     ..MetaTensor::default()
    /// # };
    /// # let artifact = model(&MetaNeff {
    /// #     input_tensors: vec![tensor("input0", 1, None), tensor("input1", 3, Some("w"))],
    /// #     output_tensors: vec![tensor("output0", 0, None)],
    /// #     ..MetaNeff::default()
    /// # })?;
    /// let runtime = Runtime::new(Fake::new()); // output0 = input0 + w
    /// let model = runtime.load(&artifact, Core::new(0))?;
    /// let weight = |value: f32| model.slot("w")?.validate(HostTensor::scalar(value)).map_err(metaneff_binding::Error::from);
    /// model.load_weights(vec![weight(2.0)?])?;
    ///
    /// let mut session = model.session()?;
    /// let x = session.slot(0)?.validate(HostTensor::scalar(3.0_f32))?;
    /// let outputs = session.bind([x.clone()])?.execute(())?.tolerate_nan().into_outputs();
    /// assert_eq!(outputs.get(0)?.to_vec::<f32>()?, [5.0]);
    ///
    /// model.replace_weights(vec![weight(5.0)?])?;
    /// let outputs = session.bind([x])?.execute(())?.tolerate_nan().into_outputs();
    /// assert_eq!(outputs.get(0)?.to_vec::<f32>()?, [8.0]);
    /// # Ok::<(), metaneff_binding::Error>(())
    /// ```
    pub fn replace_weights<'a>(
        &self,
        tensors: Vec<Tensor<Validated<'a>>>,
    ) -> Result<(), Rejected<Vec<Tensor<Validated<'a>>>, WeightsError>> {
        let uploaded = self.given(&tensors).and_then(|given| self.upload(&given));
        match uploaded {
            Ok(uploaded) => {
                self.inner
                    .weights()
                    .replace(|weights| weights.with(uploaded));
                Ok(())
            }
            Err(reason) => Err(Rejected::new(tensors, reason)),
        }
    }

    /// Uploads all weights from a checkpoint, by checkpoint key, and hands them
    /// to every session, at their next bind.
    ///
    /// Element types and shapes of all weights are compared before the first
    /// byte is read; then one weight at a time is in host memory. All or
    /// nothing, as in [`load_weights`](Self::load_weights).
    ///
    /// # Errors
    ///
    /// [`CheckpointError`]; [`WeightsError::Missing`] inside of it lists every
    /// weight that neither the checkpoint nor the contract has.
    pub fn load_checkpoint(
        &self,
        checkpoint: &Checkpoint,
    ) -> Result<CheckpointSummary, CheckpointError> {
        let resident = |slot: &&Slot| slot.holder() == Holder::Model;
        let mut missing = Vec::new();
        for slot in self.contract().inputs().iter().filter(resident) {
            if checkpoint.has(slot) {
                checkpoint.compare(slot)?;
            } else if constant(slot).is_none() {
                missing.push(Missing::of(slot));
            }
        }
        if !missing.is_empty() {
            return Err(WeightsError::Missing(MissingSlots { slots: missing }).into());
        }

        let mut uploaded = Vec::new();
        let mut summary = CheckpointSummary {
            unused: checkpoint.unused(self.contract()),
            ..CheckpointSummary::default()
        };
        for slot in self.contract().inputs().iter().filter(resident) {
            let ordinal = slot.ordinal().index();
            let tensors = if checkpoint.has(slot) {
                let tensor = checkpoint.tensor(slot)?;
                self.upload(&[(ordinal, tensor.bytes())])?
            } else {
                self.upload(&[(ordinal, constant(slot).unwrap_or_default())])?
            };
            summary.weights += 1;
            summary.bytes += slot.byte_size() as u64;
            uploaded.extend(tensors);
        }
        self.inner
            .weights()
            .replace(|weights| weights.with(uploaded));
        Ok(summary)
    }

    /// Takes over the weights of another model on the same core, by checkpoint
    /// key, without a copy: both then hold the same buffers. Models of one
    /// network that are compiled for several lengths are loaded so.
    ///
    /// A later replacement concerns the model that it is made on.
    ///
    /// # Errors
    ///
    /// [`WeightsError::Missing`] if the other has not all of this model's
    /// weights, [`WeightsError::Unlike`] if one of them differs in element type
    /// or shape, [`WeightsError::OtherCore`].
    pub fn share_weights(&self, other: &Model<'_, B>) -> Result<(), WeightsError> {
        if self.core() != other.core() {
            return Err(WeightsError::OtherCore {
                expected: self.core(),
                found: other.core(),
            });
        }
        let (theirs, _) = other.inner.weights().get();
        let mut shared = Vec::new();
        let mut missing = Vec::new();
        for slot in self.contract().inputs() {
            if slot.holder() != Holder::Model || slot.byte_size() == 0 {
                continue;
            }
            let twin = other.contract().inputs().iter().find(|twin| {
                twin.holder() == Holder::Model
                    && twin.checkpoint_key().is_some()
                    && twin.checkpoint_key() == slot.checkpoint_key()
            });
            let Some((twin, tensor)) =
                twin.and_then(|twin| Some((twin, theirs.tensors[twin.ordinal().index()].clone()?)))
            else {
                missing.push(Missing::of(slot));
                continue;
            };
            if twin.dtype() != slot.dtype() || twin.shape() != slot.shape() {
                return Err(WeightsError::Unlike {
                    slot: slot.to_string(),
                    found: twin.to_string(),
                });
            }
            shared.push((slot.ordinal().index(), Some(tensor)));
        }
        if !missing.is_empty() {
            return Err(WeightsError::Missing(MissingSlots { slots: missing }));
        }
        self.inner.weights().replace(|weights| weights.with(shared));
        Ok(())
    }

    /// Uploads all weights, to be put in place later.
    pub(crate) fn stage_weights(
        &self,
        tensors: &[Tensor<Validated<'_>>],
    ) -> Result<Staged<B>, WeightsError> {
        self.upload_all(tensors).map(Staged)
    }

    /// Puts uploaded weights in place.
    pub(crate) fn commit_weights(&self, staged: Staged<B>) {
        self.inner
            .weights()
            .replace(|weights| weights.with(staged.0));
    }

    /// The given weights by ordinal, each once and each a resident weight.
    fn given<'g>(
        &self,
        tensors: &'g [Tensor<Validated<'_>>],
    ) -> Result<Vec<(usize, &'g [u8])>, WeightsError> {
        let mut given = vec![None; self.contract().inputs().len()];
        for tensor in tensors {
            let slot = weight_slot(self.contract(), tensor)?;
            let entry = &mut given[slot.ordinal().index()];
            if entry.replace(tensor.bytes()).is_some() {
                return Err(WeightsError::Duplicate {
                    ordinal: slot.ordinal(),
                    name: slot.name().to_owned(),
                });
            }
        }
        Ok(given
            .into_iter()
            .enumerate()
            .filter_map(|(ordinal, bytes)| Some((ordinal, bytes?)))
            .collect())
    }

    /// Uploads a complete set, with the contract's constants for those that are
    /// not given.
    fn upload_all(
        &self,
        tensors: &[Tensor<Validated<'_>>],
    ) -> Result<Vec<(usize, Resident<B>)>, WeightsError> {
        let given = self.given(tensors)?;
        let mut all = Vec::new();
        let mut missing = Vec::new();
        for slot in self.contract().inputs() {
            if slot.holder() != Holder::Model {
                continue;
            }
            let ordinal = slot.ordinal().index();
            let bytes = match given.binary_search_by_key(&ordinal, |(ordinal, _)| *ordinal) {
                Ok(position) => Some(given[position].1),
                Err(_) => constant(slot),
            };
            match bytes {
                Some(bytes) => all.push((ordinal, bytes)),
                None => missing.push(Missing::of(slot)),
            }
        }
        if missing.is_empty() {
            self.upload(&all)
        } else {
            Err(WeightsError::Missing(MissingSlots { slots: missing }))
        }
    }

    fn upload(&self, given: &[(usize, &[u8])]) -> Result<Vec<(usize, Resident<B>)>, WeightsError> {
        let uploaded = given.iter().map(|&(ordinal, bytes)| {
            let slot = &self.contract().inputs()[ordinal];
            Ok((ordinal, self.inner.upload(slot, bytes)?.map(Arc::new)))
        });
        uploaded.collect()
    }
}

/// The contract's own bytes for a weight.
fn constant(slot: &Slot) -> Option<&[u8]> {
    (slot.content().len() == slot.byte_size()).then(|| slot.content().as_ref())
}

/// The slot of a weight that was validated for this contract.
fn weight_slot<'c>(
    contract: &'c Contract,
    tensor: &Tensor<Validated<'_>>,
) -> Result<&'c Slot, WeightsError> {
    let slot = own_slot(contract, tensor).map_err(|found| WeightsError::ForeignTensor {
        ordinal: tensor.ordinal(),
        expected: contract.id(),
        found,
    })?;
    if slot.holder() != Holder::Model {
        return Err(WeightsError::NotAWeight {
            ordinal: slot.ordinal(),
            name: slot.name().to_owned(),
            role: slot.role(),
        });
    }
    if tensor.bytes().len() != slot.byte_size() {
        return Err(WeightsError::Shape {
            ordinal: slot.ordinal(),
            name: slot.name().to_owned(),
            expected: slot.shape().clone(),
            found: tensor.shape().clone(),
        });
    }
    Ok(slot)
}

/// Why weights were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// A tensor was validated for another contract.
    #[error("the tensor for input {ordinal} belongs to contract {found}, not {expected}")]
    ForeignTensor {
        /// The slot that the tensor was validated for.
        ordinal: Ordinal,
        /// This model's contract.
        expected: ContractId,
        /// The tensor's contract.
        found: ContractId,
    },
    /// A tensor was validated for a slot that is no resident weight.
    #[error("input {ordinal} `{name}` is a {role}")]
    NotAWeight {
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// Who fills it.
        role: Role,
    },
    /// A weight of another batch than the compiled one.
    #[error("weight {ordinal} `{name}` has shape {expected}, found {found}")]
    Shape {
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// The compiled shape.
        expected: Shape,
        /// The tensor's shape.
        found: Shape,
    },
    /// Two tensors were given for one slot.
    #[error("weight {ordinal} `{name}` was given twice")]
    Duplicate {
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
    },
    /// Weights were not given.
    #[error("{0}")]
    Missing(MissingSlots),
    /// Another model's weight of the same key is of another type or shape.
    #[error("{slot} cannot share {found}")]
    Unlike {
        /// This model's slot.
        slot: String,
        /// The other model's slot.
        found: String,
    },
    /// The other model is on another core, whose memory this one cannot read.
    #[error("the model is on {expected}, the one with the weights on {found}")]
    OtherCore {
        /// This model's core.
        expected: Core,
        /// The other model's core.
        found: Core,
    },
    /// A call of the backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
}
