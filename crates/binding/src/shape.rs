//! Dimensions and sizes, in checked arithmetic.

use std::fmt;

use smallvec::SmallVec;

use crate::dtype::DType;

/// Dimensions of a tensor, outermost first; no dimensions for a scalar.
///
/// Up to four dimensions are held without an allocation.
///
/// # Examples
///
/// ```
/// use metaneff_binding::{DType, Shape};
///
/// let shape = Shape::from([65_536, 65_536]);
/// assert_eq!(shape.byte_size(DType::F32), Ok(17_179_869_184));
/// assert_eq!(shape.to_string(), "[65536, 65536]");
///
/// let huge = Shape::from([1 << 32, 1 << 32]);
/// let error = huge.byte_size(DType::F32).unwrap_err();
/// assert_eq!(error.shape, huge);
///
/// // A scalar is one element; an empty dimension makes none.
/// assert_eq!(Shape::scalar().byte_size(DType::F32), Ok(4));
/// assert_eq!(Shape::from([0, 4]).byte_size(DType::F32), Ok(0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: SmallVec<[usize; 4]>,
}

impl Shape {
    /// No dimensions, one element.
    #[must_use]
    pub fn scalar() -> Self {
        Self::default()
    }

    /// The dimensions, outermost first.
    #[must_use]
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// How many dimensions there are.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// The product of the dimensions, `None` if it does not fit 64 bits. An
    /// empty dimension makes it 0 whatever the others are.
    #[must_use]
    pub fn elements(&self) -> Option<usize> {
        if self.dims.contains(&0) {
            return Some(0);
        }
        self.dims
            .iter()
            .try_fold(1_usize, |product, &dim| product.checked_mul(dim))
    }

    /// Bytes of a dense tensor of this shape.
    ///
    /// # Errors
    ///
    /// [`SizeOverflow`] if the size is above `isize::MAX`, which no buffer can
    /// have.
    pub fn byte_size(&self, dtype: DType) -> Result<usize, SizeOverflow> {
        self.elements()
            .and_then(|elements| elements.checked_mul(dtype.size()))
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .ok_or_else(|| SizeOverflow {
                shape: self.clone(),
                dtype,
            })
    }

    /// Whether the shapes differ in the leading dimension at most.
    #[must_use]
    pub(crate) fn equals_but_for_batch(&self, other: &Self) -> bool {
        self.rank() == other.rank() && self.rank() > 0 && self.dims[1..] == other.dims[1..]
    }

    /// The dimensions other than 1.
    pub(crate) fn squeezed(&self) -> impl Iterator<Item = usize> + '_ {
        self.dims.iter().copied().filter(|&dim| dim != 1)
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Self {
        Self {
            dims: SmallVec::from_slice(&dims),
        }
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Self {
        Self {
            dims: SmallVec::from_slice(dims),
        }
    }
}

impl From<Vec<usize>> for Shape {
    fn from(dims: Vec<usize>) -> Self {
        Self {
            dims: SmallVec::from_vec(dims),
        }
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(dims: I) -> Self {
        Self {
            dims: dims.into_iter().collect(),
        }
    }
}

impl PartialEq<[usize]> for Shape {
    fn eq(&self, other: &[usize]) -> bool {
        self.dims.as_slice() == other
    }
}

impl<const N: usize> PartialEq<[usize; N]> for Shape {
    fn eq(&self, other: &[usize; N]) -> bool {
        self.dims.as_slice() == other
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (position, dim) in self.dims.iter().enumerate() {
            if position > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{dim}")?;
        }
        f.write_str("]")
    }
}

/// A tensor that is larger than any buffer can be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the byte size of {dtype} {shape} does not fit 63 bits")]
#[non_exhaustive]
pub struct SizeOverflow {
    /// The dimensions.
    pub shape: Shape,
    /// The element type.
    pub dtype: DType,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked_products() {
        let huge = Shape::from([1 << 32, 1 << 32]);
        assert_eq!(huge.elements(), None);
        assert_eq!(
            huge.byte_size(DType::F32),
            Err(SizeOverflow {
                shape: huge.clone(),
                dtype: DType::F32
            })
        );
        // The product fits 64 bits and no buffer.
        assert!(
            Shape::from([1 << 31, 1 << 31])
                .byte_size(DType::F32)
                .is_err()
        );
        assert_eq!(Shape::from([1 << 63, 2, 0]).elements(), Some(0));
    }

    #[test]
    fn only_the_leading_dimension_is_a_batch() {
        let compiled = Shape::from([2, 3]);
        assert!(Shape::from([7, 3]).equals_but_for_batch(&compiled));
        assert!(!Shape::from([2, 4]).equals_but_for_batch(&compiled));
        assert!(!Shape::from([2, 3, 1]).equals_but_for_batch(&compiled));
        assert!(!Shape::scalar().equals_but_for_batch(&Shape::scalar()));
    }
}
