//! Tensors sent from core to core: `nrt_async_sendrecv.h`.
//!
//! All cores are this process's, so that a communicator is connected when both
//! its ends have been made, and a request is done when its counterpart has been.
//! The peer's address is not looked at: there is one server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use metaneff_backend_sim::{Sim, SimTensor};
use metaneff_binding::Backend as _;
use metaneff_schema::nrt::Status;

use crate::handles::object;
use crate::runtime::lock;

/// Communicators of one core: the header leaves the number open.
pub(crate) const MAX_COMMUNICATORS: usize = 64;

/// Requests of one communicator that are under way.
pub(crate) const MAX_PENDING: usize = 128;

/// The communicators of a runtime.
#[derive(Debug, Default)]
pub(crate) struct Network {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    cores: BTreeMap<u32, CoreState>,
    /// Links from a core to another one, in the order in which they were made.
    links: BTreeMap<(u32, u32), Vec<Arc<Link>>>,
}

#[derive(Debug)]
enum CoreState {
    Ready {
        communicators: Vec<Arc<Link>>,
    },
    /// Closing failed.
    Broken,
}

/// The way from one core to another.
#[derive(Debug, Default)]
pub(crate) struct Link {
    state: Mutex<LinkState>,
}

#[derive(Debug, Default)]
struct LinkState {
    sender: bool,
    receiver: bool,
    closed: bool,
    sends: VecDeque<(Vec<u8>, Arc<Transfer>)>,
    receives: VecDeque<(SimTensor, usize, usize, Arc<Transfer>)>,
}

/// One end of a link: `nrt_async_sendrecv_comm_t`.
#[derive(Debug)]
pub(crate) struct Communicator {
    link: Arc<Link>,
    sends: bool,
    pub(crate) since: Instant,
}

/// A tensor under way.
#[derive(Debug, Default)]
pub(crate) struct Transfer {
    done: Mutex<Option<Result<usize, String>>>,
}

/// `nrt_async_sendrecv_request_t`.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) transfer: Arc<Transfer>,
    pub(crate) since: Instant,
}

object!(Communicator, "communicator");
object!(Request, "request");

/// Why something is not done, and the status that says so.
pub(crate) type Refusal = (Status, String);

fn refused<T>(text: impl Into<String>) -> Result<T, Refusal> {
    Err((Status::FAILURE, text.into()))
}

impl Transfer {
    fn end(&self, result: Result<usize, String>) {
        lock(&self.done).get_or_insert(result);
    }

    /// What became of it, or `None` while it is under way.
    pub(crate) fn outcome(&self) -> Option<Result<usize, String>> {
        lock(&self.done).clone()
    }
}

impl Network {
    /// Makes a core ready.
    pub(crate) fn open(&self, core: u32) -> Result<(), Refusal> {
        let mut state = lock(&self.state);
        match state.cores.get(&core) {
            Some(CoreState::Ready { .. }) => refused(format!("core {core} is initialised already")),
            Some(CoreState::Broken) => refused(format!("core {core} was not closed cleanly")),
            None => {
                let communicators = Vec::new();
                state.cores.insert(core, CoreState::Ready { communicators });
                Ok(())
            }
        }
    }

    /// Takes a core's communicators away.
    pub(crate) fn shut(&self, core: u32) -> Result<(), Refusal> {
        let mut state = lock(&self.state);
        let Some(CoreState::Ready { communicators }) = state.cores.remove(&core) else {
            return refused(format!("core {core} is not initialised"));
        };
        for links in state.links.values_mut() {
            links.retain(|link| !communicators.iter().any(|own| Arc::ptr_eq(own, link)));
        }
        let mut clean = true;
        for link in &communicators {
            clean &= link.close();
        }
        if clean {
            return Ok(());
        }
        state.cores.insert(core, CoreState::Broken);
        refused("a communicator is not connected, or a request is under way")
    }

    /// Whether a core is ready.
    pub(crate) fn check(&self, core: u32) -> Result<(), Refusal> {
        match lock(&self.state).cores.get(&core) {
            Some(CoreState::Ready { .. }) => Ok(()),
            _ => refused(format!("core {core} is not initialised")),
        }
    }

    /// Makes an end on `core` of a link to (`sends`) or from `peer`.
    pub(crate) fn join(&self, core: u32, peer: u32, sends: bool) -> Result<Communicator, Refusal> {
        let mut state = lock(&self.state);
        let State { cores, links } = &mut *state;
        let Some(CoreState::Ready { communicators }) = cores.get_mut(&core) else {
            return refused(format!("core {core} is not initialised"));
        };
        if communicators.len() >= MAX_COMMUNICATORS {
            let text = format!("core {core} has {MAX_COMMUNICATORS} communicators already");
            return Err((Status::RESOURCE, text));
        }
        let way = if sends { (core, peer) } else { (peer, core) };
        let links = links.entry(way).or_default();
        let vacant = links.iter().find(|link| link.seat(sends));
        let link = match vacant {
            Some(link) => Arc::clone(link),
            None => {
                let link = Arc::new(Link::default());
                link.seat(sends);
                links.push(Arc::clone(&link));
                link
            }
        };
        communicators.push(Arc::clone(&link));
        Ok(Communicator {
            link,
            sends,
            since: Instant::now(),
        })
    }

    /// Ends everything.
    pub(crate) fn close(&self) {
        let state = std::mem::take(&mut *lock(&self.state));
        for link in state.links.values().flatten() {
            link.close();
        }
    }
}

impl Link {
    /// Takes one end, if it is free.
    fn seat(&self, sends: bool) -> bool {
        let mut state = lock(&self.state);
        let end = if sends {
            &mut state.sender
        } else {
            &mut state.receiver
        };
        !std::mem::replace(end, true)
    }

    /// Ends what is under way; answers whether all was in order.
    fn close(&self) -> bool {
        let mut state = lock(&self.state);
        let connected = state.sender && state.receiver;
        let idle = state.sends.is_empty() && state.receives.is_empty();
        let again = std::mem::replace(&mut state.closed, true);
        let ended = || Err("the communicator was closed".to_owned());
        for (_, transfer) in state.sends.drain(..) {
            transfer.end(ended());
        }
        for (.., transfer) in state.receives.drain(..) {
            transfer.end(ended());
        }
        // The other end has answered for what was under way.
        again || (connected && idle)
    }
}

impl Communicator {
    /// Whether the other end is there.
    pub(crate) fn connected(&self) -> Result<bool, Refusal> {
        let state = lock(&self.link.state);
        if state.closed {
            return refused("the communicator was closed");
        }
        Ok(state.sender && state.receiver)
    }

    fn ready(&self, sends: bool) -> Result<(), Refusal> {
        if self.sends != sends {
            let text = "the communicator is of the other direction".to_owned();
            return Err((Status::INVALID_HANDLE, text));
        }
        match self.connected()? {
            true => Ok(()),
            false => refused("the communicator is not connected"),
        }
    }

    /// Sends bytes.
    pub(crate) fn send(&self, sim: &Sim, data: Vec<u8>) -> Result<Request, Refusal> {
        self.ready(true)?;
        let transfer = Arc::new(Transfer::default());
        let mut state = lock(&self.link.state);
        room(state.sends.len())?;
        state.sends.push_back((data, Arc::clone(&transfer)));
        state.move_on(sim);
        Ok(Request::new(transfer))
    }

    /// Receives `size` bytes at most at `offset` of a tensor.
    pub(crate) fn receive(
        &self,
        sim: &Sim,
        tensor: SimTensor,
        offset: usize,
        size: usize,
    ) -> Result<Request, Refusal> {
        self.ready(false)?;
        let transfer = Arc::new(Transfer::default());
        let mut state = lock(&self.link.state);
        room(state.receives.len())?;
        let receive = (tensor, offset, size, Arc::clone(&transfer));
        state.receives.push_back(receive);
        state.move_on(sim);
        Ok(Request::new(transfer))
    }
}

fn room(pending: usize) -> Result<(), Refusal> {
    if pending < MAX_PENDING {
        return Ok(());
    }
    let text = format!("{MAX_PENDING} requests are under way already");
    Err((Status::RESOURCE, text))
}

impl Request {
    fn new(transfer: Arc<Transfer>) -> Self {
        Self {
            transfer,
            since: Instant::now(),
        }
    }
}

impl LinkState {
    /// Brings together what was sent and what is to be received, in order.
    fn move_on(&mut self, sim: &Sim) {
        while !self.sends.is_empty() && !self.receives.is_empty() {
            let (Some((data, sent)), Some((tensor, offset, size, received))) =
                (self.sends.pop_front(), self.receives.pop_front())
            else {
                return;
            };
            let result = if data.len() > size {
                Err(format!("{} bytes were sent, {size} awaited", data.len()))
            } else {
                let written = sim.write(&tensor, offset, &data);
                written
                    .map(|()| data.len())
                    .map_err(|error| error.to_string())
            };
            sent.end(result.clone());
            received.end(result);
        }
    }
}

#[cfg(test)]
mod tests {
    use metaneff_binding::{Core, Placement};

    use super::*;

    #[test]
    fn what_is_sent_arrives_in_order_and_no_earlier() {
        let sim = Sim::builder().build().unwrap();
        let tensor = sim.allocate(Placement::Host, Core::new(0), 8, c"").unwrap();
        let network = Network::default();
        assert_eq!(network.join(0, 1, true).unwrap_err().0, Status::FAILURE);
        network.open(0).unwrap();
        network.open(1).unwrap();
        assert!(network.open(1).is_err());
        let sender = network.join(0, 1, true).unwrap();
        assert_eq!(sender.connected(), Ok(false));
        assert!(sender.send(&sim, vec![1]).is_err());
        let receiver = network.join(1, 0, false).unwrap();
        assert_eq!(sender.connected(), Ok(true));
        assert_eq!(
            receiver.send(&sim, vec![1]).unwrap_err().0,
            Status::INVALID_HANDLE
        );
        let first = sender.send(&sim, vec![1, 2]).unwrap();
        let second = sender.send(&sim, vec![3, 4, 5]).unwrap();
        assert_eq!(first.transfer.outcome(), None);
        let get = |offset, size| {
            receiver
                .receive(&sim, tensor.clone(), offset, size)
                .unwrap()
        };
        assert_eq!(get(1, 4).transfer.outcome(), Some(Ok(2)));
        assert_eq!(first.transfer.outcome(), Some(Ok(2)));
        // The second is longer than what is awaited.
        assert!(matches!(get(0, 2).transfer.outcome(), Some(Err(_))));
        assert!(matches!(second.transfer.outcome(), Some(Err(_))));
        let waiting = get(0, 8);
        let mut bytes = [9; 4];
        sim.read(&tensor, 0, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 1, 2, 0]);
        assert!(network.shut(1).is_err());
        assert!(matches!(waiting.transfer.outcome(), Some(Err(_))));
        assert!(network.open(1).is_err());
        assert_eq!(network.shut(0), Ok(()));
    }

    #[test]
    fn a_core_has_so_many_communicators_and_no_more() {
        let network = Network::default();
        network.open(3).unwrap();
        for _ in 0..MAX_COMMUNICATORS {
            network.join(3, 4, true).unwrap();
        }
        assert_eq!(network.join(3, 4, true).unwrap_err().0, Status::RESOURCE);
        network.close();
        assert!(network.check(3).is_err());
    }
}
