//! A model that is being loaded has no sessions.

use metaneff_binding::{Backend, Error, Unloaded};

fn run<B: Backend>(model: Unloaded<B>) -> Result<(), Error> {
    let loading = model.start();
    let session = loading.session()?;
    drop(session);
    Ok(())
}

fn main() {}
