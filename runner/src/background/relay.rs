//! Moves follow-up jobs from the outboxes to their topics: at once after an ack of this runner, and every
//! 10 s what dead runners left behind.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use duebox_job::Shard;
use duebox_queue::{Queue, QueueError, RelayPass, Shards};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::{debug, warn};

use super::wake_up::WakeUps;
use crate::observe::push_counters::{PushCounters, Source};
use crate::observe::sick_topics::{SickTopics, TopicLoop};
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
    /// Marks the outbox of this shard as one that has entries.
    pub fn mark_due(&self, shard: &Shard) {
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
        sick_topics: Arc<SickTopics>,
        outage: Arc<Outage>,
    ) {
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut retry = RETRY_FIRST;
        loop {
            // The tick first: outboxes that are due all the time must not hide the others.
            let is_tick = tokio::select! {
                biased;
                _ = tick.tick() => true,
                () = self.0.notify.notified() => false,
            };
            if is_tick && let Err(error) = self.find_due(&queue, &wake_ups, &sick_topics).await {
                outage.record_error(&error);
            }
            for shard in self.take() {
                let relayed = relay(&queue, &shard, &push_counters).await;
                match sick_topics.isolate(&shard, TopicLoop::Relay, relayed) {
                    Ok(Some(true)) => self.mark_due(&shard),
                    // The next tick finds a sick topic again.
                    Ok(_) => retry = RETRY_FIRST,
                    // The other outboxes do not wait for this one; the next tick finds it again.
                    Err(error) if error.is_refusal() && !outage.is_ongoing() => {
                        warn!(topic = %shard.topic(), %error, "the follow-up jobs of the topic wait: its outbox cannot be relayed");
                    }
                    Err(error) => {
                        outage.record_error(&error);
                        self.mark_due(&shard);
                        retry = outage::next_retry(retry);
                        outage.wait(retry).await;
                    }
                }
            }
        }
    }

    /// Finds the outboxes that have entries.
    async fn find_due(
        &self,
        queue: &Queue,
        wake_ups: &WakeUps,
        sick_topics: &SickTopics,
    ) -> Result<(), QueueError> {
        let mut shards: BTreeSet<Shard> =
            wake_ups.load().iter().map(|(shard, _)| shard.clone()).collect();
        // Topics without a worker here have outboxes too.
        let mut others = sick_topics.listed_topics(queue).await?;
        others.retain(|topic| !shards.contains(&topic.first_shard()));
        for some in others.chunks(TOPICS_PER_PIPELINE) {
            for (topic, all) in some.iter().zip(queue.shards_of_all(some).await?) {
                let all = sick_topics.first_of(&topic.first_shard(), TopicLoop::Relay, all)?;
                shards.extend(all.iter().flat_map(Shards::all));
            }
        }
        let shards: Vec<Shard> = shards.into_iter().collect();
        for some in shards.chunks(TOPICS_PER_PIPELINE) {
            for (shard, entries) in some.iter().zip(queue.outbox_lengths(some).await?) {
                match sick_topics.first_of(shard, TopicLoop::Relay, entries)? {
                    Some(0) => sick_topics.record_success(shard, TopicLoop::Relay),
                    Some(_) => self.mark_due(shard),
                    None => {}
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
    let mut pass = RelayPass::default();
    for _ in 0..ROUNDS_PER_TOPIC {
        let relayed = queue.relay(shard, &mut pass).await?;
        push_counters.record(Source::FollowUp, relayed.pushed as usize);
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
