//! A topic that is served: by workers, one a shard, that share the topic's module, counters and orders;
//! or by pull consumers, where it has no handler.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duebox_job::TopicName;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::background::wake_up::Poke;
use crate::deploy::binding::{Binding, CanaryHandler, Handlers};
use crate::deploy::breaker::Breaker;
use crate::executor::Share;
use crate::manifest::{Topic, percent};
use crate::observe::counters::{Counters, Fate, read};
use crate::observe::log::attempt_log::millis;
use crate::observe::module_stats::{Figures, Sums};
use crate::observe::recent_attempts::Latest;
use crate::report::status::Serving;
use crate::worker::Order;

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
    pub(super) share: Share,
    pub(super) binding: watch::Sender<Arc<Binding>>,
    pub(super) orders: watch::Sender<Order>,
    pub(super) counters: Arc<Counters>,
    pub(super) figures: Arc<Figures>,
    pub(super) latest: Arc<Latest>,
    pub(super) breaker: Arc<Breaker>,
    pub(super) each: Vec<ShardWorker>,
}

/// The worker of one shard.
pub(super) struct ShardWorker {
    pub(super) poke: Arc<Poke>,
    pub(super) task: JoinHandle<()>,
}

/// Workers of a topic that was left, while what they had in flight ends.
pub(super) struct Leaving {
    name: TopicName,
    workers: Workers,
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
        tell_canary(name, before.canary.as_ref(), handlers.canary.as_ref());
    }

    /// Where its status is looked up; none where pull consumers serve it.
    pub(super) fn serving(&self) -> Option<Serving> {
        let workers = self.workers.as_ref()?;
        Some(Serving {
            bound: workers.binding.subscribe(),
            counters: Arc::clone(&workers.counters),
            figures: Arc::clone(&workers.figures),
            latest: Arc::clone(&workers.latest),
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
pub(super) fn tell_canary(
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
        self.workers.orders.send_replace(Order::Drain(until));
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
        log_counts(&name, &workers.counters, &workers.figures.total());
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
