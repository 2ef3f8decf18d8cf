//! The backend over the simulated libnrt.so.
//!
//! Cargo builds that library along with this test, into the same folder.
#![expect(
    clippy::unwrap_used,
    reason = "a failure is the test's answer, in helpers too"
)]

use std::path::PathBuf;
use std::sync::Arc;

use metaneff_backend_nrt::{
    Capability, Executed, Launch, Nrt, NrtOptions, Queue, QueueMode, ReadOp, WriteOp,
};
use metaneff_binding::{Backend, Completion, Core, LoadRequest, Placement, Side};
use metaneff_schema::neff::NeffBuilder;
use metaneff_schema::nrt::Status;

const CORE: Core = Core::new(0);

/// The ways of serving requests.
const MODES: [QueueMode; 2] = [QueueMode::Threads, QueueMode::Library];

/// A library that is built already.
const BUILT: &str = "METANEFF_LIBNRT_SIM";

fn library() -> PathBuf {
    if let Some(path) = std::env::var_os(BUILT) {
        return path.into();
    }
    let program = std::env::current_exe().unwrap();
    let beside = program.parent().unwrap().join("libnrt.so");
    assert!(
        beside.exists(),
        "{} is not there: name the simulated libnrt.so in {BUILT}",
        beside.display()
    );
    beside
}

/// One runtime, which the tests of this process share.
fn open() -> Nrt {
    Nrt::open(&NrtOptions::new().library(library())).unwrap()
}

/// The elements of a `.npy` file of version 1, as they lie there.
fn elements(name: &str) -> Vec<u8> {
    let file = read(name);
    let header = usize::from(u16::from_le_bytes([file[8], file[9]]));
    file[10 + header..].to_vec()
}

fn read(name: &str) -> Vec<u8> {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../corpus/binary__subtract__u32"
    );
    std::fs::read(PathBuf::from(folder).join(name)).unwrap()
}

#[test]
fn the_library_says_what_it_is_and_has_everything() {
    let nrt = open();
    let library = nrt.library();
    assert!(library.missing_functions().is_empty());
    for capability in Capability::ALL {
        assert_eq!(library.lacking(*capability), [""; 0], "{capability:?}");
    }
    assert_eq!(library.async_functions().len(), 12);
    let info = nrt.info();
    assert!(info.total_cores >= info.visible_cores && info.visible_cores > 0);
    assert!(info.instance.starts_with("trn"), "{}", info.instance);
    assert!(!nrt.instance().unwrap().architecture.is_empty());
    assert!(info.location.ends_with("libnrt.so"), "{}", info.location);
}

#[test]
fn a_model_computes_what_xla_computes() {
    let nrt = open();
    let neff = NeffBuilder::from_hlo(read("module.pb")).unwrap().build();
    let model = nrt.load(&LoadRequest::new(neff).on(CORE)).unwrap();
    assert_eq!(nrt.model_core(&model).unwrap(), CORE);
    assert_eq!(nrt.model_cores(&model).unwrap(), 1);
    assert!(nrt.model_instances(&model).unwrap() > 0);
    let described: Vec<_> = nrt
        .model_tensors(&model)
        .unwrap()
        .into_iter()
        .map(|info| (info.name, info.side, info.size))
        .collect();
    let size = 48 * 4;
    assert_eq!(
        described,
        [
            ("input0".to_owned(), Side::Input, size),
            ("input1".to_owned(), Side::Input, size),
            ("output0".to_owned(), Side::Output, size),
        ]
    );

    let mut inputs = nrt.tensor_set().unwrap();
    let mut outputs = nrt.tensor_set().unwrap();
    let tensor = |name| nrt.allocate(Placement::Device, CORE, size, name).unwrap();
    let [first, second, output] = [c"input0", c"input1", c"output0"].map(tensor);
    nrt.write(&first, 0, &elements("input0.npy")).unwrap();
    nrt.write(&second, 0, &elements("input1.npy")).unwrap();
    nrt.bind(&mut inputs, c"input0", &first).unwrap();
    nrt.bind(&mut inputs, c"input1", &second).unwrap();
    nrt.bind(&mut outputs, c"output0", &output).unwrap();
    let completion = nrt.execute(&model, &inputs, &mut outputs).unwrap();
    assert_eq!(completion, Completion::Clean);
    let mut out = vec![0; size];
    nrt.read(&output, 0, &mut out).unwrap();
    assert_eq!(out, elements("expected0.npy"));

    // The same in the background, on threads and in the library's own way.
    let mut launch = Launch {
        model: Arc::new(model),
        inputs,
        outputs,
    };
    for mode in MODES {
        let queue = nrt.queue_in(CORE, mode).unwrap();
        nrt.fill(&output, 0, 0, size).unwrap();
        let mut executed: Executed = queue.execute(launch).unwrap().wait().unwrap();
        assert_eq!(executed.completion(), Ok(Completion::Clean), "{mode:?}");
        let read = queue.read(&output, 0, size).unwrap().wait().unwrap();
        assert_eq!(read, elements("expected0.npy"), "{mode:?}");
        launch = executed.launch.take().unwrap();
    }
    nrt.unload(Arc::into_inner(launch.model).unwrap()).unwrap();
    for tensor in [first, second, output] {
        nrt.free(tensor);
    }
    nrt.destroy_set(launch.inputs);
    nrt.destroy_set(launch.outputs);
}

#[test]
fn bytes_move_in_batches_copies_and_slices() {
    let nrt = open();
    let [first, second] =
        [c"a", c"b"].map(|name| nrt.allocate(Placement::Device, CORE, 16, name).unwrap());
    let ops = [
        (&first, 0, &[1, 2, 3, 4][..]),
        (&first, 12, &[5, 6]),
        (&second, 15, &[7]),
    ]
    .map(|(tensor, offset, data)| WriteOp {
        tensor,
        offset,
        data,
    });
    nrt.write_batch(&ops).unwrap();
    nrt.copy(&first, 0, &second, 4, 4).unwrap();
    nrt.fill(&first, 1, 0xee, 2).unwrap();
    let slice = nrt.slice(&first, 2, 12, c"").unwrap();
    nrt.write(&slice, 11, &[8]).unwrap();
    let (mut a, mut b) = ([0; 16], [0; 16]);
    let mut ops = [(&first, &mut a[..]), (&second, &mut b[..])].map(|(tensor, out)| ReadOp {
        tensor,
        offset: 0,
        out,
    });
    nrt.read_batch(&mut ops).unwrap();
    assert_eq!(a, [1, 0xee, 0xee, 4, 0, 0, 0, 0, 0, 0, 0, 0, 5, 8, 0, 0]);
    assert_eq!(b, [0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 7]);

    let whole = nrt.device_allocation(&first).unwrap();
    let part = nrt.device_allocation(&slice).unwrap();
    assert!(whole.size >= 16);
    assert_eq!(part.hbm_index, whole.hbm_index);
    assert_ne!(nrt.device_allocation(&second).unwrap(), whole);
    for tensor in [first, second, slice] {
        nrt.free(tensor);
    }
}

#[test]
fn a_buffer_is_attached_and_detached() {
    let nrt = open();
    let tensor = nrt.attach(vec![1, 2, 3, 4].into(), c"lent").unwrap();
    assert_eq!(nrt.tensor_size(&tensor), 4);
    let slice = nrt.slice(&tensor, 2, 2, c"").unwrap();
    nrt.write(&slice, 0, &[9]).unwrap();
    let mut out = [0; 4];
    nrt.read(&tensor, 0, &mut out).unwrap();
    assert_eq!(out, [1, 2, 9, 4]);
    nrt.free(slice);
    assert_eq!(*nrt.detach(tensor).unwrap(), [1, 2, 9, 4]);
}

#[test]
fn memory_is_counted() {
    // A core that no other test of this file allocates on.
    let core = Core::new(1);
    let nrt = open();
    let before = nrt.memory_stats(core).unwrap();
    let tensor = nrt.allocate(Placement::Device, core, 1 << 20, c"").unwrap();
    let during = nrt.memory_stats(core).unwrap();
    assert_eq!(during.used - before.used, 1 << 20);
    assert_eq!(during.limit, before.limit);
    nrt.free(tensor);
    assert_eq!(nrt.memory_stats(core).unwrap(), before);
}

#[test]
fn requests_are_served_in_either_way() {
    let nrt = open();
    assert_eq!(nrt.queue(CORE).unwrap().mode(), QueueMode::Library);
    for mode in MODES {
        let queue: Queue = nrt.queue_in(CORE, mode).unwrap();
        let [first, second] =
            [c"a", c"b"].map(|name| nrt.allocate(Placement::Device, CORE, 8, name).unwrap());
        let written = queue.write(&first, 2, vec![1, 2, 3].into()).unwrap();
        written.wait().unwrap();
        let copied = queue.copy((&first, 2), (&second, 0), 6).unwrap();
        copied.wait().unwrap();
        let read = queue.read(&second, 0, 8).unwrap();
        nrt.free(second);
        assert_eq!(read.wait().unwrap(), [1, 2, 3, 0, 0, 0, 0, 0], "{mode:?}");
        nrt.free(first);
    }
}

#[test]
fn tensors_of_two_cores_are_not_copied() {
    let nrt = open();
    let [near, far] =
        [CORE, Core::new(1)].map(|core| nrt.allocate(Placement::Device, core, 8, c"").unwrap());
    let error = nrt.copy(&near, 0, &far, 0, 8).unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
    for mode in MODES {
        let queue = nrt.queue_in(CORE, mode).unwrap();
        let answer = queue.copy((&near, 0), (&far, 0), 8);
        let error = answer.and_then(|pending| pending.wait()).unwrap_err();
        assert_eq!(error.status(), Status::INVALID, "{mode:?}");
        assert!(error.to_string().contains("core 1"), "{mode:?}: {error}");
    }
    nrt.free(near);
    nrt.free(far);
}
