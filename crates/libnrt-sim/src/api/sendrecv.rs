//! Sending tensors.

use metaneff_schema::nrt::Status;

use crate::export::{export, unsupported};
use crate::runtime;

export! {
    header "nrt_async_sendrecv.h", node "NRT_2.0.0";

    /// Not simulated.
    fn nrt_async_sendrecv_accept(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_async_sendrecv_close(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_async_sendrecv_connect(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_async_sendrecv_flush(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_async_sendrecv_get_max_num_communicators_per_lnc(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_async_sendrecv_get_max_num_pending_request(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_async_sendrecv_init(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_async_sendrecv_recv_tensor(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_async_sendrecv_send_tensor(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_async_sendrecv_test_comm(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_async_sendrecv_test_request(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }
}
