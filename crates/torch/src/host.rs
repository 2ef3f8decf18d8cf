//! Host tensors out of libtorch tensors, and back.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use metaneff_binding::{Backend, DType, HostState, HostTensor, ReadError, Shape, TensorView};
use tch::{Device, Tensor};

use crate::error::TorchError;
use crate::kind::dtype_of;
use crate::raw;

/// Whether a tensor that is not contiguous may be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a copy is either allowed or forbidden"
)]
pub enum Copying {
    /// Copies where there is no other way.
    Allowed,
    /// Answers [`TorchError::NotContiguous`] instead.
    Forbidden,
}

/// A tensor of libtorch as a host tensor.
pub trait ToHost {
    /// Copies the elements, row-major, whatever the strides.
    ///
    /// # Errors
    ///
    /// [`TorchError`] for a tensor that is undefined, not on the CPU, of a kind
    /// that no slot has, or without dense memory.
    ///
    /// # Examples
    ///
    /// ```
    /// use metaneff_torch::{ToHost as _, TorchError};
    /// use tch::Tensor;
    ///
    /// let transposed = Tensor::from_slice(&[1_i32, 2, 3, 4]).reshape([2, 2]).tr();
    /// let host = transposed.to_host()?;
    /// assert_eq!(*host.shape(), [2, 2]);
    /// assert_eq!(host.to_vec::<i32>()?, [1, 3, 2, 4]);
    /// # Ok::<(), TorchError>(())
    /// ```
    fn to_host(&self) -> Result<HostTensor<'static>, TorchError>;

    /// Sees the elements in place, without a copy. A tensor that is not
    /// contiguous is copied, if `copying` allows it.
    ///
    /// # Errors
    ///
    /// As [`to_host`](Self::to_host), and [`TorchError::NotContiguous`].
    ///
    /// # Safety
    ///
    /// While the host tensor lives, nobody writes to the tensor's memory or gives
    /// the tensor other memory. The borrow keeps the tensor itself alive and
    /// unchanged; what it cannot see are aliases of the memory, which
    /// `shallow_clone` and every view of a tensor make.
    ///
    /// # Examples
    ///
    /// ```
    /// use metaneff_torch::{Copying, ToHost as _, TorchError};
    /// use tch::Tensor;
    ///
    /// let tensor = Tensor::from_slice(&[1.0_f32, 2.0]);
    /// // SAFETY: the tensor has no alias.
    /// let view = unsafe { tensor.host_view(Copying::Forbidden) }?;
    /// assert_eq!(view.bytes().as_ptr().cast(), tensor.data_ptr().cast_const());
    /// # Ok::<(), TorchError>(())
    /// ```
    #[expect(
        unsafe_code,
        reason = "aliases of the memory are the caller's to rule out"
    )]
    unsafe fn host_view(&self, copying: Copying) -> Result<HostTensor<'_>, TorchError>;
}

impl ToHost for Tensor {
    fn to_host(&self) -> Result<HostTensor<'static>, TorchError> {
        let facts = Facts::of(self)?;
        let tensor = self.f_resolve_neg()?;
        let mut bytes = vec![0; facts.size];
        raw::copy_to(&tensor, &mut bytes, facts.dtype.size())?;
        Ok(HostTensor::from_bytes(facts.dtype, facts.shape, bytes)?)
    }

    #[expect(
        unsafe_code,
        reason = "aliases of the memory are the caller's to rule out"
    )]
    unsafe fn host_view(&self, copying: Copying) -> Result<HostTensor<'_>, TorchError> {
        let facts = Facts::of(self)?;
        if !facts.in_place {
            return match copying {
                Copying::Allowed => self.to_host(),
                Copying::Forbidden => Err(TorchError::NotContiguous {
                    shape: self.size(),
                    strides: self.stride(),
                }),
            };
        }
        // SAFETY: `facts` says that the tensor is on the CPU, contiguous and of
        // this size; the caller rules out writes.
        let bytes = unsafe { raw::bytes(self, facts.size) }?;
        Ok(HostTensor::from_byte_slice(
            facts.dtype,
            facts.shape,
            bytes,
        )?)
    }
}

/// Shows the elements of `tensors` to `look`, in place where they are contiguous.
///
/// Only `look` runs meanwhile on this thread. A write from another one, through
/// an alias of the memory, races with every other read of the tensor by libtorch
/// as well: that no thread does so is what `tch` asks of all its callers.
pub(crate) fn with_views<T>(
    tensors: &[&Tensor],
    look: impl FnOnce(Vec<HostTensor<'_>>) -> Result<T, TorchError>,
) -> Result<T, TorchError> {
    let copies = tensors
        .iter()
        .map(|tensor| {
            let in_place = Facts::of(tensor)?.in_place;
            Ok((!in_place)
                .then(|| tensor.f_resolve_neg()?.f_contiguous())
                .transpose()?)
        })
        .collect::<Result<Vec<_>, TorchError>>()?;
    let views = tensors
        .iter()
        .zip(&copies)
        .map(|(tensor, copy)| {
            let tensor = copy.as_ref().unwrap_or(tensor);
            #[expect(unsafe_code, reason = "the view does not leave this call")]
            // SAFETY: `look` cannot keep the view, and writes to an alias neither
            // happen on this thread, where only `look` of this crate runs, nor on
            // another one, by the contract of `tch` that the function names.
            unsafe {
                tensor.host_view(Copying::Forbidden)
            }
        })
        .collect::<Result<Vec<_>, _>>()?;
    look(views)
}

/// What has been checked of a tensor.
struct Facts {
    dtype: DType,
    shape: Shape,
    /// Bytes of all elements.
    size: usize,
    /// Whether its memory holds the elements row-major, as they are.
    in_place: bool,
}

impl Facts {
    fn of(tensor: &Tensor) -> Result<Self, TorchError> {
        let dtype = dtype_of(tensor)?;
        on_cpu(tensor.device())?;
        for (is, what) in [
            (tensor.is_sparse(), "it is sparse"),
            (tensor.is_mkldnn(), "it is in oneDNN's layout"),
        ] {
            if is {
                return Err(TorchError::NotDense {
                    reason: what.to_owned(),
                });
            }
        }
        let sizes = tensor.size();
        let dims = sizes
            .iter()
            .enumerate()
            .map(|(dimension, &size)| {
                usize::try_from(size).map_err(|_| TorchError::Dimension {
                    dimension,
                    shape: format!("{sizes:?}"),
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let shape = Shape::from(dims);
        let size = shape
            .byte_size(dtype)
            .map_err(metaneff_binding::TensorError::from)?;
        Ok(Self {
            dtype,
            shape,
            size,
            in_place: raw::is_contiguous(tensor)? && !tensor.f_is_neg()?,
        })
    }
}

/// Memory of other devices is out of the host's reach.
fn on_cpu(found: Device) -> Result<(), TorchError> {
    match found {
        Device::Cpu => Ok(()),
        found => Err(TorchError::Device { found }),
    }
}

/// Data of the SDK as a tensor of libtorch.
pub trait ToTorch {
    /// Makes a tensor with memory of its own.
    ///
    /// # Errors
    ///
    /// [`TorchError::NoKind`] for an element type that libtorch lacks,
    /// [`TorchError::Model`] for data that cannot be read from the device, and
    /// what libtorch answers.
    ///
    /// # Examples
    ///
    /// ```
    /// use metaneff_binding::{DType, HostTensor};
    /// use metaneff_torch::{ToTorch as _, TorchError};
    ///
    /// // 1.0 as bf16, little-endian.
    /// let host = HostTensor::from_byte_slice(DType::BF16, [1], &[0x80, 0x3f])?;
    /// let tensor = host.to_torch()?;
    /// assert_eq!(tensor.kind(), tch::Kind::BFloat16);
    /// assert_eq!(tensor.double_value(&[0]), 1.0);
    /// # Ok::<(), TorchError>(())
    /// ```
    fn to_torch(&self) -> Result<Tensor, TorchError>;
}

impl<S: HostState> ToTorch for metaneff_binding::Tensor<S> {
    fn to_torch(&self) -> Result<Tensor, TorchError> {
        raw::copied(self.dtype(), &dims(self.shape())?, self.bytes())
    }
}

impl<B: Backend> ToTorch for TensorView<'_, '_, B> {
    /// Reads straight into the tensor's memory.
    fn to_torch(&self) -> Result<Tensor, TorchError> {
        let slot = self.slot();
        let dtype = self.dtype().ok_or_else(|| {
            let error = ReadError::UnknownDataType {
                side: slot.side(),
                ordinal: slot.ordinal(),
                name: slot.name().to_owned(),
                number: slot.data_type(),
            };
            TorchError::Model(error.into())
        })?;
        let dims = dims(self.shape())?;
        raw::filled(dtype, &dims, slot.byte_size(), |out| {
            self.read_into(out)
                .map_err(|error| TorchError::Model(error.into()))
        })
    }
}

/// A tensor of libtorch over bytes of somebody else.
///
/// It dereferences to [`Tensor`]. What is made of it shares its memory if it is a
/// view or a `shallow_clone`, and has its own if it is computed.
pub struct TorchView<'a> {
    tensor: Tensor,
    bytes: PhantomData<&'a [u8]>,
}

impl Deref for TorchView<'_> {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        &self.tensor
    }
}

impl fmt::Debug for TorchView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tensor.fmt(f)
    }
}

/// Sees a host tensor as a tensor of libtorch, without a copy.
///
/// # Errors
///
/// [`TorchError::NoKind`] for an element type that libtorch lacks, and what
/// libtorch answers.
///
/// # Safety
///
/// No alias of the view outlives it, which `shallow_clone` and views of a tensor
/// are, and nothing writes to it or to an alias, as operations whose names end in
/// an underscore do.
///
/// # Examples
///
/// ```
/// use metaneff_binding::HostTensor;
/// use metaneff_torch::{TorchError, torch_view};
///
/// let data = [1.0_f32, 2.0, 3.0];
/// let host = HostTensor::from_slice([3], &data)?;
/// // SAFETY: no alias is made, and nothing is written.
/// let view = unsafe { torch_view(&host) }?;
/// assert_eq!(view.data_ptr().cast_const(), data.as_ptr().cast());
/// assert_eq!(view.sum(tch::Kind::Float).double_value(&[]), 6.0);
/// # Ok::<(), TorchError>(())
/// ```
#[expect(
    unsafe_code,
    reason = "aliases of the memory are the caller's to rule out"
)]
pub unsafe fn torch_view<'a, S: HostState>(
    host: &'a metaneff_binding::Tensor<S>,
) -> Result<TorchView<'a>, TorchError> {
    let dims = dims(host.shape())?;
    // SAFETY: the view borrows the host tensor's bytes; the caller rules out
    // aliases that outlive it, and writes.
    let tensor = unsafe { raw::over(host.dtype(), &dims, host.bytes()) }?;
    Ok(TorchView {
        tensor,
        bytes: PhantomData,
    })
}

fn dims(shape: &Shape) -> Result<Vec<i64>, TorchError> {
    shape
        .dims()
        .iter()
        .enumerate()
        .map(|(dimension, &size)| {
            i64::try_from(size).map_err(|_| TorchError::Dimension {
                dimension,
                shape: shape.to_string(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tensors_of_the_cpu_cross() {
        assert!(on_cpu(Device::Cpu).is_ok());
        // No other device is there to make a tensor on.
        for found in [
            Device::Cuda(0),
            Device::Cuda(1),
            Device::Mps,
            Device::Vulkan,
        ] {
            let error = on_cpu(found).unwrap_err();
            assert!(matches!(error, TorchError::Device { found: named } if named == found));
            assert!(error.to_string().contains(&format!("{found:?}")), "{error}");
        }
    }
}
