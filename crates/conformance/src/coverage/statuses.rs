//! The statuses of `nrt_status.h`.

use super::Clause;

/// Every status by name, in the header's order.
pub const STATUSES: &[Clause] = &[
    Clause::by("NRT_SUCCESS", "0", &["execute/completion/clean"]),
    Clause::by(
        "NRT_FAILURE",
        "1",
        &["status/execute/failure", "status/unload/failure"],
    ),
    Clause::by(
        "NRT_INVALID",
        "2",
        &[
            "status/execute/invalid",
            "tensor/allocate/empty",
            "neff/header/",
        ],
    ),
    Clause::by(
        "NRT_INVALID_HANDLE",
        "3",
        &["status/execute/invalid_handle"],
    ),
    Clause::by(
        "NRT_RESOURCE",
        "4",
        &["status/load/resource", "memory/limit/exact"],
    ),
    Clause::by(
        "NRT_TIMEOUT",
        "5",
        &["fault/timeout/latency", "fault/hang/load"],
    ),
    Clause::by(
        "NRT_HW_ERROR",
        "6",
        &["status/execute/hw_error", "status/load/hw_error"],
    ),
    Clause::by("NRT_QUEUE_FULL", "7", &["status/execute/queue_full"]),
    Clause::by("NRT_LOAD_NOT_ENOUGH_NC", "9", &["status/cores/not_enough"]),
    Clause::by(
        "NRT_UNSUPPORTED_NEFF_VERSION",
        "10",
        &["load/neff/version", "neff/features/first_unknown"],
    ),
    Clause::by(
        "NRT_FAIL_HOST_MEM_ALLOC",
        "11",
        &["status/load/host_memory"],
    ),
    Clause::elsewhere(
        "NRT_UNINITIALIZED",
        "13",
        "a backend is initialised when it is made; the C library's own tests call it before",
    ),
    Clause::elsewhere(
        "NRT_CLOSED",
        "14",
        "a backend is closed by dropping it, after which it cannot be called; the C library's own tests do",
    ),
    Clause::by("NRT_QUEUE_EMPTY", "15", &["status/execute/queue_empty"]),
    Clause::by(
        "NRT_EXEC_UNIT_UNRECOVERABLE",
        "101",
        &["status/execute/unrecoverable", "fault/sticky/unrecoverable"],
    ),
    Clause::by(
        "NRT_EXEC_BAD_INPUT",
        "1002",
        &["status/execute/bad_input", "life/tensor/freed_in_set"],
    ),
    Clause::by(
        "NRT_EXEC_COMPLETED_WITH_NUM_ERR",
        "1003",
        &["execute/completion/nan"],
    ),
    Clause::by(
        "NRT_EXEC_COMPLETED_WITH_ERR",
        "1004",
        &["alias/failure/completed_with_error"],
    ),
    Clause::by("NRT_EXEC_NC_BUSY", "1005", &["status/busy/exclusive"]),
    Clause::by("NRT_EXEC_OOB", "1006", &["status/bounds/strict"]),
    Clause::by("NRT_COLL_PENDING", "1100", &["status/execute/coll_pending"]),
    Clause::by(
        "NRT_EXEC_HW_ERR_COLLECTIVES",
        "1200",
        &["status/execute/collectives"],
    ),
    Clause::by(
        "NRT_EXEC_HW_ERR_HBM_UE",
        "1201",
        &["status/execute/hbm_ue", "fault/sticky/hbm"],
    ),
    Clause::by(
        "NRT_EXEC_HW_ERR_NC_UE",
        "1202",
        &["status/execute/nc_ue", "fault/sticky/load"],
    ),
    Clause::by(
        "NRT_EXEC_HW_ERR_DMA_ABORT",
        "1203",
        &["status/execute/dma_abort", "fault/sticky/dma_abort"],
    ),
    Clause::by(
        "NRT_EXEC_SW_NQ_OVERFLOW",
        "1204",
        &["status/execute/nq_overflow"],
    ),
    Clause::by(
        "NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE",
        "1205",
        &["status/execute/repairable_hbm_ue"],
    ),
    Clause::by(
        "NRT_NETWORK_PROXY_FAILURE",
        "1206",
        &["status/execute/network_proxy"],
    ),
];
