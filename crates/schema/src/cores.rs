//! The NeuronCores that a process sees: `NEURON_RT_VISIBLE_CORES` and
//! `NEURON_RT_NUM_CORES`.
//!
//! Source: the Neuron Runtime developer guide, section on the environment of
//! `nrt_init`. A list of indices, of inclusive ranges, or of both is taken; the
//! cores must follow each other without a gap and in increasing order.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Cores that follow each other without a gap. There is at least one.
///
/// # Examples
///
/// ```
/// use metaneff_schema::cores::CoreRange;
///
/// let cores: CoreRange = "3-5,6".parse()?;
/// assert_eq!((cores.first(), cores.count()), (3, 4));
///
/// // Inside the process they count from 0.
/// assert_eq!(cores.physical(0), Some(3));
/// assert_eq!(cores.physical(4), None);
/// # Ok::<(), metaneff_schema::cores::CoreRangeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CoreRange {
    first: u32,
    last: u32,
}

/// Why a list of cores was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CoreRangeError {
    /// The list names no core.
    #[error("no core is named")]
    Empty,
    /// A token is neither an index nor a range of indices.
    #[error("`{token}` is not a core index or a range of them")]
    NotANumber {
        /// The token.
        token: String,
    },
    /// A range ends before it starts.
    #[error("range `{token}` ends before it starts")]
    Reversed {
        /// The token.
        token: String,
    },
    /// A token repeats a core or goes back.
    #[error("`{token}` does not follow core {previous}: indices must increase")]
    NotIncreasing {
        /// The token.
        token: String,
        /// The last core before it.
        previous: u32,
    },
    /// A token leaves cores out.
    #[error("`{token}` leaves a gap: core {expected} is missing")]
    Gap {
        /// The token.
        token: String,
        /// The core that should have come.
        expected: u32,
    },
    /// A core is not one of the instance's.
    #[error("core {core} is named, but the instance has {total} cores")]
    OutsideInstance {
        /// The largest core that was named.
        core: u32,
        /// Cores of the instance.
        total: u32,
    },
    /// More cores are asked for than the instance has.
    #[error("{requested} cores are asked for, but the instance has {total}")]
    TooMany {
        /// Cores asked for.
        requested: u32,
        /// Cores of the instance.
        total: u32,
    },
}

impl CoreRange {
    /// The cores from `first` on, `count` of them; `None` if `count` is 0 or the
    /// last index does not fit.
    #[must_use]
    pub const fn new(first: u32, count: u32) -> Option<Self> {
        let Some(more) = count.checked_sub(1) else {
            return None;
        };
        match first.checked_add(more) {
            // A count must fit as well as the indices do.
            Some(last) if last < u32::MAX => Some(Self { first, last }),
            _ => None,
        }
    }

    /// What a process sees of an instance with `total` cores, given the values
    /// of `NEURON_RT_VISIBLE_CORES` and `NEURON_RT_NUM_CORES`.
    ///
    /// The first wins over the second. A number of 0 means all cores, and so
    /// does no value at all.
    ///
    /// # Errors
    ///
    /// [`CoreRangeError`], naming the offending token or number.
    ///
    /// # Examples
    ///
    /// ```
    /// use metaneff_schema::cores::CoreRange;
    ///
    /// let all = CoreRange::select(None, Some("0"), 2)?;
    /// assert_eq!(all.count(), 2);
    /// let one = CoreRange::select(Some("1"), Some("2"), 2)?;
    /// assert_eq!((one.first(), one.count()), (1, 1));
    /// # Ok::<(), metaneff_schema::cores::CoreRangeError>(())
    /// ```
    pub fn select(
        visible: Option<&str>,
        number: Option<&str>,
        total: u32,
    ) -> Result<Self, CoreRangeError> {
        let visible = visible.map(str::parse).transpose()?;
        let requested = number.map_or(Ok(0), |text| index_of(text, text))?;
        Self::choose(visible, requested, total)
    }

    /// As [`select`](Self::select), with the values parsed already; a
    /// `requested` number of 0 means all cores.
    ///
    /// # Errors
    ///
    /// [`CoreRangeError`], naming the offending number.
    pub fn choose(
        visible: Option<Self>,
        requested: u32,
        total: u32,
    ) -> Result<Self, CoreRangeError> {
        if let Some(range) = visible {
            return range.within(total);
        }
        if requested > total {
            return Err(CoreRangeError::TooMany { requested, total });
        }
        let count = if requested == 0 { total } else { requested };
        Self::new(0, count).ok_or(CoreRangeError::Empty)
    }

    /// The range itself, if an instance with `total` cores has all of it.
    ///
    /// # Errors
    ///
    /// [`CoreRangeError::OutsideInstance`].
    pub const fn within(self, total: u32) -> Result<Self, CoreRangeError> {
        if self.last < total {
            Ok(self)
        } else {
            Err(CoreRangeError::OutsideInstance {
                core: self.last,
                total,
            })
        }
    }

    /// Index of the first core within the instance.
    #[must_use]
    pub const fn first(self) -> u32 {
        self.first
    }

    /// Number of cores, at least 1.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.last - self.first + 1
    }

    /// Index within the instance of the process's core `index`.
    #[must_use]
    pub fn physical(self, index: u32) -> Option<u32> {
        let core = self.first.checked_add(index)?;
        (core <= self.last).then_some(core)
    }

    /// The indices within the instance.
    #[must_use]
    pub const fn indices(self) -> Range<u32> {
        self.first..self.last + 1
    }
}

impl FromStr for CoreRange {
    type Err = CoreRangeError;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        let mut range: Option<Self> = None;
        for token in list.split(',').map(str::trim) {
            if token.is_empty() && list.trim().is_empty() {
                return Err(CoreRangeError::Empty);
            }
            let next = Self::token(token)?;
            range = Some(match range {
                None => next,
                Some(seen) => seen.then(next, token)?,
            });
        }
        range.ok_or(CoreRangeError::Empty)
    }
}

impl CoreRange {
    fn token(token: &str) -> Result<Self, CoreRangeError> {
        let (first, last) = match token.split_once('-') {
            Some((first, last)) => (index_of(first, token)?, index_of(last, token)?),
            None => {
                let only = index_of(token, token)?;
                (only, only)
            }
        };
        if last < first {
            return Err(CoreRangeError::Reversed {
                token: token.to_owned(),
            });
        }
        Ok(Self { first, last })
    }

    fn then(self, next: Self, token: &str) -> Result<Self, CoreRangeError> {
        if next.first <= self.last {
            return Err(CoreRangeError::NotIncreasing {
                token: token.to_owned(),
                previous: self.last,
            });
        }
        if next.first != self.last + 1 {
            return Err(CoreRangeError::Gap {
                token: token.to_owned(),
                expected: self.last + 1,
            });
        }
        Ok(Self {
            first: self.first,
            last: next.last,
        })
    }
}

impl fmt::Display for CoreRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

/// Digits only: the standard parser would take a sign too. The largest number
/// is left out so that counts and the end of a range fit.
fn index_of(text: &str, token: &str) -> Result<u32, CoreRangeError> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if digits && number < u32::MAX => Ok(number),
        _ => Err(CoreRangeError::NotANumber {
            token: token.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(text: &str) -> Result<(u32, u32), CoreRangeError> {
        text.parse::<CoreRange>().map(|r| (r.first(), r.count()))
    }

    #[test]
    fn lists_and_ranges_are_taken() {
        for (text, want) in [
            ("0", (0, 1)),
            ("3-6", (3, 4)),
            ("3,4,5,6", (3, 4)),
            ("3-5,6", (3, 4)),
            (" 3 - 5 , 6 ", (3, 4)),
            ("4-4", (4, 1)),
            ("0-31", (0, 32)),
        ] {
            assert_eq!(range(text), Ok(want), "{text}");
        }
    }

    #[test]
    fn the_offending_token_is_named() {
        let token = |t: &str| t.to_owned();
        for (text, want) in [
            ("", CoreRangeError::Empty),
            ("  ", CoreRangeError::Empty),
            ("0,", CoreRangeError::NotANumber { token: token("") }),
            ("a", CoreRangeError::NotANumber { token: token("a") }),
            ("-1", CoreRangeError::NotANumber { token: token("-1") }),
            ("+1", CoreRangeError::NotANumber { token: token("+1") }),
            (
                "1-2-3",
                CoreRangeError::NotANumber {
                    token: token("1-2-3"),
                },
            ),
            (
                "0,4294967295",
                CoreRangeError::NotANumber {
                    token: token("4294967295"),
                },
            ),
            (
                "99999999999",
                CoreRangeError::NotANumber {
                    token: token("99999999999"),
                },
            ),
            (
                "5-3",
                CoreRangeError::Reversed {
                    token: token("5-3"),
                },
            ),
            (
                "3,5,6",
                CoreRangeError::Gap {
                    token: token("5"),
                    expected: 4,
                },
            ),
            (
                "0-1,3-4",
                CoreRangeError::Gap {
                    token: token("3-4"),
                    expected: 2,
                },
            ),
            (
                "1,0",
                CoreRangeError::NotIncreasing {
                    token: token("0"),
                    previous: 1,
                },
            ),
            (
                "0-2,2",
                CoreRangeError::NotIncreasing {
                    token: token("2"),
                    previous: 2,
                },
            ),
        ] {
            assert_eq!(range(text), Err(want), "{text}");
        }
    }

    #[test]
    fn the_list_wins_over_the_number() {
        let select =
            |visible, number| CoreRange::select(visible, number, 4).map(|r| (r.first(), r.count()));
        assert_eq!(select(None, None), Ok((0, 4)));
        assert_eq!(select(None, Some("0")), Ok((0, 4)));
        assert_eq!(select(None, Some("3")), Ok((0, 3)));
        assert_eq!(select(Some("2-3"), Some("1")), Ok((2, 2)));
        assert_eq!(
            select(None, Some("5")),
            Err(CoreRangeError::TooMany {
                requested: 5,
                total: 4
            })
        );
        assert_eq!(
            select(Some("3-4"), None),
            Err(CoreRangeError::OutsideInstance { core: 4, total: 4 })
        );
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "[0-9,\\- a]{0,24}") {
            if let Ok(range) = text.parse::<CoreRange>() {
                prop_assert!(range.count() >= 1);
                prop_assert_eq!(range.to_string().parse(), Ok(range));
            }
        }

        #[test]
        fn every_way_to_write_a_range_means_the_same(
            first in 0_u32..1000,
            cuts in proptest::collection::vec(1_u32..5, 1..8),
        ) {
            let mut next = first;
            let mut tokens = Vec::new();
            for cut in &cuts {
                let last = next + cut - 1;
                tokens.push(if *cut == 1 { next.to_string() } else { format!("{next}-{last}") });
                next = last + 1;
            }
            let range: CoreRange = tokens.join(",").parse().unwrap();
            prop_assert_eq!(range.indices(), first..next);
        }
    }
}
