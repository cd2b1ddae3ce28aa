//! The producers: they push the jobs of the plan, and push again what was not confirmed. Operators cancel,
//! replace and pause.

use std::sync::Arc;
use std::time::Duration;

use duebox_job::{JobId, Options, Priority};
use duebox_queue::{Cancelled, Due, IfExists, NewJob, Pushed, Queue, QueueError};
use tokio::time::{Instant, sleep, sleep_until};

use super::daemon::topic;
use super::handler::REPLACEMENT;
use super::ledger::{Ledger, PushResult, Told};
use super::plan::{JobPlan, Order, Plan, TOPICS};

/// How often a push without a reply is repeated.
const TRIES: usize = 3;
/// The wait before that.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Pushes every job at its time; those of one topic and time in one call.
pub(crate) async fn produce(plan: Arc<Plan>, queue: Queue, ledger: Ledger) {
    let began = Instant::now();
    let mut jobs: Vec<&JobPlan> = plan.jobs.iter().collect();
    jobs.sort_by_key(|job| job.push_at);
    for some in jobs.chunk_by(|a, b| (a.push_at, a.topic) == (b.push_at, b.topic)) {
        sleep_until(began + some[0].push_at).await;
        for _ in 0..TRIES {
            let results = push(&queue, some).await;
            for (job, result) in some.iter().zip(&results) {
                ledger.pushed(&job.id, *result);
            }
            if !results.contains(&PushResult::Unknown) {
                break;
            }
            sleep(AGAIN_AFTER).await;
        }
    }
}

async fn push(queue: &Queue, jobs: &[&JobPlan]) -> Vec<PushResult> {
    let new: Vec<NewJob> = jobs.iter().map(|job| new_job(job, "{}")).collect();
    let result_of = |pushed: &Pushed| match pushed {
        Pushed::Pushed | Pushed::Kept | Pushed::Held => PushResult::Confirmed,
        _ => PushResult::Refused,
    };
    match queue.push(&topic(TOPICS[jobs[0].topic]), &new, IfExists::Keep).await {
        Ok(pushed) => pushed.iter().map(result_of).collect(),
        Err(QueueError::Refused(_) | QueueError::BadCall(_)) => {
            vec![PushResult::Refused; jobs.len()]
        }
        Err(_) => vec![PushResult::Unknown; jobs.len()],
    }
}

fn new_job(job: &JobPlan, payload: &'static str) -> NewJob {
    let mut options = Options::default();
    if let Some(key) = &job.key {
        options = options.with_key(key).expect("a valid key");
    }
    if job.is_high {
        options = options.with_priority(Priority::High);
    }
    let due = if job.delay.is_zero() { Due::Now } else { Due::In(job.delay) };
    let id = JobId::new(job.id.as_str()).expect("a job's id");
    NewJob::new(id, payload).with_due(due).with_options(options)
}

/// Carries out every order at its time.
pub(crate) async fn operate(plan: Arc<Plan>, queue: Queue, ledger: Ledger) {
    let began = Instant::now();
    for (at, order) in &plan.orders {
        sleep_until(began + *at).await;
        match *order {
            Order::Cancel(place) => {
                let told = cancel(&queue, &plan.jobs[place], &ledger).await;
                ledger.account(&plan.jobs[place].id, |account| account.cancelled = Some(told));
            }
            Order::Replace(place) => {
                let told = replace(&queue, &plan.jobs[place], &ledger).await;
                ledger.account(&plan.jobs[place].id, |account| account.replaced = Some(told));
            }
            // Nothing depends on the results: a topic that stays paused is resumed at the end.
            Order::Pause(place) => drop(queue.pause(&topic(TOPICS[place])).await),
            Order::Resume(place) => drop(queue.resume(&topic(TOPICS[place])).await),
        }
    }
}

async fn cancel(queue: &Queue, job: &JobPlan, ledger: &Ledger) -> Told {
    let id = JobId::new(job.id.as_str()).expect("a job's id");
    match queue.cancel(&topic(TOPICS[job.topic]), &id).await {
        Ok(Cancelled::None) => Told::Nothing,
        Ok(Cancelled::Cancelled | Cancelled::Leased) => Told::Done(ledger.witness().now()),
        Err(_) => Told::Unknown,
    }
}

async fn replace(queue: &Queue, job: &JobPlan, ledger: &Ledger) -> Told {
    let new = new_job(job, REPLACEMENT);
    let pushed = queue.push(&topic(TOPICS[job.topic]), &[new], IfExists::Replace).await;
    match pushed.as_deref() {
        Ok([pushed]) if pushed.is_stored() => Told::Done(ledger.witness().now()),
        Ok(_) => Told::Nothing,
        Err(QueueError::Refused(_) | QueueError::BadCall(_)) => Told::Nothing,
        Err(_) => Told::Unknown,
    }
}
