//! The library's functions, looked up once.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use libloading::os::unix::Library as Handle;
use metaneff_schema::nrt::Status;

use super::abi::{
    RawAllocation, RawAsyncError, RawBatch, RawInstanceInfo, RawMemoryStats, RawModel,
    RawModelInfo, RawSet, RawTensor, RawTensorInfoArray, RawTracker, RawVersion,
};

/// Declares the table: the type of every function as `nrt.h`,
/// `nrt_experimental.h`, `nrt_profile.h` and `nrt_async.h` declare it.
macro_rules! functions {
    (
        required { $($required:ident: $required_type:ty;)+ }
        optional { $($optional:ident: $optional_type:ty;)+ }
        asynchronous { $($asynchronous:ident: $asynchronous_type:ty;)+ }
    ) => {
        /// Addresses of the library's functions.
        ///
        /// The library is never closed, so an address stays valid for ever.
        pub(crate) struct Symbols {
            $(pub(crate) $required: $required_type,)+
            $(pub(crate) $optional: Option<$optional_type>,)+
            $(pub(crate) $asynchronous: Option<$asynchronous_type>,)+
        }

        impl Symbols {
            /// Looks every function up.
            ///
            /// # Errors
            ///
            /// The name of the first required function that is missing.
            pub(crate) fn resolve(library: &Handle) -> Result<Self, &'static str> {
                Ok(Self {
                    $($required: {
                        let name = stringify!($required);
                        // SAFETY: the type is the one that the public header
                        // declares under this name.
                        unsafe { lookup::<$required_type>(library, name) }.ok_or(name)?
                    },)+
                    // SAFETY: as above, for each name.
                    $($optional: unsafe { lookup::<$optional_type>(library, stringify!($optional)) },)+
                    // SAFETY: as above, for each name.
                    $($asynchronous: unsafe { lookup::<$asynchronous_type>(library, stringify!($asynchronous)) },)+
                })
            }

            /// The optional functions that the library does not have.
            pub(crate) fn missing(&self) -> Vec<&'static str> {
                let mut missing = Vec::new();
                $(if self.$optional.is_none() {
                    missing.push(stringify!($optional));
                })+
                missing
            }

            /// The functions of `nrt_async.h` that requests are made with and the
            /// library does not have.
            pub(crate) fn missing_asynchronous(&self) -> Vec<&'static str> {
                let mut missing = Vec::new();
                $(if self.$asynchronous.is_none() {
                    missing.push(stringify!($asynchronous));
                })+
                missing
            }
        }
    };
}

/// Type of `nrt_get_version`.
pub(crate) type GetVersion = unsafe extern "C" fn(*mut RawVersion, usize) -> Status;

type Count = unsafe extern "C" fn(*mut u32) -> Status;
type Batched = unsafe extern "C" fn(*const RawBatch, u64, bool) -> Status;
type World = unsafe extern "C" fn(i32, u32, u32) -> Status;

functions! {
    required {
        nrt_init: unsafe extern "C" fn(u32, *const c_char, *const c_char) -> Status;
        nrt_close: unsafe extern "C" fn();
        nrt_load: unsafe extern "C" fn(*const c_void, usize, i32, i32, *mut *mut RawModel) -> Status;
        nrt_unload: unsafe extern "C" fn(*mut RawModel) -> Status;
        nrt_get_model_tensor_info: unsafe extern "C" fn(*mut RawModel, *mut *mut RawTensorInfoArray) -> Status;
        nrt_free_model_tensor_info: unsafe extern "C" fn(*mut RawTensorInfoArray) -> Status;
        nrt_allocate_tensor_set: unsafe extern "C" fn(*mut *mut RawSet) -> Status;
        nrt_destroy_tensor_set: unsafe extern "C" fn(*mut *mut RawSet);
        nrt_add_tensor_to_tensor_set: unsafe extern "C" fn(*mut RawSet, *const c_char, *mut RawTensor) -> Status;
        nrt_tensor_allocate: unsafe extern "C" fn(c_int, c_int, usize, *const c_char, *mut *mut RawTensor) -> Status;
        nrt_tensor_free: unsafe extern "C" fn(*mut *mut RawTensor);
        nrt_tensor_read: unsafe extern "C" fn(*const RawTensor, *mut c_void, usize, usize) -> Status;
        nrt_tensor_write: unsafe extern "C" fn(*mut RawTensor, *const c_void, usize, usize) -> Status;
        nrt_execute: unsafe extern "C" fn(*mut RawModel, *const RawSet, *mut RawSet) -> Status;
    }
    optional {
        nrt_get_instance_info: unsafe extern "C" fn(*mut RawInstanceInfo, usize) -> Status;
        nrt_get_total_vnc_count: Count;
        nrt_get_total_nc_count: Count;
        nrt_get_visible_vnc_count: Count;
        nrt_get_visible_nc_count: Count;
        nrt_load_collectives: unsafe extern "C" fn(*const c_void, usize, i32, i32, u32, u32, *mut *mut RawModel) -> Status;
        nrt_get_model_info: unsafe extern "C" fn(*const RawModel, *mut RawModelInfo, usize, *mut usize) -> Status;
        nrt_execute_repeat: unsafe extern "C" fn(*mut RawModel, *const RawSet, *mut RawSet, c_int) -> Status;
        nrt_tensor_allocate_slice: unsafe extern "C" fn(*const RawTensor, usize, usize, *const c_char, *mut *mut RawTensor) -> Status;
        nrt_tensor_copy: unsafe extern "C" fn(*const RawTensor, usize, *mut RawTensor, usize, usize) -> Status;
        nrt_tensor_memset: unsafe extern "C" fn(*mut RawTensor, u64, c_int, usize) -> Status;
        nrt_tensor_get_va: unsafe extern "C" fn(*const RawTensor) -> *mut c_void;
        nrt_tensor_get_device_allocation_info: unsafe extern "C" fn(*const RawTensor, *mut RawAllocation) -> Status;
        nrt_tensor_read_batch: Batched;
        nrt_tensor_write_batch: Batched;
        nrt_get_vnc_memory_stats: unsafe extern "C" fn(u32, *mut RawMemoryStats, usize, *mut usize) -> Status;
        nrt_get_model_vnc_count: unsafe extern "C" fn(*const RawModel, *mut u32) -> Status;
        nrt_get_model_instance_count: unsafe extern "C" fn(*mut RawModel, *mut u32) -> Status;
        nrt_tensor_allocate_empty: unsafe extern "C" fn(*const c_char, *mut *mut RawTensor) -> Status;
        nrt_tensor_attach_buffer: unsafe extern "C" fn(*mut RawTensor, *mut c_void, usize) -> Status;
        nrt_tensor_check_output_completion: unsafe extern "C" fn(*const RawTensor, i64, u64) -> Status;
        nrt_tensor_reset_output_completion: unsafe extern "C" fn(*mut RawTensor) -> Status;
        nrt_build_global_comm: World;
        nrt_barrier: World;
        nrt_all_gather: unsafe extern "C" fn(i32, u32, u32, u32, *mut c_void, *mut c_void) -> Status;
        nrt_profile_start: unsafe extern "C" fn(*mut RawModel, *const c_char) -> Status;
        nrt_profile_stop: unsafe extern "C" fn(*const c_char) -> Status;
    }
    asynchronous {
        nrta_tensor_write: unsafe extern "C" fn(*mut RawTensor, *const c_void, u64, u64, c_int, *mut RawTracker, *mut u64) -> Status;
        nrta_tensor_read: unsafe extern "C" fn(*mut c_void, *mut RawTensor, u64, u64, c_int, *mut RawTracker, *mut u64) -> Status;
        nrta_tensor_copy: unsafe extern "C" fn(*mut RawTensor, u64, *mut RawTensor, u64, u64, c_int, *mut RawTracker, *mut u64) -> Status;
        nrta_execute_schedule: unsafe extern "C" fn(*mut RawModel, *const RawSet, *mut RawSet, c_int, *mut RawTracker, *mut u64) -> Status;
        nrta_is_completed: unsafe extern "C" fn(u64, *mut u8) -> Status;
        nrta_get_completion_handle: unsafe extern "C" fn(u64, *mut c_int) -> Status;
        nrta_error_tracker_create: unsafe extern "C" fn(u32, *mut *mut RawTracker) -> Status;
        nrta_error_tracker_destroy: unsafe extern "C" fn(*mut RawTracker);
        nrta_error_tracker_get_list: unsafe extern "C" fn(*mut RawTracker, *mut *const RawAsyncError, *mut usize) -> Status;
    }
}

/// The functions of `nrt_async.h`: which of them a library has varies from
/// release to release (user needs, row 123), so they are probed and never
/// required.
pub(crate) const ASYNCHRONOUS: &[&str] = &[
    "nrta_tensor_write",
    "nrta_tensor_read",
    "nrta_tensor_copy",
    "nrta_execute_schedule",
    "nrta_cc_prepare",
    "nrta_cc_schedule",
    "nrta_is_completed",
    "nrta_get_sequence",
    "nrta_get_completion_handle",
    "nrta_error_tracker_create",
    "nrta_error_tracker_destroy",
    "nrta_error_tracker_get_list",
];

/// Those of [`ASYNCHRONOUS`] that the library has.
pub(crate) fn asynchronous(library: &Handle) -> Vec<&'static str> {
    ASYNCHRONOUS
        .iter()
        .copied()
        // SAFETY: the function is never called, whatever its type.
        .filter(|name| unsafe { lookup::<unsafe extern "C" fn()>(library, name) }.is_some())
        .collect()
}

/// `nrt_get_version`, which stands outside of the table: the version is told
/// also when a required function is missing.
pub(crate) fn get_version(library: &Handle) -> Option<GetVersion> {
    // SAFETY: the type is the one of `nrt_version.h`.
    unsafe { lookup(library, "nrt_get_version") }
}

/// Address of a function, or `None` if the library has none of this name or one
/// whose address is null.
///
/// # Safety
///
/// `F` is a function pointer, and if it is called, then of the type that the
/// function `name` of the library has.
unsafe fn lookup<F: Copy>(library: &Handle, name: &str) -> Option<F> {
    // SAFETY: as the caller promises; an optional function pointer may be null.
    let symbol = unsafe { library.get::<Option<F>>(name) };
    symbol.ok()?.lift_option().map(|function| *function)
}

/// Path of the file that holds the code at `address`, as the loader knows it.
pub(crate) fn file_of(address: *const c_void) -> Option<String> {
    let mut info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: the call looks the address up without reading from it, and fills
    // the block that it is given.
    let found = unsafe { libc::dladdr(address, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's own text, which ends with NUL and lives as long as
    // the library, that is for ever.
    let path = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(path.to_string_lossy().into_owned())
}
