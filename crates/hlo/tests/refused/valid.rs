//! Modules that are accepted; the refused ones differ from them.

use metaneff_schema::xla::HloModuleProto;

use crate::build::*;

/// The accepted modules that the refused ones are made from.
pub(crate) fn accepted() -> Vec<(&'static str, HloModuleProto)> {
    let reduce = [f32(&[2, 3]), f32(&[])];
    vec![
        ("add", vectors("add")),
        (
            "dot",
            with(
                "dot",
                &[f32(&[2, 3]), f32(&[3, 4])],
                f32(&[2, 4]),
                dot(&[1], &[0]),
            ),
        ),
        (
            "slice",
            with("slice", &[f32(&[5])], f32(&[2]), slice(1, 5, 2)),
        ),
        (
            "pad",
            with("pad", &[f32(&[3]), f32(&[])], f32(&[6]), padding(-1, 2, 1)),
        ),
        (
            "reduce",
            calling(
                vec![add(F32)],
                "reduce",
                &reduce,
                f32(&[2]),
                dimensions(&[1]),
            ),
        ),
        ("conv", conv(2)),
        ("gather", gather(&[1, 4], |_| {})),
        ("scatter", scatter(&[3, 4], |_| {})),
        ("constant", constant(literal(&[1.0, 2.0]))),
        (
            "sort",
            calling(
                vec![less(F32)],
                "sort",
                &[f32(&[4])],
                f32(&[4]),
                dimensions(&[0]),
            ),
        ),
        (
            "all-reduce of uneven groups",
            all_reduce(|op| op.replica_groups = groups(&[&[2, 0], &[1]])),
        ),
        (
            "all-reduce of global device ids",
            all_reduce(|op| {
                (op.channel_id, op.use_global_device_ids) = (1, true);
                op.replica_groups = groups(&[&[0, 1]]);
            }),
        ),
        ("all-gather", along("all-gather", 2, 4, &[&[0, 2], &[3, 1]])),
        ("all-to-all", along("all-to-all", 4, 4, &[&[0, 2], &[3, 1]])),
        ("reduce-scatter", reduce_scatter(&[&[0, 2], &[3, 1]])),
        (
            "collective-broadcast to some",
            with("collective-broadcast", &[f32(&[2])], f32(&[2]), |op| {
                op.replica_groups = groups(&[&[0, 2]]);
            }),
        ),
        (
            "broadcast",
            with("broadcast", &[f32(&[2])], f32(&[3, 2]), dimensions(&[1])),
        ),
    ]
}
