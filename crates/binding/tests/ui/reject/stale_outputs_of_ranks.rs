//! Outputs of ranks cannot be read after the next launch has begun.

use metaneff_binding::{Backend, Error, SpmdInputs, SpmdSession};

fn run<B: Backend>(session: &mut SpmdSession<'_, B>) -> Result<(), Error> {
    let first = session.execute(SpmdInputs::replicated(vec![]), ())?;
    let (outputs, _) = first.tolerate_nan().into_parts();
    session.execute(SpmdInputs::replicated(vec![]), ())?.tolerate_nan();
    outputs.first().get(0)?;
    Ok(())
}

fn main() {}
