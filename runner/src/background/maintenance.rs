//! The housekeeping of the queue: dead and done jobs past their retention are pruned, and topics that no
//! manifest binds here are kept from losing jobs that a dead runner held, and from keeping what is over.
//! Where nothing is to be done it is a few round trips, however many topics there are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use duebox_job::{FailureClass, TopicName};
use duebox_queue::{
    BATCH_MAX, DeadInfo, Promotion, Pruned, Queue, QueueError, ReclaimRule, RetentionLimits, Turn,
};
use tracing::{debug, info, warn};

use crate::redis_host::outage::Outage;

/// How often the house is kept.
const EVERY: Duration = Duration::from_secs(10);
/// Topics that are looked at in one pipeline.
const TOPICS_A_LOOK: usize = 125;
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
    /// How long done jobs are kept.
    pub done_age: Duration,
    /// Whether pull consumers serve it: then nobody but the keeper looks at it while none pulls.
    pub pulled: Option<Pulled>,
}

impl Retention {
    fn keep(&self) -> RetentionLimits {
        RetentionLimits {
            dead_for: self.age,
            dead_most: self.count,
            done_for: self.done_age,
            done_most: self.count,
        }
    }
}

/// How the jobs of a topic are kept going that pull consumers serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// Runner's deaths allowed to a job.
    pub max_crashes: u32,
    /// What a job keeps that died of them; empty forgets it instead.
    pub crashed_info: Option<String>,
    /// Whether jobs with a due time that is none are forgotten.
    pub discards_bad: bool,
}

/// The shards of the topics bound here, with their retention.
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
            tend_pulled(&queue, &bound).await?;
            reclaim_unbound(&queue, &bound, &mut unbound_before).await
        };
        if let Err(error) = kept.await {
            outage.noticed(&error);
        }
    }
}

async fn prune(queue: &Queue, bound: &BTreeMap<TopicName, Retention>) -> Result<(), QueueError> {
    let kept: Vec<(TopicName, RetentionLimits)> =
        bound.iter().map(|(topic, retention)| (topic.clone(), retention.keep())).collect();
    for some in kept.chunks(TOPICS_A_LOOK) {
        for ((topic, keep), tidied) in some.iter().zip(queue.prune_ended_all(some).await?) {
            prune_rest(queue, topic, keep, tidied).await?;
        }
    }
    Ok(())
}

/// Goes on where a topic has more to forget than is forgotten by the way.
async fn prune_rest(
    queue: &Queue,
    topic: &TopicName,
    keep: &RetentionLimits,
    mut last: Pruned,
) -> Result<(), QueueError> {
    let (mut dead, mut done) = (last.dead, last.done);
    for _ in 0..BATCHES_A_TOPIC {
        if !last.more {
            break;
        }
        last = queue.prune_ended(topic, keep).await?;
        dead += last.dead;
        done += last.done;
    }
    if dead > 0 {
        info!(%topic, jobs = dead, "pruned dead jobs past retention or max_dead");
    }
    if done > 0 {
        debug!(%topic, jobs = done, "pruned done jobs past done_retention or max_dead");
    }
    Ok(())
}

/// Of topics, those that have something to do now.
async fn with_work(
    queue: &Queue,
    topics: impl IntoIterator<Item = TopicName>,
) -> Result<Vec<TopicName>, QueueError> {
    let topics: Vec<TopicName> = topics.into_iter().collect();
    let mut found = Vec::new();
    for some in topics.chunks(TOPICS_A_LOOK) {
        let waits = queue.peek(some).await?;
        let has_work = |wait: &Option<Duration>| wait.is_some_and(|wait| wait.is_zero());
        found.extend(
            some.iter()
                .zip(waits)
                .filter(|(_, wait)| has_work(wait))
                .map(|(topic, _)| topic.clone()),
        );
    }
    Ok(found)
}

/// Ends expired leases of topics that are served to pull consumers, and promotes what is due there.
async fn tend_pulled(
    queue: &Queue,
    bound: &BTreeMap<TopicName, Retention>,
) -> Result<(), QueueError> {
    let pulled = bound.iter().filter(|(_, kept)| kept.pulled.is_some());
    let pulled = pulled.map(|(topic, _)| topic.clone());
    for topic in &with_work(queue, pulled).await? {
        let Some(pulled) = bound.get(topic).and_then(|kept| kept.pulled.as_ref()) else { continue };
        let reclaim = ReclaimRule {
            max_crashes: pulled.max_crashes,
            delay: Duration::ZERO,
            info: pulled.crashed_info.as_deref(),
        };
        let promote = Promotion { jobs: BATCH_MAX, skip: 0, discards_bad: pulled.discards_bad };
        let turn = Turn { reclaim: Some(reclaim), promote: Some(promote), ..Turn::default() };
        let reply = queue.turn(topic, &turn).await?;
        let jobs = reply.reclaimed.map_or(0, |reclaimed| reclaimed.jobs.len());
        if jobs > 0 {
            info!(%topic, jobs, "reclaimed from pull consumers whose leases ran out");
        }
        if let Some(error) = reply.error {
            return Err(error);
        }
    }
    Ok(())
}

/// Ends expired leases of topics that are known in Redis but bound to no handler here: their jobs
/// wait in retry for whoever serves the topic next. What their handlers kept for a time goes when it is over.
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
    let crashed = DeadInfo::without_attempt(FailureClass::Crashed).to_json();
    let mut shards = Vec::new();
    for some in unbound.chunks(TOPICS_A_LOOK) {
        for all in queue.shards_of_all(some).await? {
            shards.extend(all.all());
        }
    }
    for topic in &with_work(queue, shards).await? {
        let rule = ReclaimRule {
            max_crashes: UNBOUND_CRASHES_MAX,
            delay: Duration::ZERO,
            info: Some(&crashed),
        };
        let reply = queue.turn(topic, &Turn { reclaim: Some(rule), ..Turn::default() }).await?;
        let jobs = reply.reclaimed.map_or(0, |reclaimed| reclaimed.jobs.len());
        if jobs > 0 {
            warn!(%topic, jobs, "reclaimed from a dead runner; the topic is bound to no handler here");
        }
        if let Some(error) = reply.error {
            return Err(error);
        }
    }
    for topic in &unbound {
        sweep_store(queue, topic).await?;
    }
    *before = unbound;
    Ok(())
}

/// Takes away what is over in the store of a topic: of a bound one `tidy` does.
async fn sweep_store(queue: &Queue, topic: &TopicName) -> Result<(), QueueError> {
    for _ in 0..BATCHES_A_TOPIC {
        if queue.kv_prune(topic).await? < BATCH_MAX as u64 {
            break;
        }
    }
    Ok(())
}
