//! The rules of topics that must hold for everybody stand in Redis: this writes there what the
//! manifest says, when it says so, and again each minute, for a Redis that lost them.

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

/// How often what is written is compared with what should be.
const EVERY: Duration = Duration::from_secs(60);

/// Topics whose rules are written together.
const TOPICS_A_WRITE: usize = 200;

/// The rules that are to hold, by topic.
pub(crate) type AllRules = Arc<[(TopicName, Limits)]>;

impl Topic {
    /// What everybody who uses the topic must know of these settings. They are written into each of
    /// its shards, which share the topic's limits: each has its part, rounded up.
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

/// Writes the rules of topics into all their shards, those of earlier numbers too, in two pipelines
/// where no topic has several. Answers for each whether others held before.
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
        // A shard that is new is paused as the topic is.
        if is_new && queue.is_paused(&topics[*at]).await? {
            queue.pause(shard).await?;
        }
        changed[*at] |= is_new;
    }
    Ok(changed)
}

/// Keeps the rules in Redis as they are to be, until the sender is gone. What Redis did not take is
/// tried again.
pub(crate) async fn keep(
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
    written: &mut BTreeMap<TopicName, Limits>,
    all: bool,
) -> Result<(), QueueError> {
    let still: BTreeSet<&TopicName> = wanted.iter().map(|(topic, _)| topic).collect();
    written.retain(|topic, _| still.contains(topic));
    let is_wanted =
        |(topic, rules): &&(TopicName, Limits)| all || written.get(topic) != Some(rules);
    let rest: Vec<_> = wanted.iter().filter(is_wanted).cloned().collect();
    for some in rest.chunks(TOPICS_A_WRITE) {
        let changed = write(queue, some).await?;
        let names: Vec<TopicName> = some.iter().map(|(topic, _)| topic.clone()).collect();
        for ((topic, rules), changed) in some.iter().zip(changed) {
            let before = written.insert(topic.clone(), rules.clone());
            if changed && before.as_ref() == Some(rules) {
                warn!(%topic, "its rules in Redis were not those of this manifest, and are again: Redis lost them, or another manifest serves the topic too");
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
