//! Evaluates a program in its interpreter: once, when the handler is loaded. What remains is the memory that all
//! its instances start with.
//!
//! While it is evaluated there is no job, and the clock is frozen. Only `log` and `random` work; random
//! bytes come from the seed of the snapshot.

use std::sync::Arc;

use wasmtime::{Memory, Store};

use super::engine_context::EngineContext;
use super::error::{LoadError, SnapshotError};
use super::init_time::{self, TooSlow};
use super::snapshot;
use crate::grants::Grants;
use crate::imports::wasi;
use crate::instance::guest::Guest;
use crate::instance::limit_store;
use crate::instance::linked::{LinkedInterpreter, MEMORY};
use crate::limits::Limits;
use crate::outcome::failure::End;
use crate::snapshot_seed::SnapshotSeed;

/// The memory of the interpreter after it has evaluated a program. Blocks, for as long as the program's top level
/// runs.
pub(super) fn evaluate(
    context: &EngineContext,
    linked: &LinkedInterpreter,
    program: &[u8],
    limits: &Limits,
    (grants, seed): (&Grants, SnapshotSeed),
) -> Result<Vec<u8>, LoadError> {
    let _running = context.ticker.run();
    let work = || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().map_err(|_| SnapshotError::Thread)?;
        runtime.block_on(run(linked, program, limits, (grants, seed)))
    };
    // On its own thread: the caller may be inside a runtime.
    let evaluated = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("evaluate".to_owned());
        Some(thread.spawn_scoped(scope, work).ok()?.join())
    });
    match evaluated {
        Some(Ok(evaluated)) => evaluated,
        Some(Err(_)) => Err(SnapshotError::Panicked.into()),
        None => Err(SnapshotError::Thread.into()),
    }
}

async fn run(
    linked: &LinkedInterpreter,
    program: &[u8],
    limits: &Limits,
    (grants, seed): (&Grants, SnapshotSeed),
) -> Result<Vec<u8>, LoadError> {
    let memory_export = linked.code.get_export_index(MEMORY);
    let guest = snapshot::guest_without_job(memory_export, limits, Arc::new(grants.clone()), seed)?;
    let mut store = Store::try_new(linked.code.engine(), guest).map_err(snapshot::refused)?;
    limit_store(&mut store);
    store.set_epoch_deadline(1);
    store.set_hostcall_fuel(wasi::CALL_BYTES_MAX);
    if let Some(fuel) = limits.fuel {
        store.set_fuel(fuel.get()).map_err(snapshot::refused)?;
    }
    let end = match init_time::limited(initialize(linked, program, &mut store)).await {
        Ok(Ok(memory)) => return Ok(memory.data(&store).to_vec()),
        Ok(Err(error)) => End::Error(error),
        Err(TooSlow) => End::TimedOut,
    };
    let reason = snapshot::reason(end, store.data_mut());
    let log = store.data().log.take_tail();
    let log = log.iter().map(|line| line.strip_prefix("error: ").unwrap_or(line));
    let log: Vec<&str> = log.collect();
    // The interpreter writes the error of the program to the log before it traps.
    let reason = match log.is_empty() {
        true => format!("its top level failed: {reason}"),
        false => log.join("\n"),
    };
    Err(LoadError::Program { reason })
}

async fn initialize(
    linked: &LinkedInterpreter,
    program: &[u8],
    store: &mut Store<Guest>,
) -> wasmtime::Result<Memory> {
    let instance = linked.instantiate(store).await?;
    let no_memory = || wasmtime::Error::msg("the interpreter exports no memory");
    let memory = instance.get_memory(&mut *store, MEMORY).ok_or_else(no_memory)?;
    let room = instance.get_typed_func::<u32, u32>(&mut *store, "program")?;
    let length = u32::try_from(program.len())?;
    let address = room.call_async(&mut *store, length).await?;
    memory.write(&mut *store, address as usize, program)?;
    let initialize = instance.get_typed_func::<(), ()>(&mut *store, "_initialize")?;
    initialize.call_async(&mut *store, ()).await?;
    Ok(memory)
}
