//! A launch takes states, even if only `()`.

use metaneff_binding::{Backend, Error, Session, Tensor, Validated};

fn run<B: Backend>(session: &mut Session<'_, B>, x: Tensor<Validated<'_>>) -> Result<(), Error> {
    session.bind([x])?.execute()?.tolerate_nan().into_outputs();
    Ok(())
}

fn main() {}
