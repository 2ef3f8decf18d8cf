//! What a launch has written.

use std::fmt;
use std::sync::Arc;

use super::Session;
use super::States;
use super::states::StateSet;
use crate::backend::Backend;
use crate::contract::{Contract, Holder, LookupError, Ordinal, Slot, SlotKey};
use crate::device::TensorView;
use crate::tensor::{Bound, BoundTensor, Tensor};

/// The outputs of one launch. They borrow the session, whose next launch
/// overwrites them.
///
/// Outputs keep the contract's ordinals. Those that take an input's buffer are
/// listed and read here only if the contract returns its aliases; the states
/// among them are in [`States`] in any case.
pub struct Outputs<'s, 'rt, B: Backend> {
    session: &'s mut Session<'rt, B>,
    /// Kept where an output shows a state's buffer.
    shown: Option<Arc<StateSet<'rt, B>>>,
}

impl<'s, 'rt, B: Backend> Outputs<'s, 'rt, B> {
    pub(super) fn new(session: &'s mut Session<'rt, B>, states: &States<'rt, B>) -> Self {
        let shown = session
            .contract()
            .returns_aliases()
            .then(|| states.set().cloned())
            .flatten();
        Self { session, shown }
    }

    /// How many outputs the caller sees.
    #[must_use]
    pub fn len(&self) -> usize {
        self.visible().count()
    }

    /// Whether the caller sees none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The outputs that the caller sees, by ordinal.
    pub fn iter(&self) -> impl Iterator<Item = TensorView<'_, 'rt, B>> + '_ {
        self.visible().map(|slot| self.show(slot))
    }

    /// One output, by ordinal or device name.
    ///
    /// # Errors
    ///
    /// [`OutputError::Lookup`] if there is no such output,
    /// [`OutputError::Hidden`] if it takes an input's buffer and the contract
    /// does not return its aliases, [`OutputError::Taken`] if it was taken.
    pub fn get<'k>(
        &self,
        key: impl Into<SlotKey<'k>>,
    ) -> Result<TensorView<'_, 'rt, B>, OutputError> {
        let contract = self.session.contract();
        let slot = contract.output(key)?;
        if let (Some(input), false) = (slot.alias(), contract.is_visible(slot)) {
            return Err(OutputError::Hidden {
                ordinal: slot.ordinal(),
                name: slot.name().to_owned(),
                input,
            });
        }
        let view = self.show(slot);
        if view.device().is_none() && slot.byte_size() > 0 {
            return Err(OutputError::Taken {
                ordinal: slot.ordinal(),
                name: slot.name().to_owned(),
            });
        }
        Ok(view)
    }

    /// Takes an output's buffer, to keep it or to use it as an input.
    ///
    /// An output that took a user input's buffer comes back in that input's slot,
    /// ready for the next launch, whether or not the contract returns its
    /// aliases. Any other one comes back in its own slot;
    /// [`Session::adopt`] moves it to an input.
    ///
    /// # Errors
    ///
    /// [`OutputError::InStates`] for a state, which [`States`] holds;
    /// [`OutputError::Empty`] for an output without elements;
    /// [`OutputError::Taken`] if it was taken before.
    pub fn take<'k>(
        &mut self,
        key: impl Into<SlotKey<'k>>,
    ) -> Result<BoundTensor<'rt, B>, OutputError> {
        let contract = self.session.contract();
        let output = contract.output(key)?;
        let (ordinal, name) = (output.ordinal(), output.name());
        let slot = match donor(contract, output) {
            Some(input) if input.holder() == Holder::States => {
                return Err(OutputError::InStates {
                    ordinal,
                    name: name.to_owned(),
                    input: input.ordinal(),
                });
            }
            Some(input) => input,
            None => output,
        };
        if output.byte_size() == 0 {
            return Err(OutputError::Empty {
                ordinal,
                name: name.to_owned(),
            });
        }
        let slot = slot.clone();
        match self.session.results[ordinal.index()].take() {
            Some(device) => Ok(Tensor {
                state: Bound { device, slot },
            }),
            None => Err(OutputError::Taken {
                ordinal,
                name: self.session.contract().outputs()[ordinal.index()]
                    .name()
                    .to_owned(),
            }),
        }
    }

    fn visible(&self) -> impl Iterator<Item = &Slot> {
        let contract = self.session.contract();
        contract
            .outputs()
            .iter()
            .filter(|slot| contract.is_visible(slot))
    }

    fn show<'o>(&'o self, slot: &'o Slot) -> TensorView<'o, 'rt, B> {
        let contract = self.session.contract();
        let state = donor(contract, slot).filter(|input| input.holder() == Holder::States);
        let device = match (state, &self.shown) {
            (Some(input), Some(shown)) => {
                let plan = self.session.model().inner().plan();
                shown.tensors[plan.inputs[input.ordinal().index()].state].as_ref()
            }
            (Some(_), None) => None,
            (None, _) => self.session.results[slot.ordinal().index()].as_ref(),
        };
        TensorView::of(slot, device)
    }
}

fn donor<'c>(contract: &'c Contract, output: &Slot) -> Option<&'c Slot> {
    output
        .alias()
        .map(|input| &contract.inputs()[input.index()])
}

impl<B: Backend> fmt::Debug for Outputs<'_, '_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Why an output is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// There is no such output.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The output takes an input's buffer, and the contract hides such outputs.
    #[error("output {ordinal} `{name}` takes the buffer of input {input} and is not returned")]
    Hidden {
        /// The output.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// The input whose buffer it takes.
        input: Ordinal,
    },
    /// The output is a state's successor.
    #[error("output {ordinal} `{name}` is the state of input {input}")]
    InStates {
        /// The output.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// The state's input.
        input: Ordinal,
    },
    /// The output has no elements, and so no buffer.
    #[error("output {ordinal} `{name}` has no elements, so it has no device buffer")]
    Empty {
        /// The output.
        ordinal: Ordinal,
        /// Its name.
        name: String,
    },
    /// The output's buffer was taken before.
    #[error("output {ordinal} `{name}` was taken")]
    Taken {
        /// The output.
        ordinal: Ordinal,
        /// Its name.
        name: String,
    },
}
