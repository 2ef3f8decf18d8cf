//! Element-wise loops, compiled for the vector units of the processor that runs them.
//!
//! The loops hold no fused multiply-add, so that the same module gives the same bits on every processor.

use pulp::{Arch, NullaryFnOnce};

struct Map<'a, A, B, F> {
    source: &'a [A],
    target: &'a mut [B],
    function: F,
}

impl<A: Copy, B, F: Fn(A) -> B> NullaryFnOnce for Map<'_, A, B, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (target, &source) in self.target.iter_mut().zip(self.source) {
            *target = (self.function)(source);
        }
    }
}

/// `target[i] = function(source[i])`.
pub(crate) fn map<A: Copy, B>(source: &[A], target: &mut [B], function: impl Fn(A) -> B) {
    Arch::new().dispatch(Map {
        source,
        target,
        function,
    });
}

struct ZipMap<'a, A, B, C, F> {
    left: &'a [A],
    right: &'a [B],
    target: &'a mut [C],
    function: F,
}

impl<A: Copy, B: Copy, C, F: Fn(A, B) -> C> NullaryFnOnce for ZipMap<'_, A, B, C, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for ((target, &left), &right) in self.target.iter_mut().zip(self.left).zip(self.right) {
            *target = (self.function)(left, right);
        }
    }
}

/// `target[i] = function(left[i], right[i])`.
pub(crate) fn zip_map<A: Copy, B: Copy, C>(
    left: &[A],
    right: &[B],
    target: &mut [C],
    function: impl Fn(A, B) -> C,
) {
    Arch::new().dispatch(ZipMap {
        left,
        right,
        target,
        function,
    });
}

struct Apply<'a, A, F> {
    target: &'a mut [A],
    function: F,
}

impl<A: Copy, F: Fn(A) -> A> NullaryFnOnce for Apply<'_, A, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for target in self.target {
            *target = (self.function)(*target);
        }
    }
}

/// `target[i] = function(target[i])`.
pub(crate) fn apply<A: Copy>(target: &mut [A], function: impl Fn(A) -> A) {
    Arch::new().dispatch(Apply { target, function });
}

/// Runs `job` in a function compiled for the vector units at hand.
pub(crate) fn run<J: NullaryFnOnce>(job: J) -> J::Output {
    Arch::new().dispatch(job)
}
