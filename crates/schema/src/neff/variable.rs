//! One row of the device program's variable table.

use std::fmt;

use crate::nrt::NrtDtype;

/// What a variable is for: `type` in `def.json`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VariableKind {
    /// Filled before an execution.
    Input,
    /// Written by an execution.
    Output,
    /// On-chip buffer that an execution leaves for the next one.
    StateBuffer,
    /// Scratch memory.
    Temporary,
    /// An address range without memory of its own.
    Virtual,
    /// Contents come from a member of the package, such as weights.
    File,
    /// Holds an address.
    Pointer,
    /// A list of variables.
    List,
    /// A table of descriptors that the device generates.
    DgeTable,
    /// A kind that this reader does not know.
    Other(String),
}

const KINDS: &[(&str, VariableKind)] = &[
    ("input", VariableKind::Input),
    ("output", VariableKind::Output),
    ("state-buffer", VariableKind::StateBuffer),
    ("tmp-buf", VariableKind::Temporary),
    ("virtual", VariableKind::Virtual),
    ("file", VariableKind::File),
    ("pointer", VariableKind::Pointer),
    ("list", VariableKind::List),
    ("dge-table", VariableKind::DgeTable),
];

impl VariableKind {
    pub(super) fn from_name(name: &str) -> Self {
        KINDS
            .iter()
            .find(|(text, _)| *text == name)
            .map_or_else(|| Self::Other(name.to_owned()), |(_, kind)| kind.clone())
    }

    /// The word in `def.json`.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Other(name) => name,
            known => KINDS
                .iter()
                .find(|(_, kind)| kind == known)
                .map_or("", |(name, _)| name),
        }
    }
}

impl fmt::Display for VariableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One variable of the device program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Variable {
    /// Name; the key in a tensor set for inputs and outputs.
    pub name: String,
    /// Dense id, 0 to count − 1.
    pub var_id: u32,
    /// What it is for.
    pub kind: VariableKind,
    /// Size in bytes.
    pub size: u64,
    /// Alignment in bytes, a power of two, where stated.
    pub alignment: Option<u64>,
    /// Element type as the runtime reports it; unknown where not stated.
    pub dtype: NrtDtype,
    /// Dimensions, outermost first, where stated.
    pub shape: Option<Vec<u64>>,
    /// Member of the package that holds the contents, for [`VariableKind::File`].
    pub file_name: Option<String>,
    /// Id of the variable whose memory this one uses.
    pub referenced_var_id: Option<u32>,
}

/// Names of element types in manifests.
const DTYPES: &[(&str, NrtDtype)] = &[
    ("float32", NrtDtype::FLOAT32),
    ("float16", NrtDtype::FLOAT16),
    ("bfloat16", NrtDtype::BFLOAT16),
    ("int64", NrtDtype::INT64),
    ("int32", NrtDtype::INT32),
    ("int16", NrtDtype::INT16),
    ("int8", NrtDtype::INT8),
    ("uint64", NrtDtype::UINT64),
    ("uint32", NrtDtype::UINT32),
    ("uint16", NrtDtype::UINT16),
    ("uint8", NrtDtype::UINT8),
    ("float32r", NrtDtype::FP32R),
    ("float8e3", NrtDtype::FP8_E3),
    ("float8e4", NrtDtype::FP8_E4),
    ("float8e5", NrtDtype::FP8_E5),
];

pub(super) fn dtype_from_name(name: &str) -> NrtDtype {
    DTYPES
        .iter()
        .find(|(text, _)| *text == name)
        .map_or(NrtDtype::UNKNOWN, |(_, dtype)| *dtype)
}

pub(super) fn dtype_name(dtype: NrtDtype) -> Option<&'static str> {
    DTYPES
        .iter()
        .find(|(_, known)| *known == dtype)
        .map(|(name, _)| *name)
}
