//! Shapes: arrays, tuples of shapes, tokens.

use std::fmt;

use crate::element::ElementType;

/// Order of an array's dimensions in memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    minor_to_major: Box<[usize]>,
}

impl Layout {
    /// The layout whose dimensions, fastest-varying first, are
    /// `minor_to_major`; `None` unless that is a permutation of `0..rank`.
    #[must_use]
    pub fn new(minor_to_major: impl Into<Box<[usize]>>) -> Option<Self> {
        let minor_to_major = minor_to_major.into();
        let mut seen = vec![false; minor_to_major.len()];
        for &dim in &minor_to_major {
            if std::mem::replace(seen.get_mut(dim)?, true) {
                return None;
            }
        }
        Some(Self { minor_to_major })
    }

    /// Dimensions, fastest-varying first.
    #[must_use]
    pub fn minor_to_major(&self) -> &[usize] {
        &self.minor_to_major
    }

    /// Whether the last dimension varies fastest and the first slowest.
    #[must_use]
    pub fn is_row_major(&self) -> bool {
        self.minor_to_major
            .iter()
            .rev()
            .copied()
            .eq(0..self.minor_to_major.len())
    }
}

/// A shape is too large to address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeOverflow {
    /// The number of elements does not fit.
    #[error("element count overflows 63 bits")]
    Elements,
    /// The number of bytes does not fit.
    #[error("byte count overflows 63 bits")]
    Bytes,
}

/// Shape of an array: element type, dimensions and perhaps a layout.
///
/// The element and byte counts are checked when the shape is made, so that
/// neither overflows later; both are at most `i64::MAX`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayShape {
    element: ElementType,
    dims: Box<[usize]>,
    layout: Option<Layout>,
    count: usize,
}

impl ArrayShape {
    /// An array shape in row-major order.
    ///
    /// # Errors
    ///
    /// [`SizeOverflow`] if the elements or their bytes exceed `i64::MAX`. The
    /// product is taken over the dimensions that are not 0, as XLA does, so a
    /// 0 does not excuse the others.
    ///
    /// # Examples
    ///
    /// ```
    /// use metaneff_hlo::{element::ElementType, shape::ArrayShape};
    ///
    /// let shape = ArrayShape::new(ElementType::F32, [2, 3])?;
    /// assert_eq!((shape.element_count(), shape.byte_size()), (6, 24));
    /// assert!(ArrayShape::new(ElementType::F32, [1 << 32, 1 << 32]).is_err());
    /// # Ok::<(), metaneff_hlo::shape::SizeOverflow>(())
    /// ```
    pub fn new(element: ElementType, dims: impl Into<Box<[usize]>>) -> Result<Self, SizeOverflow> {
        const LIMIT: usize = usize::MAX >> 1;
        let dims = dims.into();
        let mut product = 1_usize;
        for &dim in dims.iter().filter(|&&dim| dim != 0) {
            product = product
                .checked_mul(dim)
                .filter(|&product| product <= LIMIT)
                .ok_or(SizeOverflow::Elements)?;
        }
        product
            .checked_mul(element.byte_size())
            .filter(|&bytes| bytes <= LIMIT)
            .ok_or(SizeOverflow::Bytes)?;
        let count = if dims.contains(&0) { 0 } else { product };
        Ok(Self {
            element,
            dims,
            layout: None,
            count,
        })
    }

    /// The shape of one element.
    #[must_use]
    pub fn scalar(element: ElementType) -> Self {
        Self {
            element,
            dims: Box::new([]),
            layout: None,
            count: 1,
        }
    }

    /// The same shape with `layout`; `None` if its rank differs.
    #[must_use]
    pub fn with_layout(mut self, layout: Option<Layout>) -> Option<Self> {
        if layout
            .as_ref()
            .is_some_and(|layout| layout.minor_to_major.len() != self.dims.len())
        {
            return None;
        }
        self.layout = layout;
        Some(self)
    }

    /// The same dimensions with another element type.
    ///
    /// # Errors
    ///
    /// [`SizeOverflow`] if the bytes exceed `i64::MAX`.
    pub fn with_element(&self, element: ElementType) -> Result<Self, SizeOverflow> {
        let mut shape = Self::new(element, self.dims.clone())?;
        shape.layout.clone_from(&self.layout);
        Ok(shape)
    }

    /// The same shape without a layout.
    #[must_use]
    pub fn row_major(mut self) -> Self {
        self.layout = None;
        self
    }

    /// Type of the elements.
    #[must_use]
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Dimensions, outermost first.
    #[must_use]
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Number of dimensions.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// The layout, if the shape states one.
    #[must_use]
    pub fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }

    /// The layout, if it is stated and not row-major.
    #[must_use]
    pub fn unusual_layout(&self) -> Option<&Layout> {
        self.layout.as_ref().filter(|layout| !layout.is_row_major())
    }

    /// Number of elements.
    #[must_use]
    pub fn element_count(&self) -> usize {
        self.count
    }

    /// Number of bytes in memory.
    #[must_use]
    pub fn byte_size(&self) -> usize {
        self.count * self.element.byte_size()
    }

    /// Whether element type and dimensions agree; layouts are not compared.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        self.element == other.element && self.dims == other.dims
    }
}

impl fmt::Display for ArrayShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.element)?;
        for (index, dim) in self.dims.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{dim}")?;
        }
        f.write_str("]")
    }
}

/// Shape of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Shape {
    /// An array.
    Array(ArrayShape),
    /// A tuple of values.
    Tuple(Box<[Self]>),
    /// A token, which only orders side effects.
    Token,
}

impl Shape {
    /// The array shape, if this is an array.
    #[must_use]
    pub fn as_array(&self) -> Option<&ArrayShape> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }

    /// The element shapes, if this is a tuple.
    #[must_use]
    pub fn as_tuple(&self) -> Option<&[Self]> {
        match self {
            Self::Tuple(elements) => Some(elements),
            _ => None,
        }
    }

    /// Whether two shapes agree in everything but layouts.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(a), Self::Array(b)) => a.same(b),
            (Self::Tuple(a), Self::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
            }
            (Self::Token, Self::Token) => true,
            _ => false,
        }
    }

    /// The arrays within, depth first.
    #[must_use]
    pub fn leaves(&self) -> Vec<&ArrayShape> {
        fn walk<'a>(shape: &'a Shape, out: &mut Vec<&'a ArrayShape>) {
            match shape {
                Shape::Array(array) => out.push(array),
                Shape::Tuple(elements) => elements.iter().for_each(|element| walk(element, out)),
                Shape::Token => {}
            }
        }
        let mut out = Vec::new();
        walk(self, &mut out);
        out
    }
}

impl From<ArrayShape> for Shape {
    fn from(shape: ArrayShape) -> Self {
        Self::Array(shape)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Array(array) => array.fmt(f),
            Self::Token => f.write_str("token[]"),
            Self::Tuple(elements) => {
                f.write_str("(")?;
                for (index, element) in elements.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{element}")?;
                }
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_checked() {
        let zero = ArrayShape::new(ElementType::F32, [2, 0, 3]).unwrap();
        assert_eq!((zero.element_count(), zero.byte_size()), (0, 0));
        assert_eq!(
            ArrayShape::new(ElementType::F32, [1 << 40, 1 << 40, 0]),
            Err(SizeOverflow::Elements)
        );
        assert_eq!(
            ArrayShape::new(ElementType::F64, [1 << 61]),
            Err(SizeOverflow::Bytes)
        );
    }

    #[test]
    fn layouts_are_permutations() {
        assert!(Layout::new([0, 0]).is_none());
        assert!(Layout::new([2, 0]).is_none());
        assert!(Layout::new([1, 0]).unwrap().is_row_major());
        assert!(!Layout::new([0, 1]).unwrap().is_row_major());
    }
}
