//! Ending leases by their verdicts.

use std::time::Duration;

use duebox_job::JobId;
use redis::{Cmd, Value};

use crate::keys::TopicKeys;
use crate::reply::{array, text, unexpected};
use crate::script::SETTLE;
use crate::{Lease, QueueError, Token};

/// What is to become of a leased job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is done: forget it.
    Ack,
    /// It failed: try again after `delay`, or bury it with `info` if that was its last attempt.
    Nack {
        /// The wait before the next attempt.
        delay: Duration,
        /// Attempts the job has in all.
        max_attempts: u32,
        /// What a dead job keeps: JSON with `class`, `reason` and more.
        info: String,
    },
    /// Bury it now.
    Drop {
        /// What a dead job keeps, as for a nack.
        info: String,
    },
    /// It did not happen: back to ready, or to retry after `delay`. No attempt is spent.
    Release {
        /// The wait; zero puts it back under its old due time.
        delay: Duration,
    },
}

/// A lease and the verdict that ends it. Borrowing one for a turn does not use it up, so that a turn
/// without an answer can be repeated.
#[derive(Debug)]
pub struct Settlement {
    id: JobId,
    token: Token,
    due_at_ms: u64,
    verdict: Verdict,
}

impl Lease {
    /// Ends this lease with a verdict, at the next turn.
    pub fn settle(self, verdict: Verdict) -> Settlement {
        let Self { id, token, due_at_ms, .. } = self;
        Settlement { id, token, due_at_ms, verdict }
    }
}

/// What became of a settled job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Acked and forgotten.
    Done,
    /// A newer push under its id waits; this one is over.
    Superseded,
    /// It was cancelled while it ran.
    Cancelled,
    /// Back to ready or retry, with no attempt spent.
    Released,
    /// Waits for its next attempt.
    Retry,
    /// Buried.
    Dead,
    /// The token was stale: the lease had expired, or was settled before. Nothing has changed.
    Lost,
}

impl Settled {
    /// The queue's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Superseded => "superseded",
            Self::Cancelled => "cancelled",
            Self::Released => "released",
            Self::Retry => "retry",
            Self::Dead => "dead",
            Self::Lost => "lost",
        }
    }

    pub(crate) fn read(answer: Value) -> Result<Vec<Self>, QueueError> {
        array(answer)?.iter().map(Self::read_word).collect()
    }

    fn read_word(value: &Value) -> Result<Self, QueueError> {
        match text(value)? {
            "done" => Ok(Self::Done),
            "superseded" => Ok(Self::Superseded),
            "cancelled" => Ok(Self::Cancelled),
            "released" => Ok(Self::Released),
            "retry" => Ok(Self::Retry),
            "dead" => Ok(Self::Dead),
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

    pub(crate) fn command(keys: &TopicKeys, settlements: &[Self]) -> Cmd {
        let mut call = SETTLE.call(keys);
        for settlement in settlements {
            call.arg(settlement.id.as_bytes()).arg(settlement.token.as_bytes());
            match &settlement.verdict {
                Verdict::Ack => call.arg("ack"),
                Verdict::Nack { delay, max_attempts, info } => {
                    call.arg("nack").arg(millis(*delay)).arg(max_attempts).arg(info)
                }
                Verdict::Drop { info } => call.arg("drop").arg(info),
                Verdict::Release { delay } => {
                    call.arg("release").arg(millis(*delay)).arg(settlement.due_at_ms)
                }
            };
        }
        call
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).min(duebox_job::DELAY_MAX_MS)
}
