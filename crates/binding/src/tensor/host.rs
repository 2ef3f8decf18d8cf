//! Host tensors: bytes, borrowed or owned, with element type and shape.

use bytes::Bytes;

use super::{Tensor, Unbound};
use crate::dtype::DType;
use crate::element::Element;
use crate::failure::Rejected;
use crate::shape::{Shape, SizeOverflow};

/// A tensor in host memory that no slot has seen yet.
///
/// The memory is borrowed for `'a`, or owned (`HostTensor<'static>`). It is
/// dense, row-major and little-endian.
pub type HostTensor<'a> = Tensor<Unbound<'a>>;

/// Why a host tensor cannot be made, or not be seen as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The shape is larger than any buffer.
    #[error(transparent)]
    Size(#[from] SizeOverflow),
    /// The data has another size than the shape says.
    #[error("{dtype} {shape} takes {expected} bytes, found {found}")]
    Length {
        /// The element type.
        dtype: DType,
        /// The dimensions.
        shape: Shape,
        /// Bytes that the shape takes.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// The elements are of another type than the one asked for.
    #[error(
        "elements are {found}, not {expected}; `reinterpret` sees the same bits as another type"
    )]
    ElementType {
        /// The type asked for.
        expected: DType,
        /// The tensor's type.
        found: DType,
    },
    /// The bytes cannot be seen in place as elements; a copy can.
    #[error("bytes are not aligned or not valid as {dtype} in place")]
    NotInPlace {
        /// The type asked for.
        dtype: DType,
    },
    /// Elements of different sizes cannot share bits.
    #[error("{from} has {} bytes and {to} has {}", from.size(), to.size())]
    Width {
        /// The tensor's type.
        from: DType,
        /// The type asked for.
        to: DType,
    },
    /// The host has not enough memory.
    #[error("the host has no {bytes} bytes for {dtype} {shape}")]
    HostMemory {
        /// The element type.
        dtype: DType,
        /// The dimensions.
        shape: Shape,
        /// Bytes asked for.
        bytes: usize,
    },
}

#[derive(Clone)]
pub(crate) enum HostData<'a> {
    Borrowed(&'a [u8]),
    Owned(Bytes),
}

impl HostData<'_> {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

/// Invariant: `data` is as long as `shape` and `dtype` say.
#[derive(Clone)]
pub(crate) struct HostBuffer<'a> {
    pub(crate) data: HostData<'a>,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
}

pub(crate) fn check_element<T: Element>(found: DType) -> Result<(), TensorError> {
    if found == T::DTYPE {
        Ok(())
    } else {
        Err(TensorError::ElementType {
            expected: T::DTYPE,
            found,
        })
    }
}

impl<'a> Tensor<Unbound<'a>> {
    /// Borrows `elements` as a tensor of shape `shape`.
    ///
    /// # Errors
    ///
    /// [`TensorError::Length`] if the shape takes another number of elements,
    /// [`TensorError::Size`] if it overflows.
    pub fn from_slice<T: Element>(
        shape: impl Into<Shape>,
        elements: &'a [T],
    ) -> Result<Self, TensorError> {
        Self::new(
            T::DTYPE,
            shape.into(),
            HostData::Borrowed(T::bytes(elements)),
        )
    }

    /// Borrows `bytes`, row-major and little-endian, as a tensor.
    ///
    /// # Errors
    ///
    /// As [`from_slice`](Self::from_slice).
    pub fn from_byte_slice(
        dtype: DType,
        shape: impl Into<Shape>,
        bytes: &'a [u8],
    ) -> Result<Self, TensorError> {
        Self::new(dtype, shape.into(), HostData::Borrowed(bytes))
    }

    /// Sees the same bits as elements of another type of the same size. This is
    /// the only way from an integer to an 8-bit float.
    ///
    /// # Errors
    ///
    /// [`TensorError::Width`] with the tensor, if the sizes differ.
    pub fn reinterpret(mut self, dtype: DType) -> Result<Self, Rejected<Self, TensorError>> {
        let from = self.state.host.dtype;
        if from.size() == dtype.size() {
            self.state.host.dtype = dtype;
            Ok(self)
        } else {
            Err(Rejected::new(self, TensorError::Width { from, to: dtype }))
        }
    }

    /// The same tensor in memory of its own; copies borrowed bytes.
    pub fn into_owned(self) -> HostTensor<'static> {
        let HostBuffer { data, dtype, shape } = self.state.host;
        let data = HostData::Owned(match data {
            HostData::Borrowed(bytes) => Bytes::copy_from_slice(bytes),
            HostData::Owned(bytes) => bytes,
        });
        Tensor {
            state: Unbound {
                host: HostBuffer { data, dtype, shape },
            },
        }
    }

    fn new(dtype: DType, shape: Shape, data: HostData<'a>) -> Result<Self, TensorError> {
        let expected = shape.byte_size(dtype)?;
        let found = data.as_slice().len();
        if expected == found {
            Ok(Self {
                state: Unbound {
                    host: HostBuffer { data, dtype, shape },
                },
            })
        } else {
            Err(TensorError::Length {
                dtype,
                shape,
                expected,
                found,
            })
        }
    }
}

impl Tensor<Unbound<'static>> {
    /// Takes `elements` as a tensor of shape `shape`, without a copy.
    ///
    /// # Errors
    ///
    /// As [`from_slice`](Self::from_slice); the vector comes back.
    pub fn from_vec<T: Element>(
        shape: impl Into<Shape>,
        elements: Vec<T>,
    ) -> Result<Self, Rejected<Vec<T>, TensorError>> {
        struct Owner<T>(Vec<T>);
        impl<T: Element> AsRef<[u8]> for Owner<T> {
            fn as_ref(&self) -> &[u8] {
                T::bytes(&self.0)
            }
        }

        let shape = shape.into();
        if let Err(reason) = HostTensor::from_slice(shape.clone(), &elements) {
            return Err(Rejected::new(elements, reason));
        }
        Ok(Self {
            state: Unbound {
                host: HostBuffer {
                    data: HostData::Owned(Bytes::from_owner(Owner(elements))),
                    dtype: T::DTYPE,
                    shape,
                },
            },
        })
    }

    /// Takes `bytes`, row-major and little-endian, as a tensor, without a copy.
    ///
    /// # Errors
    ///
    /// As [`from_slice`](Self::from_slice).
    pub fn from_bytes(
        dtype: DType,
        shape: impl Into<Shape>,
        bytes: impl Into<Bytes>,
    ) -> Result<Self, TensorError> {
        Self::new(dtype, shape.into(), HostData::Owned(bytes.into()))
    }

    /// One element without dimensions.
    pub fn scalar<T: Element>(element: T) -> Self {
        Self {
            state: Unbound {
                host: HostBuffer {
                    data: HostData::Owned(Bytes::copy_from_slice(T::bytes(&[element]))),
                    dtype: T::DTYPE,
                    shape: Shape::scalar(),
                },
            },
        }
    }

    /// A tensor of zero bytes.
    ///
    /// # Errors
    ///
    /// [`TensorError::Size`] if the shape overflows, [`TensorError::HostMemory`]
    /// if the host has not that much memory.
    pub fn zeros(dtype: DType, shape: impl Into<Shape>) -> Result<Self, TensorError> {
        let shape = shape.into();
        let bytes = shape.byte_size(dtype)?;
        let mut data = Vec::new();
        if data.try_reserve_exact(bytes).is_err() {
            return Err(TensorError::HostMemory {
                dtype,
                shape,
                bytes,
            });
        }
        data.resize(bytes, 0_u8);
        Self::new(dtype, shape, HostData::Owned(data.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_and_the_data_agree() {
        let data = [1.0_f32, 2.0, 3.0];
        assert_eq!(
            HostTensor::from_slice([2, 2], &data).unwrap_err(),
            TensorError::Length {
                dtype: DType::F32,
                shape: Shape::from([2, 2]),
                expected: 16,
                found: 12,
            }
        );
        assert!(matches!(
            HostTensor::zeros(DType::F32, [1 << 32, 1 << 32]),
            Err(TensorError::Size(_))
        ));
        assert!(matches!(
            HostTensor::zeros(DType::U8, [1 << 62]),
            Err(TensorError::HostMemory { bytes, .. }) if bytes == 1 << 62
        ));
        assert_eq!(HostTensor::scalar(1_i64).bytes().len(), 8);
    }

    #[test]
    fn memory_is_borrowed_or_taken_but_not_copied() {
        let data = vec![1_u16, 2];
        let address = data.as_ptr();
        let borrowed = HostTensor::from_slice([2], &data).unwrap();
        assert_eq!(borrowed.as_slice::<u16>().unwrap().as_ptr(), address);
        let owned = borrowed.into_owned();
        let taken = HostTensor::from_vec([2], data).unwrap();
        assert_eq!(taken.as_slice::<u16>().unwrap().as_ptr(), address);
        assert_eq!(owned.bytes(), taken.bytes());
    }

    #[test]
    fn bits_are_seen_as_another_type_only_by_name() {
        let one = half::bf16::from_f32(1.0);
        let tensor = HostTensor::from_vec([1], vec![one]).unwrap();
        assert_eq!(tensor.bytes(), 0x3f80_u16.to_le_bytes());
        assert_eq!(
            tensor.to_vec::<half::f16>().unwrap_err(),
            TensorError::ElementType {
                expected: DType::F16,
                found: DType::BF16,
            }
        );
        let rejected = tensor.reinterpret(DType::F32).unwrap_err();
        assert_eq!(
            *rejected.reason(),
            TensorError::Width {
                from: DType::BF16,
                to: DType::F32,
            }
        );
        let tensor = rejected.into_input().reinterpret(DType::U16).unwrap();
        assert_eq!(tensor.to_vec::<u16>().unwrap(), [0x3f80]);
    }

    #[test]
    fn unaligned_bytes_are_copied_out() {
        let bytes: Vec<u8> = (0..9).collect();
        let tensor = HostTensor::from_byte_slice(DType::U32, [2], &bytes[1..]).unwrap();
        let words = tensor.to_vec::<u32>().unwrap();
        assert_eq!(words, [0x0403_0201, 0x0807_0605]);
        let bytes = Bytes::from(bytes).slice(..8);
        let owned = HostTensor::from_bytes(DType::U64, [1], bytes).unwrap();
        assert_eq!(owned.to_vec::<u64>().unwrap(), [0x0706_0504_0302_0100]);
    }
}
