//! How a lane gets to slow threads: it begins on a quick one, and when it has kept that for
//! [`TURN_MAX`] it goes over and stays there until it closes. There it waits for its topic's turn before
//! each stretch, so topics share the slow threads equally, however many lanes each has there.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use duebox_sandbox::thread_cpu_time;

use super::Shared;
use super::threads::TURN_MAX;

/// How often a slow thread lets others have its core between jobs; to ask costs a microsecond.
const GIVE_WAY_EVERY: Duration = Duration::from_micros(100);

/// For how much of a processor a lane has kept a quick thread: since its job began, or since the first of several
/// jobs that never waited.
#[derive(Default)]
pub(super) struct Stretch {
    kept_ns: AtomicU64,
    /// The thread is a slow one.
    is_slow: AtomicBool,
}

impl Stretch {
    /// Begins anew.
    pub(super) fn begin(&self) {
        self.kept_ns.store(0, Ordering::Relaxed);
    }

    fn keep(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.kept_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// On a slow thread, lets the kernel run whoever waits for its core, unless it has just done so at `last`:
    /// by itself it would look at the next tick, in up to 4 ms.
    pub(super) fn give_way(&self, last: &mut Instant) {
        if self.is_slow.load(Ordering::Relaxed) && last.elapsed() > GIVE_WAY_EVERY {
            thread::yield_now();
            *last = Instant::now();
        }
    }

    fn is_long(&self) -> bool {
        Duration::from_nanos(self.kept_ns.load(Ordering::Relaxed)) >= TURN_MAX
    }
}

/// A lane on its way.
pub(super) struct Crossing {
    shared: Arc<Shared>,
    lane: Pin<Box<dyn Future<Output = ()> + Send>>,
    stretch: Arc<Stretch>,
}

impl Crossing {
    /// A lane of this topic that has not begun.
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let stretch = Arc::<Stretch>::default();
        let lane = Box::pin(Arc::clone(&shared).lane(Arc::clone(&stretch)));
        Self { shared, lane, stretch }
    }

    /// Runs the lane on a quick thread until it closes or has to go over.
    pub(super) async fn quick(mut self) {
        let closed = poll_fn(|context| {
            // By the wall clock it would be charged for what others took while it waited for the core.
            let began = thread_cpu_time();
            let polled = self.lane.as_mut().poll(context);
            let taken = thread_cpu_time().saturating_sub(began);
            self.stretch.keep(taken);
            self.shared.share.quick_time.spend(Instant::now(), taken);
            match polled {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending if self.stretch.is_long() => Poll::Ready(false),
                Poll::Pending => Poll::Pending,
            }
        });
        if !closed.await {
            self.shared.share.quick_time.overstay(Instant::now());
            let slow = self.shared.ground.threads.slow.clone();
            slow.spawn(self.slow());
        }
    }

    /// Runs the lane on a slow thread until it closes.
    pub(super) async fn slow(mut self) {
        self.stretch.is_slow.store(true, Ordering::Relaxed);
        loop {
            let turn = self.shared.share.turns.enter(usize::MAX).await;
            let closed = poll_fn(|context| {
                // Timers and sockets are kept by the quick threads, which are never late.
                let _quick = self.shared.ground.threads.quick.enter();
                Poll::Ready(self.lane.as_mut().poll(context).is_ready())
            });
            let closed = closed.await;
            drop(turn);
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
