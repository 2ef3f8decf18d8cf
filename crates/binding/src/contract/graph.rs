//! What a graph says of its own boundary: parameters, results, aliases.
//!
//! Only signatures are read here. Whether the graph is a valid module is the
//! executor's question.

use std::collections::BTreeMap;

use bytes::Bytes;
use metaneff_schema::decode_hlo;
use metaneff_schema::xla::{HloComputationProto, HloModuleProto, ShapeProto};

/// An array at the graph's boundary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) element_type: i32,
    pub(super) dimensions: Vec<i64>,
}

/// Parameters and results, tuples flattened depth first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) parameters: Vec<Leaf>,
    pub(super) results: Vec<Leaf>,
    /// Result to the parameter whose buffer it takes.
    pub(super) aliases: BTreeMap<usize, usize>,
}

impl Signature {
    pub(super) fn of(module: &HloModuleProto) -> Result<Self, String> {
        let (parameters, result) = program(module)?;
        let mut firsts = Vec::with_capacity(parameters.len());
        let mut leaves = Vec::new();
        for parameter in &parameters {
            firsts.push(leaves.len());
            flatten(parameter, &mut leaves);
        }
        let mut results = Vec::new();
        flatten(result, &mut results);

        let mut aliases = BTreeMap::new();
        let entries = module
            .input_output_alias
            .iter()
            .flat_map(|config| &config.entries);
        for entry in entries {
            let output = leaf_index(result, &entry.output_shape_index);
            let input = usize::try_from(entry.parameter_number)
                .ok()
                .and_then(|number| {
                    let within = leaf_index(parameters.get(number)?, &entry.parameter_shape_index)?;
                    Some(firsts[number] + within)
                });
            let (Some(output), Some(input)) = (output, input) else {
                return Err(format!(
                    "an alias entry names output {:?} and parameter {} {:?}, which do not exist",
                    entry.output_shape_index, entry.parameter_number, entry.parameter_shape_index
                ));
            };
            aliases.insert(output, input);
        }
        Ok(Self {
            parameters: leaves,
            results,
            aliases,
        })
    }
}

/// The entry computation's signature: as the module states it, or as its
/// computation does, or from its parameter instructions and its root.
fn program(module: &HloModuleProto) -> Result<(Vec<&ShapeProto>, &ShapeProto), String> {
    let entry = module
        .computations
        .iter()
        .find(|c| c.id == module.entry_computation_id)
        .or_else(|| {
            module
                .computations
                .iter()
                .find(|c| c.name == module.entry_computation_name)
        })
        .ok_or_else(|| "the module has no entry computation".to_owned())?;
    let stated = module
        .host_program_shape
        .as_ref()
        .or(entry.program_shape.as_ref());
    if let Some(shape) = stated
        && let Some(result) = shape.result.as_ref()
    {
        return Ok((shape.parameters.iter().collect(), result));
    }
    instructions(entry)
}

fn instructions(entry: &HloComputationProto) -> Result<(Vec<&ShapeProto>, &ShapeProto), String> {
    let mut parameters = BTreeMap::new();
    for instruction in entry
        .instructions
        .iter()
        .filter(|i| i.opcode == "parameter")
    {
        let shape = instruction
            .shape
            .as_ref()
            .ok_or_else(|| format!("parameter `{}` has no shape", instruction.name))?;
        parameters.insert(instruction.parameter_number, shape);
    }
    let result = entry
        .instructions
        .iter()
        .find(|i| i.id == entry.root_id)
        .and_then(|root| root.shape.as_ref())
        .ok_or_else(|| "the entry computation has no root".to_owned())?;
    Ok((parameters.into_values().collect(), result))
}

fn is_tuple(shape: &ShapeProto) -> bool {
    shape.element_type() == metaneff_schema::xla::PrimitiveType::Tuple
}

/// Appends the arrays of `shape`, depth first, without recursion.
fn flatten(shape: &ShapeProto, leaves: &mut Vec<Leaf>) {
    let mut pending = vec![shape];
    while let Some(shape) = pending.pop() {
        if is_tuple(shape) {
            pending.extend(shape.tuple_shapes.iter().rev());
        } else {
            leaves.push(Leaf {
                element_type: shape.element_type,
                dimensions: shape.dimensions.clone(),
            });
        }
    }
}

fn count(shape: &ShapeProto) -> usize {
    let mut leaves = 0;
    let mut pending = vec![shape];
    while let Some(shape) = pending.pop() {
        if is_tuple(shape) {
            pending.extend(&shape.tuple_shapes);
        } else {
            leaves += 1;
        }
    }
    leaves
}

/// Position among the flattened arrays of the array that `path` leads to.
fn leaf_index(shape: &ShapeProto, path: &[i64]) -> Option<usize> {
    let mut index = 0;
    let mut shape = shape;
    for &step in path {
        let step = usize::try_from(step).ok()?;
        if !is_tuple(shape) || step >= shape.tuple_shapes.len() {
            return None;
        }
        index += shape.tuple_shapes[..step].iter().map(count).sum::<usize>();
        shape = &shape.tuple_shapes[step];
    }
    (!is_tuple(shape)).then_some(index)
}

/// Reads the signature out of a serialized module.
pub(super) fn decode(graph: &Bytes) -> Result<Signature, String> {
    let module = decode_hlo(graph.clone()).map_err(|error| error.to_string())?;
    Signature::of(&module)
}
