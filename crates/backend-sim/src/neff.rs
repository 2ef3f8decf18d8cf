//! Reading a NEFF and the graph that belongs to it.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use metaneff_binding::{LoadRequest, Side, TensorInfo};
use metaneff_hlo::Module;
use metaneff_schema::decode_hlo;
use metaneff_schema::neff::{Boundary, BoundaryTensor, Neff, ParseOptions, Variable, VariableKind};
use metaneff_schema::nrt::{NrtDtype, Status};

use crate::config::Config;
use crate::graph::GraphProgram;
use crate::program::{Compiled, Package, Port, Reader, Refusal};

/// Reads NEFFs, and executes their graphs with `metaneff-hlo`.
#[derive(Debug)]
pub(crate) struct NeffReader;

impl Reader for NeffReader {
    fn read(&self, request: &LoadRequest, config: &Config) -> Result<Compiled, Refusal> {
        let mut options = ParseOptions::default();
        options.validate_hash = config.validate_hash;
        options.allow_legacy = config.allow_legacy_neff;
        options.target = Some(config.profile().target.to_owned());
        let neff = Neff::parse(request.neff.clone(), &options).map_err(|error| Refusal {
            status: error.status(),
            detail: error.to_string(),
        })?;
        let package = package(&neff)?;
        let graph = graph(&neff, request, config)?;
        let program = Arc::new(program(&graph, config)?);
        Ok(Compiled {
            package,
            program,
            graph,
        })
    }
}

fn invalid(detail: impl Into<String>) -> Refusal {
    Refusal {
        status: Status::INVALID,
        detail: detail.into(),
    }
}

/// The graph: the one in the NEFF, else the request's, else what is found.
fn graph(neff: &Neff, request: &LoadRequest, config: &Config) -> Result<Bytes, Refusal> {
    if let Some(graph) = neff.graph().or(request.graph.as_ref()) {
        return Ok(graph.clone());
    }
    let found = match &config.graphs {
        Some(source) => source.graph(&request.neff),
        None => Err("the device program itself runs on a device only".to_owned()),
    };
    found.map_err(|looked| {
        invalid(format!(
            "no graph to execute: none of the NEFF's {} members is one, and the load request \
             has none; {looked}",
            neff.members().len()
        ))
    })
}

fn program(graph: &Bytes, config: &Config) -> Result<GraphProgram, Refusal> {
    let refused = |error: &dyn std::error::Error| invalid(format!("graph: {error}"));
    // Some dumps wrap the module.
    let module = metaneff_schema::unwrap_hlo_proto(graph).unwrap_or_else(|_| graph.clone());
    let proto = decode_hlo(module).map_err(|error| refused(&error))?;
    let boundary = Boundary::of(&proto).map_err(|error| refused(&error))?;
    let verified = Module::verify(&proto).map_err(|error| refused(&error))?;
    let ports = |tensors: &[BoundaryTensor]| tensors.iter().map(port).collect();
    let inputs: Result<Vec<_>, _> = ports(&boundary.inputs);
    let outputs: Result<Vec<_>, _> = ports(&boundary.outputs);
    GraphProgram::new(verified, config.custom_calls.clone(), inputs?, outputs?).map_err(invalid)
}

fn port(tensor: &BoundaryTensor) -> Result<Port, Refusal> {
    Ok(Port {
        name: tensor.name.clone(),
        bytes: size(&tensor.name, tensor.size)?,
    })
}

fn size(name: &str, bytes: u64) -> Result<usize, Refusal> {
    usize::try_from(bytes).map_err(|_| {
        invalid(format!(
            "`{name}` has {bytes} bytes, more than an address space"
        ))
    })
}

fn package(neff: &Neff) -> Result<Package, Refusal> {
    let header = neff.header();
    let mut tensors = Vec::new();
    for (side, variables) in [
        (Side::Input, neff.inputs().collect::<Vec<_>>()),
        (Side::Output, neff.outputs().collect()),
    ] {
        for variable in variables {
            tensors.push(info(variable, side)?);
        }
    }
    // What of the program's own variables lives in device memory.
    let own = neff.variables().iter().filter(|variable| {
        let kind = &variable.kind;
        let stored = matches!(kind, VariableKind::Temporary | VariableKind::File);
        stored && variable.referenced_var_id.is_none()
    });
    let scratch = own.fold(0_u64, |sum, variable| sum.saturating_add(variable.size));
    let mut hash = String::with_capacity(2 * header.hash.len());
    for byte in header.hash {
        // Writing to a string cannot fail.
        let _ = write!(hash, "{byte:02x}");
    }
    let size = header.logical_core_size;
    Ok(Package {
        name: header.name.clone(),
        hash,
        tensors,
        scratch,
        physical_cores: header.requested_cores.saturating_mul(size.max(1)),
        virtual_core_size: size,
    })
}

fn info(variable: &Variable, side: Side) -> Result<TensorInfo, Refusal> {
    let name = &variable.name;
    let dims = variable.shape.iter().flatten();
    let shape: Result<Vec<u32>, _> = dims.map(|dim| u32::try_from(*dim)).collect();
    let shape = shape.map_err(|_| {
        invalid(format!(
            "`{name}` has dimensions {:?}, of which one exceeds 32 bits",
            variable.shape
        ))
    })?;
    // Every 8-bit float is reported so.
    let dtype = match variable.dtype {
        NrtDtype::FP8_E3 | NrtDtype::FP8_E4 | NrtDtype::FP8_E5 => NrtDtype::INT8,
        other => other,
    };
    Ok(TensorInfo::new(
        name,
        side,
        size(name, variable.size)?,
        dtype,
        shape,
    ))
}
