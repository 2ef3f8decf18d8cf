//! Values of instructions.

use std::collections::HashMap;
use std::sync::Arc;

use crate::array::{ArrayView, Buffer, Charge, Meter, ViewError};
use crate::element::ElementType;
use crate::ir::Literal;
use crate::shape::{ArrayShape, Shape};

/// Bytes of an array in row-major order.
#[derive(Clone, Debug)]
pub(crate) enum Data<'a> {
    /// The caller's.
    Borrowed(&'a [u8]),
    /// Shared by the values that hold it.
    Owned(Arc<Buffer>),
}

/// Value of an instruction, whose shape the instruction knows.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Array(Data<'a>),
    Tuple(Vec<Self>),
    Token,
}

impl<'a> Data<'a> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(buffer) => buffer.bytes(),
        }
    }

    /// The bytes of the caller if they are aligned for `element`, else a copy.
    pub(crate) fn aligned(bytes: &'a [u8], element: ElementType) -> Result<Self, ViewError> {
        let dims = [bytes.len() / element.byte_size()];
        match ArrayView::new(element, &dims, bytes) {
            Ok(_) => Ok(Self::Borrowed(bytes)),
            Err(_) => Ok(Self::Owned(Arc::new(Buffer::copied(bytes)?))),
        }
    }
}

impl From<Buffer> for Value<'_> {
    fn from(buffer: Buffer) -> Self {
        Self::Array(Data::Owned(Arc::new(buffer)))
    }
}

impl Value<'_> {
    pub(crate) fn literal(literal: &Literal) -> Self {
        match literal {
            Literal::Array(array) => Self::Array(Data::Owned(Arc::clone(array.buffer()))),
            Literal::Tuple(elements) => Self::Tuple(elements.iter().map(Self::literal).collect()),
            Literal::Token => Self::Token,
        }
    }

    /// The view of an array of `shape`.
    pub(crate) fn view<'s>(&'s self, shape: &'s ArrayShape) -> Result<ArrayView<'s>, ViewError> {
        let bytes = match self {
            Self::Array(data) => data.bytes(),
            // Of no length that a shape could promise.
            _ => &[],
        };
        ArrayView::new(shape.element(), shape.dims(), bytes)
    }

    /// The arrays with their shapes, depth first.
    pub(crate) fn leaves<'s>(
        &'s self,
        shape: &'s Shape,
        out: &mut Vec<(&'s ArrayShape, &'s [u8])>,
    ) {
        match (self, shape) {
            (Self::Array(data), Shape::Array(array)) => out.push((array, data.bytes())),
            (Self::Tuple(values), Shape::Tuple(shapes)) => {
                values
                    .iter()
                    .zip(shapes)
                    .for_each(|(value, shape)| value.leaves(shape, out));
            }
            _ => {}
        }
    }
}

/// Buffers to be used again, by size.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    buffers: HashMap<usize, Vec<Buffer>>,
    held: usize,
    /// What buffers that are taken count towards.
    meter: Option<Arc<Meter>>,
}

/// Bytes that a pool holds at most.
const POOL_LIMIT: usize = 256 << 20;

impl Pool {
    /// The same buffers for an execution within `limit`.
    pub(crate) fn limited(mut self, limit: Option<usize>) -> Self {
        self.meter = limit.map(|limit| Arc::new(Meter::new(limit)));
        self
    }

    /// A buffer of `len` bytes of any value.
    pub(crate) fn take(&mut self, len: usize) -> Result<Buffer, ViewError> {
        let charge = self.meter.as_ref().map(|meter| Charge::new(meter, len));
        let charge = charge.transpose()?;
        let reused = self.buffers.get_mut(&len).and_then(Vec::pop);
        let buffer = match reused {
            Some(buffer) => {
                self.held -= len;
                buffer
            }
            None => Buffer::zeroed(len)?,
        };
        Ok(buffer.charged(charge))
    }

    /// A buffer of zeros.
    pub(crate) fn zeros(&mut self, len: usize) -> Result<Buffer, ViewError> {
        let mut buffer = self.take(len)?;
        buffer.bytes_mut().fill(0);
        Ok(buffer)
    }

    /// A buffer with a copy of `bytes`.
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> Result<Buffer, ViewError> {
        let mut buffer = self.take(bytes.len())?;
        buffer.bytes_mut().copy_from_slice(bytes);
        Ok(buffer)
    }

    /// Takes the buffers of a value back, as far as nothing else holds them.
    pub(crate) fn give(&mut self, value: Value<'_>) {
        match value {
            Value::Array(Data::Owned(shared)) => {
                if let Some(buffer) = Arc::into_inner(shared) {
                    self.give_buffer(buffer);
                }
            }
            Value::Tuple(values) => values.into_iter().for_each(|value| self.give(value)),
            _ => {}
        }
    }

    /// Takes a buffer back.
    pub(crate) fn give_buffer(&mut self, mut buffer: Buffer) {
        buffer = buffer.charged(None);
        let len = buffer.len();
        if len > 0 && self.held + len <= POOL_LIMIT {
            self.held += len;
            self.buffers.entry(len).or_default().push(buffer);
        }
    }
}
