//! The handles that workers, background loops and the HTTP server share.

use std::sync::Arc;

use anyhow::Context as _;
use duebox_queue::{CopyStats, LatencyStats, Queue, WakeUpHub};
use duebox_sandbox::{HostServices, HttpClient, LogSink, Sandbox};

use super::redis::Connected;
use super::threads::AllThreads;
use crate::background::limits::LostLimits;
use crate::background::relay::Relay;
use crate::executor::ExecutorResources;
use crate::executor::runs::Runs;
use crate::manifest::Runner;
use crate::observe::events::{Events, EventsTask};
use crate::observe::health::Health;
use crate::observe::log::handler_log::HandlerLog;
use crate::observe::pull_counters::PullCounters;
use crate::observe::push_counters::PushCounters;
use crate::observe::sick_topics::SickTopics;
use crate::observe::supervision::Supervision;
use crate::observe::traces::{ExportTask, Traces};
use crate::redis_host::handler_store::RedisKv;
use crate::redis_host::outage::Outage;
use crate::redis_host::primaries::PrimaryOutages;
use crate::timer::Timer;
use crate::worker::WorkerServices;
use crate::worker::batch_limits::BatchLimits;

/// The handles.
pub(super) struct Services {
    /// Identifies this daemon among all on one Redis.
    pub(super) runner_id: Arc<str>,
    pub(super) queue: Queue,
    /// Latency stats of the handlers' store.
    pub(super) store_latency: Arc<LatencyStats>,
    /// How waits for copies of writes ended, on all connections.
    pub(super) copy_stats: Arc<CopyStats>,
    pub(super) outage: Arc<Outage>,
    /// The outages of each primary of a cluster.
    pub(super) primary_outages: Arc<PrimaryOutages>,
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) executor: ExecutorResources,
    pub(super) batch_limits: BatchLimits,
    pub(super) timer: Timer,
    pub(super) relay: Relay,
    pub(super) lost_limits: LostLimits,
    /// Wakes pull consumers that wait over HTTP.
    pub(super) wake_up_hub: WakeUpHub,
    pub(super) records: Records,
}

/// The records of the daemon.
pub(super) struct Records {
    pub(super) health: Arc<Health>,
    pub(super) push_counters: Arc<PushCounters>,
    pub(super) pull_counters: Arc<PullCounters>,
    pub(super) handler_log: Arc<HandlerLog>,
    pub(super) traces: Traces,
    pub(super) events: Events,
    pub(super) sick_topics: Arc<SickTopics>,
}

/// The tasks that send records, stopped at the end.
pub(super) type Senders = (ExportTask, EventsTask);

impl Services {
    /// Creates the services over the connections to Redis.
    pub(super) fn start(
        runner: &Runner,
        prefix: &str,
        sandbox: Arc<Sandbox>,
        redis: &Connected,
        (threads, health): (&AllThreads, Arc<Health>),
    ) -> anyhow::Result<(Self, Senders)> {
        let runner_id: Arc<str> =
            format!("{:x}-{:08x}", std::process::id(), fastrand::u32(..)).into();
        let handler_log = Arc::<HandlerLog>::default();
        let supervision = health.supervision();
        let executor = executor(runner, &redis.store, &handler_log, (threads, supervision));
        let (traces, export_task) =
            Traces::start(threads.network.handle(), &runner_id, supervision);
        traces.send_to(runner.otlp.as_ref());
        let (events, events_task) =
            Events::start(redis.settings.clone(), prefix.to_owned(), supervision);
        events.keep(runner.events);
        let records = Records {
            health,
            push_counters: Arc::default(),
            pull_counters: Arc::default(),
            handler_log,
            traces,
            events,
            sick_topics: Arc::default(),
        };
        let services = Self {
            runner_id,
            queue: redis.queue.clone(),
            store_latency: redis.store.traffic(),
            copy_stats: redis.settings.copy_stats(),
            outage: Arc::default(),
            primary_outages: Arc::default(),
            sandbox,
            executor,
            batch_limits: BatchLimits::default(),
            timer: Timer::start().context("cannot start the timer thread")?,
            relay: Relay::default(),
            lost_limits: LostLimits::default(),
            wake_up_hub: WakeUpHub::default(),
            records,
        };
        Ok((services, (export_task, events_task)))
    }

    /// What a worker gets of them.
    pub(super) fn for_worker(&self) -> WorkerServices {
        WorkerServices {
            queue: self.queue.clone(),
            outage: Arc::clone(&self.outage),
            sick_topics: Arc::clone(&self.records.sick_topics),
            relay: self.relay.clone(),
            lost_limits: self.lost_limits.clone(),
            traces: self.records.traces.clone(),
            events: self.records.events.clone(),
            timer: self.timer.clone(),
            runner_id: Arc::clone(&self.runner_id),
        }
    }
}

/// Creates what the executors of all topics share.
fn executor(
    runner: &Runner,
    store: &Arc<RedisKv>,
    handler_log: &Arc<HandlerLog>,
    (threads, supervision): (&AllThreads, &Supervision),
) -> ExecutorResources {
    ExecutorResources {
        supervision: supervision.clone(),
        threads: threads.guests.threads(runner.threads),
        slots: ExecutorResources::slots(runner.max_jobs),
        host_services: Arc::new(HostServices {
            http: Some(HttpClient::new(threads.network.handle().clone())),
            kv: Some(Arc::clone(store) as _),
            ..HostServices::with_logs(Arc::clone(handler_log) as Arc<dyn LogSink>)
        }),
        runs: Runs::Sandbox,
    }
}
