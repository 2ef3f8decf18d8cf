//! What a library can do, by the functions that it has.

/// Something that not every release of the library can do.
///
/// Nothing is concluded from a version: a capability is there when its functions
/// are (user needs, rows 16 and 123).
///
/// # Examples
///
/// ```
/// use metaneff_backend_nrt::{Capability, NrtLibrary, NrtOptions};
///
/// assert_eq!(Capability::Slices.functions(), ["nrt_tensor_allocate_slice"]);
/// if let Ok(library) = NrtLibrary::open(&NrtOptions::new()) {
///     for capability in Capability::ALL {
///         assert_eq!(library.supports(*capability), library.lacking(*capability).is_empty());
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Capability {
    /// Views of parts of a tensor: [`Backend::slice`](metaneff_binding::Backend::slice).
    Slices,
    /// Copies between tensors: [`Backend::copy`](metaneff_binding::Backend::copy).
    Copies,
    /// [`Nrt::fill`](crate::Nrt::fill).
    Fill,
    /// [`Nrt::read_batch`](crate::Nrt::read_batch) and
    /// [`Nrt::write_batch`](crate::Nrt::write_batch).
    Batches,
    /// [`Nrt::attach`](crate::Nrt::attach).
    Attach,
    /// [`Nrt::virtual_address`](crate::Nrt::virtual_address).
    Addresses,
    /// [`Nrt::device_allocation`](crate::Nrt::device_allocation).
    DeviceAllocations,
    /// [`Backend::memory_stats`](metaneff_binding::Backend::memory_stats).
    MemoryStats,
    /// [`Nrt::instance`](crate::Nrt::instance).
    InstanceInfo,
    /// [`Backend::model_core`](metaneff_binding::Backend::model_core) for a
    /// model that was loaded on whatever core was free.
    ModelCore,
    /// [`Nrt::model_cores`](crate::Nrt::model_cores) and
    /// [`Nrt::model_instances`](crate::Nrt::model_instances).
    ModelCounts,
    /// [`Nrt::execute_repeat`](crate::Nrt::execute_repeat).
    Repeat,
    /// [`Nrt::check_completions`](crate::Nrt::check_completions) and
    /// [`Nrt::reset_completions`](crate::Nrt::reset_completions).
    Completions,
    /// Models that are ranks of a world.
    Collectives,
    /// [`Nrt::build_communicator`](crate::Nrt::build_communicator),
    /// [`Nrt::barrier`](crate::Nrt::barrier) and
    /// [`Nrt::all_gather`](crate::Nrt::all_gather).
    Ranks,
    /// [`Nrt::start_profile`](crate::Nrt::start_profile) and
    /// [`Nrt::stop_profile`](crate::Nrt::stop_profile).
    Profiles,
    /// Requests of a [`Queue`](crate::Queue) through the library's own
    /// functions. The library must tell which request failed.
    Requests,
    /// Waiting for such requests without asking again and again.
    CompletionHandles,
}

impl Capability {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Slices,
        Self::Copies,
        Self::Fill,
        Self::Batches,
        Self::Attach,
        Self::Addresses,
        Self::DeviceAllocations,
        Self::MemoryStats,
        Self::InstanceInfo,
        Self::ModelCore,
        Self::ModelCounts,
        Self::Repeat,
        Self::Completions,
        Self::Collectives,
        Self::Ranks,
        Self::Profiles,
        Self::Requests,
        Self::CompletionHandles,
    ];

    /// The functions that it needs.
    #[must_use]
    pub const fn functions(self) -> &'static [&'static str] {
        match self {
            Self::Slices => &["nrt_tensor_allocate_slice"],
            Self::Copies => &["nrt_tensor_copy"],
            Self::Fill => &["nrt_tensor_memset"],
            Self::Batches => &["nrt_tensor_read_batch", "nrt_tensor_write_batch"],
            Self::Attach => &["nrt_tensor_allocate_empty", "nrt_tensor_attach_buffer"],
            Self::Addresses => &["nrt_tensor_get_va"],
            Self::DeviceAllocations => &["nrt_tensor_get_device_allocation_info"],
            Self::MemoryStats => &["nrt_get_vnc_memory_stats"],
            Self::InstanceInfo => &["nrt_get_instance_info"],
            Self::ModelCore => &["nrt_get_model_info"],
            Self::ModelCounts => &["nrt_get_model_vnc_count", "nrt_get_model_instance_count"],
            Self::Repeat => &["nrt_execute_repeat"],
            Self::Completions => &[
                "nrt_tensor_check_output_completion",
                "nrt_tensor_reset_output_completion",
            ],
            Self::Collectives => &["nrt_load_collectives"],
            Self::Ranks => &["nrt_build_global_comm", "nrt_barrier", "nrt_all_gather"],
            Self::Profiles => &["nrt_profile_start", "nrt_profile_stop"],
            Self::Requests => &[
                "nrta_tensor_write",
                "nrta_tensor_read",
                "nrta_tensor_copy",
                "nrta_execute_schedule",
                "nrta_is_completed",
                "nrta_error_tracker_create",
                "nrta_error_tracker_destroy",
                "nrta_error_tracker_get_list",
            ],
            Self::CompletionHandles => &["nrta_get_completion_handle"],
        }
    }
}
