//! `duebox dead purge`: forget dead jobs.

use std::process::ExitCode;

use clap::Args;
use duebox_job::{JobId, TopicName};
use duebox_queue::Queue;
use serde::Serialize;

use super::Common;
use super::support::ended_jobs::ChosenArgs;
use super::support::failure::{FAILED, Failure};
use super::support::{output, target};

/// Forget dead jobs for ever
///
/// Old ones go by themselves, after the topic's `retention`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox dead purge order.close 42 43
  duebox dead purge order.close --class bad_due
  duebox dead purge order.close --older-than 1d
  duebox dead purge order.close --all

Exit codes:
  0  they are forgotten
  1  some of the ids were not dead, or Redis failed
  2  bad input")]
pub(super) struct PurgeArgs {
    #[command(flatten)]
    chosen: ChosenArgs,
}

/// What was forgotten, as JSON has it.
#[derive(Default, Serialize)]
struct Tally {
    purged: u64,
    /// Ids that are not dead.
    none: Vec<String>,
    /// What those are, for people.
    #[serde(skip)]
    none_lines: Vec<String>,
}

pub(super) fn purge(common: &Common, args: &PurgeArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    let ChosenArgs { topic, ids, which, json, .. } = &args.chosen;
    target::ids_or_filter(ids, which.is_empty())?;
    let tally = target::block_on(async {
        let queue = target::connect(&manifest).await?;
        target::known_topic(&manifest, &queue, topic).await?;
        if !ids.is_empty() {
            return some(&queue, topic, ids).await;
        }
        let query = which.query(&queue).await?;
        let purged = queue.purge_matching(topic, &query).await?;
        Ok(Tally { purged, ..Tally::default() })
    })?;
    if *json {
        output::print_json(&tally)?;
        return Ok(ExitCode::from(if tally.none.is_empty() { 0 } else { FAILED }));
    }
    output::print(&format!("purged {} in {topic}", tally.purged))?;
    tally.none_lines.iter().try_for_each(|line| output::print(line))?;
    if tally.none.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::failed(
        format!("{} jobs were not dead", tally.none.len()),
        "only dead jobs can be purged; cancel one that waits with duebox cancel",
    ))
}

/// One by one, so that each id that is not dead can be named.
async fn some(queue: &Queue, topic: &TopicName, ids: &[JobId]) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    for id in ids {
        match queue.prune(topic, std::slice::from_ref(id)).await? {
            0 => tally.none.push(id.to_string()),
            purged => tally.purged += purged,
        }
    }
    tally.none_lines = target::what_they_are(queue, topic, &tally.none).await?;
    Ok(tally)
}
