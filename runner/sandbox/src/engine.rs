//! The Wasmtime engines that handlers run in.
//!
//! Handlers with a fuel limit have their own engine, so that fuel counting costs the others nothing.
//! Handlers whose instances are reset between jobs have one too, because its pool wipes memory differently.
//!
//! Instances come from a pool of prepared slots, which are wiped and reused. This makes a new instance for
//! each job affordable. If the machine refuses the address space of the pool, instances are allocated on
//! demand: slower, but with the same behaviour.

pub(crate) mod ticker;

use wasmtime::{Config, Enabled, Engine, PoolingAllocationConfig};

use crate::config::SandboxConfig;
use crate::error::SandboxError;
use crate::limits::TABLES_PER_MODULE;
use crate::thread_slot::SLOTS;

/// How many idle instances of all modules together are kept for the next job, beyond one for each thread slot.
pub(crate) const IDLE_INSTANCES_MAX: u32 = 64;
/// Pool slots beyond `max_jobs`: during a reload the old and the new module run side by side, and idle
/// instances occupy slots.
const SLOTS_SPARE: u32 = 64 + IDLE_INSTANCES_MAX + SLOTS as u32;
/// Bytes of a slot's memory that are zeroed in place instead of unmapped. A Go module writes megabytes in
/// `_initialize`: zeroing them is cheaper than faulting them in again. An instance that is reset between jobs
/// writes a few pages, for which unmapping is cheaper.
const KEEP_RESIDENT: usize = 4 << 20;
const KEEP_RESIDENT_IF_RESET: usize = 256 << 10;
/// Stack of a guest, in bytes.
const WASM_STACK: usize = 512 << 10;
/// Stack of the fiber that the guest and its host functions run on, in bytes.
const FIBER_STACK: usize = 1 << 20;
/// Memory images up to this size are mapped copy-on-write, even if they are sparse, as those of Go are.
const DENSE_IMAGE_MAX: u64 = 64 << 20;
/// Bytes of a module's metadata: a module with 100,000 functions needs a few MiB.
const INSTANCE_METADATA_MAX: usize = 16 << 20;
/// Bytes of a table that are zeroed in place instead of unmapped.
const TABLE_KEEP_RESIDENT: usize = 64 << 10;
/// The smallest number of table elements that a pool is built for, so that a reload can raise a limit.
const POOL_TABLES_MIN: u32 = 1_000_000;

/// What distinguishes one engine from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EngineKind {
    /// Its modules count the fuel that they burn.
    pub(crate) counts_fuel: bool,
    /// Its instances are reset between jobs, if they can be.
    pub(crate) resets_instances: bool,
}

/// An engine for jobs.
pub(crate) struct JobEngine {
    pub(crate) engine: Engine,
    /// Whether instances come from a pool. If not, they are allocated on demand.
    pub(crate) is_pooling: bool,
}

/// How many elements each table of the pool holds.
pub(crate) fn pool_tables(config: &SandboxConfig) -> u32 {
    config.tables_max.max(POOL_TABLES_MIN)
}

/// Starts an engine for jobs. Falls back to instances on demand if there is no address space for a pool.
pub(crate) fn start(config: &SandboxConfig, kind: EngineKind) -> Result<JobEngine, SandboxError> {
    let mut pooling = on_demand(kind.counts_fuel);
    pooling.allocation_strategy(pool(config, kind));
    let refused = match Engine::new(&pooling) {
        Ok(engine) => return Ok(JobEngine { engine, is_pooling: true }),
        Err(error) => error,
    };
    tracing::warn!(
        "no address space for a pool of {} sandboxes ({refused:#}): instances are allocated on demand and jobs \
         run slower; lower runner.max_jobs or the topics' `tables`, or raise the limit (ulimit -v, \
         vm.overcommit_memory)",
        config.max_jobs
    );
    let engine = Engine::new(&on_demand(kind.counts_fuel))
        .map_err(|error| SandboxError::Engine { reason: format!("{error:#}") })?;
    Ok(JobEngine { engine, is_pooling: false })
}

/// The settings that all engines share. Compiled code fits every engine with the same `counts_fuel`.
pub(crate) fn on_demand(counts_fuel: bool) -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .consume_fuel(counts_fuel)
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(FIBER_STACK)
        .memory_guaranteed_dense_image_size(DENSE_IMAGE_MAX)
        .concurrency_support(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false);
    config
}

fn pool(config: &SandboxConfig, kind: EngineKind) -> PoolingAllocationConfig {
    let keep = if kind.resets_instances { KEEP_RESIDENT_IF_RESET } else { KEEP_RESIDENT };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let slots = config.max_jobs.max(1).saturating_add(SLOTS_SPARE);
    let unused_warm = u32::try_from(4 * cores).unwrap_or(u32::MAX);
    let mut pool = PoolingAllocationConfig::new();
    // An interpreter and its memory are two instances.
    pool.total_core_instances(slots.saturating_mul(2))
        .total_memories(slots)
        .total_tables(slots.saturating_mul(TABLES_PER_MODULE))
        .total_stacks(slots)
        .max_tables_per_module(TABLES_PER_MODULE)
        .table_elements(pool_tables(config) as usize)
        .max_core_instance_size(INSTANCE_METADATA_MAX)
        .linear_memory_keep_resident(keep.min(config.memory_max))
        .table_keep_resident(TABLE_KEEP_RESIDENT)
        .max_unused_warm_slots(unused_warm)
        .decommit_batch_size(if cores <= 2 { 1 } else { cores.min(32) })
        // With it, Wasmtime 48.0.8 lets swapped-out pages of one job survive into the next
        // (wasmtime#14357).
        .pagemap_scan(Enabled::No);
    pool
}
