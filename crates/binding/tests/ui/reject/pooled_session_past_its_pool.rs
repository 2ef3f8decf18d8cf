//! A session does not outlive the pool that it goes back to.

use metaneff_binding::{Backend, Error, Model, Pooled, SessionPool};

fn run<'rt, B: Backend>(model: &Model<'rt, B>) -> Result<(), Error> {
    let session: Pooled<'_, 'rt, B>;
    {
        let pool = SessionPool::new(model, 1)?;
        session = pool.acquire();
    }
    session.contract();
    Ok(())
}

fn main() {}
