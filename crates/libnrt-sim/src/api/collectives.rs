//! Meetings of ranks.

use metaneff_schema::nrt::Status;

use crate::export::{export, unsupported};
use crate::runtime;

export! {
    header "nrt.h", node "NRT_2.0.0";

    /// Not simulated.
    fn nrt_build_global_comm(call) -> Status {
        runtime::current(call)?;
        Err(unsupported(call))
    }

    /// Not simulated.
    fn nrt_cc_global_comm_init(call) -> Status {
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
        fn nrt_all_gather(call) -> Status {
            runtime::current(call)?;
            Err(unsupported(call))
        }

        /// Not simulated.
        fn nrt_barrier(call) -> Status {
            runtime::current(call)?;
            Err(unsupported(call))
        }
    }
}
