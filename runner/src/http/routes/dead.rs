//! `/v1/topics/{topic}/dead`: dead jobs, looked at, given another life, or forgotten.

use axum::Json;
use axum::extract::State;
use duebox_job::{FailureClass, JobId, TopicName};
use duebox_queue::{Cursor, DeadQuery, Job, PageOrder, PageQuery, Requeued};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::jobs::JobAnswer;
use crate::http::params::Params;
use crate::http::path::{JobPath, TopicPath};
use crate::http::problem::{EXISTS, NOT_DEAD, Problem, UNKNOWN_JOB};
use crate::http::state::{ServerState, known};
use crate::service::schema::{IdText, ShownJob, TopicText};
use crate::service::value;

/// Which dead jobs are meant.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Those that died of this: `trap`, `timeout`, `nack`, `drop`, `expired` …
    class: Option<String>,
    /// Those that died then or later, unix ms.
    since_ms: Option<u64>,
    /// Those that died then or earlier, unix ms.
    until_ms: Option<u64>,
    /// All of them: to be said where nothing else is.
    all: Option<bool>,
}

/// A page of a list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListParams {
    /// Those that died of this.
    class: Option<String>,
    /// Those that died then or later, unix ms.
    since_ms: Option<u64>,
    /// Those that died then or earlier, unix ms.
    until_ms: Option<u64>,
    /// Jobs at most, 1 to 1000; 50 if it is left out.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Go on where the page before ended: what it gave as `next`.
    after: Option<String>,
    /// What died first comes first.
    oldest: Option<bool>,
}

/// A page of dead jobs. With a class it may be short, and still have a next.
#[derive(Serialize, ToSchema)]
pub(super) struct DeadPage {
    /// The topic.
    topic: String,
    /// The jobs.
    jobs: Vec<DeadJob>,
    /// Where the next page goes on, if there is one.
    next: Option<String>,
}

/// A dead job in a list.
#[derive(Serialize, ToSchema)]
struct DeadJob {
    /// Its id.
    id: String,
    /// When it died, unix ms.
    died_at_ms: u64,
    /// Of what.
    class: Option<String>,
    /// Why, for people.
    reason: Option<String>,
    /// At which attempt.
    attempt: Option<u64>,
}

/// How many were given another life.
#[derive(Serialize, ToSchema)]
pub(super) struct RequeueAnswer {
    /// How many.
    requeued: u64,
    /// How many were not, since a job of their id is alive.
    exists: u64,
}

/// How many were forgotten.
#[derive(Serialize, ToSchema)]
pub(super) struct PurgeAnswer {
    /// How many.
    purged: u64,
}

/// List dead jobs, those that died last first
#[utoipa::path(
    get,
    path = "/v1/topics/{topic}/dead",
    tag = "dead",
    params(("topic" = inline(TopicText), Path), ListParams),
    responses((status = 200, body = DeadPage)),
)]
pub(super) async fn list(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
    Params(params): Params<ListParams>,
) -> Result<Json<DeadPage>, Problem> {
    known(&server, &name).await?;
    let limit = params.limit.unwrap_or(50);
    if !(1..=1_000).contains(&limit) {
        return Err(Problem::bad("a page has 1 to 1000 jobs", "ask for fewer").of("limit"));
    }
    let after = params.after.as_deref().map(str::parse::<Cursor>).transpose();
    let after = after.map_err(|error| {
        Problem::bad(error.to_string(), "send what the page before gave as next").of("after")
    })?;
    let order = match params.oldest {
        Some(true) => PageOrder::Oldest,
        _ => PageOrder::Newest,
    };
    let (since_ms, until_ms) = (params.since_ms, params.until_ms);
    let page = PageQuery { since_ms, until_ms, order, after, limit: limit as usize };
    let query = DeadQuery { class: class(params.class.as_deref())?, page };
    let page = server.queue.list_dead(&name, &query).await?;
    let next = page.next.map(|cursor| cursor.to_string());
    let job = |job: duebox_queue::DeadSummary| DeadJob {
        id: job.id.to_string(),
        died_at_ms: job.died_at_ms,
        class: job.class,
        reason: job.reason,
        attempt: job.attempt,
    };
    let jobs = page.jobs.into_iter().map(job).collect();
    Ok(Json(DeadPage { topic: name.to_string(), jobs, next }))
}

/// Look at a dead job: its payload, and what it died of
#[utoipa::path(
    get,
    path = "/v1/topics/{topic}/dead/{id}",
    tag = "dead",
    params(("topic" = inline(TopicText), Path), ("id" = inline(IdText), Path)),
    responses((status = 200, body = ShownJob), (status = 409, body = Problem, content_type = "application/problem+json", description = "It is not dead")),
)]
pub(super) async fn show(
    State(server): State<ServerState>,
    JobPath { topic, id }: JobPath,
) -> Result<Json<JobAnswer>, Problem> {
    match server.queue.get(&topic, &id).await? {
        Some(job) if job.dead.is_some() => Ok(Json(JobAnswer::new(&topic, job))),
        job => Err(not_dead(&topic, &id, job.as_ref())),
    }
}

/// Run a dead job again
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/dead/{id}/requeue",
    tag = "dead",
    params(("topic" = inline(TopicText), Path), ("id" = inline(IdText), Path)),
    responses((status = 200, body = RequeueAnswer), (status = 409, body = Problem, content_type = "application/problem+json", description = "It is not dead, or a job of its id is alive")),
)]
pub(super) async fn requeue_one(
    State(server): State<ServerState>,
    JobPath { topic, id }: JobPath,
) -> Result<Json<RequeueAnswer>, Problem> {
    let words = server.queue.requeue(&topic, std::slice::from_ref(&id)).await?;
    match words.first() {
        Some(Requeued::Ok) => {
            server.events.happened(&topic, &id, "requeued");
            Ok(Json(RequeueAnswer { requeued: 1, exists: 0 }))
        }
        Some(Requeued::Exists) => Err(Problem::new(
            EXISTS,
            format!("the dead job {id} of {topic} was not requeued: one of its id is alive"),
            "wait until that has ended, or cancel it",
        )),
        _ => Err(not_dead(&topic, &id, server.queue.get(&topic, &id).await?.as_ref())),
    }
}

/// Run dead jobs again: those of a class or a span of time, or all
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/requeue",
    tag = "dead",
    params(("topic" = inline(TopicText), Path), Which),
    responses((status = 200, body = RequeueAnswer)),
)]
pub(super) async fn requeue(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
    Params(which): Params<Which>,
) -> Result<Json<RequeueAnswer>, Problem> {
    known(&server, &name).await?;
    let many = server.queue.requeue_matching(&name, &which.query()?).await?;
    server.events.happened_to(&name, many.requeued, "requeued", None);
    Ok(Json(RequeueAnswer { requeued: many.requeued, exists: many.exists }))
}

/// Forget a dead job
#[utoipa::path(
    delete,
    path = "/v1/topics/{topic}/dead/{id}",
    tag = "dead",
    params(("topic" = inline(TopicText), Path), ("id" = inline(IdText), Path)),
    responses((status = 200, body = PurgeAnswer), (status = 409, body = Problem, content_type = "application/problem+json", description = "It is not dead")),
)]
pub(super) async fn purge_one(
    State(server): State<ServerState>,
    JobPath { topic, id }: JobPath,
) -> Result<Json<PurgeAnswer>, Problem> {
    match server.queue.prune(&topic, std::slice::from_ref(&id)).await? {
        0 => Err(not_dead(&topic, &id, server.queue.get(&topic, &id).await?.as_ref())),
        purged => {
            server.events.happened(&topic, &id, "purged");
            Ok(Json(PurgeAnswer { purged }))
        }
    }
}

/// Forget dead jobs: those of a class or a span of time, or all
#[utoipa::path(
    delete,
    path = "/v1/topics/{topic}/dead",
    tag = "dead",
    params(("topic" = inline(TopicText), Path), Which),
    responses((status = 200, body = PurgeAnswer)),
)]
pub(super) async fn purge(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
    Params(which): Params<Which>,
) -> Result<Json<PurgeAnswer>, Problem> {
    known(&server, &name).await?;
    let purged = server.queue.purge_matching(&name, &which.query()?).await?;
    server.events.happened_to(&name, purged, "purged", None);
    Ok(Json(PurgeAnswer { purged }))
}

impl Which {
    /// The dead that are meant.
    fn query(&self) -> Result<DeadQuery, Problem> {
        let is_filtered =
            self.class.is_some() || self.since_ms.is_some() || self.until_ms.is_some();
        if is_filtered == self.all.unwrap_or(false) {
            let detail = match is_filtered {
                true => "all are meant, and some",
                false => "it is not said which dead jobs are meant",
            };
            let remedy = "send class, since_ms or until_ms, or all=true";
            return Err(Problem::bad(detail, remedy).of("all"));
        }
        let (since_ms, until_ms) = (self.since_ms, self.until_ms);
        let page = PageQuery { since_ms, until_ms, ..PageQuery::default() };
        Ok(DeadQuery { class: class(self.class.as_deref())?, page })
    }
}

fn class(text: Option<&str>) -> Result<Option<FailureClass>, Problem> {
    let class = text.map(value::class).transpose();
    class.map_err(|why| Problem::bad(why, "send one of them").of("class"))
}

fn not_dead(topic: &TopicName, id: &JobId, job: Option<&Job>) -> Problem {
    let remedy = "GET …/dead lists those that are";
    match job {
        None => {
            Problem::new(UNKNOWN_JOB, format!("nothing is known of a job {id} in {topic}"), remedy)
                .of("id")
        }
        Some(job) => {
            let detail = format!("the job {id} of {topic} is {}, not dead", job.state.word());
            Problem::new(NOT_DEAD, detail, remedy).now(Some(job))
        }
    }
}
