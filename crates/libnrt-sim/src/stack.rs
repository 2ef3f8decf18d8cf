//! The stack that calls compute on.

use std::hint::black_box;

/// A stack with less left than this is not computed on.
const RED_ZONE: usize = 512 << 10;

/// The stack that is made instead.
const ROOM: usize = 16 << 20;

/// What is touched at a time: less than a guard page may be large.
const STEP: usize = 2048;

/// Computes on a stack that is large enough, whoever calls.
pub(crate) fn roomy<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(RED_ZONE, ROOM, work)
}

/// Touches as many bytes of the caller's stack, as the runtime does: a thread
/// whose stack is smaller ends with a segmentation fault.
#[inline(never)]
pub(crate) fn touch(bytes: usize) {
    let frame = [1_u8; STEP];
    black_box(&frame);
    if bytes > STEP {
        touch(bytes - STEP);
    }
    // The frame is still there when the next one comes back.
    black_box(&frame);
}
