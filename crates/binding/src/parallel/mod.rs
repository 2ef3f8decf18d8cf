//! Several models at once: pools of sessions, replicas over cores, ranks of a
//! world.

mod pool;
mod replicas;
mod spmd;
pub(crate) mod store;
#[cfg(test)]
mod tests;
mod threads;

pub use pool::{Pooled, SessionPool};
pub use replicas::Replicas;
pub use spmd::{
    RankError, RankOutcome, SpmdCompleted, SpmdError, SpmdExecuted, SpmdFailed, SpmdInputs,
    SpmdModel, SpmdOptions, SpmdOutputs, SpmdSession, SpmdStates,
};
pub(crate) use threads::{NotStarted, detach, together};
