//! Running a model on libtorch's tensors.

use std::borrow::Borrow;
use std::fmt;

use metaneff_binding::{
    Backend, Completion, Error, HostTensor, Model, Order, Session, SlotKey, States, Validated,
};
use tch::Tensor;

use crate::error::{ForwardError, TorchError};
use crate::host::{ToTorch as _, with_views};

/// A session whose inputs and outputs are tensors of libtorch.
///
/// [`forward`](Self::forward) is torch-neuronx's `forward_v2`: tensors fill the
/// contract's user inputs by position, weights and states stay where they are,
/// and what comes back are the outputs that the contract returns, in its order,
/// those that take an input's buffer only if it returns its aliases (reference
/// page, sections 4.5 to 7).
///
/// Unlike `forward_v2`, it refuses inputs that could be swapped without an error
/// unless their order is [confirmed](Self::with_order);
/// [`forward_named`](Self::forward_named) needs no order.
pub struct TorchSession<'rt, B: Backend> {
    session: Session<'rt, B>,
    order: Order,
}

/// What a launch gave.
#[derive(Debug)]
#[non_exhaustive]
pub struct Forward<'rt, B: Backend> {
    /// The outputs that the contract returns, in its order, in memory of their own.
    pub outputs: Vec<Tensor>,
    /// The states' successors.
    pub states: States<'rt, B>,
    /// Whether an output holds a NaN. Like the native runtime, which takes
    /// status 1003 for success, a session returns the outputs in both cases.
    pub completion: Completion,
}

impl<'rt, B: Backend> TorchSession<'rt, B> {
    /// A session of `model`.
    ///
    /// # Errors
    ///
    /// As [`Model::session`].
    pub fn new(model: &Model<'rt, B>) -> Result<Self, TorchError> {
        Ok(Self::from(model.session().map_err(Error::from)?))
    }

    /// Says whether the order of positional inputs is confirmed;
    /// [`Order::Unambiguous`] by default.
    #[must_use]
    pub fn with_order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// The session below.
    #[must_use]
    pub fn session(&self) -> &Session<'rt, B> {
        &self.session
    }

    /// Gives the session below back.
    #[must_use]
    pub fn into_session(self) -> Session<'rt, B> {
        self.session
    }

    /// Runs the model once on inputs by position.
    ///
    /// Contiguous tensors are written to the device from their own memory.
    /// `()` stands for no states.
    ///
    /// # Errors
    ///
    /// [`ForwardError`], with the states: a tensor that cannot cross, inputs that
    /// the contract refuses, or a failed execution.
    pub fn forward<T: Borrow<Tensor>>(
        &mut self,
        inputs: &[T],
        states: impl Into<States<'rt, B>>,
    ) -> Result<Forward<'rt, B>, ForwardError<'rt, B>> {
        let order = self.order;
        let inputs: Vec<&Tensor> = inputs.iter().map(Borrow::borrow).collect();
        self.run(&inputs, states.into(), |session, hosts| {
            Ok(session.contract().validate_in_order(hosts, order)?)
        })
    }

    /// Runs the model once on inputs by device name or user input key.
    ///
    /// # Errors
    ///
    /// As [`forward`](Self::forward).
    pub fn forward_named<'k, K: Into<SlotKey<'k>> + Copy, T: Borrow<Tensor>>(
        &mut self,
        inputs: &[(K, T)],
        states: impl Into<States<'rt, B>>,
    ) -> Result<Forward<'rt, B>, ForwardError<'rt, B>> {
        let tensors: Vec<&Tensor> = inputs.iter().map(|(_, tensor)| tensor.borrow()).collect();
        self.run(&tensors, states.into(), |session, hosts| {
            let keys = inputs.iter().map(|&(key, _)| key.into());
            keys.zip(hosts)
                .map(|(key, host)| {
                    let slot = session.slot(key).map_err(Error::from)?;
                    Ok(slot.validate(host)?)
                })
                .collect()
        })
    }

    /// Runs a model without states that returns exactly `N` outputs:
    /// `forward_v2_tuple<N>`.
    ///
    /// # Errors
    ///
    /// [`TorchError::Arity`] before anything runs, and as
    /// [`forward`](Self::forward).
    pub fn forward_tuple<const N: usize>(
        &mut self,
        inputs: &[Tensor],
    ) -> Result<[Tensor; N], TorchError> {
        let contract = self.session.contract();
        let returned = contract.outputs().iter();
        let found = returned.filter(|slot| contract.is_visible(slot)).count();
        let arity = |found| TorchError::Arity { expected: N, found };
        if found != N {
            return Err(arity(found));
        }
        let forward = self.forward(inputs, ())?;
        <[Tensor; N]>::try_from(forward.outputs).map_err(|outputs| arity(outputs.len()))
    }

    /// States that start as `tensors`, by checkpoint key or device name; the
    /// others are zero.
    ///
    /// # Errors
    ///
    /// A tensor that cannot cross or does not fit its state, and what the backend
    /// answers.
    pub fn states<'k, K: Into<SlotKey<'k>> + Copy, T: Borrow<Tensor>>(
        &self,
        tensors: &[(K, T)],
    ) -> Result<States<'rt, B>, TorchError> {
        let tensors_only: Vec<&Tensor> =
            tensors.iter().map(|(_, tensor)| tensor.borrow()).collect();
        with_views(&tensors_only, |hosts| {
            let keys = tensors.iter().map(|&(key, _)| key.into());
            let validated = keys
                .zip(hosts)
                .map(|(key, host)| {
                    let slot = self.session.slot(key).map_err(Error::from)?;
                    Ok(slot.validate(host)?)
                })
                .collect::<Result<Vec<_>, TorchError>>()?;
            Ok(self.session.states(validated)?)
        })
    }

    fn run(
        &mut self,
        inputs: &[&Tensor],
        states: States<'rt, B>,
        validate: impl for<'a> FnOnce(
            &Session<'rt, B>,
            Vec<HostTensor<'a>>,
        ) -> Result<
            Vec<metaneff_binding::Tensor<Validated<'a>>>,
            TorchError,
        >,
    ) -> Result<Forward<'rt, B>, ForwardError<'rt, B>> {
        let session = &mut self.session;
        // Taken when the launch starts; what is left after a failure goes back.
        let mut states = Some(states);
        let forward = with_views(inputs, |hosts| {
            let arguments = validate(session, hosts)?;
            let ready = session.bind(arguments)?;
            let given = states.take().unwrap_or_else(|| States::from(()));
            let executed = ready.execute(given).map_err(|failed| {
                let (reason, given) = split(failed);
                states = Some(given);
                TorchError::Model(reason)
            })?;
            let completion = executed.completion();
            let (outputs, successors) = executed.tolerate_nan().into_parts();
            let read = outputs.iter().map(|view| view.to_torch()).collect();
            drop(outputs);
            match read {
                Ok(outputs) => Ok(Forward {
                    outputs,
                    states: successors,
                    completion,
                }),
                Err(error) => {
                    states = Some(successors);
                    Err(error)
                }
            }
        });
        forward.map_err(|reason| {
            let states = states.take().unwrap_or_else(|| States::from(()));
            ForwardError::new(reason, states)
        })
    }
}

/// A failed launch's reason and states.
fn split<'rt, B: Backend, A>(
    failed: metaneff_binding::Failed<'_, 'rt, B, A>,
) -> (Error, States<'rt, B>) {
    let reason = failed.reason().clone().into();
    (reason, failed.into_inputs().1)
}

impl<'rt, B: Backend> From<Session<'rt, B>> for TorchSession<'rt, B> {
    fn from(session: Session<'rt, B>) -> Self {
        Self {
            session,
            order: Order::Unambiguous,
        }
    }
}

impl<B: Backend> fmt::Debug for TorchSession<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TorchSession")
            .field("session", &self.session)
            .field("order", &self.order)
            .finish()
    }
}
