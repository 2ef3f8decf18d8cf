//! What the library exports: each function of the public headers, in its version
//! node, under the library's name.

#![expect(
    clippy::unwrap_used,
    reason = "a failure is the test's answer, in helpers too"
)]
#![expect(
    dead_code,
    reason = "each test program uses a part of the common module"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_char, c_void};
use std::process::Command;

/// Functions of the public headers of AWS Neuron, by header: the interface that
/// clients link with. Source: `src/libnrt/include/nrt` of the repository
/// aws-neuron/aws-neuron-sdk.
const HEADERS: &[(&str, &str)] = &[
    (
        "nrt.h",
        "nrt_get_instance_info nrt_init nrt_close nrt_load nrt_load_collectives nrt_unload \
         nrt_get_model_nc_count nrt_get_model_vnc_count nrt_get_total_nc_count \
         nrt_get_total_vnc_count nrt_get_visible_nc_count nrt_get_visible_vnc_count \
         nrt_allocate_tensor_set nrt_destroy_tensor_set nrt_add_tensor_to_tensor_set \
         nrt_get_tensor_from_tensor_set nrt_execute nrt_execute_repeat nrt_build_global_comm \
         nrt_tensor_allocate nrt_tensor_free nrt_tensor_read nrt_tensor_write \
         nrt_tensor_read_batch nrt_tensor_write_batch nrt_tensor_copy nrt_tensor_get_size \
         nrt_tensor_memset nrt_tensor_allocate_empty nrt_tensor_attach_buffer \
         nrt_tensor_allocate_slice nrt_tensor_get_va nrt_tensor_get_device_allocation_info \
         nrt_tensor_check_output_completion nrt_tensor_reset_output_completion \
         nrt_get_dmabuf_fd nrt_host_device_id_get nrt_host_device_id_rid_map_get \
         nrt_get_hbm_mmap_va nrt_get_vnc_memory_stats nrt_get_attached_efa_bdf \
         nrt_cc_global_comm_init",
    ),
    ("nrt_status.h", "nrt_get_status_as_str"),
    ("nrt_version.h", "nrt_get_version"),
    (
        "nrt_experimental.h",
        "nrt_get_model_tensor_info nrt_get_model_instance_count nrt_free_model_tensor_info \
         nrt_trace_start nrt_trace_stop nrt_get_libnccl_net nrt_set_pool_eng_ucode \
         nrt_memcpy_to_device nrt_register_async_exec_callback nrt_barrier nrt_all_gather \
         nrt_async_drain_queued_execs nrt_get_model_info",
    ),
    (
        "nrt_async.h",
        "nrta_tensor_write nrta_tensor_read nrta_tensor_copy nrta_execute_schedule \
         nrta_cc_prepare nrta_cc_schedule nrta_is_completed nrta_get_sequence \
         nrta_get_completion_handle nrta_error_tracker_create nrta_error_tracker_destroy \
         nrta_error_tracker_get_list",
    ),
    (
        "nrt_async_sendrecv.h",
        "nrt_async_sendrecv_get_max_num_communicators_per_lnc \
         nrt_async_sendrecv_get_max_num_pending_request nrt_async_sendrecv_init \
         nrt_async_sendrecv_close nrt_async_sendrecv_connect nrt_async_sendrecv_accept \
         nrt_async_sendrecv_test_comm nrt_async_sendrecv_send_tensor \
         nrt_async_sendrecv_recv_tensor nrt_async_sendrecv_test_request \
         nrt_async_sendrecv_flush",
    ),
    (
        "nrt_profile.h",
        "nrt_profile_start nrt_profile_stop nrt_profile_continuous_options_allocate \
         nrt_profile_continuous_options_free nrt_profile_continuous_options_set_output_dir \
         nrt_profile_continuous_start nrt_profile_continuous_save nrt_profile_continuous_stop \
         nrt_inspect_begin nrt_inspect_stop nrt_inspect_config_allocate \
         nrt_inspect_config_set_defaults nrt_inspect_config_free \
         nrt_inspect_config_set_session_id nrt_inspect_config_set_output_dir \
         nrt_inspect_config_set_sys_trace_max_events_per_nc \
         nrt_inspect_config_set_capture_enabled_for_nc \
         nrt_inspect_config_set_capture_enabled_for_event_type_string \
         nrt_inspect_config_set_enable_inspect nrt_inspect_config_set_enable_inspect_on_fail \
         nrt_inspect_begin_with_options nrt_inspect_config_get_all_activity_types \
         nrt_inspect_config_get_enabled_activity_types \
         nrt_inspect_config_free_activity_types nrt_inspect_config_set_activity",
    ),
    (
        "nrt_sys_trace.h",
        "nrt_sys_trace_config_allocate nrt_sys_trace_config_set_defaults \
         nrt_sys_trace_config_free nrt_sys_trace_config_set_max_events_per_nc \
         nrt_sys_trace_config_set_capture_enabled_for_nc \
         nrt_sys_trace_config_set_capture_enabled_for_event_type \
         nrt_sys_trace_get_event_types nrt_sys_trace_free_event_types \
         nrt_sys_trace_config_get_enabled_event_types nrt_sys_trace_start nrt_sys_trace_stop \
         nrt_sys_trace_fetch_options_allocate nrt_sys_trace_fetch_options_set_defaults \
         nrt_sys_trace_fetch_options_free nrt_sys_trace_fetch_options_set_max_events_per_nc \
         nrt_sys_trace_fetch_options_set_nc_idx nrt_sys_trace_fetch_events \
         nrt_sys_trace_buffer_free",
    ),
    (
        "ndebug_stream.h",
        "nrt_debug_client_connect nrt_debug_client_connect_close \
         nrt_debug_client_read_one_event",
    ),
    (
        "nec.h",
        "nec_inc_semaphore nec_get_dynamic_send_size_bytes nec_get_dynamic_send_offset_bytes \
         nec_get_dynamic_recv_offset_bytes nec_set_recv_size_bytes nec_get_device_count \
         nec_get_device_pci_bdf nec_get_virtual_core_size nec_get_version_info \
         nec_build_port_and_rid_map nec_is_mla_available nec_mla_idx_to_rid nec_rid_to_mla_idx \
         nec_get_peer_mla_idx nec_get_p2p_pod_peer_node nec_pod_node_can_access_peer_node \
         nec_ndl_printk",
    ),
];

/// Functions of `nec.h`, which the count of 126 leaves out.
const NEC: usize = 17;

fn public() -> BTreeMap<&'static str, &'static str> {
    let headers = HEADERS.iter();
    headers
        .flat_map(|(header, names)| names.split_whitespace().map(move |name| (name, *header)))
        .collect()
}

fn node_of(name: &str) -> &'static str {
    if name.starts_with("nrta_") {
        "NRT_3.0.0"
    } else {
        "NRT_2.0.0"
    }
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .arg(common::library())
        .env("LC_ALL", "C")
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_list_of_exports_is_that_of_the_headers() {
    let public = public();
    assert_eq!(public.len(), 126 + NEC);
    let listed: BTreeMap<_, _> = nrt::exports().map(|e| (e.name, e.header)).collect();
    assert_eq!(listed, public);
    assert_eq!(nrt::exports().count(), listed.len());
    for export in nrt::exports() {
        assert_eq!(export.node, node_of(export.name), "{}", export.name);
    }
}

#[test]
fn the_library_exports_the_list_and_nothing_else() {
    let symbols = output("nm", &["-D", "--defined-only"]);
    let mut exported = BTreeSet::new();
    for line in symbols.lines() {
        let mut words = line.split_whitespace().skip(1);
        let (kind, symbol) = (words.next().unwrap(), words.next().unwrap());
        if kind == "A" {
            assert!(symbol.starts_with("NRT_"), "{symbol}");
            continue;
        }
        assert_eq!(kind, "T", "{symbol}");
        let (name, node) = symbol.split_once("@@").unwrap_or((symbol, ""));
        assert_eq!(node, node_of(name), "{symbol}");
        exported.insert(name.to_owned());
    }
    let public: BTreeSet<_> = public().keys().map(|name| (*name).to_owned()).collect();
    assert_eq!(exported, public);
}

#[test]
fn the_version_nodes_are_the_runtime_s() {
    let versions = output("readelf", &["-V", "-W"]);
    let definitions = versions.split("Version definition section").nth(1).unwrap();
    let definitions = definitions.split("Version needs section").next().unwrap();
    let names: Vec<_> = definitions
        .lines()
        .filter_map(|line| line.split_once("Name: "))
        .map(|(_, name)| name.trim())
        .collect();
    assert_eq!(
        names,
        ["libnrt.so.1", "NRT_2.0.0", "NRT_3.0.0"],
        "{definitions}"
    );
}

#[test]
fn the_soname_is_the_runtime_s_and_the_library_stays() {
    let dynamic = output("readelf", &["-d", "-W"]);
    assert!(dynamic.contains("soname: [libnrt.so.1]"), "{dynamic}");
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
}

#[test]
fn each_function_is_found_in_its_node_and_in_no_other() {
    let path = CString::new(common::library().to_str().unwrap()).unwrap();
    // SAFETY: the path is text that ends with NUL.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null());
    let find = |name: &str, node: &str| -> *mut c_void {
        let (name, node) = (CString::new(name).unwrap(), CString::new(node).unwrap());
        // SAFETY: the library is open and both texts end with NUL.
        unsafe { dlvsym(library, name.as_ptr(), node.as_ptr()) }
    };
    for export in nrt::exports() {
        let other = if export.node == "NRT_2.0.0" {
            "NRT_3.0.0"
        } else {
            "NRT_2.0.0"
        };
        assert!(!find(export.name, export.node).is_null(), "{}", export.name);
        assert!(find(export.name, other).is_null(), "{}", export.name);
        assert!(find(export.name, "NRT_1.0.0").is_null(), "{}", export.name);
    }
}

unsafe extern "C" {
    /// `dlfcn.h`, for which the `libc` crate has no declaration on every target.
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}
