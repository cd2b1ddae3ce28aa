//! Maintenance of the queue. It prunes dead and done jobs past their retention, expired records, and the state of
//! removed schedules. For topics without a worker in this daemon it also reclaims expired leases. A round without
//! work takes a few round trips, however many topics there are.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use duebox_job::{Shard, TopicName};
use duebox_queue::{
    BATCH_MAX, Promotion, Pruned, Queue, QueueError, ReclaimRule, RetentionLimits, Shards, Turn,
};
use tracing::{debug, info, warn};

use crate::observe::sick_topics::{SickTopics, TopicLoop};
use crate::redis_host::outage::Outage;

/// How often maintenance runs.
const EVERY: Duration = Duration::from_secs(10);
/// Topics in one pipeline.
const TOPICS_PER_PIPELINE: usize = 125;
/// Once Redis is back, other daemons renew their leases within a third of them, of which 15 s is the default.
const RENEWED_WITHIN: Duration = Duration::from_secs(5);
/// The most batches pruned of one topic in a round.
const BATCHES_PER_TOPIC: usize = 20;

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
    pub max_crashes: NonZero<u32>,
    /// What a job keeps after too many runner deaths; `None` discards the job.
    pub crashed_info: Option<String>,
    /// Discard jobs with an invalid due time; otherwise dead-letter them.
    pub discards_bad: bool,
}

/// The shards of the topics bound here, with their retention.
pub type Retentions = Arc<ArcSwap<BTreeMap<Shard, Retention>>>;

/// Runs maintenance until the task is aborted.
pub async fn run(
    queue: Queue,
    retentions: Retentions,
    sick_topics: Arc<SickTopics>,
    outage: Arc<Outage>,
) {
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut maintenance = Maintenance { queue, sick_topics, unbound_before: Vec::new() };
    loop {
        tick.tick().await;
        let bound = retentions.load_full();
        if let Err(error) = maintenance.round(&bound).await {
            outage.record_error(&error);
        }
    }
}

struct Maintenance {
    queue: Queue,
    sick_topics: Arc<SickTopics>,
    /// The unbound topics that were logged.
    unbound_before: Vec<TopicName>,
}

impl Maintenance {
    async fn round(&mut self, bound: &BTreeMap<Shard, Retention>) -> Result<(), QueueError> {
        let limits =
            |(shard, retention): (&Shard, &Retention)| (shard.clone(), Some(retention.limits()));
        self.prune_all(&bound.iter().map(limits).collect::<Vec<_>>()).await?;
        self.maintain_pull_topics(bound).await?;
        self.reclaim_unbound(bound).await
    }

    /// Prunes shards, each by these limits, or by the topic's own rules in Redis.
    async fn prune_all(&self, all: &[(Shard, Option<RetentionLimits>)]) -> Result<(), QueueError> {
        for some in all.chunks(TOPICS_PER_PIPELINE) {
            let pruned = self.queue.prune_ended_all(some).await?;
            for ((shard, limits), pruned) in some.iter().zip(pruned) {
                let pruned = match pruned {
                    Ok(pruned) => self.prune_rest(shard, limits.as_ref(), pruned).await,
                    Err(error) => Err(error),
                };
                self.sick_topics.isolate(shard, TopicLoop::Prune, pruned)?;
            }
        }
        Ok(())
    }

    /// Prunes further batches of a topic that has more.
    async fn prune_rest(
        &self,
        shard: &Shard,
        limits: Option<&RetentionLimits>,
        mut last: Pruned,
    ) -> Result<(), QueueError> {
        let (mut dead, mut done) = (last.dead, last.done);
        for _ in 0..BATCHES_PER_TOPIC {
            if !last.more {
                break;
            }
            last = self.queue.prune_ended(shard, limits).await?;
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
        &self,
        shards: impl IntoIterator<Item = Shard>,
    ) -> Result<Vec<Shard>, QueueError> {
        let shards: Vec<Shard> = shards.into_iter().collect();
        let mut found = Vec::new();
        for some in shards.chunks(TOPICS_PER_PIPELINE) {
            for (shard, wait) in some.iter().zip(self.queue.peek(some).await?) {
                match self.sick_topics.first_of(shard, TopicLoop::Reclaim, wait)? {
                    Some(Some(Duration::ZERO)) => found.push(shard.clone()),
                    Some(_) => self.sick_topics.record_success(shard, TopicLoop::Reclaim),
                    None => {}
                }
            }
        }
        Ok(found)
    }

    /// Takes a turn at a shard without leasing, and returns how many leases were reclaimed.
    async fn reclaim(&self, shard: &Shard, turn: &Turn<'_>) -> Result<usize, QueueError> {
        let reply = self.queue.turn(shard, turn).await?;
        let jobs = reply.reclaimed.map_or(0, |reclaimed| reclaimed.jobs.len());
        let result = reply.error.map_or(Ok(()), Err);
        self.sick_topics.isolate(shard, TopicLoop::Reclaim, result)?;
        Ok(jobs)
    }

    /// Reclaims expired leases of topics that pull consumers serve, and promotes due jobs there.
    async fn maintain_pull_topics(
        &self,
        bound: &BTreeMap<Shard, Retention>,
    ) -> Result<(), QueueError> {
        let pulled = bound.iter().filter(|(_, kept)| kept.pulled.is_some());
        let pulled = pulled.map(|(shard, _)| shard.clone());
        for shard in &self.with_work(pulled).await? {
            let Some(pulled) = bound.get(shard).and_then(|kept| kept.pulled.as_ref()) else {
                continue;
            };
            let reclaim = ReclaimRule {
                max_crashes: Some(pulled.max_crashes),
                delay: Duration::ZERO,
                info: pulled.crashed_info.as_deref(),
                renewed_within: RENEWED_WITHIN,
            };
            let promote = Promotion { jobs: BATCH_MAX, skip: 0, discards_bad: pulled.discards_bad };
            let turn = Turn { reclaim: Some(reclaim), promote: Some(promote), ..Turn::default() };
            let jobs = self.reclaim(shard, &turn).await?;
            if jobs > 0 {
                info!(topic = %shard.topic(), jobs, "reclaimed from pull consumers: their leases expired");
            }
        }
        Ok(())
    }

    /// Maintains topics that Redis knows and this manifest does not contain. Expired leases end; no job is
    /// buried, because only a daemon that serves the topic knows when and how. The jobs wait in retry for the
    /// next runner of the topic. What has ended is pruned by the topic's own rules in Redis.
    async fn reclaim_unbound(
        &mut self,
        bound: &BTreeMap<Shard, Retention>,
    ) -> Result<(), QueueError> {
        let known = self.sick_topics.listed_topics(&self.queue).await?;
        let unbound: Vec<_> =
            known.into_iter().filter(|topic| !bound.contains_key(&topic.first_shard())).collect();
        for topic in unbound.iter().filter(|topic| !self.unbound_before.contains(topic)) {
            info!(%topic, "unbound: Redis has jobs of this topic, the manifest does not contain it; its jobs wait");
        }
        self.unbound_before.clone_from(&unbound);
        let shards = self.shards_of(&unbound).await?;
        let by_own_rules: Vec<_> = shards.iter().map(|shard| (shard.clone(), None)).collect();
        self.prune_all(&by_own_rules).await?;
        for shard in &self.with_work(shards).await? {
            let rule = ReclaimRule {
                max_crashes: None,
                delay: Duration::ZERO,
                info: None,
                renewed_within: RENEWED_WITHIN,
            };
            let turn = Turn { reclaim: Some(rule), ..Turn::default() };
            let jobs = self.reclaim(shard, &turn).await?;
            if jobs > 0 {
                warn!(topic = %shard.topic(), jobs, "reclaimed from a dead runner; no handler here serves the topic");
            }
        }
        Ok(())
    }

    async fn shards_of(&self, topics: &[TopicName]) -> Result<Vec<Shard>, QueueError> {
        let mut shards = Vec::new();
        for some in topics.chunks(TOPICS_PER_PIPELINE) {
            for (topic, all) in some.iter().zip(self.queue.shards_of_all(some).await?) {
                let all =
                    self.sick_topics.first_of(&topic.first_shard(), TopicLoop::Reclaim, all)?;
                shards.extend(all.iter().flat_map(Shards::all));
            }
        }
        Ok(shards)
    }
}
