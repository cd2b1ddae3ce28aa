//! A loaded module, and how it runs one job.
//!
//! An instance is created or taken from the instance cache, and runs the job. It is then dropped, unless the
//! job ended well and the instance can be reset to the state in which it began, or the topic keeps instances warm.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use duebox_job::TopicName;
use futures_util::future::OptionFuture;
use wasmtime::Trap;

use crate::digest::Digest;
use crate::engine::ticker::Ticker;
use crate::grants::Grants;
use crate::imports::log::{JobContext, JobLog};
use crate::imports::services::HostServices;
use crate::instance::Instance;
use crate::instance::cache::{InstanceCache, ModuleNumber, Owner};
use crate::instance::cpu_time::CpuTime;
use crate::instance::guest::Attempt;
use crate::instance::interrupt::Interrupt;
use crate::instance::page_faults::PageFaults;
use crate::instance::template::Template;
use crate::invocation::Invocation;
use crate::memory_budget::{MemoryBudget, Reclaim, Waiting};
use crate::outcome::failure::End;
use crate::outcome::report::RunReport;
use crate::snapshot_seed::SnapshotSeed;

/// How often a job that waits for memory looks whether idle instances hold enough. They are not announced: that would wake
/// it after each job of every other topic.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A module that is ready to run. Clones are the same module. A run keeps its module until it ends.
#[derive(Clone)]
pub struct Handler(Arc<Loaded>);

/// What all handlers of a sandbox share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) budget: Arc<MemoryBudget>,
    cache: Arc<InstanceCache>,
    modules: Arc<AtomicU64>,
}

impl Default for Shared {
    fn default() -> Self {
        let cache = Arc::<InstanceCache>::default();
        let idle: Arc<dyn Reclaim> = Arc::clone(&cache) as _;
        let budget = Arc::new(MemoryBudget::with_idle(Arc::downgrade(&idle)));
        Self { budget, cache, modules: Arc::default() }
    }
}

impl Shared {
    fn next_number(&self) -> ModuleNumber {
        ModuleNumber(self.modules.fetch_add(1, Ordering::Relaxed))
    }
}

#[derive(Clone)]
struct Loaded {
    template: Template,
    digest: Digest,
    seed: Option<SnapshotSeed>,
    ticker: Arc<Ticker>,
    shared: Shared,
    /// The module in the instance cache.
    number: ModuleNumber,
}

impl Handler {
    pub(crate) fn new(
        template: Template,
        (digest, seed): (Digest, Option<SnapshotSeed>),
        ticker: Arc<Ticker>,
        shared: Shared,
    ) -> Self {
        let number = shared.next_number();
        Self(Arc::new(Loaded { template, digest, seed, ticker, shared, number }))
    }

    /// The same module with other values for `config_read`. Nothing is compiled. Jobs that are running keep
    /// the values with which they started, and the two handlers share no warm instance.
    pub fn with_config(&self, config: BTreeMap<String, String>) -> Self {
        let mut loaded = Loaded::clone(&self.0);
        let grants = Grants { config, ..Grants::clone(&loaded.template.grants) };
        loaded.template.grants = Arc::new(grants);
        loaded.number = loaded.shared.next_number();
        Self(Arc::new(loaded))
    }

    /// The same module with another fuel limit for each job. Nothing is compiled or evaluated. It has an effect
    /// only if the module was loaded with a fuel limit.
    pub fn with_fuel(&self, fuel: NonZeroU64) -> Self {
        let mut loaded = Loaded::clone(&self.0);
        if loaded.template.limits.fuel.is_some() {
            loaded.template.limits.fuel = Some(fuel);
        }
        loaded.number = loaded.shared.next_number();
        Self(Arc::new(loaded))
    }

    /// The values that `config_read` returns.
    pub fn config(&self) -> &BTreeMap<String, String> {
        &self.0.template.grants.config
    }

    /// Whether both are clones of the same handler.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The digest of the module's file.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// The seed of the random bytes that were drawn while the module's snapshot was taken, or its program was
    /// evaluated. `None` for a module without a snapshot. With the same seed, another load gives instances the
    /// same state, on any machine.
    pub fn snapshot_seed(&self) -> Option<SnapshotSeed> {
        self.0.seed
    }

    /// The longest payload, in bytes. The caller must check it before [`run`](Self::run), which does not.
    pub fn payload_max(&self) -> usize {
        self.0.template.limits.payload
    }

    /// Runs the handler on one job. It ends at the job's ttr, and soon after `interrupt` is raised, whatever
    /// the guest does. Dropping the future also ends the guest.
    ///
    /// It needs a Tokio runtime with time enabled. A guest that computes yields every 2 ms.
    pub async fn run(
        &self,
        invocation: Invocation,
        interrupt: Interrupt,
        services: Arc<HostServices>,
    ) -> RunReport {
        let (loaded, mut cpu_time) = (&*self.0, CpuTime::start());
        if let Some(reason) = interrupt.reason() {
            return RunReport::not_started(reason.describe().to_owned());
        }
        let owner = loaded.owner(&invocation.topic);
        let mut instance = match loaded.instance(&owner, cpu_time.began, invocation, services) {
            Ok(instance) => instance,
            Err(error) => return RunReport::not_started(format!("no instance: {error:#}")),
        };
        let mut faults = PageFaults::watch(instance.knows_its_private_pages());
        let end = {
            let mut end = pin!(loaded.run_to_end(&mut instance, &owner, interrupt));
            let poll = |context: &mut Context<'_>| {
                let _running = loaded.ticker.run();
                faults.during(|| cpu_time.poll(end.as_mut(), context))
            };
            std::future::poll_fn(poll).await
        };
        let ended_well = end.is_verdict();
        let fuel_used = instance.fuel_used();
        let guest = instance.store.data_mut();
        guest.finish_output();
        let mut report = RunReport::new(end, guest, fuel_used);
        let template = &loaded.template;
        if ended_well && template.reuses_instances() && instance.make_reusable(template, &faults) {
            instance.store.data_mut().end_job();
            loaded.shared.cache.put(owner, instance);
            // A job that begins to wait now may not be seen here. It finds the instance when it looks.
            if loaded.shared.budget.has_waiting() {
                loaded.shared.cache.hand_over();
            }
        }
        (report.wall, report.cpu) = cpu_time.finish();
        report
    }
}

impl Loaded {
    /// Whose idle instances a job of this topic may use.
    fn owner(&self, topic: &TopicName) -> Owner {
        let topic = self.template.is_warm().then(|| topic.clone());
        Owner { module: self.number, topic }
    }

    /// An instance for one job: an idle one from the cache, or the store for a new one.
    fn instance(
        &self,
        owner: &Owner,
        began: Instant,
        invocation: Invocation,
        services: Arc<HostServices>,
    ) -> wasmtime::Result<Box<Instance>> {
        let context = JobContext {
            id: &invocation.id,
            topic: &invocation.topic,
            attempt: invocation.attempt,
            digest: self.digest,
        };
        let sink = Arc::clone(&services.logs);
        let log = Arc::new(JobLog::new(&context, sink, self.template.limits.log));
        let attempt = Attempt { invocation, log, services, began };
        if self.template.reuses_instances()
            && let Some(mut instance) = self.shared.cache.take(owner)
        {
            instance.begin_job(attempt)?;
            return Ok(instance);
        }
        Instance::new(&self.template, attempt)
    }

    /// Runs an instance until the guest returns, or something else ends it.
    async fn run_to_end(
        &self,
        instance: &mut Box<Instance>,
        owner: &Owner,
        interrupt: Interrupt,
    ) -> End {
        let deadline = instance.store.data().job.clock.deadline;
        let verdict = {
            // Pinned here, so that neither is moved. A guest that never yields creates no timer.
            let verdict = pin!(async {
                if instance.is_new() {
                    self.pay_memory(instance, owner).await?;
                }
                instance.run_job(&self.template).await
            });
            let stopped = pin!(async {
                tokio::select! {
                    biased;
                    reason = interrupt.raised() => End::Interrupted(reason),
                    () = reached(deadline) => End::TimedOut,
                }
            });
            tokio::select! {
                biased;
                verdict = verdict => verdict,
                end = stopped => return end,
            }
        };
        match verdict {
            Ok(_) if instance.is_out_of_fuel() => End::Error(Trap::OutOfFuel.into()),
            Ok(verdict) => End::Returned(verdict),
            Err(error) => End::Error(error),
        }
    }

    /// Takes the initial memory of a new instance from the budget. While that has no room, the job waits, and may get
    /// an instance that another job has left.
    async fn pay_memory(
        &self,
        instance: &mut Box<Instance>,
        owner: &Owner,
    ) -> wasmtime::Result<()> {
        let (account, initial) = (&self.template.account, self.template.initial_memory);
        if account.take(initial).is_err() {
            instance.store.data_mut().waits_for_memory = true;
            let left = Box::pin(self.memory_or_instance(owner)).await?;
            instance.store.data_mut().waits_for_memory = false;
            if let Some(mut left) = left {
                left.take_job(instance)?;
                *instance = left;
                return Ok(());
            }
        }
        instance.store.data_mut().limiter.prepay(initial);
        Ok(())
    }

    /// Waits for an instance of this owner, or takes the initial memory of a new one.
    async fn memory_or_instance(&self, owner: &Owner) -> wasmtime::Result<Option<Box<Instance>>> {
        let waiting = self.template.account.wait();
        let reuses = self.template.reuses_instances();
        let returned = reuses.then(|| self.shared.cache.returned(owner.clone()));
        tokio::select! {
            biased;
            Some(Ok(left)) = OptionFuture::from(returned) => Ok(Some(left)),
            found = self.look_in_turn(owner, &waiting) => found,
        }
    }

    /// Looks for memory and for an idle instance. One job of a handler looks at a time, the one that has waited longest.
    async fn look_in_turn(
        &self,
        owner: &Owner,
        waiting: &Waiting<'_>,
    ) -> wasmtime::Result<Option<Box<Instance>>> {
        let (account, initial) = (&self.template.account, self.template.initial_memory);
        let _turn = account.turn().await;
        loop {
            // Before the look, so that no release is missed that follows it.
            let mut released = pin!(waiting.released());
            released.as_mut().enable();
            if self.template.reuses_instances()
                && let Some(left) = self.shared.cache.take(owner)
            {
                return Ok(Some(left));
            }
            match account.take(initial) {
                Ok(()) => return Ok(None),
                Err(exhausted) if initial > account.max() => {
                    return Err(wasmtime::Error::new(exhausted));
                }
                Err(_) => {}
            }
            tokio::select! {
                () = released => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }
}

/// Waits for a deadline. The timers of a busy thread fire late, so the clock is read whenever the guest has
/// yielded.
async fn reached(deadline: Instant) {
    let mut timer = pin!(tokio::time::sleep_until(deadline.into()));
    std::future::poll_fn(|context| match Instant::now() >= deadline {
        true => Poll::Ready(()),
        false => timer.as_mut().poll(context),
    })
    .await;
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if self.template.reuses_instances() {
            self.shared.cache.remove_module(self.number);
        }
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handler").field(&self.0.digest).finish()
    }
}
