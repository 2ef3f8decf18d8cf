//! `nrt_init`, `nrt_close`, and what can be asked without them.

use std::ffi::{c_char, c_int};

use metaneff_schema::nrt::Status;

use crate::abi::{InstanceInfo, Version, field};
use crate::export::{export, invalid, unsupported};
use crate::pointers::{In, Out, Text};
use crate::runtime;

pub(crate) mod version {
    //! `nrt_version.h`.

    use super::*;

    export! {
        header "nrt_version.h", node "NRT_2.0.0";

        /// Fills in as much of the version as the caller has room for. The numbers
        /// are those of the interface in the public headers; `rt_detail` says that
        /// this is a simulator.
        fn nrt_get_version(call; ver: Out<u8>, size: usize) -> Status {
            let version = Version {
                major: 2,
                minor: 0,
                patch: 0,
                maintenance: 0,
                detail: field(concat!("metaneff simulator ", env!("CARGO_PKG_VERSION"))),
                git_hash: field(""),
            };
            let mut bytes = Vec::with_capacity(size_of::<Version>());
            for number in [version.major, version.minor, version.patch, version.maintenance] {
                bytes.extend_from_slice(&number.to_ne_bytes());
            }
            bytes.extend_from_slice(&version.detail);
            bytes.extend_from_slice(&version.git_hash);
            copy_out(call, "ver", &ver, &bytes, size)?;
            Ok(Status::SUCCESS)
        }
    }
}

pub(crate) mod status {
    //! `nrt_status.h`.

    use std::collections::BTreeMap;
    use std::ffi::CString;
    use std::sync::OnceLock;

    use super::*;

    export! {
        header "nrt_status.h", node "NRT_2.0.0";

        /// The enum's name of a status; never null.
        fn nrt_get_status_as_str(_call; status: Status) -> *const c_char {
            static NAMES: OnceLock<BTreeMap<i32, CString>> = OnceLock::new();
            let names = NAMES.get_or_init(|| {
                let named = Status::ALL.iter().filter_map(|status| {
                    Some((status.0, CString::new(status.name()?).ok()?))
                });
                named.collect()
            });
            Ok(names.get(&status.0).map_or(c"NRT_UNKNOWN".as_ptr(), |name| name.as_ptr()))
        }
    }
}

export! {
    header "nrt.h", node "NRT_2.0.0";

    /// Initialises the runtime from the environment.
    fn nrt_init(call; framework: u32, _fw_version: Text, _fal_version: Text) -> Status {
        runtime::init(call, framework)?;
        Ok(Status::SUCCESS)
    }

    /// Closes the runtime; all models, tensors and sets are taken back.
    fn nrt_close(call) {
        runtime::close(call)
    }

    /// What instance is simulated.
    fn nrt_get_instance_info(call; info: Out<u8>, size: usize) -> Status {
        runtime::check(call)?;
        let profile = runtime::instance(call)?.profile();
        let instance = InstanceInfo {
            family: profile.family,
            size: profile.size,
            arch_name: field(profile.architecture),
            device_revision: field(profile.revision),
        };
        let mut bytes = Vec::with_capacity(size_of::<InstanceInfo>());
        bytes.extend_from_slice(&instance.family.to_ne_bytes());
        bytes.extend_from_slice(&instance.size.to_ne_bytes());
        bytes.extend_from_slice(&instance.arch_name);
        bytes.extend_from_slice(&instance.device_revision);
        copy_out(call, "info", &info, &bytes, size)?;
        Ok(Status::SUCCESS)
    }

    /// Logical cores of the instance.
    fn nrt_get_total_nc_count(call; vnc_count: Out<u32>) -> Status {
        total(call, &vnc_count)
    }

    /// Logical cores of the instance.
    fn nrt_get_total_vnc_count(call; vnc_count: Out<u32>) -> Status {
        total(call, &vnc_count)
    }

    /// Logical cores that the process sees, by the environment of this moment
    /// while the runtime is not initialised.
    fn nrt_get_visible_nc_count(call; vnc_count: Out<u32>) -> Status {
        visible(call, &vnc_count)
    }

    /// As `nrt_get_visible_nc_count`.
    fn nrt_get_visible_vnc_count(call; vnc_count: Out<u32>) -> Status {
        visible(call, &vnc_count)
    }

    /// A container's numbers of devices are the host's here.
    fn nrt_host_device_id_get(call; neuron_dev: c_int, host_device_id: Out<u32>) -> Status {
        runtime::check(call)?;
        let place = host_device_id.place(call, "host_device_id")?;
        let chips = runtime::chips(call)?;
        let device = u32::try_from(neuron_dev).ok().filter(|device| *device < chips);
        let device = device.ok_or_else(|| {
            invalid(call, "neuron_dev", format!("there is no device {neuron_dev}, only {chips}"))
        })?;
        place.set(device);
        Ok(Status::SUCCESS)
    }

    /// Routing ids are the device ids here.
    fn nrt_host_device_id_rid_map_get(call; count: Out<u32>, map: Out<u32>) -> Status {
        runtime::check(call)?;
        let room = count.place(call, "count")?;
        map.place(call, "host_did_to_rid_map")?;
        let chips = runtime::chips(call)?;
        let entries = room.get().min(chips);
        map.fill_with(0..entries);
        room.set(entries);
        Ok(Status::SUCCESS)
    }

    /// No dma-buf can be made of simulated memory. The status is not
    /// `NRT_RESOURCE`, which network libraries take for a failure of the device.
    fn nrt_get_dmabuf_fd(call; _va: u64, _size: u64, fd: Out<c_int>) -> Status {
        runtime::current(call)?;
        fd.place(call, "fd")?;
        Err(unsupported(call))
    }

    /// Simulated memory is not mapped as a whole.
    fn nrt_get_hbm_mmap_va(
        call; _device_id: c_int, _hbm_idx: c_int, addr: Out<usize>, size: Out<usize>,
    ) -> Status {
        runtime::current(call)?;
        addr.place(call, "addr")?;
        size.place(call, "size")?;
        crate::log::once(call);
        Err(invalid(call, "hbm_idx", "the simulator maps no memory of a device"))
    }

    /// There is no network adapter.
    fn nrt_get_attached_efa_bdf(
        call; _va: In<u8>, efa_bdf: Out<u8>, len: Out<usize>,
    ) -> Status {
        runtime::current(call)?;
        efa_bdf.place(call, "efa_bdf")?;
        len.place(call, "len")?;
        Err(unsupported(call))
    }
}

fn total(call: &'static str, count: &Out<u32>) -> Result<Status, metaneff_binding::BackendError> {
    let place = count.place(call, "vnc_count")?;
    place.set(runtime::topology(call)?.total);
    Ok(Status::SUCCESS)
}

fn visible(call: &'static str, count: &Out<u32>) -> Result<Status, metaneff_binding::BackendError> {
    let place = count.place(call, "vnc_count")?;
    place.set(runtime::topology(call)?.visible.count());
    Ok(Status::SUCCESS)
}

/// Writes as much of `bytes` as fits in `size`: a caller's struct may be an older
/// or a newer one.
pub(crate) fn copy_out(
    call: &'static str,
    argument: &'static str,
    target: &Out<u8>,
    bytes: &[u8],
    size: usize,
) -> Result<usize, metaneff_binding::BackendError> {
    let place = target.place(call, argument)?;
    if size == 0 {
        return Err(invalid(call, "size", "the struct has no room"));
    }
    let written = size.min(bytes.len());
    place.fill(&bytes[..written]);
    Ok(written)
}
