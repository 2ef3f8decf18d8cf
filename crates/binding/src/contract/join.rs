//! The contract against the device's variable table: who is who, by name.
//!
//! Ordinals count per side, variable ids through the whole table, and the name
//! is what both have. Source: the reference page, section 8.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use metaneff_schema::neff::{Neff, VariableKind};
use metaneff_schema::nrt::NrtDtype;

use super::{Contract, Ordinal, Slot, Strictness, VarId, list};
use crate::backend::Side;
use crate::dtype::DType;
use crate::shape::Shape;

/// A tensor at a model's boundary as the device sees it: a row of the NEFF's
/// variable table, or of the runtime's model information.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Variable {
    /// Its name, the key in a tensor set.
    pub name: String,
    /// Which side it stands on.
    pub side: Side,
    /// Its number in the variable table, where that is known.
    pub var_id: Option<u32>,
    /// Its size in bytes.
    pub size: u64,
    /// Its element type; [`NrtDtype::UNKNOWN`] where it is not stated.
    pub dtype: NrtDtype,
    /// Its dimensions, where they are stated.
    pub shape: Option<Shape>,
}

impl Variable {
    /// A variable of which no more than the size is known.
    #[must_use]
    pub fn new(name: impl Into<String>, side: Side, size: u64) -> Self {
        Self {
            name: name.into(),
            side,
            var_id: None,
            size,
            dtype: NrtDtype::UNKNOWN,
            shape: None,
        }
    }

    /// Adds its number in the variable table.
    #[must_use]
    pub const fn numbered(mut self, var_id: u32) -> Self {
        self.var_id = Some(var_id);
        self
    }

    /// Adds its element type and shape.
    #[must_use]
    pub fn typed(mut self, dtype: NrtDtype, shape: impl Into<Shape>) -> Self {
        self.dtype = dtype;
        self.shape = Some(shape.into());
        self
    }
}

/// One difference between a contract and the device's variables.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinMismatch {
    /// The device has no variable of a slot's name.
    #[error("the device has no {side} `{name}` (ordinal {ordinal})")]
    MissingVariable {
        /// Which side.
        side: Side,
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
    },
    /// The contract has no slot of a variable's name, so nothing would fill it.
    #[error("the contract has no {side} `{name}`")]
    ExtraVariable {
        /// Which side.
        side: Side,
        /// The variable's name.
        name: String,
    },
    /// The sizes differ.
    #[error("{side} {ordinal} `{name}` takes {expected} bytes, on the device {found}")]
    Size {
        /// Which side.
        side: Side,
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// Bytes by the contract.
        expected: u64,
        /// Bytes on the device.
        found: u64,
    },
    /// The element types differ.
    #[error("{side} {ordinal} `{name}` is {expected}, on the device {found}")]
    DType {
        /// Which side.
        side: Side,
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// The contract's type.
        expected: DType,
        /// The device's type.
        found: NrtDtype,
    },
    /// The shapes differ, at the same size.
    #[error("{side} {ordinal} `{name}` has shape {expected}, on the device {found}")]
    Shape {
        /// Which side.
        side: Side,
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// The contract's shape.
        expected: Shape,
        /// The device's shape.
        found: Shape,
    },
}

/// A contract and a device program that do not belong together, with every
/// difference.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JoinError {
    /// The differences, slots first.
    pub mismatches: Vec<JoinMismatch>,
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the contract does not fit the device program")?;
        list(f, &self.mismatches, 0)
    }
}

impl std::error::Error for JoinError {}

impl Contract {
    /// Joins the contract with a NEFF's variable table, by name: compares sizes,
    /// element types and shapes, and reads the real variable ids.
    ///
    /// States and weights may be buffers and files of the NEFF instead of inputs.
    ///
    /// # Errors
    ///
    /// Every difference at once.
    pub fn join(&self, neff: &Neff) -> Result<Self, JoinError> {
        let inputs: HashSet<_> = self.inputs().iter().map(Slot::name).collect();
        let variables: Vec<_> = neff
            .variables()
            .iter()
            .filter_map(|variable| {
                let side = match variable.kind {
                    VariableKind::Input => Side::Input,
                    VariableKind::Output => Side::Output,
                    _ if inputs.contains(variable.name.as_str()) => Side::Input,
                    _ => return None,
                };
                let dims = variable.shape.as_ref().map(|shape| {
                    let dims = shape.iter().map(|&dim| usize::try_from(dim));
                    // A dimension that fits no size makes the shape unlike any other.
                    dims.map(|dim| dim.unwrap_or(usize::MAX)).collect()
                });
                Some(Variable {
                    name: variable.name.clone(),
                    side,
                    var_id: Some(variable.var_id),
                    size: variable.size,
                    dtype: variable.dtype,
                    shape: dims,
                })
            })
            .collect();
        self.join_variables(&variables)
    }

    /// Joins the contract with a table of variables, by name: compares sizes,
    /// element types and shapes, and takes over the variable ids. The identity
    /// stays.
    ///
    /// A 64-bit integer may stand on the device as two 32-bit integers; that is
    /// the only difference of type and shape that is let through. A lenient
    /// contract lets other shapes of the same size through as well.
    ///
    /// # Errors
    ///
    /// Every difference at once.
    pub fn join_variables(&self, variables: &[Variable]) -> Result<Self, JoinError> {
        let table: HashMap<_, _> = variables
            .iter()
            .map(|variable| ((variable.side, variable.name.as_str()), variable))
            .collect();
        let mut mismatches = Vec::new();
        let inputs = self.join_side(Side::Input, &table, &mut mismatches);
        let outputs = self.join_side(Side::Output, &table, &mut mismatches);
        let known: HashSet<_> = inputs
            .iter()
            .chain(&outputs)
            .map(|slot| (slot.side(), slot.name()))
            .collect();
        for variable in variables {
            if !known.contains(&(variable.side, variable.name.as_str())) {
                mismatches.push(JoinMismatch::ExtraVariable {
                    side: variable.side,
                    name: variable.name.clone(),
                });
            }
        }
        if !mismatches.is_empty() {
            return Err(JoinError { mismatches });
        }
        let mut inner = (*self.inner).clone();
        inner.joined = inputs
            .iter()
            .chain(&outputs)
            .all(|slot| matches!(slot.var_id(), VarId::Joined(_)));
        inner.inputs = inputs.into();
        inner.outputs = outputs.into();
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    fn join_side(
        &self,
        side: Side,
        table: &HashMap<(Side, &str), &Variable>,
        mismatches: &mut Vec<JoinMismatch>,
    ) -> Vec<Slot> {
        let lenient = self.strictness() == Strictness::Lenient;
        self.side(side)
            .iter()
            .map(|slot| {
                let Some(variable) = table.get(&(side, slot.name())) else {
                    // A device program has no variable for an empty tensor.
                    if slot.byte_size() > 0 || slot.stored_dtype().is_none() {
                        mismatches.push(JoinMismatch::MissingVariable {
                            side,
                            ordinal: slot.ordinal(),
                            name: slot.name().to_owned(),
                        });
                    }
                    return slot.clone();
                };
                let mismatch = compare(slot, variable)
                    .filter(|m| !(lenient && matches!(m, JoinMismatch::Shape { .. })));
                mismatches.extend(mismatch);
                let Some(var_id) = variable.var_id else {
                    return slot.clone();
                };
                let mut data = slot.data().clone();
                data.var_id = VarId::Joined(var_id);
                Slot::new(data)
            })
            .collect()
    }
}

fn compare(slot: &Slot, variable: &Variable) -> Option<JoinMismatch> {
    // Of a slot whose element type is unknown there is nothing to compare.
    let stored = slot.stored_dtype()?;
    let (side, ordinal) = (slot.side(), slot.ordinal());
    let name = slot.name().to_owned();
    let expected = slot.byte_size() as u64;
    if expected != variable.size {
        return Some(JoinMismatch::Size {
            side,
            ordinal,
            name,
            expected,
            found: variable.size,
        });
    }
    if is_split_int64(slot, stored, variable) {
        return None;
    }
    if !same_dtype(slot, stored, variable.dtype) {
        return Some(JoinMismatch::DType {
            side,
            ordinal,
            name,
            expected: slot.dtype().unwrap_or(stored),
            found: variable.dtype,
        });
    }
    let found = variable.shape.as_ref()?;
    // Device programs pad shapes with ones; a scalar is [1] there.
    if found.squeezed().eq(slot.shape().squeezed()) {
        return None;
    }
    Some(JoinMismatch::Shape {
        side,
        ordinal,
        name,
        expected: slot.shape().clone(),
        found: found.clone(),
    })
}

/// Whether a 64-bit integer stands on the device as pairs of 32-bit integers:
/// the same shape with the last dimension doubled.
fn is_split_int64(slot: &Slot, stored: DType, variable: &Variable) -> bool {
    let halves = matches!(variable.dtype, NrtDtype::INT32 | NrtDtype::UINT32);
    let (true, DType::I64 | DType::U64, Some(found)) = (halves, stored, variable.shape.as_ref())
    else {
        return false;
    };
    let mut doubled = slot.shape().dims().to_vec();
    match doubled.last_mut() {
        Some(last) => *last *= 2,
        None => doubled.push(2),
    }
    Shape::from(doubled).squeezed().eq(found.squeezed())
}

/// Whether the device's type is the slot's, up to the producers' collapse and to
/// the runtime's habit of reporting every 8-bit float as an integer.
fn same_dtype(slot: &Slot, stored: DType, found: NrtDtype) -> bool {
    let is = |dtype: DType| dtype.nrt() == Some(found);
    found == NrtDtype::UNKNOWN
        || stored.nrt().is_none()
        || slot.dtype().is_some_and(is)
        || DType::ALL
            .iter()
            .any(|&dtype| is(dtype) && dtype.may_be_stored_as(stored))
        || found == NrtDtype::INT8
            && slot
                .dtype()
                .is_some_and(|dtype| dtype.is_float() && dtype.size() == 1)
}
