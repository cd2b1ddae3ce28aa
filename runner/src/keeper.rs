//! The housekeeping of the queue: dead jobs past their retention are pruned, and topics that no
//! manifest binds here are kept from losing jobs that a dead runner held.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use duebox_job::TopicName;
use duebox_queue::{BATCH_MAX, Queue, QueueError, ReclaimRule, Turn};
use tracing::{info, warn};

use crate::outage::Outage;
use crate::verdict::crashed_info;

/// How often the house is kept.
const EVERY: Duration = Duration::from_secs(10);
/// Batches pruned of one topic before the next has its turn.
const BATCHES_A_TOPIC: usize = 20;
/// Runner's deaths allowed to a job of a topic that no manifest here describes.
const UNBOUND_CRASHES_MAX: u32 = 3;

/// What the keeper must know of a bound topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// How long dead jobs are kept.
    pub age: Duration,
    /// How many are kept.
    pub count: u64,
}

/// The topics bound here, with their retention.
pub type Retentions = Arc<ArcSwap<BTreeMap<TopicName, Retention>>>;

/// Keeps the house, for ever.
pub async fn keep(queue: Queue, retentions: Retentions, outage: Arc<Outage>) {
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut unbound_before = Vec::new();
    loop {
        tick.tick().await;
        let bound = retentions.load_full();
        let kept = async {
            prune(&queue, &bound).await?;
            reclaim_unbound(&queue, &bound, &mut unbound_before).await
        };
        if let Err(error) = kept.await {
            outage.noticed(&error);
        }
    }
}

async fn prune(queue: &Queue, bound: &BTreeMap<TopicName, Retention>) -> Result<(), QueueError> {
    for (topic, retention) in bound {
        let mut pruned = 0;
        for _ in 0..BATCHES_A_TOPIC {
            let old = queue.prune_older(topic, retention.age).await?;
            let excess = queue.prune_above(topic, retention.count).await?;
            pruned += old + excess;
            if old.max(excess) < BATCH_MAX as u64 {
                break;
            }
        }
        if pruned > 0 {
            info!(%topic, jobs = pruned, "pruned dead jobs past retention or max_dead");
        }
    }
    Ok(())
}

/// Ends expired leases of topics that are known in Redis but bound to no handler here: their jobs
/// wait in retry for whoever serves the topic next.
async fn reclaim_unbound(
    queue: &Queue,
    bound: &BTreeMap<TopicName, Retention>,
    before: &mut Vec<TopicName>,
) -> Result<(), QueueError> {
    let known = queue.topics().await?;
    let unbound: Vec<_> = known.into_iter().filter(|topic| !bound.contains_key(topic)).collect();
    for topic in unbound.iter().filter(|topic| !before.contains(topic)) {
        info!(%topic, "unbound: Redis knows this topic, the manifest does not; its jobs wait");
    }
    let crashed = crashed_info();
    for topic in &unbound {
        let rule =
            ReclaimRule { max_crashes: UNBOUND_CRASHES_MAX, delay: Duration::ZERO, info: &crashed };
        let reply = queue.turn(topic, &Turn { reclaim: Some(rule), ..Turn::default() }).await?;
        let jobs = reply.reclaimed.map_or(0, |reclaimed| reclaimed.jobs.len());
        if jobs > 0 {
            warn!(%topic, jobs, "reclaimed from a dead runner; the topic is bound to no handler here");
        }
        if let Some(error) = reply.error {
            return Err(error);
        }
    }
    *before = unbound;
    Ok(())
}
