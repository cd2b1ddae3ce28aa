//! Settle a leased job, or extend its lease: `…/jobs/{id}/ack`, `nack`, `drop`, `release`,
//! `extend`. The lease's token fences each of them: a stale token changes nothing, and the error
//! names the current holder.

use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::{Extension, Json};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use duebox_job::{JobId, TopicName};
use duebox_queue::{Job, Token};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::leases::{duration, pull_problem};
use crate::http::access::Caller;
use crate::http::body::{self, RequestBody};
use crate::http::connection::Peer;
use crate::http::path::JobPath;
use crate::http::problem::{LOST, Problem};
use crate::http::state::{ServerState, settings};
use crate::service::leased_job::token_text;
use crate::service::pull_consumer::{Consumer, ConsumerVerdict, InvalidVerdict, SettleResponse};
use crate::service::schema::{DurationText, IdText, TopicText};

/// The job is done.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ack {
    /// The lease's token.
    token: String,
    /// The result, if its topic keeps done jobs: a text, at most 64 KiB.
    result: Option<String>,
    /// The result in base64, for bytes that are not text.
    result_base64: Option<String>,
}

/// The job failed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nack {
    /// The lease's token.
    token: String,
    /// Delay before the next attempt; default: the backoff of the job or its topic.
    #[serde(rename = "in")]
    #[schema(value_type = Option<DurationText>)]
    delay: Option<String>,
    /// The reason, for people.
    reason: Option<String>,
}

/// The job can never succeed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DropJob {
    /// The lease's token.
    token: String,
    /// The reason, for people.
    reason: Option<String>,
}

/// The job was not tried.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Release {
    /// The lease's token.
    token: String,
    /// Delay before it is ready again; default: none.
    #[serde(rename = "in")]
    #[schema(value_type = Option<DurationText>)]
    delay: Option<String>,
}

/// The job takes longer.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Extend {
    /// The lease's token.
    token: String,
    /// How much to add to the lease, 1ms to 24h.
    #[schema(value_type = DurationText)]
    by: String,
    /// The consumer's name; default: the token's name or the client's address.
    consumer: Option<String>,
}

/// The result of a settle.
#[derive(Serialize, ToSchema)]
pub(super) struct SettleResult {
    /// The topic.
    topic: String,
    /// The job's id.
    id: String,
    /// `done`, `retry`, `dead`, `discarded`, `released`; `superseded` if a newer push of the id
    /// replaces it; `cancelled` if it was cancelled while leased.
    result: &'static str,
}

/// The extended lease.
#[derive(Serialize, ToSchema)]
pub(super) struct ExtendResult {
    /// The topic.
    topic: String,
    /// The job's id.
    id: String,
    /// `extended`.
    result: &'static str,
    /// The new token; the old one is invalid.
    token: String,
    /// When the lease expires, unix ms.
    lease_expires_at_ms: u64,
}

macro_rules! verdict {
    ($name:ident, $path:literal, $body:ty, $summary:literal, $read:expr) => {
        #[doc = $summary]
        #[utoipa::path(
            post,
            path = $path,
            tag = "consumers",
            params(("topic" = inline(TopicText), Path), ("id" = inline(IdText), Path)),
            request_body = $body,
            responses(
                (status = 200, body = SettleResult),
                (status = 409, body = Problem, content_type = "application/problem+json", description = "The lease is lost; the problem names the current holder"),
            ),
        )]
        pub(super) async fn $name(
            State(server): State<ServerState>,
            path: JobPath,
            headers: HeaderMap,
            body: RequestBody,
        ) -> Result<Json<SettleResult>, Problem> {
            let request: $body = body::json(&server, &headers, body).await?;
            let read: fn($body) -> Result<(String, ConsumerVerdict), Problem> = $read;
            let (token, verdict) = read(request)?;
            settle(&server, path, &token, verdict).await
        }
    };
}

verdict!(
    ack,
    "/v1/topics/{topic}/jobs/{id}/ack",
    Ack,
    "Acknowledge a leased job: it is done",
    |body| {
        let result = match (body.result, body.result_base64) {
            (Some(_), Some(_)) => {
                return Err(Problem::bad("both result and result_base64 are given", "keep one")
                    .of("result"));
            }
            (Some(text), None) => Some(Bytes::from(text)),
            (None, Some(base64)) => {
                Some(Bytes::from(STANDARD.decode(base64).map_err(|error| {
                    Problem::bad(
                        format!("result_base64 is not base64: {error}"),
                        "encode the bytes in base64",
                    )
                    .of("result_base64")
                })?))
            }
            (None, None) => None,
        };
        Ok((body.token, ConsumerVerdict::Ack { result }))
    }
);

verdict!(
    nack,
    "/v1/topics/{topic}/jobs/{id}/nack",
    Nack,
    "Report a failure of a leased job: it is retried while attempts are left",
    |body| {
        let delay = body.delay.map(|text| duration(&text, "in")).transpose()?;
        Ok((body.token, ConsumerVerdict::Nack { delay, reason: body.reason.unwrap_or_default() }))
    }
);

verdict!(
    drop_job,
    "/v1/topics/{topic}/jobs/{id}/drop",
    DropJob,
    "Drop a leased job that can never succeed: it becomes dead",
    |body| Ok((body.token, ConsumerVerdict::Drop { reason: body.reason.unwrap_or_default() }))
);

verdict!(
    release,
    "/v1/topics/{topic}/jobs/{id}/release",
    Release,
    "Release a leased job untried: no attempt is spent",
    |body| {
        let delay = body.delay.map_or(Ok(Duration::ZERO), |text| duration(&text, "in"))?;
        Ok((body.token, ConsumerVerdict::Release { delay }))
    }
);

async fn settle(
    server: &ServerState,
    JobPath { topic: name, id }: JobPath,
    token: &str,
    verdict: ConsumerVerdict,
) -> Result<Json<SettleResult>, Problem> {
    let token = read_token(token)?;
    let manifest = server.manifest();
    let topic = settings(&manifest, &name)?;
    let consumer = Consumer { queue: &server.queue, name: &name, topic };
    consumer.check(&verdict).map_err(invalid_verdict)?;
    let failure = verdict.failure();
    match consumer.settle(&id, &token, verdict).await? {
        SettleResponse::Settled(settled) => {
            server.record_settled(&name, &id, settled, failure);
            let (topic, id) = (name.to_string(), id.to_string());
            Ok(Json(SettleResult { topic, id, result: settled.word() }))
        }
        SettleResponse::Lost(job) => Err(lost(&name, &id, job.as_deref())),
    }
}

/// Extend the lease of a job
///
/// Repeating it with the same token is safe.
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/jobs/{id}/extend",
    tag = "consumers",
    params(("topic" = inline(TopicText), Path), ("id" = inline(IdText), Path)),
    request_body = Extend,
    responses(
        (status = 200, body = ExtendResult),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The lease is lost; the problem names the current holder"),
    ),
)]
pub(super) async fn extend(
    State(server): State<ServerState>,
    JobPath { topic: name, id }: JobPath,
    Extension(caller): Extension<Caller>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    body: RequestBody,
) -> Result<Json<ExtendResult>, Problem> {
    let request: Extend = body::json(&server, &headers, body).await?;
    let (token, by) = (read_token(&request.token)?, duration(&request.by, "by")?);
    if !(Duration::from_millis(1)..=Duration::from_secs(24 * 3600)).contains(&by) {
        return Err(Problem::bad(
            "an extension must be from 1ms to 24h",
            "send a duration in this range",
        )
        .of("by"));
    }
    let manifest = server.manifest();
    let topic = settings(&manifest, &name)?;
    let consumer = Consumer { queue: &server.queue, name: &name, topic };
    let own_name = request.consumer.unwrap_or_else(|| caller.name(peer));
    let extended = consumer.extend(&own_name, &id, &token, by).await.map_err(pull_problem)?;
    let token = extended.map_err(|job| lost(&name, &id, job.as_deref()))?;
    Ok(Json(ExtendResult {
        topic: name.to_string(),
        id: id.to_string(),
        result: "extended",
        token: token_text(&token),
        lease_expires_at_ms: token.expires_at_us() / 1_000,
    }))
}

fn read_token(text: &str) -> Result<Token, Problem> {
    text.parse().map_err(|error: duebox_queue::TokenError| {
        Problem::bad(error.to_string(), "send the token that came with the job").of("token")
    })
}

fn invalid_verdict(error: InvalidVerdict) -> Problem {
    let remedy = match error {
        InvalidVerdict::ResultNotKept => "omit the result, or set done_retention in the manifest",
        InvalidVerdict::ResultTooLong(_) => {
            "store it elsewhere, and send its address as the result"
        }
    };
    Problem::bad(error.to_string(), remedy).of("result")
}

/// The error for a lost lease; it names the current holder of the job.
fn lost(topic: &TopicName, id: &JobId, job: Option<&Job>) -> Problem {
    let now = match job {
        None => "it is done and was not kept, or was cancelled".to_owned(),
        Some(Job { lease: Some(lease), .. }) => format!(
            "{} holds it until {} ms with another token",
            lease.holder.as_deref().unwrap_or("an unnamed consumer"),
            lease.expires_at_ms
        ),
        Some(job) => format!("it is now {}", job.state.shown()),
    };
    let detail = format!("the lease of {id} in {topic} is lost: {now}; nothing was changed");
    Problem::new(LOST, detail, "extend leases before they expire, or pull with a longer lease")
        .now(job)
}
