//! Writes the limits of topics, which every client must respect, from the manifest to Redis. It writes them
//! on each change of the manifest, when Redis may have lost them (an outage, another server, a worker that
//! finds none, SIGHUP), and again each minute.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use duebox_job::TopicName;
use duebox_queue::{Limits, Queue, QueueError};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;

use super::topic_discovery::TopicDiscovery;
use crate::manifest::{KeyOrder, Topic};
use crate::redis_host::outage::{self, Outage, RETRY_FIRST};

/// How often all limits are written again.
const EVERY: Duration = Duration::from_secs(60);

/// Topics in one pipeline.
const TOPICS_PER_PIPELINE: usize = 200;

/// The limits of every topic.
pub(crate) type AllLimits = Arc<[(TopicName, Limits)]>;

impl Topic {
    /// The limits that every client of the topic must know.
    pub fn limits(&self) -> Limits {
        Limits {
            per_key: NonZero::new(self.per_key_concurrency),
            relaxed: self.order == KeyOrder::Relaxed,
            max_pending: NonZero::new(self.max_pending),
            max_running: NonZero::new(self.max_running),
            rate: self.rate,
            burst: NonZero::new(self.burst),
            ttl: Some(self.ttl).filter(|ttl| !ttl.is_zero()),
            priorities: self.priorities,
            shards: NonZero::new(self.shards),
        }
    }
}

/// Keeps the limits in Redis up to date until the sender is gone. Failed writes are retried.
pub(crate) async fn run(
    queue: Queue,
    mut limits: watch::Receiver<AllLimits>,
    topic_discovery: TopicDiscovery,
    outage: Arc<Outage>,
) {
    let mut written = BTreeMap::new();
    let mut losses = outage.losses();
    let mut retry = RETRY_FIRST;
    let mut all_at = Instant::now() + EVERY;
    loop {
        let wanted = Arc::clone(&limits.borrow_and_update());
        let all = Instant::now() >= all_at;
        let again_at =
            match write_wanted(&queue, &wanted, &topic_discovery, &mut written, all).await {
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
            changed = limits.changed() => if changed.is_err() { return },
            () = outage.lost_data_again(losses) => {
                losses = outage.losses();
                all_at = Instant::now();
            }
            () = tokio::time::sleep_until(again_at) => {}
        }
    }
}

/// Writes the limits that changed since the last write, or all of them.
async fn write_wanted(
    queue: &Queue,
    wanted: &AllLimits,
    topic_discovery: &TopicDiscovery,
    written: &mut BTreeMap<TopicName, Limits>,
    all: bool,
) -> Result<(), QueueError> {
    let still: BTreeSet<&TopicName> = wanted.iter().map(|(topic, _)| topic).collect();
    written.retain(|topic, _| still.contains(topic));
    let is_wanted =
        |(topic, limits): &&(TopicName, Limits)| all || written.get(topic) != Some(limits);
    let rest: Vec<_> = wanted.iter().filter(is_wanted).cloned().collect();
    for some in rest.chunks(TOPICS_PER_PIPELINE) {
        let changed = queue.configure_all(some).await?;
        let names: Vec<TopicName> = some.iter().map(|(topic, _)| topic.clone()).collect();
        for ((topic, limits), changed) in some.iter().zip(changed) {
            let before = written.insert(topic.clone(), limits.clone());
            if changed && before.as_ref() == Some(limits) {
                warn!(%topic, "its limits in Redis differed from this manifest and are restored: Redis lost them, or another manifest serves the topic too");
            }
        }
        for shards in queue.shards_of_all(&names).await? {
            if let Some(shard) = shards.all().last() {
                topic_discovery.met(&shard);
            }
        }
        queue.register(&names).await?;
    }
    Ok(())
}
