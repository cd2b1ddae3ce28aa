//! Writes the limits of topics, which every client must respect, from the manifest to Redis, and the version of
//! the layout where Redis lost both. It writes them on each change of the manifest, when Redis may have lost them (an outage, another server, a worker that
//! finds none, SIGHUP), and again each minute.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use duebox_job::TopicName;
use duebox_queue::{Limits, Queue, QueueError};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::warn;

use super::topic_discovery::TopicDiscovery;
use crate::manifest::{KeyOrder, Topic};
use crate::observe::sick_topics::{SickTopics, TopicLoop};
use crate::redis_host::outage::{self, Outage, RETRY_FIRST};

/// How often all limits are written again.
const EVERY: Duration = Duration::from_secs(60);

/// Topics in one pipeline.
const TOPICS_PER_PIPELINE: usize = 200;

/// The limits of every topic.
pub type AllLimits = Arc<[(TopicName, Limits)]>;

impl Topic {
    /// The limits that every client of the topic must know.
    pub fn limits(&self) -> Limits {
        let Self { starts, retention, .. } = self;
        Limits {
            per_key: starts.per_key_concurrency,
            relaxed: starts.order == KeyOrder::Relaxed,
            max_pending: self.max_pending,
            max_running: starts.max_running,
            rate: starts.rate.map(|limit| limit.rate),
            burst: starts.rate.map(|limit| limit.burst),
            ttl: starts.ttl,
            priorities: starts.priorities,
            shards: Some(self.shards),
            max_crashes: Some(self.retries.max_crashes),
            retention: Some(retention.dead),
            max_dead: Some(retention.max_dead),
            done_retention: Some(retention.done.unwrap_or_default()),
        }
    }
}

/// Topics whose limits Redis has lost, as their workers found. Clones share the set.
#[derive(Clone, Default)]
pub struct LostLimits(Arc<LostTopics>);

#[derive(Default)]
struct LostTopics {
    topics: Mutex<BTreeSet<TopicName>>,
    notify: Notify,
}

impl LostLimits {
    /// Has the limits of a topic written again.
    pub fn record(&self, topic: &TopicName) {
        self.0.topics.lock().insert(topic.clone());
        self.0.notify.notify_one();
    }

    fn topics(&self) -> BTreeSet<TopicName> {
        self.0.topics.lock().clone()
    }

    /// Removes topics whose limits were written.
    fn written(&self, topics: &BTreeSet<TopicName>) {
        self.0.topics.lock().retain(|topic| !topics.contains(topic));
    }
}

/// Keeps the limits in Redis up to date until the sender is gone. Failed writes are retried.
pub async fn run(
    queue: Queue,
    mut limits: watch::Receiver<AllLimits>,
    topic_discovery: TopicDiscovery,
    lost_limits: LostLimits,
    sick_topics: Arc<SickTopics>,
    outage: Arc<Outage>,
) {
    let mut writer = LimitsWriter { queue, topic_discovery, sick_topics, written: BTreeMap::new() };
    let mut losses = outage.losses();
    let mut retry = RETRY_FIRST;
    let mut all_at = Instant::now() + EVERY;
    loop {
        let wanted = Arc::clone(&limits.borrow_and_update());
        let all = Instant::now() >= all_at;
        let lost = lost_limits.topics();
        let again_at = match writer.write(&wanted, all, &lost).await {
            Ok(()) => {
                lost_limits.written(&lost);
                retry = RETRY_FIRST;
                if all {
                    all_at = Instant::now() + EVERY;
                }
                all_at
            }
            Err(error) => {
                outage.record_error(&error);
                retry = outage::next_retry(retry);
                Instant::now() + retry
            }
        };
        tokio::select! {
            biased;
            changed = limits.changed() => if changed.is_err() { return },
            () = outage.lost_data_again(losses) => {
                losses = outage.losses();
                all_at = Instant::now();
            }
            () = lost_limits.0.notify.notified() => {}
            () = tokio::time::sleep_until(again_at) => {}
        }
    }
}

/// Writes limits, and knows which ones it has written.
struct LimitsWriter {
    queue: Queue,
    topic_discovery: TopicDiscovery,
    sick_topics: Arc<SickTopics>,
    written: BTreeMap<TopicName, Limits>,
}

impl LimitsWriter {
    /// Writes the limits that changed since the last write or were lost, or all of them.
    async fn write(
        &mut self,
        wanted: &AllLimits,
        all: bool,
        lost: &BTreeSet<TopicName>,
    ) -> Result<(), QueueError> {
        if all || !lost.is_empty() {
            self.restore_layout().await?;
        }
        let still: BTreeSet<&TopicName> = wanted.iter().map(|(topic, _)| topic).collect();
        self.written.retain(|topic, _| still.contains(topic));
        let is_wanted = |(topic, limits): &&(TopicName, Limits)| {
            all || lost.contains(topic) || self.written.get(topic) != Some(limits)
        };
        let rest: Vec<_> = wanted.iter().filter(is_wanted).cloned().collect();
        for some in rest.chunks(TOPICS_PER_PIPELINE) {
            self.write_some(some).await?;
        }
        Ok(())
    }

    /// Stores the version of the layout again where Redis lost it with its data. Other refusals than that of
    /// an unknown layout meet the limits too.
    async fn restore_layout(&self) -> Result<(), QueueError> {
        match self.queue.declare_layout().await {
            Err(error @ QueueError::Layout { .. }) => Err(error),
            _ => Ok(()),
        }
    }

    async fn write_some(&mut self, some: &[(TopicName, Limits)]) -> Result<(), QueueError> {
        let changed = self.queue.configure_all(some).await?;
        for ((topic, limits), changed) in some.iter().zip(changed) {
            let changed =
                self.sick_topics.isolate(&topic.first_shard(), TopicLoop::Limits, changed)?;
            // What Redis refused is written again with all limits.
            let before = self.written.insert(topic.clone(), limits.clone());
            if changed == Some(true) && before.as_ref() == Some(limits) {
                warn!(%topic, "its limits in Redis differed from this manifest and are restored: Redis lost them, or another manifest serves the topic too");
            }
        }
        let names: Vec<TopicName> = some.iter().map(|(topic, _)| topic.clone()).collect();
        for shards in self.queue.shards_of_all(&names).await? {
            if let Some(shard) = shards.ok().and_then(|shards| shards.all().last()) {
                self.topic_discovery.record(&shard);
            }
        }
        self.sick_topics.isolate_listing(self.queue.register(&names).await)
    }
}
