//! `/v1/topics/{topic}/dead`: lists, gets, requeues and purges dead jobs.

use axum::Json;
use axum::extract::State;
use duebox_job::{FailureClass, JobId, TopicName};
use duebox_queue::{Cursor, DeadQuery, Job, PageOrder, PageQuery, Requeued};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::jobs::JobResponse;
use crate::http::params::Params;
use crate::http::path::{JobPath, TopicPath};
use crate::http::problem::{EXISTS, NOT_DEAD, Problem, UNKNOWN_JOB};
use crate::http::state::{ServerState, known};
use crate::observe::events::EventKind;
use crate::service::schema::{IdText, ShownJob, TopicText};
use crate::service::value;

/// Selection of dead jobs.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DeadFilter {
    /// Only jobs with this failure class: `trap`, `timeout`, `nack`, `drop`, `expired` …
    class: Option<String>,
    /// Only jobs that died at this time or later, unix ms.
    since_ms: Option<u64>,
    /// Only jobs that died at this time or earlier, unix ms.
    until_ms: Option<u64>,
    /// All dead jobs; required without another filter.
    all: Option<bool>,
}

/// Parameters of the list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DeadListParams {
    /// Only jobs with this failure class.
    class: Option<String>,
    /// Only jobs that died at this time or later, unix ms.
    since_ms: Option<u64>,
    /// Only jobs that died at this time or earlier, unix ms.
    until_ms: Option<u64>,
    /// Maximum number of jobs, 1 to 1000; default: 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Continue after a previous page: its `next`.
    after: Option<String>,
    /// True for the oldest first.
    oldest: Option<bool>,
}

/// A page of dead jobs. With a class it may have fewer jobs and still a next page.
#[derive(Serialize, ToSchema)]
pub(super) struct DeadPage {
    /// The topic.
    topic: String,
    /// The jobs.
    jobs: Vec<DeadJob>,
    /// Cursor of the next page, if there is one.
    next: Option<String>,
}

/// A dead job in a list.
#[derive(Serialize, ToSchema)]
struct DeadJob {
    /// Its id.
    id: String,
    /// When it died, unix ms.
    died_at_ms: u64,
    /// Its failure class.
    class: Option<String>,
    /// The reason, for people.
    reason: Option<String>,
    /// The attempt after which it died.
    attempt: Option<u64>,
}

/// The result of a requeue.
#[derive(Serialize, ToSchema)]
pub(super) struct RequeueResponse {
    /// Number of jobs.
    requeued: u64,
    /// Number of jobs that stay dead because a live job has their id.
    exists: u64,
}

/// The result of a purge.
#[derive(Serialize, ToSchema)]
pub(super) struct PurgeResponse {
    /// Number of jobs.
    purged: u64,
}

/// List dead jobs, the latest first
#[utoipa::path(
    get,
    path = "/v1/topics/{topic}/dead",
    tag = "dead",
    params(("topic" = inline(TopicText), Path), DeadListParams),
    responses((status = 200, body = DeadPage)),
)]
pub(super) async fn list(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
    Params(params): Params<DeadListParams>,
) -> Result<Json<DeadPage>, Problem> {
    known(&server, &name).await?;
    let limit = params.limit.unwrap_or(50);
    if !(1..=1_000).contains(&limit) {
        return Err(Problem::bad(
            "the limit must be from 1 to 1000",
            "send a number in this range",
        )
        .of("limit"));
    }
    let after = params.after.as_deref().map(str::parse::<Cursor>).transpose();
    let after = after.map_err(|error| {
        Problem::bad(error.to_string(), "send the next of the previous page").of("after")
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

/// Get a dead job with its payload and failure
#[utoipa::path(
    get,
    path = "/v1/topics/{topic}/dead/{id}",
    tag = "dead",
    params(("topic" = inline(TopicText), Path), ("id" = inline(IdText), Path)),
    responses((status = 200, body = ShownJob), (status = 409, body = Problem, content_type = "application/problem+json", description = "The job is not dead")),
)]
pub(super) async fn show(
    State(server): State<ServerState>,
    JobPath { topic, id }: JobPath,
) -> Result<Json<JobResponse>, Problem> {
    match server.queue.get(&topic, &id).await? {
        Some(job) if job.dead.is_some() => Ok(Json(JobResponse::read(&server, &topic, job).await?)),
        job => Err(not_dead(&server, &topic, &id, job.as_ref()).await),
    }
}

/// Requeue a dead job
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/dead/{id}/requeue",
    tag = "dead",
    params(("topic" = inline(TopicText), Path), ("id" = inline(IdText), Path)),
    responses((status = 200, body = RequeueResponse), (status = 409, body = Problem, content_type = "application/problem+json", description = "The job is not dead, or a live job has its id")),
)]
pub(super) async fn requeue_one(
    State(server): State<ServerState>,
    JobPath { topic, id }: JobPath,
) -> Result<Json<RequeueResponse>, Problem> {
    let words = server.queue.requeue(&topic, std::slice::from_ref(&id)).await?;
    match words.first() {
        Some(Requeued::Ok) => {
            server.events.report(&topic, &id, EventKind::Requeued);
            Ok(Json(RequeueResponse { requeued: 1, exists: 0 }))
        }
        Some(Requeued::Exists) => Err(Problem::new(
            EXISTS,
            format!("dead job {id} of {topic} was not requeued: a live job has its id"),
            "wait until that job has ended, or cancel it",
        )),
        _ => {
            let job = server.queue.get(&topic, &id).await?;
            Err(not_dead(&server, &topic, &id, job.as_ref()).await)
        }
    }
}

/// Requeue dead jobs by class or time, or all
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/requeue",
    tag = "dead",
    params(("topic" = inline(TopicText), Path), DeadFilter),
    responses((status = 200, body = RequeueResponse)),
)]
pub(super) async fn requeue(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
    Params(filter): Params<DeadFilter>,
) -> Result<Json<RequeueResponse>, Problem> {
    known(&server, &name).await?;
    let many = server.queue.requeue_matching(&name, &filter.query()?).await?;
    server.events.report_several(&name, many.requeued, EventKind::Requeued, None);
    Ok(Json(RequeueResponse { requeued: many.requeued, exists: many.exists }))
}

/// Purge a dead job
#[utoipa::path(
    delete,
    path = "/v1/topics/{topic}/dead/{id}",
    tag = "dead",
    params(("topic" = inline(TopicText), Path), ("id" = inline(IdText), Path)),
    responses((status = 200, body = PurgeResponse), (status = 409, body = Problem, content_type = "application/problem+json", description = "The job is not dead")),
)]
pub(super) async fn purge_one(
    State(server): State<ServerState>,
    JobPath { topic, id }: JobPath,
) -> Result<Json<PurgeResponse>, Problem> {
    match server.queue.prune(&topic, std::slice::from_ref(&id)).await? {
        0 => {
            let job = server.queue.get(&topic, &id).await?;
            Err(not_dead(&server, &topic, &id, job.as_ref()).await)
        }
        purged => {
            server.events.report(&topic, &id, EventKind::Purged);
            Ok(Json(PurgeResponse { purged }))
        }
    }
}

/// Purge dead jobs by class or time, or all
#[utoipa::path(
    delete,
    path = "/v1/topics/{topic}/dead",
    tag = "dead",
    params(("topic" = inline(TopicText), Path), DeadFilter),
    responses((status = 200, body = PurgeResponse)),
)]
pub(super) async fn purge(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
    Params(filter): Params<DeadFilter>,
) -> Result<Json<PurgeResponse>, Problem> {
    known(&server, &name).await?;
    let purged = server.queue.purge_matching(&name, &filter.query()?).await?;
    server.events.report_several(&name, purged, EventKind::Purged, None);
    Ok(Json(PurgeResponse { purged }))
}

impl DeadFilter {
    /// The query for the selected jobs.
    fn query(&self) -> Result<DeadQuery, Problem> {
        let is_filtered =
            self.class.is_some() || self.since_ms.is_some() || self.until_ms.is_some();
        if is_filtered == self.all.unwrap_or(false) {
            let detail = match is_filtered {
                true => "all is combined with a filter",
                false => "no filter is given",
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
    class.map_err(|why| Problem::bad(why, "send one of these classes").of("class"))
}

async fn not_dead(
    server: &ServerState,
    topic: &TopicName,
    id: &JobId,
    job: Option<&Job>,
) -> Problem {
    let remedy = "GET …/dead lists dead jobs";
    match job {
        None => match known(server, topic).await {
            Err(problem) => problem,
            Ok(()) => Problem::new(UNKNOWN_JOB, format!("no job {id} is known in {topic}"), remedy)
                .of("id"),
        },
        Some(job) => {
            let detail = format!("job {id} of {topic} is {}, not dead", job.state.shown());
            Problem::new(NOT_DEAD, detail, remedy).now(Some(job))
        }
    }
}
