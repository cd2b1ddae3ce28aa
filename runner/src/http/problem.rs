//! Errors of the API: `application/problem+json` (RFC 9457), with a stable type, the invalid field
//! and the remedy.
//!
//! A handler returns a [`Problem`]; `exchange.rs` writes it out, where the request id is known.
//! Other errors without a body become problems there too.

use std::borrow::Cow;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use duebox_queue::{Job, QueueError};
use serde::Serialize;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::service::value::BadValue;
use crate::service::written_job::InvalidJob;

/// The media type of a problem.
pub(super) const MEDIA_TYPE: &str = "application/problem+json";

/// The type of a problem: stable, and documented in docs/reference/http.md.
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
    kind("bad-request", StatusCode::BAD_REQUEST, "the request is invalid");
pub(super) const UNKNOWN_TOPIC: Kind =
    kind("unknown-topic", StatusCode::NOT_FOUND, "no such topic");
pub(super) const UNKNOWN_JOB: Kind = kind("unknown-job", StatusCode::NOT_FOUND, "no such job");
pub(super) const UNKNOWN_PATH: Kind = kind("unknown-path", StatusCode::NOT_FOUND, "no such path");
pub(super) const METHOD: Kind =
    kind("method", StatusCode::METHOD_NOT_ALLOWED, "the path does not support the method");
pub(super) const TOO_SLOW: Kind =
    kind("too-slow", StatusCode::REQUEST_TIMEOUT, "the request arrived too slowly");
pub(super) const EXISTS: Kind = kind("exists", StatusCode::CONFLICT, "a live job has that id");
pub(super) const HELD: Kind =
    kind("held", StatusCode::CONFLICT, "a job with that id is done, and its id is reserved");
pub(super) const LOST: Kind = kind("lost", StatusCode::CONFLICT, "the lease is lost");
pub(super) const NOT_WAITING: Kind =
    kind("not-waiting", StatusCode::CONFLICT, "the job does not wait");
pub(super) const NOT_DEAD: Kind = kind("not-dead", StatusCode::CONFLICT, "the job is not dead");
pub(super) const NOT_FOLLOWED: Kind =
    kind("not-followed", StatusCode::CONFLICT, "not every daemon carried out the command");
pub(super) const UNKNOWN_SCHEDULE: Kind =
    kind("unknown-schedule", StatusCode::NOT_FOUND, "no such schedule");
pub(super) const UNAUTHORIZED: Kind =
    kind("unauthorized", StatusCode::UNAUTHORIZED, "a valid token is required");
pub(super) const FORBIDDEN: Kind =
    kind("forbidden", StatusCode::FORBIDDEN, "the token does not allow this");
pub(super) const FOREIGN: Kind =
    kind("foreign-origin", StatusCode::FORBIDDEN, "the request comes from another site");
pub(super) const TOO_LARGE: Kind =
    kind("too-large", StatusCode::PAYLOAD_TOO_LARGE, "the body is too large");
pub(super) const MEDIA: Kind = kind(
    "media-type",
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    "the media type of the body is not supported",
);
pub(super) const FULL: Kind =
    kind("full", StatusCode::TOO_MANY_REQUESTS, "the topic has max_pending waiting jobs");
pub(super) const NOT_ACCEPTABLE: Kind =
    kind("not-acceptable", StatusCode::NOT_ACCEPTABLE, "no response in an accepted media type");
pub(super) const EVENTS_OFF: Kind = kind("events-off", StatusCode::CONFLICT, "events are not kept");
pub(super) const READERS_FULL: Kind =
    kind("readers", StatusCode::TOO_MANY_REQUESTS, "too many event readers");
pub(super) const HEADERS: Kind = kind(
    "headers-too-large",
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    "the headers are too large",
);
pub(super) const INTERNAL: Kind =
    kind("internal", StatusCode::INTERNAL_SERVER_ERROR, "internal error");
pub(super) const BUSY: Kind =
    kind("busy", StatusCode::SERVICE_UNAVAILABLE, "the server has too much in progress");
pub(super) const REDIS: Kind = kind("redis", StatusCode::SERVICE_UNAVAILABLE, "Redis failed");

pub(super) const UNCONFIRMED: Kind = kind(
    "unconfirmed",
    StatusCode::SERVICE_UNAVAILABLE,
    "the jobs are stored, but not as redis.durability demands",
);

/// An error for programs and people. Boxed, because many results carry it.
#[derive(Debug, Clone)]
pub(super) struct Problem(Box<Document>);

/// The JSON form of a problem.
#[derive(Debug, Clone, Serialize, ToSchema)]
struct Document {
    /// The type: a stable reference, such as `/problems/unknown-topic`.
    #[serde(rename = "type")]
    #[schema(example = "/problems/unknown-topic")]
    kind: String,
    /// The meaning of the type.
    title: &'static str,
    /// The status of the response.
    status: u16,
    /// What failed, on what.
    detail: String,
    /// The invalid field, parameter or header.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// The remedy.
    remedy: String,
    /// The current state of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    /// The current lease of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<Holder>,
    /// The request id, as in the header `x-request-id` and in the log.
    request_id: String,
    /// Seconds until a retry makes sense.
    #[serde(skip)]
    retry_after_s: Option<u64>,
}

/// The holder of a job.
#[derive(Debug, Clone, Serialize, ToSchema)]
struct Holder {
    /// Name of the holder, if known.
    holder: Option<String>,
    /// When the lease expires, unix ms.
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

    /// An invalid request.
    pub(super) fn bad(detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(BAD_REQUEST, detail, remedy)
    }

    /// Sets the invalid field.
    #[must_use]
    pub(super) fn of(mut self, field: impl Into<String>) -> Self {
        self.0.field = Some(field.into());
        self
    }

    /// Adds the current state and lease of the job.
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

    /// Sets the `Retry-After` header.
    #[must_use]
    pub(super) fn retry_after(mut self, seconds: u64) -> Self {
        self.0.retry_after_s = Some(seconds);
        self
    }

    /// The problem for a response in which a library set only a status.
    pub(super) fn of_status(status: StatusCode) -> Self {
        let (kind, detail, remedy) = match status {
            StatusCode::NOT_FOUND => (UNKNOWN_PATH, "the path does not exist", "see /openapi.json"),
            StatusCode::METHOD_NOT_ALLOWED => (
                METHOD,
                "the path exists, but does not support this method",
                "see the header Allow",
            ),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => (
                MEDIA,
                "the Content-Encoding of the body is not supported",
                "send it uncompressed, or with Content-Encoding: gzip",
            ),
            StatusCode::PAYLOAD_TOO_LARGE => {
                (TOO_LARGE, "the body is longer than server.max_body", "send several requests")
            }
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
                (HEADERS, "the headers are longer than 64 KiB", "send fewer headers")
            }
            status if status.is_client_error() => {
                (BAD_REQUEST, "the request is invalid", "see /openapi.json")
            }
            _ => (INTERNAL, "the request failed", "check the log of the daemon"),
        };
        let mut problem = Self::new(kind, detail, remedy);
        problem.0.status = status.as_u16();
        problem
    }

    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// True if the client has to send less at a time.
    pub(super) fn is_busy(&self) -> bool {
        self.0.title == BUSY.title
    }

    /// The detail, for the log.
    pub(super) fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Writes the problem into a response and keeps the response's headers.
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
        // Texts and numbers: serialization to JSON cannot fail.
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

impl From<InvalidJob> for Problem {
    fn from(invalid: InvalidJob) -> Self {
        let problem = Self::bad(invalid.why, "see the schema of a job in /openapi.json");
        match invalid.field {
            Some(field) => problem.of(field),
            None => problem,
        }
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
            QueueError::BadCall(_) | QueueError::BadReply(_) => Self::new(
                INTERNAL,
                text,
                "check the log of the daemon, and run the same version everywhere",
            ),
            QueueError::NoReply(_) => {
                let remedy = "the command may have been carried out: retry with an id or an \
                              Idempotency-Key";
                Self::new(REDIS, text, remedy).retry_after(1)
            }
            QueueError::Unconfirmed(_) => {
                let remedy = "send the request again with the same ids or Idempotency-Key: nothing \
                              is stored twice, and an answer other than this one confirms the jobs";
                Self::new(UNCONFIRMED, text, remedy).retry_after(1)
            }
            QueueError::BadData(_) => {
                Self::new(REDIS, text, "find and repair it with: duebox doctor").retry_after(5)
            }
            _ => Self::new(REDIS, text, "check the log of Redis").retry_after(5),
        }
    }
}

#[cfg(test)]
mod tests {
    /// The types of problems in this file, each with the name of its status.
    fn kinds() -> Vec<(&'static str, axum::http::StatusCode)> {
        let source = include_str!("problem.rs").split("#[cfg(test)]").next().unwrap();
        let calls = source.split("kind(").filter_map(|rest| rest.trim_start().strip_prefix('"'));
        let read = |call: &'static str| {
            let (slug, rest) = call.split_once('"').unwrap();
            let (_, rest) = rest.split_once("StatusCode::").unwrap();
            let name = rest.split(',').next().unwrap().to_lowercase().replace('_', " ");
            let codes = (400..600).filter_map(|code| axum::http::StatusCode::from_u16(code).ok());
            let is_named = |code: &axum::http::StatusCode| {
                code.canonical_reason().is_some_and(|reason| reason.to_lowercase() == name)
            };
            (slug, codes.into_iter().find(is_named).expect(slug))
        };
        calls.map(read).collect()
    }

    #[test]
    fn the_reference_lists_each_problem_with_its_status() {
        let page = include_str!("../../../docs/reference/http.md");
        let (_, part) = page.split_once("\n## Errors\n").unwrap();
        let rows: Vec<Vec<&str>> = part
            .lines()
            .filter(|line| line.starts_with("| `/problems/"))
            .map(|line| line.split('|').map(str::trim).collect())
            .collect();
        let listed = |slug: &str| {
            rows.iter().find_map(|cells| {
                let names: Vec<&str> = cells[1].split(", ").collect();
                let name =
                    |name: &str| name.trim_matches('`').trim_start_matches("/problems/").to_owned();
                let place = names.iter().position(|text| name(text) == slug)?;
                let statuses: Vec<&str> = cells[2].split(", ").collect();
                Some(if statuses.len() == 1 { statuses[0] } else { statuses[place] })
            })
        };
        let kinds = kinds();
        assert!(kinds.len() > 25, "{kinds:?}");
        for (slug, status) in &kinds {
            assert_eq!(listed(slug), Some(status.as_str()), "docs/reference/http.md, {slug}");
        }
        let rows: usize = rows.iter().map(|cells| cells[1].split(", ").count()).sum();
        assert_eq!(rows, kinds.len(), "docs/reference/http.md lists a problem that there is not");
    }
}
