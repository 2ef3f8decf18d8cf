//! Stack for calls that need much of it.

/// Frames between the start of a new stack and the library's function.
const OVERHEAD: usize = 64 << 10;

/// Runs `call` with at least `size` bytes of stack: on this stack if so many are
/// left, else on one that is made for the call.
pub(crate) fn run<R>(size: usize, call: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(size, size.saturating_add(OVERHEAD), call)
}
