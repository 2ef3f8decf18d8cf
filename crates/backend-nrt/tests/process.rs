//! What takes a process of its own: stacks, fork, the environment.
//!
//! Every scenario runs in a child of this program, on its only thread.
#![expect(
    clippy::unwrap_used,
    reason = "a failure is the test's answer, in helpers too"
)]
#![expect(
    dead_code,
    reason = "each test program uses a part of the common module"
)]

mod common;

use std::num::NonZeroU32;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::thread;

use libtest_mimic::{Arguments, Trial};
use metaneff_backend_nrt::{Nrt, NrtLibrary, OpenError};
use metaneff_binding::{Backend, BackendError, Cause, Completion, Core, Placement};
use metaneff_schema::nrt::Status;

use common::{Stub, Toy};

/// Names the scenario that a child runs.
const SCENARIO: &str = "METANEFF_NRT_SCENARIO";

const VISIBLE: &str = "NEURON_RT_VISIBLE_CORES";
const NUMBER: &str = "NEURON_RT_NUM_CORES";

struct Scenario {
    name: &'static str,
    environment: &'static [(&'static str, &'static str)],
    /// The signal that ends it, or 0.
    signal: i32,
    run: fn(),
}

const SCENARIOS: &[Scenario] = &[
    scenario("a_small_stack_is_grown", &[], small_stack),
    scenario("a_normal_stack_is_grown", &[], normal_stack),
    scenario("the_main_stack_is_grown", &[], main_stack),
    Scenario {
        name: "without_a_stack_of_its_own_the_call_would_crash",
        environment: &[],
        signal: libc::SIGSEGV,
        run: no_stack,
    },
    scenario("a_forked_child_is_refused", &[], fork),
    scenario("a_child_may_open_what_its_parent_did_not", &[], fork_before),
    scenario("visible_cores_are_set", &[], visible_cores),
    scenario("a_number_of_cores_is_set", &[(VISIBLE, "0-2")], core_count),
    scenario(
        "all_cores_are_taken",
        &[(VISIBLE, "1"), (NUMBER, "1")],
        all_cores,
    ),
    scenario("the_environment_chooses", &[(VISIBLE, "1-2")], inherited),
    scenario(
        "what_is_set_already_needs_no_change",
        &[(VISIBLE, "1,2")],
        already_set,
    ),
    scenario(
        "an_environment_that_is_wrong_is_told",
        &[(VISIBLE, "0,2")],
        wrong,
    ),
    scenario("a_promise_lets_the_environment_change", &[], promised),
    scenario(
        "the_time_limit_is_told",
        &[("NEURON_RT_EXEC_TIMEOUT", "7")],
        time_limit,
    ),
];

const fn scenario(
    name: &'static str,
    environment: &'static [(&'static str, &'static str)],
    run: fn(),
) -> Scenario {
    Scenario {
        name,
        environment,
        signal: 0,
        run,
    }
}

fn main() {
    if let Ok(name) = std::env::var(SCENARIO) {
        let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name);
        (scenario.unwrap().run)();
        return;
    }
    let trials = SCENARIOS
        .iter()
        .map(|scenario| Trial::test(scenario.name, || start(scenario)))
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn start(scenario: &Scenario) -> Result<(), libtest_mimic::Failed> {
    let output = Command::new(std::env::current_exe()?)
        .env_remove(VISIBLE)
        .env_remove(NUMBER)
        .env_remove("NEURON_RT_EXEC_TIMEOUT")
        .envs(scenario.environment.iter().copied())
        .env(SCENARIO, scenario.name)
        .output()?;
    let ended = match scenario.signal {
        0 => output.status.success(),
        signal => output.status.signal() == Some(signal),
    };
    if ended {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("{}: {text}", output.status).into())
}

/// Every deep call, in a library that touches 4,194,016 bytes of stack in each.
fn deep_calls(stub: &Stub) {
    stub.touch_stack();
    let nrt = stub.open();
    let mut toy = Toy::new(&nrt).unwrap();
    assert_eq!(toy.execute(&nrt).unwrap(), Completion::Clean);
    let answer = nrt.execute_repeat(&toy.model, &toy.inputs, &mut toy.outputs, 2);
    assert_eq!(answer.unwrap(), Completion::Clean);
    toy.give_back(&nrt).unwrap();
    stub.assert_nothing_lives();
}

fn on_thread(size: usize, run: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let builder = thread::Builder::new().stack_size(size);
        builder.spawn_scoped(scope, run).unwrap().join().unwrap();
    });
}

fn small_stack() {
    let stub = Stub::new();
    on_thread(64 << 10, || deep_calls(&stub));
}

fn normal_stack() {
    let stub = Stub::new();
    on_thread(2 << 20, || deep_calls(&stub));
}

fn main_stack() {
    deep_calls(&Stub::new());
}

fn no_stack() {
    let stub = Stub::new();
    stub.touch_stack();
    let options = stub.options().stack_size(256 << 10);
    // The call gets a stack of 256 KiB, with a guard page at its end.
    on_thread(64 << 10, || drop(Nrt::open(&options)));
}

/// Runs `child` in a fork of this process, and ends the fork if it hangs.
fn forked(child: impl FnOnce()) {
    // SAFETY: this process has one thread, so no lock is held for ever.
    let process = unsafe { libc::fork() };
    assert!(process >= 0);
    if process == 0 {
        // SAFETY: it asks for a signal.
        unsafe { libc::alarm(20) };
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        // SAFETY: it ends the process without the parent's exit handlers.
        unsafe { libc::_exit(i32::from(answer.is_err())) };
    }
    let mut status = 0;
    // SAFETY: the call writes one number.
    let waited = unsafe { libc::waitpid(process, &raw mut status, 0) };
    assert_eq!((waited, status), (process, 0));
}

/// Asserts that a call was refused because this is a child of `parent`.
fn is_refused<T>(answer: Result<T, BackendError>, parent: u32) {
    let error = answer.map(drop).unwrap_err();
    assert_eq!(error.status(), Status::UNINITIALIZED);
    let child = std::process::id();
    assert_eq!(*error.cause(), Cause::Forked { parent, child });
}

fn fork() {
    let stub = Stub::new();
    let nrt = stub.open();
    let toy = Toy::new(&nrt).unwrap();
    // The child takes these; the parent's copy stays where it is.
    let mut taken = Some((Toy::new(&nrt).unwrap(), nrt));
    let parent = std::process::id();
    stub.record();
    forked(|| {
        let (handles, nrt) = taken.take().unwrap();
        let Toy {
            model,
            input,
            output,
            inputs,
            mut outputs,
        } = handles;
        let core = Core::new(0);
        is_refused(nrt.load(&common::request()), parent);
        is_refused(nrt.model_tensors(&model), parent);
        is_refused(nrt.model_core(&model), parent);
        is_refused(nrt.allocate(Placement::Device, core, 8, c""), parent);
        is_refused(nrt.slice(&input, 0, 1, c""), parent);
        is_refused(nrt.write(&input, 0, &[1]), parent);
        is_refused(nrt.read(&input, 0, &mut [0]), parent);
        is_refused(nrt.copy(&input, 0, &output, 0, 1), parent);
        is_refused(nrt.tensor_set(), parent);
        is_refused(nrt.bind(&mut outputs, c"output0", &output), parent);
        is_refused(nrt.execute(&model, &inputs, &mut outputs), parent);
        is_refused(nrt.memory_stats(core), parent);
        is_refused(nrt.library().visible_cores(), parent);
        is_refused(nrt.unload(model), parent);
        nrt.free(input);
        nrt.destroy_set(inputs);
        let error = Nrt::open(&stub.options()).unwrap_err();
        let child = std::process::id();
        assert_eq!(error, OpenError::Forked { parent, child });
        drop((output, outputs, nrt.clone()));
        drop(nrt);
        assert!(stub.record().is_empty());
    });
    // The parent goes on.
    let (handles, nrt) = taken.unwrap();
    handles.give_back(&nrt).unwrap();
    drop(stub.open());
    assert_eq!(stub.counter("inits"), 1);
    let mut toy = toy;
    assert_eq!(toy.execute(&nrt).unwrap(), Completion::Clean);
    toy.give_back(&nrt).unwrap();
}

fn fork_before() {
    let stub = Stub::new();
    let library = NrtLibrary::open(&stub.options()).unwrap();
    forked(|| {
        assert_eq!(library.total_cores().unwrap(), 4);
        let nrt = library.init(&stub.options()).unwrap();
        Toy::new(&nrt).unwrap().give_back(&nrt).unwrap();
    });
    assert_eq!(stub.counter("inits"), 0);
    stub.open();
}

fn visible_cores() {
    let stub = Stub::new();
    let options = stub.options().visible_cores("1-2".parse().unwrap());
    let nrt = Nrt::open(&options).unwrap();
    assert_eq!(nrt.visible_cores(), Some(2));
    assert_eq!(std::env::var(VISIBLE).unwrap(), "1-2");
    assert!(nrt.notices().is_empty());
    // The cores were read once.
    // SAFETY: this process has one thread.
    unsafe { std::env::set_var(VISIBLE, "0-3") };
    assert_eq!(nrt.library().visible_cores().unwrap(), 2);
    let error = Nrt::open(&stub.options().all_cores()).unwrap_err();
    assert!(
        matches!(
            error,
            OpenError::AlreadyInitialised {
                setting: "cores",
                ..
            }
        ),
        "{error}"
    );
    let error = nrt.load(&common::request().on(Core::new(2))).unwrap_err();
    assert_eq!(error.status(), Status::INVALID);
}

fn core_count() {
    let stub = Stub::new();
    let one = NonZeroU32::MIN;
    let nrt = Nrt::open(&stub.options().core_count(one)).unwrap();
    assert_eq!(nrt.visible_cores(), Some(1));
    assert!(std::env::var_os(VISIBLE).is_none());
    drop(nrt);
    let five = NonZeroU32::new(5).unwrap();
    let error = Nrt::open(&stub.options().core_count(five)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "NEURON_RT_NUM_CORES is `5`: 5 cores are asked for, but the instance has 4"
    );
}

fn all_cores() {
    let nrt = Nrt::open(&Stub::new().options().all_cores()).unwrap();
    assert_eq!(nrt.visible_cores(), Some(4));
    assert!(nrt.notices().is_empty());
}

fn inherited() {
    let nrt = Stub::new().open();
    assert_eq!(nrt.visible_cores(), Some(2));
    assert!(nrt.notices().is_empty());
}

fn already_set() {
    let stub = Stub::new();
    on_thread(2 << 20, || {
        let options = stub.options().visible_cores("1-2".parse().unwrap());
        // The stub knows no lists and takes this one for a single core.
        let error = Nrt::open(&options).unwrap_err();
        assert!(
            matches!(
                error,
                OpenError::CoreCount {
                    requested: 2,
                    visible: 1,
                    ..
                }
            ),
            "{error}"
        );
    });
    assert_eq!(std::env::var(VISIBLE).unwrap(), "1,2");
    assert_eq!((stub.counter("inits"), stub.counter("closes")), (1, 1));
}

fn wrong() {
    let stub = Stub::new();
    let error = Nrt::open(&stub.options()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "NEURON_RT_VISIBLE_CORES is `0,2`: `2` leaves a gap: core 1 is missing"
    );
    assert_eq!(stub.counter("inits"), 0);
}

fn promised() {
    let stub = Stub::new();
    on_thread(2 << 20, || {
        let options = stub.options().visible_cores("3".parse().unwrap());
        let refused = Nrt::open(&options).unwrap_err();
        assert!(
            matches!(refused, OpenError::Environment { threads: 2, .. }),
            "{refused}"
        );
        // SAFETY: the other thread waits for this one.
        let options = unsafe { options.assume_environment_unshared() };
        assert_eq!(Nrt::open(&options).unwrap().visible_cores(), Some(1));
    });
}

fn time_limit() {
    let stub = Stub::new();
    let nrt = stub.open();
    assert_eq!(nrt.execution_timeout().unwrap().as_secs(), 7);
    let mut toy = Toy::new(&nrt).unwrap();
    stub.fail("nrt_execute", 0, 5);
    let error = toy.execute(&nrt).unwrap_err();
    assert!(
        matches!(error.cause(), Cause::Deadline { limit_ms: 7000, .. }),
        "{error}"
    );
}
