//! A completion that nobody looks at is noticed, with the states in it.

#![deny(unused_must_use)]

use metaneff_binding::{Backend, Error, Session, States};

fn run<'rt, B: Backend>(
    session: &mut Session<'rt, B>,
    states: States<'rt, B>,
) -> Result<(), Error> {
    session.bind(())?.execute(states)?;
    Ok(())
}

fn main() {}
