//! What a mock expects, told as a script: each line is one call, in this order.

use std::collections::HashMap;

use metaneff_binding::testing::{MockBackend, MockHandle};
use metaneff_binding::{Artifact, BackendError, Completion, Placement, TensorInfo};
use metaneff_schema::nrt::{NrtDtype, Status};
use mockall::Sequence;

use crate::raw::{CORE, bytes_of};

/// Handle of the only model.
const MODEL: MockHandle = MockHandle(1);

/// Calls by name of set or tensor; a handle is made for each name that is
/// allocated.
pub(super) struct Script {
    mock: MockBackend,
    sequence: Sequence,
    handles: HashMap<&'static str, MockHandle>,
    last: u64,
}

/// Two elements as memory has them.
pub(super) fn pair(values: [f32; 2]) -> Vec<u8> {
    bytes_of(&values)
}

impl Script {
    pub(super) fn new(mock: MockBackend) -> Self {
        Self {
            mock,
            sequence: Sequence::new(),
            handles: HashMap::new(),
            last: MODEL.0,
        }
    }

    /// The mock, which refuses any other call.
    pub(super) fn play(self) -> MockBackend {
        self.mock
    }

    fn make(&mut self, name: &'static str) -> MockHandle {
        self.last += 1;
        self.handles.insert(name, MockHandle(self.last));
        MockHandle(self.last)
    }

    fn handle(&self, name: &str) -> MockHandle {
        // A name that was not made is no handle that anything is called with.
        self.handles.get(name).copied().unwrap_or(MockHandle(0))
    }

    /// A load, and what is asked after it.
    pub(super) fn load(&mut self, artifact: &Artifact) {
        self.load_as(artifact, artifact);
    }

    /// A load of `artifact` whose model has the tensors of `other`.
    pub(super) fn load_as(&mut self, artifact: &Artifact, other: &Artifact) {
        let neff = artifact.neff().clone();
        self.mock
            .expect_load()
            .once()
            .in_sequence(&mut self.sequence)
            .withf(move |request| request.neff == neff && request.core == Some(CORE))
            .returning(|_| Ok(MODEL));
        self.mock
            .expect_model_core()
            .once()
            .in_sequence(&mut self.sequence)
            .returning(|_| Ok(CORE));
        let contract = other.contract();
        let slots = contract.inputs().iter().chain(contract.outputs());
        let tensors: Vec<_> = slots
            .map(|slot| {
                let size = slot.byte_size();
                TensorInfo::new(slot.name(), slot.side(), size, NrtDtype::UNKNOWN, vec![])
            })
            .collect();
        self.mock
            .expect_model_tensors()
            .once()
            .in_sequence(&mut self.sequence)
            .returning(move |_| Ok(tensors.clone()));
    }

    pub(super) fn refuse_load(&mut self, status: Status) {
        self.mock
            .expect_load()
            .once()
            .in_sequence(&mut self.sequence)
            .returning(move |_| Err(BackendError::new("nrt_load", status)));
    }

    pub(super) fn load_without_core(&mut self, status: Status) {
        self.mock
            .expect_load()
            .once()
            .in_sequence(&mut self.sequence)
            .returning(|_| Ok(MODEL));
        self.mock
            .expect_model_core()
            .once()
            .in_sequence(&mut self.sequence)
            .returning(move |_| Err(BackendError::new("nrt_get_model_info", status)));
    }

    pub(super) fn unload(&mut self) {
        self.mock
            .expect_unload()
            .once()
            .in_sequence(&mut self.sequence)
            .withf(|model| *model == MODEL)
            .returning(|_| Ok(()));
    }

    /// Two sets, `inputs` and `outputs`.
    pub(super) fn sets(&mut self) {
        for name in ["inputs", "outputs"] {
            let handle = self.make(name);
            self.mock
                .expect_tensor_set()
                .once()
                .in_sequence(&mut self.sequence)
                .returning(move || Ok(handle));
        }
    }

    /// The sets and buffers of a session whose slots are all the caller's.
    pub(super) fn session(&mut self, artifact: &Artifact) {
        self.sets();
        for name in names(artifact) {
            self.allocate(name, 8);
        }
    }

    /// The end of such a session and of its model.
    pub(super) fn end_session(&mut self, artifact: &Artifact) {
        self.destroy("inputs");
        self.destroy("outputs");
        for name in names(artifact) {
            self.free(name);
        }
        self.unload();
    }

    pub(super) fn allocate(&mut self, name: &'static str, bytes: usize) {
        let handle = self.make(name);
        self.mock
            .expect_allocate()
            .once()
            .in_sequence(&mut self.sequence)
            .withf(move |placement, core, size, own| {
                (*placement, *core, *size) == (Placement::Device, CORE, bytes)
                    && own.to_bytes() == name.as_bytes()
            })
            .returning(move |_, _, _, _| Ok(handle));
    }

    pub(super) fn refuse_allocation(&mut self, name: &'static str, status: Status) {
        self.mock
            .expect_allocate()
            .once()
            .in_sequence(&mut self.sequence)
            .withf(move |_, _, _, own| own.to_bytes() == name.as_bytes())
            .returning(move |_, _, _, _| Err(BackendError::new("nrt_tensor_allocate", status)));
    }

    pub(super) fn write(&mut self, tensor: &str, bytes: &[u8]) {
        let (handle, bytes) = (self.handle(tensor), bytes.to_vec());
        self.mock
            .expect_write()
            .once()
            .in_sequence(&mut self.sequence)
            .withf(move |tensor, offset, data| (*tensor, *offset, data) == (handle, 0, &bytes[..]))
            .returning(|_, _, _| Ok(()));
    }

    pub(super) fn refuse_write(&mut self, tensor: &str, status: Status) {
        let handle = self.handle(tensor);
        self.mock
            .expect_write()
            .once()
            .in_sequence(&mut self.sequence)
            .withf(move |tensor, _, _| *tensor == handle)
            .returning(move |_, _, _| Err(BackendError::new("nrt_tensor_write", status)));
    }

    pub(super) fn read(&mut self, tensor: &str, bytes: &[u8]) {
        let (handle, bytes) = (self.handle(tensor), bytes.to_vec());
        self.mock
            .expect_read()
            .once()
            .in_sequence(&mut self.sequence)
            .withf(move |tensor, _, _| *tensor == handle)
            .returning(move |_, _, out| {
                out.copy_from_slice(&bytes);
                Ok(())
            });
    }

    pub(super) fn bind(&mut self, set: &str, name: &'static str, tensor: &str) {
        let (set, handle) = (self.handle(set), self.handle(tensor));
        self.mock
            .expect_bind()
            .once()
            .in_sequence(&mut self.sequence)
            .withf(move |to, key, tensor| {
                (*to, key.to_bytes(), *tensor) == (set, name.as_bytes(), handle)
            })
            .returning(|_, _, _| Ok(()));
    }

    pub(super) fn refuse_bind(&mut self, name: &'static str, status: Status) {
        let call = "nrt_add_tensor_to_tensor_set";
        self.mock
            .expect_bind()
            .once()
            .in_sequence(&mut self.sequence)
            .withf(move |_, key, _| key.to_bytes() == name.as_bytes())
            .returning(move |_, _, _| Err(BackendError::new(call, status)));
    }

    pub(super) fn execute(&mut self, completion: Completion) {
        let sets = (self.handle("inputs"), self.handle("outputs"));
        self.mock
            .expect_execute()
            .once()
            .in_sequence(&mut self.sequence)
            .withf(move |model, inputs, outputs| (*model, (*inputs, *outputs)) == (MODEL, sets))
            .returning(move |_, _, _| Ok(completion));
    }

    pub(super) fn destroy(&mut self, set: &str) {
        let handle = self.handle(set);
        self.mock
            .expect_destroy_set()
            .once()
            .in_sequence(&mut self.sequence)
            .withf(move |set| *set == handle)
            .returning(|_| ());
    }

    pub(super) fn free(&mut self, tensor: &str) {
        let handle = self.handle(tensor);
        self.mock
            .expect_free()
            .once()
            .in_sequence(&mut self.sequence)
            .withf(move |tensor| *tensor == handle)
            .returning(|_| ());
    }
}

/// The names that the models of these cases have.
const NAMES: &[&str] = &["input0", "input1", "output0", "output1"];

fn names(artifact: &Artifact) -> impl Iterator<Item = &'static str> {
    let contract = artifact.contract();
    let slots = contract.inputs().iter().chain(contract.outputs());
    let own: Vec<_> = slots.map(|slot| slot.name().to_owned()).collect();
    let known = NAMES.iter().copied();
    known.filter(move |name| own.iter().any(|own| own == name))
}
