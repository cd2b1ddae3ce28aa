//! The producers: they push the jobs of the plan, and push again what was not confirmed.

use std::sync::Arc;
use std::time::Duration;

use duebox_job::{JobId, Options};
use duebox_queue::{Due, IfExists, NewJob, Pushed, Queue, QueueError};
use tokio::time::{Instant, sleep, sleep_until};

use super::daemon::topic;
use super::ledger::{Ledger, PushResult};
use super::plan::{JobPlan, Plan, TOPICS};

/// How often a push without a reply is repeated.
const TRIES: usize = 3;
/// The wait before that.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Pushes every job at its time.
pub(crate) async fn produce(plan: Arc<Plan>, queue: Queue, ledger: Ledger) {
    let began = Instant::now();
    for job in &plan.jobs {
        sleep_until(began + job.push_at).await;
        for _ in 0..TRIES {
            let result = push(&queue, job).await;
            ledger.pushed(&job.id, result);
            if result != PushResult::Unknown {
                break;
            }
            sleep(AGAIN_AFTER).await;
        }
    }
}

async fn push(queue: &Queue, job: &JobPlan) -> PushResult {
    let options = Options::default();
    let options = match &job.key {
        Some(key) => options.with_key(key).expect("a valid key"),
        None => options,
    };
    let due = if job.delay.is_zero() { Due::Now } else { Due::In(job.delay) };
    let id = JobId::new(job.id.as_str()).expect("a job's id");
    let new = NewJob::new(id, "{}").with_due(due).with_options(options);
    let pushed = queue.push(&topic(TOPICS[job.topic]), &[new], IfExists::Keep).await;
    match pushed.as_deref() {
        Ok([Pushed::Pushed | Pushed::Kept | Pushed::Held]) => PushResult::Confirmed,
        Ok(_) | Err(QueueError::Refused(_) | QueueError::BadCall(_)) => PushResult::Refused,
        Err(_) => PushResult::Unknown,
    }
}
