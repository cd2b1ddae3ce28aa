//! `GET /openapi.json`: what this API is, written from the code that serves it.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, ResponseBuilder};
use utoipa::{OpenApi as _, ToSchema};

use super::problem::{MEDIA_TYPE, Problem};
use crate::service::schema::{DurationText, IfExistsWord, JobOptions};

/// The document, before the routes are added.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Duebox",
        description = "Background jobs at the right moment: push them, pull them, look after them. Errors are problems (RFC 9457) with a stable type and a remedy; see docs/reference/http.md.",
    ),
    components(schemas(Problem, JobOptions, IfExistsWord, DurationText)),
    tags(
        (name = "jobs", description = "Push jobs, look at them, take them back"),
        (name = "consumers", description = "Take jobs that are due, and say what came of each"),
        (name = "events", description = "What becomes of jobs, while it happens"),
        (name = "topics", description = "Depths, handlers, and what holds for a topic"),
        (name = "dead", description = "Dead jobs: look at them, give them another life, forget them"),
        (name = "schedules", description = "Jobs that the manifest asks for at fixed times"),
        (name = "session", description = "Sessions of the page, from a token"),
        (name = "commands", description = "The protocol of add, pop, finish and delete"),
    ),
)]
struct Document;

/// What any request may be answered with, and what it means there.
const ANY: [(&str, &str); 10] = [
    ("400", "The request makes no sense"),
    ("401", "A token is needed, and this is none"),
    ("403", "The token does not allow this"),
    ("404", "There is no such topic, job, schedule or path"),
    ("405", "The path has no such method"),
    ("406", "The answer has no form that is accepted"),
    ("408", "The request came too slowly"),
    ("431", "The headers are too large"),
    ("500", "Duebox failed; its log says how"),
    ("503", "Redis gave no answer, or refused"),
];

/// What a request with a body may be answered with, too.
const WITH_BODY: [(&str, &str); 2] =
    [("413", "The body is too large"), ("415", "The body has a type that is not taken")];

/// The document before its routes.
pub(super) fn document() -> OpenApi {
    let mut document = Document::openapi();
    env!("CARGO_PKG_VERSION").clone_into(&mut document.info.version);
    document.info.license = None;
    document
}

/// Adds to every operation the problems that any may end in.
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

/// The document as it is served.
#[derive(Clone)]
pub(super) struct Served(Bytes);

impl Served {
    pub(super) fn of(document: &OpenApi) -> anyhow::Result<Self> {
        Ok(Self(Bytes::from(serde_json::to_vec(document)?)))
    }
}

pub(super) async fn serve(State(Served(json)): State<Served>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}
