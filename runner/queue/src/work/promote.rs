//! Promotes: moves due jobs of pending and retry to ready.

use std::time::Duration;

use redis::{Cmd, Value};

use crate::error::QueueError;
use crate::wire::constants::BATCH_MAX;
use crate::wire::keys::ShardKeys;
use crate::wire::reply::{array, count, optional_score, unexpected};
use crate::wire::script::PROMOTE;

/// How to promote.
pub struct Promotion {
    /// Jobs at most, 1 to [`BATCH_MAX`].
    pub jobs: usize,
    /// Due ids of pending to skip: the sum of `skipped` of earlier calls in this round.
    pub skip: u64,
    /// Deletes jobs with an invalid due time; else they are buried.
    pub discards_bad: bool,
}

/// The result of promoting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promoted {
    /// Jobs moved to ready.
    pub moved: u64,
    /// Due successors of leased jobs, which stay in pending.
    pub skipped: u64,
    /// More may be due: call again with `skip` raised by `skipped`.
    pub more: bool,
    /// Time until the next job falls due, if any waits.
    pub next_due_in: Option<Duration>,
    /// Jobs buried or deleted for an invalid due time.
    pub bad: u64,
}

impl Promotion {
    pub(super) fn command(&self, keys: &ShardKeys) -> Cmd {
        let mut call = PROMOTE.call(keys);
        call.arg(self.jobs.min(BATCH_MAX)).arg(self.skip);
        call.arg(if self.discards_bad { "discard" } else { "dead" });
        call
    }
}

impl Promoted {
    /// The result of promoting, and the clock of Redis in µs since the epoch.
    pub(super) fn read(reply: Value) -> Result<(Self, u64), QueueError> {
        let fields = array(reply)?;
        let [moved, skipped, more, next_due, bad, now] = fields.as_slice() else {
            return Err(unexpected(&Value::Array(fields)));
        };
        let now_us = optional_score(now)?.ok_or_else(|| unexpected(now))?;
        let wait_ms = |due_ms: u64| due_ms.saturating_sub(now_us / 1_000);
        let promoted = Self {
            moved: count(moved)?,
            skipped: count(skipped)?,
            more: count(more)? > 0,
            next_due_in: optional_score(next_due)?.map(wait_ms).map(Duration::from_millis),
            bad: count(bad)?,
        };
        Ok((promoted, now_us))
    }
}
