//! How a lane gets to slow threads: it begins on a quick one, and when it has kept that for
//! [`TIME_SLICE`] it goes over and stays there until it closes. There it waits for its topic's turn before
//! each time_slice, so topics share the slow threads equally, however many lanes each has there.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use duebox_sandbox::thread_time;

use super::Inner;
use super::threads::TIME_SLICE;

/// How often a slow thread lets others have its core between jobs; to ask costs a microsecond.
const YIELD_CORE_EVERY: Duration = Duration::from_micros(100);

/// For how much of a processor a lane has kept a quick thread: since its job began, or since the first of several
/// jobs that never waited.
#[derive(Default)]
pub(super) struct TimeSlice {
    used_ns: AtomicU64,
    /// The thread is a slow one.
    is_long_running: AtomicBool,
}

impl TimeSlice {
    /// Begins anew.
    pub(super) fn restart(&self) {
        self.used_ns.store(0, Ordering::Relaxed);
    }

    fn charge(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.used_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// On a slow thread, lets the kernel run whoever waits for its core, unless it has just done so at `last`:
    /// by itself it would look at the next tick, in up to 4 ms.
    pub(super) fn yield_core(&self, last: &mut Instant) {
        if self.is_long_running.load(Ordering::Relaxed) && last.elapsed() > YIELD_CORE_EVERY {
            thread::yield_now();
            *last = Instant::now();
        }
    }

    fn is_over(&self) -> bool {
        Duration::from_nanos(self.used_ns.load(Ordering::Relaxed)) >= TIME_SLICE
    }
}

/// A lane on its way.
pub(super) struct Demotion {
    inner: Arc<Inner>,
    task: Pin<Box<dyn Future<Output = ()> + Send>>,
    time_slice: Arc<TimeSlice>,
}

impl Demotion {
    /// A lane of this topic that has not begun.
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        let time_slice = Arc::<TimeSlice>::default();
        let task = Box::pin(Arc::clone(&inner).run_tasks(Arc::clone(&time_slice)));
        Self { inner, task, time_slice }
    }

    /// Runs the lane on a quick thread until it closes or has to go over.
    pub(super) async fn run_interactive(mut self) {
        let closed = poll_fn(|context| {
            // By the wall clock it would be charged for what others took while it waited for the core.
            let began = thread_time();
            let polled = self.task.as_mut().poll(context);
            let taken = thread_time().saturating_sub(began);
            self.time_slice.charge(taken);
            self.inner.share.cpu_allowance.spend(Instant::now(), taken);
            match polled {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending if self.time_slice.is_over() => Poll::Ready(false),
                Poll::Pending => Poll::Pending,
            }
        });
        if !closed.await {
            self.inner.share.cpu_allowance.overrun(Instant::now());
            let long_running = self.inner.resources.threads.long_running.clone();
            long_running.spawn(self.run_long_running());
        }
    }

    /// Runs the lane on a slow thread until it closes.
    pub(super) async fn run_long_running(mut self) {
        self.time_slice.is_long_running.store(true, Ordering::Relaxed);
        loop {
            let permit = self.inner.share.long_running.acquire(usize::MAX).await;
            let closed = poll_fn(|context| {
                // Timers and sockets are kept by the quick threads, which are never late.
                let _timers = self.inner.resources.threads.interactive.enter();
                Poll::Ready(self.task.as_mut().poll(context).is_ready())
            });
            let closed = closed.await;
            drop(permit);
            thread::yield_now();
            if closed {
                break;
            }
            woken().await;
        }
    }
}

/// Waits for whoever has been given the task's waker in this poll.
async fn woken() {
    let mut waited = false;
    poll_fn(|_| match std::mem::replace(&mut waited, true) {
        false => Poll::Pending,
        true => Poll::Ready(()),
    })
    .await;
}
