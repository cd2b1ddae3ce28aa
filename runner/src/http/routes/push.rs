//! `POST /v1/topics/{topic}/jobs`: one job or many as JSON, a stream of jobs as lines, or one raw
//! payload with its options in headers.
//!
//! An invalid request is refused as a whole before anything is pushed. Only a stream, whose end is
//! not known, gets a result for each line (`push/lines.rs`). A request repeated with its
//! `Idempotency-Key`, or with job ids and `if_exists=keep`, pushes nothing twice.

pub(super) mod array;
pub(super) mod lines;
pub(super) mod raw;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use duebox_job::{JobId, TopicName};
use duebox_queue::{IfExists, NewJob, Pushed};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use self::array::JobArray;
use crate::http::body::{self, RequestBody};
use crate::http::params::Params;
use crate::http::path::TopicPath;
use crate::http::problem::{EXISTS, FULL, HELD, INTERNAL, Problem};
use crate::http::state::{ServerState, settings};
use crate::manifest::Topic;
use crate::observe::traces::IncomingContext;
use crate::service::due::DueCheck;
use crate::service::refused_push;
use crate::service::schema::{IdText, IfExistsWord, TopicText};
use crate::service::written_job::{TopicDefaults, WrittenJob};

/// The header that makes a push repeatable.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Everything but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// The supported media types.
const TYPES: &str = "application/json, application/x-ndjson or application/octet-stream";

/// Parameters of a push.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PushParams {
    /// What to do if the id is live: `reject`, `keep` (report success) or `replace`. Default: the
    /// topic's setting; `keep` with an Idempotency-Key.
    #[param(value_type = Option<IfExistsWord>)]
    if_exists: Option<IfExists>,
}

/// One job, or up to 10,000.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[expect(
    dead_code,
    reason = "the first character decides which one is parsed; this is their schema"
)]
enum PushBody<'a> {
    One(#[serde(borrow)] WrittenJob<'a>),
    Many(#[serde(borrow)] Vec<WrittenJob<'a>>),
}

/// The result of pushing one job.
#[derive(Serialize, ToSchema)]
pub(super) struct PushResponse {
    /// The topic.
    topic: String,
    /// The job's id.
    id: String,
    /// `pushed`, `replaced` (a waiting job had this id), `successor` (a running job has this id;
    /// this one runs after it), `kept` (a live job has this id) or `held` (a done job had this id).
    result: &'static str,
    /// True if a job already had this id and nothing was changed.
    existing: bool,
}

/// The result of pushing many jobs.
#[derive(Serialize, ToSchema)]
pub(super) struct PushManyResponse {
    /// The topic.
    topic: String,
    /// Number of jobs stored by this push.
    pushed: usize,
    /// Number of jobs that already existed.
    existing: usize,
    /// Number of refused jobs: their results are `exists`, `held`, `full` or `bad_due`.
    refused: usize,
    /// The result of each job, in order.
    jobs: Vec<PushedJob>,
}

/// The result of pushing one job or many.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "each is serialized on its own; this is their schema")]
enum PushedBody {
    One(PushResponse),
    Many(PushManyResponse),
}

/// The result of one of many jobs.
#[derive(Serialize, ToSchema)]
pub(super) struct PushedJob {
    /// Its id.
    id: String,
    /// `pushed`, `replaced`, `successor`, `kept`, `exists`, `held`, `full` or `bad_due`.
    result: &'static str,
}

/// The settings of a push.
pub(super) struct PushSettings {
    /// What happens if the id is live.
    pub(super) if_exists: IfExists,
    /// The id of a job without its own; for several jobs, the prefix of their ids.
    pub(super) key: Option<JobId>,
    /// The trace context of the request.
    pub(super) came: IncomingContext,
}

/// The outcome of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PushOutcome {
    Stored,
    Existing,
    Refused,
}

/// Push jobs
///
/// As `application/json`: one job, or an array of at most 10,000; one invalid job refuses the whole
/// array. As `application/x-ndjson`: any number of jobs, one per line, with one result line each.
/// As `application/octet-stream`: the payload of one job, with its options in headers: `Duebox-Id`,
/// `Duebox-In`, `Duebox-At`, `Duebox-Ttr`, `Duebox-Max-Attempts`, `Duebox-Backoff`,
/// `Duebox-Max-Snoozes`, `Duebox-Max-Crashes`, `Duebox-Ttl`, `Duebox-Priority`, `Duebox-Key`, and
/// `Duebox-Header-NAME`.
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/jobs",
    tag = "jobs",
    params(
        ("topic" = inline(TopicText), Path, description = "The topic"),
        ("Idempotency-Key" = Option<IdText>, Header, description = "The id of a job without its own; for several jobs, the prefix of their ids (KEY-1, KEY-2 …). A request repeated with the same key pushes nothing twice"),
        PushParams,
    ),
    request_body(content(
        (PushBody = "application/json"),
        (Vec<u8> = "application/octet-stream"),
    )),
    responses(
        (status = 201, body = PushResponse, description = "Stored"),
        (status = 200, body = PushedBody, description = "The job already existed; or, for an array, the result of each job"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "A live job has the id, or the id is reserved"),
        (status = 429, body = Problem, content_type = "application/problem+json", description = "The topic has max_pending waiting jobs"),
    ),
)]
pub(super) async fn push(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
    Params(params): Params<PushParams>,
    headers: HeaderMap,
    body: RequestBody,
) -> Result<Response, Problem> {
    let manifest = server.manifest();
    let topic = settings(&manifest, &name)?;
    let push = push_settings(topic, params.if_exists, &headers)?;
    let kind = body::media_type(&headers);
    match kind.as_deref() {
        Some("application/json") => {
            let json = body.whole(manifest.server.max_body).await?;
            if json.trim_ascii_start().starts_with(b"[") {
                let jobs = JobArray::read(&json)?.jobs(defaults(topic), push.key.as_ref())?;
                let check = DueCheck::of(&server.queue, jobs.iter().map(|job| job.due)).await?;
                array::check_dues(&jobs, &check)?;
                return push_many(&server, &name, topic, jobs, &push).await;
            }
            let job =
                WrittenJob::read(&json).and_then(|job| job.job(defaults(topic), push.key.as_ref()));
            let job = job?;
            check_due(&server, &job, "at").await?;
            push_one(&server, &name, topic, job, &push).await
        }
        Some("application/octet-stream") => {
            let payload = body.whole(manifest.server.max_body).await?;
            let job =
                raw::job(&headers, payload.bytes.clone(), defaults(topic), push.key.as_ref())?;
            check_due(&server, &job, "Duebox-At").await?;
            push_one(&server, &name, topic, job, &push).await
        }
        Some("application/x-ndjson" | "application/jsonl") => {
            Ok(lines::push(&server, name, push, body))
        }
        other => Err(body::wrong_type(other, TYPES)),
    }
}

/// The topic's settings for new jobs.
pub(super) fn defaults(topic: &Topic) -> TopicDefaults {
    TopicDefaults { delay: topic.delay, payload_max: topic.limits.payload }
}

fn push_settings(
    topic: &Topic,
    if_exists: Option<IfExists>,
    headers: &HeaderMap,
) -> Result<PushSettings, Problem> {
    let came = IncomingContext::with(headers);
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else {
        return Ok(PushSettings {
            if_exists: if_exists.unwrap_or(topic.if_exists),
            key: None,
            came,
        });
    };
    let key = key.to_str().map_err(|error| error.to_string());
    let key = key.and_then(|key| JobId::new(key).map_err(|error| error.to_string()));
    let key = key.map_err(|why| {
        Problem::bad(why, "send 1 to 256 visible ASCII characters, such as a UUID")
            .of("Idempotency-Key")
    })?;
    Ok(PushSettings { if_exists: if_exists.unwrap_or(IfExists::Keep), key: Some(key), came })
}

/// Checks the due time of a job, which this field or header sets.
async fn check_due(server: &ServerState, job: &NewJob, field: &str) -> Result<(), Problem> {
    let check = DueCheck::of(&server.queue, std::iter::once(job.due)).await?;
    check.check(job.due).map_err(|bad| Problem::from(bad).of(field))
}

async fn push_one(
    server: &ServerState,
    name: &TopicName,
    topic: &Topic,
    job: NewJob,
    push: &PushSettings,
) -> Result<Response, Problem> {
    server.ensure_limits(name, topic).await?;
    let id = job.id.to_string();
    let answers = server.push(name, vec![job], push.if_exists, &push.came).await?;
    let (_, pushed) = answers.first().ok_or_else(no_reply)?;
    let pushed = *pushed;
    let outcome = PushOutcome::of(pushed, push.if_exists);
    if outcome == PushOutcome::Refused {
        return Err(refusal(pushed, name, &id));
    }
    let existing = outcome == PushOutcome::Existing;
    let status = if existing { StatusCode::OK } else { StatusCode::CREATED };
    let location = format!("/v1/topics/{name}/jobs/{}", encoded(&id));
    let answer = PushResponse { topic: name.to_string(), id, result: pushed.word(), existing };
    let mut response = (status, Json(answer)).into_response();
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

async fn push_many(
    server: &ServerState,
    name: &TopicName,
    topic: &Topic,
    jobs: Vec<NewJob>,
    push: &PushSettings,
) -> Result<Response, Problem> {
    server.ensure_limits(name, topic).await?;
    let answers = server.push(name, jobs, push.if_exists, &push.came).await?;
    let is = |outcome, word| PushOutcome::of(word, push.if_exists) == outcome;
    let count = |outcome| answers.iter().filter(|(_, word)| is(outcome, *word)).count();
    let one = |(id, word): &(JobId, Pushed)| PushedJob { id: id.to_string(), result: word.word() };
    let answer = PushManyResponse {
        topic: name.to_string(),
        pushed: count(PushOutcome::Stored),
        existing: count(PushOutcome::Existing),
        refused: count(PushOutcome::Refused),
        jobs: answers.iter().map(one).collect(),
    };
    Ok(Json(answer).into_response())
}

impl PushOutcome {
    /// With `keep`, a done job with the id counts as existing too.
    pub(super) fn of(pushed: Pushed, if_exists: IfExists) -> Self {
        match pushed {
            Pushed::Pushed | Pushed::Replaced | Pushed::Successor => Self::Stored,
            Pushed::Kept => Self::Existing,
            Pushed::Held if if_exists == IfExists::Keep => Self::Existing,
            Pushed::Exists | Pushed::Held | Pushed::Full | Pushed::BadDue => Self::Refused,
        }
    }
}

/// The result of one of many jobs, and the reason if it was refused.
pub(super) fn word_of(pushed: Pushed, if_exists: IfExists) -> (&'static str, Option<&'static str>) {
    let is_refused = PushOutcome::of(pushed, if_exists) == PushOutcome::Refused;
    let why = refused_push::reason(pushed).filter(|_| is_refused);
    (pushed.word(), why)
}

/// The problem for a refused job.
pub(super) fn refusal(pushed: Pushed, topic: &TopicName, id: &str) -> Problem {
    let why = refused_push::reason(pushed).unwrap_or_else(|| pushed.word());
    let text = format!("job {id} was not pushed to {topic}: {why}");
    match pushed {
        Pushed::Held => {
            let remedy = "choose another id, or wait; GET the job to see until when";
            Problem::new(HELD, text, remedy).of("id")
        }
        Pushed::Full => Problem::new(FULL, text, "push later, or raise max_pending").retry_after(1),
        Pushed::BadDue => {
            Problem::bad(text, "compare the daemon's clock with the clock of Redis").of("at")
        }
        _ => {
            let remedy =
                "choose another id, cancel it, or push with if_exists=replace or if_exists=keep";
            Problem::new(EXISTS, text, remedy).of("id")
        }
    }
}

fn no_reply() -> Problem {
    Problem::new(INTERNAL, "Redis returned no result for the push", "get the job by its id")
}

/// An id as a segment of a path.
fn encoded(id: &str) -> String {
    utf8_percent_encode(id, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_path_segment() {
        assert_eq!(encoded("a/b c?ä"), "a%2Fb%20c%3F%C3%A4");
        assert_eq!(encoded("A-z_0.9~"), "A-z_0.9~");
    }

    #[test]
    fn keep_accepts_a_done_job() {
        assert_eq!(PushOutcome::of(Pushed::Held, IfExists::Keep), PushOutcome::Existing);
        assert_eq!(PushOutcome::of(Pushed::Held, IfExists::Reject), PushOutcome::Refused);
        assert_eq!(PushOutcome::of(Pushed::Full, IfExists::Keep), PushOutcome::Refused);
    }
}
