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
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use duebox_job::TopicName;
use duebox_queue::{ConnectionSettings, Queue};
use duebox_sandbox::{Handler, Sandbox, SandboxConfig};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tracing::{info, warn};

use crate::binding::Binding;
use crate::counters::{Counters, read};
use crate::handler_log::HandlerLog;
use crate::keeper::{self, Retention, Retentions};
use crate::lanes::{Ground, Lanes};
use crate::manifest::{Manifest, RedisUrl, Surroundings, Topic};
use crate::module_file::{self, Fingerprint, ModuleError};
use crate::outage::Outage;
use crate::poke::Poke;
use crate::poller::{self, Pokes};
use crate::redis_server::{ManagedRedis, fitness};
use crate::signal::{Signal, Signals};
use crate::watch::Watch;
use crate::worker::{Order, Worker, WorkerParts};

mod reload;

/// Threads for Redis, timers and the workers' bookkeeping.
const CONTROL_THREADS: usize = 2;

/// Turns of a guests' thread between two looks at timers and sockets. A guest that computes takes 10 ms
/// a turn, so tokio's own 61 would let naps and deadlines of its neighbours wait for half a second.
const GUEST_TURNS_A_LOOK: u32 = 1;

/// Runs the daemon on a manifest until a signal ends it.
///
/// # Errors
/// Whatever keeps it from starting, for people.
pub fn run(manifest: Manifest, surroundings: Surroundings) -> anyhow::Result<()> {
    let control = runtime(CONTROL_THREADS, "duebox").build()?;
    let guests =
        runtime(manifest.runner.threads, "guest").event_interval(GUEST_TURNS_A_LOOK).build()?;
    let ended = control.block_on(async {
        let signals = Signals::listen()?;
        let daemon = Daemon::start(manifest, surroundings, &guests).await?;
        daemon.serve(signals).await;
        Ok(())
    });
    guests.shutdown_background();
    ended
}

fn runtime(threads: usize, name: &str) -> Builder {
    let mut runtime = Builder::new_multi_thread();
    runtime.worker_threads(threads).thread_name(name).enable_all();
    runtime
}

struct Daemon {
    manifest: Manifest,
    surroundings: Surroundings,
    queue: Queue,
    managed: Option<ManagedRedis>,
    sandbox: Arc<Sandbox>,
    ground: Ground,
    runner_id: Arc<str>,
    outage: Arc<Outage>,
    topics: BTreeMap<TopicName, Served>,
    /// Topics the manifest has dropped, while what they had in flight ends.
    leaving: Vec<(TopicName, Served)>,
    pokes: Pokes,
    retentions: Retentions,
    watch: Watch,
    seen: BTreeMap<PathBuf, Option<Fingerprint>>,
    background: JoinSet<()>,
}

/// A topic with a worker.
struct Served {
    binding: watch::Sender<Arc<Binding>>,
    orders: watch::Sender<Order>,
    poke: Arc<Poke>,
    counters: Arc<Counters>,
    task: JoinHandle<()>,
}

impl Daemon {
    async fn start(
        manifest: Manifest,
        surroundings: Surroundings,
        guests: &Runtime,
    ) -> anyhow::Result<Self> {
        info!(manifest = %manifest.path.display(), topics = manifest.topics.len(), "starting: the handlers are compiled");
        let sandbox = Arc::new(Sandbox::new(&sandbox_config(&manifest))?);
        // Taken before the modules are read: a change meanwhile is seen as one.
        let seen = fingerprints(&manifest);
        let handlers = load_all(&sandbox, &manifest).await?;
        let managed = match &manifest.redis.url {
            RedisUrl::Url(_) => None,
            RedisUrl::Managed { dir, fsync } => Some(ManagedRedis::start(dir, *fsync).await?),
        };
        let queue = match connect(&manifest, managed.as_ref()).await {
            Ok(queue) => queue,
            Err(error) => {
                stop_managed(managed).await;
                return Err(error);
            }
        };
        let ground = Ground {
            threads: guests.handle().clone(),
            cores: manifest.runner.threads,
            slots: Arc::new(Semaphore::new(manifest.runner.max_jobs as usize)),
            logs: Arc::new(HandlerLog),
        };
        let mut daemon = Self {
            surroundings,
            queue,
            managed,
            sandbox,
            ground,
            runner_id: format!("{:x}-{:08x}", std::process::id(), fastrand::u32(..)).into(),
            outage: Arc::default(),
            topics: BTreeMap::new(),
            leaving: Vec::new(),
            pokes: Pokes::default(),
            retentions: Retentions::default(),
            watch: Watch::new(),
            seen,
            background: JoinSet::new(),
            manifest,
        };
        daemon.begin(handlers);
        Ok(daemon)
    }

    /// Starts the workers and everything that serves them.
    fn begin(&mut self, handlers: BTreeMap<TopicName, Handler>) {
        for (name, handler) in handlers {
            if let Some(topic) = self.manifest.topics.get(&name).cloned() {
                self.serve_topic(name, topic, handler);
            }
        }
        self.tell_topics();
        let (queue, pokes, outage) = (&self.queue, &self.pokes, &self.outage);
        let poll = self.manifest.redis.poll;
        let look = poller::look(queue.clone(), Arc::clone(pokes), poll, Arc::clone(outage));
        let keep = keeper::keep(queue.clone(), Arc::clone(&self.retentions), Arc::clone(outage));
        self.background.spawn(look);
        self.background.spawn(poller::listen(queue.clone(), Arc::clone(pokes)));
        self.background.spawn(keep);
        info!(topics = self.topics.len(), runner = %self.runner_id, "ready");
    }

    async fn serve(mut self, mut signals: Signals) {
        loop {
            let reload = tokio::select! {
                signal = signals.next() => signal == Signal::Reload,
                () = self.watch.changed() => true,
            };
            if !reload {
                break;
            }
            let found = tokio::select! {
                signal = signals.next() => match signal {
                    Signal::Stop => break,
                    Signal::Reload => continue,
                },
                found = self.look_for_changes() => found,
            };
            self.apply_changes(found).await;
        }
        tokio::select! {
            () = self.drain() => {}
            () = signals.stop() => warn!("stopped at once; leases that are held expire by themselves"),
        }
    }

    // --- topics ----------------------------------------------------------------------------------

    fn serve_topic(&mut self, name: TopicName, topic: Topic, handler: Handler) {
        info!(topic = %name, handler = %shown(&topic), digest = %handler.digest().short(), "serving");
        let lease = self.manifest.runner.lease;
        let (binding, bound) = watch::channel(Arc::new(Binding { topic, handler, lease }));
        let (orders, ordered) = watch::channel(Order::Work);
        let (poke, counters) = (Arc::new(Poke::default()), Arc::new(Counters::default()));
        let worker = Worker::new(WorkerParts {
            topic: name.clone(),
            queue: self.queue.clone(),
            lanes: Lanes::new(self.ground.clone(), bound.clone()),
            bound,
            poke: Arc::clone(&poke),
            counters: Arc::clone(&counters),
            outage: Arc::clone(&self.outage),
            orders: ordered,
            runner_id: Arc::clone(&self.runner_id),
        });
        let task = tokio::spawn(worker.run());
        self.topics.insert(name, Served { binding, orders, poke, counters, task });
    }

    /// Tells the poller, the keeper and the watch which topics there are.
    fn tell_topics(&mut self) {
        let pokes =
            self.topics.iter().map(|(name, served)| (name.clone(), Arc::clone(&served.poke)));
        self.pokes.store(Arc::new(pokes.collect()));
        let retentions = self.manifest.topics.iter().map(|(name, topic)| {
            (name.clone(), Retention { age: topic.retention, count: topic.max_dead })
        });
        self.retentions.store(Arc::new(retentions.collect()));
        self.watch.follow(&self.seen);
    }

    // --- drain -----------------------------------------------------------------------------------

    async fn drain(self) {
        let began = Instant::now();
        let until = began + self.manifest.runner.drain_timeout;
        info!("draining: what has not started is given back, what runs may finish");
        let all: Vec<(TopicName, Served)> = self.leaving.into_iter().chain(self.topics).collect();
        for (_, served) in &all {
            served.orders.send_replace(Order::Drain(until));
        }
        for (name, served) in all {
            if let Err(error) = served.task.await {
                warn!(topic = %name, %error, "the worker did not end well; its leases expire");
            }
            log_counts(&name, &served.counters);
        }
        drop(self.background);
        stop_managed(self.managed).await;
        info!(drain_ms = began.elapsed().as_millis() as u64, "drained");
    }
}

fn log_counts(topic: &TopicName, counters: &Counters) {
    info!(
        %topic,
        leased = read(&counters.leased),
        acked = read(&counters.acked),
        retried = read(&counters.retried),
        dead = read(&counters.dead),
        released = read(&counters.released),
        overtaken = read(&counters.overtaken),
        lost = read(&counters.lost),
        reclaimed = read(&counters.reclaimed),
        "done"
    );
}

fn sandbox_config(manifest: &Manifest) -> SandboxConfig {
    let limits = || manifest.all_settings().map(|topic| &topic.limits);
    let defaults = duebox_sandbox::Limits::default();
    SandboxConfig {
        max_jobs: manifest.runner.max_jobs,
        memory_max: limits().map(|l| l.memory).max().unwrap_or(0).max(defaults.memory),
        tables_max: limits().map(|l| l.tables).max().unwrap_or(0).max(defaults.tables),
    }
}

/// The handler's file, for the log.
fn shown(topic: &Topic) -> String {
    topic.handler.as_ref().map(|file| file.display().to_string()).unwrap_or_default()
}

/// Every file the daemon lives by, as it is now.
fn fingerprints(manifest: &Manifest) -> BTreeMap<PathBuf, Option<Fingerprint>> {
    let handlers = manifest.all_settings().filter_map(|topic| topic.handler.clone());
    let files = std::iter::once(manifest.path.clone()).chain(handlers);
    files.map(|file| (file.clone(), module_file::fingerprint(&file))).collect()
}

/// Loads every module, or says what is wrong with each that is refused.
async fn load_all(
    sandbox: &Arc<Sandbox>,
    manifest: &Manifest,
) -> anyhow::Result<BTreeMap<TopicName, Handler>> {
    let (sandbox, topics) = (Arc::clone(sandbox), manifest.topics.clone());
    let loaded = tokio::task::spawn_blocking(move || {
        let load = |(name, topic): (&TopicName, &Topic)| {
            (name.clone(), module_file::load(&sandbox, name, topic))
        };
        let handled = topics.iter().filter(|(_, topic)| topic.handler.is_some());
        handled.map(load).collect::<Vec<(TopicName, Result<Handler, ModuleError>)>>()
    });
    let mut handlers = BTreeMap::new();
    let mut refused = Vec::new();
    for (name, handler) in loaded.await? {
        match handler {
            Ok(handler) => drop(handlers.insert(name, handler)),
            Err(error) => refused.push(error.to_string()),
        }
    }
    if refused.is_empty() { Ok(handlers) } else { Err(BadModules(refused).into()) }
}

/// Modules that are refused at start.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct BadModules(Vec<String>);

/// Connects to the Redis of the manifest and makes the topics known there.
async fn connect(manifest: &Manifest, managed: Option<&ManagedRedis>) -> anyhow::Result<Queue> {
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
    let names: Vec<TopicName> = manifest.topics.keys().cloned().collect();
    queue.register(&names).await?;
    Ok(queue)
}

async fn stop_managed(managed: Option<ManagedRedis>) {
    if let Some(managed) = managed
        && let Err(error) = managed.stop().await
    {
        warn!(%error, "the managed Redis did not stop cleanly");
    }
}
