//! An unbound tensor is no input of a launch.

use metaneff_binding::{Backend, Error, HostTensor, Session};

fn run<B: Backend>(session: &mut Session<'_, B>, x: HostTensor<'_>) -> Result<(), Error> {
    session.bind([x])?;
    Ok(())
}

fn main() {}
