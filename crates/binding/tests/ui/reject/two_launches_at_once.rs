//! A session runs one launch at a time.

use metaneff_binding::{Backend, Error, Session};

fn run<B: Backend>(session: &mut Session<'_, B>) -> Result<(), Error> {
    let first = session.bind(())?;
    let second = session.bind(())?;
    first.execute(())?.tolerate_nan().into_outputs();
    second.execute(())?.tolerate_nan().into_outputs();
    Ok(())
}

fn main() {}
