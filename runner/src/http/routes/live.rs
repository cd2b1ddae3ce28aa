//! `GET /v1/topics/{topic}/jobs`: the jobs of a topic that run or come next, and its last attempts here.

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

/// How many jobs are wanted.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListParams {
    /// Jobs of each state at most, 1 to 1000; 20 if it is left out.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Jobs of a topic, one by one.
#[derive(Serialize, ToSchema)]
pub(super) struct LiveJobs {
    /// The topic.
    topic: String,
    /// The first live jobs of each state, in the order of their times: `unack`, `ready`, `blocked`, `retry`,
    /// `pending`.
    jobs: Vec<ShownLiveJob>,
    /// The last attempts that this daemon ran, the last one first; 20 at most.
    latest: Vec<RecentAttempt>,
}

/// A live job in a list.
#[derive(Serialize, ToSchema)]
struct ShownLiveJob {
    /// Its id.
    id: String,
    /// Where it is.
    state: &'static str,
    /// When it falls or fell due, or is tried again; of a leased one when its lease ends. Unix ms.
    at_ms: u64,
}

/// List the jobs of a topic that run or come next, and its last attempts
#[utoipa::path(
    get,
    path = "/v1/topics/{topic}/jobs",
    tag = "jobs",
    params(("topic" = inline(TopicText), Path), ListParams),
    responses((status = 200, body = LiveJobs)),
)]
pub(super) async fn list(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
    Params(params): Params<ListParams>,
) -> Result<Json<LiveJobs>, Problem> {
    known(&server, &name).await?;
    let limit = params.limit.unwrap_or(20);
    if !(1..=1_000).contains(&limit) {
        return Err(Problem::bad("a list has 1 to 1000 jobs", "ask for fewer").of("limit"));
    }
    let jobs = server.queue.list_live(&name, limit as usize).await?;
    let watched = server.watched.borrow().clone();
    let own = watched.iter().find(|watched| watched.topic == name.as_str());
    let serving = own.and_then(|watched| watched.serving.as_ref());
    let latest = serving.map(|serving| serving.latest.attempts()).unwrap_or_default();
    let shown = |job: LiveJob| ShownLiveJob {
        id: job.id.to_string(),
        state: job.state.word(),
        at_ms: job.at_ms,
    };
    let jobs = jobs.into_iter().map(shown).collect();
    Ok(Json(LiveJobs { topic: name.to_string(), jobs, latest }))
}
