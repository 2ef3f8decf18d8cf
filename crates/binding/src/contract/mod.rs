//! Contracts: metaneffs that have been checked.
//!
//! A [`MetaNeff`] is an untrusted message. A [`Contract`] is proof: its ordinals
//! are dense, its names unique, its shapes sane, its aliases name existing
//! slots, and where it carries its graph the two agree. Everything after it
//! relies on that and checks nothing again.
//!
//! Source: the reference page, sections 1, 2, 4 and 8.

mod check;
mod finding;
mod graph;
mod join;
mod slot;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use metaneff_schema::metaneff::{MetaNeff, MetaTensor};

pub(crate) use finding::list;
pub use finding::{ContractError, Finding, KeyKind};
pub use join::{JoinError, JoinMismatch, Variable};
pub(crate) use slot::Holder;
pub use slot::{Ordinal, Role, Slot, ValidateError, VarId};

use crate::backend::Side;
use crate::failure::Rejected;
use crate::tensor::{HostTensor, Tensor, Validated};

/// Identity of a contract. Tensors of one contract fit no other, however alike
/// the two look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContractId(u64);

impl ContractId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl fmt::Display for ContractId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// How strictly a metaneff is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a finding either refuses the contract or it does not"
)]
pub enum Strictness {
    /// Refuses whatever the native runtime could misbind.
    #[default]
    Strict,
    /// Turns the findings that [`Finding::is_tolerable`] names into warnings.
    Lenient,
}

/// How to read a metaneff.
///
/// # Defaults
///
/// Strict, and compared with its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContractOptions {
    /// How strictly.
    pub strictness: Strictness,
    /// Whether the graph is decoded and compared. Decoding copies the constants
    /// of a graph that are not stored as bytes.
    pub compare_graph: bool,
}

impl Default for ContractOptions {
    fn default() -> Self {
        Self {
            strictness: Strictness::Strict,
            compare_graph: true,
        }
    }
}

impl ContractOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Turns tolerable findings into warnings.
    #[must_use]
    pub const fn lenient(mut self) -> Self {
        self.strictness = Strictness::Lenient;
        self
    }

    /// Leaves the graph undecoded; element types are then those of the metaneff.
    #[must_use]
    pub const fn without_graph(mut self) -> Self {
        self.compare_graph = false;
        self
    }
}

/// Whether tensors that are given by position may be taken at their word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the order is either confirmed or not"
)]
pub enum Order {
    /// Refuses models with two user inputs of the same shape and element type:
    /// swapped, they would give wrong numbers and no error.
    Unambiguous,
    /// The caller knows the order of the contract's user inputs.
    Confirmed,
}

/// A checked metaneff.
///
/// # Examples
///
/// ```
/// use metaneff_binding::{Contract, ContractOptions, Finding};
/// use metaneff_schema::metaneff::{MetaNeff, MetaTensor};
///
/// let tensor = |name: &'static str| MetaTensor {
///     name: name.into(),
///     shape: vec![2, 3],
///     data_type: 1,
///     ..MetaTensor::default()
/// };
/// let message = MetaNeff {
///     input_tensors: vec![tensor("input0"), tensor("input1")],
///     output_tensors: vec![tensor("output0")],
///     ..MetaNeff::default()
/// };
/// let contract = Contract::new(&message, &ContractOptions::new())?;
/// assert_eq!(contract.inputs().len(), 2);
/// assert_eq!(contract.slot("input1")?.byte_size(), 24);
///
/// let gap = MetaNeff {
///     input_tensors: vec![tensor("input0"), tensor("input2")],
///     ..message
/// };
/// let error = Contract::new(&gap, &ContractOptions::new()).unwrap_err();
/// assert!(matches!(error.findings[..], [Finding::MissingSlot { index: 1, .. }]));
/// # Ok::<(), metaneff_binding::Error>(())
/// ```
#[derive(Clone)]
pub struct Contract {
    inner: Arc<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    id: ContractId,
    strictness: Strictness,
    name: Bytes,
    inputs: Box<[Slot]>,
    outputs: Box<[Slot]>,
    user_inputs: Box<[Ordinal]>,
    return_aliases: bool,
    async_load: bool,
    lazy_load: bool,
    graph: Option<Bytes>,
    warnings: Vec<Finding>,
    joined: bool,
}

impl Contract {
    /// Checks a metaneff.
    ///
    /// # Errors
    ///
    /// All that is wrong with it, in one [`ContractError`].
    pub fn new(message: &MetaNeff, options: &ContractOptions) -> Result<Self, ContractError> {
        check::contract(message, options).map(|inner| Self {
            inner: Arc::new(inner),
        })
    }

    /// Its identity.
    #[must_use]
    pub fn id(&self) -> ContractId {
        self.inner.id
    }

    /// How strictly it was read.
    #[must_use]
    pub fn strictness(&self) -> Strictness {
        self.inner.strictness
    }

    /// The graph's name; any bytes.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.inner.name
    }

    /// The inputs, by ordinal.
    #[must_use]
    pub fn inputs(&self) -> &[Slot] {
        &self.inner.inputs
    }

    /// The outputs, by ordinal.
    #[must_use]
    pub fn outputs(&self) -> &[Slot] {
        &self.inner.outputs
    }

    /// The slots of one side, by ordinal.
    #[must_use]
    pub fn side(&self, side: Side) -> &[Slot] {
        match side {
            Side::Input => self.inputs(),
            Side::Output => self.outputs(),
        }
    }

    /// The inputs that the caller fills at every launch, by ordinal.
    #[must_use]
    pub fn user_inputs(&self) -> impl ExactSizeIterator<Item = &Slot> + '_ {
        self.inner
            .user_inputs
            .iter()
            .map(|ordinal| &self.inner.inputs[ordinal.index()])
    }

    /// Whether the caller sees the outputs that take an input's buffer.
    #[must_use]
    pub fn returns_aliases(&self) -> bool {
        self.inner.return_aliases
    }

    /// Whether the caller sees this output.
    #[must_use]
    pub fn is_visible(&self, output: &Slot) -> bool {
        self.inner.return_aliases || output.alias().is_none()
    }

    /// Whether the contract asks to be loaded in the background
    /// (`ModelConfig.async_load`).
    #[must_use]
    pub fn loads_in_background(&self) -> bool {
        self.inner.async_load
    }

    /// Whether the contract asks to be loaded at the first use
    /// (`ModelConfig.lazy_load`).
    #[must_use]
    pub fn loads_lazily(&self) -> bool {
        self.inner.lazy_load
    }

    /// This contract with the flags of an edited message. All that a
    /// [`Document`](metaneff_schema::Document) can change are flags, so what was
    /// checked holds on; the graph is not looked at.
    pub(crate) fn with_flags_of(&self, message: &MetaNeff) -> Self {
        let id = ContractId::next();
        let slots = |slots: &[Slot], tensors: &[MetaTensor]| {
            let edited = slots.iter().zip(tensors).map(|(slot, tensor)| {
                let mut data = slot.data().clone();
                let flag = tensor.allow_dynamic_batch_size;
                let scalar = data.shape.rank() == 0;
                data.contract = id;
                data.dynamic_batch = flag && !scalar;
                data.scalar_batch = flag && scalar && data.side == Side::Input;
                Slot::new(data)
            });
            edited.collect()
        };
        let config = message.model_config.unwrap_or_default();
        let mut inner = (*self.inner).clone();
        inner.id = id;
        inner.inputs = slots(&self.inner.inputs, &message.input_tensors);
        inner.outputs = slots(&self.inner.outputs, &message.output_tensors);
        inner.return_aliases = config.return_aliases;
        inner.async_load = config.async_load;
        inner.lazy_load = config.lazy_load;
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The graph that was compiled, an `HloModuleProto`, where there is one.
    #[must_use]
    pub fn graph(&self) -> Option<&Bytes> {
        self.inner.graph.as_ref()
    }

    /// What a lenient reading tolerated, and what is harmless.
    #[must_use]
    pub fn warnings(&self) -> &[Finding] {
        &self.inner.warnings
    }

    /// Whether the variable ids were read from a NEFF, or are the dense rule's.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        self.inner.joined
    }

    /// Finds an input: by ordinal (`usize` or [`Ordinal`]), or by text, which is
    /// a user input key, a device name or a checkpoint key.
    ///
    /// # Errors
    ///
    /// [`LookupError::Unknown`] if nothing is called that,
    /// [`LookupError::Ambiguous`] if two inputs are.
    pub fn slot<'k>(&self, key: impl Into<SlotKey<'k>>) -> Result<&Slot, LookupError> {
        self.find(Side::Input, key.into())
    }

    /// Finds an output: by ordinal, device name or checkpoint key.
    ///
    /// # Errors
    ///
    /// As [`slot`](Self::slot).
    pub fn output<'k>(&self, key: impl Into<SlotKey<'k>>) -> Result<&Slot, LookupError> {
        self.find(Side::Output, key.into())
    }

    /// Validates host tensors against the user inputs in the contract's order:
    /// count first, then each tensor as [`Slot::validate`] does.
    ///
    /// # Errors
    ///
    /// The first check that fails, with all tensors.
    /// [`ValidateError::AmbiguousOrder`] if `order` is not confirmed and two
    /// inputs could be swapped unnoticed.
    ///
    /// # Examples
    ///
    /// ```
    /// use metaneff_binding::testing::add_model;
    /// use metaneff_binding::{HostTensor, Order, ValidateError};
    ///
    /// let artifact = add_model();
    /// let pair = vec![
    ///     HostTensor::from_slice([2], &[1.0_f32, 2.0])?,
    ///     HostTensor::from_slice([2], &[3.0_f32, 4.0])?,
    /// ];
    /// // Swapped, the two would fit as well.
    /// let rejected = artifact.contract().validate_in_order(pair, Order::Unambiguous).unwrap_err();
    /// assert!(matches!(rejected.reason(), ValidateError::AmbiguousOrder { .. }));
    /// let pair = rejected.into_input();
    /// assert!(artifact.contract().validate_in_order(pair, Order::Confirmed).is_ok());
    /// # Ok::<(), metaneff_binding::Error>(())
    /// ```
    pub fn validate_in_order<'a>(
        &self,
        tensors: Vec<HostTensor<'a>>,
        order: Order,
    ) -> Result<Vec<Tensor<Validated<'a>>>, Rejected<Vec<HostTensor<'a>>>> {
        match self.check_in_order(&tensors, order) {
            Ok(()) => Ok(self
                .user_inputs()
                .zip(tensors)
                .map(|(slot, tensor)| slot.admit(tensor))
                .collect()),
            Err(reason) => Err(Rejected::new(tensors, reason)),
        }
    }

    fn check_in_order(
        &self,
        tensors: &[HostTensor<'_>],
        order: Order,
    ) -> Result<(), ValidateError> {
        let expected = self.inner.user_inputs.len();
        if tensors.len() != expected {
            return Err(ValidateError::Count {
                expected,
                found: tensors.len(),
            });
        }
        for (slot, tensor) in self.user_inputs().zip(tensors) {
            slot.check(tensor)?;
        }
        match order {
            Order::Confirmed => Ok(()),
            Order::Unambiguous => self.check_order(),
        }
    }

    fn check_order(&self) -> Result<(), ValidateError> {
        for (position, first) in self.user_inputs().enumerate() {
            for second in self.user_inputs().skip(position + 1) {
                let (Some(dtype), Some(other)) = (first.dtype(), second.dtype()) else {
                    continue;
                };
                if dtype == other && first.shape() == second.shape() {
                    return Err(ValidateError::AmbiguousOrder {
                        first: first.ordinal(),
                        first_name: first.name().to_owned(),
                        second: second.ordinal(),
                        second_name: second.name().to_owned(),
                        dtype,
                        shape: first.shape().clone(),
                    });
                }
            }
        }
        Ok(())
    }

    fn find(&self, side: Side, key: SlotKey<'_>) -> Result<&Slot, LookupError> {
        let slots = self.side(side);
        match key {
            SlotKey::Ordinal(ordinal) => {
                slots
                    .get(ordinal.index())
                    .ok_or_else(|| LookupError::OutOfRange {
                        side,
                        ordinal: ordinal.index(),
                        count: slots.len(),
                    })
            }
            SlotKey::Text(text) => {
                let called = |slot: &&Slot| {
                    slot.name() == text
                        || slot.user_input_key() == Some(text.as_bytes())
                        || slot.checkpoint_key() == Some(text.as_bytes())
                };
                let mut found = slots.iter().filter(called);
                match (found.next(), found.next()) {
                    (Some(slot), None) => Ok(slot),
                    (None, _) => Err(LookupError::Unknown {
                        side,
                        key: text.to_owned(),
                    }),
                    (Some(first), Some(second)) => Err(LookupError::Ambiguous {
                        side,
                        key: text.to_owned(),
                        first: first.ordinal(),
                        second: second.ordinal(),
                    }),
                }
            }
        }
    }
}

impl fmt::Debug for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contract")
            .field("id", &self.inner.id)
            .field("inputs", &self.inner.inputs)
            .field("outputs", &self.inner.outputs)
            .finish_non_exhaustive()
    }
}

/// How to name a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotKey<'k> {
    /// By its position.
    Ordinal(Ordinal),
    /// By its device name, its user input key or its checkpoint key.
    Text(&'k str),
}

impl From<usize> for SlotKey<'_> {
    fn from(index: usize) -> Self {
        Self::Ordinal(Ordinal::new(index))
    }
}

impl From<Ordinal> for SlotKey<'_> {
    fn from(ordinal: Ordinal) -> Self {
        Self::Ordinal(ordinal)
    }
}

impl<'k> From<&'k str> for SlotKey<'k> {
    fn from(text: &'k str) -> Self {
        Self::Text(text)
    }
}

impl<'k> From<&'k String> for SlotKey<'k> {
    fn from(text: &'k String) -> Self {
        Self::Text(text)
    }
}

/// A slot that is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// The ordinal is too large.
    #[error("there is no {side} {ordinal}, the model has {count}")]
    OutOfRange {
        /// Which side.
        side: Side,
        /// The ordinal asked for.
        ordinal: usize,
        /// Slots on that side.
        count: usize,
    },
    /// Nothing is called that.
    #[error("no {side} is called `{key}`")]
    Unknown {
        /// Which side.
        side: Side,
        /// The text asked for.
        key: String,
    },
    /// Two slots are called that.
    #[error("{side}s {first} and {second} are both called `{key}`")]
    Ambiguous {
        /// Which side.
        side: Side,
        /// The text asked for.
        key: String,
        /// The first of the two.
        first: Ordinal,
        /// The second of the two.
        second: Ordinal,
    },
}
