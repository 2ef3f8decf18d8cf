//! Tensors and the memory behind them.

use std::sync::{Arc, Mutex};

use metaneff_binding::{Backend, Cause, Core, Placement};
use metaneff_schema::nrt::Status;

use super::{CORE, contents, device, set, sim, start};
use crate::{ALIGNMENT, ExternalMemory, HOST_TENSOR_LIMIT, Instance, Sim};

fn argument(cause: &Cause) -> &'static str {
    match cause {
        Cause::Argument { argument, .. } => argument,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_shortage_says_how_much_there_was() {
    let sim = start(Sim::builder().memory_limit(1 << 20));
    let first = sim
        .allocate(Placement::Device, CORE, 600 << 10, c"first")
        .unwrap();
    sim.write(&first, 0, &[7; 8]).unwrap();
    let error = sim
        .allocate(Placement::Device, CORE, 600 << 10, c"second")
        .unwrap_err();
    assert_eq!(error.call(), "nrt_tensor_allocate");
    assert_eq!(error.status(), Status::RESOURCE);
    let shortage = Cause::Memory {
        core: Some(CORE),
        requested: 614_400,
        used: 614_400,
        limit: 1_048_576,
    };
    assert_eq!(error.cause(), &shortage);
    let mut head = [0; 8];
    sim.read(&first, 0, &mut head).unwrap();
    assert_eq!(head, [7; 8]);
    // The other core's memory is its own.
    let other = sim
        .allocate(Placement::Device, Core::new(1), 600 << 10, c"other")
        .unwrap();
    sim.free(first);
    let second = sim
        .allocate(Placement::Device, CORE, 600 << 10, c"second")
        .unwrap();
    sim.free(second);
    sim.free(other);
    assert_eq!(sim.memory_stats(CORE).unwrap().used, 0);
}

#[test]
fn bad_arguments_are_named_and_change_nothing() {
    let sim = sim();
    let error = sim
        .allocate(Placement::Device, CORE, 0, c"empty")
        .unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
    assert_eq!(argument(error.cause()), "size");
    for core in [2, u32::MAX] {
        let error = sim
            .allocate(Placement::Device, Core::new(core), 8, c"nowhere")
            .unwrap_err();
        assert_eq!(error.status(), Status::INVALID);
        assert_eq!(argument(error.cause()), "vnc");
    }
    assert_eq!(sim.live_objects().total(), 0);
}

#[test]
fn sizes_beyond_the_memory_are_refused_before_it_is_touched() {
    let sim = sim();
    let error = sim
        .allocate(Placement::Device, CORE, usize::MAX, c"huge")
        .unwrap_err();
    assert_eq!(error.status(), Status::RESOURCE);
    assert!(
        matches!(error.cause(), Cause::Memory { requested: u64::MAX, used: 0, limit, .. }
        if *limit == 16 << 30)
    );
    // Zeroed pages of which none is touched.
    let large = sim
        .allocate(Placement::Device, CORE, 5 << 30, c"large")
        .unwrap();
    assert_eq!(sim.memory_stats(CORE).unwrap().used, 5 << 30);
    let mut tail = [1; 4];
    sim.read(&large, (5 << 30) - 4, &mut tail).unwrap();
    assert_eq!(tail, [0; 4]);
    sim.free(large);
}

#[test]
fn logical_cores_have_the_memory_of_their_physical_ones() {
    let limit = |builder: crate::SimBuilder| start(builder).memory_stats(CORE).unwrap().limit;
    let trn2 = Sim::builder().instance(Instance::Trn2_3xlarge);
    assert_eq!(limit(trn2.clone()), 24 << 30);
    assert_eq!(limit(trn2.virtual_core_size(1)), 12 << 30);
    assert_eq!(limit(Sim::builder()), 16 << 30);
}

#[test]
fn ranges_outside_a_tensor_are_invalid_and_nothing_is_written() {
    let sim = sim();
    let tensor = device(&sim, &[1, 2, 3, 4]);
    let other = device(&sim, &[5, 6, 7, 8]);
    let all = [
        (0, 5),
        (4, 1),
        (5, 0),
        (usize::MAX, 2),
        (usize::MAX, usize::MAX),
        (2, 3),
    ];
    for (offset, size) in all {
        let mut results = vec![
            sim.fill(&tensor, offset, 9, size),
            sim.copy(&other, 0, &tensor, offset, size),
            sim.copy(&tensor, offset, &other, 0, size),
        ];
        if size < 100 {
            results.push(sim.write(&tensor, offset, &vec![9; size]));
            results.push(sim.read(&tensor, offset, &mut vec![9; size]));
        }
        for result in results {
            let error = result.unwrap_err();
            assert_eq!(error.status(), Status::INVALID, "{error}");
            assert_eq!(argument(error.cause()), "offset");
        }
        let error = sim.slice(&tensor, offset, size, c"slice").unwrap_err();
        assert_eq!(error.status(), Status::INVALID);
    }
    assert_eq!(contents(&sim, &tensor), [1, 2, 3, 4]);
    assert_eq!(contents(&sim, &other), [5, 6, 7, 8]);
    // The end of a tensor is a place for nothing.
    sim.write(&tensor, 4, &[]).unwrap();
    let error = sim.slice(&tensor, 0, 0, c"slice").unwrap_err();
    assert_eq!(argument(error.cause()), "size");
}

#[test]
fn a_slice_shares_memory_and_either_may_go_first() {
    for parent_first in [false, true] {
        let sim = sim();
        let parent = device(&sim, &[0, 1, 2, 3, 4, 5, 6, 7]);
        let slice = sim.slice(&parent, 2, 4, c"slice").unwrap();
        let inner = sim.slice(&slice, 1, 2, c"inner").unwrap();
        sim.write(&inner, 0, &[30, 40]).unwrap();
        assert_eq!(contents(&sim, &parent), [0, 1, 2, 30, 40, 5, 6, 7]);
        assert_eq!(slice.address(), parent.address().map(|a| a + 2));
        assert!(sim.slice(&slice, 3, 2, c"beyond").is_err());
        assert_eq!(sim.memory_stats(CORE).unwrap().used, 64);
        if parent_first {
            sim.free(parent);
            assert_eq!(contents(&sim, &slice), [2, 30, 40, 5]);
            sim.free(slice);
            assert_eq!(sim.memory_stats(CORE).unwrap().used, 64);
            sim.free(inner);
        } else {
            sim.free(inner);
            sim.free(slice);
            assert_eq!(sim.memory_stats(CORE).unwrap().used, 64);
            sim.free(parent);
        }
        assert_eq!(sim.memory_stats(CORE).unwrap().used, 0);
        assert_eq!(sim.live_objects().total(), 0);
    }
}

#[test]
fn host_memory_is_counted_apart() {
    let sim = start(Sim::builder().host_memory_limit(8 << 20));
    let host = sim.allocate(Placement::Host, CORE, 100, c"host").unwrap();
    let plain = sim
        .allocate(Placement::Virtual, CORE, 5 << 20, c"plain")
        .unwrap();
    assert_eq!(sim.memory_stats(CORE).unwrap().used, 0);
    assert_eq!(sim.host_memory().used, 128 + (5 << 20));
    assert_eq!(
        (host.placement(), plain.placement()),
        (Placement::Host, Placement::Virtual)
    );
    assert_eq!(host.address().map(|a| a % ALIGNMENT), Some(0));
    let error = sim
        .allocate(Placement::Virtual, CORE, 4 << 20, c"more")
        .unwrap_err();
    let shortage = Cause::Memory {
        core: None,
        requested: 4 << 20,
        used: 128 + (5 << 20),
        limit: 8 << 20,
    };
    assert_eq!(
        (error.status(), error.cause()),
        (Status::RESOURCE, &shortage)
    );
    let large = usize::try_from(HOST_TENSOR_LIMIT).unwrap() + 1;
    let error = sim
        .allocate(Placement::Host, CORE, large, c"page")
        .unwrap_err();
    assert_eq!(
        (error.status(), argument(error.cause())),
        (Status::RESOURCE, "size")
    );
}

#[test]
fn copies_between_device_tensors_stay_on_a_core() {
    let sim = sim();
    let here = device(&sim, &[1, 2, 3, 4]);
    let there = sim
        .allocate(Placement::Device, Core::new(1), 4, c"there")
        .unwrap();
    let error = sim.copy(&here, 0, &there, 0, 4).unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
    assert!(
        matches!(error.cause(), Cause::CoreMismatch { core, other_core, .. }
        if (*core, *other_core) == (CORE, Core::new(1)))
    );
    let host = sim.allocate(Placement::Host, CORE, 4, c"host").unwrap();
    sim.copy(&here, 0, &host, 0, 4).unwrap();
    sim.copy(&host, 0, &there, 0, 4).unwrap();
    assert_eq!(contents(&sim, &there), [1, 2, 3, 4]);
    // Overlapping ranges of one tensor.
    sim.copy(&here, 0, &here, 1, 3).unwrap();
    assert_eq!(contents(&sim, &here), [1, 1, 2, 3]);
    let transfers = sim.transfers().unwrap();
    assert_eq!((transfers.copies, transfers.device_to_device), (3, 11));
}

#[derive(Debug)]
struct Attached(Mutex<Vec<u8>>);

impl ExternalMemory for Attached {
    fn size(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn address(&self) -> usize {
        self.0.lock().unwrap().as_ptr().addr()
    }

    fn read(&self, offset: usize, out: &mut [u8]) {
        out.copy_from_slice(&self.0.lock().unwrap()[offset..offset + out.len()]);
    }

    fn write(&self, offset: usize, data: &[u8]) {
        self.0.lock().unwrap()[offset..offset + data.len()].copy_from_slice(data);
    }
}

#[test]
fn an_attached_buffer_takes_the_place_of_the_memory() {
    let sim = sim();
    let tensor = device(&sim, &[1; 100]);
    let slice = sim.slice(&tensor, 0, 10, c"slice").unwrap();
    let memory = Arc::new(Attached(Mutex::new(vec![0; 5000])));
    sim.attach(&tensor, Arc::clone(&memory) as _).unwrap();
    assert_eq!(
        (tensor.size(), tensor.placement()),
        (5000, Placement::Virtual)
    );
    assert_eq!(tensor.address(), Some(memory.address()));
    sim.fill(&tensor, 1, 3, 4998).unwrap();
    sim.write(&tensor, 4, &[9]).unwrap();
    let bytes = memory.0.lock().unwrap().clone();
    assert_eq!(
        (&bytes[..6], &bytes[4998..]),
        (&[0, 3, 3, 3, 9, 3][..], &[3, 0][..])
    );
    // The slice still shows the old memory, which goes with it.
    assert_eq!(contents(&sim, &slice), [1; 10]);
    assert_eq!(sim.memory_stats(CORE).unwrap().used, 128);
    sim.free(slice);
    assert_eq!(sim.memory_stats(CORE).unwrap().used, 0);
    let error = sim
        .attach(&tensor, Arc::new(Attached(Mutex::default())))
        .unwrap_err();
    assert_eq!(argument(error.cause()), "size");
}

#[test]
fn an_empty_tensor_has_no_memory_until_it_gets_some() {
    let sim = sim();
    let tensor = sim.allocate_empty(c"empty").unwrap();
    assert_eq!((tensor.size(), tensor.address()), (0, None));
    for result in [
        sim.write(&tensor, 0, &[]),
        sim.read(&tensor, 0, &mut []),
        sim.slice(&tensor, 0, 1, c"slice").map(drop),
    ] {
        let error = result.unwrap_err();
        assert_eq!(
            (error.status(), argument(error.cause())),
            (Status::INVALID, "tensor")
        );
    }
    sim.attach(&tensor, Arc::new(Attached(Mutex::new(vec![4, 5]))))
        .unwrap();
    assert_eq!(contents(&sim, &tensor), [4, 5]);
}

#[test]
fn a_dropped_handle_leaks_until_the_simulator_is_closed() {
    let sim = sim();
    drop(device(&sim, &[1]));
    drop(sim.tensor_set().unwrap());
    assert_eq!(sim.live_objects().total(), 2);
    assert_eq!(sim.memory_stats(CORE).unwrap().used, 64);
    sim.close();
    assert_eq!(sim.live_objects().total(), 0);
}

#[test]
fn transfers_are_counted() {
    let sim = sim();
    let tensor = device(&sim, &[1; 10]);
    let slice = sim.slice(&tensor, 0, 5, c"slice").unwrap();
    contents(&sim, &slice);
    sim.fill(&slice, 0, 0, 5).unwrap();
    let set = set(&sim, &[(c"a", &tensor), (c"a", &slice)]);
    assert_eq!((set.len(), set.tensor(c"a")), (1, Some(slice.id())));
    assert_eq!(set.tensor(c"b"), None);
    let transfers = sim.transfers().unwrap();
    assert_eq!((transfers.writes, transfers.host_to_device), (1, 10));
    assert_eq!((transfers.reads, transfers.device_to_host), (1, 5));
    assert_eq!((transfers.binds, transfers.allocations), (2, 2));
}

#[test]
fn handles_of_another_runtime_are_refused() {
    let (one, two) = (sim(), sim());
    let tensor = device(&one, &[1]);
    let mut set = one.tensor_set().unwrap();
    let own = device(&two, &[1]);
    for result in [
        two.write(&tensor, 0, &[1]),
        two.read(&tensor, 0, &mut [0]),
        two.copy(&own, 0, &tensor, 0, 1),
        two.bind(&mut set, c"a", &own),
        two.slice(&tensor, 0, 1, c"slice").map(drop),
    ] {
        assert_eq!(result.unwrap_err().status(), Status::INVALID_HANDLE);
    }
    // Giving it back to the wrong one leaves it where it is.
    two.free(tensor);
    assert_eq!(one.live_objects().tensors, 1);
}

#[test]
fn a_name_that_no_client_could_read_back_is_refused() {
    let sim = sim();
    let tensor = device(&sim, &[1]);
    let mut set = sim.tensor_set().unwrap();
    sim.bind(&mut set, &super::name(&"n".repeat(255)), &tensor)
        .unwrap();
    let error = sim
        .bind(&mut set, &super::name(&"n".repeat(256)), &tensor)
        .unwrap_err();
    assert_eq!(
        (error.status(), argument(error.cause())),
        (Status::INVALID, "tensor_name")
    );
}
