//! `duebox dead`: lists, shows, requeues and purges dead jobs.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use duebox_job::{JobId, TopicName};
use duebox_queue::{DeadQuery, DeadSummary, Page, Queue};
use serde::Serialize;

use super::purge::PurgeArgs;
use super::requeue::RequeueArgs;
use super::support::ended_jobs::{DeadArgs, PageArgs};
use super::support::failure::Failure;
use super::support::{output, target};
use super::{Common, get, purge, requeue, value};

/// Characters of a reason in a list.
const REASON_CHARS: usize = 60;

/// List, show, requeue or purge dead jobs
///
/// A job is dead when its attempts are spent, its handler dropped it, or it could not be run. It is
/// kept for the topic's `retention`.
#[derive(Args)]
pub(super) struct DeadCommandArgs {
    #[command(subcommand)]
    command: DeadCommand,
}

#[derive(Subcommand)]
enum DeadCommand {
    List(ListArgs),
    Show(ShowArgs),
    Requeue(RequeueArgs),
    Purge(PurgeArgs),
}

/// List dead jobs, the latest first
///
/// With --class, all dead jobs of the time range may be scanned, 1,000 a step.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox dead list order.close
  duebox dead list order.close --class timeout --newer-than 1h
  duebox dead list order.close --limit 1000 --json | jq -r '.jobs[].id'")]
struct ListArgs {
    /// The topic
    #[arg(value_parser = value::topic)]
    topic: TopicName,
    #[command(flatten)]
    which: DeadArgs,
    #[command(flatten)]
    page: PageArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Show one dead job with its payload and its failure
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox dead show order.close 42

Exit codes:
  0  found
  1  no dead job has that id, or Redis failed
  2  bad input")]
struct ShowArgs {
    /// The topic
    #[arg(value_parser = value::topic)]
    topic: TopicName,
    /// The job's id
    #[arg(value_parser = value::any_id)]
    id: JobId,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A page of dead jobs; the JSON output.
#[derive(Serialize)]
struct DeadPage<'a> {
    topic: &'a str,
    jobs: &'a [DeadSummary],
    /// Cursor of the next page.
    next: Option<String>,
}

pub(super) fn dead(common: &Common, args: &DeadCommandArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        DeadCommand::List(args) => list(common, args),
        DeadCommand::Show(args) => show(common, args),
        DeadCommand::Requeue(args) => requeue::requeue(common, args),
        DeadCommand::Purge(args) => purge::purge(common, args),
    }
}

fn list(common: &Common, args: &ListArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    let topic = &args.topic;
    let page = target::block_on(async {
        let queue = target::connect(&manifest).await?;
        target::known_topic(&manifest, &queue, topic).await?;
        let all = args.which.query(&queue).await?;
        read_page(&queue, topic, DeadQuery { class: all.class, page: args.page.of(all.page) }).await
    })?;
    let next = page.next.map(|cursor| cursor.to_string());
    if args.json {
        output::print_json(&DeadPage { topic: topic.as_str(), jobs: &page.jobs, next })?;
        return Ok(ExitCode::SUCCESS);
    }
    let row = |job: &DeadSummary| {
        let reason = job.reason.as_deref().unwrap_or_default();
        let line = output::first_line(reason, REASON_CHARS);
        vec![
            output::one_line(&job.id.to_string()),
            output::time(job.died_at_ms),
            job.class.clone().unwrap_or_else(|| "-".to_owned()),
            job.attempt.map_or_else(|| "-".to_owned(), |attempt| attempt.to_string()),
            output::one_line(&line),
        ]
    };
    let rows: Vec<_> = page.jobs.iter().map(row).collect();
    output::print(&output::table(&["id", "died", "class", "attempt", "reason"], &rows))?;
    output::print_next(next.as_deref())
}

/// Reads until the page is full or the list ends: with a rare class one page takes many calls.
async fn read_page(
    queue: &Queue,
    topic: &TopicName,
    mut query: DeadQuery,
) -> Result<Page<DeadSummary>, Failure> {
    let mut jobs = Vec::new();
    loop {
        let page = queue.list_dead(topic, &query).await?;
        query.page.limit -= page.jobs.len();
        jobs.extend(page.jobs);
        if query.page.limit == 0 || page.next.is_none() {
            return Ok(Page { jobs, next: page.next });
        }
        query.page.after = page.next;
    }
}

fn show(common: &Common, args: &ShowArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    let ShowArgs { topic, id, json } = args;
    let found = target::block_on(async {
        let queue = target::connect(&manifest).await?;
        let found = get::look_up(&queue, topic, id).await?;
        if found.is_none() {
            target::known_topic(&manifest, &queue, topic).await?;
        }
        Ok(found)
    })?;
    match found {
        Some((job, life)) if job.dead.is_some() => get::show(topic, &job, &life, *json),
        Some((job, _)) => Err(Failure::failed(
            format!("job {id} of {topic} is {}, not dead", job.state.word()),
            "show it with: duebox get",
        )),
        None => Err(Failure::failed(
            format!("no dead job of {topic} has id {id}"),
            "list the dead jobs with: duebox dead list",
        )),
    }
}
