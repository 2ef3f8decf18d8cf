//! Requests that the library works on while the caller goes on: `nrt_async.h`.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use metaneff_binding::{BackendError, Cause, Completion, Core};
use metaneff_schema::nrt::Status;

use super::abi::{RawAsyncError, RawTracker};
use super::handle::{NrtModel, NrtTensor, NrtTensorSet, SharedTensor};
use super::session::{Call, Session};
use crate::nrt::Nrt;

/// The only queue that every execution unit has.
const QUEUE: c_int = 0;

/// Pauses between two questions whether a request is completed, where the
/// library has no handle to wait on.
const PAUSES: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(2));

/// Errors that one request can have at most; a count beyond is none.
const MAX_ERRORS: usize = 1 << 20;

/// Tensors that a request uses, which nobody frees meanwhile.
#[derive(Debug)]
pub(crate) struct Held {
    nrt: Nrt,
    tensors: Vec<Arc<SharedTensor>>,
}

impl Held {
    pub(crate) const fn new(nrt: Nrt) -> Self {
        Self {
            nrt,
            tensors: Vec::new(),
        }
    }

    /// Holds one tensor more, and gives another handle of it.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE` for a tensor that is another session's.
    pub(crate) fn tensor(
        &mut self,
        call: &'static str,
        tensor: &NrtTensor,
    ) -> Result<NrtTensor, BackendError> {
        self.nrt.session().call(call)?.tensor(tensor)?;
        self.lease(call, "the tensor", &tensor.shared)?;
        Ok(NrtTensor {
            shared: Arc::clone(&tensor.shared),
            ..*tensor
        })
    }

    /// Holds every tensor of a set.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE` where one has been freed.
    pub(crate) fn set(
        &mut self,
        call: &'static str,
        set: &NrtTensorSet,
    ) -> Result<(), BackendError> {
        self.nrt.session().call(call)?.pointer(&set.handle)?;
        set.entries
            .iter()
            .try_for_each(|(name, entry)| self.lease(call, &name.to_string_lossy(), &entry.tensor))
    }

    fn lease(
        &mut self,
        call: &'static str,
        name: &str,
        tensor: &Arc<SharedTensor>,
    ) -> Result<(), BackendError> {
        if tensor.lease() {
            self.tensors.push(Arc::clone(tensor));
            return Ok(());
        }
        let cause = Cause::Binding {
            name: name.to_owned(),
            detail: "the tensor has been freed".to_owned(),
        };
        Err(BackendError::new(call, Status::INVALID_HANDLE).because(cause))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let call = self.nrt.session().call("nrt_tensor_free");
        for tensor in &self.tensors {
            if tensor.end_lease()
                && let Ok(call) = &call
            {
                call.release(tensor);
            }
        }
    }
}

/// Where the errors of one request go.
struct Tracker {
    nrt: Nrt,
    pointer: NonNull<RawTracker>,
}

// SAFETY: the library's object belongs to no thread, and one owner uses it.
unsafe impl Send for Tracker {}

impl Tracker {
    fn new(nrt: &Nrt, core: Core) -> Result<Self, BackendError> {
        let call = nrt.session().call("nrta_error_tracker_create")?;
        let function = call.optional(call.symbols.nrta_error_tracker_create)?;
        let mut pointer = ptr::null_mut();
        // SAFETY: the call writes one pointer.
        call.answer(unsafe { function(core.index(), &raw mut pointer) })?;
        let pointer = NonNull::new(pointer)
            .ok_or_else(|| call.broken("the library answered success and a null tracker".into()))?;
        Ok(Self {
            nrt: nrt.clone(),
            pointer,
        })
    }

    /// The status that request `sequence` ended with.
    fn status(&self, sequence: u64) -> Result<Status, BackendError> {
        let call = self.nrt.session().call("nrta_error_tracker_get_list")?;
        let function = call.optional(call.symbols.nrta_error_tracker_get_list)?;
        let (mut list, mut count) = (ptr::null(), 0);
        // SAFETY: the tracker is the library's and lives; the call writes a
        // pointer and a number.
        let status = unsafe { function(self.pointer.as_ptr(), &raw mut list, &raw mut count) };
        call.answer(status)?;
        if count == 0 {
            return Ok(Status::SUCCESS);
        }
        if list.is_null() || !list.is_aligned() || count > MAX_ERRORS {
            let detail = format!("a list of {count} errors at {list:p} cannot be");
            return Err(call.broken(detail));
        }
        for index in 0..count {
            // SAFETY: the list has `count` entries.
            let entry = unsafe { list.add(index) };
            // SAFETY: an entry of the list, which lives until the tracker goes.
            let RawAsyncError { sequence: of, code } = unsafe { entry.read() };
            if of == sequence {
                return Ok(Status(i32::try_from(code).unwrap_or(Status::FAILURE.0)));
            }
        }
        Ok(Status::SUCCESS)
    }
}

impl Drop for Tracker {
    fn drop(&mut self) {
        let Ok(call) = self.nrt.session().call("nrta_error_tracker_destroy") else {
            return;
        };
        if let Some(function) = call.symbols.nrta_error_tracker_destroy {
            // SAFETY: the tracker is the library's, and its only owner ends here;
            // its request is completed.
            unsafe { function(self.pointer.as_ptr()) };
        }
    }
}

/// A request under way, with all that it uses. Dropping it waits for its end.
pub(crate) struct Flight<P> {
    request: Option<Request<P>>,
}

struct Request<P> {
    call: &'static str,
    sequence: u64,
    tracker: Tracker,
    held: Held,
    payload: P,
}

impl<P> fmt::Debug for Flight<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let request = self.request.as_ref();
        f.debug_struct("Flight")
            .field("call", &request.map(|request| request.call))
            .field("sequence", &request.map(|request| request.sequence))
            .finish_non_exhaustive()
    }
}

impl<P> Drop for Flight<P> {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            // What the request ended with is nobody's business any more.
            let _outcome = request.finish();
        }
    }
}

/// A request that was not taken, with what it brought.
pub(crate) type Refused<P> = (BackendError, P);

impl<P> Flight<P> {
    /// Schedules a request; `start` calls the library's function with the
    /// payload's pointers, which stay valid wherever the payload is moved to.
    fn start(
        held: Held,
        core: Core,
        name: &'static str,
        mut payload: P,
        start: impl FnOnce(&Call<'_>, &mut P, *mut RawTracker, *mut u64) -> Result<Status, BackendError>,
    ) -> Result<Self, Refused<P>> {
        let mut sequence = 0;
        let nrt = held.nrt.clone();
        let call = match nrt.session().call(name) {
            Ok(call) => call,
            Err(error) => return Err((error, payload)),
        };
        let tracker = match Tracker::new(&nrt, core) {
            Ok(tracker) => tracker,
            Err(error) => return Err((error, payload)),
        };
        let errors = tracker.pointer.as_ptr();
        let started = start(&call, &mut payload, errors, &raw mut sequence);
        match started.and_then(|status| call.answer(status)) {
            Ok(()) => Ok(Self {
                request: Some(Request {
                    call: name,
                    sequence,
                    tracker,
                    held,
                    payload,
                }),
            }),
            Err(error) => Err((error, payload)),
        }
    }

    /// Waits until the request is completed.
    pub(crate) fn finish(mut self) -> Result<(P, Result<Completion, BackendError>), BackendError> {
        match self.request.take() {
            Some(request) => request.finish(),
            None => Err(BackendError::new("nrta_is_completed", Status::INVALID)),
        }
    }
}

impl<P> Request<P> {
    /// Waits until the request is completed.
    ///
    /// A request of which the library knows nothing any more may still be under
    /// way: what it uses is given up then, and never freed.
    fn finish(self) -> Result<(P, Result<Completion, BackendError>), BackendError> {
        if let Err(error) = self.wait() {
            let _given_up = ManuallyDrop::new(self);
            return Err(error);
        }
        let status = self.tracker.status(self.sequence);
        let Self {
            call,
            held,
            payload,
            ..
        } = self;
        drop(held);
        let outcome = status.and_then(|status| match status {
            Status::SUCCESS => Ok(Completion::Clean),
            Status::EXEC_COMPLETED_WITH_NUM_ERR => Ok(Completion::NumericalError),
            status => Err(BackendError::new(call, status)),
        });
        Ok((payload, outcome))
    }

    fn wait(&self) -> Result<(), BackendError> {
        let session = self.held.nrt.session();
        if let Some(handle) = self.completion(session) {
            return_on_readable(&handle);
        }
        let (mut pause, most) = PAUSES;
        while !self.is_completed(session)? {
            thread::sleep(pause);
            pause = pause.saturating_mul(2).min(most);
        }
        Ok(())
    }

    fn is_completed(&self, session: &Session) -> Result<bool, BackendError> {
        let call = session.call("nrta_is_completed")?;
        let function = call.optional(call.symbols.nrta_is_completed)?;
        let mut completed = 0;
        // SAFETY: the call writes one byte, a C `bool`.
        call.answer(unsafe { function(self.sequence, &raw mut completed) })?;
        Ok(completed != 0)
    }

    /// What can be waited on, if the library has it.
    fn completion(&self, session: &Session) -> Option<OwnedFd> {
        let call = session.call("nrta_get_completion_handle").ok()?;
        let function = call.symbols.nrta_get_completion_handle?;
        let mut descriptor = -1;
        // SAFETY: the call writes one `int`.
        let status = unsafe { function(self.sequence, &raw mut descriptor) };
        if status != Status::SUCCESS || descriptor < 0 {
            return None;
        }
        // SAFETY: the library made the descriptor for the caller, who closes it.
        Some(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }
}

/// Waits until a descriptor is readable, or fails; the caller looks again.
fn return_on_readable(handle: &OwnedFd) {
    let mut entry = libc::pollfd {
        fd: handle.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    loop {
        // SAFETY: one entry, which lives until the call returns.
        let ready = unsafe { libc::poll(&raw mut entry, 1, -1) };
        let interrupted = std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted;
        if ready >= 0 || !interrupted {
            return;
        }
    }
}

/// A model with its two sets, as an execution takes them.
pub(crate) trait Executable {
    /// The model and its sets.
    fn parts(&mut self) -> (&NrtModel, &NrtTensorSet, &mut NrtTensorSet);
}

impl<P: Executable> Flight<P> {
    /// `nrta_execute_schedule`; the sets' tensors are held.
    pub(crate) fn execute(held: Held, core: Core, launch: P) -> Result<Self, Refused<P>> {
        Self::start(
            held,
            core,
            "nrta_execute_schedule",
            launch,
            |call, launch, errors, out| {
                let (model, inputs, outputs) = launch.parts();
                let model = call.pointer(&model.handle)?;
                let inputs = call.pointer(&inputs.handle)?;
                let outputs = call.pointer(&outputs.handle)?;
                let function = call.optional(call.symbols.nrta_execute_schedule)?;
                // SAFETY: model and sets are this session's and are kept, and the
                // sets' tensors held, until the request is completed.
                Ok(call.deep(|| unsafe { function(model, inputs, outputs, QUEUE, errors, out) }))
            },
        )
    }
}

impl Flight<Bytes> {
    /// `nrta_tensor_write`. The data stays where it is when its handle moves.
    pub(crate) fn write(
        held: Held,
        core: Core,
        tensor: &NrtTensor,
        offset: usize,
        data: Bytes,
    ) -> Result<Self, BackendError> {
        let flight = Self::start(
            held,
            core,
            "nrta_tensor_write",
            data,
            |call, data, errors, out| {
                let pointer = call.tensor(tensor)?;
                call.range("offset", tensor, offset, data.len())?;
                let function = call.optional(call.symbols.nrta_tensor_write)?;
                let (buffer, size) = (data.as_ptr().cast::<c_void>(), data.len() as u64);
                // SAFETY: the tensor is held and has the range; the buffer has `size`
                // bytes, is read only, and is kept until the request is completed.
                Ok(unsafe { function(pointer, buffer, offset as u64, size, QUEUE, errors, out) })
            },
        );
        flight.map_err(|(error, _)| error)
    }
}

/// Bytes that a request fills, of which nobody has a reference meanwhile.
#[derive(Debug)]
pub(crate) struct Incoming(NonNull<[u8]>);

// SAFETY: the bytes belong to no thread and have one owner.
unsafe impl Send for Incoming {}

impl Incoming {
    pub(crate) fn zeroed(size: usize) -> Self {
        Self(NonNull::from(Box::leak(vec![0; size].into_boxed_slice())))
    }

    pub(crate) fn into_vec(self) -> Vec<u8> {
        let pointer = ManuallyDrop::new(self).0;
        // SAFETY: the pointer came out of a box, and its only owner is gone.
        unsafe { Box::from_raw(pointer.as_ptr()) }.into_vec()
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // SAFETY: the pointer came out of a box, and this is its only owner.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl Flight<Incoming> {
    /// `nrta_tensor_read`.
    pub(crate) fn read(
        held: Held,
        core: Core,
        tensor: &NrtTensor,
        offset: usize,
        size: usize,
    ) -> Result<Self, BackendError> {
        let range = held.nrt.session().call("nrta_tensor_read")?;
        range.range("offset", tensor, offset, size)?;
        let bytes = Incoming::zeroed(size);
        let flight = Self::start(
            held,
            core,
            "nrta_tensor_read",
            bytes,
            |call, bytes, errors, out| {
                let pointer = call.tensor(tensor)?;
                let function = call.optional(call.symbols.nrta_tensor_read)?;
                let buffer = bytes.0.as_ptr().cast::<c_void>();
                // SAFETY: the tensor is held and has the range; the buffer has `size`
                // bytes and is kept, untouched, until the request is completed.
                Ok(unsafe {
                    function(
                        buffer,
                        pointer,
                        offset as u64,
                        size as u64,
                        QUEUE,
                        errors,
                        out,
                    )
                })
            },
        );
        flight.map_err(|(error, _)| error)
    }
}

impl Flight<()> {
    /// `nrta_tensor_copy`.
    pub(crate) fn copy(
        held: Held,
        core: Core,
        source: (&NrtTensor, usize),
        target: (&NrtTensor, usize),
        size: usize,
    ) -> Result<Self, BackendError> {
        let flight = Self::start(
            held,
            core,
            "nrta_tensor_copy",
            (),
            |call, (), errors, out| {
                let from = call.tensor(source.0)?;
                let to = call.tensor(target.0)?;
                call.range("src_offset", source.0, source.1, size)?;
                call.range("dst_offset", target.0, target.1, size)?;
                let function = call.optional(call.symbols.nrta_tensor_copy)?;
                let (at, onto, size) = (source.1 as u64, target.1 as u64, size as u64);
                // SAFETY: both tensors are held and have their range.
                Ok(unsafe { function(from, at, to, onto, size, QUEUE, errors, out) })
            },
        );
        flight.map_err(|(error, ())| error)
    }
}
