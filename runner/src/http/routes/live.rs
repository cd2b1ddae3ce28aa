//! `GET /v1/topics/{topic}/jobs`: a page of the jobs of one state; without a state the live jobs of a
//! topic that come next, and its recent attempts in this process.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use duebox_job::TopicName;
use duebox_queue::{JobQuery, JobState, LiveJob};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::http::params::Params;
use crate::http::path::TopicPath;
use crate::http::problem::Problem;
use crate::http::state::{ServerState, known};
use crate::observe::recent_attempts::RecentAttempt;
use crate::service::job_list::JobList;
use crate::service::schema::TopicText;
use crate::service::value;

/// At most this many jobs are looked at for one page, and up to 1,000 more of each shard.
const LOOKS_MAX: u64 = 10_000;

/// Parameters of the list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct JobListParams {
    /// Only jobs of this state, in pages: `pending`, `ready`, `blocked`, `running` (or `unack`), `retry`, `dead` or
    /// `done`. The parameters below need it, except `limit`.
    state: Option<String>,
    /// Maximum number of jobs (per state, if no state is given), 1 to 1000; default: 20.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Continue after a previous page: its `next`.
    after: Option<String>,
    /// Only jobs whose id starts with this text.
    id: Option<String>,
    /// Only jobs with this header: `NAME=VALUE`. Not for done jobs, which keep no headers.
    header: Option<String>,
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

/// Without `state` the first jobs of each live state, with it one page.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum JobsResponse {
    /// Without `state`.
    Live(LiveJobs),
    /// With `state`.
    Page(JobList),
}

/// List the jobs of a topic
///
/// With `state` a page of its jobs, the next ones first, of dead and done jobs the latest. With `id` or
/// `header` it looks at 10,000 jobs of the state or some more, and says in `stopped` that it did not look
/// at all; continue with `after`. Without `state` the first jobs of each live state, and recent attempts.
#[utoipa::path(
    get,
    path = "/v1/topics/{topic}/jobs",
    tag = "jobs",
    params(("topic" = inline(TopicText), Path), JobListParams),
    responses((status = 200, body = JobsResponse)),
)]
pub(super) async fn list(
    State(server): State<ServerState>,
    TopicPath(name): TopicPath,
    Params(params): Params<JobListParams>,
) -> Result<Response, Problem> {
    known(&server, &name).await?;
    let limit = params.limit.unwrap_or(20);
    if !(1..=1_000).contains(&limit) {
        return Err(Problem::bad(
            "the limit must be from 1 to 1000",
            "send a number in this range",
        )
        .of("limit"));
    }
    match params.query(limit as usize)? {
        Some(query) => {
            let page = JobList::read(&server.queue, &name, query, LOOKS_MAX).await?;
            Ok(Json(JobsResponse::Page(page)).into_response())
        }
        None => {
            Ok(Json(JobsResponse::Live(live(&server, &name, limit as usize).await?))
                .into_response())
        }
    }
}

async fn live(server: &ServerState, name: &TopicName, limit: usize) -> Result<LiveJobs, Problem> {
    let jobs = server.queue.list_live(name, limit).await?;
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
    Ok(LiveJobs { topic: name.to_string(), jobs, latest })
}

impl JobListParams {
    /// The query for a page; `None` without a state.
    fn query(self, limit: usize) -> Result<Option<JobQuery>, Problem> {
        let Self { state, after, id, header, .. } = self;
        let Some(state) = state else {
            let alone =
                [("after", after.is_some()), ("id", id.is_some()), ("header", header.is_some())];
            return match alone.into_iter().find(|(_, is_given)| *is_given) {
                Some((name, _)) => Err(Problem::bad(
                    format!("{name} needs a state"),
                    "send it with state=pending, ready, blocked, running, retry, dead or done",
                )
                .of(name)),
                None => Ok(None),
            };
        };
        let state = value::state(&state)
            .map_err(|why| Problem::bad(why, "send one of these words").of("state"))?;
        let after = after.as_deref().map(value::list_cursor).transpose();
        let after = after
            .map_err(|why| Problem::bad(why, "send the next of the previous page").of("after"))?;
        let header = header.as_deref().map(value::pair).transpose();
        let header =
            header.map_err(|why| Problem::bad(why, "send header=NAME%3DVALUE").of("header"))?;
        if header.is_some() && state == JobState::Done {
            return Err(
                Problem::bad("done jobs keep no headers", "leave out the header").of("header")
            );
        }
        let id_start = id.unwrap_or_default();
        Ok(Some(JobQuery { state, id_start, header, after, limit }))
    }
}
