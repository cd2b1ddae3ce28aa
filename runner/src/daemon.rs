//! The daemon: it owns the workers, the watch and the connection, from start to drain.
//!
//! ```text
//!  manifest ─▶ Redis, fit? ─▶ modules loaded ─▶ a worker a topic ─▶ serve ─ SIGTERM ─▶ drain
//!                                                     ▲                │
//!                                                     └─── reload ◀────┘ file changed
//! ```
//!
//! It starts whole or not at all: an unreachable or unfit Redis, or one refused module, and nothing
//! has run. Guests have threads of their own; Redis, timers and heartbeats keep theirs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use arc_swap::ArcSwap;
use duebox_job::TopicName;
use duebox_queue::{ConnectionSettings, LatencyStats, Queue, WakeUpHub};
use duebox_sandbox::{HttpClient, LogSink, Sandbox, World};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior};
use tracing::{info, warn};

use self::entry::{EntryName, entries};
use self::finder::{FOUND_MAX, Known};
use self::modules::{Files, Modules};
use self::reload::Changes;
use self::rules::AllRules;
use self::served::{Leaving, Served};
use crate::company::Company;
use crate::consumed::Consumed;
use crate::events::{Events, Telling};
use crate::file_limit;
use crate::guest_threads::GuestThreads;
use crate::handler_log::HandlerLog;
use crate::health::{Health, Phase};
use crate::history::History;
use crate::http::{self, Addresses, Server};
use crate::keeper::{self, Retentions};
use crate::kv::RedisKv;
use crate::lanes::Ground;
use crate::manifest::{Manifest, RedisUrl, Surroundings};
use crate::module_file;
use crate::outage::Outage;
use crate::poller::{self, Pokes};
use crate::pushes::Pushes;
use crate::redis_server::{ManagedRedis, fitness};
use crate::relay::Relay;
use crate::scheduler::{self, Schedules};
use crate::signal::{Signal, Signals};
use crate::status::{self, AllWatched, Refusal};
use crate::supervisor;
use crate::timer::Timer;
use crate::traces::{Exporting, Traces};
use crate::watch::Watch;

mod bind;
mod entry;
mod finder;
mod modules;
mod probed;
mod reload;
mod rollback;
pub(crate) mod rules;
mod seat;
mod served;
mod watched;

pub use self::finder::Finder;
pub use self::modules::BadModules;

/// Threads for Redis, timers and the workers' bookkeeping.
const CONTROL_THREADS: usize = 2;

/// Threads for what handlers ask of the network. They are not those of Redis: a handler that moves much, or
/// greets many servers over TLS, delays no lease.
const NETWORK_THREADS: usize = 2;

/// Threads for those who come over HTTP.
const HTTP_THREADS: usize = 1;

/// How often the modules that are on trial are judged.
const JUDGE_EVERY: Duration = Duration::from_millis(200);

/// Orders that were given and wait to be followed.
const ORDERS_MAX: usize = 16;

/// How soon topics that Redis would not take are tried again.
const BIND_AGAIN: Duration = Duration::from_secs(1);

/// How long a drain waits for Redis to forget what the daemon said of itself.
const FORGET_MAX: Duration = Duration::from_secs(1);

/// Runs the daemon on a manifest until a signal ends it.
///
/// # Errors
/// Whatever keeps it from starting, for people.
pub fn run(manifest: Manifest, surroundings: Surroundings) -> anyhow::Result<()> {
    file_limit::raise();
    let control = runtime(CONTROL_THREADS, "duebox")?;
    let guests = GuestThreads::start(manifest.runner.threads)?;
    let network = runtime(NETWORK_THREADS, "network")?;
    let http = runtime(HTTP_THREADS, "http")?;
    let ended = control.block_on(async {
        let signals = Signals::listen()?;
        let threads = Threads { guests: &guests, network: &network, http: &http };
        let daemon = Daemon::start(manifest, surroundings, threads).await?;
        daemon.serve(signals).await;
        Ok(())
    });
    guests.shutdown();
    network.shutdown_background();
    http.shutdown_background();
    ended
}

fn runtime(threads: usize, name: &str) -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(threads).thread_name(name).enable_all().build()
}

/// What runs beside the control threads.
struct Threads<'a> {
    guests: &'a GuestThreads,
    network: &'a Runtime,
    http: &'a Runtime,
}

struct Daemon {
    manifest: Arc<Manifest>,
    surroundings: Surroundings,
    queue: Queue,
    managed: Option<ManagedRedis>,
    /// What is served over HTTP.
    server: Option<Server>,
    sandbox: Arc<Sandbox>,
    modules: Modules,
    histories: BTreeMap<EntryName, History>,
    /// Somebody wants the files looked at.
    look: Arc<Notify>,
    /// What people tell all daemons.
    orders: mpsc::Receiver<String>,
    judge_at: Interval,
    ground: Ground,
    runner_id: Arc<str>,
    health: Arc<Health>,
    outage: Arc<Outage>,
    relay: Relay,
    pushes: Arc<Pushes>,
    consumed: Arc<Consumed>,
    handler_log: Arc<HandlerLog>,
    traces: Traces,
    exporting: Exporting,
    events: Events,
    telling: Telling,
    kv_traffic: Arc<LatencyStats>,
    timer: Timer,
    topics: BTreeMap<TopicName, Served>,
    /// Topics that were left, while what they had in flight ends.
    leaving: Vec<Leaving>,
    /// Some topics are not served yet, since Redis did not take their rules.
    unbound: bool,
    /// More topics match patterns than are served, and that was told.
    crowded: bool,
    finder: Finder,
    found: mpsc::Receiver<TopicName>,
    pokes: Pokes,
    /// What wakes pull consumers that wait over HTTP.
    bells: WakeUpHub,
    retentions: Retentions,
    rules: watch::Sender<AllRules>,
    schedules: watch::Sender<Schedules>,
    watched: watch::Sender<AllWatched>,
    /// The names of all topics that are served, for who asks how many jobs wait.
    names: Arc<ArcSwap<Vec<TopicName>>>,
    /// Why the manifest as it stands is not the one in service, if it is not.
    refused: watch::Sender<Option<Refusal>>,
    seen: Files,
    /// Files and directories that a refused manifest wants otherwise: it is read again when one changes.
    awaited: Vec<PathBuf>,
    background: JoinSet<()>,
}

impl Daemon {
    async fn start(
        manifest: Manifest,
        surroundings: Surroundings,
        threads: Threads<'_>,
    ) -> anyhow::Result<Self> {
        // What is busy is told before anything is compiled.
        let addresses = Addresses::bind(&manifest.server)?;
        let entries = entries(&manifest).count();
        info!(manifest = %manifest.path.display(), topics = entries, "starting: the handlers are compiled");
        let config = modules::sandbox_config(&manifest);
        let sandbox = Arc::new(module_file::sandbox(&config, &manifest.runner)?);
        // Taken before the modules are read: a change meanwhile is seen as one.
        let seen = modules::fingerprints(&manifest);
        let loaded = modules::load_all(&sandbox, &manifest).await?;
        let managed = match &manifest.redis.url {
            RedisUrl::Url(_) => None,
            RedisUrl::Managed { dir, fsync } => Some(ManagedRedis::start(dir, *fsync).await?),
        };
        let (queue, kv, settings) = match connect(&manifest, managed.as_ref()).await {
            Ok(connected) => connected,
            Err(error) => {
                stop_managed(managed).await;
                return Err(error);
            }
        };
        let kv_traffic = kv.traffic();
        let handler_log = Arc::<HandlerLog>::default();
        let ground = Ground {
            threads: threads.guests.threads(manifest.runner.threads),
            slots: Ground::slots(manifest.runner.max_jobs),
            world: Arc::new(World {
                http: Some(HttpClient::new(threads.network.handle().clone())),
                kv: Some(Arc::new(kv)),
                ..World::of(Arc::clone(&handler_log) as Arc<dyn LogSink>)
            }),
            company: Company::default(),
        };
        let runner_id: Arc<str> =
            format!("{:x}-{:08x}", std::process::id(), fastrand::u32(..)).into();
        let (traces, exporting) = Traces::start(threads.network.handle(), &runner_id);
        traces.send_to(manifest.runner.otlp.as_ref());
        let (events, telling) = Events::start(settings.clone(), manifest.redis.prefix.clone());
        events.keep(manifest.runner.events);
        let schedules = watch::Sender::new(manifest.schedules.clone().into());
        let manifest = Arc::new(manifest);
        let known = Known { manifest: Arc::clone(&manifest), served: BTreeMap::new() };
        let (met, found) = mpsc::channel(FOUND_MAX);
        let finder = Finder {
            known: Arc::new(ArcSwap::from_pointee(known)),
            found: met,
            anew: Arc::new(Notify::new()),
        };
        let (given, orders) = mpsc::channel(ORDERS_MAX);
        let timer = Timer::start().context("no timer could be had from the system")?;
        let mut daemon = Self {
            manifest,
            surroundings,
            queue,
            managed,
            server: None,
            sandbox,
            modules: Modules::new(),
            histories: BTreeMap::new(),
            look: Arc::default(),
            orders,
            judge_at: tokio::time::interval(JUDGE_EVERY),
            ground,
            runner_id,
            health: Arc::default(),
            outage: Arc::default(),
            relay: Relay::default(),
            pushes: Arc::default(),
            consumed: Arc::default(),
            handler_log,
            traces,
            exporting,
            events,
            telling,
            kv_traffic,
            timer,
            topics: BTreeMap::new(),
            leaving: Vec::new(),
            unbound: false,
            crowded: false,
            finder,
            found,
            pokes: Pokes::default(),
            bells: WakeUpHub::default(),
            retentions: Retentions::default(),
            rules: watch::Sender::new(Arc::new([])),
            schedules,
            watched: watch::Sender::new(Arc::new([])),
            names: Arc::default(),
            refused: watch::Sender::new(None),
            seen,
            awaited: Vec::new(),
            background: JoinSet::new(),
        };
        daemon.judge_at.set_missed_tick_behavior(MissedTickBehavior::Delay);
        daemon.take(loaded);
        daemon.begin(given, addresses.api.as_ref().map(http::Listening::address)).await;
        if let Err(error) = daemon.open(addresses, settings, threads.http).await {
            stop_managed(daemon.managed.take()).await;
            return Err(error);
        }
        daemon.health.enters(Phase::Serving);
        supervisor::ready();
        info!(topics = daemon.topics.len(), runner = %daemon.runner_id, "ready");
        Ok(daemon)
    }

    /// Starts the workers and everything that serves them.
    async fn begin(&mut self, orders: mpsc::Sender<String>, api: Option<SocketAddr>) {
        self.bind_all().await;
        self.bind_listed().await;
        let (queue, pokes, outage) = (&self.queue, &self.pokes, &self.outage);
        let poll = self.manifest.redis.poll;
        let look = poller::look(queue.clone(), Arc::clone(pokes), poll, Arc::clone(outage));
        let listen = poller::listen(
            queue.clone(),
            Arc::clone(pokes),
            self.bells.clone(),
            self.finder.clone(),
            orders,
        );
        let keep = keeper::keep(queue.clone(), Arc::clone(&self.retentions), Arc::clone(outage));
        let (pushes, times) = (&self.pushes, self.schedules.subscribe());
        let relay = self.relay.clone().run(
            queue.clone(),
            Arc::clone(pokes),
            Arc::clone(pushes),
            Arc::clone(outage),
        );
        let keep_time =
            scheduler::keep_time(queue.clone(), times, Arc::clone(pushes), Arc::clone(outage));
        let finder = self.finder.clone();
        let rules = rules::keep(queue.clone(), self.rules.subscribe(), finder, Arc::clone(outage));
        let find = self.finder.clone().look(queue.clone(), Arc::clone(outage));
        let told = self.watched.subscribe();
        let refused = self.refused.subscribe();
        let runner_id = Arc::clone(&self.runner_id);
        let tell = status::tell(queue.clone(), (runner_id, api), told, refused, Arc::clone(outage));
        self.background.spawn(look);
        self.background.spawn(tell);
        self.background.spawn(listen);
        self.background.spawn(keep);
        self.background.spawn(relay);
        self.background.spawn(rules);
        self.background.spawn(find);
        self.background.spawn(keep_time);
        self.background.spawn(supervisor::pulse(Arc::clone(&self.health)));
    }

    /// Serves HTTP.
    async fn open(
        &mut self,
        addresses: Addresses,
        redis: ConnectionSettings,
        threads: &Runtime,
    ) -> anyhow::Result<()> {
        if addresses.is_empty() {
            return Ok(());
        }
        let ground = http::Ground {
            threads: threads.handle().clone(),
            redis,
            prefix: self.manifest.redis.prefix.clone(),
            finder: self.finder.clone(),
            bells: self.bells.clone(),
            probes: self.probes(),
            pushes: Arc::clone(&self.pushes),
            watched: self.watched.subscribe(),
            runner_id: Arc::clone(&self.runner_id),
            consumed: Arc::clone(&self.consumed),
            traces: self.traces.clone(),
            events: self.events.clone(),
        };
        self.server = Some(Server::start(addresses, ground).await?);
        Ok(())
    }

    async fn serve(mut self, mut signals: Signals) {
        let mut watch = Watch::new();
        watch.follow(&self.seen);
        let look = Arc::clone(&self.look);
        let changed = async |watch: &Watch| {
            tokio::select! {
                () = watch.changed() => {}
                () = look.notified() => {}
            }
        };
        loop {
            match self.serve_until(changed(&watch), &mut signals).await {
                Err(Signal::Stop) => break,
                Err(Signal::Reload) => supervisor::reloading(),
                Ok(()) => {}
            }
            let Some(changes) = self.changes(&mut signals).await else { break };
            if self.apply_changes(changes).await {
                watch.follow(&self.seen);
            }
            supervisor::ready();
        }
        tokio::select! {
            () = self.drain() => {}
            () = signals.stop() => warn!("stopped at once; leases that are held expire by themselves"),
        }
    }

    /// What has changed; none if it is to stop.
    async fn changes(&mut self, signals: &mut Signals) -> Option<Changes> {
        let mut look = Box::pin(self.look_for_changes());
        loop {
            match self.serve_until(&mut look, signals).await {
                Ok(changes) => return Some(changes),
                Err(Signal::Stop) => return None,
                // It looks already; what changes from now on is a change of its own.
                Err(Signal::Reload) => supervisor::reloading(),
            }
        }
    }

    /// Serves, and does what comes up, until something else is over or a signal comes.
    async fn serve_until<T>(
        &mut self,
        over: impl Future<Output = T>,
        signals: &mut Signals,
    ) -> Result<T, Signal> {
        let mut over = pin!(over);
        let mut names = Vec::new();
        loop {
            tokio::select! {
                signal = signals.next() => return Err(signal),
                value = &mut over => return Ok(value),
                _ = self.found.recv_many(&mut names, FOUND_MAX) => {
                    self.bind_found(std::mem::take(&mut names)).await;
                }
                Some(order) = self.orders.recv() => self.obey(&order).await,
                _ = self.judge_at.tick(), if self.is_on_trial() => self.judge_trials().await,
                () = tokio::time::sleep(BIND_AGAIN), if self.unbound => self.bind_all().await,
            }
        }
    }

    async fn drain(mut self) {
        let began = Instant::now();
        self.health.enters(Phase::Draining);
        supervisor::stopping(self.manifest.runner.drain_timeout);
        let until = began + self.manifest.runner.drain_timeout;
        info!("draining: what has not started is given back, what runs may finish");
        let served = self.topics.into_iter();
        let served = served.filter_map(|(name, served)| served.leave(name, until));
        let all: Vec<Leaving> = self.leaving.into_iter().chain(served).collect();
        for leaving in &all {
            leaving.hurry(until);
        }
        let mut server = self.server;
        let close = async {
            if let Some(server) = &mut server {
                server.drain(until.saturating_duration_since(Instant::now())).await;
            }
        };
        let end = async {
            for leaving in all {
                leaving.ended().await;
            }
        };
        tokio::join!(close, end);
        tokio::join!(self.traces.stop(self.exporting), self.events.stop(self.telling));
        self.background.shutdown().await;
        // Without an answer the word lapses by itself.
        let forget = self.queue.remove_status(&self.runner_id);
        drop(tokio::time::timeout(FORGET_MAX, forget).await);
        stop_managed(self.managed).await;
        // Who looks after the process was answered until now.
        drop(server);
        info!(drain_ms = began.elapsed().as_millis() as u64, "drained");
    }
}

/// Connects to the Redis of the manifest: for the queue, and for the stores of the handlers.
async fn connect(
    manifest: &Manifest,
    managed: Option<&ManagedRedis>,
) -> anyhow::Result<(Queue, RedisKv, ConnectionSettings)> {
    let url = match (&manifest.redis.url, managed) {
        (_, Some(managed)) => managed.url().to_owned(),
        (RedisUrl::Url(url), None) => url.clone(),
        (RedisUrl::Managed { dir, .. }, None) => {
            anyhow::bail!("no Redis runs in {}", dir.display())
        }
    };
    let password = manifest.redis.password.as_ref().map(|password| password.expose().to_owned());
    let settings = ConnectionSettings { url, password };
    let queue = Queue::connect(&settings, &manifest.redis.prefix).await?;
    if managed.is_none() {
        for warning in fitness::check(&mut queue.redis()).await? {
            warn!("{warning}");
        }
    }
    let kv = Queue::connect(&settings, &manifest.redis.prefix).await?;
    Ok((queue, RedisKv::new(kv), settings))
}

async fn stop_managed(managed: Option<ManagedRedis>) {
    if let Some(managed) = managed
        && let Err(error) = managed.stop().await
    {
        warn!(%error, "the managed Redis did not stop cleanly");
    }
}
