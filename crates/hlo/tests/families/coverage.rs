//! Which test compares which opcode with a reference.

use std::collections::BTreeSet;

use metaneff_hlo::OPCODES;

/// Opcodes that the tests of a file compare.
struct Family {
    file: &'static str,
    text: &'static str,
    opcodes: &'static [&'static str],
}

macro_rules! families {
    ($($file:literal: $opcodes:expr;)*) => {
        const FAMILIES: &[Family] = &[$(Family {
            file: $file,
            text: include_str!($file),
            opcodes: $opcodes,
        }),*];
    };
}

families! {
    "elementwise.rs": &[
        "abs", "acos", "acosh", "add", "and", "asin", "asinh", "atan2", "atanh", "cbrt", "ceil",
        "clamp", "compare", "copy", "cosh", "cosine", "count-leading-zeros", "divide", "erf",
        "exponential", "exponential-minus-one", "floor", "is-finite", "log", "log-plus-one",
        "logistic", "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "power",
        "remainder", "round-nearest-afz", "round-nearest-even", "rsqrt", "select", "shift-left",
        "shift-right-arithmetic", "shift-right-logical", "sign", "sine", "sinh", "sqrt",
        "subtract", "tan", "tanh", "xor",
    ];
    "algebra.rs": &[
        "batch-norm-grad", "batch-norm-inference", "batch-norm-training", "cholesky", "complex",
        "fft", "imag", "real", "triangular-solve",
    ];
    "bits.rs": &["bitcast-convert", "convert", "reduce-precision", "rng-bit-generator"];
    "collectives.rs": &[
        "all-gather", "all-reduce", "all-to-all", "async-done", "async-start", "async-update",
        "collective-broadcast", "collective-permute", "copy-done", "copy-start", "partition-id",
        "reduce-scatter", "replica-id",
    ];
    "control.rs": &[
        "add-dependency", "after-all", "call", "conditional", "constant", "domain", "fusion",
        "get-tuple-element", "map", "opt-barrier", "optimization-barrier", "rng", "tuple", "while",
    ];
    "indexing.rs": &["dynamic-slice", "dynamic-update-slice", "gather", "scatter"];
    "movement.rs": &[
        "bitcast", "broadcast", "concatenate", "get-dimension-size", "iota", "pad", "reshape",
        "reverse", "slice", "transpose",
    ];
    "ordering.rs": &["sort", "topk"];
    "products.rs": &["convolution", "dot"];
    "windows.rs": &["reduce", "reduce-window", "select-and-scatter"];
    // Every module has parameters.
    "../refused/build.rs": &["parameter"];
}

/// Opcodes that no file names as they stand, and why.
const OTHERWISE: &[(&str, &str)] = &[
    (
        "all-gather-done",
        "`collectives` forms the name from the opcode that is started",
    ),
    (
        "all-gather-start",
        "`collectives` forms the name from the opcode that is started",
    ),
    (
        "all-reduce-done",
        "`collectives` forms the name from the opcode that is started",
    ),
    (
        "all-reduce-start",
        "`collectives` forms the name from the opcode that is started",
    ),
    (
        "collective-permute-done",
        "`collectives` forms the name from the opcode that is started",
    ),
    (
        "collective-permute-start",
        "`collectives` forms the name from the opcode that is started",
    ),
    (
        "custom-call",
        "each target is compared in `tests/execution/custom.rs`",
    ),
];

#[test]
fn every_opcode_has_a_family() {
    let all: BTreeSet<&str> = OPCODES.iter().map(|opcode| opcode.name).collect();
    let mut found = BTreeSet::new();
    for family in FAMILIES {
        for &opcode in family.opcodes {
            let quoted = format!("\"{opcode}\"");
            assert!(family.text.contains(&quoted), "{opcode} in {}", family.file);
            assert!(found.insert(opcode), "{opcode} in two families");
        }
    }
    for &(opcode, _) in OTHERWISE {
        assert!(found.insert(opcode), "{opcode} in two places");
    }
    assert_eq!(found, all);
}
