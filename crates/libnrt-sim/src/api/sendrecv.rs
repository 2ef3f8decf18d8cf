//! Tensors sent from core to core.

use std::ffi::c_int;
use std::time::Instant;

use metaneff_binding::{Backend as _, BackendError, Cause};
use metaneff_schema::nrt::Status;

use crate::export::{export, failed, failure, invalid};
use crate::handles::{Handle, Tensor};
use crate::pointers::{Out, Text};
use crate::runtime::{self, Runtime};
use crate::sendrecv::{Communicator, MAX_COMMUNICATORS, MAX_PENDING, Refusal, Request};

export! {
    header "nrt_async_sendrecv.h", node "NRT_2.0.0";

    /// Makes the receiving end of a link.
    fn nrt_async_sendrecv_accept(
        call; peer_ip: Text, peer_lnc: c_int, lnc: c_int, recv_comm: Out<Handle<Communicator>>,
    ) -> Status {
        join(call, &peer_ip, (peer_lnc, lnc), &recv_comm, false)
    }

    /// Takes a core's communicators away.
    fn nrt_async_sendrecv_close(call; lnc: c_int) -> Status {
        let runtime = runtime::current(call)?;
        let core = core(call, &runtime, "lnc", lnc)?;
        runtime.network.shut(core).map_err(|refusal| refused(call, refusal))?;
        Ok(Status::SUCCESS)
    }

    /// Makes the sending end of a link.
    fn nrt_async_sendrecv_connect(
        call; peer_ip: Text, peer_lnc: c_int, lnc: c_int, send_comm: Out<Handle<Communicator>>,
    ) -> Status {
        join(call, &peer_ip, (peer_lnc, lnc), &send_comm, true)
    }

    /// What a request says has arrived has arrived.
    fn nrt_async_sendrecv_flush(call; lnc: c_int) -> Status {
        let runtime = runtime::current(call)?;
        let core = core(call, &runtime, "lnc", lnc)?;
        runtime.network.check(core).map_err(|refusal| refused(call, refusal))?;
        Ok(Status::SUCCESS)
    }

    /// How many communicators a core can have.
    fn nrt_async_sendrecv_get_max_num_communicators_per_lnc(call; num: Out<c_int>) -> Status {
        let number = c_int::try_from(MAX_COMMUNICATORS).unwrap_or(c_int::MAX);
        num.place(call, "num")?.set(number);
        Ok(Status::SUCCESS)
    }

    /// How many requests a communicator can have under way.
    fn nrt_async_sendrecv_get_max_num_pending_request(call; num: Out<c_int>) -> Status {
        let number = c_int::try_from(MAX_PENDING).unwrap_or(c_int::MAX);
        num.place(call, "num")?.set(number);
        Ok(Status::SUCCESS)
    }

    /// Makes a core ready for communicators.
    fn nrt_async_sendrecv_init(call; lnc: c_int) -> Status {
        let runtime = runtime::current(call)?;
        let core = core(call, &runtime, "lnc", lnc)?;
        runtime.network.open(core).map_err(|refusal| refused(call, refusal))?;
        Ok(Status::SUCCESS)
    }

    /// Receives bytes into a tensor.
    fn nrt_async_sendrecv_recv_tensor(
        call; tensor: Handle<Tensor>, offset: usize, length: usize,
        recv_comm: Handle<Communicator>, request: Out<Handle<Request>>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let place = request.place(call, "request")?;
        let communicator = recv_comm.get(call, "recv_comm")?;
        let tensor = tensor.get(call, "tensor")?.tensor.clone();
        inside(call, offset, length, tensor.size())?;
        let made = communicator.receive(&runtime.sim, tensor, offset, length);
        place.set(Handle::new(made.map_err(|refusal| refused(call, refusal))?));
        Ok(Status::SUCCESS)
    }

    /// Sends bytes of a tensor, as they are now.
    fn nrt_async_sendrecv_send_tensor(
        call; tensor: Handle<Tensor>, offset: usize, length: usize,
        send_comm: Handle<Communicator>, request: Out<Handle<Request>>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let place = request.place(call, "request")?;
        let communicator = send_comm.get(call, "send_comm")?;
        let tensor = tensor.get(call, "tensor")?;
        inside(call, offset, length, tensor.tensor.size())?;
        runtime.settle();
        let mut data = vec![0; length];
        runtime.sim.read(&tensor.tensor, offset, &mut data)?;
        let made = communicator.send(&runtime.sim, data);
        place.set(Handle::new(made.map_err(|refusal| refused(call, refusal))?));
        Ok(Status::SUCCESS)
    }

    /// Whether the other end is there.
    fn nrt_async_sendrecv_test_comm(
        call; comm: Handle<Communicator>, done: Out<bool>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let place = done.place(call, "done")?;
        let communicator = comm.get(call, "comm")?;
        let connected = communicator.connected().map_err(|refusal| refused(call, refusal))?;
        if !connected {
            in_time(call, &runtime, communicator.since)?;
        }
        place.set(connected);
        Ok(Status::SUCCESS)
    }

    /// Whether a request is done; its handle is dead once this says so.
    fn nrt_async_sendrecv_test_request(
        call; request: Handle<Request>, done: Out<bool>, size: Out<usize>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let done = done.place(call, "done")?;
        let size = size.place(call, "size")?;
        let pending = request.get(call, "request")?;
        let Some(outcome) = pending.transfer.outcome() else {
            in_time(call, &runtime, pending.since)?;
            done.set(false);
            size.set(0);
            return Ok(Status::SUCCESS);
        };
        request.take(call, "request")?;
        size.set(outcome.map_err(|text| failed(call, Status::FAILURE, text))?);
        done.set(true);
        Ok(Status::SUCCESS)
    }
}

fn refused(call: &'static str, (status, text): Refusal) -> BackendError {
    failure(call, status).because(Cause::Other(text))
}

/// A core of the instance, visible or not.
fn core(
    call: &'static str,
    runtime: &Runtime,
    argument: &'static str,
    lnc: c_int,
) -> Result<u32, BackendError> {
    let total = runtime.sim.topology().total;
    let core = u32::try_from(lnc).ok().filter(|core| *core < total);
    core.ok_or_else(|| invalid(call, argument, format!("there is no core {lnc} of {total}")))
}

fn join(
    call: &'static str,
    peer_ip: &Text,
    (peer, own): (c_int, c_int),
    communicator: &Out<Handle<Communicator>>,
    sends: bool,
) -> Result<Status, BackendError> {
    let runtime = runtime::current(call)?;
    let place = communicator.place(call, "comm")?;
    peer_ip.get(call, "peer_ip")?;
    let peer = core(call, &runtime, "peer_lnc", peer)?;
    let own = core(call, &runtime, "lnc", own)?;
    let made = runtime.network.join(own, peer, sends);
    place.set(Handle::new(made.map_err(|refusal| refused(call, refusal))?));
    Ok(Status::SUCCESS)
}

/// What is not there yet must come within the time of an execution.
fn in_time(call: &'static str, runtime: &Runtime, since: Instant) -> Result<(), BackendError> {
    match runtime.sim.execution_timeout() {
        Some(limit) if since.elapsed() > limit => Err(failed(
            call,
            Status::TIMEOUT,
            format!("the other end has not come within {limit:?}"),
        )),
        _ => Ok(()),
    }
}

fn inside(
    call: &'static str,
    offset: usize,
    length: usize,
    available: usize,
) -> Result<(), BackendError> {
    if offset
        .checked_add(length)
        .is_some_and(|end| end <= available)
    {
        return Ok(());
    }
    let detail =
        format!("{length} bytes from {offset} on are not inside a tensor of {available} bytes");
    Err(invalid(call, "length", detail))
}
