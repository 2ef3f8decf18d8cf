//! States of all ranks start one launch.

use metaneff_binding::{Backend, Error, SpmdInputs, SpmdSession, SpmdStates};

fn run<'rt, B: Backend>(
    session: &mut SpmdSession<'rt, B>,
    states: SpmdStates<'rt, B>,
) -> Result<(), Error> {
    session.execute(SpmdInputs::replicated(vec![]), states)?.tolerate_nan();
    session.execute(SpmdInputs::replicated(vec![]), states)?.tolerate_nan();
    Ok(())
}

fn main() {}
