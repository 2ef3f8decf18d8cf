//! Profiles.

use metaneff_schema::nrt::Status;

use crate::export::{export, unsupported};
use crate::runtime;

export! {
    header "nrt_profile.h", node "NRT_2.0.0";

    /// Not simulated.
    fn nrt_profile_continuous_options_allocate(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_profile_continuous_options_free(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_profile_continuous_options_set_output_dir(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_profile_continuous_save(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_profile_continuous_start(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_profile_continuous_stop(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_profile_start(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_profile_stop(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }
}

pub(crate) mod experimental {
    //! `nrt_experimental.h`.

    use super::*;

    export! {
        header "nrt_experimental.h", node "NRT_2.0.0";

        /// Not simulated.
        fn nrt_trace_start(call) -> Status {
            runtime::current(call)?;
            Err(unsupported(call))
        }

        /// Not simulated.
        fn nrt_trace_stop(call) -> Status {
            runtime::current(call)?;
            Err(unsupported(call))
        }

        /// Not simulated.
        fn nrt_get_libnccl_net(call) -> Status {
            runtime::current(call)?;
            Err(unsupported(call))
        }

        /// Not simulated.
        fn nrt_set_pool_eng_ucode(call) -> Status {
            runtime::current(call)?;
            Err(unsupported(call))
        }
    }
}
