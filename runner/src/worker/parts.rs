//! What a worker consists of: what it serves, what it shares with the workers of its topic, and what all workers of
//! the daemon share.

use std::sync::Arc;

use duebox_job::Shard;
use duebox_queue::Queue;
use tokio::sync::watch;

use super::WorkerCommand;
use super::batch_limits::TopicBatchLimits;
use crate::background::limits::LostLimits;
use crate::background::relay::Relay;
use crate::background::wake_up::WakeUp;
use crate::deploy::binding::Bound;
use crate::deploy::breaker::Breaker;
use crate::executor::Executor;
use crate::observe::counters::Counters;
use crate::observe::events::Events;
use crate::observe::failure_reasons::FailureReasons;
use crate::observe::module_stats::ModuleStats;
use crate::observe::recent_attempts::RecentAttempts;
use crate::observe::sick_topics::SickTopics;
use crate::observe::traces::Traces;
use crate::redis_host::outage::Outage;
use crate::timer::Timer;

/// What the daemon gives to a worker.
#[derive(Clone)]
pub struct WorkerParts {
    /// The shard it serves.
    pub shard: Shard,
    /// The settings and the module of the topic.
    pub bound: Bound,
    /// Runs its jobs.
    pub executor: Executor,
    /// Wakes it when there is work.
    pub wake_up: Arc<WakeUp>,
    /// Limits the size of its turns while other topics have jobs.
    pub batch_limits: TopicBatchLimits,
    /// The topic's circuit breaker.
    pub breaker: Arc<Breaker>,
    /// Commands from the daemon.
    pub commands: watch::Receiver<WorkerCommand>,
    /// The records of the topic.
    pub stats: TopicStats,
    /// What it shares with all other workers.
    pub services: WorkerServices,
}

/// The records of a topic, which its workers write. Clones share the same records.
#[derive(Clone, Default)]
pub struct TopicStats {
    /// Counts of leases and verdicts.
    pub counters: Arc<Counters>,
    /// Sums of the attempts by module.
    pub module_stats: Arc<ModuleStats>,
    /// The last attempts.
    pub recent_attempts: Arc<RecentAttempts>,
    /// Why attempts failed.
    pub failure_reasons: Arc<FailureReasons>,
}

/// What all workers of a daemon share.
#[derive(Clone)]
pub struct WorkerServices {
    /// The queue in Redis.
    pub queue: Queue,
    /// Records outages of Redis.
    pub outage: Arc<Outage>,
    /// Records topics whose keys Redis refuses.
    pub sick_topics: Arc<SickTopics>,
    /// Moves follow-up jobs to their topics.
    pub relay: Relay,
    /// Has limits that Redis has lost written again.
    pub lost_limits: LostLimits,
    /// Records attempts as spans.
    pub traces: Traces,
    /// Publishes what became of jobs.
    pub events: Events,
    /// Wakes workers with a resolution below 1 ms.
    pub timer: Timer,
    /// Identifies this process among all runners.
    pub runner_id: Arc<str>,
}
