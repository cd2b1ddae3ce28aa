//! The clock that interrupts guests. It raises the engine's epoch every 2 ms while a guest computes, and
//! sleeps while none does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;

use wasmtime::{Engine, EngineWeak};

use crate::error::SandboxError;
use crate::thread_slot::BySlot;

/// How often a guest that computes yields.
const TICK: Duration = Duration::from_millis(2);
/// After this many ticks without a running guest the ticker sleeps.
const IDLE_TICKS: u32 = 500;

/// The epoch thread of one engine. It ends when this handle is dropped.
pub(crate) struct Ticker {
    state: Arc<TickerState>,
    thread: Thread,
}

struct TickerState {
    /// Guests that run, by the thread on which each began.
    running: BySlot<AtomicUsize>,
    asleep: AtomicBool,
    stop: AtomicBool,
    #[cfg(test)]
    panics_next: AtomicBool,
}

/// Keeps the ticker awake for one guest until it is dropped.
pub(crate) struct Running<'a>(&'a AtomicUsize);

impl Ticker {
    pub(crate) fn start(engine: &Engine) -> Result<Arc<Self>, SandboxError> {
        let state = Arc::new(TickerState {
            running: BySlot::default(),
            asleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            #[cfg(test)]
            panics_next: AtomicBool::new(false),
        });
        let (engine, shared) = (engine.weak(), Arc::clone(&state));
        let thread = std::thread::Builder::new()
            .name("epoch".to_owned())
            .spawn(move || shared.keep_ticking(&engine))
            .map_err(|source| SandboxError::Thread { thread: "epoch", source })?;
        Ok(Arc::new(Self { state, thread: thread.thread().clone() }))
    }

    /// Registers a running guest.
    pub(crate) fn run(&self) -> Running<'_> {
        // Sequential consistency guarantees that either this call sees the ticker asleep, or the ticker
        // sees this guest before it sleeps.
        let running = self.state.running.own();
        running.fetch_add(1, Ordering::SeqCst);
        if self.state.asleep.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
        Running(running)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

impl TickerState {
    /// Ticks until the end, also after a panic: without ticks no guest yields or is interrupted.
    fn keep_ticking(&self, engine: &EngineWeak) {
        while catch_unwind(AssertUnwindSafe(|| self.tick(engine))).is_err() {
            self.asleep.store(false, Ordering::SeqCst);
        }
    }

    fn tick(&self, engine: &EngineWeak) {
        let mut idle = 0;
        while !self.stop.load(Ordering::SeqCst) {
            std::thread::sleep(TICK);
            #[cfg(test)]
            assert!(!self.panics_next.swap(false, Ordering::SeqCst), "as a test wants it");
            let Some(engine) = engine.upgrade() else { return };
            engine.increment_epoch();
            idle = if self.has_guests() { 0 } else { idle + 1 };
            if idle >= IDLE_TICKS {
                self.sleep();
                idle = 0;
            }
        }
    }

    fn has_guests(&self) -> bool {
        self.running.all().any(|running| running.load(Ordering::SeqCst) > 0)
    }

    /// Sleeps until a guest runs or the ticker is dropped.
    fn sleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
        while !self.has_guests() && !self.stop.load(Ordering::SeqCst) {
            std::thread::park();
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::engine::on_demand;

    /// Waits for a condition, at most 30 s.
    fn wait_until(condition: impl Fn() -> bool) {
        let began = Instant::now();
        while !condition() {
            assert!(began.elapsed() < Duration::from_secs(30), "waited too long");
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_ticker_sleeps_without_guests_survives_a_panic_and_ends_with_its_owner() {
        let engine = Engine::new(&on_demand(false)).unwrap();
        let ticker = Ticker::start(&engine).unwrap();
        let state = Arc::clone(&ticker.state);
        for _ in 0..2 {
            wait_until(|| state.asleep.load(Ordering::SeqCst));
            let running = ticker.run();
            wait_until(|| !state.asleep.load(Ordering::SeqCst));
            drop(running);
        }
        let running = ticker.run();
        state.panics_next.store(true, Ordering::SeqCst);
        wait_until(|| !state.panics_next.load(Ordering::SeqCst));
        drop(running);
        wait_until(|| state.asleep.load(Ordering::SeqCst));
        drop(ticker);
        wait_until(|| Arc::strong_count(&state) == 1);
    }
}
