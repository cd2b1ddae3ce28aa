//! One step of a random life: what is asked of the queue, and what it answers.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, Options};
use duebox_queue::{
    Cancelled, Due, Extension, IfExists, Lease, LeaseCall, Leased, NewJob, Pushed, ReclaimRule,
    Requeued, Rescheduled, Settled, Token, Turn, Verdict,
};

use crate::ground::Ground;

pub(crate) const CRASHES_MAX: u32 = 2;
pub(crate) const CRASH_INFO: &str = r#"{"class":"crashed"}"#;

/// A runner's claim on a job, right or stale.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Claim {
    pub(crate) id: JobId,
    pub(crate) token_us: u64,
    pub(crate) due_ms: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Push(IfExists, Vec<NewJob>),
    Plain { id: JobId, payload: Bytes, due: f64 },
    Promote { n: usize, skip: u64 },
    Lease(LeaseCall),
    Settle(Vec<(Claim, Verdict)>),
    Extend(Vec<(Claim, Duration)>),
    Reclaim { delay: Duration },
    Cancel(Vec<JobId>),
    Reschedule(JobId, Due),
    Requeue(Vec<JobId>),
    PruneOlder(Duration),
    PruneAbove(u64),
    Prune(Vec<JobId>),
    Pause(bool),
    Advance(Duration),
}

/// A job as it was handed out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Given {
    pub(crate) claim: Claim,
    pub(crate) payload: Bytes,
    pub(crate) options: Options,
    pub(crate) failures: u64,
    pub(crate) crashes: u64,
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
    Leased(Vec<Given>, u64),
    Empty,
    Paused,
    Settled(Vec<Settled>),
    Extended(Vec<Option<u64>>),
    Reclaimed(Vec<(JobId, Settled)>),
    Cancelled(Vec<Cancelled>),
    Rescheduled(Rescheduled),
    Requeued(Vec<Requeued>),
    Pruned(u64),
}

impl Reply {
    /// True if Redis may answer this where the model answers `expected`: all the same, but for
    /// `more`, which may be said once too often.
    pub(crate) fn agrees(&self, expected: &Self) -> bool {
        match (self, expected) {
            (Self::Promoted(real), Self::Promoted(expected)) => {
                let more = real.more || expected.more;
                *real == Promoted { more, ..*expected }
            }
            _ => self == expected,
        }
    }
}

impl Step {
    /// Does the step on the real queue.
    pub(crate) async fn perform(&self, ground: &Ground) -> Reply {
        let (queue, topic) = (&ground.queue, &ground.topic);
        match self {
            Self::Push(mode, jobs) => Reply::Pushed(ground.push_many(jobs, *mode).await),
            Self::Plain { id, payload, due } => {
                ground.plain_push_bytes(id.as_bytes(), payload, &due.to_string());
                Reply::Nothing
            }
            Self::Cancel(ids) => Reply::Cancelled(queue.cancel_many(topic, ids).await.unwrap()),
            Self::Reschedule(id, due) => {
                Reply::Rescheduled(queue.reschedule(topic, id, *due).await.unwrap())
            }
            Self::Requeue(ids) => Reply::Requeued(queue.requeue(topic, ids).await.unwrap()),
            Self::PruneOlder(age) => Reply::Pruned(queue.prune_older(topic, *age).await.unwrap()),
            Self::PruneAbove(kept) => Reply::Pruned(queue.prune_above(topic, *kept).await.unwrap()),
            Self::Prune(ids) => Reply::Pruned(queue.prune(topic, ids).await.unwrap()),
            Self::Pause(paused) => {
                let (command, args) =
                    if *paused { ("HSET", ["paused", "1"]) } else { ("HDEL", ["paused", ""]) };
                ground.on_key(command, "meta", &args);
                Reply::Nothing
            }
            Self::Advance(by) => {
                ground.advance(*by, &mut []);
                Reply::Nothing
            }
            _ => self.take_turn(ground).await,
        }
    }

    async fn take_turn(&self, ground: &Ground) -> Reply {
        match self {
            Self::Promote { n, skip } => {
                Reply::Promoted(ground.promote_some(*n, *skip).await.into())
            }
            Self::Lease(call) => Reply::of_lease(ground.lease(call).await),
            Self::Settle(claims) => {
                let settle: Vec<_> = claims
                    .iter()
                    .map(|(claim, verdict)| claim.lease().settle(verdict.clone()))
                    .collect();
                Reply::Settled(ground.settle_many(&settle).await)
            }
            Self::Extend(claims) => {
                let extension = |(claim, by): &(Claim, Duration)| Extension {
                    id: claim.id.clone(),
                    token: Token::expiring_at_us(claim.token_us),
                    by: *by,
                };
                let extend: Vec<_> = claims.iter().map(extension).collect();
                let reply = ground.turn(&Turn { extend: &extend, ..Turn::default() }).await;
                let tokens = reply.extended.unwrap().into_iter();
                Reply::Extended(tokens.map(|t| t.map(|t| t.expires_at_us())).collect())
            }
            Self::Reclaim { delay } => {
                let (max_crashes, delay, info) = (CRASHES_MAX, *delay, CRASH_INFO);
                let reclaim = Some(ReclaimRule { max_crashes, delay, info });
                let reply = ground.turn(&Turn { reclaim, ..Turn::default() }).await;
                Reply::Reclaimed(reply.reclaimed.unwrap().jobs)
            }
            _ => panic!("{self:?} is no part of a turn"),
        }
    }
}

impl Reply {
    fn of_lease(leased: Leased) -> Self {
        match leased {
            Leased::Jobs(leases, withdrawn) => {
                Self::Leased(leases.into_iter().map(Given::of).collect(), withdrawn)
            }
            Leased::Empty => Self::Empty,
            Leased::Paused => Self::Paused,
        }
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
            claim: Claim { id: lease.id, token_us, due_ms: lease.due_at_ms },
            payload: lease.payload,
            options: lease.options.unwrap(),
            failures: lease.failures.into(),
            crashes: lease.crashes.into(),
        }
    }
}

impl Claim {
    fn lease(&self) -> Lease {
        Lease {
            id: self.id.clone(),
            token: Token::expiring_at_us(self.token_us),
            due_at_ms: self.due_ms,
            payload: Bytes::new(),
            options: Ok(Options::default()),
            failures: 0,
            crashes: 0,
        }
    }
}
