//! `/v1/topics/{topic}/jobs/{id}`: get, cancel and reschedule one job.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::{Extension, Json};
use duebox_job::{JobId, TopicName};
use duebox_queue::{Cancelled, Due, Job, JobState, Rescheduled};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::leases::duration;
use super::relatives::{Relative, relatives};
use crate::http::access::Caller;
use crate::http::body::{self, RequestBody};
use crate::http::params::Params;
use crate::http::path::JobPath;
use crate::http::problem::{NOT_WAITING, Problem, UNKNOWN_JOB};
use crate::http::state::{ServerState, known};
use crate::observe::events::EventKind;
use crate::service::due::{DueCheck, due};
use crate::service::schema::{DurationText, IdText, ShownJob, TopicText};
use crate::service::timeline::Timeline;

/// A job and its life; the JSON response.
#[derive(Serialize)]
pub(super) struct JobResponse {
    topic: String,
    #[serde(flatten)]
    job: Job,
    #[serde(flatten)]
    life: Timeline,
    #[serde(skip_serializing_if = "Option::is_none")]
    relatives: Option<Vec<Relative>>,
}

/// Parameters of a look at one job.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct JobParams {
    /// True to add the states of its parent and of its follow-ups.
    relatives: Option<bool>,
}

impl JobResponse {
    pub(super) async fn read(
        server: &ServerState,
        topic: &TopicName,
        job: Job,
    ) -> Result<Self, Problem> {
        let mut life = Timeline::read(&server.queue, topic, &job).await?;
        let watched = server.watched.borrow().clone();
        let own = watched.iter().find(|watched| watched.topic == topic.as_str());
        if let Some(serving) = own.and_then(|watched| watched.serving.as_ref()) {
            let attempts = serving.recent_attempts.of_job(&job.id.to_string());
            life.add_remembered(&attempts, &server.runner_id);
        }
        Ok(Self { topic: topic.to_string(), job, life, relatives: None })
    }
}

/// The result of a change.
#[derive(Serialize, ToSchema)]
pub(super) struct ChangeResponse {
    /// The topic.
    topic: String,
    /// The job's id.
    id: String,
    /// `cancelled`, or `leased` if it is running and will not be retried; after a reschedule its
    /// state: `pending`, `ready`, `retry`, `blocked`.
    result: &'static str,
}

/// The new due time: exactly one of the two fields.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RescheduleBody {
    /// Delay from now.
    #[serde(rename = "in")]
    #[schema(value_type = Option<DurationText>)]
    delay: Option<String>,
    /// Time: RFC 3339 with a zone or an offset, or unix ms as text.
    at: Option<String>,
}

/// Get a job
///
/// In any state: due time, payload and options, attempts and last error, current lease, the failure or
/// the result, and the timeline of what happened to it, as far as Redis has it.
#[utoipa::path(
    get,
    path = "/v1/topics/{topic}/jobs/{id}",
    tag = "jobs",
    params(("topic" = inline(TopicText), Path), ("id" = inline(IdText), Path), JobParams),
    responses((status = 200, body = ShownJob)),
)]
pub(super) async fn get(
    State(server): State<ServerState>,
    Extension(caller): Extension<Caller>,
    JobPath { topic, id }: JobPath,
    Params(params): Params<JobParams>,
) -> Result<Json<JobResponse>, Problem> {
    let Some(job) = server.queue.get(&topic, &id).await? else {
        known(&server, &topic).await?;
        return Err(unknown_job(&topic, &id));
    };
    let mut response = JobResponse::read(&server, &topic, job).await?;
    if params.relatives == Some(true) {
        response.relatives = Some(relatives(&server, &caller, &response.life).await?);
    }
    Ok(Json(response))
}

/// Cancel a job before it runs
///
/// A running job is not interrupted, but it is not retried after its attempt.
#[utoipa::path(
    delete,
    path = "/v1/topics/{topic}/jobs/{id}",
    tag = "jobs",
    params(("topic" = inline(TopicText), Path), ("id" = inline(IdText), Path)),
    responses(
        (status = 200, body = ChangeResponse),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The job does not wait: it is dead or done"),
    ),
)]
pub(super) async fn cancel(
    State(server): State<ServerState>,
    JobPath { topic, id }: JobPath,
) -> Result<Json<ChangeResponse>, Problem> {
    let cancelled = server.queue.cancel(&topic, &id).await?;
    if cancelled == Cancelled::None {
        return Err(does_not_wait(&server, &topic, &id).await);
    }
    if cancelled != Cancelled::Leased {
        server.events.report(&topic, &id, EventKind::Cancelled);
    }
    Ok(response(&topic, &id, cancelled.word()))
}

/// Change the due time of a waiting job
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/jobs/{id}/reschedule",
    tag = "jobs",
    params(("topic" = inline(TopicText), Path), ("id" = inline(IdText), Path)),
    request_body = RescheduleBody,
    responses(
        (status = 200, body = ChangeResponse),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The job does not wait: it is running, dead or done"),
    ),
)]
pub(super) async fn reschedule(
    State(server): State<ServerState>,
    JobPath { topic, id }: JobPath,
    headers: HeaderMap,
    body: RequestBody,
) -> Result<Json<ChangeResponse>, Problem> {
    let RescheduleBody { delay, at } = body::json(&server, &headers, body).await?;
    if delay.is_some() == at.is_some() {
        return Err(
            Problem::bad("exactly one of in and at is required", "send one of them").of("in")
        );
    }
    let delay = delay.map(|text| duration(&text, "in")).transpose()?;
    let due = due(delay, at.as_deref(), std::time::Duration::ZERO)
        .map_err(|bad| Problem::from(bad).of("at"))?;
    let check = DueCheck::of(&server.queue, std::iter::once(due)).await?;
    check.check(due).map_err(|bad| Problem::from(bad).of("at"))?;
    change(&server, &topic, &id, due).await
}

/// Run a waiting job now
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/jobs/{id}/run-now",
    tag = "jobs",
    params(("topic" = inline(TopicText), Path), ("id" = inline(IdText), Path)),
    responses(
        (status = 200, body = ChangeResponse),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The job does not wait: it is running, dead or done"),
    ),
)]
pub(super) async fn run_now(
    State(server): State<ServerState>,
    JobPath { topic, id }: JobPath,
) -> Result<Json<ChangeResponse>, Problem> {
    change(&server, &topic, &id, Due::Now).await
}

async fn change(
    server: &ServerState,
    topic: &TopicName,
    id: &JobId,
    due: Due,
) -> Result<Json<ChangeResponse>, Problem> {
    let rescheduled = server.queue.reschedule(topic, id, due).await?;
    match rescheduled {
        Rescheduled::Leased | Rescheduled::None => Err(does_not_wait(server, topic, id).await),
        Rescheduled::BadDue => Err(Problem::bad(
            format!("Redis refused the due time of {id}; nothing was changed"),
            "compare the daemon's clock with the clock of Redis",
        )
        .of("at")),
        moved => {
            server.events.report(topic, id, EventKind::Rescheduled);
            Ok(response(topic, id, moved.word()))
        }
    }
}

fn response(topic: &TopicName, id: &JobId, result: &'static str) -> Json<ChangeResponse> {
    Json(ChangeResponse { topic: topic.to_string(), id: id.to_string(), result })
}

/// The error for a job that should wait and does not; it names the job's state.
async fn does_not_wait(server: &ServerState, topic: &TopicName, id: &JobId) -> Problem {
    if let Err(problem) = known(server, topic).await {
        return problem;
    }
    let job = match server.queue.get(topic, id).await {
        Ok(Some(job)) => job,
        Ok(None) => return unknown_job(topic, id),
        Err(error) => return error.into(),
    };
    let remedy = match job.state {
        JobState::Unack => "wait for its verdict, or cancel it",
        JobState::Dead => "requeue it: POST …/dead/{id}/requeue",
        JobState::Done | JobState::Held => "push it again with another id",
        _ => "its state has just changed: get it, and try again",
    };
    let detail = format!("job {id} of {topic} is {}; nothing was changed", job.state.shown());
    Problem::new(NOT_WAITING, detail, remedy).now(Some(&job))
}

/// The error for an unknown id.
pub(super) fn unknown_job(topic: &TopicName, id: &JobId) -> Problem {
    Problem::new(
        UNKNOWN_JOB,
        format!("no job {id} is known in {topic}"),
        "it is done and was not kept, or was never pushed",
    )
    .of("id")
}
