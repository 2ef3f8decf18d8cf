//! System traces.

use metaneff_schema::nrt::Status;

use crate::export::{export, unsupported};
use crate::runtime;

export! {
    header "nrt_sys_trace.h", node "NRT_2.0.0";

    /// Not simulated.
    fn nrt_sys_trace_buffer_free(call) {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_sys_trace_config_allocate(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_sys_trace_config_free(call) {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_sys_trace_config_get_enabled_event_types(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_sys_trace_config_set_capture_enabled_for_event_type(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_sys_trace_config_set_capture_enabled_for_nc(call) {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_sys_trace_config_set_defaults(call) {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_sys_trace_config_set_max_events_per_nc(call) {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_sys_trace_fetch_events(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_sys_trace_fetch_options_allocate(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_sys_trace_fetch_options_free(call) {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_sys_trace_fetch_options_set_defaults(call) {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_sys_trace_fetch_options_set_max_events_per_nc(call) {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_sys_trace_fetch_options_set_nc_idx(call) {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_sys_trace_free_event_types(call) {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_sys_trace_get_event_types(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_sys_trace_start(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_sys_trace_stop(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }
}
