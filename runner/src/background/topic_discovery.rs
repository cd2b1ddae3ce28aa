//! Finds topics that match the manifest's patterns. A push through Duebox wakes the daemon and registers
//! its topic. Plain commands do neither, so the keys of Redis are scanned, a few at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use duebox_job::TopicName;
use duebox_queue::{KeyScan, Queue, QueueError};
use tokio::sync::{Notify, mpsc};

use crate::manifest::Manifest;
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
pub struct Finder {
    known: Arc<ArcSwap<Known>>,
    found: mpsc::Sender<TopicName>,
    /// Set when the patterns have changed: the scan starts again.
    restart: Arc<Notify>,
}

impl Finder {
    /// Creates a finder and the channel that receives the names it finds.
    pub(crate) fn new(manifest: Arc<Manifest>) -> (Self, mpsc::Receiver<TopicName>) {
        let known = Known { manifest, served: BTreeMap::new() };
        let (sender, found) = mpsc::channel(FOUND_MAX);
        let known = Arc::new(ArcSwap::from_pointee(known));
        (Self { known, found: sender, restart: Arc::default() }, found)
    }

    /// Takes the current manifest, and the topics that are served, each with the number of its shards.
    pub(crate) fn update(&self, manifest: Arc<Manifest>, served: BTreeMap<TopicName, u32>) {
        self.known.store(Arc::new(Known { manifest, served }));
    }

    /// Starts the scan again, for example for new patterns.
    pub(crate) fn restart_scan(&self) {
        self.restart.notify_one();
    }

    /// Reports a topic, or a shard, that was seen. If it should be served and is not, its name goes to the
    /// daemon. It is dropped while the channel is full, and found again later.
    pub fn met(&self, topic: &TopicName) {
        if is_unserved(&self.known.load(), topic) {
            drop(self.found.try_send(topic.base()));
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
    pub(crate) async fn run(self, queue: Queue, outage: Arc<Outage>) {
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut scan = KeyScan::default();
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = self.restart.notified() => scan = KeyScan::default(),
            }
            if self.known.load().manifest.patterns.is_empty() {
                continue;
            }
            if let Err(error) = self.scan_once(&queue, &mut scan).await {
                outage.noticed(&error);
            }
        }
    }

    async fn scan_once(&self, queue: &Queue, scan: &mut KeyScan) -> Result<(), QueueError> {
        self.send_new(queue.topics().await?).await;
        for _ in 0..STEPS_PER_SCAN {
            self.send_new(queue.scan_pending(scan).await?).await;
            if scan.is_at_start() {
                break;
            }
        }
        Ok(())
    }

    async fn send_new(&self, topics: Vec<TopicName>) {
        for topic in topics {
            let is_unserved = is_unserved(&self.known.load(), &topic);
            if is_unserved && self.found.send(topic.base()).await.is_err() {
                return;
            }
        }
    }
}

fn is_unserved(known: &Known, topic: &TopicName) -> bool {
    let base = topic.base();
    match known.served.get(&base) {
        // A runner with another manifest has split it into more shards.
        Some(shards) => topic.shard_number() >= *shards,
        None => {
            !known.manifest.topics.contains_key(&base)
                && known.manifest.patterns.find(&base).is_some()
        }
    }
}
