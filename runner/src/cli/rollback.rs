//! `duebox rollback`: the module before serves a topic again, in every daemon that runs.

use std::process::ExitCode;

use clap::Args;
use duebox_job::TopicName;
use serde_json::json;

use super::support::failure::{FAILED, Failure};
use super::support::{output, target};
use super::{Common, value};
use crate::background::control_channel::{Order, OrderResult, Replies, Reply};

/// Take a topic's module back: the one before serves again, in every daemon that runs
///
/// Each daemon keeps the module that it replaced last. The one that is taken back stays away until its
/// file, or what the manifest says of it, changes; put the file right before a daemon is restarted, which
/// takes what lies there. Jobs that run finish on the module they started with.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox rollback order.close
  duebox rollback order.close --json | jq '.runners[].digest'

Exit codes:
  0  in every daemon that serves the topic, the module before serves again
  1  in one it does not: it has no module before, or gave no answer; or none runs
  2  bad input, such as a topic that nobody knows")]
pub(super) struct RollbackArgs {
    /// The topic
    #[arg(value_parser = value::topic)]
    topic: TopicName,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn rollback(common: &Common, args: &RollbackArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    let topic = &args.topic;
    let told = target::block_on(async {
        let queue = target::connect(&manifest).await?;
        target::known_topic(&manifest, &queue, topic).await?;
        Ok(Replies::collect(&queue, &Order::rollback(topic.as_str())).await?)
    })?;
    if args.json {
        let Replies { replies: answers, silent } = &told;
        let answer = json!({"topic": topic.as_str(), "runners": answers, "silent": silent});
        output::print_json(&answer)?;
    } else {
        for answer in &told.replies {
            output::print(&format!("{}: {}", answer.runner, describe(answer)))?;
        }
    }
    match told.trouble(topic) {
        // What came of it in each daemon was printed.
        Some(_) if args.json => Ok(ExitCode::from(FAILED)),
        Some(trouble) => Err(Failure::failed(trouble.to_string(), trouble.remedy())),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn describe(answer: &Reply) -> String {
    let short = |digest: &Option<String>| -> String {
        digest.as_deref().unwrap_or("-").chars().take(12).collect()
    };
    let (serves, before) = (short(&answer.digest), short(&answer.before));
    match answer.result {
        OrderResult::RolledBack => format!("{serves} serves again, {before} does not"),
        OrderResult::RolledBackBefore => {
            format!("{serves} serves already, {before} was rolled back before")
        }
        OrderResult::NothingBefore => {
            format!("{serves} serves on: no other module served before it")
        }
        OrderResult::Looks => "it looks at its files".to_owned(),
        OrderResult::Pulled => "the topic has no handler there".to_owned(),
        OrderResult::NotServed => "the topic is not served there".to_owned(),
        OrderResult::Unknown => "it is too old a version for this order".to_owned(),
    }
}
