//! `/v1/topics/{topic}/jobs/{id}`: looking at one job, taking it back, and changing when it runs.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use duebox_job::{JobId, TopicName};
use duebox_queue::{Cancelled, Due, Job, JobState, Rescheduled};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::leases::duration;
use crate::http::body;
use crate::http::path::JobPath;
use crate::http::problem::{NOT_WAITING, Problem, UNKNOWN_JOB};
use crate::http::state::{ServerState, known};
use crate::service::due::due;
use crate::service::schema::{DurationText, IdText, ShownJob, TopicText};

/// A job as JSON has it.
#[derive(Serialize)]
pub(super) struct JobAnswer {
    topic: String,
    #[serde(flatten)]
    job: Job,
}

impl JobAnswer {
    pub(super) fn new(topic: &TopicName, job: Job) -> Self {
        Self { topic: topic.to_string(), job }
    }
}

/// What became of a job.
#[derive(Serialize, ToSchema)]
pub(super) struct ChangeAnswer {
    /// The topic.
    topic: String,
    /// The job's id.
    id: String,
    /// What became of it: `cancelled`, or `leased` if it runs and will not be tried again; where it waits
    /// now: `pending`, `ready`, `retry`, `blocked`.
    result: &'static str,
}

/// When the job is to run: one of the two.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct When {
    /// How long from now.
    #[serde(rename = "in")]
    #[schema(value_type = Option<DurationText>)]
    delay: Option<String>,
    /// When: RFC 3339 with a zone or an offset, or unix ms as text.
    at: Option<String>,
}

/// Look at a job
///
/// Whatever state it is in: its due time, payload and options, attempts and last error, who has it and
/// until when, what it died of or what came out of it.
#[utoipa::path(
    get,
    path = "/v1/topics/{topic}/jobs/{id}",
    tag = "jobs",
    params(("topic" = inline(TopicText), Path), ("id" = inline(IdText), Path)),
    responses((status = 200, body = ShownJob)),
)]
pub(super) async fn get(
    State(server): State<ServerState>,
    JobPath { topic, id }: JobPath,
) -> Result<Json<JobAnswer>, Problem> {
    let job = server.queue.get(&topic, &id).await?;
    let job = job.ok_or_else(|| unknown_job(&topic, &id))?;
    Ok(Json(JobAnswer::new(&topic, job)))
}

/// Cancel a job before it runs
///
/// One that runs right now cannot be stopped, but its verdict will not be retried.
#[utoipa::path(
    delete,
    path = "/v1/topics/{topic}/jobs/{id}",
    tag = "jobs",
    params(("topic" = inline(TopicText), Path), ("id" = inline(IdText), Path)),
    responses(
        (status = 200, body = ChangeAnswer),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "It does not wait: it is dead or done"),
    ),
)]
pub(super) async fn cancel(
    State(server): State<ServerState>,
    JobPath { topic, id }: JobPath,
) -> Result<Json<ChangeAnswer>, Problem> {
    let cancelled = server.queue.cancel(&topic, &id).await?;
    if cancelled == Cancelled::None {
        return Err(does_not_wait(&server, &topic, &id).await);
    }
    if cancelled != Cancelled::Leased {
        server.events.happened(&topic, &id, "cancelled");
    }
    Ok(answer(&topic, &id, cancelled.word()))
}

/// Change when a waiting job runs
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/jobs/{id}/reschedule",
    tag = "jobs",
    params(("topic" = inline(TopicText), Path), ("id" = inline(IdText), Path)),
    request_body = When,
    responses(
        (status = 200, body = ChangeAnswer),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "It does not wait: it runs, or is dead or done"),
    ),
)]
pub(super) async fn reschedule(
    State(server): State<ServerState>,
    JobPath { topic, id }: JobPath,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ChangeAnswer>, Problem> {
    let When { delay, at } = body::json(&server, &headers, body).await?;
    if delay.is_some() == at.is_some() {
        return Err(Problem::bad("one of in and at says when", "send one of them").of("in"));
    }
    let delay = delay.map(|text| duration(&text, "in")).transpose()?;
    let due = due(delay, at.as_deref(), std::time::Duration::ZERO, Timestamp::now())
        .map_err(|bad| Problem::from(bad).of("at"))?;
    change(&server, &topic, &id, due).await
}

/// Run a waiting job now
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/jobs/{id}/run-now",
    tag = "jobs",
    params(("topic" = inline(TopicText), Path), ("id" = inline(IdText), Path)),
    responses(
        (status = 200, body = ChangeAnswer),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "It does not wait: it runs, or is dead or done"),
    ),
)]
pub(super) async fn run_now(
    State(server): State<ServerState>,
    JobPath { topic, id }: JobPath,
) -> Result<Json<ChangeAnswer>, Problem> {
    change(&server, &topic, &id, Due::Now).await
}

async fn change(
    server: &ServerState,
    topic: &TopicName,
    id: &JobId,
    due: Due,
) -> Result<Json<ChangeAnswer>, Problem> {
    let rescheduled = server.queue.reschedule(topic, id, due).await?;
    match rescheduled {
        Rescheduled::Leased | Rescheduled::None => Err(does_not_wait(server, topic, id).await),
        Rescheduled::BadDue => Err(Problem::bad(
            format!("Redis refused the due time of {id}; nothing has changed"),
            "compare the clock of the daemon with that of Redis",
        )
        .of("at")),
        moved => {
            server.events.happened(topic, id, "rescheduled");
            Ok(answer(topic, id, moved.word()))
        }
    }
}

fn answer(topic: &TopicName, id: &JobId, result: &'static str) -> Json<ChangeAnswer> {
    Json(ChangeAnswer { topic: topic.to_string(), id: id.to_string(), result })
}

/// A job that should wait and does not: what it is instead.
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
        JobState::Dead => "give it another life: POST …/dead/{id}/requeue",
        JobState::Done | JobState::Held => "push it anew, under another id",
        _ => "it has just changed: look at it, and try again",
    };
    let detail = format!("the job {id} of {topic} is {}; nothing has changed", job.state.word());
    Problem::new(NOT_WAITING, detail, remedy).now(Some(&job))
}

/// Nothing is known of an id.
pub(super) fn unknown_job(topic: &TopicName, id: &JobId) -> Problem {
    Problem::new(
        UNKNOWN_JOB,
        format!("nothing is known of a job {id} in {topic}"),
        "it is done and forgotten, or was never pushed",
    )
    .of("id")
}
