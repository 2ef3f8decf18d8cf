//! Inspection: a trace of everything between two calls, written to a folder.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::sync::Mutex;

use metaneff_binding::BackendError;
use metaneff_schema::nrt::Status;

use crate::api::profile;
use crate::api::sys_trace::{enable_core, enable_kind, give, set};
use crate::blocks;
use crate::export::{export, invalid};
use crate::handles::{Handle, object};
use crate::pointers::{Array, Out, Text};
use crate::runtime::{self, Runtime, lock};
use crate::trace::{Filter, INSPECT};

/// What can be looked at. The simulator records calls, which all of these are
/// about or are not there at all: it has no device profile, and does not watch
/// memory or processors.
const ACTIVITIES: [&str; 4] = [
    "system_profile",
    "device_profile",
    "host_memory",
    "cpu_util",
];

/// What stands behind a `nrt_inspect_config_t`.
#[derive(Debug, Default)]
pub(crate) struct Config(Mutex<Options>);

#[derive(Clone, Debug)]
struct Options {
    session: c_int,
    directory: PathBuf,
    filter: Filter,
    activities: BTreeSet<&'static str>,
    enabled: bool,
    on_fail: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            session: 1,
            directory: PathBuf::from("./output"),
            filter: Filter::default(),
            activities: ACTIVITIES.into(),
            enabled: false,
            on_fail: false,
        }
    }
}

object!(Config, "inspection configuration");

/// Where the inspection that takes place goes.
static CURRENT: Mutex<Option<(PathBuf, c_int)>> = Mutex::new(None);

export! {
    header "nrt_profile.h", node "NRT_2.0.0";

    /// Records all calls until `nrt_inspect_stop`, which writes them to the
    /// folder that the environment names.
    fn nrt_inspect_begin(call) -> Status {
        let runtime = runtime::current(call)?;
        let options = Options {
            directory: runtime.settings.inspect_directory.clone(),
            enabled: true,
            ..Options::default()
        };
        begin(call, &runtime, options)
    }

    /// As `nrt_inspect_begin`, as the options have it; null stands for the
    /// defaults. Where neither all executions nor failing ones are asked for,
    /// nothing is recorded.
    fn nrt_inspect_begin_with_options(call; options: Handle<Config>) -> Status {
        let runtime = runtime::current(call)?;
        let options = match options.is_null() {
            true => Options::default(),
            false => lock(&options.get(call, "options")?.0).clone(),
        };
        begin(call, &runtime, options)
    }

    /// Options with their defaults.
    fn nrt_inspect_config_allocate(call; options: Out<Handle<Config>>) -> Status {
        let place = options.place(call, "options")?;
        place.set(Handle::new(Config::default()));
        Ok(Status::SUCCESS)
    }

    /// Frees options.
    fn nrt_inspect_config_free(call; options: Handle<Config>) -> Status {
        options.take(call, "options")?;
        Ok(Status::SUCCESS)
    }

    /// Frees what the functions that give activity types gave.
    fn nrt_inspect_config_free_activity_types(
        call; activity_types: Array<*mut c_void>, count: usize,
    ) {
        blocks::free_texts(call, activity_types, count)
    }

    /// All types of activities, which the caller frees.
    fn nrt_inspect_config_get_all_activity_types(
        call; activity_types: Out<*mut c_void>, count: Out<usize>,
    ) -> Status {
        give(call, ("activity_types", &activity_types), &count, &ACTIVITIES)
    }

    /// The types of activities that are looked at, which the caller frees.
    fn nrt_inspect_config_get_enabled_activity_types(
        call; options: Handle<Config>, activity_types: Out<*mut c_void>, count: Out<usize>,
    ) -> Status {
        let options = options.get(call, "options")?;
        let enabled = lock(&options.0).activities.clone();
        let named: Vec<_> = ACTIVITIES.into_iter().filter(|name| enabled.contains(name)).collect();
        give(call, ("activity_types", &activity_types), &count, &named)
    }

    /// Whether an activity is looked at, or all of them.
    fn nrt_inspect_config_set_activity(
        call; options: Handle<Config>, activity_type: Text, enabled: bool,
    ) -> Status {
        let options = options.get(call, "options")?;
        let name = activity_type.get(call, "activity_type")?.to_string_lossy();
        let named: Vec<_> = ACTIVITIES
            .into_iter()
            .filter(|activity| name == "all" || name == *activity)
            .collect();
        if named.is_empty() {
            let detail = format!("`{name}` is none of all, {}", ACTIVITIES.join(", "));
            return Err(invalid(call, "activity_type", detail));
        }
        let activities = &mut lock(&options.0).activities;
        named.into_iter().for_each(|activity| set(activities, activity, enabled));
        Ok(Status::SUCCESS)
    }

    /// Whether events of a type are recorded.
    fn nrt_inspect_config_set_capture_enabled_for_event_type_string(
        call; options: Handle<Config>, event_type: Text, enabled: bool,
    ) -> Status {
        let options = options.get(call, "options")?;
        enable_kind(call, &mut lock(&options.0).filter, &event_type, enabled)
    }

    /// Whether a core's events are recorded.
    fn nrt_inspect_config_set_capture_enabled_for_nc(
        call; options: Handle<Config>, nc_idx: u32, enabled: bool,
    ) -> Status {
        let options = options.get(call, "options")?;
        enable_core(&mut lock(&options.0).filter, nc_idx, enabled);
        Ok(Status::SUCCESS)
    }

    /// Sets all options to their defaults.
    fn nrt_inspect_config_set_defaults(call; options: Handle<Config>) -> Status {
        change(call, options, |options| *options = Options::default())
    }

    /// Whether all executions are recorded.
    fn nrt_inspect_config_set_enable_inspect(
        call; options: Handle<Config>, enable_inspect: bool,
    ) -> Status {
        change(call, options, |options| options.enabled = enable_inspect)
    }

    /// Whether the trace is written if an execution fails.
    fn nrt_inspect_config_set_enable_inspect_on_fail(
        call; options: Handle<Config>, enable_inspect_on_fail: bool,
    ) -> Status {
        change(call, options, |options| options.on_fail = enable_inspect_on_fail)
    }

    /// The folder that the trace is written to.
    fn nrt_inspect_config_set_output_dir(
        call; options: Handle<Config>, output_dir: Text,
    ) -> Status {
        let directory = output_dir.get(call, "output_dir")?.to_string_lossy().into_owned();
        if directory.is_empty() {
            return Err(invalid(call, "output_dir", "the text is empty"));
        }
        change(call, options, |options| options.directory = directory.into())
    }

    /// A number for the trace's name.
    fn nrt_inspect_config_set_session_id(
        call; options: Handle<Config>, session_id: c_int,
    ) -> Status {
        change(call, options, |options| options.session = session_id)
    }

    /// Calls that are recorded at most; the oldest go first.
    fn nrt_inspect_config_set_sys_trace_max_events_per_nc(
        call; options: Handle<Config>, sys_trace_max_events_per_nc: u64,
    ) -> Status {
        let capacity = usize::try_from(sys_trace_max_events_per_nc).unwrap_or(usize::MAX);
        change(call, options, |options| options.filter.capacity = capacity)
    }

    /// Writes what was recorded, as a Chrome trace.
    fn nrt_inspect_stop(call) -> Status {
        let runtime = runtime::current(call)?;
        runtime.settle();
        let target = lock(&CURRENT).take();
        match (runtime.recorder.finish(INSPECT), target) {
            (Some(Some(trace)), Some((directory, session))) => {
                let prefix = format!("inspect_session_{session}");
                profile::save(call, &runtime, &directory, &prefix, &trace)
            }
            (Some(_), _) => Ok(Status::SUCCESS),
            (None, _) => Err(invalid(call, "state", "no inspection has begun")),
        }
    }
}

fn change(
    call: &'static str,
    options: Handle<Config>,
    change: impl FnOnce(&mut Options),
) -> Result<Status, BackendError> {
    change(&mut lock(&options.get(call, "options")?.0));
    Ok(Status::SUCCESS)
}

fn begin(call: &'static str, runtime: &Runtime, options: Options) -> Result<Status, BackendError> {
    let mut filter = options.filter;
    if !options.enabled && !options.on_fail || options.activities.is_empty() {
        filter.kinds.clear();
    }
    let on_fail = options.on_fail && !options.enabled;
    if !runtime.recorder.record(INSPECT, None, filter, on_fail) {
        return Err(invalid(call, "state", "an inspection has begun already"));
    }
    *lock(&CURRENT) = Some((options.directory, options.session));
    Ok(Status::SUCCESS)
}
