//! `duebox done`: lists the done jobs that a topic keeps.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use duebox_job::{TopicName, format_duration};
use duebox_queue::DoneSummary;
use serde::Serialize;

use super::support::ended_jobs::{PageArgs, SpanArgs};
use super::support::failure::Failure;
use super::support::{output, target};
use super::{Common, value};

/// List done jobs
///
/// A topic keeps them for its `done_retention`; the default is not to keep them.
#[derive(Args)]
pub(super) struct DoneCommandArgs {
    #[command(subcommand)]
    command: DoneCommand,
}

#[derive(Subcommand)]
enum DoneCommand {
    List(ListArgs),
}

/// List done jobs, the latest first
///
/// `duebox get` shows one job with its result.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox done list order.close
  duebox done list order.close --newer-than 10m --json")]
struct ListArgs {
    /// The topic
    #[arg(value_parser = value::topic)]
    topic: TopicName,
    #[command(flatten)]
    span: SpanArgs,
    #[command(flatten)]
    page: PageArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A page of done jobs; the JSON output.
#[derive(Serialize)]
struct DonePage<'a> {
    topic: &'a str,
    jobs: &'a [DoneSummary],
    /// Cursor of the next page.
    next: Option<String>,
}

pub(super) fn done(common: &Common, args: &DoneCommandArgs) -> Result<ExitCode, Failure> {
    let DoneCommand::List(args) = &args.command;
    let manifest = common.load()?;
    let topic = &args.topic;
    let page = target::block_on(async {
        let queue = target::connect(&manifest).await?;
        target::known_topic(&manifest, &queue, topic).await?;
        let query = args.page.of(args.span.query(&queue).await?);
        Ok(queue.list_done(topic, &query).await?)
    })?;
    let next = page.next.map(|cursor| cursor.to_string());
    if args.json {
        output::print_json(&DonePage { topic: topic.as_str(), jobs: &page.jobs, next })?;
        return Ok(ExitCode::SUCCESS);
    }
    let row = |job: &DoneSummary| {
        let took = |ms: f64| format_duration(Duration::from_secs_f64((ms / 1e3).clamp(0.0, 1e9)));
        vec![
            output::one_line(&job.id.to_string()),
            output::time(job.done_at_ms),
            job.attempt.map_or_else(|| "-".to_owned(), |attempt| attempt.to_string()),
            job.wall_ms.map_or_else(|| "-".to_owned(), took),
        ]
    };
    let rows: Vec<_> = page.jobs.iter().map(row).collect();
    output::print(&output::table(&["id", "done", "attempt", "took"], &rows))?;
    output::print_next(next.as_deref())
}
