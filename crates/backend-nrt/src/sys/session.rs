//! An initialised library: everything that takes or makes a handle.

use std::ffi::{CStr, c_void};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Once};

use indexmap::IndexMap;
use metaneff_binding::{
    BackendError, Cause, Completion, Core, LoadRequest, MemoryStats, Placement,
};
use metaneff_schema::nrt::Status;

use super::abi::{RawMemoryStats, RawModel, RawModelInfo, RawSet, RawTensor};
use super::flight::Held;
use super::handle::{Entry, Handle, NrtModel, NrtTensor, NrtTensorSet, SharedTensor};
use super::library::Library;
use super::stack;
use super::symbols::Symbols;

/// Process that called `nrt_init`, of whatever library; 0 before that.
static INITIALISER: AtomicU32 = AtomicU32::new(0);

/// Set in a process that was forked after `nrt_init`. A call asks this and not
/// `getpid`, which is a call of the system.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Runs in the child of a `fork`, where only signal-safe code may.
extern "C" fn note_fork() {
    FORKED.store(true, Ordering::Relaxed);
}

/// Number of the next session; every initialisation of every library has one.
static NEXT_SESSION: AtomicU64 = AtomicU64::new(1);

/// The process that initialised a runtime and this one, if this one was forked
/// from it.
pub(crate) fn forked() -> Option<(u32, u32)> {
    let parent = INITIALISER.load(Ordering::Acquire);
    let child = std::process::id();
    (parent != 0 && parent != child).then_some((parent, child))
}

/// Refuses a call in a process that was forked after `nrt_init`.
pub(super) fn check_process(call: &'static str) -> Result<(), BackendError> {
    match forked() {
        None => Ok(()),
        Some((parent, child)) => {
            Err(BackendError::new(call, Status::UNINITIALIZED)
                .because(Cause::Forked { parent, child }))
        }
    }
}

/// The error of a call whose function the library does not have.
pub(super) fn explain_missing(symbol: &'static str, library: &Library) -> BackendError {
    let library = match library.version() {
        Some(version) => format!("{} (version {version})", library.path()),
        None => library.path().to_owned(),
    };
    BackendError::new(symbol, Status::FAILURE).because(Cause::MissingSymbol { symbol, library })
}

/// What `nrt_init` is called with.
#[derive(Debug)]
pub(crate) struct InitRequest<'a> {
    pub(crate) framework: u32,
    pub(crate) framework_version: &'a CStr,
    pub(crate) layer_version: &'a CStr,
    /// Bytes of stack that deep calls get.
    pub(crate) stack_size: usize,
}

/// Why a library was not initialised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitFailure {
    /// It is initialised already.
    Live,
    /// It refused.
    Status(Status),
}

/// A library between `nrt_init` and `nrt_close`.
///
/// There is at most one of a library. Dropping it closes the runtime; that takes
/// the only owner, so no call is running then.
pub(crate) struct Session {
    library: &'static Library,
    id: u64,
    process: u32,
    stack_size: usize,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("library", &self.library)
            .field("id", &self.id)
            .field("process", &self.process)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// `nrt_init`.
    ///
    /// # Errors
    ///
    /// [`InitFailure`].
    pub(crate) fn init(
        library: &'static Library,
        request: &InitRequest<'_>,
    ) -> Result<Self, InitFailure> {
        if library.live.swap(true, Ordering::AcqRel) {
            return Err(InitFailure::Live);
        }
        let process = std::process::id();
        INITIALISER.store(process, Ordering::Release);
        static WATCH: Once = Once::new();
        WATCH.call_once(|| {
            // SAFETY: the handler stores to a static, and the code of this library
            // stays mapped as long as the process. If there is no memory for the
            // handler, a child's misuse goes unnoticed.
            unsafe { libc::pthread_atfork(None, None, Some(note_fork)) };
        });
        let function = library.symbols.nrt_init;
        let (version, layer) = (request.framework_version, request.layer_version);
        let status = stack::run(request.stack_size, || {
            // SAFETY: both texts end with NUL and live until the call returns.
            unsafe { function(request.framework, version.as_ptr(), layer.as_ptr()) }
        });
        if status != Status::SUCCESS {
            library.live.store(false, Ordering::Release);
            return Err(InitFailure::Status(status));
        }
        Ok(Self {
            library,
            id: NEXT_SESSION.fetch_add(1, Ordering::Relaxed),
            process,
            stack_size: request.stack_size,
        })
    }

    pub(crate) const fn library(&self) -> &'static Library {
        self.library
    }

    /// Starts a call; refuses it in a forked child.
    #[inline]
    pub(super) fn call(&self, name: &'static str) -> Result<Call<'_>, BackendError> {
        if FORKED.load(Ordering::Relaxed) {
            self.check_owner(name)?;
        }
        Ok(Call {
            session: self,
            symbols: &self.library.symbols,
            name,
        })
    }

    #[cold]
    fn check_owner(&self, name: &'static str) -> Result<(), BackendError> {
        let child = std::process::id();
        if child == self.process {
            return Ok(());
        }
        Err(
            BackendError::new(name, Status::UNINITIALIZED).because(Cause::Forked {
                parent: self.process,
                child,
            }),
        )
    }

    pub(crate) fn load(&self, request: &LoadRequest) -> Result<NrtModel, BackendError> {
        let call = self.call(match request.collectives {
            None => "nrt_load",
            Some(_) => "nrt_load_collectives",
        })?;
        let core = match request.core {
            Some(core) => call.core(core)?,
            None => ANY_CORE,
        };
        let (bytes, size) = (request.neff.as_ptr().cast::<c_void>(), request.neff.len());
        let mut model = ptr::null_mut();
        let out = &raw mut model;
        let status = if let Some(world) = request.collectives {
            let function = call.optional(call.symbols.nrt_load_collectives)?;
            let (rank, ranks) = (world.rank, world.world_size);
            // SAFETY: `bytes` has `size` bytes and is read only; the call writes
            // one pointer.
            call.deep(|| unsafe { function(bytes, size, core, ANY_COUNT, rank, ranks, out) })
        } else {
            let function = call.symbols.nrt_load;
            // SAFETY: as above.
            call.deep(|| unsafe { function(bytes, size, core, ANY_COUNT, out) })
        };
        Ok(NrtModel {
            handle: call.made::<RawModel>(status, model)?,
            core: request.core,
        })
    }

    pub(crate) fn unload(&self, model: NrtModel) -> Result<(), BackendError> {
        let call = self.call("nrt_unload")?;
        let pointer = call.pointer(&model.handle)?;
        let function = call.symbols.nrt_unload;
        // SAFETY: the model is this session's, and its only handle ends here.
        call.answer(call.deep(|| unsafe { function(pointer) }))
    }

    /// Index that `nrt_get_model_info` reports.
    pub(crate) fn model_core(&self, model: &NrtModel) -> Result<Core, BackendError> {
        let call = self.call("nrt_get_model_info")?;
        let pointer = call.pointer(&model.handle)?;
        let function = call.optional(call.symbols.nrt_get_model_info)?;
        let mut info = RawModelInfo::default();
        let mut written = 0;
        let size = size_of::<RawModelInfo>();
        // SAFETY: the model is this session's; the block is as large as `size`
        // says.
        let status = unsafe { function(pointer, &raw mut info, size, &raw mut written) };
        call.answer(status)?;
        call.filled(written, size)?;
        Ok(Core::new(info.vnc))
    }

    pub(crate) fn allocate(
        &self,
        placement: Placement,
        core: Core,
        size: usize,
        name: &CStr,
    ) -> Result<NrtTensor, BackendError> {
        let call = self.call("nrt_tensor_allocate")?;
        let vnc = call.core(core)?;
        if size == 0 {
            return Err(call.refuse("size", "0 bytes were asked for, at least 1 is needed"));
        }
        let function = call.symbols.nrt_tensor_allocate;
        let (code, name) = (placement.code(), name.as_ptr());
        let mut tensor = ptr::null_mut();
        // SAFETY: the name ends with NUL; the call writes one pointer.
        let status = unsafe { function(code, vnc, size, name, &raw mut tensor) };
        Ok(NrtTensor {
            shared: Arc::new(SharedTensor::new(call.made(status, tensor)?)),
            size,
            core: (placement == Placement::Device).then_some(core),
        })
    }

    pub(crate) fn slice(
        &self,
        tensor: &NrtTensor,
        offset: usize,
        size: usize,
        name: &CStr,
    ) -> Result<NrtTensor, BackendError> {
        let call = self.call("nrt_tensor_allocate_slice")?;
        let source = call.tensor(tensor)?;
        if size == 0 {
            return Err(call.refuse("size", "0 bytes were asked for, at least 1 is needed"));
        }
        call.range("offset", tensor, offset, size)?;
        let function = call.optional(call.symbols.nrt_tensor_allocate_slice)?;
        let mut slice = ptr::null_mut();
        // SAFETY: the tensor is this session's; the name ends with NUL; the call
        // writes one pointer.
        let status = unsafe { function(source, offset, size, name.as_ptr(), &raw mut slice) };
        Ok(NrtTensor {
            shared: Arc::new(
                SharedTensor::new(call.made(status, slice)?)
                    .in_memory(tensor.shared.memory.clone()),
            ),
            size,
            core: tensor.core,
        })
    }

    /// An error unless the range is inside the tensor, and the tensor this
    /// session's.
    pub(crate) fn check_range(
        &self,
        call: &'static str,
        tensor: &NrtTensor,
        offset: usize,
        size: usize,
    ) -> Result<(), BackendError> {
        let call = self.call(call)?;
        call.tensor(tensor)?;
        call.range("offset", tensor, offset, size)
    }

    /// Frees a tensor now, or at the end of the executions that use it. Does
    /// nothing to a tensor of another session, whose memory is gone already.
    pub(crate) fn free(&self, tensor: NrtTensor) {
        let Ok(call) = self.call("nrt_tensor_free") else {
            return;
        };
        if tensor.shared.handle.session == self.id && tensor.shared.retire() {
            call.release(&tensor.shared);
        }
    }

    pub(crate) fn tensor_set(&self) -> Result<NrtTensorSet, BackendError> {
        let call = self.call("nrt_allocate_tensor_set")?;
        let mut set = ptr::null_mut();
        // SAFETY: the call writes one pointer.
        let status = unsafe { (call.symbols.nrt_allocate_tensor_set)(&raw mut set) };
        Ok(NrtTensorSet {
            handle: call.made::<RawSet>(status, set)?,
            entries: IndexMap::new(),
        })
    }

    pub(crate) fn bind(
        &self,
        set: &mut NrtTensorSet,
        name: &CStr,
        tensor: &NrtTensor,
    ) -> Result<(), BackendError> {
        let call = self.call("nrt_add_tensor_to_tensor_set")?;
        let target = call.pointer(&set.handle)?;
        let pointer = call.tensor(tensor)?;
        let function = call.symbols.nrt_add_tensor_to_tensor_set;
        // SAFETY: set and tensor are this session's, and the set is borrowed
        // exclusively; the name ends with NUL.
        call.answer(unsafe { function(target, name.as_ptr(), pointer) })?;
        let entry = Entry {
            tensor: Arc::clone(&tensor.shared),
            core: tensor.core,
        };
        match set.entries.get_mut(name) {
            Some(bound) => *bound = entry,
            None => {
                set.entries.insert(name.to_owned(), entry);
            }
        }
        Ok(())
    }

    pub(crate) fn destroy_set(&self, set: NrtTensorSet) {
        let Ok(call) = self.call("nrt_destroy_tensor_set") else {
            return;
        };
        let Ok(mut pointer) = call.pointer(&set.handle) else {
            return;
        };
        // SAFETY: the set is this session's, and its only handle ends here.
        unsafe { (call.symbols.nrt_destroy_tensor_set)(&raw mut pointer) };
    }

    pub(crate) fn execute(
        &self,
        model: &NrtModel,
        inputs: &NrtTensorSet,
        outputs: &mut NrtTensorSet,
    ) -> Result<Completion, BackendError> {
        let call = self.call("nrt_execute")?;
        let function = call.symbols.nrt_execute;
        call.run(model, inputs, outputs, |model, inputs, outputs| {
            // SAFETY: model and sets are this session's; the tensors in the sets
            // are leased, so none is freed before the call returns.
            unsafe { function(model, inputs, outputs) }
        })
    }

    /// Executes with sets whose tensors the caller holds.
    pub(crate) fn execute_held(
        &self,
        _held: &Held,
        model: &NrtModel,
        inputs: &NrtTensorSet,
        outputs: &mut NrtTensorSet,
    ) -> Result<Completion, BackendError> {
        let call = self.call("nrt_execute")?;
        let model = call.pointer(&model.handle)?;
        let inputs = call.pointer(&inputs.handle)?;
        let outputs = call.pointer(&outputs.handle)?;
        let function = call.symbols.nrt_execute;
        // SAFETY: model and sets are this session's; the tensors in the sets are
        // held, so none is freed before the call returns.
        let status = call.deep(|| unsafe { function(model, inputs, outputs) });
        call.completion(status)
    }

    pub(crate) fn execute_repeat(
        &self,
        model: &NrtModel,
        inputs: &NrtTensorSet,
        outputs: &mut NrtTensorSet,
        times: u32,
    ) -> Result<Completion, BackendError> {
        let call = self.call("nrt_execute_repeat")?;
        let function = call.optional(call.symbols.nrt_execute_repeat)?;
        let times = match i32::try_from(times) {
            Ok(times) if times > 0 => times,
            _ => {
                let detail = format!("{times} times, expected 1 to {}", i32::MAX);
                return Err(call.refuse("repeat_count", detail));
            }
        };
        call.run(model, inputs, outputs, |model, inputs, outputs| {
            // SAFETY: as for `nrt_execute`.
            unsafe { function(model, inputs, outputs, times) }
        })
    }

    pub(crate) fn memory_stats(&self, core: Core) -> Result<MemoryStats, BackendError> {
        let call = self.call("nrt_get_vnc_memory_stats")?;
        let function = call.optional(call.symbols.nrt_get_vnc_memory_stats)?;
        let mut stats = RawMemoryStats::default();
        let mut written = 0;
        let size = size_of::<RawMemoryStats>();
        let core = core.index();
        // SAFETY: the block is as large as `size` says.
        let status = unsafe { function(core, &raw mut stats, size, &raw mut written) };
        call.answer(status)?;
        call.filled(written, size)?;
        Ok(MemoryStats::new(stats.used as u64, stats.limit as u64))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A child of `fork` has no runtime: the device is its parent's.
        if std::process::id() != self.process {
            return;
        }
        let function = self.library.symbols.nrt_close;
        stack::run(self.stack_size, || {
            // SAFETY: this is the session's only owner, so no call is running,
            // and every later one is refused by the handle's session.
            unsafe { function() }
        });
        self.library.live.store(false, Ordering::Release);
    }
}

/// Core index by which the runtime takes the first free core.
const ANY_CORE: i32 = -1;

/// The only `vnc_count` that is not deprecated.
const ANY_COUNT: i32 = -1;

/// One call of the library, in the process that initialised it.
pub(super) struct Call<'a> {
    pub(super) session: &'a Session,
    pub(super) symbols: &'a Symbols,
    name: &'static str,
}

impl Call<'_> {
    /// Runs `call` with a stack that is deep enough for it.
    pub(super) fn deep<R>(&self, call: impl FnOnce() -> R) -> R {
        stack::run(self.session.stack_size, call)
    }

    /// The pointer of a handle of this session.
    pub(super) fn pointer<T>(&self, handle: &Handle<T>) -> Result<*mut T, BackendError> {
        if handle.session == self.session.id {
            return Ok(handle.pointer.as_ptr());
        }
        let detail = format!(
            "the handle belongs to session {} and not to {}: its runtime was closed or is another",
            handle.session, self.session.id
        );
        Err(BackendError::new(self.name, Status::INVALID_HANDLE).because(Cause::Other(detail)))
    }

    /// The pointer of a tensor of this session.
    pub(super) fn tensor(&self, tensor: &NrtTensor) -> Result<*mut RawTensor, BackendError> {
        self.pointer(&tensor.shared.handle)
    }

    /// A function that not every library has.
    pub(super) fn optional<F>(&self, function: Option<F>) -> Result<F, BackendError> {
        function.ok_or_else(|| explain_missing(self.name, self.session.library))
    }

    /// An error unless the status is success.
    pub(super) fn answer(&self, status: Status) -> Result<(), BackendError> {
        if status == Status::SUCCESS {
            Ok(())
        } else {
            Err(BackendError::new(self.name, status))
        }
    }

    /// The handle that a call made.
    pub(super) fn made<T>(
        &self,
        status: Status,
        pointer: *mut T,
    ) -> Result<Handle<T>, BackendError> {
        self.answer(status)?;
        let session = self.session.id;
        NonNull::new(pointer)
            .map(|pointer| Handle { pointer, session })
            .ok_or_else(|| self.broken("the library answered success and a null handle".into()))
    }

    /// The library broke its own contract.
    pub(super) fn broken(&self, detail: String) -> BackendError {
        BackendError::new(self.name, Status::FAILURE).because(Cause::Other(detail))
    }

    /// An argument that is not valid.
    pub(super) fn refuse(&self, argument: &'static str, detail: impl Into<String>) -> BackendError {
        BackendError::new(self.name, Status::INVALID).because(Cause::Argument {
            argument,
            detail: detail.into(),
        })
    }

    /// A core's index as C takes it.
    pub(super) fn core(&self, core: Core) -> Result<i32, BackendError> {
        i32::try_from(core.index())
            .map_err(|_| self.refuse("vnc", format!("{core} is not a core's index")))
    }

    /// An error unless the range is inside the tensor.
    pub(super) fn range(
        &self,
        argument: &'static str,
        tensor: &NrtTensor,
        offset: usize,
        size: usize,
    ) -> Result<(), BackendError> {
        match offset.checked_add(size) {
            Some(end) if end <= tensor.size => Ok(()),
            _ => {
                let detail = format!(
                    "{size} bytes from byte {offset} on, the tensor has {}",
                    tensor.size
                );
                Err(self.refuse(argument, detail))
            }
        }
    }

    /// An error unless the library filled all that is known of a structure. A
    /// newer library may know more fields, an older one fewer.
    fn filled(&self, written: usize, needed: usize) -> Result<(), BackendError> {
        if written >= needed {
            return Ok(());
        }
        let detail = format!("the library filled {written} of {needed} bytes");
        Err(self.broken(detail))
    }

    /// Executes, with every tensor of both sets leased.
    fn run(
        &self,
        model: &NrtModel,
        inputs: &NrtTensorSet,
        outputs: &mut NrtTensorSet,
        execute: impl FnOnce(*mut RawModel, *const RawSet, *mut RawSet) -> Status,
    ) -> Result<Completion, BackendError> {
        let pointer = self.pointer(&model.handle)?;
        let source = self.pointer(&inputs.handle)?;
        let target = self.pointer(&outputs.handle)?;
        let leases = Leases::take(self, [inputs, outputs])?;
        let status = self.deep(|| execute(pointer, source, target));
        drop(leases);
        self.completion(status)
    }

    /// How an execution ended.
    fn completion(&self, status: Status) -> Result<Completion, BackendError> {
        match status {
            Status::SUCCESS => Ok(Completion::Clean),
            Status::EXEC_COMPLETED_WITH_NUM_ERR => Ok(Completion::NumericalError),
            status => Err(BackendError::new(self.name, status)),
        }
    }

    /// Gives a tensor back to the library.
    pub(super) fn release(&self, tensor: &SharedTensor) {
        let mut pointer = tensor.handle.pointer.as_ptr();
        // SAFETY: the tensor is this session's. Its owner has freed it and no
        // execution has a lease on it; this is so once, for its last user.
        unsafe { (self.symbols.nrt_tensor_free)(&raw mut pointer) };
    }
}

/// Tensors that an execution uses, which nobody frees meanwhile.
struct Leases<'a, 'c> {
    call: &'a Call<'c>,
    sets: [&'a NrtTensorSet; 2],
    /// How many tensors of the sets are leased, in their order.
    taken: usize,
}

impl<'a, 'c> Leases<'a, 'c> {
    fn take(call: &'a Call<'c>, sets: [&'a NrtTensorSet; 2]) -> Result<Self, BackendError> {
        let mut leases = Self {
            call,
            sets,
            taken: 0,
        };
        for set in sets {
            for (name, entry) in &set.entries {
                if !entry.tensor.lease() {
                    return Err(leases.freed(name));
                }
                leases.taken += 1;
            }
        }
        Ok(leases)
    }

    #[cold]
    fn freed(&self, name: &CStr) -> BackendError {
        BackendError::new(self.call.name, Status::INVALID_HANDLE).because(Cause::Binding {
            name: name.to_string_lossy().into_owned(),
            detail: "the tensor has been freed".to_owned(),
        })
    }
}

impl Drop for Leases<'_, '_> {
    fn drop(&mut self) {
        let mut left = self.taken;
        for set in self.sets {
            for entry in set.entries.values().take(left) {
                if entry.tensor.end_lease() {
                    self.call.release(&entry.tensor);
                }
            }
            left = left.saturating_sub(set.entries.len());
        }
    }
}
