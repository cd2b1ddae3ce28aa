//! One turn of a worker at a shard: extend, settle, reclaim, promote and lease, in one pipeline.
//!
//! A turn without a reply is repeated as it was. Extending and leasing answer the same again, and
//! promoting and reclaiming continue. The script replies `lost` for settlements that were carried out;
//! while their leases would last, they are told apart from those of other runners.

use std::num::NonZero;
use std::time::{Duration, Instant};

use duebox_job::{JobId, Shard};
use redis::{Cmd, Value};

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::connection::Repeat;
use crate::wire::constants::BATCH_MAX;
use crate::wire::keys::ShardKeys;
use crate::wire::millis::millis;
use crate::wire::reply::{array, bytes, count, optional_score, read_time_us, unexpected};
use crate::wire::script::{self, EXTEND, PROMOTE, RECLAIM, Replies};
use crate::work::lease::{LeaseCall, Leased, Token};
use crate::work::settle::{Settled, Settlement};

/// What a worker does in one pipeline. Each part handles at most [`BATCH_MAX`] jobs.
#[derive(Default)]
pub struct Turn<'a> {
    /// The runner's name, stored with the leases it extends.
    pub holder: &'a str,
    /// Leases to extend; may be empty.
    pub extend: Vec<&'a Extension>,
    /// Leases to end; may be empty.
    pub settle: Vec<&'a Settlement>,
    /// How to end expired leases; none leaves them.
    pub reclaim: Option<ReclaimRule<'a>>,
    /// How to promote; none does not.
    pub promote: Option<Promotion>,
    /// How to lease; none does not.
    pub lease: Option<&'a LeaseCall>,
    /// The same turn was sent before, and its reply was lost.
    pub is_repeated: bool,
}

/// A lease to extend.
#[derive(Debug, Clone)]
pub struct Extension {
    /// The job's id.
    pub id: JobId,
    /// The current token of the lease.
    pub token: Token,
    /// How much later it expires, 1 ms to one day.
    pub by: Duration,
}

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
    /// have expired because its holder could not reach Redis, as this process could not: that is no crash.
    pub renewed_within: Duration,
}

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

/// The result of reclaiming.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reclaimed {
    /// Time until the next lease expires, if any is held.
    pub next_expiry_in: Option<Duration>,
    /// The jobs, each with its new state.
    pub jobs: Vec<(JobId, Settled)>,
}

/// The replies to a turn, for each part that was asked for and carried out.
#[derive(Debug, Default)]
pub struct TurnReply {
    /// The new token of each lease; none if it was lost.
    pub extended: Option<Vec<Option<Token>>>,
    /// The result of each settlement.
    pub settled: Option<Vec<Settled>>,
    /// The leases that were reclaimed.
    pub reclaimed: Option<Reclaimed>,
    /// What was promoted.
    pub promoted: Option<Promoted>,
    /// The clock of Redis when it promoted, µs since the epoch.
    pub promoted_at_us: Option<u64>,
    /// The jobs that were leased.
    pub leased: Option<Leased>,
    /// The first error of Redis; the part it belongs to has no reply above.
    pub error: Option<QueueError>,
}

#[derive(Clone, Copy)]
enum Part {
    Extend,
    Settle,
    Reclaim,
    Promote,
    Lease,
}

impl Queue {
    /// Takes a turn at a shard.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply: repeat the same turn, since parts of it may have been
    /// carried out. What Redis refused is in [`TurnReply::error`].
    pub async fn turn(&self, shard: &Shard, turn: &Turn<'_>) -> Result<TurnReply, QueueError> {
        let keys = self.keys.of(shard);
        let (parts, calls) = turn.commands(&keys, self.connection.disturbed_at());
        let mut reply = TurnReply::default();
        if calls.is_empty() {
            return Ok(reply);
        }
        // A lease that is lost is given again; only a verdict needs copies.
        let repeat = if turn.settle.is_empty() { Repeat::Always } else { Repeat::Durably };
        let Replies { values, are_repeated, missing: _ } =
            script::send(&self.connection, calls, repeat).await?;
        for (part, value) in parts.into_iter().zip(values) {
            if let Err(error) = value.and_then(|value| reply.read(part, value, turn)) {
                reply.error.get_or_insert(error);
            }
        }
        if (turn.is_repeated || are_repeated)
            && let Some(settled) = &mut reply.settled
            && settled.contains(&Settled::Lost)
        {
            self.recognize_settled(&keys, &turn.settle, settled).await?;
        }
        Ok(reply)
    }

    /// Recognizes verdicts that an earlier try of the same turn has settled. Before a lease expires only
    /// its holder can end it: a verdict that is answered `lost` before that was settled by an earlier try.
    async fn recognize_settled(
        &self,
        keys: &ShardKeys,
        settle: &[&Settlement],
        settled: &mut [Settled],
    ) -> Result<(), QueueError> {
        let clock = self.connection.clock_of(&keys.key("unack"));
        let now_us = read_time_us(script::run_one_idempotent(&self.connection, clock).await?)?;
        for (settlement, settled) in settle.iter().zip(settled) {
            if *settled == Settled::Lost && settlement.token().expires_at_us() > now_us {
                *settled = settlement.expected();
            }
        }
        Ok(())
    }
}

impl Turn<'_> {
    fn commands(&self, keys: &ShardKeys, disturbed_at: Option<Instant>) -> (Vec<Part>, Vec<Cmd>) {
        let mut parts = Vec::with_capacity(5);
        let mut calls = Vec::with_capacity(5);
        let mut add = |part, call| {
            parts.push(part);
            calls.push(call);
        };
        if !self.extend.is_empty() {
            add(Part::Extend, Extension::command(keys, self.holder, &self.extend));
        }
        if !self.settle.is_empty() {
            add(Part::Settle, Settlement::command(keys, &self.settle));
        }
        if let Some(rule) = &self.reclaim {
            add(Part::Reclaim, rule.command(keys, disturbed_at));
        }
        if let Some(promotion) = &self.promote {
            add(Part::Promote, promotion.command(keys));
        }
        if let Some(lease) = self.lease {
            add(Part::Lease, lease.command(keys));
        }
        (parts, calls)
    }
}

impl TurnReply {
    fn read(&mut self, part: Part, reply: Value, turn: &Turn<'_>) -> Result<(), QueueError> {
        match part {
            Part::Extend => self.extended = Some(read_extended(reply)?),
            Part::Settle => self.settled = Some(Settled::read(reply, &turn.settle)?),
            Part::Reclaim => self.reclaimed = Some(Reclaimed::read(reply)?),
            Part::Promote => {
                let (promoted, now_us) = Promoted::read(reply)?;
                self.promoted = Some(promoted);
                self.promoted_at_us = Some(now_us);
            }
            Part::Lease => self.leased = Some(Leased::read(reply)?),
        }
        Ok(())
    }
}

impl Extension {
    fn command(keys: &ShardKeys, holder: &str, extensions: &[&Self]) -> Cmd {
        let mut call = EXTEND.call(keys);
        call.arg(holder);
        for Self { id, token, by } in extensions {
            call.arg(id.as_bytes()).arg(token.as_bytes()).arg(millis(*by).max(1));
        }
        call
    }
}

fn read_extended(reply: Value) -> Result<Vec<Option<Token>>, QueueError> {
    let read = |value| {
        let token = bytes(value)?;
        Ok(if token.as_ref() == b"lost" { None } else { Some(Token::new(token)) })
    };
    array(reply)?.into_iter().map(read).collect()
}

impl ReclaimRule<'_> {
    fn command(&self, keys: &ShardKeys, disturbed_at: Option<Instant>) -> Cmd {
        // Ago, because Redis has another clock.
        let ago_ms = |until: Instant| {
            let now = tokio::time::Instant::now().into_std();
            let past = millis(now.saturating_duration_since(until)) as i64;
            past - millis(until.saturating_duration_since(now)) as i64
        };
        let renewed_at = disturbed_at.and_then(|at| at.checked_add(self.renewed_within));
        let expired_before = renewed_at.map(|until| ago_ms(until).to_string());
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
    fn read(reply: Value) -> Result<Self, QueueError> {
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

impl Promotion {
    fn command(&self, keys: &ShardKeys) -> Cmd {
        let mut call = PROMOTE.call(keys);
        call.arg(self.jobs.min(BATCH_MAX)).arg(self.skip);
        call.arg(if self.discards_bad { "discard" } else { "dead" });
        call
    }
}

impl Promoted {
    /// The result of promoting, and the clock of Redis in µs since the epoch.
    fn read(reply: Value) -> Result<(Self, u64), QueueError> {
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
