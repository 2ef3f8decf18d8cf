//! Shorthands of the kernels' tests.

use crate::array::{Array, ArrayViewMut, Buffer};
use crate::element::Element;
use crate::error::KernelError;

/// An array of `values`.
pub(crate) fn array<T: Element>(dims: &[usize], values: &[T]) -> Array {
    Array::from_values(dims, values).unwrap()
}

/// What `kernel` writes into an array of the given dimensions.
pub(crate) fn run<T: Element>(
    dims: &[usize],
    kernel: impl FnOnce(ArrayViewMut<'_>) -> Result<(), KernelError>,
) -> Vec<T> {
    let mut buffer = Buffer::zeroed(dims.iter().product::<usize>() * size_of::<T>()).unwrap();
    kernel(ArrayViewMut::new(T::TYPE, dims, buffer.bytes_mut()).unwrap()).unwrap();
    bytemuck::cast_slice(buffer.bytes()).to_vec()
}
