//! `POST /`: the command protocol of add, pop, finish and delete, for clients that already use it.
//!
//! Times are in seconds, and ids are global for each token: a job is found by its id alone. A popped job that is
//! not finished within its TTR is delivered again. A later `finish` of the first consumer changes
//! nothing: the token of the pop identifies it or, without a token, the consumer's name.

mod body;
pub(super) mod index;

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use duebox_job::{DELAY_MAX_MS, JobId, Options, TopicName};
use duebox_queue::{Cancelled, Due, JobState, NewJob, Pushed, Token};
use serde_json::value::RawValue;

use self::body::{Add, Command, CommandHead, CommandResponse, CommandWord, Delete, Finish, Pop};
use self::index::CommandIndex;
use super::leases::{PullRequest, PulledJobs, deliver, lease_jobs, pull_problem};
use super::push::word_of;
use crate::auth::tokens::Scope;
use crate::http::access::{Caller, RequiredScope};
use crate::http::body::{self as request_body, RequestBody};
use crate::http::connection::Peer;
use crate::http::problem::Problem;
use crate::http::state::{ServerState, settings};
use crate::manifest::Manifest;
use crate::observe::traces::IncomingContext;
use crate::service::leased_job::token_text;
use crate::service::pull_consumer::{Consumer, ConsumerVerdict, SettleResponse};
use crate::service::written_job::bytes_of_json;

/// Duration of the lease before the job's own TTR is known.
const FIRST_LEASE: Duration = Duration::from_secs(1);
/// Maximum TTR.
const TTR_MAX: Duration = Duration::from_secs(24 * 3600);
/// The header of a job whose body was JSON other than a string.
const BODY_KIND: &str = "command-body";
const JSON: &str = "json";

/// The context of a command.
struct CommandContext<'a> {
    server: &'a ServerState,
    manifest: &'a Manifest,
    caller: &'a Caller,
    /// The default name of the consumer.
    name: String,
    /// The trace context of the request.
    came: IncomingContext,
}

/// Run a command: add, pop, finish or delete
///
/// Returns 200 with `success` for every valid command, whether it succeeded or not. A `pop` without
/// a job returns `success: false`. Delay and TTR are in seconds.
#[utoipa::path(
    post,
    path = "/",
    tag = "commands",
    request_body = Command,
    responses((status = 200, body = CommandResponse)),
)]
pub(super) async fn command(
    State(server): State<ServerState>,
    Extension(caller): Extension<Caller>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    body: RequestBody,
) -> Result<Response, Problem> {
    let manifest = server.manifest();
    let bytes = request_body::json_bytes(&headers, body, manifest.server.max_body).await?;
    let (name, came) = (caller.name(peer), IncomingContext::with(&headers));
    let context =
        CommandContext { server: &server, manifest: &manifest, caller: &caller, name, came };
    let answer = match request_body::read::<CommandHead>(&bytes)?.command {
        CommandWord::Pop => return context.pop(request_body::read(&bytes)?).await,
        CommandWord::Add => context.add(request_body::read(&bytes)?).await?,
        CommandWord::Finish => context.finish(request_body::read(&bytes)?).await?,
        CommandWord::Delete => {
            context.delete(&request_body::read::<Delete>(&bytes)?.id.text()).await?
        }
    };
    Ok((StatusCode::OK, Json(answer)).into_response())
}

impl CommandContext<'_> {
    fn index(&self) -> CommandIndex<'_> {
        CommandIndex {
            queue: &self.server.queue,
            prefix: &self.manifest.redis.prefix,
            token: self.caller.token_name(),
        }
    }

    fn topic(&self, name: &str, scope: Scope) -> Result<TopicName, Problem> {
        let name = TopicName::new(name).map_err(|error| {
            Problem::bad(error.to_string(), "send the name of a topic").of("topic")
        })?;
        self.caller.check(RequiredScope::One(scope), Some(&name))?;
        settings(self.manifest, &name)?;
        Ok(name)
    }

    async fn add(&self, add: Add<'_>) -> Result<CommandResponse, Problem> {
        let name = self.topic(&add.topic, Scope::Push)?;
        let topic = settings(self.manifest, &name)?;
        let text = add.id.text();
        let id = JobId::new(text.clone())
            .map_err(|error| Problem::bad(error.to_string(), "send a valid id").of("id"))?;
        let delay = add.delay.map_or(Ok(topic.delay), |delay| seconds(delay, "delay"))?;
        let mut options = Options::default();
        if let Some(ttr) = add.ttr {
            let ttr = seconds(ttr, "TTR")?;
            if !(Duration::from_millis(1)..=TTR_MAX).contains(&ttr) {
                return Err(Problem::bad(
                    "a TTR must be from 0.001 to 86400 seconds",
                    "send a TTR in this range",
                )
                .of("TTR"));
            }
            options = options.with_ttr(ttr);
        }
        let (payload, options) = payload_of(add.body, options)?;
        if payload.len() > topic.limits.payload {
            let why = crate::service::written_job::payload_too_long(topic.limits.payload);
            return Err(Problem::bad(why, "send a shorter body").of("body"));
        }
        if let Some(elsewhere) = self.index().claim(&text, &name, delay).await?
            && elsewhere != name
            && self.caller.sees(&elsewhere)
        {
            let job = self.server.queue.get(&elsewhere, &id).await?;
            if job.is_some_and(|job| job.state.is_live()) {
                let why = format!("a live job in {elsewhere} has id {text}");
                return Ok(CommandResponse::refused(Some(&text), why));
            }
        }
        self.index().note(&text, &name, delay).await?;
        let due = if delay.is_zero() { Due::Now } else { Due::In(delay) };
        self.server.ensure_limits(&name, topic).await?;
        let job = NewJob { id, due, payload, options };
        let pushed = self.server.push(&name, vec![job], topic.if_exists, &self.came).await?;
        let pushed = pushed.first().map_or(Pushed::Exists, |(_, pushed)| *pushed);
        Ok(match word_of(pushed, topic.if_exists) {
            (_, None) => CommandResponse::done(&text),
            (_, Some(why)) => CommandResponse::refused(Some(&text), why),
        })
    }

    async fn pop(&self, pop: Pop) -> Result<Response, Problem> {
        let name = self.topic(&pop.topic, Scope::Consume)?;
        let request = PullRequest {
            consumer: pop.consumer.unwrap_or_else(|| self.name.clone()),
            jobs: 1,
            bytes_max: None,
            min_age: Duration::ZERO,
            lease: FIRST_LEASE,
            wait: pop.wait.map_or(Ok(Duration::ZERO), |wait| seconds(wait, "wait"))?,
        };
        let (server, caller) = (self.server.clone(), self.caller.clone());
        deliver(self.server, |gone| async move {
            let manifest = server.manifest();
            let PulledJobs { mut delivery, paused, .. } =
                lease_jobs(&server, &name, &request, gone).await?;
            let answer = match delivery.leases.first_mut() {
                None if paused => CommandResponse::refused(None, format!("{name} is paused")),
                None => CommandResponse::refused(None, "no job is due"),
                Some(lease) => {
                    let topic = settings(&manifest, &name)?;
                    let own = lease.options.as_ref().ok().and_then(Options::ttr);
                    let ttr = own.unwrap_or(topic.ttr);
                    let consumer = Consumer { queue: &server.queue, name: &name, topic };
                    if let Some(more) = ttr.checked_sub(FIRST_LEASE).filter(|more| !more.is_zero())
                    {
                        let extended =
                            consumer.extend(&request.consumer, &lease.id, &lease.token, more).await;
                        if let Ok(token) = extended.map_err(pull_problem)? {
                            lease.token = token;
                        }
                    }
                    let id = lease.id.to_string();
                    let index = CommandIndex {
                        queue: &server.queue,
                        prefix: &manifest.redis.prefix,
                        token: caller.token_name(),
                    };
                    index.note(&id, &name, ttr).await?;
                    let value = value_of(&lease.payload, lease.options.as_ref().ok());
                    let token = Some(token_text(&lease.token));
                    CommandResponse { value, token, ..CommandResponse::done(&id) }
                }
            };
            // Texts and numbers: serialization to JSON cannot fail.
            Ok((Bytes::from(serde_json::to_vec(&answer).unwrap_or_default()), delivery))
        })
        .await
    }

    async fn finish(&self, finish: Finish) -> Result<CommandResponse, Problem> {
        let text = finish.id.text();
        let Some((name, id)) = self.find(&text, &[Scope::Consume]).await? else {
            return Ok(CommandResponse::refused(Some(&text), "no job has this id"));
        };
        let job = self.server.queue.get(&name, &id).await?;
        let Some(lease) = job.as_ref().and_then(|job| job.lease.as_ref()) else {
            let now = match job.map(|job| job.state) {
                None => "it is already finished or deleted",
                Some(JobState::Done | JobState::Held) => "it is already finished",
                Some(JobState::Dead) => "it is dead: its attempts are spent",
                Some(_) => "its TTR has passed, and it will be delivered again",
            };
            return Ok(CommandResponse::refused(Some(&text), now));
        };
        let consumer_name = finish.consumer.unwrap_or_else(|| self.name.clone());
        let is_holder = match &finish.token {
            Some(token) => *token == lease.token,
            None => lease.holder.as_deref() == Some(consumer_name.as_str()),
        };
        let late = "too late: its TTR has passed, and another consumer has the job";
        let token = lease.token.parse::<Token>().ok().filter(|_| is_holder);
        let Some(token) = token else { return Ok(CommandResponse::refused(Some(&text), late)) };
        let topic = settings(self.manifest, &name)?;
        let consumer = Consumer { queue: &self.server.queue, name: &name, topic };
        match consumer.settle(&id, &token, ConsumerVerdict::Ack { result: None }).await? {
            SettleResponse::Settled(settled) => {
                self.server.record_settled(&name, &id, settled, None);
                self.index().forget(&text).await?;
                Ok(CommandResponse::done(&text))
            }
            SettleResponse::Lost(_) => Ok(CommandResponse::refused(Some(&text), late)),
        }
    }

    async fn delete(&self, text: &str) -> Result<CommandResponse, Problem> {
        let Some((name, id)) = self.find(text, &[Scope::Push, Scope::Consume]).await? else {
            return Ok(CommandResponse::refused(Some(text), "no job has this id"));
        };
        let queue = &self.server.queue;
        let is_gone = match queue.cancel(&name, &id).await? {
            Cancelled::Cancelled | Cancelled::Leased => true,
            Cancelled::None => queue.prune(&name, std::slice::from_ref(&id)).await? > 0,
        };
        self.index().forget(text).await?;
        if is_gone {
            return Ok(CommandResponse::done(text));
        }
        Ok(CommandResponse::refused(Some(text), "it is already finished or deleted"))
    }

    /// The topic of a job, if the caller has one of these scopes there.
    async fn find(
        &self,
        text: &str,
        scopes: &[Scope],
    ) -> Result<Option<(TopicName, JobId)>, Problem> {
        let found = self.index().find(text).await?;
        // A topic that the token does not cover any more is not named.
        let Some(name) = found.filter(|name| self.caller.sees(name)) else { return Ok(None) };
        let allowed =
            scopes.iter().map(|scope| self.caller.check(RequiredScope::One(*scope), Some(&name)));
        allowed.reduce(Result::or).unwrap_or(Ok(()))?;
        settings(self.manifest, &name)?;
        Ok(Some((name, JobId::from_redis(text.to_owned()))))
    }
}

fn seconds(seconds: f64, field: &str) -> Result<Duration, Problem> {
    let most = Duration::from_millis(DELAY_MAX_MS);
    let span = Duration::try_from_secs_f64(seconds).ok().filter(|span| *span <= most);
    span.ok_or_else(|| {
        let detail =
            format!("{field} is {seconds}, which is not a number of seconds within ten years");
        Problem::bad(detail, "send seconds, such as 30").of(field)
    })
}

/// A body as the job's payload, unchanged. A header marks JSON other than a string.
fn payload_of(body: Option<&RawValue>, options: Options) -> Result<(Bytes, Options), Problem> {
    let Some(json) = body.map(RawValue::get) else { return Ok((Bytes::new(), options)) };
    let payload =
        bytes_of_json(json).map_err(|invalid| Problem::bad(invalid.why, "send a text"))?;
    if json.starts_with('"') {
        return Ok((payload, options));
    }
    let options = options.with_header(BODY_KIND, JSON);
    let options = options.map_err(|error| Problem::bad(error.to_string(), "send a text"))?;
    Ok((payload, options))
}

/// A payload as the body that was added.
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
    fn a_body_is_returned_as_added() {
        for json in
            [r#""text""#, r#"{"b": 1.50,"a":[1,null]}"#, "17", "null", "true", r#""{\"a\":1}""#]
        {
            let body: &RawValue = serde_json::from_str(json).unwrap();
            let (payload, options) = payload_of(Some(body), Options::default()).unwrap();
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
