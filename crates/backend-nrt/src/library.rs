//! An open library, before it is initialised.

use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use metaneff_binding::BackendError;

use crate::capability::Capability;
use crate::error::OpenError;
use crate::nrt::{Nrt, Shared};
use crate::options::NrtOptions;
use crate::search;
use crate::sys::{Library, RuntimeVersion, forked};

/// Major version of the public headers that the declarations follow
/// (`NRT_MAJOR_VERSION` of `nrt.h`).
const MAJOR: u64 = 2;

/// Every library of this process, each once and for ever, with the runtime that
/// runs on it.
static LIBRARIES: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// A library and its runtime.
pub(crate) struct Known {
    pub(crate) library: &'static Library,
    pub(crate) runtime: Weak<Shared>,
}

/// A library that is open and answers what it can without `nrt_init`.
///
/// # Examples
///
/// ```
/// use metaneff_backend_nrt::{NrtLibrary, NrtOptions};
///
/// match NrtLibrary::open(&NrtOptions::new()) {
///     Ok(library) => println!("{} sees {:?} cores", library.path(), library.total_cores()),
///     Err(error) => assert!(error.to_string().contains("libnrt")),
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NrtLibrary {
    pub(crate) inner: &'static Library,
}

impl NrtLibrary {
    /// Finds and opens the library, and initialises nothing.
    ///
    /// # Errors
    ///
    /// [`OpenError::NotFound`], [`OpenError::Symbol`], [`OpenError::Version`],
    /// [`OpenError::Forked`].
    pub fn open(options: &NrtOptions) -> Result<Self, OpenError> {
        check_process()?;
        let library = search::find(options)?;
        match library.version() {
            Some(version) if version.major != MAJOR && !options.any_version => {
                return Err(OpenError::Version {
                    library: library.path().to_owned(),
                    found: version.clone(),
                    supported: MAJOR,
                });
            }
            _ => {}
        }
        let mut known = lock();
        let same = known
            .iter()
            .find(|known| known.library.identity() == library.identity());
        let inner = if let Some(known) = same {
            known.library
        } else {
            let library: &'static Library = Box::leak(Box::new(library));
            known.push(Known {
                library,
                runtime: Weak::new(),
            });
            library
        };
        Ok(Self { inner })
    }

    /// Initialises the runtime, or shares the one that runs on this library.
    ///
    /// # Errors
    ///
    /// As [`Nrt::open`].
    pub fn init(self, options: &NrtOptions) -> Result<Nrt, OpenError> {
        Nrt::init(self, options)
    }

    /// Path of the library's file, as the loader knows it.
    #[must_use]
    pub fn path(&self) -> &'static str {
        self.inner.path()
    }

    /// What `nrt_get_version` answers; `None` if there is no such function or it
    /// fails.
    #[must_use]
    pub fn version(&self) -> Option<&'static RuntimeVersion> {
        self.inner.version()
    }

    /// Cores of the instance: `nrt_get_total_vnc_count`, or
    /// `nrt_get_total_nc_count` of older libraries.
    ///
    /// # Errors
    ///
    /// What the library answers, or that it has neither function.
    pub fn total_cores(&self) -> Result<u32, BackendError> {
        self.inner.total_cores()
    }

    /// Cores that the process sees: `nrt_get_visible_vnc_count`, or
    /// `nrt_get_visible_nc_count` of older libraries.
    ///
    /// # Errors
    ///
    /// What the library answers, or that it has neither function.
    pub fn visible_cores(&self) -> Result<u32, BackendError> {
        self.inner.visible_cores()
    }

    /// The functions that calls of this crate may need and this library does not
    /// have.
    #[must_use]
    pub fn missing_functions(&self) -> Vec<&'static str> {
        self.inner.missing()
    }

    /// Whether the library has all functions that a capability needs.
    #[must_use]
    pub fn supports(&self, capability: Capability) -> bool {
        self.lacking(capability).is_empty()
    }

    /// The functions that a capability needs and this library does not have.
    #[must_use]
    pub fn lacking(&self, capability: Capability) -> Vec<&'static str> {
        let mut missing = self.inner.missing();
        missing.extend(self.inner.missing_asynchronous());
        let needed = capability.functions().iter().copied();
        needed.filter(|name| missing.contains(name)).collect()
    }

    /// The functions of `nrt_async.h` that this library has. Which ones there
    /// are differs from release to release; a [`Queue`](crate::Queue) makes do
    /// with what there is.
    #[must_use]
    pub fn async_functions(&self) -> &'static [&'static str] {
        self.inner.asynchronous()
    }
}

/// The table of libraries.
pub(crate) fn lock() -> MutexGuard<'static, Vec<Known>> {
    // A panic while the table was locked left every entry whole.
    LIBRARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Refuses to go on in a process that was forked after `nrt_init`: the table may
/// be locked for ever there, and the library is its parent's.
pub(crate) fn check_process() -> Result<(), OpenError> {
    match forked() {
        None => Ok(()),
        Some((parent, child)) => Err(OpenError::Forked { parent, child }),
    }
}
