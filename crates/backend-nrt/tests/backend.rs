//! The backend's calls over a library in C.
#![expect(
    clippy::unwrap_used,
    reason = "a failure is the test's answer, in helpers too"
)]
#![expect(
    dead_code,
    reason = "each test program uses a part of the common module"
)]

mod common;

use std::thread;

use metaneff_backend_nrt::{Nrt, ReadOp, WriteOp};
use metaneff_binding::{
    Backend, BackendError, Cause, CollectiveContext, Completion, Core, LoadRequest, Placement, Side,
};
use metaneff_schema::nrt::{NrtDtype, Status};

use common::{Stub, Toy, request};

/// What a framework writes: it knows the trait and no backend.
fn run<B: Backend>(backend: &B, data: &[u8]) -> Result<Vec<u8>, BackendError> {
    let mut toy = Toy::new(backend)?;
    backend.write(&toy.input, 0, data)?;
    assert_eq!(toy.execute(backend)?, Completion::Clean);
    let mut out = vec![0; backend.tensor_size(&toy.output)];
    backend.read(&toy.output, 0, &mut out)?;
    toy.give_back(backend)?;
    Ok(out)
}

fn invalid_argument(error: &BackendError) -> (&'static str, &str) {
    assert_eq!(error.status(), Status::INVALID, "{error}");
    match error.cause() {
        Cause::Argument { argument, detail } => (argument, detail),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_model_runs_from_end_to_end() {
    let stub = Stub::new();
    let nrt = stub.open();
    let out = run(&nrt, &[1, 2, 3, 4, 5, 6, 7, 255]).unwrap();
    assert_eq!(out, [2, 3, 4, 5, 6, 7, 8, 0]);
    stub.assert_nothing_lives();
    drop(nrt);
    let calls = stub.record();
    assert_eq!(
        calls,
        [
            "nrt_init",
            "nrt_load",
            "nrt_tensor_allocate",
            "nrt_tensor_allocate",
            "nrt_allocate_tensor_set",
            "nrt_allocate_tensor_set",
            "nrt_add_tensor_to_tensor_set",
            "nrt_add_tensor_to_tensor_set",
            "nrt_tensor_write",
            "nrt_execute",
            "nrt_tensor_read",
            "nrt_unload",
            "nrt_tensor_free",
            "nrt_tensor_free",
            "nrt_destroy_tensor_set",
            "nrt_destroy_tensor_set",
            "nrt_close",
        ]
    );
}

#[test]
fn the_transfers_are_counted() {
    let stub = Stub::new();
    let nrt = stub.open();
    run(&nrt, &[0; 8]).unwrap();
    let transfers = nrt.transfers().unwrap();
    assert_eq!(transfers.host_to_device, 8);
    assert_eq!(transfers.device_to_host, 8);
    assert_eq!((transfers.writes, transfers.reads), (1, 1));
    assert_eq!((transfers.binds, transfers.executions), (2, 1));
    assert_eq!(transfers.allocations, 2);
}

#[test]
fn the_backend_says_where_it_ran() {
    let stub = Stub::new();
    let nrt = stub.open();
    let info = nrt.info();
    assert_eq!(info.name, "nrt");
    assert!(info.device);
    assert_eq!(info.version, "2.20.1.7");
    assert_eq!(info.location, stub.path().to_str().unwrap());
    assert_eq!(info.instance, "trn1.2xlarge");
    assert_eq!((info.visible_cores, info.total_cores), (4, 4));
    let instance = nrt.instance().unwrap();
    assert_eq!(instance.architecture, "NCv2");
    assert_eq!(instance.revision, "rev1");
    // The stub's hash fills its field without an end.
    assert_eq!(nrt.library().version().unwrap().git_hash, "f".repeat(64));
}

#[test]
fn model_tensors_are_described() {
    let stub = Stub::new();
    let nrt = stub.open();
    let model = nrt.load(&request()).unwrap();
    let tensors = nrt.model_tensors(&model).unwrap();
    assert_eq!(tensors.len(), 2);
    assert_eq!(tensors[0].name, "input0");
    assert_eq!(tensors[0].side, Side::Input);
    assert_eq!(tensors[1].name, "output0");
    assert_eq!(tensors[1].side, Side::Output);
    assert_eq!(tensors[1].shape, [2, 4]);
    assert_eq!((tensors[1].size, tensors[1].dtype), (8, NrtDtype::UINT8));
    nrt.unload(model).unwrap();
    stub.assert_nothing_lives();
}

#[test]
fn a_hostile_tensor_table_is_an_error_and_is_given_back() {
    let stub = Stub::new();
    let nrt = stub.open();
    let model = nrt.load(&request()).unwrap();
    for (kind, fact) in [
        (1, "null array"),
        (2, "18446744073709551615 tensors"),
        (3, "tensor 1 of 2: the name has no end within 256 bytes"),
        (4, "not UTF-8"),
        (5, "4294967295 dimensions"),
        (6, "2 dimensions at 0x0"),
        (7, "usage 7"),
    ] {
        stub.hostile(kind);
        let error = nrt.model_tensors(&model).unwrap_err();
        assert_eq!(error.call(), "nrt_get_model_tensor_info");
        assert_eq!(error.status(), Status::FAILURE);
        assert!(error.to_string().contains(fact), "{error}");
        assert_eq!(stub.counter("arrays"), 0, "{fact}");
    }
    stub.hostile(0);
    stub.fail("nrt_get_model_tensor_info", 0, 3);
    let error = nrt.model_tensors(&model).unwrap_err();
    assert_eq!(error.status(), Status::INVALID_HANDLE);
    assert_eq!(nrt.model_tensors(&model).unwrap().len(), 2);
}

#[test]
fn a_null_handle_with_success_is_an_error() {
    let stub = Stub::new();
    let nrt = stub.open();
    let null = |call: &str, answer: Result<(), BackendError>| {
        let error = answer.unwrap_err();
        assert_eq!((error.call(), error.status()), (call, Status::FAILURE));
        assert!(error.to_string().contains("null handle"), "{error}");
    };
    let tensor = nrt
        .allocate(Placement::Device, Core::new(0), 8, c"")
        .unwrap();
    stub.null("nrt_load");
    null("nrt_load", nrt.load(&request()).map(drop));
    stub.null("nrt_tensor_allocate");
    let answer = nrt.allocate(Placement::Device, Core::new(0), 8, c"");
    null("nrt_tensor_allocate", answer.map(drop));
    stub.null("nrt_tensor_allocate_slice");
    let answer = nrt.slice(&tensor, 0, 4, c"");
    null("nrt_tensor_allocate_slice", answer.map(drop));
    stub.null("nrt_allocate_tensor_set");
    null("nrt_allocate_tensor_set", nrt.tensor_set().map(drop));
    stub.null("nrt_tensor_get_va");
    let error = nrt.virtual_address(&tensor).unwrap_err();
    assert!(error.to_string().contains("no virtual address"), "{error}");
}

#[test]
fn models_know_their_core() {
    let stub = Stub::new();
    let nrt = stub.open();
    let model = nrt.load(&request().on(Core::new(3))).unwrap();
    assert_eq!(nrt.model_core(&model).unwrap(), Core::new(3));
    let first = nrt.load(&request()).unwrap();
    assert_eq!(nrt.model_core(&first).unwrap(), Core::new(0));
    let world = CollectiveContext::new(1, 2);
    stub.record();
    let ranked = nrt
        .load(&request().on(Core::new(1)).with_collectives(world))
        .unwrap();
    assert_eq!(stub.record(), ["nrt_load_collectives"]);
    assert_eq!(nrt.model_core(&ranked).unwrap(), Core::new(1));
    let error = nrt.load(&request().on(Core::new(4))).unwrap_err();
    assert_eq!(
        invalid_argument(&error),
        ("vnc", "core 4 of 4 that are visible, counted from 0")
    );
    let beyond = Core::new(u32::MAX);
    let error = nrt.allocate(Placement::Device, beyond, 1, c"").unwrap_err();
    assert_eq!(invalid_argument(&error).0, "vnc");
    let error = nrt.memory_stats(beyond).unwrap_err();
    assert_eq!(invalid_argument(&error).0, "vnc");
    assert_eq!(stub.record(), ["nrt_get_model_info"]);
}

#[test]
fn ranges_outside_of_a_tensor_never_reach_the_library() {
    let stub = Stub::new();
    let nrt = stub.open();
    let core = Core::new(0);
    let tensor = nrt.allocate(Placement::Device, core, 8, c"").unwrap();
    let other = nrt.allocate(Placement::Host, core, 8, c"").unwrap();
    stub.record();
    let max = usize::MAX;
    let mut two = [0; 2];
    for offset in [7, 8, 9, max, max - 1] {
        let error = nrt.write(&tensor, offset, &two).unwrap_err();
        assert_eq!(invalid_argument(&error).0, "offset");
        let error = nrt.read(&tensor, offset, &mut two).unwrap_err();
        assert_eq!(
            invalid_argument(&error).1,
            format!("2 bytes from byte {offset} on, the tensor has 8")
        );
        let error = nrt.slice(&tensor, offset, 2, c"").unwrap_err();
        assert_eq!(invalid_argument(&error).0, "offset");
        let error = nrt.copy(&tensor, offset, &other, 0, 2).unwrap_err();
        assert_eq!(invalid_argument(&error).0, "src_offset");
        let error = nrt.copy(&tensor, 0, &other, offset, 2).unwrap_err();
        assert_eq!(invalid_argument(&error).0, "dst_offset");
        let error = nrt.fill(&tensor, offset, 1, 2).unwrap_err();
        assert_eq!(invalid_argument(&error).0, "offset");
    }
    for answer in [
        nrt.allocate(Placement::Device, core, 0, c""),
        nrt.slice(&tensor, 4, 0, c""),
    ] {
        assert_eq!(invalid_argument(&answer.unwrap_err()).0, "size");
    }
    assert!(stub.record().is_empty());
}

#[test]
fn bytes_move_every_way() {
    let stub = Stub::new();
    let nrt = stub.open();
    let core = Core::new(0);
    let whole = nrt.allocate(Placement::Device, core, 16, c"whole").unwrap();
    let other = nrt.allocate(Placement::Host, core, 16, c"other").unwrap();
    nrt.fill(&whole, 0, 0xAB, 16).unwrap();
    let slice = nrt.slice(&whole, 4, 8, c"slice").unwrap();
    assert_eq!(nrt.tensor_size(&slice), 8);
    nrt.write(&slice, 2, &[1, 2]).unwrap();
    nrt.copy(&slice, 2, &other, 14, 2).unwrap();
    // The slice keeps the memory.
    nrt.free(whole);
    let mut out = [0; 8];
    nrt.read(&slice, 0, &mut out).unwrap();
    assert_eq!(out, [0xAB, 0xAB, 1, 2, 0xAB, 0xAB, 0xAB, 0xAB]);

    nrt.write_batch(&[
        WriteOp {
            tensor: &slice,
            offset: 0,
            data: &[7],
        },
        WriteOp {
            tensor: &slice,
            offset: 7,
            data: &[8],
        },
        WriteOp {
            tensor: &other,
            offset: 0,
            data: &[9, 9],
        },
    ])
    .unwrap();
    let (mut first, mut second, mut third) = ([0; 8], [0; 2], [0; 2]);
    nrt.read_batch(&mut [
        ReadOp {
            tensor: &slice,
            offset: 0,
            out: &mut first,
        },
        ReadOp {
            tensor: &other,
            offset: 0,
            out: &mut second,
        },
        ReadOp {
            tensor: &other,
            offset: 14,
            out: &mut third,
        },
    ])
    .unwrap();
    assert_eq!(first, [7, 0xAB, 1, 2, 0xAB, 0xAB, 0xAB, 8]);
    assert_eq!((second, third), ([9, 9], [1, 2]));
    let error = nrt
        .write_batch(&[WriteOp {
            tensor: &slice,
            offset: 8,
            data: &[1],
        }])
        .unwrap_err();
    assert_eq!(invalid_argument(&error).0, "ops");

    let allocation = nrt.device_allocation(&slice).unwrap();
    assert_eq!(allocation.physical_address, 0x1000);
    assert_eq!((allocation.size, allocation.hbm_index), (64, 0));
    nrt.virtual_address(&slice).unwrap();
    nrt.free(slice);
    nrt.free(other);
    stub.assert_nothing_lives();
}

#[test]
fn a_nan_is_a_completion_and_other_statuses_are_errors() {
    let stub = Stub::new();
    let nrt = stub.open();
    let mut toy = Toy::new(&nrt).unwrap();
    stub.fail("nrt_execute", 0, 1003);
    assert_eq!(toy.execute(&nrt).unwrap(), Completion::NumericalError);
    let mut out = [0; 8];
    nrt.read(&toy.output, 0, &mut out).unwrap();
    assert_eq!(out, [1; 8]);
    for status in [1, 1004, 1006, 1203, 101, 777, -5] {
        stub.fail("nrt_execute", 0, status);
        let error = toy.execute(&nrt).unwrap_err();
        assert_eq!(
            (error.call(), error.status()),
            ("nrt_execute", Status(status))
        );
    }
    assert_eq!(toy.execute(&nrt).unwrap(), Completion::Clean);
    toy.give_back(&nrt).unwrap();
    stub.assert_nothing_lives();
}

#[test]
fn repeating_feeds_outputs_back() {
    let stub = Stub::new();
    let nrt = stub.open();
    let mut toy = Toy::new(&nrt).unwrap();
    let times = |toy: &mut Toy<Nrt>, times| {
        nrt.execute_repeat(&toy.model, &toy.inputs, &mut toy.outputs, times)
    };
    assert_eq!(times(&mut toy, 5).unwrap(), Completion::Clean);
    let mut out = [0; 8];
    nrt.read(&toy.output, 0, &mut out).unwrap();
    assert_eq!(out, [5; 8]);
    for wrong in [0, u32::MAX] {
        let error = times(&mut toy, wrong).unwrap_err();
        assert_eq!(invalid_argument(&error).0, "repeat_count");
    }
    assert_eq!(nrt.transfers().unwrap().executions, 5);
}

#[test]
fn memory_that_ran_out_is_told_with_its_quantities() {
    let stub = Stub::new();
    let nrt = stub.open();
    let core = Core::new(1);
    stub.fail("nrt_tensor_allocate", 0, 4);
    let error = nrt
        .allocate(Placement::Device, core, 614_400, c"")
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "nrt_tensor_allocate answered NRT_RESOURCE (4): 614400 bytes requested on core 1, \
         1001 of 2000 in use"
    );
    stub.fail("nrt_tensor_allocate", 0, 11);
    let error = nrt.allocate(Placement::Host, core, 9, c"").unwrap_err();
    assert!(error.to_string().ends_with("9 bytes requested of the host"));
    stub.fail("nrt_load", 0, 4);
    let error = nrt.load(&request().on(core)).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("the NEFF has 30 bytes; 1001 of 2000 bytes are in use on core 1"),
        "{error}"
    );
}

#[test]
fn a_load_that_is_refused_says_what_the_neff_asks_for() {
    let stub = Stub::new();
    let nrt = stub.open();
    let mut header = vec![0_u8; 1024];
    header[0] = 2;
    header[8..16].copy_from_slice(&1024_u64.to_le_bytes());
    header[24] = 2;
    header[40..44].copy_from_slice(b"cc-9");
    header[476] = 8;
    header[544..552].copy_from_slice(&0x100_u64.to_le_bytes());
    let request = LoadRequest::new(header.into());
    stub.fail("nrt_load", 0, 9);
    let error = nrt.load(&request).unwrap_err();
    assert_eq!(
        *error.cause(),
        Cause::Cores {
            needed: 8,
            visible: 4,
            total: 4
        }
    );
    stub.fail("nrt_load", 0, 10);
    let error = nrt.load(&request).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("NEFF refused: format version 2.0, feature bits 0x100, made by `cc-9`"),
        "{error}"
    );
    stub.fail("nrt_load", 0, 2);
    let error = nrt.load(&common::request()).unwrap_err();
    assert!(matches!(error.cause(), Cause::Neff { .. }), "{error}");
}

#[test]
fn both_cores_of_a_mismatch_are_named() {
    let stub = Stub::new();
    let nrt = stub.open();
    let mut toy = Toy::new(&nrt).unwrap();
    let far = nrt
        .allocate(Placement::Device, Core::new(2), 8, c"far")
        .unwrap();
    nrt.bind(&mut toy.inputs, c"input0", &far).unwrap();
    let error = toy.execute(&nrt).unwrap_err();
    assert_eq!(
        error.to_string(),
        "nrt_execute answered NRT_INVALID (2): the model is on core 0, tensor `input0` on core 2"
    );
    let error = nrt.copy(&far, 0, &toy.input, 0, 8).unwrap_err();
    assert_eq!(
        error.to_string(),
        "nrt_tensor_copy answered NRT_INVALID (2): the source is on core 2, the target on core 0"
    );
    nrt.free(far);
    toy.give_back(&nrt).unwrap();
}

#[test]
fn a_timeout_says_how_long_it_took() {
    let stub = Stub::new();
    let nrt = stub.open();
    assert_eq!(nrt.execution_timeout(), None);
    let mut toy = Toy::new(&nrt).unwrap();
    stub.fail("nrt_execute", 0, 5);
    let error = toy.execute(&nrt).unwrap_err();
    assert_eq!(error.status(), Status::TIMEOUT);
    assert!(
        error
            .to_string()
            .ends_with("NEURON_RT_EXEC_TIMEOUT is not set"),
        "{error}"
    );
    assert_eq!(toy.execute(&nrt).unwrap(), Completion::Clean);
}

#[test]
fn memory_stats_follow_the_library_that_fills_less() {
    let stub = Stub::new();
    let nrt = stub.open();
    let stats = nrt.memory_stats(Core::new(2)).unwrap();
    assert_eq!((stats.used, stats.limit), (1002, 2000));
    stub.stats_written(8);
    let error = nrt.memory_stats(Core::new(0)).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("the library filled 8 of 16 bytes"),
        "{error}"
    );
    // A library that knows more fields cuts them off.
    stub.stats_written(64);
    assert_eq!(nrt.memory_stats(Core::new(0)).unwrap().used, 1000);
}

#[test]
fn executing_with_a_freed_tensor_is_an_error() {
    let stub = Stub::new();
    let nrt = stub.open();
    let mut toy = Toy::new(&nrt).unwrap();
    let extra = nrt
        .allocate(Placement::Device, Core::new(0), 8, c"extra")
        .unwrap();
    nrt.bind(&mut toy.inputs, c"unused", &extra).unwrap();
    nrt.free(extra);
    let error = toy.execute(&nrt).unwrap_err();
    assert_eq!(error.status(), Status::INVALID_HANDLE);
    assert_eq!(
        *error.cause(),
        Cause::Binding {
            name: "unused".to_owned(),
            detail: "the tensor has been freed".to_owned()
        }
    );
    assert_eq!(stub.counter("executions"), 0);
    let input = &toy.input;
    nrt.bind(&mut toy.inputs, c"unused", input).unwrap();
    assert_eq!(toy.execute(&nrt).unwrap(), Completion::Clean);
    toy.give_back(&nrt).unwrap();
    stub.assert_nothing_lives();
}

#[test]
fn a_tensor_that_is_freed_during_an_execution_lives_until_its_end() {
    let stub = Stub::new();
    let nrt = stub.open();
    let toy = Toy::new(&nrt).unwrap();
    let Toy {
        model,
        input,
        output,
        inputs,
        mut outputs,
    } = toy;
    stub.execution_ms(200);
    stub.record();
    thread::scope(|scope| {
        let execution = scope.spawn(|| nrt.execute(&model, &inputs, &mut outputs));
        while !stub.record().contains(&"nrt_execute".to_owned()) {
            thread::yield_now();
        }
        // The stub aborts if a tensor is gone when the execution reaches it.
        nrt.free(input);
        nrt.free(output);
        assert_eq!(execution.join().unwrap().unwrap(), Completion::Clean);
    });
    assert_eq!(stub.counter("tensors"), 0);
    assert!(nrt.execute(&model, &inputs, &mut outputs).is_err());
}

#[test]
fn a_handle_that_is_dropped_leaks_until_the_end_and_stays_bound() {
    let stub = Stub::new();
    let nrt = stub.open();
    let Toy {
        model,
        input,
        output,
        inputs,
        mut outputs,
    } = Toy::new(&nrt).unwrap();
    drop(input);
    assert_eq!(
        nrt.execute(&model, &inputs, &mut outputs).unwrap(),
        Completion::Clean
    );
    assert_eq!(stub.counter("tensors"), 2);
    nrt.free(output);
    assert_eq!(stub.counter("tensors"), 1);
}

#[test]
fn an_unload_that_fails_is_told() {
    let stub = Stub::new();
    let nrt = stub.open();
    let model = nrt.load(&request()).unwrap();
    stub.fail("nrt_unload", 0, 6);
    let error = nrt.unload(model).unwrap_err();
    assert_eq!(
        (error.call(), error.status()),
        ("nrt_unload", Status::HW_ERROR)
    );
}

#[test]
fn every_call_reports_the_status_of_its_own() {
    let stub = Stub::new();
    let nrt = stub.open();
    let mut toy = Toy::new(&nrt).unwrap();
    let mut byte = [0];
    type Attempt<'a> = Box<dyn FnMut() -> Result<(), BackendError> + 'a>;
    let (input, output) = (&toy.input, &toy.output);
    let inputs = &mut toy.inputs;
    let calls: Vec<(&str, Attempt<'_>)> = vec![
        (
            "nrt_tensor_read",
            Box::new(|| nrt.read(input, 0, &mut byte)),
        ),
        ("nrt_tensor_write", Box::new(|| nrt.write(input, 0, &[1]))),
        (
            "nrt_tensor_copy",
            Box::new(|| nrt.copy(input, 0, output, 0, 1)),
        ),
        ("nrt_tensor_memset", Box::new(|| nrt.fill(input, 0, 1, 1))),
        (
            "nrt_tensor_allocate_slice",
            Box::new(|| nrt.slice(input, 0, 1, c"").map(drop)),
        ),
        (
            "nrt_allocate_tensor_set",
            Box::new(|| nrt.tensor_set().map(drop)),
        ),
        (
            "nrt_add_tensor_to_tensor_set",
            Box::new(|| nrt.bind(inputs, c"input0", input)),
        ),
        (
            "nrt_get_model_info",
            Box::new(|| nrt.model_core(&toy.model).map(drop)),
        ),
        (
            "nrt_get_vnc_memory_stats",
            Box::new(|| nrt.memory_stats(Core::new(0)).map(drop)),
        ),
        (
            "nrt_tensor_read_batch",
            Box::new(|| nrt.read_batch(&mut [])),
        ),
        ("nrt_tensor_write_batch", Box::new(|| nrt.write_batch(&[]))),
        (
            "nrt_tensor_get_device_allocation_info",
            Box::new(|| nrt.device_allocation(input).map(drop)),
        ),
    ];
    for (call, mut attempt) in calls {
        stub.fail(call, 0, 14);
        let error = attempt().unwrap_err();
        assert_eq!((error.call(), error.status()), (call, Status::CLOSED));
        assert_eq!(*error.cause(), Cause::Unknown);
        attempt().unwrap();
    }
}

#[test]
fn eight_threads_get_what_one_gets() {
    let stub = Stub::new();
    let nrt = stub.open();
    thread::scope(|scope| {
        for thread in 0..8_u8 {
            let nrt = &nrt;
            scope.spawn(move || {
                for round in 0..50_u8 {
                    let value = thread.wrapping_mul(31).wrapping_add(round);
                    let out = run(nrt, &[value; 8]).unwrap();
                    assert_eq!(out, [value.wrapping_add(1); 8]);
                }
            });
        }
    });
    assert_eq!(stub.counter("executions"), 400);
    stub.assert_nothing_lives();
}

#[test]
fn a_thousand_loads_leave_nothing() {
    let stub = Stub::new();
    let nrt = stub.open();
    for round in 0..1000 {
        if round % 3 == 0 {
            stub.fail("nrt_execute", 0, 1);
        }
        let mut toy = Toy::new(&nrt).unwrap();
        assert_eq!(toy.execute(&nrt).is_err(), round % 3 == 0);
        nrt.model_tensors(&toy.model).unwrap();
        toy.give_back(&nrt).unwrap();
    }
    stub.assert_nothing_lives();
}
