//! One instance of a module with its store, from creation to its last job.
//!
//! Most instances run one job. An instance that is reset, or whose topic keeps instances warm, runs the next job as long
//! as every job ended well.

pub(crate) mod cache;
pub(crate) mod cpu_time;
pub(crate) mod guest;
pub(crate) mod image_content;
pub(crate) mod interrupt;
pub(crate) mod limiter;
pub(crate) mod linked;
pub(crate) mod page_faults;
mod page_map;
pub(crate) mod reset;
pub(crate) mod template;

use wasmtime::{
    Extern, Memory, ModuleExport, Store, TypedFunc, UpdateDeadline, WasmParams, WasmResults,
};

use self::guest::{Attempt, Guest};
use self::page_faults::PageFaults;
use self::reset::Resettable;
use self::template::{EntryPoint, Template};
use crate::imports::call::{self, GuestState as _, Phase};
use crate::imports::clock::InstanceClock;
use crate::imports::fault::Fault;
use crate::imports::wasi;

/// An instance, or a store for one that has not been created yet.
pub(crate) struct Instance {
    pub(crate) store: Store<Guest>,
    exports: Option<Exports>,
    /// What a reset restores, if the instance can be reset.
    resettable: Option<Resettable>,
    /// How many jobs it was given.
    jobs: u32,
}

/// The functions that the host calls, looked up once.
enum Exports {
    Pull { handle: TypedFunc<u32, i32> },
    Push { handle: TypedFunc<(u32, u32), i32>, alloc: TypedFunc<u32, u32>, memory: Memory },
}

impl Instance {
    /// A store for a new instance.
    pub(crate) fn new(template: &Template, attempt: Attempt) -> wasmtime::Result<Box<Self>> {
        let store = new_store(template, template.guest(attempt))?;
        let mut instance = Box::new(Self { store, exports: None, resettable: None, jobs: 1 });
        instance.arm()?;
        Ok(instance)
    }

    /// Gives the instance another job.
    pub(crate) fn begin_job(&mut self, attempt: Attempt) -> wasmtime::Result<()> {
        self.store.data_mut().begin_job(attempt);
        self.count_job()
    }

    /// Gives the instance the job of another one, which has not started it.
    pub(crate) fn take_job(&mut self, from: &mut Self) -> wasmtime::Result<()> {
        self.store.data_mut().take_job(from.store.data_mut());
        self.count_job()
    }

    fn count_job(&mut self) -> wasmtime::Result<()> {
        let guest = self.store.data_mut();
        if self.resettable.is_some() {
            guest.instance_clock = InstanceClock::Running { since: guest.job.clock.started };
        }
        self.jobs = self.jobs.saturating_add(1);
        self.arm()
    }

    /// Sets the first epoch deadline and the fuel of a job. The fuel is one unit more than the limit:
    /// Wasmtime checks it only at some instructions, and a job that has burnt the extra unit exceeds its
    /// limit.
    fn arm(&mut self) -> wasmtime::Result<()> {
        self.store.set_epoch_deadline(1);
        match self.store.data().fuel {
            None => Ok(()),
            Some(fuel) => self.store.set_fuel(fuel.get().saturating_add(1)),
        }
    }

    /// Prepares the instance for another job after one that ended well. Returns whether it can run one. If
    /// the topic uses snapshots, this resets the instance to its snapshot.
    pub(crate) fn make_reusable(&mut self, template: &Template, faults: &PageFaults) -> bool {
        match (&template.image, &mut self.resettable) {
            (Some(image), Some(resettable)) => {
                self.store.data_mut().wasi.clear();
                image.reset(&mut self.store, resettable, faults)
            }
            (Some(_), None) => false,
            (None, _) => {
                self.exports.is_some()
                    && self.jobs < template.jobs_each()
                    && !self.store.data().limiter.has_grown()
                    && self.store.data_mut().wasi.is_pristine()
            }
        }
    }

    /// Whether it needs memory before it can run its job.
    pub(crate) fn is_new(&self) -> bool {
        self.exports.is_none()
    }

    /// Whether it is known which pages differ from the image. Then the next job is watched for others.
    pub(crate) fn knows_its_private_pages(&self) -> bool {
        self.resettable.as_ref().is_some_and(Resettable::knows_its_private_pages)
    }

    /// Bytes of the memory budget that it holds.
    pub(crate) fn memory_held(&self) -> usize {
        self.store.data().limiter.held()
    }

    /// The fuel that the job has burnt, at most its limit. `None` without a limit.
    pub(crate) fn fuel_used(&self) -> Option<u64> {
        let fuel = self.store.data().fuel?.get();
        Some(fuel.saturating_sub(self.fuel_left().saturating_sub(1)))
    }

    /// Whether the job has exceeded its fuel limit.
    pub(crate) fn is_out_of_fuel(&self) -> bool {
        self.store.data().fuel.is_some() && self.fuel_left() == 0
    }

    /// The remaining fuel, including the extra unit of [`arm`](Self::arm).
    fn fuel_left(&self) -> u64 {
        self.store.get_fuel().unwrap_or(0)
    }

    /// Runs the job and returns the verdict.
    pub(crate) async fn run_job(&mut self, template: &Template) -> wasmtime::Result<i32> {
        if self.exports.is_none() {
            // Boxed, so that the future of the job stays small: it is moved often.
            self.exports = Some(Box::pin(self.instantiate(template)).await?);
            let guest = self.store.data_mut();
            guest.spans.instantiated(guest.job.clock.started);
        }
        let Self { store, exports, .. } = self;
        // The runner refuses payloads that are longer than wasm32 can address.
        let payload = store.data().job.invocation.payload.len();
        let length = u32::try_from(payload).unwrap_or(u32::MAX);
        match exports {
            Some(Exports::Pull { handle }) => handle.call_async(store, length).await,
            Some(Exports::Push { handle, alloc, memory }) => {
                let pointer = alloc.call_async(&mut *store, length).await?;
                write_payload(store, *memory, pointer, length)?;
                handle.call_async(store, (pointer, length)).await
            }
            None => Err(wasmtime::Error::msg("the instance does not exist")),
        }
    }

    /// Creates the instance and initialises it.
    async fn instantiate(&mut self, template: &Template) -> wasmtime::Result<Exports> {
        let store = &mut self.store;
        let instance = template.instantiate(store).await?;
        if let Some(image) = &template.image
            && store.data().has_repeatable_start()
        {
            self.resettable = image.inspect(store, &instance);
        }
        if let Some(export) = &template.exports.initialize {
            let initialize = function::<(), ()>(store, &instance, export)?;
            initialize.call_async(&mut *store, ()).await?;
        }
        store.data_mut().calls_mut().phase = Phase::Handling;
        Ok(match &template.exports.entry {
            EntryPoint::Pull { handle } => {
                Exports::Pull { handle: function(store, &instance, handle)? }
            }
            EntryPoint::Push { handle, alloc } => {
                let export = template.exports.memory;
                let found = export.and_then(|it| instance.get_module_export(&mut *store, &it));
                let Some(Extern::Memory(memory)) = found else {
                    return Err(Fault::NoMemory { import: "alloc" }.into());
                };
                let handle = function(store, &instance, handle)?;
                let alloc = function(store, &instance, alloc)?;
                Exports::Push { handle, alloc, memory }
            }
        })
    }
}

/// A store with the limits of a module.
fn new_store(template: &Template, guest: Guest) -> wasmtime::Result<Store<Guest>> {
    let mut store = Store::try_new(template.engine(), guest)?;
    limit_store(&mut store);
    if template.imports_wasi {
        store.set_hostcall_fuel(wasi::CALL_BYTES_MAX);
    }
    Ok(store)
}

/// Limits the memory of a store, and the time until its guest yields.
///
/// The guest yields at every epoch tick, so that the host sees an interrupt. The deadline is checked here
/// too: the timers of a busy thread fire late.
pub(crate) fn limit_store(store: &mut Store<Guest>) {
    store.limiter(|guest| &mut guest.limiter);
    store.epoch_deadline_callback(|store| {
        Ok(match store.data().job.clock.remaining().is_zero() {
            true => UpdateDeadline::Interrupt,
            false => UpdateDeadline::Yield(1),
        })
    });
}

/// Writes the payload to the address that `alloc` returned.
fn write_payload(
    store: &mut Store<Guest>,
    memory: Memory,
    pointer: u32,
    length: u32,
) -> wasmtime::Result<()> {
    let (bytes, guest) = memory.data_and_store_mut(store);
    let target = call::range(bytes.len(), "alloc", pointer, length)?;
    let payload = &guest.job.invocation.payload;
    bytes[target].copy_from_slice(payload);
    guest.calls().io.count_in(payload.len());
    Ok(())
}

fn function<P: WasmParams, R: WasmResults>(
    store: &mut Store<Guest>,
    instance: &wasmtime::Instance,
    export: &ModuleExport,
) -> wasmtime::Result<TypedFunc<P, R>> {
    match instance.get_module_export(&mut *store, export) {
        Some(Extern::Func(function)) => function.typed(&*store),
        _ => Err(wasmtime::Error::msg(
            "an export is missing that existed when the module was loaded",
        )),
    }
}
