//! The relay moves follow-up jobs from the outbox of the parent's topic, where the ack stored them,
//! to the topics they are for.
//!
//! ```text
//!  ack ─▶ outbox ──1 read──▶ relay ──2 push, mark──▶ topic + inbox
//!            ▲                 │ │
//!            └──3 delete───────┘ └──4 the mark may go in two minutes──▶ inbox
//! ```
//!
//! Any runner may relay, several at once too, and any may die between two steps. Nothing is lost: an
//! entry stays in the outbox until its follow-ups are pushed. Nothing is pushed twice: a mark in the
//! target's `inbox` records each push, even after the job is done. A mark is removed only after its
//! entry is gone and every earlier reader is too late: a push is refused [`STALE`] after its entry
//! was read.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{FollowUp, Shard, TopicName};
use redis::{Cmd, Value};

use crate::client::Queue;
use crate::error::QueueError;
use crate::topic::shards::spread_by;
use crate::wire::constants::BATCH_MAX;
use crate::wire::millis::millis;
use crate::wire::reply::{array, bytes, count, score, text, unexpected};
use crate::wire::script::{self, OUTBOX, RELAY, RELAYED};

/// How long after it was read an entry may be pushed. The clocks of two Redis servers may differ by
/// as much again before a mark could be removed too early.
const STALE: Duration = Duration::from_secs(60);
/// Entries in one read.
const ENTRIES_MAX: usize = 100;
/// Bytes in one read, unless a single entry has more.
const BYTES_MAX: usize = 8 << 20;
/// Follow-ups in one script call.
const PUSHED_MAX: usize = 100;

/// The result of one relay call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Relayed {
    /// Outbox entries that were removed.
    pub entries: u64,
    /// Follow-ups that were pushed.
    pub pushed: u64,
    /// Follow-ups that were not pushed: their id is live, or an earlier relay pushed them.
    pub kept: u64,
    /// What could not be relayed, as messages. It stays in the outbox, except a follow-up with an
    /// invalid due time.
    pub faults: Vec<String>,
    /// More entries may be waiting: call again.
    pub more: bool,
}

/// The follow-ups of one ack, as the outbox stores them.
struct Entry {
    field: Bytes,
    value: Bytes,
}

/// One follow-up with its mark.
struct Parcel {
    entry: Bytes,
    mark: Vec<u8>,
    acked_at_ms: u64,
    follow_up: FollowUp,
}

impl Queue {
    /// Relays some of the follow-ups that wait in a shard's outbox.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused. What was not relayed is still there.
    pub async fn relay(&self, shard: &Shard) -> Result<Relayed, QueueError> {
        let mut relayed = Relayed::default();
        let (entries, not_after_ms) = self.read_outbox(shard).await?;
        let mut whole = Vec::with_capacity(entries.len());
        let mut parcels: BTreeMap<TopicName, Vec<Parcel>> = BTreeMap::new();
        for entry in entries {
            match entry.unpack(shard) {
                Ok(unpacked) => {
                    whole.push(entry.field);
                    for parcel in unpacked {
                        parcels.entry(parcel.follow_up.topic.clone()).or_default().push(parcel);
                    }
                }
                Err(reason) => relayed.faults.push(format!(
                    "the outbox entry {} of {shard} cannot be read: {reason}",
                    String::from_utf8_lossy(&entry.field)
                )),
            }
        }
        let parcels = self.spread(parcels).await?;
        for (target, parcels) in &parcels {
            for some in parcels.chunks(PUSHED_MAX) {
                let late = self.push_parcels(target, some, not_after_ms, &mut relayed).await?;
                if late {
                    // What was pushed is marked; the rest is read again.
                    whole.retain(|entry| some.iter().all(|parcel| parcel.entry != *entry));
                }
            }
        }
        relayed.entries = self.delete_entries(shard, &whole).await?;
        relayed.more = relayed.entries > 0;
        for (target, parcels) in &parcels {
            let gone: Vec<_> =
                parcels.iter().filter(|parcel| whole.contains(&parcel.entry)).collect();
            for some in gone.chunks(PUSHED_MAX) {
                let mut call = RELAYED.call(&self.keys.of(target));
                for parcel in some {
                    call.arg(&parcel.mark);
                }
                script::run_one(&self.connection, call).await?;
            }
        }
        Ok(relayed)
    }

    /// Outbox entries of each shard, in one pipeline.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn outbox_lengths(&self, shards: &[Shard]) -> Result<Vec<u64>, QueueError> {
        let length = |shard: &Shard| {
            let mut length = redis::cmd("HLEN");
            length.arg(self.keys.of(shard).key("outbox"));
            length
        };
        let answers = script::run(&self.connection, shards.iter().map(length).collect()).await?;
        answers.into_iter().map(|answer| count(&answer?)).collect()
    }

    /// Groups follow-ups by the shards they go to.
    async fn spread(
        &self,
        by_topic: BTreeMap<TopicName, Vec<Parcel>>,
    ) -> Result<BTreeMap<Shard, Vec<Parcel>>, QueueError> {
        let mut by_shard: BTreeMap<Shard, Vec<Parcel>> = BTreeMap::new();
        for (topic, parcels) in by_topic {
            let jobs = parcels.iter().map(|Parcel { follow_up, .. }| {
                (spread_by(&follow_up.id, &follow_up.options), &follow_up.id)
            });
            let mut places = self.places(&topic, jobs.collect()).await?;
            self.follow_marks(&topic, &parcels, &mut places).await?;
            for (shard, parcel) in places.into_iter().zip(parcels) {
                by_shard.entry(shard).or_default().push(parcel);
            }
        }
        Ok(by_shard)
    }

    /// Sends a follow-up to the shard of its mark: a relay under another number of shards pushed it
    /// there and died before it removed the entry. Without this the job would run twice if it is done
    /// by now.
    async fn follow_marks(
        &self,
        topic: &TopicName,
        parcels: &[Parcel],
        places: &mut [Shard],
    ) -> Result<(), QueueError> {
        let shards = self.shards(topic).await?;
        let mut asked: BTreeMap<Shard, Vec<usize>> = BTreeMap::new();
        for (at, Parcel { follow_up, .. }) in parcels.iter().enumerate() {
            for old in shards.old_homes(spread_by(&follow_up.id, &follow_up.options)) {
                asked.entry(old).or_default().push(at);
            }
        }
        for (shard, at) in asked {
            for some in at.chunks(BATCH_MAX) {
                let mut call = redis::cmd("ZMSCORE");
                call.arg(self.keys.of(&shard).key("inbox"));
                for &at in some {
                    call.arg(&parcels[at].mark);
                }
                let scores = array(script::run_one(&self.connection, call).await?)?;
                for (&at, score) in some.iter().zip(&scores) {
                    if *score != Value::Nil {
                        places[at] = shard.clone();
                    }
                }
            }
        }
        Ok(())
    }

    /// Some entries of an outbox, and the time after which they must not be pushed, unix ms.
    async fn read_outbox(&self, shard: &Shard) -> Result<(Vec<Entry>, u64), QueueError> {
        let mut call = OUTBOX.call(&self.keys.of(shard));
        call.arg(ENTRIES_MAX).arg(BYTES_MAX);
        let mut fields = array(script::run_one(&self.connection, call).await?)?.into_iter();
        let read_at_ms = score(text(&fields.next().unwrap_or(Value::Nil))?);
        let mut entries = Vec::with_capacity(fields.len() / 2);
        while let (Some(field), Some(value)) = (fields.next(), fields.next()) {
            entries.push(Entry { field: bytes(field)?, value: bytes(value)? });
        }
        Ok((entries, read_at_ms + millis(STALE)))
    }

    /// Pushes follow-ups to one shard. True if it was too late for them.
    async fn push_parcels(
        &self,
        target: &Shard,
        parcels: &[Parcel],
        not_after_ms: u64,
        relayed: &mut Relayed,
    ) -> Result<bool, QueueError> {
        let mut call = RELAY.call(&self.keys.of(target));
        call.arg(not_after_ms);
        for parcel in parcels {
            parcel.add_to(&mut call);
        }
        let mut seen = redis::cmd("SADD");
        seen.arg(self.keys.topics_key()).arg(target.topic().as_str());
        let mut answers = script::run(&self.connection, vec![seen, call]).await?;
        let words = match answers.pop().unwrap_or(Ok(Value::Nil))? {
            Value::Array(words) => words,
            late if text(&late)? == "late" => return Ok(true),
            other => return Err(unexpected(&other)),
        };
        for (parcel, word) in parcels.iter().zip(&words) {
            match text(word)? {
                "pushed" => relayed.pushed += 1,
                "kept" | "known" => relayed.kept += 1,
                _ => relayed.faults.push(format!(
                    "the follow-up {} to {} has no due time that can be; it is dropped",
                    parcel.follow_up.id,
                    target.topic()
                )),
            }
        }
        Ok(false)
    }

    async fn delete_entries(&self, shard: &Shard, entries: &[Bytes]) -> Result<u64, QueueError> {
        if entries.is_empty() {
            return Ok(0);
        }
        let mut delete = redis::cmd("HDEL");
        delete.arg(self.keys.of(shard).key("outbox"));
        for entry in entries {
            delete.arg(&entry[..]);
        }
        script::run_one(&self.connection, delete).await?;
        Ok(entries.len() as u64)
    }
}

impl Parcel {
    fn add_to(&self, call: &mut Cmd) {
        let FollowUp { id, due, payload, options, .. } = &self.follow_up;
        call.arg(&self.mark).arg(id.as_bytes()).arg(due.at_ms(self.acked_at_ms));
        call.arg(&payload[..]).arg(options.to_json());
    }
}

impl Entry {
    /// Its follow-ups, each with a mark of its own.
    fn unpack(&self, source: &Shard) -> Result<Vec<Parcel>, String> {
        let (acked_at_ms, follow_ups) = std::str::from_utf8(&self.value)
            .ok()
            .and_then(|value| value.split_once(' '))
            .and_then(|(time, json)| Some((time.parse().ok()?, json)))
            .ok_or("it does not say when it was acked")?;
        let parcel = |(n, follow_up): (usize, FollowUp)| {
            let mut mark = format!("{}:", source.tag()).into_bytes();
            mark.extend_from_slice(&self.field);
            mark.extend_from_slice(format!(":{}", n + 1).as_bytes());
            Parcel { entry: self.field.clone(), mark, acked_at_ms, follow_up }
        };
        Ok(FollowUp::from_json(follow_ups.as_bytes())?
            .into_iter()
            .enumerate()
            .map(parcel)
            .collect())
    }
}
