//! Outputs are read after the caller has said what a NaN means.

use metaneff_binding::{Backend, Error, Session};

fn run<B: Backend>(session: &mut Session<'_, B>) -> Result<(), Error> {
    let (outputs, _) = session.bind(())?.execute(())?.into_parts();
    outputs.get(0)?;
    Ok(())
}

fn main() {}
