//! Devices that execute one module together, each on its own thread.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::ir::{CollectiveGroups, GroupMode};

/// How long a device waits for the others of its group unless the execution
/// has a deadline.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a collective did not come about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectiveError {
    /// Some devices of the group did not arrive in time.
    #[error("{seen} of {expected} devices of the group arrived before the deadline")]
    Timeout {
        /// Devices that arrived.
        seen: usize,
        /// Devices of the group.
        expected: usize,
    },
    /// A device of the world failed, so that the others would wait in vain.
    #[error("device {device} of the world failed")]
    Aborted {
        /// The device.
        device: usize,
    },
    /// The groups leave this device out.
    #[error("device {device} is in no replica group")]
    NoGroup {
        /// The device.
        device: usize,
    },
    /// The groups name a device that the world does not have.
    #[error("the replica groups name device {device} of a world of {devices}")]
    UnknownDevice {
        /// The device.
        device: usize,
        /// Devices of the world.
        devices: usize,
    },
    /// The parts of the operands do not suit the size of the group.
    #[error("{parts} parts for a group of {devices} devices")]
    Parts {
        /// Parts.
        parts: usize,
        /// Devices of the group.
        devices: usize,
    },
}

/// Operands that a device brings to a collective.
pub(crate) type Contribution = Arc<Vec<Vec<u8>>>;

/// Which meeting: devices of one group meet once for each execution of one
/// collective instruction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Meeting {
    instruction: (u32, u32),
    group: Vec<usize>,
    round: u64,
}

#[derive(Debug, Default)]
struct Room {
    brought: Vec<Option<Contribution>>,
    left: usize,
}

#[derive(Debug, Default)]
struct State {
    rooms: HashMap<Meeting, Room>,
    failed: Option<usize>,
}

#[derive(Debug)]
struct Shared {
    replicas: usize,
    partitions: usize,
    state: Mutex<State>,
    changed: Condvar,
}

/// A number of devices: replicas, each of some partitions.
///
/// A world is for one execution of one module on all of its devices. Every
/// device needs its own thread; a collective waits until its group has
/// arrived, until the deadline, or until a device has failed, whatever comes
/// first.
///
/// # Examples
///
/// ```
/// use metaneff_hlo::World;
///
/// let devices = World::new(2, 1).devices();
/// assert_eq!(devices.len(), 2);
/// assert_eq!((devices[1].replica(), devices[1].partition()), (1, 0));
/// ```
#[derive(Clone, Debug)]
pub struct World {
    shared: Arc<Shared>,
}

impl World {
    /// A world of `replicas` times `partitions` devices.
    #[must_use]
    pub fn new(replicas: usize, partitions: usize) -> Self {
        let shared = Shared {
            replicas,
            partitions,
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The devices, replica by replica.
    #[must_use]
    pub fn devices(&self) -> Vec<Device> {
        (0..self.shared.replicas)
            .flat_map(|replica| {
                (0..self.shared.partitions).map(move |partition| (replica, partition))
            })
            .filter_map(|(replica, partition)| self.device(replica, partition))
            .collect()
    }

    /// One device; `None` if the world does not have it.
    #[must_use]
    pub fn device(&self, replica: usize, partition: usize) -> Option<Device> {
        (replica < self.shared.replicas && partition < self.shared.partitions).then(|| Device {
            shared: Arc::clone(&self.shared),
            replica,
            partition,
        })
    }
}

/// A place in a [`World`].
#[derive(Clone, Debug)]
pub struct Device {
    shared: Arc<Shared>,
    replica: usize,
    partition: usize,
}

impl Device {
    /// The replica.
    #[must_use]
    pub fn replica(&self) -> usize {
        self.replica
    }

    /// The partition.
    #[must_use]
    pub fn partition(&self) -> usize {
        self.partition
    }

    /// The flattened id: `replica * partitions + partition`.
    #[must_use]
    pub fn id(&self) -> usize {
        self.replica * self.shared.partitions + self.partition
    }

    /// Devices of the world.
    fn count(&self) -> usize {
        self.shared.replicas * self.shared.partitions
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets every device of the world that waits or comes to wait give up,
    /// because this one has failed. An execution that fails does so itself.
    pub fn abort(&self) {
        let mut state = self.lock();
        if state.failed.is_none() {
            state.failed = Some(self.id());
        }
        self.shared.changed.notify_all();
    }

    /// The ids of the devices with which this one executes a collective, in
    /// the order of the group.
    pub(crate) fn group(&self, groups: &CollectiveGroups) -> Result<Vec<usize>, CollectiveError> {
        let (replicas, partitions) = (self.shared.replicas, self.shared.partitions);
        let ids = match groups.mode {
            GroupMode::CrossReplica | GroupMode::CrossReplicaAndPartition => replicas,
            GroupMode::CrossPartition => partitions,
            GroupMode::Flattened => replicas * partitions,
        };
        let own = match groups.mode {
            GroupMode::CrossReplica | GroupMode::CrossReplicaAndPartition => self.replica,
            GroupMode::CrossPartition => self.partition,
            GroupMode::Flattened => self.id(),
        };
        let all: Vec<usize> = (0..ids).collect();
        let group = if groups.groups.is_empty() {
            &all
        } else {
            groups
                .groups
                .iter()
                .find(|group| group.contains(&own))
                .ok_or(CollectiveError::NoGroup { device: own })?
        };
        if let Some(&device) = group.iter().find(|&&device| device >= ids) {
            return Err(CollectiveError::UnknownDevice {
                device,
                devices: ids,
            });
        }
        Ok(match groups.mode {
            GroupMode::CrossReplica => group
                .iter()
                .map(|replica| replica * partitions + self.partition)
                .collect(),
            GroupMode::CrossPartition => group
                .iter()
                .map(|partition| self.replica * partitions + partition)
                .collect(),
            GroupMode::CrossReplicaAndPartition => group
                .iter()
                .flat_map(|replica| {
                    (0..partitions).map(move |partition| replica * partitions + partition)
                })
                .collect(),
            GroupMode::Flattened => group.clone(),
        })
    }

    /// The id of the device that a number in source-target pairs names.
    pub(crate) fn peer(&self, mode: GroupMode, number: usize) -> Result<usize, CollectiveError> {
        let partitions = self.shared.partitions;
        let (limit, id) = match mode {
            GroupMode::CrossPartition => (partitions, self.replica * partitions + number),
            _ => (self.shared.replicas, number * partitions + self.partition),
        };
        if number < limit {
            Ok(id)
        } else {
            Err(CollectiveError::UnknownDevice {
                device: number,
                devices: limit,
            })
        }
    }

    /// Brings `operands` to the meeting of `group` and takes what its devices
    /// brought, in the order of the group.
    pub(crate) fn meet(
        &self,
        instruction: (u32, u32),
        round: u64,
        group: &[usize],
        operands: Contribution,
        deadline: Option<Instant>,
    ) -> Result<Vec<Contribution>, CollectiveError> {
        let place = group.iter().position(|&id| id == self.id());
        let place = place.ok_or(CollectiveError::NoGroup { device: self.id() })?;
        if let Some(&device) = group.iter().find(|&&device| device >= self.count()) {
            return Err(CollectiveError::UnknownDevice {
                device,
                devices: self.count(),
            });
        }
        let deadline = deadline.unwrap_or_else(|| Instant::now() + PATIENCE);
        let meeting = Meeting {
            instruction,
            group: group.to_vec(),
            round,
        };
        let mut state = self.lock();
        let room = state.rooms.entry(meeting.clone()).or_default();
        room.brought.resize(group.len(), None);
        room.brought[place] = Some(operands);
        self.shared.changed.notify_all();
        loop {
            let failed = state.failed;
            let room = state.rooms.entry(meeting.clone()).or_default();
            let seen: Vec<Contribution> = room.brought.iter().flatten().cloned().collect();
            if seen.len() == group.len() {
                room.left += 1;
                if room.left == group.len() {
                    state.rooms.remove(&meeting);
                }
                return Ok(seen);
            }
            if let Some(device) = failed {
                return Err(CollectiveError::Aborted { device });
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(CollectiveError::Timeout {
                    seen: seen.len(),
                    expected: group.len(),
                });
            }
            state = self
                .shared
                .changed
                .wait_timeout(state, deadline - now)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}
