//! Finds topics that match the manifest's patterns. A push through Duebox wakes the daemon and registers
//! its topic. Plain commands do neither, so the keys of Redis are scanned, a few at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use duebox_job::{Shard, TopicName};
use duebox_queue::{KeyScan, Queue, QueueError};
use tokio::sync::{Notify, mpsc};

use crate::manifest::Manifest;
use crate::observe::sick_topics::SickTopics;
use crate::redis_host::outage::Outage;

/// How often to scan for topics without a wake-up.
const EVERY: Duration = Duration::from_secs(10);
/// Scan steps in one round.
const STEPS_PER_SCAN: usize = 16;
/// The most topics that were found and are not bound yet.
pub(crate) const FOUND_MAX: usize = 1_000;

/// The manifest and the topics served.
struct Known {
    manifest: Arc<Manifest>,
    /// The topics that are served, each with the number of its shards.
    served: BTreeMap<TopicName, u32>,
}

/// Compares topic names with the manifest, and reports those that should be served.
#[derive(Clone)]
pub struct TopicDiscovery {
    known: Arc<ArcSwap<Known>>,
    found: mpsc::Sender<TopicName>,
    /// Set when the patterns have changed: the scan starts again.
    restart: Arc<Notify>,
}

impl TopicDiscovery {
    /// Creates it and the channel that receives the names it finds.
    pub fn new(manifest: Arc<Manifest>) -> (Self, mpsc::Receiver<TopicName>) {
        let known = Known { manifest, served: BTreeMap::new() };
        let (sender, found) = mpsc::channel(FOUND_MAX);
        let known = Arc::new(ArcSwap::from_pointee(known));
        (Self { known, found: sender, restart: Arc::default() }, found)
    }

    /// Takes the current manifest, and the topics that are served, each with the number of its shards.
    pub fn update(&self, manifest: Arc<Manifest>, served: BTreeMap<TopicName, u32>) {
        self.known.store(Arc::new(Known { manifest, served }));
    }

    /// Starts the scan again, for example for new patterns.
    pub(crate) fn restart_scan(&self) {
        self.restart.notify_one();
    }

    /// Reports a shard that was seen. If it should be served and is not, its topic goes to the
    /// daemon. It is dropped while the channel is full, and found again later.
    pub fn record(&self, shard: &Shard) {
        if is_unserved(&self.known.load(), shard) {
            drop(self.found.try_send(shard.topic().clone()));
        }
    }

    /// The current manifest.
    pub(crate) fn manifest(&self) -> Arc<Manifest> {
        Arc::clone(&self.known.load().manifest)
    }

    /// True if this daemon serves the topic; Redis then has its limits.
    pub(crate) fn serves(&self, topic: &TopicName) -> bool {
        self.known.load().served.contains_key(topic)
    }

    /// Scans for topics until the task is aborted.
    pub(crate) async fn run(self, queue: Queue, sick_topics: Arc<SickTopics>, outage: Arc<Outage>) {
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut scan = KeyScan::default();
        loop {
            tokio::select! {
                biased;
                _ = tick.tick() => {}
                () = self.restart.notified() => scan = KeyScan::default(),
            }
            if self.known.load().manifest.patterns.is_empty() {
                continue;
            }
            if let Err(error) = self.scan_once(&queue, &mut scan, &sick_topics).await {
                outage.record_error(&error);
            }
        }
    }

    async fn scan_once(
        &self,
        queue: &Queue,
        scan: &mut KeyScan,
        sick_topics: &SickTopics,
    ) -> Result<(), QueueError> {
        let topics = sick_topics.known_topics(queue).await?;
        self.send_new(topics.iter().map(TopicName::first_shard).collect()).await;
        for _ in 0..STEPS_PER_SCAN {
            self.send_new(queue.scan_pending(scan).await?).await;
            if scan.is_at_start() {
                break;
            }
        }
        Ok(())
    }

    async fn send_new(&self, shards: Vec<Shard>) {
        for shard in shards {
            let is_unserved = is_unserved(&self.known.load(), &shard);
            if is_unserved && self.found.send(shard.topic().clone()).await.is_err() {
                return;
            }
        }
    }
}

fn is_unserved(known: &Known, shard: &Shard) -> bool {
    let topic = shard.topic();
    match known.served.get(topic) {
        // A runner with another manifest has split it into more shards.
        Some(shards) => shard.number() >= *shards,
        None => {
            !known.manifest.topics.contains_key(topic)
                && known.manifest.patterns.find(topic).is_some()
        }
    }
}
