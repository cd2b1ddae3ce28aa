//! `GET /openapi.json`: the OpenAPI document of this API, generated from the code.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, ResponseBuilder};
use utoipa::{OpenApi as _, ToSchema};

use super::compression::Constant;
use super::problem::{MEDIA_TYPE, Problem};
use super::routes::relatives::Relative;
use crate::service::schema::{DurationText, IfExistsWord, JobOptions};
use crate::service::timeline::Moment;

/// The document without the routes.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Duebox",
        description = "Push, pull and manage background jobs. Errors are problem documents (RFC 9457) with a stable type and a remedy; see https://github.com/duebox/duebox/blob/main/docs/reference/http.md.",
    ),
    components(schemas(Problem, JobOptions, IfExistsWord, DurationText, Moment, Relative)),
    tags(
        (name = "jobs", description = "Push, inspect, reschedule and cancel jobs"),
        (name = "consumers", description = "Pull due jobs and settle them"),
        (name = "events", description = "A live stream of job events"),
        (name = "topics", description = "Job counts, handlers and control of topics"),
        (name = "dead", description = "List, requeue and purge dead jobs"),
        (name = "schedules", description = "Schedules of the manifest"),
        (name = "runners", description = "The daemons and Redis"),
        (name = "session", description = "Sessions of the page"),
        (name = "commands", description = "The command protocol: add, pop, finish and delete"),
    ),
)]
struct Document;

/// Errors that any request may return.
const ANY: [(&str, &str); 10] = [
    ("400", "The request is invalid"),
    ("401", "A valid token is required"),
    ("403", "The token does not allow this"),
    ("404", "No such topic, job, schedule or path"),
    ("405", "The path does not support the method"),
    ("406", "No response in an accepted media type"),
    ("408", "The request arrived too slowly"),
    ("431", "The headers are too large"),
    ("500", "Internal error; see the log of the daemon"),
    ("503", "Redis did not reply, or refused; or too much is in progress"),
];

/// Further errors of requests with a body.
const WITH_BODY: [(&str, &str); 2] =
    [("413", "The body is too large"), ("415", "The media type of the body is not supported")];

/// The document without the routes.
pub(super) fn document() -> OpenApi {
    let mut document = Document::openapi();
    env!("CARGO_PKG_VERSION").clone_into(&mut document.info.version);
    document.info.license = None;
    document
}

/// Adds the common errors to every operation.
pub(super) fn add_problems(document: &mut OpenApi) {
    for item in document.paths.paths.values_mut() {
        let operations =
            [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
        for operation in operations.into_iter().flatten() {
            ANY.into_iter().for_each(|(status, text)| add(operation, status, text));
            if operation.request_body.is_some() {
                WITH_BODY.into_iter().for_each(|(status, text)| add(operation, status, text));
            }
        }
    }
}

fn add(operation: &mut Operation, status: &str, description: &str) {
    let schema = Ref::from_schema_name(Problem::name());
    let content = ContentBuilder::new().schema(Some(RefOr::Ref(schema))).build();
    let response = ResponseBuilder::new().description(description).content(MEDIA_TYPE, content);
    let responses = &mut operation.responses.responses;
    responses.entry(status.to_owned()).or_insert_with(|| RefOr::T(response.build()));
}

/// The serialized document.
#[derive(Clone)]
pub(super) struct Contract(Arc<Constant>);

impl Contract {
    pub(super) fn of(document: &OpenApi) -> anyhow::Result<Self> {
        Ok(Self(Arc::new(Constant::new(serde_json::to_vec(document)?))))
    }
}

pub(super) async fn serve(State(Contract(json)): State<Contract>, headers: HeaderMap) -> Response {
    json.response(&headers, "application/json")
}
