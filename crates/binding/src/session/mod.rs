//! Sessions: validated inputs in, outputs and successor states out.
//!
//! A launch follows the order of the native runtime (reference page, section
//! 4.5): each input is written and bound, the model executes, the outputs are
//! bound and read. A slot whose buffer is the one bound before costs no call.
//!
//! | step | consumes | gives | a failure gives back |
//! |---|---|---|---|
//! | [`Session::bind`] | the inputs | [`Ready`] | the inputs, and all slots that are missing |
//! | [`Ready::execute`] | the states | [`Executed`] | inputs and states, and outputs if there are any |
//! | [`Executed::tolerate_nan`], [`Executed::reject_nan`] | – | [`Completed`] | the completed launch |
//! | [`Completed::into_parts`] | – | [`Outputs`] and [`States`] | – |

mod arguments;
mod batch;
mod launch;
mod outputs;
mod ready;
mod states;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

pub use arguments::{Argument, ArgumentRef, Arguments, AsArgument};
pub use batch::{BatchError, BatchOutputs, ExecutedBatch};
pub(crate) use batch::{Rows, Spread};
pub use outputs::{OutputError, Outputs};
pub use ready::{Completed, ExecuteError, Executed, Failed, NumericalError, Ready};
pub use states::{States, StatesError};

use crate::backend::{Backend, Core, Side};
use crate::contract::{Contract, ContractId, Holder, LookupError, Ordinal, Role, Slot, SlotKey};
use crate::device::{BufferId, DeviceTensor};
use crate::error::BackendError;
use crate::failure::Rejected;
use crate::model::{MissingSlots, Model, Weights};
use crate::owned::Owned;
use crate::shape::Shape;
use crate::tensor::{Bound, BoundTensor, HostState, Tensor, Validated};

/// One tensor set a side, with the buffers that stand in it.
///
/// A session runs one launch at a time, which `&mut self` says.
///
/// # Examples
///
/// ```
/// use metaneff_binding::testing::{Fake, add_model};
/// use metaneff_binding::{Core, HostTensor, Runtime};
///
/// let runtime = Runtime::new(Fake::new());
/// let model = runtime.load(&add_model(), Core::new(0))?;
/// let mut session = model.session()?;
///
/// let a = session.slot("input0")?.validate(HostTensor::from_slice([2], &[1.0_f32, 2.0])?)?;
/// let b = session.slot("input1")?.validate(HostTensor::from_slice([2], &[10.0_f32, 20.0])?)?;
/// let (outputs, _) = session.bind([a, b])?.execute(())?.tolerate_nan().into_parts();
/// assert_eq!(outputs.get(0)?.to_vec::<f32>()?, [11.0, 22.0]);
/// # Ok::<(), metaneff_binding::Error>(())
/// ```
pub struct Session<'rt, B: Backend> {
    // Dropped in this order: sets before the tensors that they name.
    inputs: SideSet<B>,
    outputs: SideSet<B>,
    /// Buffers for inputs from the host, by input ordinal.
    staging: Box<[Option<DeviceTensor<'rt, B>>]>,
    /// Buffers of outputs, by output ordinal; also the successors of donated
    /// user inputs until they are taken or staged again.
    results: Box<[Option<DeviceTensor<'rt, B>>]>,
    weights: Arc<Weights<B>>,
    weights_epoch: u64,
    weights_complete: bool,
    /// Which argument fills which input: position + 1, 0 for none.
    filled: Box<[usize]>,
    model: Model<'rt, B>,
}

/// A tensor set, and which buffer each slot of it was bound to last.
struct SideSet<B: Backend> {
    set: Owned<B::TensorSet>,
    bound: Box<[Option<BufferId>]>,
    backend: Arc<B>,
}

impl<B: Backend> SideSet<B> {
    fn new(backend: &Arc<B>, slots: usize) -> Result<Self, BackendError> {
        Ok(Self {
            set: Owned::new(backend.tensor_set()?),
            bound: vec![None; slots].into(),
            backend: Arc::clone(backend),
        })
    }

    /// Binds `slot` to `tensor` unless it is bound to it already.
    #[inline]
    fn bind(&mut self, slot: &Slot, tensor: &DeviceTensor<'_, B>) -> Result<(), BackendError> {
        let bound = &mut self.bound[slot.ordinal().index()];
        if *bound == Some(tensor.id()) {
            return Ok(());
        }
        // Unknown until the call has answered.
        *bound = None;
        self.backend
            .bind(self.set.get_mut(), slot.device_key(), tensor.handle())?;
        *bound = Some(tensor.id());
        Ok(())
    }
}

impl<B: Backend> Drop for SideSet<B> {
    fn drop(&mut self) {
        if let Some(set) = self.set.take() {
            self.backend.destroy_set(set);
        }
    }
}

impl<'rt, B: Backend> Session<'rt, B> {
    pub(crate) fn new(model: Model<'rt, B>) -> Result<Self, SessionError> {
        let inner = model.inner();
        let contract = inner.contract();
        for slot in contract.inputs().iter().chain(contract.outputs()) {
            // A user input of unknown type is refused when it is bound.
            if slot.stored_dtype().is_none() && slot.role() != Role::UserInput {
                return Err(SessionError::UnknownDataType {
                    side: slot.side(),
                    ordinal: slot.ordinal(),
                    name: slot.name().to_owned(),
                    number: slot.data_type(),
                });
            }
        }
        let inputs = SideSet::new(inner.backend(), contract.inputs().len())?;
        let outputs = SideSet::new(inner.backend(), contract.outputs().len())?;
        // A donated input's buffer may come from the caller, so it waits.
        let own = |slot: &Slot| {
            slot.holder() == Holder::Caller && slot.alias().is_none() && slot.byte_size() > 0
        };
        let allocate = |slot: &Slot| own(slot).then(|| inner.allocate(slot)).transpose();
        let staging = contract
            .inputs()
            .iter()
            .map(allocate)
            .collect::<Result<_, _>>()?;
        let results = contract
            .outputs()
            .iter()
            .map(allocate)
            .collect::<Result<_, _>>()?;
        let (weights, weights_epoch) = inner.weights().get();
        let mut session = Self {
            inputs,
            outputs,
            staging,
            results,
            filled: vec![0; contract.inputs().len()].into(),
            weights,
            weights_epoch,
            weights_complete: false,
            model,
        };
        session.note_missing_weights();
        Ok(session)
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Model<'rt, B> {
        &self.model
    }

    /// The contract.
    #[must_use]
    pub fn contract(&self) -> &Contract {
        self.model.contract()
    }

    /// Finds an input slot; see [`Contract::slot`].
    ///
    /// # Errors
    ///
    /// As [`Contract::slot`].
    pub fn slot<'k>(&self, key: impl Into<SlotKey<'k>>) -> Result<&Slot, LookupError> {
        self.contract().slot(key)
    }

    /// Fills the user inputs of one launch: writes host tensors into the
    /// session's buffers and binds what has changed.
    ///
    /// The inputs may come in any order, for each knows its slot.
    ///
    /// # Errors
    ///
    /// [`BindError`], with all inputs. Nothing is written unless every slot is
    /// filled.
    pub fn bind<'s, A: Arguments<'rt, B>>(
        &'s mut self,
        arguments: A,
    ) -> Result<Ready<'s, 'rt, B, A>, Rejected<A, BindError>> {
        match self.prepare(&arguments) {
            Ok(()) => Ok(Ready::new(self, arguments)),
            Err(reason) => Err(Rejected::new(arguments, reason)),
        }
    }

    /// A launch whose arguments [`prepare`](Self::prepare) has written and bound
    /// as the last thing that it did.
    #[cfg(feature = "tokio")]
    pub(crate) const fn prepared<A: Arguments<'rt, B>>(
        &mut self,
        arguments: A,
    ) -> Ready<'_, 'rt, B, A> {
        Ready::new(self, arguments)
    }

    /// The outputs of the last launch, which gave these states.
    #[cfg(feature = "tokio")]
    pub(crate) fn outputs(&mut self, states: &States<'rt, B>) -> Outputs<'_, 'rt, B> {
        Outputs::new(self, states)
    }

    /// Moves a host tensor to the device, for inputs that several launches share.
    ///
    /// # Errors
    ///
    /// [`BindError`], with the tensor.
    pub fn upload<'a>(
        &self,
        tensor: Tensor<Validated<'a>>,
    ) -> Result<BoundTensor<'rt, B>, Rejected<Tensor<Validated<'a>>, BindError>> {
        match self.try_upload(&tensor) {
            Ok(bound) => Ok(bound),
            Err(reason) => Err(Rejected::new(tensor, reason)),
        }
    }

    fn try_upload(&self, tensor: &Tensor<Validated<'_>>) -> Result<BoundTensor<'rt, B>, BindError> {
        let contract = self.contract();
        let slot = launch::own_slot(contract, tensor.contract(), tensor.ordinal())?;
        launch::check_size(slot, tensor.state.shape(), tensor.bytes())?;
        let device = self.model.inner().upload(slot, tensor.bytes())?;
        let device = device.ok_or_else(|| BindError::Empty {
            ordinal: slot.ordinal(),
            name: slot.name().to_owned(),
        })?;
        Ok(Tensor {
            state: Bound {
                device,
                slot: slot.clone(),
            },
        })
    }

    /// Moves a device tensor of another slot, such as an output of another
    /// model, to an input slot of this one. No data moves.
    ///
    /// # Errors
    ///
    /// [`BindError`], with the tensor, if element type, shape or core differ.
    pub fn adopt<'k>(
        &self,
        key: impl Into<SlotKey<'k>>,
        tensor: BoundTensor<'rt, B>,
    ) -> Result<BoundTensor<'rt, B>, Rejected<BoundTensor<'rt, B>, BindError>> {
        let slot = self.slot(key).map_err(BindError::from).and_then(|slot| {
            launch::check_adoption(slot, &tensor, self.model.core()).map(|()| slot)
        });
        match slot {
            Ok(slot) => Ok(Tensor {
                state: Bound {
                    device: tensor.state.device,
                    slot: slot.clone(),
                },
            }),
            Err(reason) => Err(Rejected::new(tensor, reason)),
        }
    }

    fn note_missing_weights(&mut self) {
        let complete = self.missing_weights().next().is_none();
        self.weights_complete = complete;
    }

    fn missing_weights(&self) -> impl Iterator<Item = &Slot> {
        self.contract()
            .inputs()
            .iter()
            .zip(&self.weights.tensors)
            .filter(|(slot, tensor)| {
                slot.holder() == Holder::Model && slot.byte_size() > 0 && tensor.is_none()
            })
            .map(|(slot, _)| slot)
    }
}

impl<B: Backend> fmt::Debug for Session<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// Why a session cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// A slot that the session would allocate has no known size.
    #[error("{side} {ordinal} `{name}` has data type {number}, which is not known")]
    UnknownDataType {
        /// Which side.
        side: Side,
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// The contract's number.
        number: i32,
    },
    /// A call of the backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

/// Why the inputs of a launch were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// User inputs, or weights of the model, were not given.
    #[error("{0}")]
    Missing(MissingSlots),
    /// Two inputs were given for one slot.
    #[error("input {ordinal} `{name}` was given twice")]
    Duplicate {
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
    },
    /// An input belongs to another contract.
    #[error("the tensor for {side} {ordinal} belongs to contract {found}, not {expected}")]
    ForeignTensor {
        /// Which side its slot stands on.
        side: Side,
        /// The slot that the tensor belongs to.
        ordinal: Ordinal,
        /// This model's contract.
        expected: ContractId,
        /// The tensor's contract.
        found: ContractId,
    },
    /// An input was given for a slot that the caller does not fill at a launch.
    #[error("{role} {ordinal} `{name}` is no input of a launch")]
    NotAUserInput {
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// Who fills it.
        role: Role,
    },
    /// The batch is not the compiled one.
    #[error("input {ordinal} `{name}` is compiled for shape {compiled}, found {found}")]
    Batch {
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// The compiled shape.
        compiled: Shape,
        /// The tensor's shape.
        found: Shape,
    },
    /// A tensor on loan would be overwritten by an output.
    #[error("output {output} takes the buffer of input {ordinal} `{name}`, which is only on loan")]
    LentToOutput {
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// The output that takes the slot's buffer.
        output: Ordinal,
    },
    /// A device tensor is on another core than the model.
    #[error("the tensor for input {ordinal} `{name}` is on {found}, the model on {expected}")]
    CoreMismatch {
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// The model's core.
        expected: Core,
        /// The tensor's core.
        found: Core,
    },
    /// A device tensor does not fit the slot that it was to move to.
    #[error("{slot} does not take {tensor}")]
    Unlike {
        /// The slot.
        slot: String,
        /// The slot that the tensor comes from.
        tensor: String,
    },
    /// A tensor without elements has no device buffer.
    #[error("input {ordinal} `{name}` has no elements, so it has no device buffer")]
    Empty {
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
    },
    /// There is no such slot.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// A call of the backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
}
