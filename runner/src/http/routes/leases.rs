//! `POST /v1/topics/{topic}/leases`: due jobs for consumers, with a wait if there are none.
//!
//! All who wait share the daemon's subscription to wake-ups. What was leased for somebody who has gone
//! before the answer left is given back, and spends no attempt.

use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use duebox_job::{TopicName, parse_duration};
use duebox_queue::{Lease, Verdict};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tracing::debug;
use utoipa::{IntoParams, ToSchema};

use crate::http::access::Caller;
use crate::http::listener::Peer;
use crate::http::params::Params;
use crate::http::path::TopicPath;
use crate::http::problem::{INTERNAL, Problem};
use crate::http::state::{ServerState, settings};
use crate::service::leased_job::LeasedJob;
use crate::service::pull_consumer::{Consumer, PullFailure, Wish};
use crate::service::schema::{DurationText, TopicText};

/// The most payload bytes that can be asked for.
const BYTES_MAX: u64 = 1 << 40;

/// What a consumer wants.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PullParams {
    /// Jobs at most, 1 to 1000; 10 if it is left out.
    #[param(minimum = 1, maximum = 1000)]
    max: Option<u32>,
    /// How long to wait if no job is due, up to 60s; not at all if it is left out.
    #[param(value_type = Option<DurationText>)]
    wait: Option<String>,
    /// How long the jobs are yours, 1ms to 24h; 60s if it is left out.
    #[param(value_type = Option<DurationText>)]
    lease: Option<String>,
    /// Only jobs that have been due for so long.
    #[param(value_type = Option<DurationText>)]
    min_age: Option<String>,
    /// Payload bytes at most; one job is always given.
    #[param(minimum = 1)]
    bytes: Option<u64>,
    /// Your name, for those who look who has a job: 1 to 128 visible ASCII characters.
    consumer: Option<String>,
}

/// Jobs that are yours now.
#[derive(Serialize, ToSchema)]
pub(super) struct PullAnswer<'a> {
    /// The jobs, in the order in which they are to run; none if none fell due within the wait.
    jobs: Vec<LeasedJob<'a>>,
    /// Why there are none: the topic is paused.
    paused: bool,
    /// Why there are none: the topic is at its rate, or at max_running.
    limited: bool,
}

/// Pull due jobs, or wait for some
///
/// Answers as soon as there is one job, with as many as are due then. Settle each with its token before
/// its lease expires, or extend it; what is not settled in time comes back, and counts as a crash.
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/leases",
    tag = "consumers",
    params(("topic" = inline(TopicText), Path), PullParams),
    responses((status = 200, body = PullAnswer)),
)]
pub(super) async fn pull(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
    Params(params): Params<PullParams>,
    Extension(caller): Extension<Caller>,
    Extension(Peer(peer)): Extension<Peer>,
) -> Result<Response, Problem> {
    let wanted = params.wanted(caller.name(peer))?;
    let state = server.clone();
    give(&server, |gone| async move {
        let manifest = state.manifest();
        let Taken { given, paused, limited } = take(&state, &name, &wanted, gone).await?;
        let topic = settings(&manifest, &name)?;
        let jobs = given.leases.iter().map(|lease| LeasedJob::of(lease, topic)).collect();
        // Texts and numbers: there is nothing in it that JSON could not hold.
        let json = serde_json::to_vec(&PullAnswer { jobs, paused, limited }).unwrap_or_default();
        Ok((json.into(), given))
    })
    .await
}

/// Takes jobs for a client, and answers with them. The work is told when the client has gone, and goes on
/// to its end all the same, so that nothing is leased that nobody knows of.
pub(super) async fn give<F>(
    server: &ServerState,
    work: impl FnOnce(oneshot::Receiver<()>) -> F,
) -> Result<Response, Problem>
where
    F: Future<Output = Result<(Bytes, Given), Problem>> + Send + 'static,
{
    let (_here, gone) = oneshot::channel::<()>();
    let (json, given) = server.threads.spawn(work(gone)).await.map_err(|error| {
        Problem::new(INTERNAL, format!("the pull broke off: {error}"), "look into the log")
    })??;
    Ok(answer(json, given))
}

/// Leases jobs, or waits for some until the client has gone or the daemon stops.
pub(super) async fn take(
    server: &ServerState,
    name: &TopicName,
    wanted: &Wanted,
    gone: oneshot::Receiver<()>,
) -> Result<Taken, Problem> {
    let manifest = server.manifest();
    let topic = settings(&manifest, name)?;
    let wish = Wish {
        consumer: &wanted.consumer,
        jobs: wanted.jobs,
        bytes_max: wanted.bytes_max,
        min_age: wanted.min_age,
        lease: wanted.lease,
        wait: wanted.wait,
        poll: manifest.redis.poll,
    };
    let queue = server.queue_of(name, topic).await?;
    let stopped = server.stopped();
    let mut bell = server.bells.subscribe(name, async move {
        tokio::select! {
            _ = gone => {}
            () = stopped => {}
        }
    });
    let consumer = Consumer { queue, name, topic };
    let pulled = consumer.pull_with_receiver(&wish, &mut bell).await.map_err(refused)?;
    let given = Given { server: server.clone(), topic: name.clone(), leases: pulled.leases };
    Ok(Taken { given, paused: pulled.paused, limited: pulled.limited })
}

/// An answer whose jobs are the client's as soon as its body is on its way.
fn answer(json: Bytes, mut given: Given) -> Response {
    let length = HeaderValue::from(json.len());
    let body = futures_util::stream::once(async move {
        given.leases.clear();
        Ok::<_, std::convert::Infallible>(json)
    });
    let mut answer = Response::new(Body::from_stream(body));
    *answer.status_mut() = StatusCode::OK;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CONTENT_LENGTH, length);
    answer
}

/// What is to be taken, and for whom.
pub(super) struct Wanted {
    pub(super) consumer: String,
    pub(super) jobs: usize,
    pub(super) bytes_max: Option<u64>,
    pub(super) min_age: Duration,
    pub(super) lease: Duration,
    pub(super) wait: Duration,
}

/// What was taken, or why nothing was.
pub(super) struct Taken {
    pub(super) given: Given,
    pub(super) paused: bool,
    pub(super) limited: bool,
}

/// Jobs on their way to a client. Dropped before they are there, they are given back.
pub(super) struct Given {
    server: ServerState,
    topic: TopicName,
    pub(super) leases: Vec<Lease>,
}

impl Drop for Given {
    fn drop(&mut self) {
        let leases = std::mem::take(&mut self.leases);
        if leases.is_empty() {
            return;
        }
        let (server, topic) = (self.server.clone(), self.topic.clone());
        self.server.threads.spawn(async move {
            for lease in leases {
                let verdict = Verdict::Release { delay: Duration::ZERO };
                let given = server.queue.settle_one(&topic, &lease.id, &lease.token, verdict).await;
                if let Err(error) = given {
                    debug!(%topic, job_id = %lease.id, %error, "not given back; its lease expires");
                }
            }
        });
    }
}

impl PullParams {
    fn wanted(self, caller: String) -> Result<Wanted, Problem> {
        let span = |text: &Option<String>, field: &str, default| match text {
            None => Ok(Duration::from_secs(default)),
            Some(text) => duration(text, field),
        };
        if self.bytes.is_some_and(|bytes| !(1..=BYTES_MAX).contains(&bytes)) {
            return Err(Problem::bad("bytes are from 1 to 1 TiB", "ask for so many").of("bytes"));
        }
        Ok(Wanted {
            jobs: self.max.unwrap_or(10) as usize,
            bytes_max: self.bytes,
            min_age: span(&self.min_age, "min_age", 0)?,
            lease: span(&self.lease, "lease", 60)?,
            wait: span(&self.wait, "wait", 0)?,
            consumer: self.consumer.unwrap_or(caller),
        })
    }
}

/// A duration that stands in a field.
pub(super) fn duration(text: &str, field: &str) -> Result<Duration, Problem> {
    parse_duration(text).map_err(|error| {
        Problem::bad(error.to_string(), "write numbers with units, such as 30s or 1h30m").of(field)
    })
}

/// Why nothing was pulled, or extended.
pub(super) fn refused(failure: PullFailure) -> Problem {
    match failure {
        PullFailure::Wish(error) => {
            Problem::bad(error.to_string(), "see the parameters in /openapi.json")
        }
        PullFailure::Queue(error) => error.into(),
    }
}
