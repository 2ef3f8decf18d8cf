//! Types of the C interface, laid out as the public headers lay them out.
//!
//! Sources: `nrt.h`, `nrt_version.h`, `nrt_experimental.h`, `nrt_async.h`,
//! `ndebug_stream.h`, `nec.h` and `neuron_driver_shared_tensor_batch_op.h` of the
//! public Neuron headers. A C enum is a plain integer here: a value that the
//! header does not name stays representable.

use std::ffi::{c_int, c_void};

use crate::handles::{Handle, Tensor};
use crate::pointers::Array;

/// `nrt_version_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Version {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    pub(crate) maintenance: u64,
    pub(crate) detail: [u8; 128],
    pub(crate) git_hash: [u8; 64],
}

/// `nrt_instance_info_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct InstanceInfo {
    pub(crate) family: u32,
    pub(crate) size: u32,
    pub(crate) arch_name: [u8; 16],
    pub(crate) device_revision: [u8; 8],
}

/// `nrt_tensor_batch_op_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct BatchOp {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) buffer: *mut c_void,
}

/// `nrt_tensor_batch_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Batch {
    pub(crate) tensor: Handle<Tensor>,
    pub(crate) ops: Array<BatchOp>,
    pub(crate) num_ops: u32,
}

/// `nrt_tensor_device_allocation_info_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Allocation {
    pub(crate) physical_address: u64,
    pub(crate) size: usize,
    pub(crate) hbm_index: c_int,
}

/// `nrt_vnc_memory_stats_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct MemoryStats {
    pub(crate) bytes_used: usize,
    pub(crate) bytes_limit: usize,
}

/// `nrt_cc_comm_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Comm {
    pub(crate) replica_group: Array<u32>,
    pub(crate) rank: u32,
    pub(crate) rank_n: u32,
    pub(crate) ctx_device_id: u32,
    pub(crate) ctx_device_count: u32,
    pub(crate) vnc: u32,
}

/// `nrt_tensor_list_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct TensorList {
    pub(crate) tensors: Array<Handle<Tensor>>,
    pub(crate) num_tensors: usize,
}

/// `nrta_error_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct AsyncError {
    pub(crate) sequence: u64,
    pub(crate) error_code: u64,
}

/// `ndebug_stream_event_header_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct DebugHeader {
    pub(crate) data_size: u64,
    pub(crate) kind: u32,
    pub(crate) reserved: [u8; 52],
}

/// `nec_version_info_t` without the open end.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct NecVersion {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    pub(crate) maintenance: u64,
    pub(crate) git_hash: [u8; 16],
    pub(crate) compatibility: u64,
}

/// `text` in a field of fixed size, cut to fit and ended with NUL.
pub(crate) fn field<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    let length = text.len().min(N.saturating_sub(1));
    field[..length].copy_from_slice(&text.as_bytes()[..length]);
    field
}

const _: () = {
    use std::mem::offset_of;

    assert!(size_of::<Version>() == 224);
    assert!(offset_of!(Version, git_hash) == 160);
    assert!(size_of::<InstanceInfo>() == 32);
    assert!(offset_of!(InstanceInfo, device_revision) == 24);
    assert!(size_of::<BatchOp>() == 24);
    assert!(size_of::<Batch>() == 24);
    assert!(offset_of!(Batch, num_ops) == 16);
    assert!(size_of::<Allocation>() == 24);
    assert!(size_of::<MemoryStats>() == 16);
    assert!(size_of::<Comm>() == 32);
    assert!(offset_of!(Comm, vnc) == 24);
    assert!(size_of::<TensorList>() == 16);
    assert!(size_of::<AsyncError>() == 16);
    assert!(size_of::<DebugHeader>() == 64);
    assert!(size_of::<NecVersion>() == 56);
};

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn a_field_ends_with_nul() {
        assert_eq!(field::<4>("ab"), *b"ab\0\0");
        assert_eq!(field::<4>("abcdef"), *b"abc\0");
    }
}
