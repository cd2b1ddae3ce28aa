//! The rules of topics that must hold for everybody stand in Redis: this writes there what the
//! manifest says, when it says so, and again each minute, for a Redis that lost them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use duebox_job::{Rate, TopicName};
use duebox_queue::{Queue, QueueError, Rules};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;

use super::finder::Finder;
use crate::manifest::{KeyOrder, Topic};
use crate::outage::{self, Outage, RETRY_FIRST};

/// How often what is written is compared with what should be.
const EVERY: Duration = Duration::from_secs(60);

/// The rules that are to hold, by topic.
pub(super) type AllRules = Arc<[(TopicName, Rules)]>;

impl Topic {
    /// What everybody who uses the topic must know of these settings. They are written into each of
    /// its shards, which share the topic's limits: each has its part, rounded up.
    pub fn rules(&self) -> Rules {
        let shards = self.shards.max(1);
        Rules {
            per_key: self.per_key_concurrency,
            relaxed: self.order == KeyOrder::Relaxed,
            max_pending: self.max_pending.div_ceil(shards.into()),
            max_running: self.max_running.div_ceil(shards),
            rate: self.rate.map(|rate| Rate::part(rate, shards)),
            burst: self.burst.div_ceil(shards),
            ttl: self.ttl,
            priorities: self.priorities,
            shards: self.shards,
        }
    }
}

/// Writes the rules of a topic into all its shards, those of earlier numbers too. True if others held
/// before.
pub(crate) async fn write(
    queue: &Queue,
    topic: &TopicName,
    rules: &Rules,
) -> Result<bool, QueueError> {
    let mut changed = queue.configure(topic, rules).await?;
    for shard in queue.shards(topic).await?.all().skip(1) {
        let is_new = queue.configure(&shard, rules).await?;
        // A shard that is new is paused as the topic is.
        if is_new && queue.is_paused(topic).await? {
            queue.pause(&shard).await?;
        }
        changed |= is_new;
    }
    Ok(changed)
}

/// Keeps the rules in Redis as they are to be, until the sender is gone. What Redis did not take is
/// tried again.
pub(super) async fn keep(
    queue: Queue,
    mut rules: watch::Receiver<AllRules>,
    finder: Finder,
    outage: Arc<Outage>,
) {
    let mut written = BTreeMap::new();
    let mut retry = RETRY_FIRST;
    let mut all_at = Instant::now() + EVERY;
    loop {
        let wanted = Arc::clone(&rules.borrow_and_update());
        let all = Instant::now() >= all_at;
        let again_at = match write_wanted(&queue, &wanted, &finder, &mut written, all).await {
            Ok(()) => {
                retry = RETRY_FIRST;
                if all {
                    all_at = Instant::now() + EVERY;
                }
                all_at
            }
            Err(error) => {
                outage.noticed(&error);
                retry = outage::next_retry(retry);
                Instant::now() + retry
            }
        };
        tokio::select! {
            changed = rules.changed() => if changed.is_err() { return },
            () = tokio::time::sleep_until(again_at) => {}
        }
    }
}

/// Writes what was not written as it is wanted now, or all of it.
async fn write_wanted(
    queue: &Queue,
    wanted: &AllRules,
    finder: &Finder,
    written: &mut BTreeMap<TopicName, Rules>,
    all: bool,
) -> Result<(), QueueError> {
    let still: BTreeSet<&TopicName> = wanted.iter().map(|(topic, _)| topic).collect();
    written.retain(|topic, _| still.contains(topic));
    let mut names = Vec::new();
    for (topic, rules) in wanted.iter() {
        let is_written = written.get(topic) == Some(rules);
        if is_written && !all {
            continue;
        }
        if write(queue, topic, rules).await? && is_written {
            warn!(%topic, "its rules in Redis were not those of this manifest, and are again: Redis lost them, or another manifest serves the topic too");
        }
        if let Some(shard) = queue.shards(topic).await?.all().last() {
            finder.met(&shard);
        }
        written.insert(topic.clone(), rules.clone());
        names.push(topic.clone());
    }
    queue.register(&names).await
}
