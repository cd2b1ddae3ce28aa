//! `POST /v1/topics/{topic}/leases`: leases due jobs to consumers, or waits for one.
//!
//! All waiting requests share the daemon's subscription to wake-ups. If a client disconnects before
//! its response is sent, its jobs are released, and no attempt is spent.

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
use crate::http::connection::Peer;
use crate::http::params::Params;
use crate::http::path::TopicPath;
use crate::http::problem::{INTERNAL, Problem};
use crate::http::state::{ServerState, settings};
use crate::observe::supervision::TaskKind;
use crate::service::leased_job::LeasedJob;
use crate::service::pull_consumer::{Consumer, ConsumerPull, PullFailure};
use crate::service::schema::{DurationText, TopicText};

/// Maximum value of `bytes`.
const BYTES_MAX: u64 = 1 << 40;

/// Parameters of a pull.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PullParams {
    /// Maximum number of jobs, 1 to 1000; default: 10.
    #[param(minimum = 1, maximum = 1000)]
    max: Option<u32>,
    /// How long to wait if no job is due, at most 60s; default: 0s.
    #[param(value_type = Option<DurationText>)]
    wait: Option<String>,
    /// Duration of the leases, 1ms to 24h; default: 60s.
    #[param(value_type = Option<DurationText>)]
    lease: Option<String>,
    /// Only jobs that have been due for at least this long.
    #[param(value_type = Option<DurationText>)]
    min_age: Option<String>,
    /// Maximum total payload bytes; one job is always returned.
    #[param(minimum = 1)]
    bytes: Option<u64>,
    /// The consumer's name, shown as the holder of its jobs: 1 to 128 visible ASCII characters.
    consumer: Option<String>,
}

/// The leased jobs.
#[derive(Serialize, ToSchema)]
pub(super) struct PullResponse<'a> {
    /// The jobs in order of execution; empty if none fell due within the wait.
    jobs: Vec<LeasedJob<'a>>,
    /// True if `jobs` is empty because the topic is paused.
    paused: bool,
    /// True if `jobs` is empty because the topic is at its rate or at max_running.
    limited: bool,
}

/// Pull due jobs, or wait for some
///
/// Returns as soon as one job is due, with as many as are due then. Settle each with its token
/// before its lease expires, or extend the lease. A job that is not settled in time becomes ready
/// again, and counts as a crash.
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/leases",
    tag = "consumers",
    params(("topic" = inline(TopicText), Path), PullParams),
    responses((status = 200, body = PullResponse)),
)]
pub(super) async fn pull(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
    Params(params): Params<PullParams>,
    Extension(caller): Extension<Caller>,
    Extension(Peer(peer)): Extension<Peer>,
) -> Result<Response, Problem> {
    let request = params.request(caller.name(peer))?;
    let state = server.clone();
    deliver(&server, |gone| async move {
        let manifest = state.manifest();
        let PulledJobs { delivery, paused, limited } =
            lease_jobs(&state, &name, &request, gone).await?;
        let topic = settings(&manifest, &name)?;
        let jobs = delivery.leases.iter().map(|lease| LeasedJob::of(lease, topic)).collect();
        // Texts and numbers: there is nothing in it that JSON could not hold.
        let json = serde_json::to_vec(&PullResponse { jobs, paused, limited }).unwrap_or_default();
        Ok((json.into(), delivery))
    })
    .await
}

/// Leases jobs for a client and responds with them. The receiver signals that the client has
/// disconnected; the work still runs to its end, so that no lease is left unnoticed.
pub(super) async fn deliver<F>(
    server: &ServerState,
    work: impl FnOnce(oneshot::Receiver<()>) -> F,
) -> Result<Response, Problem>
where
    F: Future<Output = Result<(Bytes, Delivery), Problem>> + Send + 'static,
{
    let (_here, gone) = oneshot::channel::<()>();
    let (supervision, work) = (server.supervision.clone(), work(gone));
    let pull = async move { supervision.contain(TaskKind::HttpRequest, work).await };
    let pulled = server.threads.spawn(pull).await.ok().flatten().ok_or_else(|| {
        let remedy =
            "look into the log of the daemon; leased jobs come back when their leases expire";
        Problem::new(INTERNAL, "the pull broke off because of a bug in Duebox", remedy)
    });
    let (json, delivery) = pulled??;
    Ok(answer(json, delivery))
}

/// Leases jobs, or waits until the client disconnects or the daemon stops.
pub(super) async fn lease_jobs(
    server: &ServerState,
    name: &TopicName,
    request: &PullRequest,
    gone: oneshot::Receiver<()>,
) -> Result<PulledJobs, Problem> {
    let manifest = server.manifest();
    let topic = settings(&manifest, name)?;
    let options = ConsumerPull {
        consumer: &request.consumer,
        jobs: request.jobs,
        bytes_max: request.bytes_max,
        min_age: request.min_age,
        lease: request.lease,
        wait: request.wait,
        poll: manifest.redis.poll,
    };
    server.ensure_limits(name, topic).await?;
    let stopped = server.stopped();
    let mut receiver = server.wake_up_hub.subscribe(name, async move {
        tokio::select! {
            _ = gone => {}
            () = stopped => {}
        }
    });
    let consumer = Consumer { queue: &server.queue, name, topic };
    let pulled =
        consumer.pull_with_receiver(&options, &mut receiver).await.map_err(pull_problem)?;
    server.pull_counters.count_leased(name, &request.consumer, pulled.leases.len());
    let delivery = Delivery { server: server.clone(), topic: name.clone(), leases: pulled.leases };
    Ok(PulledJobs { delivery, paused: pulled.paused, limited: pulled.limited })
}

/// A response whose jobs belong to the client once its body is being sent.
fn answer(json: Bytes, mut delivery: Delivery) -> Response {
    let length = HeaderValue::from(json.len());
    let body = futures_util::stream::once(async move {
        delivery.leases.clear();
        Ok::<_, std::convert::Infallible>(json)
    });
    let mut answer = Response::new(Body::from_stream(body));
    *answer.status_mut() = StatusCode::OK;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CONTENT_LENGTH, length);
    answer
}

/// A pull with its consumer.
pub(super) struct PullRequest {
    pub(super) consumer: String,
    pub(super) jobs: usize,
    pub(super) bytes_max: Option<u64>,
    pub(super) min_age: Duration,
    pub(super) lease: Duration,
    pub(super) wait: Duration,
}

/// The leased jobs, or why no job was leased.
pub(super) struct PulledJobs {
    pub(super) delivery: Delivery,
    pub(super) paused: bool,
    pub(super) limited: bool,
}

/// Jobs on their way to a client. Dropping it releases the jobs that were not sent.
pub(super) struct Delivery {
    server: ServerState,
    topic: TopicName,
    pub(super) leases: Vec<Lease>,
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let leases = std::mem::take(&mut self.leases);
        if leases.is_empty() {
            return;
        }
        let (server, topic) = (self.server.clone(), self.topic.clone());
        let supervision = self.server.supervision.clone();
        let release = async move {
            for lease in leases {
                let verdict = Verdict::Release { delay: Duration::ZERO };
                let released =
                    server.queue.settle_one(&topic, &lease.id, &lease.token, verdict).await;
                if let Err(error) = released {
                    debug!(%topic, job_id = %lease.id, %error, "the job was not released; its lease expires");
                }
            }
        };
        self.server
            .threads
            .spawn(async move { supervision.contain(TaskKind::HttpRequest, release).await });
    }
}

impl PullParams {
    fn request(self, caller: String) -> Result<PullRequest, Problem> {
        let span = |text: &Option<String>, field: &str, default| match text {
            None => Ok(Duration::from_secs(default)),
            Some(text) => duration(text, field),
        };
        if self.bytes.is_some_and(|bytes| !(1..=BYTES_MAX).contains(&bytes)) {
            return Err(Problem::bad(
                "bytes must be from 1 to 1 TiB",
                "send a number in this range",
            )
            .of("bytes"));
        }
        Ok(PullRequest {
            jobs: self.max.unwrap_or(10) as usize,
            bytes_max: self.bytes,
            min_age: span(&self.min_age, "min_age", 0)?,
            lease: span(&self.lease, "lease", 60)?,
            wait: span(&self.wait, "wait", 0)?,
            consumer: self.consumer.unwrap_or(caller),
        })
    }
}

/// Parses the duration of a field.
pub(super) fn duration(text: &str, field: &str) -> Result<Duration, Problem> {
    parse_duration(text).map_err(|error| {
        Problem::bad(error.to_string(), "write numbers with units, such as 30s or 1h30m").of(field)
    })
}

/// The problem for a failed pull or extension.
pub(super) fn pull_problem(failure: PullFailure) -> Problem {
    match failure {
        PullFailure::Options(error) => {
            Problem::bad(error.to_string(), "see the parameters in /openapi.json")
        }
        PullFailure::Queue(error) => error.into(),
    }
}
