//! Ends leases with verdicts.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::{FailureClass, FollowUp, JobId};
use redis::{Cmd, Value};

use crate::error::QueueError;
use crate::wire::bounds::fitting;
use crate::wire::constants::BATCH_MAX;
use crate::wire::keys::ShardKeys;
use crate::wire::millis::millis;
use crate::wire::reply::{text, unexpected};
use crate::wire::script::SETTLE;
use crate::work::extend::Extension;
use crate::work::lease::{Lease, Token};

/// How a lease ends.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Done: delete the job.
    Ack,
    /// Failed, and not worth keeping: delete the job. For Redis this is an ack.
    Discard,
    /// Done, and something of the job is kept.
    Finish(Finish),
    /// Snoozed: not a failure, and no attempt is spent. After `max_snoozes` this is a nack.
    Snooze {
        /// The wait.
        delay: Duration,
        /// How often the job may be snoozed, 0 to [`duebox_job::SNOOZES_MAX`].
        max_snoozes: u32,
        /// The wait after the nack.
        nack_delay: Duration,
        /// Attempts the job has in all, for the nack.
        max_attempts: u32,
        /// What a dead job keeps if the nack buries it, as JSON.
        info: String,
    },
    /// Failed: try again after `delay`, or bury the job if that was its last attempt.
    Nack {
        /// The wait before the next attempt.
        delay: Duration,
        /// Attempts the job has in all.
        max_attempts: u32,
        /// What a dead job keeps, as JSON ([`LastAttempt`](crate::LastAttempt)).
        info: String,
    },
    /// Bury the job now.
    Drop {
        /// What a dead job keeps, as for a nack.
        info: String,
    },
    /// The attempt did not happen: back to ready, or to retry after `delay`. No attempt is spent.
    Release {
        /// The wait; zero puts the job back under its old due time.
        delay: Duration,
    },
}

impl Verdict {
    /// True if the script carries it out as an ack that leaves nothing.
    fn is_ack(&self) -> bool {
        matches!(self, Self::Ack | Self::Discard)
    }

    fn ends_job(&self) -> bool {
        !matches!(self, Self::Nack { .. } | Self::Snooze { .. } | Self::Release { .. })
    }

    /// A failed attempt: the job is tried again after `delay`, until it has had `max_attempts` (1 to
    /// [`duebox_job::ATTEMPTS_MAX`]). A dead job keeps the reason.
    pub fn nack(delay: Duration, max_attempts: u32, reason: &str) -> Self {
        Self::Nack { delay, max_attempts, info: info_json(FailureClass::Nack, reason) }
    }

    /// A failure that another attempt would not help: the job goes to dead, and keeps the reason.
    pub fn drop(reason: &str) -> Self {
        Self::Drop { info: info_json(FailureClass::Drop, reason) }
    }
}

/// What a dead job keeps of its death, as JSON.
fn info_json(class: FailureClass, reason: &str) -> String {
    serde_json::json!({ "class": class.name(), "reason": reason }).to_string()
}

/// What is kept of a done job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Finish {
    /// How long pushes of its id are refused; zero is not at all.
    pub unique_for: Duration,
    /// Keeps the job in `done` with this JSON; none does not keep it.
    pub info: Option<String>,
    /// The result that the handler set; stored next to the info.
    pub result: Option<Bytes>,
    /// Jobs to push with the ack, at most 100. See [`Queue::relay`](crate::Queue::relay).
    pub follow_ups: Vec<FollowUp>,
}

/// What a verdict leaves of its job, which decides to which keys of the topic it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remains {
    /// Nothing.
    Nothing,
    /// A mark of its id, or a done job.
    Done,
    /// Follow-up jobs, and maybe what [`Self::Done`] leaves.
    FollowUps,
    /// A job that runs again now.
    Ready,
    /// A job that runs again after a wait.
    Retry,
    /// A dead job.
    Dead,
}

/// A lease and its verdict. A turn borrows it, so that a turn without a reply can be repeated.
#[derive(Debug, Clone)]
pub struct Settlement {
    id: JobId,
    token: Token,
    place: f64,
    payload_bytes: usize,
    failures: u32,
    snoozes: u32,
    verdict: Verdict,
}

impl Lease {
    /// Pairs the lease with a verdict; [`Queue::settle`](crate::Queue::settle) or a turn carries it
    /// out.
    pub fn settle(self, verdict: Verdict) -> Settlement {
        let Self { id, token, place, payload_bytes, failures, snoozes, .. } = self;
        Settlement { id, token, place, payload_bytes, failures, snoozes, verdict }
    }
}

/// The result of a settlement, or of a reclaimed lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Acked and deleted.
    Done,
    /// A newer push of its id waits; this job is over.
    Superseded,
    /// It was cancelled while it ran.
    Cancelled,
    /// Back to ready or retry, with no attempt spent.
    Released,
    /// Waits for its next attempt.
    Retry,
    /// Snoozed; waits to run again.
    Snoozed,
    /// Deleted: the topic discards what it would bury.
    Discarded,
    /// Buried: it is in `dead`.
    Dead,
    /// The token was stale: the lease had expired or was settled before. Nothing has changed.
    Lost,
}

impl Settled {
    /// The word for it in replies, logs and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Superseded => "superseded",
            Self::Cancelled => "cancelled",
            Self::Released => "released",
            Self::Retry => "retry",
            Self::Snoozed => "snoozed",
            Self::Discarded => "discarded",
            Self::Dead => "dead",
            Self::Lost => "lost",
        }
    }

    /// The results of these settlements, in their order.
    pub(crate) fn read(reply: Value, settlements: &[&Settlement]) -> Result<Vec<Self>, QueueError> {
        let letters = text(&reply)?;
        if letters.len() != settlements.len() {
            return Err(unexpected(&reply));
        }
        let mut settled = Vec::with_capacity(letters.len());
        for (letter, settlement) in letters.bytes().zip(settlements) {
            let became = Self::of_letter(letter).ok_or_else(|| unexpected(&reply))?;
            settled.push(match (became, &settlement.verdict) {
                (Self::Done, Verdict::Discard) => Self::Discarded,
                _ => became,
            });
        }
        Ok(settled)
    }

    fn of_letter(letter: u8) -> Option<Self> {
        match letter {
            b'd' => Some(Self::Done),
            b's' => Some(Self::Superseded),
            b'c' => Some(Self::Cancelled),
            b'r' => Some(Self::Released),
            b't' => Some(Self::Retry),
            b'z' => Some(Self::Snoozed),
            b'x' => Some(Self::Dead),
            b'l' => Some(Self::Lost),
            _ => None,
        }
    }

    pub(crate) fn read_word(value: &Value) -> Result<Self, QueueError> {
        match text(value)? {
            "done" => Ok(Self::Done),
            "superseded" => Ok(Self::Superseded),
            "cancelled" => Ok(Self::Cancelled),
            "released" => Ok(Self::Released),
            "retry" => Ok(Self::Retry),
            "snoozed" => Ok(Self::Snoozed),
            "dead" => Ok(Self::Dead),
            "discarded" => Ok(Self::Discarded),
            "lost" => Ok(Self::Lost),
            _ => Err(unexpected(value)),
        }
    }
}

impl Settlement {
    /// The job it settles.
    pub fn id(&self) -> &JobId {
        &self.id
    }

    /// False if it has the job run again.
    pub fn ends_job(&self) -> bool {
        self.verdict.ends_job()
    }

    /// What it leaves of the job, unless the job was cancelled or superseded meanwhile.
    pub fn remains(&self) -> Remains {
        match (&self.verdict, self.expected()) {
            (Verdict::Finish(finish), _) if !finish.follow_ups.is_empty() => Remains::FollowUps,
            (Verdict::Finish(_), _) => Remains::Done,
            (Verdict::Release { delay }, _) if delay.is_zero() => Remains::Ready,
            (_, Settled::Dead) => Remains::Dead,
            (_, Settled::Released | Settled::Retry | Settled::Snoozed) => Remains::Retry,
            _ => Remains::Nothing,
        }
    }

    /// Takes the new token of its lease, if that is the lease that was extended.
    pub fn follow_extension(&mut self, extension: &Extension, token: &Token) {
        if self.token == extension.token && self.id == extension.id {
            self.token = token.clone();
        }
    }

    /// How many of the first settlements fit into one turn: at most [`BATCH_MAX`], and at most
    /// [`CALL_BYTES_MAX`](crate::CALL_BYTES_MAX) bytes unless the first one alone has more.
    pub fn fitting<'s>(settlements: impl IntoIterator<Item = &'s Self>) -> usize {
        fitting(settlements, BATCH_MAX, Self::bytes)
    }

    /// The bytes that Redis receives or copies for it, about.
    fn bytes(&self) -> usize {
        self.id.as_bytes().len()
            + match &self.verdict {
                Verdict::Ack | Verdict::Discard | Verdict::Release { .. } => 0,
                Verdict::Finish(finish) => finish.bytes(self.payload_bytes),
                Verdict::Snooze { info, .. }
                | Verdict::Nack { info, .. }
                | Verdict::Drop { info } => info.len() + self.payload_bytes,
            }
    }

    pub(crate) fn token(&self) -> &Token {
        &self.token
    }

    /// The result, unless the job was cancelled or superseded meanwhile.
    pub(crate) fn expected(&self) -> Settled {
        let nacked = |max_attempts: u32| match self.failures + 1 >= max_attempts {
            true => Settled::Dead,
            false => Settled::Retry,
        };
        match &self.verdict {
            Verdict::Ack | Verdict::Finish(_) => Settled::Done,
            Verdict::Discard => Settled::Discarded,
            Verdict::Release { .. } => Settled::Released,
            Verdict::Drop { .. } => Settled::Dead,
            Verdict::Nack { max_attempts, .. } => nacked(*max_attempts),
            Verdict::Snooze { max_snoozes, max_attempts, .. } => {
                if self.snoozes < *max_snoozes {
                    Settled::Snoozed
                } else {
                    nacked(*max_attempts)
                }
            }
        }
    }

    /// Groups settlements as the script takes them: consecutive acks under one token, any other
    /// verdict alone.
    fn groups<'s>(settlements: &'s [&'s Self]) -> impl Iterator<Item = &'s [&'s Self]> {
        settlements.chunk_by(|one, next| {
            one.verdict.is_ack() && next.verdict.is_ack() && one.token == next.token
        })
    }

    pub(crate) fn command(keys: &ShardKeys, settlements: &[&Self]) -> Cmd {
        let mut call = SETTLE.call(keys);
        for group in Self::groups(settlements) {
            let Self { id, token, place, verdict, .. } = group[0];
            match verdict {
                Verdict::Ack | Verdict::Discard => call.arg(group.len()),
                _ => call.arg(id.as_bytes()),
            };
            call.arg(token.as_bytes());
            match verdict {
                Verdict::Ack | Verdict::Discard => {
                    call.arg("ack");
                    group.iter().fold(&mut call, |call, acked| call.arg(acked.id.as_bytes()))
                }
                Verdict::Nack { delay, max_attempts, info } => {
                    call.arg("nack").arg(millis(*delay)).arg(max_attempts).arg(info)
                }
                Verdict::Finish(finish) => finish.add_to(&mut call),
                Verdict::Snooze { delay, max_snoozes, nack_delay, max_attempts, info } => {
                    call.arg("snooze").arg(millis(*delay)).arg(max_snoozes);
                    call.arg(millis(*nack_delay)).arg(max_attempts).arg(info)
                }
                Verdict::Drop { info } => call.arg("drop").arg(info),
                Verdict::Release { delay } => {
                    call.arg("release").arg(millis(*delay)).arg(place.to_string())
                }
            };
        }
        call
    }
}

impl Finish {
    fn bytes(&self, payload_bytes: usize) -> usize {
        let kept = self.info.as_ref().map_or(0, |info| info.len() + payload_bytes);
        let follow_ups: usize = self.follow_ups.iter().map(FollowUp::bytes).sum();
        kept + self.result.as_ref().map_or(0, Bytes::len) + follow_ups
    }

    fn add_to<'c>(&self, call: &'c mut Cmd) -> &'c mut Cmd {
        call.arg("finish").arg(millis(self.unique_for));
        call.arg(self.info.as_deref().unwrap_or_default());
        call.arg(self.result.as_deref().unwrap_or_default());
        call.arg(FollowUp::encode(&self.follow_ups))
    }
}
