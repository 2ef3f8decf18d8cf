//! Meetings of ranks outside any model.

use std::time::{Duration, Instant};

use metaneff_binding::{BackendError, Cause, CollectiveContext};
use metaneff_schema::nrt::Status;

use crate::clock::Closed;
use crate::fault::Call;
use crate::model::{check_rank, stranger};
use crate::sim::Shared;
use crate::world::{Absence, Meeting, Parts};

impl Shared {
    /// Brings together what each rank of a world brings to `call`.
    pub(crate) fn gather(
        &self,
        call: &'static str,
        context: CollectiveContext,
        part: &[u8],
        limit: Option<Duration>,
    ) -> Result<Parts, BackendError> {
        check_rank(call, "g_device_id", context)?;
        self.exchange(
            call,
            context,
            (0..context.world_size).collect(),
            part,
            limit,
        )
    }

    /// Brings together what each rank of a group brings to `call`.
    pub(crate) fn exchange(
        &self,
        call: &'static str,
        context: CollectiveContext,
        group: Vec<u32>,
        part: &[u8],
        limit: Option<Duration>,
    ) -> Result<Parts, BackendError> {
        const ARGUMENT: &str = "g_device_id";

        self.open(call)?;
        check_rank(call, ARGUMENT, context)?;
        let start = Instant::now();
        let verdict = self.faults.judge(Call::Meet, None);
        self.obey(call, None, verdict, Duration::ZERO, start, limit)?;
        let meeting = Meeting {
            channel: call,
            group,
        };
        let deadline = limit.and_then(|limit| start.checked_add(limit));
        let met = self
            .world(context)
            .meet(&meeting, context.rank, part, deadline);
        met.map_err(|absence| match absence {
            Absence::Closed => Closed.at(call),
            Absence::Stranger => stranger(call, ARGUMENT, context),
            Absence::Missing { absent, expected } => {
                let there = expected - absent.len();
                let text = format!("{there} of {expected} ranks came, {absent:?} did not");
                BackendError::new(call, Status::TIMEOUT).because(Cause::Other(text))
            }
        })
    }
}
