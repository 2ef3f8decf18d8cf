//! How far the executor may be from the reference.

use metaneff_schema::xla::HloModuleProto;

use crate::value::{Kind, Tensor};

/// A distance: `absolute + relative * |reference|`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tolerance {
    relative: f64,
    absolute: f64,
}

/// Data movement, integers, and arithmetic that IEEE 754 rounds correctly.
const EXACT: Tolerance = Tolerance {
    relative: 0.0,
    absolute: 0.0,
};

const APPROXIMATE: Tolerance = Tolerance {
    relative: 1e-5,
    absolute: 1e-6,
};

/// The opcodes whose floats are not exact, class by class.
const CLASSES: &[(&[&str], Tolerance)] = &[
    (
        &[
            "exponential",
            "exponential-minus-one",
            "tanh",
            "log",
            "log-plus-one",
            "rsqrt",
            "logistic",
            "power",
            "cbrt",
            "tan",
            "atan2",
            "sine",
            "cosine",
        ],
        APPROXIMATE,
    ),
    (&["dot", "reduce"], APPROXIMATE),
];

impl Tolerance {
    pub(crate) fn of_opcode(opcode: &str) -> Self {
        CLASSES
            .iter()
            .find(|(opcodes, _)| opcodes.contains(&opcode))
            .map_or(EXACT, |(_, tolerance)| *tolerance)
    }

    /// The widest of the module's instructions.
    pub(crate) fn of_module(module: &HloModuleProto) -> Self {
        module
            .computations
            .iter()
            .flat_map(|computation| &computation.instructions)
            .map(|instruction| Self::of_opcode(&instruction.opcode))
            .max_by(|a, b| a.relative.total_cmp(&b.relative))
            .unwrap_or(EXACT)
    }

    /// What is wrong with `found`, an array of the executor.
    pub(crate) fn check(self, expected: &Tensor, found: &Tensor) -> Result<(), String> {
        if expected.kind != found.kind || expected.dims != found.dims {
            return Err(format!(
                "{:?}{:?} instead of {:?}{:?}",
                found.kind, found.dims, expected.kind, expected.dims
            ));
        }
        let tolerance = match expected.kind {
            Kind::F32 => self,
            Kind::S32 | Kind::S64 | Kind::Pred => EXACT,
        };
        let pairs = expected.values.iter().zip(&found.values).enumerate();
        for (place, (&expected, &found)) in pairs {
            if !tolerance.admits(expected, found) {
                return Err(format!(
                    "element {place} is {found:e}, the reference has {expected:e}"
                ));
            }
        }
        Ok(())
    }

    /// Any NaN equals any other; exact zeros have signs.
    fn admits(self, expected: f64, found: f64) -> bool {
        if expected.is_nan() || found.is_nan() {
            return expected.is_nan() && found.is_nan();
        }
        if self.relative == 0.0 {
            return expected.to_bits() == found.to_bits();
        }
        expected == found
            || (found - expected).abs() <= self.absolute + self.relative * expected.abs()
    }
}
