//! Executing models.

use std::sync::Arc;
use std::time::{Duration, Instant};

use metaneff_binding::{BackendError, Cause, Completion, Placement, Side};
use metaneff_schema::nrt::Status;

use crate::config::{Concurrency, ExtraNames};
use crate::dump;
use crate::fault::{Call, Stop, Verdict};
use crate::model::{ModelInner, SimModel, Slot};
use crate::program::{Failure, Job, Outcome};
use crate::report::{Counters, RunReport, wide};
use crate::set::{Bound, SimTensorSet};
use crate::sim::{Shared, injected, timeout};
use crate::storage::Snapshot;
use crate::sync::lock;
use crate::tensor::{TensorInner, Unreachable, View};
use crate::world::Member;

const CALL: &str = "nrt_execute";

/// A tensor at its place in a call.
#[derive(Debug)]
struct Placed {
    tensor: Arc<TensorInner>,
    view: View,
}

/// What an execution reads and writes, one entry for each parameter and result;
/// `None` where the array has no elements.
#[derive(Debug)]
struct Operands {
    inputs: Vec<Option<Placed>>,
    outputs: Vec<Option<Placed>>,
}

impl Shared {
    pub(crate) fn execute(
        &self,
        model: &SimModel,
        inputs: &SimTensorSet,
        outputs: &SimTensorSet,
    ) -> Result<Completion, BackendError> {
        let start = Instant::now();
        self.open(CALL)?;
        let model = model.inner.as_ref();
        self.owns(CALL, model.owner, "model")?;
        self.owns(CALL, inputs.owner, "input set")?;
        self.owns(CALL, outputs.owner, "output set")?;
        let verdict = self.faults.judge(Call::Execute, Some(model.core));
        let core = self.core(CALL, model.core)?;
        if let Some(since) = core.poisoned() {
            let poisoned = Cause::Poisoned {
                core: model.core,
                since,
            };
            return Err(BackendError::new(CALL, since).because(poisoned));
        }
        let exclusive = self.config.concurrency == Concurrency::Exclusive;
        let Some(_running) = core.run(exclusive) else {
            let busy = format!("{} executes another call", model.core);
            let error = BackendError::new(CALL, Status::EXEC_NC_BUSY).because(Cause::Other(busy));
            return Err(error);
        };
        let mut report = self.report(model);
        let result = self.run(model, inputs, outputs, verdict, start, &mut report);
        report.status = match &result {
            Ok(Completion::Clean) => Status::SUCCESS,
            Ok(Completion::NumericalError) => Status::EXEC_COMPLETED_WITH_NUM_ERR,
            Err(error) => error.status(),
        };
        report.elapsed = start.elapsed();
        core.record(report.status, report.elapsed);
        if report.status.is_completed() {
            Counters::add(&self.counters.executions, 1);
        }
        *lock(&model.last_run) = Some(report);
        result
    }

    fn run(
        &self,
        model: &ModelInner,
        inputs: &SimTensorSet,
        outputs: &SimTensorSet,
        verdict: Verdict,
        start: Instant,
        report: &mut RunReport,
    ) -> Result<Completion, BackendError> {
        let operands = self.operands(model, inputs, outputs)?;
        let snapshots = self.snapshots(&operands.inputs)?;
        let bytes: Vec<&[u8]> = snapshots
            .iter()
            .map(|s| s.as_ref().map_or(&[][..], Snapshot::bytes))
            .collect();
        report.input_bytes = bytes.iter().map(|b| wide(b.len())).sum();
        let answer = self.compute(model, &bytes, verdict, start);
        let status = match &answer {
            Ok((_, status)) => *status,
            Err(error) => error.status(),
        };
        if let Some(wanted) = &self.config.input_dump
            && wanted.status == status
        {
            report.input_dump = dump::write(&wanted.directory, &model.name, model.id, &bytes).ok();
        }
        drop(bytes);
        drop(snapshots);
        let (outcome, status) = answer?;
        report.output_bytes = self.store(&operands.outputs, outcome)?;
        match status {
            Status::SUCCESS => Ok(Completion::Clean),
            Status::EXEC_COMPLETED_WITH_NUM_ERR => Ok(Completion::NumericalError),
            other => Err(injected(CALL, other)),
        }
    }

    /// The outputs and the status to answer once they are written.
    fn compute(
        &self,
        model: &ModelInner,
        inputs: &[&[u8]],
        mut verdict: Verdict,
        start: Instant,
    ) -> Result<(Outcome, Status), BackendError> {
        // Statuses of a completion are answered after the outputs are written.
        let completed = match verdict.stop {
            Some(Stop::Fail(
                status @ (Status::EXEC_COMPLETED_WITH_NUM_ERR | Status::EXEC_COMPLETED_WITH_ERR),
            )) => {
                verdict.stop = None;
                Some(status)
            }
            _ => None,
        };
        let limit = self.config.execution_timeout;
        let core = Some(model.core);
        self.obey(
            CALL,
            core,
            verdict,
            self.config.latency.execute,
            start,
            limit,
        )?;
        let job = Job {
            numerics: self.config.numerics,
            step_budget: self.config.step_budget,
            compute_memory_limit: self.config.compute_memory_limit,
            deadline: limit.and_then(|limit| start.checked_add(limit)),
            member: model
                .world
                .as_ref()
                .zip(model.collectives)
                .map(|(world, context)| Member {
                    world,
                    context,
                    program: model.identity,
                }),
        };
        let outcome = model.program.run(inputs, &job);
        let outcome = outcome.map_err(|failure| self.failed(failure, limit, start))?;
        let own = if outcome.numerical_error {
            Status::EXEC_COMPLETED_WITH_NUM_ERR
        } else {
            Status::SUCCESS
        };
        Ok((outcome, completed.unwrap_or(own)))
    }

    fn failed(&self, failure: Failure, limit: Option<Duration>, start: Instant) -> BackendError {
        // Closing ends what waits, which then fails in some way or other.
        if let Err(closed) = self.gate.check() {
            return closed.at(CALL);
        }
        let (status, text) = match failure {
            Failure::Deadline => return timeout(CALL, limit.unwrap_or_default(), start),
            Failure::Closed => return crate::clock::Closed.at(CALL),
            Failure::Steps(text) => (Status::TIMEOUT, text),
            Failure::OutOfBounds(text) => (Status::EXEC_OOB, text),
            Failure::Absent(text) => {
                let ms = start.elapsed().as_millis();
                (Status::TIMEOUT, format!("{text}, after {ms} ms"))
            }
            Failure::Peer(text) => (Status::EXEC_HW_ERR_COLLECTIVES, text),
            Failure::Memory(text) => (Status::FAIL_HOST_MEM_ALLOC, text),
            Failure::Other(text) => (Status::FAILURE, text),
        };
        BackendError::new(CALL, status).because(Cause::Other(text))
    }

    fn operands(
        &self,
        model: &ModelInner,
        inputs: &SimTensorSet,
        outputs: &SimTensorSet,
    ) -> Result<Operands, BackendError> {
        if self.config.extra_names == ExtraNames::Refuse {
            extra(&model.inputs, inputs, Side::Input)?;
            extra(&model.outputs, outputs, Side::Output)?;
        }
        let side = |slots: &[Slot], set: &SimTensorSet, side| {
            let placed = slots.iter().map(|slot| placed(model, slot, set, side));
            placed.collect::<Result<Vec<_>, _>>()
        };
        let operands = Operands {
            inputs: side(&model.inputs, inputs, Side::Input)?,
            outputs: side(&model.outputs, outputs, Side::Output)?,
        };
        apart(model, &operands.outputs)?;
        Ok(operands)
    }

    fn snapshots(&self, inputs: &[Option<Placed>]) -> Result<Vec<Option<Snapshot>>, BackendError> {
        let snapshot = |placed: &Placed| {
            let bytes = placed.view.snapshot();
            bytes.map_err(|error| match error {
                Unreachable::Empty => without_memory(&placed.tensor),
                error => self.unreachable(CALL, error, 0, placed.view.size),
            })
        };
        let inputs = inputs.iter().map(|i| i.as_ref().map(snapshot).transpose());
        inputs.collect()
    }

    fn store(&self, outputs: &[Option<Placed>], outcome: Outcome) -> Result<u64, BackendError> {
        let mut written = 0;
        for (output, bytes) in outputs.iter().zip(outcome.outputs) {
            let Some(Placed { tensor, view }) = output else {
                continue;
            };
            let size = bytes.len();
            let (storage, range) = view
                .range(0, size)
                .map_err(|e| self.unreachable(CALL, e, 0, size))?;
            let put = storage.put(range.start, bytes);
            put.map_err(|error| self.storage(CALL, error))?;
            tensor.complete();
            written += wide(size);
        }
        Ok(written)
    }

    fn report(&self, model: &ModelInner) -> RunReport {
        RunReport {
            backend: "sim",
            instance: self.config.instance,
            core: model.core,
            model: model.name.clone(),
            neff_hash: model.hash.clone(),
            collectives: model.collectives,
            input_bytes: 0,
            output_bytes: 0,
            numerics: self.config.numerics,
            status: Status::SUCCESS,
            elapsed: Duration::ZERO,
            input_dump: None,
        }
    }
}

/// The tensor for a slot, if it fits.
fn placed(
    model: &ModelInner,
    slot: &Slot,
    set: &SimTensorSet,
    side: Side,
) -> Result<Option<Placed>, BackendError> {
    let Slot::Tensor { name, bytes } = slot else {
        return Ok(None);
    };
    let refused = |status, detail| {
        BackendError::new(CALL, status).because(Cause::Binding {
            name: name.to_string_lossy().into_owned(),
            detail,
        })
    };
    let tensor = match set.get(name) {
        Bound::Tensor(tensor) => tensor,
        Bound::Freed => {
            let detail = format!("the {side} tensor was freed");
            return Err(refused(Status::EXEC_BAD_INPUT, detail));
        }
        Bound::Nothing => {
            let detail = format!("the {side} set has no tensor of this name");
            return Err(refused(Status::INVALID, detail));
        }
    };
    let view = tensor.view();
    if view.storage.is_none() {
        return Err(without_memory(&tensor));
    }
    if view.size != *bytes {
        let detail = format!(
            "the {side} takes {bytes} bytes, its tensor has {}",
            view.size
        );
        return Err(refused(Status::INVALID, detail));
    }
    if view.placement == Placement::Device && tensor.core != model.core {
        let mismatch = Cause::CoreMismatch {
            what: format!("model `{}`", model.name),
            core: model.core,
            other: format!("{side} tensor `{}`", name.to_string_lossy()),
            other_core: tensor.core,
        };
        return Err(BackendError::new(CALL, Status::INVALID).because(mismatch));
    }
    Ok(Some(Placed { tensor, view }))
}

fn without_memory(tensor: &TensorInner) -> BackendError {
    BackendError::new(CALL, Status::EXEC_BAD_INPUT).because(Cause::Binding {
        name: tensor.name.to_string_lossy().into_owned(),
        detail: "the tensor has no memory attached".to_owned(),
    })
}

fn extra(slots: &[Slot], set: &SimTensorSet, side: Side) -> Result<(), BackendError> {
    let named = slots.iter().filter_map(|slot| match slot {
        Slot::Tensor { name, .. } => Some(name.as_c_str()),
        Slot::Empty => None,
    });
    let known: std::collections::HashSet<_> = named.collect();
    match set.names().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => Err(
            BackendError::new(CALL, Status::INVALID).because(Cause::Binding {
                name: name.to_string_lossy().into_owned(),
                detail: format!("the model has no {side} of this name"),
            }),
        ),
    }
}

/// Two outputs in the same bytes would overwrite each other.
fn apart(model: &ModelInner, outputs: &[Option<Placed>]) -> Result<(), BackendError> {
    let mut ranges: Vec<(usize, usize, usize, usize)> = Vec::with_capacity(outputs.len());
    for (index, output) in outputs.iter().enumerate() {
        if let Some(Placed { view, .. }) = output
            && let Some(storage) = &view.storage
        {
            let storage = Arc::as_ptr(storage).addr();
            ranges.push((storage, view.offset, view.offset + view.size, index));
        }
    }
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        let [(storage, _, end, first), (other, start, _, second)] = pair else {
            continue;
        };
        if storage == other && start < end {
            let name = |index: &usize| match &model.outputs[*index] {
                Slot::Tensor { name, .. } => name.to_string_lossy().into_owned(),
                Slot::Empty => String::new(),
            };
            let error = BackendError::new(CALL, Status::INVALID).because(Cause::Binding {
                name: name(first),
                detail: format!("output `{}` is in the same memory", name(second)),
            });
            return Err(error);
        }
    }
    Ok(())
}
