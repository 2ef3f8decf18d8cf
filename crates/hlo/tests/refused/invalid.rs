//! Modules that are refused, each with what is wrong with it.

use metaneff_schema::xla::{
    HloModuleProto, LayoutProto, LiteralProto, PrimitiveType, ProgramShapeProto, ShapeProto,
    SourceTarget,
};

use crate::build::*;

pub(crate) fn refused() -> Vec<(&'static str, HloModuleProto)> {
    let two = [f32(&[2]), f32(&[2])];
    let reduce = [f32(&[2, 3]), f32(&[])];
    let matrices = [f32(&[2, 3]), f32(&[3, 4])];
    let state = tuple(&[array(S32, &[]), f32(&[2])]);
    vec![
        // Elementwise.
        (
            "add of other dimensions",
            of("add", &[f32(&[2]), f32(&[3])], f32(&[2])),
        ),
        (
            "add of other types",
            of("add", &[f32(&[2]), array(S32, &[2])], f32(&[2])),
        ),
        ("add of another result", of("add", &two, f32(&[3]))),
        (
            "add of another result type",
            of("add", &two, array(PrimitiveType::F64, &[2])),
        ),
        ("add of one operand", of("add", &two[..1], f32(&[2]))),
        (
            "add of three operands",
            of("add", &[f32(&[2]), f32(&[2]), f32(&[2])], f32(&[2])),
        ),
        (
            "add without broadcasting",
            of("add", &[f32(&[2]), f32(&[])], f32(&[2])),
        ),
        (
            "add of mixed precision",
            of(
                "add",
                &[f32(&[2]), array(PrimitiveType::Bf16, &[2])],
                f32(&[2]),
            ),
        ),
        ("and of floats", vectors("and")),
        ("shift of floats", vectors("shift-left")),
        (
            "divide of truth values",
            of(
                "divide",
                &[array(PRED, &[2]), array(PRED, &[2])],
                array(PRED, &[2]),
            ),
        ),
        (
            "exponential of integers",
            of("exponential", &[array(S32, &[2])], array(S32, &[2])),
        ),
        (
            "floor of integers",
            of("floor", &[array(S32, &[2])], array(S32, &[2])),
        ),
        ("popcnt of floats", of("popcnt", &two[..1], f32(&[2]))),
        (
            "sign of unsigned",
            of("sign", &[array(U64, &[2])], array(U64, &[2])),
        ),
        (
            "is-finite giving floats",
            of("is-finite", &two[..1], f32(&[2])),
        ),
        ("not of floats", of("not", &two[..1], f32(&[2]))),
        (
            "complex of integers",
            of(
                "complex",
                &[array(S32, &[2]), array(S32, &[2])],
                array(PrimitiveType::C64, &[2]),
            ),
        ),
        (
            "compare without direction",
            of("compare", &two, array(PRED, &[2])),
        ),
        (
            "compare giving floats",
            with("compare", &two, f32(&[2]), |op| {
                op.comparison_direction = "LT".into();
            }),
        ),
        (
            "compare of unknown type",
            with("compare", &two, array(PRED, &[2]), |op| {
                op.comparison_direction = "LT".into();
                op.comparison_type = "SIGNED".into();
            }),
        ),
        (
            "select by floats",
            of("select", &[f32(&[2]), f32(&[2]), f32(&[2])], f32(&[2])),
        ),
        (
            "select of other dimensions",
            of(
                "select",
                &[array(PRED, &[2]), f32(&[2]), f32(&[3])],
                f32(&[2]),
            ),
        ),
        (
            "clamp of other types",
            of(
                "clamp",
                &[array(S32, &[2]), f32(&[2]), f32(&[2])],
                f32(&[2]),
            ),
        ),
        (
            "convert that reshapes",
            of("convert", &two[..1], array(S32, &[1, 2])),
        ),
        (
            "convert of complex to real",
            of("convert", &[array(PrimitiveType::C64, &[2])], f32(&[2])),
        ),
        (
            "bitcast-convert of odd sizes",
            of(
                "bitcast-convert",
                &[f32(&[2])],
                array(PrimitiveType::S16, &[2]),
            ),
        ),
        (
            "reduce-precision without exponent",
            of("reduce-precision", &two[..1], f32(&[2])),
        ),
        // Movement.
        (
            "broadcast to another size",
            with("broadcast", &[f32(&[2])], f32(&[3, 4]), dimensions(&[1])),
        ),
        (
            "broadcast to a missing dimension",
            with("broadcast", &[f32(&[2])], f32(&[2]), dimensions(&[1])),
        ),
        (
            "broadcast without dimensions",
            of("broadcast", &[f32(&[2])], f32(&[3, 2])),
        ),
        (
            "broadcast to one dimension twice",
            with(
                "broadcast",
                &[f32(&[2, 2])],
                f32(&[2, 2]),
                dimensions(&[0, 0]),
            ),
        ),
        (
            "reshape of another count",
            of("reshape", &[f32(&[2, 3])], f32(&[5])),
        ),
        (
            "transpose that repeats",
            with(
                "transpose",
                &[f32(&[2, 3])],
                f32(&[3, 2]),
                dimensions(&[1, 1]),
            ),
        ),
        (
            "transpose of another result",
            with(
                "transpose",
                &[f32(&[2, 3])],
                f32(&[2, 3]),
                dimensions(&[1, 0]),
            ),
        ),
        (
            "slice beyond the end",
            with("slice", &[f32(&[5])], f32(&[6]), slice(0, 6, 1)),
        ),
        (
            "slice without stride",
            with("slice", &[f32(&[5])], f32(&[2]), slice(0, 2, 0)),
        ),
        (
            "slice that starts after its end",
            with("slice", &[f32(&[5])], f32(&[0]), slice(3, 2, 1)),
        ),
        (
            "pad with negative interior",
            with("pad", &[f32(&[3]), f32(&[])], f32(&[1]), padding(0, 0, -1)),
        ),
        (
            "pad to less than nothing",
            with("pad", &[f32(&[3]), f32(&[])], f32(&[0]), padding(-4, 0, 0)),
        ),
        (
            "pad with a vector",
            with("pad", &[f32(&[3]), f32(&[1])], f32(&[3]), padding(0, 0, 0)),
        ),
        (
            "pad that overflows",
            with(
                "pad",
                &[f32(&[3]), f32(&[])],
                f32(&[3]),
                padding(i64::MAX, i64::MAX, 0),
            ),
        ),
        (
            "concatenate of other ranks",
            with(
                "concatenate",
                &[f32(&[2]), f32(&[2, 1])],
                f32(&[4]),
                dimensions(&[0]),
            ),
        ),
        (
            "concatenate of another sum",
            with("concatenate", &two, f32(&[5]), dimensions(&[0])),
        ),
        ("iota of a scalar", of("iota", &[], f32(&[]))),
        (
            "iota along a missing dimension",
            with("iota", &[], f32(&[2]), dimensions(&[1])),
        ),
        (
            "reverse of one dimension twice",
            with("reverse", &two[..1], f32(&[2]), dimensions(&[0, 0])),
        ),
        (
            "dynamic-slice larger than its operand",
            with(
                "dynamic-slice",
                &[f32(&[5]), array(S32, &[])],
                f32(&[6]),
                |op| op.dynamic_slice_sizes = vec![6],
            ),
        ),
        (
            "dynamic-slice by floats",
            with("dynamic-slice", &[f32(&[5]), f32(&[])], f32(&[2]), |op| {
                op.dynamic_slice_sizes = vec![2];
            }),
        ),
        (
            "dynamic-slice without starts",
            with("dynamic-slice", &[f32(&[5])], f32(&[2]), |op| {
                op.dynamic_slice_sizes = vec![2];
            }),
        ),
        (
            "dynamic-update-slice of a larger update",
            of(
                "dynamic-update-slice",
                &[f32(&[5]), f32(&[6]), array(S32, &[])],
                f32(&[5]),
            ),
        ),
        // Algebra.
        (
            "dot of other sizes",
            with("dot", &matrices, f32(&[3, 3]), dot(&[0], &[0])),
        ),
        (
            "dot of another result",
            with("dot", &matrices, f32(&[4, 2]), dot(&[1], &[0])),
        ),
        (
            "dot of a missing dimension",
            with("dot", &matrices, f32(&[2, 4]), dot(&[2], &[0])),
        ),
        ("dot without numbers", of("dot", &matrices, f32(&[2, 4]))),
        (
            "dot of real and complex",
            with(
                "dot",
                &[f32(&[2, 3]), array(PrimitiveType::C64, &[3, 4])],
                f32(&[2, 4]),
                dot(&[1], &[0]),
            ),
        ),
        ("convolution of other features", conv(3)),
        (
            "cholesky of a rectangle",
            of("cholesky", &matrices[..1], f32(&[2, 3])),
        ),
        (
            "fft of reals",
            with("fft", &two[..1], f32(&[2]), |op| op.fft_length = vec![2]),
        ),
        // Reductions.
        (
            "reduce of a missing dimension",
            calling(
                vec![add(F32)],
                "reduce",
                &reduce,
                f32(&[2]),
                dimensions(&[2]),
            ),
        ),
        (
            "reduce of one dimension twice",
            calling(
                vec![add(F32)],
                "reduce",
                &reduce,
                f32(&[2]),
                dimensions(&[1, 1]),
            ),
        ),
        (
            "reduce of another result",
            calling(
                vec![add(F32)],
                "reduce",
                &reduce,
                f32(&[3]),
                dimensions(&[1]),
            ),
        ),
        (
            "reduce by another type",
            calling(
                vec![add(S32)],
                "reduce",
                &reduce,
                f32(&[2]),
                dimensions(&[1]),
            ),
        ),
        (
            "reduce with a vector",
            calling(
                vec![add(F32)],
                "reduce",
                &[f32(&[2, 3]), f32(&[1])],
                f32(&[2]),
                dimensions(&[1]),
            ),
        ),
        (
            "reduce without a computation",
            with("reduce", &reduce, f32(&[2]), dimensions(&[1])),
        ),
        (
            "reduce-window of another rank",
            calling(
                vec![add(F32)],
                "reduce-window",
                &reduce,
                f32(&[2, 1]),
                |op| op.window = Some(window(3)),
            ),
        ),
        (
            "reduce-window without size",
            calling(
                vec![add(F32)],
                "reduce-window",
                &[f32(&[3]), f32(&[])],
                f32(&[3]),
                |op| op.window = Some(window(0)),
            ),
        ),
        (
            "sort by a sum",
            calling(
                vec![add(F32)],
                "sort",
                &[f32(&[4])],
                f32(&[4]),
                dimensions(&[0]),
            ),
        ),
        (
            "sort along a missing dimension",
            calling(
                vec![less(F32)],
                "sort",
                &[f32(&[4])],
                f32(&[4]),
                dimensions(&[1]),
            ),
        ),
        (
            "topk of more than there are",
            with(
                "topk",
                &[f32(&[4])],
                tuple(&[f32(&[5]), array(S32, &[5])]),
                |op| op.k = 5,
            ),
        ),
        // Indexing.
        ("gather of too large a slice", gather(&[1, 5], |_| {})),
        ("gather of one size too few", gather(&[1], |_| {})),
        ("gather that collapses two rows", gather(&[2, 4], |_| {})),
        (
            "gather of a missing dimension",
            gather(&[1, 4], |numbers| numbers.start_index_map = vec![2]),
        ),
        (
            "gather with two offset dimensions",
            gather(&[1, 4], |numbers| numbers.offset_dims = vec![0, 1]),
        ),
        ("scatter of other updates", scatter(&[2, 4], |_| {})),
        ("scatter of too large a window", scatter(&[3, 5], |_| {})),
        (
            "scatter with unsorted windows",
            scatter(&[3, 4], |numbers| numbers.inserted_window_dims = vec![1, 0]),
        ),
        // Calls and tuples.
        (
            "call of too few arguments",
            calling(vec![add(F32)], "call", &[f32(&[])], f32(&[]), |_| {}),
        ),
        (
            "call of other arguments",
            calling(vec![add(F32)], "call", &two, f32(&[]), |_| {}),
        ),
        (
            "while on another state",
            calling(
                vec![less(F32), add(F32)],
                "while",
                std::slice::from_ref(&state),
                state.clone(),
                |_| {},
            ),
        ),
        (
            "conditional by floats",
            calling(
                vec![add(F32), less(F32)],
                "conditional",
                &[f32(&[]), f32(&[]), f32(&[])],
                f32(&[]),
                |_| {},
            ),
        ),
        (
            "tuple of another shape",
            of("tuple", &two, tuple(&[f32(&[2]), f32(&[3])])),
        ),
        (
            "get-tuple-element beyond the end",
            with(
                "get-tuple-element",
                std::slice::from_ref(&state),
                f32(&[2]),
                |op| op.tuple_index = 2,
            ),
        ),
        (
            "get-tuple-element of an array",
            of("get-tuple-element", &two[..1], f32(&[2])),
        ),
        (
            "map of vectors",
            calling(vec![add(F32)], "map", &two, f32(&[3]), dimensions(&[0])),
        ),
        (
            "rng-bit-generator of floats",
            of(
                "rng-bit-generator",
                &[array(U64, &[2])],
                tuple(&[array(U64, &[2]), f32(&[4])]),
            ),
        ),
        (
            "custom-call without target",
            of("custom-call", &two, f32(&[2])),
        ),
        (
            "set-dimension-size",
            of(
                "set-dimension-size",
                &[f32(&[2]), array(S32, &[])],
                f32(&[2]),
            ),
        ),
        ("an opcode that is none", vectors("sum")),
        // Collectives.
        (
            "all-gather of another size",
            along("all-gather", 2, 6, &[&[0, 1]]),
        ),
        (
            "all-reduce with an id twice",
            all_reduce(|op| op.replica_groups = groups(&[&[0, 0]])),
        ),
        (
            "all-reduce without the id 1",
            all_reduce(|op| op.replica_groups = groups(&[&[0, 2]])),
        ),
        (
            "all-reduce without the id 0",
            all_reduce(|op| op.replica_groups = groups(&[&[2], &[1]])),
        ),
        (
            "all-reduce of global device ids without groups",
            all_reduce(|op| (op.channel_id, op.use_global_device_ids) = (1, true)),
        ),
        (
            "all-gather of uneven groups",
            along("all-gather", 2, 4, &[&[0, 1], &[2]]),
        ),
        (
            "all-to-all of uneven groups",
            along("all-to-all", 4, 4, &[&[0, 1], &[2]]),
        ),
        (
            "reduce-scatter of uneven groups",
            reduce_scatter(&[&[0, 1], &[2]]),
        ),
        (
            "collective-permute with a target twice",
            with("collective-permute", &two[..1], f32(&[2]), |op| {
                op.source_target_pairs = vec![
                    SourceTarget {
                        source: 0,
                        target: 1,
                    },
                    SourceTarget {
                        source: 1,
                        target: 1,
                    },
                ];
            }),
        ),
        (
            "partition-id of another type",
            of("partition-id", &[], array(S32, &[])),
        ),
        // Literals and shapes.
        ("constant without literal", of("constant", &[], f32(&[2]))),
        ("constant of too few values", constant(literal(&[1.0]))),
        (
            "constant of too many values",
            constant(literal(&[1.0, 2.0, 3.0])),
        ),
        (
            "constant of another shape",
            constant(LiteralProto {
                shape: Some(f32(&[3])),
                ..literal(&[1.0, 2.0])
            }),
        ),
        (
            "constant of another type",
            constant(LiteralProto {
                s32s: vec![1, 2],
                ..literal(&[])
            }),
        ),
        (
            "a negative dimension",
            of("copy", &[f32(&[-1])], f32(&[-1])),
        ),
        (
            "a product that overflows",
            of(
                "copy",
                &[f32(&[1 << 32, 1 << 32])],
                f32(&[1 << 32, 1 << 32]),
            ),
        ),
        (
            "a product that overflows beside a 0",
            of(
                "copy",
                &[f32(&[1 << 40, 1 << 40, 0])],
                f32(&[1 << 40, 1 << 40, 0]),
            ),
        ),
        (
            "an element type that is none",
            of(
                "copy",
                &[ShapeProto {
                    element_type: 99,
                    ..f32(&[2])
                }],
                f32(&[2]),
            ),
        ),
        (
            "a layout of another rank",
            of(
                "copy",
                &[ShapeProto {
                    layout: Some(LayoutProto {
                        minor_to_major: vec![0, 1],
                        ..LayoutProto::default()
                    }),
                    ..f32(&[2])
                }],
                f32(&[2]),
            ),
        ),
        (
            "a layout that repeats",
            of(
                "copy",
                &[ShapeProto {
                    layout: Some(LayoutProto {
                        minor_to_major: vec![0, 0],
                        ..LayoutProto::default()
                    }),
                    ..f32(&[2, 2])
                }],
                f32(&[2, 2]),
            ),
        ),
        (
            "a dynamic dimension",
            of(
                "copy",
                &[ShapeProto {
                    is_dynamic_dimension: vec![true],
                    ..f32(&[2])
                }],
                f32(&[2]),
            ),
        ),
        (
            "an instruction without shape",
            changed(vectors("add"), |m| {
                m.computations[0].instructions[2].shape = None;
            }),
        ),
        // Ids.
        (
            "an operand that is not there",
            changed(vectors("add"), |m| {
                m.computations[0].instructions[2].operand_ids[1] = 7;
            }),
        ),
        (
            "an operand that comes later",
            changed(vectors("add"), |m| {
                m.computations[0].instructions.swap(1, 2);
            }),
        ),
        (
            "an instruction that is its own operand",
            changed(vectors("add"), |m| {
                m.computations[0].instructions[2].operand_ids[1] = 1002;
            }),
        ),
        (
            "an instruction id twice",
            changed(vectors("add"), |m| {
                m.computations[0].instructions[1].id = 1000;
            }),
        ),
        (
            "a root that is not there",
            changed(vectors("add"), |m| m.computations[0].root_id = 7),
        ),
        (
            "an entry that is not there",
            changed(vectors("add"), |m| m.entry_computation_id = 7),
        ),
        (
            "a computation that calls itself",
            changed(
                calling(
                    vec![add(F32)],
                    "call",
                    &[f32(&[]), f32(&[])],
                    f32(&[]),
                    |_| {},
                ),
                |m| m.computations[1].instructions[2].called_computation_ids = vec![1000],
            ),
        ),
        (
            "a computation that comes later",
            changed(
                calling(
                    vec![add(F32)],
                    "call",
                    &[f32(&[]), f32(&[])],
                    f32(&[]),
                    |_| {},
                ),
                |m| m.computations.swap(0, 1),
            ),
        ),
        (
            "a computation id twice",
            changed(
                calling(
                    vec![add(F32)],
                    "call",
                    &[f32(&[]), f32(&[])],
                    f32(&[]),
                    |_| {},
                ),
                |m| m.computations[1].id = 0,
            ),
        ),
        (
            "a parameter number that is missing",
            changed(vectors("add"), |m| {
                m.computations[0].instructions[1].parameter_number = 2;
            }),
        ),
        (
            "a parameter number twice",
            changed(vectors("add"), |m| {
                m.computations[0].instructions[1].parameter_number = 0;
            }),
        ),
        (
            "a negative parameter number",
            changed(vectors("add"), |m| {
                m.computations[0].instructions[0].parameter_number = -1;
            }),
        ),
        ("no computations", HloModuleProto::default()),
        // The module's interface.
        (
            "a program shape of another parameter",
            changed(vectors("add"), |m| {
                m.host_program_shape = Some(ProgramShapeProto {
                    parameters: vec![f32(&[2]), f32(&[3])],
                    result: Some(f32(&[2])),
                    ..ProgramShapeProto::default()
                });
            }),
        ),
        (
            "an alias of a missing parameter",
            changed(vectors("add"), |m| {
                m.input_output_alias = Some(alias(&[], 2));
            }),
        ),
        (
            "an alias of a missing output",
            changed(vectors("add"), |m| {
                m.input_output_alias = Some(alias(&[0], 0));
            }),
        ),
    ]
}
