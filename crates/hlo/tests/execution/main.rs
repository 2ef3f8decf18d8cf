//! What surrounds the opcodes: options, limits, targets of custom calls,
//! layouts at the boundary, threads.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "small numbers are converted freely, and rounded on purpose"
)]

#[path = "../refused/build.rs"]
#[expect(dead_code, reason = "the modules that are refused need more of it")]
mod build;

mod bounds;
mod custom;
mod determinism;
mod layouts;
mod options;
mod trace;

use metaneff_hlo::array::Array;
use metaneff_hlo::error::ExecuteError;
use metaneff_hlo::options::ExecuteOptions;
use metaneff_hlo::{Executable, Execution, Module};
use metaneff_schema::xla::HloModuleProto;

/// Executes a module on arrays, in row-major order.
fn execute(
    proto: &HloModuleProto,
    inputs: &[Array],
    options: &ExecuteOptions,
) -> Result<Execution, ExecuteError> {
    let module = Module::verify(proto).expect("a valid module");
    let inputs: Vec<&[u8]> = inputs.iter().map(Array::bytes).collect();
    Executable::new(module).execute(&inputs, options)
}

fn f32s(dims: &[usize], values: &[f32]) -> Array {
    Array::from_values(dims, values).expect("as many values as elements")
}
