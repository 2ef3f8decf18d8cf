//! Executing models.

use std::ffi::c_int;

use metaneff_binding::{Backend as _, BackendError, Side};
use metaneff_schema::nrt::Status;

use crate::export::{export, invalid};
use crate::handles::{Handle, Model, Set};
use crate::runtime::{self, Runtime};

export! {
    header "nrt.h", node "NRT_2.0.0";

    /// Executes a model and comes back when its outputs are written.
    fn nrt_execute(
        call; model: Handle<Model>, input_set: Handle<Set>, output_set: Handle<Set>,
    ) -> Status {
        execute(call, model, input_set, output_set, 1)
    }

    /// Executes a model several times; each output is the input of the next
    /// time, at the same place of the boundary and where the sizes agree.
    fn nrt_execute_repeat(
        call; model: Handle<Model>, input_set: Handle<Set>, output_set: Handle<Set>,
        repeat_count: c_int,
    ) -> Status {
        let count = u32::try_from(repeat_count).ok().filter(|count| *count > 0);
        runtime::current(call)?;
        let count = count.ok_or_else(|| {
            invalid(call, "repeat_count", format!("{repeat_count} is no number of executions"))
        })?;
        execute(call, model, input_set, output_set, count)
    }
}

fn execute(
    call: &'static str,
    model: Handle<Model>,
    inputs: Handle<Set>,
    outputs: Handle<Set>,
    count: u32,
) -> Result<Status, BackendError> {
    let runtime = runtime::current(call)?;
    let model = model.get(call, "model")?;
    let mut inputs = inputs.get(call, "input_set")?.snapshot();
    let mut outputs = outputs.get(call, "output_set")?.snapshot();
    let mut worst = Status::SUCCESS;
    for index in 0..count {
        let status = runtime.execute(&model, &inputs, &mut outputs)?;
        worst = worst.max(status);
        if index == 0 && count > 1 {
            feed(&runtime, &model, &mut inputs, &outputs)?;
        }
    }
    Ok(worst)
}

/// Puts the tensors of the outputs in the places of the inputs.
fn feed(
    runtime: &Runtime,
    model: &Model,
    inputs: &mut metaneff_backend_sim::SimTensorSet,
    outputs: &metaneff_backend_sim::SimTensorSet,
) -> Result<(), BackendError> {
    let tensors = runtime.sim.model_tensors(&model.model)?;
    let side = |side| tensors.iter().filter(move |info| info.side == side);
    for (input, output) in side(Side::Input).zip(side(Side::Output)) {
        if input.size == output.size {
            inputs.borrow_from(&input.name, outputs, &output.name);
        }
    }
    Ok(())
}
