//! Moves an executor task from interactive to long-running threads. A task starts on an interactive thread.
//! After it has used [`TIME_SLICE`] there it moves, and stays until it ends. On the long-running threads a
//! task waits for a permit of its topic before each poll, so topics share these threads equally, however
//! many tasks each has. Under a CPU quota it also waits until the process has enough of it left.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use super::Inner;
use super::threads::{TIME_SLICE, Threads};
use crate::monotonic;
use crate::observe::panics;

/// How often a long-running thread offers its core to other threads between jobs; the call takes about 1
/// µs.
const YIELD_CORE_EVERY: Duration = Duration::from_micros(100);

/// The CPU time that a task has used on an interactive thread: since its job began, or since the first of
/// several jobs that did not yield.
#[derive(Default)]
pub(super) struct TimeSlice {
    used_ns: AtomicU64,
    /// The CPU time of the thread up to which it is charged.
    charged_until_ns: AtomicU64,
    /// The task is on a long-running thread.
    is_long_running: AtomicBool,
}

impl TimeSlice {
    /// Starts a new slice.
    pub(super) fn restart(&self) {
        self.used_ns.store(0, Ordering::Relaxed);
    }

    /// The task is polled on a thread that has used this CPU time.
    fn begin_poll(&self, cpu_time: Duration) {
        self.charged_until_ns.store(as_ns(cpu_time), Ordering::Relaxed);
    }

    /// Charges the task with what its thread has used since it was charged last, and returns that.
    fn charge(&self, cpu_time: Duration) -> Duration {
        let until = as_ns(cpu_time);
        let since = self.charged_until_ns.swap(until, Ordering::Relaxed);
        let taken = until.saturating_sub(since);
        self.used_ns.fetch_add(taken, Ordering::Relaxed);
        Duration::from_nanos(taken)
    }

    /// On a long-running thread, lets the kernel run other threads, at most every [`YIELD_CORE_EVERY`]. By
    /// itself the kernel would switch at its next tick, up to 4 ms later.
    pub(super) fn yield_core(&self, last: &mut Instant) {
        if self.is_long_running.load(Ordering::Relaxed)
            && monotonic::now() - *last > YIELD_CORE_EVERY
        {
            thread::yield_now();
            *last = monotonic::now();
        }
    }

    fn is_over(&self) -> bool {
        Duration::from_nanos(self.used_ns.load(Ordering::Relaxed)) >= TIME_SLICE
    }
}

/// A task that can move from interactive to long-running threads.
pub(super) struct Demotion {
    inner: Arc<Inner>,
    task: Pin<Box<dyn Future<Output = ()> + Send>>,
    time_slice: Arc<TimeSlice>,
}

impl Demotion {
    /// A task of this executor that has not started.
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        let time_slice = Arc::<TimeSlice>::default();
        let task = Box::pin(Arc::clone(&inner).run_jobs(Arc::clone(&time_slice)));
        Self { inner, task, time_slice }
    }

    /// Runs the task on an interactive thread until it ends or has used its time slice.
    pub(super) async fn run_interactive(mut self) {
        let has_ended = poll_fn(|context| {
            // Wall time would charge the task for other threads on the same core.
            self.time_slice.begin_poll((self.inner.resources.threads.cpu_time)());
            let polled = self.task.as_mut().poll(context);
            self.inner.charge(&self.time_slice);
            match polled {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending if self.time_slice.is_over() => Poll::Ready(false),
                Poll::Pending => Poll::Pending,
            }
        });
        if !has_ended.await {
            self.inner.share.cpu_allowance.overrun(monotonic::now());
            let long_running = self.inner.resources.threads.long_running.clone();
            long_running.spawn(abort_on_panic(self.run_long_running()));
        }
    }

    /// Runs the task on a long-running thread until it ends.
    pub(super) async fn run_long_running(mut self) {
        self.time_slice.is_long_running.store(true, Ordering::Relaxed);
        loop {
            let permit = self.inner.share.long_running.acquire(usize::MAX).await;
            let slice = self.inner.resources.threads.cpu_quota.begin_slice();
            let has_ended = poll_fn(|context| {
                // The interactive threads drive timers and sockets, because they are never late.
                let _timers = self.inner.resources.threads.interactive.enter();
                Poll::Ready(self.task.as_mut().poll(context).is_ready())
            });
            let has_ended = has_ended.await;
            drop((slice, permit));
            thread::yield_now();
            if has_ended {
                break;
            }
            woken().await;
        }
    }
}

impl Inner {
    /// Charges task and topic with what the task has used of its interactive thread since it was charged last.
    fn charge(&self, slice: &TimeSlice) {
        let Threads { cpu_time, cpu_quota, .. } = &self.resources.threads;
        let taken = cpu_quota.weigh(slice.charge(cpu_time()));
        self.share.cpu_allowance.spend(monotonic::now(), taken);
    }

    /// Charges a job that yields or has ended, before another one starts. Otherwise that would hold an interactive thread
    /// as long as this one did.
    pub(super) fn charge_job(&self, slice: &TimeSlice, started_at: Instant) {
        let now = monotonic::now();
        // Most jobs need less, or wait for a server.
        if slice.is_long_running.load(Ordering::Relaxed) || now - started_at < TIME_SLICE {
            return;
        }
        self.charge(slice);
        if slice.is_over() {
            self.share.cpu_allowance.overrun(now);
        }
    }
}

fn as_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Runs a task of the executor. A panic outside of a handler's run would leave its counts wrong, and a lease
/// that is renewed without an end.
pub(super) async fn abort_on_panic(task: impl Future<Output = ()>) {
    panics::or_abort("the executor", task).await;
}

/// Waits until the waker of this poll is called.
async fn woken() {
    let mut waited = false;
    poll_fn(|_| match std::mem::replace(&mut waited, true) {
        false => Poll::Pending,
        true => Poll::Ready(()),
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc::{self, Sender};

    use bytes::Bytes;
    use duebox_job::{JobId, TopicName};
    use duebox_sandbox::{
        Grants, Handler, HostServices, Interrupt, Invocation, JobContext, Level, Limits, LogSink,
        Sandbox, SandboxConfig,
    };
    use tokio::sync::watch;

    use super::*;
    use crate::deploy::binding::{Binding, Handlers};
    use crate::deploy::breaker::Breaker;
    use crate::executor::runs::Runs;
    use crate::executor::threads::GuestThreads;
    use crate::executor::{Executor, ExecutorResources, LeaseNumber, QueuedJob, Snoozes};
    use crate::manifest::{Environment, Flags, Manifest};
    use crate::observe::supervision::Supervision;

    /// Logs a line, fills 64 MiB in one instruction, which takes longer than a slice, and yields at the next tick. With
    /// `_initialize` its instances are not reset, so no job reads the memory of the first one before it logs.
    const FILLS: &str = r#"(module
      (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
      (memory (export "memory") 1024)
      (func (export "_initialize"))
      (func (export "handle") (param $left i32) (result i32)
        (call $log (i32.const 2) (i32.const 0) (i32.const 1))
        (memory.fill (i32.const 0) (i32.const 255) (i32.const 67108864))
        (local.set $left (i32.const 20000000))
        (loop $again
          (local.tee $left (i32.sub (local.get $left) (i32.const 1)))
          (br_if $again))
        (i32.const 0)))"#;
    const MANIFEST: &str =
        "[redis]\nurl = \"redis://unused\"\n\n[topics.fills]\nhandler = \"fills.wasm\"\n";

    /// Sends the name of the thread on which a guest logs.
    struct ThreadNames(Sender<String>);

    impl LogSink for ThreadNames {
        fn line(&self, _: &JobContext<'_>, _: Level, _: &str) {
            let name = thread::current().name().unwrap_or_default().to_owned();
            self.0.send(name).unwrap();
        }
    }

    fn handler() -> Handler {
        let config = SandboxConfig { max_jobs: 4, memory_max: 1 << 28, tables_max: 1_000 };
        let limits = Limits { memory: 64 << 20, ..Limits::default() };
        let sandbox = Sandbox::new(&config).unwrap();
        sandbox.load(FILLS.as_bytes(), limits, Grants::default()).unwrap()
    }

    fn executor(threads: &GuestThreads, logs: ThreadNames) -> Executor {
        let environment = Environment::new(Flags::default(), []);
        let path = Path::new("duebox.toml");
        let manifest = Manifest::parse(path, MANIFEST.to_owned(), &environment).unwrap();
        let topic = manifest.topics.values().next().unwrap().clone();
        let handlers = Handlers { main: handler(), canary: None };
        let lease = manifest.runner.lease;
        let bound = watch::Sender::new(Arc::new(Binding { topic, handlers, lease })).subscribe();
        let resources = ExecutorResources {
            threads: threads.threads(1),
            slots: ExecutorResources::slots(4),
            host_services: Arc::new(HostServices::with_logs(Arc::new(logs))),
            supervision: Supervision::default(),
            runs: Runs::Sandbox,
        };
        let share = resources.share(4);
        Executor::new(resources, share, bound, Arc::new(Breaker::new(monotonic::now())))
    }

    fn job(lease: &mut LeaseNumber) -> QueuedJob {
        let invocation = Invocation {
            id: JobId::new("one").unwrap(),
            topic: TopicName::new("fills").unwrap(),
            payload: Bytes::new(),
            attempt: 1,
            max_attempts: 1,
            due_at_ms: 0,
            headers: [].into(),
            ttr: Duration::from_secs(60),
            span: None,
        };
        let snoozes = Snoozes { had: 0, max: 0 };
        QueuedJob { lease: lease.count_on(), invocation, interrupt: Interrupt::new(), snoozes }
    }

    /// The threads on which four jobs start.
    fn started_on(threads: &GuestThreads) -> Vec<String> {
        let (send, names) = mpsc::channel();
        let (executor, mut lease) = (executor(threads, ThreadNames(send)), LeaseNumber::default());
        executor.push((0..4).map(|_| job(&mut lease)).collect());
        let all_end = async {
            let mut ended = 0;
            while ended < 4 {
                executor.changed(0, 1).await;
                ended += executor.take_ended(4, usize::MAX).0.len();
            }
        };
        let handle = threads.threads(1).interactive;
        let limit = Duration::from_secs(60);
        handle.block_on(async { tokio::time::timeout(limit, all_end).await }).unwrap();
        names.try_iter().collect()
    }

    #[test]
    fn no_job_starts_on_an_interactive_thread_after_one_has_overrun_its_slice() {
        let threads = GuestThreads::start(1).unwrap();
        let wanted = ["guest", "guest-slow", "guest-slow", "guest-slow"];
        // On a busy machine a guest may yield before it has filled anything. Then the next one may start there, too.
        assert!((0..20).any(|_| started_on(&threads) == wanted));
        threads.shutdown();
    }
}
