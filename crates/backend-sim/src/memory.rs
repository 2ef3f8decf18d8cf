//! How much memory there is, and what it is charged with.
//!
//! Every core has a ledger of its device memory, and the host has one. A charge
//! is rounded up to [`ALIGNMENT`] bytes, and so is a limit down, so that a
//! request fits exactly if it is not larger than what is left. A tensor's charge
//! is given back when its last view is freed and no execution reads it any more.

use std::sync::{Arc, Mutex};

use crate::sync::lock;

/// Alignment of tensors, in bytes, and the unit of memory accounting.
pub const ALIGNMENT: usize = 64;

const UNIT: u64 = ALIGNMENT as u64;

/// One memory's limit and use.
#[derive(Debug)]
pub(crate) struct Ledger {
    limit: u64,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    used: u64,
    peak: u64,
}

/// A request that did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    pub(crate) requested: u64,
    pub(crate) used: u64,
    pub(crate) limit: u64,
}

/// Bytes taken from a ledger, given back on drop.
#[derive(Debug)]
pub(crate) struct Charge {
    ledger: Arc<Ledger>,
    bytes: u64,
}

impl Ledger {
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self {
            limit: limit / UNIT * UNIT,
            book: Mutex::default(),
        })
    }

    pub(crate) fn charge(self: &Arc<Self>, requested: u64) -> Result<Charge, Shortage> {
        let mut book = lock(&self.book);
        let fits = requested
            .checked_next_multiple_of(UNIT)
            .filter(|bytes| *bytes <= self.limit - book.used);
        let Some(bytes) = fits else {
            return Err(Shortage {
                requested,
                used: book.used,
                limit: self.limit,
            });
        };
        book.used += bytes;
        book.peak = book.peak.max(book.used);
        Ok(Charge {
            ledger: Arc::clone(self),
            bytes,
        })
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn used(&self) -> u64 {
        lock(&self.book).used
    }

    pub(crate) fn peak(&self) -> u64 {
        lock(&self.book).peak
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        lock(&self.ledger.book).used -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_fits_exactly_if_it_is_no_larger_than_what_is_left() {
        let ledger = Ledger::new(1000);
        assert_eq!(ledger.limit(), 960);
        let first = ledger.charge(1).unwrap();
        assert_eq!(ledger.used(), 64);
        let shortage = ledger.charge(897).unwrap_err();
        assert_eq!(
            shortage,
            Shortage {
                requested: 897,
                used: 64,
                limit: 960
            }
        );
        let second = ledger.charge(896).unwrap();
        assert_eq!(ledger.used(), 960);
        drop((first, second));
        assert_eq!((ledger.used(), ledger.peak()), (0, 960));
    }

    #[test]
    fn a_request_beyond_64_bits_is_a_shortage() {
        let ledger = Ledger::new(u64::MAX);
        let _first = ledger.charge(64).unwrap();
        assert_eq!(ledger.charge(u64::MAX).unwrap_err().requested, u64::MAX);
    }
}
