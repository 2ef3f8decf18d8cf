//! What stays on the device from launch to launch, as one owned value.

use std::fmt;
use std::sync::Arc;

use super::Session;
use crate::backend::{Backend, Core};
use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::contract::{Contract, ContractId, Holder, LookupError, Ordinal, Role, Slot, SlotKey};
use crate::device::{DeviceTensor, TensorView};
use crate::error::BackendError;
use crate::failure::Rejected;
use crate::model::own_slot;
use crate::shape::Shape;
use crate::tensor::{Tensor, Validated};

/// The states of one sequence: every buffer that a launch updates in place and
/// that the caller does not fill.
///
/// Launching consumes it and gives its successor back, so a state of before the
/// launch cannot be used any more; nothing is copied. Several values may exist
/// for one model, for instance one a request.
///
/// `()` converts into it, for models that keep no state.
pub struct States<'rt, B: Backend> {
    set: Option<Arc<StateSet<'rt, B>>>,
}

pub(super) struct StateSet<'rt, B: Backend> {
    pub(super) contract: Contract,
    /// By position in the plan's list of states; `None` for a tensor without
    /// elements.
    pub(super) tensors: Box<[Option<DeviceTensor<'rt, B>>]>,
    pub(super) backend: Arc<B>,
}

impl<B: Backend> From<()> for States<'_, B> {
    fn from((): ()) -> Self {
        Self { set: None }
    }
}

impl<'rt, B: Backend> States<'rt, B> {
    /// How many states there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.set.as_ref().map_or(0, |set| set.tensors.len())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The core that they are on, `None` where they have no buffers.
    #[must_use]
    pub fn core(&self) -> Option<Core> {
        let mut tensors = self.set.as_ref()?.tensors.iter().flatten();
        tensors.next().map(DeviceTensor::core)
    }

    /// The contract that they belong to, `None` where there are none.
    #[must_use]
    pub fn contract(&self) -> Option<ContractId> {
        self.set.as_ref().map(|set| set.contract.id())
    }

    /// One state, to be read: by input ordinal, device name or checkpoint key.
    ///
    /// # Errors
    ///
    /// [`StatesError::Lookup`] if there is no such input,
    /// [`StatesError::NotAState`] if it is none.
    pub fn get<'k>(
        &self,
        key: impl Into<SlotKey<'k>>,
    ) -> Result<TensorView<'_, 'rt, B>, StatesError> {
        let Some(set) = &self.set else {
            return Err(StatesError::Empty);
        };
        let slot = set.contract.slot(key)?;
        let position = set.position(slot)?;
        Ok(TensorView::of(slot, set.tensors[position].as_ref()))
    }

    /// All states, to be read, by input ordinal.
    pub fn iter(&self) -> impl Iterator<Item = TensorView<'_, 'rt, B>> + '_ {
        self.set.iter().flat_map(|set| {
            set.slots()
                .zip(&set.tensors)
                .map(|(slot, tensor)| TensorView::of(slot, tensor.as_ref()))
        })
    }

    /// Overwrites one state with a host tensor that was validated for its slot.
    ///
    /// # Errors
    ///
    /// [`StatesError`], with the tensor.
    pub fn write<'a>(
        &mut self,
        tensor: Tensor<Validated<'a>>,
    ) -> Result<(), Rejected<Tensor<Validated<'a>>, StatesError>> {
        match self.try_write(&tensor) {
            Ok(()) => Ok(()),
            Err(reason) => Err(Rejected::new(tensor, reason)),
        }
    }

    fn try_write(&self, tensor: &Tensor<Validated<'_>>) -> Result<(), StatesError> {
        let Some(set) = &self.set else {
            return Err(StatesError::Empty);
        };
        let slot = state_slot(&set.contract, tensor)?;
        let position = set.position(slot)?;
        if let Some(device) = &set.tensors[position] {
            set.backend.write(device.handle(), 0, tensor.bytes())?;
        }
        Ok(())
    }

    /// The buffers, for a launch: `None` while an output of an earlier launch
    /// still shows one of them.
    pub(super) fn exclusive(&mut self) -> Option<&StateSet<'rt, B>> {
        Arc::get_mut(self.set.as_mut()?).map(|set| &*set)
    }

    pub(super) fn set(&self) -> Option<&Arc<StateSet<'rt, B>>> {
        self.set.as_ref()
    }
}

impl<B: Backend> StateSet<'_, B> {
    fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.contract
            .inputs()
            .iter()
            .filter(|slot| slot.holder() == Holder::States)
    }

    fn position(&self, slot: &Slot) -> Result<usize, StatesError> {
        self.slots()
            .position(|state| state == slot)
            .ok_or_else(|| not_a_state(slot))
    }
}

fn not_a_state(slot: &Slot) -> StatesError {
    StatesError::NotAState {
        ordinal: slot.ordinal(),
        name: slot.name().to_owned(),
        role: slot.role(),
    }
}

/// The state slot that a tensor was validated for.
fn state_slot<'c>(
    contract: &'c Contract,
    tensor: &Tensor<Validated<'_>>,
) -> Result<&'c Slot, StatesError> {
    let slot = own_slot(contract, tensor).map_err(|found| StatesError::ForeignTensor {
        ordinal: tensor.ordinal(),
        expected: contract.id(),
        found,
    })?;
    if slot.holder() != Holder::States {
        return Err(not_a_state(slot));
    }
    if tensor.bytes().len() != slot.byte_size() {
        return Err(StatesError::Shape {
            ordinal: slot.ordinal(),
            name: slot.name().to_owned(),
            expected: slot.shape().clone(),
            found: tensor.shape().clone(),
        });
    }
    Ok(slot)
}

impl<'rt, B: Backend> Session<'rt, B> {
    /// States of zero bytes, as a new sequence starts with.
    ///
    /// # Errors
    ///
    /// What the backend answers; what was allocated is freed.
    pub fn zero_states(&self) -> Result<States<'rt, B>, BackendError> {
        let model = self.model().inner();
        let contract = model.contract();
        if model.plan().states.is_empty() {
            return Ok(States { set: None });
        }
        let tensors = model
            .plan()
            .states
            .iter()
            .map(|&ordinal| match &contract.inputs()[ordinal] {
                slot if slot.byte_size() == 0 => Ok(None),
                slot => model.allocate(slot).map(Some),
            })
            .collect::<Result<_, _>>()?;
        Ok(States {
            set: Some(Arc::new(StateSet {
                contract: contract.clone(),
                tensors,
                backend: Arc::clone(model.backend()),
            })),
        })
    }

    /// States from host tensors that were validated for their slots; those that
    /// are not given are zero.
    ///
    /// # Errors
    ///
    /// [`StatesError`], with all tensors; what was allocated is freed.
    pub fn states<'a>(
        &self,
        tensors: Vec<Tensor<Validated<'a>>>,
    ) -> Result<States<'rt, B>, Rejected<Vec<Tensor<Validated<'a>>>, StatesError>> {
        match self.try_states(&tensors) {
            Ok(states) => Ok(states),
            Err(reason) => Err(Rejected::new(tensors, reason)),
        }
    }

    /// States from a checkpoint, by checkpoint key; those that it has not are
    /// zero. Weights that an output overwrites are states here.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`]; what was allocated is freed.
    pub fn checkpoint_states(
        &self,
        checkpoint: &Checkpoint,
    ) -> Result<States<'rt, B>, CheckpointError> {
        let states = self.zero_states().map_err(StatesError::from)?;
        let slots = self.contract().inputs().iter();
        for slot in slots.filter(|slot| slot.holder() == Holder::States) {
            if checkpoint.has(slot) {
                states.try_write(&checkpoint.tensor(slot)?)?;
            }
        }
        Ok(states)
    }

    /// Takes over the states of another contract, by checkpoint key, without a
    /// copy: those of the same network compiled for another length.
    ///
    /// # Errors
    ///
    /// [`StatesError`], with the states: [`StatesError::Unlike`] if a state is not
    /// in both, or differs in element type, shape or core;
    /// [`StatesError::Shown`] while an output still shows one.
    pub fn adopt_states(
        &self,
        states: States<'rt, B>,
    ) -> Result<States<'rt, B>, Rejected<States<'rt, B>, StatesError>> {
        let contract = self.contract();
        let own = contract.id();
        let Some(set) = states.set else {
            let slots = self.model().inner().plan().states.len();
            return match slots {
                0 => Ok(states),
                _ => Err(Rejected::new(states, StatesError::Empty)),
            };
        };
        if set.contract.id() == own {
            return Ok(States { set: Some(set) });
        }
        let order = match self.matching(&set) {
            Ok(order) => order,
            Err(reason) => return Err(Rejected::new(States { set: Some(set) }, reason)),
        };
        match Arc::try_unwrap(set) {
            Ok(mut set) => {
                let tensors = order.into_iter().map(|from| set.tensors[from].take());
                Ok(States {
                    set: Some(Arc::new(StateSet {
                        contract: contract.clone(),
                        tensors: tensors.collect(),
                        backend: set.backend,
                    })),
                })
            }
            Err(set) => Err(Rejected::new(States { set: Some(set) }, StatesError::Shown)),
        }
    }

    /// For each of this contract's states, the position of its twin.
    fn matching(&self, set: &StateSet<'rt, B>) -> Result<Vec<usize>, StatesError> {
        let contract = self.contract();
        let unlike = |slot: &Slot, found: Option<&Slot>| StatesError::Unlike {
            slot: slot.to_string(),
            found: found.map_or("no state of the same key".to_owned(), Slot::to_string),
        };
        let mut order = Vec::new();
        let states = contract.inputs().iter();
        for slot in states.filter(|slot| slot.holder() == Holder::States) {
            let twin = set.slots().enumerate().find(|(_, twin)| {
                twin.checkpoint_key().is_some() && twin.checkpoint_key() == slot.checkpoint_key()
            });
            let Some((position, twin)) = twin else {
                return Err(unlike(slot, None));
            };
            let here = set.tensors[position]
                .as_ref()
                .is_none_or(|tensor| tensor.core() == self.model().core());
            if !here || twin.dtype() != slot.dtype() || twin.shape() != slot.shape() {
                return Err(unlike(slot, Some(twin)));
            }
            order.push(position);
        }
        match set.slots().enumerate().find(|(i, _)| !order.contains(i)) {
            Some((_, slot)) => Err(unlike(slot, None)),
            None => Ok(order),
        }
    }

    fn try_states(&self, tensors: &[Tensor<Validated<'_>>]) -> Result<States<'rt, B>, StatesError> {
        let contract = self.model().contract();
        let mut given = vec![false; contract.inputs().len()];
        for tensor in tensors {
            let slot = state_slot(contract, tensor)?;
            if std::mem::replace(&mut given[slot.ordinal().index()], true) {
                return Err(StatesError::Duplicate {
                    ordinal: slot.ordinal(),
                    name: slot.name().to_owned(),
                });
            }
        }
        let states = self.zero_states()?;
        for tensor in tensors {
            states.try_write(tensor)?;
        }
        Ok(states)
    }
}

impl<B: Backend> fmt::Debug for States<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Why states were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StatesError {
    /// The model keeps no state.
    #[error("there are no states")]
    Empty,
    /// There is no such input.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The input is no state.
    #[error("input {ordinal} `{name}` is a {role}, not a state")]
    NotAState {
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// Who fills it.
        role: Role,
    },
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
    /// A state of another batch than the compiled one.
    #[error("state {ordinal} `{name}` has shape {expected}, found {found}")]
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
    /// A state of another contract has no place here, or a state here has none
    /// there.
    #[error("{slot} cannot be taken over: {found}")]
    Unlike {
        /// The state.
        slot: String,
        /// What stands in its place.
        found: String,
    },
    /// An output of an earlier launch still shows a state.
    #[error("outputs of an earlier launch still show the states")]
    Shown,
    /// Two tensors were given for one slot.
    #[error("state {ordinal} `{name}` was given twice")]
    Duplicate {
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
    },
    /// A call of the backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
}
