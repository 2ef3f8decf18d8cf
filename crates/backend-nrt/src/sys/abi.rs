//! Types of the C interface, laid out as the public headers lay them out.
//!
//! Sources: `nrt.h`, `nrt_version.h`, `nrt_experimental.h`, `nrt_async.h` and
//! `neuron_driver_shared_tensor_batch_op.h` of the public Neuron headers. A C
//! enum is a plain integer here: a value that the header does not name stays
//! representable. The sizes and offsets are asserted for 64-bit targets, the
//! only ones that libnrt is made for.

use std::ffi::{c_char, c_int, c_void};
use std::marker::{PhantomData, PhantomPinned};

/// An object that only the library looks into: never moved, never shared as a
/// Rust reference.
macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub(crate) struct $name {
            _bytes: [u8; 0],
            _marker: PhantomData<(*mut u8, PhantomPinned)>,
        }
    )+};
}

opaque! {
    /// `nrt_model_t`.
    RawModel;
    /// `nrt_tensor_t`.
    RawTensor;
    /// `nrt_tensor_set_t`, which the header makes `void`.
    RawSet;
    /// `nrta_error_tracker_t`.
    RawTracker;
}

/// `nrt_version_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct RawVersion {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    pub(crate) maintenance: u64,
    pub(crate) detail: [u8; 128],
    pub(crate) git_hash: [u8; 64],
}

impl RawVersion {
    pub(crate) const ZERO: Self = Self {
        major: 0,
        minor: 0,
        patch: 0,
        maintenance: 0,
        detail: [0; 128],
        git_hash: [0; 64],
    };
}

/// `nrt_instance_info_t`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct RawInstanceInfo {
    pub(crate) family: u32,
    pub(crate) size: u32,
    pub(crate) arch: [u8; 16],
    pub(crate) revision: [u8; 8],
}

/// `nrt_model_info_t`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct RawModelInfo {
    pub(crate) vnc: u32,
}

/// `nrt_vnc_memory_stats_t`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct RawMemoryStats {
    pub(crate) used: usize,
    pub(crate) limit: usize,
}

/// `nrt_tensor_device_allocation_info_t`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct RawAllocation {
    pub(crate) physical_address: u64,
    pub(crate) size: usize,
    pub(crate) hbm_index: c_int,
}

/// Bytes of a tensor's name, terminator included: `NRT_TENSOR_NAME_MAX`.
pub(crate) const NAME_MAX: usize = 256;

/// `nrt_tensor_info_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct RawTensorInfo {
    pub(crate) name: [u8; NAME_MAX],
    pub(crate) usage: u32,
    pub(crate) size: usize,
    pub(crate) dtype: u32,
    pub(crate) shape: *const u32,
    pub(crate) ndim: u32,
}

/// `nrt_tensor_info_array_t`: a count, then as many entries in the same block.
#[repr(C)]
pub(crate) struct RawTensorInfoArray {
    pub(crate) count: u64,
    pub(crate) entries: [RawTensorInfo; 0],
}

/// `nrt_tensor_batch_op_t`.
#[repr(C)]
pub(crate) struct RawBatchOp {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) buffer: *mut c_void,
}

/// `nrt_tensor_batch_t`.
#[repr(C)]
pub(crate) struct RawBatch {
    pub(crate) tensor: *const RawTensor,
    pub(crate) ops: *const RawBatchOp,
    pub(crate) count: u32,
}

/// `nrta_error_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RawAsyncError {
    pub(crate) sequence: u64,
    pub(crate) code: u64,
}

/// Text of a fixed field: up to the first NUL or the field's end.
pub(crate) fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&field[..end.unwrap_or(field.len())]).into_owned()
}

const _: () = {
    use std::mem::{align_of, offset_of, size_of};

    assert!(size_of::<c_char>() == 1);
    assert!(size_of::<RawVersion>() == 224);
    assert!(offset_of!(RawVersion, detail) == 32);
    assert!(offset_of!(RawVersion, git_hash) == 160);
    assert!(size_of::<RawInstanceInfo>() == 32);
    assert!(offset_of!(RawInstanceInfo, arch) == 8);
    assert!(offset_of!(RawInstanceInfo, revision) == 24);
    assert!(size_of::<RawModelInfo>() == 4);
    assert!(size_of::<RawMemoryStats>() == 16);
    assert!(size_of::<RawAllocation>() == 24);
    assert!(offset_of!(RawAllocation, hbm_index) == 16);
    assert!(size_of::<RawTensorInfo>() == 296);
    assert!(offset_of!(RawTensorInfo, usage) == 256);
    assert!(offset_of!(RawTensorInfo, size) == 264);
    assert!(offset_of!(RawTensorInfo, dtype) == 272);
    assert!(offset_of!(RawTensorInfo, shape) == 280);
    assert!(offset_of!(RawTensorInfo, ndim) == 288);
    assert!(offset_of!(RawTensorInfoArray, entries) == 8);
    assert!(align_of::<RawTensorInfoArray>() == 8);
    assert!(size_of::<RawBatchOp>() == 24);
    assert!(offset_of!(RawBatchOp, buffer) == 16);
    assert!(size_of::<RawBatch>() == 24);
    assert!(offset_of!(RawBatch, count) == 16);
    assert!(size_of::<RawAsyncError>() == 16);
};

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn text_ends_at_the_first_nul_or_the_fields_end() {
        assert_eq!(text(b"2.1\0\0"), "2.1");
        assert_eq!(text(b"full"), "full");
        assert_eq!(text(b"\0"), "");
        assert_eq!(text(b""), "");
        assert_eq!(text(b"a\xff\0"), "a\u{fffd}");
    }
}
