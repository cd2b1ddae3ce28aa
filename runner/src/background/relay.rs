//! Moves follow-up jobs from the outboxes to their topics: at once after an ack of this runner, and every
//! 10 s what dead runners left behind.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use duebox_job::Shard;
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
    due: Mutex<BTreeSet<Shard>>,
    notify: Notify,
}

impl Relay {
    /// The outbox of this shard has entries.
    pub fn due(&self, shard: &Shard) {
        self.0.due.lock().insert(shard.clone());
        self.0.notify.notify_one();
    }

    fn take(&self) -> BTreeSet<Shard> {
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
            for shard in self.take() {
                match relay(&queue, &shard, &push_counters).await {
                    Ok(rest) if rest => self.due(&shard),
                    Ok(_) => retry = RETRY_FIRST,
                    Err(error) => {
                        outage.noticed(&error);
                        self.due(&shard);
                        retry = outage::next_retry(retry);
                        tokio::time::sleep(retry).await;
                    }
                }
            }
        }
    }

    /// Finds the outboxes that have entries.
    async fn find_due(&self, queue: &Queue, wake_ups: &WakeUps) -> Result<(), QueueError> {
        let mut shards: BTreeSet<Shard> =
            wake_ups.load().iter().map(|(shard, _)| shard.clone()).collect();
        // Topics without a worker here have outboxes too.
        let mut others = queue.topics().await?;
        others.retain(|topic| !shards.contains(&topic.first_shard()));
        for some in others.chunks(TOPICS_PER_PIPELINE) {
            for all in queue.shards_of_all(some).await? {
                shards.extend(all.all());
            }
        }
        let shards: Vec<Shard> = shards.into_iter().collect();
        for some in shards.chunks(TOPICS_PER_PIPELINE) {
            for (shard, entries) in some.iter().zip(queue.outbox_lengths(some).await?) {
                if entries > 0 {
                    self.due(shard);
                }
            }
        }
        Ok(())
    }
}

/// Empties an outbox, within a limit. True if entries are left that can be relayed.
async fn relay(
    queue: &Queue,
    shard: &Shard,
    push_counters: &PushCounters,
) -> Result<bool, QueueError> {
    for _ in 0..ROUNDS_PER_TOPIC {
        let relayed = queue.relay(shard).await?;
        push_counters.pushed(Source::FollowUp, relayed.pushed as usize);
        for fault in &relayed.faults {
            warn!(topic = %shard.topic(), "{fault}");
        }
        debug!(topic = %shard.topic(), entries = relayed.entries, pushed = relayed.pushed, kept = relayed.kept, "relayed follow-up jobs");
        if !relayed.more {
            return Ok(false);
        }
    }
    Ok(true)
}
