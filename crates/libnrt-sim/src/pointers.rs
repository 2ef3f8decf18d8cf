//! Pointers that come from C.
//!
//! Values of these types exist only as arguments of exported functions, so each
//! is what the public header says of it: null, or valid for what the function's
//! documentation reads or writes there, for as long as the call takes. That is
//! the contract of the C interface, and the one thing that the library has to
//! believe. Null is checked everywhere, alignment is never assumed.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

use metaneff_binding::BackendError;

use crate::export::invalid;

fn null(call: &'static str, argument: &'static str) -> BackendError {
    invalid(call, argument, "the pointer is null")
}

/// Where to write a `T`: an out-parameter.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

/// A place that is not null.
#[derive(Debug)]
pub(crate) struct Place<'a, T>(NonNull<T>, PhantomData<&'a T>);

impl<T> Out<T> {
    /// The place, if there is one.
    pub(crate) fn place(
        &self,
        call: &'static str,
        argument: &'static str,
    ) -> Result<Place<'_, T>, BackendError> {
        self.optional().ok_or_else(|| null(call, argument))
    }

    /// The place, or `None` for null.
    pub(crate) fn optional(&self) -> Option<Place<'_, T>> {
        NonNull::new(self.0).map(|place| Place(place, PhantomData))
    }
}

impl<T> Place<'_, T> {
    /// Writes the value, which nothing has read before.
    pub(crate) fn set(self, value: T) {
        // SAFETY: the place is valid for a write by the C caller's contract (see
        // the module's head) and not null by construction.
        unsafe { self.0.as_ptr().write_unaligned(value) }
    }

    /// The value that the caller put there.
    pub(crate) fn get(&self) -> T
    where
        T: Copy,
    {
        // SAFETY: as for `set`; callers ask for it only where the header says
        // that the parameter goes both ways.
        unsafe { self.0.as_ptr().read_unaligned() }
    }
}

impl Out<u32> {
    /// Writes the values one after another, for as many as there is room.
    pub(crate) fn fill_with(&self, values: impl Iterator<Item = u32>) {
        for (index, value) in values.enumerate() {
            // SAFETY: within the array, whose length the caller gave and the
            // number of values keeps to.
            let place = unsafe { self.0.add(index) };
            // SAFETY: valid for a write by the C caller's contract.
            unsafe { place.write_unaligned(value) };
        }
    }
}

impl Place<'_, u8> {
    /// Writes bytes from the place on, which has room for as many.
    pub(crate) fn fill(self, bytes: &[u8]) {
        // SAFETY: the caller said how many bytes there are, and `bytes` is cut to
        // that; it is the library's own memory and cannot overlap.
        unsafe {
            self.0
                .as_ptr()
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }
}

/// A `T` to read.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

/// Several `T` in a row.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Array<T>(*const T);

impl<T: Copy> Array<T> {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn as_ptr(self) -> *const T {
        self.0
    }

    /// The `count` values that stand there.
    pub(crate) fn to_vec(
        self,
        call: &'static str,
        argument: &'static str,
        count: usize,
    ) -> Result<Vec<T>, BackendError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        if self.0.is_null() {
            return Err(null(call, argument));
        }
        let bytes = count.checked_mul(size_of::<T>());
        if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            return Err(invalid(
                call,
                argument,
                format!("{count} entries exceed any memory"),
            ));
        }
        let mut values = Vec::new();
        for index in 0..count {
            // SAFETY: within the `count` entries that the caller has there, whose
            // size fits.
            let entry = unsafe { self.0.add(index) };
            // SAFETY: the entry is valid for a read by the C caller's contract.
            values.push(unsafe { entry.read_unaligned() });
        }
        Ok(values)
    }
}

impl<T> In<T> {
    /// Whether there is nothing to read.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

/// Text that ends with NUL.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// The text, or `None` for null.
    pub(crate) fn optional(&self) -> Option<&CStr> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: not null, and text that ends with NUL by the C caller's
        // contract; it is not changed while the call takes.
        Some(unsafe { CStr::from_ptr(self.0) })
    }

    /// The text.
    pub(crate) fn get(
        &self,
        call: &'static str,
        argument: &'static str,
    ) -> Result<&CStr, BackendError> {
        self.optional().ok_or_else(|| null(call, argument))
    }
}

/// Bytes to read.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Bytes(*const c_void);

impl Bytes {
    /// The `size` bytes that stand there.
    pub(crate) fn slice(
        &self,
        call: &'static str,
        argument: &'static str,
        size: usize,
    ) -> Result<&[u8], BackendError> {
        if self.0.is_null() {
            return Err(null(call, argument));
        }
        check_size(call, argument, size)?;
        // SAFETY: not null, `size` bytes by the C caller's contract, which do not
        // change while the call takes; bytes need no alignment.
        Ok(unsafe { slice::from_raw_parts(self.0.cast(), size) })
    }
}

/// Bytes to write.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct BytesMut(*mut c_void);

impl BytesMut {
    pub(crate) fn new(address: *mut c_void) -> Self {
        Self(address)
    }

    /// The `size` bytes that stand there.
    pub(crate) fn slice(
        &mut self,
        call: &'static str,
        argument: &'static str,
        size: usize,
    ) -> Result<&mut [u8], BackendError> {
        if self.0.is_null() {
            return Err(null(call, argument));
        }
        check_size(call, argument, size)?;
        // SAFETY: not null, `size` bytes that the call alone may touch by the C
        // caller's contract; bytes need no alignment.
        Ok(unsafe { slice::from_raw_parts_mut(self.0.cast(), size) })
    }

    /// The address of the first byte, not null.
    pub(crate) fn address(
        &self,
        call: &'static str,
        argument: &'static str,
    ) -> Result<NonNull<u8>, BackendError> {
        NonNull::new(self.0.cast()).ok_or_else(|| null(call, argument))
    }
}

fn check_size(call: &'static str, argument: &'static str, size: usize) -> Result<(), BackendError> {
    if isize::try_from(size).is_ok() {
        Ok(())
    } else {
        Err(invalid(
            call,
            argument,
            format!("{size} bytes exceed any memory"),
        ))
    }
}
