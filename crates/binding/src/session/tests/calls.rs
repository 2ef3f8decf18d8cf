//! What a backend is asked, and in which order.

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mockall::Sequence;
use mockall::predicate::{always, eq};

use super::*;
use crate::testing::{MockBackend, MockHandle};
use crate::{Backend, BackendError, Completion, Placement};

#[test]
fn a_launch_follows_the_native_order() {
    let (fake, runtime) = runtime(count);
    let model = runtime.load(&counter(false), core()).unwrap();
    assert_eq!(fake.take_calls(), ["load"]);
    let mut session = model.session().unwrap();
    assert_eq!(
        fake.take_calls(),
        [
            "tensor_set",
            "tensor_set",
            "allocate input0",
            "allocate output0"
        ]
    );
    let mut states = session.zero_states().unwrap();
    assert_eq!(fake.take_calls(), ["allocate input1"]);

    let expected: [&[&str]; 3] = [
        &[
            "write input0",
            "bind input0",
            "bind input1",
            "bind output0",
            "bind output1",
            "execute",
        ],
        // Nothing has changed, so nothing is bound.
        &["write input0", "execute"],
        &["write input0", "execute"],
    ];
    for calls in expected {
        let x = input(&session, 0, &[1.0, 2.0]);
        let ready = session.bind([x]).unwrap();
        states = ready.execute(states).unwrap().tolerate_nan().into_parts().1;
        assert_eq!(fake.take_calls(), calls);
    }

    // Other states: two binds more, for the state and for its successor.
    let other = session.zero_states().unwrap();
    let _ = fake.take_calls();
    let x = input(&session, 0, &[1.0, 2.0]);
    let ready = session.bind([x]).unwrap();
    drop(ready.execute(other).unwrap());
    assert_eq!(
        fake.take_calls(),
        [
            "write input0",
            "bind input1",
            "bind output1",
            "execute",
            "free input1"
        ]
    );

    drop(states);
    drop(model);
    drop(session);
    assert_eq!(
        fake.take_calls(),
        [
            "free input1",
            "destroy_set",
            "destroy_set",
            "free input0",
            "free output0",
            "unload"
        ]
    );
}

/// A mock that loads a model as handle 1 and hands out handles from 10 on.
fn mock() -> MockBackend {
    let mut mock = MockBackend::new();
    let next = Arc::new(AtomicU64::new(10));
    mock.expect_load().times(1).returning(|_| Ok(MockHandle(1)));
    mock.expect_model_core().returning(|_| Ok(core()));
    mock.expect_model_tensors().returning(|_| {
        let missing = crate::Cause::MissingSymbol {
            symbol: "nrt_get_model_tensor_info",
            library: String::new(),
        };
        Err(BackendError::new("nrt_get_model_tensor_info", Status::FAILURE).because(missing))
    });
    let counter = Arc::clone(&next);
    mock.expect_tensor_set()
        .times(2)
        .returning(move || Ok(MockHandle(counter.fetch_add(1, Ordering::Relaxed))));
    mock.expect_allocate()
        .times(2)
        .withf(|placement, on, size, _| {
            *placement == Placement::Device && *on == core() && *size == 8
        })
        .returning(move |_, _, _, _| Ok(MockHandle(next.fetch_add(1, Ordering::Relaxed))));
    mock
}

#[test]
fn a_mock_sees_every_argument() {
    let (input_set, output_set) = (MockHandle(10), MockHandle(11));
    let (x, y) = (MockHandle(12), MockHandle(13));
    let mut mock = mock();
    let mut order = Sequence::new();
    mock.expect_write()
        .once()
        .in_sequence(&mut order)
        .withf(move |tensor, offset, data| {
            *tensor == x && *offset == 0 && data == [0, 0, 128, 63, 0, 0, 0, 64]
        })
        .returning(|_, _, _| Ok(()));
    let bind = |mock: &mut MockBackend, order: &mut Sequence, set, name: &'static CStr, tensor| {
        mock.expect_bind()
            .once()
            .in_sequence(order)
            .withf(move |s, n, t| *s == set && n == name && *t == tensor)
            .returning(|_, _, _| Ok(()));
    };
    bind(&mut mock, &mut order, input_set, c"input0", x);
    bind(&mut mock, &mut order, output_set, c"output0", y);
    mock.expect_execute()
        .once()
        .in_sequence(&mut order)
        .with(eq(MockHandle(1)), eq(input_set), eq(output_set))
        .returning(|_, _, _| Ok(Completion::NumericalError));
    mock.expect_read()
        .once()
        .in_sequence(&mut order)
        .with(eq(y), eq(0), always())
        .returning(|_, _, out| {
            out.copy_from_slice(&[0, 0, 192, 127, 0, 0, 0, 0]);
            Ok(())
        });
    for set in [input_set, output_set] {
        mock.expect_destroy_set()
            .once()
            .in_sequence(&mut order)
            .with(eq(set))
            .return_const(());
    }
    for tensor in [x, y] {
        mock.expect_free()
            .once()
            .in_sequence(&mut order)
            .with(eq(tensor))
            .return_const(());
    }
    mock.expect_unload()
        .once()
        .in_sequence(&mut order)
        .with(eq(MockHandle(1)))
        .returning(|_| Ok(()));

    let runtime = Runtime::new(mock);
    let artifact = model(&contract(&[(USER, &[2])], &[&[2]], &[], false)).unwrap();
    let model = runtime.load(&artifact, core()).unwrap();
    let mut session = model.session().unwrap();
    let elements = [1.0_f32, 2.0];
    let tensor = HostTensor::from_slice([2], &elements).unwrap();
    let tensor = session.slot(0).unwrap().validate(tensor).unwrap();
    let executed = session.bind([tensor]).unwrap().execute(()).unwrap();
    assert_eq!(executed.completion(), Completion::NumericalError);
    let outputs = executed.tolerate_nan().into_outputs();
    assert!(outputs.get(0).unwrap().to_vec::<f32>().unwrap()[0].is_nan());
    drop(session);
    drop(model);
}

#[test]
fn the_graph_travels_with_the_load() {
    let mut mock = MockBackend::new();
    mock.expect_load()
        .once()
        .withf(|request| {
            request.core == Some(Core::new(3))
                && request.neff == "neff"
                && request.graph.as_deref() == Some(b"graph".as_slice())
        })
        .returning(|_| Err(BackendError::new("nrt_load", Status::LOAD_NOT_ENOUGH_NC)));
    let mut message = contract(&[(USER, &[2])], &[&[2]], &[], false);
    message.serialized_graph_def = "graph".into();
    let options = crate::ContractOptions::new().without_graph();
    let contract = crate::Contract::new(&message, &options).unwrap();
    let artifact = Artifact::from_contract("neff", contract);
    let runtime = Runtime::new(mock);
    let error = runtime.load(&artifact, Core::new(3)).unwrap_err();
    assert!(matches!(
        error,
        crate::LoadError::Backend(error) if error.status() == Status::LOAD_NOT_ENOUGH_NC
    ));
}

#[test]
fn a_handle_of_another_backend_is_answered() {
    let (one, two) = (
        crate::AnyBackend::new(Fake::new()),
        crate::AnyBackend::new(MockBackend::new()),
    );
    let tensor = one.allocate(Placement::Device, core(), 4, c"x").unwrap();
    let error = two.write(&tensor, 0, &[1]).unwrap_err();
    assert_eq!(error.status(), Status::INVALID_HANDLE);
    assert_eq!(two.tensor_size(&tensor), 0);
    assert_eq!(one.tensor_size(&tensor), 4);
    one.free(tensor);
}
