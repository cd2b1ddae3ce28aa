//! What this daemon says of itself in Redis, for `duebox stats`: which modules serve, what became of those
//! before them, what their attempts came to and cost, and what holds jobs back.
//!
//! It is written every ten seconds, and within one of a change; one round trip whatever the number of
//! topics. A daemon that died without a word is forgotten after thirty seconds.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duebox_queue::Queue;
use duebox_sandbox::Digest;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::deploy::binding::{self, Bound, CanaryHandler};
use crate::deploy::breaker::{Breaker, BreakerState};
use crate::deploy::history::{Event, History};
use crate::manifest::{ManifestError, percent};
use crate::observe::counters::Counters;
use crate::observe::module_stats::{ModuleStats, Sums};
use crate::observe::recent_attempts::RecentAttempts;
use crate::redis_host::outage::Outage;

/// How often it is looked whether something has changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often what is written is renewed, changed or not.
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// Topics that are told of; what is beyond is counted. A topic takes some 500 bytes.
const TOPICS_MAX: usize = 1_000;
/// The longest problem of a manifest that is told, in bytes.
const PROBLEM_BYTES_MAX: usize = 1 << 10;
/// Events that are told of all topics together; beyond it, of each topic the last one only. An event takes
/// some 130 bytes, and up to 1 KiB more for its reason.
const EVENTS_MAX: usize = 2_000;

/// What a daemon says of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Its name among all runners.
    pub runner: String,
    /// Its version.
    pub version: String,
    /// Its process on its machine.
    pub pid: u32,
    /// Where it serves the API, as it was bound; none if it serves none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub api: Option<SocketAddr>,
    /// When it was ready, in unix ms by its own clock.
    pub started_at_ms: u64,
    /// When it said this, by the same clock.
    pub told_at_ms: u64,
    /// The topics that its handlers serve, in the order of their names; 1,000 at most.
    pub topics: Vec<TopicStatus>,
    /// How many more there are.
    #[serde(default)]
    pub more_topics: usize,
    /// The manifest as it stands is not in service: the one before is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub manifest_refused: Option<Refusal>,
}

/// A manifest that was refused at a reload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Since when no good one was there, in unix ms by the daemon's clock.
    pub since_ms: u64,
    /// What is wrong with it, the first of all problems: one line, at most 1 KiB.
    pub problem: String,
    /// Where that stands, from 1; none if it stands nowhere in the file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub line: Option<usize>,
    /// How many problems it has in all.
    pub problems: usize,
}

/// A topic that a handler serves, or an entry of the manifest that waits for a good one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopicStatus {
    /// Its name, or the pattern that waits.
    pub topic: String,
    /// The module that serves it: 64 hex digits; none as long as there is no good one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub digest: Option<String>,
    /// The module that runs a part of its jobs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub canary: Option<CanaryStatus>,
    /// The module that served before, which comes back at a rollback.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub before: Option<String>,
    /// The module that was rolled back, and is not taken until something else is asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub withdrawn: Option<String>,
    /// What became of its modules, the oldest first; at most 16 events.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub history: Vec<Event>,
    /// What holds its jobs back, if anything does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub breaker: Option<BreakerStatus>,
    /// The modules that ran its jobs, at most eight, the one that ran last first.
    pub modules: Vec<ModuleStatus>,
    /// All that was run, by modules too that are not told of any more.
    pub total: Sums,
}

/// A module that runs a part of a topic's jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CanaryStatus {
    /// Which it is.
    pub digest: String,
    /// Its part of the jobs: above 0, up to 100.
    pub percent: f64,
}

/// A breaker that is not closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerStatus {
    /// Since when it is open, in unix ms by the daemon's clock.
    pub open_since_ms: u64,
    /// When a job may be tried; none while one is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub probe_at_ms: Option<u64>,
}

/// What one module did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModuleStatus {
    /// Which it is.
    pub digest: String,
    /// What its attempts came to and cost.
    #[serde(flatten)]
    pub sums: Sums,
}

/// Where a topic's status is looked up.
#[derive(Clone)]
pub struct Watched {
    /// Its name, or the pattern that waits.
    pub topic: String,
    /// The entry of the manifest that it is served by: itself, or a pattern.
    pub entry: String,
    /// Who serves it; none as long as there is no good module.
    pub serving: Option<Serving>,
    /// The module that served before.
    pub before: Option<Digest>,
    /// The module that was rolled back.
    pub withdrawn: Option<Digest>,
    /// What became of its modules.
    pub history: History,
}

/// Where it is looked up who serves a topic.
#[derive(Clone)]
pub struct Serving {
    /// The modules that serve it now.
    pub bound: Bound,
    /// What its workers did.
    pub counters: Arc<Counters>,
    /// What its attempts came to and cost.
    pub figures: Arc<ModuleStats>,
    /// Its last attempts here.
    pub latest: Arc<RecentAttempts>,
    /// Whether its jobs may start.
    pub breaker: Arc<Breaker>,
}

/// The topics to tell of, in the order of their names.
pub type AllWatched = Arc<[Watched]>;

/// What is told at once if it changes.
type News = Vec<Mark>;

/// What is told at once of a topic.
#[derive(PartialEq)]
struct Mark {
    /// Its modules: the handler, and the canary with its share.
    modules: Option<(Digest, Option<(Digest, u32)>)>,
    kept: (Option<Digest>, Option<Digest>),
    standing: Option<BreakerState>,
    events: u64,
}

/// Keeps telling Redis of a runner, whose name and address these are, until the sender is gone.
pub async fn tell(
    queue: Queue,
    (runner_id, api): (Arc<str>, Option<SocketAddr>),
    mut topics: watch::Receiver<AllWatched>,
    refused: watch::Receiver<Option<Refusal>>,
    outage: Arc<Outage>,
) {
    let started_at_ms = now_ms();
    let mut tick = tokio::time::interval(LOOK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told: Option<(Instant, (News, Option<Refusal>))> = None;
    loop {
        tick.tick().await;
        if topics.has_changed().is_err() {
            return;
        }
        let watched = Arc::clone(&topics.borrow_and_update());
        let marks: News = watched.iter().map(Watched::news).collect();
        let news = (marks, refused.borrow().clone());
        let is_known = |(at, known): &(Instant, _)| at.elapsed() < RENEW_EVERY && *known == news;
        if told.as_ref().is_some_and(is_known) {
            continue;
        }
        let now = Instant::now();
        let mut status = Status::new(&runner_id, started_at_ms, &watched);
        status.api = api;
        status.manifest_refused.clone_from(&news.1);
        // Texts and numbers: there is nothing in it that JSON could not hold.
        let json = serde_json::to_string(&status).unwrap_or_default();
        match queue.publish_status(&runner_id, &json).await {
            Ok(()) => told = Some((now, news)),
            Err(error) => outage.noticed(&error),
        }
    }
}

impl Status {
    fn new(runner_id: &str, started_at_ms: u64, watched: &[Watched]) -> Self {
        let mut room = EVENTS_MAX;
        let topics = watched.iter().take(TOPICS_MAX).map(|watched| watched.status(&mut room));
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
        }
    }
}

impl Refusal {
    /// Why a manifest was refused just now; `before` is why the last one was, if nothing good came since.
    pub fn of(error: &ManifestError, before: Option<&Self>) -> Self {
        let problems = error.problems();
        let first = problems.first();
        let line = first.map_or("", |first| first.message.lines().next().unwrap_or_default());
        let end = line.floor_char_boundary(PROBLEM_BYTES_MAX);
        Self {
            since_ms: before.map_or_else(now_ms, |before| before.since_ms),
            problem: line[..end].to_owned(),
            line: first.and_then(|first| first.line),
            problems: problems.len(),
        }
    }
}

impl Watched {
    /// What there is to tell of it now, with all of its history.
    pub fn told(&self) -> TopicStatus {
        let mut room = usize::MAX;
        self.status(&mut room)
    }

    fn news(&self) -> Mark {
        let modules = self.serving.as_ref().map(|serving| {
            let handlers = &serving.bound.borrow().handlers;
            let canary = handlers.canary.as_ref();
            (handlers.main.digest(), canary.map(|canary| (canary.handler.digest(), canary.share)))
        });
        Mark {
            modules,
            kept: (self.before, self.withdrawn),
            standing: self.serving.as_ref().map(|serving| serving.breaker.state()),
            events: self.history.count(),
        }
    }

    /// What is told of it, with no more events than there is room for, and the last one in any case.
    fn status(&self, room: &mut usize) -> TopicStatus {
        let hex = |digest: Digest| digest.to_string();
        let module = |(digest, sums): (Digest, Sums)| ModuleStatus { digest: hex(digest), sums };
        let serving = self.serving.as_ref();
        let handlers = serving.map(|serving| binding::current(&serving.bound).handlers.clone());
        let mut history = self.history.events();
        history.drain(..history.len().saturating_sub((*room).max(1)));
        *room = room.saturating_sub(history.len());
        let modules = serving.map(|serving| serving.figures.by_digest()).unwrap_or_default();
        TopicStatus {
            topic: self.topic.clone(),
            digest: handlers.as_ref().map(|handlers| hex(handlers.main.digest())),
            canary: handlers.and_then(|handlers| handlers.canary).map(CanaryStatus::of),
            before: self.before.map(hex),
            withdrawn: self.withdrawn.map(hex),
            history,
            breaker: serving.and_then(|serving| BreakerStatus::of(serving.breaker.state())),
            modules: modules.into_iter().map(module).collect(),
            total: serving.map(|serving| serving.figures.total()).unwrap_or_default(),
        }
    }
}

impl CanaryStatus {
    fn of(canary: CanaryHandler) -> Self {
        Self { digest: canary.handler.digest().to_string(), percent: percent(canary.share) }
    }
}

impl BreakerStatus {
    fn of(standing: BreakerState) -> Option<Self> {
        let (now_ms, now) = (now_ms(), Instant::now());
        let ago = |then: Instant| millis(now.saturating_duration_since(then));
        let ahead = |then: Instant| millis(then.saturating_duration_since(now));
        let (since, probe_at) = match standing {
            BreakerState::Closed => return None,
            BreakerState::Open { since, probe_at } => (since, Some(probe_at)),
            BreakerState::Probing { since } => (since, None),
        };
        Some(Self {
            open_since_ms: now_ms.saturating_sub(ago(since)),
            probe_at_ms: probe_at.map(|at| now_ms.saturating_add(ahead(at))),
        })
    }
}

fn now_ms() -> u64 {
    u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
