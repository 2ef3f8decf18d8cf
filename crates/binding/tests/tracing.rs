//! The spans of an observed backend. Alone in its program, for who listens is
//! decided once in a process.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use metaneff_binding::testing::{Fake, add_model};
use metaneff_binding::{Core, Error, HostTensor, Observed, Runtime};
use metaneff_schema::nrt::Status;
use tracing_subscriber::fmt::format::FmtSpan;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One launch of the sum of two inputs; what is written is refused if it is
/// negative.
fn launch(value: f32) -> Result<(), Error> {
    let fake = Fake::new().with_program(|launch| {
        if launch.f32s("input0")[0] < 0.0 {
            launch.status = Status::EXEC_OOB;
        }
    });
    let (backend, _) = Observed::new(fake);
    let runtime = Runtime::new(backend);
    let model = runtime.load(&add_model(), Core::new(2))?;
    let mut session = model.session()?;
    let row = || HostTensor::from_vec([2], vec![value; 2]);
    let a = session.slot(0)?.validate(row()?)?;
    let b = session.slot(1)?.validate(row()?)?;
    let executed = session.bind([a, b])?.execute(())?;
    executed
        .tolerate_nan()
        .into_outputs()
        .get(0)?
        .to_vec::<f32>()?;
    Ok(())
}

#[test]
fn each_call_is_a_span_with_its_slot_bytes_and_status() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    launch(1.0).unwrap();
    assert!(matches!(launch(-1.0), Err(Error::Execute(_))));

    let bytes = log.0.lock().unwrap().clone();
    let text = String::from_utf8(bytes).unwrap();
    let holds = |parts: &[&str]| {
        let found = text
            .lines()
            .any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found, "{parts:?} in {text}");
    };
    holds(&["load{core=2", "status=0"]);
    holds(&["allocate{slot=\"output0\"", "core=2 bytes=8 status=0"]);
    holds(&["write{slot=\"input1\"", "core=2 bytes=8 status=0"]);
    holds(&["bind{slot=\"input0\""]);
    holds(&["read{slot=\"output0\"", "core=2 bytes=8 status=0"]);
    holds(&["execute{core=2", "status=1006"]);
    holds(&["WARN", "NRT_EXEC_OOB"]);
    holds(&["unload{core=2"]);
}
