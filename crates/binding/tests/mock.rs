//! How a user of this crate tests what stands on it, with the feature `mock`.

use metaneff_binding::testing::{MockBackend, MockHandle, add_model};
use metaneff_binding::{Backend, BackendError, Core, Error, LoadError, Runtime};
use metaneff_schema::nrt::Status;

/// What a user might write: loads on the first core that is free.
fn load_anywhere<B: Backend>(runtime: &Runtime<B>, cores: u32) -> Result<Core, Error> {
    let artifact = add_model();
    let mut last = None;
    for core in (0..cores).map(Core::new) {
        match runtime.load(&artifact, core) {
            Ok(model) => return Ok(model.core()),
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(
        || BackendError::new("nrt_load", Status::LOAD_NOT_ENOUGH_NC).into(),
        Error::from,
    ))
}

#[test]
fn a_busy_core_is_passed_over() {
    let mut mock = MockBackend::new();
    mock.expect_load().times(2).returning(|request| {
        if request.core == Some(Core::new(0)) {
            Err(BackendError::new("nrt_load", Status::EXEC_NC_BUSY))
        } else {
            Ok(MockHandle(7))
        }
    });
    mock.expect_model_core()
        .once()
        .returning(|_| Ok(Core::new(1)));
    mock.expect_model_tensors().once().returning(|_| {
        use metaneff_binding::{Side, TensorInfo};
        use metaneff_schema::nrt::NrtDtype;
        let tensor = |name, side| TensorInfo::new(name, side, 8, NrtDtype::FLOAT32, vec![2]);
        Ok(vec![
            tensor("input0", Side::Input),
            tensor("input1", Side::Input),
            tensor("output0", Side::Output),
        ])
    });
    mock.expect_unload()
        .once()
        .withf(|model| *model == MockHandle(7))
        .returning(|_| Ok(()));
    let runtime = Runtime::new(mock);
    assert_eq!(load_anywhere(&runtime, 2).unwrap(), Core::new(1));
}

#[test]
fn the_last_refusal_is_reported() {
    let mut mock = MockBackend::new();
    mock.expect_load()
        .times(2)
        .returning(|_| Err(BackendError::new("nrt_load", Status::EXEC_NC_BUSY)));
    let runtime = Runtime::new(mock);
    let error = load_anywhere(&runtime, 2).unwrap_err();
    assert!(matches!(
        error,
        Error::Load(LoadError::Backend(error)) if error.status() == Status::EXEC_NC_BUSY
    ));
}
