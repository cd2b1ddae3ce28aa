//! The engines that handlers run in, and the clock that interrupts them. Handlers with a budget of fuel have
//! an engine of their own, so that counting costs the others nothing, and so have those that start from a
//! snapshot, whose memory is best wiped in another way.
//!
//! Instances come from a pool of slots, prepared once and reused after they are wiped: that is what
//! makes a fresh instance a job affordable. Where the machine refuses the address space of a pool,
//! instances are made on demand, slower and otherwise the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use wasmtime::{Config, Enabled, Engine, EngineWeak, PoolingAllocationConfig};

use crate::instance::cache::WARM_MAX;
use crate::limits::TABLES_PER_MODULE;
use crate::module::error::SandboxError;
use crate::sandbox::SandboxConfig;

/// How often a guest that computes gives way.
const TICK: Duration = Duration::from_millis(2);
/// Ticks at which no guest computes, after which the ticker sleeps until one does.
const IDLE_TICKS: u32 = 500;
/// Slots beyond the jobs at once: old and new module live side by side during a reload, and warm
/// instances wait for their next job.
const SLOTS_SPARE: u32 = 64 + WARM_MAX;
/// Bytes of a slot's memory that are wiped in place rather than given back. An instance of Go that is
/// initialised afresh writes megabytes, which cost less to copy than to fault in; one that starts from a
/// snapshot writes a few pages of them, where it is the other way round.
const KEEP_RESIDENT: usize = 4 << 20;
const KEEP_RESIDENT_OF_SNAPSHOTS: usize = 256 << 10;
/// Stack of a guest, and of the fiber it and the host functions it calls run on, in bytes.
const WASM_STACK: usize = 512 << 10;
const FIBER_STACK: usize = 1 << 20;

/// The table elements a pool is built for at least: a topic may raise its limit by a reload.
const POOL_TABLES_MIN: u32 = 1_000_000;

/// What sets one engine apart from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Its modules count the fuel they burn.
    pub(crate) metered: bool,
    /// Its instances start from snapshots.
    pub(crate) snapshots: bool,
}

/// How many elements each table of the pool holds.
pub(crate) fn pool_tables(config: &SandboxConfig) -> u32 {
    config.tables_max.max(POOL_TABLES_MIN)
}

/// An engine for jobs, and whether it has a pool.
pub(crate) fn start(config: &SandboxConfig, kind: Kind) -> Result<(Engine, bool), SandboxError> {
    let mut pooling = on_demand(kind.metered);
    pooling.allocation_strategy(pool(config, kind));
    let refused = match Engine::new(&pooling) {
        Ok(engine) => return Ok((engine, true)),
        Err(error) => error,
    };
    tracing::warn!(
        "the machine refuses the address space for {} sandboxes ({refused:#}): jobs run slower, \
         each instance is made on demand; lower runner.max_jobs or the topics' `tables`, or lift the \
         limit (ulimit -v, vm.overcommit_memory)",
        config.max_jobs
    );
    let engine = Engine::new(&on_demand(kind.metered));
    Ok((engine.map_err(|error| SandboxError::Engine(format!("{error:#}")))?, false))
}

/// What every engine here has in common; compiled code fits all that count fuel, or all that do not.
pub(crate) fn on_demand(metered: bool) -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .consume_fuel(metered)
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(FIBER_STACK)
        // Go's initial memory is sparse; with an image it is mapped, not copied.
        .memory_guaranteed_dense_image_size(64 << 20)
        .concurrency_support(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false);
    config
}

fn pool(config: &SandboxConfig, kind: Kind) -> PoolingAllocationConfig {
    let keep = if kind.snapshots { KEEP_RESIDENT_OF_SNAPSHOTS } else { KEEP_RESIDENT };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let slots = config.max_jobs.max(1).saturating_add(SLOTS_SPARE);
    let warm = u32::try_from(4 * cores).unwrap_or(u32::MAX);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(slots)
        .total_memories(slots)
        .total_tables(slots.saturating_mul(TABLES_PER_MODULE))
        .total_stacks(slots)
        .max_tables_per_module(TABLES_PER_MODULE)
        .table_elements(pool_tables(config) as usize)
        // The metadata of a module with 100,000 functions is a few MiB.
        .max_core_instance_size(16 << 20)
        .linear_memory_keep_resident(keep.min(config.memory_max))
        .table_keep_resident(64 << 10)
        .max_unused_warm_slots(warm)
        .decommit_batch_size(if cores <= 2 { 1 } else { cores.min(32) })
        // Off for isolation: with it, 48.0.8 lets swapped-out pages of one job survive into the
        // next (wasmtime#14357).
        .pagemap_scan(Enabled::No);
    pool
}

/// Raises the engine's epoch every 2 ms while a guest computes, and sleeps while none does.
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Thread,
}

struct Shared {
    running: AtomicUsize,
    asleep: AtomicBool,
    stop: AtomicBool,
}

/// A guest computes as long as this lives.
pub(crate) struct Running<'a>(&'a Ticker);

impl Ticker {
    pub(crate) fn start(engine: &Engine) -> Result<Arc<Self>, SandboxError> {
        let shared = Arc::new(Shared {
            running: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let (engine, seen) = (engine.weak(), Arc::clone(&shared));
        let thread: std::io::Result<JoinHandle<()>> =
            std::thread::Builder::new().name("epoch".to_owned()).spawn(move || seen.tick(&engine));
        let thread = thread
            .map_err(|error| SandboxError::Thread { what: "epoch", why: error.to_string() })?;
        Ok(Arc::new(Self { shared, thread: thread.thread().clone() }))
    }

    /// Keeps the clock ticking for one guest.
    pub(crate) fn run(&self) -> Running<'_> {
        // Either this sees the ticker asleep, or the ticker sees this guest before it sleeps.
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        if self.shared.asleep.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
        Running(self)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.shared.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

impl Shared {
    fn tick(&self, engine: &EngineWeak) {
        let mut idle = 0;
        while !self.stop.load(Ordering::SeqCst) {
            std::thread::sleep(TICK);
            let Some(engine) = engine.upgrade() else { return };
            engine.increment_epoch();
            idle = if self.running.load(Ordering::SeqCst) == 0 { idle + 1 } else { 0 };
            if idle >= IDLE_TICKS {
                self.sleep();
                idle = 0;
            }
        }
    }

    /// Sleeps until a guest runs or the ticker is dropped.
    fn sleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
        while self.running.load(Ordering::SeqCst) == 0 && !self.stop.load(Ordering::SeqCst) {
            std::thread::park();
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Waits for a condition, at most 30 s.
    fn wait_until(condition: impl Fn() -> bool) {
        let began = Instant::now();
        while !condition() {
            assert!(began.elapsed() < Duration::from_secs(30), "waited too long");
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_ticker_sleeps_without_guests_wakes_for_one_and_ends_with_its_owner() {
        let engine = Engine::new(&on_demand(false)).unwrap();
        let ticker = Ticker::start(&engine).unwrap();
        let shared = Arc::clone(&ticker.shared);
        for _ in 0..2 {
            wait_until(|| shared.asleep.load(Ordering::SeqCst));
            let running = ticker.run();
            wait_until(|| !shared.asleep.load(Ordering::SeqCst));
            drop(running);
        }
        wait_until(|| shared.asleep.load(Ordering::SeqCst));
        drop(ticker);
        wait_until(|| Arc::strong_count(&shared) == 1);
    }
}
