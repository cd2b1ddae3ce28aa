//! `GET /v1/topics/{topic}/jobs`: the live jobs of a topic, and its recent attempts in this
//! process.

use axum::Json;
use axum::extract::State;
use duebox_queue::LiveJob;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::http::params::Params;
use crate::http::path::TopicPath;
use crate::http::problem::Problem;
use crate::http::state::{ServerState, known};
use crate::observe::recent_attempts::RecentAttempt;
use crate::service::schema::TopicText;

/// Parameters of the list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LiveListParams {
    /// Maximum number of jobs per state, 1 to 1000; default: 20.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Live jobs of a topic.
#[derive(Serialize, ToSchema)]
pub(super) struct LiveJobs {
    /// The topic.
    topic: String,
    /// The first live jobs of each state, sorted by time: `unack`, `ready`, `blocked`, `retry`,
    /// `pending`.
    jobs: Vec<ShownLiveJob>,
    /// The recent attempts of this daemon, the latest first; at most 20.
    latest: Vec<RecentAttempt>,
}

/// A live job in a list.
#[derive(Serialize, ToSchema)]
struct ShownLiveJob {
    /// Its id.
    id: String,
    /// Its state.
    state: &'static str,
    /// Its due time or next attempt; for a leased job, the end of its lease. Unix ms.
    at_ms: u64,
}

/// List live jobs and recent attempts of a topic
#[utoipa::path(
    get,
    path = "/v1/topics/{topic}/jobs",
    tag = "jobs",
    params(("topic" = inline(TopicText), Path), LiveListParams),
    responses((status = 200, body = LiveJobs)),
)]
pub(super) async fn list(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
    Params(params): Params<LiveListParams>,
) -> Result<Json<LiveJobs>, Problem> {
    known(&server, &name).await?;
    let limit = params.limit.unwrap_or(20);
    if !(1..=1_000).contains(&limit) {
        return Err(Problem::bad(
            "the limit must be from 1 to 1000",
            "send a number in this range",
        )
        .of("limit"));
    }
    let jobs = server.queue.list_live(&name, limit as usize).await?;
    let watched = server.watched.borrow().clone();
    let own = watched.iter().find(|watched| watched.topic == name.as_str());
    let serving = own.and_then(|watched| watched.serving.as_ref());
    let latest = serving.map(|serving| serving.recent_attempts.attempts()).unwrap_or_default();
    let shown = |job: LiveJob| ShownLiveJob {
        id: job.id.to_string(),
        state: job.state.word(),
        at_ms: job.at_ms,
    };
    let jobs = jobs.into_iter().map(shown).collect();
    Ok(Json(LiveJobs { topic: name.to_string(), jobs, latest }))
}
