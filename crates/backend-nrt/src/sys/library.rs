//! A library that is open: what it has, and what it says before `nrt_init`.

use std::ffi::{OsStr, c_void};
use std::fmt;
use std::sync::atomic::AtomicBool;

use libloading::os::unix::{Library as DlHandle, RTLD_LOCAL, RTLD_NOW};
use metaneff_binding::BackendError;
use metaneff_schema::nrt::Status;

use super::abi::{RawInstanceInfo, RawVersion, text};
use super::session::{check_process, explain_missing};
use super::symbols::{GetVersion, Symbols, asynchronous, file_of, get_version};

/// What `nrt_get_version` answers.
///
/// # Examples
///
/// ```
/// use metaneff_backend_nrt::RuntimeVersion;
///
/// let version = RuntimeVersion::new(2, 20, 1, 0);
/// assert_eq!(version.to_string(), "2.20.1.0");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeVersion {
    /// Major version; 2 is the one of the public headers.
    pub major: u64,
    /// Minor version.
    pub minor: u64,
    /// Patch.
    pub patch: u64,
    /// Maintenance release.
    pub maintenance: u64,
    /// The library's own words.
    pub detail: String,
    /// Revision that it was built from.
    pub git_hash: String,
}

impl RuntimeVersion {
    /// A version without detail and revision.
    #[must_use]
    pub fn new(major: u64, minor: u64, patch: u64, maintenance: u64) -> Self {
        Self {
            major,
            minor,
            patch,
            maintenance,
            ..Self::default()
        }
    }
}

impl fmt::Display for RuntimeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            major,
            minor,
            patch,
            maintenance,
            ..
        } = self;
        write!(f, "{major}.{minor}.{patch}.{maintenance}")
    }
}

/// What `nrt_get_instance_info` answers.
///
/// # Examples
///
/// ```
/// use metaneff_backend_nrt::InstanceInfo;
///
/// assert_eq!(InstanceInfo::new(2, 1).to_string(), "trn1.2xlarge");
/// assert_eq!(InstanceInfo::new(99, 77).to_string(), "family 99, size 77");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstanceInfo {
    /// Number of the instance family: `NRT_INSTANCE_TRN1` is 2.
    pub family: u32,
    /// Number of the size: `NRT_INSTANCE_SIZE_2XL` is 1.
    pub size: u32,
    /// Architecture of the device.
    pub architecture: String,
    /// Revision of the device.
    pub revision: String,
}

/// Families in the order of their numbers, from 1 on (`nrt.h`).
const FAMILIES: &[&str] = &[
    "inf1",
    "trn1",
    "trn1n",
    "inf2",
    "trn2",
    "trn2n",
    "inf2e",
    "trn2p",
    "trn2u",
    "trn2e",
    "trn2eu",
    "trn2ac",
    "trn2uac",
    "trn3",
    "trn3pds98",
];

/// Sizes in the order of their numbers, from 0 on (`nrt.h`).
const SIZES: &[&str] = &[
    "xlarge", "2xlarge", "4xlarge", "6xlarge", "8xlarge", "24xlarge", "32xlarge", "48xlarge",
    "3xlarge",
];

impl InstanceInfo {
    /// An instance without a word on its device.
    #[must_use]
    pub fn new(family: u32, size: u32) -> Self {
        Self {
            family,
            size,
            ..Self::default()
        }
    }
}

impl fmt::Display for InstanceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |list: &[&'static str], index: Option<u32>| {
            let index = usize::try_from(index?).ok()?;
            list.get(index).copied()
        };
        let family = name(FAMILIES, self.family.checked_sub(1));
        match (family, name(SIZES, Some(self.size))) {
            (Some(family), Some(size)) => write!(f, "{family}.{size}"),
            (Some(family), None) => f.write_str(family),
            (None, _) => write!(f, "family {}, size {}", self.family, self.size),
        }
    }
}

/// Why a file is of no use as libnrt.
#[derive(Debug)]
pub(crate) enum OpenFailure {
    /// The loader refused it, in its own words.
    Dlopen(String),
    /// A required function is missing.
    Symbol {
        path: String,
        symbol: &'static str,
        version: Option<String>,
    },
}

/// An open library. It is never closed: code of it may run at any later time,
/// in destructors of threads for one.
pub(crate) struct Library {
    pub(super) symbols: Symbols,
    /// Whether a session is open.
    pub(super) live: AtomicBool,
    path: String,
    version: Option<RuntimeVersion>,
    asynchronous: Vec<&'static str>,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library")
            .field("path", &self.path)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl Library {
    /// Opens a library by path or by the name that the loader searches for.
    ///
    /// # Errors
    ///
    /// [`OpenFailure`].
    pub(crate) fn open(name: &OsStr) -> Result<Self, OpenFailure> {
        // All symbols that the library itself needs are bound now: one that is
        // missing is an error here and not the end of the process later.
        let flags = RTLD_NOW | RTLD_LOCAL;
        // SAFETY: the caller names a libnrt, whose initialisers ask for nothing;
        // it is never unloaded, so its terminators run at the process's end.
        let handle = unsafe { DlHandle::open(Some(name), flags) }
            .map_err(|error| OpenFailure::Dlopen(loader_text(&error)))?;
        let resolved = Symbols::resolve(&handle);
        let asynchronous = asynchronous(&handle);
        let version = read_version(get_version(&handle));
        // The handle is given up without closing the library.
        let _open = handle.into_raw();
        let symbols = resolved.map_err(|symbol| OpenFailure::Symbol {
            path: name.to_string_lossy().into_owned(),
            symbol,
            version: version.as_ref().map(ToString::to_string),
        })?;
        let path = file_of(symbols.nrt_init as *const c_void)
            .unwrap_or_else(|| name.to_string_lossy().into_owned());
        Ok(Self {
            symbols,
            live: AtomicBool::new(false),
            path,
            version,
            asynchronous,
        })
    }

    /// Equal for two of these if and only if they are the same library.
    pub(crate) fn identity(&self) -> usize {
        self.symbols.nrt_init as usize
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The version, if the library has one.
    pub(crate) fn version(&self) -> Option<&RuntimeVersion> {
        self.version.as_ref()
    }

    /// Whether a session is open.
    pub(crate) fn is_live(&self) -> bool {
        self.live.load(std::sync::atomic::Ordering::Acquire)
    }

    pub(crate) fn missing(&self) -> Vec<&'static str> {
        self.symbols.missing()
    }

    pub(crate) fn missing_asynchronous(&self) -> Vec<&'static str> {
        self.symbols.missing_asynchronous()
    }

    pub(crate) fn asynchronous(&self) -> &[&'static str] {
        &self.asynchronous
    }

    /// `nrt_get_total_vnc_count`, or under its older name.
    pub(crate) fn total_cores(&self) -> Result<u32, BackendError> {
        let symbols = &self.symbols;
        let current = symbols.nrt_get_total_vnc_count;
        self.count(
            "nrt_get_total_nc_count",
            current.or(symbols.nrt_get_total_nc_count),
        )
    }

    /// `nrt_get_visible_vnc_count`, or under its older name.
    pub(crate) fn visible_cores(&self) -> Result<u32, BackendError> {
        let symbols = &self.symbols;
        let current = symbols.nrt_get_visible_vnc_count;
        self.count(
            "nrt_get_visible_nc_count",
            current.or(symbols.nrt_get_visible_nc_count),
        )
    }

    fn count(
        &self,
        call: &'static str,
        function: Option<unsafe extern "C" fn(*mut u32) -> Status>,
    ) -> Result<u32, BackendError> {
        check_process(call)?;
        let function = function.ok_or_else(|| explain_missing(call, self))?;
        let mut count = 0;
        // SAFETY: the call writes one `u32`.
        let status = unsafe { function(&raw mut count) };
        if status != Status::SUCCESS {
            return Err(BackendError::new(call, status));
        }
        Ok(count)
    }

    /// `nrt_get_instance_info`.
    pub(crate) fn instance(&self) -> Result<InstanceInfo, BackendError> {
        const CALL: &str = "nrt_get_instance_info";
        check_process(CALL)?;
        let function = self
            .symbols
            .nrt_get_instance_info
            .ok_or_else(|| explain_missing(CALL, self))?;
        let mut info = RawInstanceInfo::default();
        // SAFETY: the block is as large as the size says.
        let status = unsafe { function(&raw mut info, size_of::<RawInstanceInfo>()) };
        if status != Status::SUCCESS {
            return Err(BackendError::new(CALL, status));
        }
        Ok(InstanceInfo {
            family: info.family,
            size: info.size,
            architecture: text(&info.arch),
            revision: text(&info.revision),
        })
    }
}

/// The loader's own words, which stand below libloading's.
fn loader_text(error: &dyn std::error::Error) -> String {
    error
        .source()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

/// The version, or nothing if the library does not tell.
fn read_version(function: Option<GetVersion>) -> Option<RuntimeVersion> {
    let mut version = RawVersion::ZERO;
    // SAFETY: the block is as large as the size says.
    let status = unsafe { function?(&raw mut version, size_of::<RawVersion>()) };
    (status == Status::SUCCESS).then(|| RuntimeVersion {
        major: version.major,
        minor: version.minor,
        patch: version.patch,
        maintenance: version.maintenance,
        detail: text(&version.detail),
        git_hash: text(&version.git_hash),
    })
}
