//! Meetings of ranks.

use std::collections::BTreeMap;

use metaneff_binding::{Backend as _, BackendError, CollectiveContext, Core};
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
    let context = CollectiveContext::new(rank, count);
    check_rank(call, "g_device_id", runtime, core, context)?;
    Ok(context)
}

/// Notes a rank. A core can be set up again, as the same rank only.
fn join(
    call: &'static str,
    runtime: &Runtime,
    core: u32,
    rank: u32,
    count: u32,
) -> Result<Status, BackendError> {
    runtime.sim.memory_stats(Core::new(core))?;
    if rank >= count {
        let detail = format!("there is no rank {rank} in a world of {count}");
        return Err(invalid(call, "g_device_id", detail));
    }
    let wanted = CollectiveContext::new(rank, count);
    let mut ranks = lock(&runtime.ranks);
    agree(call, "g_device_id", &ranks, core, wanted)?;
    ranks.insert(core, wanted);
    Ok(Status::SUCCESS)
}

/// Refuses what contradicts the worlds that were built: a core is one rank, and a
/// rank one core. Where none was built, there is nothing to contradict.
fn agree(
    call: &'static str,
    argument: &'static str,
    ranks: &BTreeMap<u32, CollectiveContext>,
    core: u32,
    wanted: CollectiveContext,
) -> Result<(), BackendError> {
    let other = ranks
        .iter()
        .find(|(at, has)| (**at == core) != (**has == wanted));
    match other {
        None => Ok(()),
        Some((at, has)) => {
            let detail = format!(
                "core {core} as rank {} of {}, but core {at} is rank {} of {} already",
                wanted.rank, wanted.world_size, has.rank, has.world_size
            );
            Err(invalid(call, argument, detail))
        }
    }
}

/// As [`agree`], for the rank that a collective names.
pub(crate) fn check_rank(
    call: &'static str,
    argument: &'static str,
    runtime: &Runtime,
    core: Core,
    wanted: CollectiveContext,
) -> Result<(), BackendError> {
    agree(call, argument, &lock(&runtime.ranks), core.index(), wanted)
}
