//! The worker of one topic: lease → run → settle. The queue and the sandbox meet only here.
//!
//! ```text
//!           ┌────────────── one pipeline a turn ──────────────┐
//!  Redis ◀──┤ extend · settle · reclaim · promote · lease     ├──▶ Redis
//!           └──────▲───────────────────────────────┬──────────┘
//!               verdicts                         leases
//!                  └───── ended ◀── Executor ◀── tasks ┘
//! ```
//!
//! A worker repeats a turn without a reply until it gets one, so its view of its leases matches Redis. During a
//! turn the executor keeps running the jobs leased before, and the worker reports what the turn before has
//! settled. Under load verdicts and leases are two turns under way at once (`under_way.rs`).

use std::time::{Duration, Instant};

use duebox_job::{JobId, Outcome};
use duebox_queue::{BATCH_MAX, RedisClock, Verdict};
use tracing::warn;

use self::in_flight::InFlight;
use self::prefetch::{Prefetch, START_WITHIN};
use crate::deploy::breaker::Changes;
use crate::executor::Load;
use crate::monotonic;
use crate::observe::attempt_record::AttemptRecord;
use crate::observe::log::sampling::AttemptSampler;
use crate::redis_host::outage::{Outage, RETRY_FIRST};
use crate::timer::Timer;

use self::breaker_probe::Probe;
pub use self::parts::{TopicStats, WorkerParts, WorkerServices};
use self::send::next_command;
use self::settled::SettledJobs;
use self::under_way::TurnUnderWay;
use self::unsettled::{JudgedJob, Unsettled};

mod admit;
pub mod batch_limits;
mod breaker_probe;
pub mod in_flight;
mod lease_size;
mod parts;
pub mod prefetch;
mod recordings;
mod send;
mod settled;
mod turn;
mod under_way;
mod unsettled;
pub mod verdict;

/// How long a verdict waits for others to share its turn.
const LINGER: Duration = Duration::from_millis(2);
/// So many verdicts start a turn at once.
const VERDICTS_ENOUGH: usize = BATCH_MAX / 2;
/// How long a worker without a known due time sleeps. The poller wakes it earlier for any work; this is
/// only an upper bound.
const SLEEP_MAX: Duration = Duration::from_secs(3_600);
/// While suspects wait in ready, how soon to see whether a thread is free for one. This asks Redis nothing.
const SUSPECTS_AGAIN: Duration = Duration::from_millis(10);
/// How often a turn looks for expired leases. A lease with a known expiry is reclaimed at its expiry.
const RECLAIM_EVERY: Duration = Duration::from_millis(500);
/// How long after its deadline a drain may still settle interrupted jobs, unless Redis fails.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// How long after its deadline a drain waits for the reply to one turn: half of the above, so that a Redis that
/// hangs is told from one that is slow.
const DRAIN_REPLY_MAX: Duration = Duration::from_millis(500);

/// A command from the daemon to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerCommand {
    /// Lease and run jobs.
    Work,
    /// Lease no more jobs, release those that have not started, finish the rest until this moment, then
    /// end.
    Drain(Instant),
}

/// Serves one topic, or one shard of it.
pub struct Worker {
    parts: WorkerParts,
    in_flight: InFlight,
    unsettled: Unsettled,
    unreported: Option<SettledJobs>,
    /// The second turn under way.
    next: Option<TurnUnderWay>,
    look: NextLook,
    sampler: AttemptSampler,
    prefetch: Prefetch,
    clock: RedisClock,
    /// The next turn is not sent before this: Redis refused something, or the worker rests.
    not_before: Instant,
    retry: Duration,
    /// Redis refused to write. From this moment on, the next turn is sent as soon as it writes again.
    retry_from: Option<Instant>,
    drain_until: Option<Instant>,
    /// Lease calls so far; part of the id of the next one.
    calls: u64,
    probe: Probe,
    breaker_changes: Changes,
    /// Of dead jobs, to be stored.
    recordings: Vec<(JobId, Vec<u8>)>,
}

/// When and why the worker asks Redis for work.
struct NextLook {
    /// When to ask next.
    at: Instant,
    /// The last reply left work behind.
    more: bool,
    /// The last reply left suspects in ready: jobs that may have killed a runner. They are leased only if
    /// they start at once.
    suspects: bool,
    /// Leased jobs did not start in time. Nothing is leased while an executor task waits to start a job.
    stalled: bool,
    /// Due jobs that the next promotion skips.
    skip: u64,
    /// When to look for expired leases next.
    reclaim_at: Instant,
    /// When the first lease of any runner expires, as of the last look.
    expiry: Option<Instant>,
}

impl Worker {
    /// Creates a worker that looks at its topic at once.
    pub fn new(parts: WorkerParts) -> Self {
        let now = monotonic::now();
        Self {
            in_flight: InFlight::default(),
            breaker_changes: parts.breaker.changes(),
            parts,
            unsettled: Unsettled::default(),
            unreported: None,
            next: None,
            look: NextLook::new(now),
            sampler: AttemptSampler::default(),
            prefetch: Prefetch::default(),
            clock: RedisClock::default(),
            not_before: now,
            retry: RETRY_FIRST,
            retry_from: None,
            drain_until: None,
            calls: 0,
            probe: Probe::None,
            recordings: Vec::new(),
        }
    }

    /// Runs until a drain ends.
    pub async fn run(mut self) {
        loop {
            self.follow_commands();
            self.follow_breaker();
            self.give_back_stalled();
            if self.is_over() {
                break;
            }
            let now = monotonic::now();
            if self.in_flight.first_end(now).is_some_and(|end| end <= now) {
                self.interrupt_ended();
            }
            let load = self.parts.executor.load();
            if load.ended > 0 {
                self.unsettled.settle_at.get_or_insert(now + LINGER);
            }
            if let Some(turn) = self.next.take() {
                self.end_turn(turn).await;
            } else if now >= self.not_before && self.turn_is_due(now, load) {
                let turn = self.begin_turn(now);
                self.end_turn(turn).await;
            } else {
                self.report_settled();
                self.wait(now, load).await;
            }
        }
        self.report_settled();
        if !self.in_flight.is_empty() {
            let left = self.in_flight.len();
            warn!(topic = %self.parts.shard.topic(), left, "the drain ended with leases left; they expire by themselves");
        }
    }

    fn turn_is_due(&self, now: Instant, load: Load) -> bool {
        let wanted = self.lease_size(load, now);
        let has_work =
            self.look.more || now >= self.look.at || (self.look.suspects && wanted.at_once > 0);
        let can_lease = wanted.jobs > 0 && has_work;
        let idle = load.waiting + load.running == 0;
        let must_settle = !self.unsettled.jobs.is_empty()
            || (load.ended > 0 && (idle || load.ended >= self.verdicts_enough(now)))
            || self.unsettled.settle_at.is_some_and(|at| now >= at);
        can_lease || must_settle || self.must_renew(now)
    }

    fn must_renew(&self, now: Instant) -> bool {
        self.in_flight.heartbeat_at().is_some_and(|at| now >= at)
    }

    fn verdicts_enough(&self, now: Instant) -> usize {
        VERDICTS_ENOUGH.min(self.parts.batch_limits.batch_max(now))
    }

    async fn wait(&mut self, now: Instant, load: Load) {
        let mut until = now + SLEEP_MAX;
        let wanted = self.lease_size(load, now).jobs > 0;
        let moments = [
            self.probe_at().filter(|at| *at > now),
            self.unsettled.settle_at,
            self.in_flight.heartbeat_at(),
            // After its deadline a drain polls for the interrupted guests, which end within an epoch tick
            // or two.
            self.drain_until.map(|until| until.max(now + Duration::from_millis(10))),
            load.waiting_since.map(|since| since + START_WITHIN),
            // A thread that a job leaves by yielding is not announced.
            self.look.suspects.then(|| now + SUSPECTS_AGAIN),
        ];
        for moment in moments.into_iter().flatten() {
            until = until.min(moment);
        }
        // A rest postpones all but one thing: guests whose leases Redis did not renew are interrupted in time.
        let rested = until.max(self.not_before);
        let first_end = self.in_flight.first_end(now);
        until = first_end.map_or(rested, |end| rested.min(end.max(now)));
        let look_at = wanted.then_some(self.look.at.max(self.not_before));
        let rested_at = (self.not_before > now).then_some(self.not_before);
        // A drain can make progress during a rest; nothing else can.
        let watches_executor = rested_at.is_none() || self.drain_until.is_some();
        let on_time_at = [look_at, rested_at].into_iter().flatten().min();
        let ended_enough = if wanted && self.look.more { 1 } else { self.verdicts_enough(now) };
        // In order, so that a simulation repeats. Whichever is ready, the next look considers everything.
        tokio::select! {
            biased;
            () = self.parts.executor.changed(self.ahead(load, now) / 2, ended_enough), if watches_executor => {}
            when = self.parts.wake_up.notified() => self.look.at = self.look.at.min(when),
            // Due times and rests need a resolution below 1 ms; for the other moments Tokio's timer is
            // enough.
            () = on_time(&self.parts.services.timer, on_time_at) => {}
            () = tokio::time::sleep_until(until.into()) => {}
            () = writes_again(&self.parts.services.outage, self.retry_from) => self.retry_now(),
            () = next_command(&mut self.parts.commands) => {}
            // The sender lives as long as the worker, so this cannot fail.
            _ = self.breaker_changes.changed() => {}
        }
    }

    /// Redis writes again: what it refused is sent at once. Leases that it would not renew may end soon.
    fn retry_now(&mut self) {
        let now = monotonic::now();
        self.retry_from = None;
        self.not_before = now;
        self.look.at = self.look.at.min(now);
        if !self.in_flight.is_empty() {
            self.in_flight.beat_again_at(now);
        }
    }

    fn follow_commands(&mut self) {
        let command = *self.parts.commands.borrow_and_update();
        if let WorkerCommand::Drain(until) = command {
            self.drain_until = Some(self.drain_until.map_or(until, |known| known.min(until)));
        }
        let Some(until) = self.drain_until else { return };
        self.give_back(Duration::ZERO);
        if monotonic::now() >= until {
            self.in_flight.interrupt_all();
        }
    }

    fn is_over(&self) -> bool {
        let Some(until) = self.drain_until else { return false };
        let load = self.parts.executor.load();
        let has_verdicts = self.next.is_some() || !self.unsettled.jobs.is_empty();
        let settled = self.in_flight.is_empty() && !has_verdicts && load.ended == 0;
        settled || monotonic::now() >= self.give_up_at(until)
    }

    /// When a drain with this deadline ends, whatever is left.
    fn give_up_at(&self, until: Instant) -> Instant {
        if self.parts.services.outage.is_ongoing() { until } else { until + DRAIN_GRACE }
    }

    /// Releases jobs that did not start in time, so that other runners can run them.
    fn give_back_stalled(&mut self) {
        if self.give_back(START_WITHIN) > 0 {
            self.prefetch.reset();
            self.look.stalled = true;
            self.look.more = true;
        } else if self.look.stalled && self.parts.executor.load().starting == 0 {
            self.look.stalled = false;
        }
    }

    fn give_back(&mut self, stall: Duration) -> usize {
        let leases = self.parts.executor.take_waiting(stall);
        for lease in &leases {
            self.release_probe(*lease);
            if let Some(held) = self.in_flight.take(*lease) {
                let outcome = Outcome::HostFault("not started".to_owned());
                let record = AttemptRecord::not_run(held.lease.id.clone(), held.attempt, outcome);
                let is_routine = !stall.is_zero();
                let settlement = held.lease.settle(Verdict::Release { delay: Duration::ZERO });
                let record = AttemptRecord { is_routine, ..record };
                self.unsettled.jobs.push(JudgedJob { settlement, record, recording: None });
            }
        }
        leases.len()
    }
}

/// A worker that panics leaves nothing behind that runs: its leases expire, and their jobs run again.
impl Drop for Worker {
    fn drop(&mut self) {
        self.in_flight.interrupt_all();
        drop(self.parts.executor.take_waiting(Duration::ZERO));
        self.give_up_probe();
    }
}

impl NextLook {
    fn new(now: Instant) -> Self {
        Self {
            at: now,
            more: false,
            suspects: false,
            stalled: false,
            skip: 0,
            reclaim_at: now,
            expiry: None,
        }
    }
}

/// Waits until Redis writes again, at least until this moment; without one it never ends.
async fn writes_again(outage: &Outage, from: Option<Instant>) {
    let Some(from) = from else { return std::future::pending().await };
    tokio::time::sleep_until(from.into()).await;
    outage.ends().await;
}

/// Waits until a moment; without one it never ends.
async fn on_time(timer: &Timer, when: Option<Instant>) {
    match when {
        Some(when) => timer.sleep_until(when).await,
        None => std::future::pending().await,
    }
}
