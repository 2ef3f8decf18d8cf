//! The C calls of a launch, written by hand.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use libloading::{Library, Symbol};

use crate::models::ELEMENTS;

type Handle = *mut c_void;

/// Why the raw calls cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RawError {
    /// The library cannot be opened, or a function is missing.
    #[error(transparent)]
    Library(#[from] libloading::Error),
    /// A call failed.
    #[error("{call} answered {status}")]
    Status {
        /// The function.
        call: &'static str,
        /// What it answered.
        status: c_int,
    },
}

/// The functions of a launch, and the handles that they take.
#[derive(Debug)]
pub struct Raw {
    write: unsafe extern "C" fn(Handle, *const c_void, usize, usize) -> c_int,
    read: unsafe extern "C" fn(Handle, *mut c_void, usize, usize) -> c_int,
    execute: unsafe extern "C" fn(Handle, Handle, Handle) -> c_int,
    model: Handle,
    inputs: Handle,
    outputs: Handle,
    tensors: Vec<Handle>,
    output: Handle,
    host: Vec<f32>,
    out: Vec<u8>,
    // The functions are the library's.
    _library: Library,
}

fn check(call: &'static str, status: c_int) -> Result<(), RawError> {
    match status {
        0 => Ok(()),
        status => Err(RawError::Status { call, status }),
    }
}

/// A function of the library.
///
/// # Safety
///
/// `F` is the function's type.
unsafe fn function<F: Copy>(library: &Library, name: &str) -> Result<F, RawError> {
    // SAFETY: as the caller promises.
    let symbol: Symbol<'_, F> = unsafe { library.get(name) }?;
    Ok(*symbol)
}

impl Raw {
    /// Loads `neff` on core 0 of the library and binds `slots` inputs and an
    /// output of [`ELEMENTS`] floats.
    ///
    /// # Errors
    ///
    /// [`RawError`].
    ///
    /// # Safety
    ///
    /// The file is a libnrt, and runs its own initialisers only. Its runtime is
    /// initialised by this call or was before, and stays so while the value lives.
    pub unsafe fn new(library: &Path, neff: &[u8], slots: usize) -> Result<Self, RawError> {
        // SAFETY: as the caller promises.
        let library = unsafe { Library::new(library) }?;
        // SAFETY: the declaration of `nrt.h`, and so below.
        let init = unsafe {
            function::<unsafe extern "C" fn(c_int, *const c_char, *const c_char) -> c_int>(
                &library, "nrt_init",
            )
        }?;
        // SAFETY: as above.
        let load = unsafe {
            function::<unsafe extern "C" fn(*const c_void, usize, i32, i32, *mut Handle) -> c_int>(
                &library, "nrt_load",
            )
        }?;
        // SAFETY: as above.
        let set = unsafe {
            function::<unsafe extern "C" fn(*mut Handle) -> c_int>(
                &library,
                "nrt_allocate_tensor_set",
            )
        }?;
        // SAFETY: as above.
        let allocate = unsafe {
            function::<unsafe extern "C" fn(c_int, c_int, usize, *const c_char, *mut Handle) -> c_int>(
                &library,
                "nrt_tensor_allocate",
            )
        }?;
        // SAFETY: as above.
        let add = unsafe {
            function::<unsafe extern "C" fn(Handle, *const c_char, Handle) -> c_int>(
                &library,
                "nrt_add_tensor_to_tensor_set",
            )
        }?;
        // SAFETY: as above.
        let write = unsafe { function(&library, "nrt_tensor_write") }?;
        // SAFETY: as above.
        let read = unsafe { function(&library, "nrt_tensor_read") }?;
        // SAFETY: as above.
        let execute = unsafe { function(&library, "nrt_execute") }?;

        // SAFETY: both texts end with NUL.
        check("nrt_init", unsafe { init(0, c"".as_ptr(), c"".as_ptr()) })?;
        let mut model = ptr::null_mut();
        let (bytes, size) = (neff.as_ptr().cast(), neff.len());
        // SAFETY: `bytes` has `size` bytes; the call writes one pointer.
        check("nrt_load", unsafe {
            load(bytes, size, 0, -1, &raw mut model)
        })?;
        let new_set = || {
            let mut handle = ptr::null_mut();
            // SAFETY: the call writes one pointer.
            let status = unsafe { set(&raw mut handle) };
            check("nrt_allocate_tensor_set", status).map(|()| handle)
        };
        let (inputs, outputs) = (new_set()?, new_set()?);
        let bound = |set: Handle, name: String| {
            let name = CString::new(name).unwrap_or_default();
            let mut tensor = ptr::null_mut();
            let size = ELEMENTS * size_of::<f32>();
            // SAFETY: the name ends with NUL; the call writes one pointer.
            let status = unsafe { allocate(0, 0, size, name.as_ptr(), &raw mut tensor) };
            check("nrt_tensor_allocate", status)?;
            // SAFETY: set and tensor are the library's; the name ends with NUL.
            let status = unsafe { add(set, name.as_ptr(), tensor) };
            check("nrt_add_tensor_to_tensor_set", status).map(|()| tensor)
        };
        let tensors = (0..slots)
            .map(|ordinal| bound(inputs, format!("input{ordinal}")))
            .collect::<Result<_, RawError>>()?;
        let output = bound(outputs, "output0".to_owned())?;
        Ok(Self {
            write,
            read,
            execute,
            model,
            inputs,
            outputs,
            tensors,
            output,
            host: vec![1.0; ELEMENTS],
            out: vec![0; ELEMENTS * size_of::<f32>()],
            _library: library,
        })
    }

    /// A launch whose inputs are on the device already; reads the output.
    ///
    /// # Errors
    ///
    /// [`RawError::Status`].
    #[inline(never)]
    pub fn unchanged(&mut self) -> Result<(), RawError> {
        // SAFETY: the handles are the library's, and alive as long as `self`.
        let status = unsafe { (self.execute)(self.model, self.inputs, self.outputs) };
        check("nrt_execute", status)?;
        let (out, size) = (self.out.as_mut_ptr().cast(), self.out.len());
        // SAFETY: `out` has room for `size` bytes, and the tensor has as many.
        let status = unsafe { (self.read)(self.output, out, 0, size) };
        check("nrt_tensor_read", status)
    }

    /// A launch that writes every input from host memory; reads the output.
    ///
    /// # Errors
    ///
    /// [`RawError::Status`].
    #[inline(never)]
    pub fn rewritten(&mut self) -> Result<(), RawError> {
        let size = ELEMENTS * size_of::<f32>();
        for &tensor in &self.tensors {
            let host = self.host.as_ptr().cast();
            // SAFETY: `host` has `size` bytes, and so has the tensor.
            let status = unsafe { (self.write)(tensor, host, 0, size) };
            check("nrt_tensor_write", status)?;
        }
        self.unchanged()
    }
}
