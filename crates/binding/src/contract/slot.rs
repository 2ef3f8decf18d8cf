//! One tensor of a contract, and the checks that a host tensor has to pass.

use std::ffi::{CStr, CString};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::ContractId;
use crate::backend::Side;
use crate::dtype::DType;
use crate::failure::Rejected;
use crate::shape::Shape;
use crate::tensor::{HostTensor, Tensor, Validated};

/// Position of a tensor within its side of a contract, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ordinal(usize);

impl Ordinal {
    /// The tensor at this position.
    #[must_use]
    pub const fn new(index: usize) -> Self {
        Self(index)
    }

    /// The position.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0
    }
}

impl fmt::Display for Ordinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Who fills a tensor of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// The caller, at every launch. Also an input whose contract says nothing,
    /// as producers before `torch_neuronx` 2 wrote them.
    UserInput,
    /// The launch before, through a donated buffer.
    State,
    /// A checkpoint, once.
    Weight,
    /// The model.
    Output,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::UserInput => "user input",
            Self::State => "state",
            Self::Weight => "weight",
            Self::Output => "output",
        })
    }
}

/// Number of a tensor in the NEFF's variable table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VarId {
    /// Read from the NEFF, by name.
    Joined(u32),
    /// Assumed, for want of a NEFF: inputs first, then outputs.
    Assumed(u32),
}

impl VarId {
    /// The number, however it was found.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Joined(number) | Self::Assumed(number) => number,
        }
    }
}

impl fmt::Display for VarId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Joined(number) => write!(f, "{number}"),
            Self::Assumed(number) => write!(f, "{number} (assumed)"),
        }
    }
}

/// Who holds a slot's buffer between launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// The caller gives it, or a staging buffer of the session.
    Caller,
    /// [`States`](crate::States): states, and weights that an output overwrites.
    States,
    /// The model, for all its sessions.
    Model,
}

/// One tensor at the boundary of a model: a place that a host tensor can take.
///
/// A slot is cheap to clone, so it may be looked up once and kept.
#[derive(Clone)]
pub struct Slot {
    data: Arc<SlotData>,
}

#[derive(Clone, Debug)]
pub(crate) struct SlotData {
    pub(crate) contract: ContractId,
    pub(crate) side: Side,
    pub(crate) ordinal: Ordinal,
    pub(crate) name: String,
    pub(crate) key: CString,
    pub(crate) role: Role,
    pub(crate) data_type: i32,
    pub(crate) stored: Option<DType>,
    pub(crate) graph: Option<DType>,
    pub(crate) shape: Shape,
    pub(crate) size: usize,
    pub(crate) dynamic_batch: bool,
    pub(crate) scalar_batch: bool,
    pub(crate) checkpoint_key: Option<Bytes>,
    pub(crate) user_input_key: Option<Bytes>,
    pub(crate) content: Bytes,
    pub(crate) alias: Option<Ordinal>,
    pub(crate) var_id: VarId,
}

impl Slot {
    pub(crate) fn new(data: SlotData) -> Self {
        Self {
            data: Arc::new(data),
        }
    }

    pub(crate) fn data(&self) -> &SlotData {
        &self.data
    }

    /// The contract that the slot belongs to.
    #[must_use]
    pub fn contract(&self) -> ContractId {
        self.data.contract
    }

    /// Which side it stands on.
    #[must_use]
    pub fn side(&self) -> Side {
        self.data.side
    }

    /// Its position on that side.
    #[must_use]
    pub fn ordinal(&self) -> Ordinal {
        self.data.ordinal
    }

    /// Its name on the device, mostly `input{i}` or `output{i}`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.data.name
    }

    pub(crate) fn device_key(&self) -> &CStr {
        &self.data.key
    }

    /// Who fills it.
    #[must_use]
    pub fn role(&self) -> Role {
        self.data.role
    }

    pub(crate) fn holder(&self) -> Holder {
        match self.data.role {
            Role::State => Holder::States,
            Role::Weight if self.data.alias.is_some() => Holder::States,
            Role::Weight => Holder::Model,
            Role::UserInput | Role::Output => Holder::Caller,
        }
    }

    /// What the elements mean: the graph's type where there is a graph, or else
    /// the contract's. `None` for a number that this crate does not know.
    #[must_use]
    pub fn dtype(&self) -> Option<DType> {
        self.data.stored.and(self.data.graph).or(self.data.stored)
    }

    /// What the elements are stored as: the contract's type after the producer's
    /// collapse.
    #[must_use]
    pub fn stored_dtype(&self) -> Option<DType> {
        self.data.stored
    }

    /// The contract's type number as the file has it.
    #[must_use]
    pub fn data_type(&self) -> i32 {
        self.data.data_type
    }

    /// The compiled dimensions, outermost first.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.data.shape
    }

    /// Bytes of the compiled shape; 0 for an unknown element type.
    #[must_use]
    pub fn byte_size(&self) -> usize {
        self.data.size
    }

    /// Whether the leading dimension may differ from the compiled one.
    #[must_use]
    pub fn has_dynamic_batch(&self) -> bool {
        self.data.dynamic_batch
    }

    /// The parameter or buffer name in a checkpoint.
    #[must_use]
    pub fn checkpoint_key(&self) -> Option<&[u8]> {
        self.data.checkpoint_key.as_deref()
    }

    /// The argument name at the framework's level.
    #[must_use]
    pub fn user_input_key(&self) -> Option<&[u8]> {
        self.data.user_input_key.as_deref()
    }

    /// An inline constant of the contract; empty in practice.
    #[must_use]
    pub fn content(&self) -> &Bytes {
        &self.data.content
    }

    /// For an output, the input whose buffer it takes; for an input, the output
    /// that takes its buffer.
    #[must_use]
    pub fn alias(&self) -> Option<Ordinal> {
        self.data.alias
    }

    /// Its number in the NEFF's variable table.
    #[must_use]
    pub fn var_id(&self) -> VarId {
        self.data.var_id
    }

    /// Whether elements of type `dtype` are this slot's elements: the type that
    /// they mean, or the type that they are stored as. An 8-bit float that is
    /// stored as an integer is no integer; it has to be asked for by
    /// [`HostTensor::reinterpret`].
    #[must_use]
    pub fn accepts(&self, dtype: DType) -> bool {
        match (self.dtype(), self.data.stored) {
            (Some(meant), _) if meant == dtype => true,
            (Some(meant), Some(stored)) => stored == dtype && meant.is_float() == stored.is_float(),
            _ => false,
        }
    }

    /// Checks a host tensor against this slot, in the order of the native
    /// runtime: element type, shape, dynamic batch.
    ///
    /// # Errors
    ///
    /// The first check that fails, with the tensor.
    pub fn validate<'a>(
        &self,
        tensor: HostTensor<'a>,
    ) -> Result<Tensor<Validated<'a>>, Rejected<HostTensor<'a>>> {
        match self.check(&tensor) {
            Ok(()) => Ok(self.admit(tensor)),
            Err(reason) => Err(Rejected::new(tensor, reason)),
        }
    }

    /// The checks of [`validate`](Self::validate).
    pub(crate) fn check(&self, tensor: &HostTensor<'_>) -> Result<(), ValidateError> {
        self.check_type(tensor.dtype(), tensor.shape())
    }

    /// The checks of [`validate`](Self::validate), for a tensor that is not read
    /// yet.
    pub(crate) fn check_type(&self, found: DType, shape: &Shape) -> Result<(), ValidateError> {
        let data = self.data();
        if data.side == Side::Output {
            return Err(ValidateError::Output {
                ordinal: data.ordinal,
                name: data.name.clone(),
            });
        }
        if !self.accepts(found) {
            return Err(self.refuse_dtype(found));
        }
        let fits =
            *shape == data.shape || data.dynamic_batch && shape.equals_but_for_batch(&data.shape);
        if !fits {
            return Err(ValidateError::Shape {
                ordinal: data.ordinal,
                name: data.name.clone(),
                expected: data.shape.clone(),
                dynamic_batch: data.dynamic_batch,
                found: shape.clone(),
            });
        }
        if data.scalar_batch {
            return Err(ValidateError::DynamicScalar {
                ordinal: data.ordinal,
                name: data.name.clone(),
            });
        }
        Ok(())
    }

    /// The transition itself; the checks have passed.
    pub(crate) fn admit<'a>(&self, tensor: HostTensor<'a>) -> Tensor<Validated<'a>> {
        Tensor {
            state: Validated {
                host: tensor.state.host,
                ordinal: self.data.ordinal,
                contract: self.data.contract,
            },
        }
    }

    #[cold]
    fn refuse_dtype(&self, found: DType) -> ValidateError {
        let data = self.data();
        match (self.dtype(), data.stored) {
            (Some(expected), Some(stored)) => ValidateError::DType {
                ordinal: data.ordinal,
                name: data.name.clone(),
                expected,
                stored,
                found,
            },
            _ => ValidateError::UnknownDataType {
                ordinal: data.ordinal,
                name: data.name.clone(),
                number: data.data_type,
            },
        }
    }
}

impl PartialEq for Slot {
    /// Slots are equal that are the same place of the same contract.
    fn eq(&self, other: &Self) -> bool {
        self.data.contract == other.data.contract
            && self.data.side == other.data.side
            && self.data.ordinal == other.data.ordinal
    }
}

impl Eq for Slot {}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.data.fmt(f)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = self.data();
        write!(f, "{} {} `{}` ", data.side, data.ordinal, data.name)?;
        match self.dtype() {
            Some(dtype) => write!(f, "{dtype} {}", data.shape),
            None => write!(f, "data type {} {}", data.data_type, data.shape),
        }
    }
}

/// Why a host tensor does not fit a slot: the native runtime's checks.
///
/// Source: the reference page, section 5.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValidateError {
    /// Another number of tensors was given than there are user inputs.
    #[error("the model takes {expected} user inputs, found {found}")]
    Count {
        /// User inputs of the contract.
        expected: usize,
        /// Tensors given.
        found: usize,
    },
    /// The slot's element type is not known, so nothing can be bound to it.
    #[error("input {ordinal} `{name}` has data type {number}, which is not known")]
    UnknownDataType {
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// The contract's number.
        number: i32,
    },
    /// The element type differs.
    #[error("input {ordinal} `{name}` takes {expected} (stored as {stored}), found {found}")]
    DType {
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// What the elements mean.
        expected: DType,
        /// What they are stored as.
        stored: DType,
        /// The tensor's type.
        found: DType,
    },
    /// The shape differs.
    #[error(
        "input {ordinal} `{name}` takes shape {expected}{}, found {found}",
        if *dynamic_batch { " with any leading dimension" } else { "" }
    )]
    Shape {
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// The compiled shape.
        expected: Shape,
        /// Whether the leading dimension is free.
        dynamic_batch: bool,
        /// The tensor's shape.
        found: Shape,
    },
    /// The contract marks a scalar as batched, which has no batch dimension.
    #[error("input {ordinal} `{name}` is a scalar and cannot have a dynamic batch")]
    DynamicScalar {
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
    },
    /// The slot is written by the model.
    #[error("output {ordinal} `{name}` is filled by the model")]
    Output {
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
    },
    /// Two inputs could be swapped unnoticed, and the tensors were given by
    /// position alone.
    #[error(
        "inputs {first} `{first_name}` and {second} `{second_name}` are both {dtype} {shape}; \
         bind them by name, or confirm the order"
    )]
    AmbiguousOrder {
        /// The first of the two slots.
        first: Ordinal,
        /// Its name.
        first_name: String,
        /// The second of the two slots.
        second: Ordinal,
        /// Its name.
        second_name: String,
        /// The element type of both.
        dtype: DType,
        /// The shape of both.
        shape: Shape,
    },
}
