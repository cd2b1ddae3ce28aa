//! The executor of a topic: it runs the topic's leased jobs, at most `concurrency` at once.
//!
//! Jobs run in executor tasks on the guests' own threads, so that no guest delays a heartbeat. A task runs
//! one job after the other until none waits. A topic starts with as many tasks as there are threads. When a
//! guest yields or waits, another task starts. Short jobs therefore need no task of their own, and long
//! jobs delay no others. All topics together hold at most `max_jobs` slots. A part of the slots is reserved
//! for topics with less than their share.

use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use duebox_job::Outcome;
use duebox_sandbox::{Interrupt, Invocation};
use futures_util::FutureExt;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use self::fair_semaphore::Permit;
use self::threads::TIME_SLICE;
use crate::deploy::binding::{self, Binding, Bound};
use crate::deploy::breaker::{self, Breaker};
use crate::monotonic;
use crate::observe::cost::Cost;
use crate::observe::fail_point;
use crate::observe::supervision::TaskKind;

use self::demotion::{Demotion, TimeSlice, abort_on_panic};
pub use self::ended_job::{AttemptOutput, EndedJob, Snoozes};
pub use self::lease_number::LeaseNumber;
use self::recorded_job::RecordedJob;
pub use self::resources::{ExecutorResources, TopicShare};

mod cpu_allowance;
mod cpu_limit;
pub mod cpu_quota;
mod demotion;
mod ended_job;
pub mod fair_semaphore;
mod lease_number;
mod recorded_job;
mod resources;
pub mod runs;
pub(crate) mod scheduler_attributes;
pub mod threads;

/// A leased job that waits to run.
pub struct QueuedJob {
    /// The job's lease.
    pub lease: LeaseNumber,
    /// The handler's input.
    pub invocation: Invocation,
    /// Interrupts the job.
    pub interrupt: Interrupt,
    /// How often it was snoozed.
    pub snoozes: Snoozes,
}

/// How busy an executor is.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Jobs that wait for a task.
    pub waiting: usize,
    /// Jobs that run.
    pub running: usize,
    /// Jobs that have ended and were not taken yet.
    pub ended: usize,
    /// Tasks that have not started a job yet: they wait for a slot or a thread.
    pub starting: usize,
    /// Threads of its own that no job occupies. A job that has yielded occupies none.
    pub free_threads: usize,
    /// When the first of the waiting jobs was added.
    pub waiting_since: Option<Instant>,
    /// When the longest running job was started, among those that have yielded.
    pub longest_since: Option<Instant>,
}

impl Load {
    /// How long the longest running job has run.
    pub fn longest(&self, now: Instant) -> Duration {
        self.longest_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

/// The executor of one topic, or of one of its shards. Clones are the same executor.
#[derive(Clone)]
pub struct Executor(Arc<Inner>);

struct Inner {
    resources: ExecutorResources,
    share: TopicShare,
    bound: Bound,
    breaker: Arc<Breaker>,
    state: Mutex<ExecutorState>,
    changed: Notify,
}

#[derive(Default)]
struct ExecutorState {
    /// Each with the moment at which it was added.
    waiting: VecDeque<(Instant, QueuedJob)>,
    tasks: usize,
    /// Jobs that have yielded, by start and lease. Other tasks run the jobs that wait.
    yielded: BTreeSet<(Instant, LeaseNumber)>,
    running: usize,
    ended: Vec<EndedJob>,
    notify_at_waiting: usize,
    notify_at_ended: usize,
    busy: Duration,
    busy_since: Option<Instant>,
}

impl Executor {
    /// Creates an executor for a topic, or for one of its shards.
    pub fn new(
        resources: ExecutorResources,
        share: TopicShare,
        bound: Bound,
        breaker: Arc<Breaker>,
    ) -> Self {
        let state = Mutex::new(ExecutorState::default());
        Self(Arc::new(Inner { resources, share, bound, breaker, state, changed: Notify::new() }))
    }

    /// An executor for the same topic that has no jobs.
    pub fn without_jobs(&self) -> Self {
        let Inner { resources, share, bound, breaker, .. } = &*self.0;
        Self::new(resources.clone(), share.clone(), bound.clone(), Arc::clone(breaker))
    }

    /// Adds jobs to run, in their order.
    pub fn push(&self, jobs: Vec<QueuedJob>) {
        if jobs.is_empty() {
            return;
        }
        let concurrency = self.0.concurrency();
        let mut state = self.0.state();
        let now = monotonic::now();
        state.busy_since.get_or_insert(now);
        state.waiting.extend(jobs.into_iter().map(|job| (now, job)));
        let free = self.0.resources.threads.each.min(state.waiting.len());
        let wanted = concurrency.min(state.yielded.len() + free);
        while state.tasks < wanted {
            self.0.start_task(&mut state);
        }
    }

    /// How busy it is.
    pub fn load(&self) -> Load {
        let state = self.0.state();
        let occupying = state.tasks.saturating_sub(state.yielded.len());
        Load {
            waiting: state.waiting.len(),
            running: state.running,
            ended: state.ended.len(),
            starting: state.tasks - state.running,
            free_threads: self.0.resources.threads.each.saturating_sub(occupying),
            waiting_since: state.waiting.front().map(|(since, _)| *since),
            longest_since: state.yielded.first().map(|(since, _)| *since),
        }
    }

    /// Waits for a change: fewer than `waiting` jobs wait, the first job or `ended` jobs have ended, or no
    /// job waits any more. It may return without one.
    pub async fn changed(&self, waiting: usize, ended: usize) {
        {
            let mut state = self.0.state();
            state.notify_at_waiting = waiting;
            state.notify_at_ended = ended;
        }
        self.0.changed.notified().await;
    }

    /// Takes at most `max` ended jobs, with at most `bytes_max` of output unless the first one alone has
    /// more, and the time during which jobs ran or waited since the last call.
    pub fn take_ended(&self, max: usize, bytes_max: usize) -> (Vec<EndedJob>, Duration) {
        let mut state = self.0.state();
        let ended = match state.fitting(max, bytes_max) {
            all if all == state.ended.len() => std::mem::take(&mut state.ended),
            some => state.ended.drain(..some).collect(),
        };
        let now = monotonic::now();
        let mut busy = std::mem::take(&mut state.busy);
        if let Some(since) = state.busy_since.replace(now) {
            busy += now - since;
        }
        if state.is_idle() {
            state.busy_since = None;
        }
        (ended, busy)
    }

    /// Takes back all waiting jobs, if the first of them has waited for `stall`.
    pub fn take_waiting(&self, stall: Duration) -> Vec<LeaseNumber> {
        let mut state = self.0.state();
        if state.waiting.front().is_none_or(|(since, _)| monotonic::now() - *since < stall) {
            return Vec::new();
        }
        state.waiting.drain(..).map(|(_, job)| job.lease).collect()
    }
}

impl ExecutorState {
    /// How many of the first ended jobs to take. The leases of the others are still renewed.
    fn fitting(&self, max: usize, bytes_max: usize) -> usize {
        let mut bytes = 0;
        let over = self.ended.iter().take(max).position(|ended| {
            bytes += ended.output.bytes();
            bytes > bytes_max
        });
        over.map_or(max.min(self.ended.len()), |at| at.max(1).min(max))
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running == 0
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, ExecutorState> {
        self.state.lock()
    }

    fn concurrency(&self) -> usize {
        self.bound.borrow().topic.concurrency as usize
    }

    fn start_task(self: &Arc<Self>, state: &mut ExecutorState) {
        state.tasks += 1;
        let (threads, demotion) = (&self.resources.threads, Demotion::new(Arc::clone(self)));
        match self.share.cpu_allowance.has_left(monotonic::now()) {
            true => drop(threads.interactive.spawn(abort_on_panic(demotion.run_interactive()))),
            false => drop(threads.long_running.spawn(abort_on_panic(demotion.run_long_running()))),
        }
    }

    /// Waits for one of the slots that all topics share.
    async fn acquire_slot(&self) -> Permit {
        let wanted = {
            let topic = &self.bound.borrow().topic;
            topic.concurrency as usize * topic.shards.get() as usize
        };
        self.share.slots.acquire(wanted).await
    }

    /// The job of a task has yielded: starts one more task if a job waits and `concurrency` allows it.
    fn add_yielded(self: &Arc<Self>, started_at: Instant, lease: LeaseNumber) {
        let concurrency = self.concurrency();
        let mut state = self.state();
        state.yielded.insert((started_at, lease));
        if !state.waiting.is_empty() && state.tasks < concurrency {
            self.start_task(&mut state);
        }
    }

    async fn run_jobs(self: Arc<Self>, time_slice: Arc<TimeSlice>) {
        fail_point::pass("executor");
        let mut slot = Some(self.acquire_slot().await);
        let mut slot_since = monotonic::now();
        let mut has_yielded = false;
        let mut yielded_at = slot_since;
        while let Some(job) = self.next_job() {
            if has_yielded {
                time_slice.restart();
            }
            let ended;
            (ended, has_yielded) = self.run(job, &time_slice).await;
            if ended.is_acked_within(TIME_SLICE) {
                self.share.cpu_allowance.slice_sufficed();
            } else if !has_yielded {
                self.charge_job(&time_slice, ended.started_at);
            }
            self.add_ended(ended);
            time_slice.yield_core(&mut yielded_at);
            if monotonic::now() - slot_since > TIME_SLICE {
                drop(slot.take());
                tokio::task::yield_now().await;
                slot = Some(self.acquire_slot().await);
                slot_since = monotonic::now();
            }
        }
    }

    /// The next job for a task. The task ends if no job waits, if a reload lowered `concurrency`, or if the
    /// breaker is open: the worker then releases the jobs that wait.
    fn next_job(&self) -> Option<QueuedJob> {
        let concurrency = self.concurrency();
        let is_held_back = self.breaker.holds_back();
        let mut state = self.state();
        let ends = state.tasks > concurrency || is_held_back;
        let next = if ends { None } else { state.waiting.pop_front() };
        let Some((_, job)) = next else {
            state.tasks -= 1;
            // A worker whose jobs did not start in time leases again when no task is starting any more.
            if state.tasks == state.running {
                self.changed.notify_one();
            }
            return None;
        };
        state.running += 1;
        if state.waiting.len() == state.notify_at_waiting {
            self.changed.notify_one();
        }
        Some(job)
    }

    /// Runs a job. The flag is true if the job has yielded.
    async fn run(self: &Arc<Self>, job: QueuedJob, time_slice: &TimeSlice) -> (EndedJob, bool) {
        let binding = binding::current(&self.bound);
        let recorded = RecordedJob::begin(&binding.topic, &job.invocation);
        let host_services = match &recorded {
            None => Arc::clone(&self.resources.host_services),
            Some(recorded) => recorded.services(&self.resources.host_services),
        };
        let started_at = monotonic::now();
        let handler = binding.handlers.of(&job.invocation.id);
        let digest = handler.digest();
        let lease = job.lease;
        let runs = &self.resources.runs;
        let run = async {
            fail_point::pass(TaskKind::Guest.word());
            runs.run(handler, job.invocation, job.interrupt, host_services).await
        };
        // A panic of the host must lose neither the task nor the job.
        let mut run = pin!(AssertUnwindSafe(run).catch_unwind());
        let mut has_yielded = false;
        let report = std::future::poll_fn(|context| match run.as_mut().poll(context) {
            Poll::Pending => {
                if !std::mem::replace(&mut has_yielded, true) {
                    self.charge_job(time_slice, started_at);
                    self.add_yielded(started_at, lease);
                }
                Poll::Pending
            }
            ready => ready,
        })
        .await;
        if has_yielded {
            self.state().yielded.remove(&(started_at, lease));
        }
        let wall = monotonic::now() - started_at;
        let cost = report.as_ref().map_or(Cost::of_wall(wall), |report| Cost::of(report, wall));
        let (outcome, output) = match report {
            Ok(report) => {
                let recording = recorded.and_then(|recorded| {
                    recorded.finish(&report, job.snoozes, &binding.topic, handler)
                });
                let (outcome, output) = AttemptOutput::of(report);
                (outcome, AttemptOutput { recording, ..output })
            }
            Err(payload) => {
                self.resources.supervision.record_caught_panic(TaskKind::Guest, &*payload);
                let why = "the host panicked while it ran the job".to_owned();
                (Outcome::HostFault(why), AttemptOutput::default())
            }
        };
        let outcome = job.snoozes.judge(outcome);
        let opened = self.count_in_breaker(&binding, &outcome, started_at);
        (EndedJob { lease, outcome, output, digest, started_at, cost, opened }, has_yielded)
    }

    /// Counts an attempt in the breaker; true if that opened it.
    fn count_in_breaker(&self, binding: &Binding, outcome: &Outcome, started_at: Instant) -> bool {
        let rule = &binding.topic.breaker;
        breaker::is_module_failure(rule, outcome)
            .is_some_and(|failed| self.breaker.record_outcome(rule, failed, started_at))
    }

    fn add_ended(&self, ended: EndedJob) {
        let mut state = self.state();
        state.running -= 1;
        state.ended.push(ended);
        if state.is_idle()
            && let Some(since) = state.busy_since.take()
        {
            state.busy += monotonic::now() - since;
        }
        let count = state.ended.len();
        if count == 1 || count == state.notify_at_ended || state.waiting.is_empty() {
            drop(state);
            self.changed.notify_one();
        }
    }
}
