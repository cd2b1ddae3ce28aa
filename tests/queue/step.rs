//! One step of a random life: what is asked of the queue, and what it answers.

use std::num::NonZero;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, Options};
use duebox_queue::{
    Cancelled, Due, Extension, IfExists, Lease, LeaseCall, Leased, LeasedJobs, Limits, NewJob,
    Pushed, ReclaimRule, Requeued, Rescheduled, Settled, Tick, Ticked, Token, Turn, Verdict,
};

use crate::fixture::{Fixture, HOLDER};
use crate::script::{PRUNE, PRUNE_RECORDS};

pub(crate) const CRASHES_MAX: u32 = 2;
pub(crate) const CRASH_INFO: &str = r#"{"class":"crashed"}"#;

/// A runner's claim on a job, right or stale.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Claim {
    pub(crate) id: JobId,
    pub(crate) token_us: u64,
    /// The due time in ms, with the job's place within the millisecond.
    pub(crate) due: f64,
}

/// True if a lease with this token was made for a job that would not start at once.
pub(crate) fn is_ahead(token_us: u64) -> bool {
    token_us % 2 == 1
}

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Push(IfExists, Vec<NewJob>),
    Plain { id: JobId, payload: Bytes, due: f64 },
    Promote { n: usize, skip: u64, discard: bool },
    Lease(LeaseCall),
    Settle(Vec<(Claim, Verdict)>),
    Extend(Vec<(Claim, Duration)>),
    Reclaim { delay: Duration, discard: bool },
    Cancel(Vec<JobId>),
    Reschedule(JobId, Due),
    Requeue(Vec<JobId>),
    PruneOlder(Duration),
    PruneAbove(u64),
    Prune(Vec<JobId>),
    PruneDone(u64),
    Pause(bool),
    Configure(Limits),
    Tick(TickStep),
    Sweep,
    Advance(Duration),
}

/// Ticks of a schedule; see [`Tick`].
#[derive(Debug, Clone)]
pub(crate) struct TickStep {
    pub(crate) schedule: String,
    pub(crate) line: String,
    pub(crate) expected: Option<u64>,
    pub(crate) until: u64,
    pub(crate) times: Vec<u64>,
    pub(crate) payload: Bytes,
}

/// A job as it was handed out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Given {
    pub(crate) claim: Claim,
    pub(crate) payload: Bytes,
    pub(crate) options: Options,
    pub(crate) failures: u64,
    pub(crate) crashes: u64,
    pub(crate) snoozes: u64,
}

/// What a lease call gave.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Granted {
    pub(crate) jobs: Vec<Given>,
    pub(crate) removed: u64,
    pub(crate) expired: u64,
    pub(crate) wait: Option<Duration>,
    pub(crate) suspects: u64,
}

/// What promoting answered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Promoted {
    pub(crate) moved: u64,
    pub(crate) skipped: u64,
    pub(crate) more: bool,
    pub(crate) next_due_in: Option<Duration>,
    pub(crate) bad: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reply {
    Nothing,
    Pushed(Vec<Pushed>),
    Promoted(Promoted),
    Leased(Granted),
    Empty(Option<Duration>),
    Limited(Option<Duration>),
    Paused,
    Late,
    Settled(Vec<Settled>),
    Extended(Vec<Option<u64>>),
    Reclaimed(Vec<(JobId, Settled)>),
    Cancelled(Vec<Cancelled>),
    Rescheduled(Rescheduled),
    Requeued(Vec<Requeued>),
    Pruned(u64),
    Changed(bool),
    Ticked(Ticked),
    PrunedRecords(u64, u64),
}

impl Reply {
    /// True if Redis may answer this where the model replies `expected`: all the same, but for
    /// `more`, which may be set once too often, and for waits that were counted from another moment
    /// of the step.
    pub(crate) fn agrees(&self, expected: &Self) -> bool {
        match (self, expected) {
            (Self::Promoted(real), Self::Promoted(expected)) => {
                let more = real.more || expected.more;
                *real == Promoted { more, ..*expected }
            }
            (Self::Leased(real), Self::Leased(expected)) => {
                let same = Granted { wait: real.wait, ..expected.clone() };
                *real == same && near(real.wait, expected.wait)
            }
            (Self::Empty(real), Self::Empty(expected))
            | (Self::Limited(real), Self::Limited(expected)) => near(*real, *expected),
            _ => self == expected,
        }
    }
}

/// True for waits that are the same to a millisecond.
fn near(real: Option<Duration>, expected: Option<Duration>) -> bool {
    match (real, expected) {
        (Some(real), Some(expected)) => real.abs_diff(expected) <= Duration::from_millis(1),
        _ => real == expected,
    }
}

impl Step {
    /// Does the step on the real queue.
    pub(crate) async fn perform(&self, fixture: &Fixture) -> Reply {
        let (queue, topic) = (&fixture.queue, &fixture.topic);
        match self {
            Self::Push(mode, jobs) => Reply::Pushed(fixture.push_many(jobs, *mode).await),
            Self::Plain { id, payload, due } => {
                fixture.plain_push_bytes(id.as_bytes(), payload, &due.to_string());
                Reply::Nothing
            }
            Self::Cancel(ids) => Reply::Cancelled(queue.cancel_many(topic, ids).await.unwrap()),
            Self::Reschedule(id, due) => {
                Reply::Rescheduled(queue.reschedule(topic, id, *due).await.unwrap())
            }
            Self::Requeue(ids) => Reply::Requeued(queue.requeue(topic, ids).await.unwrap()),
            Self::PruneOlder(age) => {
                Reply::Pruned(queue.prune_older(&fixture.shard, *age).await.unwrap())
            }
            Self::PruneAbove(kept) => {
                Reply::Pruned(queue.prune_above(&fixture.shard, *kept).await.unwrap())
            }
            Self::Prune(ids) => Reply::Pruned(queue.prune(topic, ids).await.unwrap()),
            Self::Pause(true) => Reply::Changed(queue.pause(topic).await.unwrap()),
            Self::Pause(false) => Reply::Changed(queue.resume(topic).await.unwrap()),
            Self::Configure(rules) => Reply::Changed(queue.configure(topic, rules).await.unwrap()),
            Self::Tick(tick) => Reply::Ticked(queue.tick(topic, &tick.borrow()).await.unwrap()),
            Self::Sweep => {
                let (held, follow_ups) = PRUNE_RECORDS.call(fixture, &["1000"]);
                Reply::PrunedRecords(held, follow_ups)
            }
            Self::PruneDone(kept) => {
                let kept = kept.to_string();
                Reply::Pruned(PRUNE.call(fixture, &["done", "above", &kept, "1000"]))
            }
            Self::Advance(by) => {
                fixture.advance(*by, &mut []);
                Reply::Nothing
            }
            _ => self.take_turn(fixture).await,
        }
    }

    async fn take_turn(&self, fixture: &Fixture) -> Reply {
        match self {
            Self::Promote { n, skip, discard } => {
                let (jobs, skip, discards_bad) = (*n, *skip, *discard);
                let promote = Some(duebox_queue::Promotion { jobs, skip, discards_bad });
                let reply = fixture.turn(&Turn { promote, ..Turn::default() }).await;
                Reply::Promoted(reply.promoted.unwrap().into())
            }
            Self::Lease(call) => Reply::of_lease(fixture.lease(call).await),
            Self::Settle(claims) => {
                let settle: Vec<_> = claims
                    .iter()
                    .map(|(claim, verdict)| claim.lease().settle(verdict.clone()))
                    .collect();
                Reply::Settled(fixture.settle_many(&settle).await)
            }
            Self::Extend(claims) => {
                let extension = |(claim, by): &(Claim, Duration)| Extension {
                    id: claim.id.clone(),
                    token: Token::expiring_at_us(claim.token_us),
                    by: *by,
                };
                let extend: Vec<_> = claims.iter().map(extension).collect();
                let turn =
                    Turn { holder: HOLDER, extend: extend.iter().collect(), ..Turn::default() };
                let reply = fixture.turn(&turn).await;
                let tokens = reply.extended.unwrap().into_iter();
                Reply::Extended(tokens.map(|t| t.map(|t| t.expires_at_us())).collect())
            }
            Self::Reclaim { delay, discard } => {
                let info = (!*discard).then_some(CRASH_INFO);
                let (max_crashes, delay) = (NonZero::new(CRASHES_MAX), *delay);
                let reclaim =
                    Some(ReclaimRule { max_crashes, delay, info, renewed_within: Duration::ZERO });
                let reply = fixture.turn(&Turn { reclaim, ..Turn::default() }).await;
                Reply::Reclaimed(reply.reclaimed.unwrap().jobs)
            }
            _ => panic!("{self:?} is not part of a turn"),
        }
    }
}

impl Reply {
    fn of_lease(leased: Leased) -> Self {
        match leased {
            Leased::Jobs(LeasedJobs { leases, removed, expired, wait, suspects }) => {
                let jobs = leases.into_iter().map(Given::of).collect();
                Self::Leased(Granted { jobs, removed, expired, wait, suspects })
            }
            Leased::Empty { wait } => Self::Empty(wait),
            Leased::Limited { wait } => Self::Limited(wait),
            Leased::Paused => Self::Paused,
            Leased::Late => Self::Late,
            Leased::NoLimits => panic!("no call of a life needs limits"),
        }
    }
}

impl TickStep {
    fn borrow(&self) -> Tick<'_> {
        let Self { schedule, line, expected, until, times, payload } = self;
        let (expected, until) = (*expected, *until);
        Tick { schedule, line, expected, until, payload, times }
    }
}

impl From<duebox_queue::Promoted> for Promoted {
    fn from(promoted: duebox_queue::Promoted) -> Self {
        let duebox_queue::Promoted { moved, skipped, more, next_due_in, bad, .. } = promoted;
        Self { moved, skipped, more, next_due_in, bad }
    }
}

impl Given {
    fn of(lease: Lease) -> Self {
        let token_us = lease.token.expires_at_us();
        Self {
            claim: Claim { id: lease.id, token_us, due: lease.place },
            payload: lease.payload,
            options: lease.options.unwrap(),
            failures: lease.failures.into(),
            crashes: lease.crashes.into(),
            snoozes: lease.snoozes.into(),
        }
    }
}

impl Claim {
    fn lease(&self) -> Lease {
        Lease {
            id: self.id.clone(),
            token: Token::expiring_at_us(self.token_us),
            due_at_ms: self.due as u64,
            place: self.due,
            payload: Bytes::new(),
            payload_bytes: 0,
            options: Ok(Options::default()),
            failures: 0,
            crashes: 0,
            snoozes: 0,
        }
    }
}
