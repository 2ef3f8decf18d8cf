//! The cases on backends that are wrong: a case that holds on one of these shows
//! nothing about backends.

use std::ffi::CStr;

use metaneff_binding::testing::Fake;
use metaneff_binding::{
    Backend, BackendError, BackendInfo, Completion, Core, LoadRequest, MemoryStats, Placement,
    TensorInfo,
};
use metaneff_conformance::{Setup, Target, Unavailable, Verdict, cases, run};
use metaneff_schema::nrt::Status;

/// A backend that refuses every call.
#[derive(Debug)]
struct Refusing;

/// What a [`Refusing`] backend would hand out: there is none.
#[derive(Debug)]
enum Nothing {}

type Refused<T> = Result<T, BackendError>;

fn refuse<T>() -> Refused<T> {
    Err(BackendError::new("refused", Status::FAILURE))
}

impl Backend for Refusing {
    type Tensor = Nothing;
    type TensorSet = Nothing;
    type Model = Nothing;

    fn info(&self) -> BackendInfo {
        BackendInfo::new("refusing", 0, 0)
    }

    fn load(&self, _: &LoadRequest) -> Refused<Nothing> {
        refuse()
    }

    fn unload(&self, model: Nothing) -> Refused<()> {
        match model {}
    }

    fn model_tensors(&self, model: &Nothing) -> Refused<Vec<TensorInfo>> {
        match *model {}
    }

    fn model_core(&self, model: &Nothing) -> Refused<Core> {
        match *model {}
    }

    fn allocate(&self, _: Placement, _: Core, _: usize, _: &CStr) -> Refused<Nothing> {
        refuse()
    }

    fn slice(&self, tensor: &Nothing, _: usize, _: usize, _: &CStr) -> Refused<Nothing> {
        match *tensor {}
    }

    fn free(&self, tensor: Nothing) {
        match tensor {}
    }

    fn tensor_size(&self, tensor: &Nothing) -> usize {
        match *tensor {}
    }

    fn write(&self, tensor: &Nothing, _: usize, _: &[u8]) -> Refused<()> {
        match *tensor {}
    }

    fn read(&self, tensor: &Nothing, _: usize, _: &mut [u8]) -> Refused<()> {
        match *tensor {}
    }

    fn copy(&self, source: &Nothing, _: usize, _: &Nothing, _: usize, _: usize) -> Refused<()> {
        match *source {}
    }

    fn tensor_set(&self) -> Refused<Nothing> {
        refuse()
    }

    fn bind(&self, set: &mut Nothing, _: &CStr, _: &Nothing) -> Refused<()> {
        match *set {}
    }

    fn destroy_set(&self, set: Nothing) {
        match set {}
    }

    fn execute(&self, model: &Nothing, _: &Nothing, _: &mut Nothing) -> Refused<Completion> {
        match *model {}
    }

    fn memory_stats(&self, _: Core) -> Refused<MemoryStats> {
        refuse()
    }
}

impl Target for Refusing {
    type Backend = Self;

    fn name(&self) -> &'static str {
        "refusing"
    }

    fn open(&self, _setup: &Setup) -> Result<Self, Unavailable> {
        Ok(Self)
    }
}

/// A backend that executes nothing: outputs stay as they were.
struct Idle;

impl Target for Idle {
    type Backend = Fake;

    fn name(&self) -> &'static str {
        "idle"
    }

    fn open(&self, _setup: &Setup) -> Result<Fake, Unavailable> {
        Ok(Fake::new().with_program(|_| {}))
    }
}

fn passed<T: Target>(target: &T) -> Vec<&'static str> {
    let report = run(target, &cases(), &[], |_| true);
    let rows = report.rows.iter();
    rows.filter(|row| row.verdict == Verdict::Passed)
        .map(|row| row.case)
        .collect()
}

/// Cases that hold although every call is refused, and why that is right.
const WITHOUT_CALLS: &[(&str, &str)] = &[
    ("wire/content/length", FILES),
    ("graph/opcode/unknown", SILENT),
    ("graph/custom_call/unknown", SILENT),
    ("graph/contract/count", FILES),
    ("graph/contract/shape", FILES),
    ("graph/contract/dtype", FILES),
    ("graph/contract/alias_only_here", FILES),
    ("graph/contract/alias_only_there", FILES),
    ("info/counted/transfers", "a backend need not count"),
    (
        "info/timeout/none_or_positive",
        "a backend need not have a limit",
    ),
];

const FILES: &str = "the files are refused before a backend is asked";
const SILENT: &str = "a library may refuse without a reason";

#[test]
fn hardly_a_case_holds_on_a_backend_that_refuses_everything() {
    let allowed: Vec<_> = WITHOUT_CALLS.iter().map(|(case, _)| *case).collect();
    assert_eq!(passed(&Refusing), allowed);
}

/// Groups whose cases are about what a launch computes.
const COMPUTED: &[&str] = &["dtype", "execute", "weights", "dynamic", "async", "spmd"];

/// Cases of them that hold although nothing is computed.
const NOTHING_COMPUTED: &[(&str, &str)] = &[
    ("execute/completion/hidden_nan", "is about the completion"),
    ("weights/missing/named", "nothing is launched"),
    ("dynamic/rows/none", "nothing is launched"),
    ("dynamic/rows/inconsistent", "nothing is launched"),
    ("spmd/bind/all_or_none", "nothing is launched"),
    ("spmd/world/bounds", "nothing is launched"),
];

#[test]
fn cases_about_numbers_fail_where_nothing_is_computed() {
    let mut passed = passed(&Idle);
    passed.retain(|case| {
        COMPUTED
            .iter()
            .any(|group| case.split('/').next() == Some(group))
    });
    let allowed: Vec<_> = NOTHING_COMPUTED.iter().map(|(case, _)| *case).collect();
    assert_eq!(passed, allowed);
}
