//! There are no outputs before the execution.

use metaneff_binding::{Backend, Error, Session, Tensor, Validated};

fn run<B: Backend>(session: &mut Session<'_, B>, x: Tensor<Validated<'_>>) -> Result<(), Error> {
    let ready = session.bind([x])?;
    ready.outputs().get(0)?;
    Ok(())
}

fn main() {}
