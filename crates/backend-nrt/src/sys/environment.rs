//! Variables that the library reads when it is initialised.

use crate::NrtOptions;

/// Promise that no other thread uses the environment; see
/// [`NrtOptions::assume_environment_unshared`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exclusive(());

impl NrtOptions {
    /// Lets [`Nrt::open`](crate::Nrt::open) set `NEURON_RT_VISIBLE_CORES` and
    /// `NEURON_RT_NUM_CORES` while the process has several threads.
    ///
    /// Without this the variables are set only if they do not have the wanted
    /// values already and the process has one thread.
    ///
    /// # Safety
    ///
    /// While a call of `open` or `init` with these options runs, no other thread
    /// reads or writes the environment, except through `std::env`.
    pub unsafe fn assume_environment_unshared(mut self) -> Self {
        self.exclusive = Some(Exclusive(()));
        self
    }
}

/// Sets or removes a variable.
///
/// # Errors
///
/// The number of the process's threads, if there is more than one (0 if it is
/// not known) and no promise was made; nothing is changed then.
pub(crate) fn set_variable(
    name: &'static str,
    value: Option<&str>,
    promise: Option<Exclusive>,
) -> Result<(), usize> {
    if promise.is_none() {
        match threads() {
            1 => {}
            several => return Err(several),
        }
    }
    match value {
        // SAFETY: this is the only thread, and so none can start meanwhile, or
        // the caller promised that no other one uses the environment.
        Some(value) => unsafe { std::env::set_var(name, value) },
        // SAFETY: as above.
        None => unsafe { std::env::remove_var(name) },
    }
    Ok(())
}

/// Threads of this process, or 0 if the system does not say.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}
