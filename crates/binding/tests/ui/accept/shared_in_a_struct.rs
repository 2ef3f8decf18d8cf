//! Handles of a shared runtime are stored beside it and sent to threads.

use metaneff_binding::{Backend, Session, SharedRuntime, States};

struct Server<B: Backend> {
    session: Session<'static, B>,
    states: Option<States<'static, B>>,
    runtime: SharedRuntime<B>,
}

fn start<B: Backend>(server: Server<B>) {
    std::thread::spawn(move || {
        let _ = (server.runtime.info(), server.session.model(), server.states);
    });
}

fn main() {
    let _ = start::<metaneff_binding::testing::Fake>;
}
