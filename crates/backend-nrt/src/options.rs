//! How to open the runtime.

use std::ffi::{CStr, CString};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use metaneff_schema::cores::CoreRange;

use crate::cores::Cores;
use crate::sys::Exclusive;

/// The framework on whose behalf the runtime runs: `nrt_framework_type_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Framework {
    /// No framework (1).
    #[default]
    None,
    /// TensorFlow (2).
    TensorFlow,
    /// PyTorch (3).
    PyTorch,
    /// MXNet (4).
    MxNet,
    /// The check of a node before it is used (5).
    Precheck,
}

impl Framework {
    /// The number in the C interface.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::None => 1,
            Self::TensorFlow => 2,
            Self::PyTorch => 3,
            Self::MxNet => 4,
            Self::Precheck => 5,
        }
    }
}

/// How to find the library and to initialise it.
///
/// # Defaults
///
/// | setting | default |
/// |---|---|
/// | library | `libnrt.so.1` by the loader's search, then `/opt/aws/neuron/lib/libnrt.so.1` |
/// | framework | [`Framework::None`], versions those of this crate |
/// | cores | as the environment says; [`Notice`](crate::Notice) tells if that is all of them |
/// | stack | 16 MiB |
/// | retry | none |
///
/// # Examples
///
/// ```
/// use metaneff_backend_nrt::{Nrt, NrtOptions, OpenError};
///
/// let options = NrtOptions::new()
///     .library("/nowhere/libnrt.so.1")
///     .visible_cores("0-1".parse()?);
/// let error = Nrt::open(&options).unwrap_err();
/// assert!(matches!(error, OpenError::NotFound { .. }));
/// assert!(error.to_string().contains("/nowhere/libnrt.so.1"));
/// # Ok::<(), metaneff_schema::cores::CoreRangeError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct NrtOptions {
    pub(crate) library: Option<PathBuf>,
    pub(crate) settings: Settings,
    pub(crate) any_version: bool,
    pub(crate) retry: Option<(u32, Duration)>,
    pub(crate) root: PathBuf,
    pub(crate) exclusive: Option<Exclusive>,
}

/// What was asked for, to the point where the library is initialised. What was
/// not asked for is `None` and agrees with anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) framework: Option<Framework>,
    pub(crate) framework_version: Option<CString>,
    pub(crate) layer_version: Option<CString>,
    pub(crate) cores: Option<Cores>,
    pub(crate) stack_size: Option<usize>,
}

/// Bytes of stack that deep calls get by default.
const STACK: usize = 16 << 20;

/// Least and most that can be asked for.
const STACK_LIMITS: (usize, usize) = (256 << 10, 1 << 30);

/// This crate's version, for want of a framework's.
const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };

impl Settings {
    pub(crate) fn framework(&self) -> Framework {
        self.framework.unwrap_or_default()
    }

    pub(crate) fn framework_version(&self) -> &CStr {
        self.framework_version.as_deref().unwrap_or(VERSION)
    }

    pub(crate) fn layer_version(&self) -> &CStr {
        self.layer_version.as_deref().unwrap_or(VERSION)
    }

    pub(crate) fn stack_size(&self) -> usize {
        self.stack_size.unwrap_or(STACK)
    }

    /// The first setting that is asked for in `later` and is another here: its
    /// name, the value here, and the value there.
    pub(crate) fn conflict(&self, later: &Self) -> Option<(&'static str, String, String)> {
        let differ = |name, here: String, there: Option<String>| {
            there
                .filter(|there| *there != here)
                .map(|there| (name, here, there))
        };
        let show = |text: &CStr| text.to_string_lossy().into_owned();
        differ(
            "framework",
            format!("{:?}", self.framework()),
            later.framework.map(|framework| format!("{framework:?}")),
        )
        .or_else(|| {
            differ(
                "framework_version",
                show(self.framework_version()),
                later.framework_version.as_deref().map(show),
            )
        })
        .or_else(|| {
            differ(
                "layer_version",
                show(self.layer_version()),
                later.layer_version.as_deref().map(show),
            )
        })
        .or_else(|| {
            differ(
                "cores",
                self.cores.map_or_else(
                    || "as the environment says".to_owned(),
                    |cores| cores.to_string(),
                ),
                later.cores.map(|cores| cores.to_string()),
            )
        })
        .or_else(|| {
            differ(
                "stack_size",
                self.stack_size().to_string(),
                later.stack_size.map(|size| size.to_string()),
            )
        })
    }
}

impl Default for NrtOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl NrtOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            library: None,
            settings: Settings::default(),
            any_version: false,
            retry: None,
            root: PathBuf::from("/"),
            exclusive: None,
        }
    }

    /// Opens this file and no other. The file is trusted: its code runs in this
    /// process, with the types of the public headers.
    pub fn library(mut self, path: impl Into<PathBuf>) -> Self {
        self.library = Some(path.into());
        self
    }

    /// Names the framework.
    pub fn framework(mut self, framework: Framework) -> Self {
        self.settings.framework = Some(framework);
        self
    }

    /// Version of the framework, such as `c"2.7"`: `fw_version` of `nrt_init`.
    pub fn framework_version(mut self, version: &CStr) -> Self {
        self.settings.framework_version = Some(version.to_owned());
        self
    }

    /// Version of the layer between framework and runtime: `fal_version` of
    /// `nrt_init`.
    pub fn layer_version(mut self, version: &CStr) -> Self {
        self.settings.layer_version = Some(version.to_owned());
        self
    }

    /// Takes these cores of the instance: `NEURON_RT_VISIBLE_CORES`. In the
    /// process they count from 0.
    pub fn visible_cores(mut self, cores: CoreRange) -> Self {
        self.settings.cores = Some(Cores::Visible(cores));
        self
    }

    /// Takes as many free cores: `NEURON_RT_NUM_CORES`.
    pub fn core_count(mut self, count: NonZeroU32) -> Self {
        self.settings.cores = Some(Cores::Number(count));
        self
    }

    /// Takes every core of the instance, whatever the environment says. No other
    /// process can use one then.
    pub fn all_cores(mut self) -> Self {
        self.settings.cores = Some(Cores::All);
        self
    }

    /// Bytes of stack that calls get that may need much: `nrt_init`,
    /// `nrt_close`, `nrt_load`, `nrt_unload`, `nrt_execute`. It is 16 MiB by
    /// default, and kept between 256 KiB and 1 GiB.
    ///
    /// A thread that has so much left runs the call itself. Another one maps a
    /// stack at its first such call and keeps it for the later ones; of it only the
    /// pages that the library touches take memory.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.settings.stack_size = Some(bytes.clamp(STACK_LIMITS.0, STACK_LIMITS.1));
        self
    }

    /// Takes a library of another major version than 2, the one of the public
    /// headers.
    pub fn any_version(mut self) -> Self {
        self.any_version = true;
        self
    }

    /// Calls `nrt_init` up to `attempts` times where another process may hold
    /// the cores, with a pause that starts at `pause` and doubles.
    pub fn retry(mut self, attempts: u32, pause: Duration) -> Self {
        self.retry = Some((attempts, pause));
        self
    }

    /// Looks for `dev/neuron*`, `proc` and `opt/aws/neuron` below this folder
    /// instead of `/`.
    pub fn root(mut self, root: impl AsRef<Path>) -> Self {
        self.root = root.as_ref().to_owned();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_asked_for_agrees_with_anything() {
        let first = NrtOptions::new()
            .framework(Framework::PyTorch)
            .visible_cores("1".parse().unwrap())
            .settings;
        assert_eq!(first.conflict(&Settings::default()), None);
        assert_eq!(first.conflict(&first.clone()), None);
        let later = NrtOptions::new()
            .visible_cores("2".parse().unwrap())
            .settings;
        let (name, here, there) = first.conflict(&later).unwrap();
        assert_eq!(
            (name, here.as_str(), there.as_str()),
            ("cores", "cores 1", "cores 2")
        );
        let later = NrtOptions::new().framework(Framework::MxNet).settings;
        assert_eq!(first.conflict(&later).unwrap().0, "framework");
        let later = NrtOptions::new().stack_size(1 << 20).settings;
        assert_eq!(first.conflict(&later).unwrap().2, "1048576");
        let later = NrtOptions::new().layer_version(c"9").settings;
        assert_eq!(first.conflict(&later).unwrap().0, "layer_version");
        let later = NrtOptions::new().framework_version(c"9").settings;
        assert_eq!(first.conflict(&later).unwrap().0, "framework_version");
    }

    #[test]
    fn the_stack_is_kept_within_limits() {
        let size = |bytes| NrtOptions::new().stack_size(bytes).settings.stack_size();
        assert_eq!(size(0), 256 << 10);
        assert_eq!(size(usize::MAX), 1 << 30);
        assert_eq!(NrtOptions::new().settings.stack_size(), 16 << 20);
    }
}
