//! The host's side of one running instance: what the imports read and what the guest has said so far. It
//! lives as long as the instance; where that runs another job, all that belongs to the job is new.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use wasmtime::{Memory, ModuleExport};
use wasmtime_wasi::p1::WasiP1Ctx;

use crate::imports::http::Exchanges;
use crate::imports::io::Traffic;
use crate::imports::kv::Seen;
use crate::imports::log::JobLog;
use crate::imports::output::Said;
use crate::imports::services::World;
use crate::imports::spans::{Target, Traced, new_id};
use crate::imports::wasi::Wasi;
use crate::instance::limiter::Meter;
use crate::invocation::Invocation;
use crate::limits::Grants;

/// Where in its life an instance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// In its start function or `_initialize`, which belong to no job: only `log` and `random` work.
    Starting,
    /// In `alloc` or `handle`.
    Handling,
}

/// The state behind one instance.
pub(crate) struct Guest {
    pub(crate) invocation: Invocation,
    pub(crate) grants: Arc<Grants>,
    pub(crate) log: Arc<JobLog>,
    pub(crate) world: Arc<World>,
    pub(crate) meter: Meter,
    pub(crate) clock: Clock,
    /// The budget of fuel; 0 for none.
    pub(crate) fuel: u64,
    pub(crate) phase: Phase,
    /// Where the module exports its memory, and the memory once looked up.
    pub(crate) memory_export: Option<ModuleExport>,
    pub(crate) memory: Option<Memory>,
    pub(crate) said: Said,
    /// What the job has seen of its topic's store.
    pub(crate) seen: Seen,
    pub(crate) traffic: Traffic,
    pub(crate) exchanges: Exchanges,
    /// What is noted of an attempt that has a place in a trace.
    pub(crate) traced: Option<Box<Traced>>,
    /// When the instance was made; none while a snapshot is taken, when time stands still.
    pub(crate) born: Option<Instant>,
    /// Set while the instance waits for memory to start with.
    pub(crate) waits_for_memory: bool,
    /// The headers as a block, made when first asked for.
    pub(crate) headers: Option<String>,
    /// Made when WASI is first called: most modules never do.
    wasi: Option<Box<Wasi>>,
}

impl Guest {
    pub(crate) fn new(
        mut invocation: Invocation,
        grants: Arc<Grants>,
        log: Arc<JobLog>,
        world: Arc<World>,
        meter: Meter,
        fuel: u64,
        began: Instant,
    ) -> Self {
        let clock = Clock::start(began, invocation.ttr);
        let traced = invocation.span.take().map(|span| Box::new(Traced::at(*span)));
        Self {
            invocation,
            grants,
            log,
            world,
            meter,
            clock,
            fuel,
            phase: Phase::Starting,
            memory_export: None,
            memory: None,
            said: Said::default(),
            seen: Seen::default(),
            traffic: Traffic::default(),
            exchanges: Exchanges::default(),
            traced,
            born: Some(began),
            waits_for_memory: false,
            headers: None,
            wasi: None,
        }
    }

    /// Turns to the next job, after it has [let go](Self::let_go) of the last. What belongs to the
    /// instance stays: its memory, and its WASI, whose clock must not run backwards.
    pub(crate) fn start_over(
        &mut self,
        mut invocation: Invocation,
        log: Arc<JobLog>,
        world: Arc<World>,
        began: Instant,
    ) {
        if let Some(wasi) = &self.wasi {
            wasi.output.say_to(&log);
        }
        self.clock = Clock::start(began, invocation.ttr);
        self.traced = invocation.span.take().map(|span| Box::new(Traced::at(*span)));
        self.invocation = invocation;
        self.log = log;
        self.world = world;
        self.meter.start_over();
        self.traffic = Traffic::default();
    }

    /// A call that leads out of the sandbox begins; its number, if the attempt has a place in a trace.
    pub(crate) fn begins(&mut self, target: Target) -> Option<usize> {
        self.traced.as_mut().map(|traced| traced.begins(new_id(), target))
    }

    /// That call is over; and why it came to nothing, if it did.
    pub(crate) fn ended(
        &mut self,
        call: Option<usize>,
        failed: impl FnOnce() -> Option<String>,
    ) -> Option<&mut Target> {
        self.traced.as_mut()?.ended(call?, failed())
    }

    /// Drops the WASI context with all that is open there; the next call makes a new one.
    pub(crate) fn drop_wasi(&mut self) {
        self.wasi = None;
    }

    /// Lets go of what the last job left with the host: its payload, and what was said of it.
    pub(crate) fn let_go(&mut self) {
        self.invocation.payload = Bytes::new();
        self.said = Said::default();
        self.seen = Seen::default();
        self.exchanges = Exchanges::default();
        self.headers = None;
    }

    /// The WASI context of this instance. Each call of WASI asks for it once.
    pub(crate) fn wasi(&mut self) -> &mut WasiP1Ctx {
        self.traffic.call();
        let frozen = self.born.is_none();
        let make = || Box::new(Wasi::new(&self.grants, &self.log, frozen));
        let wasi = self.wasi.get_or_insert_with(make);
        &mut wasi.context
    }

    /// Whether the job left what it was given as it was: no file open, and no stream closed.
    pub(crate) fn left_wasi_as_given(&mut self) -> bool {
        self.wasi.as_mut().is_none_or(|wasi| wasi.is_as_given())
    }

    /// Says what the guest left unfinished on its output.
    pub(crate) fn finish_output(&self) {
        if let Some(wasi) = &self.wasi {
            self.traffic.took(wasi.output.finish());
        }
    }
}

/// The time of one attempt.
#[derive(Debug)]
pub(crate) struct Clock {
    pub(crate) started: Instant,
    pub(crate) deadline: Instant,
    /// The deadline in unix milliseconds, once it was asked for.
    deadline_ms: Cell<Option<u64>>,
}

/// A ttr beyond this is as good as none: 100 years.
const TTR_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

impl Clock {
    fn start(began: Instant, ttr: Duration) -> Self {
        let deadline = began.checked_add(ttr.min(TTR_MAX)).unwrap_or(began);
        Self { started: began, deadline, deadline_ms: Cell::new(None) }
    }

    /// The deadline in unix milliseconds, the same whenever it is asked for.
    pub(crate) fn deadline_ms(&self) -> u64 {
        let ms = self.deadline_ms.get();
        let ms = ms.unwrap_or_else(|| unix_ms().saturating_add(millis(self.left())));
        self.deadline_ms.set(Some(ms));
        ms
    }

    /// What is left of the ttr.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// Now, in unix milliseconds; 0 on a machine whose clock is before 1970.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

/// A duration in whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
