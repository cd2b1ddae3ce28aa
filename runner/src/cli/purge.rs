//! `duebox dead purge`: forget dead jobs.

use std::process::ExitCode;

use clap::{ArgGroup, Args};
use duebox_job::{JobId, TopicName};
use duebox_queue::Queue;
use serde::Serialize;

use super::ended::DeadArgs;
use super::failure::{FAILED, Failure};
use super::{Common, output, target, value};

/// Forget dead jobs for ever
///
/// Old ones go by themselves, after the topic's `retention`.
#[derive(Args)]
#[command(
    group = ArgGroup::new("purged").args(["ids", "all", "class", "older_than", "newer_than"]).required(true).multiple(true),
    after_help = "\
Examples:
  duebox dead purge order.close 42 43
  duebox dead purge order.close --class bad_due
  duebox dead purge order.close --older-than 1d
  duebox dead purge order.close --all

Exit codes:
  0  they are forgotten
  1  some of the ids were not dead, or Redis failed
  2  bad input"
)]
pub(super) struct PurgeArgs {
    /// The topic
    #[arg(value_parser = value::topic)]
    topic: TopicName,
    /// The ids of dead jobs
    #[arg(value_name = "ID", value_parser = value::any_id)]
    ids: Vec<JobId>,
    /// Every dead job of the topic
    #[arg(long, conflicts_with_all = ["ids", "class", "older_than", "newer_than"])]
    all: bool,
    #[command(flatten)]
    which: DeadArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
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
    let topic = &args.topic;
    target::ids_or_filter(&args.ids, args.which.is_empty())?;
    let tally = target::block_on(async {
        let queue = target::connect(&manifest).await?;
        target::known_topic(&manifest, &queue, topic).await?;
        if !args.ids.is_empty() {
            return some(&queue, topic, &args.ids).await;
        }
        let query = args.which.query(&queue).await?;
        let purged = queue.purge_matching(topic, &query).await?;
        Ok(Tally { purged, ..Tally::default() })
    })?;
    if args.json {
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
