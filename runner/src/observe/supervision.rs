//! Supervises the tasks of the daemon. A task that panics is started again, after a wait that doubles with each
//! panic. While one is down, the readiness probe fails and names it.
//!
//! Only tasks are supervised that can start from nothing: what they know is in Redis or in the manifest. Other
//! code aborts the process, see [`panics::or_abort`].

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duebox_queue::ConnectionTask;
use parking_lot::Mutex;
use tracing::{error, info};

use super::fail_point;
use super::panics::{self, Panic};

/// The wait after the first panic.
const RESTART_FIRST: Duration = Duration::from_millis(100);
/// The longest wait. A task that has run for longer than this starts with the first wait again.
const RESTART_MAX: Duration = Duration::from_secs(30);
/// A restarted task counts as down until it has run for so long.
const SOUND_AFTER: Duration = Duration::from_secs(1);

/// The kind of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskKind {
    /// Leases and settles the jobs of a topic or a shard.
    Worker,
    /// Runs one job on the guests' threads.
    Guest,
    /// Looks for jobs at each topic.
    Poller,
    /// Receives wake-ups and orders.
    WakeUps,
    /// Notices the end of outages.
    Recovery,
    /// Prunes and reclaims.
    Maintenance,
    /// Moves follow-up jobs.
    Relay,
    /// Writes limits to Redis.
    Limits,
    /// Finds topics by pattern.
    TopicDiscovery,
    /// Pushes the jobs of schedules.
    Scheduler,
    /// Logs how writes are stored.
    Durability,
    /// Publishes the status.
    Status,
    /// Reads the CPU limit of the cgroup again.
    CpuQuota,
    /// Reports liveness.
    Heartbeat,
    /// Answers an order.
    ControlReply,
    /// Sends events.
    Events,
    /// Sends spans.
    Traces,
    /// Accepts HTTP connections.
    HttpListener,
    /// Serves an HTTP connection.
    HttpConnection,
    /// Serves a request that outlives its connection.
    HttpRequest,
    /// Records the history.
    HttpHistory,
    /// Restarts the managed Redis.
    ManagedRedis,
    /// Keeps a connection to Redis.
    RedisConnection,
}

impl TaskKind {
    /// All kinds.
    pub const ALL: [Self; 23] = [
        Self::Worker,
        Self::Guest,
        Self::Poller,
        Self::WakeUps,
        Self::Recovery,
        Self::Maintenance,
        Self::Relay,
        Self::Limits,
        Self::TopicDiscovery,
        Self::Scheduler,
        Self::Durability,
        Self::Status,
        Self::CpuQuota,
        Self::Heartbeat,
        Self::ControlReply,
        Self::Events,
        Self::Traces,
        Self::HttpListener,
        Self::HttpConnection,
        Self::HttpRequest,
        Self::HttpHistory,
        Self::ManagedRedis,
        Self::RedisConnection,
    ];

    /// Its name in the log, in metrics, in the readiness probe and for fail points.
    pub fn word(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Guest => "guest",
            Self::Poller => "poller",
            Self::WakeUps => "wake_ups",
            Self::Recovery => "recovery",
            Self::Maintenance => "maintenance",
            Self::Relay => "relay",
            Self::Limits => "limits",
            Self::TopicDiscovery => "topic_discovery",
            Self::Scheduler => "scheduler",
            Self::Durability => "durability",
            Self::Status => "status",
            Self::CpuQuota => "cpu_quota",
            Self::Heartbeat => "heartbeat",
            Self::ControlReply => "control_reply",
            Self::Events => "events",
            Self::Traces => "traces",
            Self::HttpListener => "http_listener",
            Self::HttpConnection => "http_connection",
            Self::HttpRequest => "http_request",
            Self::HttpHistory => "http_history",
            Self::ManagedRedis => "managed_redis",
            Self::RedisConnection => "redis_connection",
        }
    }
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskName {
    kind: TaskKind,
    /// The topic, address or purpose, if there are several of its kind.
    of: String,
}

impl TaskName {
    /// One of several tasks of a kind.
    pub fn of(kind: TaskKind, of: impl fmt::Display) -> Self {
        Self { kind, of: of.to_string() }
    }
}

impl From<TaskKind> for TaskName {
    fn from(kind: TaskKind) -> Self {
        Self { kind, of: String::new() }
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = if self.of.is_empty() { "" } else { " " };
        write!(f, "{}{space}{}", self.kind.word(), self.of)
    }
}

/// The supervised tasks of this process. Clones share their state.
#[derive(Clone, Default)]
pub struct Supervision(Arc<Mutex<Tasks>>);

#[derive(Default)]
struct Tasks {
    /// How often tasks of a kind panicked.
    panics: BTreeMap<TaskKind, u64>,
    /// The tasks that are down, each with its last panic.
    down: BTreeMap<TaskName, Panic>,
    /// The tasks of connections, which the queue starts again by itself.
    connections: Vec<(TaskName, Arc<ConnectionTask>)>,
}

impl fmt::Debug for Supervision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervision").field("down", &self.down()).finish()
    }
}

impl Supervision {
    /// Runs a task until it ends, and starts it again whenever it panics.
    pub async fn keep<T, F>(&self, task: impl Into<TaskName>, start: impl FnMut() -> F) -> T
    where
        F: Future<Output = T>,
    {
        let never = std::future::pending::<std::convert::Infallible>();
        match self.keep_until(task, start, never).await {
            Ok(ended) => ended,
            Err(never) => match never {},
        }
    }

    /// The same; a task that is down is not started again once `over` is ready.
    ///
    /// # Errors
    /// The value of `over`, if that ended it.
    pub async fn keep_until<T, F, O>(
        &self,
        task: impl Into<TaskName>,
        mut start: impl FnMut() -> F,
        over: impl Future<Output = O>,
    ) -> Result<T, O>
    where
        F: Future<Output = T>,
    {
        let task = task.into();
        let mut over = pin!(over);
        let mut wait = RESTART_FIRST;
        let mut is_down = false;
        loop {
            let began = Instant::now();
            // In a box: each future around it would have its size again, and there is a worker for each topic.
            let run =
                async { fail_point::pass_anywhere(task.kind.word(), Box::pin(start())).await };
            let mut run = pin!(panics::catch(run));
            let ended = tokio::select! {
                ended = &mut run => ended,
                () = tokio::time::sleep(SOUND_AFTER), if is_down => {
                    self.record_up(&task);
                    run.await
                }
            };
            let panic = match ended {
                Ok(value) => {
                    self.record_up(&task);
                    return Ok(value);
                }
                Err(panic) => panic,
            };
            if began.elapsed() > RESTART_MAX {
                wait = RESTART_FIRST;
            }
            is_down = true;
            error!(%task, place = panic.place, again_in_ms = wait.as_millis() as u64,
                "the task panicked and is started again");
            self.record_panic(&task, Some(panic));
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                value = &mut over => {
                    self.record_up(&task);
                    return Err(value);
                }
            }
            wait = (wait * 2).min(RESTART_MAX);
        }
    }

    /// Runs a task that nothing depends on once it has panicked; `None` if it did.
    pub async fn contain<T>(&self, kind: TaskKind, work: impl Future<Output = T>) -> Option<T> {
        let work = async {
            fail_point::pass(kind.word());
            work.await
        };
        match panics::catch(work).await {
            Ok(value) => Some(value),
            Err(panic) => {
                self.record_given_up(kind, &panic);
                None
            }
        }
    }

    /// Records a panic that its caller has just caught, of a task that is not started again.
    pub fn record_caught_panic(&self, kind: TaskKind, payload: &(dyn Any + Send)) {
        self.record_given_up(kind, &Panic::caught(payload));
    }

    fn record_given_up(&self, kind: TaskKind, panic: &Panic) {
        error!(task = kind.word(), place = panic.place, "the task panicked and is given up");
        self.record_panic(&kind.into(), None);
    }

    /// Reports on the task of a connection too.
    pub fn watch_connection(&self, of: &str, task: Arc<ConnectionTask>) {
        let name = TaskName::of(TaskKind::RedisConnection, of);
        self.0.lock().connections.push((name, task));
    }

    fn record_panic(&self, task: &TaskName, down: Option<Panic>) {
        let mut tasks = self.0.lock();
        *tasks.panics.entry(task.kind).or_default() += 1;
        if let Some(panic) = down {
            tasks.down.insert(task.clone(), panic);
        }
    }

    fn record_up(&self, task: &TaskName) {
        if self.0.lock().down.remove(task).is_some() {
            info!(%task, "the task runs again");
        }
    }

    /// The tasks that are down, each with the reason.
    pub fn down(&self) -> Vec<String> {
        let tasks = self.0.lock();
        let own =
            tasks.down.iter().map(|(task, panic)| format!("{task} panicked at {}", panic.place));
        let connections = tasks.connections.iter().filter(|(_, task)| task.is_down());
        own.chain(connections.map(|(name, _)| format!("{name} panicked"))).collect()
    }

    /// How often tasks of each kind panicked.
    pub fn panics(&self) -> [(TaskKind, u64); TaskKind::ALL.len()] {
        let tasks = self.0.lock();
        TaskKind::ALL.map(|kind| {
            let own = tasks.panics.get(&kind).copied().unwrap_or_default();
            let connections = tasks.connections.iter().filter(|(name, _)| name.kind == kind);
            (kind, own + connections.map(|(_, task)| task.panics()).sum::<u64>())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn panics_of(supervision: &Supervision, kind: TaskKind) -> u64 {
        supervision.panics().iter().find(|(of, _)| *of == kind).unwrap().1
    }

    #[tokio::test]
    async fn a_task_that_panics_starts_again_and_is_named_while_it_is_down() {
        let supervision = Supervision::default();
        let starts = AtomicUsize::new(0);
        let name = TaskName::of(TaskKind::Worker, "mail");
        let task = supervision.keep(name, || match starts.fetch_add(1, Ordering::Relaxed) {
            0 => panic!("while it is made"),
            start => async move { (start > 1).then_some("done").expect("while it runs") },
        });
        let seen = async {
            while supervision.down().is_empty() {
                tokio::task::yield_now().await;
            }
            supervision.down()
        };
        let (ended, down) = tokio::join!(task, seen);
        assert_eq!((ended, starts.load(Ordering::Relaxed)), ("done", 3));
        assert!(down[0].starts_with("worker mail panicked at "), "{down:?}");
        assert_eq!(supervision.down(), Vec::<String>::new());
        assert_eq!(panics_of(&supervision, TaskKind::Worker), 2);
    }

    #[tokio::test]
    async fn a_restarted_task_that_keeps_running_is_up_again() {
        let supervision = Supervision::default();
        let mut starts = 0;
        let task = supervision.keep(TaskKind::Relay, || {
            starts += 1;
            let is_first = starts == 1;
            async move {
                assert!(!is_first, "the first time");
                std::future::pending::<()>().await;
            }
        });
        let up = async {
            while panics_of(&supervision, TaskKind::Relay) == 0 || !supervision.down().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            () = task => unreachable!("it never ends"),
            up = tokio::time::timeout(duebox_harness::patience(), up) => up.unwrap(),
        }
    }

    #[tokio::test]
    async fn a_task_that_is_not_wanted_any_more_stays_down() {
        let supervision = Supervision::default();
        let start = || async { panic!("always") };
        let ended: Result<(), _> =
            supervision.keep_until(TaskKind::Worker, start, async { "over" }).await;
        assert_eq!((ended, supervision.down().len()), (Err("over"), 0));
    }

    #[tokio::test]
    async fn a_contained_panic_is_counted_and_nothing_is_down() {
        let supervision = Supervision::default();
        let ended: Option<()> =
            supervision.contain(TaskKind::HttpConnection, async { panic!("once") }).await;
        assert_eq!((ended, supervision.down().len()), (None, 0));
        assert_eq!(panics_of(&supervision, TaskKind::HttpConnection), 1);
        assert_eq!(supervision.contain(TaskKind::HttpConnection, async { 7 }).await, Some(7));
    }

    #[test]
    fn every_kind_is_listed_once() {
        let mut words = TaskKind::ALL.map(TaskKind::word);
        words.sort_unstable();
        assert!(words.windows(2).all(|two| two[0] != two[1]));
    }
}
