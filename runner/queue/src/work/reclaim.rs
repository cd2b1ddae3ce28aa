//! Ends expired leases: their runner died, or could not renew them.

use std::num::NonZero;
use std::time::{Duration, Instant};

use duebox_job::JobId;
use redis::{Cmd, Value};

use crate::error::QueueError;
use crate::wire::constants::BATCH_MAX;
use crate::wire::keys::ShardKeys;
use crate::wire::millis::millis;
use crate::wire::reply::{array, bytes, optional_score};
use crate::wire::script::RECLAIM;
use crate::work::settle::Settled;

/// How expired leases end.
pub struct ReclaimRule<'a> {
    /// Crashes after which a job is buried; the job's own option goes first, then
    /// [`Limits::max_crashes`](crate::Limits::max_crashes) of the topic. None buries no job: it is for
    /// callers that do not serve the topic. The next caller that does buries the job.
    pub max_crashes: Option<NonZero<u32>>,
    /// The wait before the job runs again.
    pub delay: Duration,
    /// What a buried job keeps, as JSON ([`LastAttempt`](crate::LastAttempt)); none deletes the job
    /// instead.
    pub info: Option<&'a str>,
    /// How long holders take to renew their leases once Redis is back. A lease that expired up to then may
    /// have expired because its holder could not reach Redis, as this process could not: that is not a crash.
    pub renewed_within: Duration,
}

/// The result of reclaiming.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reclaimed {
    /// Time until the next lease expires, if any is held.
    pub next_expiry_in: Option<Duration>,
    /// The jobs, each with its new state.
    pub jobs: Vec<(JobId, Settled)>,
}

impl ReclaimRule<'_> {
    pub(super) fn command(&self, keys: &ShardKeys, unreachable_at: Option<Instant>) -> Cmd {
        // Ago, because Redis has another clock.
        let ago_ms = |until: Instant| {
            let now = tokio::time::Instant::now().into_std();
            let past = millis(now.saturating_duration_since(until)) as i64;
            past - millis(until.saturating_duration_since(now)) as i64
        };
        let renewed_by = unreachable_at.and_then(|at| at.checked_add(self.renewed_within));
        let expired_before = renewed_by.map(|until| ago_ms(until).to_string());
        let mut call = RECLAIM.call(keys);
        call.arg(BATCH_MAX)
            .arg(self.max_crashes.map_or_else(String::new, |most| most.to_string()))
            .arg(millis(self.delay))
            .arg(self.info.unwrap_or_default())
            .arg(expired_before.unwrap_or_default());
        call
    }
}

impl Reclaimed {
    pub(super) fn read(reply: Value) -> Result<Self, QueueError> {
        let mut fields = array(reply)?.into_iter();
        let first = fields.next().ok_or_else(|| QueueError::BadReply("empty array".to_owned()))?;
        let next_expiry_in = optional_score(&first)?.map(Duration::from_millis);
        let mut jobs = Vec::with_capacity(fields.len() / 2);
        while let (Some(id), Some(word)) = (fields.next(), fields.next()) {
            jobs.push((JobId::from_redis(bytes(id)?), Settled::read_word(&word)?));
        }
        Ok(Self { next_expiry_in, jobs })
    }
}
