//! The background loops. Each is supervised: after a panic it starts again from what Redis and the manifest say.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Supervisor, systemd};
use crate::background::poller::Poller;
use crate::background::wake_up_listener::WakeUpListener;
use crate::background::{durability, limits, maintenance, primaries, recovery, scheduler};
use crate::observe::supervision::{Supervision, TaskKind};
use crate::report::process::ProcessSources;
use crate::report::status::{self, Reporter};

/// Starts loops.
struct Loops<'a> {
    tasks: &'a mut JoinSet<()>,
    supervision: &'a Supervision,
}

impl Loops<'_> {
    /// Starts a loop. Each time it starts it gets clones of these handles.
    fn keep<H, F>(&mut self, kind: TaskKind, handles: H, run: impl Fn(H) -> F + Send + 'static)
    where
        H: Clone + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let supervision = self.supervision.clone();
        self.tasks.spawn(async move { supervision.keep(kind, move || run(handles.clone())).await });
    }
}

impl Supervisor {
    /// Starts the background loops; `api` is the address for the status.
    pub(super) fn start_loops(&mut self, orders: mpsc::Sender<String>, api: Option<SocketAddr>) {
        self.start_waking_loops(orders);
        self.start_topic_loops();
        self.start_process_loops(api);
    }

    /// Starts the loops that wake workers.
    fn start_waking_loops(&mut self, orders: mpsc::Sender<String>) {
        let (services, published) = (&self.services, &self.published);
        let mut loops = Loops {
            tasks: &mut self.owned.background,
            supervision: services.records.health.supervision(),
        };
        let poller = Poller {
            queue: services.queue.clone(),
            wake_ups: Arc::clone(&published.wake_ups),
            watching: Arc::default(),
            every: self.manifest.redis.poll,
            sick_topics: Arc::clone(&services.records.sick_topics),
            outage: Arc::clone(&services.outage),
        };
        let listener = WakeUpListener {
            queue: services.queue.clone(),
            wake_ups: Arc::clone(&published.wake_ups),
            watching: Arc::clone(&poller.watching),
            wake_up_hub: services.wake_up_hub.clone(),
            topic_discovery: published.topic_discovery.clone(),
            orders,
            outage: Arc::clone(&services.outage),
        };
        loops.keep(TaskKind::Poller, poller, Poller::run);
        loops.keep(TaskKind::WakeUps, listener, WakeUpListener::run);
    }

    /// Starts the loops over topics.
    fn start_topic_loops(&mut self) {
        let (services, published) = (&self.services, &self.published);
        let mut loops = Loops {
            tasks: &mut self.owned.background,
            supervision: services.records.health.supervision(),
        };
        // What each of them has.
        let base = (services.queue.clone(), Arc::clone(&services.outage));
        let wake_ups = Arc::clone(&published.wake_ups);
        let push_counters = Arc::clone(&services.records.push_counters);
        let sick = Arc::clone(&services.records.sick_topics);
        let discovery = published.topic_discovery.clone();

        let handles = (base.clone(), Arc::clone(&published.retentions), Arc::clone(&sick));
        loops.keep(TaskKind::Maintenance, handles, |((queue, outage), retentions, sick)| {
            maintenance::run(queue, retentions, sick, outage)
        });
        let shared = (wake_ups, Arc::clone(&push_counters), Arc::clone(&sick));
        let handles = (base.clone(), services.relay.clone(), shared);
        loops.keep(TaskKind::Relay, handles, |((queue, outage), relay, shared)| {
            let (wake_ups, counters, sick) = shared;
            relay.run(queue, wake_ups, counters, sick, outage)
        });
        let limits = published.limits.subscribe();
        let lost = services.lost_limits.clone();
        let handles = (base.clone(), limits, discovery.clone(), lost, Arc::clone(&sick));
        loops.keep(
            TaskKind::Limits,
            handles,
            |((queue, outage), limits, discovery, lost, sick)| {
                limits::run(queue, limits, discovery, lost, sick, outage)
            },
        );
        let handles = (base.clone(), discovery, Arc::clone(&sick));
        loops.keep(TaskKind::TopicDiscovery, handles, |((queue, outage), discovery, sick)| {
            discovery.run(queue, sick, outage)
        });
        let schedules = published.schedules.subscribe();
        let handles = (base, services.timer.clone(), schedules, (push_counters, sick));
        loops.keep(TaskKind::Scheduler, handles, |((queue, outage), timer, schedules, shared)| {
            let (counters, sick) = shared;
            scheduler::run(queue, timer, schedules, counters, sick, outage)
        });
    }

    /// Starts the loops of this process: outages, the status, the CPU limit, liveness.
    fn start_process_loops(&mut self, api: Option<SocketAddr>) {
        let (services, published) = (&self.services, &self.published);
        let mut loops = Loops {
            tasks: &mut self.owned.background,
            supervision: services.records.health.supervision(),
        };
        let base = (services.queue.clone(), Arc::clone(&services.outage));
        let handles = (base.clone(), Arc::clone(&services.primary_outages));
        loops.keep(TaskKind::Recovery, handles, |((queue, outage), primary_outages)| async move {
            let watched = primaries::watch(queue.clone(), primary_outages);
            tokio::join!(recovery::run(queue, outage), watched);
        });
        let process = ProcessSources::new(
            (services.executor.slots.clone(), self.manifest.runner.max_jobs),
            Arc::clone(&services.sandbox),
            services.queue.latency_stats(),
        );
        let reporter = Reporter {
            runner_id: Arc::clone(&services.runner_id),
            api,
            process,
            pull_counters: Arc::clone(&services.records.pull_counters),
        };
        let handles =
            (base, reporter, published.watched.subscribe(), published.refused.subscribe());
        loops.keep(TaskKind::Status, handles, |((queue, outage), reporter, watched, refused)| {
            status::publish(queue, reporter, watched, refused, outage)
        });
        let copies = Arc::clone(&services.copy_stats);
        loops.keep(TaskKind::Durability, copies, durability::run);
        let quota = Arc::clone(&services.executor.threads.cpu_quota);
        loops.keep(TaskKind::CpuQuota, quota, |quota| quota.watch());
        let health = Arc::clone(&services.records.health);
        loops.keep(TaskKind::Heartbeat, health, systemd::beat);
    }
}
