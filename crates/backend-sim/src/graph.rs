//! Programs that are HLO modules.

use metaneff_hlo::array::{Array, ViewError};
use metaneff_hlo::error::{ExecuteError, KernelError};
use metaneff_hlo::options::ExecuteOptions;
use metaneff_hlo::{Executable, Module};

use crate::program::{Failure, Job, Outcome, Port, Program};

/// A verified module.
#[derive(Debug)]
pub(crate) struct GraphProgram {
    executable: Executable,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
}

impl GraphProgram {
    /// The module, whose boundary is called `inputs` and `outputs`. Their sizes
    /// are compared with what the module computes with.
    pub(crate) fn new(
        module: Module,
        inputs: Vec<Port>,
        outputs: Vec<Port>,
    ) -> Result<Self, String> {
        for (side, shapes, ports) in [
            ("parameter", module.parameters(), &inputs),
            ("result", module.results(), &outputs),
        ] {
            if shapes.len() != ports.len() {
                let (shapes, ports) = (shapes.len(), ports.len());
                return Err(format!(
                    "graph: {shapes} {side}s, but {ports} at its boundary"
                ));
            }
            for (shape, port) in shapes.iter().zip(ports) {
                let bytes = shape.as_array().map(|array| array.byte_size());
                if bytes != Some(port.bytes) {
                    let bytes = bytes.unwrap_or_default();
                    return Err(format!(
                        "graph: {side} `{}` has {bytes} bytes in memory, {} at the boundary",
                        port.name, port.bytes
                    ));
                }
            }
        }
        Ok(Self {
            executable: Executable::new(module),
            inputs,
            outputs,
        })
    }
}

impl Program for GraphProgram {
    fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    fn run(&self, inputs: &[&[u8]], job: &Job<'_>) -> Result<Outcome, Failure> {
        let mut options = ExecuteOptions::default();
        options.nan_policy = job.numerics.nan_policy;
        options.oob_policy = job.numerics.oob_policy;
        options.denormals = job.numerics.denormals;
        options.dot_rounding = job.numerics.dot_rounding;
        options.step_budget = job.step_budget;
        options.deadline = job.deadline;
        let execution = self.executable.execute(inputs, &options);
        let execution = execution.map_err(|error| failure(&error))?;
        let buffers = execution.outputs.into_iter().map(Array::into_parts);
        Ok(Outcome {
            outputs: buffers.map(|(_, buffer)| buffer).collect(),
            numerical_error: execution.numerical_error,
        })
    }
}

fn failure(error: &ExecuteError) -> Failure {
    let text = error.to_string();
    match innermost(error) {
        (ExecuteError::Deadline { .. }, _) => Failure::Deadline,
        (ExecuteError::StepBudget { .. }, _) => Failure::Steps(text),
        (ExecuteError::View(ViewError::Memory { .. }), _)
        | (_, Some(KernelError::View(ViewError::Memory { .. }))) => Failure::Memory(text),
        (_, Some(KernelError::OutOfBounds { .. })) => Failure::OutOfBounds(text),
        _ => Failure::Other(text),
    }
}

/// The error in the innermost of the called computations, and the kernel's, if
/// it comes from one.
fn innermost(mut error: &ExecuteError) -> (&ExecuteError, Option<&KernelError>) {
    loop {
        let (ExecuteError::Kernel { source, .. } | ExecuteError::Region { source }) = error else {
            return (error, None);
        };
        match source {
            KernelError::Region(inner) => error = inner,
            kernel => return (error, Some(kernel)),
        }
    }
}
