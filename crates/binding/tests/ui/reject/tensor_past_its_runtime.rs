//! A device tensor does not outlive its runtime.

use metaneff_binding::testing::{Fake, add_model};
use metaneff_binding::{BoundTensor, Core, Error, HostTensor, Runtime};

fn keep<'rt>() -> Result<BoundTensor<'rt, Fake>, Error> {
    let runtime = Runtime::new(Fake::new());
    let model = runtime.load(&add_model(), Core::new(0))?;
    let session = model.session()?;
    let x = session.slot(0)?.validate(HostTensor::from_vec([2], vec![1.0_f32, 2.0])?)?;
    Ok(session.upload(x)?)
}

fn main() {}
