//! One turn of a worker at a shard: extend, settle, reclaim, promote and lease, in one pipeline.
//!
//! A turn without a reply is repeated as it was. Extending and leasing answer the same again, and
//! promoting and reclaiming continue. The script replies `lost` for settlements that were carried out;
//! while their leases would last, they are told apart from those of other runners.

use std::time::Instant;

use duebox_job::Shard;
use redis::{Cmd, Value};

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::connection::Repeat;
use crate::wire::keys::ShardKeys;
use crate::wire::reply::read_time_us;
use crate::wire::script::{self, Replies};
use crate::work::extend::Extension;
use crate::work::lease::{LeaseCall, Leased, Token};
use crate::work::promote::{Promoted, Promotion};
use crate::work::reclaim::{ReclaimRule, Reclaimed};
use crate::work::settle::{Settled, Settlement};

/// What a worker does in one pipeline. Each part handles at most [`BATCH_MAX`](crate::BATCH_MAX) jobs.
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
    /// Some of it was sent before, and the reply was lost.
    pub is_repeated: bool,
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
    /// Some of it was sent before, and the reply was lost: what Redis refuses now may have been carried out then.
    pub is_repeated: bool,
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
        let (parts, calls) = turn.commands(&keys, self.connection.unreachable_at());
        let mut reply = TurnReply::default();
        if calls.is_empty() {
            return Ok(reply);
        }
        // A lease that is lost is given again; only a verdict needs copies.
        let repeat = if turn.settle.is_empty() { Repeat::Always } else { Repeat::Durably };
        let Replies { values, are_repeated, missing: _ } =
            script::send(&self.connection, calls, repeat).await?;
        reply.is_repeated = turn.is_repeated || are_repeated;
        for (part, value) in parts.into_iter().zip(values) {
            if let Err(error) = value.and_then(|value| reply.read(part, value, turn)) {
                reply.error.get_or_insert(error);
            }
        }
        if reply.is_repeated
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
    fn commands(&self, keys: &ShardKeys, unreachable_at: Option<Instant>) -> (Vec<Part>, Vec<Cmd>) {
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
            add(Part::Reclaim, rule.command(keys, unreachable_at));
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
            Part::Extend => self.extended = Some(Extension::read(reply)?),
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
