//! Deletes what has ended: dead and done jobs past their retention, expired records and values, and the state of
//! removed schedules.
//! Every call is bounded and reports how much it deleted; live keys are not touched. Age and count
//! apply to each shard.

use std::time::Duration;

use duebox_job::{JobId, Shard, TopicName};
use redis::{Cmd, Value};

use crate::client::Queue;
use crate::error::{QueueError, for_each_topic};
use crate::wire::constants::BATCH_MAX;
use crate::wire::millis::millis;
use crate::wire::reply::{array, count, unexpected};
use crate::wire::script::{
    self, KV_PRUNE, LuaScript, PRUNE, PRUNE_RECORDINGS, PRUNE_RECORDS, PRUNE_TICKS,
};

/// Keys of which one exists as long as a shard has something to delete.
const FORGETTABLE: [&str; 7] =
    ["dead", "done", "unique", "inbox", "kv:at", "ticks", "recordings:at"];
/// Entries of each kind that are deleted of one topic while others wait for their turn.
const TOGETHER_MAX: usize = 100;

/// How long, and how many, ended jobs a topic keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionLimits {
    /// How long a dead job is kept.
    pub dead_for: Duration,
    /// How many are kept.
    pub dead_most: u64,
    /// How long a done job is kept.
    pub done_for: Duration,
    /// How many are kept.
    pub done_most: u64,
}

/// What one call deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Dead jobs.
    pub dead: u64,
    /// Done jobs.
    pub done: u64,
    /// Records that have expired.
    pub records: PrunedRecords,
    /// Values of the key-value store.
    pub values: u64,
    /// Schedules that no runner has had for long.
    pub schedules: u64,
    /// Recordings of jobs that are not dead any more.
    pub recordings: u64,
    /// More may be left: call again.
    pub more: bool,
}

/// Expired records that were deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrunedRecords {
    /// Reserved ids of done jobs.
    pub held: u64,
    /// Dedup records of relayed follow-ups.
    pub follow_ups: u64,
}

impl Queue {
    /// Deletes dead jobs that died longer ago than `age`, at most [`BATCH_MAX`]; returns their
    /// number.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn prune_older(&self, shard: &Shard, age: Duration) -> Result<u64, QueueError> {
        self.prune_by(shard, "before", millis(age)).await
    }

    /// Deletes the oldest dead jobs above `kept`, at most [`BATCH_MAX`]; returns their number.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn prune_above(&self, shard: &Shard, kept: u64) -> Result<u64, QueueError> {
        self.prune_by(shard, "above", kept).await
    }

    /// Deletes these dead jobs; every [`BATCH_MAX`] of a shard are one atomic transition. Their recordings
    /// are deleted after that. Returns how many there were.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn prune(&self, topic: &TopicName, ids: &[JobId]) -> Result<u64, QueueError> {
        let shards = self.shards(topic).await?;
        let mut pruned: u64 = 0;
        for batch in ids.chunks(BATCH_MAX) {
            for shard in shards.all() {
                let mut call = PRUNE.call(&self.keys.of(&shard));
                call.arg("dead").arg("ids");
                for id in batch {
                    call.arg(id.as_bytes());
                }
                let mut recordings = PRUNE_RECORDINGS.call(&self.keys.of(&shard));
                recordings.arg(BATCH_MAX);
                let replies =
                    script::run_idempotent(&self.connection, vec![call, recordings]).await?;
                for (reply, is_job) in replies.into_iter().zip([true, false]) {
                    let some = count(&reply?)?;
                    pruned = pruned.saturating_add(if is_job { some } else { 0 });
                }
            }
        }
        Ok(pruned)
    }

    /// Deletes what a shard no longer keeps, and expired records and values: at most [`BATCH_MAX`] of
    /// each, in one pipeline. Without limits the topic's own rules in Redis hold ([`Limits`](crate::Limits));
    /// a topic without rules keeps its jobs.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn prune_ended(
        &self,
        shard: &Shard,
        keep: impl Into<Option<&RetentionLimits>>,
    ) -> Result<Pruned, QueueError> {
        let calls = self.tidy_calls(shard, keep.into(), BATCH_MAX);
        Pruned::read(
            &mut script::run_idempotent(&self.connection, calls).await?.into_iter(),
            BATCH_MAX,
        )
    }

    /// The same for several shards, at most 100 of each kind a shard. Takes one round trip and one
    /// command a shard if there is nothing to delete; else one round trip more. A shard whose keys Redis
    /// refuses has an error of its own, after everything that could be deleted.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn prune_ended_all(
        &self,
        shards: &[(Shard, Option<RetentionLimits>)],
    ) -> Result<Vec<Result<Pruned, QueueError>>, QueueError> {
        let mut tidied = vec![Ok(Pruned::default()); shards.len()];
        let exist = |(shard, _): &(Shard, Option<RetentionLimits>)| {
            let keys = self.keys.of(shard);
            let mut exist = redis::cmd("EXISTS");
            exist.arg(FORGETTABLE.map(|name| keys.key(name)).as_slice());
            exist
        };
        let (mut asked, mut calls) = (Vec::new(), Vec::new());
        let found =
            script::run_idempotent(&self.connection, shards.iter().map(exist).collect()).await?;
        for (found, ((shard, keep), tidied)) in
            found.into_iter().zip(shards.iter().zip(&mut tidied))
        {
            if count(&found?)? > 0 {
                calls.extend(self.tidy_calls(shard, keep.as_ref(), TOGETHER_MAX));
                asked.push(tidied);
            }
        }
        let mut replies = script::run_idempotent(&self.connection, calls).await?.into_iter();
        for tidied in asked {
            *tidied = Pruned::read(&mut replies, TOGETHER_MAX);
        }
        for_each_topic(tidied)
    }

    fn tidy_calls(&self, shard: &Shard, keep: Option<&RetentionLimits>, most: usize) -> Vec<Cmd> {
        let keys = self.keys.of(shard);
        let prune = |list: &str, by: &str, bound: fn(&RetentionLimits) -> u64| {
            let mut call = PRUNE.call(&keys);
            let bound = keep.map_or_else(String::new, |keep| bound(keep).to_string());
            call.arg(list).arg(by).arg(bound).arg(most);
            call
        };
        let sweep = |script: &LuaScript| {
            let mut call = script.call(&keys);
            call.arg(most);
            call
        };
        vec![
            prune("dead", "before", |keep| millis(keep.dead_for)),
            prune("dead", "above", |keep| keep.dead_most),
            prune("done", "before", |keep| millis(keep.done_for)),
            prune("done", "above", |keep| keep.done_most),
            sweep(&PRUNE_RECORDS),
            sweep(&KV_PRUNE),
            sweep(&PRUNE_TICKS),
            sweep(&PRUNE_RECORDINGS),
        ]
    }

    /// Deletes expired records, at most [`BATCH_MAX`] of each kind.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn prune_records(&self, shard: &Shard) -> Result<PrunedRecords, QueueError> {
        let mut call = PRUNE_RECORDS.call(&self.keys.of(shard));
        call.arg(BATCH_MAX);
        PrunedRecords::read(script::run_one_idempotent(&self.connection, call).await?)
    }

    async fn prune_by(&self, shard: &Shard, by: &str, bound: u64) -> Result<u64, QueueError> {
        let mut call = PRUNE.call(&self.keys.of(shard));
        call.arg("dead").arg(by).arg(bound).arg(BATCH_MAX);
        count(&script::run_one_idempotent(&self.connection, call).await?)
    }
}

impl Pruned {
    /// Decodes the replies of one shard; each call deleted `most` at most.
    fn read(
        replies: &mut impl Iterator<Item = Result<Value, QueueError>>,
        most: usize,
    ) -> Result<Self, QueueError> {
        // All replies of the shard are taken, even if the first is an error.
        let mut next = || replies.next().unwrap_or(Ok(Value::Nil));
        let counts = [next(), next(), next(), next()];
        let (records, values, schedules, recordings) = (next(), next(), next(), next());
        let mut pruned = [0; 4];
        for (pruned, reply) in pruned.iter_mut().zip(counts) {
            *pruned = count(&reply?)?;
        }
        let (records, values) = (PrunedRecords::read(records?)?, count(&values?)?);
        let largest = pruned.into_iter().chain([records.held, records.follow_ups, values]).max();
        Ok(Self {
            dead: pruned[0] + pruned[1],
            done: pruned[2] + pruned[3],
            records,
            values,
            schedules: count(&schedules?)?,
            recordings: count(&recordings?)?,
            more: largest >= Some(most as u64),
        })
    }
}

impl PrunedRecords {
    fn read(reply: Value) -> Result<Self, QueueError> {
        let records = array(reply)?;
        let [held, follow_ups] = records.as_slice() else {
            return Err(unexpected(&Value::Array(records)));
        };
        Ok(Self { held: count(held)?, follow_ups: count(follow_ups)? })
    }
}
