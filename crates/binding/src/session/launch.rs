//! The steps of a launch. Nothing here allocates on the host once a session has
//! its buffers.

use super::{Arguments, BindError, Session, States};
use crate::backend::{Backend, Completion, Core, Side};
use crate::contract::{Contract, ContractId, Holder, Ordinal, Slot};
use crate::error::BackendError;
use crate::model::{Missing, MissingSlots};
use crate::session::ArgumentRef;
use crate::shape::Shape;
use crate::tensor::BoundTensor;

/// The user input slot that a tensor belongs to.
pub(super) fn own_slot(
    contract: &Contract,
    found: ContractId,
    ordinal: Ordinal,
) -> Result<&Slot, BindError> {
    let slot = contract.inputs().get(ordinal.index());
    let Some(slot) = slot.filter(|_| found == contract.id()) else {
        return Err(BindError::ForeignTensor {
            side: Side::Input,
            ordinal,
            expected: contract.id(),
            found,
        });
    };
    if slot.holder() == Holder::Caller {
        Ok(slot)
    } else {
        Err(BindError::NotAUserInput {
            ordinal,
            name: slot.name().to_owned(),
            role: slot.role(),
        })
    }
}

/// One launch takes the compiled batch and no other.
pub(super) fn check_size(slot: &Slot, shape: &Shape, bytes: &[u8]) -> Result<(), BindError> {
    if bytes.len() == slot.byte_size() {
        Ok(())
    } else {
        Err(BindError::Batch {
            ordinal: slot.ordinal(),
            name: slot.name().to_owned(),
            compiled: slot.shape().clone(),
            found: shape.clone(),
        })
    }
}

/// Whether a device tensor may move to another slot.
pub(super) fn check_adoption<B: Backend>(
    slot: &Slot,
    tensor: &BoundTensor<'_, B>,
    core: Core,
) -> Result<(), BindError> {
    let from = tensor.slot();
    let fits = slot.shape() == from.shape()
        && slot.byte_size() == from.byte_size()
        && from.dtype().is_some_and(|dtype| slot.accepts(dtype));
    if !fits {
        return Err(BindError::Unlike {
            slot: slot.to_string(),
            tensor: from.to_string(),
        });
    }
    check_core(slot, tensor, core)
}

fn check_core<B: Backend>(
    slot: &Slot,
    tensor: &BoundTensor<'_, B>,
    expected: Core,
) -> Result<(), BindError> {
    let found = tensor.state.device.core();
    if found == expected {
        Ok(())
    } else {
        Err(BindError::CoreMismatch {
            ordinal: slot.ordinal(),
            name: slot.name().to_owned(),
            expected,
            found,
        })
    }
}

impl<'rt, B: Backend> Session<'rt, B> {
    /// Checks the arguments, then writes and binds them in the order of their
    /// slots.
    pub(crate) fn prepare<A: Arguments<'rt, B>>(&mut self, arguments: &A) -> Result<(), BindError> {
        self.refresh_weights();
        self.assign(arguments)?;
        for ordinal in 0..self.filled.len() {
            let position = self.filled[ordinal];
            if position > 0
                && let Some(argument) = arguments.argument(position - 1)
            {
                self.place(ordinal, &argument)?;
            }
        }
        Ok(())
    }

    /// Takes the model's newest weights over.
    fn refresh_weights(&mut self) {
        let weights = self.model.inner().weights();
        if self.weights_epoch != weights.epoch() {
            (self.weights, self.weights_epoch) = weights.get();
            self.note_missing_weights();
        }
    }

    /// Finds the slot of every argument. Fails before anything is written.
    fn assign<A: Arguments<'rt, B>>(&mut self, arguments: &A) -> Result<(), BindError> {
        self.filled.fill(0);
        let contract = self.model.contract();
        for position in 0..arguments.count() {
            let Some(argument) = arguments.argument(position) else {
                break;
            };
            let (found, ordinal) = argument.slot();
            let slot = own_slot(contract, found, ordinal)?;
            check_argument(slot, &argument, self.model.core())?;
            let filled = &mut self.filled[ordinal.index()];
            if *filled > 0 {
                return Err(BindError::Duplicate {
                    ordinal,
                    name: slot.name().to_owned(),
                });
            }
            *filled = position + 1;
        }
        if arguments.count() == contract.user_inputs().len() && self.weights_complete {
            return Ok(());
        }
        Err(self.missing())
    }

    #[cold]
    fn missing(&self) -> BindError {
        let inputs = self
            .contract()
            .user_inputs()
            .filter(|slot| self.filled[slot.ordinal().index()] == 0);
        let mut slots: Vec<_> = inputs
            .chain(self.missing_weights())
            .map(Missing::of)
            .collect();
        slots.sort_by_key(|missing| missing.ordinal);
        BindError::Missing(MissingSlots { slots })
    }

    /// Writes and binds one argument.
    fn place(
        &mut self,
        ordinal: usize,
        argument: &ArgumentRef<'_, 'rt, B>,
    ) -> Result<(), BackendError> {
        let model = self.model.inner();
        let plan = model.plan().inputs[ordinal];
        if plan.size == 0 {
            return Ok(());
        }
        let slot = &model.contract().inputs()[ordinal];
        match argument {
            ArgumentRef::Host { bytes, .. } => {
                let staging = &mut self.staging[ordinal];
                if staging.is_none() {
                    // A donated buffer that came back and was not taken, or a new one.
                    let returned = plan.alias.and_then(|output| self.results[output].take());
                    *staging = Some(match returned {
                        Some(buffer) => buffer,
                        None => model.allocate(slot)?,
                    });
                }
                if let Some(buffer) = staging {
                    model.backend().write(buffer.handle(), 0, bytes)?;
                    self.inputs.bind(slot, buffer)?;
                }
                Ok(())
            }
            ArgumentRef::Device(tensor) | ArgumentRef::Lent(tensor) => {
                self.inputs.bind(slot, &tensor.state.device)
            }
        }
    }

    /// Binds weights, states and outputs, and executes. `states` are this
    /// contract's.
    pub(super) fn launch<A: Arguments<'rt, B>>(
        &mut self,
        arguments: &A,
        states: &mut States<'rt, B>,
    ) -> Result<Completion, BackendError> {
        let model = self.model.inner();
        let contract = model.contract();
        let plan = model.plan();
        let held = states.set().map(|set| &*set.tensors).unwrap_or_default();

        for (slot, input) in contract.inputs().iter().zip(&plan.inputs) {
            let tensor = match input.holder {
                Holder::Caller => continue,
                Holder::Model => self.weights.tensors[slot.ordinal().index()].as_deref(),
                Holder::States => held[input.state].as_ref(),
            };
            if let Some(tensor) = tensor {
                self.inputs.bind(slot, tensor)?;
            }
        }
        for (ordinal, output) in plan.outputs.iter().enumerate() {
            if output.size == 0 {
                continue;
            }
            let slot = &contract.outputs()[ordinal];
            let Some(input) = output.alias else {
                let result = &mut self.results[ordinal];
                if result.is_none() {
                    *result = Some(model.allocate(slot)?);
                }
                if let Some(result) = result {
                    self.outputs.bind(slot, result)?;
                }
                continue;
            };
            let donor = plan.inputs[input];
            if donor.holder == Holder::States {
                if let Some(state) = &held[donor.state] {
                    self.outputs.bind(slot, state)?;
                }
            } else if let Some(buffer) = &self.staging[input]
                && is_host(arguments, self.filled[input])
            {
                self.outputs.bind(slot, buffer)?;
            } else if let Some(ArgumentRef::Device(tensor)) =
                argument(arguments, self.filled[input])
            {
                self.outputs.bind(slot, &tensor.state.device)?;
            }
        }
        model.backend().execute(
            model.handle(),
            self.inputs.set.get(),
            self.outputs.set.get_mut(),
        )
    }

    /// After a completed launch: donated user inputs become their outputs, other
    /// device tensors that were given away are freed.
    pub(super) fn donate<A: Arguments<'rt, B>>(&mut self, arguments: A) {
        let model = self.model.inner();
        for (ordinal, output) in model.plan().outputs.iter().enumerate() {
            if let Some(input) = output.alias
                && model.plan().inputs[input].holder == Holder::Caller
                && is_host(&arguments, self.filled[input])
            {
                self.results[ordinal] = self.staging[input].take();
            }
        }
        let results = &mut self.results;
        arguments.into_devices(|tensor| {
            if let Some(output) = tensor.slot().alias() {
                results[output.index()] = Some(tensor.state.device);
            }
        });
    }
}

fn argument<'r, 'rt, B: Backend, A: Arguments<'rt, B>>(
    arguments: &'r A,
    filled: usize,
) -> Option<ArgumentRef<'r, 'rt, B>> {
    arguments.argument(filled.checked_sub(1)?)
}

fn is_host<'rt, B: Backend, A: Arguments<'rt, B>>(arguments: &A, filled: usize) -> bool {
    matches!(argument(arguments, filled), Some(ArgumentRef::Host { .. }))
}

fn check_argument<B: Backend>(
    slot: &Slot,
    argument: &ArgumentRef<'_, '_, B>,
    core: Core,
) -> Result<(), BindError> {
    match argument {
        ArgumentRef::Host { shape, bytes, .. } => check_size(slot, shape, bytes),
        ArgumentRef::Device(tensor) => check_bound(slot, tensor, core),
        ArgumentRef::Lent(tensor) => {
            check_bound(slot, tensor, core)?;
            match slot.alias() {
                None => Ok(()),
                Some(output) => Err(BindError::LentToOutput {
                    ordinal: slot.ordinal(),
                    name: slot.name().to_owned(),
                    output,
                }),
            }
        }
    }
}

fn check_bound<B: Backend>(
    slot: &Slot,
    tensor: &BoundTensor<'_, B>,
    core: Core,
) -> Result<(), BindError> {
    if tensor.slot().side() == Side::Output {
        return Err(BindError::Unlike {
            slot: slot.to_string(),
            tensor: tensor.slot().to_string(),
        });
    }
    check_core(slot, tensor, core)
}
