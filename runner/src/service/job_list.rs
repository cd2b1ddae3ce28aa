//! A list of the jobs of one state, with a bound on how many jobs it looks at.
//!
//! Without a selection the list ends with its limit. With the start of an id or a header it looks at jobs
//! until enough match, and stops at its bound: the list then says so, and where to continue.

use duebox_job::TopicName;
use duebox_queue::{BATCH_MAX, JobQuery, JobState, ListedJob, Queue, QueueError};
use serde::Serialize;
use utoipa::ToSchema;

/// A page of the jobs of one state.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobList {
    /// The topic.
    pub(crate) topic: String,
    /// The state.
    pub(crate) state: &'static str,
    /// The jobs: the next ones first, of dead and done jobs the latest.
    pub(crate) jobs: Vec<ShownListedJob>,
    /// Where the next page begins, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
    /// How many jobs of the state this page looked at.
    pub(crate) looked_at: u64,
    /// True if it stopped at its bound before `limit` jobs matched: there may be more behind `next`.
    pub(crate) stopped: bool,
}

/// A job in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownListedJob {
    /// Its id.
    pub(crate) id: String,
    /// Its state.
    pub(crate) state: &'static str,
    /// Its due time or next attempt; for a leased job, the end of its lease; for an ended job, its end.
    /// Unix ms.
    pub(crate) at_ms: u64,
    /// Attempts that have failed so far; of live jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failures: Option<u32>,
    /// Runs that ended with the runner's death; of live jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) crashes: Option<u32>,
    /// The failure class of its last attempt, if that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) class: Option<String>,
    /// Why its last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The attempt that failed or was acked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<u64>,
}

impl ShownListedJob {
    fn new(state: JobState, job: ListedJob) -> Self {
        let ListedJob { id, at_ms, failures, crashes, class, reason, attempt } = job;
        Self {
            id: id.to_string(),
            state: state.word(),
            at_ms,
            failures: state.is_live().then_some(failures),
            crashes: state.is_live().then_some(crashes),
            class,
            reason,
            attempt,
        }
    }
}

impl JobList {
    /// Reads one page. It stops once it has looked at `looks_max` jobs, or up to 1,000 of each shard later.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub(crate) async fn read(
        queue: &Queue,
        topic: &TopicName,
        mut query: JobQuery,
        looks_max: u64,
    ) -> Result<Self, QueueError> {
        let (limit, mut jobs, mut looked_at) = (query.limit.clamp(1, BATCH_MAX), Vec::new(), 0_u64);
        query.limit = limit;
        loop {
            let page = queue.list_state(topic, &query).await?;
            looked_at = looked_at.saturating_add(page.looked_at);
            jobs.extend(page.jobs.into_iter().map(|job| ShownListedJob::new(query.state, job)));
            let is_full = jobs.len() >= limit;
            if is_full || page.next.is_none() || looked_at >= looks_max {
                return Ok(Self {
                    topic: topic.to_string(),
                    state: query.state.word(),
                    stopped: !is_full && page.next.is_some(),
                    next: page.next.map(|next| next.to_string()),
                    looked_at,
                    jobs,
                });
            }
            query.limit = limit - jobs.len();
            query.after = page.next;
        }
    }
}
