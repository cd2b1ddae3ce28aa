//! The state of one running instance. It is composed of the states of the imports, and implements the trait
//! of each.
//!
//! The state lives as long as the instance. When the instance gets another job, everything that belongs to
//! the last job is replaced.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Instant;

use wasmtime::ModuleExport;
use wasmtime_wasi::p1::WasiP1Ctx;

use crate::grants::Grants;
use crate::imports::assemblyscript::HasInstanceClock;
use crate::imports::call::{CallState, GuestState};
use crate::imports::clock::{AttemptClock, InstanceClock};
use crate::imports::http::{HasHttp, HttpClient, HttpState};
use crate::imports::intercept::Interceptor;
use crate::imports::io::HostIo;
use crate::imports::job::{HasJob, JobState};
use crate::imports::kv::{HasKv, KeyValue, SeenRevisions};
use crate::imports::log::{HasLog, JobLog};
use crate::imports::output::{GuestOutput, HasOutput};
use crate::imports::push::{FollowUps, HasFollowUps};
use crate::imports::services::HostServices;
use crate::imports::spans::{HasSpans, Spans};
use crate::imports::wasi::{HasWasi, WasiClock, WasiState};
use crate::instance::limiter::Limiter;
use crate::invocation::Invocation;
use crate::memory_budget::MemoryReservation;

/// One attempt of a job, with what its guest uses.
pub(crate) struct Attempt {
    pub(crate) invocation: Invocation,
    pub(crate) log: Arc<JobLog>,
    pub(crate) services: Arc<HostServices>,
    pub(crate) began: Instant,
}

/// What a guest gets from its module and its topic.
pub(crate) struct GuestSetup {
    pub(crate) grants: Arc<Grants>,
    pub(crate) limiter: Limiter,
    /// The fuel limit of each job.
    pub(crate) fuel: Option<NonZeroU64>,
    pub(crate) memory_export: Option<ModuleExport>,
}

/// The state of one instance.
pub(crate) struct Guest {
    pub(crate) limiter: Limiter,
    pub(crate) fuel: Option<NonZeroU64>,
    pub(crate) instance_clock: InstanceClock,
    /// Whether the instance waits for memory to start with.
    pub(crate) waits_for_memory: bool,
    pub(crate) job: JobState,
    pub(crate) log: Arc<JobLog>,
    pub(crate) output: GuestOutput,
    pub(crate) follow_ups: FollowUps,
    pub(crate) spans: Spans,
    pub(crate) wasi: WasiState,
    grants: Arc<Grants>,
    services: Arc<HostServices>,
    calls: CallState,
    http: HttpState,
    seen_revisions: SeenRevisions,
}

impl Guest {
    pub(crate) fn new(setup: GuestSetup, attempt: Attempt) -> Self {
        let Attempt { mut invocation, log, services, began } = attempt;
        let spans = Spans::new(invocation.span.take());
        let clock = AttemptClock::new(began, invocation.ttr);
        Self {
            limiter: setup.limiter,
            fuel: setup.fuel,
            instance_clock: InstanceClock::Running { since: began },
            waits_for_memory: false,
            job: JobState::new(invocation, clock),
            log,
            output: GuestOutput::default(),
            follow_ups: FollowUps::default(),
            spans,
            wasi: WasiState::default(),
            grants: setup.grants,
            services,
            calls: CallState::new(setup.memory_export),
            http: HttpState::default(),
            seen_revisions: SeenRevisions::default(),
        }
    }

    /// Whether the start function, if there is one, leaves the same in every instance: it has called no import, and no
    /// memory was refused to it.
    pub(crate) fn has_repeatable_start(&self) -> bool {
        self.calls.io.calls() == 0 && self.limiter.refused.is_none()
    }

    /// Begins another job, after [`end_job`](Self::end_job) for the last one. What belongs to the instance
    /// stays: its memory, and its WASI context, whose clock must not run backwards.
    pub(crate) fn begin_job(&mut self, attempt: Attempt) {
        let Attempt { mut invocation, log, services, began } = attempt;
        self.wasi.redirect_output(&log);
        self.spans = Spans::new(invocation.span.take());
        let clock = AttemptClock::new(began, invocation.ttr);
        self.job = JobState::new(invocation, clock);
        self.log = log;
        self.services = services;
        self.limiter.begin_job();
        self.calls.io = HostIo::default();
    }

    /// Begins the job of another guest, which has not started it.
    pub(crate) fn take_job(&mut self, from: &mut Self) {
        let invocation = from.job.invocation.clone();
        let (log, services) = (Arc::clone(&from.log), Arc::clone(&from.services));
        self.begin_job(Attempt { invocation, log, services, began: from.job.clock.started });
        std::mem::swap(&mut self.spans, &mut from.spans);
    }

    /// Drops what the last job left in the host.
    pub(crate) fn end_job(&mut self) {
        self.job.clear();
        self.output = GuestOutput::default();
        self.follow_ups = FollowUps::default();
        self.seen_revisions = SeenRevisions::default();
        self.http = HttpState::default();
    }

    /// Writes the unfinished lines of the output to the log.
    pub(crate) fn finish_output(&self) {
        self.calls.io.count_out(self.wasi.finish_output());
    }
}

impl GuestState for Guest {
    fn calls(&self) -> &CallState {
        &self.calls
    }

    fn calls_mut(&mut self) -> &mut CallState {
        &mut self.calls
    }

    fn grants(&self) -> &Arc<Grants> {
        &self.grants
    }

    fn interceptor(&self) -> Option<&Arc<dyn Interceptor>> {
        self.services.interceptor.as_ref()
    }
}

impl HasJob for Guest {
    fn job(&self) -> &JobState {
        &self.job
    }

    fn job_mut(&mut self) -> &mut JobState {
        &mut self.job
    }
}

impl HasLog for Guest {
    fn log(&self) -> &Arc<JobLog> {
        &self.log
    }
}

impl HasOutput for Guest {
    fn output_mut(&mut self) -> &mut GuestOutput {
        &mut self.output
    }
}

impl HasSpans for Guest {
    fn spans(&self) -> &Spans {
        &self.spans
    }

    fn spans_mut(&mut self) -> &mut Spans {
        &mut self.spans
    }
}

impl HasFollowUps for Guest {
    fn follow_ups_mut(&mut self) -> &mut FollowUps {
        &mut self.follow_ups
    }
}

impl HasHttp for Guest {
    fn http(&self) -> &HttpState {
        &self.http
    }

    fn http_mut(&mut self) -> &mut HttpState {
        &mut self.http
    }

    fn http_client(&self) -> Option<&HttpClient> {
        self.services.http.as_ref()
    }

    fn reserve_memory(&self) -> MemoryReservation {
        self.limiter.reservation()
    }
}

impl HasKv for Guest {
    fn seen_revisions(&self) -> &SeenRevisions {
        &self.seen_revisions
    }

    fn seen_revisions_mut(&mut self) -> &mut SeenRevisions {
        &mut self.seen_revisions
    }

    fn kv_store(&self) -> Option<&Arc<dyn KeyValue>> {
        self.services.kv.as_ref()
    }
}

impl HasWasi for Guest {
    fn wasi(&mut self) -> &mut WasiP1Ctx {
        self.calls.io.count_call();
        let clock = WasiClock {
            instance: self.instance_clock,
            interceptor: self.services.interceptor.as_ref(),
        };
        self.wasi.context(&self.grants, &self.log, clock)
    }
}

impl HasInstanceClock for Guest {
    fn instance_clock(&self) -> InstanceClock {
        self.instance_clock
    }
}
