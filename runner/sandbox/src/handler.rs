//! A loaded module and one run of it. Each run has a store and an instance of its own, made for it
//! and dropped with it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use duebox_job::{FollowUp, Outcome};
use wasmtime::{
    Extern, ExternType, Instance, InstancePre, ModuleExport, Store, TypedFunc, UpdateDeadline,
    WasmParams, WasmResults,
};

use crate::digest::Digest;
use crate::engine::Ticker;
use crate::failure::{self, End};
use crate::guest::{Guest, Phase};
use crate::interrupt::Interrupt;
use crate::invocation::Invocation;
use crate::limits::{Grants, Limits, Meter};
use crate::log::{JobLog, LogSink};
use crate::memory;
use crate::refusal::LoadError;
use crate::wasi;

/// A module that is ready to run. Clones are the same module; a run holds its module until it ends.
#[derive(Clone)]
pub struct Handler(Arc<Loaded>);

struct Loaded {
    linked: InstancePre<Guest>,
    entry: Entry,
    initialize: Option<ModuleExport>,
    memory: Option<ModuleExport>,
    imports_wasi: bool,
    digest: Digest,
    limits: Limits,
    grants: Arc<Grants>,
    ticker: Arc<Ticker>,
}

/// The shape of `handle`.
enum Entry {
    /// `handle(len)`: the guest reads the payload.
    Pull { handle: ModuleExport },
    /// `handle(ptr, len)`: the host writes the payload where `alloc` says.
    Push { handle: ModuleExport, alloc: ModuleExport },
}

/// What one run came to.
#[derive(Debug, Clone)]
pub struct Report {
    /// What it means for the job.
    pub outcome: Outcome,
    /// What the guest wants kept with the job, at most 64 KiB; only with an ack.
    pub result: Option<Bytes>,
    /// The jobs it wants pushed, in its order, at most 100; only with an ack.
    pub follow_ups: Vec<FollowUp>,
    /// What ended the guest and, a line each, the calls that led to it, innermost first; at most 8 KiB.
    /// `None` if it ended by itself, or was not running.
    pub trace: Option<String>,
    /// The last 64 lines of its log within the budget, oldest first, each with its level before it
    /// (`error: …`) and cut at 1 KiB; none with an ack.
    pub log_tail: Vec<String>,
    /// How long it took, from the call of [`Handler::run`] on.
    pub wall: Duration,
    /// The largest linear memory the guest had, in bytes.
    pub memory_peak: usize,
    /// Lines, or calls of `log`, that were over the log's budget.
    pub log_lines_dropped: u32,
}

impl Report {
    /// What an attempt came to: of what the guest said, the part that its end lets count.
    fn new(end: End, guest: &mut Guest, wall: Duration) -> Self {
        let trace = end.trace();
        let outcome = failure::outcome(end, guest);
        let said = &mut guest.said;
        let (result, follow_ups, log_tail) = match outcome {
            Outcome::Acked => (said.result.take(), said.follow_ups.take(), Vec::new()),
            _ => (None, Vec::new(), guest.log.take_tail()),
        };
        Self {
            outcome,
            result,
            follow_ups,
            trace,
            log_tail,
            wall,
            memory_peak: guest.meter.memory_peak,
            log_lines_dropped: guest.log.dropped(),
        }
    }

    /// What an attempt came to that the host could not begin.
    fn not_begun(why: String, wall: Duration) -> Self {
        Self {
            outcome: Outcome::HostFault(why),
            result: None,
            follow_ups: Vec::new(),
            trace: None,
            log_tail: Vec::new(),
            wall,
            memory_peak: 0,
            log_lines_dropped: 0,
        }
    }
}

impl Handler {
    pub(crate) fn new(
        linked: InstancePre<Guest>,
        digest: Digest,
        limits: Limits,
        grants: Grants,
        ticker: Arc<Ticker>,
    ) -> Result<Self, LoadError> {
        let module = linked.module();
        let entry = entry(module)?;
        let initialize = match module.get_export("_initialize") {
            None => None,
            Some(_) => Some(typed(module, "_initialize", &[(0, 0)], "()")?.1),
        };
        let memory = match module.get_export("memory") {
            Some(ExternType::Memory(_)) => module.get_export_index("memory"),
            _ => None,
        };
        let imports_wasi = module.imports().any(|import| import.module() == wasi::NAMESPACE);
        let grants = Arc::new(grants);
        let loaded = Loaded {
            entry,
            initialize,
            memory,
            imports_wasi,
            digest,
            limits,
            grants,
            ticker,
            linked,
        };
        Ok(Self(Arc::new(loaded)))
    }

    /// The digest of the module's file.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// The longest payload, in bytes. Who runs the handler refuses a longer one beforehand; no class
    /// of failure fits it here, where it would be too late.
    pub fn payload_max(&self) -> usize {
        self.0.limits.payload
    }

    /// Runs the handler on one job. Ends at the job's ttr, and soon after `interrupt` is raised,
    /// whatever the guest does. Dropping the future ends the guest too.
    ///
    /// Needs a tokio runtime with its clock on; a guest gives way to its neighbours every 10 ms.
    pub async fn run(
        &self,
        invocation: Invocation,
        interrupt: Interrupt,
        logs: Arc<dyn LogSink>,
    ) -> Report {
        let began = Instant::now();
        let not_begun = |why| Report::not_begun(why, began.elapsed());
        if let Some(reason) = interrupt.reason() {
            return not_begun(reason.describe().to_owned());
        }
        let _running = self.0.ticker.run();
        let mut store = match self.store(invocation, logs) {
            Ok(store) => store,
            Err(error) => return not_begun(format!("no store: {error:#}")),
        };
        let deadline = tokio::time::Instant::from_std(store.data().clock.deadline);
        let end = tokio::select! {
            biased;
            answer = self.answer(&mut store) => match answer {
                Ok(verdict) => End::Answered(verdict),
                Err(error) => End::Broken(error),
            },
            reason = interrupt.raised() => End::Interrupted(reason),
            () = tokio::time::sleep_until(deadline) => End::TimedOut,
        };
        let guest = store.data_mut();
        guest.finish_output();
        Report::new(end, guest, began.elapsed())
    }

    fn store(
        &self,
        invocation: Invocation,
        logs: Arc<dyn LogSink>,
    ) -> wasmtime::Result<Store<Guest>> {
        let loaded = &*self.0;
        let log = JobLog::new(
            invocation.id.clone(),
            invocation.topic.clone(),
            invocation.attempt,
            loaded.digest,
            logs,
            loaded.limits.log,
        );
        let guest = Guest::new(
            invocation,
            Arc::clone(&loaded.grants),
            Arc::new(log),
            Meter::new(&loaded.limits),
            loaded.memory,
        );
        let mut store = Store::try_new(loaded.linked.module().engine(), guest)?;
        store.limiter(|guest| &mut guest.meter);
        store.set_epoch_deadline(1);
        // At every tick the guest gives way, which is when `run` sees an interrupt. It would see the
        // deadline too, but late: a thread that is never idle looks at its timers rarely.
        store.epoch_deadline_callback(|store| {
            Ok(match store.data().clock.left().is_zero() {
                true => UpdateDeadline::Interrupt,
                false => UpdateDeadline::Yield(1),
            })
        });
        if loaded.imports_wasi {
            store.set_hostcall_fuel(wasi::CALL_BYTES_MAX);
        }
        Ok(store)
    }

    /// One instance, from its start to its verdict.
    async fn answer(&self, store: &mut Store<Guest>) -> wasmtime::Result<i32> {
        let loaded = &*self.0;
        let instance = loaded.linked.instantiate_async(&mut *store).await?;
        if let Some(export) = &loaded.initialize {
            let initialize = function::<(), ()>(store, &instance, export)?;
            initialize.call_async(&mut *store, ()).await?;
        }
        store.data_mut().phase = Phase::Handling;
        // A payload that is longer than wasm32 can count is refused by the runner long before.
        let payload = store.data().invocation.payload.clone();
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        match &loaded.entry {
            Entry::Pull { handle } => {
                let handle = function::<u32, i32>(store, &instance, handle)?;
                handle.call_async(&mut *store, length).await
            }
            Entry::Push { handle, alloc } => {
                let alloc = function::<u32, u32>(store, &instance, alloc)?;
                let pointer = alloc.call_async(&mut *store, length).await?;
                self.hand_over(store, &instance, pointer, &payload)?;
                let handle = function::<(u32, u32), i32>(store, &instance, handle)?;
                handle.call_async(&mut *store, (pointer, length)).await
            }
        }
    }

    /// Writes the payload where `alloc` said.
    fn hand_over(
        &self,
        store: &mut Store<Guest>,
        instance: &Instance,
        pointer: u32,
        payload: &[u8],
    ) -> wasmtime::Result<()> {
        let found =
            self.0.memory.and_then(|export| instance.get_module_export(&mut *store, &export));
        let Some(Extern::Memory(memory)) = found else {
            return Err(memory::Fault::NoMemory { import: "alloc" }.into());
        };
        let bytes = memory.data_mut(&mut *store);
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let target = memory::range(bytes.len(), "alloc", pointer, length)?;
        bytes[target].copy_from_slice(payload);
        Ok(())
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handler").field(&self.0.digest).finish()
    }
}

fn entry(module: &wasmtime::Module) -> Result<Entry, LoadError> {
    const WANTED: &str = "(i32) -> i32 or (i32, i32) -> i32";
    let (parameters, handle) = typed(module, "handle", &[(1, 1), (2, 1)], WANTED)?;
    if parameters == 1 {
        return Ok(Entry::Pull { handle });
    }
    if module.get_export("alloc").is_none() {
        return Err(LoadError::NoAlloc);
    }
    let (_, alloc) = typed(module, "alloc", &[(1, 1)], "(i32) -> i32")?;
    match module.get_export("memory") {
        Some(ExternType::Memory(_)) => Ok(Entry::Push { handle, alloc }),
        _ => Err(LoadError::NoMemory { needs: "handle(ptr, len)".to_owned() }),
    }
}

/// An exported function whose parameters and results are all i32, as many as one of `shapes` says;
/// with it the number of its parameters.
fn typed(
    module: &wasmtime::Module,
    name: &'static str,
    shapes: &[(usize, usize)],
    wanted: &'static str,
) -> Result<(usize, ModuleExport), LoadError> {
    let (ty, export) = match (module.get_export(name), module.get_export_index(name)) {
        (Some(ExternType::Func(ty)), Some(export)) => (ty, export),
        _ => return Err(LoadError::ExportType { name, found: "no function".to_owned(), wanted }),
    };
    let all_i32 = ty.params().chain(ty.results()).all(|value| value.is_i32());
    let shape = (ty.params().len(), ty.results().len());
    if !all_i32 || !shapes.contains(&shape) {
        let list = |types: Vec<String>| types.join(", ");
        let parameters = list(ty.params().map(|value| value.to_string()).collect());
        let results = list(ty.results().map(|value| value.to_string()).collect());
        let found = format!("({parameters}) -> ({results})");
        return Err(LoadError::ExportType { name, found, wanted });
    }
    Ok((shape.0, export))
}

fn function<P: WasmParams, R: WasmResults>(
    store: &mut Store<Guest>,
    instance: &Instance,
    export: &ModuleExport,
) -> wasmtime::Result<TypedFunc<P, R>> {
    match instance.get_module_export(&mut *store, export) {
        Some(Extern::Func(function)) => function.typed(&*store),
        _ => Err(wasmtime::Error::msg("the module lost an export it had when it was loaded")),
    }
}
