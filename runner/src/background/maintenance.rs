//! Maintenance of the queue. It prunes dead and done jobs past their retention. For topics without a worker
//! in this daemon it also reclaims expired leases and prunes expired marks. A round without work takes a
//! few round trips, however many topics there are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use duebox_job::{FailureClass, Shard, TopicName};
use duebox_queue::{
    BATCH_MAX, DeadInfo, Promotion, Pruned, Queue, QueueError, ReclaimRule, RetentionLimits, Turn,
};
use tracing::{debug, info, warn};

use crate::redis_host::outage::Outage;

/// How often maintenance runs.
const EVERY: Duration = Duration::from_secs(10);
/// Topics in one pipeline.
const TOPICS_PER_PIPELINE: usize = 125;
/// The most batches pruned of one topic in a round.
const BATCHES_PER_TOPIC: usize = 20;
/// The runner deaths allowed to a job of a topic that this manifest does not describe.
const UNBOUND_CRASHES_MAX: u32 = 3;

/// What maintenance knows of a bound topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// How long dead jobs are kept.
    pub age: Duration,
    /// How many dead jobs are kept, and how many done jobs.
    pub count: u64,
    /// How long done jobs are kept.
    pub done_age: Duration,
    /// Set for a topic without a handler: without pull requests only maintenance looks at it.
    pub pulled: Option<Pulled>,
}

impl Retention {
    fn limits(&self) -> RetentionLimits {
        RetentionLimits {
            dead_for: self.age,
            dead_most: self.count,
            done_for: self.done_age,
            done_most: self.count,
        }
    }
}

/// How to maintain a topic that pull consumers serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// The runner deaths allowed to a job.
    pub max_crashes: u32,
    /// What a job keeps after too many runner deaths; `None` discards the job.
    pub crashed_info: Option<String>,
    /// Discard jobs with an invalid due time; otherwise dead-letter them.
    pub discards_bad: bool,
}

/// The shards of the topics bound here, with their retention.
pub type Retentions = Arc<ArcSwap<BTreeMap<Shard, Retention>>>;

/// Runs maintenance until the task is aborted.
pub async fn run(queue: Queue, retentions: Retentions, outage: Arc<Outage>) {
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut unbound_before = Vec::new();
    loop {
        tick.tick().await;
        let bound = retentions.load_full();
        let round = async {
            prune(&queue, &bound).await?;
            maintain_pull_topics(&queue, &bound).await?;
            reclaim_unbound(&queue, &bound, &mut unbound_before).await
        };
        if let Err(error) = round.await {
            outage.noticed(&error);
        }
    }
}

async fn prune(queue: &Queue, bound: &BTreeMap<Shard, Retention>) -> Result<(), QueueError> {
    let all: Vec<(Shard, RetentionLimits)> =
        bound.iter().map(|(shard, retention)| (shard.clone(), retention.limits())).collect();
    for some in all.chunks(TOPICS_PER_PIPELINE) {
        for ((shard, limits), pruned) in some.iter().zip(queue.prune_ended_all(some).await?) {
            prune_rest(queue, shard, limits, pruned).await?;
        }
    }
    Ok(())
}

/// Prunes further batches of a topic that has more.
async fn prune_rest(
    queue: &Queue,
    shard: &Shard,
    limits: &RetentionLimits,
    mut last: Pruned,
) -> Result<(), QueueError> {
    let (mut dead, mut done) = (last.dead, last.done);
    for _ in 0..BATCHES_PER_TOPIC {
        if !last.more {
            break;
        }
        last = queue.prune_ended(shard, limits).await?;
        dead += last.dead;
        done += last.done;
    }
    if dead > 0 {
        info!(topic = %shard.topic(), jobs = dead, "pruned dead jobs past retention or max_dead");
    }
    if done > 0 {
        debug!(topic = %shard.topic(), jobs = done, "pruned done jobs past done_retention or max_dead");
    }
    Ok(())
}

/// Of these shards, the ones that have work now.
async fn with_work(
    queue: &Queue,
    shards: impl IntoIterator<Item = Shard>,
) -> Result<Vec<Shard>, QueueError> {
    let shards: Vec<Shard> = shards.into_iter().collect();
    let mut found = Vec::new();
    for some in shards.chunks(TOPICS_PER_PIPELINE) {
        let waits = queue.peek(some).await?;
        let has_work = |wait: &Option<Duration>| wait.is_some_and(|wait| wait.is_zero());
        found.extend(
            some.iter()
                .zip(waits)
                .filter(|(_, wait)| has_work(wait))
                .map(|(shard, _)| shard.clone()),
        );
    }
    Ok(found)
}

/// Reclaims expired leases of topics that pull consumers serve, and promotes due jobs there.
async fn maintain_pull_topics(
    queue: &Queue,
    bound: &BTreeMap<Shard, Retention>,
) -> Result<(), QueueError> {
    let pulled = bound.iter().filter(|(_, kept)| kept.pulled.is_some());
    let pulled = pulled.map(|(shard, _)| shard.clone());
    for shard in &with_work(queue, pulled).await? {
        let Some(pulled) = bound.get(shard).and_then(|kept| kept.pulled.as_ref()) else { continue };
        let reclaim = ReclaimRule {
            max_crashes: pulled.max_crashes,
            delay: Duration::ZERO,
            info: pulled.crashed_info.as_deref(),
        };
        let promote = Promotion { jobs: BATCH_MAX, skip: 0, discards_bad: pulled.discards_bad };
        let turn = Turn { reclaim: Some(reclaim), promote: Some(promote), ..Turn::default() };
        let reply = queue.turn(shard, &turn).await?;
        let jobs = reply.reclaimed.map_or(0, |reclaimed| reclaimed.jobs.len());
        if jobs > 0 {
            info!(topic = %shard.topic(), jobs, "reclaimed from pull consumers: their leases expired");
        }
        if let Some(error) = reply.error {
            return Err(error);
        }
    }
    Ok(())
}

/// Reclaims expired leases of topics that Redis knows but no handler here serves. Their jobs wait in retry
/// for the next runner of the topic. Expired keys of their handlers' stores are pruned.
async fn reclaim_unbound(
    queue: &Queue,
    bound: &BTreeMap<Shard, Retention>,
    before: &mut Vec<TopicName>,
) -> Result<(), QueueError> {
    let known = queue.topics().await?;
    let unbound: Vec<_> =
        known.into_iter().filter(|topic| !bound.contains_key(&topic.first_shard())).collect();
    for topic in unbound.iter().filter(|topic| !before.contains(topic)) {
        info!(%topic, "unbound: Redis has jobs of this topic, the manifest does not contain it; its jobs wait");
    }
    let crashed = DeadInfo::without_attempt(FailureClass::Crashed).to_json();
    let mut shards = Vec::new();
    for some in unbound.chunks(TOPICS_PER_PIPELINE) {
        for all in queue.shards_of_all(some).await? {
            shards.extend(all.all());
        }
    }
    for shard in &with_work(queue, shards).await? {
        let rule = ReclaimRule {
            max_crashes: UNBOUND_CRASHES_MAX,
            delay: Duration::ZERO,
            info: Some(&crashed),
        };
        let reply = queue.turn(shard, &Turn { reclaim: Some(rule), ..Turn::default() }).await?;
        let jobs = reply.reclaimed.map_or(0, |reclaimed| reclaimed.jobs.len());
        if jobs > 0 {
            warn!(topic = %shard.topic(), jobs, "reclaimed from a dead runner; no handler here serves the topic");
        }
        if let Some(error) = reply.error {
            return Err(error);
        }
    }
    for topic in &unbound {
        prune_store(queue, topic).await?;
    }
    *before = unbound;
    Ok(())
}

/// Prunes expired keys in the store of an unbound topic. For a bound topic [`prune`] does it.
async fn prune_store(queue: &Queue, topic: &TopicName) -> Result<(), QueueError> {
    for _ in 0..BATCHES_PER_TOPIC {
        if queue.kv_prune(topic).await? < BATCH_MAX as u64 {
            break;
        }
    }
    Ok(())
}
