//! What topics are served with: the handles that the workers, the background loops and the HTTP server share.

use std::sync::Arc;

use anyhow::Context as _;
use duebox_queue::{LatencyStats, Queue, WakeUpHub};
use duebox_sandbox::{HostServices, HttpClient, LogSink, Sandbox};

use super::redis::Connected;
use super::threads::AllThreads;
use crate::background::relay::Relay;
use crate::executor::Ground;
use crate::executor::timer::Timer;
use crate::manifest::Runner;
use crate::observe::events::{Events, Telling};
use crate::observe::health::Health;
use crate::observe::log::handler_log::HandlerLog;
use crate::observe::pull_counters::Consumed;
use crate::observe::push_counters::Pushes;
use crate::observe::traces::{Exporting, Traces};
use crate::redis_host::handler_store::RedisKv;
use crate::redis_host::outage::Outage;
use crate::worker::batch_limits::Company;

/// The handles.
pub(super) struct Services {
    /// Names this daemon among all of one Redis.
    pub(super) runner_id: Arc<str>,
    pub(super) queue: Queue,
    /// The latency of the handlers' store.
    pub(super) store_traffic: Arc<LatencyStats>,
    pub(super) outage: Arc<Outage>,
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) executor: Ground,
    pub(super) batch_limits: Company,
    pub(super) timer: Timer,
    pub(super) relay: Relay,
    /// What wakes pull consumers that wait over HTTP.
    pub(super) bells: WakeUpHub,
    pub(super) records: Records,
}

/// Where it is recorded what the daemon does.
pub(super) struct Records {
    pub(super) health: Arc<Health>,
    pub(super) pushes: Arc<Pushes>,
    pub(super) consumed: Arc<Consumed>,
    pub(super) handler_log: Arc<HandlerLog>,
    pub(super) traces: Traces,
    pub(super) events: Events,
}

/// The tasks that send what was recorded, to be stopped at the end.
pub(super) type Senders = (Exporting, Telling);

impl Services {
    /// Makes them, over the connections to Redis.
    pub(super) fn start(
        runner: &Runner,
        prefix: &str,
        sandbox: Arc<Sandbox>,
        redis: &Connected,
        threads: &AllThreads,
    ) -> anyhow::Result<(Self, Senders)> {
        let runner_id: Arc<str> =
            format!("{:x}-{:08x}", std::process::id(), fastrand::u32(..)).into();
        let handler_log = Arc::<HandlerLog>::default();
        let executor = executor(runner, &redis.store, &handler_log, threads);
        let (traces, exporting) = Traces::start(threads.network.handle(), &runner_id);
        traces.send_to(runner.otlp.as_ref());
        let (events, telling) = Events::start(redis.settings.clone(), prefix.to_owned());
        events.keep(runner.events);
        let records = Records {
            health: Arc::default(),
            pushes: Arc::default(),
            consumed: Arc::default(),
            handler_log,
            traces,
            events,
        };
        let services = Self {
            runner_id,
            queue: redis.queue.clone(),
            store_traffic: redis.store.traffic(),
            outage: Arc::default(),
            sandbox,
            executor,
            batch_limits: Company::default(),
            timer: Timer::start().context("no timer could be had from the system")?,
            relay: Relay::default(),
            bells: WakeUpHub::default(),
            records,
        };
        Ok((services, (exporting, telling)))
    }
}

/// What the guests of all topics share.
fn executor(
    runner: &Runner,
    store: &Arc<RedisKv>,
    handler_log: &Arc<HandlerLog>,
    threads: &AllThreads,
) -> Ground {
    Ground {
        threads: threads.guests.threads(runner.threads),
        slots: Ground::slots(runner.max_jobs),
        world: Arc::new(HostServices {
            http: Some(HttpClient::new(threads.network.handle().clone())),
            kv: Some(Arc::clone(store) as _),
            ..HostServices::with_logs(Arc::clone(handler_log) as Arc<dyn LogSink>)
        }),
    }
}
