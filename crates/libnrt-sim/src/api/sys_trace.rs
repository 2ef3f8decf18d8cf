//! System traces.

use std::collections::BTreeSet;
use std::ffi::{c_char, c_void};
use std::sync::Mutex;

use metaneff_binding::{Backend as _, BackendError, Core};
use metaneff_schema::nrt::Status;

use crate::blocks;
use crate::export::{export, failure, invalid};
use crate::handles::{Handle, object};
use crate::pointers::{Array, Out, Text};
use crate::runtime::{self, lock};
use crate::trace::{Filter, Kind};

/// What stands behind a `nrt_sys_trace_config_t`.
#[derive(Debug, Default)]
pub(crate) struct Config(pub(crate) Mutex<Filter>);

/// What stands behind a `nrt_sys_trace_fetch_options_t`.
#[derive(Debug, Default)]
pub(crate) struct FetchOptions(Mutex<Fetch>);

#[derive(Clone, Copy, Debug, Default)]
struct Fetch {
    limit: Option<usize>,
    core: Option<u32>,
}

object!(Config, "system trace configuration");
object!(FetchOptions, "set of fetch options");

/// An array of texts that the caller gets.
type Texts = Out<*mut c_void>;

export! {
    header "nrt_sys_trace.h", node "NRT_2.0.0";

    /// Options with their defaults.
    fn nrt_sys_trace_config_allocate(call; options: Out<Handle<Config>>) -> Status {
        let place = options.place(call, "options")?;
        place.set(Handle::new(Config::default()));
        Ok(Status::SUCCESS)
    }

    /// Sets all options to their defaults.
    fn nrt_sys_trace_config_set_defaults(call; options: Handle<Config>) {
        *lock(&options.get(call, "options")?.0) = Filter::default();
        Ok(())
    }

    /// Frees options.
    fn nrt_sys_trace_config_free(call; options: Handle<Config>) {
        if !options.is_null() {
            options.take(call, "options")?;
        }
        Ok(())
    }

    /// Events of each core that wait to be fetched.
    fn nrt_sys_trace_config_set_max_events_per_nc(
        call; options: Handle<Config>, max_events_per_nc: u64,
    ) {
        let capacity = usize::try_from(max_events_per_nc).unwrap_or(usize::MAX);
        lock(&options.get(call, "options")?.0).capacity = capacity;
        Ok(())
    }

    /// Whether a core's events are kept.
    fn nrt_sys_trace_config_set_capture_enabled_for_nc(
        call; options: Handle<Config>, nc_idx: u32, enabled: bool,
    ) {
        enable_core(&mut lock(&options.get(call, "options")?.0), nc_idx, enabled);
        Ok(())
    }

    /// Whether events of a type are kept.
    fn nrt_sys_trace_config_set_capture_enabled_for_event_type(
        call; options: Handle<Config>, event_type: Text, enabled: bool,
    ) -> Status {
        let options = options.get(call, "options")?;
        enable_kind(call, &mut lock(&options.0), &event_type, enabled)
    }

    /// The types of events, which the caller frees: each, and the array.
    fn nrt_sys_trace_get_event_types(
        call; event_types: Texts, count: Out<usize>,
    ) -> Status {
        give(call, ("event_types", &event_types), &count, &Kind::ALL.map(Kind::name))
    }

    /// Frees what `nrt_sys_trace_get_event_types` gave.
    fn nrt_sys_trace_free_event_types(
        call; event_types: Array<*mut c_void>, count: usize,
    ) {
        blocks::free_texts(call, event_types, count)
    }

    /// The types of events that are kept, which the caller frees.
    fn nrt_sys_trace_config_get_enabled_event_types(
        call; options: Handle<Config>, event_types: Texts, count: Out<usize>,
    ) -> Status {
        let options = options.get(call, "options")?;
        let names: Vec<_> = lock(&options.0).kinds.iter().map(|kind| kind.name()).collect();
        give(call, ("event_types", &event_types), &count, &names)
    }

    /// Starts to keep events; what an earlier trace kept is gone. Null stands for
    /// the defaults.
    fn nrt_sys_trace_start(call; options: Handle<Config>) -> Status {
        let runtime = runtime::current(call)?;
        let filter = match options.is_null() {
            true => Filter::default(),
            false => lock(&options.get(call, "options")?.0).clone(),
        };
        runtime.recorder.start(filter);
        Ok(Status::SUCCESS)
    }

    /// Keeps no more events; those that were not fetched are gone.
    fn nrt_sys_trace_stop(call) -> Status {
        let runtime = runtime::current(call)?;
        match runtime.recorder.stop() {
            true => Ok(Status::SUCCESS),
            false => Err(invalid(call, "state", "no system trace was started")),
        }
    }

    /// Options with their defaults: all events of all cores.
    fn nrt_sys_trace_fetch_options_allocate(call; options: Out<Handle<FetchOptions>>) -> Status {
        let place = options.place(call, "options")?;
        place.set(Handle::new(FetchOptions::default()));
        Ok(Status::SUCCESS)
    }

    /// Sets all options to their defaults.
    fn nrt_sys_trace_fetch_options_set_defaults(call; options: Handle<FetchOptions>) {
        *lock(&options.get(call, "options")?.0) = Fetch::default();
        Ok(())
    }

    /// Frees options.
    fn nrt_sys_trace_fetch_options_free(call; options: Handle<FetchOptions>) {
        if !options.is_null() {
            options.take(call, "options")?;
        }
        Ok(())
    }

    /// Events of each core to fetch at most. An execution is two, which come
    /// together.
    fn nrt_sys_trace_fetch_options_set_max_events_per_nc(
        call; options: Handle<FetchOptions>, max_events_per_nc: u64,
    ) {
        let limit = usize::try_from(max_events_per_nc).unwrap_or(usize::MAX);
        lock(&options.get(call, "options")?.0).limit = Some(limit);
        Ok(())
    }

    /// The one core to fetch the events of.
    fn nrt_sys_trace_fetch_options_set_nc_idx(
        call; options: Handle<FetchOptions>, nc_idx: u64,
    ) {
        let core = u32::try_from(nc_idx).unwrap_or(u32::MAX);
        lock(&options.get(call, "options")?.0).core = Some(core);
        Ok(())
    }

    /// Takes events, as JSON. Without a trace there are none.
    fn nrt_sys_trace_fetch_events(
        call; buffer: Out<*mut c_char>, written_size: Out<usize>, options: Handle<FetchOptions>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let place = buffer.place(call, "buffer")?;
        let size = written_size.place(call, "written_size")?;
        let wanted = match options.is_null() {
            true => Fetch::default(),
            false => *lock(&options.get(call, "options")?.0),
        };
        if let Some(core) = wanted.core {
            runtime.sim.memory_stats(Core::new(core))?;
        }
        let text = runtime.recorder.fetch(wanted.core, wanted.limit.unwrap_or(usize::MAX));
        place.set(blocks::text(&text));
        size.set(text.len());
        Ok(Status::SUCCESS)
    }

    /// Frees what `nrt_sys_trace_fetch_events` gave.
    fn nrt_sys_trace_buffer_free(call; buffer: *mut c_char) {
        if buffer.is_null() || blocks::free(buffer.addr()) {
            return Ok(());
        }
        Err(failure(call, Status::INVALID_HANDLE))
    }
}

pub(crate) fn enable_core(filter: &mut Filter, core: u32, enabled: bool) {
    if enabled {
        filter.without.remove(&core);
    } else {
        filter.without.insert(core);
    }
}

pub(crate) fn enable_kind(
    call: &'static str,
    filter: &mut Filter,
    name: &Text,
    enabled: bool,
) -> Result<Status, BackendError> {
    let name = name.get(call, "event_type")?.to_string_lossy();
    let kind = Kind::named(&name).ok_or_else(|| {
        let known: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        invalid(
            call,
            "event_type",
            format!("`{name}` is none of {}", known.join(", ")),
        )
    })?;
    set(&mut filter.kinds, kind, enabled);
    Ok(Status::SUCCESS)
}

pub(crate) fn set<T: Ord>(members: &mut BTreeSet<T>, member: T, enabled: bool) {
    if enabled {
        members.insert(member);
    } else {
        members.remove(&member);
    }
}

/// Gives the caller an array of texts and its length.
pub(crate) fn give(
    call: &'static str,
    (argument, array): (&'static str, &Texts),
    count: &Out<usize>,
    texts: &[&str],
) -> Result<Status, BackendError> {
    let array = array.place(call, argument)?;
    let count = count.place(call, "count")?;
    let given = blocks::texts(texts);
    let given = given.ok_or_else(|| failure(call, Status::FAIL_HOST_MEM_ALLOC))?;
    array.set(given.as_ptr());
    count.set(texts.len());
    Ok(Status::SUCCESS)
}
