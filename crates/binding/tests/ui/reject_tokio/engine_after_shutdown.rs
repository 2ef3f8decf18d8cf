//! An engine that was shut down takes no requests.

use metaneff_binding::{Backend, Engine, Error, Request};

async fn run<B: Backend>(engine: Engine<B>) -> Result<(), Error> {
    engine.shutdown(std::time::Duration::from_secs(1)).await?;
    engine.submit(Request::new(vec![])).await?.await?;
    Ok(())
}

fn main() {}
