//! Collective internals.

use metaneff_schema::nrt::Status;

use crate::export::{export, unsupported};
use crate::runtime;

export! {
    header "nec.h", node "NRT_2.0.0";

    /// Not simulated.
    fn nec_build_port_and_rid_map(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nec_get_device_count(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nec_get_device_pci_bdf(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nec_get_dynamic_recv_offset_bytes(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nec_get_dynamic_send_offset_bytes(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nec_get_dynamic_send_size_bytes(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nec_get_p2p_pod_peer_node(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nec_get_peer_mla_idx(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nec_get_version_info(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nec_get_virtual_core_size(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nec_inc_semaphore(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nec_is_mla_available(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nec_mla_idx_to_rid(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nec_ndl_printk(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nec_pod_node_can_access_peer_node(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nec_rid_to_mla_idx(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nec_set_recv_size_bytes(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }
}
