//! Writes the limits of topics, which every client must respect, from the manifest to Redis. It writes them
//! on each change of the manifest, and again each minute in case Redis lost them.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use duebox_job::{Rate, TopicName};
use duebox_queue::{Limits, Queue, QueueError};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;

use super::topic_discovery::Finder;
use crate::manifest::{KeyOrder, Topic};
use crate::redis_host::outage::{self, Outage, RETRY_FIRST};

/// How often all limits are written again.
const EVERY: Duration = Duration::from_secs(60);

/// Topics in one pipeline.
const TOPICS_PER_PIPELINE: usize = 200;

/// The limits of every topic.
pub(crate) type AllRules = Arc<[(TopicName, Limits)]>;

impl Topic {
    /// The limits that every client of the topic must know. Each shard gets its part of them, rounded up.
    pub fn rules(&self) -> Limits {
        let shards = self.shards.max(1);
        Limits {
            per_key: NonZero::new(self.per_key_concurrency),
            relaxed: self.order == KeyOrder::Relaxed,
            max_pending: NonZero::new(self.max_pending.div_ceil(shards.into())),
            max_running: NonZero::new(self.max_running.div_ceil(shards)),
            rate: self.rate.map(|rate| Rate::part(rate, shards)),
            burst: NonZero::new(self.burst.div_ceil(shards)),
            ttl: Some(self.ttl).filter(|ttl| !ttl.is_zero()),
            priorities: self.priorities,
            shards: NonZero::new(self.shards),
        }
    }
}

/// Writes the limits of topics into all their shards, including shards of earlier counts. This takes two
/// pipelines if no topic has several shards. Returns for each topic whether its limits in Redis changed.
pub(crate) async fn write(
    queue: &Queue,
    wanted: &[(TopicName, Limits)],
) -> Result<Vec<bool>, QueueError> {
    let first: Vec<_> = wanted.iter().map(|(topic, rules)| (topic, rules)).collect();
    let mut changed = queue.configure_all(&first).await?;
    let topics: Vec<TopicName> = wanted.iter().map(|(topic, _)| topic.clone()).collect();
    let mut others = Vec::new();
    for (at, shards) in queue.shards_of_all(&topics).await?.iter().enumerate() {
        others.extend(shards.all().skip(1).map(|shard| (at, shard)));
    }
    let further: Vec<_> = others.iter().map(|(at, shard)| (shard, &wanted[*at].1)).collect();
    let new = queue.configure_all(&further).await?;
    for ((at, shard), is_new) in others.iter().zip(new) {
        // A new shard is paused if its topic is.
        if is_new && queue.is_paused(&topics[*at]).await? {
            queue.pause(shard).await?;
        }
        changed[*at] |= is_new;
    }
    Ok(changed)
}

/// Keeps the limits in Redis up to date until the sender is gone. Failed writes are retried.
pub(crate) async fn run(
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

/// Writes the limits that changed since the last write, or all of them.
async fn write_wanted(
    queue: &Queue,
    wanted: &AllRules,
    finder: &Finder,
    written: &mut BTreeMap<TopicName, Limits>,
    all: bool,
) -> Result<(), QueueError> {
    let still: BTreeSet<&TopicName> = wanted.iter().map(|(topic, _)| topic).collect();
    written.retain(|topic, _| still.contains(topic));
    let is_wanted =
        |(topic, rules): &&(TopicName, Limits)| all || written.get(topic) != Some(rules);
    let rest: Vec<_> = wanted.iter().filter(is_wanted).cloned().collect();
    for some in rest.chunks(TOPICS_PER_PIPELINE) {
        let changed = write(queue, some).await?;
        let names: Vec<TopicName> = some.iter().map(|(topic, _)| topic.clone()).collect();
        for ((topic, rules), changed) in some.iter().zip(changed) {
            let before = written.insert(topic.clone(), rules.clone());
            if changed && before.as_ref() == Some(rules) {
                warn!(%topic, "its limits in Redis differed from this manifest and are restored: Redis lost them, or another manifest serves the topic too");
            }
        }
        for shards in queue.shards_of_all(&names).await? {
            if let Some(shard) = shards.all().last() {
                finder.met(&shard);
            }
        }
        queue.register(&names).await?;
    }
    Ok(())
}
