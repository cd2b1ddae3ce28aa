//! Moves follow-up jobs from the outboxes to their topics: at once after an ack of this runner, and every
//! 10 s what dead runners left behind.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use duebox_job::TopicName;
use duebox_queue::{Queue, QueueError};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::{debug, warn};

use super::poller::WakeUps;
use crate::observe::push_counters::{PushCounters, Source};
use crate::redis_host::outage::{self, Outage, RETRY_FIRST};

/// How often every outbox is checked.
const EVERY: Duration = Duration::from_secs(10);
/// The most rounds for one topic before the next.
const ROUNDS_PER_TOPIC: usize = 50;
/// Outboxes in one pipeline.
const TOPICS_PER_PIPELINE: usize = 250;

/// The outboxes that may have entries; workers add to them. Clones share the set.
#[derive(Clone, Default)]
pub struct Relay(Arc<DueOutboxes>);

#[derive(Default)]
struct DueOutboxes {
    due: Mutex<BTreeSet<TopicName>>,
    notify: Notify,
}

impl Relay {
    /// The outbox of this topic has entries.
    pub fn due(&self, topic: &TopicName) {
        self.0.due.lock().insert(topic.clone());
        self.0.notify.notify_one();
    }

    fn take(&self) -> BTreeSet<TopicName> {
        std::mem::take(&mut *self.0.due.lock())
    }

    /// Relays until the task is aborted.
    pub async fn run(
        self,
        queue: Queue,
        wake_ups: WakeUps,
        push_counters: Arc<PushCounters>,
        outage: Arc<Outage>,
    ) {
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut retry = RETRY_FIRST;
        loop {
            let is_tick = tokio::select! {
                () = self.0.notify.notified() => false,
                _ = tick.tick() => true,
            };
            if is_tick && let Err(error) = self.find_due(&queue, &wake_ups).await {
                outage.noticed(&error);
            }
            for topic in self.take() {
                match relay(&queue, &topic, &push_counters).await {
                    Ok(rest) if rest => self.due(&topic),
                    Ok(_) => retry = RETRY_FIRST,
                    Err(error) => {
                        outage.noticed(&error);
                        self.due(&topic);
                        retry = outage::next_retry(retry);
                        tokio::time::sleep(retry).await;
                    }
                }
            }
        }
    }

    /// Finds the outboxes that have entries.
    async fn find_due(&self, queue: &Queue, wake_ups: &WakeUps) -> Result<(), QueueError> {
        let mut topics: BTreeSet<TopicName> =
            wake_ups.load().iter().map(|(shard, _)| shard.clone()).collect();
        // Topics without a worker here have outboxes too.
        let mut others = queue.topics().await?;
        others.retain(|topic| !topics.contains(topic));
        for some in others.chunks(TOPICS_PER_PIPELINE) {
            for shards in queue.shards_of_all(some).await? {
                topics.extend(shards.all());
            }
        }
        let topics: Vec<TopicName> = topics.into_iter().collect();
        for some in topics.chunks(TOPICS_PER_PIPELINE) {
            for (topic, entries) in some.iter().zip(queue.outbox_lengths(some).await?) {
                if entries > 0 {
                    self.due(topic);
                }
            }
        }
        Ok(())
    }
}

/// Empties an outbox, within a limit. True if entries are left that can be relayed.
async fn relay(
    queue: &Queue,
    topic: &TopicName,
    push_counters: &PushCounters,
) -> Result<bool, QueueError> {
    for _ in 0..ROUNDS_PER_TOPIC {
        let relayed = queue.relay(topic).await?;
        push_counters.pushed(Source::FollowUp, relayed.pushed as usize);
        for fault in &relayed.faults {
            warn!(%topic, "{fault}");
        }
        debug!(%topic, entries = relayed.entries, pushed = relayed.pushed, kept = relayed.kept, "relayed follow-up jobs");
        if !relayed.more {
            return Ok(false);
        }
    }
    Ok(true)
}
