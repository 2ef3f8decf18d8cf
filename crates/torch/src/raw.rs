//! The memory of libtorch's tensors. All unsafe code of the crate is here.

#![expect(
    unsafe_code,
    reason = "libtorch's memory and the kinds that `tch` does not know are reached by pointer"
)]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use metaneff_binding::DType;
use tch::{TchError, Tensor};

use crate::error::TorchError;

/// libtorch's number of the CPU in the C layer below `tch`.
const CPU: c_int = -1;

/// The error that libtorch's C layer left behind, which later calls of `tch`
/// would otherwise take for their own.
fn last_error() -> Option<String> {
    // SAFETY: the call takes no arguments; it gives null or a string from malloc
    // that is the caller's.
    let text = unsafe { torch_sys::get_and_reset_last_err() };
    if text.is_null() {
        return None;
    }
    // SAFETY: `text` is not null, so it is a C string, and nobody frees it before
    // the call below.
    let message = unsafe { CStr::from_ptr(text) };
    let message = message.to_string_lossy().into_owned();
    // SAFETY: the string came from malloc, is the caller's, and is not used again.
    unsafe { libc::free(text.cast()) };
    Some(message)
}

/// Whether the elements lie row-major without gaps.
pub(crate) fn is_contiguous(tensor: &Tensor) -> Result<bool, TorchError> {
    // SAFETY: the pointer is that of a live tensor, and the call does not write
    // through it.
    let answer = unsafe { torch_sys::at_is_contiguous(tensor.as_ptr().cast_mut()) };
    match last_error() {
        Some(reason) => Err(TorchError::NotDense { reason }),
        None => Ok(answer != 0),
    }
}

fn data(tensor: &Tensor) -> Result<*mut c_void, TorchError> {
    // SAFETY: the pointer is that of a live tensor, and the call does not write
    // through it.
    let data = unsafe { torch_sys::at_data_ptr(tensor.as_ptr().cast_mut()) };
    match last_error() {
        Some(reason) => Err(TorchError::NotDense { reason }),
        None => Ok(data),
    }
}

/// The bytes of a contiguous tensor of the CPU with `size` bytes of elements.
///
/// # Errors
///
/// [`TorchError::NotDense`] if the tensor has no memory.
///
/// # Safety
///
/// The tensor is on the CPU, contiguous, and its elements take `size` bytes.
/// While the slice lives, nobody writes to the tensor's memory, resizes it or
/// gives it other memory, also not through an alias of the tensor.
pub(crate) unsafe fn bytes(tensor: &Tensor, size: usize) -> Result<&[u8], TorchError> {
    if size == 0 {
        return Ok(&[]);
    }
    let data = data(tensor)?;
    if data.is_null() {
        return Err(TorchError::NotDense {
            reason: "its data pointer is null".to_owned(),
        });
    }
    // SAFETY: by the contract above, `size` bytes from `data` on belong to the
    // tensor, which lives as long as the slice, and are not written meanwhile.
    // libtorch's memory is initialised or plain bytes that any value is valid for.
    Ok(unsafe { std::slice::from_raw_parts(data.cast::<u8>().cast_const(), size) })
}

/// Copies the elements of a tensor to `out`, row-major.
///
/// # Errors
///
/// [`TorchError::NotDense`] if the tensor has no memory, or less than `out`.
pub(crate) fn copy_to(
    tensor: &Tensor,
    out: &mut [u8],
    element_size: usize,
) -> Result<(), TorchError> {
    if out.is_empty() {
        return Ok(());
    }
    // SAFETY: the pointer is that of a live tensor. libtorch checks the element
    // size and that the tensor has so many elements, and writes as many bytes as
    // `out` has.
    unsafe {
        torch_sys::at_copy_data(
            tensor.as_ptr().cast_mut(),
            out.as_mut_ptr().cast(),
            out.len() / element_size,
            element_size,
        );
    }
    match last_error() {
        Some(reason) => Err(TorchError::NotDense { reason }),
        None => Ok(()),
    }
}

/// A new tensor of shape `dims` whose `size` bytes `fill` has written.
///
/// # Errors
///
/// [`TorchError::NoKind`] for an element type that ATen lacks, what libtorch
/// answers, and what `fill` answers.
pub(crate) fn filled(
    dtype: DType,
    dims: &[i64],
    size: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<(), TorchError>,
) -> Result<Tensor, TorchError> {
    let Some(kind) = crate::kind::kind_of(dtype) else {
        let mut bytes = vec![0; size];
        fill(&mut bytes)?;
        return copied(dtype, dims, &bytes);
    };
    let tensor = Tensor::f_zeros(dims, (kind, tch::Device::Cpu))?;
    if size > 0 {
        let data = data(&tensor)?.cast::<u8>();
        // SAFETY: the tensor is new, contiguous, on the CPU and zeroed, its kind
        // and shape take `size` bytes, and this function holds its only handle
        // while the slice lives.
        fill(unsafe { std::slice::from_raw_parts_mut(data, size) })?;
    }
    Ok(tensor)
}

/// A new tensor with a copy of `bytes`, also of kinds that `tch` has no name for.
///
/// # Errors
///
/// [`TorchError::NoKind`] for an element type that ATen lacks, and what libtorch
/// answers.
pub(crate) fn copied(dtype: DType, dims: &[i64], bytes: &[u8]) -> Result<Tensor, TorchError> {
    let number = scalar_type(dtype)?;
    // SAFETY: `dims` has as many dimensions as said. The callers' shape of `dims`
    // takes `bytes.len()` bytes at `dtype.size()` an element, and so many are read
    // from `bytes`; an element size that is not the kind's own is refused.
    let tensor = unsafe {
        torch_sys::at_tensor_of_data(
            bytes.as_ptr().cast(),
            dims.as_ptr(),
            dims.len(),
            dtype.size(),
            number,
        )
    };
    adopt(tensor)
}

/// A tensor over memory of somebody else.
///
/// # Errors
///
/// [`TorchError::NoKind`] for an element type that ATen lacks, and what libtorch
/// answers.
///
/// # Safety
///
/// The memory outlives the tensor and every alias of it, and is not written
/// while they live, neither through them nor otherwise.
pub(crate) unsafe fn over(dtype: DType, dims: &[i64], bytes: &[u8]) -> Result<Tensor, TorchError> {
    let number = scalar_type(dtype)?;
    // SAFETY: `dims` has as many dimensions as said, no strides stand for a
    // contiguous tensor, and by the contract above the memory stays.
    let tensor = unsafe {
        torch_sys::at_tensor_of_blob(
            bytes.as_ptr().cast(),
            dims.as_ptr(),
            dims.len(),
            ptr::null(),
            0,
            number,
            CPU,
        )
    };
    adopt(tensor)
}

fn scalar_type(dtype: DType) -> Result<c_int, TorchError> {
    dtype
        .aten_scalar_type()
        .map(c_int::from)
        .ok_or(TorchError::NoKind { dtype })
}

/// Takes over a tensor that libtorch's C layer has made.
fn adopt(tensor: *mut torch_sys::C_tensor) -> Result<Tensor, TorchError> {
    if let Some(message) = last_error() {
        return Err(TchError::Torch(message).into());
    }
    // SAFETY: without an error the pointer is a new tensor that nobody else frees.
    Ok(unsafe { Tensor::from_ptr(tensor) })
}
