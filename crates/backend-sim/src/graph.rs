//! Programs that are HLO modules.

use metaneff_hlo::array::{Array, ViewError};
use metaneff_hlo::error::{ExecuteError, KernelError};
use metaneff_hlo::ir::{GroupMode, Op};
use metaneff_hlo::options::ExecuteOptions;
use metaneff_hlo::{COLLECTIVE_MATMUL, CollectiveError, CustomCalls, Executable, Module};

use crate::program::{Failure, Job, Outcome, Port, Program};
use crate::world::Across;

/// A verified module.
#[derive(Debug)]
pub(crate) struct GraphProgram {
    executable: Executable,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    across: Option<Across>,
}

impl GraphProgram {
    /// The module, whose boundary is called `inputs` and `outputs`. Their sizes
    /// are compared with what the module computes with.
    pub(crate) fn new(
        module: Module,
        targets: CustomCalls,
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
            across: across(&module),
            executable: Executable::new(module).with_custom_calls(targets),
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
        options.narrow_reduce = job.numerics.narrow_reduce;
        options.rewrites = job.numerics.rewrites;
        options.rng_seed = job.numerics.rng_seed;
        options.step_budget = job.step_budget;
        options.memory_limit = job.compute_memory_limit;
        options.deadline = job.deadline;
        let seat = match (self.across, job.member) {
            (Some(across), Some(member)) => Some(member.sit(across).ok_or(Failure::Closed)?),
            _ => None,
        };
        options.device = seat.as_ref().map(|seat| seat.device().clone());
        let execution = self.executable.execute(inputs, &options);
        let execution = execution.map_err(|error| match (failure(&error), seat) {
            (Failure::Absent(text), Some(seat)) => absent(text, &seat.fail()),
            (other, Some(seat)) => {
                seat.fail();
                other
            }
            (other, None) => other,
        })?;
        let buffers = execution.outputs.into_iter().map(Array::into_parts);
        Ok(Outcome {
            outputs: buffers.map(|(_, buffer)| buffer).collect(),
            numerical_error: execution.numerical_error,
        })
    }
}

/// Adds who did not start to what a collective says.
fn absent(text: String, ranks: &[u32]) -> Failure {
    if ranks.is_empty() {
        return Failure::Absent(text);
    }
    // A world may have thousands of ranks.
    let some: Vec<_> = ranks.iter().take(8).map(u32::to_string).collect();
    let more = if ranks.len() > some.len() {
        ", …"
    } else {
        ""
    };
    let some = some.join(", ");
    Failure::Absent(format!("{text}; ranks that did not start: {some}{more}"))
}

/// What the ranks of a world are to a module, if it makes a difference: the
/// partitions, where a collective or an instruction asks for partitions, else
/// the replicas.
fn across(module: &Module) -> Option<Across> {
    let computations = module.computations().iter();
    let instructions = computations.flat_map(|computation| computation.instructions());
    let mut found = None;
    for instruction in instructions {
        match instruction.op() {
            Op::PartitionId => return Some(Across::Partitions),
            Op::Collective(collective) if collective.groups.mode == GroupMode::CrossPartition => {
                return Some(Across::Partitions);
            }
            Op::Collective(_) | Op::ReplicaId => found = Some(Across::Replicas),
            Op::CustomCall(call) if call.target == COLLECTIVE_MATMUL => {
                found = Some(Across::Replicas);
            }
            _ => {}
        }
    }
    found
}

fn failure(error: &ExecuteError) -> Failure {
    let text = error.to_string();
    match innermost(error) {
        (ExecuteError::Deadline { .. }, _) => Failure::Deadline,
        (ExecuteError::StepBudget { .. }, _) => Failure::Steps(text),
        (
            ExecuteError::Collective {
                source: CollectiveError::Timeout { .. },
                ..
            },
            _,
        ) => Failure::Absent(text),
        (
            ExecuteError::Collective {
                source: CollectiveError::Aborted { .. },
                ..
            },
            _,
        ) => Failure::Peer(text),
        (ExecuteError::MemoryLimit { .. }, _)
        | (ExecuteError::View(ViewError::Memory { .. }), _)
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
