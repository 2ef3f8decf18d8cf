//! A launch is executed once.

use metaneff_binding::{Backend, Error, Session};

fn run<B: Backend>(session: &mut Session<'_, B>) -> Result<(), Error> {
    let ready = session.bind(())?;
    ready.execute(())?.tolerate_nan().into_outputs();
    ready.execute(())?.tolerate_nan().into_outputs();
    Ok(())
}

fn main() {}
