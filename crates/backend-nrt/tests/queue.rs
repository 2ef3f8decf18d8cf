//! Requests in the background, attached memory, and what else a framework needs,
//! over a library in C.
#![expect(
    clippy::unwrap_used,
    reason = "a failure is the test's answer, in helpers too"
)]
#![expect(
    dead_code,
    reason = "each test program uses a part of the common module"
)]

mod common;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use metaneff_backend_nrt::{Capability, Executed, Launch, Nrt, NrtTensor, Queue, QueueMode};
use metaneff_binding::{Backend, Cause, CollectiveContext, Completion, Core, Placement};
use metaneff_schema::nrt::Status;

use common::{Stub, Toy, request};

const CORE: Core = Core::new(0);
const LONG: Duration = Duration::from_secs(60);

/// The stub in each way of serving requests.
fn ways() -> Vec<(Stub, QueueMode)> {
    vec![
        (Stub::with(&["-DSTUB_ASYNC"]), QueueMode::Library),
        (
            Stub::with(&["-DSTUB_ASYNC", "-DSTUB_NO_HANDLES"]),
            QueueMode::Library,
        ),
        (Stub::with(&["-DSTUB_SOME_ASYNC"]), QueueMode::Threads),
        (Stub::new(), QueueMode::Threads),
    ]
}

/// The toy's parts as a launch, and its two tensors.
fn launch(nrt: &Nrt) -> (Launch, NrtTensor, NrtTensor) {
    let toy = Toy::new(nrt).unwrap();
    let launch = Launch {
        model: Arc::new(toy.model),
        inputs: toy.inputs,
        outputs: toy.outputs,
    };
    (launch, toy.input, toy.output)
}

fn give_back(nrt: &Nrt, mut executed: Executed) {
    let launch = executed.launch.take().unwrap();
    nrt.unload(Arc::into_inner(launch.model).unwrap()).unwrap();
    nrt.destroy_set(launch.inputs);
    nrt.destroy_set(launch.outputs);
}

/// Waits for what other threads do.
fn until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..6000 {
        if done() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("waited in vain: {what}");
}

#[test]
fn the_mode_follows_the_functions_that_are_found() {
    for (stub, mode) in ways() {
        let nrt = stub.open();
        let library = nrt.library();
        assert_eq!(
            library.supports(Capability::Requests),
            mode == QueueMode::Library
        );
        assert_eq!(nrt.queue(CORE).unwrap().mode(), mode);
        // Threads are there for every library.
        let queue = nrt.queue_in(CORE, QueueMode::Threads).unwrap();
        assert_eq!(queue.mode(), QueueMode::Threads);
        let chosen = nrt.queue_in(CORE, QueueMode::Library);
        if mode == QueueMode::Library {
            assert_eq!(chosen.unwrap().mode(), mode);
        } else {
            let error = chosen.unwrap_err();
            assert!(matches!(error.cause(), Cause::MissingSymbol { .. }));
        }
        let error = nrt.queue(Core::new(9)).unwrap_err();
        assert_eq!(error.status(), Status::INVALID);
    }
}

#[test]
fn eight_functions_do_not_make_requests() {
    let stub = Stub::with(&["-DSTUB_SOME_ASYNC"]);
    let library = stub.open().library();
    assert_eq!(
        library.lacking(Capability::Requests),
        [
            "nrta_error_tracker_create",
            "nrta_error_tracker_destroy",
            "nrta_error_tracker_get_list"
        ]
    );
    assert!(!library.supports(Capability::CompletionHandles));
    let old = Stub::with(&["-DSTUB_OLD"]);
    let library = old.open().library();
    for capability in Capability::ALL {
        assert!(!library.supports(*capability), "{capability:?}");
        assert_eq!(library.lacking(*capability), capability.functions());
    }
}

#[test]
fn bytes_move_and_models_execute() {
    for (stub, mode) in ways() {
        let nrt = stub.open();
        let queue = nrt.queue(CORE).unwrap();
        let (launch, input, output) = launch(&nrt);
        let data = vec![1, 2, 3, 4, 5, 6, 7, 255];
        queue.write(&input, 0, data.into()).unwrap().wait().unwrap();
        let executed = queue.execute(launch).unwrap().wait().unwrap();
        assert_eq!(executed.completion(), Ok(Completion::Clean));
        let out = queue.read(&output, 1, 7).unwrap().wait().unwrap();
        assert_eq!(out, [3, 4, 5, 6, 7, 8, 0]);
        let copied = queue.copy((&output, 0), (&input, 4), 4).unwrap();
        copied.wait().unwrap();
        let out = queue.read(&input, 0, 8).unwrap().wait().unwrap();
        assert_eq!(out, [1, 2, 3, 4, 2, 3, 4, 5], "{mode:?}");

        let transfers = nrt.transfers().unwrap();
        assert_eq!(
            (transfers.host_to_device, transfers.device_to_host),
            (8, 15)
        );
        assert_eq!((transfers.device_to_device, transfers.copies), (4, 1));
        assert_eq!(transfers.executions, 1);

        give_back(&nrt, executed);
        nrt.free(input);
        nrt.free(output);
        stub.assert_nothing_lives();
        assert_eq!(stub.counter("trackers"), 0);
        let scheduled = stub.record();
        let scheduled = scheduled.iter().any(|call| call == "nrta_execute_schedule");
        assert_eq!(scheduled, mode == QueueMode::Library);
    }
}

#[test]
fn handles_are_waited_on_where_there_are_some() {
    let stub = Stub::with(&["-DSTUB_ASYNC"]);
    let nrt = stub.open();
    let queue = nrt.queue(CORE).unwrap();
    let tensor = nrt.allocate(Placement::Device, CORE, 8, c"").unwrap();
    stub.execution_ms(30);
    for _ in 0..3 {
        queue.read(&tensor, 0, 8).unwrap().wait().unwrap();
    }
    assert_eq!(stub.counter("handles"), 3);
    // One question each: none was asked before the end.
    let asked = stub.record();
    assert_eq!(
        asked
            .iter()
            .filter(|call| *call == "nrta_is_completed")
            .count(),
        3
    );
}

#[test]
fn ranges_and_freed_tensors_are_refused_at_once() {
    for (stub, _) in ways() {
        let nrt = stub.open();
        let queue = nrt.queue(CORE).unwrap();
        let (launch, input, output) = launch(&nrt);
        stub.record();
        for (offset, size) in [(0, 9), (8, 1), (usize::MAX, 2)] {
            let error = queue.read(&input, offset, size).unwrap_err();
            assert_eq!(error.status(), Status::INVALID);
            let error = queue.write(&input, offset, vec![0; size.min(9)].into());
            assert_eq!(error.unwrap_err().status(), Status::INVALID);
            let error = queue.copy((&input, 0), (&output, offset), size);
            assert_eq!(error.unwrap_err().status(), Status::INVALID);
        }
        nrt.free(input);
        let refused = queue.execute(launch).unwrap_err();
        assert_eq!(refused.error.status(), Status::INVALID_HANDLE);
        assert!(matches!(refused.error.cause(), Cause::Binding { name, .. } if name == "input0"));
        assert_eq!(stub.record(), ["nrt_tensor_free"]);
        // What was brought is there.
        assert_eq!(Arc::strong_count(&refused.launch.model), 1);
        nrt.free(output);
    }
}

#[test]
fn a_request_that_fails_says_its_status_and_gives_everything_back() {
    for (stub, mode) in ways() {
        let nrt = stub.open();
        let queue = nrt.queue(CORE).unwrap();
        let (launch, input, output) = launch(&nrt);
        let call = |sync| match mode {
            QueueMode::Library => "request",
            _ => sync,
        };
        stub.fail(call("nrt_execute"), 0, 1004);
        let mut executed = queue.execute(launch).unwrap().wait().unwrap();
        let error = executed.completion().unwrap_err();
        assert_eq!(error.status(), Status::EXEC_COMPLETED_WITH_ERR);

        stub.fail(call("nrt_execute"), 0, 1003);
        let launch = executed.launch.take().unwrap();
        let mut executed = queue.execute(launch).unwrap().wait().unwrap();
        assert_eq!(executed.completion(), Ok(Completion::NumericalError));

        stub.fail(call("nrt_tensor_write"), 0, 1);
        let error = queue.write(&input, 0, vec![1].into()).unwrap().wait();
        assert_eq!(error.unwrap_err().status(), Status::FAILURE);
        stub.fail(call("nrt_tensor_read"), 0, 6);
        let error = queue.read(&input, 0, 1).unwrap().wait();
        assert_eq!(error.unwrap_err().status(), Status::HW_ERROR);

        // The one after it is served.
        let launch = executed.launch.take().unwrap();
        let executed = queue.execute(launch).unwrap().wait().unwrap();
        assert_eq!(executed.completion(), Ok(Completion::Clean));
        give_back(&nrt, executed);
        nrt.free(input);
        nrt.free(output);
        stub.assert_nothing_lives();
        assert_eq!(stub.counter("trackers"), 0);
    }
}

#[test]
fn a_request_that_is_not_taken_gives_everything_back() {
    let stub = Stub::with(&["-DSTUB_ASYNC"]);
    let nrt = stub.open();
    let queue = nrt.queue(CORE).unwrap();
    let (mut launch, input, output) = launch(&nrt);
    for (call, status) in [
        ("nrta_execute_schedule", 7),
        ("nrta_error_tracker_create", 4),
    ] {
        stub.fail(call, 0, status);
        let refused = queue.execute(launch).unwrap_err();
        assert_eq!(refused.error.status(), Status(status));
        assert_eq!(refused.error.call(), call);
        launch = *refused.launch;
    }
    stub.null("nrta_error_tracker_create");
    let refused = queue.execute(launch).unwrap_err();
    assert!(refused.error.to_string().contains("null tracker"));
    let executed = queue.execute(*refused.launch).unwrap().wait().unwrap();
    give_back(&nrt, executed);
    nrt.free(input);
    nrt.free(output);
    stub.assert_nothing_lives();
    assert_eq!(stub.counter("trackers"), 0);
}

#[test]
fn what_a_request_uses_lives_until_its_end() {
    for (stub, mode) in ways() {
        let nrt = stub.open();
        let queue = nrt.queue(CORE).unwrap();
        let (launch, input, output) = launch(&nrt);
        stub.execution_ms(200);
        let pending = queue.execute(launch).unwrap();
        // The library aborts the process if an execution meets a freed tensor.
        nrt.free(input);
        nrt.free(output);
        assert_eq!(stub.counter("tensors"), 2, "{mode:?}");
        let executed = pending.wait().unwrap();
        assert_eq!(executed.completion(), Ok(Completion::Clean));
        give_back(&nrt, executed);
        stub.assert_nothing_lives();
    }
}

#[test]
fn nobody_has_to_wait() {
    for (stub, _) in ways() {
        let nrt = stub.open();
        let queue = nrt.queue(CORE).unwrap();
        let (launch, input, output) = launch(&nrt);
        let model = Arc::clone(&launch.model);
        stub.execution_ms(50);
        drop(queue.execute(launch).unwrap());
        drop(queue.write(&input, 0, vec![1; 8].into()).unwrap());
        drop(queue.read(&input, 0, 8).unwrap());
        drop(queue);
        nrt.free(input);
        nrt.free(output);
        until("sets and tensors are given back", || {
            stub.counter("sets") == 0 && stub.counter("tensors") == 0
        });
        until("the model has one owner", || Arc::strong_count(&model) == 1);
        nrt.unload(Arc::into_inner(model).unwrap()).unwrap();
        stub.assert_nothing_lives();
        drop(nrt);
        until("the runtime is closed", || stub.counter("closes") == 1);
    }
}

#[test]
fn a_write_does_not_wait_for_an_execution() {
    for (stub, _) in ways() {
        let nrt = stub.open();
        let queue = nrt.queue(CORE).unwrap();
        let (launch, input, output) = launch(&nrt);
        let other = nrt.allocate(Placement::Device, CORE, 8, c"").unwrap();
        stub.execution_ms(1500);
        let execution = queue.execute(launch).unwrap();
        thread::sleep(Duration::from_millis(300));
        stub.execution_ms(0);
        queue
            .write(&other, 0, vec![7; 8].into())
            .unwrap()
            .wait()
            .unwrap();
        // The execution is under way still.
        let execution = execution.wait_for(Duration::ZERO).unwrap_err();
        let answer = execution.wait_for(LONG).map_err(|_| "it did not end");
        give_back(&nrt, answer.unwrap().unwrap());
        for tensor in [input, output, other] {
            nrt.free(tensor);
        }
    }
}

#[test]
fn a_pending_request_is_a_future() {
    for (stub, _) in ways() {
        let nrt = stub.open();
        let queue = nrt.queue(CORE).unwrap();
        let tensor = nrt.allocate(Placement::Device, CORE, 4, c"").unwrap();
        stub.execution_ms(20);
        let pending = queue.write(&tensor, 0, vec![9; 4].into()).unwrap();
        let mut pending = pin!(pending);
        let mut context = Context::from_waker(Waker::noop());
        until(
            "the future is ready",
            || matches!(nrt.transfers(), Some(transfers) if transfers.writes == 1),
        );
        let answer = loop {
            match pending.as_mut().poll(&mut context) {
                Poll::Ready(answer) => break answer,
                Poll::Pending => thread::yield_now(),
            }
        };
        answer.unwrap();
        nrt.free(tensor);
    }
}

#[test]
fn many_threads_share_a_queue() {
    for (stub, _) in ways() {
        let nrt = stub.open();
        let queue: Queue = nrt.queue(CORE).unwrap();
        thread::scope(|scope| {
            for thread in 0..8_u8 {
                let (nrt, queue) = (&nrt, &queue);
                scope.spawn(move || {
                    let tensor = nrt.allocate(Placement::Device, CORE, 16, c"").unwrap();
                    for round in 0..20_u8 {
                        let data = vec![thread ^ round; 16];
                        let written = queue.write(&tensor, 0, data.clone().into());
                        written.unwrap().wait().unwrap();
                        let read = queue.read(&tensor, 0, 16).unwrap().wait().unwrap();
                        assert_eq!(read, data);
                    }
                    nrt.free(tensor);
                });
            }
        });
        stub.assert_nothing_lives();
        assert_eq!(stub.counter("trackers"), 0);
    }
}

#[test]
fn a_buffer_of_the_callers_is_lent_and_comes_back() {
    let stub = Stub::new();
    let nrt = stub.open();
    let buffer = vec![1, 2, 3, 4, 5, 6, 7, 8].into_boxed_slice();
    let address = buffer.as_ptr();
    let tensor = nrt.attach(buffer, c"lent").unwrap();
    assert_eq!(nrt.tensor_size(&tensor), 8);
    nrt.write(&tensor, 6, &[9, 9]).unwrap();

    // A slice has the buffer too, and then a set, and then nothing.
    let slice = nrt.slice(&tensor, 0, 4, c"").unwrap();
    let tensor = nrt.detach(tensor).unwrap_err();
    nrt.free(slice);
    let mut set = nrt.tensor_set().unwrap();
    nrt.bind(&mut set, c"input0", &tensor).unwrap();
    let tensor = nrt.detach(tensor).unwrap_err();
    nrt.destroy_set(set);
    let buffer = nrt.detach(tensor).unwrap();
    assert_eq!(*buffer, [1, 2, 3, 4, 5, 6, 9, 9]);
    assert_eq!(buffer.as_ptr(), address);
    stub.assert_nothing_lives();
}

#[test]
fn a_slice_outlives_the_tensor_whose_buffer_it_shows() {
    let stub = Stub::new();
    let nrt = stub.open();
    let tensor = nrt.attach(vec![1, 2, 3, 4].into(), c"").unwrap();
    let slice = nrt.slice(&tensor, 1, 2, c"").unwrap();
    nrt.free(tensor);
    let mut out = [0; 2];
    nrt.read(&slice, 0, &mut out).unwrap();
    assert_eq!(out, [2, 3]);
    nrt.free(slice);
    stub.assert_nothing_lives();
}

#[test]
fn a_buffer_that_cannot_be_attached_comes_back() {
    let stub = Stub::new();
    let nrt = stub.open();
    let refused = nrt.attach(Box::default(), c"").unwrap_err();
    assert_eq!(refused.error.status(), Status::INVALID);
    for call in ["nrt_tensor_allocate_empty", "nrt_tensor_attach_buffer"] {
        stub.fail(call, 0, 4);
        let refused = nrt.attach(vec![5, 6].into(), c"").unwrap_err();
        assert_eq!(refused.error.status(), Status::RESOURCE);
        assert_eq!(refused.error.call(), call);
        assert_eq!(*refused.buffer, [5, 6]);
        stub.assert_nothing_lives();
    }
    // What was not attached is not detached.
    let tensor = nrt.allocate(Placement::Host, CORE, 2, c"").unwrap();
    nrt.free(nrt.detach(tensor).unwrap_err());
    stub.assert_nothing_lives();
}

#[test]
fn attached_memory_that_outlives_the_runtime_is_harmless() {
    let stub = Stub::new();
    let nrt = stub.open();
    let tensor = nrt.attach(vec![1, 2].into(), c"").unwrap();
    drop(nrt);
    let nrt = stub.open();
    let error = nrt.read(&tensor, 0, &mut [0]).unwrap_err();
    assert_eq!(error.status(), Status::INVALID_HANDLE);
    assert_eq!(*nrt.detach(tensor).unwrap(), [1, 2]);
}

#[test]
fn ranks_meet_and_gather() {
    let stub = Stub::new();
    let nrt = stub.open();
    let world = CollectiveContext::new(1, 3);
    nrt.build_communicator(Core::new(2), world).unwrap();
    assert_eq!(stub.world(), "2:1/3");
    nrt.barrier(CORE, world).unwrap();
    assert_eq!(stub.world(), "0:1/3");
    let mut out = [0; 6];
    nrt.all_gather(CORE, world, &[4, 5], &mut out).unwrap();
    assert_eq!(out, [4, 5, 4, 5, 4, 5]);

    stub.record();
    let error = nrt
        .all_gather(CORE, world, &[4, 5], &mut [0; 5])
        .unwrap_err();
    assert!(
        error.to_string().contains("5 bytes, 6 are gathered"),
        "{error}"
    );
    let beyond = nrt.barrier(CORE, CollectiveContext::new(3, 3)).unwrap_err();
    assert_eq!(beyond.status(), Status::INVALID);
    let core = nrt.barrier(Core::new(4), world).unwrap_err();
    assert_eq!(core.status(), Status::INVALID);
    assert!(stub.record().is_empty());
}

#[test]
fn models_are_counted_and_profiled() {
    let stub = Stub::new();
    let nrt = stub.open();
    let mut toy = Toy::new(&nrt).unwrap();
    assert_eq!(nrt.model_cores(&toy.model).unwrap(), 1);
    assert_eq!(nrt.model_instances(&toy.model).unwrap(), 2);

    nrt.reset_completions(&toy.output).unwrap();
    let limit = Some(Duration::from_micros(1));
    let late = nrt.check_completions(&toy.output, limit, 1).unwrap_err();
    assert_eq!(late.status(), Status::TIMEOUT);
    assert_eq!(toy.execute(&nrt).unwrap(), Completion::Clean);
    nrt.check_completions(&toy.output, None, 1).unwrap();

    nrt.start_profile(&toy.model, c"/tmp/a.ntff").unwrap();
    let other = nrt.stop_profile(c"/tmp/b.ntff").unwrap_err();
    assert_eq!(other.status(), Status::INVALID);
    nrt.stop_profile(c"/tmp/a.ntff").unwrap();

    let (first, second) = (stub.open(), request());
    let stray = first.load(&second).unwrap();
    toy.give_back(&nrt).unwrap();
    nrt.unload(stray).unwrap();
    stub.assert_nothing_lives();
}
