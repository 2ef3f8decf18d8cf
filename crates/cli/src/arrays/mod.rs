//! Arrays in files: `.npy`, `.npz`, `.safetensors`, raw bytes.

mod npy;
mod npz;
pub(crate) mod number;
mod source;

use bytes::Bytes;
use metaneff_binding::{DType, HostTensor, Shape, Slot, TensorError};

pub(crate) use npz::write as write_npz;
pub(crate) use source::{Entry, Source};

/// The elements of an array as a file names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elements {
    /// Of a known type.
    Of(DType),
    /// So many bytes each, of a type that the format has no name for: numpy
    /// writes bfloat16 and the 8-bit floats so.
    Opaque(usize),
    /// Bytes without any description.
    Raw,
}

/// An array out of a file.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) elements: Elements,
    /// Empty for raw bytes.
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Bytes,
}

impl Array {
    /// The array as a host tensor for a slot. What a file leaves open, the slot
    /// decides: the type of opaque elements, the shape of raw bytes.
    pub(crate) fn into_tensor(self, slot: &Slot) -> Result<HostTensor<'static>, TensorError> {
        let meant = slot.dtype().unwrap_or(DType::U8);
        let (dtype, shape) = match self.elements {
            Elements::Of(dtype) => (dtype, self.shape.into()),
            Elements::Opaque(size) if size == meant.size() => (meant, self.shape.into()),
            Elements::Opaque(size) => {
                let mut shape = self.shape;
                shape.push(size);
                (DType::U8, Shape::from(shape))
            }
            Elements::Raw => (meant, slot.shape().clone()),
        };
        HostTensor::from_bytes(dtype, shape, self.bytes)
    }
}
