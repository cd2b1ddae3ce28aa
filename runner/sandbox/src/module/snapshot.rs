//! A module as it is after `_initialize`: run once, its memory and globals written down as a new module.
//! Each job still has an instance of its own, made from that image. Time stands still and nothing of a job
//! is there while it is taken; what the guest draws at random there, every job finds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use duebox_job::{JobId, Outcome, TopicName};
use wasmtime::{Instance, InstancePre, Store, UpdateDeadline, Val};
use wasmtime_wizer::{InstanceState, ModuleContext, SnapshotVal, ValType, Wizer};

use crate::digest::Digest;
use crate::imports::log::{JobContext, JobLog, Level, LogSink};
use crate::imports::services::World;
use crate::imports::wasi;
use crate::instance::guest::Guest;
use crate::instance::limiter::Meter;
use crate::invocation::Invocation;
use crate::limits::{Grants, Limits};
use crate::memory_budget::{Account, Budget};
use crate::module::error::LoadError;
use crate::module::segments;
use crate::outcome::failure::{self, End};

/// What runs once.
const INITIALIZE: &str = "_initialize";
/// Under which names the module of a snapshot exports what of it can change: each global that can, and its
/// memory. They are the library's, which refuses a module that has such a name of its own.
pub(crate) const GLOBALS: &str = "__wizer_global_";
pub(crate) const MEMORY: &str = "__wizer_memory_0";
/// How long it may take.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Whether there is something to run once.
pub(crate) fn is_wanted(limits: &Limits, binary: &[u8]) -> bool {
    let mut payloads = wasmparser::Parser::new(0).parse_all(binary);
    limits.instances.snapshot
        && payloads.any(|payload| match payload {
            Ok(wasmparser::Payload::ExportSection(section)) => section
                .into_iter()
                .any(|export| export.is_ok_and(|export| export.name == INITIALIZE)),
            _ => false,
        })
}

/// The module after its `_initialize`, which exports all that a job can change of it. `link` compiles and links
/// the module that is run for it. Blocks.
pub(crate) fn take(
    binary: &[u8],
    limits: &Limits,
    grants: &Grants,
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
            let mut state = initialize(&linked, limits, grants).await?;
            write_down(&wizer, &context, &mut state).await
        })
    };
    // On a thread of its own: the caller may be inside a runtime, and the library may panic.
    let taken = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("snapshot".to_owned());
        Some(thread.spawn_scoped(scope, work).ok()?.join())
    });
    match taken {
        Some(Ok(taken)) => taken,
        Some(Err(_)) => Err(LoadError::Snapshot("this module is beyond what can be".to_owned())),
        None => Err(LoadError::Snapshot("no thread can be started for it".to_owned())),
    }
}

async fn write_down(
    wizer: &Wizer,
    context: &ModuleContext<'_>,
    state: &mut State,
) -> Result<Vec<u8>, LoadError> {
    let written = wizer.snapshot(context, state).await.map_err(refused)?;
    let (_, exported) = Wizer::new().instrument(&written).map_err(refused)?;
    Ok(exported)
}

fn refused(error: wasmtime::Error) -> LoadError {
    LoadError::Snapshot(error.root_cause().to_string())
}

/// The instance that is written down.
struct State {
    store: Store<Guest>,
    instance: Instance,
}

async fn initialize(
    linked: &InstancePre<Guest>,
    limits: &Limits,
    grants: &Grants,
) -> Result<State, LoadError> {
    let engine = linked.module().engine();
    let guest = guest(linked, limits, grants).map_err(LoadError::Snapshot)?;
    let mut store = Store::try_new(engine, guest).map_err(refused)?;
    store.limiter(|guest| &mut guest.meter);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|store| {
        Ok(match store.data().clock.left().is_zero() {
            true => UpdateDeadline::Interrupt,
            false => UpdateDeadline::Yield(1),
        })
    });
    store.set_hostcall_fuel(wasi::CALL_BYTES_MAX);
    if limits.fuel > 0 {
        store.set_fuel(limits.fuel).map_err(refused)?;
    }
    let run = async {
        let instance = linked.instantiate_async(&mut store).await?;
        let initialize = instance.get_typed_func::<(), ()>(&mut store, INITIALIZE)?;
        initialize.call_async(&mut store, ()).await?;
        wasmtime::Result::Ok(instance)
    };
    let end = match tokio::time::timeout(TIME_MAX, run).await {
        Ok(Ok(instance)) => return Ok(State { store, instance }),
        Ok(Err(error)) => End::Broken(error),
        Err(_) => End::TimedOut,
    };
    let why = match failure::outcome(end, store.data_mut()) {
        Outcome::Failed(failure) => format!("{} ({})", failure.reason, failure.class),
        Outcome::HostFault(why) => why,
        Outcome::Acked | Outcome::Snoozed { .. } => "it did not come to its end".to_owned(),
    };
    let said = store.data().log.take_tail().join("; ");
    let said = if said.is_empty() { said } else { format!("; it said: {said}") };
    Err(LoadError::Snapshot(format!("its {INITIALIZE} failed: {why}{said}")))
}

/// A guest without a job, for whom time stands still.
fn guest(linked: &InstancePre<Guest>, limits: &Limits, grants: &Grants) -> Result<Guest, String> {
    let id = JobId::new("snapshot").map_err(|error| error.to_string())?;
    let topic = TopicName::new("snapshot").map_err(|error| error.to_string())?;
    let none = Digest::of(b"");
    let unheard: Arc<dyn LogSink> = Arc::new(Unheard);
    let world = Arc::new(World::of(Arc::clone(&unheard)));
    let log = JobLog::new(id.clone(), topic.clone(), 1, none, unheard, limits.log);
    let invocation = Invocation {
        id,
        topic,
        payload: Bytes::new(),
        attempt: 1,
        max_attempts: 1,
        due_at_ms: 0,
        headers: BTreeMap::new(),
        ttr: TIME_MAX,
        span: None,
    };
    // Beside the budget of all: it lives for a moment, and no job waits with it.
    let meter = Meter::new(limits, Arc::new(Account::of(Arc::<Budget>::default())));
    let grants = Arc::new(grants.clone());
    let mut guest =
        Guest::new(invocation, grants, Arc::new(log), world, meter, limits.fuel, Instant::now());
    guest.memory_export = linked.module().get_export_index("memory");
    guest.born = None;
    Ok(guest)
}

/// What a guest says before it has a job is told only if it fails.
struct Unheard;

impl LogSink for Unheard {
    fn line(&self, _job: &JobContext<'_>, level: Level, text: &str) {
        tracing::debug!("while a snapshot is taken: {}: {text}", level.name());
    }
}

impl InstanceState for State {
    async fn global_get(&mut self, name: &str, _ty: ValType) -> SnapshotVal {
        let global = self.instance.get_global(&mut self.store, name);
        match global.map(|global| global.get(&mut self.store)) {
            Some(Val::I32(value)) => SnapshotVal::I32(value),
            Some(Val::I64(value)) => SnapshotVal::I64(value),
            Some(Val::F32(bits)) => SnapshotVal::F32(bits),
            Some(Val::F64(bits)) => SnapshotVal::F64(bits),
            Some(Val::V128(value)) => SnapshotVal::V128(value.as_u128()),
            // The library has refused every other kind before, and names only what it exported.
            _ => SnapshotVal::I32(0),
        }
    }

    async fn memory_contents(&mut self, name: &str, contents: impl FnOnce(&[u8]) + Send) {
        let memory = self.instance.get_memory(&mut self.store, name);
        contents(memory.as_ref().map_or(&[], |memory| memory.data(&self.store)));
    }
}
