//! `duebox rollback`: the module before serves a topic again, in every daemon that runs.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use duebox_job::{JobId, TopicName};
use duebox_queue::Queue;
use serde_json::json;

use super::failure::{FAILED, Failure};
use super::{Common, output, target, value};
use crate::orders::{Answer, Came, Order};

/// How long the daemons have to answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked for answers.
const LOOK_EVERY: Duration = Duration::from_millis(25);

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

/// What came of it, in all daemons.
struct Told {
    answers: Vec<Answer>,
    /// Daemons that heard of it and gave no answer.
    silent: u64,
}

pub(super) fn rollback(common: &Common, args: &RollbackArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    let topic = &args.topic;
    let told = target::block_on(async {
        let queue = target::connect(&manifest).await?;
        target::known_topic(&manifest, &queue, topic).await?;
        give(&queue, topic).await
    })?;
    if args.json {
        let Told { answers, silent } = &told;
        let answer = json!({"topic": topic.as_str(), "runners": answers, "silent": silent});
        output::print_json(&answer)?;
    } else {
        for answer in &told.answers {
            output::print(&format!("{}: {}", answer.runner, describe(answer)))?;
        }
    }
    match told.failure(topic) {
        // What came of it in each daemon was printed.
        Some(_) if args.json => Ok(ExitCode::from(FAILED)),
        Some(failure) => Err(failure),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Gives the order, and waits for the answers.
async fn give(queue: &Queue, topic: &TopicName) -> Result<Told, Failure> {
    let order = Order::rollback(JobId::generate().to_string(), topic.as_str());
    let text = output::json(&order)?;
    let until = Instant::now() + ANSWERS_WITHIN;
    let heard = queue.order(&text).await?;
    let mut answers: Vec<Answer> = Vec::new();
    while (answers.len() as u64) < heard && Instant::now() < until {
        tokio::time::sleep(LOOK_EVERY).await;
        let texts = queue.answers(&order.id).await?;
        answers = texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    }
    answers.sort_by(|one, other| one.runner.cmp(&other.runner));
    let silent = heard.saturating_sub(answers.len() as u64);
    Ok(Told { answers, silent })
}

fn describe(answer: &Answer) -> String {
    let short = |digest: &Option<String>| -> String {
        digest.as_deref().unwrap_or("-").chars().take(12).collect()
    };
    let (serves, before) = (short(&answer.digest), short(&answer.before));
    match answer.result {
        Came::RolledBack => format!("{serves} serves again, {before} does not"),
        Came::RolledBackBefore => {
            format!("{serves} serves already, {before} was rolled back before")
        }
        Came::NothingBefore => format!("{serves} serves on: no other module served before it"),
        Came::Pulled => "the topic has no handler there".to_owned(),
        Came::NotServed => "the topic is not served there".to_owned(),
        Came::Unknown => "it is too old a version for this order".to_owned(),
    }
}

impl Told {
    /// Why the order was not followed everywhere; none if it was.
    fn failure(&self, topic: &TopicName) -> Option<Failure> {
        let count = |came: &[Came]| {
            self.answers.iter().filter(|answer| came.contains(&answer.result)).count()
        };
        if self.answers.is_empty() && self.silent == 0 {
            return Some(Failure::failed(
                "no daemon runs on this Redis: nothing serves, and nothing was taken back",
                "put the module before in its place; a daemon takes at its start what lies there",
            ));
        }
        if self.silent > 0 {
            let (silent, within) = (self.silent, ANSWERS_WITHIN.as_secs());
            return Some(Failure::failed(
                format!("{silent} of the daemons gave no answer within {within} s"),
                "look into their logs, and at duebox stats; the order can be given again",
            ));
        }
        if count(&[Came::NothingBefore]) > 0 {
            return Some(Failure::failed(
                format!(
                    "there is nothing to go back to for {topic} in {} of the daemons",
                    count(&[Came::NothingBefore])
                ),
                "a daemon keeps the module that it replaced itself: put the file before in its place",
            ));
        }
        if count(&[Came::Unknown]) > 0 {
            return Some(Failure::failed(
                "not every daemon knows this order",
                "run the same version everywhere, or put the file before in its place",
            ));
        }
        if count(&[Came::RolledBack, Came::RolledBackBefore]) == 0 {
            let pulled = count(&[Came::Pulled]) > 0;
            let why = if pulled { "has no handler" } else { "is not served" };
            return Some(Failure::failed(
                format!("{topic} {why} in any daemon that runs on this Redis"),
                "see the manifests of the daemons; duebox check tells which topics one serves",
            ));
        }
        None
    }
}
