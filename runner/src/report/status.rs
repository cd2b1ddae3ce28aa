//! The status report of this daemon in Redis, for `duebox stats`: which modules serve, their
//! history, the results and costs of their attempts, and open breakers.
//!
//! It is written every ten seconds, and sooner after a change: within one second of a change of a
//! module or a breaker, and within one second to ten of an attempt, by its size. One round trip
//! holds all topics. Redis expires the report of a dead daemon after thirty seconds.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duebox_job::CountedDurations;
use duebox_queue::Queue;
use duebox_sandbox::Digest;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tracing::warn;

pub use super::breaker_status::BreakerStatus;
use super::lateness::RecentLateness;
pub use super::manifest_refusal::ManifestRefusal;
use super::process::{ProcessSources, ProcessStatus};
use crate::deploy::binding::{self, Bound, CanaryHandler};
use crate::deploy::breaker::{Breaker, BreakerState};
use crate::deploy::history::{ModuleEvent, ModuleHistory};
use crate::manifest::percent;
use crate::observe::counters::Counters;
use crate::observe::failure_reasons::{FailureReason, FailureReasons};
use crate::observe::module_stats::{ModuleStats, Sums};
use crate::observe::pull_counters::{PullCounters, PulledStatus};
use crate::observe::recent_attempts::RecentAttempts;
use crate::observe::tally::Tally;
use crate::redis_host::outage::Outage;

/// How often changes are detected.
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// The shortest time between two reports of new attempts.
const ATTEMPTS_EVERY: Duration = Duration::from_secs(1);
/// How often the report is renewed without a change.
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// The bytes of a report for each second between reports of new attempts. A report of some topics is
/// written every second, and one of a thousand topics every ten: it costs Redis at most this much.
const BYTES_PER_SECOND: usize = 16 << 10;
/// Maximum number of topics in a report; further topics are counted. A topic takes about 500 bytes.
const TOPICS_MAX: usize = 1_000;
/// Maximum number of events of all topics together; beyond it, each topic reports only its last
/// event. An event takes about 130 bytes, plus up to 1 KiB for its reason.
const EVENTS_MAX: usize = 2_000;
/// Maximum number of reported reasons of a topic. A reason takes at most 500 bytes.
const REASONS_MAX: usize = 4;

/// The report of a daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Unique id of the runner.
    pub runner: String,
    /// Its version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Address of its API; `None` without one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub api: Option<SocketAddr>,
    /// When it became ready, unix ms by its own clock.
    pub started_at_ms: u64,
    /// When the report was made, by the same clock.
    pub told_at_ms: u64,
    /// The topics that its handlers serve, sorted by name; at most 1,000.
    pub topics: Vec<TopicStatus>,
    /// Number of further topics.
    #[serde(default)]
    pub more_topics: usize,
    /// Set while the current manifest file is refused and the previous manifest is in use.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub manifest_refused: Option<ManifestRefusal>,
    /// Its process.
    #[serde(default)]
    pub process: ProcessStatus,
    /// What pull consumers did over its API, sorted by topic; at most 200 topics.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub pulled: Vec<PulledStatus>,
}

/// A topic with a handler, or an entry of the manifest without a valid module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopicStatus {
    /// Its name, or the pattern without a valid module.
    pub topic: String,
    /// The module that serves it: 64 hex digits; `None` without a valid module.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub digest: Option<String>,
    /// The canary module.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub canary: Option<CanaryStatus>,
    /// The previous module, which a rollback restores.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub before: Option<String>,
    /// The module that was rolled back and stays out of use until the file or the manifest changes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub withdrawn: Option<String>,
    /// Module history, the oldest event first; at most 16 events.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub history: Vec<ModuleEvent>,
    /// The breaker, if it is not closed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub breaker: Option<BreakerStatus>,
    /// The 99th percentile of how late its attempts started in the last minute, at most, in ms; `None` if
    /// none has started.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub late_p99_ms: Option<f64>,
    /// The modules that ran its jobs, at most eight, the most recent first.
    pub modules: Vec<ModuleStatus>,
    /// Totals, including modules that are no longer listed.
    pub total: Sums,
    /// All attempts, for the history of other daemons.
    #[serde(skip_serializing_if = "Tally::is_empty", default)]
    pub tally: Tally,
    /// Why attempts failed, the most recent first; at most 4 reasons.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub failures: Vec<FailureReason>,
}

/// A canary module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CanaryStatus {
    /// Digest of the module.
    pub digest: String,
    /// Its share of the jobs in percent: above 0, at most 100.
    pub percent: f64,
}

/// The attempts of one module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModuleStatus {
    /// Digest of the module.
    pub digest: String,
    /// Results and costs of its attempts.
    #[serde(flatten)]
    pub sums: Sums,
}

/// The sources of a topic's status.
#[derive(Clone)]
pub struct Watched {
    /// Its name, or the pattern without a valid module.
    pub topic: String,
    /// The entry of the manifest that serves it: its own, or a pattern.
    pub entry: String,
    /// The sources of its serving handler; `None` without a valid module.
    pub serving: Option<Serving>,
    /// The previous module.
    pub before: Option<Digest>,
    /// The module that was rolled back.
    pub withdrawn: Option<Digest>,
    /// Module history.
    pub history: ModuleHistory,
}

/// The sources of a serving handler's status.
#[derive(Clone)]
pub struct Serving {
    /// The modules that serve it now.
    pub bound: Bound,
    /// Counters of its workers.
    pub counters: Arc<Counters>,
    /// Results and costs of its attempts.
    pub module_stats: Arc<ModuleStats>,
    /// Its recent attempts in this process.
    pub recent_attempts: Arc<RecentAttempts>,
    /// Why attempts failed in this process.
    pub failure_reasons: Arc<FailureReasons>,
    /// The topic's breaker.
    pub breaker: Arc<Breaker>,
}

/// The daemon that reports.
#[derive(Clone)]
pub struct Reporter {
    /// Its unique id.
    pub runner_id: Arc<str>,
    /// The address of its API; `None` without one.
    pub api: Option<SocketAddr>,
    /// Its process.
    pub process: ProcessSources,
    /// What pull consumers do over its API.
    pub pull_counters: Arc<PullCounters>,
}

/// All topics to report, sorted by name.
pub type AllWatched = Arc<[Watched]>;

/// Everything that triggers a report at once when it changes.
type Changes = (Vec<TopicChanges>, Option<ManifestRefusal>);

/// The last report.
struct Published {
    at: Instant,
    changes: Changes,
    /// The attempts of all topics.
    attempts: u64,
    bytes: usize,
}

/// The part of a topic's status that triggers a report at once when it changes.
#[derive(PartialEq)]
struct TopicChanges {
    /// The handler module, and the canary module with its share.
    modules: Option<(Digest, Option<(Digest, u32)>)>,
    kept: (Option<Digest>, Option<Digest>),
    standing: Option<BreakerState>,
    events: u64,
}

/// Publishes the report of a daemon until the sender is dropped.
pub async fn publish(
    queue: Queue,
    mut reporter: Reporter,
    mut topics: watch::Receiver<AllWatched>,
    refused: watch::Receiver<Option<ManifestRefusal>>,
    outage: Arc<Outage>,
) {
    let started_at_ms = now_ms();
    let mut tick = tokio::time::interval(CHECK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_refused = false;
    let mut lateness = RecentLateness::new(Instant::now());
    let mut published: Option<Published> = None;
    loop {
        tick.tick().await;
        if topics.has_changed().is_err() {
            return;
        }
        let watched = Arc::clone(&topics.borrow_and_update());
        let topic_changes = watched.iter().map(Watched::changes).collect();
        let changes: Changes = (topic_changes, refused.borrow().clone());
        let pulled = reporter.pull_counters.report();
        let attempts: u64 = watched.iter().map(Watched::attempts).sum();
        let attempts = attempts + pulled.iter().map(PulledStatus::attempts).sum::<u64>();
        if published.as_ref().is_some_and(|last| last.is_current(&changes, attempts)) {
            continue;
        }
        let at = Instant::now();
        let mut status = Status::of_topics(&reporter.runner_id, started_at_ms, &watched);
        status.api = reporter.api;
        lateness.fill(&mut status.topics, &watched);
        lateness.rotate(at, watched.iter().filter_map(Watched::lateness));
        status.manifest_refused.clone_from(&changes.1);
        status.process = reporter.process.read();
        status.pulled = pulled;
        // Texts and numbers: serialization to JSON cannot fail.
        let json = serde_json::to_string(&status).unwrap_or_default();
        let report = Published { at, changes, attempts, bytes: json.len() };
        match queue.publish_status(&reporter.runner_id, &json).await {
            Ok(()) => {
                published = Some(report);
                is_refused = false;
            }
            // No job depends on the report.
            Err(error) if error.is_of_topic() => {
                published = Some(report);
                if !std::mem::replace(&mut is_refused, true) {
                    warn!(%error, "the status report cannot be published; find and repair the keys of runners in Redis");
                }
            }
            Err(error) => outage.record_error(&error),
        }
    }
}

impl Published {
    /// Whether no report is due.
    fn is_current(&self, changes: &Changes, attempts: u64) -> bool {
        let elapsed = self.at.elapsed();
        let by_size = Duration::from_secs((self.bytes / BYTES_PER_SECOND) as u64);
        let by_size = by_size.max(ATTEMPTS_EVERY);
        let has_new_attempts = attempts != self.attempts;
        elapsed < RENEW_EVERY
            && self.changes == *changes
            && !(has_new_attempts && elapsed >= by_size)
    }
}

impl Status {
    /// The report of these topics.
    pub fn of_topics(runner_id: &str, started_at_ms: u64, watched: &[Watched]) -> Self {
        let mut events_left = EVENTS_MAX;
        let topics =
            watched.iter().take(TOPICS_MAX).map(|watched| watched.status(&mut events_left));
        Self {
            runner: runner_id.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            api: None,
            started_at_ms,
            told_at_ms: now_ms(),
            topics: topics.collect(),
            more_topics: watched.len().saturating_sub(TOPICS_MAX),
            manifest_refused: None,
            process: ProcessStatus::default(),
            pulled: Vec::new(),
        }
    }
}

impl Watched {
    /// The current status, with the whole history.
    pub fn full_status(&self) -> TopicStatus {
        let mut events_left = usize::MAX;
        self.status(&mut events_left)
    }

    /// How many attempts of its jobs have ended.
    fn attempts(&self) -> u64 {
        self.serving.as_ref().map_or(0, |serving| serving.module_stats.attempts())
    }

    /// Its name, and how late its attempts started.
    pub(super) fn lateness(&self) -> Option<(&str, CountedDurations)> {
        Some((&self.topic, self.serving.as_ref()?.counters.late.counted()))
    }

    fn changes(&self) -> TopicChanges {
        let modules = self.serving.as_ref().map(|serving| {
            let handlers = &serving.bound.borrow().handlers;
            let canary = handlers.canary.as_ref();
            (handlers.main.digest(), canary.map(|canary| (canary.handler.digest(), canary.share)))
        });
        TopicChanges {
            modules,
            kept: (self.before, self.withdrawn),
            standing: self.serving.as_ref().map(|serving| serving.breaker.state()),
            events: self.history.count(),
        }
    }

    /// The status with at most `events_left` events, but always the last one; `events_left` is
    /// reduced.
    fn status(&self, events_left: &mut usize) -> TopicStatus {
        let hex = |digest: Digest| digest.to_string();
        let module = |(digest, sums): (Digest, Sums)| ModuleStatus { digest: hex(digest), sums };
        let serving = self.serving.as_ref();
        let handlers = serving.map(|serving| binding::current(&serving.bound).handlers.clone());
        let mut history = self.history.events();
        history.drain(..history.len().saturating_sub((*events_left).max(1)));
        *events_left = events_left.saturating_sub(history.len());
        let modules = serving.map(|serving| serving.module_stats.by_digest()).unwrap_or_default();
        TopicStatus {
            topic: self.topic.clone(),
            digest: handlers.as_ref().map(|handlers| hex(handlers.main.digest())),
            canary: handlers.and_then(|handlers| handlers.canary).map(CanaryStatus::of),
            before: self.before.map(hex),
            withdrawn: self.withdrawn.map(hex),
            history,
            breaker: serving.and_then(|serving| BreakerStatus::of(serving.breaker.state())),
            late_p99_ms: None,
            modules: modules.into_iter().map(module).collect(),
            total: serving.map(|serving| serving.module_stats.total()).unwrap_or_default(),
            tally: serving.map(|serving| Tally::of(&serving.counters)).unwrap_or_default(),
            failures: serving.map(Serving::reasons).unwrap_or_default(),
        }
    }
}

impl Serving {
    fn reasons(&self) -> Vec<FailureReason> {
        self.failure_reasons.latest(REASONS_MAX)
    }
}

impl CanaryStatus {
    fn of(canary: CanaryHandler) -> Self {
        Self { digest: canary.handler.digest().to_string(), percent: percent(canary.share) }
    }
}

pub(super) fn now_ms() -> u64 {
    u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0)
}
