//! `ndarray` arrays to and from host tensors.

use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

use super::{HostState, HostTensor, Tensor, TensorError};
use crate::element::Element;
use crate::shape::Shape;

impl<'a> HostTensor<'a> {
    /// Borrows an array in row-major order; copies one in any other order, so
    /// that a transposed view arrives as its elements read, not as its memory
    /// lies.
    ///
    /// # Errors
    ///
    /// [`TensorError::Size`] if the shape overflows.
    ///
    /// # Examples
    ///
    /// ```
    /// use metaneff_binding::HostTensor;
    ///
    /// let array = ndarray::array![[1.0_f32, 2.0], [3.0, 4.0]];
    /// let turned = array.t();
    /// let tensor = HostTensor::from_array(&turned)?;
    /// assert_eq!(tensor.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), metaneff_binding::Error>(())
    /// ```
    pub fn from_array<T, S, D>(array: &'a ArrayBase<S, D>) -> Result<Self, TensorError>
    where
        T: Element,
        S: Data<Elem = T>,
        D: Dimension,
    {
        let shape = Shape::from(array.shape());
        match array.as_slice() {
            Some(elements) => HostTensor::from_slice(shape, elements),
            None => HostTensor::from_vec(shape, array.iter().copied().collect())
                .map_err(crate::Rejected::into_reason),
        }
    }
}

impl<S: HostState> Tensor<S> {
    /// Copies the elements into an array.
    ///
    /// # Errors
    ///
    /// [`TensorError::ElementType`] if `T` is not the tensor's element type.
    pub fn to_array<T: Element>(&self) -> Result<ArrayD<T>, TensorError> {
        let elements = self.to_vec::<T>()?;
        let found = size_of_val(elements.as_slice());
        ArrayD::from_shape_vec(IxDyn(self.shape().dims()), elements).map_err(|_| {
            TensorError::Length {
                dtype: self.dtype(),
                shape: self.shape().clone(),
                expected: self.bytes().len(),
                found,
            }
        })
    }
}
