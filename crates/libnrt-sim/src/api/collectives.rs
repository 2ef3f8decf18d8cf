//! Meetings of ranks.

use metaneff_binding::{Backend as _, BackendError, CollectiveContext};
use metaneff_schema::nrt::Status;

use crate::export::{export, invalid};
use crate::pointers::{Bytes, BytesMut};
use crate::runtime::{self, Runtime, lock};

export! {
    header "nrt.h", node "NRT_2.0.0";

    /// Notes what a core is of a world. It waits for no one: ranks of one process
    /// may be set up by one thread.
    fn nrt_build_global_comm(
        call; vnc: i32, g_device_id: u32, g_device_count: u32,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let core = runtime::core(call, "vnc", vnc)?.index();
        join(call, &runtime, core, g_device_id, g_device_count)
    }

    /// As `nrt_build_global_comm`, for collectives outside of a NEFF.
    fn nrt_cc_global_comm_init(
        call; vnc: u32, g_device_id: u32, g_device_count: u32,
    ) -> Status {
        let runtime = runtime::current(call)?;
        join(call, &runtime, vnc, g_device_id, g_device_count)
    }
}

pub(crate) mod experimental {
    //! `nrt_experimental.h`.

    use super::*;

    export! {
        header "nrt_experimental.h", node "NRT_2.0.0";

        /// Brings the ranks' bytes together, in the order of the ranks.
        fn nrt_all_gather(
            call; vnc: i32, g_device_id: u32, g_device_count: u32, rank_input_size: u32,
            input: Bytes, output: BytesMut,
        ) -> Status {
            let runtime = runtime::current(call)?;
            let mut output = output;
            let context = context(call, &runtime, vnc, g_device_id, g_device_count)?;
            let size = usize::try_from(rank_input_size).unwrap_or(usize::MAX);
            let ranks = usize::try_from(g_device_count).unwrap_or(usize::MAX);
            let whole = size.checked_mul(ranks).ok_or_else(|| {
                invalid(call, "rank_input_size", "the output exceeds any memory")
            })?;
            let part = input.slice(call, "input", size)?;
            output.address(call, "output")?;
            let limit = runtime.sim.execution_timeout();
            let gathered = runtime.sim.all_gather(context, part, limit)?;
            if gathered.len() != whole {
                let detail = format!("the ranks bring {} bytes, not {whole}", gathered.len());
                return Err(invalid(call, "rank_input_size", detail));
            }
            output.slice(call, "output", whole)?.copy_from_slice(&gathered);
            Ok(Status::SUCCESS)
        }

        /// Waits until all ranks have come here.
        fn nrt_barrier(call; vnc: i32, g_device_id: u32, g_device_count: u32) -> Status {
            let runtime = runtime::current(call)?;
            let context = context(call, &runtime, vnc, g_device_id, g_device_count)?;
            runtime.sim.barrier(context, runtime.sim.execution_timeout())?;
            Ok(Status::SUCCESS)
        }
    }
}

fn context(
    call: &'static str,
    runtime: &Runtime,
    vnc: i32,
    rank: u32,
    count: u32,
) -> Result<CollectiveContext, BackendError> {
    let core = runtime::core(call, "vnc", vnc)?;
    runtime.sim.memory_stats(core)?;
    Ok(CollectiveContext::new(rank, count))
}

/// Notes a rank. A core can be set up again, as the same rank only.
fn join(
    call: &'static str,
    runtime: &Runtime,
    core: u32,
    rank: u32,
    count: u32,
) -> Result<Status, BackendError> {
    runtime
        .sim
        .memory_stats(metaneff_binding::Core::new(core))?;
    if rank >= count {
        let detail = format!("there is no rank {rank} in a world of {count}");
        return Err(invalid(call, "g_device_id", detail));
    }
    let wanted = CollectiveContext::new(rank, count);
    let mut ranks = lock(&runtime.ranks);
    let other = ranks
        .iter()
        .find(|(at, has)| (**at == core && **has != wanted) || (**at != core && **has == wanted));
    if let Some((at, has)) = other {
        let detail = format!(
            "core {at} is rank {} of {} already",
            has.rank, has.world_size
        );
        return Err(invalid(call, "g_device_id", detail));
    }
    ranks.insert(core, wanted);
    Ok(Status::SUCCESS)
}
