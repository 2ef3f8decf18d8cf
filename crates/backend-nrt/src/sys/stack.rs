//! Stack for calls that need much of it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};

/// Frames between the start of a new stack and the library's function.
const OVERHEAD: usize = 64 << 10;

/// Unit of a stack's size, and size of the guard at its end. No machine that
/// libnrt runs on has larger pages.
const PAGE: usize = 64 << 10;

thread_local! {
    /// The stack that this thread made, between two calls that need it: mapping
    /// one for each execution would cost more than the calls of a launch.
    static SPARE: Cell<Option<Stack>> = const { Cell::new(None) };
}

/// Runs `call` with at least `size` bytes of stack: on this stack if so many are
/// left, else on one that the thread makes once and keeps.
///
/// # Panics
///
/// If there is no memory for a stack, and as `call`.
pub(crate) fn run<R>(size: usize, call: impl FnOnce() -> R) -> R {
    if stacker::remaining_stack().is_some_and(|left| left >= size) {
        return call();
    }
    // Past the end of a thread's life there is nowhere to keep a stack. One that
    // is in use below this call has been taken out.
    let spare = SPARE.try_with(Cell::take).ok().flatten();
    let stack = spare
        .filter(|stack| stack.size >= size + OVERHEAD)
        .or_else(|| Stack::map(size + OVERHEAD));
    let Some(stack) = stack else {
        panic!("no memory for a stack of {size} bytes");
    };
    let outcome = stack.run(|| catch_unwind(AssertUnwindSafe(call)));
    let _ = SPARE.try_with(|spare| spare.set(Some(stack)));
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Memory for a stack, with a guard page at its low end.
struct Stack {
    mapping: NonNull<u8>,
    /// Bytes above the guard, a multiple of [`PAGE`].
    size: usize,
}

impl Stack {
    /// Maps at least `size` bytes; `None` if the system has no memory.
    fn map(size: usize) -> Option<Self> {
        let size = size.checked_next_multiple_of(PAGE)?;
        let whole = size.checked_add(PAGE)?;
        isize::try_from(whole).ok()?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new private mapping at an address of the system's choice.
        let mapping = unsafe { libc::mmap(ptr::null_mut(), whole, protection, flags, -1, 0) };
        if mapping == libc::MAP_FAILED {
            return None;
        }
        let stack = Self {
            mapping: NonNull::new(mapping.cast())?,
            size,
        };
        // SAFETY: the first page of the mapping, which nothing uses.
        let guarded = unsafe { libc::mprotect(mapping, PAGE, libc::PROT_NONE) };
        (guarded == 0).then_some(stack)
    }

    /// Runs `call`, which does not unwind, on this stack.
    fn run<R>(&self, call: impl FnOnce() -> R) -> R {
        // SAFETY: the mapping is longer than its guard.
        let base = unsafe { self.mapping.add(PAGE) };
        // SAFETY: `base` and `size` are those of mapped memory above the guard, are
        // multiples of a page, and nothing else uses the memory: the stack was
        // taken out of its thread's place, or is new. `call` does not unwind.
        unsafe { psm::on_stack(base.as_ptr(), self.size, call) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length and nothing runs on it:
        // whoever runs on a stack has it borrowed.
        unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.size + PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a stack is.
    fn address() -> usize {
        let local = 0_u8;
        (&raw const local).addr()
    }

    #[test]
    fn a_thread_makes_one_stack_and_keeps_it() {
        let size = 64 << 20;
        let mut found = Vec::new();
        for _ in 0..3 {
            found.push(run(size, address));
        }
        assert_eq!(found[0], found[1]);
        assert_eq!(found[1], found[2]);
        assert!(found[0].abs_diff(address()) > 1 << 20, "another stack");
        let other = std::thread::spawn(move || run(size, address)).join();
        assert_ne!(other.unwrap(), found[0]);
    }

    #[test]
    fn a_call_within_a_call_has_a_stack_of_its_own() {
        let size = 64 << 20;
        let (outer, inner) = run(size, || (address(), run(size, address)));
        assert!(outer.abs_diff(inner) > 1 << 20);
    }

    #[test]
    fn a_stack_that_is_deep_enough_is_used() {
        let found = run(1 << 10, address);
        assert!(found.abs_diff(address()) < 64 << 10);
    }

    #[test]
    fn a_panic_comes_through() {
        let size = 64 << 20;
        let caught = catch_unwind(|| run(size, || panic!("inside")));
        assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "inside");
        assert_eq!(run(size, || 7), 7);
    }
}
