//! One value of states starts one launch.

use metaneff_binding::{Backend, Error, Session, States};

fn run<'rt, B: Backend>(
    a: &mut Session<'rt, B>,
    b: &mut Session<'rt, B>,
    states: States<'rt, B>,
) -> Result<(), Error> {
    a.bind(())?.execute(states.clone())?.tolerate_nan().into_outputs();
    b.bind(())?.execute(states)?.tolerate_nan().into_outputs();
    Ok(())
}

fn main() {}
