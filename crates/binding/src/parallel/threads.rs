//! Threads with stacks that calls of the runtime fit on.

use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, Builder};

/// Stack of a thread that calls the runtime, which takes megabytes of it
/// (an execution copies its notifications there).
const STACK_SIZE: usize = 16 << 20;

/// Runs `work` on a thread of its own, which nobody waits for.
pub(crate) fn detach(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    builder(name).spawn(work).map(drop)
}

fn builder(name: &str) -> Builder {
    Builder::new().name(name.to_owned()).stack_size(STACK_SIZE)
}

/// A thread could not be started, so that none of the work was done.
pub(crate) struct NotStarted<I> {
    pub(crate) error: io::Error,
    /// What the work was to be done on.
    pub(crate) inputs: Vec<I>,
}

/// Works on all inputs at once, each on a thread of its own, and waits for all of
/// them.
///
/// Either all are worked on or, when a thread cannot be started, none: ranks of a
/// world wait for one another.
pub(crate) fn together<I: Send, T: Send>(
    inputs: Vec<I>,
    work: impl Fn(I) -> T + Sync,
) -> Result<Vec<T>, NotStarted<I>> {
    let inputs: Vec<Mutex<Option<I>>> = inputs
        .into_iter()
        .map(|input| Mutex::new(Some(input)))
        .collect();
    let go = OnceLock::new();
    let done = thread::scope(|scope| {
        let mut threads = Vec::with_capacity(inputs.len());
        for input in &inputs {
            let (go, work) = (&go, &work);
            let thread = builder("metaneff-rank").spawn_scoped(scope, move || {
                let input = if *go.wait() { taken(input) } else { None };
                input.map(work)
            });
            match thread {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    go.get_or_init(|| false);
                    return Err(error);
                }
            }
        }
        go.get_or_init(|| true);
        let mut results = Vec::with_capacity(threads.len());
        for thread in threads {
            match thread.join() {
                Ok(result) => results.extend(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(results)
    });
    done.map_err(|error| NotStarted {
        error,
        inputs: inputs.iter().filter_map(taken).collect(),
    })
}

fn taken<I>(input: &Mutex<Option<I>>) -> Option<I> {
    input.lock().unwrap_or_else(PoisonError::into_inner).take()
}
