//! An unloaded model is gone once it is being loaded.

use metaneff_binding::{Backend, Error, Unloaded};

fn run<B: Backend>(model: Unloaded<B>) -> Result<(), Error> {
    let loading = model.start();
    model.load()?;
    loading.wait()?;
    Ok(())
}

fn main() {}
