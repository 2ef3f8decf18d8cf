//! What a collectives library asks of the runtime: `nec.h`.
//!
//! Counts, versions and identities are answered. There is no fabric, so that
//! ports, peers and pods have no answer, and no network buffers to look into.

use std::ffi::{c_char, c_int, c_void};

use metaneff_schema::nrt::Status;

use crate::abi::{NecVersion, field};
use crate::export::{export, invalid, unsupported};
use crate::pointers::{In, Out};
use crate::runtime;

export! {
    header "nec.h", node "NRT_2.0.0";

    /// There are no ports.
    fn nec_build_port_and_rid_map(
        call; _local_nec_dev_id: c_int, _mla_indexes: Out<c_int>, _host_device_ids: Out<c_int>,
        _count: c_int,
    ) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Chips that the process can open, and their numbers as far as the array goes.
    fn nec_get_device_count(
        call; available_devices_array: Out<u32>, array_size: u32,
    ) -> c_int {
        let chips = runtime::chips(call)?;
        if available_devices_array.optional().is_some() {
            available_devices_array.fill_with(0..chips.min(array_size));
        }
        c_int::try_from(chips).map_err(|_| unsupported(call))
    }

    /// There is no bus.
    fn nec_get_device_pci_bdf(
        call; _neuron_dev: c_int, _domain: Out<u32>, _bus_num: Out<u32>, _pci_slot: Out<u8>,
        _dev_func: Out<u8>,
    ) -> c_int {
        Err(unsupported(call))
    }

    /// There is no network.
    fn nec_get_dynamic_recv_offset_bytes(
        call; _dyn_input: In<c_void>, _data_type_sz: usize, _src_rank: c_int, _rank_n: c_int,
    ) -> usize {
        Err(unsupported(call))
    }

    /// There is no network.
    fn nec_get_dynamic_send_offset_bytes(
        call; _dyn_input: In<c_void>, _data_type_sz: usize, _dst_rank: c_int, _rank_n: c_int,
    ) -> usize {
        Err(unsupported(call))
    }

    /// There is no network.
    fn nec_get_dynamic_send_size_bytes(
        call; _dyn_input: In<c_void>, _data_type_sz: usize, _dst_rank: c_int, _rank_n: c_int,
    ) -> usize {
        Err(unsupported(call))
    }

    /// There is no pod.
    fn nec_get_p2p_pod_peer_node(
        call; _nec_dev_id: u32, _node: c_int, _port_distance: u32, _peer_node: Out<c_int>,
    ) -> c_int {
        Err(unsupported(call))
    }

    /// There are no ports.
    fn nec_get_peer_mla_idx(
        call; _local_nec_dev_id: c_int, _mla_idx: c_int, _port: c_int,
    ) -> c_int {
        Err(unsupported(call))
    }

    /// The version of the interface, without what newer headers may add.
    fn nec_get_version_info(call; version_info: Out<NecVersion>) -> Status {
        version_info.place(call, "version_info")?.set(NecVersion {
            major: 2,
            minor: 0,
            patch: 0,
            maintenance: 0,
            git_hash: field(""),
            compatibility: 0,
        });
        Ok(Status::SUCCESS)
    }

    /// Physical cores of a logical one.
    fn nec_get_virtual_core_size(call; virtual_core_size: Out<u32>) -> Status {
        let place = virtual_core_size.place(call, "virtual_core_size")?;
        place.set(runtime::topology(call)?.virtual_core_size);
        Ok(Status::SUCCESS)
    }

    /// There are no semaphores.
    fn nec_inc_semaphore(call; _sem_inc_addr: Out<u32>, _val: u32) {
        Err(unsupported(call))
    }

    /// Whether there is a chip of this number.
    fn nec_is_mla_available(call; _local_nec_dev_id: c_int, mla_idx: c_int) -> bool {
        let chips = runtime::chips(call)?;
        Ok(u32::try_from(mla_idx).is_ok_and(|index| index < chips))
    }

    /// Routing ids are the numbers of the chips.
    fn nec_mla_idx_to_rid(call; _local_nec_dev_id: c_int, mla_idx: c_int) -> c_int {
        chip(call, "mla_idx", mla_idx)
    }

    /// There is no driver to print to.
    fn nec_ndl_printk(call; _str: In<c_char>, _size: u32, _action: u32) {
        Err(unsupported(call))
    }

    /// There is no pod.
    fn nec_pod_node_can_access_peer_node(
        call; _pod_type: c_int, _local_rid: u32, _local_node_id: u32, _remote_rid: u32,
        _remote_node_id: u32, _can_access_peer: Out<c_int>,
    ) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Routing ids are the numbers of the chips.
    fn nec_rid_to_mla_idx(call; _local_nec_dev_id: c_int, rid: c_int) -> c_int {
        chip(call, "rid", rid)
    }

    /// There is no network.
    fn nec_set_recv_size_bytes(
        call; _dyn_input: In<c_void>, _recv_size_bytes: usize, _data_type_sz: usize,
        _src_rank: c_int, _rank_n: c_int,
    ) {
        Err(unsupported(call))
    }
}

/// The number of a chip, if there is one of it.
fn chip(
    call: &'static str,
    argument: &'static str,
    number: c_int,
) -> Result<c_int, metaneff_binding::BackendError> {
    let chips = runtime::chips(call)?;
    match u32::try_from(number) {
        Ok(index) if index < chips => Ok(number),
        _ => Err(invalid(
            call,
            argument,
            format!("there is no chip {number} of {chips}"),
        )),
    }
}
