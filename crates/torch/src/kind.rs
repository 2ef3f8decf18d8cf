//! libtorch's kinds and the contract's element types.

use metaneff_binding::DType;
use tch::{Kind, TchError, Tensor};

use crate::error::TorchError;

/// Both names of every element type that has both. The rest of the table is
/// [`DType::aten_scalar_type`].
const KINDS: &[(Kind, DType)] = &[
    (Kind::Bool, DType::Bool),
    (Kind::Int8, DType::I8),
    (Kind::Uint8, DType::U8),
    (Kind::Int16, DType::I16),
    (Kind::Int, DType::I32),
    (Kind::Int64, DType::I64),
    (Kind::Half, DType::F16),
    (Kind::BFloat16, DType::BF16),
    (Kind::Float, DType::F32),
    (Kind::Double, DType::F64),
    (Kind::Float8e4m3fn, DType::F8E4M3FN),
    (Kind::Float8e5m2, DType::F8E5M2),
];

/// The element type of a tensor.
///
/// # Errors
///
/// [`TorchError::Undefined`] for the undefined tensor, [`TorchError::Kind`] for a
/// kind that no slot has: complex numbers, quantised integers, the `fnuz` floats.
///
/// # Examples
///
/// ```
/// use metaneff_binding::DType;
/// use metaneff_torch::{TorchError, dtype_of};
/// use tch::{Device, Kind, Tensor};
///
/// let half = Tensor::zeros([2], (Kind::BFloat16, Device::Cpu));
/// assert_eq!(dtype_of(&half)?, DType::BF16);
/// let complex = Tensor::zeros([2], (Kind::ComplexFloat, Device::Cpu));
/// assert!(matches!(dtype_of(&complex), Err(TorchError::Kind { .. })));
/// # Ok::<(), TorchError>(())
/// ```
pub fn dtype_of(tensor: &Tensor) -> Result<DType, TorchError> {
    if !tensor.defined() {
        return Err(TorchError::Undefined);
    }
    match tensor.f_kind() {
        Ok(kind) => KINDS
            .iter()
            .find(|(known, _)| *known == kind)
            .map(|&(_, dtype)| dtype)
            .ok_or_else(|| TorchError::Kind {
                found: format!("{kind:?}"),
            }),
        Err(TchError::UnknownKind(number)) => i8::try_from(number)
            .ok()
            .and_then(DType::from_aten_scalar_type)
            .ok_or_else(|| TorchError::Kind {
                found: number.to_string(),
            }),
        Err(error) => Err(error.into()),
    }
}

/// The kind of an element type; `None` where `tch` has none: `uint16`, `uint32`,
/// `uint64`, and the 8-bit floats that ATen lacks.
///
/// # Examples
///
/// ```
/// use metaneff_binding::DType;
/// use metaneff_torch::kind_of;
///
/// assert_eq!(kind_of(DType::F8E5M2), Some(tch::Kind::Float8e5m2));
/// assert_eq!(kind_of(DType::U16), None);
/// ```
#[must_use]
pub fn kind_of(dtype: DType) -> Option<Kind> {
    KINDS
        .iter()
        .find(|(_, known)| *known == dtype)
        .map(|&(kind, _)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_agree_with_atens_numbers() {
        for &(kind, dtype) in KINDS {
            assert_eq!(kind_of(dtype), Some(kind));
            assert_eq!(kind.elt_size_in_bytes(), dtype.size(), "{dtype}");
            let tensor = Tensor::zeros([1], (kind, tch::Device::Cpu));
            assert_eq!(dtype_of(&tensor).expect("a known kind"), dtype);
            let number = dtype.aten_scalar_type().expect("every kind has a number");
            assert_eq!(DType::from_aten_scalar_type(number), Some(dtype));
        }
    }

    #[test]
    fn kinds_without_a_slot_are_named() {
        for kind in [
            Kind::ComplexHalf,
            Kind::ComplexFloat,
            Kind::ComplexDouble,
            Kind::Float8e4m3fnuz,
            Kind::Float8e5m2fnuz,
        ] {
            let tensor = Tensor::zeros([1], (kind, tch::Device::Cpu));
            let error = dtype_of(&tensor).expect_err("no slot has this kind");
            assert!(
                matches!(&error, TorchError::Kind { found } if *found == format!("{kind:?}")),
                "{error:?}"
            );
        }
        let undefined = dtype_of(&Tensor::new());
        assert!(matches!(undefined, Err(TorchError::Undefined)));
    }
}
