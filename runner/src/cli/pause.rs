//! `duebox pause` and `duebox resume`: stop and restart a topic on all runners.

use std::process::ExitCode;

use clap::Args;
use duebox_job::TopicName;
use serde_json::json;

use super::support::failure::Failure;
use super::support::{output, target};
use super::{Common, value};

/// Stop starting jobs of a topic, on all runners
///
/// Running jobs continue, and pushes are stored. The pause is kept in Redis and survives restarts.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox pause order.close
  duebox resume order.close

Exit codes:
  0  the topic is paused, or already was
  1  Redis failed
  2  bad input, for example an unknown topic")]
pub(super) struct PauseArgs {
    #[command(flatten)]
    target: TopicArgs,
}

/// Resume a paused topic
///
/// Wakes waiting runners.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox resume order.close

Exit codes:
  0  the topic is not paused, or was not paused before
  1  Redis failed
  2  bad input, for example an unknown topic")]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    target: TopicArgs,
}

#[derive(Args)]
struct TopicArgs {
    /// The topic
    #[arg(value_parser = value::topic)]
    topic: TopicName,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn pause(common: &Common, args: &PauseArgs) -> Result<ExitCode, Failure> {
    set(common, &args.target, true)
}

pub(super) fn resume(common: &Common, args: &ResumeArgs) -> Result<ExitCode, Failure> {
    set(common, &args.target, false)
}

fn set(common: &Common, args: &TopicArgs, paused: bool) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    let TopicArgs { topic, json } = args;
    let changed = target::block_on(async {
        let queue = target::connect(&manifest).await?;
        target::known_topic(&manifest, &queue, topic).await?;
        target::register(&manifest, &queue, topic).await?;
        Ok(if paused { queue.pause(topic).await? } else { queue.resume(topic).await? })
    })?;
    if *json {
        let answer = json!({"topic": topic.as_str(), "paused": paused, "changed": changed});
        output::print_json(&answer)?;
    } else {
        output::print(&match (paused, changed) {
            (true, true) => format!("paused {topic}"),
            (true, false) => format!("{topic} is already paused"),
            (false, true) => format!("resumed {topic}"),
            (false, false) => format!("{topic} is not paused"),
        })?;
    }
    Ok(ExitCode::SUCCESS)
}
