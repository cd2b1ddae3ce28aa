//! `/v1/schedules`: lists the schedules of the manifest, and pushes a job of one now.

use axum::extract::{RawPathParams, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use duebox_queue::{IfExists, Pushed};
use serde::Serialize;
use utoipa::ToSchema;

use super::push::{PushOutcome, refusal};
use crate::auth::tokens::Scope;
use crate::http::access::{Caller, RequiredScope};
use crate::http::problem::{Problem, UNKNOWN_SCHEDULE};
use crate::http::state::ServerState;
use crate::manifest::{Manifest, nearest};
use crate::schedule::Schedule;
use crate::service::timetable::{Timetable, push_now};

/// The pushed job.
#[derive(Serialize, ToSchema)]
pub(super) struct RunResponse {
    /// The schedule.
    schedule: String,
    /// The topic that the job was pushed to.
    topic: String,
    /// The job's id.
    id: String,
    /// `pushed`.
    result: &'static str,
}

/// List the schedules of the manifest
///
/// With a token, only schedules whose topics it covers.
#[utoipa::path(
    get,
    path = "/v1/schedules",
    tag = "schedules",
    responses((status = 200, body = Timetable)),
)]
pub(super) async fn list(
    State(server): State<ServerState>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    let manifest = server.manifest();
    let mut table = Timetable::read(&server.queue, &manifest).await?;
    let seen = |schedule: &&Schedule| caller.sees(&schedule.topic);
    let names: Vec<&str> =
        manifest.schedules.iter().filter(seen).map(|schedule| schedule.name.as_str()).collect();
    table.schedules.retain(|entry| names.contains(&entry.name));
    Ok(Json(table).into_response())
}

/// Push a job of a schedule now
///
/// It does not count as a tick: the next run does not change.
#[utoipa::path(
    post,
    path = "/v1/schedules/{name}/run",
    tag = "schedules",
    params(("name" = String, Path, description = "The schedule's name")),
    responses(
        (status = 201, body = RunResponse),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "A job with the id of this millisecond exists"),
        (status = 429, body = Problem, content_type = "application/problem+json", description = "The topic has max_pending waiting jobs"),
    ),
)]
pub(super) async fn run(
    State(server): State<ServerState>,
    Extension(caller): Extension<Caller>,
    params: RawPathParams,
) -> Result<(StatusCode, Json<RunResponse>), Problem> {
    let name = params.iter().find(|(found, _)| *found == "name").map_or("", |(_, value)| value);
    let manifest = server.manifest();
    let schedule = manifest.schedules.iter().find(|schedule| schedule.name == name);
    let schedule = schedule.ok_or_else(|| unknown(&manifest, name))?;
    caller.check(RequiredScope::One(Scope::Admin), Some(&schedule.topic))?;
    let (id, pushed) = push_now(&server.queue, schedule).await?;
    if PushOutcome::of(pushed, IfExists::Reject) != PushOutcome::Stored {
        return Err(refusal(pushed, &schedule.topic, &id.to_string()));
    }
    let response = RunResponse {
        schedule: name.to_owned(),
        topic: schedule.topic.to_string(),
        id: id.to_string(),
        result: Pushed::Pushed.word(),
    };
    Ok((StatusCode::CREATED, Json(response)))
}

fn unknown(manifest: &Manifest, name: &str) -> Problem {
    let known = manifest.schedules.iter().map(|schedule| schedule.name.as_str());
    let remedy = match nearest(name, known) {
        Some(like) => format!("did you mean {like}?"),
        None => "GET /v1/schedules lists the schedules".to_owned(),
    };
    let detail = format!("the manifest has no schedule {name}");
    Problem::new(UNKNOWN_SCHEDULE, detail, remedy).of("name")
}
