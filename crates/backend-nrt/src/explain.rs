//! Reasons for statuses that come without one.

use std::time::Duration;

use metaneff_binding::{Backend as _, BackendError, Cause, Core, LoadRequest, Placement};
use metaneff_schema::neff::NeffHeader;
use metaneff_schema::nrt::Status;

use crate::nrt::Nrt;
use crate::sys::{NrtModel, NrtTensor, NrtTensorSet};

impl Nrt {
    /// Refuses a core that the process does not see, before the library has to.
    pub(crate) fn check_core(&self, call: &'static str, core: Core) -> Result<(), BackendError> {
        match self.shared().visible {
            Some(visible) if core.index() >= visible => {
                let detail = format!("{core} of {visible} that are visible, counted from 0");
                Err(
                    BackendError::new(call, Status::INVALID).because(Cause::Argument {
                        argument: "vnc",
                        detail,
                    }),
                )
            }
            _ => Ok(()),
        }
    }

    /// Quantities of an allocation that failed.
    pub(crate) fn explain_memory(
        &self,
        error: BackendError,
        placement: Placement,
        core: Core,
        size: usize,
    ) -> BackendError {
        if !is_memory(&error) {
            return error;
        }
        if placement != Placement::Device {
            return because(error, || {
                Cause::Other(format!("{size} bytes requested of the host"))
            });
        }
        let stats = self.memory_stats(core);
        because(error, || match stats {
            Ok(stats) => Cause::Memory {
                core: Some(core),
                requested: size as u64,
                used: stats.used,
                limit: stats.limit,
            },
            Err(_) => Cause::Other(format!("{size} bytes requested on {core}")),
        })
    }

    /// What the NEFF asks for, beside what there is.
    pub(crate) fn explain_load(&self, error: BackendError, request: &LoadRequest) -> BackendError {
        let header = NeffHeader::read(&request.neff);
        let size = request.neff.len();
        match (error.status(), header) {
            (Status::LOAD_NOT_ENOUGH_NC, header) => because(error, || Cause::Cores {
                needed: header.map_or(0, |header| header.requested_cores),
                visible: self.shared().visible.unwrap_or(0),
                total: self.shared().total.unwrap_or(0),
            }),
            (Status::UNSUPPORTED_NEFF_VERSION, Ok(header)) => because(error, || Cause::Neff {
                detail: format!(
                    "format version {}.{}, feature bits {:#x}, made by `{}`",
                    header.version.0, header.version.1, header.feature_bits, header.build_version
                ),
            }),
            (Status::INVALID | Status::UNSUPPORTED_NEFF_VERSION, Err(reason)) => {
                because(error, || Cause::Neff {
                    detail: reason.to_string(),
                })
            }
            _ if is_memory(&error) => {
                let core = request.core.unwrap_or(Core::new(0));
                let stats = self.memory_stats(core);
                because(error, || {
                    Cause::Other(match stats {
                        Ok(stats) => format!(
                            "the NEFF has {size} bytes; {} of {} bytes are in use on {core}",
                            stats.used, stats.limit
                        ),
                        Err(_) => format!("the NEFF has {size} bytes"),
                    })
                })
            }
            _ => error,
        }
    }

    /// Cores of two tensors that cannot be copied to each other.
    pub(crate) fn explain_copy(
        error: BackendError,
        source: &NrtTensor,
        target: &NrtTensor,
    ) -> BackendError {
        match (error.status(), source.core(), target.core()) {
            (Status::INVALID, Some(core), Some(other_core)) if core != other_core => {
                because(error, || Cause::CoreMismatch {
                    what: "the source".to_owned(),
                    core,
                    other: "the target".to_owned(),
                    other_core,
                })
            }
            _ => error,
        }
    }

    /// The time limit that passed, or the tensor that is on another core.
    pub(crate) fn explain_execution(
        &self,
        error: BackendError,
        elapsed: Duration,
        model: &NrtModel,
        sets: &[&NrtTensorSet],
    ) -> BackendError {
        match error.status() {
            Status::TIMEOUT => because(error, || match self.shared().timeout {
                Some(limit) => Cause::Deadline {
                    limit_ms: milliseconds(limit),
                    elapsed_ms: milliseconds(elapsed),
                },
                None => Cause::Other(format!(
                    "after {} ms; NEURON_RT_EXEC_TIMEOUT is not set",
                    milliseconds(elapsed)
                )),
            }),
            Status::INVALID | Status::EXEC_BAD_INPUT => {
                let model_core = model
                    .requested_core()
                    .or_else(|| self.model_core(model).ok());
                let stray = model_core.and_then(|core| {
                    let mut bound = sets.iter().flat_map(|set| set.cores());
                    let (name, other) =
                        bound.find(|(_, other)| other.is_some_and(|other| other != core))?;
                    Some((core, name, other?))
                });
                match stray {
                    Some((core, name, other_core)) => because(error, || Cause::CoreMismatch {
                        what: "the model".to_owned(),
                        core,
                        other: format!("tensor `{}`", name.to_string_lossy()),
                        other_core,
                    }),
                    None => error,
                }
            }
            _ => error,
        }
    }
}

fn is_memory(error: &BackendError) -> bool {
    matches!(
        error.status(),
        Status::RESOURCE | Status::FAIL_HOST_MEM_ALLOC
    )
}

/// Adds a reason to an error that has none.
fn because(error: BackendError, cause: impl FnOnce() -> Cause) -> BackendError {
    match error.cause() {
        Cause::Unknown => error.because(cause()),
        _ => error,
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
