//! `/v1/topics`: job counts and state of topics.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use axum::extract::State;
use axum::{Extension, Json};
use duebox_job::{Shard, TopicName};
use duebox_queue::{Depths, Shards};
use serde::Serialize;
use utoipa::ToSchema;

use super::recent::{RecentByTopic, RecentCounts};
use crate::http::access::Caller;
use crate::http::path::TopicPath;
use crate::http::problem::Problem;
use crate::http::state::{ServerState, known};
use crate::manifest::{Manifest, Topic};
use crate::observe::history::Sample;
use crate::observe::module_stats::Sums;
use crate::observe::pull_counters::{PulledStatus, PullingConsumer};
use crate::report::status::{Status, TopicStatus, Watched};
use crate::service::schema::TopicText;

/// Topics in one pipeline: none of them blocks Redis for more than about a millisecond.
const TOPICS_PER_PIPELINE: usize = 50;

/// All topics.
#[derive(Serialize, ToSchema)]
pub(super) struct TopicList {
    /// Redis' clock, unix ms.
    now_ms: u64,
    /// The topics, sorted by name.
    topics: Vec<TopicState>,
}

/// The state of a topic.
#[derive(Default, Serialize, ToSchema)]
pub(super) struct TopicState {
    /// Its name.
    topic: String,
    /// True if this daemon's manifest serves it, with a handler or for pull consumers.
    bound: bool,
    /// True if it has no handler here: its jobs are for pull consumers.
    pulled: bool,
    /// Jobs that are not yet due.
    pending: u64,
    /// Jobs that are due and wait for a runner.
    ready: u64,
    /// Jobs that are due and wait for other jobs of their key.
    blocked: u64,
    /// Leased jobs.
    unack: u64,
    /// Jobs that failed and wait for their next attempt.
    retry: u64,
    /// Dead jobs.
    dead: u64,
    /// Done jobs that are kept.
    done: u64,
    /// True if the topic is paused.
    paused: bool,
    /// How long the oldest ready job has been due, in ms; null without ready jobs.
    late_ms: Option<u64>,
    /// Time until the next job falls due, in ms; null without waiting jobs.
    next_due_in_ms: Option<u64>,
    /// Number of daemons that serve it with a handler.
    runners: usize,
    /// SHA-256 of the modules that serve it now; several while daemons differ.
    digests: BTreeSet<String>,
    /// Total attempts by all daemons, and by pull consumers over HTTP, since the daemons started.
    attempts: u64,
    /// Total failed attempts.
    failed: u64,
    /// Attempts per second over the last 10 s; null in the first second of this daemon.
    attempts_per_s: Option<f64>,
    /// The attempts of the last ten minutes, as far as this daemon runs.
    recent: RecentCounts,
    /// Number of daemons whose breaker is open.
    breakers_open: usize,
    /// Why some of this could not be read from Redis and is 0: a key of a wrong type, for example; null if
    /// all could be read.
    fault: Option<String>,
}

/// A topic, and the daemons that serve it.
#[derive(Serialize, ToSchema)]
pub(super) struct TopicDetail {
    /// Its state.
    #[serde(flatten)]
    state: TopicState,
    /// The file name of the handler in this daemon's manifest.
    handler: Option<String>,
    /// What each daemon that serves it reports: its modules, their statistics and their history.
    #[schema(value_type = Vec<Object>)]
    served_by: Vec<ServedBy>,
    /// Who pulled its jobs over HTTP since the daemons started, the most recent first.
    consumers: Vec<ConsumerState>,
}

/// A pull consumer of a topic.
#[derive(Serialize, ToSchema)]
struct ConsumerState {
    /// The daemon whose API it uses.
    runner: String,
    /// The consumer.
    #[serde(flatten)]
    consumer: PullingConsumer,
}

/// One daemon's report on a topic.
#[derive(Serialize)]
struct ServedBy {
    runner: String,
    #[serde(flatten)]
    status: TopicStatus,
}

/// List the topics
///
/// The topics of the manifest and all others in Redis; with a token, only those it covers.
#[utoipa::path(get, path = "/v1/topics", tag = "topics", responses((status = 200, body = TopicList)))]
pub(super) async fn list(
    State(server): State<ServerState>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<TopicList>, Problem> {
    let (now_ms, states) = states(&server, |name| caller.sees(name)).await?;
    Ok(Json(TopicList { now_ms, topics: states.into_iter().map(|(_, state)| state).collect() }))
}

/// The states of the selected topics, and Redis' clock.
async fn states(
    server: &ServerState,
    is_selected: impl Fn(&TopicName) -> bool,
) -> Result<(u64, Vec<(TopicName, TopicState)>), Problem> {
    let manifest = server.manifest();
    let (names, depths) = known_depths(server, is_selected).await?;
    let now_ms = depths.iter().map(|depths| depths.now_ms).max().unwrap_or(0);
    let runners = topic_statuses(server, None).await?;
    let mut reported: HashMap<&str, Vec<&TopicStatus>> = HashMap::new();
    for status in runners.iter().flat_map(|runner| &runner.topics) {
        reported.entry(&status.topic).or_default().push(status);
    }
    let mut pulled: HashMap<&str, (u64, u64)> = HashMap::new();
    for status in runners.iter().flat_map(|runner| &runner.pulled) {
        let sums = pulled.entry(&status.topic).or_default();
        *sums = added(*sums, status);
    }
    let recent = RecentByTopic::read(server);
    let states = names.iter().zip(&depths).map(|(name, depths)| {
        let reported = reported.get(name.as_str()).map(Vec::as_slice).unwrap_or_default();
        (
            name.clone(),
            TopicState::of(name, manifest.topic_for(name), depths, reported)
                .with_recent(&recent, name)
                .with_pulled(pulled.get(name.as_str()).copied().unwrap_or_default()),
        )
    });
    Ok((now_ms, states.collect()))
}

/// The selected topics and their numbers of jobs.
async fn known_depths(
    server: &ServerState,
    is_selected: impl Fn(&TopicName) -> bool,
) -> Result<(Vec<TopicName>, Vec<Depths>), Problem> {
    let names: Vec<TopicName> =
        known_names(server).await?.into_iter().filter(is_selected).collect();
    let mut depths = Vec::with_capacity(names.len());
    for some in names.chunks(TOPICS_PER_PIPELINE) {
        depths.extend(server.queue.depths(some).await?);
    }
    Ok((names, depths))
}

/// The topics of Redis and of the manifest.
async fn known_names(server: &ServerState) -> Result<BTreeSet<TopicName>, Problem> {
    let listed = server.sick_topics.known_topics(&server.queue).await?;
    let mut names: BTreeSet<TopicName> = listed.into_iter().collect();
    names.extend(server.manifest().topics.keys().cloned());
    Ok(names)
}

/// Whether any topic has a job that waits or is leased, or a key that Redis refuses.
pub(in crate::http) async fn hold_jobs(server: &ServerState) -> Result<bool, Problem> {
    let names: Vec<TopicName> = known_names(server).await?.into_iter().collect();
    for some in names.chunks(TOPICS_PER_PIPELINE) {
        let all = server.queue.shards_of_all(some).await?;
        let shards: Vec<Shard> = all.iter().flatten().flat_map(Shards::all).collect();
        let waits = server.queue.peek(&shards).await?;
        if all.iter().any(Result::is_err) || waits.iter().any(|wait| !matches!(wait, Ok(None))) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// How many jobs of each topic wait, for the history.
pub(in crate::http) async fn waiting(
    server: &ServerState,
) -> Result<Vec<(TopicName, Sample)>, Problem> {
    let (names, depths) = known_depths(server, |_| true).await?;
    let sample = |depths: Depths| {
        let waiting = depths.pending + depths.ready + depths.blocked + depths.retry;
        let overdue = depths.oldest_ready_ms.map_or(0, |due| depths.now_ms.saturating_sub(due));
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Sample { waiting: number(waiting), overdue_ms: number(overdue), ..Sample::default() }
    };
    Ok(names.into_iter().zip(depths.into_iter().map(sample)).collect())
}

/// Get a topic
#[utoipa::path(
    get,
    path = "/v1/topics/{topic}",
    tag = "topics",
    params(("topic" = inline(TopicText), Path)),
    responses((status = 200, body = TopicDetail)),
)]
pub(super) async fn show(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
) -> Result<Json<TopicDetail>, Problem> {
    known(&server, &name).await?;
    let manifest: &Manifest = &server.manifest();
    let depths = server.queue.depths(std::slice::from_ref(&name)).await?;
    let settings = manifest.topic_for(&name);
    let (mut served_by, mut consumers) = (Vec::new(), Vec::new());
    let mut pulled = (0, 0);
    for status in topic_statuses(&server, Some(&name)).await? {
        let Status { runner, topics, pulled: by_consumers, .. } = status;
        for of_topic in by_consumers.into_iter().filter(|pulled| pulled.topic == name.as_str()) {
            pulled = added(pulled, &of_topic);
            let state = |consumer| ConsumerState { runner: runner.clone(), consumer };
            consumers.extend(of_topic.consumers.into_iter().map(state));
        }
        let reported = topics.into_iter().find(|reported| reported.topic == name.as_str());
        served_by.extend(reported.map(|status| ServedBy { runner, status }));
    }
    consumers.sort_by_key(|state| std::cmp::Reverse(state.consumer.last_ms));
    let reported: Vec<&TopicStatus> = served_by.iter().map(|served| &served.status).collect();
    let depths = depths.first().cloned().unwrap_or_default();
    let state = TopicState::of(&name, settings, &depths, &reported);
    let state = state.with_recent(&RecentByTopic::read(&server), &name).with_pulled(pulled);
    let handler = settings.and_then(|topic| topic.handler.as_deref());
    // Where the file is concerns only who can read the manifest.
    let handler = handler.and_then(Path::file_name);
    let handler = handler.map(|name| name.to_string_lossy().into_owned());
    Ok(Json(TopicDetail { state, handler, served_by, consumers }))
}

/// Reads the reports of the running daemons; reports of other versions as far as they can be
/// parsed. Reports are up to ten seconds old; the current state replaces this daemon's own.
pub(super) async fn statuses(server: &ServerState) -> Result<Vec<Status>, Problem> {
    let texts = server.queue.statuses().await?.texts;
    let read = |(_, text): &(_, String)| serde_json::from_str::<Status>(text).ok();
    let mut all: Vec<Status> = texts.iter().filter_map(read).collect();
    let own = all.iter_mut().filter(|status| *status.runner == *server.runner_id);
    for status in own {
        let now = own_status(server, None);
        (status.topics, status.pulled) = (now.topics, now.pulled);
    }
    Ok(all)
}

/// What the running daemons report of their topics, or of one of them. Unlike [`statuses`] it does not read this
/// daemon's own report back, which has half a MiB with 1,000 topics.
pub(super) async fn topic_statuses(
    server: &ServerState,
    only: Option<&TopicName>,
) -> Result<Vec<Status>, Problem> {
    let texts = server.queue.other_statuses(&server.runner_id).await?.texts;
    let read = |(_, text): &(_, String)| serde_json::from_str::<Status>(text).ok();
    let mut all: Vec<Status> = texts.iter().filter_map(read).collect();
    all.push(own_status(server, only));
    all.sort_by(|one, other| one.runner.cmp(&other.runner));
    Ok(all)
}

/// What this daemon would report now of its topics, or of one of them.
pub(super) fn own_status(server: &ServerState, only: Option<&TopicName>) -> Status {
    let is_wanted = |name: &str| only.is_none_or(|only| only.as_str() == name);
    let watched = server.watched.borrow().clone();
    let served = watched.iter().filter(|watched| is_wanted(&watched.topic));
    let topics = served.map(Watched::full_status).collect();
    let mut pulled = server.pull_counters.report();
    pulled.retain(|pulled| is_wanted(&pulled.topic));
    Status { topics, pulled, ..Status::of_topics(&server.runner_id, 0, &[]) }
}

/// Adds the attempts of pull consumers, and the failed ones of them.
fn added((attempts, failed): (u64, u64), pulled: &PulledStatus) -> (u64, u64) {
    (attempts + pulled.attempts(), failed + u64::from(pulled.tally.failed()))
}

impl TopicState {
    /// Adds attempts of pull consumers.
    fn with_pulled(mut self, (attempts, failed): (u64, u64)) -> Self {
        self.attempts = self.attempts.saturating_add(attempts);
        self.failed = self.failed.saturating_add(failed);
        self
    }

    /// Adds what happened in the last ten minutes.
    fn with_recent(mut self, recent: &RecentByTopic, name: &TopicName) -> Self {
        (self.attempts_per_s, self.recent) = recent.of_topic(name);
        self
    }

    fn of(
        name: &TopicName,
        settings: Option<&Topic>,
        depths: &Depths,
        reported: &[&TopicStatus],
    ) -> Self {
        let Depths { pending, ready, blocked, unack, retry, dead, done, paused, now_ms, .. } =
            *depths;
        let digests = reported.iter().filter_map(|reported| reported.digest.clone());
        Self {
            topic: name.to_string(),
            bound: settings.is_some(),
            pulled: settings.is_some_and(|settings| settings.handler.is_none()),
            pending,
            ready,
            blocked,
            unack,
            retry,
            dead,
            done,
            paused,
            late_ms: depths.oldest_ready_ms.map(|due| now_ms.saturating_sub(due)),
            next_due_in_ms: depths.next_due_ms.map(|due| due.saturating_sub(now_ms)),
            runners: reported.len(),
            digests: digests.collect(),
            attempts: total(reported, |sums| sums.jobs),
            failed: total(reported, |sums| sums.failed),
            attempts_per_s: None,
            recent: RecentCounts::default(),
            breakers_open: reported.iter().filter(|reported| reported.breaker.is_some()).count(),
            fault: depths.fault.clone(),
        }
    }
}

/// A total over reports. They are texts in Redis, which may hold any number.
fn total(reported: &[&TopicStatus], number: fn(&Sums) -> u64) -> u64 {
    reported.iter().map(|reported| number(&reported.total)).fold(0, u64::saturating_add)
}
