//! `/v1/schedules`: when the schedules of the manifest fire, and a job of one now.

use axum::extract::{RawPathParams, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use duebox_queue::{IfExists, Pushed};
use serde::Serialize;
use utoipa::ToSchema;

use super::push::{Went, refusal};
use crate::auth::tokens::Scope;
use crate::http::access::{Caller, Takes};
use crate::http::problem::{Problem, UNKNOWN_SCHEDULE};
use crate::http::state::ServerState;
use crate::manifest::{Manifest, nearest};
use crate::schedule::Schedule;
use crate::service::timetable::{Timetable, push_now};

/// The job that was pushed.
#[derive(Serialize, ToSchema)]
pub(super) struct RunAnswer {
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
/// With a token, those whose topics it covers.
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
    let mut table = Timetable::look(&server.queue, &manifest).await?;
    let seen = |schedule: &&Schedule| caller.sees(&schedule.topic);
    let names: Vec<&str> =
        manifest.schedules.iter().filter(seen).map(|schedule| schedule.name.as_str()).collect();
    table.schedules.retain(|entry| names.contains(&entry.name));
    Ok(Json(table).into_response())
}

/// Push a job of a schedule now
///
/// It counts as no tick: the next run stays when it is.
#[utoipa::path(
    post,
    path = "/v1/schedules/{name}/run",
    tag = "schedules",
    params(("name" = String, Path, description = "The schedule's name")),
    responses(
        (status = 201, body = RunAnswer),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "A job of this very millisecond is there"),
        (status = 429, body = Problem, content_type = "application/problem+json", description = "As many jobs wait as the topic allows"),
    ),
)]
pub(super) async fn run(
    State(server): State<ServerState>,
    Extension(caller): Extension<Caller>,
    params: RawPathParams,
) -> Result<(StatusCode, Json<RunAnswer>), Problem> {
    let name = params.iter().find(|(found, _)| *found == "name").map_or("", |(_, value)| value);
    let manifest = server.manifest();
    let schedule = manifest.schedules.iter().find(|schedule| schedule.name == name);
    let schedule = schedule.ok_or_else(|| unknown(&manifest, name))?;
    caller.check(Takes::One(Scope::Admin), Some(&schedule.topic))?;
    let (id, pushed) = push_now(&server.queue, schedule).await?;
    if Went::of(pushed, IfExists::Reject) != Went::Stored {
        return Err(refusal(pushed, &schedule.topic, &id.to_string()));
    }
    let answer = RunAnswer {
        schedule: name.to_owned(),
        topic: schedule.topic.to_string(),
        id: id.to_string(),
        result: Pushed::Pushed.word(),
    };
    Ok((StatusCode::CREATED, Json(answer)))
}

fn unknown(manifest: &Manifest, name: &str) -> Problem {
    let known = manifest.schedules.iter().map(|schedule| schedule.name.as_str());
    let remedy = match nearest(name, known) {
        Some(like) => format!("did you mean {like}?"),
        None => "GET /v1/schedules lists those there are".to_owned(),
    };
    let detail = format!("there is no schedule {name} in the manifest");
    Problem::new(UNKNOWN_SCHEDULE, detail, remedy).of("name")
}
