//! How late this machine runs a thread. A promise in seconds is for an idle machine: a test prints what it measured, and
//! fails at several times the promise, or more on a machine that runs its threads late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The project promises that work goes on so soon after a new primary, or the new server of a slot, accepts writes.
const RESUMES_WITHIN: Duration = Duration::from_secs(2);
const SLEEP: Duration = Duration::from_millis(5);
/// A test fails after this, so that other tests on the same cores fail none. What is printed tells whether the promise holds.
const FAILS_AFTER: Duration = Duration::from_secs(10);
/// How often something may be late by the worst lateness on the way to one result: some processes that take turns.
const TURNS: u32 = 20;

/// Measures while it lives.
#[derive(Debug)]
pub struct Lateness {
    worst_us: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Lateness {
    /// Begins to measure.
    pub fn measure() -> Self {
        let (worst_us, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (worst, over) = (Arc::clone(&worst_us), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let began = Instant::now();
                thread::sleep(SLEEP);
                let late = began.elapsed().saturating_sub(SLEEP);
                let late_us = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
                worst.fetch_max(late_us, Ordering::Relaxed);
            }
        });
        Self { worst_us, is_over, thread: Some(thread) }
    }

    /// The longest that a thread was late so far.
    pub fn worst(&self) -> Duration {
        Duration::from_micros(self.worst_us.load(Ordering::Relaxed))
    }

    /// What a promise for an idle machine allows on this one: twenty times the worst lateness more.
    pub fn allows(&self, promised: Duration) -> Duration {
        promised + self.worst() * TURNS
    }

    /// Checks how long a new server accepted writes before work went on there. Prints it beside the promise.
    ///
    /// # Panics
    /// If it took several times as long as promised.
    #[expect(clippy::print_stdout, reason = "a test says what it measured")]
    pub fn check_resumed(&self, what: &str, after: Duration) {
        let allowed = self.allows(FAILS_AFTER);
        println!("{what}: work goes on after {after:.0?}, promised are {RESUMES_WITHIN:.0?}");
        assert!(after < allowed, "{what}: {after:?}, threads are up to {:?} late", self.worst());
    }
}

impl Drop for Lateness {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It does nothing that can fail.
            drop(thread.join());
        }
    }
}
