//! The relay moves follow-up jobs from the outbox of the parent's topic, where the ack stored them,
//! to the topics they are for.
//!
//! ```text
//!  ack ─▶ outbox ──1 read──▶ relay ──2 push, record──▶ topic + inbox
//!            ▲                 │ │
//!            └──3 remove───────┘ └──4 the record may go in two minutes──▶ inbox
//! ```
//!
//! Any runner may relay, several at once too, and any may die between two steps. Nothing is lost: a
//! follow-up stays in the outbox until it is pushed. Nothing is pushed twice: a dedup record in the
//! target's `inbox` stands for each push, even after the job is done. It is removed only after its follow-up
//! has left the outbox and every earlier reader is too late: a push is refused a minute after its entry was
//! read. A target that refuses its follow-ups holds up no other: what was pushed leaves the outbox, the
//! rest stays.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use duebox_job::{Shard, TopicName};
use redis::Value;

use crate::client::Queue;
use crate::error::QueueError;
use crate::produce::outbox::{Parcel, Reading};
use crate::topic::shards::spread_by;
use crate::wire::bounds::parts;
use crate::wire::connection::Repeat;
use crate::wire::constants::BATCH_MAX;
use crate::wire::reply::{array, text, unexpected};
use crate::wire::script::{self, RELAY, RELAYED, Replies};

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

/// What the calls of one pass over an outbox have met, so that the pass ends and each call meets other
/// entries. A new pass tries everything again.
#[derive(Debug, Default)]
pub struct RelayPass {
    /// Topics that could not be asked for their shards.
    refused_topics: BTreeSet<TopicName>,
    /// Shards that refused their follow-ups.
    refused_shards: BTreeSet<Shard>,
    /// The last [`BATCH_MAX`] entries that stayed in the outbox.
    stayed: VecDeque<Bytes>,
}

/// What one call has pushed.
#[derive(Default)]
struct Round {
    /// How many follow-ups each entry has.
    entries: BTreeMap<Bytes, usize>,
    /// Follow-ups that need not be pushed again, by the shards that have their dedup records.
    done: Vec<(Shard, Vec<Parcel>)>,
    /// It is too late for what was read: read it again.
    is_late: bool,
    relayed: Relayed,
}

impl Queue {
    /// Relays some of the follow-ups that wait in a shard's outbox. The calls of a pass share `pass`,
    /// and the pass is over when nothing is [`more`](Relayed::more).
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply, or refused to read the outbox. What was not relayed is
    /// still there.
    pub async fn relay(&self, shard: &Shard, pass: &mut RelayPass) -> Result<Relayed, QueueError> {
        let Reading { entries, not_after_ms } = self.read_outbox(shard, pass.stayed.iter()).await?;
        let mut round = Round::default();
        round.relayed.more = !entries.is_empty();
        let mut by_target: BTreeMap<TopicName, Vec<Parcel>> = BTreeMap::new();
        for entry in entries {
            match entry.unpack(shard) {
                Ok(parcels) => {
                    round.entries.insert(entry.field, parcels.len());
                    for parcel in parcels {
                        by_target.entry(parcel.follow_up.topic.clone()).or_default().push(parcel);
                    }
                }
                Err(reason) => {
                    round.relayed.faults.push(format!(
                        "the outbox entry {} of {shard} cannot be read: {reason}",
                        String::from_utf8_lossy(&entry.field)
                    ));
                    pass.add_stayed(entry.field);
                }
            }
        }
        for (target, parcels) in by_target {
            self.relay_to(&target, parcels, not_after_ms, pass, &mut round).await?;
        }
        self.remove_done(shard, pass, &mut round).await?;
        Ok(round.relayed)
    }

    /// Pushes the follow-ups to one topic.
    async fn relay_to(
        &self,
        target: &TopicName,
        parcels: Vec<Parcel>,
        not_after_ms: u64,
        pass: &mut RelayPass,
        round: &mut Round,
    ) -> Result<(), QueueError> {
        if pass.refused_topics.contains(target) {
            return Ok(());
        }
        let count = parcels.len();
        let by_shard = match self.group_by_shard(target, parcels).await {
            Ok(by_shard) => by_shard,
            Err(error) => {
                pass.refused_topics.insert(target.clone());
                return round.record_refusal(target, count, error);
            }
        };
        for (shard, mut parcels) in by_shard {
            if pass.refused_shards.contains(&shard) {
                continue;
            }
            let (done, pushed) = self.push_all(&shard, &parcels, not_after_ms, round).await;
            let rest = parcels.split_off(done).len();
            round.done.push((shard.clone(), parcels));
            if let Err(error) = pushed {
                pass.refused_shards.insert(shard);
                round.record_refusal(target, rest, error)?;
            }
        }
        Ok(())
    }

    /// Groups the follow-ups to a topic by its shards.
    async fn group_by_shard(
        &self,
        topic: &TopicName,
        parcels: Vec<Parcel>,
    ) -> Result<BTreeMap<Shard, Vec<Parcel>>, QueueError> {
        let jobs = parcels.iter().map(|Parcel { follow_up, .. }| {
            (spread_by(&follow_up.id, &follow_up.options), &follow_up.id)
        });
        let mut shard_of_each = self.shard_of_each(topic, jobs.collect()).await?;
        self.follow_dedup_records(topic, &parcels, &mut shard_of_each).await?;
        let mut by_shard: BTreeMap<Shard, Vec<Parcel>> = BTreeMap::new();
        for (shard, parcel) in shard_of_each.into_iter().zip(parcels) {
            by_shard.entry(shard).or_default().push(parcel);
        }
        Ok(by_shard)
    }

    /// Sends a follow-up to the shard of its dedup record: a relay under another number of shards pushed it
    /// there and died before it removed the entry. Without this the job would run twice if it is done
    /// by now.
    async fn follow_dedup_records(
        &self,
        topic: &TopicName,
        parcels: &[Parcel],
        shard_of_each: &mut [Shard],
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
                    call.arg(&parcels[at].dedup_record);
                }
                let scores = array(script::run_one_idempotent(&self.connection, call).await?)?;
                for (&at, score) in some.iter().zip(&scores) {
                    if *score != Value::Nil {
                        shard_of_each[at] = shard.clone();
                    }
                }
            }
        }
        Ok(())
    }

    /// Pushes follow-ups to one shard, in their order. Returns how many of the first need not be pushed
    /// again, and why it ended if that is an error.
    async fn push_all(
        &self,
        shard: &Shard,
        parcels: &[Parcel],
        not_after_ms: u64,
        round: &mut Round,
    ) -> (usize, Result<(), QueueError>) {
        let mut done = 0;
        for some in parts(parcels, PUSHED_MAX, Parcel::bytes) {
            if round.is_late {
                break;
            }
            if let Err(error) = self.push_some(shard, some, not_after_ms, round).await {
                return (done, Err(error));
            }
            if !round.is_late {
                done += some.len();
            }
        }
        (done, Ok(()))
    }

    /// Pushes as many follow-ups as one call may.
    async fn push_some(
        &self,
        shard: &Shard,
        parcels: &[Parcel],
        not_after_ms: u64,
        round: &mut Round,
    ) -> Result<(), QueueError> {
        let mut call = RELAY.call(&self.keys.of(shard));
        call.arg(not_after_ms);
        for parcel in parcels {
            parcel.add_to(&mut call);
        }
        let mut seen = redis::cmd("SADD");
        seen.arg(self.keys.topics_key()).arg(shard.topic().as_str());
        // On one server the entry of the outbox is removed after the push, and so it is in every copy.
        let is_cluster = self.connection.settings().is_cluster();
        let repeat = if is_cluster { Repeat::Durably } else { Repeat::Always };
        let Replies { values: mut replies, missing, .. } =
            script::send(&self.connection, vec![seen, call], repeat).await?;
        let words = match replies.pop().unwrap_or(Ok(Value::Nil))? {
            Value::Array(words) => words,
            late if text(&late)? == "late" => {
                round.is_late = true;
                return Ok(());
            }
            other => return Err(unexpected(&other)),
        };
        if let Some(missing) = missing {
            return Err(QueueError::Unconfirmed(missing));
        }
        for (parcel, word) in parcels.iter().zip(&words) {
            match text(word)? {
                "pushed" => round.relayed.pushed += 1,
                "kept" | "known" => round.relayed.kept += 1,
                _ => round.relayed.faults.push(format!(
                    "the follow-up {} to {} is dropped: its due time is not a unix time in ms",
                    parcel.follow_up.id,
                    shard.topic()
                )),
            }
        }
        Ok(())
    }

    /// Removes what was pushed from the outbox, and then releases its dedup records.
    async fn remove_done(
        &self,
        shard: &Shard,
        pass: &mut RelayPass,
        round: &mut Round,
    ) -> Result<(), QueueError> {
        let mut numbers: BTreeMap<&Bytes, Vec<u64>> = BTreeMap::new();
        for parcel in round.done.iter().flat_map(|(_, parcels)| parcels) {
            numbers.entry(&parcel.entry).or_default().push(parcel.number);
        }
        let is_whole = |entry: &Bytes, numbers: &Vec<u64>| round.entries[entry] == numbers.len();
        let (whole, parted): (Vec<_>, Vec<_>) =
            numbers.into_iter().partition(|(entry, numbers)| is_whole(entry, numbers));
        let whole: Vec<&Bytes> = whole.into_iter().map(|(entry, _)| entry).collect();
        self.delete_entries(shard, &whole).await?;
        let trimmed = self.trim_entries(shard, &parted).await?;
        let parted = parted.iter().zip(trimmed).filter(|(_, trimmed)| *trimmed);
        let gone: BTreeSet<&Bytes> =
            whole.iter().copied().chain(parted.map(|((entry, _), _)| *entry)).collect();
        round.relayed.entries = whole.len() as u64;
        if !round.is_late {
            let stay = round.entries.keys().filter(|entry| !whole.contains(entry));
            stay.for_each(|entry| pass.add_stayed(entry.clone()));
        }
        for (target, parcels) in &round.done {
            let gone: Vec<_> =
                parcels.iter().filter(|parcel| gone.contains(&parcel.entry)).collect();
            if let Err(error) = self.release_dedup_records(target, &gone).await {
                // The records stay for a week instead.
                if !error.is_refusal() {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    async fn release_dedup_records(
        &self,
        shard: &Shard,
        parcels: &[&Parcel],
    ) -> Result<(), QueueError> {
        for some in parcels.chunks(PUSHED_MAX) {
            let mut call = RELAYED.call(&self.keys.of(shard));
            for parcel in some {
                call.arg(&parcel.dedup_record);
            }
            script::run_one_idempotent(&self.connection, call).await?;
        }
        Ok(())
    }
}

impl RelayPass {
    /// Records that an entry stays in the outbox.
    fn add_stayed(&mut self, entry: Bytes) {
        if self.stayed.len() == BATCH_MAX {
            self.stayed.pop_front();
        }
        self.stayed.push_back(entry);
    }
}

impl Round {
    /// Records that a topic refused its follow-ups. An error of Redis as a whole ends the call.
    fn record_refusal(
        &mut self,
        target: &TopicName,
        jobs: usize,
        error: QueueError,
    ) -> Result<(), QueueError> {
        if !error.is_refusal() && !matches!(error, QueueError::Unconfirmed(_)) {
            return Err(error);
        }
        self.relayed.faults.push(format!(
            "{jobs} follow-ups to {target} stay in the outbox: {error}; `duebox doctor {target}` \
             examines the topic"
        ));
        Ok(())
    }
}
