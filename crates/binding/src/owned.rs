//! A handle that its owner's `drop` moves out.

/// Holds a backend handle until the owner is dropped.
#[derive(Debug)]
pub(crate) struct Owned<T>(Option<T>);

impl<T> Owned<T> {
    pub(crate) const fn new(handle: T) -> Self {
        Self(Some(handle))
    }

    pub(crate) fn get(&self) -> &T {
        match &self.0 {
            Some(handle) => handle,
            None => unreachable!("only the owner's drop takes the handle"),
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Some(handle) => handle,
            None => unreachable!("only the owner's drop takes the handle"),
        }
    }

    /// For the owner's `drop`, and for nothing before it.
    pub(crate) fn take(&mut self) -> Option<T> {
        self.0.take()
    }
}
