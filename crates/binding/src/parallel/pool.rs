//! Sessions of one model for many threads.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use super::store::Store;
use crate::backend::Backend;
use crate::model::Model;
use crate::session::{Session, SessionError};

/// A fixed number of sessions of one model, for any number of threads: the
/// tensor sets and buffers of so many launches, made once.
///
/// Source: the reference page, section 4.3 (`TensorSetPool`).
///
/// # Examples
///
/// ```
/// use metaneff_binding::testing::{Fake, add_model};
/// use metaneff_binding::{Core, Runtime, SessionPool};
///
/// let runtime = Runtime::new(Fake::new());
/// let model = runtime.load(&add_model(), Core::new(0))?;
/// let pool = SessionPool::new(&model, 2)?;
/// let (first, second) = (pool.acquire(), pool.acquire());
/// assert!(pool.try_acquire().is_none());
/// drop(first);
/// assert!(pool.try_acquire().is_some());
/// # Ok::<(), metaneff_binding::Error>(())
/// ```
pub struct SessionPool<'rt, B: Backend> {
    sessions: Store<Session<'rt, B>>,
    size: usize,
}

impl<'rt, B: Backend> SessionPool<'rt, B> {
    /// Makes `size` sessions of a model.
    ///
    /// # Errors
    ///
    /// As [`Model::session`]; the sessions made so far are freed.
    pub fn new(model: &Model<'rt, B>, size: usize) -> Result<Self, SessionError> {
        let sessions = (0..size)
            .map(|_| model.session())
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            sessions: Store::new(sessions),
            size,
        })
    }

    /// Takes a session; waits until one is free. A pool of no sessions waits for
    /// ever.
    pub fn acquire(&self) -> Pooled<'_, 'rt, B> {
        self.pooled(self.sessions.take())
    }

    /// Takes a session if one is free.
    #[must_use]
    pub fn try_acquire(&self) -> Option<Pooled<'_, 'rt, B>> {
        Some(self.pooled(self.sessions.try_take()?))
    }

    /// Takes a session; waits no longer than `limit`.
    #[must_use]
    pub fn acquire_within(&self, limit: Duration) -> Option<Pooled<'_, 'rt, B>> {
        Some(self.pooled(self.sessions.take_within(limit)?))
    }

    /// How many sessions there are, free or not.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// How many sessions are free.
    #[must_use]
    pub fn available(&self) -> usize {
        self.sessions.len()
    }

    const fn pooled(&self, session: Session<'rt, B>) -> Pooled<'_, 'rt, B> {
        Pooled {
            session: Some(session),
            pool: self,
        }
    }
}

impl<B: Backend> fmt::Debug for SessionPool<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionPool")
            .field("size", &self.size)
            .field("available", &self.available())
            .finish_non_exhaustive()
    }
}

/// A session that goes back to its pool when it is dropped.
#[must_use = "the session goes back at once"]
pub struct Pooled<'p, 'rt, B: Backend> {
    session: Option<Session<'rt, B>>,
    pool: &'p SessionPool<'rt, B>,
}

impl<'rt, B: Backend> Deref for Pooled<'_, 'rt, B> {
    type Target = Session<'rt, B>;

    fn deref(&self) -> &Session<'rt, B> {
        match &self.session {
            Some(session) => session,
            None => unreachable!("only `drop` takes the session"),
        }
    }
}

impl<'rt, B: Backend> DerefMut for Pooled<'_, 'rt, B> {
    fn deref_mut(&mut self) -> &mut Session<'rt, B> {
        match &mut self.session {
            Some(session) => session,
            None => unreachable!("only `drop` takes the session"),
        }
    }
}

impl<B: Backend> Drop for Pooled<'_, '_, B> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.pool.sessions.put(session);
        }
    }
}

impl<B: Backend> fmt::Debug for Pooled<'_, '_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pooled").field(&self.session).finish()
    }
}
