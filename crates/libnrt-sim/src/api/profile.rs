//! Profiles and traces in files.
//!
//! The runtime writes NTFF, a format of its own; the simulator writes the JSON of
//! Chrome's trace viewer, whatever the file is called, and says so in it.

use std::ffi::{c_char, c_int, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use metaneff_binding::{Backend as _, BackendError, Core};
use metaneff_schema::nrt::Status;

use crate::export::{export, failed, invalid, unsupported};
use crate::handles::{Handle, Model, object};
use crate::pointers::{In, Out, Text};
use crate::runtime::{self, Runtime, lock};
use crate::trace::{Filter, Kind, WHOLE};

/// What stands behind a `nrt_profile_continuous_options_t`.
#[derive(Debug)]
pub(crate) struct ContinuousOptions(Mutex<PathBuf>);

impl Default for ContinuousOptions {
    fn default() -> Self {
        Self(Mutex::new(PathBuf::from("./output")))
    }
}

object!(ContinuousOptions, "set of profile options");

export! {
    header "nrt_profile.h", node "NRT_2.0.0";

    /// Records the executions of a model until `nrt_profile_stop` with the same
    /// file.
    fn nrt_profile_start(call; model: Handle<Model>, filename: Text) -> Status {
        let runtime = runtime::current(call)?;
        let model = model.get(call, "model")?;
        let name = file_of(call, &filename)?;
        let filter = Filter { kinds: [Kind::Execute].into(), ..Filter::default() };
        let id = runtime::identity(model.model.id());
        match runtime.recorder.record(&name, Some(id), filter, false) {
            true => Ok(Status::SUCCESS),
            false => Err(invalid(call, "filename", format!("`{name}` is recorded already"))),
        }
    }

    /// Writes what was recorded, as a Chrome trace.
    fn nrt_profile_stop(call; filename: Text) -> Status {
        let runtime = runtime::current(call)?;
        let name = file_of(call, &filename)?;
        runtime.settle();
        match runtime.recorder.finish(&name) {
            Some(trace) => write(call, Path::new(&name), &trace.unwrap_or_default()),
            None => Err(invalid(call, "filename", format!("`{name}` is not recorded"))),
        }
    }

    /// Options with their defaults: the folder `./output`.
    fn nrt_profile_continuous_options_allocate(
        call; options: Out<Handle<ContinuousOptions>>,
    ) -> Status {
        let place = options.place(call, "options")?;
        place.set(Handle::new(ContinuousOptions::default()));
        Ok(Status::SUCCESS)
    }

    /// Frees options.
    fn nrt_profile_continuous_options_free(
        call; options: Handle<ContinuousOptions>,
    ) -> Status {
        options.take(call, "options")?;
        Ok(Status::SUCCESS)
    }

    /// The folder that traces are written to.
    fn nrt_profile_continuous_options_set_output_dir(
        call; options: Handle<ContinuousOptions>, output_dir: Text,
    ) -> Status {
        let options = options.get(call, "options")?;
        *lock(&options.0) = file_of(call, &output_dir)?.into();
        Ok(Status::SUCCESS)
    }

    /// Keeps the last execution of each core from now on.
    fn nrt_profile_continuous_start(call; options: Handle<ContinuousOptions>) -> Status {
        let runtime = runtime::current(call)?;
        options.get(call, "options")?;
        match runtime.recorder.keep_latest(true) {
            true => Ok(Status::SUCCESS),
            false => Err(invalid(call, "state", "continuous profiling has been started")),
        }
    }

    /// Writes the last execution on a core to a file of its own.
    fn nrt_profile_continuous_save(
        call; vnc: u32, options: Handle<ContinuousOptions>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let options = options.get(call, "options")?;
        runtime.sim.memory_stats(Core::new(vnc))?;
        let trace = runtime.recorder.latest(vnc);
        let trace = trace.ok_or_else(|| {
            invalid(call, "vnc", format!("no execution on core {vnc} was recorded"))
        })?;
        let directory = lock(&options.0).clone();
        save(call, &runtime, &directory, &format!("profile_vnc_{vnc}"), &trace)
    }

    /// Keeps no more executions.
    fn nrt_profile_continuous_stop(call) -> Status {
        let runtime = runtime::current(call)?;
        match runtime.recorder.keep_latest(false) {
            true => Ok(Status::SUCCESS),
            false => Err(invalid(call, "state", "continuous profiling has not been started")),
        }
    }
}

pub(crate) mod experimental {
    //! `nrt_experimental.h`.

    use super::*;

    export! {
        header "nrt_experimental.h", node "NRT_2.0.0";

        /// Records all calls on all cores. Allocations are not recorded.
        fn nrt_trace_start(call; _trace_mem: bool) -> Status {
            let runtime = runtime::current(call)?;
            match runtime.recorder.record(WHOLE, None, Filter::default(), false) {
                true => Ok(Status::SUCCESS),
                false => Err(invalid(call, "state", "a trace has been started")),
            }
        }

        /// Writes what was recorded, as a Chrome trace.
        fn nrt_trace_stop(call; filename: Text) -> Status {
            let runtime = runtime::current(call)?;
            let name = file_of(call, &filename)?;
            runtime.settle();
            match runtime.recorder.finish(WHOLE) {
                Some(trace) => write(call, Path::new(&name), &trace.unwrap_or_default()),
                None => Err(invalid(call, "state", "no trace has been started")),
            }
        }

        /// There is no network.
        fn nrt_get_libnccl_net(
            call; err: Out<c_int>, err_msg: Out<u8>, err_msg_size: usize,
        ) -> *mut c_void {
            if let Some(place) = err.optional() {
                place.set(Status::FAILURE.0);
            }
            if let Some(place) = err_msg.optional() && err_msg_size > 0 {
                let text = c"the simulator has no network".to_bytes_with_nul();
                let length = text.len().min(err_msg_size);
                let mut text = text[..length].to_vec();
                if let Some(last) = text.last_mut() {
                    *last = 0;
                }
                place.fill(&text);
            }
            Err(unsupported(call))
        }

        /// There is no pooling engine to give a program to. Programs for it are
        /// given before `nrt_init`, by the header's notes.
        fn nrt_set_pool_eng_ucode(call; ucode_info: In<c_char>) -> Status {
            runtime::check(call)?;
            if ucode_info.is_null() {
                return Err(invalid(call, "ucode_info", "the pointer is null"));
            }
            Err(unsupported(call))
        }
    }
}

/// The path in an argument, which is not empty.
fn file_of(call: &'static str, text: &Text) -> Result<String, BackendError> {
    let name = text.get(call, "filename")?.to_str();
    let name = name.map_err(|error| invalid(call, "filename", error.to_string()))?;
    if name.is_empty() {
        return Err(invalid(call, "filename", "the text is empty"));
    }
    Ok(name.to_owned())
}

fn write(call: &'static str, path: &Path, trace: &str) -> Result<Status, BackendError> {
    let written = fs::write(path, trace);
    written.map_err(|error| cannot_write(call, path, &error))?;
    Ok(Status::SUCCESS)
}

fn cannot_write(call: &'static str, path: &Path, error: &std::io::Error) -> BackendError {
    failed(
        call,
        Status::FAILURE,
        format!("{}: {error}", path.display()),
    )
}

/// Writes a trace to a file of its own in a folder.
pub(crate) fn save(
    call: &'static str,
    runtime: &Runtime,
    directory: &Path,
    prefix: &str,
    trace: &str,
) -> Result<Status, BackendError> {
    let saved = runtime.recorder.save(directory, prefix, trace);
    let path = saved.map_err(|error| cannot_write(call, directory, &error))?;
    crate::log::info(format_args!("{call} wrote {}", path.display()));
    Ok(Status::SUCCESS)
}
