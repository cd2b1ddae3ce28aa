//! The topics that are served. A topic is served by workers, one a shard, that share its module, counters
//! and orders; or by pull consumers, where it has no handler.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duebox_job::TopicName;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::background::wake_up::WakeUp;
use crate::deploy::binding::{Binding, CanaryHandler, Handlers};
use crate::deploy::breaker::{Breaker, BreakerState};
use crate::deploy::entry::{EntryName, entry_of};
use crate::executor::TopicShare;
use crate::manifest::{Manifest, Topic, percent};
use crate::observe::counters::{Counters, Fate, read};
use crate::observe::log::attempt_log::millis;
use crate::observe::module_stats::{ModuleStats, Sums};
use crate::observe::recent_attempts::RecentAttempts;
use crate::report::status::Serving;
use crate::worker::Command;
use crate::worker::batch_limits::TopicBatchLimits;

/// All topics that are served.
#[derive(Default)]
pub(super) struct Topics {
    pub(super) served: BTreeMap<TopicName, Served>,
    /// Topics that were left, while what they had in flight ends.
    leaving: Vec<Leaving>,
    /// Some topics are not served yet, since Redis did not take their rules.
    pub(super) are_unbound: bool,
    /// More topics match patterns than are served, and that was logged.
    pub(super) pattern_limit_logged: bool,
}

/// A topic that is served.
pub(super) struct Served {
    /// Its settings, as they are in effect.
    pub(super) topic: Topic,
    /// Its shards: those that jobs are pushed to, and those of earlier numbers.
    pub(super) shards: Vec<TopicName>,
    /// Who runs its jobs; none where pull consumers do.
    pub(super) workers: Option<Workers>,
}

/// The workers of a topic.
pub(super) struct Workers {
    pub(super) share: TopicShare,
    /// Its place among the topics.
    pub(super) batch_limits: TopicBatchLimits,
    pub(super) binding: watch::Sender<Arc<Binding>>,
    pub(super) commands: watch::Sender<Command>,
    pub(super) counters: Arc<Counters>,
    pub(super) module_stats: Arc<ModuleStats>,
    pub(super) recent_attempts: Arc<RecentAttempts>,
    pub(super) breaker: Arc<Breaker>,
    pub(super) each: Vec<ShardWorker>,
}

/// The worker of one shard.
pub(super) struct ShardWorker {
    pub(super) wake_up: Arc<WakeUp>,
    pub(super) task: JoinHandle<()>,
}

/// Workers of a topic that was left, while what they had in flight ends.
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

    /// The wake-up of each shard's worker, in the order of their names.
    pub(super) fn wake_ups(&self) -> Vec<(TopicName, Arc<WakeUp>)> {
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

    /// Leaves a topic: what it has in flight may finish within its ttr. False if it is not served.
    pub(super) fn leave(&mut self, name: &TopicName) -> bool {
        let Some(served) = self.served.remove(name) else { return false };
        let until = Instant::now() + served.topic.ttr;
        self.leaving.retain(|leaving| !leaving.is_over());
        self.leaving.extend(served.leave(name.clone(), until));
        true
    }

    /// Leaves all topics: what is in flight, of those left before too, may finish until then.
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

/// What the workers of a topic are bound to: each of its shards runs its part of what may run at once.
pub(super) fn binding(topic: &Topic, handlers: Handlers, lease: Duration) -> Binding {
    let concurrency = topic.concurrency.div_ceil(topic.shards.max(1));
    Binding { topic: Topic { concurrency, ..topic.clone() }, handlers, lease }
}

impl Served {
    /// Binds what runs the topic's jobs to other settings, or to other modules.
    pub(super) fn bind_anew(
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
        // After the binding: what starts from now on is of the new module.
        if (digest != old || other_rule) && workers.breaker.reset(Instant::now()) {
            info!(topic = %name, "the breaker is closed: another module serves, or its rule is another");
        }
        if digest != old {
            info!(topic = %name, digest = %digest.short(), before = %old.short(),
                "a new module serves; jobs that run finish on the one before");
        }
        log_canary(name, before.canary.as_ref(), handlers.canary.as_ref());
    }

    /// Where its status is looked up; none where pull consumers serve it.
    pub(super) fn serving(&self) -> Option<Serving> {
        let workers = self.workers.as_ref()?;
        Some(Serving {
            bound: workers.binding.subscribe(),
            counters: Arc::clone(&workers.counters),
            figures: Arc::clone(&workers.module_stats),
            latest: Arc::clone(&workers.recent_attempts),
            breaker: Arc::clone(&workers.breaker),
        })
    }

    /// Leases no more, and lets what is in flight finish until then; the rest stays in Redis.
    pub(super) fn leave(self, name: TopicName, until: Instant) -> Option<Leaving> {
        let leaving = Leaving { name, workers: self.workers? };
        leaving.hurry(until);
        Some(leaving)
    }
}

/// Says which canary runs which part of the jobs, if that was otherwise before.
pub(super) fn log_canary(
    name: &TopicName,
    before: Option<&CanaryHandler>,
    canary: Option<&CanaryHandler>,
) {
    let told = |canary: &CanaryHandler| (canary.handler.digest(), canary.share);
    match canary {
        Some(canary) if before.map(told) != Some(told(canary)) => {
            let (digest, percent) = (canary.handler.digest(), percent(canary.share));
            info!(topic = %name, digest = %digest.short(), percent,
                "the canary runs a part of the jobs, chosen by their ids");
        }
        None if before.is_some() => {
            info!(topic = %name, "no canary any more: the handler runs all jobs");
        }
        _ => {}
    }
}

impl Leaving {
    /// Gives what is in flight no longer than until then.
    pub(super) fn hurry(&self, until: Instant) {
        self.workers.commands.send_replace(Command::Drain(until));
    }

    pub(super) fn is_over(&self) -> bool {
        self.workers.each.iter().all(|worker| worker.task.is_finished())
    }

    /// Waits for the end, and says what was done.
    pub(super) async fn ended(self) {
        let Self { name, workers } = self;
        for worker in workers.each {
            if let Err(error) = worker.task.await {
                warn!(topic = %name, %error, "the worker did not end well; its leases expire");
            }
        }
        log_counts(&name, &workers.counters, &workers.module_stats.total());
    }
}

fn log_counts(topic: &TopicName, counters: &Counters, sums: &Sums) {
    info!(
        %topic,
        leased = read(&counters.leased),
        acked = read(&counters.acked) + counters.all_failures(Fate::Discard),
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
        wall_ms = millis(sums.wall),
        cpu_ms = millis(sums.cpu),
        memory_peak_bytes = sums.memory_peak,
        fuel = sums.fuel,
        host_calls = sums.host_calls,
        bytes_in = sums.bytes_in,
        bytes_out = sums.bytes_out,
        "done"
    );
}
