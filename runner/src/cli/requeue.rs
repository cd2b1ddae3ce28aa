//! `duebox dead requeue`, also `duebox requeue`: makes dead jobs ready again.

use std::process::ExitCode;

use clap::Args;
use duebox_job::{JobId, TopicName};
use duebox_queue::{BATCH_MAX, Queue, Requeued};
use serde::Serialize;

use super::Common;
use super::support::ended_jobs::{ChosenArgs, DeadArgs};
use super::support::failure::{FAILED, Failure};
use super::support::{output, target};

/// Make dead jobs ready again
///
/// They keep their options, and their attempts start over. A dead job whose id is live again stays
/// dead. `duebox requeue` and `duebox dead requeue` are the same.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox requeue order.close 42 43
  duebox requeue order.close --class timeout --newer-than 2h
  duebox requeue order.close --all

Exit codes:
  0  all were requeued
  1  some were not, or Redis failed
  2  bad input")]
pub(super) struct RequeueArgs {
    #[command(flatten)]
    chosen: ChosenArgs,
}

/// The result of a requeue; the JSON output.
#[derive(Default, Serialize)]
struct RequeueResult {
    requeued: u64,
    /// Ids that are live again; at most 1,000 of them.
    exists: Vec<String>,
    /// Ids of jobs that are not dead.
    none: Vec<String>,
    /// How many were not requeued.
    not_requeued: u64,
    /// The states of the jobs that are not dead, one line for each.
    #[serde(skip)]
    none_lines: Vec<String>,
}

pub(super) fn requeue(common: &Common, args: &RequeueArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    let ChosenArgs { topic, ids, which, json, .. } = &args.chosen;
    target::ids_or_filter(ids, which.is_empty())?;
    let result = target::block_on(async {
        let queue = target::connect(&manifest).await?;
        target::known_topic(&manifest, &queue, topic).await?;
        if ids.is_empty() {
            requeue_matching(&queue, topic, which).await
        } else {
            requeue_ids(&queue, topic, ids).await
        }
    })?;
    if *json {
        output::print_json(&result)?;
        return Ok(ExitCode::from(if result.not_requeued == 0 { 0 } else { FAILED }));
    }
    output::print(&format!("requeued {} in {topic}", result.requeued))?;
    result.exists.iter().try_for_each(|id| output::print(&format!("exists {id}")))?;
    result.none_lines.iter().try_for_each(|line| output::print(line))?;
    if result.not_requeued == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::failed(
        format!("{} jobs were not requeued", result.not_requeued),
        "exists: a live job has that id; none: no dead job has that id",
    ))
}

async fn requeue_ids(
    queue: &Queue,
    topic: &TopicName,
    ids: &[JobId],
) -> Result<RequeueResult, Failure> {
    let mut result = RequeueResult::default();
    for batch in ids.chunks(BATCH_MAX) {
        let answers = queue.requeue(topic, batch).await?;
        for (id, answer) in batch.iter().zip(answers) {
            match answer {
                Requeued::Ok => result.requeued += 1,
                Requeued::Exists => result.exists.push(id.to_string()),
                Requeued::None => result.none.push(id.to_string()),
            }
        }
    }
    result.none_lines = target::states_of(queue, topic, &result.none).await?;
    result.not_requeued = (result.exists.len() + result.none.len()) as u64;
    Ok(result)
}

async fn requeue_matching(
    queue: &Queue,
    topic: &TopicName,
    which: &DeadArgs,
) -> Result<RequeueResult, Failure> {
    let query = which.query(queue).await?;
    let many = queue.requeue_matching(topic, &query).await?;
    Ok(RequeueResult {
        requeued: many.requeued,
        exists: many.exists_ids.iter().map(JobId::to_string).collect(),
        not_requeued: many.exists,
        ..RequeueResult::default()
    })
}
