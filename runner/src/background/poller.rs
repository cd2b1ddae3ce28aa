//! Wakes the workers. The wake channel reports pushes through scripts. A poll of every topic each
//! `redis.poll` finds pushes by plain commands, jobs left by other runners, and lost wake-ups.
//!
//! A poll reads many topics in one pipeline: a hundred idle topics cost one round trip.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use duebox_job::Shard;
use duebox_queue::{Notification, Queue, QueueError, WakeUpHub};
use tokio::sync::mpsc;
use tracing::debug;

use super::wake_up::WakeUp;
use crate::background::topic_discovery::TopicDiscovery;
use crate::monotonic;
use crate::observe::sick_topics::{SickTopics, TopicLoop};
use crate::redis_host::outage::{self, Outage, RETRY_FIRST};

/// The wake-up of each worker, sorted by the name of its shard.
pub type WakeUps = Arc<ArcSwap<Vec<(Shard, Arc<WakeUp>)>>>;

/// Topics in one pipeline: about 0.9 ms of Redis' time, during which all other clients wait.
const TOPICS_PER_PIPELINE: usize = 125;

/// Polls every topic each `poll`, until the task is aborted.
pub async fn poll(
    queue: Queue,
    wake_ups: WakeUps,
    poll: Duration,
    sick_topics: Arc<SickTopics>,
    outage: Arc<Outage>,
) {
    let mut tick = tokio::time::interval(poll);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        match poll_once(&queue, &wake_ups, poll, &sick_topics).await {
            Ok(()) => outage.read(),
            Err(error) => outage.noticed(&error),
        }
    }
}

async fn poll_once(
    queue: &Queue,
    wake_ups: &WakeUps,
    poll: Duration,
    sick_topics: &SickTopics,
) -> Result<(), QueueError> {
    let wake_ups = wake_ups.load_full();
    for some in wake_ups.chunks(TOPICS_PER_PIPELINE) {
        let shards: Vec<Shard> = some.iter().map(|(shard, _)| shard.clone()).collect();
        let waits = queue.peek(&shards).await?;
        let now = monotonic::now();
        for ((shard, wake_up), wait) in some.iter().zip(waits) {
            let wait = sick_topics.isolate(shard, TopicLoop::Poll, wait)?.flatten();
            // The next poll finds jobs that are due later.
            if let Some(wait) = wait.filter(|wait| *wait <= poll * 2) {
                wake_up.notify_at(now + wait);
            }
        }
    }
    Ok(())
}

/// Listens for wake-ups and orders until the task is aborted. A wake-up also wakes pull consumers. Topics
/// without a worker here go to the topic discovery. An order is dropped without a reply while too many wait.
pub async fn listen(
    queue: Queue,
    wake_ups: WakeUps,
    wake_up_hub: WakeUpHub,
    topic_discovery: TopicDiscovery,
    orders: mpsc::Sender<String>,
    outage: Arc<Outage>,
) {
    let mut retry = RETRY_FIRST;
    loop {
        match queue.listen().await {
            Err(error) => debug!(%error, "cannot listen for wake-ups; polling continues"),
            Ok(mut listener) => {
                retry = RETRY_FIRST;
                wake_all(&wake_ups);
                wake_up_hub.notify_all();
                loop {
                    match listener.next().await {
                        Notification::WakeUp(shard) => {
                            wake_up_hub.notify(shard.topic());
                            wake_one(&wake_ups, &shard, &topic_discovery);
                        }
                        Notification::Control(order) => drop(orders.try_send(order)),
                        Notification::Lost => break,
                    }
                }
            }
        }
        retry = outage::next_retry(retry);
        outage.wait(retry).await;
    }
}

fn wake_one(wake_ups: &WakeUps, shard: &Shard, topic_discovery: &TopicDiscovery) {
    let wake_ups = wake_ups.load();
    match wake_ups.binary_search_by(|(name, _)| name.cmp(shard)) {
        Ok(at) => wake_ups[at].1.notify_at(monotonic::now()),
        Err(_) => topic_discovery.met(shard),
    }
}

fn wake_all(wake_ups: &WakeUps) {
    for (_, wake_up) in wake_ups.load().iter() {
        wake_up.notify_at(monotonic::now());
    }
}
