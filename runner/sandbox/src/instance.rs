//! One instance of a module with its store, from its making to its last job. Most run one job and end; one
//! of a warm topic, or of a snapshot to which it is put back, runs the next as long as every job ended well.

pub(crate) mod cache;
pub(crate) mod cpu_time;
pub(crate) mod guest;
pub(crate) mod interrupt;
pub(crate) mod limiter;
pub(crate) mod page_map;
pub(crate) mod reset;

use std::sync::Arc;
use std::time::Instant;

use wasmtime::{
    Extern, Memory, ModuleExport, Store, TypedFunc, UpdateDeadline, WasmParams, WasmResults,
};

use crate::handler::{Entry, Loaded};
use crate::imports::call as memory;
use crate::imports::log::JobLog;
use crate::imports::services::World;
use crate::imports::wasi;
use crate::instance::guest::{Guest, Phase};
use crate::instance::reset::Parts;
use crate::invocation::Invocation;

/// An instance, or a store that waits for one.
pub(crate) struct Instance {
    pub(crate) store: Store<Guest>,
    exports: Option<Exports>,
    /// What is put back after a job, if the instance is.
    parts: Option<Parts>,
    /// Jobs it has been given.
    jobs: u32,
}

/// What the host calls, looked up once.
enum Exports {
    Pull { handle: TypedFunc<u32, i32> },
    Push { handle: TypedFunc<(u32, u32), i32>, alloc: TypedFunc<u32, u32>, memory: Memory },
}

impl Instance {
    /// A store for a new instance.
    pub(crate) fn new(loaded: &Loaded, guest: Guest) -> wasmtime::Result<Box<Self>> {
        let mut store = Store::try_new(loaded.engine(), guest)?;
        store.limiter(|guest| &mut guest.meter);
        // At every tick the guest gives way, which is when `run` sees an interrupt. It would see the
        // deadline too, but late: a thread that is never idle looks at its timers rarely.
        store.epoch_deadline_callback(|store| {
            Ok(match store.data().clock.left().is_zero() {
                true => UpdateDeadline::Interrupt,
                false => UpdateDeadline::Yield(1),
            })
        });
        if loaded.imports_wasi() {
            store.set_hostcall_fuel(wasi::CALL_BYTES_MAX);
        }
        let mut instance = Box::new(Self { store, exports: None, parts: None, jobs: 1 });
        instance.wind_up()?;
        Ok(instance)
    }

    /// Gives the instance another job.
    pub(crate) fn start_over(
        &mut self,
        invocation: Invocation,
        log: Arc<JobLog>,
        world: Arc<World>,
        began: Instant,
    ) -> wasmtime::Result<()> {
        let guest = self.store.data_mut();
        guest.start_over(invocation, log, world, began);
        if self.parts.is_some() {
            guest.born = Some(guest.clock.started);
        }
        self.jobs = self.jobs.saturating_add(1);
        self.wind_up()
    }

    /// Gives the job its first tick and its fuel: one unit more than the budget, because wasmtime looks
    /// at what is left only now and then. Whoever has taken that one too is over the budget.
    fn wind_up(&mut self) -> wasmtime::Result<()> {
        self.store.set_epoch_deadline(1);
        match self.store.data().fuel {
            0 => Ok(()),
            fuel => self.store.set_fuel(fuel.saturating_add(1)),
        }
    }

    /// Whether it may run one more job, as far as its own state tells; where that has to be, it is put back
    /// to its start first.
    pub(crate) fn is_good_for_more(&mut self, loaded: &Loaded) -> bool {
        match (&loaded.origin, &self.parts) {
            (Some(origin), Some(parts)) => {
                self.store.data_mut().drop_wasi();
                origin.put_back(&mut self.store, parts)
            }
            (Some(_), None) => false,
            (None, _) => {
                self.exports.is_some()
                    && self.jobs < loaded.jobs_each()
                    && !self.store.data().meter.is_grown()
                    && self.store.data_mut().left_wasi_as_given()
            }
        }
    }

    /// Bytes of the memory of all guests that it holds.
    pub(crate) fn memory_held(&self) -> usize {
        self.store.data().meter.held()
    }

    /// The fuel that this job has burnt, at most its budget; none if it has no budget.
    pub(crate) fn fuel_used(&self) -> Option<u64> {
        match self.store.data().fuel {
            0 => None,
            fuel => Some(fuel.saturating_sub(self.fuel_left().saturating_sub(1))),
        }
    }

    /// Whether the job has burnt more than its budget.
    pub(crate) fn is_out_of_fuel(&self) -> bool {
        self.store.data().fuel > 0 && self.fuel_left() == 0
    }

    /// The rest of what [`wind_up`](Self::wind_up) gave.
    fn fuel_left(&self) -> u64 {
        self.store.get_fuel().unwrap_or(0)
    }

    /// Runs the job to its verdict.
    pub(crate) async fn answer(&mut self, loaded: &Loaded) -> wasmtime::Result<i32> {
        if self.exports.is_none() {
            // Beside the rest of the job, which is the smaller for it, and that often handed on.
            self.exports = Some(Box::pin(self.instantiate(loaded)).await?);
        }
        let Self { store, exports, .. } = self;
        // A payload that is longer than wasm32 can count is refused by the runner long before.
        let length = u32::try_from(store.data().invocation.payload.len()).unwrap_or(u32::MAX);
        match exports {
            Some(Exports::Pull { handle }) => handle.call_async(store, length).await,
            Some(Exports::Push { handle, alloc, memory }) => {
                let pointer = alloc.call_async(&mut *store, length).await?;
                hand_over(store, *memory, pointer, length)?;
                handle.call_async(store, (pointer, length)).await
            }
            None => Err(wasmtime::Error::msg("the instance was not made")),
        }
    }

    /// Makes the instance and initialises it.
    async fn instantiate(&mut self, loaded: &Loaded) -> wasmtime::Result<Exports> {
        let store = &mut self.store;
        let instance = loaded.instantiate(store).await?;
        if let Some(origin) = &loaded.origin {
            self.parts = origin.look(store, &instance);
        }
        if let Some(export) = &loaded.initialize {
            let initialize = function::<(), ()>(store, &instance, export)?;
            initialize.call_async(&mut *store, ()).await?;
        }
        store.data_mut().phase = Phase::Handling;
        Ok(match &loaded.entry {
            Entry::Pull { handle } => Exports::Pull { handle: function(store, &instance, handle)? },
            Entry::Push { handle, alloc } => {
                let found =
                    loaded.memory.and_then(|it| instance.get_module_export(&mut *store, &it));
                let Some(Extern::Memory(memory)) = found else {
                    return Err(memory::Fault::NoMemory { import: "alloc" }.into());
                };
                let (handle, alloc) =
                    (function(store, &instance, handle)?, function(store, &instance, alloc)?);
                Exports::Push { handle, alloc, memory }
            }
        })
    }
}

/// Writes the payload where `alloc` said.
fn hand_over(
    store: &mut Store<Guest>,
    memory: Memory,
    pointer: u32,
    length: u32,
) -> wasmtime::Result<()> {
    let (bytes, guest) = memory.data_and_store_mut(store);
    let target = memory::range(bytes.len(), "alloc", pointer, length)?;
    bytes[target].copy_from_slice(&guest.invocation.payload);
    guest.traffic.gave(guest.invocation.payload.len());
    Ok(())
}

pub(crate) fn function<P: WasmParams, R: WasmResults>(
    store: &mut Store<Guest>,
    instance: &wasmtime::Instance,
    export: &ModuleExport,
) -> wasmtime::Result<TypedFunc<P, R>> {
    match instance.get_module_export(&mut *store, export) {
        Some(Extern::Func(function)) => function.typed(&*store),
        _ => Err(wasmtime::Error::msg("the module lost an export it had when it was loaded")),
    }
}
