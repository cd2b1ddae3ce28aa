//! A simulated daemon: the real workers and background loops, on a connection of its own.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use duebox::background::limits::{self, AllLimits, LostLimits};
use duebox::background::maintenance::{self, Retention, Retentions};
use duebox::background::poller::Poller;
use duebox::background::recovery;
use duebox::background::relay::Relay;
use duebox::background::scheduler::{self, Schedules};
use duebox::background::topic_discovery::TopicDiscovery;
use duebox::background::wake_up::{WakeUp, WakeUps};
use duebox::background::wake_up_listener::WakeUpListener;
use duebox::deploy::binding::{Binding, Handlers as Modules};
use duebox::deploy::breaker::Breaker;
use duebox::executor::cpu_quota::CpuQuota;
use duebox::executor::fair_semaphore::FairSemaphore;
use duebox::executor::runs::Runs;
use duebox::executor::threads::Threads;
use duebox::executor::{Executor, ExecutorResources};
use duebox::manifest::{Environment, Flags, Manifest, Topic};
use duebox::monotonic;
use duebox::observe::events::Events;
use duebox::observe::sick_topics::SickTopics;
use duebox::observe::supervision::Supervision;
use duebox::observe::traces::Traces;
use duebox::redis_host::outage::Outage;
use duebox::timer::Timer;
use duebox::worker::batch_limits::BatchLimits;
use duebox::worker::{TopicStats, Worker, WorkerCommand, WorkerParts, WorkerServices};
use duebox_job::TopicName;
use duebox_queue::{ConnectionSettings, Queue, QueueError, WakeUpHub};
use duebox_sandbox::{
    Grants, Handler, HostServices, JobContext, Level, Limits, LogSink, Sandbox, SandboxConfig,
};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::handler::Handlers;
use super::plan::Settings;
use crate::network::{Link, Network};

/// Guests that a daemon runs at once.
const SLOTS: u32 = 16;

/// A daemon that runs.
pub(crate) struct Daemon {
    /// Everything but the executor's tasks, which stop at `is_killed`.
    tasks: JoinSet<()>,
    workers: Arc<tokio::sync::Mutex<JoinSet<()>>>,
    commands: watch::Sender<WorkerCommand>,
    schedules: watch::Sender<Schedules>,
    handlers: Handlers,
    link: Arc<Link>,
    _limits: watch::Sender<AllLimits>,
}

impl Daemon {
    /// Starts a daemon.
    pub(crate) fn start(network: &Network, of: &Handlers) -> Self {
        let manifest = manifest(of.plan.settings);
        let link = network.link_of_runner();
        let queue = Queue::over(Arc::clone(&link) as _, "duebox");
        let handlers = of.of_daemon(link.number(), &queue);
        let (wake_ups, outage) = (WakeUps::default(), Arc::<Outage>::default());
        let relay = Relay::default();
        let (discovery, _) = TopicDiscovery::new(Arc::clone(&manifest));
        let served = manifest.topics.keys().map(|name| (name.clone(), 1)).collect();
        discovery.update(Arc::clone(&manifest), served);
        let topics = manifest.topics.iter();
        let retentions: BTreeMap<_, _> =
            topics.clone().map(|(name, topic)| (name.first_shard(), retention(topic))).collect();
        let all: Vec<_> = topics.map(|(name, topic)| (name.clone(), topic.limits())).collect();
        let (limits, schedules) = (
            watch::Sender::<AllLimits>::new(all.into()),
            watch::Sender::<Schedules>::new(manifest.schedules.clone().into()),
        );
        let commands = watch::Sender::new(WorkerCommand::Work);
        let workers = Arc::<tokio::sync::Mutex<JoinSet<()>>>::default();
        let mut tasks = JoinSet::new();
        let (sick, lost_limits) = (Arc::<SickTopics>::default(), LostLimits::default());
        let its = || Arc::clone(&sick);
        let poller = Poller {
            queue: queue.clone(),
            wake_ups: Arc::clone(&wake_ups),
            watching: Arc::default(),
            every: manifest.redis.poll,
            sick_topics: its(),
            outage: Arc::clone(&outage),
        };
        tasks.spawn(listener_beside(&poller, discovery.clone()).run());
        tasks.spawn(poller.run());
        tasks.spawn(recovery::run(queue.clone(), Arc::clone(&outage)));
        let retentions: Retentions = Arc::new(arc_swap::ArcSwap::from_pointee(retentions));
        tasks.spawn(maintenance::run(queue.clone(), retentions, its(), Arc::clone(&outage)));
        let (pushes, rings) = (|| Arc::default(), Arc::clone(&wake_ups));
        tasks.spawn(relay.clone().run(queue.clone(), rings, pushes(), its(), outage.clone()));
        let (wanted, lost) = (limits.subscribe(), lost_limits.clone());
        tasks.spawn(limits::run(queue.clone(), wanted, discovery, lost, its(), outage.clone()));
        let (timer, due) = (Timer::of_tokio(), schedules.subscribe());
        tasks.spawn(scheduler::run(queue.clone(), timer, due, pushes(), its(), outage.clone()));
        let serving = Serving {
            manifest,
            queue,
            wake_ups,
            outage,
            sick,
            lost_limits,
            relay,
            handlers: handlers.clone(),
            commands: commands.subscribe(),
            workers: Arc::clone(&workers),
        };
        tasks.spawn(serving.serve());
        Self { tasks, workers, commands, schedules, handlers, link, _limits: limits }
    }

    /// Kills it: nothing of it happens any more.
    pub(crate) fn kill(self) {
        self.handlers.ledger.killed(self.handlers.daemon);
        self.stop();
    }

    /// Nothing of it happens any more.
    fn stop(mut self) {
        self.tasks.abort_all();
        if let Ok(mut workers) = self.workers.try_lock() {
            workers.abort_all();
        }
        self.handlers.is_killed.store(true, Ordering::Relaxed);
        self.link.cut();
    }

    /// Lets its jobs finish, then stops it. Records how long that took.
    pub(crate) async fn drain(self, timeout: Duration) {
        let ordered_at = Instant::now();
        self.commands.send_replace(WorkerCommand::Drain(monotonic::now() + timeout));
        let workers = Arc::clone(&self.workers);
        let over = async {
            let mut workers = workers.lock().await;
            while workers.join_next().await.is_some() {}
        };
        match tokio::time::timeout(timeout + Duration::from_secs(5), over).await {
            Ok(()) => {
                self.handlers.ledger.drained(timeout, ordered_at.elapsed());
                self.stop();
            }
            Err(_) => {
                self.handlers.ledger.violated(format!("a drain of {timeout:?} does not end"));
                self.kill();
            }
        }
    }

    /// Stops its schedules.
    pub(crate) fn stop_schedules(&self) {
        self.schedules.send_replace(Arc::new([]));
    }
}

/// What starts the workers, as soon as Redis has the limits of the topics.
struct Serving {
    manifest: Arc<Manifest>,
    queue: Queue,
    wake_ups: WakeUps,
    outage: Arc<Outage>,
    sick: Arc<SickTopics>,
    lost_limits: LostLimits,
    relay: Relay,
    handlers: Handlers,
    commands: watch::Receiver<WorkerCommand>,
    workers: Arc<tokio::sync::Mutex<JoinSet<()>>>,
}

impl Serving {
    /// In two of three lives, verdicts and leases of few jobs are two turns under way at once.
    fn batch_limits(&self) -> BatchLimits {
        match self.handlers.plan.seed % 3 {
            0 => BatchLimits::default(),
            large => BatchLimits::with_large_turn(large as usize),
        }
    }

    async fn serve(self) {
        while let Err(error) = self.prepare().await {
            self.outage.record_error(&error);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let runner_id: Arc<str> = format!("d-{}", self.handlers.daemon).into();
        let supervision = Supervision::default();
        let (traces, _) = Traces::start(&Handle::current(), &runner_id, &supervision);
        let redis = ConnectionSettings::new("redis://simulation");
        let (events, _) = Events::start(redis, "duebox".to_owned(), &supervision);
        let (resources, batch_limits) = (self.resources(), self.batch_limits());
        let mut woken = Vec::new();
        let mut workers = self.workers.lock().await;
        for (name, topic) in &self.manifest.topics {
            let binding = Binding {
                topic: topic.clone(),
                handlers: Modules { main: module(), canary: None },
                lease: self.manifest.runner.lease,
            };
            // The sender may go: the binding does not change.
            let bound = watch::Sender::new(Arc::new(binding)).subscribe();
            let wake_up = Arc::<WakeUp>::default();
            woken.push((name.first_shard(), Arc::clone(&wake_up)));
            let share = resources.share(topic.concurrency as usize);
            let breaker = Arc::new(Breaker::new(monotonic::now()));
            let executor =
                Executor::new(resources.clone(), share, bound.clone(), Arc::clone(&breaker));
            let worker = Worker::new(WorkerParts {
                shard: name.first_shard(),
                executor,
                bound,
                wake_up,
                batch_limits: batch_limits.join(),
                breaker,
                commands: self.commands.clone(),
                stats: TopicStats::default(),
                services: WorkerServices {
                    queue: self.queue.clone(),
                    outage: Arc::clone(&self.outage),
                    sick_topics: Arc::clone(&self.sick),
                    lost_limits: self.lost_limits.clone(),
                    relay: self.relay.clone(),
                    traces: traces.clone(),
                    events: events.clone(),
                    timer: Timer::of_tokio(),
                    runner_id: Arc::clone(&runner_id),
                },
            });
            workers.spawn(worker.run());
        }
        self.wake_ups.store(Arc::new(woken));
    }

    /// Prepares the topics in Redis, as the daemon does before it serves one.
    async fn prepare(&self) -> Result<(), QueueError> {
        for (name, topic) in &self.manifest.topics {
            self.queue.forget_old_shards(name).await?;
            self.queue.configure(name, &topic.limits()).await?;
            self.queue.register(std::slice::from_ref(name)).await?;
        }
        Ok(())
    }

    fn resources(&self) -> ExecutorResources {
        let threads = Threads {
            interactive: Handle::current(),
            long_running: Handle::current(),
            each: 1,
            long_running_permits: FairSemaphore::new(1, 0),
            cpu_quota: CpuQuota::unlimited(),
            cpu_time: || Duration::ZERO,
        };
        ExecutorResources {
            threads,
            slots: ExecutorResources::slots(SLOTS),
            host_services: Arc::new(HostServices::with_logs(Arc::new(NoLog))),
            runs: Runs::Simulated(Arc::new(self.handlers.clone())),
            supervision: Supervision::default(),
        }
    }
}

struct NoLog;

impl LogSink for NoLog {
    fn line(&self, _: &JobContext<'_>, _: Level, _: &str) {}
}

/// The listener that wakes the same workers.
fn listener_beside(poller: &Poller, topic_discovery: TopicDiscovery) -> WakeUpListener {
    WakeUpListener {
        queue: poller.queue.clone(),
        wake_ups: Arc::clone(&poller.wake_ups),
        watching: Arc::clone(&poller.watching),
        wake_up_hub: WakeUpHub::default(),
        topic_discovery,
        orders: mpsc::channel(1).0,
        outage: Arc::clone(&poller.outage),
    }
}

fn retention(topic: &Topic) -> Retention {
    Retention {
        age: topic.retention.dead,
        count: topic.retention.max_dead,
        done_age: topic.retention.done.unwrap_or_default(),
        pulled: None,
    }
}

thread_local! {
    static MANIFESTS: RefCell<HashMap<Settings, Arc<Manifest>>> = RefCell::default();
    static MODULE: Handler = compile();
}

/// The manifest of these settings, read once.
fn manifest(settings: Settings) -> Arc<Manifest> {
    MANIFESTS.with_borrow_mut(|known| {
        let read = || {
            let environment = Environment::new(Flags::default(), []);
            let text = settings.manifest();
            let read = Manifest::parse(Path::new("simulation.toml"), text, &environment);
            Arc::new(read.unwrap_or_else(|error| panic!("{error}")))
        };
        Arc::clone(known.entry(settings).or_insert_with(read))
    })
}

/// A module for the bindings; no job runs it.
fn module() -> Handler {
    MODULE.with(Clone::clone)
}

fn compile() -> Handler {
    let config = SandboxConfig { max_jobs: 1, memory_max: 1 << 20, tables_max: 1_000 };
    let sandbox = Sandbox::new(&config).expect("a sandbox");
    let module = br#"(module (func (export "handle") (param i32) (result i32) (i32.const 0)))"#;
    sandbox.load(module, Limits::default(), Grants::default()).expect("a module")
}

/// A topic's name.
pub(crate) fn topic(name: &str) -> TopicName {
    TopicName::new(name).expect("a topic's name")
}
