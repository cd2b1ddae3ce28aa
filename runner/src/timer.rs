//! Timers with a resolution of some tens of microseconds. Tokio timers have 1 ms granularity and round up,
//! so a job would start up to 1 ms late. Here one thread sleeps until the earliest deadline. No wait ends
//! early.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
#[cfg(target_os = "linux")]
use std::num::NonZero;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::observe::{fail_point, panics};

/// A timer. Clones share its thread, which ends with the last of them.
#[derive(Clone)]
pub struct Timer(TimerKind);

#[derive(Clone)]
enum TimerKind {
    Thread(Arc<Owner>),
    /// Tokio's timer, whose clock a simulation controls.
    Tokio,
}

struct Owner(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// By deadline, then by the order in which they were added.
    wakers: BTreeMap<(Instant, u64), Waker>,
    next: u64,
    /// Until when the thread sleeps; `None` while it waits for a first deadline.
    sleeps_until: Option<Instant>,
    is_over: bool,
}

/// A wait for a moment.
struct Sleep<'t> {
    timer: &'t Shared,
    when: Instant,
    key: Option<(Instant, u64)>,
}

impl Timer {
    /// Starts the timer's thread.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn start() -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let its = Arc::clone(&shared);
        // Without it no worker would wake up in time.
        let call = move || {
            sleep_precisely();
            panics::or_abort_blocking("the timer", || its.call())
        };
        thread::Builder::new().name("timer".to_owned()).spawn(call)?;
        Ok(Self(TimerKind::Thread(Arc::new(Owner(shared)))))
    }

    /// A timer without a thread, with the resolution of Tokio's timers. For simulations.
    #[doc(hidden)]
    pub fn of_tokio() -> Self {
        Self(TimerKind::Tokio)
    }

    /// Waits until a moment. It ends some microseconds later, never earlier.
    pub async fn sleep_until(&self, when: Instant) {
        match &self.0 {
            TimerKind::Thread(owner) => Sleep { timer: &owner.0, when, key: None }.await,
            TimerKind::Tokio => tokio::time::sleep_until(when.into()).await,
        }
    }

    #[cfg(test)]
    fn shared(&self) -> &Arc<Shared> {
        match &self.0 {
            TimerKind::Thread(owner) => &owner.0,
            TimerKind::Tokio => unreachable!("it has no thread"),
        }
    }
}

/// Lets sleeps of the calling thread end on time: by default Linux lets them end up to 50 µs late.
fn sleep_precisely() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::set_current_timer_slack(Some(NonZero::<u64>::MIN)) {
        tracing::debug!(%error, "waits end up to 50 µs late");
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.waiting.lock().is_over = true;
        self.0.changed.notify_one();
    }
}

impl Shared {
    /// Wakes the waits whose deadline has passed, until the timer is dropped.
    fn call(&self) {
        let mut waiting = self.waiting.lock();
        while !waiting.is_over {
            fail_point::pass("timer");
            let now = Instant::now();
            let due = waiting.take_due(now);
            if !due.is_empty() {
                drop(waiting);
                due.into_iter().for_each(Waker::wake);
                waiting = self.waiting.lock();
                continue;
            }
            waiting.sleeps_until = waiting.wakers.first_key_value().map(|((when, _), _)| *when);
            match waiting.sleeps_until {
                None => self.changed.wait(&mut waiting),
                Some(when) => drop(self.changed.wait_until(&mut waiting, when)),
            }
        }
    }
}

impl Waiting {
    fn take_due(&mut self, now: Instant) -> Vec<Waker> {
        let mut due = Vec::new();
        while let Some(first) = self.wakers.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        due
    }
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.when {
            return Poll::Ready(());
        }
        let mut waiting = self.timer.waiting.lock();
        let key = self.key.unwrap_or_else(|| {
            waiting.next += 1;
            (self.when, waiting.next)
        });
        waiting.wakers.insert(key, context.waker().clone());
        // A thread that wakes before this deadline finds it by itself.
        let oversleeps = waiting.sleeps_until.is_none_or(|until| until > self.when);
        if oversleeps {
            waiting.sleeps_until = Some(self.when);
            self.timer.changed.notify_one();
        }
        drop(waiting);
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.timer.waiting.lock().wakers.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test]
    async fn no_wait_ends_early_whatever_the_order() {
        let timer = Timer::start().unwrap();
        let began = Instant::now();
        let wait = async |ms: u32| {
            timer.sleep_until(began + ms * MS).await;
            began.elapsed()
        };
        let (late, soon, now) = tokio::join!(wait(30), wait(5), wait(0));
        assert!(soon >= 5 * MS && late >= 30 * MS, "{soon:?} {late:?}");
        assert!(now <= soon && soon <= late, "{now:?} {soon:?} {late:?}");
    }

    #[tokio::test]
    async fn a_dropped_wait_is_removed() {
        let timer = Timer::start().unwrap();
        let began = Instant::now();
        {
            let mut long = std::pin::pin!(timer.sleep_until(began + 3_600_000 * MS));
            tokio::select! {
                () = &mut long => unreachable!("it waits for an hour"),
                () = timer.sleep_until(began + 2 * MS) => {}
            }
            assert_eq!(timer.shared().waiting.lock().wakers.len(), 1);
        }
        assert!(timer.shared().waiting.lock().wakers.is_empty());
    }

    #[tokio::test]
    async fn the_thread_ends_with_the_timer() {
        let timer = Timer::start().unwrap();
        let shared = Arc::downgrade(timer.shared());
        timer.sleep_until(Instant::now() + MS).await;
        drop(timer);
        while shared.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn waits_end_closer_to_their_deadline_than_those_of_tokio() {
        let timer = Timer::start().unwrap();
        let (mut these, mut those) = (Vec::new(), Vec::new());
        for n in 0..50 {
            let wait = 3 * MS + Duration::from_micros(n * 37);
            let when = Instant::now() + wait;
            timer.sleep_until(when).await;
            these.push(when.elapsed());
            let when = Instant::now() + wait;
            tokio::time::sleep_until(when.into()).await;
            those.push(when.elapsed());
        }
        these.sort();
        those.sort();
        println!("median delay {:?}, with Tokio's timer {:?}", these[25], those[25]);
        assert!(these[25] < those[25]);
    }
}
