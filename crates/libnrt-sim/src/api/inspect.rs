//! Inspection.

use metaneff_schema::nrt::Status;

use crate::export::{export, unsupported};
use crate::runtime;

export! {
    header "nrt_profile.h", node "NRT_2.0.0";

    /// Not simulated.
    fn nrt_inspect_begin(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_inspect_begin_with_options(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_inspect_config_allocate(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_inspect_config_free(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_inspect_config_free_activity_types(call) {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_inspect_config_get_all_activity_types(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_inspect_config_get_enabled_activity_types(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_inspect_config_set_activity(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_inspect_config_set_capture_enabled_for_event_type_string(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_inspect_config_set_capture_enabled_for_nc(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_inspect_config_set_defaults(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_inspect_config_set_enable_inspect(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_inspect_config_set_enable_inspect_on_fail(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_inspect_config_set_output_dir(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_inspect_config_set_session_id(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_inspect_config_set_sys_trace_max_events_per_nc(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_inspect_stop(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }
}
