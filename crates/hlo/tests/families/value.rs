//! Arrays of numbers, and modules of one instruction on them.

use half::{bf16, f16};
use metaneff_hlo::array::Array;
use metaneff_hlo::options::ExecuteOptions;
use metaneff_hlo::{Executable, Module};
use metaneff_schema::xla::{HloModuleProto, PrimitiveType, ShapeProto};

use PrimitiveType::{Bf16, F16, F32, F64, Pred, S8, S16, S32, S64, U8, U16, U32, U64};

/// An array whose elements are numbers that its type holds exactly.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) element: PrimitiveType,
    pub(crate) dims: Vec<usize>,
    /// The last dimension fastest.
    pub(crate) values: Vec<f64>,
}

pub(crate) fn count(dims: &[usize]) -> usize {
    dims.iter().product()
}

pub(crate) fn i64s(numbers: &[usize]) -> Vec<i64> {
    numbers.iter().map(|&number| number as i64).collect()
}

/// Every index of an array, the last dimension fastest.
pub(crate) fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
    (0..count(dims))
        .map(|mut flat| {
            let mut index = vec![0; dims.len()];
            for dim in (0..dims.len()).rev() {
                index[dim] = flat % dims[dim];
                flat /= dims[dim];
            }
            index
        })
        .collect()
}

pub(crate) fn flat(dims: &[usize], index: &[usize]) -> usize {
    dims.iter()
        .zip(index)
        .fold(0, |flat, (dim, position)| flat * dim + position)
}

impl Tensor {
    pub(crate) fn new(element: PrimitiveType, dims: &[usize], values: Vec<f64>) -> Self {
        assert_eq!(values.len(), count(dims));
        Self {
            element,
            dims: dims.to_vec(),
            values: values.into_iter().map(|x| rounded(element, x)).collect(),
        }
    }

    pub(crate) fn scalar(element: PrimitiveType, value: f64) -> Self {
        Self::new(element, &[], vec![value])
    }

    /// The array whose elements are those of `at`.
    pub(crate) fn build(
        element: PrimitiveType,
        dims: &[usize],
        at: impl FnMut(Vec<usize>) -> f64,
    ) -> Self {
        Self::new(element, dims, indices(dims).into_iter().map(at).collect())
    }

    pub(crate) fn at(&self, index: &[usize]) -> f64 {
        self.values[flat(&self.dims, index)]
    }

    /// The element at an index that may lie outside.
    pub(crate) fn get(&self, index: &[i64]) -> Option<f64> {
        let inside: Option<Vec<usize>> = index
            .iter()
            .zip(&self.dims)
            .map(|(&position, &dim)| usize::try_from(position).ok().filter(|&p| p < dim))
            .collect();
        inside.map(|index| self.at(&index))
    }

    pub(crate) fn shape(&self) -> ShapeProto {
        shape(self.element, &self.dims)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.values
            .iter()
            .flat_map(|&x| match self.element {
                F32 => (x as f32).to_le_bytes().to_vec(),
                F64 => x.to_le_bytes().to_vec(),
                Bf16 => bf16::from_f64(x).to_le_bytes().to_vec(),
                F16 => f16::from_f64(x).to_le_bytes().to_vec(),
                S8 | U8 | Pred => (x as i64).to_le_bytes()[..1].to_vec(),
                S16 | U16 => (x as i64).to_le_bytes()[..2].to_vec(),
                S32 | U32 => (x as i64).to_le_bytes()[..4].to_vec(),
                S64 | U64 => (x as i64).to_le_bytes().to_vec(),
                other => panic!("no numbers of type {other:?}"),
            })
            .collect()
    }

    pub(crate) fn from_bytes(shape: &ShapeProto, bytes: &[u8]) -> Self {
        let element = shape.element_type();
        let dims: Vec<usize> = shape.dimensions.iter().map(|&dim| dim as usize).collect();
        let width = match element {
            Pred | S8 | U8 => 1,
            Bf16 | F16 | S16 | U16 => 2,
            F32 | S32 | U32 => 4,
            _ => 8,
        };
        let values = bytes
            .chunks_exact(width)
            .map(|bytes| {
                let mut word = [0; 8];
                word[..width].copy_from_slice(bytes);
                let word = u64::from_le_bytes(word);
                match element {
                    F32 => f64::from(f32::from_bits(word as u32)),
                    F64 => f64::from_bits(word),
                    Bf16 => bf16::from_bits(word as u16).to_f64(),
                    F16 => f16::from_bits(word as u16).to_f64(),
                    S8 => f64::from(word as u8 as i8),
                    S16 => f64::from(word as u16 as i16),
                    S32 => f64::from(word as u32 as i32),
                    S64 => word as i64 as f64,
                    _ => word as f64,
                }
            })
            .collect();
        Self {
            element,
            dims,
            values,
        }
    }
}

pub(crate) fn shape(element: PrimitiveType, dims: &[usize]) -> ShapeProto {
    crate::build::array(element, &i64s(dims))
}

/// The number of the type that `value` rounds or wraps to.
pub(crate) fn rounded(element: PrimitiveType, value: f64) -> f64 {
    match element {
        F32 => f64::from(value as f32),
        Bf16 => bf16::from_f32(value as f32).to_f64(),
        F16 => f16::from_f64(value).to_f64(),
        S8 => f64::from(value as i64 as i8),
        S16 => f64::from(value as i64 as i16),
        S32 => f64::from(value as i64 as i32),
        U8 => f64::from(value as i64 as u8),
        U16 => f64::from(value as i64 as u16),
        U32 => f64::from(value as i64 as u32),
        Pred => f64::from(u8::from(value != 0.0)),
        _ => value,
    }
}

/// What the executor makes of a module, as bytes.
pub(crate) fn execute_bytes(
    proto: &HloModuleProto,
    inputs: &[Vec<u8>],
) -> Result<Vec<Array>, String> {
    let module = Module::verify(proto).map_err(|error| error.to_string())?;
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    Executable::new(module)
        .execute(&inputs, &ExecuteOptions::default())
        .map(|execution| execution.outputs)
        .map_err(|error| error.to_string())
}

/// Executes a module and compares its outputs, at a relative and absolute
/// tolerance; integers are exact at any.
pub(crate) fn agrees(
    proto: &HloModuleProto,
    inputs: &[&Tensor],
    expected: &[Tensor],
    tolerance: f64,
) -> Result<(), String> {
    let bytes: Vec<Vec<u8>> = inputs.iter().map(|input| input.bytes()).collect();
    let outputs = execute_bytes(proto, &bytes)?;
    if outputs.len() != expected.len() {
        return Err(format!("{} outputs", outputs.len()));
    }
    for (number, (expected, output)) in expected.iter().zip(&outputs).enumerate() {
        let found = Tensor::from_bytes(&expected.shape(), output.bytes());
        close(expected, &found, tolerance).map_err(|error| format!("output {number}: {error}"))?;
    }
    Ok(())
}

pub(crate) fn close(expected: &Tensor, found: &Tensor, tolerance: f64) -> Result<(), String> {
    if expected.dims != found.dims || expected.values.len() != found.values.len() {
        return Err(format!("{found:?} instead of {expected:?}"));
    }
    let float = matches!(expected.element, F32 | F64 | Bf16 | F16);
    let tolerance = if float { tolerance } else { 0.0 };
    for (place, (&x, &y)) in expected.values.iter().zip(&found.values).enumerate() {
        let same = x == y || (x.is_nan() && y.is_nan());
        if !same
            && (x - y).abs().partial_cmp(&(tolerance * x.abs().max(1.0)))
                != Some(std::cmp::Ordering::Less)
        {
            return Err(format!(
                "element {place} is {y:e}, the reference has {x:e}; all: {:?} instead of {:?}",
                found.values, expected.values
            ));
        }
    }
    Ok(())
}
