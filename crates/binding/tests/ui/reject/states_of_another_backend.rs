//! States of one backend are none of another.

use metaneff_binding::testing::Fake;
use metaneff_binding::{AnyBackend, Error, Session, States};

fn run<'rt>(
    session: &mut Session<'rt, AnyBackend>,
    states: States<'rt, Fake>,
) -> Result<(), Error> {
    session.bind(())?.execute(states)?.tolerate_nan().into_outputs();
    Ok(())
}

fn main() {}
