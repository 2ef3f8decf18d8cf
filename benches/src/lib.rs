//! What the measurements of this workspace share: a library that does nothing,
//! models of any width, and one launch of them in two ways.
//!
//! - [`Stub`]: a `libnrt.so` whose calls return at once, compiled from
//!   `stub/nrt.c`.
//! - [`Raw`]: the C calls of a launch, written by hand.
//! - [`Sdk`]: the same launch through a session.
//!
//! The difference between the two is what the SDK costs. The program `launches`
//! makes a number of launches in one of the ways, to be counted by callgrind;
//! the criterion benches show nanoseconds.

mod models;
mod raw;
mod sdk;
mod stub;

pub use models::{ELEMENTS, contract_message, options, wide};
pub use raw::{Raw, RawError};
pub use sdk::Sdk;
pub use stub::{Stub, StubError};

/// Which slots a launch writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a slot changes between two launches, or it does not"
)]
pub enum Slots {
    /// None: every input stays on the device.
    Unchanged,
    /// All of them, from host memory.
    Rewritten,
}

impl Slots {
    /// The name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Rewritten => "rewritten",
        }
    }
}

/// The numbers of inputs that are measured.
pub const WIDTHS: [usize; 3] = [1, 8, 128];
