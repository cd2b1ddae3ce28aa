//! Records the history that the page and `/v1/history` show, from the start of the daemon on: each second what its own
//! workers and pull consumers did and what other daemons report, and at most every ten seconds how many jobs wait. Redis is read on the
//! server's own connection, apart from the job path. While nothing happens it is read less often.
//!
//! What other daemons recorded before the start is read from Redis once, where each daemon publishes its own part.

mod past;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use duebox_job::TopicName;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::MissedTickBehavior;
use tracing::debug;

use super::routes::topics::{hold_jobs, waiting};
use super::state::ServerState;
use crate::millis::millis;
use crate::monotonic;
use crate::observe::history::{Counted, History, OwnSteps, Sample};
use crate::observe::tally::Tally;
use crate::report::status::Status;

const SECOND: Duration = Duration::from_secs(1);
/// Bytes of reports read per second, on average. With many topics or daemons, each report is read less often.
const BYTES_PER_SECOND: usize = 64 << 10;
/// How often a daemon without known peers looks for others.
const ALONE_EVERY: Duration = Duration::from_secs(10);
/// How often waiting jobs are counted while jobs wait or run, per `TOPICS_PER_COUNT` topics.
const COUNT_EVERY: Duration = Duration::from_secs(10);
/// The longest time between two counts.
const COUNT_LEAST_EVERY: Duration = Duration::from_secs(60);
const TOPICS_PER_COUNT: usize = 200;

/// The history, and the clock by which it is kept.
pub(crate) struct Recorder {
    /// What is recorded.
    pub(crate) history: History,
    began: Instant,
    began_ms: u64,
    /// Since when a round trip to Redis has been under way.
    asked: Mutex<Option<Instant>>,
    /// True if jobs ran since the last count of waiting jobs.
    is_active: AtomicBool,
    /// True after the first start of the task.
    has_started: AtomicBool,
    /// What this daemon did itself.
    own: Mutex<Own>,
}

/// The counts of this daemon, and its steps on their way to Redis.
#[derive(Default)]
struct Own {
    handlers: Last<TopicName>,
    pulled: Last<TopicName>,
    steps: OwnSteps,
}

/// The last tallies, to find what happened since.
struct Last<K>(HashMap<K, Tally>);

impl<K> Default for Last<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl Default for Recorder {
    fn default() -> Self {
        let began_ms = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0);
        let (history, began) = (History::new(began_ms), monotonic::now());
        Self {
            history,
            began,
            began_ms,
            asked: Mutex::new(None),
            is_active: AtomicBool::new(true),
            has_started: AtomicBool::new(false),
            own: Mutex::new(Own::default()),
        }
    }
}

impl Recorder {
    /// Now: the time of the start plus the time since, so that it never goes back.
    pub(crate) fn now_ms(&self) -> u64 {
        self.began_ms + millis(monotonic::now() - self.began)
    }

    /// Adds what happened now.
    fn add(&self, topics: &[(TopicName, Sample)], total: &Sample) {
        self.history.add(self.now_ms(), topics, total);
    }

    /// Adds what this daemon can see of Redis and of waiting jobs, also to what it publishes.
    fn add_seen(&self, topics: &[(TopicName, Sample)], total: &Sample) {
        self.own.lock().steps.add(self.now_ms(), topics, total);
        self.add(topics, total);
    }

    /// Adds what the workers and the pull consumers of this process did since the last time.
    fn add_own(&self, server: &ServerState) {
        let watched = server.watched.borrow().clone();
        let tallies = watched.iter().filter_map(|watched| {
            let name = TopicName::new(&watched.topic).ok()?;
            Some((name, Tally::of(&watched.serving.as_ref()?.counters)))
        });
        let mut own = self.own.lock();
        // Topics of this process begin at 0.
        let mut topics = own.handlers.changes(tallies, |_| true);
        topics.extend(own.pulled.changes(server.pull_counters.tallies().into_iter(), |_| true));
        if !topics.is_empty() {
            self.is_active.store(true, Ordering::Relaxed);
        }
        own.steps.add(self.now_ms(), &topics, &Sample::default());
        drop(own);
        let waits = self.asked.lock().map(|asked| monotonic::now() - asked);
        let slow = waits.filter(|waited| *waited >= SECOND).map_or(0, micros);
        self.add(&topics, &Sample { redis_us: slow, ..Sample::default() });
    }

    /// The counts that what is published adds up to.
    fn counted(own: &Own) -> Counted {
        let of = |last: &Last<TopicName>, is_pulled: bool| -> Vec<_> {
            let tallies = last.0.iter().filter(|(_, tally)| !tally.is_empty());
            tallies.map(|(name, tally)| ((name.clone(), is_pulled), *tally)).collect()
        };
        let mut tallies = of(&own.handlers, false);
        tallies.extend(of(&own.pulled, true));
        let at_ms = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0);
        Counted { at_ms, tallies }
    }
}

/// Records until it is dropped; never returns.
pub(super) async fn record(server: ServerState) -> anyhow::Result<()> {
    // After a panic, what was counted before is in the history already.
    let is_first = !server.recorder.has_started.swap(true, Ordering::Relaxed);
    tokio::join!(
        record_own(&server),
        record_others(&server, is_first),
        record_waiting(&server),
        past::publish(&server)
    );
    Ok(())
}

/// Publishes what this daemon has done up to now, before it ends.
pub(super) async fn publish_last(server: &ServerState) {
    server.recorder.add_own(server);
    server.recorder.own.lock().steps.publish_all();
    past::publish_once(server).await;
}

/// Adds what the own workers did in each second, and how long Redis takes to reply.
async fn record_own(server: &ServerState) {
    let mut tick = tokio::time::interval(SECOND);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        server.recorder.add_own(server);
    }
}

/// Adds what other daemons report, and at first what they have recorded before.
async fn record_others(server: &ServerState, mut reads_past: bool) {
    let recorder = &server.recorder;
    let mut others = Others::default();
    loop {
        let asked = monotonic::now();
        *recorder.asked.lock() = Some(asked);
        if reads_past && past::read(server, &mut others).await {
            reads_past = false;
        }
        let reply = server.queue.other_statuses(&server.runner_id).await;
        *recorder.asked.lock() = None;
        let took = monotonic::now() - asked;
        let mut rest = SECOND;
        match reply {
            Ok(statuses) => {
                let bytes: usize = statuses.texts.iter().map(|(_, text)| text.len()).sum();
                let least = if bytes == 0 { ALONE_EVERY } else { SECOND };
                rest = least.max(Duration::from_secs((bytes / BYTES_PER_SECOND) as u64));
                let texts = statuses.texts.iter();
                let all: Vec<Status> =
                    texts.filter_map(|(_, text)| serde_json::from_str(text).ok()).collect();
                let topics = others.changes(all, recorder.history.began_ms());
                recorder.add(&topics, &Sample::default());
                recorder.add_seen(&[], &Sample { redis_us: micros(took), ..Sample::default() });
            }
            Err(error) => {
                debug!(%error, "the reports of other daemons were not read");
                let total = Sample { redis_us: micros(took), is_away: true, ..Sample::default() };
                recorder.add_seen(&[], &total);
            }
        }
        tokio::time::sleep(rest).await;
    }
}

/// What is known of other daemons.
#[derive(Default)]
struct Others {
    last: Last<(String, TopicName, bool)>,
    /// Those that have reported before.
    known: HashSet<String>,
    /// What is counted already, by what they have recorded, of those whose reports are not newer than that.
    recorded: HashMap<String, Counted>,
}

impl Others {
    /// What happened in other daemons since their last reports.
    fn changes(&mut self, mut all: Vec<Status>, since_ms: u64) -> Vec<(TopicName, Sample)> {
        all.retain(|status| {
            let recorded = self.recorded.get(&status.runner);
            recorded.is_none_or(|recorded| status.told_at_ms > recorded.at_ms)
        });
        for status in &all {
            // From here on the differences of its reports count.
            let Some(recorded) = self.recorded.remove(&status.runner) else { continue };
            for ((topic, is_pulled), tally) in recorded.tallies {
                self.last.0.insert((status.runner.clone(), topic, is_pulled), tally);
            }
            self.known.insert(status.runner.clone());
        }
        let known = &self.known;
        let is_young =
            |status: &&Status| status.started_at_ms >= since_ms || known.contains(&status.runner);
        let young: HashSet<&str> =
            all.iter().filter(is_young).map(|status| status.runner.as_str()).collect();
        let tallies = all.iter().flat_map(|status| {
            // A topic may have attempts of handlers and of pull consumers.
            let served = status.topics.iter().map(|topic| (&topic.topic, topic.tally, false));
            let pulled = status.pulled.iter().map(|topic| (&topic.topic, topic.tally, true));
            served.chain(pulled).filter_map(|(topic, tally, is_pulled)| {
                let name = TopicName::new(topic).ok()?;
                Some(((status.runner.clone(), name, is_pulled), tally))
            })
        });
        // What a daemon that is older than this one did before its first report is left out, if it has not
        // recorded it: it is unknown when.
        let changes = self.last.changes(tallies, |(runner, ..)| young.contains(runner.as_str()));
        self.known = all.iter().map(|status| status.runner.clone()).collect();
        changes.into_iter().map(|((_, name, _), sample)| (name, sample)).collect()
    }
}

/// Adds how many jobs wait, and how long they have been due.
async fn record_waiting(server: &ServerState) {
    let recorder = &server.recorder;
    let (mut topics, mut counted_at, mut has_waiting) = (0_usize, monotonic::now(), true);
    loop {
        let expects_jobs = recorder.is_active.swap(false, Ordering::Relaxed) || has_waiting;
        if expects_jobs || monotonic::now() - counted_at >= COUNT_LEAST_EVERY {
            counted_at = monotonic::now();
            // One question for all, where the counts of each would be 0.
            let counts = expects_jobs || hold_jobs(server).await.unwrap_or(true);
            match if counts { waiting(server).await } else { Ok(Vec::new()) } {
                Ok(samples) => {
                    topics = if counts { samples.len() } else { topics };
                    has_waiting = add_waiting(recorder, samples);
                }
                Err(problem) => debug!("waiting jobs were not counted: {}", problem.detail()),
            }
        }
        let times = u32::try_from(topics.div_ceil(TOPICS_PER_COUNT)).unwrap_or(u32::MAX).max(1);
        tokio::time::sleep(COUNT_EVERY * times).await;
    }
}

/// Adds the waiting jobs of topics; returns whether there are any.
fn add_waiting(recorder: &Recorder, samples: Vec<(TopicName, Sample)>) -> bool {
    let mut total = Sample { is_counted: true, ..Sample::default() };
    for (_, sample) in &samples {
        total.waiting = total.waiting.saturating_add(sample.waiting);
        total.overdue_ms = total.overdue_ms.max(sample.overdue_ms);
    }
    let some = samples.into_iter().filter(|(_, sample)| !sample.is_empty());
    recorder.add_seen(&some.collect::<Vec<_>>(), &total);
    total.waiting > 0
}

impl<K: std::hash::Hash + Eq + Clone> Last<K> {
    /// What happened since the last call. What is new counts whole if `is_young`, else from now on.
    fn changes(
        &mut self,
        tallies: impl Iterator<Item = (K, Tally)>,
        is_young: impl Fn(&K) -> bool,
    ) -> Vec<(K, Sample)> {
        let mut now = HashMap::with_capacity(self.0.len());
        let mut changes = Vec::new();
        for (key, tally) in tallies {
            let since = match self.0.get(&key) {
                Some(before) => tally.since(before),
                None if is_young(&key) => tally,
                None => Tally::default(),
            };
            if !since.is_empty() {
                changes.push((key.clone(), Sample::of(since)));
            }
            now.insert(key, tally);
        }
        self.0 = now;
        changes
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(acked: u32) -> Tally {
        let mut tally = Tally::default();
        tally.add(0, acked);
        tally
    }

    #[test]
    fn only_what_happened_since_the_last_look_is_recorded() {
        let mut last = Last::default();
        let mut acked = |tallies: &[(&'static str, u32)]| -> Vec<(&str, u32)> {
            let tallies = tallies.iter().map(|(name, acked)| (*name, tally(*acked)));
            let changes = last.changes(tallies, |name| name.starts_with("young"));
            changes.iter().map(|(name, sample)| (*name, sample.tally.acked())).collect()
        };
        assert_eq!(acked(&[("young", 5), ("old", 7)]), [("young", 5)]);
        assert_eq!(acked(&[("young", 5), ("old", 9)]), [("old", 2)]);
        // A topic that went and came back is new; its counters began anew.
        assert_eq!(acked(&[("young", 6)]), [("young", 1)]);
        assert_eq!(acked(&[("young", 2), ("old", 3)]), [("young", 2)]);
    }
}
