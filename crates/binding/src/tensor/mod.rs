//! Tensors whose type says how far they have come.
//!
//! | type | what it holds | how to get it |
//! |---|---|---|
//! | [`HostTensor`], `Tensor<Unbound>` | host bytes with element type and shape | constructors of [`HostTensor`] |
//! | `Tensor<Validated>` | the same, checked against one slot | [`Slot::validate`](crate::Slot::validate) |
//! | `Tensor<Bound>` | a device buffer that stands in one slot | [`Session::upload`](crate::Session::upload), [`Outputs::take`](crate::Outputs::take) |
//!
//! A transition consumes the tensor. One that is refused hands it back in
//! [`Rejected`](crate::Rejected).

mod host;
#[cfg(feature = "ndarray")]
mod ndarray;

use std::fmt;

pub use host::{HostTensor, TensorError};

use crate::backend::Backend;
use crate::contract::{ContractId, Ordinal, Slot};
use crate::device::{DeviceTensor, ReadError, TensorView};
use crate::dtype::DType;
use crate::element::Element;
use crate::shape::Shape;
use host::{HostBuffer, check_element};

mod sealed {
    #[expect(unnameable_types, reason = "seals the traits of this module")]
    pub trait Sealed {}
}

/// How far a tensor has come: [`Unbound`], [`Validated`] or [`Bound`].
pub trait State: sealed::Sealed {}

/// A state whose tensor lies on the host: [`Unbound`] or [`Validated`].
pub trait HostState: State {
    /// The element type.
    fn dtype(&self) -> DType;

    /// The dimensions, outermost first.
    fn shape(&self) -> &Shape;

    /// The bytes, row-major and little-endian.
    fn bytes(&self) -> &[u8];
}

/// A tensor in state `S`.
///
/// # Examples
///
/// ```
/// use metaneff_binding::{DType, HostTensor};
///
/// let ids = [7_i32, 8, 9, 10];
/// let tensor = HostTensor::from_slice([2, 2], &ids)?;
/// assert_eq!(tensor.dtype(), DType::I32);
/// assert_eq!(*tensor.shape(), [2, 2]);
/// assert_eq!(tensor.to_vec::<i32>()?, ids);
///
/// // Element types never change by themselves.
/// assert!(tensor.to_vec::<u32>().is_err());
/// let tensor = tensor.reinterpret(DType::U32)?;
/// assert_eq!(tensor.to_vec::<u32>()?, [7, 8, 9, 10]);
/// # Ok::<(), metaneff_binding::Error>(())
/// ```
#[must_use]
#[derive(Clone)]
pub struct Tensor<S: State> {
    pub(crate) state: S,
}

/// Host data that no slot has seen.
#[derive(Clone)]
pub struct Unbound<'a> {
    pub(crate) host: HostBuffer<'a>,
}

/// Host data that fits one slot of one contract.
#[derive(Clone)]
pub struct Validated<'a> {
    pub(crate) host: HostBuffer<'a>,
    pub(crate) ordinal: Ordinal,
    pub(crate) contract: ContractId,
}

/// A device tensor in a slot: the buffer is owned, and freed with this value.
pub type BoundTensor<'rt, B> = Tensor<Bound<'rt, B>>;

/// A device buffer in a slot of one contract.
pub struct Bound<'rt, B: Backend> {
    pub(crate) device: DeviceTensor<'rt, B>,
    pub(crate) slot: Slot,
}

impl sealed::Sealed for Unbound<'_> {}
impl sealed::Sealed for Validated<'_> {}
impl<B: Backend> sealed::Sealed for Bound<'_, B> {}
impl State for Unbound<'_> {}
impl State for Validated<'_> {}
impl<B: Backend> State for Bound<'_, B> {}

impl HostState for Unbound<'_> {
    fn dtype(&self) -> DType {
        self.host.dtype
    }

    fn shape(&self) -> &Shape {
        &self.host.shape
    }

    fn bytes(&self) -> &[u8] {
        self.host.data.as_slice()
    }
}

impl HostState for Validated<'_> {
    fn dtype(&self) -> DType {
        self.host.dtype
    }

    fn shape(&self) -> &Shape {
        &self.host.shape
    }

    fn bytes(&self) -> &[u8] {
        self.host.data.as_slice()
    }
}

impl<S: HostState> Tensor<S> {
    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.state.dtype()
    }

    /// The dimensions, outermost first.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        self.state.shape()
    }

    /// The bytes, row-major and little-endian.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.state.bytes()
    }

    /// Copies the elements out.
    ///
    /// # Errors
    ///
    /// [`TensorError::ElementType`] if `T` is not the tensor's element type.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, TensorError> {
        check_element::<T>(self.dtype())?;
        Ok(T::collect(self.bytes()))
    }

    /// The elements in place.
    ///
    /// # Errors
    ///
    /// [`TensorError::ElementType`] if `T` is not the tensor's element type,
    /// [`TensorError::NotInPlace`] if the bytes are not aligned for `T`.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], TensorError> {
        check_element::<T>(self.dtype())?;
        T::view(self.bytes()).ok_or(TensorError::NotInPlace { dtype: T::DTYPE })
    }

    /// The bytes as signed integers, whatever the element type: the view that
    /// runtimes give of 8-bit floats.
    #[must_use]
    pub fn as_raw_i8(&self) -> &[i8] {
        bytemuck::cast_slice(self.bytes())
    }
}

impl<'a> Tensor<Validated<'a>> {
    /// The input ordinal of the slot that it was validated for.
    #[must_use]
    pub fn ordinal(&self) -> Ordinal {
        self.state.ordinal
    }

    /// The contract that the slot belongs to.
    #[must_use]
    pub fn contract(&self) -> ContractId {
        self.state.contract
    }

    /// Forgets the slot.
    pub fn into_unbound(self) -> HostTensor<'a> {
        Tensor {
            state: Unbound {
                host: self.state.host,
            },
        }
    }
}

impl<'rt, B: Backend> Tensor<Bound<'rt, B>> {
    /// The slot that the buffer stands in.
    #[must_use]
    pub fn slot(&self) -> &Slot {
        &self.state.slot
    }

    /// A view to read from.
    #[must_use]
    pub fn view(&self) -> TensorView<'_, 'rt, B> {
        TensorView::new(&self.state.slot, &self.state.device)
    }

    /// Reads the elements to the host.
    ///
    /// # Errors
    ///
    /// As [`TensorView::to_vec`].
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, ReadError> {
        self.view().to_vec()
    }

    /// The buffer itself, without its slot.
    #[must_use]
    pub fn into_device(self) -> DeviceTensor<'rt, B> {
        self.state.device
    }
}

impl fmt::Debug for Tensor<Unbound<'_>> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor<Unbound>({} {})", self.dtype(), self.shape())
    }
}

impl fmt::Debug for Tensor<Validated<'_>> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Tensor<Validated>({} {} for input {})",
            self.dtype(),
            self.shape(),
            self.state.ordinal
        )
    }
}

impl<B: Backend> fmt::Debug for Tensor<Bound<'_, B>> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor<Bound>({})", self.state.slot)
    }
}

impl fmt::Debug for Unbound<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unbound")
    }
}

impl fmt::Debug for Validated<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Validated({})", self.ordinal)
    }
}

impl<B: Backend> fmt::Debug for Bound<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bound({})", self.slot)
    }
}
