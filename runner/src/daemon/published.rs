//! What the supervisor publishes: the topics and how they are served. The background loops, the HTTP
//! server, the status and the metrics read it without waiting for the supervisor.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use duebox_job::{FailureClass, Policy, TopicName};
use tokio::sync::watch;

use super::served::{Served, Topics};
use crate::background::limits::AllLimits;
use crate::background::maintenance::{Pulled, Retention, Retentions};
use crate::background::scheduler::Schedules;
use crate::background::topic_discovery::TopicDiscovery;
use crate::background::wake_up::WakeUps;
use crate::manifest::{Manifest, Topic};
use crate::report::status::{AllWatched, ManifestRefusal};
use crate::worker::verdict::buried_info;

/// The published values.
pub(super) struct Published {
    pub(super) topic_discovery: TopicDiscovery,
    pub(super) wake_ups: WakeUps,
    pub(super) retentions: Retentions,
    pub(super) limits: watch::Sender<AllLimits>,
    pub(super) schedules: watch::Sender<Schedules>,
    pub(super) watched: watch::Sender<AllWatched>,
    /// The names of all topics that are served, for metrics of their depths.
    pub(super) names: Arc<ArcSwap<Vec<TopicName>>>,
    /// Why the manifest as it stands is not the one in service, if it is not.
    pub(super) refused: watch::Sender<Option<ManifestRefusal>>,
}

impl Published {
    /// Publishes no topics yet.
    pub(super) fn new(topic_discovery: TopicDiscovery, manifest: &Manifest) -> Self {
        Self {
            topic_discovery,
            wake_ups: WakeUps::default(),
            retentions: Retentions::default(),
            limits: watch::Sender::new(Arc::new([])),
            schedules: watch::Sender::new(manifest.schedules.clone().into()),
            watched: watch::Sender::new(Arc::new([])),
            names: Arc::default(),
            refused: watch::Sender::new(None),
        }
    }

    /// Publishes the topics and how they are served.
    pub(super) fn publish(&self, manifest: &Arc<Manifest>, topics: &Topics, watched: AllWatched) {
        let mut retentions = BTreeMap::new();
        let mut limits = Vec::new();
        for (name, served) in &topics.served {
            limits.push((name.clone(), served.topic.limits()));
            let retention = retention(&served.topic);
            retentions.extend(served.shards.iter().map(|shard| (shard.clone(), retention.clone())));
        }
        // Topics that wait for a valid module or for Redis belong to the manifest too.
        let waiting = manifest.topics.iter().filter(|(name, _)| !topics.served.contains_key(*name));
        for (name, topic) in waiting {
            limits.push((name.clone(), topic.limits()));
            retentions.insert(name.first_shard(), retention(topic));
        }
        self.wake_ups.store(Arc::new(topics.wake_ups()));
        self.retentions.store(Arc::new(retentions));
        let shards = |served: &Served| u32::try_from(served.shards.len()).unwrap_or(u32::MAX);
        let served = topics.served.iter().map(|(name, served)| (name.clone(), shards(served)));
        self.topic_discovery.update(Arc::clone(manifest), served.collect());
        self.names.store(Arc::new(limits.iter().map(|(name, _)| name.clone()).collect()));
        self.limits.send_replace(limits.into());
        self.watched.send_replace(watched);
    }

    /// Publishes the schedules of a new manifest, if they changed.
    pub(super) fn publish_schedules(&self, manifest: &Manifest) {
        self.schedules.send_if_modified(|schedules| {
            let is_new = **schedules != *manifest.schedules;
            if is_new {
                *schedules = manifest.schedules.as_slice().into();
            }
            is_new
        });
    }
}

/// What maintenance knows of each shard of a topic.
fn retention(topic: &Topic) -> Retention {
    let pulled = topic.handler.is_none().then(|| Pulled {
        max_crashes: topic.retries.max_crashes,
        crashed_info: buried_info(topic, FailureClass::Crashed),
        discards_bad: topic.policy(FailureClass::BadDue) == Policy::Discard,
    });
    let kept = &topic.retention;
    Retention {
        age: kept.dead,
        count: kept.max_dead.div_ceil(topic.shards.get().into()),
        done_age: kept.done.unwrap_or_default(),
        pulled,
    }
}
