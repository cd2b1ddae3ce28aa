//! Wakes the workers that no wake-up reached: a poll of every topic each `redis.poll` finds pushes by plain
//! commands, jobs left by other runners, and lost wake-ups.
//!
//! A poll reads many topics in one pipeline: a hundred idle topics cost one round trip.

use std::sync::Arc;
use std::time::Duration;

use duebox_job::Shard;
use duebox_queue::{Queue, QueueError};

use super::wake_up::WakeUps;
use crate::monotonic;
use crate::observe::sick_topics::{SickTopics, TopicLoop};
use crate::redis_host::outage::Outage;

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
            Ok(()) => outage.record_read(),
            Err(error) => outage.record_error(&error),
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
