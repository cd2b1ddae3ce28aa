//! `POST /v1/topics/{topic}/selected/…`: cancels, requeues or purges jobs by their ids. The response counts what was
//! done and names each job that was left as it is.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use duebox_job::{JobId, TopicName};
use duebox_queue::{Cancelled, QueueError, Requeued};
use futures_util::{StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::body::{self, RequestBody};
use crate::http::path::TopicPath;
use crate::http::problem::Problem;
use crate::http::state::{ServerState, known};
use crate::observe::events::EventKind;
use crate::service::schema::TopicText;

/// The most ids of a request.
const IDS_MAX: usize = 200;
/// Jobs that are purged at once.
const PURGED_AT_ONCE: usize = 16;

const NOT_DEAD: &str = "it is not dead";
const NOT_WAITING: &str = "it neither waits nor runs";
const EXISTS: &str = "a live job has its id";

/// The selected jobs.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Selection {
    /// Their ids, 1 to 200.
    ids: Vec<String>,
}

/// What became of the selected jobs.
#[derive(Serialize, ToSchema)]
pub(super) struct SelectedResponse {
    /// The topic.
    topic: String,
    /// The number of jobs that were changed.
    done: usize,
    /// Of them, jobs that run to their end and are not tried again; only for a cancellation.
    running: usize,
    /// The jobs that were left as they are.
    left: Vec<LeftJob>,
}

/// A job that was left as it is.
#[derive(Serialize, ToSchema)]
struct LeftJob {
    /// Its id.
    id: String,
    /// Why, for people.
    reason: &'static str,
}

/// Cancel selected jobs
///
/// A running job runs to its end and is not tried again.
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/selected/cancel",
    operation_id = "cancel_selected",
    tag = "jobs",
    params(("topic" = inline(TopicText), Path)),
    request_body = Selection,
    responses((status = 200, body = SelectedResponse)),
)]
pub(super) async fn cancel(
    State(server): State<ServerState>,
    TopicPath(topic): TopicPath,
    headers: HeaderMap,
    body: RequestBody,
) -> Result<Json<SelectedResponse>, Problem> {
    let ids = selected(&server, &topic, &headers, body).await?;
    let words = server.queue.cancel_many(&topic, &ids).await?;
    let mut response = SelectedResponse::new(&topic);
    for (id, word) in ids.iter().zip(words) {
        match word {
            Cancelled::Cancelled => {
                server.events.report(&topic, id, EventKind::Cancelled);
                response.done += 1;
            }
            Cancelled::Leased => {
                response.done += 1;
                response.running += 1;
            }
            Cancelled::None => response.leave(id, NOT_WAITING),
        }
    }
    Ok(Json(response))
}

/// Requeue selected dead jobs
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/selected/requeue",
    operation_id = "requeue_selected",
    tag = "dead",
    params(("topic" = inline(TopicText), Path)),
    request_body = Selection,
    responses((status = 200, body = SelectedResponse)),
)]
pub(super) async fn requeue(
    State(server): State<ServerState>,
    TopicPath(topic): TopicPath,
    headers: HeaderMap,
    body: RequestBody,
) -> Result<Json<SelectedResponse>, Problem> {
    let ids = selected(&server, &topic, &headers, body).await?;
    let words = server.queue.requeue(&topic, &ids).await?;
    let mut response = SelectedResponse::new(&topic);
    for (id, word) in ids.iter().zip(words) {
        match word {
            Requeued::Ok => {
                server.events.report(&topic, id, EventKind::Requeued);
                response.done += 1;
            }
            Requeued::Exists => response.leave(id, EXISTS),
            Requeued::None => response.leave(id, NOT_DEAD),
        }
    }
    Ok(Json(response))
}

/// Purge selected dead jobs
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/selected/purge",
    operation_id = "purge_selected",
    tag = "dead",
    params(("topic" = inline(TopicText), Path)),
    request_body = Selection,
    responses((status = 200, body = SelectedResponse)),
)]
pub(super) async fn purge(
    State(server): State<ServerState>,
    TopicPath(topic): TopicPath,
    headers: HeaderMap,
    body: RequestBody,
) -> Result<Json<SelectedResponse>, Problem> {
    let ids = selected(&server, &topic, &headers, body).await?;
    let (queue, name) = (&server.queue, &topic);
    // A call for several ids would tell only how many of them were dead.
    let prune = |id: JobId| async move {
        let purged = queue.prune(name, std::slice::from_ref(&id)).await?;
        Ok::<_, QueueError>((id, purged > 0))
    };
    let purged = futures_util::stream::iter(ids).map(prune).buffered(PURGED_AT_ONCE);
    let purged: Vec<(JobId, bool)> = purged.try_collect().await?;
    let mut response = SelectedResponse::new(&topic);
    for (id, is_purged) in &purged {
        if *is_purged {
            server.events.report(&topic, id, EventKind::Purged);
            response.done += 1;
        } else {
            response.leave(id, NOT_DEAD);
        }
    }
    Ok(Json(response))
}

/// The ids of a request to a known topic.
async fn selected(
    server: &ServerState,
    topic: &TopicName,
    headers: &HeaderMap,
    body: RequestBody,
) -> Result<Vec<JobId>, Problem> {
    let Selection { ids } = body::json(server, headers, body).await?;
    if !(1..=IDS_MAX).contains(&ids.len()) || ids.iter().any(String::is_empty) {
        let detail = format!("{} ids were sent, or an empty one", ids.len());
        let remedy = "send 1 to 200 ids, and further ones in further requests";
        return Err(Problem::bad(detail, remedy).of("ids"));
    }
    known(server, topic).await?;
    // A producer with plain commands may have chosen any bytes.
    Ok(ids.into_iter().map(JobId::from_redis).collect())
}

impl SelectedResponse {
    fn new(topic: &TopicName) -> Self {
        Self { topic: topic.to_string(), done: 0, running: 0, left: Vec::new() }
    }

    fn leave(&mut self, id: &JobId, reason: &'static str) {
        self.left.push(LeftJob { id: id.to_string(), reason });
    }
}
