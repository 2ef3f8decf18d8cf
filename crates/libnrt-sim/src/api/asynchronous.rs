//! Work in the background.

use metaneff_schema::nrt::Status;

use crate::export::{export, unsupported};
use crate::runtime;

export! {
    header "nrt_async.h", node "NRT_3.0.0";

    /// Not simulated.
    fn nrta_tensor_write(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrta_tensor_read(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrta_tensor_copy(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrta_execute_schedule(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrta_cc_prepare(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrta_cc_schedule(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrta_is_completed(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrta_get_sequence(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrta_get_completion_handle(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrta_error_tracker_create(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrta_error_tracker_destroy(call) {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrta_error_tracker_get_list(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }
}

pub(crate) mod experimental {
    //! `nrt_experimental.h`.

    use super::*;

    export! {
        header "nrt_experimental.h", node "NRT_2.0.0";

        /// Not simulated.
        fn nrt_async_drain_queued_execs(call) -> Status {
            runtime::current(call)?;
            Err(unsupported(call))
        }

        /// Not simulated.
        fn nrt_register_async_exec_callback(call) -> Status {
            runtime::current(call)?;
            Err(unsupported(call))
        }
    }
}
