//! Debug streams.

use metaneff_schema::nrt::Status;

use crate::export::{export, unsupported};
use crate::runtime;

export! {
    header "ndebug_stream.h", node "NRT_2.0.0";

    /// Not simulated.
    fn nrt_debug_client_connect(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_debug_client_connect_close(call) {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_debug_client_read_one_event(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }
}
