//! `/v1/topics/{topic}/pause`, `resume`, `reload`, `rollback`: commands on topics, carried out by all daemons.

use axum::Json;
use axum::extract::State;
use duebox_job::TopicName;
use serde::Serialize;
use utoipa::ToSchema;

use crate::background::control_channel::{Order, Replies, Reply};
use crate::http::path::TopicPath;
use crate::http::problem::{NOT_FOLLOWED, Problem};
use crate::http::state::{ServerState, known};
use crate::service::schema::TopicText;

/// Whether a topic is paused.
#[derive(Serialize, ToSchema)]
pub(super) struct PauseResponse {
    /// The topic.
    topic: String,
    /// Whether it is paused now.
    paused: bool,
    /// Whether the request changed it.
    changed: bool,
}

/// The replies of the daemons to a command.
#[derive(Serialize, ToSchema)]
pub(super) struct CommandReplies {
    /// The topic.
    topic: String,
    /// The reply of each daemon.
    runners: Vec<Reply>,
}

/// Pause a topic: no runner starts its jobs until it is resumed
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/pause",
    tag = "topics",
    params(("topic" = inline(TopicText), Path)),
    responses((status = 200, body = PauseResponse)),
)]
pub(super) async fn pause(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
) -> Result<Json<PauseResponse>, Problem> {
    set_paused(&server, &name, true).await
}

/// Resume a paused topic
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/resume",
    tag = "topics",
    params(("topic" = inline(TopicText), Path)),
    responses((status = 200, body = PauseResponse)),
)]
pub(super) async fn resume(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
) -> Result<Json<PauseResponse>, Problem> {
    set_paused(&server, &name, false).await
}

async fn set_paused(
    server: &ServerState,
    name: &TopicName,
    paused: bool,
) -> Result<Json<PauseResponse>, Problem> {
    known(server, name).await?;
    if let Some(topic) = server.manifest().topic_for(name) {
        server.ensure_limits(name, topic).await?;
    }
    let queue = &server.queue;
    let changed = if paused { queue.pause(name).await? } else { queue.resume(name).await? };
    Ok(Json(PauseResponse { topic: name.to_string(), paused, changed }))
}

/// Check a topic's module files for changes now, in every daemon
///
/// Changes are detected automatically; this is for file systems without change notifications. Valid
/// changes are applied as usual.
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/reload",
    tag = "topics",
    params(("topic" = inline(TopicText), Path)),
    responses((status = 200, body = CommandReplies), (status = 409, body = Problem, content_type = "application/problem+json", description = "Not every daemon carried out the command")),
)]
pub(super) async fn reload(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
) -> Result<Json<CommandReplies>, Problem> {
    send(&server, &name, &Order::reload(name.as_str())).await
}

/// Roll a topic back to its previous module, in every daemon
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/rollback",
    tag = "topics",
    params(("topic" = inline(TopicText), Path)),
    responses((status = 200, body = CommandReplies), (status = 409, body = Problem, content_type = "application/problem+json", description = "Not every daemon carried out the command")),
)]
pub(super) async fn rollback(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
) -> Result<Json<CommandReplies>, Problem> {
    send(&server, &name, &Order::rollback(name.as_str())).await
}

async fn send(
    server: &ServerState,
    name: &TopicName,
    order: &Order,
) -> Result<Json<CommandReplies>, Problem> {
    known(server, name).await?;
    let replies = Replies::collect(&server.queue, order).await?;
    match replies.trouble(name) {
        Some(trouble) => Err(Problem::new(NOT_FOLLOWED, trouble.to_string(), trouble.remedy())),
        None => Ok(Json(CommandReplies { topic: name.to_string(), runners: replies.replies })),
    }
}
