//! `duebox requeue`: run dead jobs again.

use std::collections::HashSet;
use std::process::ExitCode;

use duebox_job::{JobId, TopicName};
use duebox_queue::{BATCH_MAX, Queue, Requeued};
use serde::Serialize;

use super::failure::{FAILED, Failure};
use super::{Common, RequeueArgs, output, target};

/// How many dead jobs came to what, and which ones stayed dead.
#[derive(Default, Serialize)]
struct Tally {
    requeued: u64,
    /// Their ids are alive again.
    exists: Vec<String>,
    /// Their ids are not dead.
    none: Vec<String>,
}

pub(super) fn requeue(common: &Common, args: &RequeueArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    let topic = &args.topic;
    let tally = target::block_on(async {
        let queue = target::connect(&manifest).await?;
        if args.all {
            requeue_all(&queue, topic).await
        } else {
            some(&queue, topic, &args.ids).await
        }
    })?;
    let complete = tally.exists.is_empty() && tally.none.is_empty();
    if args.json {
        output::print_json(&tally)?;
        return Ok(ExitCode::from(if complete { 0 } else { FAILED }));
    }
    output::print(&format!("requeued {} in {topic}", tally.requeued))?;
    tally.exists.iter().try_for_each(|id| output::print(&format!("exists {id}")))?;
    tally.none.iter().try_for_each(|id| output::print(&format!("none {id}")))?;
    if complete {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::failed(
        format!("{} jobs were not requeued", tally.exists.len() + tally.none.len()),
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
    Ok(tally)
}

/// Requeues batch after batch, oldest first, until as many were met as were dead at the start: jobs
/// that die meanwhile are left alone, so that a handler that fails at once does not keep it going.
async fn requeue_all(queue: &Queue, topic: &TopicName) -> Result<Tally, Failure> {
    let depths = queue.depths(std::slice::from_ref(topic)).await?;
    let dead = depths.first().map_or(0, |depths| depths.dead);
    let mut total = Tally::default();
    let mut stuck = HashSet::new();
    while total.requeued + (stuck.len() as u64) < dead {
        let mut ids = queue.dead_ids(topic, BATCH_MAX + stuck.len()).await?;
        ids.retain(|id| !stuck.contains(id));
        ids.truncate(BATCH_MAX);
        if ids.is_empty() {
            break;
        }
        for (id, answer) in ids.iter().zip(queue.requeue(topic, &ids).await?) {
            match answer {
                Requeued::Ok => total.requeued += 1,
                Requeued::Exists | Requeued::None => {
                    stuck.insert(id.clone());
                }
            }
        }
    }
    total.exists = stuck.iter().map(JobId::to_string).collect();
    total.exists.sort();
    Ok(total)
}
