//! Pushes the jobs of `[[schedules]]` at their ticks. Every runner runs a scheduler, and each tick becomes
//! exactly one job. The first runner advances the schedule's state in Redis in the same transition that
//! pushes; the others find the tick taken.
//!
//! Only Redis' clock counts. The scheduler reads it, sleeps until the next tick, and reads it again, in time for
//! the tick; the local clock may be wrong by any amount.

mod catch_up;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use duebox_job::TopicName;
use duebox_queue::{Pushed, Queue, QueueError, RedisClock, Tick, Ticked};
use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use self::catch_up::{COUNT_MAX, CatchUp, catch_up};
use crate::monotonic;
use crate::observe::push_counters::{PushCounters, Source};
use crate::observe::sick_topics::{SickTopics, TopicLoop};
use crate::redis_host::outage::{self, Outage, RETRY_FIRST};
use crate::schedule::{Missed, Schedule};
use crate::timer::Timer;

/// The schedules of the current manifest.
pub type Schedules = Arc<[Schedule]>;

/// The longest sleep, because Redis' clock may be set meanwhile.
const LOOK_MAX: Duration = Duration::from_secs(60);
/// How often Redis is told which schedules this runner has.
const RECORD_EVERY: Duration = Duration::from_secs(3_600);
/// How many schedules are handled at once.
const AT_ONCE: usize = 16;
/// Calls for one schedule in one round. More are needed only while other runners advance it too.
const CALLS_PER_SCHEDULE: usize = 8;
/// State further ahead than this was written before Redis' clock was set back.
const AHEAD_MAX_MS: u64 = 3_600_000;

/// Pushes the jobs of the schedules at their ticks, until the sender is gone.
pub async fn run(
    queue: Queue,
    timer: Timer,
    mut schedules: watch::Receiver<Schedules>,
    push_counters: Arc<PushCounters>,
    sick_topics: Arc<SickTopics>,
    outage: Arc<Outage>,
) {
    let mut scheduler = Scheduler {
        queue,
        push_counters,
        sick_topics,
        outage,
        progress: BTreeMap::new(),
        clock: RedisClock::default(),
        retry: RETRY_FIRST,
        record_at: monotonic::now(),
    };
    loop {
        let current = Arc::clone(&schedules.borrow_and_update());
        scheduler.take_over(&current);
        loop {
            let look_at = scheduler.push_due(&current).await;
            tokio::select! {
                biased;
                changed = schedules.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return,
                },
                () = sleep_until(&timer, look_at) => {}
            }
        }
    }
}

async fn sleep_until(timer: &Timer, when: Option<Instant>) {
    match when {
        Some(when) => timer.sleep_until(when).await,
        None => std::future::pending().await,
    }
}

struct Scheduler {
    queue: Queue,
    push_counters: Arc<PushCounters>,
    sick_topics: Arc<SickTopics>,
    outage: Arc<Outage>,
    /// The progress of each schedule, by topic and name.
    progress: BTreeMap<(TopicName, String), Progress>,
    clock: RedisClock,
    retry: Duration,
    /// When to record next that this runner has the schedules.
    record_at: Instant,
}

/// The progress of a schedule as this runner knows it. Redis corrects it if another runner is ahead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Progress {
    /// Ticks up to this time are handled, in unix ms; `None` before the first reply.
    until: Option<u64>,
    /// The schedule's line as the runner knew it that handled them.
    line: String,
    /// The next tick in unix ms, if known.
    next: Option<u64>,
    /// True after Redis refused its ticks, which is logged once.
    refused: bool,
}

/// The next step of a schedule.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Redis does not know the schedule: it starts now.
    Start,
    /// Redis' clock was set back: the schedule starts again.
    Restart,
    /// Push or skip its ticks.
    Tick(CatchUp),
}

impl Scheduler {
    /// Takes over new schedules. Only what Redis has confirmed is kept.
    fn take_over(&mut self, schedules: &Schedules) {
        let keys: BTreeSet<_> = schedules.iter().map(key).collect();
        self.progress.retain(|key, _| keys.contains(key));
        self.progress.values_mut().for_each(|progress| progress.next = None);
        self.record_at = monotonic::now();
    }

    /// Pushes what is due, and returns when to run again; `None` without schedules.
    async fn push_due(&mut self, schedules: &Schedules) -> Option<Instant> {
        if schedules.is_empty() {
            return None;
        }
        let asked_at = monotonic::now();
        let now_us = match self.queue.now_us().await {
            Ok(now_us) => now_us,
            Err(error) => {
                self.outage.record_error(&error);
                return Some(monotonic::now() + self.next_retry());
            }
        };
        let now_ms = now_us / 1_000;
        let began_at = self.start_of_ms(asked_at, now_us);
        let mut wait = LOOK_MAX;
        let mut failed = !self.record_presence(schedules, now_ms, began_at).await;
        for HandledSchedule { schedule, mut progress, result } in
            self.handle_all(schedules, now_ms).await
        {
            match result {
                Ok(until_next) => {
                    wait = wait.min(until_next);
                    progress.refused = false;
                    let shard = schedule.topic.first_shard();
                    self.sick_topics.record_success(&shard, TopicLoop::Schedule);
                }
                Err(error) => {
                    failed = true;
                    self.report_failure(schedule, &mut progress, &error);
                }
            }
            self.progress.insert(key(schedule), progress);
        }
        if failed {
            return Some(began_at + wait.min(self.next_retry()));
        }
        self.outage.record_read();
        self.retry = RETRY_FIRST;
        Some(began_at + wait)
    }

    /// The moment from which waits count: `now_us` is the time in the reply to a request that was sent at `asked_at`.
    fn start_of_ms(&mut self, asked_at: Instant, now_us: u64) -> Instant {
        let answered_at = monotonic::now();
        self.clock.add_sample(asked_at, answered_at, now_us);
        self.clock.start_of_ms(now_us, answered_at)
    }

    /// Records from time to time that this runner has the schedules. False if Redis failed.
    async fn record_presence(&mut self, schedules: &Schedules, now_ms: u64, now: Instant) -> bool {
        if now < self.record_at {
            return true;
        }
        let keys: Vec<_> = schedules.iter().map(key).collect();
        match self.queue.mark_schedules(&keys, now_ms).await {
            Ok(()) => {
                self.record_at = now + RECORD_EVERY;
                true
            }
            Err(error) => {
                self.outage.record_error(&error);
                false
            }
        }
    }

    async fn handle_all<'s>(
        &self,
        schedules: &'s Schedules,
        now_ms: u64,
    ) -> Vec<HandledSchedule<'s>> {
        let handle_one = |schedule: &'s Schedule| {
            let progress = self.progress.get(&key(schedule)).cloned().unwrap_or_default();
            handle(&self.queue, &self.push_counters, schedule, progress, now_ms)
        };
        let work: Vec<_> = schedules.iter().map(handle_one).collect();
        stream::iter(work).buffer_unordered(AT_ONCE).collect().await
    }

    fn next_retry(&mut self) -> Duration {
        self.retry = outage::next_retry(self.retry);
        self.retry
    }

    fn report_failure(&self, schedule: &Schedule, progress: &mut Progress, error: &QueueError) {
        if error.is_disconnected() {
            self.outage.record_error(error);
            return;
        }
        if error.is_of_topic() {
            let shard = schedule.topic.first_shard();
            self.sick_topics.record_error(&shard, TopicLoop::Schedule, error);
        }
        if !progress.refused {
            progress.refused = true;
            warn!(schedule = %schedule.name, topic = %schedule.topic, %error,
                "ticks cannot be pushed; retrying");
        }
    }
}

fn key(schedule: &Schedule) -> (TopicName, String) {
    (schedule.topic.clone(), schedule.name.clone())
}

/// The result of handling a schedule.
struct HandledSchedule<'s> {
    schedule: &'s Schedule,
    progress: Progress,
    /// How long until its next tick.
    result: Result<Duration, QueueError>,
}

/// Handles a schedule at `now_ms`.
async fn handle<'s>(
    queue: &Queue,
    push_counters: &PushCounters,
    schedule: &'s Schedule,
    mut progress: Progress,
    now_ms: u64,
) -> HandledSchedule<'s> {
    if let Some(wait) = progress.time_until_next(now_ms) {
        return HandledSchedule { schedule, progress, result: Ok(wait) };
    }
    let line = schedule.when.describe();
    for _ in 0..CALLS_PER_SCHEDULE {
        let Some(step) = next_step(schedule, &line, &progress, now_ms) else {
            progress.next = progress.until.and_then(|until| schedule.when.next_after(until));
            let wait = progress.time_until_next(now_ms).unwrap_or(LOOK_MAX);
            return HandledSchedule { schedule, progress, result: Ok(wait) };
        };
        let times = match &step {
            Step::Start | Step::Restart => &[],
            Step::Tick(due) => due.ticks.as_slice(),
        };
        let tick = Tick {
            schedule: &schedule.name,
            line: &line,
            expected: progress.until,
            until: now_ms,
            payload: &schedule.payload,
            times,
        };
        match queue.tick(&schedule.topic, &tick).await {
            Ok(Ticked::Done(words)) => {
                log_step(schedule, &step, now_ms);
                log_ticks(schedule, times, &words);
                let stored = words.iter().filter(|word| word.is_stored()).count();
                push_counters.record(Source::Schedule, stored);
                progress = Progress { until: Some(now_ms), line: line.clone(), ..progress };
            }
            Ok(Ticked::Taken { until, line }) => progress = Progress { until, line, ..progress },
            Ok(Ticked::Early(wait)) => {
                return HandledSchedule { schedule, progress, result: Ok(wait) };
            }
            Err(error) => return HandledSchedule { schedule, progress, result: Err(error) },
        }
    }
    HandledSchedule { schedule, progress, result: Ok(RETRY_FIRST) }
}

impl Progress {
    /// How long until the next tick; `None` if something may be due now.
    fn time_until_next(&self, now_ms: u64) -> Option<Duration> {
        let next = self.next.filter(|next| *next > now_ms && !self.is_ahead(now_ms))?;
        Some(Duration::from_millis(next - now_ms))
    }

    /// True if Redis' clock was set back since.
    fn is_ahead(&self, now_ms: u64) -> bool {
        self.until.is_some_and(|until| until > now_ms.saturating_add(AHEAD_MAX_MS))
    }
}

/// The next step of a schedule at `now_ms`; `None` if nothing is due.
fn next_step(schedule: &Schedule, line: &str, progress: &Progress, now_ms: u64) -> Option<Step> {
    let Some(until) = progress.until else { return Some(Step::Start) };
    if progress.is_ahead(now_ms) {
        return Some(Step::Restart);
    }
    let is_changed = progress.line != line;
    // Ticks that an earlier line missed are not made up for.
    let missed = if is_changed { Missed::Skip } else { schedule.missed };
    let due = catch_up(schedule, missed, until, now_ms);
    let is_due = is_changed || due.skipped > 0 || !due.ticks.is_empty();
    // Never move back: another runner may be ahead.
    (is_due && until <= now_ms).then_some(Step::Tick(due))
}

/// Logs a step, as far as it is not visible in the jobs.
fn log_step(schedule: &Schedule, step: &Step, now_ms: u64) {
    let Schedule { name, topic, when, .. } = schedule;
    match step {
        Step::Start => {
            let next = when.next_after(now_ms).and_then(|ms| i64::try_from(ms).ok());
            let next = next.and_then(|ms| Timestamp::from_millisecond(ms).ok());
            let next = next.map(|next| next.to_string()).unwrap_or_default();
            info!(schedule = %name, %topic, when = when.describe(), %next, "the schedule starts");
        }
        Step::Restart => {
            warn!(schedule = %name, %topic, "Redis' clock was set back; the schedule starts again");
        }
        Step::Tick(CatchUp { late, skipped, .. }) => {
            if *late > 0 {
                info!(schedule = %name, %topic, ticks = late, "missed ticks are pushed now");
            }
            if *skipped > 0 {
                let or_more = *skipped >= COUNT_MAX;
                info!(schedule = %name, %topic, ticks = skipped, or_more, "missed ticks are skipped");
            }
        }
    }
}

fn log_ticks(schedule: &Schedule, times: &[u64], words: &[Pushed]) {
    for (tick, word) in times.iter().zip(words) {
        let word = word.word();
        debug!(schedule = %schedule.name, topic = %schedule.topic, tick, word, "ticked");
    }
}

#[cfg(test)]
mod tests;
