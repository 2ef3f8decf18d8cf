//! States are gone with the request that took them.

use metaneff_binding::{Backend, Engine, Error, Request, States};

async fn run<B: Backend>(engine: &Engine<B>, states: States<'static, B>) -> Result<(), Error> {
    let pending = engine.submit(Request::new(vec![]).with_states(states)).await?;
    states.get(0)?;
    pending.await?;
    Ok(())
}

fn main() {}
