//! The topics that are served: by workers, one for each shard, which share module, counters and commands;
//! or by pull consumers, for topics without a handler.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duebox_job::{Shard, TopicName};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::background::wake_up::WakeUp;
use crate::deploy::binding::{Binding, CanaryHandler, Handlers};
use crate::deploy::breaker::{Breaker, BreakerState};
use crate::deploy::entry::{EntryName, entry_of};
use crate::executor::TopicShare;
use crate::manifest::{Manifest, Topic, percent};
use crate::millis::exact_millis;
use crate::observe::counters::{Counters, Fate, read};
use crate::observe::module_stats::Sums;
use crate::report::status::Serving;
use crate::worker::batch_limits::TopicBatchLimits;
use crate::worker::{TopicStats, WorkerCommand};

/// All topics that are served.
#[derive(Default)]
pub(super) struct Topics {
    pub(super) served: BTreeMap<TopicName, Served>,
    /// Topics that are no longer served and still have jobs in flight.
    leaving: Vec<Leaving>,
    /// Redis refused the limits of some topics, so they are not served yet.
    pub(super) are_unbound: bool,
    /// Redis refused the keys of some topics, so they are not served yet.
    pub(super) are_sick: bool,
    /// More topics match patterns than are served, and this was logged.
    pub(super) pattern_limit_logged: bool,
}

/// A topic that is served.
pub(super) struct Served {
    /// The settings in effect.
    pub(super) topic: Topic,
    /// The shards: those that receive pushes, and those of earlier counts.
    pub(super) shards: Vec<Shard>,
    /// The workers; `None` if pull consumers serve it.
    pub(super) workers: Option<Workers>,
}

/// The workers of a topic.
pub(super) struct Workers {
    pub(super) share: TopicShare,
    /// The size limits of its turns.
    pub(super) batch_limits: TopicBatchLimits,
    pub(super) binding: watch::Sender<Arc<Binding>>,
    pub(super) commands: watch::Sender<WorkerCommand>,
    pub(super) stats: TopicStats,
    pub(super) breaker: Arc<Breaker>,
    pub(super) each: Vec<ShardWorker>,
}

/// The worker of one shard.
pub(super) struct ShardWorker {
    pub(super) wake_up: Arc<WakeUp>,
    pub(super) task: JoinHandle<()>,
}

/// The workers of a topic that is no longer served, until their jobs in flight end.
pub(super) struct Leaving {
    name: TopicName,
    workers: Workers,
}

impl Topics {
    /// The workers of every topic that an entry serves.
    pub(super) fn workers_of(
        &self,
        manifest: &Manifest,
        entry: &EntryName,
    ) -> impl Iterator<Item = &Workers> {
        let by_entry = self.served.iter().filter(move |(name, _)| {
            entry_of(manifest, name).is_some_and(|(served_by, _)| served_by == *entry)
        });
        by_entry.filter_map(|(_, served)| served.workers.as_ref())
    }

    /// The wake-up of each shard's worker, sorted by shard.
    pub(super) fn wake_ups(&self) -> Vec<(Shard, Arc<WakeUp>)> {
        let mut wake_ups = Vec::new();
        for served in self.served.values() {
            let Some(workers) = &served.workers else { continue };
            let both = served.shards.iter().zip(&workers.each);
            wake_ups
                .extend(both.map(|(shard, worker)| (shard.clone(), Arc::clone(&worker.wake_up))));
        }
        wake_ups.sort_by(|(one, _), (other, _)| one.cmp(other));
        wake_ups
    }

    /// Stops serving a topic: jobs in flight may finish within its ttr. False if it is not served.
    pub(super) fn leave(&mut self, name: &TopicName) -> bool {
        let Some(served) = self.served.remove(name) else { return false };
        let until = Instant::now() + served.topic.ttr;
        self.leaving.retain(|leaving| !leaving.is_over());
        self.leaving.extend(served.leave(name.clone(), until));
        true
    }

    /// Stops serving all topics: jobs in flight may finish until then, also those of topics that stopped
    /// earlier.
    pub(super) fn leave_all(self, until: Instant) -> Vec<Leaving> {
        let served = self.served.into_iter();
        let served = served.filter_map(|(name, served)| served.leave(name, until));
        let all: Vec<Leaving> = self.leaving.into_iter().chain(served).collect();
        for leaving in &all {
            leaving.hurry(until);
        }
        all
    }
}

impl Workers {
    /// True if the breaker is not closed.
    pub(super) fn is_held_back(&self) -> bool {
        self.breaker.state() != BreakerState::Closed
    }
}

/// The binding of a topic's workers: each shard gets its part of the concurrency.
pub(super) fn binding(topic: &Topic, handlers: Handlers, lease: Duration) -> Binding {
    let concurrency = topic.concurrency.div_ceil(topic.shards.get());
    Binding { topic: Topic { concurrency, ..topic.clone() }, handlers, lease }
}

impl Served {
    /// Binds the topic's workers to new settings or modules.
    pub(super) fn rebind(
        &mut self,
        name: &TopicName,
        topic: Topic,
        handlers: Option<Handlers>,
        lease: Duration,
    ) {
        self.topic = topic;
        let (Some(workers), Some(handlers)) = (&self.workers, handlers) else { return };
        let before = workers.binding.borrow().handlers.clone();
        let bound = binding(&self.topic, handlers.clone(), lease);
        let other_rule = bound.topic.breaker != workers.binding.borrow().topic.breaker;
        workers.binding.send_if_modified(|current| {
            let same = bound.handlers.are(&current.handlers)
                && bound.topic == current.topic
                && bound.lease == current.lease;
            if !same {
                *current = Arc::new(bound);
            }
            !same
        });
        let (digest, old) = (handlers.main.digest(), before.main.digest());
        // After the change of the binding, so that new jobs run on the new module.
        if (digest != old || other_rule) && workers.breaker.reset(Instant::now()) {
            info!(topic = %name, "the breaker is closed: the module or the rule changed");
        }
        if digest != old {
            info!(topic = %name, digest = %digest.short(), before = %old.short(),
                "a new module serves; running jobs finish on the previous one");
        }
        log_canary(name, before.canary.as_ref(), handlers.canary.as_ref());
    }

    /// The sources of its status; `None` if pull consumers serve it.
    pub(super) fn serving(&self) -> Option<Serving> {
        let workers = self.workers.as_ref()?;
        Some(Serving {
            bound: workers.binding.subscribe(),
            counters: Arc::clone(&workers.stats.counters),
            module_stats: Arc::clone(&workers.stats.module_stats),
            recent_attempts: Arc::clone(&workers.stats.recent_attempts),
            failure_reasons: Arc::clone(&workers.stats.failure_reasons),
            breaker: Arc::clone(&workers.breaker),
        })
    }

    /// Leases no more jobs, and lets those in flight finish until then; the others stay in Redis.
    pub(super) fn leave(self, name: TopicName, until: Instant) -> Option<Leaving> {
        let leaving = Leaving { name, workers: self.workers? };
        leaving.hurry(until);
        Some(leaving)
    }
}

/// Logs a change of the canary.
pub(super) fn log_canary(
    name: &TopicName,
    before: Option<&CanaryHandler>,
    canary: Option<&CanaryHandler>,
) {
    let described = |canary: &CanaryHandler| (canary.handler.digest(), canary.share);
    match canary {
        Some(canary) if before.map(described) != Some(described(canary)) => {
            let (digest, percent) = (canary.handler.digest(), percent(canary.share));
            info!(topic = %name, digest = %digest.short(), percent,
                "the canary runs a part of the jobs, chosen by their ids");
        }
        None if before.is_some() => {
            info!(topic = %name, "the canary is removed: the handler runs all jobs");
        }
        _ => {}
    }
}

impl Leaving {
    /// Limits the time of jobs in flight.
    pub(super) fn hurry(&self, until: Instant) {
        self.workers.commands.send_replace(WorkerCommand::Drain(until));
    }

    pub(super) fn is_over(&self) -> bool {
        self.workers.each.iter().all(|worker| worker.task.is_finished())
    }

    /// Waits for the workers, and logs their counts.
    pub(super) async fn ended(self) {
        let Self { name, workers } = self;
        for worker in workers.each {
            if let Err(error) = worker.task.await {
                warn!(topic = %name, %error, "the worker failed; its leases expire");
            }
        }
        log_counts(&name, &workers.stats.counters, &workers.stats.module_stats.total());
    }
}

fn log_counts(topic: &TopicName, counters: &Counters, sums: &Sums) {
    info!(
        %topic,
        leased = read(&counters.leased),
        acked = read(&counters.acked),
        discarded = counters.all_failures(Fate::Discard),
        retried = counters.all_failures(Fate::Retry),
        snoozed = read(&counters.snoozed),
        expired = read(&counters.expired),
        dead = counters.all_failures(Fate::Dead),
        released = read(&counters.released),
        overtaken = read(&counters.overtaken),
        lost = read(&counters.lost),
        reclaimed = read(&counters.reclaimed),
        attempts = sums.jobs,
        failed = sums.failed,
        wall_ms = exact_millis(sums.wall),
        cpu_ms = exact_millis(sums.cpu),
        memory_peak_bytes = sums.memory_peak,
        fuel = sums.fuel,
        host_calls = sums.host_calls,
        bytes_in = sums.bytes_in,
        bytes_out = sums.bytes_out,
        "done"
    );
}
