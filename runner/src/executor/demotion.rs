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
use super::threads::TIME_SLICE;
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
    /// The task is on a long-running thread.
    is_long_running: AtomicBool,
}

impl TimeSlice {
    /// Starts a new slice.
    pub(super) fn restart(&self) {
        self.used_ns.store(0, Ordering::Relaxed);
    }

    fn charge(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.used_ns.fetch_add(ns, Ordering::Relaxed);
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
            let cpu_time = self.inner.resources.threads.cpu_time;
            let began = cpu_time();
            let polled = self.task.as_mut().poll(context);
            let taken = cpu_time().saturating_sub(began);
            self.time_slice.charge(taken);
            let weighed = self.inner.resources.threads.cpu_quota.weigh(taken);
            self.inner.share.cpu_allowance.spend(monotonic::now(), weighed);
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
