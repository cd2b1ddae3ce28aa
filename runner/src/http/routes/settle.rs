//! What came of a leased job, and more time for it: `…/jobs/{id}/ack`, `nack`, `drop`, `release`, `extend`.
//! The lease's token fences each of them: a stale one changes nothing, and is told who has the job now.

use std::time::Duration;

use axum::body::Body;
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

use super::leases::{duration, refused};
use crate::http::access::Caller;
use crate::http::body;
use crate::http::listener::Peer;
use crate::http::path::JobPath;
use crate::http::problem::{LOST, Problem};
use crate::http::state::{ServerState, settings};
use crate::service::leased_job::token_text;
use crate::service::pull_consumer::{Answer, Consumer, Refusal, Said};
use crate::service::schema::{DurationText, IdText, TopicText};

/// The job is done.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ack {
    /// The lease's token.
    token: String,
    /// What came out of it, where its topic keeps done jobs: a text, up to 64 KiB.
    result: Option<String>,
    /// The same in base64, for bytes that are no text.
    result_base64: Option<String>,
}

/// The job failed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nack {
    /// The lease's token.
    token: String,
    /// When it may be tried again; after the backoff of the job or its topic if it is left out.
    #[serde(rename = "in")]
    #[schema(value_type = Option<DurationText>)]
    delay: Option<String>,
    /// Why, for people.
    reason: Option<String>,
}

/// The job can never be done.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DropJob {
    /// The lease's token.
    token: String,
    /// Why, for people.
    reason: Option<String>,
}

/// The job was not tried.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Release {
    /// The lease's token.
    token: String,
    /// When others may have it; at once if it is left out.
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
    /// How much longer, 1ms to 24h.
    #[schema(value_type = DurationText)]
    by: String,
    /// Your name, if it is another than at the pull.
    consumer: Option<String>,
}

/// What became of the job.
#[derive(Serialize, ToSchema)]
pub(super) struct SettleAnswer {
    /// The topic.
    topic: String,
    /// The job's id.
    id: String,
    /// `done`, `retry`, `dead`, `discarded`, `released`; `superseded` if a newer push of the id takes its
    /// place; `cancelled` if it was cancelled meanwhile.
    result: &'static str,
}

/// The lease as it is now.
#[derive(Serialize, ToSchema)]
pub(super) struct ExtendAnswer {
    /// The topic.
    topic: String,
    /// The job's id.
    id: String,
    /// `extended`.
    result: &'static str,
    /// The new token: the old one is of no use any more.
    token: String,
    /// Until when the job is yours, unix ms.
    lease_expires_at_ms: u64,
}

macro_rules! verdict {
    ($name:ident, $path:literal, $body:ty, $summary:literal, $said:expr) => {
        #[doc = $summary]
        #[utoipa::path(
            post,
            path = $path,
            tag = "consumers",
            params(("topic" = inline(TopicText), Path), ("id" = inline(IdText), Path)),
            request_body = $body,
            responses(
                (status = 200, body = SettleAnswer),
                (status = 409, body = Problem, content_type = "application/problem+json", description = "The lease is lost; it says who has the job now"),
            ),
        )]
        pub(super) async fn $name(
            State(server): State<ServerState>,
            path: JobPath,
            headers: HeaderMap,
            body: Body,
        ) -> Result<Json<SettleAnswer>, Problem> {
            let written: $body = body::json(&server, &headers, body).await?;
            let said: fn($body) -> Result<(String, Said), Problem> = $said;
            let (token, said) = said(written)?;
            settle(&server, path, &token, said).await
        }
    };
}

verdict!(ack, "/v1/topics/{topic}/jobs/{id}/ack", Ack, "Say that a leased job is done", |body| {
    let result = match (body.result, body.result_base64) {
        (Some(_), Some(_)) => {
            return Err(Problem::bad("there are result and result_base64", "keep one").of("result"));
        }
        (Some(text), None) => Some(Bytes::from(text)),
        (None, Some(base64)) => Some(Bytes::from(STANDARD.decode(base64).map_err(|error| {
            Problem::bad(format!("it is no base64: {error}"), "encode the bytes in base64")
                .of("result_base64")
        })?)),
        (None, None) => None,
    };
    Ok((body.token, Said::Ack { result }))
});

verdict!(
    nack,
    "/v1/topics/{topic}/jobs/{id}/nack",
    Nack,
    "Say that a leased job failed: it is tried again, while it has attempts left",
    |body| {
        let delay = body.delay.map(|text| duration(&text, "in")).transpose()?;
        Ok((body.token, Said::Nack { delay, reason: body.reason.unwrap_or_default() }))
    }
);

verdict!(
    drop_job,
    "/v1/topics/{topic}/jobs/{id}/drop",
    DropJob,
    "Say that a leased job can never be done: it is buried",
    |body| Ok((body.token, Said::Drop { reason: body.reason.unwrap_or_default() }))
);

verdict!(
    release,
    "/v1/topics/{topic}/jobs/{id}/release",
    Release,
    "Give a leased job back untried: no attempt is spent",
    |body| {
        let delay = body.delay.map_or(Ok(Duration::ZERO), |text| duration(&text, "in"))?;
        Ok((body.token, Said::Release { delay }))
    }
);

async fn settle(
    server: &ServerState,
    JobPath { topic: name, id }: JobPath,
    token: &str,
    said: Said,
) -> Result<Json<SettleAnswer>, Problem> {
    let token = read_token(token)?;
    let manifest = server.manifest();
    let topic = settings(&manifest, &name)?;
    let consumer = Consumer { queue: &server.queue, name: &name, topic };
    consumer.check(&said).map_err(senseless)?;
    let class = said.class();
    match consumer.settle(&id, &token, said).await? {
        Answer::Settled(settled) => {
            server.settled(&name, &id, settled, class);
            let (topic, id) = (name.to_string(), id.to_string());
            Ok(Json(SettleAnswer { topic, id, result: settled.word() }))
        }
        Answer::Lost(job) => Err(lost(&name, &id, job.as_deref())),
    }
}

/// Keep a leased job for longer
///
/// Repeating it with the same token is harmless.
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/jobs/{id}/extend",
    tag = "consumers",
    params(("topic" = inline(TopicText), Path), ("id" = inline(IdText), Path)),
    request_body = Extend,
    responses(
        (status = 200, body = ExtendAnswer),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The lease is lost; it says who has the job now"),
    ),
)]
pub(super) async fn extend(
    State(server): State<ServerState>,
    JobPath { topic: name, id }: JobPath,
    Extension(caller): Extension<Caller>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ExtendAnswer>, Problem> {
    let written: Extend = body::json(&server, &headers, body).await?;
    let (token, by) = (read_token(&written.token)?, duration(&written.by, "by")?);
    if !(Duration::from_millis(1)..=Duration::from_secs(24 * 3600)).contains(&by) {
        return Err(
            Problem::bad("an extension is from 1ms to 24h", "extend again in time").of("by")
        );
    }
    let manifest = server.manifest();
    let topic = settings(&manifest, &name)?;
    let consumer = Consumer { queue: &server.queue, name: &name, topic };
    let own_name = written.consumer.unwrap_or_else(|| caller.name(peer));
    let extended = consumer.extend(&own_name, &id, &token, by).await.map_err(refused)?;
    let token = extended.map_err(|job| lost(&name, &id, job.as_deref()))?;
    Ok(Json(ExtendAnswer {
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

fn senseless(refusal: Refusal) -> Problem {
    let remedy = match refusal {
        Refusal::ResultNotKept => "leave out the result, or set done_retention in the manifest",
        Refusal::ResultTooLong(_) => "keep it elsewhere, and give its address as the result",
    };
    Problem::bad(refusal.to_string(), remedy).of("result")
}

/// A lease that is lost, and who has the job now.
fn lost(topic: &TopicName, id: &JobId, job: Option<&Job>) -> Problem {
    let now = match job {
        None => "it is done and forgotten, or was cancelled".to_owned(),
        Some(Job { lease: Some(lease), .. }) => format!(
            "{} has it until {} ms, under another token",
            lease.holder.as_deref().unwrap_or("somebody without a name"),
            lease.expires_at_ms
        ),
        Some(job) => format!("it is {} now", job.state.word()),
    };
    let detail = format!("the lease of {id} in {topic} is lost: {now}; nothing has changed");
    Problem::new(LOST, detail, "extend leases before they expire, or pull with a longer lease")
        .now(job)
}
