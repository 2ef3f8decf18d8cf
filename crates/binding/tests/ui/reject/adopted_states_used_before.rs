//! States that went to another bucket are gone here.

use metaneff_binding::{Backend, Error, Session, States};

fn run<'rt, B: Backend>(
    prefill: &mut Session<'rt, B>,
    decode: &mut Session<'rt, B>,
    states: States<'rt, B>,
) -> Result<(), Error> {
    let moved = decode.adopt_states(states)?;
    prefill.bind(())?.execute(states)?.tolerate_nan().into_outputs();
    decode.bind(())?.execute(moved)?.tolerate_nan().into_outputs();
    Ok(())
}

fn main() {}
