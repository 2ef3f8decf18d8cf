//! A model that is not loaded has no sessions.

use metaneff_binding::{Backend, Error, Unloaded};

fn run<B: Backend>(model: Unloaded<B>) -> Result<(), Error> {
    let session = model.session()?;
    drop(session);
    Ok(())
}

fn main() {}
