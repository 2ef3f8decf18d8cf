//! Tests of the simulator with programs that need no graph.

mod execute;
mod faults;
mod lifecycle;
mod load;
mod memory;
mod properties;
mod toy;

use std::ffi::{CStr, CString};
use std::sync::Arc;

use bytes::Bytes;
use metaneff_binding::{Backend, BackendError, Completion, Core, LoadRequest, Placement};

use self::toy::ToyReader;
use crate::{Sim, SimBuilder, SimModel, SimTensor, SimTensorSet};

const CORE: Core = Core::new(0);

fn start(builder: SimBuilder) -> Sim {
    let topology = builder.topology().unwrap();
    Sim::with_reader(builder.resolved(topology), topology, Box::new(ToyReader))
}

fn sim() -> Sim {
    start(Sim::builder())
}

fn request(program: &str) -> LoadRequest {
    LoadRequest::new(Bytes::copy_from_slice(program.as_bytes()))
}

fn load(sim: &Sim, program: &str) -> SimModel {
    sim.load(&request(program).on(CORE)).unwrap()
}

fn device(sim: &Sim, bytes: &[u8]) -> SimTensor {
    let tensor = sim
        .allocate(Placement::Device, CORE, bytes.len(), c"tensor")
        .unwrap();
    sim.write(&tensor, 0, bytes).unwrap();
    tensor
}

fn contents(sim: &Sim, tensor: &SimTensor) -> Vec<u8> {
    let mut bytes = vec![0; tensor.size()];
    sim.read(tensor, 0, &mut bytes).unwrap();
    bytes
}

fn set(sim: &Sim, entries: &[(&CStr, &SimTensor)]) -> SimTensorSet {
    let mut set = sim.tensor_set().unwrap();
    for (name, tensor) in entries {
        sim.bind(&mut set, name, tensor).unwrap();
    }
    set
}

/// Gives sets and tensors back.
fn give_back(
    sim: &Sim,
    sets: impl IntoIterator<Item = SimTensorSet>,
    tensors: impl IntoIterator<Item = SimTensor>,
) {
    for set in sets {
        sim.destroy_set(set);
    }
    for tensor in tensors {
        sim.free(tensor);
    }
}

/// One execution of `in:a:N out:b:N` on fresh tensors; the output's bytes are
/// given also after a failure.
fn run(sim: &Sim, model: &SimModel, input: &[u8]) -> (Result<Completion, BackendError>, Vec<u8>) {
    let a = device(sim, input);
    let b = device(sim, &vec![0xee; input.len()]);
    let inputs = set(sim, &[(c"a", &a)]);
    let mut outputs = set(sim, &[(c"b", &b)]);
    let result = sim.execute(model, &inputs, &mut outputs);
    let bytes = contents(sim, &b);
    give_back(sim, [inputs, outputs], [a, b]);
    (result, bytes)
}

fn name(text: &str) -> CString {
    CString::new(text).unwrap()
}

fn shared(builder: SimBuilder) -> Arc<Sim> {
    Arc::new(start(builder))
}
