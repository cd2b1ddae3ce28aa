//! From which state the jobs of a module start, and how a module is made whose instances can be reset to it.
//!
//! For a snapshot `_initialize` runs once, and memory and globals are written into a new module.
//! Every job still has its own instance, which starts from that image. While the snapshot is taken there is
//! no job, and the clock is frozen. Random numbers that `_initialize` draws are the same for every job, and come from the
//! seed of the snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use duebox_job::{FailureClass, JobId, Outcome, TopicName};
use wasmtime::{Instance, InstancePre, ModuleExport, Store, Val};
use wasmtime_wizer::{InstanceState, ModuleContext, SnapshotVal, ValType, Wizer};

use super::error::{LoadError, SnapshotError};
use super::exports;
use super::init_time::{self, TooSlow};
use super::seeded_random::SeededRandom;
use super::segments;
use crate::digest::Digest;
use crate::grants::Grants;
use crate::imports::clock::InstanceClock;
use crate::imports::intercept::Interceptor;
use crate::imports::log::{JobContext, JobLog, Level, LogSink};
use crate::imports::services::HostServices;
use crate::imports::wasi;
use crate::instance::guest::{Attempt, Guest, GuestSetup};
use crate::instance::limit_store;
use crate::instance::limiter::Limiter;
use crate::invocation::Invocation;
use crate::limits::{Instances, Limits};
use crate::memory_budget::{MemoryAccount, MemoryBudget};
use crate::outcome::failure::{self, End};
use crate::snapshot_seed::SnapshotSeed;

const INITIALIZE: &str = "_initialize";

/// What a job finds when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartState {
    /// What code of the module has made of a new instance, for this job or for the first of a warm instance.
    Run,
    /// What the module's file says, or what its start function makes of that without calling an import.
    Written,
    /// What `_initialize` left once.
    Snapshot,
}

impl StartState {
    pub(crate) fn of(binary: &[u8], limits: &Limits) -> Self {
        let Instances { snapshot, jobs_each } = limits.instances;
        let (mut has_start, mut has_initialize) = (false, false);
        for payload in wasmparser::Parser::new(0).parse_all(binary).map_while(Result::ok) {
            match payload {
                wasmparser::Payload::StartSection { .. } => has_start = true,
                wasmparser::Payload::ExportSection(section) => {
                    let mut exports = section.into_iter().map_while(Result::ok);
                    has_initialize = exports.any(|export| export.name == INITIALIZE);
                }
                _ => {}
            }
        }
        // Each job pays the fuel of its own start.
        let is_paid = has_start && limits.fuel.is_some();
        match has_initialize {
            true if snapshot => Self::Snapshot,
            false if !is_paid && (snapshot || jobs_each <= 1) => Self::Written,
            _ => Self::Run,
        }
    }
}

/// The module with exports of everything that a job can change, so that its instances can be reset. Refuses a module
/// that changes its tables or drops segments. Blocks.
pub(super) fn export_state(binary: &[u8]) -> Result<Vec<u8>, LoadError> {
    let instrument = || Wizer::new().instrument(binary).map(|(_, exported)| exported);
    on_own_thread(|| instrument().map_err(refused))
}

/// The module after its `_initialize`. It exports everything that a job can change. `link` compiles and
/// links the module that runs. Blocks.
pub(super) fn take(
    binary: &[u8],
    limits: &Limits,
    (grants, seed): (&Grants, SnapshotSeed),
    link: impl Fn(&[u8]) -> Result<InstancePre<Guest>, LoadError> + Sync,
) -> Result<Vec<u8>, LoadError> {
    let merged = segments::merge(binary);
    let binary = merged.as_deref().unwrap_or(binary);
    let work = || {
        let mut wizer = Wizer::new();
        wizer.init_func(INITIALIZE);
        let (context, instrumented) = wizer.instrument(binary).map_err(refused)?;
        let linked = link(&instrumented)?;
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().map_err(|error| refused(error.into()))?;
        runtime.block_on(async {
            let mut state = initialize(&linked, limits, (grants, seed)).await?;
            write_module(&wizer, &context, &mut state).await
        })
    };
    on_own_thread(work)
}

/// The caller may be inside a runtime, and Wizer may panic.
fn on_own_thread(
    work: impl FnOnce() -> Result<Vec<u8>, LoadError> + Send,
) -> Result<Vec<u8>, LoadError> {
    let done = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("snapshot".to_owned());
        Some(thread.spawn_scoped(scope, work).ok()?.join())
    });
    match done {
        Some(Ok(done)) => done,
        Some(Err(_)) => Err(SnapshotError::Panicked.into()),
        None => Err(SnapshotError::Thread.into()),
    }
}

async fn write_module(
    wizer: &Wizer,
    context: &ModuleContext<'_>,
    state: &mut InitializedState,
) -> Result<Vec<u8>, LoadError> {
    let written = wizer.snapshot(context, state).await.map_err(refused)?;
    let (_, exported) = Wizer::new().instrument(&written).map_err(refused)?;
    Ok(exported)
}

pub(super) fn refused(error: wasmtime::Error) -> LoadError {
    SnapshotError::Unsupported { reason: error.root_cause().to_string() }.into()
}

/// The instance of which the snapshot is taken.
struct InitializedState {
    store: Store<Guest>,
    instance: Instance,
}

async fn initialize(
    linked: &InstancePre<Guest>,
    limits: &Limits,
    (grants, seed): (&Grants, SnapshotSeed),
) -> Result<InitializedState, LoadError> {
    let memory_export = exports::memory(linked.module());
    let guest = guest_without_job(memory_export, limits, Arc::new(grants.clone()), seed)?;
    let mut store = Store::try_new(linked.module().engine(), guest).map_err(refused)?;
    limit_store(&mut store);
    store.set_epoch_deadline(1);
    store.set_hostcall_fuel(wasi::CALL_BYTES_MAX);
    if let Some(fuel) = limits.fuel {
        store.set_fuel(fuel.get()).map_err(refused)?;
    }
    let run = async {
        let instance = linked.instantiate_async(&mut store).await?;
        let initialize = instance.get_typed_func::<(), ()>(&mut store, INITIALIZE)?;
        initialize.call_async(&mut store, ()).await?;
        wasmtime::Result::Ok(instance)
    };
    let end = match init_time::limited(run).await {
        Ok(Ok(instance)) => return Ok(InitializedState { store, instance }),
        Ok(Err(error)) => End::Error(error),
        Err(TooSlow) => End::TimedOut,
    };
    let reason = reason(end, store.data_mut());
    let log = store.data().log.take_tail();
    Err(SnapshotError::Initialize { reason, log }.into())
}

/// Why `_initialize` has not returned.
pub(super) fn reason(end: End, guest: &mut Guest) -> String {
    match failure::outcome(end, guest) {
        Outcome::Failed(failure) if failure.class == FailureClass::Timeout => TooSlow.to_string(),
        Outcome::Failed(failure) => format!("{} ({})", failure.reason, failure.class),
        Outcome::HostFault(reason) => reason,
        Outcome::Acked | Outcome::Snoozed { .. } => "it did not return".to_owned(),
    }
}

/// A guest without a job, with a frozen clock and with random bytes of the seed.
pub(super) fn guest_without_job(
    memory_export: Option<ModuleExport>,
    limits: &Limits,
    grants: Arc<Grants>,
    seed: SnapshotSeed,
) -> Result<Guest, LoadError> {
    let invalid = |reason: String| SnapshotError::Unsupported { reason };
    let id = JobId::new("snapshot").map_err(|error| invalid(error.to_string()))?;
    let topic = TopicName::new("snapshot").map_err(|error| invalid(error.to_string()))?;
    let sink: Arc<dyn LogSink> = Arc::new(DebugLog);
    let context = JobContext { id: &id, topic: &topic, attempt: 1, digest: Digest::of(b"") };
    let log = Arc::new(JobLog::new(&context, Arc::clone(&sink), limits.log));
    let invocation = Invocation {
        id,
        topic,
        payload: Bytes::new(),
        attempt: 1,
        max_attempts: 1,
        due_at_ms: 0,
        headers: BTreeMap::new(),
        ttr: init_time::WALL_MAX,
        span: None,
    };
    // A budget of its own: the instance exists for a moment only, and no job waits for it.
    let account = Arc::new(MemoryAccount::new(Arc::<MemoryBudget>::default()));
    let setup = GuestSetup {
        grants,
        limiter: Limiter::new(limits, account),
        fuel: limits.fuel,
        memory_export,
    };
    let random: Arc<dyn Interceptor> = Arc::new(SeededRandom::new(seed));
    let services =
        Arc::new(HostServices { interceptor: Some(random), ..HostServices::with_logs(sink) });
    let mut guest = Guest::new(setup, Attempt { invocation, log, services, began: Instant::now() });
    guest.instance_clock = InstanceClock::Frozen;
    Ok(guest)
}

/// Writes the lines of `_initialize` to the daemon's debug log. They are part of the error if it fails.
struct DebugLog;

impl LogSink for DebugLog {
    fn line(&self, _job: &JobContext<'_>, level: Level, text: &str) {
        tracing::debug!("{INITIALIZE} of a snapshot: {}: {text}", level.name());
    }
}

impl InstanceState for InitializedState {
    async fn global_get(&mut self, name: &str, _ty: ValType) -> SnapshotVal {
        let global = self.instance.get_global(&mut self.store, name);
        match global.map(|global| global.get(&mut self.store)) {
            Some(Val::I32(value)) => SnapshotVal::I32(value),
            Some(Val::I64(value)) => SnapshotVal::I64(value),
            Some(Val::F32(bits)) => SnapshotVal::F32(bits),
            Some(Val::F64(bits)) => SnapshotVal::F64(bits),
            Some(Val::V128(value)) => SnapshotVal::V128(value.as_u128()),
            // Wizer has refused all other types, and asks only for globals that it exported.
            _ => SnapshotVal::I32(0),
        }
    }

    async fn memory_contents(&mut self, name: &str, contents: impl FnOnce(&[u8]) + Send) {
        let memory = self.instance.get_memory(&mut self.store, name);
        contents(memory.as_ref().map_or(&[], |memory| memory.data(&self.store)));
    }
}
