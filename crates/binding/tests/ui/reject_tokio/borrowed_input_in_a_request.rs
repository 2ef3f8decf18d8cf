//! A request owns its inputs: the device may use them after the caller is gone.

use metaneff_binding::{Backend, Engine, Error, HostTensor, Request};

async fn run<B: Backend>(engine: &Engine<B>) -> Result<(), Error> {
    let data = vec![1.0_f32, 2.0];
    let input = engine.slot(0)?.validate(HostTensor::from_slice([2], &data)?)?;
    engine.submit(Request::new(vec![input])).await?.await?;
    Ok(())
}

fn main() {}
