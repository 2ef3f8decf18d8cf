//! What a module's boundary is called and looks like in a NEFF.

use crate::nrt::NrtDtype;
use crate::xla::{HloInstructionProto, HloModuleProto, PrimitiveType, ShapeProto};

use super::BuildError;

/// Tuples inside tuples that a result may have.
const MAX_TUPLE_DEPTH: usize = 32;

/// One array at a module's boundary.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BoundaryTensor {
    /// Name in the NEFF's variable table: the front end's, else `input{i}` or
    /// `output{i}`.
    pub name: String,
    /// Parameter number, or position in the root flattened depth first.
    pub index: usize,
    /// Element type in the module.
    pub element: PrimitiveType,
    /// Dimensions in the module, outermost first.
    pub dims: Vec<u64>,
    /// Size in bytes; 0 for an array without elements, which has no variable.
    pub size: u64,
}

impl BoundaryTensor {
    /// Element type and dimensions as the runtime reports them: rank 0 as `[1]`,
    /// pred as uint8, every 8-bit float as int8, and integers of 64 bits as twice
    /// as many of 32 in the last dimension. Types without a runtime's name are
    /// [`NrtDtype::UNKNOWN`].
    #[must_use]
    pub fn reported(&self) -> (NrtDtype, Vec<u64>) {
        use PrimitiveType as P;
        let mut dims = self.dims.clone();
        let dtype = match self.element {
            P::Pred | P::U8 => NrtDtype::UINT8,
            P::S8 => NrtDtype::INT8,
            P::S16 => NrtDtype::INT16,
            P::U16 => NrtDtype::UINT16,
            P::S32 | P::S64 => NrtDtype::INT32,
            P::U32 | P::U64 => NrtDtype::UINT32,
            P::F16 => NrtDtype::FLOAT16,
            P::Bf16 => NrtDtype::BFLOAT16,
            P::F32 => NrtDtype::FLOAT32,
            P::F8e5m2
            | P::F8e4m3
            | P::F8e4m3fn
            | P::F8e4m3b11fnuz
            | P::F8e3m4
            | P::F8e5m2fnuz
            | P::F8e4m3fnuz => NrtDtype::INT8,
            _ => NrtDtype::UNKNOWN,
        };
        if dims.is_empty() {
            dims.push(1);
        }
        if matches!(self.element, P::S64 | P::U64) {
            // The size is known to fit, so twice a dimension does as well.
            if let Some(last) = dims.last_mut() {
                *last = last.saturating_mul(2);
            }
        }
        (dtype, dims)
    }
}

/// The boundary of a module: parameters by number, results by position.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Boundary {
    /// Every parameter, those without elements included.
    pub inputs: Vec<BoundaryTensor>,
    /// Every array of the root, those without elements included.
    pub outputs: Vec<BoundaryTensor>,
    /// Output position and parameter number of each pair that shares a buffer.
    pub aliases: Vec<(usize, usize)>,
}

impl Boundary {
    /// Reads the boundary off a module's entry computation.
    ///
    /// Names follow the front end's attributes: `neff_input_names` of a
    /// parameter, `neff_output_names` of the root (separated by commas).
    ///
    /// # Errors
    ///
    /// [`BuildError`] for a module without an entry, with parameter numbers that
    /// are not dense, or with a tensor that no runtime takes.
    pub fn of(module: &HloModuleProto) -> Result<Self, BuildError> {
        let entry = module
            .computations
            .iter()
            .find(|computation| computation.id == module.entry_computation_id)
            .ok_or(BuildError::NoEntry {
                id: module.entry_computation_id,
            })?;
        let mut parameters: Vec<_> = entry
            .instructions
            .iter()
            .filter(|i| i.opcode == "parameter")
            .collect();
        parameters.sort_by_key(|parameter| parameter.parameter_number);
        let mut inputs = Vec::with_capacity(parameters.len());
        for (index, parameter) in parameters.iter().enumerate() {
            if usize::try_from(parameter.parameter_number) != Ok(index) {
                return Err(BuildError::ParameterNumber {
                    expected: index,
                    found: parameter.parameter_number,
                });
            }
            let name = attribute(parameter, "neff_input_names")
                .map_or_else(|| format!("input{index}"), str::to_owned);
            inputs.push(tensor(name, index, parameter.shape.as_ref())?);
        }
        let root = entry
            .instructions
            .iter()
            .find(|instruction| instruction.id == entry.root_id)
            .ok_or(BuildError::NoRoot { id: entry.root_id })?;
        let mut leaves = Vec::new();
        flatten(root.shape.as_ref(), &mut leaves, 0)?;
        let names: Vec<_> = attribute(root, "neff_output_names")
            .map(|names| names.split(',').map(str::trim).collect())
            .unwrap_or_default();
        let mut outputs = Vec::with_capacity(leaves.len());
        for (index, shape) in leaves.into_iter().enumerate() {
            let name = names
                .get(index)
                .map_or_else(|| format!("output{index}"), |name| (*name).to_owned());
            outputs.push(tensor(name, index, Some(shape))?);
        }
        let aliases = aliases(module, root, inputs.len(), outputs.len())?;
        Ok(Self {
            inputs,
            outputs,
            aliases,
        })
    }
}

fn attribute<'a>(instruction: &'a HloInstructionProto, key: &str) -> Option<&'a str> {
    let attributes = instruction.frontend_attributes.as_ref()?;
    attributes
        .map
        .get(key)
        .map(String::as_str)
        .filter(|value| !value.is_empty())
}

fn flatten<'a>(
    shape: Option<&'a ShapeProto>,
    leaves: &mut Vec<&'a ShapeProto>,
    depth: usize,
) -> Result<(), BuildError> {
    let Some(shape) = shape else { return Ok(()) };
    if shape.element_type() != PrimitiveType::Tuple {
        leaves.push(shape);
        return Ok(());
    }
    if depth == MAX_TUPLE_DEPTH {
        return Err(BuildError::TupleDepth {
            limit: MAX_TUPLE_DEPTH,
        });
    }
    shape
        .tuple_shapes
        .iter()
        .try_for_each(|inner| flatten(Some(inner), leaves, depth + 1))
}

fn tensor(
    name: String,
    index: usize,
    shape: Option<&ShapeProto>,
) -> Result<BoundaryTensor, BuildError> {
    let Some(shape) = shape else {
        return Err(BuildError::Tensor {
            name,
            detail: "it has no shape".to_owned(),
        });
    };
    let element = shape.element_type();
    let Some(width) = width(element) else {
        let detail = format!(
            "element type {} cannot cross the boundary",
            shape.element_type
        );
        return Err(BuildError::Tensor { name, detail });
    };
    let dims: Result<Vec<u64>, _> = shape
        .dimensions
        .iter()
        .map(|dim| u64::try_from(*dim))
        .collect();
    let Ok(dims) = dims else {
        let detail = format!("negative dimension in {:?}", shape.dimensions);
        return Err(BuildError::Tensor { name, detail });
    };
    // An empty array is empty however large its other dimensions are.
    let size = if dims.contains(&0) {
        Some(0)
    } else {
        dims.iter()
            .try_fold(width, |size, dim| size.checked_mul(*dim))
    };
    let Some(size) = size.filter(|size| i64::try_from(*size).is_ok()) else {
        let detail = format!("size of {dims:?} exceeds 63 bits");
        return Err(BuildError::Tensor { name, detail });
    };
    Ok(BoundaryTensor {
        name,
        index,
        element,
        dims,
        size,
    })
}

/// Bytes of one element; 4-bit types take a byte each.
const fn width(element: PrimitiveType) -> Option<u64> {
    use PrimitiveType as P;
    Some(match element {
        P::Pred | P::S8 | P::U8 | P::S4 | P::U4 => 1,
        P::F8e5m2
        | P::F8e4m3
        | P::F8e4m3fn
        | P::F8e4m3b11fnuz
        | P::F8e3m4
        | P::F8e5m2fnuz
        | P::F8e4m3fnuz
        | P::F8e8m0fnu
        | P::F4e2m1fn => 1,
        P::S16 | P::U16 | P::F16 | P::Bf16 => 2,
        P::S32 | P::U32 | P::F32 => 4,
        P::S64 | P::U64 | P::F64 | P::C64 => 8,
        P::C128 => 16,
        _ => return None,
    })
}

fn aliases(
    module: &HloModuleProto,
    root: &HloInstructionProto,
    inputs: usize,
    outputs: usize,
) -> Result<Vec<(usize, usize)>, BuildError> {
    let tuple = root
        .shape
        .as_ref()
        .is_some_and(|s| s.element_type() == PrimitiveType::Tuple);
    let mut pairs = Vec::new();
    for entry in module
        .input_output_alias
        .iter()
        .flat_map(|alias| &alias.entries)
    {
        let output = match entry.output_shape_index[..] {
            [] if !tuple => Some(0),
            [index] if tuple => usize::try_from(index).ok(),
            _ => None,
        };
        let input = usize::try_from(entry.parameter_number).ok();
        match (output, input) {
            (Some(output), Some(input))
                if output < outputs && input < inputs && entry.parameter_shape_index.is_empty() =>
            {
                pairs.push((output, input));
            }
            _ => {
                return Err(BuildError::Alias {
                    output: entry.output_shape_index.clone(),
                    parameter: entry.parameter_number,
                });
            }
        }
    }
    Ok(pairs)
}
