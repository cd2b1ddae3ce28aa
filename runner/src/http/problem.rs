//! Errors as HTTP says them: `application/problem+json` (RFC 9457), with a stable type, the field that is
//! at fault and the remedy.
//!
//! A handler answers a [`Problem`]; it is written out at the very end (`exchange.rs`), where the request's
//! id is known. Whatever else ends in an error without a body becomes a problem there too.

use std::borrow::Cow;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use duebox_queue::{Job, QueueError};
use serde::Serialize;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::service::value::BadValue;

/// The media type of a problem.
pub(super) const MEDIA_TYPE: &str = "application/problem+json";

/// What kind of problem it is: stable, and documented in docs/reference/http.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) slug: &'static str,
    pub(super) status: StatusCode,
    pub(super) title: &'static str,
}

const fn kind(slug: &'static str, status: StatusCode, title: &'static str) -> Kind {
    Kind { slug, status, title }
}

pub(super) const BAD_REQUEST: Kind =
    kind("bad-request", StatusCode::BAD_REQUEST, "the request makes no sense");
pub(super) const UNKNOWN_TOPIC: Kind =
    kind("unknown-topic", StatusCode::NOT_FOUND, "there is no such topic");
pub(super) const UNKNOWN_JOB: Kind =
    kind("unknown-job", StatusCode::NOT_FOUND, "there is no such job");
pub(super) const UNKNOWN_PATH: Kind =
    kind("unknown-path", StatusCode::NOT_FOUND, "there is nothing under this path");
pub(super) const METHOD: Kind =
    kind("method", StatusCode::METHOD_NOT_ALLOWED, "this path has no such method");
pub(super) const TOO_SLOW: Kind =
    kind("too-slow", StatusCode::REQUEST_TIMEOUT, "the request came too slowly");
pub(super) const EXISTS: Kind = kind("exists", StatusCode::CONFLICT, "a job with that id is alive");
pub(super) const HELD: Kind =
    kind("held", StatusCode::CONFLICT, "a job with that id is done, and its id is held");
pub(super) const LOST: Kind = kind("lost", StatusCode::CONFLICT, "the lease is lost");
pub(super) const NOT_WAITING: Kind =
    kind("not-waiting", StatusCode::CONFLICT, "the job does not wait");
pub(super) const NOT_DEAD: Kind = kind("not-dead", StatusCode::CONFLICT, "the job is not dead");
pub(super) const NOT_FOLLOWED: Kind =
    kind("not-followed", StatusCode::CONFLICT, "the order was not followed everywhere");
pub(super) const UNKNOWN_SCHEDULE: Kind =
    kind("unknown-schedule", StatusCode::NOT_FOUND, "there is no such schedule");
pub(super) const UNAUTHORIZED: Kind =
    kind("unauthorized", StatusCode::UNAUTHORIZED, "a token is needed");
pub(super) const FORBIDDEN: Kind =
    kind("forbidden", StatusCode::FORBIDDEN, "the token does not allow this");
pub(super) const FOREIGN: Kind =
    kind("foreign-origin", StatusCode::FORBIDDEN, "the request comes from another site");
pub(super) const TOO_LARGE: Kind =
    kind("too-large", StatusCode::PAYLOAD_TOO_LARGE, "the body is too large");
pub(super) const MEDIA: Kind =
    kind("media-type", StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body has a type that is not taken");
pub(super) const FULL: Kind =
    kind("full", StatusCode::TOO_MANY_REQUESTS, "as many jobs wait as the topic allows");
pub(super) const NOT_ACCEPTABLE: Kind = kind(
    "not-acceptable",
    StatusCode::NOT_ACCEPTABLE,
    "there is no answer in a form that is accepted",
);
pub(super) const EVENTS_OFF: Kind = kind("events-off", StatusCode::CONFLICT, "events are not kept");
pub(super) const READERS_FULL: Kind =
    kind("readers", StatusCode::TOO_MANY_REQUESTS, "as many read events as may");
pub(super) const HEADERS: Kind = kind(
    "headers-too-large",
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    "the headers are too large",
);
pub(super) const INTERNAL: Kind =
    kind("internal", StatusCode::INTERNAL_SERVER_ERROR, "Duebox failed");
pub(super) const REDIS: Kind =
    kind("redis", StatusCode::SERVICE_UNAVAILABLE, "Redis did not do it");

/// An error, for programs and for people. It is carried by many results, so it takes no room in them.
#[derive(Debug, Clone)]
pub(super) struct Problem(Box<Document>);

/// An error as it is written out.
#[derive(Debug, Clone, Serialize, ToSchema)]
struct Document {
    /// Which kind it is: a stable reference, such as `/problems/unknown-topic`.
    #[serde(rename = "type")]
    #[schema(example = "/problems/unknown-topic")]
    kind: String,
    /// What the kind means.
    title: &'static str,
    /// The status of the answer.
    status: u16,
    /// What failed, on what.
    detail: String,
    /// The field, parameter or header that is at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// What to do about it.
    remedy: String,
    /// What the job is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    /// Who has the job now.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<Holder>,
    /// The id of the request, as in the header `x-request-id` and in the log.
    request_id: String,
    /// Seconds until it is worth trying again.
    #[serde(skip)]
    retry_after_s: Option<u64>,
}

/// Who has a job.
#[derive(Debug, Clone, Serialize, ToSchema)]
struct Holder {
    /// Its name, if it is known.
    holder: Option<String>,
    /// Until when, unix ms.
    expires_at_ms: u64,
}

impl PartialSchema for Problem {
    fn schema() -> RefOr<Schema> {
        Document::schema()
    }
}

impl ToSchema for Problem {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Problem")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Document::schemas(schemas);
    }
}

impl Problem {
    pub(super) fn new(kind: Kind, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self(Box::new(Document {
            kind: format!("/problems/{}", kind.slug),
            title: kind.title,
            status: kind.status.as_u16(),
            detail: detail.into(),
            field: None,
            remedy: remedy.into(),
            state: None,
            lease: None,
            request_id: String::new(),
            retry_after_s: None,
        }))
    }

    /// The request makes no sense.
    pub(super) fn bad(detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(BAD_REQUEST, detail, remedy)
    }

    /// The same, of one field.
    #[must_use]
    pub(super) fn of(mut self, field: impl Into<String>) -> Self {
        self.0.field = Some(field.into());
        self
    }

    /// With what the job is now, and who has it.
    #[must_use]
    pub(super) fn now(mut self, job: Option<&Job>) -> Self {
        let lease = job.and_then(|job| job.lease.as_ref());
        self.0.lease = lease.map(|lease| Holder {
            holder: lease.holder.clone(),
            expires_at_ms: lease.expires_at_ms,
        });
        self.0.state = job.map(|job| job.state.word());
        self
    }

    /// It may go better after a while.
    #[must_use]
    pub(super) fn retry_after(mut self, seconds: u64) -> Self {
        self.0.retry_after_s = Some(seconds);
        self
    }

    /// What a library answered with a status alone.
    pub(super) fn of_status(status: StatusCode) -> Self {
        let (kind, detail, remedy) = match status {
            StatusCode::NOT_FOUND => {
                (UNKNOWN_PATH, "nothing is served under this path", "see /openapi.json")
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                (METHOD, "the path is there, but not for this method", "see the header Allow")
            }
            StatusCode::UNSUPPORTED_MEDIA_TYPE => (
                MEDIA,
                "the body is packed in a way that is not taken",
                "send it as it is, or with Content-Encoding: gzip",
            ),
            StatusCode::PAYLOAD_TOO_LARGE => {
                (TOO_LARGE, "the body is longer than server.max_body", "send less at a time")
            }
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
                (HEADERS, "the headers are longer than 64 KiB", "send fewer of them")
            }
            status if status.is_client_error() => {
                (BAD_REQUEST, "the request cannot be read", "see /openapi.json")
            }
            _ => (INTERNAL, "the request was not carried out", "look into the log of the daemon"),
        };
        let mut problem = Self::new(kind, detail, remedy);
        problem.0.status = status.as_u16();
        problem
    }

    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// What it says, for the log.
    pub(super) fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Writes it into an answer, whose headers stay.
    pub(super) fn write(mut self, answer: Response, request_id: &str) -> Response {
        request_id.clone_into(&mut self.0.request_id);
        let status = self.status();
        let (mut parts, _) = answer.into_parts();
        parts.status = status;
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(seconds) = self.0.retry_after_s {
            parts.headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        // Texts and numbers: there is nothing in it that JSON could not hold.
        let body = serde_json::to_vec(&self.0).unwrap_or_default();
        Response::from_parts(parts, body.into())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut answer = self.status().into_response();
        answer.extensions_mut().insert(self);
        answer
    }
}

impl From<BadValue> for Problem {
    fn from(BadValue { message, hint }: BadValue) -> Self {
        Self::bad(message, hint)
    }
}

impl From<QueueError> for Problem {
    fn from(error: QueueError) -> Self {
        let text = error.to_string();
        match error {
            QueueError::BadCall(_) | QueueError::Answer(_) => Self::new(
                INTERNAL,
                text,
                "look into the log of the daemon; all runners should have the same version",
            ),
            QueueError::NoAnswer(_) => {
                let remedy = "whether it was carried out is not known: try again, with an id or an \
                              Idempotency-Key";
                Self::new(REDIS, text, remedy).retry_after(1)
            }
            _ => Self::new(REDIS, text, "look into the log of Redis").retry_after(5),
        }
    }
}
