//! What a contract can have wrong.

use std::fmt;

use crate::backend::Side;
use crate::contract::Role;
use crate::dtype::DType;
use crate::shape::{Shape, SizeOverflow};

/// How many findings an error keeps; the rest are counted.
pub(super) const KEPT: usize = 100;

/// One thing that is wrong with a metaneff, or that differs between it and its
/// graph.
///
/// Ordinals are those of the metaneff, also where a map entry points outside it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// A name is not text.
    #[error("name of {side} {ordinal} is not UTF-8: {bytes:?}")]
    NameNotUtf8 {
        /// Which side.
        side: Side,
        /// Which tensor.
        ordinal: usize,
        /// The name's bytes.
        bytes: Vec<u8>,
    },
    /// A name that no C interface can carry: empty, with a NUL byte, or of 256
    /// bytes and more.
    #[error("name of {side} {ordinal} cannot be passed to the runtime: {name:?}")]
    NameNotUsable {
        /// Which side.
        side: Side,
        /// Which tensor.
        ordinal: usize,
        /// The name.
        name: String,
    },
    /// A name other than `input{i}` or `output{i}`: the device may not know it.
    #[error("{side} {ordinal} is named `{found}`, expected `{expected}`")]
    UnexpectedName {
        /// Which side.
        side: Side,
        /// Which tensor.
        ordinal: usize,
        /// The name by the rule.
        expected: String,
        /// The name found.
        found: String,
    },
    /// Two tensors of one side share a name, so one would take the other's place.
    #[error("{side}s {first} and {second} are both named `{name}`")]
    DuplicateName {
        /// Which side.
        side: Side,
        /// The name.
        name: String,
        /// The first of the two.
        first: usize,
        /// The second of the two.
        second: usize,
    },
    /// The numbering of the names has a gap.
    #[error("there is no `{side}{index}`")]
    MissingSlot {
        /// Which side.
        side: Side,
        /// The number that is missing.
        index: usize,
    },
    /// The element type is not stated, or is the schema's reserved number.
    #[error("{side} {ordinal} `{name}` has no element type (data type {number})")]
    NoDataType {
        /// Which side.
        side: Side,
        /// Which tensor.
        ordinal: usize,
        /// Its name.
        name: String,
        /// The number found.
        number: i32,
    },
    /// A role number that the schema does not have; lenient contracts take the
    /// input for the caller's.
    #[error("input {ordinal} `{name}` has role number {number}, which is not known")]
    UnknownRole {
        /// Which input.
        ordinal: usize,
        /// Its name.
        name: String,
        /// The number found.
        number: i32,
    },
    /// A dimension is negative or does not fit a size.
    #[error("{side} {ordinal} `{name}` has dimension {value} at position {position}")]
    BadDimension {
        /// Which side.
        side: Side,
        /// Which tensor.
        ordinal: usize,
        /// Its name.
        name: String,
        /// Position in the shape.
        position: usize,
        /// The value found.
        value: i64,
    },
    /// The tensor is larger than any buffer.
    #[error("{side} {ordinal} `{name}`: {source}")]
    SizeOverflow {
        /// Which side.
        side: Side,
        /// Which tensor.
        ordinal: usize,
        /// Its name.
        name: String,
        /// The shape and the element type.
        source: SizeOverflow,
    },
    /// A scalar is marked as batched. It is never part of a batch; a strict
    /// contract refuses to bind it, as the native runtime does.
    #[error("input {ordinal} `{name}` is a scalar with a dynamic batch")]
    DynamicScalar {
        /// Which input.
        ordinal: usize,
        /// Its name.
        name: String,
    },
    /// A checkpoint or argument key is not text.
    #[error("{kind} of {side} {ordinal} is not UTF-8: {bytes:?}")]
    KeyNotUtf8 {
        /// Which side.
        side: Side,
        /// Which tensor.
        ordinal: usize,
        /// The field.
        kind: KeyKind,
        /// The key's bytes.
        bytes: Vec<u8>,
    },
    /// Two inputs share a key, so neither can be found by it.
    #[error("inputs {first} and {second} share the {kind} `{key}`")]
    DuplicateKey {
        /// The field.
        kind: KeyKind,
        /// The key.
        key: String,
        /// The first of the two.
        first: usize,
        /// The second of the two.
        second: usize,
    },
    /// An inline constant is not as long as its tensor.
    #[error("{side} {ordinal} `{name}` takes {expected} bytes, its inline constant has {found}")]
    ContentLength {
        /// Which side.
        side: Side,
        /// Which tensor.
        ordinal: usize,
        /// Its name.
        name: String,
        /// Bytes of the tensor.
        expected: usize,
        /// Bytes of the constant.
        found: usize,
    },
    /// A count in the metaneff's header differs from the tensors that it has.
    #[error("the metaneff declares {declared} {role}s and has {found}")]
    RoleCount {
        /// The role.
        role: Role,
        /// The count declared.
        declared: i64,
        /// The tensors of that role.
        found: usize,
    },
    /// An alias names an output that does not exist.
    #[error("output {output} takes the buffer of input {input}, but there are {outputs} outputs")]
    AliasOutputOutOfRange {
        /// The output of the entry.
        output: i64,
        /// The input of the entry.
        input: i64,
        /// Outputs of the contract.
        outputs: usize,
    },
    /// An alias names an input that does not exist.
    #[error("output {output} takes the buffer of input {input}, but there are {inputs} inputs")]
    AliasInputOutOfRange {
        /// The output of the entry.
        output: i64,
        /// The input of the entry.
        input: i64,
        /// Inputs of the contract.
        inputs: usize,
    },
    /// Two outputs take one input's buffer.
    #[error("outputs {first} and {second} both take the buffer of input {input}")]
    AliasedTwice {
        /// The input.
        input: usize,
        /// The first of the two outputs.
        first: usize,
        /// The second of the two outputs.
        second: usize,
    },
    /// An output takes the buffer of an input of another shape or element type.
    #[error(
        "output {output} ({output_shape}, data type {output_type}) takes the buffer of \
         input {input} ({input_shape}, data type {input_type})"
    )]
    AliasMismatch {
        /// The output.
        output: usize,
        /// Its shape.
        output_shape: Shape,
        /// Its data type number.
        output_type: i32,
        /// The input.
        input: usize,
        /// Its shape.
        input_shape: Shape,
        /// Its data type number.
        input_type: i32,
        /// Whether both take the same number of bytes.
        same_size: bool,
    },
    /// The graph cannot be decoded.
    #[error("the graph cannot be read: {detail}")]
    GraphNotReadable {
        /// The reason.
        detail: String,
    },
    /// The graph has another number of parameters or results.
    #[error("the metaneff has {contract} {side}s, its graph {graph}")]
    GraphCount {
        /// Which side.
        side: Side,
        /// Tensors of the contract.
        contract: usize,
        /// Parameters or results of the graph.
        graph: usize,
    },
    /// The graph says another element type, outside of the producers' collapse.
    #[error("{side} {ordinal} `{name}` is stored as {stored}, in the graph it is {graph}")]
    GraphDType {
        /// Which side.
        side: Side,
        /// Which tensor.
        ordinal: usize,
        /// Its name.
        name: String,
        /// The contract's type.
        stored: DType,
        /// The graph's type, by XLA's name.
        graph: String,
        /// Whether both take the same number of bytes.
        same_size: bool,
    },
    /// The graph says another shape.
    #[error("{side} {ordinal} `{name}` has shape {contract}, in the graph {graph:?}")]
    GraphShape {
        /// Which side.
        side: Side,
        /// Which tensor.
        ordinal: usize,
        /// Its name.
        name: String,
        /// The contract's shape.
        contract: Shape,
        /// The graph's shape.
        graph: Vec<i64>,
        /// Whether both have the same number of elements.
        same_size: bool,
    },
    /// The graph aliases a pair that the metaneff does not.
    #[error("in the graph output {output} takes the buffer of input {input}, in the metaneff not")]
    AliasOnlyInGraph {
        /// The output.
        output: usize,
        /// The input.
        input: usize,
    },
    /// The metaneff aliases a pair that the graph does not.
    #[error("in the metaneff output {output} takes the buffer of input {input}, in the graph not")]
    AliasOnlyInContract {
        /// The output.
        output: usize,
        /// The input.
        input: usize,
    },
}

impl Finding {
    /// Whether a lenient contract takes this for a warning: what is found names
    /// no other buffer than the one meant, and no other size.
    #[must_use]
    pub const fn is_tolerable(&self) -> bool {
        match self {
            Self::UnexpectedName { .. }
            | Self::UnknownRole { .. }
            | Self::DynamicScalar { .. }
            | Self::KeyNotUtf8 { .. }
            | Self::DuplicateKey { .. }
            | Self::ContentLength { .. }
            | Self::RoleCount { .. }
            | Self::GraphNotReadable { .. }
            | Self::AliasOnlyInGraph { .. }
            | Self::AliasOnlyInContract { .. } => true,
            Self::AliasMismatch { same_size, .. }
            | Self::GraphDType { same_size, .. }
            | Self::GraphShape { same_size, .. } => *same_size,
            Self::NameNotUtf8 { .. }
            | Self::NameNotUsable { .. }
            | Self::DuplicateName { .. }
            | Self::MissingSlot { .. }
            | Self::NoDataType { .. }
            | Self::BadDimension { .. }
            | Self::SizeOverflow { .. }
            | Self::AliasOutputOutOfRange { .. }
            | Self::AliasInputOutOfRange { .. }
            | Self::AliasedTwice { .. }
            | Self::GraphCount { .. } => false,
        }
    }

    /// Whether this is a warning in a strict contract too: nothing can be bound
    /// wrongly for it.
    #[must_use]
    pub const fn is_harmless(&self) -> bool {
        matches!(self, Self::DuplicateKey { .. } | Self::DynamicScalar { .. })
    }
}

/// Which key of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyKind {
    /// `checkpoint_key`: the name in a checkpoint.
    Checkpoint,
    /// `user_input_key`: the framework's argument name.
    UserInput,
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Checkpoint => "checkpoint key",
            Self::UserInput => "user input key",
        })
    }
}

/// A metaneff that is no valid contract, with all that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContractError {
    /// What is wrong, in the order found: the first 100 findings.
    pub findings: Vec<Finding>,
    /// Findings beyond those kept.
    pub omitted: usize,
}

impl fmt::Display for ContractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the metaneff is no valid contract")?;
        list(f, &self.findings, self.omitted)
    }
}

impl std::error::Error for ContractError {}

/// Writes `: first; second; and n more`.
pub(crate) fn list<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: &[T],
    omitted: usize,
) -> fmt::Result {
    for (position, item) in items.iter().enumerate() {
        f.write_str(if position == 0 { ": " } else { "; " })?;
        item.fmt(f)?;
    }
    if omitted > 0 {
        write!(f, "; and {omitted} more")?;
    }
    Ok(())
}
