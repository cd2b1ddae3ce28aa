//! A loaded module, and the way of one job through it: an instance is made or taken from the shelf, runs
//! the job, and ends with it, unless nothing went wrong and it can be put back to the snapshot it started
//! from, or its topic keeps instances warm.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Context;
use std::time::Instant;

use wasmtime::{Engine, ExternType, InstancePre, ModuleExport, Store, Trap};

use crate::digest::Digest;
use crate::engine::Ticker;
use crate::imports::log::JobLog;
use crate::imports::services::World;
use crate::imports::wasi;
use crate::instance::Instance;
use crate::instance::cache::Shelf;
use crate::instance::cpu_time::Processor;
use crate::instance::guest::Guest;
use crate::instance::interrupt::Interrupt;
use crate::instance::limiter::Meter;
use crate::instance::reset::Origin;
use crate::invocation::Invocation;
use crate::limits::{Grants, Limits};
use crate::memory_budget::{Account, Budget};
use crate::module::error::LoadError;
use crate::outcome::failure::End;
use crate::outcome::report::Report;

/// Bytes of a page of linear memory.
const PAGE: usize = 64 << 10;

/// A module that is ready to run. Clones are the same module; a run holds its module until it ends.
#[derive(Clone)]
pub struct Handler(Arc<Loaded>);

/// What all modules share.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) budget: Arc<Budget>,
    shelf: Arc<Shelf>,
    loaded: Arc<AtomicU64>,
}

impl Default for Common {
    fn default() -> Self {
        let shelf = Arc::<Shelf>::default();
        let budget = Arc::new(Budget::with_spare(&shelf));
        Self { budget, shelf, loaded: Arc::default() }
    }
}

#[derive(Clone)]
pub(crate) struct Loaded {
    linked: InstancePre<Guest>,
    pub(crate) entry: Entry,
    pub(crate) initialize: Option<ModuleExport>,
    pub(crate) memory: Option<ModuleExport>,
    /// Where its instances start, if that is a snapshot and they are put back to it after each job.
    pub(crate) origin: Option<Arc<Origin>>,
    /// Bytes of linear memory that an instance starts with.
    memory_first: usize,
    imports_wasi: bool,
    digest: Digest,
    limits: Limits,
    grants: Arc<Grants>,
    ticker: Arc<Ticker>,
    common: Common,
    /// What its instances hold of the memory of all.
    account: Arc<Account>,
    /// The module's number on the shelf.
    number: u64,
}

/// The shape of `handle`.
#[derive(Clone)]
pub(crate) enum Entry {
    /// `handle(len)`: the guest reads the payload.
    Pull { handle: ModuleExport },
    /// `handle(ptr, len)`: the host writes the payload where `alloc` says.
    Push { handle: ModuleExport, alloc: ModuleExport },
}

impl Handler {
    pub(crate) fn new(
        linked: InstancePre<Guest>,
        origin: Option<Origin>,
        digest: Digest,
        limits: Limits,
        grants: Grants,
        ticker: Arc<Ticker>,
        common: Common,
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
        let pages = module.resources_required().max_initial_memory_size.unwrap_or(0);
        let memory_first = usize::try_from(pages).unwrap_or(usize::MAX).saturating_mul(PAGE);
        let imports_wasi = module.imports().any(|import| import.module() == wasi::NAMESPACE);
        let account = Arc::new(Account::of(Arc::clone(&common.budget)));
        let (grants, number) = (Arc::new(grants), common.loaded.fetch_add(1, Ordering::Relaxed));
        // Where instances are warm, what a job left there is for the next.
        let origin = origin.filter(|_| limits.instances.jobs_each <= 1).map(Arc::new);
        let loaded = Loaded {
            entry,
            initialize,
            memory,
            origin,
            memory_first,
            imports_wasi,
            digest,
            limits,
            grants,
            ticker,
            common,
            account,
            number,
            linked,
        };
        Ok(Self(Arc::new(loaded)))
    }

    /// The same module with other values for `config_read`. Nothing is compiled; jobs that run keep the
    /// values they started with, and no warm instance is shared between the two.
    pub fn with_config(&self, config: BTreeMap<String, String>) -> Self {
        let mut loaded = Loaded::clone(&self.0);
        loaded.grants = Arc::new(Grants { config, ..Grants::clone(&loaded.grants) });
        loaded.number = loaded.common.loaded.fetch_add(1, Ordering::Relaxed);
        Self(Arc::new(loaded))
    }

    /// What `config_read` gives its jobs.
    pub fn config(&self) -> &BTreeMap<String, String> {
        &self.0.grants.config
    }

    /// True if both are one and the same module, loaded once.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
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
    /// Needs a tokio runtime with its clock on; a guest gives way to its neighbours every 2 ms.
    pub async fn run(
        &self,
        invocation: Invocation,
        interrupt: Interrupt,
        world: Arc<World>,
    ) -> Report {
        let (loaded, mut processor) = (&*self.0, Processor::start());
        if let Some(reason) = interrupt.reason() {
            return Report::not_begun(reason.describe().to_owned());
        }
        let mut instance = match loaded.instance(processor.began, invocation, world) {
            Ok(instance) => instance,
            Err(error) => return Report::not_begun(format!("no store: {error:#}")),
        };
        let end = {
            let mut end = pin!(loaded.end(&mut instance, interrupt));
            let poll = |context: &mut Context<'_>| {
                let _running = loaded.ticker.run();
                processor.poll(end.as_mut(), context)
            };
            std::future::poll_fn(poll).await
        };
        let ended_well = end.is_verdict();
        let fuel_used = instance.fuel_used();
        let guest = instance.store.data_mut();
        guest.finish_output();
        let mut report = Report::new(end, guest, fuel_used);
        if ended_well && loaded.keeps_instances() && instance.is_good_for_more(loaded) {
            instance.store.data_mut().let_go();
            loaded.common.shelf.put(loaded.number, instance);
        }
        (report.wall, report.cpu) = processor.finish();
        report
    }
}

impl Loaded {
    pub(crate) fn engine(&self) -> &Engine {
        self.linked.module().engine()
    }

    pub(crate) fn imports_wasi(&self) -> bool {
        self.imports_wasi
    }

    /// Whether an instance whose job ended well is for the next one: as it is, or put back to its start.
    fn keeps_instances(&self) -> bool {
        self.limits.instances.jobs_each > 1 || self.origin.is_some()
    }

    /// Jobs that one instance may run without being put back to its start between them.
    pub(crate) fn jobs_each(&self) -> u32 {
        self.limits.instances.jobs_each
    }

    /// An instance for one job: a warm one where there is one, else a store for a new one.
    fn instance(
        &self,
        began: Instant,
        invocation: Invocation,
        world: Arc<World>,
    ) -> wasmtime::Result<Box<Instance>> {
        let log = Arc::new(JobLog::new(
            invocation.id.clone(),
            invocation.topic.clone(),
            invocation.attempt,
            self.digest,
            Arc::clone(&world.logs),
            self.limits.log,
        ));
        if self.keeps_instances()
            && let Some(mut instance) = self.common.shelf.take(self.number)
        {
            instance.start_over(invocation, log, world, began)?;
            return Ok(instance);
        }
        let meter = Meter::new(&self.limits, Arc::clone(&self.account));
        let grants = Arc::clone(&self.grants);
        let fuel = self.limits.fuel;
        let mut guest = Guest::new(invocation, grants, log, world, meter, fuel, began);
        guest.memory_export = self.memory;
        Instance::new(self, guest)
    }

    /// Runs an instance until it answers, or what stops it first.
    async fn end(&self, instance: &mut Instance, interrupt: Interrupt) -> End {
        let deadline = tokio::time::Instant::from_std(instance.store.data().clock.deadline);
        let answer = {
            // Both stay where they are, and what only a guest that gives way needs is not made before.
            let answer = pin!(instance.answer(self));
            let stopped = pin!(async {
                tokio::select! {
                    biased;
                    reason = interrupt.raised() => End::Interrupted(reason),
                    () = tokio::time::sleep_until(deadline) => End::TimedOut,
                }
            });
            tokio::select! {
                biased;
                answer = answer => answer,
                end = stopped => return end,
            }
        };
        match answer {
            Ok(_) if instance.is_out_of_fuel() => End::Broken(Trap::OutOfFuel.into()),
            Ok(verdict) => End::Answered(verdict),
            Err(error) => End::Broken(error),
        }
    }

    /// Makes an instance; where the memory of all guests is spent, as soon as there is room for it.
    pub(crate) async fn instantiate(
        &self,
        store: &mut Store<Guest>,
    ) -> wasmtime::Result<wasmtime::Instance> {
        let (account, first) = (&self.account, self.memory_first);
        while let Err(spent) = account.take(first) {
            if first > account.max() {
                return Err(wasmtime::Error::new(spent));
            }
            store.data_mut().waits_for_memory = true;
            account.room(first).await;
        }
        store.data_mut().waits_for_memory = false;
        store.data_mut().meter.prepay(first);
        self.linked.instantiate_async(&mut *store).await
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if self.keeps_instances() {
            self.common.shelf.forget(self.number);
        }
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
