//! `POST /v1/topics/{topic}/jobs`: one job or many, as JSON; a stream of them, a line each; or one payload
//! as raw bytes, whose options stand in headers.
//!
//! What is bad is refused whole before anything is pushed; only a stream, of which nobody has seen the end,
//! is answered line by line (`push/lines.rs`). A request that is repeated with its `Idempotency-Key`, or
//! with the ids of its jobs and `if_exists=keep`, pushes nothing twice.

pub(super) mod array;
pub(super) mod lines;
pub(super) mod raw;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use duebox_job::{JobId, TopicName};
use duebox_queue::{IfExists, NewJob, Pushed};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use self::array::Many;
use crate::http::body;
use crate::http::params::Params;
use crate::http::path::TopicPath;
use crate::http::problem::{EXISTS, FULL, HELD, INTERNAL, Problem};
use crate::http::state::{ServerState, settings};
use crate::manifest::Topic;
use crate::observe::traces::IncomingContext;
use crate::service::schema::{IdText, IfExistsWord, TopicText};
use crate::service::written_job::{Frame, NoJob, WrittenJob};

/// The header that makes a push repeatable.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The types of body that are taken.
const TYPES: &str = "application/json, application/x-ndjson or application/octet-stream";

/// What may be said of a push as a whole.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PushParams {
    /// What to do about an id that is alive: `reject`, `keep` (as if it had been pushed) or `replace`;
    /// otherwise what the topic says, and `keep` with an Idempotency-Key.
    #[param(value_type = Option<IfExistsWord>)]
    if_exists: Option<IfExists>,
}

/// One job, or up to 10,000.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[expect(
    dead_code,
    reason = "the two are told apart by their first character; this is their schema"
)]
enum PushBody<'a> {
    One(#[serde(borrow)] WrittenJob<'a>),
    Many(#[serde(borrow)] Vec<WrittenJob<'a>>),
}

/// What became of one push.
#[derive(Serialize, ToSchema)]
pub(super) struct PushAnswer {
    /// The topic.
    topic: String,
    /// The job's id.
    id: String,
    /// What became of it: `pushed`, `replaced` (a job of this id waited), `successor` (one runs, this one
    /// follows it), `kept` (one is alive) or `held` (one is done).
    result: &'static str,
    /// True if there was a job of this id already, and this push changed nothing.
    existing: bool,
}

/// What became of many.
#[derive(Serialize, ToSchema)]
pub(super) struct ManyAnswer {
    /// The topic.
    topic: String,
    /// How many are stored now, by this push.
    pushed: usize,
    /// How many are not, and did not have to be: they were there already.
    existing: usize,
    /// How many were refused: their results are `exists`, `held`, `full` or `bad_due`.
    refused: usize,
    /// What became of each, in their order.
    jobs: Vec<OneOfMany>,
}

/// What became of one, or of many.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the answers are written by themselves; this is their schema")]
enum PushedBody {
    One(PushAnswer),
    Many(ManyAnswer),
}

/// What became of one of many.
#[derive(Serialize, ToSchema)]
pub(super) struct OneOfMany {
    /// Its id.
    id: String,
    /// What became of it: `pushed`, `replaced`, `successor`, `kept`, `exists`, `held`, `full`, `bad_due`.
    result: &'static str,
}

/// How a push is to be carried out.
pub(super) struct Wish {
    /// What is done about an id that is alive.
    pub(super) if_exists: IfExists,
    /// The id of a job that has none; of several, what they begin with.
    pub(super) key: Option<JobId>,
    /// The place in a trace that the request came with.
    pub(super) came: IncomingContext,
}

/// How a push went, where its id was alive or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Went {
    Stored,
    Existing,
    Refused,
}

/// Push jobs
///
/// As `application/json` one job, or an array of up to 10,000 of which a bad one refuses all; as
/// `application/x-ndjson` a job a line, of any number, each answered with a line; as
/// `application/octet-stream` the payload of one job, its options in headers: `Duebox-Id`, `Duebox-In`,
/// `Duebox-At`, `Duebox-Ttr`, `Duebox-Max-Attempts`, `Duebox-Backoff`, `Duebox-Max-Snoozes`,
/// `Duebox-Max-Crashes`, `Duebox-Ttl`, `Duebox-Priority`, `Duebox-Key`, and `Duebox-Header-NAME`.
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/jobs",
    tag = "jobs",
    params(
        ("topic" = inline(TopicText), Path, description = "The topic"),
        ("Idempotency-Key" = Option<IdText>, Header, description = "The id of a job that has none; of several, what their ids begin with (KEY-1, KEY-2 …). A request that is repeated with it pushes nothing twice"),
        PushParams,
    ),
    request_body(content(
        (PushBody = "application/json"),
        (Vec<u8> = "application/octet-stream"),
    )),
    responses(
        (status = 201, body = PushAnswer, description = "Stored"),
        (status = 200, body = PushedBody, description = "It was there already; or, of an array, what became of each"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "A job of its id is alive, or its id is held"),
        (status = 429, body = Problem, content_type = "application/problem+json", description = "As many jobs wait as the topic allows"),
    ),
)]
pub(super) async fn push(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
    Params(params): Params<PushParams>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let manifest = server.manifest();
    let topic = settings(&manifest, &name)?;
    let wish = wish(topic, params.if_exists, &headers)?;
    let kind = body::media_type(&headers);
    match kind.as_deref() {
        Some("application/json") => {
            let json = body::whole(body, manifest.server.max_body).await?;
            if json.trim_ascii_start().starts_with(b"[") {
                let jobs = Many::read(&json)?.jobs(frame(topic), wish.key.as_ref())?;
                return push_many(&server, &name, topic, jobs, &wish).await;
            }
            let job =
                WrittenJob::read(&json).and_then(|job| job.job(frame(topic), wish.key.as_ref()));
            push_one(&server, &name, topic, job.map_err(no_job)?, &wish).await
        }
        Some("application/octet-stream") => {
            let payload = body::whole(body, manifest.server.max_body).await?;
            let job = raw::job(&headers, payload, frame(topic), wish.key.as_ref())?;
            push_one(&server, &name, topic, job, &wish).await
        }
        Some("application/x-ndjson" | "application/jsonl") => {
            Ok(lines::push(&server, name, wish, body))
        }
        other => Err(body::wrong_type(other, TYPES)),
    }
}

/// What the topic says of jobs that leave it out.
pub(super) fn frame(topic: &Topic) -> Frame {
    Frame { delay: topic.delay, payload_max: topic.limits.payload }
}

fn wish(topic: &Topic, if_exists: Option<IfExists>, headers: &HeaderMap) -> Result<Wish, Problem> {
    let came = IncomingContext::with(headers);
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else {
        return Ok(Wish { if_exists: if_exists.unwrap_or(topic.if_exists), key: None, came });
    };
    let key = key.to_str().map_err(|error| error.to_string());
    let key = key.and_then(|key| JobId::new(key).map_err(|error| error.to_string()));
    let key = key.map_err(|why| {
        Problem::bad(why, "send 1 to 256 visible ASCII characters, such as a UUID")
            .of("Idempotency-Key")
    })?;
    Ok(Wish { if_exists: if_exists.unwrap_or(IfExists::Keep), key: Some(key), came })
}

async fn push_one(
    server: &ServerState,
    name: &TopicName,
    topic: &Topic,
    job: NewJob,
    wish: &Wish,
) -> Result<Response, Problem> {
    let queue = server.queue_of(name, topic).await?;
    let id = job.id.to_string();
    let answers = server.push(queue, name, vec![job], wish.if_exists, &wish.came).await?;
    let (_, pushed) = answers.first().ok_or_else(no_answer)?;
    let pushed = *pushed;
    let went = Went::of(pushed, wish.if_exists);
    if went == Went::Refused {
        return Err(refusal(pushed, name, &id));
    }
    let existing = went == Went::Existing;
    let status = if existing { StatusCode::OK } else { StatusCode::CREATED };
    let place = format!("/v1/topics/{name}/jobs/{}", encoded(&id));
    let answer = PushAnswer { topic: name.to_string(), id, result: pushed.word(), existing };
    let mut response = (status, Json(answer)).into_response();
    if let Ok(place) = HeaderValue::try_from(place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

async fn push_many(
    server: &ServerState,
    name: &TopicName,
    topic: &Topic,
    jobs: Vec<NewJob>,
    wish: &Wish,
) -> Result<Response, Problem> {
    let queue = server.queue_of(name, topic).await?;
    let answers = server.push(queue, name, jobs, wish.if_exists, &wish.came).await?;
    let is = |went, word| Went::of(word, wish.if_exists) == went;
    let count = |went| answers.iter().filter(|(_, word)| is(went, *word)).count();
    let one = |(id, word): &(JobId, Pushed)| OneOfMany { id: id.to_string(), result: word.word() };
    let answer = ManyAnswer {
        topic: name.to_string(),
        pushed: count(Went::Stored),
        existing: count(Went::Existing),
        refused: count(Went::Refused),
        jobs: answers.iter().map(one).collect(),
    };
    Ok(Json(answer).into_response())
}

impl Went {
    /// Whoever keeps what is there is content with a job that is done, too.
    pub(super) fn of(pushed: Pushed, if_exists: IfExists) -> Self {
        match pushed {
            Pushed::Pushed | Pushed::Replaced | Pushed::Successor => Self::Stored,
            Pushed::Kept => Self::Existing,
            Pushed::Held if if_exists == IfExists::Keep => Self::Existing,
            Pushed::Exists | Pushed::Held | Pushed::Full | Pushed::BadDue => Self::Refused,
        }
    }
}

/// What became of a job of many, and why it is not stored if it is not.
pub(super) fn word_of(pushed: Pushed, if_exists: IfExists) -> (&'static str, Option<&'static str>) {
    let why = match pushed {
        _ if Went::of(pushed, if_exists) != Went::Refused => None,
        Pushed::Held => {
            Some("a job of that id is done, and the topic holds ids for its unique_for")
        }
        Pushed::Full => Some("as many jobs wait as the topic's max_pending allows"),
        Pushed::BadDue => Some("Redis refused the due time"),
        _ => Some("a job of that id is alive"),
    };
    (pushed.word(), why)
}

/// Why a job was not pushed.
pub(super) fn refusal(pushed: Pushed, topic: &TopicName, id: &str) -> Problem {
    let of = |what: &str| format!("the job {id} was not pushed to {topic}: {what}");
    match pushed {
        Pushed::Held => Problem::new(
            HELD,
            of("one of that id is done, and the topic holds ids for its unique_for"),
            "choose another id, or wait; GET the job to see until when",
        )
        .of("id"),
        Pushed::Full => Problem::new(
            FULL,
            of("as many jobs wait there as its max_pending allows"),
            "push later, or raise max_pending",
        )
        .retry_after(1),
        Pushed::BadDue => Problem::bad(
            of("Redis refused its due time"),
            "compare the clock of the daemon with that of Redis",
        )
        .of("at"),
        _ => Problem::new(
            EXISTS,
            of("one of that id is alive"),
            "choose another id, cancel it, or push with if_exists=replace or if_exists=keep",
        )
        .of("id"),
    }
}

pub(super) fn no_job(no_job: NoJob) -> Problem {
    let problem = Problem::bad(no_job.why, "see the schema of a job in /openapi.json");
    match no_job.field {
        Some(field) => problem.of(field),
        None => problem,
    }
}

fn no_answer() -> Problem {
    Problem::new(
        INTERNAL,
        "Redis did not say what became of the push",
        "look for the job by its id",
    )
}

/// An id as a segment of a path.
fn encoded(id: &str) -> String {
    let mut encoded = String::with_capacity(id.len());
    for byte in id.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(byte.into());
            }
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_segment() {
        assert_eq!(encoded("a/b c?ä"), "a%2Fb%20c%3F%C3%A4");
        assert_eq!(encoded("A-z_0.9~"), "A-z_0.9~");
    }

    #[test]
    fn who_keeps_is_content_with_what_is_done() {
        assert_eq!(Went::of(Pushed::Held, IfExists::Keep), Went::Existing);
        assert_eq!(Went::of(Pushed::Held, IfExists::Reject), Went::Refused);
        assert_eq!(Went::of(Pushed::Full, IfExists::Keep), Went::Refused);
    }
}
