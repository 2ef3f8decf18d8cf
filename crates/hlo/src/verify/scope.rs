//! What the checks of one instruction see.

use std::borrow::Borrow;
use std::collections::HashMap;

use metaneff_schema::xla::HloInstructionProto;

use crate::element::ElementType;
use crate::ir::{Computation, ComputationIndex};
use crate::shape::{ArrayShape, Shape};

use super::problem::{Problem, mismatch, require};
use super::work::Work;

/// An instruction with everything that its checks refer to.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) proto: &'a HloInstructionProto,
    pub(super) declared: &'a Shape,
    pub(super) operands: &'a [&'a Shape],
    /// Opcodes of the operands.
    pub(super) opcodes: &'a [&'a str],
    pub(super) computations: &'a [Computation],
    pub(super) ids: &'a HashMap<i64, ComputationIndex>,
    pub(super) work: &'a Work,
}

impl<'a> Scope<'a> {
    /// Demands `expected` operands.
    pub(super) fn count(&self, expected: usize) -> Result<(), Problem> {
        require(
            self.operands.len() == expected,
            "number of operands",
            expected,
            self.operands.len(),
        )
    }

    /// Demands at least `least` operands.
    pub(super) fn at_least(&self, least: usize) -> Result<(), Problem> {
        require(
            self.operands.len() >= least,
            "number of operands",
            format_args!("at least {least}"),
            self.operands.len(),
        )
    }

    /// Operand `index`, which must be an array.
    pub(super) fn array(&self, index: usize) -> Result<&'a ArrayShape, Problem> {
        let shape = self.operands.get(index).copied();
        let shape = shape.ok_or_else(|| {
            mismatch(
                "number of operands",
                format_args!("more than {index}"),
                self.operands.len(),
            )
        })?;
        shape
            .as_array()
            .ok_or_else(|| mismatch("operand", "an array", shape))
    }

    /// Operands `range`, which must be arrays.
    pub(super) fn arrays(
        &self,
        range: std::ops::Range<usize>,
    ) -> Result<Vec<&'a ArrayShape>, Problem> {
        range.map(|index| self.array(index)).collect()
    }

    /// The declared shape, which must be an array.
    pub(super) fn result(&self) -> Result<&'a ArrayShape, Problem> {
        self.declared
            .as_array()
            .ok_or_else(|| mismatch("shape", "an array", self.declared))
    }

    /// Demands that the declared shape is `inferred`.
    pub(super) fn infers(&self, inferred: &Shape) -> Result<(), Problem> {
        require(
            self.declared.same(inferred),
            "shape",
            inferred,
            self.declared,
        )
    }

    /// Demands that the declared shape is an array of `element` and `dims`.
    pub(super) fn infers_array(
        &self,
        element: ElementType,
        dims: impl Into<Box<[usize]>>,
    ) -> Result<(), Problem> {
        let inferred = ArrayShape::new(element, dims).map_err(|_| Problem::Overflow {
            what: "size of the inferred shape",
        })?;
        self.infers(&inferred.into())
    }

    /// Demands that the declared shape is one array for one, a tuple of arrays
    /// for several.
    pub(super) fn infers_arrays(&self, mut arrays: Vec<ArrayShape>) -> Result<(), Problem> {
        let inferred = match arrays.len() {
            1 => Shape::Array(arrays.remove(0)),
            _ => Shape::Tuple(arrays.into_iter().map(Shape::Array).collect()),
        };
        self.infers(&inferred)
    }

    /// The only computation that the instruction calls.
    pub(super) fn called(&self) -> Result<(ComputationIndex, &'a Computation), Problem> {
        self.calls(1)?;
        self.called_at(0)
    }

    /// Demands that the instruction calls `expected` computations.
    pub(super) fn calls(&self, expected: usize) -> Result<(), Problem> {
        let found = self.proto.called_computation_ids.len();
        require(
            found == expected,
            "number of called computations",
            expected,
            found,
        )
    }

    /// The computation that the instruction calls in place `index`.
    pub(super) fn called_at(
        &self,
        index: usize,
    ) -> Result<(ComputationIndex, &'a Computation), Problem> {
        let ids = &self.proto.called_computation_ids;
        let id = *ids.get(index).ok_or_else(|| {
            mismatch(
                "number of called computations",
                format_args!("more than {index}"),
                ids.len(),
            )
        })?;
        let index = *self.ids.get(&id).ok_or(Problem::UndefinedId {
            what: "computation",
            id,
        })?;
        Ok((index, &self.computations[index.get()]))
    }

    /// `values` as distinct dimensions below `rank`.
    pub(super) fn dims(
        what: &'static str,
        values: &[i64],
        rank: usize,
    ) -> Result<Vec<usize>, Problem> {
        let mut seen = vec![false; rank];
        let mut dims = Vec::with_capacity(values.len());
        for &value in values {
            let dim = Self::dim(what, value, rank)?;
            require(
                !std::mem::replace(&mut seen[dim], true),
                what,
                "distinct dimensions",
                value,
            )?;
            dims.push(dim);
        }
        Ok(dims)
    }

    /// `values` as ascending dimensions below `rank`.
    pub(super) fn ascending(
        what: &'static str,
        values: &[i64],
        rank: usize,
    ) -> Result<Vec<usize>, Problem> {
        let dims = Self::dims(what, values, rank)?;
        require(
            dims.is_sorted(),
            what,
            "ascending dimensions",
            format_args!("{values:?}"),
        )?;
        Ok(dims)
    }

    /// `value` as a dimension below `rank`.
    pub(super) fn dim(what: &'static str, value: i64, rank: usize) -> Result<usize, Problem> {
        usize::try_from(value)
            .ok()
            .filter(|&dim| dim < rank)
            .ok_or_else(|| mismatch(what, format_args!("0 to below {rank}"), value))
    }

    /// `value` as a size.
    pub(super) fn size(what: &'static str, value: i64) -> Result<usize, Problem> {
        usize::try_from(value).map_err(|_| mismatch(what, "0 or more", value))
    }

    /// `value` as a group count, for which 0 stands for 1.
    pub(super) fn groups(what: &'static str, value: i64) -> Result<usize, Problem> {
        Self::size(what, value.max(i64::from(value == 0)))
    }
}

/// Demands that two arrays have equal element types.
pub(super) fn same_element(a: &ArrayShape, b: &ArrayShape) -> Result<(), Problem> {
    require(
        a.element() == b.element(),
        "element type of an operand",
        a.element(),
        b.element(),
    )
}

/// Demands that two arrays have equal dimensions.
pub(super) fn same_dims(a: &ArrayShape, b: &ArrayShape) -> Result<(), Problem> {
    require(a.dims() == b.dims(), "dimensions of an operand", a, b)
}

/// Demands that an array is a scalar.
pub(super) fn scalar(what: &'static str, shape: &ArrayShape) -> Result<(), Problem> {
    require(shape.rank() == 0, what, "a scalar", shape)
}

/// Demands that an array has an integer type.
pub(super) fn integer(what: &'static str, shape: &ArrayShape) -> Result<(), Problem> {
    require(shape.element().is_integer(), what, "an integer type", shape)
}

/// Demands that a computation takes `parameters` and gives `result`; element
/// types and dimensions must agree.
pub(super) fn signature(
    computation: &Computation,
    parameters: &[impl Borrow<Shape>],
    result: &Shape,
) -> Result<(), Problem> {
    require(
        computation.parameters.len() == parameters.len(),
        "parameters of the called computation",
        parameters.len(),
        computation.parameters.len(),
    )?;
    for (number, expected) in parameters.iter().enumerate() {
        let expected = expected.borrow();
        let found = computation.parameter_shape(number);
        require(
            found.same(expected),
            "parameter of the called computation",
            expected,
            found,
        )?;
    }
    let found = computation.result_shape();
    require(
        found.same(result),
        "result of the called computation",
        result,
        found,
    )
}
