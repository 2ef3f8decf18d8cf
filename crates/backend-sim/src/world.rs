//! Ranks of one process that meet in collectives.
//!
//! The ranks of a world of size *n* are the models that were loaded with that
//! size in their [`CollectiveContext`]. Loading waits for no one; an execution
//! waits where its graph has a collective, until every rank of the group is
//! there.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use metaneff_binding::CollectiveContext;

use crate::sync::{lock, wait_for};

/// The ranks that can meet.
#[derive(Debug, Default)]
pub(crate) struct World {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    next: u64,
    rounds: HashMap<Meeting, Vec<Round>>,
}

/// Where ranks meet: the same collective of the same program, in the same
/// group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Meeting {
    /// Tells programs apart.
    pub(crate) program: u64,
    /// Tells the collectives of a program apart.
    pub(crate) channel: i64,
    /// The ranks that meet, in the order of their parts.
    pub(crate) group: Vec<u32>,
}

/// What each rank of a group brought, in the group's order.
pub(crate) type Parts = Vec<Arc<[u8]>>;

/// One meeting. A rank that comes again before all have come opens the next.
#[derive(Debug)]
struct Round {
    id: u64,
    parts: Vec<Option<Arc<[u8]>>>,
    taken: usize,
}

/// Why a meeting did not take place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    /// The rank is not of the group.
    Stranger,
    /// The deadline passed; these ranks were not there.
    Missing { absent: Vec<u32>, expected: usize },
    /// The simulator was closed.
    Closed,
}

/// One rank of a world, as an execution sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    pub(crate) world: &'a World,
    pub(crate) context: CollectiveContext,
    pub(crate) program: u64,
}

impl World {
    /// Gives everyone who waits the answer [`Absence::Closed`].
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }

    /// Brings `part` to a meeting and takes everyone's.
    pub(crate) fn meet(
        &self,
        meeting: &Meeting,
        rank: u32,
        part: &[u8],
        deadline: Option<Instant>,
    ) -> Result<Parts, Absence> {
        let group = &meeting.group;
        let place = group.iter().position(|r| *r == rank);
        let place = place.ok_or(Absence::Stranger)?;
        let mut state = lock(&self.state);
        let round = state.join(meeting, place, part);
        // The last to come wakes the others.
        self.changed.notify_all();
        loop {
            if let Some(parts) = state.take(meeting, round) {
                return Ok(parts);
            }
            if state.closed {
                return Err(Absence::Closed);
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                let absent = state.leave(meeting, round, place);
                return Err(Absence::Missing {
                    absent,
                    expected: group.len(),
                });
            }
            state = wait_for(&self.changed, state, left);
        }
    }

    #[cfg(test)]
    fn is_idle(&self) -> bool {
        lock(&self.state).rounds.is_empty()
    }
}

impl State {
    /// Adds a part to the first round that lacks it; answers the round's id.
    fn join(&mut self, meeting: &Meeting, place: usize, part: &[u8]) -> u64 {
        let rounds = self.rounds.entry(meeting.clone()).or_default();
        let open = rounds.iter_mut().find(|round| round.parts[place].is_none());
        if let Some(round) = open {
            round.parts[place] = Some(part.into());
            return round.id;
        }
        let id = self.next;
        self.next += 1;
        let mut parts = vec![None; meeting.group.len()];
        parts[place] = Some(part.into());
        rounds.push(Round {
            id,
            parts,
            taken: 0,
        });
        id
    }

    /// The parts, if all are there. The last to take them ends the round.
    fn take(&mut self, meeting: &Meeting, id: u64) -> Option<Parts> {
        let rounds = self.rounds.get_mut(meeting)?;
        let at = rounds.iter().position(|round| round.id == id)?;
        let parts: Option<Parts> = rounds[at].parts.iter().cloned().collect();
        let parts = parts?;
        rounds[at].taken += 1;
        if rounds[at].taken == parts.len() {
            rounds.remove(at);
            if rounds.is_empty() {
                self.rounds.remove(meeting);
            }
        }
        Some(parts)
    }

    /// Takes a part back; answers which ranks were not there.
    fn leave(&mut self, meeting: &Meeting, id: u64, place: usize) -> Vec<u32> {
        let Some(rounds) = self.rounds.get_mut(meeting) else {
            return Vec::new();
        };
        let Some(at) = rounds.iter().position(|round| round.id == id) else {
            return Vec::new();
        };
        let parts = &mut rounds[at].parts;
        let ranks = meeting.group.iter().zip(parts.iter());
        let absent = ranks.filter(|(_, part)| part.is_none()).map(|(r, _)| *r);
        let absent = absent.collect();
        parts[place] = None;
        if parts.iter().all(Option::is_none) {
            rounds.remove(at);
        }
        if rounds.is_empty() {
            self.rounds.remove(meeting);
        }
        absent
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn meeting(channel: i64, group: &[u32]) -> Meeting {
        Meeting {
            program: 1,
            channel,
            group: group.to_vec(),
        }
    }

    #[test]
    fn everyone_gets_every_part_in_the_order_of_the_group() {
        let world = World::default();
        let group = [2, 0, 1];
        thread::scope(|scope| {
            for rank in 0_u8..3 {
                let world = &world;
                scope.spawn(move || {
                    for step in 0..100_u8 {
                        let got = world
                            .meet(&meeting(7, &group), u32::from(rank), &[rank, step], None)
                            .unwrap();
                        let want: Vec<_> = group.iter().map(|r| vec![*r as u8, step]).collect();
                        let got: Vec<_> = got.iter().map(|part| part.to_vec()).collect();
                        assert_eq!(got, want);
                    }
                });
            }
        });
        assert!(world.is_idle());
    }

    #[test]
    fn a_rank_that_gives_up_leaves_nothing_behind() {
        let world = World::default();
        let soon = Some(Instant::now() + Duration::from_millis(5));
        let group = meeting(0, &[0, 1, 2]);
        assert_eq!(
            world.meet(&group, 1, &[], soon),
            Err(Absence::Missing {
                absent: vec![0, 2],
                expected: 3
            })
        );
        assert!(world.is_idle());
        assert_eq!(world.meet(&group, 3, &[], None), Err(Absence::Stranger));
    }

    #[test]
    fn closing_ends_every_wait() {
        let world = World::default();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| world.meet(&meeting(0, &[0, 1]), 0, &[], None));
            world.close();
            assert_eq!(waiting.join().unwrap(), Err(Absence::Closed));
        });
    }
}
