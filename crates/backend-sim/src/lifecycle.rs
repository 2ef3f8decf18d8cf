//! The states of a process's runtime, for the C interface.
//!
//! A Rust program has a [`Sim`] from build to drop, and needs no more. A C
//! library has one runtime for the whole process, which starts uninitialised,
//! may be initialised and closed again and again, and answers every call in
//! every state.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::Instant;

use metaneff_binding::{BackendError, Cause};
use metaneff_schema::nrt::Status;

use crate::config::SimBuilder;
use crate::fault::{Armed, Call, Stop};
use crate::sim::{Sim, injected, invalid, timeout};
use crate::sync::{read, write};

/// The runtime of a process.
///
/// # Examples
///
/// ```
/// use metaneff_backend_sim::{Framework, Lifecycle, Sim, State};
/// use metaneff_schema::nrt::Status;
///
/// static RUNTIME: Lifecycle = Lifecycle::new();
///
/// let before = RUNTIME.runtime("nrt_load").unwrap_err();
/// assert_eq!(before.status(), Status::UNINITIALIZED);
///
/// RUNTIME.init(Framework::NO_FRAMEWORK, Sim::builder())?;
/// assert_eq!(RUNTIME.state(), State::Initialized);
///
/// RUNTIME.close();
/// let after = RUNTIME.runtime("nrt_load").unwrap_err();
/// assert_eq!(after.status(), Status::CLOSED);
/// # Ok::<(), metaneff_binding::BackendError>(())
/// ```
#[derive(Debug)]
pub struct Lifecycle {
    current: RwLock<Current>,
    /// Calls of [`init`](Self::init) that got as far as a plan of faults.
    inits: AtomicU64,
}

#[derive(Debug)]
enum Current {
    Start,
    Initialized(Arc<Sim>),
    Closed,
}

/// Where a process's runtime stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the states that the statuses 13 and 14 tell apart"
)]
pub enum State {
    /// `nrt_init` has not been called.
    Start,
    /// `nrt_init` has been called.
    Initialized,
    /// `nrt_close` has been called.
    Closed,
}

/// The framework that initialises the runtime: `nrt_framework_type_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a number of the C interface and nothing else"
)]
pub struct Framework(pub u32);

impl Framework {
    /// None: 1.
    pub const NO_FRAMEWORK: Self = Self(1);
    /// TensorFlow: 2.
    pub const TENSORFLOW: Self = Self(2);
    /// PyTorch: 3.
    pub const PYTORCH: Self = Self(3);
    /// MXNet: 4.
    pub const MXNET: Self = Self(4);
    /// The check of a node before its use: 5.
    pub const PRECHECK: Self = Self(5);

    /// Whether the header has this number; `NRT_FRAMEWORK_TYPE_INVALID` (0) is
    /// not one.
    #[must_use]
    pub const fn is_known(self) -> bool {
        matches!(self.0, 1..=5)
    }
}

/// When a call is legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Legality {
    /// In every state.
    Always,
    /// In every state, because it has no status to answer with: without a
    /// runtime it does nothing, or answers 0, null or −1.
    Harmless,
    /// Between `nrt_init` and `nrt_close`; before it answers
    /// `NRT_UNINITIALIZED`, afterwards `NRT_CLOSED`.
    Initialized,
}

/// Calls that are legal in every state: the counts of cores, by the header's
/// notes; the instance, the version, the names of statuses and other numbers that
/// need no device; options for calls to come; `nrt_init` itself.
const ALWAYS: &[&str] = &[
    "nec_get_device_count",
    "nec_get_version_info",
    "nec_get_virtual_core_size",
    "nrt_async_sendrecv_get_max_num_communicators_per_lnc",
    "nrt_async_sendrecv_get_max_num_pending_request",
    "nrt_free_model_tensor_info",
    "nrt_get_instance_info",
    "nrt_get_status_as_str",
    "nrt_get_total_nc_count",
    "nrt_get_total_vnc_count",
    "nrt_get_version",
    "nrt_get_visible_nc_count",
    "nrt_get_visible_vnc_count",
    "nrt_init",
    "nrt_inspect_config_allocate",
    "nrt_inspect_config_free",
    "nrt_inspect_config_get_all_activity_types",
    "nrt_inspect_config_get_enabled_activity_types",
    "nrt_inspect_config_set_activity",
    "nrt_inspect_config_set_capture_enabled_for_event_type_string",
    "nrt_inspect_config_set_capture_enabled_for_nc",
    "nrt_inspect_config_set_defaults",
    "nrt_inspect_config_set_enable_inspect",
    "nrt_inspect_config_set_enable_inspect_on_fail",
    "nrt_inspect_config_set_output_dir",
    "nrt_inspect_config_set_session_id",
    "nrt_inspect_config_set_sys_trace_max_events_per_nc",
    "nrt_profile_continuous_options_allocate",
    "nrt_profile_continuous_options_free",
    "nrt_profile_continuous_options_set_output_dir",
    "nrt_set_pool_eng_ucode",
    "nrt_sys_trace_config_allocate",
    "nrt_sys_trace_config_get_enabled_event_types",
    "nrt_sys_trace_config_set_capture_enabled_for_event_type",
    "nrt_sys_trace_fetch_options_allocate",
    "nrt_sys_trace_get_event_types",
];

/// Calls that have no status to answer with.
const HARMLESS: &[&str] = &[
    "nec_get_device_pci_bdf",
    "nec_get_dynamic_recv_offset_bytes",
    "nec_get_dynamic_send_offset_bytes",
    "nec_get_dynamic_send_size_bytes",
    "nec_get_p2p_pod_peer_node",
    "nec_get_peer_mla_idx",
    "nec_inc_semaphore",
    "nec_is_mla_available",
    "nec_mla_idx_to_rid",
    "nec_ndl_printk",
    "nec_rid_to_mla_idx",
    "nec_set_recv_size_bytes",
    "nrt_close",
    "nrt_debug_client_connect_close",
    "nrt_destroy_tensor_set",
    "nrt_get_libnccl_net",
    "nrt_inspect_config_free_activity_types",
    "nrt_sys_trace_buffer_free",
    "nrt_sys_trace_config_free",
    "nrt_sys_trace_config_set_capture_enabled_for_nc",
    "nrt_sys_trace_config_set_defaults",
    "nrt_sys_trace_config_set_max_events_per_nc",
    "nrt_sys_trace_fetch_options_free",
    "nrt_sys_trace_fetch_options_set_defaults",
    "nrt_sys_trace_fetch_options_set_max_events_per_nc",
    "nrt_sys_trace_fetch_options_set_nc_idx",
    "nrt_sys_trace_free_event_types",
    "nrt_tensor_free",
    "nrt_tensor_get_size",
    "nrt_tensor_get_va",
    "nrta_error_tracker_destroy",
];

impl Legality {
    /// When the C function `call` is legal.
    ///
    /// # Examples
    ///
    /// ```
    /// use metaneff_backend_sim::Legality;
    ///
    /// assert_eq!(Legality::of("nrt_get_total_nc_count"), Legality::Always);
    /// assert_eq!(Legality::of("nrt_tensor_free"), Legality::Harmless);
    /// assert_eq!(Legality::of("nrt_execute"), Legality::Initialized);
    /// ```
    #[must_use]
    pub fn of(call: &str) -> Self {
        if ALWAYS.contains(&call) {
            Self::Always
        } else if HARMLESS.contains(&call) {
            Self::Harmless
        } else {
            Self::Initialized
        }
    }

    /// What the call answers in `state`, if not what it does.
    #[must_use]
    pub const fn refusal(self, state: State) -> Option<Status> {
        match (self, state) {
            (Self::Initialized, State::Start) => Some(Status::UNINITIALIZED),
            (Self::Initialized, State::Closed) => Some(Status::CLOSED),
            _ => None,
        }
    }
}

impl Lifecycle {
    /// A runtime that is not initialised.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            current: RwLock::new(Current::Start),
            inits: AtomicU64::new(0),
        }
    }

    /// Where the runtime stands.
    #[must_use]
    pub fn state(&self) -> State {
        match &*read(&self.current) {
            Current::Start => State::Start,
            Current::Initialized(_) => State::Initialized,
            Current::Closed => State::Closed,
        }
    }

    /// Initialises the runtime: `nrt_init`. Legal at the start and after
    /// [`close`](Self::close).
    ///
    /// # Errors
    ///
    /// `INVALID` for an unknown framework, for a set-up that does not fit the
    /// instance, and for a runtime that is initialised already: its
    /// configuration would not take effect. The header does not say what the
    /// last answers; it is an assumption. A planned fault of
    /// [`Call::Init`] answers its status.
    pub fn init(
        &self,
        framework: Framework,
        builder: SimBuilder,
    ) -> Result<Arc<Sim>, BackendError> {
        let call = "nrt_init";
        if !framework.is_known() {
            let detail = format!("{} is not a framework type", framework.0);
            return Err(invalid(call, "framework", detail));
        }
        let armed = Armed::new(&builder.config().faults);
        armed.skip(Call::Init, self.inits.fetch_add(1, Ordering::Relaxed));
        let verdict = armed.judge(Call::Init, None);
        let start = Instant::now();
        thread::sleep(verdict.delay);
        match verdict.stop {
            Some(Stop::Fail(status) | Stop::Poison(status)) => {
                return Err(injected(call, status));
            }
            Some(Stop::Hang(limit)) => {
                let limit = limit.unwrap_or_default();
                thread::sleep(limit);
                return Err(timeout(call, limit, start));
            }
            None => {}
        }
        let mut current = write(&self.current);
        if matches!(*current, Current::Initialized(_)) {
            let text = "the runtime is initialised already".to_owned();
            return Err(BackendError::new(call, Status::INVALID).because(Cause::Other(text)));
        }
        let sim = builder.build().map_err(|error| {
            BackendError::new(call, error.status()).because(Cause::Other(error.to_string()))
        })?;
        let sim = Arc::new(sim);
        *current = Current::Initialized(Arc::clone(&sim));
        Ok(sim)
    }

    /// The runtime, for the C function `call`.
    ///
    /// # Errors
    ///
    /// `UNINITIALIZED` before [`init`](Self::init), `CLOSED` after
    /// [`close`](Self::close).
    pub fn runtime(&self, call: &'static str) -> Result<Arc<Sim>, BackendError> {
        let status = match &*read(&self.current) {
            Current::Initialized(sim) => return Ok(Arc::clone(sim)),
            Current::Start => Status::UNINITIALIZED,
            Current::Closed => Status::CLOSED,
        };
        Err(BackendError::new(call, status))
    }

    /// Closes the runtime: `nrt_close`. Everything is taken back, calls that
    /// wait come back with `CLOSED`, and handles given back later are let go
    /// without harm. Before [`init`](Self::init), it does nothing.
    pub fn close(&self) {
        let mut current = write(&self.current);
        if let Current::Initialized(sim) = &*current {
            sim.close();
            *current = Current::Closed;
        }
    }
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self::new()
    }
}
