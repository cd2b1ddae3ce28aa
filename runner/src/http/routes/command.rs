//! `POST /`: the command protocol of add, pop, finish and delete, for clients that speak it already.
//!
//! Times are in seconds, and ids are global: a job is found by its id alone. A job that was popped and not
//! finished within its TTR is given to the next. A `finish` that comes after that changes nothing: it is told
//! from the right one by the token that came with the pop, or, where a client sends none, by who it is.

pub(super) mod index;

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use duebox_job::{DELAY_MAX_MS, JobId, Options, TopicName};
use duebox_queue::{Cancelled, Due, JobState, NewJob, Pushed, Token};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use self::index::CommandIndex;
use super::leases::{Taken, Wanted, give, refused, take};
use super::push::word_of;
use crate::auth::tokens::Scope;
use crate::http::access::{Caller, Takes};
use crate::http::body;
use crate::http::listener::Peer;
use crate::http::problem::Problem;
use crate::http::state::{ServerState, settings};
use crate::manifest::Manifest;
use crate::observe::traces::IncomingContext;
use crate::service::leased_job::token_text;
use crate::service::pull_consumer::{Answer, Consumer, Said};
use crate::service::written_job::bytes_of_json;

/// What a job is leased for before its own TTR is known.
const FIRST_LEASE: Duration = Duration::from_secs(1);
/// The longest TTR.
const TTR_MAX: Duration = Duration::from_secs(24 * 3600);
/// The header of a job whose body was JSON and no text.
const BODY_KIND: &str = "command-body";
const JSON: &str = "json";

/// A command.
#[derive(Deserialize, ToSchema)]
#[serde(tag = "command", rename_all = "lowercase")]
#[expect(
    dead_code,
    reason = "bodies are read by their words, to be kept as written; this is their schema"
)]
enum Command<'a> {
    /// Push a job.
    Add(#[serde(borrow)] Add<'a>),
    /// Take a job that is due.
    Pop(Pop),
    /// Say that a job is done.
    Finish(Finish),
    /// Remove a job.
    Delete(Delete),
}

/// Which command it is.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Add,
    Pop,
    Finish,
    Delete,
}

/// The word of a command; what else there is belongs to the command.
#[derive(Deserialize)]
struct Worded {
    command: Word,
}

/// Push a job.
#[derive(Deserialize, ToSchema)]
struct Add<'a> {
    /// The topic.
    topic: String,
    /// The job's id, of 1 to 256 visible ASCII characters; no other live job may have it in any topic.
    id: Text,
    /// Seconds until it is due; the topic's delay if it is left out.
    delay: Option<f64>,
    /// Seconds that it may take once it was popped; the topic's ttr if it is left out.
    #[serde(rename = "TTR", alias = "ttr")]
    ttr: Option<f64>,
    /// What comes back at the pop: a text, or any JSON.
    #[serde(borrow)]
    #[schema(value_type = Option<serde_json::Value>)]
    body: Option<&'a RawValue>,
}

/// Take a job that is due.
#[derive(Deserialize, ToSchema)]
struct Pop {
    /// The topic.
    topic: String,
    /// Seconds to wait for one, up to 60; none if it is left out.
    wait: Option<f64>,
    /// Who takes it; the token's name or the address of the client if it is left out.
    consumer: Option<String>,
}

/// Say that a job is done.
#[derive(Deserialize, ToSchema)]
struct Finish {
    /// The job's id.
    id: Text,
    /// The token that came with the pop: with it, a late finish is told from the right one for sure.
    token: Option<String>,
    /// Who took it, as at the pop.
    consumer: Option<String>,
}

/// Remove a job.
#[derive(Deserialize, ToSchema)]
struct Delete {
    /// The job's id.
    id: Text,
}

/// A text, or a number that stands for one.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum Text {
    Text(String),
    Number(u64),
}

/// What came of a command.
#[derive(Default, Serialize, ToSchema)]
pub(super) struct CommandAnswer {
    /// Whether it was carried out.
    success: bool,
    /// Why it was not.
    error: Option<String>,
    /// The job's id.
    id: Option<String>,
    /// At a pop, the body as it was added.
    #[schema(value_type = Option<serde_json::Value>)]
    value: Option<Box<RawValue>>,
    /// At a pop, what fences the job: to be sent with the finish.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

impl CommandAnswer {
    fn done(id: &str) -> Self {
        Self { success: true, id: Some(id.to_owned()), ..Self::default() }
    }

    fn refused(id: Option<&str>, why: impl Into<String>) -> Self {
        Self { error: Some(why.into()), id: id.map(str::to_owned), ..Self::default() }
    }
}

/// Whatever a command needs.
struct Desk<'a> {
    server: &'a ServerState,
    manifest: &'a Manifest,
    caller: &'a Caller,
    /// The client's name, if it does not give one.
    name: String,
    /// The place in a trace that the request came with.
    came: IncomingContext,
}

/// Carry out a command: add, pop, finish or delete
///
/// Answers 200 with `success` for every command that can be read, carried out or not. A `pop` without a job
/// answers `success: false`. Delay and TTR are in seconds.
#[utoipa::path(
    post,
    path = "/",
    tag = "commands",
    request_body = Command,
    responses((status = 200, body = CommandAnswer)),
)]
pub(super) async fn command(
    State(server): State<ServerState>,
    Extension(caller): Extension<Caller>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let manifest = server.manifest();
    let bytes = body::json_bytes(&headers, body, manifest.server.max_body).await?;
    let (name, came) = (caller.name(peer), IncomingContext::with(&headers));
    let desk = Desk { server: &server, manifest: &manifest, caller: &caller, name, came };
    let answer = match body::read::<Worded>(&bytes)?.command {
        Word::Pop => return desk.pop(body::read(&bytes)?).await,
        Word::Add => desk.add(body::read(&bytes)?).await?,
        Word::Finish => desk.finish(body::read(&bytes)?).await?,
        Word::Delete => desk.delete(&body::read::<Delete>(&bytes)?.id.text()).await?,
    };
    Ok((StatusCode::OK, Json(answer)).into_response())
}

impl Desk<'_> {
    fn index(&self) -> CommandIndex<'_> {
        CommandIndex { queue: &self.server.queue, prefix: &self.manifest.redis.prefix }
    }

    fn topic(&self, name: &str, scope: Scope) -> Result<TopicName, Problem> {
        let name = TopicName::new(name)
            .map_err(|error| Problem::bad(error.to_string(), "send a topic's name").of("topic"))?;
        self.caller.check(Takes::One(scope), Some(&name))?;
        settings(self.manifest, &name)?;
        Ok(name)
    }

    async fn add(&self, add: Add<'_>) -> Result<CommandAnswer, Problem> {
        let name = self.topic(&add.topic, Scope::Push)?;
        let topic = settings(self.manifest, &name)?;
        let text = add.id.text();
        let id = JobId::new(text.clone())
            .map_err(|error| Problem::bad(error.to_string(), "send another id").of("id"))?;
        let delay = add.delay.map_or(Ok(topic.delay), |delay| seconds(delay, "delay"))?;
        let mut options = Options::default();
        if let Some(ttr) = add.ttr {
            let ttr = seconds(ttr, "TTR")?;
            if !(Duration::from_millis(1)..=TTR_MAX).contains(&ttr) {
                return Err(
                    Problem::bad("a TTR is from 0.001 to 86400 seconds", "send one").of("TTR")
                );
            }
            options = options.with_ttr(ttr);
        }
        let (payload, options) = written(add.body, options)?;
        if payload.len() > topic.limits.payload {
            let why = crate::service::written_job::payload_too_long(topic.limits.payload);
            return Err(Problem::bad(why, "send less").of("body"));
        }
        if let Some(elsewhere) = self.index().claim(&text, &name, delay).await?
            && elsewhere != name
        {
            let job = self.server.queue.get(&elsewhere, &id).await?;
            if job.is_some_and(|job| job.state.is_live()) {
                let why = format!("a job with the id {text} is alive in {elsewhere}");
                return Ok(CommandAnswer::refused(Some(&text), why));
            }
        }
        self.index().note(&text, &name, delay).await?;
        let due = if delay.is_zero() { Due::Now } else { Due::In(delay) };
        let queue = self.server.queue_of(&name, topic).await?;
        let job = NewJob { id, due, payload, options };
        let pushed = self.server.push(queue, &name, vec![job], topic.if_exists, &self.came).await?;
        let pushed = pushed.first().map_or(Pushed::Exists, |(_, pushed)| *pushed);
        Ok(match word_of(pushed, topic.if_exists) {
            (_, None) => CommandAnswer::done(&text),
            (_, Some(why)) => CommandAnswer::refused(Some(&text), why),
        })
    }

    async fn pop(&self, pop: Pop) -> Result<Response, Problem> {
        let name = self.topic(&pop.topic, Scope::Consume)?;
        let wanted = Wanted {
            consumer: pop.consumer.unwrap_or_else(|| self.name.clone()),
            jobs: 1,
            bytes_max: None,
            min_age: Duration::ZERO,
            lease: FIRST_LEASE,
            wait: pop.wait.map_or(Ok(Duration::ZERO), |wait| seconds(wait, "wait"))?,
        };
        let server = self.server.clone();
        give(self.server, |gone| async move {
            let manifest = server.manifest();
            let Taken { mut given, paused, .. } = take(&server, &name, &wanted, gone).await?;
            let answer = match given.leases.first_mut() {
                None if paused => CommandAnswer::refused(None, format!("{name} is paused")),
                None => CommandAnswer::refused(None, "no job is due"),
                Some(lease) => {
                    let topic = settings(&manifest, &name)?;
                    let own = lease.options.as_ref().ok().and_then(Options::ttr);
                    let ttr = own.unwrap_or(topic.ttr);
                    let consumer = Consumer { queue: &server.queue, name: &name, topic };
                    if let Some(more) = ttr.checked_sub(FIRST_LEASE).filter(|more| !more.is_zero())
                    {
                        let extended =
                            consumer.extend(&wanted.consumer, &lease.id, &lease.token, more).await;
                        if let Ok(token) = extended.map_err(refused)? {
                            lease.token = token;
                        }
                    }
                    let id = lease.id.to_string();
                    let index =
                        CommandIndex { queue: &server.queue, prefix: &manifest.redis.prefix };
                    index.note(&id, &name, ttr).await?;
                    let value = value_of(&lease.payload, lease.options.as_ref().ok());
                    let token = Some(token_text(&lease.token));
                    CommandAnswer { value, token, ..CommandAnswer::done(&id) }
                }
            };
            // Texts and numbers: there is nothing in it that JSON could not hold.
            Ok((Bytes::from(serde_json::to_vec(&answer).unwrap_or_default()), given))
        })
        .await
    }

    async fn finish(&self, finish: Finish) -> Result<CommandAnswer, Problem> {
        let text = finish.id.text();
        let Some((name, id)) = self.find(&text, &[Scope::Consume]).await? else {
            return Ok(CommandAnswer::refused(Some(&text), "no job has this id"));
        };
        let job = self.server.queue.get(&name, &id).await?;
        let Some(lease) = job.as_ref().and_then(|job| job.lease.as_ref()) else {
            let now = match job.map(|job| job.state) {
                None => "it is finished or deleted already",
                Some(JobState::Done | JobState::Held) => "it is finished already",
                Some(JobState::Dead) => "it is dead: it was given up",
                Some(_) => "its TTR is over, and it is to be delivered again",
            };
            return Ok(CommandAnswer::refused(Some(&text), now));
        };
        let who = finish.consumer.unwrap_or_else(|| self.name.clone());
        let is_theirs = match &finish.token {
            Some(token) => *token == lease.token,
            None => lease.holder.as_deref() == Some(who.as_str()),
        };
        let late = "too late: its TTR was over, and another consumer has the job now";
        let token = lease.token.parse::<Token>().ok().filter(|_| is_theirs);
        let Some(token) = token else { return Ok(CommandAnswer::refused(Some(&text), late)) };
        let topic = settings(self.manifest, &name)?;
        let consumer = Consumer { queue: &self.server.queue, name: &name, topic };
        match consumer.settle(&id, &token, Said::Ack { result: None }).await? {
            Answer::Settled(settled) => {
                self.server.settled(&name, &id, settled, None);
                self.index().forget(&text).await?;
                Ok(CommandAnswer::done(&text))
            }
            Answer::Lost(_) => Ok(CommandAnswer::refused(Some(&text), late)),
        }
    }

    async fn delete(&self, text: &str) -> Result<CommandAnswer, Problem> {
        let Some((name, id)) = self.find(text, &[Scope::Push, Scope::Consume]).await? else {
            return Ok(CommandAnswer::refused(Some(text), "no job has this id"));
        };
        let queue = &self.server.queue;
        let is_gone = match queue.cancel(&name, &id).await? {
            Cancelled::Cancelled | Cancelled::Leased => true,
            Cancelled::None => queue.prune(&name, std::slice::from_ref(&id)).await? > 0,
        };
        self.index().forget(text).await?;
        if is_gone {
            return Ok(CommandAnswer::done(text));
        }
        Ok(CommandAnswer::refused(Some(text), "it is finished or deleted already"))
    }

    /// Where a job is, if the caller may do this there.
    async fn find(
        &self,
        text: &str,
        scopes: &[Scope],
    ) -> Result<Option<(TopicName, JobId)>, Problem> {
        let Some(name) = self.index().find(text).await? else {
            self.caller.check(Takes::Any, None)?;
            return Ok(None);
        };
        let allowed = scopes.iter().map(|scope| self.caller.check(Takes::One(*scope), Some(&name)));
        allowed.reduce(Result::or).unwrap_or(Ok(()))?;
        settings(self.manifest, &name)?;
        Ok(Some((name, JobId::from_redis(text.to_owned()))))
    }
}

impl Text {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        }
    }
}

fn seconds(seconds: f64, field: &str) -> Result<Duration, Problem> {
    let most = Duration::from_millis(DELAY_MAX_MS);
    let span = Duration::try_from_secs_f64(seconds).ok().filter(|span| *span <= most);
    span.ok_or_else(|| {
        let detail = format!("{field} is {seconds}: it is no number of seconds within ten years");
        Problem::bad(detail, "send seconds, such as 30").of(field)
    })
}

/// A body as the job's payload, as it is written. Of JSON that is no text it is noted that it was JSON.
fn written(body: Option<&RawValue>, options: Options) -> Result<(Bytes, Options), Problem> {
    let Some(json) = body.map(RawValue::get) else { return Ok((Bytes::new(), options)) };
    let payload = bytes_of_json(json).map_err(|no_job| Problem::bad(no_job.why, "send a text"))?;
    if json.starts_with('"') {
        return Ok((payload, options));
    }
    let options = options.with_header(BODY_KIND, JSON);
    let options = options.map_err(|error| Problem::bad(error.to_string(), "send a text"))?;
    Ok((payload, options))
}

/// A payload as it was added.
fn value_of(payload: &[u8], options: Option<&Options>) -> Option<Box<RawValue>> {
    let kind = options.and_then(|options| options.headers().get(BODY_KIND));
    let text = String::from_utf8_lossy(payload).into_owned();
    if kind.is_some_and(|kind| kind == JSON)
        && let Ok(json) = RawValue::from_string(text.clone())
    {
        return Some(json);
    }
    serde_json::value::to_raw_value(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_comes_back_as_it_was_added() {
        for json in
            [r#""text""#, r#"{"b": 1.50,"a":[1,null]}"#, "17", "null", "true", r#""{\"a\":1}""#]
        {
            let body: &RawValue = serde_json::from_str(json).unwrap();
            let (payload, options) = written(Some(body), Options::default()).unwrap();
            assert_eq!(value_of(&payload, Some(&options)).unwrap().get(), json);
        }
    }

    #[test]
    fn seconds_have_bounds() {
        assert_eq!(seconds(1.5, "delay").unwrap(), Duration::from_millis(1_500));
        for bad in [-1.0, 1e12, f64::NAN, f64::INFINITY] {
            assert!(seconds(bad, "delay").is_err(), "{bad}");
        }
    }
}
