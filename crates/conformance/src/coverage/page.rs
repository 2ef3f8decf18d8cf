//! The reference page.

use super::Clause;

/// The page's sections, in order, with what each of them lays down.
pub const PAGE: &[Clause] = &[
    Clause::by(
        "1",
        "one index space: metaneff, NEFF, tensor set",
        &["slot/var_id/joined", "neff/table/order_of_ids"],
    ),
    Clause::by(
        "1",
        "slots are bound by ordinal and name",
        &[
            "execute/order/operands",
            "bind/name/reversed",
            "set/bind/by_key",
        ],
    ),
    Clause::by(
        "1",
        "the role says whether the caller fills a slot",
        &[
            "wire/type/user_input",
            "wire/type/state",
            "wire/type/weight",
        ],
    ),
    Clause::by(
        "2",
        "fields of any order, the last of a kind winning, unknown ones passed over",
        &["wire/order/", "wire/unknown/field"],
    ),
    Clause::by("2", "what is no message is refused", &["metaneff/bytes/"]),
    Clause::by(
        "2.1",
        "field 1, name",
        &["wire/name/lookup_key", "metaneff/name/"],
    ),
    Clause::by(
        "2.1",
        "field 2, shape, packed or bare",
        &["wire/shape/", "metaneff/shape/"],
    ),
    Clause::by("2.1", "field 3, data type: 16 numbers", &["dtype/number/"]),
    Clause::by(
        "2.1",
        "0 and the reserved 11 are no types",
        &[
            "metaneff/dtype/undefined",
            "metaneff/dtype/reserved",
            "slot/dtype/unknown_number",
        ],
    ),
    Clause::by(
        "2.1",
        "field 4, content",
        &["wire/content/weight", "wire/content/length"],
    ),
    Clause::by(
        "2.1",
        "field 5, allow_dynamic_batch_size",
        &["wire/dynamic_batch/flag"],
    ),
    Clause::by(
        "2.1",
        "field 6, checkpoint_key, with presence",
        &["wire/presence/checkpoint_key", "slot/find/checkpoint_key"],
    ),
    Clause::by("2.1", "field 7, type", &["wire/type/"]),
    Clause::by(
        "2.1",
        "field 8, user_input_key, with presence",
        &["wire/presence/user_input_key", "bind/name/user_key"],
    ),
    Clause::by(
        "2.2",
        "fields 1 to 3, numbers without a setter",
        &["wire/config/numbers"],
    ),
    Clause::by("2.2", "field 4, async_load", &["edit/async_load/set"]),
    Clause::by("2.2", "field 5, lazy_load", &["edit/lazy_load/set"]),
    Clause::by(
        "2.2",
        "field 6, return_aliases",
        &[
            "wire/config/return_aliases",
            "alias/return_aliases/false",
            "alias/return_aliases/true",
        ],
    ),
    Clause::by(
        "2.2",
        "the whole message may be absent, or stand twice",
        &["wire/config/absent", "wire/config/merged"],
    ),
    Clause::by(
        "2.3",
        "fields 1 and 2, tensors in the order of their ordinals",
        &["execute/order/outputs", "order/load/calls"],
    ),
    Clause::by(
        "2.3",
        "field 4, serialized_graph_def",
        &["wire/graph/in_neff", "wire/graph/empty", "graph/contract/"],
    ),
    Clause::by("2.3", "field 5, name", &["wire/name/model"]),
    Clause::by(
        "2.3",
        "field 6, output_aliases_to, a map of int64",
        &["wire/alias/", "metaneff/alias/"],
    ),
    Clause::by("2.3", "fields 7 to 9, counts", &["wire/counts/"]),
    Clause::elsewhere(
        "3",
        "layouts of the native messages in memory",
        "memory of another library; no interface shows it",
    ),
    Clause::by(
        "3",
        "boundary tensors are walked in their order",
        &["order/load/calls"],
    ),
    Clause::by(
        "4.1",
        "the type comes from the data type",
        &["dtype/number/"],
    ),
    Clause::by(
        "4.1",
        "the shape is the metaneff's",
        &["wire/shape/", "execute/shape/scalar"],
    ),
    Clause::by(
        "4.1",
        "the leading dimension is the batch where the flag is set",
        &["dynamic/rows/"],
    ),
    Clause::by(
        "4.2",
        "16 numbers become types of known size",
        &["dtype/number/"],
    ),
    Clause::by(
        "4.2",
        "XLA's types collapse into few numbers",
        &[
            "slot/dtype/u32_in_int32",
            "dtype/number/pred_as_uint8",
            "dtype/number/f8_as_int8",
        ],
    ),
    Clause::by(
        "4.3",
        "a tensor set a side, allocated at load",
        &[
            "order/load/calls",
            "set/destroy/empty",
            "threads/pool/shared",
        ],
    ),
    Clause::by(
        "4.3",
        "bytes are item size times all dimensions",
        &["execute/shape/scalar", "execute/shape/matmul", "set/size/"],
    ),
    Clause::by(
        "4.3",
        "a failed allocation is an error, and nothing stays allocated",
        &["order/session/no_memory", "status/allocate/second"],
    ),
    Clause::by(
        "4.3",
        "a failed addition to a set is an error",
        &["order/launch/failed_bind", "status/bind/failure"],
    ),
    Clause::by(
        "4.3",
        "1003 is no failure",
        &[
            "execute/completion/nan",
            "status/execute/1003_injected",
            "order/launch/numerical_error",
        ],
    ),
    Clause::by(
        "4.4",
        "user inputs are counted by their role",
        &[
            "slot/order/states_skipped",
            "wire/counts/right",
            "roles/order/any",
        ],
    ),
    Clause::by(
        "4.4",
        "an aliased output takes the donor's buffer",
        &["order/state/donated", "alias/state/never_copied"],
    ),
    Clause::by(
        "4.4",
        "ranks of one program, each with weights and states of its own",
        &[
            "spmd/weights/own",
            "spmd/inputs/ranked",
            "spmd/rank/own_number",
        ],
    ),
    Clause::by(
        "4.5",
        "inputs of each rank, or the same for all",
        &["spmd/inputs/", "spmd/bind/all_or_none"],
    ),
    Clause::by(
        "4.5",
        "inputs are checked before any call",
        &["order/launch/refused_tensor", "order/launch/missing_input"],
    ),
    Clause::by(
        "4.5",
        "each input is written and bound, then the model executes",
        &["order/launch/write_bind_execute"],
    ),
    Clause::by(
        "4.5",
        "a failed write is an error",
        &["order/launch/failed_write", "status/write/failure"],
    ),
    Clause::by(
        "4.5",
        "a device tensor is not written again",
        &["slot/device/uploaded"],
    ),
    Clause::by(
        "4.5",
        "an unchanged slot causes no call",
        &["order/launch/unchanged_slots", "bind/cache/unchanged"],
    ),
    Clause::by(
        "4.5",
        "status 0 and 1003 complete, any other fails",
        &["status/execute/"],
    ),
    Clause::by(
        "4.5",
        "outputs are read after the execution",
        &["order/output/read_when_asked", "slot/output/read_into"],
    ),
    Clause::by(
        "4.5",
        "the name must be one that the NEFF has",
        &[
            "neff/table/name_of_no_parameter",
            "set/name/extra",
            "metaneff/name/",
        ],
    ),
    Clause::by("4.5", "slices of a tensor are bound", &["slice/bound/"]),
    Clause::by(
        "4.6",
        "an aliased output reuses its input's buffer",
        &["alias/state/donated", "set/alias/both_sides"],
    ),
    Clause::by(
        "4.6",
        "an output that is not aliased has a buffer of its own",
        &["slot/output/taken", "execute/repeat/new_inputs"],
    ),
    Clause::by(
        "5",
        "count",
        &["slot/order/count_first", "bind/count/missing"],
    ),
    Clause::by(
        "5",
        "dtype",
        &["bind/dtype/refused", "slot/order/dtype_before_shape"],
    ),
    Clause::by("5", "shape", &["bind/shape/refused", "slot/shape/scalar"]),
    Clause::by(
        "5",
        "a scalar is no batch",
        &["slot/batch/scalar_strict", "slot/batch/scalar_lenient"],
    ),
    Clause::by("5", "ordinal", &["slot/ordinal/range"]),
    Clause::by(
        "5",
        "states and weights are not the caller's",
        &["slot/bind/state_as_input", "slot/bind/weight_as_input"],
    ),
    Clause::by("5", "a batch is cut into launches", &["dynamic/rows/"]),
    Clause::by(
        "6",
        "set_async_load, set_lazy_load",
        &["edit/async_load/set", "edit/lazy_load/set"],
    ),
    Clause::by(
        "6",
        "set_dynamic_batching, set_dynamic_batching_mixed",
        &[
            "edit/dynamic_batching/set",
            "edit/dynamic_batching/mixed",
            "edit/reload/batching",
        ],
    ),
    Clause::by(
        "6",
        "counts that nobody writes are 0",
        &["wire/counts/zero"],
    ),
    Clause::by(
        "7",
        "a model is loaded, executed, unloaded",
        &["load/repeat/reload", "life/unload/", "load/policy/unload"],
    ),
    Clause::by(
        "7",
        "one model has many instances",
        &["life/models/many", "threads/models/own", "batch/cores/even"],
    ),
    Clause::by(
        "8",
        "host names are joined to the NEFF's variables",
        &[
            "metaneff/neff/",
            "slot/var_id/joined",
            "order/load/other_tensors",
        ],
    ),
    Clause::by(
        "8",
        "kinds of variables: boundary and the program's own",
        &["neff/table/program_variables", "neff/table/unknown_kind"],
    ),
    Clause::by("9", "the example's bytes", &["wire/golden/"]),
    Clause::by(
        "10",
        "numbers that nothing here consumes are carried",
        &["wire/config/numbers"],
    ),
];
