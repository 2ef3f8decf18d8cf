//! Allocating tensors and moving their bytes.

use std::ffi::CStr;
use std::sync::Arc;

use metaneff_binding::{BackendError, Cause, Core, Placement};
use metaneff_schema::nrt::Status;

use crate::config::HOST_TENSOR_LIMIT;
use crate::fault::Call;
use crate::memory::{ALIGNMENT, Charge, Shortage};
use crate::report::{Counters, wide};
use crate::set::{MAX_NAME, SimTensorSet};
use crate::sim::{Shared, invalid, next_id};
use crate::storage::{ExternalMemory, Storage, StorageError};
use crate::sync::lock;
use crate::tensor::{DeviceAllocation, SimTensor, TensorInner, Unreachable, View};

impl Shared {
    pub(crate) fn allocate(
        &self,
        placement: Placement,
        core: Core,
        size: usize,
        name: &CStr,
    ) -> Result<SimTensor, BackendError> {
        let call = "nrt_tensor_allocate";
        self.enter(call, Call::Allocate, Some(core), std::time::Duration::ZERO)?;
        let state = self.core(call, core)?;
        if size == 0 {
            return Err(invalid(call, "size", "a tensor has at least 1 byte, not 0"));
        }
        let charge = self.charge(call, placement, state.core, wide(size))?;
        let storage = Storage::zeroed(size, Some(charge)).map_err(|e| self.storage(call, e))?;
        let view = View {
            placement,
            storage: Some(storage),
            offset: 0,
            size,
        };
        self.hand_out(call, name, core, view)
    }

    fn charge(
        &self,
        call: &'static str,
        placement: Placement,
        core: Core,
        size: u64,
    ) -> Result<Charge, BackendError> {
        if placement == Placement::Device {
            let memory = &self.core(call, core)?.memory;
            return memory
                .charge(size)
                .map_err(|shortage| shortage.at(call, Some(core)));
        }
        if placement == Placement::Host && size > HOST_TENSOR_LIMIT {
            let detail = format!("a host tensor has at most {HOST_TENSOR_LIMIT} bytes, not {size}");
            return Err(
                BackendError::new(call, Status::RESOURCE).because(Cause::Argument {
                    argument: "size",
                    detail,
                }),
            );
        }
        self.host
            .charge(size)
            .map_err(|shortage| shortage.at(call, None))
    }

    pub(crate) fn allocate_empty(&self, name: &CStr) -> Result<SimTensor, BackendError> {
        let call = "nrt_tensor_allocate_empty";
        self.open(call)?;
        let view = View {
            placement: Placement::Virtual,
            storage: None,
            offset: 0,
            size: 0,
        };
        self.hand_out(call, name, Core::new(0), view)
    }

    pub(crate) fn slice(
        &self,
        tensor: &SimTensor,
        offset: usize,
        size: usize,
        name: &CStr,
    ) -> Result<SimTensor, BackendError> {
        let call = "nrt_tensor_allocate_slice";
        let source = self.tensor(call, tensor)?;
        self.enter(
            call,
            Call::Allocate,
            Some(source.core),
            std::time::Duration::ZERO,
        )?;
        if size == 0 {
            return Err(invalid(call, "size", "a slice has at least 1 byte, not 0"));
        }
        let view = source.view();
        let (storage, range) = view
            .range(offset, size)
            .map_err(|e| self.unreachable(call, e, offset, size))?;
        let slice = View {
            placement: view.placement,
            storage: Some(Arc::clone(storage)),
            offset: range.start,
            size,
        };
        self.hand_out(call, name, source.core, slice)
    }

    fn hand_out(
        &self,
        call: &'static str,
        name: &CStr,
        core: Core,
        view: View,
    ) -> Result<SimTensor, BackendError> {
        let inner = TensorInner::new(next_id(), self.id, name, core, view);
        {
            let mut registry = lock(&self.registry);
            // Closing empties the registry after it shuts the gate, so an entry
            // made behind a shut gate would never be taken back.
            self.open(call)?;
            registry.tensors.insert(inner.id, Arc::clone(&inner));
        }
        Counters::add(&self.counters.allocations, 1);
        Ok(SimTensor { inner })
    }

    pub(crate) fn free(&self, tensor: &SimTensor) {
        // A tensor of another runtime is not in this registry.
        let freed = lock(&self.registry).tensors.remove(&tensor.inner.id);
        drop(freed);
    }

    pub(crate) fn attach(
        &self,
        tensor: &SimTensor,
        memory: Arc<dyn ExternalMemory>,
    ) -> Result<(), BackendError> {
        let call = "nrt_tensor_attach_buffer";
        let tensor = self.tensor(call, tensor)?;
        if memory.size() == 0 {
            return Err(invalid(call, "size", "a buffer has at least 1 byte, not 0"));
        }
        tensor.attach(Storage::external(memory));
        Ok(())
    }

    pub(crate) fn write(
        &self,
        tensor: &SimTensor,
        offset: usize,
        data: &[u8],
    ) -> Result<(), BackendError> {
        let call = "nrt_tensor_write";
        let tensor = self.tensor(call, tensor)?;
        self.enter(
            call,
            Call::Write,
            Some(tensor.core),
            self.config.latency.transfer,
        )?;
        self.reach(call, tensor, offset, data.len(), |storage, at| {
            storage.write(at, data)
        })?;
        Counters::add(&self.counters.writes, 1);
        Counters::add(&self.counters.host_to_device, wide(data.len()));
        Ok(())
    }

    pub(crate) fn read(
        &self,
        tensor: &SimTensor,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), BackendError> {
        let call = "nrt_tensor_read";
        let tensor = self.tensor(call, tensor)?;
        self.enter(
            call,
            Call::Read,
            Some(tensor.core),
            self.config.latency.transfer,
        )?;
        let size = out.len();
        self.reach(call, tensor, offset, size, |storage, at| {
            storage.read(at, out)
        })?;
        Counters::add(&self.counters.reads, 1);
        Counters::add(&self.counters.device_to_host, wide(size));
        Ok(())
    }

    pub(crate) fn fill(
        &self,
        tensor: &SimTensor,
        offset: usize,
        value: u8,
        size: usize,
    ) -> Result<(), BackendError> {
        let call = "nrt_tensor_memset";
        let tensor = self.tensor(call, tensor)?;
        self.enter(
            call,
            Call::Write,
            Some(tensor.core),
            self.config.latency.transfer,
        )?;
        self.reach(call, tensor, offset, size, |storage, at| {
            storage.fill(at, value, size)
        })
    }

    pub(crate) fn copy(
        &self,
        (source, source_offset): (&SimTensor, usize),
        (target, target_offset): (&SimTensor, usize),
        size: usize,
    ) -> Result<(), BackendError> {
        let call = "nrt_tensor_copy";
        let source = self.tensor(call, source)?;
        let target = self.tensor(call, target)?;
        self.enter(
            call,
            Call::Copy,
            Some(target.core),
            self.config.latency.transfer,
        )?;
        let (from, to) = (source.view(), target.view());
        let device = |view: &View| view.placement == Placement::Device;
        if device(&from) && device(&to) && source.core != target.core {
            let mismatch = Cause::CoreMismatch {
                what: format!("source `{}`", source.name.to_string_lossy()),
                core: source.core,
                other: format!("target `{}`", target.name.to_string_lossy()),
                other_core: target.core,
            };
            return Err(BackendError::new(call, Status::INVALID).because(mismatch));
        }
        from.range(source_offset, size)
            .map_err(|e| self.unreachable(call, e, source_offset, size))?;
        let (storage, range) = to
            .range(target_offset, size)
            .map_err(|e| self.unreachable(call, e, target_offset, size))?;
        // Through a buffer of its own, so that ranges may overlap and no two
        // storages are held at once.
        let mut bytes = Vec::new();
        let room = bytes.try_reserve_exact(size);
        room.map_err(|_| self.storage(call, StorageError::Host(size)))?;
        bytes.resize(size, 0);
        self.reach(call, source, source_offset, size, |storage, at| {
            storage.read(at, &mut bytes)
        })?;
        let written = storage.write(range.start, &bytes);
        written.map_err(|e| self.storage(call, e))?;
        Counters::add(&self.counters.copies, 1);
        Counters::add(&self.counters.device_to_device, wide(size));
        Ok(())
    }

    pub(crate) fn bind(
        &self,
        set: &mut SimTensorSet,
        name: &CStr,
        tensor: &SimTensor,
    ) -> Result<(), BackendError> {
        let call = "nrt_add_tensor_to_tensor_set";
        let tensor = self.tensor(call, tensor)?;
        self.owns(call, set.owner, "tensor set")?;
        self.enter(
            call,
            Call::Bind,
            Some(tensor.core),
            std::time::Duration::ZERO,
        )?;
        let length = name.to_bytes().len();
        if length > MAX_NAME {
            let detail = format!("a name has at most {MAX_NAME} bytes, not {length}");
            return Err(invalid(call, "tensor_name", detail));
        }
        set.bind(name, tensor);
        Counters::add(&self.counters.binds, 1);
        Ok(())
    }

    pub(crate) fn device_allocation(
        &self,
        tensor: &SimTensor,
    ) -> Result<DeviceAllocation, BackendError> {
        let call = "nrt_tensor_get_device_allocation_info";
        let tensor = self.tensor(call, tensor)?;
        let view = tensor.view();
        let storage = view.storage.as_ref();
        let storage = storage.filter(|_| view.placement == Placement::Device);
        let storage =
            storage.ok_or_else(|| invalid(call, "tensor", "the tensor is not in device memory"))?;
        let profile = self.config.profile();
        let physical_core = tensor.core.index() * self.config.virtual_core_size;
        Ok(DeviceAllocation {
            physical_address: storage.physical() + wide(view.offset),
            size: view.size.next_multiple_of(ALIGNMENT),
            hbm_index: physical_core % (profile.physical_cores / profile.chips),
        })
    }

    /// The tensor, if it is one of this simulator's.
    fn tensor<'a>(
        &self,
        call: &'static str,
        tensor: &'a SimTensor,
    ) -> Result<&'a Arc<TensorInner>, BackendError> {
        self.open(call)?;
        self.owns(call, tensor.inner.owner, "tensor")?;
        Ok(&tensor.inner)
    }

    fn reach(
        &self,
        call: &'static str,
        tensor: &TensorInner,
        offset: usize,
        size: usize,
        act: impl FnOnce(&Storage, usize) -> Result<(), StorageError>,
    ) -> Result<(), BackendError> {
        let view = tensor.view();
        let (storage, range) = view
            .range(offset, size)
            .map_err(|e| self.unreachable(call, e, offset, size))?;
        act(storage, range.start).map_err(|e| self.storage(call, e))
    }

    pub(crate) fn unreachable(
        &self,
        call: &'static str,
        error: Unreachable,
        offset: usize,
        size: usize,
    ) -> BackendError {
        match error {
            Unreachable::Range { tensor } => invalid(
                call,
                "offset",
                format!("{size} bytes from {offset} on are not inside a tensor of {tensor} bytes"),
            ),
            Unreachable::Empty => invalid(call, "tensor", "the tensor has no memory attached"),
            Unreachable::Storage(error) => self.storage(call, error),
        }
    }

    pub(crate) fn storage(&self, call: &'static str, error: StorageError) -> BackendError {
        match error {
            StorageError::Gone => crate::clock::Closed.at(call),
            StorageError::Host(requested) => BackendError::new(call, Status::FAIL_HOST_MEM_ALLOC)
                .because(Cause::Memory {
                    core: None,
                    requested: wide(requested),
                    used: self.host.used(),
                    limit: self.host.limit(),
                }),
        }
    }
}

impl Shortage {
    pub(crate) fn at(self, call: &'static str, core: Option<Core>) -> BackendError {
        BackendError::new(call, Status::RESOURCE).because(Cause::Memory {
            core,
            requested: self.requested,
            used: self.used,
            limit: self.limit,
        })
    }
}
