//! `duebox rollback`: restores the previous module of a topic in every running daemon.

use std::process::ExitCode;

use clap::Args;
use duebox_job::TopicName;
use serde_json::json;

use super::support::failure::{FAILED, Failure};
use super::support::{output, target};
use super::{Common, value};
use crate::background::control_channel::{Order, OrderResult, Replies, Reply};

/// Roll a topic back to its previous module, in every running daemon
///
/// Each daemon keeps the module that it replaced last. The module that was rolled back is not used
/// again until its file, or its entry in the manifest, changes. Restore the file before you restart
/// a daemon: at start it loads the file as it is. Running jobs finish on the module they started
/// with.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox rollback order.close
  duebox rollback order.close --json | jq '.runners[].digest'

Exit codes:
  0  the previous module serves in every daemon that serves the topic
  1  not in every daemon: one has no previous module or did not reply, or none runs
  2  bad input, for example an unknown topic")]
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
        // The result of each daemon is already printed.
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
        OrderResult::RolledBack => format!("{serves} serves again, replacing {before}"),
        OrderResult::RolledBackBefore => {
            format!("{serves} already serves; {before} was rolled back earlier")
        }
        OrderResult::NothingBefore => format!("{serves} still serves: there is no previous module"),
        OrderResult::Looks => "checking its files".to_owned(),
        OrderResult::Pulled => "the topic has no handler there".to_owned(),
        OrderResult::NotServed => "the topic is not served there".to_owned(),
        OrderResult::Unknown => "its version does not know this command".to_owned(),
    }
}
