//! Arrays and views of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytemuck::{Pod, Zeroable};

use crate::element::{Element, ElementType};
use crate::error::KernelError;
use crate::kernels;
use crate::shape::{ArrayShape, Layout};

/// Alignment of every [`Buffer`], in bytes.
pub const ALIGNMENT: usize = 64;

/// The largest unit that allocators zero lazily: for a larger alignment they
/// write to every page.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(16))]
struct Line([u8; LINE]);

const LINE: usize = 16;

/// Why bytes cannot be seen as an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The elements have another type.
    #[error("elements are {found}, not {expected}")]
    Element {
        /// The type that was asked for.
        expected: ElementType,
        /// The type of the array.
        found: ElementType,
    },
    /// The number of bytes is not that of the shape.
    #[error("{found} bytes where the shape takes {expected}")]
    Length {
        /// Bytes of the shape.
        expected: usize,
        /// Bytes that were given.
        found: usize,
    },
    /// The bytes do not start at a multiple of the element size.
    #[error("bytes are not aligned for {element}")]
    Alignment {
        /// The element type.
        element: ElementType,
    },
    /// Memory could not be had.
    #[error("{bytes} bytes cannot be allocated")]
    Memory {
        /// Bytes that were asked for.
        bytes: usize,
    },
    /// An execution may not take as much memory.
    #[error("{needed} bytes are needed where the memory limit is {limit}")]
    Limit {
        /// Bytes that values would take.
        needed: usize,
        /// The limit.
        limit: usize,
    },
}

/// Bytes that the buffers of an execution take.
#[derive(Debug)]
pub(crate) struct Meter {
    used: AtomicUsize,
    limit: usize,
}

impl Meter {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            used: AtomicUsize::new(0),
            limit,
        }
    }
}

/// A share of a [`Meter`], held by a buffer for as long as it exists.
#[derive(Debug)]
pub(crate) struct Charge {
    meter: Arc<Meter>,
    bytes: usize,
}

impl Charge {
    /// A share of `bytes`.
    ///
    /// # Errors
    ///
    /// [`ViewError::Limit`] if there is not as much left.
    pub(crate) fn new(meter: &Arc<Meter>, bytes: usize) -> Result<Self, ViewError> {
        let used = meter.used.fetch_add(bytes, Ordering::Relaxed);
        // Gives the share back where it is too large.
        let charge = Self {
            meter: Arc::clone(meter),
            bytes,
        };
        let needed = used.saturating_add(bytes);
        let limit = meter.limit;
        if needed > limit {
            return Err(ViewError::Limit { needed, limit });
        }
        Ok(charge)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.meter.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Bytes, zeroed at first, aligned to [`ALIGNMENT`].
///
/// A new buffer takes no memory for pages that are never touched.
#[derive(Debug, Default)]
pub struct Buffer {
    /// The bytes and room to align them; never resized.
    lines: Vec<Line>,
    /// Where the bytes start.
    start: usize,
    len: usize,
    charge: Option<Charge>,
}

impl Buffer {
    /// The same bytes, counted for as long as the buffer exists.
    pub(crate) fn charged(mut self, charge: Option<Charge>) -> Self {
        self.charge = charge;
        self
    }

    /// `len` bytes of 0.
    ///
    /// # Errors
    ///
    /// [`ViewError::Memory`] if the memory cannot be had.
    pub fn zeroed(len: usize) -> Result<Self, ViewError> {
        if len == 0 {
            return Ok(Self::default());
        }
        let lines = len.div_ceil(LINE) + ALIGNMENT / LINE - 1;
        let lines: Vec<Line> = bytemuck::allocation::try_zeroed_vec(lines)
            .map_err(|()| ViewError::Memory { bytes: len })?;
        let address = lines.as_ptr().addr();
        let start = address.next_multiple_of(ALIGNMENT) - address;
        Ok(Self {
            lines,
            start,
            len,
            charge: None,
        })
    }

    /// A copy of `bytes`.
    ///
    /// # Errors
    ///
    /// [`ViewError::Memory`] if the memory cannot be had.
    pub fn copied(bytes: &[u8]) -> Result<Self, ViewError> {
        let mut buffer = Self::zeroed(bytes.len())?;
        buffer.bytes_mut().copy_from_slice(bytes);
        Ok(buffer)
    }

    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[self.start..self.start + self.len]
    }

    /// The bytes, to be written.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[self.start..self.start + self.len]
    }
}

/// An array: a shape and its elements, in the order of the shape's layout,
/// which is row-major if there is none.
///
/// Clones share the bytes.
#[derive(Clone, Debug)]
pub struct Array {
    shape: ArrayShape,
    data: Arc<Buffer>,
}

impl Array {
    /// An array of zeros.
    ///
    /// # Errors
    ///
    /// [`ViewError::Memory`] if the memory cannot be had.
    pub fn zeros(shape: ArrayShape) -> Result<Self, ViewError> {
        let data = Arc::new(Buffer::zeroed(shape.byte_size())?);
        Ok(Self { shape, data })
    }

    /// An array over `data`, which is in the order of `shape`'s layout.
    ///
    /// # Errors
    ///
    /// [`ViewError::Length`] if the number of bytes is not that of `shape`.
    pub fn new(shape: ArrayShape, data: impl Into<Arc<Buffer>>) -> Result<Self, ViewError> {
        let data = data.into();
        if data.len() != shape.byte_size() {
            return Err(ViewError::Length {
                expected: shape.byte_size(),
                found: data.len(),
            });
        }
        Ok(Self { shape, data })
    }

    /// An array of `values`.
    ///
    /// # Errors
    ///
    /// [`ViewError::Length`] if there are more or fewer values than `dims`
    /// takes, or if that number overflows.
    pub fn from_values<T: Element>(dims: &[usize], values: &[T]) -> Result<Self, ViewError> {
        let shape = ArrayShape::new(T::TYPE, dims).map_err(|_| ViewError::Length {
            expected: usize::MAX,
            found: values.len(),
        })?;
        Self::new(shape, Buffer::copied(bytemuck::cast_slice(values))?)
    }

    /// The array with its elements in row-major order; the same bytes if they
    /// are in it.
    ///
    /// # Errors
    ///
    /// [`ViewError::Memory`] if the memory cannot be had.
    pub fn to_row_major(&self) -> Result<Self, ViewError> {
        let Some(layout) = self.shape.unusual_layout() else {
            return Ok(self.clone());
        };
        // In memory it is an array of the dimensions from major to minor.
        let major_to_minor: Vec<usize> = layout.minor_to_major().iter().rev().copied().collect();
        let dims: Vec<usize> = major_to_minor
            .iter()
            .map(|&dim| self.shape.dims()[dim])
            .collect();
        let mut inverse = vec![0; dims.len()];
        for (position, &dim) in major_to_minor.iter().enumerate() {
            inverse[dim] = position;
        }
        let data = self.transposed(&dims, &inverse, self.shape.dims())?;
        let shape = self.shape.clone().row_major();
        Ok(Self {
            shape,
            data: Arc::new(data),
        })
    }

    /// The array with its elements in the order of `layout`.
    ///
    /// # Errors
    ///
    /// [`ViewError::Memory`] if the memory cannot be had,
    /// [`ViewError::Length`] if `layout` is of another rank.
    pub fn to_layout(&self, layout: &Layout) -> Result<Self, ViewError> {
        let plain = self.to_row_major()?;
        let dims = plain.shape.dims();
        let shape = plain
            .shape
            .clone()
            .with_layout(Some(layout.clone()))
            .ok_or(ViewError::Length {
                expected: dims.len(),
                found: layout.minor_to_major().len(),
            })?;
        if layout.is_row_major() {
            return Self::new(shape, plain.data);
        }
        let major_to_minor: Vec<usize> = layout.minor_to_major().iter().rev().copied().collect();
        let target: Vec<usize> = major_to_minor.iter().map(|&dim| dims[dim]).collect();
        let data = plain.transposed(dims, &major_to_minor, &target)?;
        Self::new(shape, data)
    }

    /// The bytes, seen as a dense array of `dims`, with the dimensions permuted.
    fn transposed(
        &self,
        dims: &[usize],
        permutation: &[usize],
        target: &[usize],
    ) -> Result<Buffer, ViewError> {
        let element = self.shape.element();
        let mut data = Buffer::zeroed(self.shape.byte_size())?;
        let source = ArrayView::new(element, dims, self.data.bytes())?;
        let out = ArrayViewMut::new(element, target, data.bytes_mut())?;
        match kernels::transpose(source, permutation, out) {
            Ok(()) => Ok(data),
            Err(KernelError::View(error)) => Err(error),
            // Transposition fails on nothing but views.
            Err(_) => Err(ViewError::Alignment { element }),
        }
    }

    /// The shape.
    #[must_use]
    pub fn shape(&self) -> &ArrayShape {
        &self.shape
    }

    /// The elements' bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.data.bytes()
    }

    /// The buffer that holds the bytes.
    #[must_use]
    pub fn buffer(&self) -> &Arc<Buffer> {
        &self.data
    }

    /// The shape and the buffer.
    #[must_use]
    pub fn into_parts(self) -> (ArrayShape, Arc<Buffer>) {
        (self.shape, self.data)
    }

    /// The elements.
    ///
    /// # Errors
    ///
    /// [`ViewError::Element`] if `T` stores another element type.
    pub fn values<T: Element>(&self) -> Result<&[T], ViewError> {
        self.view().values()
    }

    /// A view of the array.
    #[must_use]
    pub fn view(&self) -> ArrayView<'_> {
        ArrayView {
            element: self.shape.element(),
            dims: self.shape.dims(),
            data: self.data.bytes(),
        }
    }
}

/// Borrowed array in row-major order.
#[derive(Clone, Copy, Debug)]
pub struct ArrayView<'a> {
    element: ElementType,
    dims: &'a [usize],
    data: &'a [u8],
}

impl<'a> ArrayView<'a> {
    /// An array of no elements.
    pub(crate) const EMPTY: Self = Self {
        element: ElementType::Pred,
        dims: &[0],
        data: &[],
    };

    /// A view of `data`.
    ///
    /// # Errors
    ///
    /// [`ViewError::Length`] and [`ViewError::Alignment`] if `data` is not as
    /// long as the shape or not aligned for `element`.
    pub fn new(element: ElementType, dims: &'a [usize], data: &'a [u8]) -> Result<Self, ViewError> {
        check(element, dims, data)?;
        Ok(Self {
            element,
            dims,
            data,
        })
    }

    /// Type of the elements.
    #[must_use]
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Dimensions, outermost first.
    #[must_use]
    pub fn dims(&self) -> &'a [usize] {
        self.dims
    }

    /// Number of elements.
    #[must_use]
    pub fn element_count(&self) -> usize {
        self.data.len() / self.element.byte_size()
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.data
    }

    /// The elements.
    ///
    /// # Errors
    ///
    /// [`ViewError::Element`] if `T` stores another element type.
    pub fn values<T: Element>(&self) -> Result<&'a [T], ViewError> {
        if T::TYPE != self.element {
            return Err(ViewError::Element {
                expected: T::TYPE,
                found: self.element,
            });
        }
        self.words()
    }

    /// The elements as words of their size, for code that only moves them.
    ///
    /// # Errors
    ///
    /// [`ViewError::Alignment`] if `W` is stricter aligned than the elements,
    /// or has another size.
    pub fn words<W: Pod>(&self) -> Result<&'a [W], ViewError> {
        if self.data.is_empty() {
            return Ok(&[]);
        }
        bytemuck::try_cast_slice(self.data).map_err(|_| ViewError::Alignment {
            element: self.element,
        })
    }
}

/// Array to be written, in row-major order.
#[derive(Debug)]
pub struct ArrayViewMut<'a> {
    element: ElementType,
    dims: &'a [usize],
    data: &'a mut [u8],
}

impl<'a> ArrayViewMut<'a> {
    /// A view of `data`.
    ///
    /// # Errors
    ///
    /// [`ViewError::Length`] and [`ViewError::Alignment`] if `data` is not as
    /// long as the shape or not aligned for `element`.
    pub fn new(
        element: ElementType,
        dims: &'a [usize],
        data: &'a mut [u8],
    ) -> Result<Self, ViewError> {
        check(element, dims, data)?;
        Ok(Self {
            element,
            dims,
            data,
        })
    }

    /// Type of the elements.
    #[must_use]
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Dimensions, outermost first.
    #[must_use]
    pub fn dims(&self) -> &'a [usize] {
        self.dims
    }

    /// Number of elements.
    #[must_use]
    pub fn element_count(&self) -> usize {
        self.data.len() / self.element.byte_size()
    }

    /// The bytes, to be written.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.data
    }

    /// The elements, to be written.
    ///
    /// # Errors
    ///
    /// [`ViewError::Element`] if `T` stores another element type.
    pub fn values_mut<T: Element>(&mut self) -> Result<&mut [T], ViewError> {
        if T::TYPE != self.element {
            return Err(ViewError::Element {
                expected: T::TYPE,
                found: self.element,
            });
        }
        self.words_mut()
    }

    /// The elements as words of their size, for code that only moves them.
    ///
    /// # Errors
    ///
    /// [`ViewError::Alignment`] if `W` is stricter aligned than the elements,
    /// or has another size.
    pub fn words_mut<W: Pod>(&mut self) -> Result<&mut [W], ViewError> {
        if self.data.is_empty() {
            return Ok(&mut []);
        }
        bytemuck::try_cast_slice_mut(self.data).map_err(|_| ViewError::Alignment {
            element: self.element,
        })
    }

    /// The same array, read-only.
    #[must_use]
    pub fn as_view(&self) -> ArrayView<'_> {
        ArrayView {
            element: self.element,
            dims: self.dims,
            data: self.data,
        }
    }

    /// A shorter borrow of the same array.
    #[must_use]
    pub fn reborrow(&mut self) -> ArrayViewMut<'_> {
        ArrayViewMut {
            element: self.element,
            dims: self.dims,
            data: self.data,
        }
    }
}

fn check(element: ElementType, dims: &[usize], data: &[u8]) -> Result<(), ViewError> {
    let expected = dims
        .iter()
        .try_fold(element.byte_size(), |bytes, &dim| bytes.checked_mul(dim));
    if expected != Some(data.len()) {
        return Err(ViewError::Length {
            expected: expected.unwrap_or(usize::MAX),
            found: data.len(),
        });
    }
    let align = element.part().byte_size();
    if !data.is_empty() && !data.as_ptr().addr().is_multiple_of(align) {
        return Err(ViewError::Alignment { element });
    }
    Ok(())
}
