//! Random choices that shrink towards the simplest.

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

/// A stream of choices; 0 is the simplest, and what comes after the end.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    choices: Vec<u16>,
    next: usize,
}

impl Draw {
    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let choice = self.choices.get(self.next).copied().unwrap_or(0);
        self.next += 1;
        usize::from(choice) % end.max(1)
    }

    /// A number from `low` to `high`, both included, `low` being the simplest.
    pub(crate) fn within(&mut self, low: i64, high: i64) -> i64 {
        let span = usize::try_from(high - low + 1).expect("an ordered range");
        low + i64::try_from(self.below(span)).expect("a small range")
    }

    pub(crate) fn size(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    /// One time in `times`.
    pub(crate) fn seldom(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// So many sizes, few of them 0.
    pub(crate) fn dims(&mut self, rank: usize, high: usize) -> Vec<usize> {
        let size = |draw: &mut Self| {
            if draw.seldom(24) {
                0
            } else {
                draw.size(1, high)
            }
        };
        (0..rank).map(|_| size(self)).collect()
    }

    /// The numbers below `end` in some order.
    pub(crate) fn order(&mut self, end: usize) -> Vec<usize> {
        let mut rest: Vec<usize> = (0..end).collect();
        (0..end)
            .map(|_| {
                let index = self.below(rest.len());
                rest.remove(index)
            })
            .collect()
    }

    /// `count` of the numbers below `end`, ascending.
    pub(crate) fn subset(&mut self, end: usize, count: usize) -> Vec<usize> {
        let mut chosen = self.order(end);
        chosen.truncate(count);
        chosen.sort_unstable();
        chosen
    }

    /// Small whole numbers.
    pub(crate) fn values(&mut self, count: usize, low: i64, high: i64) -> Vec<f64> {
        (0..count).map(|_| self.within(low, high) as f64).collect()
    }
}

/// Tries `property` on `cases` streams of choices.
pub(crate) fn check(cases: u32, property: impl Fn(&mut Draw) -> Result<(), String>) {
    let mut runner = TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..ProptestConfig::default()
    });
    let choices = prop::collection::vec(any::<u16>(), 1..400);
    runner
        .run(&choices, |choices| {
            property(&mut Draw { choices, next: 0 }).map_err(TestCaseError::fail)
        })
        .unwrap_or_else(|error| panic!("{error}"));
}
