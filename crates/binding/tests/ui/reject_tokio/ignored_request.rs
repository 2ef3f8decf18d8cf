//! A request that nobody waits for is cancelled, which is noticed.

#![deny(unused_must_use)]

use metaneff_binding::{Backend, Engine, Error, Request};

async fn run<B: Backend>(engine: &Engine<B>) -> Result<(), Error> {
    engine.submit(Request::new(vec![])).await?;
    Ok(())
}

fn main() {}
