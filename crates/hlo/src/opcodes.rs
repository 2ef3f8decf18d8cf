//! The opcodes that verification accepts and refuses, as data for the documentation.

use crate::custom::{REFUSED_TARGETS, TARGETS};

/// An opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpcodeInfo {
    /// Its name in HLO.
    pub name: &'static str,
    /// The element types that it takes.
    pub elements: &'static str,
    /// Where its meaning is fixed.
    pub source: &'static str,
    /// Where it deviates from jitted XLA or from that source.
    pub notes: &'static str,
}

/// An opcode of HLO that verification refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedOpcode {
    /// Its name in HLO.
    pub name: &'static str,
    /// Why.
    pub reason: &'static str,
}

/// The refusal of an opcode that is one of HLO's.
pub(crate) fn refused(name: &str) -> Option<&'static RefusedOpcode> {
    REFUSED_OPCODES.iter().find(|opcode| opcode.name == name)
}

/// The tables of [`OPCODES`], [`REFUSED_OPCODES`], [`TARGETS`] and
/// [`REFUSED_TARGETS`] in Markdown.
#[must_use]
pub fn opcode_table() -> String {
    let mut table =
        String::from("| opcode | element types | meaning | notes |\n|---|---|---|---|\n");
    for opcode in OPCODES {
        let OpcodeInfo {
            name,
            elements,
            source,
            notes,
        } = opcode;
        table.extend([
            "| `", name, "` | ", elements, " | ", source, " | ", notes, " |\n",
        ]);
    }
    table.push_str("\nOpcodes of HLO that are refused:\n\n| opcode | reason |\n|---|---|\n");
    for RefusedOpcode { name, reason } in REFUSED_OPCODES {
        table.extend(["| `", name, "` | ", reason, " |\n"]);
    }
    table.push_str(
        "\nTargets of `custom-call` that execute; any interface version, 0 included:\n\n",
    );
    table.push_str("| target | operands; configuration | result | source |\n|---|---|---|---|\n");
    for info in TARGETS {
        table.extend([
            "| `",
            info.target,
            "` | ",
            info.takes,
            " | ",
            info.gives,
            " | ",
            info.source,
            " |\n",
        ]);
    }
    table.push_str(
        "\nTargets that are known and refused:\n\n| target | reason | source |\n|---|---|---|\n",
    );
    for refused in REFUSED_TARGETS {
        table.extend([
            "| `",
            refused.target,
            "` | ",
            refused.reason,
            " | ",
            refused.source,
            " |\n",
        ]);
    }
    table
}

/// The opcodes of HLO that verification refuses, by name.
pub const REFUSED_OPCODES: &[RefusedOpcode] = &[
    refusal("dynamic-reshape", DYNAMIC),
    refusal("infeed", HOST),
    refusal("outfeed", HOST),
    refusal("ragged-all-to-all", RAGGED),
    refusal("ragged-dot", RAGGED),
    refusal("recv", CHANNEL),
    refusal("recv-done", CHANNEL),
    refusal("rng-get-and-update-state", "its state outlives executions"),
    refusal("scaled-dot", "no Neuron front end emits it"),
    refusal("send", CHANNEL),
    refusal("send-done", CHANNEL),
    refusal("set-dimension-size", DYNAMIC),
    refusal(
        "stochastic-convert",
        "no XLA backend for CPUs has it to compare with",
    ),
];

const DYNAMIC: &str = "shapes are static here, as in a NEFF";
const HOST: &str = "there is no host to exchange with during an execution";
const RAGGED: &str = "sizes that depend on data are not supported";
const CHANNEL: &str = "channels between modules are not supported; collectives are";

const fn refusal(name: &'static str, reason: &'static str) -> RefusedOpcode {
    RefusedOpcode { name, reason }
}

const SPEC: &str = "StableHLO specification";
const XLA: &str = "XLA operation semantics";
const NEURON: &str = "Neuron front ends";

macro_rules! opcodes {
    ($($name:literal, $elements:literal, $source:expr, $notes:literal;)*) => {
        /// Every opcode that verification accepts, by name.
        pub const OPCODES: &[OpcodeInfo] = &[$(OpcodeInfo {
            name: $name,
            elements: $elements,
            source: $source,
            notes: $notes,
        }),*];
    };
}

opcodes! {
    "abs", "signed, float, complex", SPEC, "";
    "acos", "float", XLA, "";
    "acosh", "float", XLA, "";
    "add", "all", SPEC, "pred: or";
    "add-dependency", "all", XLA, "gives its first operand";
    "after-all", "token", SPEC, "";
    "all-gather", "all", SPEC, "in a world of devices";
    "all-gather-done", "all", XLA, "";
    "all-gather-start", "all", XLA, "executes at once";
    "all-reduce", "all", SPEC, "reduces in the order of the group";
    "all-reduce-done", "all", XLA, "";
    "all-reduce-start", "all", XLA, "executes at once";
    "all-to-all", "all", SPEC, "in a world of devices";
    "and", "pred, integer", SPEC, "";
    "asin", "float", XLA, "";
    "asinh", "float", XLA, "";
    "async-done", "all", XLA, "";
    "async-start", "all", XLA, "calls its computation at once";
    "async-update", "all", XLA, "gives its operand";
    "atan2", "float", SPEC, "";
    "atanh", "float", XLA, "";
    "batch-norm-grad", "float", SPEC, "";
    "batch-norm-inference", "float", SPEC, "";
    "batch-norm-training", "float", SPEC, "";
    "bitcast", "all", XLA, "as reshape: the element type stays";
    "bitcast-convert", "all", SPEC, "";
    "broadcast", "all", SPEC, "";
    "call", "all", XLA, "";
    "cbrt", "float", SPEC, "";
    "ceil", "float", SPEC, "";
    "cholesky", "float, complex", SPEC, "the other triangle is 0";
    "clamp", "real", SPEC, "the upper bound wins where bounds cross";
    "collective-broadcast", "all", SPEC, "in a world of devices";
    "collective-permute", "all", SPEC, "devices that are no target get zeros";
    "collective-permute-done", "all", XLA, "";
    "collective-permute-start", "all", XLA, "executes at once";
    "compare", "all", SPEC, "TOTALORDER as specified, unlike XLA's evaluator";
    "complex", "f32, f64", SPEC, "";
    "concatenate", "all", SPEC, "";
    "conditional", "all", SPEC, "an index without a branch takes the last one";
    "constant", "all", SPEC, "";
    "convert", "all", SPEC, "to integers: truncates, saturates, NaN is 0";
    "convolution", "all", SPEC, "types below f32 accumulate in f32; mixed padding as specified, unlike jitted XLA";
    "copy", "all", XLA, "";
    "copy-done", "all", XLA, "";
    "copy-start", "all", XLA, "copies at once";
    "cosh", "float", XLA, "";
    "cosine", "float, complex", SPEC, "";
    "count-leading-zeros", "integer", SPEC, "";
    "custom-call", "all", NEURON, "targets of the registry; see below";
    "divide", "number", SPEC, "integers: by 0 gives -1; by a power as XLA's simplifier rewrites it, where the options ask for that";
    "domain", "all", XLA, "gives its operand";
    "dot", "all", SPEC, "types below f32 accumulate in f32";
    "dynamic-slice", "all", SPEC, "clamps on its own operand when nested, unlike jitted XLA";
    "dynamic-update-slice", "all", SPEC, "in place where nothing else reads the operand";
    "erf", "float", XLA, "";
    "exponential", "float, complex", SPEC, "";
    "exponential-minus-one", "float, complex", SPEC, "";
    "fft", "f32, f64, complex", SPEC, "";
    "floor", "float", SPEC, "";
    "fusion", "all", XLA, "called as its computation";
    "gather", "all", SPEC, "clamps starts, or fails under the strict policy";
    "get-dimension-size", "all", SPEC, "";
    "get-tuple-element", "all", SPEC, "";
    "imag", "float, complex", SPEC, "";
    "iota", "number", SPEC, "";
    "is-finite", "float", SPEC, "";
    "log", "float, complex", SPEC, "";
    "log-plus-one", "float, complex", SPEC, "";
    "logistic", "float, complex", SPEC, "jitted XLA gives 0 for f16 below -11.09, where the exact value is a denormal";
    "map", "all", SPEC, "";
    "maximum", "real", SPEC, "NaN wins";
    "minimum", "real", SPEC, "NaN wins";
    "multiply", "all", SPEC, "pred: and";
    "negate", "number", SPEC, "";
    "not", "pred, integer", SPEC, "";
    "opt-barrier", "all", SPEC, "gives its operand";
    "optimization-barrier", "all", SPEC, "gives its operand";
    "or", "pred, integer", SPEC, "";
    "pad", "all", SPEC, "negative edges crop";
    "parameter", "all", XLA, "";
    "partition-id", "u32", SPEC, "0 outside a world";
    "popcnt", "integer", SPEC, "";
    "power", "number", SPEC, "integers wrap; negative exponents give 0 or a unit; exponents of six bits as in jitted XLA, where the options ask for that";
    "real", "float, complex", SPEC, "";
    "reduce", "all", SPEC, "sums of types below f32 in f32, rounded once, or as XLA's windows of 32 on request; of single elements without the initial value as in jitted XLA, where the options ask for that";
    "reduce-precision", "float", SPEC, "";
    "reduce-scatter", "all", SPEC, "in a world of devices";
    "reduce-window", "all", SPEC, "types below f32 round once, or at every step as in XLA on request, but for cumulative windows";
    "remainder", "real numbers", SPEC, "the sign of the dividend; by 0 gives the dividend";
    "replica-id", "u32", SPEC, "0 outside a world";
    "reshape", "all", SPEC, "";
    "reverse", "all", SPEC, "";
    "rng", "real", XLA, "numbers of its own, which no specification fixes, unlike XLA's; from the seed of the options";
    "rng-bit-generator", "integer", XLA, "three-fry and philox bit for bit; default is philox";
    "round-nearest-afz", "float", SPEC, "";
    "round-nearest-even", "float", SPEC, "";
    "rsqrt", "float, complex", SPEC, "";
    "scatter", "all", SPEC, "drops windows that do not fit, or fails under the strict policy; of empty index vectors every update counts, unlike jitted XLA";
    "select", "all", SPEC, "";
    "select-and-scatter", "all", SPEC, "";
    "shift-left", "integer", SPEC, "";
    "shift-right-arithmetic", "integer", SPEC, "";
    "shift-right-logical", "integer", SPEC, "";
    "sign", "signed, float, complex", SPEC, "";
    "sine", "float, complex", SPEC, "";
    "sinh", "float", XLA, "";
    "slice", "all", SPEC, "";
    "sort", "all", SPEC, "always stable";
    "sqrt", "float, complex", SPEC, "";
    "subtract", "number", SPEC, "";
    "tan", "float, complex", SPEC, "";
    "tanh", "float, complex", SPEC, "";
    "topk", "real", XLA, "in total order, NaN largest and -NaN least; ties by the lower index";
    "transpose", "all", SPEC, "";
    "triangular-solve", "float, complex", SPEC, "";
    "tuple", "all", SPEC, "";
    "while", "all", SPEC, "within the step budget and the deadline";
    "xor", "pred, integer", SPEC, "";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(OPCODES.is_sorted_by_key(|opcode| opcode.name));
        assert!(REFUSED_OPCODES.is_sorted_by_key(|opcode| opcode.name));
    }
}
