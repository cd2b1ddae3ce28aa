//! `duebox dead requeue`, or `duebox requeue` for short: run dead jobs again.

use std::process::ExitCode;

use clap::Args;
use duebox_job::{JobId, TopicName};
use duebox_queue::{BATCH_MAX, Queue, Requeued};
use serde::Serialize;

use super::Common;
use super::support::ended_jobs::{ChosenArgs, DeadArgs};
use super::support::failure::{FAILED, Failure};
use super::support::{output, target};

/// Run dead jobs again
///
/// They become ready at once, with their options and no attempts spent. A dead job whose id is alive
/// again stays dead. `duebox requeue` and `duebox dead requeue` are the same.
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

/// How many dead jobs came to what, and which ones stayed what they are.
#[derive(Default, Serialize)]
struct Tally {
    requeued: u64,
    /// Their ids are alive again; at most 1,000 of them.
    exists: Vec<String>,
    /// Their ids are not dead.
    none: Vec<String>,
    /// All that were not requeued.
    not_requeued: u64,
    /// What those are that are not dead, for people.
    #[serde(skip)]
    none_lines: Vec<String>,
}

pub(super) fn requeue(common: &Common, args: &RequeueArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    let ChosenArgs { topic, ids, which, json, .. } = &args.chosen;
    target::ids_or_filter(ids, which.is_empty())?;
    let tally = target::block_on(async {
        let queue = target::connect(&manifest).await?;
        target::known_topic(&manifest, &queue, topic).await?;
        if ids.is_empty() {
            matching(&queue, topic, which).await
        } else {
            some(&queue, topic, ids).await
        }
    })?;
    if *json {
        output::print_json(&tally)?;
        return Ok(ExitCode::from(if tally.not_requeued == 0 { 0 } else { FAILED }));
    }
    output::print(&format!("requeued {} in {topic}", tally.requeued))?;
    tally.exists.iter().try_for_each(|id| output::print(&format!("exists {id}")))?;
    tally.none_lines.iter().try_for_each(|line| output::print(line))?;
    if tally.not_requeued == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::failed(
        format!("{} jobs were not requeued", tally.not_requeued),
        "exists: a job with that id is alive; none: no dead job has that id",
    ))
}

async fn some(queue: &Queue, topic: &TopicName, ids: &[JobId]) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    for batch in ids.chunks(BATCH_MAX) {
        let answers = queue.requeue(topic, batch).await?;
        for (id, answer) in batch.iter().zip(answers) {
            match answer {
                Requeued::Ok => tally.requeued += 1,
                Requeued::Exists => tally.exists.push(id.to_string()),
                Requeued::None => tally.none.push(id.to_string()),
            }
        }
    }
    tally.none_lines = target::what_they_are(queue, topic, &tally.none).await?;
    tally.not_requeued = (tally.exists.len() + tally.none.len()) as u64;
    Ok(tally)
}

async fn matching(queue: &Queue, topic: &TopicName, which: &DeadArgs) -> Result<Tally, Failure> {
    let query = which.query(queue).await?;
    let many = queue.requeue_matching(topic, &query).await?;
    Ok(Tally {
        requeued: many.requeued,
        exists: many.exists_ids.iter().map(JobId::to_string).collect(),
        not_requeued: many.exists,
        ..Tally::default()
    })
}
