//! Packing an HLO module into a container.

use std::io::Write as _;

use bytes::Bytes;
use flate2::{Compression, GzBuilder};
use md5::{Digest as _, Md5};
use serde_json::{Map, Value, json};

use super::header::{NeffHeader, PackageKind};
use super::variable::dtype_name;
use super::{Boundary, BoundaryTensor, HEADER_SIZE, manifest, package};
use crate::DecodeError;
use crate::decode_hlo;

const KELF: &str = "kelf-a.json";
const DEFINITION: &str = "sg00/def.json";

/// Engines of a core; each has a program, and an empty one is an idle engine.
const ENGINES: &[&str] = &["pe", "act", "pool", "dve", "sp"];

/// Why a module cannot be packed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The module cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The entry computation does not exist.
    #[error("no computation has the entry's id {id}")]
    NoEntry {
        /// The id that the module names.
        id: i64,
    },
    /// The root of the entry does not exist.
    #[error("no instruction of the entry has the root's id {id}")]
    NoRoot {
        /// The id that the computation names.
        id: i64,
    },
    /// Parameter numbers are not 0 to count − 1.
    #[error("parameter number {found} found where {expected} is expected")]
    ParameterNumber {
        /// The next number.
        expected: usize,
        /// The number found.
        found: i64,
    },
    /// Tuples nest too deep.
    #[error("tuples of the result nest deeper than {limit}")]
    TupleDepth {
        /// The limit.
        limit: usize,
    },
    /// A tensor cannot stand at the boundary.
    #[error("tensor `{name}`: {detail}")]
    Tensor {
        /// Its name in the NEFF.
        name: String,
        /// Why not.
        detail: String,
    },
    /// An alias names what does not exist, or part of a parameter.
    #[error("alias of output {output:?} to parameter {parameter} names no pair of whole tensors")]
    Alias {
        /// Position of the output.
        output: Vec<i64>,
        /// Parameter number.
        parameter: i64,
    },
    /// Two tensors of one side have the same name.
    #[error("two tensors are called `{name}`")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// The module has no result; a program must write something. Results without
    /// elements count, although they have no variable.
    #[error("the module has no output")]
    NoOutput,
}

/// Packs an HLO module as a NEFF that passes every gate of [`Neff::parse`].
///
/// The container has the manifests, an empty program for every engine, and the
/// module itself as an extra member. A device cannot run it; the simulator runs
/// the module. The same module and settings give the same bytes.
///
/// [`Neff::parse`]: super::Neff::parse
#[derive(Clone, Debug)]
pub struct NeffBuilder {
    graph: Bytes,
    boundary: Boundary,
    header: NeffHeader,
    target: String,
}

impl NeffBuilder {
    /// Takes an `HloModuleProto`.
    ///
    /// # Errors
    ///
    /// [`BuildError`] for a module that cannot be decoded, or whose boundary no
    /// runtime takes.
    pub fn from_hlo(graph: impl Into<Bytes>) -> Result<Self, BuildError> {
        let graph = graph.into();
        let module = decode_hlo(graph.clone())?;
        let boundary = Boundary::of(&module)?;
        let mut names: Vec<_> = variables(&boundary)
            .map(|(_, tensor)| tensor.name.as_str())
            .collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(BuildError::DuplicateName {
                name: pair[0].to_owned(),
            });
        }
        if boundary.outputs.is_empty() {
            return Err(BuildError::NoOutput);
        }
        let header = NeffHeader {
            package: PackageKind::GzipTar,
            data_size: 0,
            version: (2, 0),
            build_version: concat!("metaneff%", env!("CARGO_PKG_VERSION")).to_owned(),
            hash: [0; 32],
            uuid: [0; 16],
            name: module.name,
            requested_cores: 1,
            cores_per_node: vec![1],
            feature_bits: 0,
            logical_core_size: 1,
        };
        Ok(Self {
            graph,
            boundary,
            header,
            target: "*".to_owned(),
        })
    }

    /// Names the model; the default is the module's name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.header.name = name.into();
        self
    }

    /// Chooses the package kind; the default is [`PackageKind::GzipTar`].
    #[must_use]
    pub const fn package(mut self, kind: PackageKind) -> Self {
        self.header.package = kind;
        self
    }

    /// Asks for features of the runtime; the default is none.
    #[must_use]
    pub const fn feature_bits(mut self, bits: u64) -> Self {
        self.header.feature_bits = bits;
        self
    }

    /// Sets the format version; the default is 2.0.
    #[must_use]
    pub const fn version(mut self, major: u64, minor: u64) -> Self {
        self.header.version = (major, minor);
        self
    }

    /// Asks for cores, each of `logical_core_size` physical ones; the default is
    /// one of one.
    #[must_use]
    pub fn cores(mut self, cores: u32, logical_core_size: u32) -> Self {
        self.header.requested_cores = cores;
        self.header.cores_per_node = vec![u8::try_from(cores).unwrap_or(u8::MAX)];
        self.header.logical_core_size = logical_core_size;
        self
    }

    /// Names the architecture (`sunda`, `cayman`, `mariana`); the default `*` fits
    /// all.
    #[must_use]
    pub fn target(mut self, target: impl Into<String>) -> Self {
        self.target = target.into();
        self
    }

    /// The boundary that the container describes.
    #[must_use]
    pub const fn boundary(&self) -> &Boundary {
        &self.boundary
    }

    /// Writes the container.
    #[must_use]
    pub fn build(mut self) -> Bytes {
        let mut tar = tar::Builder::new(Vec::new());
        let json = |value: &Value| value.to_string().into_bytes();
        append(&mut tar, manifest::ROOT, &json(&self.root_manifest()));
        append(&mut tar, KELF, &json(&self.kelf_manifest()));
        append(&mut tar, DEFINITION, &json(&self.definition()));
        for engine in ENGINES {
            append(&mut tar, &format!("sg00/{engine}.bin"), &[]);
        }
        append(&mut tar, manifest::GRAPH, &self.graph);
        let tar = infallible(tar.into_inner());
        let data = match self.header.package {
            PackageKind::Tar => tar,
            PackageKind::GzipTar => {
                // No time and no name, so that the same input gives the same bytes.
                let mut gzip = GzBuilder::new()
                    .mtime(0)
                    .write(Vec::new(), Compression::default());
                infallible(gzip.write_all(&tar));
                infallible(gzip.finish())
            }
        };
        self.header.data_size = data.len() as u64;
        self.header.hash = package::hash(self.header.package, &data);
        self.header.uuid = Md5::digest(&self.graph).into();
        let mut file = Vec::with_capacity(HEADER_SIZE + data.len());
        file.extend_from_slice(&self.header.to_bytes());
        file.extend_from_slice(&data);
        file.into()
    }

    fn root_manifest(&self) -> Value {
        let inputs: Vec<_> = self.boundary.inputs.iter().filter(|t| t.size > 0).collect();
        let outputs: Vec<_> = self
            .boundary
            .outputs
            .iter()
            .filter(|t| t.size > 0)
            .collect();
        let kelf_node = inputs.len();
        let mut nodes: Vec<Value> = inputs
            .iter()
            .map(|tensor| json!({"op": "null", "name": tensor.name, "inputs": []}))
            .collect();
        nodes.push(json!({
            "op": "tvm_op",
            "name": "kelf",
            "attrs": {
                "func_name": "__kelf",
                "kelf": KELF,
                "num_inputs": inputs.len().to_string(),
                "num_outputs": outputs.len().to_string(),
                "flatten_data": "0",
            },
            "inputs": (0..inputs.len()).map(|node| json!([node, 0, 0])).collect::<Vec<_>>(),
        }));
        let entries = || {
            inputs
                .iter()
                .chain(&outputs)
                .map(|tensor| tensor.reported())
        };
        let shapes: Vec<_> = entries().map(|(_, dims)| dims).collect();
        let dtypes: Vec<_> = entries()
            .map(|(dtype, _)| dtype_name(dtype).unwrap_or(""))
            .collect();
        let mut rows: Vec<usize> = (0..=kelf_node).collect();
        rows.push(kelf_node + outputs.len());
        json!({
            "nodes": nodes,
            "arg_nodes": (0..kelf_node).collect::<Vec<_>>(),
            "heads": (0..outputs.len()).map(|output| json!([kelf_node, output, 0])).collect::<Vec<_>>(),
            "node_row_ptr": rows,
            "attrs": {
                "shape": ["list_shape", shapes],
                "dltype": ["list_str", dtypes],
                "output_names": ["list_str", outputs.iter().map(|t| &t.name).collect::<Vec<_>>()],
            },
        })
    }

    fn kelf_manifest(&self) -> Value {
        json!({
            "version": "0.5",
            "target": self.target,
            "graphs": [{"name": "sg00", "definition": DEFINITION}],
        })
    }

    fn definition(&self) -> Value {
        let mut table = Map::new();
        for (var_id, (kind, tensor)) in variables(&self.boundary).enumerate() {
            let (dtype, dims) = tensor.reported();
            let mut entry = json!({
                "type": kind,
                "var_id": var_id,
                "size": tensor.size,
                "shape": dims,
                "element_size": tensor.size / dims.iter().product::<u64>().max(1),
            });
            if let Some(name) = dtype_name(dtype) {
                entry["dtype"] = name.into();
            }
            table.insert(tensor.name.clone(), entry);
        }
        let engines: Map<_, _> = ENGINES
            .iter()
            .map(|engine| {
                (
                    (*engine).to_owned(),
                    json!({"instr": format!("{engine}.bin")}),
                )
            })
            .collect();
        json!({"var": table, "dma_queue": {}, "replica_groups": [], "engines": engines})
    }
}

/// The rows of the variable table in the order of their ids.
fn variables(boundary: &Boundary) -> impl Iterator<Item = (&'static str, &BoundaryTensor)> {
    let inputs = boundary.inputs.iter().map(|tensor| ("input", tensor));
    let outputs = boundary.outputs.iter().map(|tensor| ("output", tensor));
    inputs.chain(outputs).filter(|(_, tensor)| tensor.size > 0)
}

fn append(tar: &mut tar::Builder<Vec<u8>>, name: &str, contents: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.set_size(contents.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(0);
    infallible(tar.append_data(&mut header, name, contents));
}

/// Writing into memory has no way to fail but running out of it.
fn infallible<T: Default>(result: std::io::Result<T>) -> T {
    debug_assert!(result.is_ok(), "writing into memory failed");
    result.unwrap_or_default()
}
