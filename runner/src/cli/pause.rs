//! `duebox pause` and `duebox resume`: stop a topic for all runners, and let it go on.

use std::process::ExitCode;

use clap::Args;
use duebox_job::TopicName;
use serde_json::json;

use super::support::failure::Failure;
use super::support::{output, target};
use super::{Common, value};

/// Start no more jobs of a topic, on any runner, until it is resumed
///
/// Jobs that run now go on, and pushes are stored. It is kept in Redis, so it survives restarts.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox pause order.close
  duebox resume order.close

Exit codes:
  0  the topic is paused, be it for longer
  1  Redis failed
  2  bad input, such as a topic that nobody knows")]
pub(super) struct PauseArgs {
    #[command(flatten)]
    wish: Wish,
}

/// Start jobs of a paused topic again
///
/// Runners that wait are woken.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox resume order.close

Exit codes:
  0  the topic is not paused any more, or was not
  1  Redis failed
  2  bad input, such as a topic that nobody knows")]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    wish: Wish,
}

#[derive(Args)]
struct Wish {
    /// The topic
    #[arg(value_parser = value::topic)]
    topic: TopicName,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn pause(common: &Common, args: &PauseArgs) -> Result<ExitCode, Failure> {
    set(common, &args.wish, true)
}

pub(super) fn resume(common: &Common, args: &ResumeArgs) -> Result<ExitCode, Failure> {
    set(common, &args.wish, false)
}

fn set(common: &Common, wish: &Wish, paused: bool) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    let Wish { topic, json } = wish;
    let changed = target::block_on(async {
        let queue = target::connect_to_topic(&manifest, topic).await?;
        target::known_topic(&manifest, &queue, topic).await?;
        Ok(if paused { queue.pause(topic).await? } else { queue.resume(topic).await? })
    })?;
    if *json {
        let answer = json!({"topic": topic.as_str(), "paused": paused, "changed": changed});
        output::print_json(&answer)?;
    } else {
        output::print(&match (paused, changed) {
            (true, true) => format!("paused {topic}"),
            (true, false) => format!("{topic} is paused already"),
            (false, true) => format!("resumed {topic}"),
            (false, false) => format!("{topic} is not paused"),
        })?;
    }
    Ok(ExitCode::SUCCESS)
}
