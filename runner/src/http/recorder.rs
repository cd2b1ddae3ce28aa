//! Records the history that the page and `/v1/history` show, from the start of the daemon on: each second what its own
//! workers and pull consumers did and what other daemons report, and at most every ten seconds how many jobs wait. Redis is read on the
//! server's own connection, apart from the job path. While nothing happens it is read less often.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use duebox_job::TopicName;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::MissedTickBehavior;
use tracing::debug;

use super::routes::topics::waiting;
use super::state::ServerState;
use crate::monotonic;
use crate::observe::history::{History, Sample};
use crate::observe::tally::Tally;
use crate::report::status::Status;

const SECOND: Duration = Duration::from_secs(1);
/// Bytes of reports read per second, on average. With many topics or daemons, each report is read less often.
const BYTES_PER_SECOND: usize = 64 << 10;
/// How often a daemon without known peers looks for others.
const ALONE_EVERY: Duration = Duration::from_secs(5);
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
}

/// Records until it is dropped; never returns.
pub(super) async fn record(server: ServerState) -> anyhow::Result<()> {
    // After a panic, what was counted before is in the history already.
    let is_first = !server.recorder.has_started.swap(true, Ordering::Relaxed);
    tokio::join!(record_own(&server, is_first), record_others(&server), record_waiting(&server));
    Ok(())
}

/// Adds what the own workers did in each second, and how long Redis takes to reply.
async fn record_own(server: &ServerState, mut counts_all: bool) {
    let recorder = &server.recorder;
    let (mut last, mut last_pulled) = (Last::default(), Last::default());
    let mut tick = tokio::time::interval(SECOND);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let watched = server.watched.borrow().clone();
        let tallies = watched.iter().filter_map(|watched| {
            let name = TopicName::new(&watched.topic).ok()?;
            Some((name, Tally::of(&watched.serving.as_ref()?.counters)))
        });
        // Topics of this process begin at 0.
        let mut topics = last.changes(tallies, |_| counts_all);
        let pulled = server.pull_counters.tallies();
        topics.extend(last_pulled.changes(pulled.into_iter(), |_| counts_all));
        counts_all = true;
        if !topics.is_empty() {
            recorder.is_active.store(true, Ordering::Relaxed);
        }
        let waits = recorder.asked.lock().map(|asked| monotonic::now() - asked);
        let slow = waits.filter(|waited| *waited >= SECOND).map_or(0, micros);
        recorder.add(&topics, &Sample { redis_us: slow, ..Sample::default() });
    }
}

/// Adds what other daemons report.
async fn record_others(server: &ServerState) {
    let recorder = &server.recorder;
    let (mut last, mut known) = (Last::default(), HashSet::new());
    loop {
        let asked = monotonic::now();
        *recorder.asked.lock() = Some(asked);
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
                let topics =
                    other_changes(&mut last, &mut known, &all, recorder.history.since_ms());
                let total = Sample { redis_us: micros(took), ..Sample::default() };
                recorder.add(&topics, &total);
            }
            Err(error) => {
                debug!(%error, "the reports of other daemons were not read");
                let total = Sample { redis_us: micros(took), is_away: true, ..Sample::default() };
                recorder.add(&[], &total);
            }
        }
        tokio::time::sleep(rest).await;
    }
}

/// What happened in other daemons since their last reports; `known` are those that have reported before.
fn other_changes(
    last: &mut Last<(String, TopicName, bool)>,
    known: &mut HashSet<String>,
    all: &[Status],
    since_ms: u64,
) -> Vec<(TopicName, Sample)> {
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
    // What a daemon that is older than this one did before its first report is left out: it is unknown when.
    let changes = last.changes(tallies, |(runner, ..)| young.contains(runner.as_str()));
    *known = all.iter().map(|status| status.runner.clone()).collect();
    changes.into_iter().map(|((_, name, _), sample)| (name, sample)).collect()
}

/// Adds how many jobs wait, and how long they have been due.
async fn record_waiting(server: &ServerState) {
    let recorder = &server.recorder;
    let (mut topics, mut counted_at, mut has_waiting) = (0_usize, None, true);
    loop {
        let is_due = counted_at.is_none_or(|at| monotonic::now() - at >= COUNT_LEAST_EVERY);
        if recorder.is_active.swap(false, Ordering::Relaxed) || has_waiting || is_due {
            counted_at = Some(monotonic::now());
            match waiting(server).await {
                Ok(samples) => {
                    topics = samples.len();
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
    recorder.add(&some.collect::<Vec<_>>(), &total);
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

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
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
