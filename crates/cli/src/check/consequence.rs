//! What would happen if nobody looked.

use metaneff_binding::{DType, Finding, JoinMismatch, Side};
use metaneff_schema::neff::Neff;
use metaneff_schema::nrt::NrtDtype;

/// The rule that a finding breaks, and what binding in spite of it would do.
pub(super) fn of_finding(finding: &Finding) -> (&'static str, String) {
    use Finding as F;
    let fixed = |rule, text: &str| (rule, text.to_owned());
    match finding {
        F::NameNotUtf8 { .. } => fixed(
            "name",
            "no tensor set takes the name, so the slot stays empty",
        ),
        F::NameNotUsable { .. } => fixed(
            "name",
            "the runtime would look for the name up to its first NUL, in 256 bytes",
        ),
        F::UnexpectedName {
            expected, found, ..
        } => (
            "name",
            format!(
                "a host that goes by position would bind `{expected}`, and `{found}` would stay empty"
            ),
        ),
        F::DuplicateName {
            side,
            first,
            second,
            ..
        } => (
            "duplicate-name",
            format!(
                "{side} {second} would take the place of {side} {first}, which would be read by nobody"
            ),
        ),
        F::MissingSlot { side, index } => (
            "missing-slot",
            format!("every {side} from {index} on would be bound one place off"),
        ),
        F::NoDataType { .. } => fixed(
            "no-dtype",
            "the size of the slot's buffer is not known, so nothing can be bound",
        ),
        F::UnknownRole { .. } => fixed(
            "role",
            "the slot would be taken for the caller's, and every later argument shifts",
        ),
        F::BadDimension { .. } | F::SizeOverflow { .. } => {
            fixed("shape", "no buffer of that size can be allocated")
        }
        F::DynamicScalar { .. } => fixed(
            "dynamic-scalar",
            "the native runtime refuses every call with this input",
        ),
        F::KeyNotUtf8 { kind, .. } => ("key", format!("the slot cannot be found by its {kind}")),
        F::DuplicateKey {
            first,
            second,
            kind,
            ..
        } => (
            "duplicate-key",
            format!(
                "inputs {first} and {second} can be told apart by ordinal or name, not by their {kind}"
            ),
        ),
        F::ContentLength {
            expected, found, ..
        } => (
            "constant",
            format!(
                "{} of the slot's {expected} bytes would not come from the constant",
                expected.abs_diff(*found)
            ),
        ),
        F::RoleCount { role, .. } => (
            "counts",
            format!(
                "a host that trusts the count would cut the list of {role}s at the wrong place"
            ),
        ),
        F::AliasOutputOutOfRange { .. } | F::AliasInputOutOfRange { .. } => fixed(
            "alias",
            "the native runtime would index past the end of its tensors",
        ),
        F::AliasedTwice {
            first,
            second,
            input,
        } => (
            "alias",
            format!(
                "outputs {first} and {second} would overwrite each other in the buffer of input {input}"
            ),
        ),
        F::AliasMismatch {
            same_size, output, ..
        } => (
            "alias",
            if *same_size {
                format!("output {output} would be read back with the input's type and shape")
            } else {
                format!("output {output} would be cut off, or written past the input's buffer")
            },
        ),
        F::GraphNotReadable { .. } => fixed("graph", "nothing could be compared with the graph"),
        F::GraphCount {
            side,
            contract,
            graph,
        } => (
            "graph-count",
            if contract > graph {
                format!(
                    "{} {side}s of the contract would be given to nobody",
                    contract - graph
                )
            } else {
                format!(
                    "{} {side}s of the graph would never be filled or read",
                    graph - contract
                )
            },
        ),
        F::GraphDType {
            side: Side::Output,
            stored,
            graph,
            ..
        } => (
            "graph-dtype",
            format!("the program writes {graph}, which the host would take for {stored}"),
        ),
        F::GraphDType {
            stored,
            graph,
            same_size: true,
            ..
        } => (
            "graph-dtype",
            format!(
                "this slot would be filled with {stored} and read as {graph}{}",
                example(*stored, graph)
            ),
        ),
        F::GraphDType { stored, graph, .. } => (
            "graph-dtype",
            format!(
                "this slot would be filled with elements of {} bytes and read as {graph}",
                stored.size()
            ),
        ),
        F::GraphShape {
            side, same_size, ..
        } => fixed(
            "graph-shape",
            match (side, same_size) {
                (Side::Input, true) => {
                    "this slot would be filled with the right bytes in rows of another length"
                }
                (Side::Input, false) => {
                    "this slot would be filled with another number of elements than the program reads"
                }
                (_, true) => "the host would read the right bytes in rows of another length",
                (_, false) => {
                    "the host would read another number of elements than the program writes"
                }
            },
        ),
        F::AliasOnlyInGraph { output, input } => (
            "alias-only-in-graph",
            format!(
                "output {output} would be written to the buffer of input {input}, which the host takes for unchanged"
            ),
        ),
        F::AliasOnlyInContract { output, input } => (
            "alias-only-in-metaneff",
            format!(
                "the host would read output {output} from the buffer of input {input}, where it was never written"
            ),
        ),
        _ => ("contract", String::new()),
    }
}

/// The rule that a mismatch breaks, and what binding in spite of it would do.
pub(super) fn of_mismatch(
    mismatch: &JoinMismatch,
    all: &[JoinMismatch],
    neff: &Neff,
) -> (&'static str, String) {
    match mismatch {
        JoinMismatch::MissingVariable { side, name, .. } => (
            "missing-variable",
            format!(
                "nrt_execute would answer NRT_INVALID: nothing on the device is called `{name}`{}",
                candidates(*side, all)
            ),
        ),
        JoinMismatch::ExtraVariable {
            side: Side::Input,
            name,
        } => (
            "extra-variable",
            format!(
                "`{name}` would not be bound, and nrt_execute would refuse the set or read what its memory holds"
            ),
        ),
        JoinMismatch::ExtraVariable { name, .. } => (
            "extra-variable",
            format!(
                "what the device computes as `{name}` would be lost, or nrt_execute would refuse the set"
            ),
        ),
        JoinMismatch::Size {
            side,
            name,
            expected,
            found,
            ..
        } => (
            "size",
            match side {
                Side::Input if expected < found => format!(
                    "this slot would be filled with {expected} bytes, and the last {} of `{name}` with what was there before",
                    found - expected
                ),
                Side::Input => format!(
                    "this slot would be filled with the first {found} of {expected} bytes, the last {} would be dropped",
                    expected - found
                ),
                _ => {
                    format!("the host would read {expected} bytes where the device writes {found}")
                }
            },
        ),
        JoinMismatch::DType {
            side: Side::Output,
            expected,
            found,
            ..
        } => (
            "dtype",
            format!(
                "the device writes {}, which the host would take for {expected}",
                name_of(*found)
            ),
        ),
        JoinMismatch::DType {
            expected, found, ..
        } => (
            "dtype",
            format!(
                "this slot would be filled with {expected} and read as {}{}",
                name_of(*found),
                example(*expected, &name_of(*found))
            ),
        ),
        JoinMismatch::Shape {
            side: Side::Output,
            found,
            ..
        } => (
            "shape",
            format!("the host would read the right bytes, which the device takes for {found}"),
        ),
        JoinMismatch::Shape { name, found, .. } => {
            let padded = neff
                .variables()
                .iter()
                .find(|variable| &variable.name == name);
            let id = padded.map_or_else(String::new, |variable| {
                format!(" (variable {})", variable.var_id)
            });
            (
                "shape",
                format!(
                    "this slot would be filled with the right bytes{id}, which the device takes for {found}"
                ),
            )
        }
        _ => ("join", String::new()),
    }
}

/// Variables that no slot names: one of them may be the one that is meant.
fn candidates(side: Side, all: &[JoinMismatch]) -> String {
    let names: Vec<_> = all
        .iter()
        .filter_map(|mismatch| match mismatch {
            JoinMismatch::ExtraVariable { side: other, name } if *other == side => {
                Some(format!("`{name}`"))
            }
            _ => None,
        })
        .take(3)
        .collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!("; no slot names {}", names.join(", ")),
    }
}

fn name_of(dtype: NrtDtype) -> String {
    match dtype.name() {
        Some(name) => name.trim_start_matches("NRT_DTYPE_").to_lowercase(),
        None => format!("type {}", dtype.0),
    }
}

/// What becomes of the number one.
fn example(stored: DType, read: &str) -> String {
    let read = read.to_lowercase();
    let whole = read.starts_with('s') || read.starts_with('u') || read.starts_with("int");
    let float = read.starts_with('f') || read.starts_with("float");
    match stored {
        DType::F32 if whole => ": 1.0 would become 1065353216".to_owned(),
        DType::BF16 if whole => ": 1.0 would become 16256".to_owned(),
        DType::F16 if whole => ": 1.0 would become 15360".to_owned(),
        DType::BF16 if float => ": 1.0 would become 1.875".to_owned(),
        DType::F16 if read.starts_with('b') => ": 1.0 would become 0.0078125".to_owned(),
        DType::I32 | DType::U32 if float => ": 1 would become 1.4e-45".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    #[test]
    fn inputs_are_filled_and_outputs_read() {
        let finding = |side| Finding::GraphDType {
            side,
            ordinal: 0,
            name: "x".to_owned(),
            stored: DType::F32,
            graph: "S32".to_owned(),
            same_size: true,
        };
        assert_eq!(
            of_finding(&finding(Side::Input)).1,
            "this slot would be filled with f32 and read as S32: 1.0 would become 1065353216"
        );
        assert_eq!(
            of_finding(&finding(Side::Output)).1,
            "the program writes S32, which the host would take for f32"
        );
    }

    #[test]
    fn the_examples_are_true() {
        let says = |stored, read, value: String| {
            let text = example(stored, read);
            assert!(
                text.ends_with(&format!("become {value}")),
                "{text}: {value}"
            );
        };
        says(DType::F32, "s32", 1_f32.to_bits().to_string());
        says(DType::BF16, "int16", bf16::ONE.to_bits().to_string());
        says(DType::F16, "u16", f16::ONE.to_bits().to_string());
        says(
            DType::BF16,
            "float16",
            f16::from_bits(bf16::ONE.to_bits()).to_string(),
        );
        says(
            DType::F16,
            "bfloat16",
            bf16::from_bits(f16::ONE.to_bits()).to_string(),
        );
        says(
            DType::I32,
            "float32",
            format!("{:e}", f32::from_bits(1)).replace("1e-45", "1.4e-45"),
        );
        assert_eq!(example(DType::F64, "f64"), "");
    }
}
