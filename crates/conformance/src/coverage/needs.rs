//! The needs of users: rows 1 to 70, which are about loading and contracts, and
//! those behind them that are about requests and copies.

use super::Clause;

/// The rows, in order.
pub const NEEDS: &[Clause] = &[
    Clause::by("1", "little stack", &["threads/stack/small"]),
    Clause::by(
        "2",
        "feature bits",
        &["load/neff/features", "neff/features/"],
    ),
    Clause::by(
        "3",
        "memory that runs out, with figures",
        &["memory/limit/exact", "status/load/resource"],
    ),
    Clause::by(
        "4",
        "bad arguments of an allocation",
        &[
            "tensor/allocate/empty",
            "tensor/allocate/no_core",
            "place/device/last_core",
        ],
    ),
    Clause::by(
        "5",
        "timeouts with limit and time",
        &[
            "fault/timeout/",
            "fault/hang/execute",
            "fault/sticky/memory",
        ],
    ),
    Clause::by(
        "6",
        "finished but suspicious: 1003, 1004",
        &[
            "alias/failure/completed_with_error",
            "status/execute/1003_injected",
        ],
    ),
    Clause::by(
        "7",
        "loads that do not come back",
        &["fault/hang/load", "load/background/hangs"],
    ),
    Clause::by(
        "8",
        "not enough cores",
        &[
            "status/cores/not_enough",
            "load/core/none",
            "spmd/cores/not_enough",
        ],
    ),
    Clause::elsewhere(
        "9",
        "cores that another process holds",
        "takes two processes; the C library's own tests start them",
    ),
    Clause::by(
        "10",
        "how visible cores are written",
        &["info/cores/visible", "info/cores/range", "info/cores/list"],
    ),
    Clause::elsewhere(
        "11",
        "the environment read too late",
        "is about opening a backend, which a case gets open; tests of backend-nrt",
    ),
    Clause::elsewhere(
        "12",
        "initialising takes all cores",
        "is about opening a backend, which a case gets open; tests of backend-nrt",
    ),
    Clause::by(
        "13",
        "models on chosen cores of one process",
        &["load/core/chosen", "threads/cores/two", "life/models/many"],
    ),
    Clause::by(
        "14",
        "a tensor of the wrong core",
        &["load/core/mismatch", "slot/device/other_core"],
    ),
    Clause::elsewhere(
        "15",
        "a runtime after fork",
        "takes a fork of the whole process; tests of backend-nrt",
    ),
    Clause::elsewhere(
        "16",
        "functions that a library does not have",
        "takes a library without them; tests of backend-nrt",
    ),
    Clause::elsewhere(
        "17",
        "a library that is missing",
        "is about opening a backend; tests of backend-nrt",
    ),
    Clause::elsewhere(
        "18",
        "devices in containers",
        "is about the file system; tests of backend-nrt",
    ),
    Clause::elsewhere(
        "19",
        "structures that grow",
        "is about the C interface; the C library's own tests",
    ),
    Clause::elsewhere(
        "20",
        "calls before initialising",
        "a case gets an open backend; the C library's own tests",
    ),
    Clause::elsewhere(
        "21",
        "closing a library",
        "is about the loader; the C library's own tests",
    ),
    Clause::elsewhere(
        "22",
        "threads behind a closed library",
        "is about the loader; the C library's own tests",
    ),
    Clause::elsewhere(
        "23",
        "symbol versions",
        "is about the loader; the C library's own tests",
    ),
    Clause::by("24", "a device that stays bad", &["fault/sticky/"]),
    Clause::by(
        "25",
        "empty files in a cache",
        &["load/neff/empty", "neff/header/alone"],
    ),
    Clause::by(
        "26",
        "where a run happened",
        &["info/report/cores", "info/version/told"],
    ),
    Clause::elsewhere(
        "27",
        "no fallback to a simulator",
        "is about opening a backend; tests of backend-nrt",
    ),
    Clause::by(
        "28",
        "nothing is left behind",
        &["load/repeat/reload", "life/memory/"],
    ),
    Clause::by(
        "29",
        "freeing after closing",
        &["life/close/everything_alive"],
    ),
    Clause::by(
        "30",
        "sizes beyond 32 and 64 bits",
        &[
            "metaneff/shape/overflow",
            "metaneff/shape/large",
            "place/device/too_large",
        ],
    ),
    Clause::by(
        "31",
        "what a file is",
        &["neff/hash/wrong", "info/version/told"],
    ),
    Clause::by(
        "32",
        "inputs by name",
        &["bind/name/reversed", "bind/position/ambiguous"],
    ),
    Clause::by(
        "33",
        "inputs that are not used",
        &["execute/order/unused_input"],
    ),
    Clause::by(
        "34",
        "int64 that is shown as int32",
        &["slot/int64/split", "execute/dtype/s64"],
    ),
    Clause::by(
        "35",
        "int64 is never cut",
        &["dtype/compute/int64", "slot/int64/split"],
    ),
    Clause::by(
        "36",
        "float8 is not int8",
        &["slot/dtype/float8_is_not_int8", "dtype/reported/float8"],
    ),
    Clause::by("37", "float8 has flavours", &["slot/dtype/float8_flavours"]),
    Clause::by(
        "38",
        "types that collapse",
        &["slot/dtype/u32_in_int32", "slot/dtype/stored_type_accepted"],
    ),
    Clause::by(
        "39",
        "names twice, names missing",
        &["metaneff/name/twice", "metaneff/name/gap"],
    ),
    Clause::elsewhere(
        "40",
        "nested slices",
        "is a number that the HLO executor computes; its corpus has the case",
    ),
    Clause::by("41", "no outputs", &["graph/output/none"]),
    Clause::by(
        "42",
        "a root that is no tuple",
        &["execute/root/without_tuple"],
    ),
    Clause::by(
        "43",
        "tensors without elements",
        &["slot/empty/input", "slot/empty/output", "place/host/empty"],
    ),
    Clause::by(
        "44",
        "scalars",
        &["execute/shape/scalar", "slot/batch/scalar_lenient"],
    ),
    Clause::by(
        "45",
        "batches that disagree",
        &["dynamic/rows/inconsistent", "dynamic/rows/multiple"],
    ),
    Clause::by(
        "46",
        "batches that are no multiple",
        &["dynamic/rows/remainder", "dynamic/rows/fewer"],
    ),
    Clause::by(
        "47",
        "a batch over several workers",
        &["batch/cores/even", "batch/replicas/fewer_rows"],
    ),
    Clause::by(
        "48",
        "results in the order of submission",
        &[
            "dynamic/rows/remainder",
            "async/order/submission",
            "batch/cores/even",
        ],
    ),
    Clause::by(
        "49",
        "wrong shapes, said in words",
        &["bind/shape/refused", "slot/output/element_type"],
    ),
    Clause::by(
        "50",
        "the batch flag frees one dimension",
        &["wire/dynamic_batch/flag"],
    ),
    Clause::by(
        "51",
        "aliases honoured or refused",
        &[
            "graph/contract/alias_only_here",
            "graph/contract/alias_only_there",
        ],
    ),
    Clause::by(
        "52",
        "map entries without a value",
        &["wire/alias/no_value"],
    ),
    Clause::by("53", "mistakes of an alias map", &["metaneff/alias/"]),
    Clause::by(
        "54",
        "donated twice",
        &["slot/device/lent_to_donation", "slot/bind/states_shown"],
    ),
    Clause::by(
        "55",
        "the order of outputs and donation",
        &["alias/output_order/state_first"],
    ),
    Clause::by(
        "56",
        "aliased outputs that are hidden",
        &["alias/return_aliases/false"],
    ),
    Clause::by(
        "57",
        "contract and program that differ",
        &["graph/contract/count", "order/load/other_tensors"],
    ),
    Clause::by(
        "58",
        "weights that stay",
        &[
            "weights/resident/uploaded_once",
            "order/weights/uploaded",
            "buckets/share/states_and_weights",
            "roles/checkpoint/",
            "roles/weights/checkpoint",
        ],
    ),
    Clause::by(
        "59",
        "weights that are replaced",
        &[
            "weights/replace/atomic",
            "threads/weights/replaced",
            "batch/replicas/weights",
        ],
    ),
    Clause::by(
        "60",
        "a constant and a weight compute the same",
        &["weights/constant/equal"],
    ),
    Clause::by(
        "61",
        "odd keys",
        &["wire/key/quotes_and_accents", "wire/key/not_text"],
    ),
    Clause::by("62", "a rank beyond the world", &["spmd/world/bounds"]),
    Clause::by(
        "63",
        "buckets by shape and type",
        &["buckets/route/", "buckets/add/ambiguous"],
    ),
    Clause::by(
        "64",
        "loading now, later, or at first use",
        &[
            "edit/async_load/set",
            "edit/lazy_load/set",
            "load/lazy/",
            "load/policy/",
            "load/background/",
        ],
    ),
    Clause::elsewhere(
        "65",
        "saved TorchScript files",
        "is about extracting files; the command's tests",
    ),
    Clause::by(
        "66",
        "fields of a later time",
        &["wire/unknown/field", "edit/unknown_fields/kept"],
    ),
    Clause::by("67", "layouts of outputs", &["graph/contract/shape"]),
    Clause::by("68", "ids of 64 bits", &["graph/id/sparse"]),
    Clause::by(
        "69",
        "modules that are not well formed",
        &["graph/shape/wrong", "graph/operand/", "graph/bytes/"],
    ),
    Clause::by(
        "70",
        "tensors that others use",
        &[
            "threads/tensor/free_while_executing",
            "life/tensor/freed_in_set",
        ],
    ),
    Clause::by(
        "121",
        "calls that block an asynchronous program",
        &["async/deadline/passed", "async/shutdown/drained"],
    ),
    Clause::by(
        "122",
        "requests that nobody waits for",
        &["async/cancel/dropped", "async/states/sequence"],
    ),
    Clause::elsewhere(
        "123",
        "libraries with some of the asynchronous functions",
        "takes libraries of several kinds; tests of backend-nrt",
    ),
    Clause::by(
        "126",
        "copies on the device and bounds that overflow",
        &["slot/device/adopted", "slice/"],
    ),
];
