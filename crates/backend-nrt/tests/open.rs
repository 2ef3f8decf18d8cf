//! Opening, sharing and closing the runtime over a library in C.
#![expect(
    clippy::unwrap_used,
    reason = "a failure is the test's answer, in helpers too"
)]
#![expect(
    dead_code,
    reason = "each test program uses a part of the common module"
)]

mod common;

use std::time::Duration;

use metaneff_backend_nrt::{Framework, Notice, Nrt, NrtLibrary, OpenError, RuntimeVersion};
use metaneff_binding::{Backend, Cause, Completion, Core, Placement};
use metaneff_schema::nrt::Status;

use common::{Stub, Toy, request};

#[test]
fn a_library_answers_before_it_is_initialised() {
    let stub = Stub::with(&["-DSTUB_SOME_ASYNC"]);
    let library = NrtLibrary::open(&stub.options()).unwrap();
    assert_eq!(library.path(), stub.path().to_str().unwrap());
    assert_eq!(library.version().unwrap().to_string(), "2.20.1.7");
    assert_eq!(library.version().unwrap().detail, "stub");
    assert_eq!(library.total_cores().unwrap(), 4);
    assert_eq!(library.visible_cores().unwrap(), 4);
    assert!(library.missing_functions().is_empty());
    assert_eq!(library.async_functions().len(), 8);
    assert!(stub.record().is_empty());
    let nrt = library.init(&stub.options()).unwrap();
    assert_eq!(nrt.visible_cores(), Some(4));
    assert_eq!(nrt.notices(), [Notice::ClaimsAllCores { total: Some(4) }]);
}

#[test]
fn functions_of_later_releases_are_missed_when_they_are_called() {
    let stub = Stub::with(&["-DSTUB_OLD"]);
    let nrt = stub.open();
    let info = nrt.info();
    assert_eq!((info.version.as_str(), info.instance.as_str()), ("", ""));
    assert_eq!((info.visible_cores, info.total_cores), (0, 4));
    assert!(nrt.library().async_functions().is_empty());
    assert!(
        nrt.library()
            .missing_functions()
            .contains(&"nrt_tensor_copy")
    );

    let mut toy = Toy::new(&nrt).unwrap();
    assert_eq!(toy.execute(&nrt).unwrap(), Completion::Clean);
    let error = nrt.copy(&toy.input, 0, &toy.output, 0, 8).unwrap_err();
    let library = stub.path().to_str().unwrap();
    assert_eq!(
        *error.cause(),
        Cause::MissingSymbol {
            symbol: "nrt_tensor_copy",
            library: library.to_owned()
        }
    );
    assert_eq!(
        error.to_string(),
        format!(
            "nrt_tensor_copy answered NRT_FAILURE (1): `{library}` has no function `nrt_tensor_copy`"
        )
    );
    let missing = |error: metaneff_binding::BackendError| match error.cause() {
        Cause::MissingSymbol { symbol, .. } => *symbol,
        other => panic!("{other:?}"),
    };
    let stats = nrt.memory_stats(Core::new(0)).unwrap_err();
    assert_eq!(missing(stats), "nrt_get_vnc_memory_stats");
    let slice = nrt.slice(&toy.input, 0, 1, c"").unwrap_err();
    assert_eq!(missing(slice), "nrt_tensor_allocate_slice");
    let visible = nrt.library().visible_cores().unwrap_err();
    assert_eq!(missing(visible), "nrt_get_visible_nc_count");

    // The load asked for a core; without that nobody knows.
    assert_eq!(nrt.model_core(&toy.model).unwrap(), Core::new(0));
    let any = nrt.load(&request()).unwrap();
    assert_eq!(
        missing(nrt.model_core(&any).unwrap_err()),
        "nrt_get_model_info"
    );

    // The quantities are not known; the status is told all the same.
    stub.fail("nrt_tensor_allocate", 0, 4);
    let error = nrt
        .allocate(Placement::Device, Core::new(0), 9, c"")
        .unwrap_err();
    assert!(
        error.to_string().ends_with("9 bytes requested on core 0"),
        "{error}"
    );
}

#[test]
fn the_version_stands_beside_a_function_that_is_missing() {
    let stub = Stub::with(&["-DSTUB_NO_EXECUTE"]);
    let error = Nrt::open(&stub.options()).unwrap_err();
    let library = stub.path().to_str().unwrap().to_owned();
    assert_eq!(
        error.to_string(),
        format!(
            "`{library}` (version 2.20.1.7) has no function `nrt_execute`, which every libnrt has"
        )
    );
    assert_eq!(
        error,
        OpenError::Symbol {
            library,
            symbol: "nrt_execute",
            version: Some("2.20.1.7".to_owned()),
        }
    );
}

#[test]
fn another_major_version_is_refused_unless_it_is_asked_for() {
    let stub = Stub::with(&["-DSTUB_MAJOR=3"]);
    let error = Nrt::open(&stub.options()).unwrap_err();
    let OpenError::Version {
        found, supported, ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!((found.major, *supported), (3, 2));
    let numbers = RuntimeVersion::new(3, 20, 1, 7).to_string();
    assert!(error.to_string().contains(&numbers), "{error}");
    assert_eq!(stub.counter("inits"), 0);
    Nrt::open(&stub.options().any_version()).unwrap();
}

#[test]
fn a_missing_library_is_no_reason_to_simulate() {
    let stub = Stub::new();
    let absent = stub.folder().join("absent.so");
    let options = stub.options().library(&absent).root(stub.folder());
    let error = Nrt::open(&options).unwrap_err();
    let OpenError::NotFound { attempts, devices } = &error else {
        panic!("{error}");
    };
    // A path is tried and nothing else is.
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].library, absent);
    assert_eq!(attempts[0].exists, Some(false));
    assert_eq!(devices.usable(), 0);
}

#[test]
fn the_installed_library_is_found_below_the_root() {
    let stub = Stub::new();
    let folder = stub.folder().join("opt/aws/neuron/lib");
    std::fs::create_dir_all(&folder).unwrap();
    let installed = folder.join("libnrt.so.1");
    std::fs::copy(stub.path(), &installed).unwrap();
    let options = metaneff_backend_nrt::NrtOptions::new().root(stub.folder());
    let library = NrtLibrary::open(&options).unwrap();
    // The loader's own search comes first, where the machine has a libnrt.
    let by_loader = library.path().ends_with("libnrt.so.1");
    assert!(by_loader, "{}", library.path());
}

#[test]
fn opening_twice_shares_one_runtime() {
    let stub = Stub::new();
    let first = stub.open();
    let second = stub.open();
    let third = first.clone();
    let mut toy = Toy::new(&first).unwrap();
    drop(first);
    assert_eq!(toy.execute(&second).unwrap(), Completion::Clean);
    toy.give_back(&third).unwrap();
    drop((second, third));
    assert_eq!((stub.counter("inits"), stub.counter("closes")), (1, 1));
    stub.assert_nothing_lives();
}

#[test]
fn other_settings_after_the_start_are_an_error() {
    let stub = Stub::new();
    let nrt = Nrt::open(&stub.options().framework(Framework::PyTorch)).unwrap();
    let error = Nrt::open(&stub.options().visible_cores("0".parse().unwrap())).unwrap_err();
    assert_eq!(
        error,
        OpenError::AlreadyInitialised {
            library: stub.path().to_str().unwrap().to_owned(),
            setting: "cores",
            current: "as the environment says".to_owned(),
            requested: "cores 0".to_owned(),
        }
    );
    let same = stub.options().framework(Framework::PyTorch);
    Nrt::open(&same).unwrap();
    drop(nrt);
    // It is closed, so the next one may choose.
    Nrt::open(&stub.options().framework(Framework::MxNet)).unwrap();
    assert_eq!((stub.counter("inits"), stub.counter("closes")), (2, 2));
}

#[test]
fn handles_that_outlive_their_runtime_are_harmless() {
    let stub = Stub::new();
    let first = stub.open();
    let Toy {
        model,
        input,
        output,
        inputs,
        mut outputs,
    } = Toy::new(&first).unwrap();
    drop(first);
    assert_eq!(stub.counter("closes"), 1);
    let second = stub.open();
    stub.record();
    let mut byte = [0];
    let error = second.read(&input, 0, &mut byte).unwrap_err();
    assert_eq!(error.status(), Status::INVALID_HANDLE);
    assert!(
        error.to_string().contains("its runtime was closed"),
        "{error}"
    );
    let error = second.execute(&model, &inputs, &mut outputs).unwrap_err();
    assert_eq!(error.status(), Status::INVALID_HANDLE);
    assert_eq!(second.tensor_size(&output), 8);
    let error = second.unload(model).unwrap_err();
    assert_eq!(error.status(), Status::INVALID_HANDLE);
    second.free(input);
    second.free(output);
    second.destroy_set(inputs);
    second.destroy_set(outputs);
    assert!(stub.record().is_empty());
}

#[test]
fn handles_of_another_library_are_refused() {
    let (one, two) = (Stub::new(), Stub::new());
    let (first, second) = (one.open(), two.open());
    let tensor = first
        .allocate(Placement::Device, Core::new(0), 8, c"")
        .unwrap();
    let error = second.write(&tensor, 0, &[1]).unwrap_err();
    assert_eq!(error.status(), Status::INVALID_HANDLE);
    let mut set = second.tensor_set().unwrap();
    let error = second.bind(&mut set, c"input0", &tensor).unwrap_err();
    assert_eq!(error.status(), Status::INVALID_HANDLE);
    assert_eq!(two.counter("sets"), 1);
    first.free(tensor);
    assert_eq!(one.counter("tensors"), 0);
}

#[test]
fn an_initialisation_that_fails_tells_of_the_devices_and_can_be_repeated() {
    let stub = Stub::new();
    let dev = stub.folder().join("dev");
    let descriptors = stub.folder().join("proc/4242/fd");
    std::fs::create_dir_all(&dev).unwrap();
    std::fs::create_dir_all(&descriptors).unwrap();
    std::fs::write(dev.join("neuron0"), "").unwrap();
    std::os::unix::fs::symlink(dev.join("neuron0"), descriptors.join("3")).unwrap();
    let options = stub.options().root(stub.folder());
    stub.fail("nrt_init", 0, 1);
    let error = Nrt::open(&options).unwrap_err();
    let text = error.to_string();
    for fact in [
        "nrt_init of `",
        "NRT_FAILURE (1) after 1 attempts",
        "1 of 1 ",
        "process 4242 has ",
        "dev/neuron0 open",
    ] {
        assert!(text.contains(fact), "{fact}: {text}");
    }
    stub.fail("nrt_init", 0, 1);
    Nrt::open(&options.clone().retry(3, Duration::from_millis(1))).unwrap();
    assert_eq!(stub.counter("inits"), 1);
    // A bad argument does not pass.
    stub.record();
    stub.fail("nrt_init", 0, 2);
    let error = Nrt::open(&options.retry(3, Duration::from_millis(1))).unwrap_err();
    assert!(matches!(
        error,
        OpenError::Init {
            attempts: 1,
            status: Status::INVALID,
            ..
        }
    ));
    assert_eq!(stub.record(), ["nrt_init"]);
}

#[test]
fn many_threads_open_and_close_one_library() {
    let stub = Stub::new();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let nrt = stub.open();
                    Toy::new(&nrt).unwrap().give_back(&nrt).unwrap();
                }
            });
        }
    });
    assert_eq!(stub.counter("inits"), stub.counter("closes"));
    stub.assert_nothing_lives();
}

#[test]
fn the_choice_of_cores_is_an_error_where_the_environment_cannot_change() {
    // The test harness has several threads.
    let stub = Stub::new();
    let error = Nrt::open(&stub.options().visible_cores("1-2".parse().unwrap())).unwrap_err();
    let OpenError::Environment {
        variable,
        wanted,
        threads,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(*variable, "NEURON_RT_VISIBLE_CORES");
    assert_eq!(wanted.as_deref(), Some("1-2"));
    assert!(*threads > 1);
    let error = Nrt::open(&stub.options().visible_cores("3-4".parse().unwrap())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "NEURON_RT_VISIBLE_CORES is `3-4`: core 4 is named, but the instance has 4 cores"
    );
    assert_eq!(stub.counter("inits"), 0);
}
