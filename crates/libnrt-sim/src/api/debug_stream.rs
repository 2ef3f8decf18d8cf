//! Debug streams.

use std::ffi::{c_int, c_void};

use metaneff_binding::Backend as _;
use metaneff_schema::nrt::Status;

use crate::abi::DebugHeader;
use crate::blocks;
use crate::export::{export, failed, failure, invalid};
use crate::pointers::Out;
use crate::runtime;
use crate::streams;

export! {
    header "ndebug_stream.h", node "NRT_2.0.0";

    /// Connects to the stream of a core. The descriptor is the library's: it may
    /// be polled, and is closed by `nrt_debug_client_connect_close`.
    fn nrt_debug_client_connect(
        call; logical_nc_idx: c_int, stream_fd: Out<c_int>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let place = stream_fd.place(call, "stream_fd")?;
        let core = runtime::core(call, "logical_nc_idx", logical_nc_idx)?;
        runtime.sim.memory_stats(core)?;
        let connected = runtime.streams.connect(core.index());
        let stream = connected.map_err(|e| failed(call, Status::RESOURCE, e.to_string()))?;
        place.set(stream.ok_or_else(|| {
            invalid(call, "logical_nc_idx", format!("{core} has a client already"))
        })?);
        Ok(Status::SUCCESS)
    }

    /// Ends a connection.
    fn nrt_debug_client_connect_close(call; stream_fd: c_int) {
        if let Ok(runtime) = runtime::current(call) {
            runtime.streams.disconnect(stream_fd);
        }
        Ok(())
    }

    /// Takes the next event; `NRT_QUEUE_EMPTY` if there is none. The payload is
    /// the caller's, who frees it with `free`.
    fn nrt_debug_client_read_one_event(
        call; stream_fd: c_int, header: Out<DebugHeader>, payload: Out<*mut c_void>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let header = header.place(call, "header")?;
        let place = payload.place(call, "payload")?;
        let event = runtime.streams.next(stream_fd).ok_or_else(|| {
            invalid(call, "stream_fd", format!("{stream_fd} is no stream"))
        })?;
        let Some(event) = event else {
            // No failure: there is nothing to log.
            return Ok(Status::QUEUE_EMPTY);
        };
        let block = blocks::copy(&event);
        place.set(block.ok_or_else(|| failure(call, Status::FAIL_HOST_MEM_ALLOC))?.as_ptr());
        header.set(DebugHeader {
            data_size: u64::try_from(event.len()).unwrap_or(u64::MAX),
            kind: streams::TENSOR_READ,
            reserved: [0; 52],
        });
        Ok(Status::SUCCESS)
    }
}
