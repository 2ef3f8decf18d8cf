//! Outputs cannot be read after the next launch has begun.

use metaneff_binding::{Backend, Error, Session};

fn run<B: Backend>(session: &mut Session<'_, B>) -> Result<(), Error> {
    let outputs = session.bind(())?.execute(())?.tolerate_nan().into_outputs();
    let ready = session.bind(())?;
    outputs.get(0)?;
    ready.execute(())?.tolerate_nan().into_outputs();
    Ok(())
}

fn main() {}
