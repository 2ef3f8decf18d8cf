//! A bound on the work of verification.
//!
//! Most checks look at what an instruction's own message says, which is linear
//! in the message. Calls are not: their operands' shapes are those of other
//! instructions, so that many calls on one wide tuple would be quadratic. Every
//! shape that is looked at counts, and there is a limit in proportion to the
//! message.

use std::cell::Cell;

use metaneff_schema::xla::{HloModuleProto, ShapeProto};

use crate::shape::Shape;

use super::problem::Problem;
use super::shapes::MAX_SHAPE_DEPTH;

/// Shapes that may be looked at for each one that the message has.
const PER_SHAPE: usize = 64;
/// Shapes that any message may cost.
const ANY: usize = 1 << 20;

/// What verification has looked at.
#[derive(Debug)]
pub(super) struct Work {
    spent: Cell<usize>,
    limit: usize,
}

impl Work {
    /// Work on a message.
    pub(super) fn new(proto: &HloModuleProto) -> Self {
        let instructions = || proto.computations.iter().flat_map(|c| &c.instructions);
        let shapes: usize = instructions()
            .filter_map(|instruction| instruction.shape.as_ref())
            .map(|shape| given(shape, 0))
            .sum();
        Self {
            spent: Cell::new(0),
            limit: ANY.saturating_add(shapes.saturating_mul(PER_SHAPE)),
        }
    }

    /// Shapes that were looked at.
    #[cfg(test)]
    pub(super) fn spent(&self) -> usize {
        self.spent.get()
    }

    /// Counts a look at all of `shape`.
    pub(super) fn look(&self, shape: &Shape) -> Result<(), Problem> {
        self.spend(nodes(shape))
    }

    /// Counts `number` steps.
    pub(super) fn spend(&self, number: usize) -> Result<(), Problem> {
        let spent = self.spent.get().saturating_add(number);
        self.spent.set(spent);
        if spent > self.limit {
            return Err(Problem::Limit {
                what: "number of shapes that calls repeat",
                limit: self.limit,
                found: spent,
            });
        }
        Ok(())
    }
}

/// Shapes within a message's shape, as deep as a shape may be.
fn given(shape: &ShapeProto, depth: usize) -> usize {
    if depth > MAX_SHAPE_DEPTH {
        return 1;
    }
    let elements = shape.tuple_shapes.iter();
    1 + elements
        .map(|element| given(element, depth + 1))
        .sum::<usize>()
}

fn nodes(shape: &Shape) -> usize {
    1 + shape
        .as_tuple()
        .unwrap_or_default()
        .iter()
        .map(nodes)
        .sum::<usize>()
}
