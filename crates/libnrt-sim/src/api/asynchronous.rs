//! Work in the background.
//!
//! Requests are checked when they are scheduled; what fails later goes to the
//! error tracker. A request keeps the tensors that it uses. Bytes to write are
//! taken when the write is scheduled.

use std::ffi::{c_int, c_void};
use std::os::fd::IntoRawFd as _;
use std::sync::{Arc, Mutex};

use metaneff_binding::{Backend as _, BackendError, Core};
use metaneff_schema::nrt::Status;

use crate::abi::AsyncError;
use crate::api::execute;
use crate::buffer::Attached;
use crate::cc::{self, Collective};
use crate::export::{export, failed, failure, invalid};
use crate::handles::{Handle, Model, Set, Tensor, object};
use crate::log;
use crate::pointers::{Bytes, BytesMut, Out};
use crate::runtime::{self, Runtime, lock};
use crate::units::{self, Job, Kind, QUEUES, Refused};

/// What stands behind a `nrta_error_tracker_t`.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    errors: Mutex<Vec<AsyncError>>,
    /// Lists that were given out, which stay until the tracker goes.
    lists: Mutex<Vec<Box<[AsyncError]>>>,
}

object!(Tracker, "error tracker");

export! {
    header "nrt_async.h", node "NRT_3.0.0";

    /// Schedules a write of bytes to a tensor.
    fn nrta_tensor_write(
        call; tensor: Handle<Tensor>, buf: Bytes, offset: u64, size: u64, queue: c_int,
        err: Handle<Tracker>, req_sequence: Out<u64>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let request = Request::new(call, queue, QUEUES, err, &req_sequence)?;
        let tensor = tensor.get(call, "tensor")?.tensor.clone();
        let (offset, size) = inside(call, offset, size, tensor.size())?;
        let data = buf.slice(call, "buf", size)?.to_vec();
        request.submit(&runtime, tensor.core(), Kind::Write, move |runtime| {
            runtime.write(&tensor, offset, &data)?;
            Ok(Status::SUCCESS)
        })
    }

    /// Schedules a read of bytes of a tensor.
    fn nrta_tensor_read(
        call; buf: BytesMut, tensor: Handle<Tensor>, offset: u64, size: u64, queue: c_int,
        err: Handle<Tracker>, req_sequence: Out<u64>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let request = Request::new(call, queue, QUEUES, err, &req_sequence)?;
        let tensor = tensor.get(call, "tensor")?.tensor.clone();
        let (offset, size) = inside(call, offset, size, tensor.size())?;
        let target = Attached::new(buf.address(call, "buf")?, size)
            .ok_or_else(|| invalid(call, "size", format!("{size} bytes exceed any memory")))?;
        request.submit(&runtime, tensor.core(), Kind::Read, move |runtime| {
            let mut data = vec![0; size];
            runtime.read(&tensor, offset, &mut data)?;
            target.put(&data);
            Ok(Status::SUCCESS)
        })
    }

    /// Schedules a copy between tensors of one core.
    fn nrta_tensor_copy(
        call; src: Handle<Tensor>, src_offset: u64, dst: Handle<Tensor>, dst_offset: u64,
        size: u64, queue: c_int, err: Handle<Tracker>, req_sequence: Out<u64>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let request = Request::new(call, queue, QUEUES, err, &req_sequence)?;
        let source = src.get(call, "src")?.tensor.clone();
        let target = dst.get(call, "dst")?.tensor.clone();
        let (from, length) = inside(call, src_offset, size, source.size())?;
        let (to, _) = inside(call, dst_offset, size, target.size())?;
        if source.core() != target.core() {
            let detail = format!("it is on {}, the source on {}", target.core(), source.core());
            return Err(invalid(call, "dst", detail));
        }
        request.submit(&runtime, source.core(), Kind::Op, move |runtime| {
            runtime.sim.copy(&source, from, &target, to, length)?;
            Ok(Status::SUCCESS)
        })
    }

    /// Schedules an execution.
    fn nrta_execute_schedule(
        call; model: Handle<Model>, input: Handle<Set>, output: Handle<Set>, queue: c_int,
        err: Handle<Tracker>, req_sequence: Out<u64>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let request = Request::new(call, queue, 1, err, &req_sequence)?;
        let execution = execute::Execution::new(call, model, input, output, 1)?;
        let kept = execution.tensors();
        request.submit(&runtime, execution.core(), Kind::Compute, |runtime| {
            let result = execution.run(runtime);
            drop(kept);
            result
        })
    }

    /// Prepares a collective, checking what can be checked without the others.
    fn nrta_cc_prepare(
        call; comm: cc::CommPointer, input: cc::ListPointer, output: cc::ListPointer, dtype: u32,
        op: u32, cc_op: u32, cc_ctx: Out<Handle<Collective>>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let place = cc_ctx.place(call, "cc_ctx")?;
        let wanted = cc::Wanted { dtype, op, kind: cc_op };
        let collective = Collective::prepare(call, &runtime, comm, (input, output), wanted)?;
        place.set(Handle::new(collective));
        Ok(Status::SUCCESS)
    }

    /// Schedules a collective that was prepared; its context is gone then.
    fn nrta_cc_schedule(
        call; cc_ctx: Out<Handle<Collective>>, queue: c_int, err: Handle<Tracker>,
        req_sequence: Out<u64>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let request = Request::new(call, queue, 1, err, &req_sequence)?;
        let handle = cc_ctx.place(call, "cc_ctx")?.get();
        let collective = handle.get(call, "cc_ctx")?;
        let core = collective.core();
        let status = request.submit(&runtime, core, Kind::Collectives, move |runtime| {
            collective.run(runtime)
        })?;
        handle.take(call, "cc_ctx")?;
        Ok(status)
    }

    /// Whether a request is done, well or not.
    fn nrta_is_completed(call; seq: u64, is_completed: Out<bool>) -> Status {
        let runtime = runtime::current(call)?;
        let place = is_completed.place(call, "is_completed")?;
        let completed = runtime.units.is_completed(seq);
        place.set(completed.ok_or_else(|| unknown(call, seq))?);
        Ok(Status::SUCCESS)
    }

    /// The last request of a queue that is done; its number is 0 before the
    /// first.
    fn nrta_get_sequence(
        call; lnc: u32, xu: u32, queue: c_int, seq: Out<u64>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let place = seq.place(call, "seq")?;
        runtime.sim.memory_stats(Core::new(lnc))?;
        let kind = Kind::numbered(xu)
            .ok_or_else(|| invalid(call, "xu", format!("{xu} is no execution unit")))?;
        let queue = queue_of(call, queue, QUEUES)?;
        let last = runtime.units.last(lnc, kind, queue);
        place.set(last.ok_or_else(|| failure(call, Status::INVALID))?);
        Ok(Status::SUCCESS)
    }

    /// A descriptor that can be read from once a request is done, or will not
    /// be because the runtime is closed. The caller closes it.
    fn nrta_get_completion_handle(call; seq: u64, fd: Out<c_int>) -> Status {
        let runtime = runtime::current(call)?;
        let place = fd.place(call, "fd")?;
        let watched = runtime.units.watch(seq).ok_or_else(|| unknown(call, seq))?;
        let socket = watched.map_err(|e| failed(call, Status::RESOURCE, e.to_string()))?;
        place.set(socket.into_raw_fd());
        Ok(Status::SUCCESS)
    }

    /// A list for the errors of requests.
    fn nrta_error_tracker_create(
        call; lnc_idx: u32, error_tracker: Out<Handle<Tracker>>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let place = error_tracker.place(call, "error_tracker")?;
        runtime.sim.memory_stats(Core::new(lnc_idx))?;
        place.set(Handle::new(Tracker::default()));
        Ok(Status::SUCCESS)
    }

    /// Frees a tracker and its lists. Requests that are under way go on.
    fn nrta_error_tracker_destroy(call; error_tracker: Handle<Tracker>) {
        if !error_tracker.is_null() && runtime::current(call).is_ok() {
            error_tracker.take(call, "error_tracker")?;
        }
        Ok(())
    }

    /// All errors so far. The list stays until the tracker is destroyed.
    fn nrta_error_tracker_get_list(
        call; error_tracker: Handle<Tracker>, list: Out<*const AsyncError>,
        error_count: Out<usize>,
    ) -> Status {
        runtime::current(call)?;
        let list = list.place(call, "list")?;
        let count = error_count.place(call, "error_count")?;
        let tracker = error_tracker.get(call, "error_tracker")?;
        let (start, length) = tracker.list();
        list.set(start);
        count.set(length);
        Ok(Status::SUCCESS)
    }
}

pub(crate) mod experimental {
    //! `nrt_experimental.h`.

    use super::*;

    /// `NRT_ASYNC_EXEC_STATUS_CALLBACK`.
    type Function = unsafe extern "C" fn(*mut c_void, u32, u32, u64, Status);

    /// Whom to tell of executions that no one waits for.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Callback {
        function: Function,
        params: *mut c_void,
    }

    // SAFETY: the pointer is only handed back to the caller's own function, which
    // by the header is called on another thread.
    unsafe impl Send for Callback {}

    impl Callback {
        pub(crate) fn call(self, model: u32, core: u32, job: u64, status: Status) {
            // SAFETY: the C caller registered the function with the signature of
            // the header, and keeps it and its parameter valid.
            unsafe { (self.function)(self.params, model, core, job, status) }
        }
    }

    export! {
        header "nrt_experimental.h", node "NRT_2.0.0";

        /// Waits until all executions are done that `nrt_execute` has queued, and
        /// the callback was told of them.
        fn nrt_async_drain_queued_execs(call; vnc: i32) -> Status {
            let runtime = runtime::current(call)?;
            let core = runtime::core(call, "vnc", vnc)?;
            runtime.sim.memory_stats(core)?;
            if units::is_worker() {
                let text = "a callback cannot wait for the thread that it is called on";
                return Err(failed(call, Status::FAILURE, text));
            }
            runtime.units.drain(core.index(), Kind::Implicit, true);
            match runtime.sim.is_closed() {
                true => Err(failure(call, Status::CLOSED)),
                false => Ok(Status::SUCCESS),
            }
        }

        /// Says whom to tell of executions that `nrt_execute` has queued, in
        /// place of who was told before; no one for null.
        fn nrt_register_async_exec_callback(
            call; callback: Option<Function>, params: *mut c_void,
        ) -> Status {
            let runtime = runtime::current(call)?;
            let callback = callback.map(|function| Callback { function, params });
            *lock(&runtime.callback) = callback;
            Ok(Status::SUCCESS)
        }
    }
}

impl Tracker {
    fn list(&self) -> (*const AsyncError, usize) {
        let errors = lock(&self.errors);
        let mut lists = lock(&self.lists);
        let grown = lists.last().is_none_or(|last| last.len() < errors.len());
        if grown && !errors.is_empty() {
            lists.push(errors.as_slice().into());
        }
        match lists.last() {
            Some(list) => (list.as_ptr(), list.len()),
            None => (std::ptr::null(), 0),
        }
    }
}

/// What every request has.
struct Request<'a> {
    call: &'static str,
    queue: u16,
    tracker: Option<Arc<Tracker>>,
    sequence: crate::pointers::Place<'a, u64>,
}

impl<'a> Request<'a> {
    /// Checks it. Without a tracker, errors are logged and no more.
    fn new(
        call: &'static str,
        queue: c_int,
        queues: u16,
        tracker: Handle<Tracker>,
        sequence: &'a Out<u64>,
    ) -> Result<Self, BackendError> {
        let sequence = sequence.place(call, "req_sequence")?;
        let queue = queue_of(call, queue, queues)?;
        let tracker = match tracker.is_null() {
            true => None,
            false => Some(tracker.get(call, "err")?),
        };
        Ok(Self {
            call,
            queue,
            tracker,
            sequence,
        })
    }

    fn submit(
        self,
        runtime: &Arc<Runtime>,
        core: Core,
        kind: Kind,
        work: impl FnOnce(&Runtime) -> Result<Status, BackendError> + Send + 'static,
    ) -> Result<Status, BackendError> {
        // What nrt_execute has queued comes first.
        runtime.settle();
        let owner = Arc::clone(runtime);
        let tracker = self.tracker;
        let work = move |sequence| {
            let result = work(&owner);
            if let Err(error) = &result {
                log::error(error);
            }
            let status = runtime::status_of(&result);
            if let Some(tracker) = tracker
                && status != Status::SUCCESS
            {
                let error_code = u64::try_from(status.0).unwrap_or(u64::MAX);
                lock(&tracker.errors).push(AsyncError {
                    sequence,
                    error_code,
                });
            }
            status
        };
        let job = Job {
            work: Box::new(work),
            done: None,
        };
        let unit = (core.index(), kind, self.queue);
        let pushed = runtime.units.push(unit, units::MAX_PENDING, false, job);
        self.sequence
            .set(pushed.map_err(|refused| not_taken(self.call, refused))?);
        Ok(Status::SUCCESS)
    }
}

pub(crate) fn not_taken(call: &'static str, refused: Refused) -> BackendError {
    match refused {
        Refused::Closed => failure(call, Status::CLOSED),
        Refused::NoThread => failed(call, Status::RESOURCE, "no thread can be started"),
        Refused::Full => {
            let text = format!("{} requests are under way already", units::MAX_PENDING);
            failed(call, Status::QUEUE_FULL, text)
        }
    }
}

fn queue_of(call: &'static str, queue: c_int, queues: u16) -> Result<u16, BackendError> {
    let number = u16::try_from(queue).ok().filter(|queue| *queue < queues);
    number.ok_or_else(|| {
        let detail = format!("there is no queue {queue}, the unit has {queues}");
        invalid(call, "queue", detail)
    })
}

fn unknown(call: &'static str, sequence: u64) -> BackendError {
    invalid(call, "seq", format!("{sequence:#x} is no request's"))
}

/// A range of a tensor of `available` bytes.
fn inside(
    call: &'static str,
    offset: u64,
    size: u64,
    available: usize,
) -> Result<(usize, usize), BackendError> {
    let range = usize::try_from(offset).ok().zip(usize::try_from(size).ok());
    let fits = |range: &(usize, usize)| {
        let end = range.0.checked_add(range.1);
        end.is_some_and(|end| end <= available)
    };
    range.filter(fits).ok_or_else(|| {
        let detail =
            format!("{size} bytes from {offset} on are not inside a tensor of {available} bytes");
        invalid(call, "size", detail)
    })
}
