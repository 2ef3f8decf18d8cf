//! Why a container is refused, and what the runtime answers then.

use crate::nrt::Status;

/// A NEFF that was refused.
///
/// Every gate of the runtime has a variant; [`status`](Self::status) is what
/// `nrt_load` answers there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NeffError {
    /// There is no room for the header.
    #[error("header needs {expected} bytes, found {found}")]
    TooShort {
        /// Bytes of a header.
        expected: usize,
        /// Bytes of the file.
        found: usize,
    },
    /// The package version names no package kind.
    #[error("package version is {found}, expected 1 (tar) or 2 (gzip tar)")]
    PackageVersion {
        /// The header's value.
        found: u64,
    },
    /// The header's own size is not possible.
    #[error("header size is {found}, expected {expected}")]
    HeaderSize {
        /// The only size that there is.
        expected: u64,
        /// The header's value.
        found: u64,
    },
    /// The header announces more data than the file has.
    #[error("data size is {found}, at most {available} bytes follow the header")]
    DataSize {
        /// The header's value.
        found: u64,
        /// Bytes after the header.
        available: u64,
    },
    /// The format is newer than this reader.
    #[error("format version {major}.{minor} is not supported, expected major version at most 2")]
    Version {
        /// Major version.
        major: u64,
        /// Minor version.
        minor: u64,
    },
    /// The file needs features that the runtime lacks: it was compiled by a
    /// newer compiler.
    #[error(
        "compiled by a newer compiler: features {requested:#x} requested, {supported:#x} supported, \
         {missing:#x} missing"
    )]
    Features {
        /// Feature bits of the header.
        requested: u64,
        /// Feature bits that are supported.
        supported: u64,
        /// Requested and not supported.
        missing: u64,
    },
    /// The hash of the data is not the header's.
    #[error("{algorithm} of the data is {found}, the header says {expected}")]
    Hash {
        /// `MD5` or `SHA-256`.
        algorithm: &'static str,
        /// The header's value, in hexadecimal.
        expected: String,
        /// The data's value, in hexadecimal.
        found: String,
    },
    /// The archive cannot be read.
    #[error("archive cannot be read after {members} members: {detail}")]
    Archive {
        /// Members read before.
        members: usize,
        /// What the reader says.
        detail: String,
    },
    /// The archive expands to more than is allowed.
    #[error("`{member}` expands beyond {limit} bytes")]
    Expansion {
        /// The member that passed the limit.
        member: String,
        /// The limit, for all members together.
        limit: u64,
    },
    /// A manifest is missing.
    #[error("no member `{member}`, which {named_by} names")]
    MissingMember {
        /// The member's name.
        member: String,
        /// Where it is named.
        named_by: &'static str,
    },
    /// A manifest is not what it must be.
    #[error("`{member}`: {detail}")]
    Manifest {
        /// The member's name.
        member: String,
        /// What is wrong.
        detail: String,
    },
    /// The program is for another architecture.
    #[error("compiled for target `{target}`, this device is `{expected}`")]
    Target {
        /// The manifest's target.
        target: String,
        /// The device's architecture.
        expected: String,
    },
    /// Ids of variables are not 0 to count − 1.
    #[error("variable ids are not dense: {count} variables, largest id {largest}, {detail}")]
    VariableIds {
        /// Variables in the table.
        count: usize,
        /// Largest id.
        largest: i64,
        /// The id at fault.
        detail: String,
    },
    /// A variable is not possible.
    #[error("variable `{name}`: {detail}")]
    Variable {
        /// The variable's name.
        name: String,
        /// Expected against found.
        detail: String,
    },
    /// The program writes nothing, and no module is there that would say why.
    #[error("the variable table has no output")]
    NoOutput,
}

impl NeffError {
    /// What `nrt_load` answers for a file with this fault.
    ///
    /// Versions and features answer 10 (user need 2); all other
    /// faults are an argument that is not valid, 2.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self {
            Self::Version { .. } | Self::Features { .. } => Status::UNSUPPORTED_NEFF_VERSION,
            _ => Status::INVALID,
        }
    }
}
