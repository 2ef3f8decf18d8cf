//! The opcodes that verification accepts, as data for the documentation.

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

/// The table of [`OPCODES`] in Markdown.
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
    table
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
    "all-reduce", "all", SPEC, "reduces in the order of the group";
    "all-to-all", "all", SPEC, "in a world of devices";
    "and", "pred, integer", SPEC, "";
    "asin", "float", XLA, "";
    "asinh", "float", XLA, "";
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
    "compare", "all", SPEC, "TOTALORDER as specified, unlike XLA's evaluator";
    "complex", "f32, f64", SPEC, "";
    "concatenate", "all", SPEC, "";
    "conditional", "all", SPEC, "an index without a branch takes the last one";
    "constant", "all", SPEC, "";
    "convert", "all", SPEC, "to integers: truncates, saturates, NaN is 0";
    "convolution", "all", SPEC, "types below f32 accumulate in f32; mixed padding as specified, unlike jitted XLA";
    "copy", "all", XLA, "";
    "cosh", "float", XLA, "";
    "cosine", "float, complex", SPEC, "";
    "count-leading-zeros", "integer", SPEC, "";
    "custom-call", "all", NEURON, "targets of the registry";
    "divide", "number", SPEC, "integers: by 0 gives -1; by a power as XLA's simplifier rewrites it";
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
    "logistic", "float, complex", SPEC, "";
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
    "power", "number", SPEC, "integers wrap; negative exponents give 0 or a unit";
    "real", "float, complex", SPEC, "";
    "reduce", "all", SPEC, "sums of types below f32 as XLA's windows of 32, or in f32 on request";
    "reduce-precision", "float", SPEC, "";
    "reduce-scatter", "all", SPEC, "in a world of devices";
    "reduce-window", "all", SPEC, "";
    "remainder", "real numbers", SPEC, "the sign of the dividend; by 0 gives the dividend";
    "replica-id", "u32", SPEC, "0 outside a world";
    "reshape", "all", SPEC, "";
    "reverse", "all", SPEC, "";
    "rng", "real", XLA, "own numbers, from the seed of the options";
    "rng-bit-generator", "integer", XLA, "three-fry and philox bit for bit; default is philox";
    "round-nearest-afz", "float", SPEC, "";
    "round-nearest-even", "float", SPEC, "";
    "rsqrt", "float, complex", SPEC, "";
    "scatter", "all", SPEC, "drops windows that do not fit, or fails under the strict policy";
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
    "topk", "real", XLA, "ties by the lower index, NaN is largest";
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
    }
}
