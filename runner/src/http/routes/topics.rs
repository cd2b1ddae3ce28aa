//! `/v1/topics`: how many jobs each topic has in each state, who serves it, and what holds for it.

use std::collections::{BTreeSet, HashMap};

use axum::extract::State;
use axum::{Extension, Json};
use duebox_job::TopicName;
use duebox_queue::Depths;
use serde::Serialize;
use utoipa::ToSchema;

use crate::background::control_channel::{Order, Replies, Reply};
use crate::http::access::Caller;
use crate::http::path::TopicPath;
use crate::http::problem::{NOT_FOLLOWED, Problem};
use crate::http::state::{ServerState, known};
use crate::manifest::{Manifest, Topic};
use crate::report::status::{Status, TopicStatus, Watched};
use crate::service::schema::TopicText;

/// Topics that are asked for in one pipeline, so that none holds Redis up for more than a millisecond or so.
const TOPICS_A_PIPELINE: usize = 50;

/// All topics.
#[derive(Serialize, ToSchema)]
pub(super) struct TopicList {
    /// Redis' clock when it was asked, unix ms.
    now_ms: u64,
    /// The topics, in the order of their names.
    topics: Vec<TopicState>,
}

/// How a topic is doing.
#[derive(Default, Serialize, ToSchema)]
pub(super) struct TopicState {
    /// Its name.
    topic: String,
    /// True if this daemon's manifest serves it, by a handler or to pull consumers.
    bound: bool,
    /// True if it has no handler here: its jobs are for pull consumers.
    pulled: bool,
    /// Jobs that are not yet due.
    pending: u64,
    /// Jobs that are due and wait for a runner.
    ready: u64,
    /// Jobs that are due and wait for others of their key.
    blocked: u64,
    /// Jobs that somebody has.
    unack: u64,
    /// Jobs that failed and wait for their next attempt.
    retry: u64,
    /// Jobs that were given up.
    dead: u64,
    /// Jobs that are done and kept for a while.
    done: u64,
    /// True if no job of it is started.
    paused: bool,
    /// How long the oldest ready job has been due; none if there is none.
    pub(super) late_ms: Option<u64>,
    /// How soon the next job falls due; none if there is none.
    next_due_in_ms: Option<u64>,
    /// Daemons that serve it by a handler.
    runners: usize,
    /// The modules that serve it now, by their SHA-256; more than one while daemons differ.
    digests: BTreeSet<String>,
    /// Attempts that were run, by all daemons since they started.
    pub(super) attempts: u64,
    /// Of these, those that failed.
    pub(super) failed: u64,
    /// Attempts a second, over the last 5 to 20 s; none in the first seconds after nobody has asked for an
    /// hour.
    attempts_per_s: Option<f64>,
    /// Daemons that hold its jobs back, since they fail and fail.
    breakers_open: usize,
}

/// A topic, and who serves it.
#[derive(Serialize, ToSchema)]
pub(super) struct TopicDetail {
    /// How it is doing.
    #[serde(flatten)]
    state: TopicState,
    /// The module of this daemon's manifest.
    handler: Option<String>,
    /// What each daemon that serves it says of its modules, their figures and their history.
    #[schema(value_type = Vec<Object>)]
    served_by: Vec<ServedBy>,
}

/// What one daemon says of a topic.
#[derive(Serialize)]
struct ServedBy {
    runner: String,
    #[serde(flatten)]
    status: TopicStatus,
}

/// Whether a topic is paused.
#[derive(Serialize, ToSchema)]
pub(super) struct PauseAnswer {
    /// The topic.
    topic: String,
    /// Whether it is paused now.
    paused: bool,
    /// Whether it was otherwise before.
    changed: bool,
}

/// What daemons said to an order.
#[derive(Serialize, ToSchema)]
pub(super) struct OrderAnswer {
    /// The topic.
    topic: String,
    /// What each daemon answered.
    runners: Vec<Reply>,
}

/// List the topics
///
/// Those of the manifest, and all others that Redis knows; with a token, those it covers.
#[utoipa::path(get, path = "/v1/topics", tag = "topics", responses((status = 200, body = TopicList)))]
pub(super) async fn list(
    State(server): State<ServerState>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<TopicList>, Problem> {
    server.samples.are_wanted();
    let (now_ms, states) = states(&server, |name| caller.sees(name)).await?;
    Ok(Json(TopicList { now_ms, topics: states.into_iter().map(|(_, state)| state).collect() }))
}

/// How the topics are doing that are meant, and Redis' clock when it was asked.
pub(super) async fn states(
    server: &ServerState,
    are_meant: impl Fn(&TopicName) -> bool,
) -> Result<(u64, Vec<(TopicName, TopicState)>), Problem> {
    let manifest = server.manifest();
    let mut names: BTreeSet<TopicName> = server.queue.topics().await?.into_iter().collect();
    names.extend(manifest.topics.keys().cloned());
    let names: Vec<TopicName> = names.into_iter().filter(are_meant).collect();
    let mut depths = Vec::with_capacity(names.len());
    for some in names.chunks(TOPICS_A_PIPELINE) {
        depths.extend(server.queue.depths(some).await?);
    }
    let now_ms = depths.iter().map(|depths| depths.now_ms).max().unwrap_or(0);
    let runners = statuses(server).await?;
    let mut told: HashMap<&str, Vec<&TopicStatus>> = HashMap::new();
    for status in runners.iter().flat_map(|runner| &runner.topics) {
        told.entry(&status.topic).or_default().push(status);
    }
    let states = names.iter().zip(&depths).map(|(name, depths)| {
        let told = told.get(name.as_str()).map(Vec::as_slice).unwrap_or_default();
        (
            name.clone(),
            TopicState::of(name, manifest.topic_for(name), depths, told)
                .rated(server, name, now_ms),
        )
    });
    Ok((now_ms, states.collect()))
}

/// Look at a topic
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
    server.samples.are_wanted();
    let manifest: &Manifest = &server.manifest();
    let depths = server.queue.depths(std::slice::from_ref(&name)).await?;
    let settings = manifest.topic_for(&name);
    let mut served_by = Vec::new();
    for Status { runner, topics, .. } in statuses(&server).await? {
        let told = topics.into_iter().find(|told| told.topic == name.as_str());
        served_by.extend(told.map(|status| ServedBy { runner, status }));
    }
    let told: Vec<&TopicStatus> = served_by.iter().map(|served| &served.status).collect();
    let depths = depths.first().cloned().unwrap_or_default();
    let state = TopicState::of(&name, settings, &depths, &told);
    let state = state.rated(&server, &name, depths.now_ms);
    let handler = settings.and_then(|topic| topic.handler.as_deref());
    let handler = handler.map(|path| path.display().to_string());
    Ok(Json(TopicDetail { state, handler, served_by }))
}

/// Start no more jobs of a topic, on any runner, until it is resumed
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/pause",
    tag = "topics",
    params(("topic" = inline(TopicText), Path)),
    responses((status = 200, body = PauseAnswer)),
)]
pub(super) async fn pause(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
) -> Result<Json<PauseAnswer>, Problem> {
    set_paused(&server, &name, true).await
}

/// Start jobs of a paused topic again
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/resume",
    tag = "topics",
    params(("topic" = inline(TopicText), Path)),
    responses((status = 200, body = PauseAnswer)),
)]
pub(super) async fn resume(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
) -> Result<Json<PauseAnswer>, Problem> {
    set_paused(&server, &name, false).await
}

async fn set_paused(
    server: &ServerState,
    name: &TopicName,
    paused: bool,
) -> Result<Json<PauseAnswer>, Problem> {
    known(server, name).await?;
    if let Some(topic) = server.manifest().topic_for(name) {
        server.queue_of(name, topic).await?;
    }
    let queue = &server.queue;
    let changed = if paused { queue.pause(name).await? } else { queue.resume(name).await? };
    Ok(Json(PauseAnswer { topic: name.to_string(), paused, changed }))
}

/// Look at the files of a topic's module now, in every daemon
///
/// They are looked at anyway when they change; this is for file systems that tell nobody. What is good of
/// what has changed is taken, as ever.
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/reload",
    tag = "topics",
    params(("topic" = inline(TopicText), Path)),
    responses((status = 200, body = OrderAnswer), (status = 409, body = Problem, content_type = "application/problem+json", description = "Not every daemon followed")),
)]
pub(super) async fn reload(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
) -> Result<Json<OrderAnswer>, Problem> {
    give(&server, &name, &Order::reload(name.as_str())).await
}

/// Take a topic's module back: the one before serves again, in every daemon
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/rollback",
    tag = "topics",
    params(("topic" = inline(TopicText), Path)),
    responses((status = 200, body = OrderAnswer), (status = 409, body = Problem, content_type = "application/problem+json", description = "Not every daemon followed")),
)]
pub(super) async fn rollback(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
) -> Result<Json<OrderAnswer>, Problem> {
    give(&server, &name, &Order::rollback(name.as_str())).await
}

async fn give(
    server: &ServerState,
    name: &TopicName,
    order: &Order,
) -> Result<Json<OrderAnswer>, Problem> {
    known(server, name).await?;
    let told = Replies::collect(&server.queue, order).await?;
    match told.trouble(name) {
        Some(trouble) => Err(Problem::new(NOT_FOLLOWED, trouble.to_string(), trouble.remedy())),
        None => Ok(Json(OrderAnswer { topic: name.to_string(), runners: told.replies })),
    }
}

/// What running daemons say of themselves; of other versions, as far as it can be read. They say it every ten
/// seconds; of this one it is known how it stands now.
async fn statuses(server: &ServerState) -> Result<Vec<Status>, Problem> {
    let told = server.queue.statuses().await?;
    let read = |(_, text): &(_, String)| serde_json::from_str::<Status>(text).ok();
    let mut all: Vec<Status> = told.iter().filter_map(read).collect();
    let own = all.iter_mut().filter(|status| *status.runner == *server.runner_id);
    for status in own {
        status.topics = server.watched.borrow().iter().map(Watched::told).collect();
    }
    Ok(all)
}

impl TopicState {
    /// Jobs that run or are to run.
    pub(super) fn live(&self) -> u64 {
        self.pending + self.ready + self.blocked + self.unack + self.retry
    }

    /// The same with its rate, as far as it is known.
    fn rated(mut self, server: &ServerState, name: &TopicName, now_ms: u64) -> Self {
        self.attempts_per_s = server.samples.rate(name, now_ms, self.attempts);
        self
    }

    fn of(
        name: &TopicName,
        settings: Option<&Topic>,
        depths: &Depths,
        told: &[&TopicStatus],
    ) -> Self {
        let Depths { pending, ready, blocked, unack, retry, dead, done, paused, now_ms, .. } =
            *depths;
        let digests = told.iter().filter_map(|told| told.digest.clone());
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
            runners: told.len(),
            digests: digests.collect(),
            attempts: told.iter().map(|told| told.total.jobs).sum(),
            failed: told.iter().map(|told| told.total.failed).sum(),
            attempts_per_s: None,
            breakers_open: told.iter().filter(|told| told.breaker.is_some()).count(),
        }
    }
}
