//! States are gone after the launch that took them.

use metaneff_binding::{Backend, Error, Session, States};

fn run<'rt, B: Backend>(
    session: &mut Session<'rt, B>,
    states: States<'rt, B>,
) -> Result<(), Error> {
    session.bind(())?.execute(states)?.tolerate_nan().into_outputs();
    states.get(0)?.to_vec::<f32>()?;
    Ok(())
}

fn main() {}
