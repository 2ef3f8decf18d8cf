//! A loop that donates its states, with outputs read in between: the borrow of
//! the session ends at the last use of the outputs.

use metaneff_binding::testing::Fake;
use metaneff_binding::{Artifact, Backend, Core, Error, HostTensor, Runtime};

fn decode<B: Backend>(runtime: &Runtime<B>, artifact: &Artifact) -> Result<f32, Error> {
    let model = runtime.load(artifact, Core::new(0))?;
    let mut session = model.session()?;
    let slot = session.slot("input0")?.clone();
    let mut cache = session.zero_states()?;
    let mut last = 0.0;
    for step in [1.0_f32, 2.0] {
        let x = [step];
        let x = slot.validate(HostTensor::from_slice([1], &x)?)?;
        let (outputs, next) = session.bind([x])?.execute(cache)?.tolerate_nan().into_parts();
        last = outputs.get(0)?.to_vec::<f32>()?[0];
        let again = slot.validate(HostTensor::scalar(1.0_f32))?;
        let _ = session.bind([again])?;
        cache = next;
    }
    Ok(last)
}

fn main() {
    let _: fn(&Runtime<Fake>, &Artifact) -> Result<f32, Error> = decode;
}
