//! The main job: from files to outputs. The README shows this file.
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::path::Path;

use metaneff_backend_sim::{Instance, Sim};
use metaneff_binding::{Artifact, Core, Role, Runtime};
use metaneff_examples::read_npy;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = |name: &str| Path::new("models/quickstart").join(name);
    let artifact = Artifact::open(file("model.neff"), file("model.metaneff"))?;
    let runtime = Runtime::new(Sim::builder().instance(Instance::Trn1_2xlarge).build()?);
    let model = runtime.load(&artifact, Core::new(0))?;

    let mut weights = Vec::new();
    for slot in artifact.contract().inputs() {
        if slot.role() == Role::Weight {
            let key = str::from_utf8(slot.checkpoint_key().unwrap_or_default())?;
            weights.push(slot.validate(read_npy(file(&format!("weights/{key}.npy")))?)?);
        }
    }
    model.load_weights(weights)?;

    let mut session = model.session()?;
    let src = read_npy(file("input.npy"))?;
    let src = session.slot("src")?.validate(src)?;
    let done = session.bind([src])?.execute(())?.tolerate_nan();
    println!("{:?}", &done.into_outputs().get(0)?.to_vec::<f32>()?[..4]);
    Ok(())
}
