//! A launch that is not executed is noticed.

#![deny(unused_must_use)]

use metaneff_binding::{Backend, Error, Session};

fn run<B: Backend>(session: &mut Session<'_, B>) -> Result<(), Error> {
    session.bind(())?;
    Ok(())
}

fn main() {}
