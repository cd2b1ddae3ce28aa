//! `duebox dead purge`: deletes dead jobs.

use std::process::ExitCode;

use clap::Args;
use duebox_job::{JobId, TopicName};
use duebox_queue::Queue;
use serde::Serialize;

use super::Common;
use super::support::ended_jobs::ChosenArgs;
use super::support::failure::{FAILED, Failure};
use super::support::{output, target};

/// Delete dead jobs permanently
///
/// Dead jobs are also deleted after the topic's `retention`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox dead purge order.close 42 43
  duebox dead purge order.close --class bad_due
  duebox dead purge order.close --older-than 1d
  duebox dead purge order.close --all

Exit codes:
  0  all were deleted
  1  some of the ids were not dead, or Redis failed
  2  bad input")]
pub(super) struct PurgeArgs {
    #[command(flatten)]
    chosen: ChosenArgs,
}

/// What was deleted; the JSON output.
#[derive(Default, Serialize)]
struct PurgeResult {
    purged: u64,
    /// Ids of jobs that are not dead.
    none: Vec<String>,
    /// Their states, one line for each.
    #[serde(skip)]
    none_lines: Vec<String>,
}

pub(super) fn purge(common: &Common, args: &PurgeArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    let ChosenArgs { topic, ids, which, json, .. } = &args.chosen;
    target::ids_or_filter(ids, which.is_empty())?;
    let result = target::block_on(async {
        let queue = target::connect(&manifest).await?;
        target::known_topic(&manifest, &queue, topic).await?;
        if !ids.is_empty() {
            return purge_ids(&queue, topic, ids).await;
        }
        let query = which.query(&queue).await?;
        let purged = queue.purge_matching(topic, &query).await?;
        Ok(PurgeResult { purged, ..PurgeResult::default() })
    })?;
    if *json {
        output::print_json(&result)?;
        return Ok(ExitCode::from(if result.none.is_empty() { 0 } else { FAILED }));
    }
    output::print(&format!("purged {} in {topic}", result.purged))?;
    result.none_lines.iter().try_for_each(|line| output::print(line))?;
    if result.none.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::failed(
        format!("{} jobs were not dead", result.none.len()),
        "only dead jobs can be purged; cancel a live job with: duebox cancel",
    ))
}

/// Deletes one by one, so that each id that is not dead can be named.
async fn purge_ids(
    queue: &Queue,
    topic: &TopicName,
    ids: &[JobId],
) -> Result<PurgeResult, Failure> {
    let mut result = PurgeResult::default();
    for id in ids {
        match queue.prune(topic, std::slice::from_ref(id)).await? {
            0 => result.none.push(id.to_string()),
            purged => result.purged += purged,
        }
    }
    result.none_lines = target::states_of(queue, topic, &result.none).await?;
    Ok(result)
}
