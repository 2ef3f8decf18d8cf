//! A device tensor of one backend is no input of another.

use metaneff_binding::testing::Fake;
use metaneff_binding::{AnyBackend, BoundTensor, Error, Session};

fn run<'rt>(
    session: &mut Session<'rt, AnyBackend>,
    x: BoundTensor<'rt, Fake>,
) -> Result<(), Error> {
    session.bind([x])?;
    Ok(())
}

fn main() {}
