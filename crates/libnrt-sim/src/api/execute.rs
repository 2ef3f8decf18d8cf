//! Executing models.

use std::ffi::c_int;
use std::sync::Arc;

use metaneff_backend_sim::{SimTensor, SimTensorSet};
use metaneff_binding::{Backend as _, BackendError, Core, Side};
use metaneff_schema::nrt::Status;

use crate::api::asynchronous::not_taken;
use crate::export::{export, invalid};
use crate::handles::{Handle, Model, Set};
use crate::runtime::{self, Runtime, lock};
use crate::units::{self, Job, Kind};
use crate::{log, stack};

export! {
    header "nrt.h", node "NRT_2.0.0";

    /// Executes a model and comes back when its outputs are written; or, with
    /// `NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS`, when there is room for it in
    /// its core's queue.
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
    let execution = Execution::new(call, model, inputs, outputs, count)?;
    if runtime.settings.touched_stack > 0 {
        stack::touch(runtime.settings.touched_stack);
    }
    match runtime.settings.inflight_limit {
        None => execution.run(&runtime),
        Some(limit) => execution.enqueue(call, &runtime, limit.get()),
    }
}

/// An execution that can take place, now or later.
#[derive(Debug)]
pub(crate) struct Execution {
    model: Arc<Model>,
    inputs: SimTensorSet,
    outputs: SimTensorSet,
    count: u32,
}

impl Execution {
    /// An execution with the sets as they are now.
    pub(crate) fn new(
        call: &'static str,
        model: Handle<Model>,
        inputs: Handle<Set>,
        outputs: Handle<Set>,
        count: u32,
    ) -> Result<Self, BackendError> {
        Ok(Self {
            model: model.get(call, "model")?,
            inputs: inputs.get(call, "input_set")?.snapshot(),
            outputs: outputs.get(call, "output_set")?.snapshot(),
            count,
        })
    }

    pub(crate) fn core(&self) -> Core {
        self.model.model.core()
    }

    pub(crate) fn run(mut self, runtime: &Runtime) -> Result<Status, BackendError> {
        let mut worst = Status::SUCCESS;
        for index in 0..self.count {
            let status = runtime.execute(&self.model, &self.inputs, &mut self.outputs)?;
            worst = worst.max(status);
            if index == 0 && self.count > 1 {
                self.feed(runtime)?;
            }
        }
        Ok(worst)
    }

    /// Puts the tensors of the outputs in the places of the inputs.
    fn feed(&mut self, runtime: &Runtime) -> Result<(), BackendError> {
        let tensors = runtime.sim.model_tensors(&self.model.model)?;
        let side = |side| tensors.iter().filter(move |info| info.side == side);
        for (input, output) in side(Side::Input).zip(side(Side::Output)) {
            if input.size == output.size {
                let (name, output) = (&input.name, &output.name);
                self.inputs.borrow_from(name, &self.outputs, output);
            }
        }
        Ok(())
    }

    /// Puts the execution into its core's queue, when there is room.
    fn enqueue(
        self,
        call: &'static str,
        runtime: &Arc<Runtime>,
        limit: usize,
    ) -> Result<Status, BackendError> {
        let core = self.core().index();
        let id = u32::try_from(self.model.model.id()).unwrap_or(u32::MAX);
        let kept = self.tensors();
        let owner = Arc::clone(runtime);
        let work = move |_| {
            let result = self.run(&owner);
            if let Err(error) = &result {
                log::error(error);
            }
            drop(kept);
            runtime::status_of(&result)
        };
        let teller = Arc::clone(runtime);
        let done = move |sequence, status| {
            let callback = *lock(&teller.callback);
            if let Some(callback) = callback {
                callback.call(id, core, units::number(sequence), status);
            }
        };
        let job = Job {
            work: Box::new(work),
            done: Some(Box::new(done)),
        };
        let pushed = runtime
            .units
            .push((core, Kind::Implicit, 0), limit, true, job);
        pushed.map_err(|refused| not_taken(call, refused))?;
        Ok(Status::SUCCESS)
    }

    /// The tensors of both sets: what is queued keeps them, whoever frees them.
    pub(crate) fn tensors(&self) -> Vec<SimTensor> {
        let of = |set: &SimTensorSet| -> Vec<_> {
            set.names().filter_map(|name| set.bound(name)).collect()
        };
        let mut tensors = of(&self.inputs);
        tensors.extend(of(&self.outputs));
        tensors
    }
}
