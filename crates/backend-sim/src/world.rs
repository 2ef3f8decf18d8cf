//! Ranks of one process that meet in collectives.
//!
//! The ranks of a world of size *n* are the models that were loaded with that
//! size in their [`CollectiveContext`]. Loading waits for no one; an execution
//! waits where its graph has a collective, until every rank of the group is
//! there.
//!
//! Executions of the same graph by different ranks belong together in the order
//! in which each rank starts them. A rank that fails before all others have
//! started leaves nothing behind: the others start anew with its next execution.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use metaneff_binding::CollectiveContext;
use metaneff_hlo::Device;

use crate::sync::{lock, wait_for};

/// Ranks that a world has at most.
pub const MAX_WORLD_SIZE: u32 = 1 << 16;

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
    /// Executions that not all ranks have started, by program.
    open: HashMap<u64, Vec<Joint>>,
    /// Ranks that execute.
    seated: HashMap<u64, Device>,
}

/// Where ranks meet: the same call, in the same group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Meeting {
    /// Tells calls apart.
    pub(crate) channel: &'static str,
    /// The ranks that meet, in the order of their parts.
    pub(crate) group: Vec<u32>,
}

/// One execution of a program by all ranks together.
#[derive(Debug)]
struct Joint {
    id: u64,
    world: metaneff_hlo::World,
    joined: BTreeSet<u32>,
}

/// What of a module's devices the ranks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Across {
    Replicas,
    Partitions,
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
    /// Tells programs apart.
    pub(crate) program: u64,
}

/// A rank's place in one joint execution, until dropped.
#[derive(Debug)]
pub(crate) struct Seat<'a> {
    member: Member<'a>,
    joint: u64,
    id: u64,
    device: Device,
}

impl<'a> Member<'a> {
    /// Takes part in the first execution of the program that this rank has not
    /// started; `None` if the world was closed.
    pub(crate) fn sit(self, across: Across) -> Option<Seat<'a>> {
        let CollectiveContext {
            rank, world_size, ..
        } = self.context;
        let (place, size) = (
            usize::try_from(rank).ok()?,
            usize::try_from(world_size).ok()?,
        );
        let mut state = lock(&self.world.state);
        if state.closed {
            return None;
        }
        let (fresh, id) = (state.next, state.next + 1);
        state.next += 2;
        let joints = state.open.entry(self.program).or_default();
        let at = match joints
            .iter()
            .position(|joint| !joint.joined.contains(&rank))
        {
            Some(at) => at,
            None => {
                let world = match across {
                    Across::Replicas => metaneff_hlo::World::new(size, 1),
                    Across::Partitions => metaneff_hlo::World::new(1, size),
                };
                joints.push(Joint {
                    id: fresh,
                    world,
                    joined: BTreeSet::new(),
                });
                joints.len() - 1
            }
        };
        let joint = &mut joints[at];
        joint.joined.insert(rank);
        let device = match across {
            Across::Replicas => joint.world.device(place, 0),
            Across::Partitions => joint.world.device(0, place),
        }?;
        let (joint, full) = (joint.id, joint.joined.len() == size);
        if full {
            state.end(self.program, joint);
        }
        state.seated.insert(id, device.clone());
        Some(Seat {
            member: self,
            joint,
            id,
            device,
        })
    }
}

impl Seat<'_> {
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Ends the joint execution for those who have not started; answers which
    /// ranks that are.
    pub(crate) fn fail(&self) -> Vec<u32> {
        let mut state = lock(&self.member.world.state);
        let started = state.end(self.member.program, self.joint);
        let all = 0..self.member.context.world_size;
        started.map_or_else(Vec::new, |started| {
            all.filter(|rank| !started.contains(rank)).collect()
        })
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        lock(&self.member.world.state).seated.remove(&self.id);
    }
}

impl World {
    /// Gives everyone who waits the answer [`Absence::Closed`].
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        state.open.clear();
        for device in state.seated.values() {
            device.abort();
        }
        drop(state);
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
        let state = lock(&self.state);
        state.rounds.is_empty() && state.open.is_empty() && state.seated.is_empty()
    }
}

impl State {
    /// Ends the time in which ranks can start an execution; answers which have.
    fn end(&mut self, program: u64, joint: u64) -> Option<BTreeSet<u32>> {
        let joints = self.open.get_mut(&program)?;
        let at = joints.iter().position(|open| open.id == joint)?;
        let ended = joints.remove(at);
        if joints.is_empty() {
            self.open.remove(&program);
        }
        Some(ended.joined)
    }

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

    fn meeting(channel: &'static str, group: &[u32]) -> Meeting {
        Meeting {
            channel,
            group: group.to_vec(),
        }
    }

    #[test]
    fn everyone_gets_every_part_in_the_order_of_the_group() {
        let world = World::default();
        let order = [2_u8, 0, 1];
        let group = order.map(u32::from);
        thread::scope(|scope| {
            for rank in order {
                let world = &world;
                scope.spawn(move || {
                    for step in 0..100_u8 {
                        let got = world
                            .meet(
                                &meeting("gather", &group),
                                u32::from(rank),
                                &[rank, step],
                                None,
                            )
                            .unwrap();
                        let want = order.map(|rank| vec![rank, step]);
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
        let group = meeting("gather", &[0, 1, 2]);
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
            let waiting = scope.spawn(|| world.meet(&meeting("gather", &[0, 1]), 0, &[], None));
            world.close();
            assert_eq!(waiting.join().unwrap(), Err(Absence::Closed));
        });
    }

    fn member(world: &World, rank: u32) -> Member<'_> {
        Member {
            world,
            context: CollectiveContext::new(rank, 3),
            program: 1,
        }
    }

    #[test]
    fn executions_belong_together_in_the_order_of_each_rank() {
        let world = World::default();
        let sit = |rank| member(&world, rank).sit(Across::Replicas).unwrap();
        let (a0, a1, b0) = (sit(0), sit(1), sit(0));
        assert_eq!(a0.joint, a1.joint);
        assert_ne!(a0.joint, b0.joint);
        assert_eq!((a1.device().replica(), a1.device().partition()), (1, 0));
        // Rank 2 comes late to the first and makes it complete.
        let a2 = sit(2);
        assert_eq!(a2.joint, a0.joint);
        assert!(a2.fail().is_empty());
        // Rank 0 gives up its second before the others start theirs.
        assert_eq!(b0.fail(), [1, 2]);
        drop((a0, a1, a2, b0));
        assert!(world.is_idle());
        world.close();
        assert!(member(&world, 0).sit(Across::Partitions).is_none());
    }
}
