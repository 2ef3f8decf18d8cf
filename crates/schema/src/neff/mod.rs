//! The NEFF container: header, package, manifests, variable table.
//!
//! A NEFF is a 1,024-byte header and a tar. Three manifests, each naming the
//! next, lead to the table of the device program's variables; the inputs and
//! outputs among them are what a metaneff's names refer to. The device program
//! itself is opaque and stays so.
//!
//! [`Neff::parse`] is the reader, with every gate of the runtime's loader.
//! [`NeffBuilder`] packs an HLO module into a container that passes the same
//! gates; its program cannot run on a device, and the module inside it is what
//! the simulator executes.
//!
//! Source: the documented header and the runtime's own checks, as far as they
//! are public; not tried against a real runtime.

mod boundary;
mod builder;
mod error;
mod header;
mod manifest;
mod package;
mod variable;

use std::collections::BTreeMap;

use bytes::Bytes;

pub use boundary::{Boundary, BoundaryTensor};
pub use builder::{BuildError, NeffBuilder};
pub use error::NeffError;
pub use header::{HEADER_SIZE, NeffHeader, PackageKind};
pub use package::Member;
pub use variable::{Variable, VariableKind};

use package::Package;

/// Feature bits that this reader refuses: 27 to 62 of format version 2.
const UNKNOWN_FEATURES: u64 = ((1 << 63) - 1) & !((1 << 27) - 1);

/// Kept contents may have this many bytes whatever the file's size.
const FREE_EXPANSION: u64 = 1 << 20;

/// Kept contents may have this many bytes for each byte of the file.
const MAX_EXPANSION: u64 = 32;

/// How strictly a NEFF is read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParseOptions {
    /// Compare the data's hash (`NEURON_RT_VALIDATE_HASH`).
    pub validate_hash: bool,
    /// Feature bits that the runtime has.
    pub supported_features: u64,
    /// The device's architecture (`sunda`, `cayman`, `mariana`), where the file's
    /// target is to be checked against it.
    pub target: Option<String>,
    /// Accept a program for another architecture (`NEURON_RT_ALLOW_LEGACY_NEFF`).
    pub allow_legacy: bool,
    /// Bytes that the kept contents may have together: manifests and graph.
    /// Other members are read past, not kept. `None` is 32 times the file plus
    /// 1 MiB.
    pub max_expansion: Option<u64>,
}

impl Default for ParseOptions {
    fn default() -> Self {
        Self {
            validate_hash: false,
            supported_features: !UNKNOWN_FEATURES,
            target: None,
            allow_legacy: false,
            max_expansion: None,
        }
    }
}

/// A NEFF that passed every gate.
///
/// # Examples
///
/// ```
/// use metaneff_schema::neff::{Neff, NeffBuilder, ParseOptions};
/// # use metaneff_schema::xla;
/// # use prost::Message as _;
/// # let shape = xla::ShapeProto {
/// #     element_type: xla::PrimitiveType::F32.into(), dimensions: vec![2, 3], ..Default::default()
/// # };
/// # let program = xla::ProgramShapeProto {
/// #     parameters: vec![shape.clone()], result: Some(shape.clone()), ..Default::default()
/// # };
/// # let parameter = xla::HloInstructionProto {
/// #     name: "p".into(), opcode: "parameter".into(), shape: Some(shape), ..Default::default()
/// # };
/// # let module = xla::HloModuleProto {
/// #     host_program_shape: Some(program),
/// #     computations: vec![xla::HloComputationProto {
/// #         instructions: vec![parameter], ..Default::default()
/// #     }],
/// #     ..Default::default()
/// # };
/// # let hlo = module.encode_to_vec();
/// let file = NeffBuilder::from_hlo(hlo)?.name("identity").build();
/// let neff = Neff::parse(file, &ParseOptions::default())?;
/// assert_eq!(neff.header().name, "identity");
/// assert_eq!(neff.inputs().next().unwrap().name, "input0");
/// assert!(neff.graph().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Neff {
    header: NeffHeader,
    package: Package,
    members: Vec<Member>,
    variables: Vec<Variable>,
    graph: Option<Bytes>,
    limit: u64,
}

impl Neff {
    /// Reads a NEFF through all gates, in the runtime's order: size, package
    /// version, header size, data size, format version, features, hash, archive,
    /// manifests, target, variable table.
    ///
    /// Memory is bounded by [`ParseOptions::max_expansion`], whatever the archive
    /// expands to.
    ///
    /// # Errors
    ///
    /// [`NeffError`], which has the status that the runtime answers.
    pub fn parse(file: impl Into<Bytes>, options: &ParseOptions) -> Result<Self, NeffError> {
        let file = file.into();
        let header = NeffHeader::read(&file)?;
        let package = Package::new(&file, &header)?;
        check_version(&header, options)?;
        if options.validate_hash {
            package.check_hash(&header)?;
        }
        let limit = options
            .max_expansion
            .unwrap_or_else(|| (file.len() as u64).saturating_mul(MAX_EXPANSION) + FREE_EXPANSION);
        let mut members = Vec::new();
        let mut kept = BTreeMap::new();
        package.walk(
            limit,
            |name| manifest::is_manifest(name) || name == manifest::GRAPH,
            |member, contents| {
                // The compiler's wave graph is for its own tools.
                if member.name.ends_with("wavegraph-bin.json") {
                    return;
                }
                if let Some(contents) = contents {
                    kept.insert(member.name.clone(), contents);
                }
                members.push(member);
            },
        )?;
        let variables = manifest::variables(&kept, options)?;
        let graph = kept.remove(manifest::GRAPH);
        Ok(Self {
            header,
            package,
            members,
            variables,
            graph,
            limit,
        })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &NeffHeader {
        &self.header
    }

    /// Names and sizes of the members, in the package's order.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The variable table, by id.
    #[must_use]
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Variables that are filled before an execution, by id.
    pub fn inputs(&self) -> impl Iterator<Item = &Variable> {
        self.variables
            .iter()
            .filter(|variable| variable.kind == VariableKind::Input)
    }

    /// Variables that an execution writes, by id.
    pub fn outputs(&self) -> impl Iterator<Item = &Variable> {
        self.variables
            .iter()
            .filter(|variable| variable.kind == VariableKind::Output)
    }

    /// The graph, an `HloModuleProto`, where the packer put one into the package.
    /// Compilers do not.
    #[must_use]
    pub const fn graph(&self) -> Option<&Bytes> {
        self.graph.as_ref()
    }

    /// Reads one member's contents out of the package.
    ///
    /// # Errors
    ///
    /// [`NeffError::MissingMember`]; [`NeffError::Expansion`] when it is larger
    /// than [`ParseOptions::max_expansion`].
    pub fn read_member(&self, name: &str) -> Result<Bytes, NeffError> {
        let mut contents = None;
        let mut wanted = |member: &str| member == name;
        self.package
            .walk(self.limit, &mut wanted, |member, found| {
                if member.name == name {
                    contents = found;
                }
            })?;
        contents.ok_or_else(|| NeffError::MissingMember {
            member: name.to_owned(),
            named_by: "the caller",
        })
    }
}

fn check_version(header: &NeffHeader, options: &ParseOptions) -> Result<(), NeffError> {
    let (major, minor) = header.version;
    if major > 2 {
        return Err(NeffError::Version { major, minor });
    }
    let missing = header.feature_bits & !options.supported_features;
    if major == 2 && missing != 0 {
        return Err(NeffError::Features {
            requested: header.feature_bits,
            supported: options.supported_features,
            missing,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
