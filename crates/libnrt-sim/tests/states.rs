//! What each function answers before `nrt_init`, between it and `nrt_close`, and
//! afterwards, when it is called with nothing but zeros.

#![expect(
    clippy::unwrap_used,
    reason = "a failure is the test's answer, in helpers too"
)]
#![expect(
    dead_code,
    reason = "each test program uses a part of the common module"
)]

mod common;

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};

/// Any function of the library, called with more zeros than it has parameters:
/// the calling conventions of C leave what is too much alone.
type Function =
    unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize) -> usize;

/// How an answer is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// A status; the low 32 bits.
    Status(i32),
    /// A number or a pointer; all bits.
    Number(usize),
    /// The low 32 bits as a number.
    Int(i32),
    /// The low 8 bits.
    Bool(bool),
    /// Nothing.
    Void,
    /// Something that is not null.
    Pointer,
}

use Answer::{Bool, Int, Number, Pointer, Void};

/// A function that answers these statuses in the three states.
const fn s(start: i32, init: i32, closed: i32) -> [Answer; 3] {
    [
        Answer::Status(start),
        Answer::Status(init),
        Answer::Status(closed),
    ]
}

/// A function whose answer does not depend on the state.
const fn always(answer: Answer) -> [Answer; 3] {
    [answer, answer, answer]
}

/// A function that needs the runtime, and refuses null.
const NEEDS: [Answer; 3] = s(13, 2, 14);

/// A function that needs the runtime, and no argument.
const WORKS: [Answer; 3] = s(13, 0, 14);

/// A function that is not simulated.
const ABSENT: [Answer; 3] = s(13, 1, 14);

/// A function that refuses null in each state.
const NULL: [Answer; 3] = s(2, 2, 2);

const TABLE: &[(&str, [Answer; 3])] = &[
    ("nec_build_port_and_rid_map", ABSENT),
    ("nec_get_device_count", always(Int(1))),
    ("nec_get_device_pci_bdf", always(Int(-1))),
    ("nec_get_dynamic_recv_offset_bytes", always(Number(0))),
    ("nec_get_dynamic_send_offset_bytes", always(Number(0))),
    ("nec_get_dynamic_send_size_bytes", always(Number(0))),
    ("nec_get_p2p_pod_peer_node", always(Int(-1))),
    ("nec_get_peer_mla_idx", always(Int(-1))),
    ("nec_get_version_info", NULL),
    ("nec_get_virtual_core_size", NULL),
    ("nec_inc_semaphore", always(Void)),
    ("nec_is_mla_available", always(Bool(true))),
    ("nec_mla_idx_to_rid", always(Int(0))),
    ("nec_ndl_printk", always(Void)),
    ("nec_pod_node_can_access_peer_node", ABSENT),
    ("nec_rid_to_mla_idx", always(Int(0))),
    ("nec_set_recv_size_bytes", always(Void)),
    ("nrt_add_tensor_to_tensor_set", NEEDS),
    ("nrt_all_gather", NEEDS),
    ("nrt_allocate_tensor_set", NEEDS),
    ("nrt_async_drain_queued_execs", WORKS),
    ("nrt_async_sendrecv_accept", NEEDS),
    ("nrt_async_sendrecv_close", s(13, 1, 14)),
    ("nrt_async_sendrecv_connect", NEEDS),
    ("nrt_async_sendrecv_flush", s(13, 1, 14)),
    ("nrt_async_sendrecv_get_max_num_communicators_per_lnc", NULL),
    ("nrt_async_sendrecv_get_max_num_pending_request", NULL),
    ("nrt_async_sendrecv_init", WORKS),
    ("nrt_async_sendrecv_recv_tensor", NEEDS),
    ("nrt_async_sendrecv_send_tensor", NEEDS),
    ("nrt_async_sendrecv_test_comm", NEEDS),
    ("nrt_async_sendrecv_test_request", NEEDS),
    ("nrt_barrier", NEEDS),
    ("nrt_build_global_comm", NEEDS),
    ("nrt_cc_global_comm_init", NEEDS),
    ("nrt_close", always(Void)),
    ("nrt_debug_client_connect", NEEDS),
    ("nrt_debug_client_connect_close", always(Void)),
    ("nrt_debug_client_read_one_event", NEEDS),
    ("nrt_destroy_tensor_set", always(Void)),
    ("nrt_execute", NEEDS),
    ("nrt_execute_repeat", NEEDS),
    ("nrt_free_model_tensor_info", NULL),
    ("nrt_get_attached_efa_bdf", NEEDS),
    ("nrt_get_dmabuf_fd", NEEDS),
    ("nrt_get_hbm_mmap_va", NEEDS),
    ("nrt_get_instance_info", NULL),
    ("nrt_get_libnccl_net", always(Number(0))),
    ("nrt_get_model_info", NEEDS),
    ("nrt_get_model_instance_count", NEEDS),
    ("nrt_get_model_nc_count", NEEDS),
    ("nrt_get_model_tensor_info", NEEDS),
    ("nrt_get_model_vnc_count", NEEDS),
    ("nrt_get_status_as_str", always(Pointer)),
    ("nrt_get_tensor_from_tensor_set", NEEDS),
    ("nrt_get_total_nc_count", NULL),
    ("nrt_get_total_vnc_count", NULL),
    ("nrt_get_version", NULL),
    ("nrt_get_visible_nc_count", NULL),
    ("nrt_get_visible_vnc_count", NULL),
    ("nrt_get_vnc_memory_stats", NEEDS),
    ("nrt_host_device_id_get", NEEDS),
    ("nrt_host_device_id_rid_map_get", NEEDS),
    // The framework 0 is none.
    ("nrt_init", NULL),
    ("nrt_inspect_begin", WORKS),
    // The function before has begun one.
    ("nrt_inspect_begin_with_options", NEEDS),
    ("nrt_inspect_config_allocate", NULL),
    ("nrt_inspect_config_free", NULL),
    ("nrt_inspect_config_free_activity_types", always(Void)),
    ("nrt_inspect_config_get_all_activity_types", NULL),
    ("nrt_inspect_config_get_enabled_activity_types", NULL),
    ("nrt_inspect_config_set_activity", NULL),
    (
        "nrt_inspect_config_set_capture_enabled_for_event_type_string",
        NULL,
    ),
    ("nrt_inspect_config_set_capture_enabled_for_nc", NULL),
    ("nrt_inspect_config_set_defaults", NULL),
    ("nrt_inspect_config_set_enable_inspect", NULL),
    ("nrt_inspect_config_set_enable_inspect_on_fail", NULL),
    ("nrt_inspect_config_set_output_dir", NULL),
    ("nrt_inspect_config_set_session_id", NULL),
    ("nrt_inspect_config_set_sys_trace_max_events_per_nc", NULL),
    ("nrt_inspect_stop", WORKS),
    ("nrt_load", NEEDS),
    ("nrt_load_collectives", NEEDS),
    ("nrt_memcpy_to_device", NEEDS),
    ("nrt_profile_continuous_options_allocate", NULL),
    ("nrt_profile_continuous_options_free", NULL),
    ("nrt_profile_continuous_options_set_output_dir", NULL),
    ("nrt_profile_continuous_save", NEEDS),
    ("nrt_profile_continuous_start", NEEDS),
    ("nrt_profile_continuous_stop", NEEDS),
    ("nrt_profile_start", NEEDS),
    ("nrt_profile_stop", NEEDS),
    ("nrt_register_async_exec_callback", WORKS),
    ("nrt_set_pool_eng_ucode", NULL),
    ("nrt_sys_trace_buffer_free", always(Void)),
    ("nrt_sys_trace_config_allocate", NULL),
    ("nrt_sys_trace_config_free", always(Void)),
    ("nrt_sys_trace_config_get_enabled_event_types", NULL),
    (
        "nrt_sys_trace_config_set_capture_enabled_for_event_type",
        NULL,
    ),
    (
        "nrt_sys_trace_config_set_capture_enabled_for_nc",
        always(Void),
    ),
    ("nrt_sys_trace_config_set_defaults", always(Void)),
    ("nrt_sys_trace_config_set_max_events_per_nc", always(Void)),
    ("nrt_sys_trace_fetch_events", NEEDS),
    ("nrt_sys_trace_fetch_options_allocate", NULL),
    ("nrt_sys_trace_fetch_options_free", always(Void)),
    ("nrt_sys_trace_fetch_options_set_defaults", always(Void)),
    (
        "nrt_sys_trace_fetch_options_set_max_events_per_nc",
        always(Void),
    ),
    ("nrt_sys_trace_fetch_options_set_nc_idx", always(Void)),
    ("nrt_sys_trace_free_event_types", always(Void)),
    ("nrt_sys_trace_get_event_types", NULL),
    // Null stands for the defaults.
    ("nrt_sys_trace_start", WORKS),
    ("nrt_sys_trace_stop", WORKS),
    ("nrt_tensor_allocate", NEEDS),
    ("nrt_tensor_allocate_empty", NEEDS),
    ("nrt_tensor_allocate_slice", NEEDS),
    ("nrt_tensor_attach_buffer", NEEDS),
    ("nrt_tensor_check_output_completion", NEEDS),
    ("nrt_tensor_copy", NEEDS),
    ("nrt_tensor_free", always(Void)),
    ("nrt_tensor_get_device_allocation_info", NEEDS),
    ("nrt_tensor_get_size", always(Number(0))),
    ("nrt_tensor_get_va", always(Number(0))),
    ("nrt_tensor_memset", NEEDS),
    ("nrt_tensor_read", NEEDS),
    // No batches are no mistake.
    ("nrt_tensor_read_batch", WORKS),
    ("nrt_tensor_reset_output_completion", NEEDS),
    ("nrt_tensor_write", NEEDS),
    ("nrt_tensor_write_batch", WORKS),
    ("nrt_trace_start", WORKS),
    ("nrt_trace_stop", NEEDS),
    ("nrt_unload", NEEDS),
    ("nrta_cc_prepare", NEEDS),
    ("nrta_cc_schedule", NEEDS),
    ("nrta_error_tracker_create", NEEDS),
    ("nrta_error_tracker_destroy", always(Void)),
    ("nrta_error_tracker_get_list", NEEDS),
    ("nrta_execute_schedule", NEEDS),
    ("nrta_get_completion_handle", NEEDS),
    ("nrta_get_sequence", NEEDS),
    ("nrta_is_completed", NEEDS),
    ("nrta_tensor_copy", NEEDS),
    ("nrta_tensor_read", NEEDS),
    ("nrta_tensor_write", NEEDS),
];

/// Leaves the state alone, so that the rest can be called in it.
const LAST: &str = "nrt_close";

struct Library(*mut c_void);

impl Library {
    fn open() -> Self {
        let path = CString::new(common::library().to_str().unwrap()).unwrap();
        // SAFETY: the path is text that ends with NUL.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null());
        Self(library)
    }

    fn call(&self, name: &str, first: usize) -> usize {
        let symbol = CString::new(name).unwrap();
        // SAFETY: the library is open, and the name is text that ends with NUL.
        let address = unsafe { libc::dlsym(self.0, symbol.as_ptr()) };
        assert!(!address.is_null(), "{name}");
        // SAFETY: the address is a C function's whose parameters are integers and
        // pointers, at most eight of them, and whose answer is one or none.
        let function = unsafe { std::mem::transmute::<*mut c_void, Function>(address) };
        // SAFETY: every function takes null where it takes a pointer.
        unsafe { function(first, 0, 0, 0, 0, 0, 0, 0) }
    }

    fn check(&self, state: usize) {
        let mut wrong = BTreeMap::new();
        for (name, answers) in TABLE {
            if *name == LAST {
                continue;
            }
            let raw = self.call(name, 0);
            let bytes = raw.to_ne_bytes();
            let low = i32::from_ne_bytes(bytes[..4].try_into().unwrap());
            let wanted = answers[state];
            let found = match wanted {
                Answer::Status(_) => Answer::Status(low),
                Int(_) => Int(low),
                Bool(_) => Bool(bytes[0] != 0),
                Number(_) => Number(raw),
                Pointer if raw != 0 => Pointer,
                Pointer => Number(0),
                Void => Void,
            };
            if found != wanted {
                wrong.insert(*name, (wanted, found));
            }
        }
        assert!(wrong.is_empty(), "state {state}: {wrong:#?}");
    }
}

#[test]
fn every_function_answers_in_every_state_as_the_table_says() {
    let mut listed: Vec<_> = TABLE.iter().map(|(name, _)| *name).collect();
    let mut exported: Vec<_> = nrt::exports().map(|export| export.name).collect();
    listed.sort_unstable();
    exported.sort_unstable();
    assert_eq!(listed, exported);
    let library = Library::open();
    // An inspection that ends writes what it has to the working directory.
    let folder = tempfile::tempdir().unwrap();
    std::env::set_current_dir(folder.path()).unwrap();
    library.check(0);
    library.call(LAST, 0);
    library.check(0);
    for _ in 0..2 {
        let status = library.call("nrt_init", 1);
        assert_eq!(
            i32::from_ne_bytes(status.to_ne_bytes()[..4].try_into().unwrap()),
            0
        );
        library.check(1);
        library.call(LAST, 0);
        library.check(2);
        library.call(LAST, 0);
        library.check(2);
    }
}
