//! The caller's memory in a tensor: `nrt_tensor_attach_buffer`.

use std::ptr::NonNull;

use metaneff_backend_sim::ExternalMemory;

/// A buffer that the caller keeps valid for as long as the tensor has it.
#[derive(Debug)]
pub(crate) struct Attached {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: the struct is an address and a size. What it points to is the caller's,
// who by the header keeps it for the tensor's whole life, whatever thread uses it.
unsafe impl Send for Attached {}

// SAFETY: as for `Send`. Reads and writes through a shared reference are the
// library's copies; who calls it from several threads at once orders them, as for
// any memory in C.
unsafe impl Sync for Attached {}

impl Attached {
    /// `size` bytes from `start` on; `None` where no memory is that large.
    pub(crate) fn new(start: NonNull<u8>, size: usize) -> Option<Self> {
        let fits = isize::try_from(size).is_ok() && start.addr().get().checked_add(size).is_some();
        fits.then_some(Self { start, size })
    }

    /// Writes the first bytes.
    pub(crate) fn put(&self, data: &[u8]) {
        ExternalMemory::write(self, 0, data);
    }

    /// The address of `length` bytes from `offset` on.
    fn range(&self, offset: usize, length: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(length)?;
        if end > self.size {
            return None;
        }
        // SAFETY: `offset` is within the buffer's size, which fits an isize and
        // does not wrap around.
        Some(unsafe { self.start.add(offset) })
    }
}

impl ExternalMemory for Attached {
    fn size(&self) -> usize {
        self.size
    }

    fn address(&self) -> usize {
        self.start.as_ptr().expose_provenance()
    }

    fn read(&self, offset: usize, out: &mut [u8]) {
        if let Some(from) = self.range(offset, out.len()) {
            // SAFETY: the range is inside the buffer, and `out` is as long. The
            // caller may read into its own buffer, so that the two may overlap.
            unsafe { from.as_ptr().copy_to(out.as_mut_ptr(), out.len()) }
        }
    }

    fn write(&self, offset: usize, data: &[u8]) {
        if let Some(to) = self.range(offset, data.len()) {
            // SAFETY: as for `read`.
            unsafe { to.as_ptr().copy_from(data.as_ptr(), data.len()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_touched_outside_the_buffer() {
        let mut bytes = [1_u8, 2, 3, 4];
        let start = NonNull::new(bytes.as_mut_ptr()).unwrap();
        let buffer = Attached::new(start, 4).unwrap();
        let mut out = [0; 2];
        buffer.read(3, &mut out);
        buffer.write(usize::MAX, &[9]);
        assert_eq!(out, [0, 0]);
        buffer.read(2, &mut out);
        assert_eq!(out, [3, 4]);
        buffer.write(0, &[7]);
        assert_eq!(bytes, [7, 2, 3, 4]);
        assert!(Attached::new(start, usize::MAX).is_none());
    }
}
