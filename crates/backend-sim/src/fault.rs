//! Faults that a simulated device shows on demand.
//!
//! # Text form
//!
//! Faults are separated by `;`. One is `CALL@WHEN=ACTION`, or
//! `CALL/CORE@WHEN=ACTION` to count the calls on one core only:
//!
//! | part | form |
//! |---|---|
//! | CALL | `init`, `load`, `unload`, `allocate`, `read`, `write`, `copy`, `bind`, `execute`, `meet` |
//! | CORE | index of a visible core |
//! | WHEN | `3`: the third call; `3+`: the third and all later; `%3`: every third; `*`: each |
//! | ACTION | `fail:STATUS`, `delay:TIME`, `hang`, `hang:TIME`, `poison:STATUS` |
//! | STATUS | a number or a name of `nrt_status.h`, such as `1004` or `NRT_TIMEOUT` |
//! | TIME | `250us`, `50ms`, `2s` |
//!
//! ```
//! use metaneff_backend_sim::FaultPlan;
//!
//! let plan: FaultPlan = "execute@3=fail:1004; load/1@*=delay:5ms".parse()?;
//! assert_eq!(plan.faults().len(), 2);
//! # Ok::<(), metaneff_backend_sim::FaultSyntax>(())
//! ```

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metaneff_binding::Core;
use metaneff_schema::nrt::Status;

use crate::quantity;
use crate::sync::lock;

/// A kind of call that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Call {
    /// `nrt_init`, which [`Lifecycle::init`](crate::Lifecycle::init) stands for;
    /// counted from the start of the process. There is no core to poison and no
    /// close to end a hang: the one fails, the other without a limit answers
    /// `NRT_TIMEOUT` at once.
    Init,
    /// `nrt_load` and `nrt_load_collectives`.
    Load,
    /// `nrt_unload`.
    Unload,
    /// `nrt_tensor_allocate` and `nrt_tensor_allocate_slice`.
    Allocate,
    /// `nrt_tensor_read`.
    Read,
    /// `nrt_tensor_write` and `nrt_tensor_memset`.
    Write,
    /// `nrt_tensor_copy`.
    Copy,
    /// `nrt_add_tensor_to_tensor_set`.
    Bind,
    /// `nrt_execute`.
    Execute,
    /// `nrt_barrier`, `nrt_all_gather` and collectives outside of a model.
    Meet,
}

const CALLS: &[(&str, Call)] = &[
    ("init", Call::Init),
    ("load", Call::Load),
    ("unload", Call::Unload),
    ("allocate", Call::Allocate),
    ("read", Call::Read),
    ("write", Call::Write),
    ("copy", Call::Copy),
    ("bind", Call::Bind),
    ("execute", Call::Execute),
    ("meet", Call::Meet),
];

/// Which calls of a kind a fault hits, counted from 1 from when the fault was
/// planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum When {
    /// The n-th and no other.
    Nth(NonZeroU64),
    /// The n-th and all later ones.
    From(NonZeroU64),
    /// The n-th, the 2n-th and so on.
    Every(NonZeroU64),
}

/// What a fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// The call answers this status. An execution that is to answer a status of
    /// a completion (1003 or 1004) takes place first, and its outputs are
    /// written; after any other status nothing has happened.
    Fail(Status),
    /// The call takes this much longer.
    Delay(Duration),
    /// The call does not come back before this limit, or, for an execution
    /// without one, before the execution timeout; then it answers
    /// `NRT_TIMEOUT`. Where there is neither, it comes back when the simulator
    /// is closed, with `NRT_CLOSED`.
    Hang(Option<Duration>),
    /// The call answers this status, and so does every later load and execution
    /// on the core, until the core is reset
    /// ([`Sim::reset_core`](crate::Sim::reset_core)).
    Poison(Status),
}

/// One planned fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    call: Call,
    core: Option<Core>,
    when: When,
    action: Action,
}

impl Fault {
    /// Plans `action` for the calls of kind `call` that `when` names.
    #[must_use]
    pub const fn new(call: Call, when: When, action: Action) -> Self {
        Self {
            call,
            core: None,
            when,
            action,
        }
    }

    /// Plans `action` for the first call of kind `call`.
    #[must_use]
    pub const fn first(call: Call, action: Action) -> Self {
        Self::new(call, When::Nth(NonZeroU64::MIN), action)
    }

    /// Plans `action` for every call of kind `call`.
    #[must_use]
    pub const fn always(call: Call, action: Action) -> Self {
        Self::new(call, When::From(NonZeroU64::MIN), action)
    }

    /// Counts and hits calls on this core only.
    #[must_use]
    pub const fn on(mut self, core: Core) -> Self {
        self.core = Some(core);
        self
    }
}

/// Faults, in order. The first that stops a call wins; delays add up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    faults: Vec<Fault>,
}

impl FaultPlan {
    /// No faults.
    #[must_use]
    pub const fn new() -> Self {
        Self { faults: Vec::new() }
    }

    /// Adds a fault.
    #[must_use]
    pub fn with(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// The faults.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }
}

/// A fault that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fault `{fault}`: `{token}` is not {expected}")]
pub struct FaultSyntax {
    fault: String,
    token: String,
    expected: &'static str,
}

impl FaultSyntax {
    /// The whole fault.
    #[must_use]
    pub fn fault(&self) -> &str {
        &self.fault
    }

    /// The part that is wrong.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }
}

impl FromStr for FaultPlan {
    type Err = FaultSyntax;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let faults = text.split(';').map(str::trim).filter(|f| !f.is_empty());
        Ok(Self {
            faults: faults.map(str::parse).collect::<Result<_, _>>()?,
        })
    }
}

impl FromStr for Fault {
    type Err = FaultSyntax;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |token: &str, expected| FaultSyntax {
            fault: text.to_owned(),
            token: token.to_owned(),
            expected,
        };
        let shape = "of the form CALL@WHEN=ACTION";
        let (place, action) = text.split_once('=').ok_or_else(|| wrong(text, shape))?;
        let (call, when) = place.split_once('@').ok_or_else(|| wrong(place, shape))?;
        let (call, core) = match call.split_once('/') {
            None => (call, None),
            Some((call, core)) => {
                let index = core.trim().parse().ok();
                let index = index.ok_or_else(|| wrong(core, "the index of a core"))?;
                (call, Some(Core::new(index)))
            }
        };
        let (call, when, action) = (call.trim(), when.trim(), action.trim());
        let kind = CALLS.iter().find(|(name, _)| *name == call);
        let (_, call) = *kind.ok_or_else(|| wrong(call, "a call that can fail"))?;
        let when = parse_when(when).ok_or_else(|| wrong(when, "3, 3+, %3 or *"))?;
        let action = parse_action(action).ok_or_else(|| {
            wrong(
                action,
                "fail:STATUS, delay:TIME, hang, hang:TIME or poison:STATUS",
            )
        })?;
        Ok(Self {
            call,
            core,
            when,
            action,
        })
    }
}

fn parse_when(text: &str) -> Option<When> {
    if text == "*" {
        return Some(When::From(NonZeroU64::MIN));
    }
    if let Some(n) = text.strip_prefix('%') {
        return n.parse().ok().map(When::Every);
    }
    match text.strip_suffix('+') {
        Some(n) => n.parse().ok().map(When::From),
        None => text.parse().ok().map(When::Nth),
    }
}

fn parse_action(text: &str) -> Option<Action> {
    let (verb, value) = match text.split_once(':') {
        Some((verb, value)) => (verb.trim(), Some(value.trim())),
        None => (text, None),
    };
    match (verb, value) {
        ("fail", Some(status)) => parse_status(status).map(Action::Fail),
        ("poison", Some(status)) => parse_status(status).map(Action::Poison),
        ("delay", Some(time)) => quantity::duration(time).map(Action::Delay),
        ("hang", Some(time)) => quantity::duration(time).map(|t| Action::Hang(Some(t))),
        ("hang", None) => Some(Action::Hang(None)),
        _ => None,
    }
}

/// A failing status by number or by name. Success is not a fault.
pub(crate) fn parse_status(text: &str) -> Option<Status> {
    let named = Status::ALL.iter().find(|s| s.name() == Some(text));
    let status = named.copied().or_else(|| text.parse().ok().map(Status))?;
    (status != Status::SUCCESS).then_some(status)
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = CALLS.iter().find(|(_, call)| call == self);
        f.write_str(name.map_or("?", |(name, _)| name))
    }
}

/// What happens to one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) delay: Duration,
    pub(crate) stop: Option<Stop>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Fail(Status),
    Hang(Option<Duration>),
    Poison(Status),
}

/// The faults that wait for their call.
#[derive(Debug, Default)]
pub(crate) struct Armed {
    any: AtomicBool,
    faults: Mutex<Vec<(Fault, u64)>>,
}

impl Armed {
    pub(crate) fn new(plan: &FaultPlan) -> Self {
        let armed = Self::default();
        for fault in plan.faults() {
            armed.arm(*fault);
        }
        armed
    }

    pub(crate) fn arm(&self, fault: Fault) {
        lock(&self.faults).push((fault, 0));
        self.any.store(true, Ordering::Release);
    }

    /// As if `count` calls had been made already.
    pub(crate) fn skip(&self, call: Call, count: u64) {
        for (fault, seen) in lock(&self.faults).iter_mut() {
            if fault.call == call {
                *seen += count;
            }
        }
    }

    /// Counts a call and says what happens to it.
    pub(crate) fn judge(&self, call: Call, core: Option<Core>) -> Verdict {
        let mut verdict = Verdict::default();
        if !self.any.load(Ordering::Acquire) {
            return verdict;
        }
        for (fault, seen) in lock(&self.faults).iter_mut() {
            if fault.call != call || (fault.core.is_some() && fault.core != core) {
                continue;
            }
            *seen += 1;
            let hit = match fault.when {
                When::Nth(n) => *seen == n.get(),
                When::From(n) => *seen >= n.get(),
                When::Every(n) => *seen % n.get() == 0,
            };
            if !hit || verdict.stop.is_some() {
                continue;
            }
            match fault.action {
                Action::Delay(time) => verdict.delay = verdict.delay.saturating_add(time),
                Action::Fail(status) => verdict.stop = Some(Stop::Fail(status)),
                Action::Hang(limit) => verdict.stop = Some(Stop::Hang(limit)),
                Action::Poison(status) => verdict.stop = Some(Stop::Poison(status)),
            }
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n(n: u64) -> NonZeroU64 {
        NonZeroU64::new(n).unwrap()
    }

    #[test]
    fn the_text_form_is_read() {
        for (text, want) in [
            (
                "execute@3=fail:1004",
                Fault::new(
                    Call::Execute,
                    When::Nth(n(3)),
                    Action::Fail(Status::EXEC_COMPLETED_WITH_ERR),
                ),
            ),
            (
                " load/1 @ 2+ = hang ",
                Fault::new(Call::Load, When::From(n(2)), Action::Hang(None)).on(Core::new(1)),
            ),
            (
                "write@%4=delay:50ms",
                Fault::new(
                    Call::Write,
                    When::Every(n(4)),
                    Action::Delay(Duration::from_millis(50)),
                ),
            ),
            (
                "execute@*=poison:NRT_EXEC_HW_ERR_DMA_ABORT",
                Fault::always(Call::Execute, Action::Poison(Status::EXEC_HW_ERR_DMA_ABORT)),
            ),
        ] {
            assert_eq!(text.parse(), Ok(want), "{text}");
        }
        assert_eq!(" ; ".parse(), Ok(FaultPlan::new()));
    }

    #[test]
    fn the_wrong_part_is_named() {
        for (text, token) in [
            ("execute", "execute"),
            ("execute=fail:1", "execute"),
            ("eat@1=fail:1", "eat"),
            ("load/x@1=fail:1", "x"),
            ("load@0=fail:1", "0"),
            ("load@=fail:1", ""),
            ("load@1=fail", "fail"),
            ("load@1=fail:0", "fail:0"),
            ("load@1=fail:NRT_SUCCESS", "fail:NRT_SUCCESS"),
            ("load@1=delay:5", "delay:5"),
        ] {
            let error = text.parse::<Fault>().unwrap_err();
            assert_eq!((error.fault(), error.token()), (text, token));
        }
    }

    #[test]
    fn calls_are_counted_by_kind_and_core() {
        let plan = "execute/1@2=fail:5; execute@%3=delay:1ms; execute@3=delay:1ms";
        let armed = Armed::new(&plan.parse().unwrap());
        let judge = |core| armed.judge(Call::Execute, Some(Core::new(core)));
        assert_eq!(judge(1), Verdict::default());
        assert_eq!(armed.judge(Call::Load, None), Verdict::default());
        assert_eq!(judge(0), Verdict::default());
        let third = judge(1);
        // The failing fault stands before the delays and stops the call.
        assert_eq!(third.stop, Some(Stop::Fail(Status::TIMEOUT)));
        assert_eq!(third.delay, Duration::ZERO);
        assert_eq!(
            (judge(0), judge(0)),
            (Verdict::default(), Verdict::default())
        );
        assert_eq!(judge(0).delay, Duration::from_millis(1));
    }
}
