//! Refusals convert into boxed errors, though they hold what borrows.

use metaneff_binding::{Artifact, Backend, Core, HostTensor, Runtime};

fn run<B: Backend>(
    runtime: &Runtime<B>,
    artifact: &Artifact,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let model = runtime.load(artifact, Core::new(0))?;
    let mut session = model.session()?;
    let x = [1.0_f32];
    let x = session.slot(0)?.validate(HostTensor::from_slice([1], &x)?)?;
    let completed = session.bind([x])?.execute(())?.reject_nan()?;
    drop(completed.into_outputs());
    Ok(())
}

fn main() {
    let _ = run::<metaneff_binding::testing::Fake>;
}
