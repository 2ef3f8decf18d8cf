//! A device tensor is gone after the launch that took it.

use metaneff_binding::{Backend, BoundTensor, Error, Session};

fn run<'rt, B: Backend>(
    session: &mut Session<'rt, B>,
    cache: BoundTensor<'rt, B>,
) -> Result<(), Error> {
    session.bind([cache])?.execute(())?.tolerate_nan().into_outputs();
    cache.to_vec::<f32>()?;
    Ok(())
}

fn main() {}
