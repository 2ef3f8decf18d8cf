//! The runtime: one per library, shared by those who open it.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use metaneff_binding::BackendInfo;
use metaneff_schema::nrt::Status;

use crate::backend::Counters;
use crate::cores;
use crate::devices::Devices;
use crate::error::OpenError;
use crate::library::{NrtLibrary, check_process, lock};
use crate::options::{NrtOptions, Settings};
use crate::sys::{InitFailure, InitRequest, InstanceInfo, Library, Session};

/// Seconds that an execution may take; the library reads it.
const TIMEOUT: &str = "NEURON_RT_EXEC_TIMEOUT";

/// Pause between two looks at a runtime that is being closed by another thread.
const CLOSING: Duration = Duration::from_millis(1);

/// An initialised libnrt.
///
/// Clones, and further calls of [`Nrt::open`] for the same library, share one
/// runtime; the last of them that goes calls `nrt_close`. What is alive then is
/// reclaimed by the library, and its handles are refused from then on.
///
/// # Examples
///
/// The choice between device and simulator is the caller's:
///
/// ```
/// use metaneff_backend_nrt::{Nrt, NrtOptions};
///
/// match Nrt::open(&NrtOptions::new()) {
///     Ok(nrt) => assert!(nrt.visible_cores().is_none_or(|cores| cores > 0)),
///     // Names the paths, the devices, and the simulator.
///     Err(error) => eprintln!("{error}"),
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Nrt {
    shared: Arc<Shared>,
}

/// What the handles of one runtime share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) session: Session,
    pub(crate) info: BackendInfo,
    pub(crate) instance: Option<InstanceInfo>,
    pub(crate) visible: Option<u32>,
    pub(crate) total: Option<u32>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) counters: Counters,
    notices: Vec<Notice>,
    settings: Settings,
}

/// Something that is valid and may not be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Neither the options nor the environment chose cores, so the runtime took
    /// every core of the instance.
    ClaimsAllCores {
        /// Cores of the instance, if the library tells.
        total: Option<u32>,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClaimsAllCores { total } => {
                f.write_str("no cores were chosen, so this process holds all")?;
                match total {
                    Some(total) => write!(f, " {total} of the instance"),
                    None => f.write_str(" of the instance"),
                }
            }
        }
    }
}

impl Nrt {
    /// Finds the library and initialises it: `nrt_init`.
    ///
    /// If it is initialised already, by this crate, the runtime is shared;
    /// settings that are asked for and are others than those of the runtime are
    /// an error. Neither a missing library nor a missing device leads to a
    /// simulator.
    ///
    /// The choice of cores goes through the process's environment, where it
    /// stays.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    ///
    /// # Panics
    ///
    /// If the system has no memory for a stack; see
    /// [`NrtOptions::stack_size`].
    pub fn open(options: &NrtOptions) -> Result<Self, OpenError> {
        NrtLibrary::open(options)?.init(options)
    }

    pub(crate) fn init(library: NrtLibrary, options: &NrtOptions) -> Result<Self, OpenError> {
        check_process()?;
        let library = library.inner;
        let mut table = lock();
        let known = table
            .iter_mut()
            .find(|known| known.library.identity() == library.identity());
        if let Some(shared) = known.as_ref().and_then(|known| known.runtime.upgrade()) {
            drop(table);
            return Self::share(shared, options);
        }
        // Another thread may have dropped the last handle and be in `nrt_close`.
        while library.is_live() {
            thread::sleep(CLOSING);
        }
        let shared = Arc::new(start(library, options)?);
        if let Some(known) = known {
            known.runtime = Arc::downgrade(&shared);
        }
        Ok(Self { shared })
    }

    fn share(shared: Arc<Shared>, options: &NrtOptions) -> Result<Self, OpenError> {
        match shared.settings.conflict(&options.settings) {
            None => Ok(Self { shared }),
            Some((setting, current, requested)) => Err(OpenError::AlreadyInitialised {
                library: shared.session.library().path().to_owned(),
                setting,
                current,
                requested,
            }),
        }
    }

    /// The library below.
    #[must_use]
    pub fn library(&self) -> NrtLibrary {
        NrtLibrary {
            inner: self.shared.session.library(),
        }
    }

    /// What `nrt_get_instance_info` answered; `None` if the library has no such
    /// function or it failed.
    #[must_use]
    pub fn instance(&self) -> Option<&InstanceInfo> {
        self.shared.instance.as_ref()
    }

    /// Cores that the process can use, if the library tells.
    #[must_use]
    pub fn visible_cores(&self) -> Option<u32> {
        self.shared.visible
    }

    /// What is valid and may not be meant.
    #[must_use]
    pub fn notices(&self) -> &[Notice] {
        &self.shared.notices
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn session(&self) -> &Session {
        &self.shared.session
    }
}

fn start(library: &'static Library, options: &NrtOptions) -> Result<Shared, OpenError> {
    let settings = options.settings.clone();
    let claims_all = cores::claims_all(settings.cores);
    let total = library.total_cores().ok();
    let expected = cores::prepare(settings.cores, total, options.exclusive)?;
    let session = initialise(library, options)?;
    let visible = library.visible_cores().ok();
    match (settings.cores.and(expected), visible) {
        (Some(requested), Some(visible)) if requested != visible => {
            // Dropping the session closes the runtime.
            return Err(OpenError::CoreCount {
                library: library.path().to_owned(),
                requested,
                visible,
            });
        }
        _ => {}
    }
    let instance = library.instance().ok();
    let mut info = BackendInfo::new("nrt", visible.unwrap_or(0), total.unwrap_or(0));
    info.device = true;
    info.version = library
        .version()
        .map_or_else(String::new, ToString::to_string);
    library.path().clone_into(&mut info.location);
    info.instance = instance
        .as_ref()
        .map_or_else(String::new, ToString::to_string);
    let notices = claims_all.then_some(Notice::ClaimsAllCores { total });
    Ok(Shared {
        session,
        info,
        instance,
        visible,
        total,
        timeout: timeout(std::env::var(TIMEOUT).ok().as_deref()),
        counters: Counters::default(),
        notices: notices.into_iter().collect(),
        settings,
    })
}

/// Calls `nrt_init`, again if the options say so and another process may hold
/// the cores.
fn initialise(library: &'static Library, options: &NrtOptions) -> Result<Session, OpenError> {
    let (most, mut pause) = options.retry.unwrap_or((1, Duration::ZERO));
    let settings = &options.settings;
    let request = InitRequest {
        framework: settings.framework().code(),
        framework_version: settings.framework_version(),
        layer_version: settings.layer_version(),
        stack_size: settings.stack_size(),
    };
    let mut attempts = 1;
    loop {
        let status = match Session::init(library, &request) {
            Ok(session) => return Ok(session),
            Err(InitFailure::Live) => Status::FAILURE,
            Err(InitFailure::Status(status)) => status,
        };
        if attempts >= most || !may_pass(status) {
            let devices = Devices::scan(&options.root);
            return Err(OpenError::Init {
                library: library.path().to_owned(),
                status,
                attempts,
                holders: devices.holders(&options.root),
                devices,
            });
        }
        thread::sleep(pause);
        pause = pause.saturating_mul(2);
        attempts += 1;
    }
}

/// Whether the status may be another when the cores are free again. The headers
/// name none for cores that are taken; a bad argument is none.
fn may_pass(status: Status) -> bool {
    !matches!(status, Status::INVALID | Status::INVALID_HANDLE)
}

/// Whole seconds; anything else is left to the library.
fn timeout(value: Option<&str>) -> Option<Duration> {
    let seconds = value?.trim().parse().ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_limit_is_in_seconds() {
        assert_eq!(timeout(Some(" 30 ")), Some(Duration::from_secs(30)));
        for value in [
            None,
            Some(""),
            Some("0"),
            Some("-1"),
            Some("2.5"),
            Some("x"),
        ] {
            assert_eq!(timeout(value), None, "{value:?}");
        }
    }

    #[test]
    fn a_notice_says_how_many_cores_are_held() {
        assert_eq!(
            Notice::ClaimsAllCores { total: Some(32) }.to_string(),
            "no cores were chosen, so this process holds all 32 of the instance"
        );
        assert_eq!(
            Notice::ClaimsAllCores { total: None }.to_string(),
            "no cores were chosen, so this process holds all of the instance"
        );
    }
}
