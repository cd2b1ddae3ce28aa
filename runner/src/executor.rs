//! The lanes of a topic: where its leased jobs run, at most `concurrency` at once.
//!
//! A lane is a task on the guests' own threads, so that no guest ever delays a heartbeat. It runs one
//! job after the other until none waits. A topic starts with as many lanes as there are cores; when a
//! guest yields or waits another lane opens, so that short jobs pay for no task of their own and
//! long ones stand in nobody's way. All topics together hold at most `max_jobs` slots, of which a part
//! is kept for topics that have few.

use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use duebox_job::{FollowUp, Outcome};
use duebox_sandbox::{AttemptTrace, Digest, HostServices, Interrupt, Invocation, RunReport};
use futures_util::FutureExt;
use tokio::sync::Notify;

use self::fair_semaphore::{Gate, Line, Pass};
use self::threads::{TURN_MAX, Threads};
use crate::deploy::binding::{self, Bound};
use crate::observe::cost::Cost;

use self::cpu_allowance::QuickTime;
use self::demotion::{Crossing, Stretch};

mod cpu_allowance;
mod demotion;
pub mod fair_semaphore;
pub(crate) mod scheduler_attributes;
pub mod threads;
pub mod timer;

/// The part of all slots that is kept for topics with less than their share of it: one in so many.
const SLOTS_KEPT_ONE_IN: usize = 4;

/// A leased job that waits to run.
pub struct Task {
    /// The worker's own name for it.
    pub key: u64,
    /// What the handler is told.
    pub invocation: Invocation,
    /// Ends it from outside.
    pub interrupt: Interrupt,
}

/// A job that has run.
pub struct Ended {
    /// The worker's own name for it.
    pub key: u64,
    /// What came of it.
    pub outcome: Outcome,
    /// What it leaves behind.
    pub remains: Remains,
    /// The module that ran it.
    pub digest: Digest,
    /// When it was started.
    pub started_at: Instant,
    /// What it cost.
    pub cost: Cost,
}

/// What a job leaves behind beside its outcome.
#[derive(Default)]
pub struct Remains {
    /// What its handler set as its result.
    pub result: Option<Bytes>,
    /// Jobs its handler asked for.
    pub follow_ups: Vec<FollowUp>,
    /// What ended the guest, and the calls that led to it.
    pub trace: Option<String>,
    /// The last lines of its log, if it failed.
    pub log_tail: Vec<String>,
    /// Its place in a trace and the calls below it, if it is recorded.
    pub traced: Option<Box<AttemptTrace>>,
}

impl Remains {
    fn of(report: RunReport) -> (Outcome, Self) {
        let RunReport {
            outcome,
            result,
            follow_ups,
            backtrace: trace,
            log_tail,
            attempt_trace: traced,
            ..
        } = report;
        (outcome, Self { result, follow_ups, trace, log_tail, traced })
    }
}

/// How full the lanes are.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Jobs that wait for a lane.
    pub waiting: usize,
    /// Jobs that run.
    pub running: usize,
    /// Jobs that have run and were not taken yet.
    pub ended: usize,
    /// Lanes that are open and have not come to start a job: they wait for a slot or a thread.
    pub opening: usize,
    /// Since when the first of the waiting jobs waits.
    pub waiting_since: Option<Instant>,
    /// When the job was started that runs longest, of those that have yielded or waited.
    pub longest_since: Option<Instant>,
}

impl Load {
    /// How long the longest of the running jobs has run.
    pub fn longest(&self, now: Instant) -> Duration {
        self.longest_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

/// What the guests of all topics share.
#[derive(Clone)]
pub struct Ground {
    /// The guests' own threads.
    pub threads: Threads,
    /// One pass a guest: `runner.max_jobs`.
    pub slots: Gate,
    /// What they reach outside of the sandbox.
    pub world: Arc<HostServices>,
}

/// What a topic has of the ground that others want, too. Clones are the same topic's.
#[derive(Clone)]
pub struct Share {
    slots: Arc<Line>,
    turns: Arc<Line>,
    quick_time: Arc<QuickTime>,
}

impl Ground {
    /// The gate for so many jobs at once.
    pub fn slots(max_jobs: u32) -> Gate {
        let slots = max_jobs as usize;
        Gate::new(slots, slots / SLOTS_KEPT_ONE_IN)
    }

    /// The share of a topic that runs so many jobs at once.
    pub fn share(&self, concurrency: usize) -> Share {
        Share {
            slots: self.slots.line(concurrency),
            turns: self.threads.turns.line(usize::MAX),
            quick_time: Arc::default(),
        }
    }
}

/// The lanes of one topic. Clones are the same lanes.
#[derive(Clone)]
pub struct Lanes(Arc<Shared>);

struct Shared {
    ground: Ground,
    share: Share,
    bound: Bound,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Each with when it came.
    waiting: VecDeque<(Instant, Task)>,
    lanes: usize,
    /// Jobs that have yielded or wait, each by its start and key: whatever else comes is for other lanes.
    aside: BTreeSet<(Instant, u64)>,
    running: usize,
    ended: Vec<Ended>,
    notify_at_waiting: usize,
    notify_at_ended: usize,
    busy: Duration,
    busy_since: Option<Instant>,
}

impl Lanes {
    /// Lanes for a topic, or for one of its shards, on ground shared with other topics.
    pub fn new(ground: Ground, share: Share, bound: Bound) -> Self {
        let state = Mutex::new(State::default());
        Self(Arc::new(Shared { ground, share, bound, state, changed: Notify::new() }))
    }

    /// Adds jobs to run, in their order.
    pub fn push(&self, tasks: Vec<Task>) {
        if tasks.is_empty() {
            return;
        }
        let concurrency = self.0.concurrency();
        let mut state = self.0.state();
        let now = Instant::now();
        state.busy_since.get_or_insert(now);
        state.waiting.extend(tasks.into_iter().map(|task| (now, task)));
        let free = self.0.ground.threads.each.min(state.waiting.len());
        let wanted = concurrency.min(state.aside.len() + free);
        while state.lanes < wanted {
            self.0.open_lane(&mut state);
        }
    }

    /// How full the lanes are.
    pub fn load(&self) -> Load {
        let state = self.0.state();
        Load {
            waiting: state.waiting.len(),
            running: state.running,
            ended: state.ended.len(),
            opening: state.lanes - state.running,
            waiting_since: state.waiting.front().map(|(since, _)| *since),
            longest_since: state.aside.first().map(|(since, _)| *since),
        }
    }

    /// Waits until something has changed that a worker may care for: fewer than `waiting` jobs wait,
    /// a first job has ended, `ended` jobs have, or the lanes run dry. It may return for nothing.
    pub async fn changed(&self, waiting: usize, ended: usize) {
        {
            let mut state = self.0.state();
            state.notify_at_waiting = waiting;
            state.notify_at_ended = ended;
        }
        self.0.changed.notified().await;
    }

    /// Takes the jobs that have ended, at most `max`, and the time the lanes were busy meanwhile.
    pub fn take_ended(&self, max: usize) -> (Vec<Ended>, Duration) {
        let mut state = self.0.state();
        let ended = if state.ended.len() <= max {
            std::mem::take(&mut state.ended)
        } else {
            state.ended.drain(..max).collect()
        };
        let now = Instant::now();
        let mut busy = std::mem::take(&mut state.busy);
        if let Some(since) = state.busy_since.replace(now) {
            busy += now - since;
        }
        if state.is_idle() {
            state.busy_since = None;
        }
        (ended, busy)
    }

    /// Takes back all jobs that wait, if the first of them has waited for `stall`.
    pub fn take_waiting(&self, stall: Duration) -> Vec<u64> {
        let mut state = self.0.state();
        if state.waiting.front().is_none_or(|(since, _)| since.elapsed() < stall) {
            return Vec::new();
        }
        state.waiting.drain(..).map(|(_, task)| task.key).collect()
    }
}

impl State {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running == 0
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn concurrency(&self) -> usize {
        self.bound.borrow().topic.concurrency as usize
    }

    fn open_lane(self: &Arc<Self>, state: &mut State) {
        state.lanes += 1;
        let (threads, lane) = (&self.ground.threads, Crossing::new(Arc::clone(self)));
        match self.share.quick_time.is_left(Instant::now()) {
            true => drop(threads.quick.spawn(lane.quick())),
            false => drop(threads.slow.spawn(lane.slow())),
        }
    }

    /// Waits for one of the slots that all topics share.
    async fn slot(&self) -> Pass {
        let wanted = {
            let topic = &self.bound.borrow().topic;
            topic.concurrency as usize * topic.shards.max(1) as usize
        };
        self.share.slots.enter(wanted).await
    }

    /// The job of a lane has yielded or waits: opens one more if a job waits for one and the topic
    /// may have it.
    fn stand_aside(self: &Arc<Self>, started_at: Instant, key: u64) {
        let concurrency = self.concurrency();
        let mut state = self.state();
        state.aside.insert((started_at, key));
        if !state.waiting.is_empty() && state.lanes < concurrency {
            self.open_lane(&mut state);
        }
    }

    async fn lane(self: Arc<Self>, stretch: Arc<Stretch>) {
        let mut slot = Some(self.slot().await);
        let mut slot_since = Instant::now();
        let mut waited = false;
        let mut gave_way = slot_since;
        while let Some(task) = self.next() {
            if waited {
                stretch.begin();
            }
            let ended;
            (ended, waited) = self.run(task).await;
            self.end(ended);
            stretch.give_way(&mut gave_way);
            if slot_since.elapsed() > TURN_MAX {
                drop(slot.take());
                tokio::task::yield_now().await;
                slot = Some(self.slot().await);
                slot_since = Instant::now();
            }
        }
    }

    /// The next job for a lane; without one, or where a reload left too many lanes, the lane closes.
    fn next(&self) -> Option<Task> {
        let concurrency = self.concurrency();
        let mut state = self.state();
        let task = if state.lanes > concurrency { None } else { state.waiting.pop_front() };
        let Some((_, task)) = task else {
            state.lanes -= 1;
            // A worker whose jobs could not start in time leases again when no lane is opening any more.
            if state.lanes == state.running {
                self.changed.notify_one();
            }
            return None;
        };
        state.running += 1;
        if state.waiting.len() == state.notify_at_waiting {
            self.changed.notify_one();
        }
        Some(task)
    }

    /// Runs a job, and says whether it gave way or waited meanwhile.
    async fn run(self: &Arc<Self>, task: Task) -> (Ended, bool) {
        let binding = binding::current(&self.bound);
        let world = Arc::clone(&self.ground.world);
        let started_at = Instant::now();
        let handler = binding.handlers.of(&task.invocation.id);
        let digest = handler.digest();
        let key = task.key;
        let run = handler.run(task.invocation, task.interrupt, world);
        // A panic of the host must cost neither the lane nor the job.
        let mut run = pin!(AssertUnwindSafe(run).catch_unwind());
        let mut waited = false;
        let report = std::future::poll_fn(|context| match run.as_mut().poll(context) {
            Poll::Pending => {
                if !std::mem::replace(&mut waited, true) {
                    self.stand_aside(started_at, key);
                }
                Poll::Pending
            }
            ready => ready,
        })
        .await;
        if waited {
            self.state().aside.remove(&(started_at, key));
        }
        let wall = started_at.elapsed();
        let cost = report.as_ref().map_or(Cost::of_wall(wall), |report| Cost::of(report, wall));
        let (outcome, remains) = match report {
            Ok(report) => Remains::of(report),
            Err(_) => {
                let why = "the host panicked while it ran the job".to_owned();
                (Outcome::HostFault(why), Remains::default())
            }
        };
        (Ended { key, outcome, remains, digest, started_at, cost }, waited)
    }

    fn end(&self, ended: Ended) {
        let mut state = self.state();
        state.running -= 1;
        state.ended.push(ended);
        if state.is_idle()
            && let Some(since) = state.busy_since.take()
        {
            state.busy += since.elapsed();
        }
        let count = state.ended.len();
        if count == 1 || count == state.notify_at_ended || state.waiting.is_empty() {
            drop(state);
            self.changed.notify_one();
        }
    }
}
