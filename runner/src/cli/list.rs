//! `duebox list`: the jobs of one state in pages, by the start of their id or by a header.

use std::process::ExitCode;

use clap::Args;
use duebox_job::TopicName;
use duebox_queue::{JobQuery, JobState, ListCursor, LiveJob, Queue};
use serde::Serialize;

use super::support::failure::Failure;
use super::support::{output, target};
use super::{Common, value};
use crate::service::job_list::{JobList, ShownListedJob};

/// At most this many jobs are looked at for one page, and up to 1,000 more of each shard.
const LOOKS_MAX: u64 = 100_000;
/// Characters of a reason in a list.
const REASON_CHARS: usize = 60;

/// List the jobs of a topic by state
///
/// The next jobs come first, of dead and done jobs the latest. With --id or --header it looks at 100,000
/// jobs of the state at most, and says where it stopped. Without --state it lists the first jobs of each
/// live state. `duebox get` shows one job whole.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox list order.close --state pending
  duebox list order.close --state dead --header customer=42
  duebox list order.close --state retry --id 2026-11- --limit 1000 --json | jq -r '.jobs[].id'

Exit codes:
  0  listed, also if no job matches
  1  Redis failed
  2  bad input, for example an unknown topic")]
pub(super) struct ListArgs {
    /// The topic
    #[arg(value_parser = value::topic)]
    topic: TopicName,
    /// Only this state: pending, ready, blocked, running (or unack), retry, dead or done
    #[arg(long, value_name = "STATE", value_parser = value::state)]
    state: Option<JobState>,
    /// Only jobs whose id starts with this text
    #[arg(long, value_name = "PREFIX", requires = "state")]
    id: Option<String>,
    /// Only jobs with this header; done jobs keep no headers
    #[arg(long, value_name = "NAME=VALUE", requires = "state", value_parser = value::pair)]
    header: Option<(String, String)>,
    /// Number of jobs to list, 1 to 1000; without --state of each state
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Continue after a previous page: its "next"
    #[arg(long, value_name = "PLACE", requires = "state", value_parser = value::list_cursor)]
    after: Option<ListCursor>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The first live jobs of each state; the JSON output without a state.
#[derive(Serialize)]
struct LiveList<'a> {
    topic: &'a str,
    jobs: Vec<ListedLiveJob>,
}

#[derive(Serialize)]
struct ListedLiveJob {
    id: String,
    state: &'static str,
    /// The same for people.
    #[serde(skip)]
    shown: &'static str,
    at_ms: u64,
}

pub(super) fn list(common: &Common, args: ListArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    if args.header.is_some() && args.state == Some(JobState::Done) {
        return Err(Failure::bad_input(
            "done jobs keep no headers",
            "leave out --header; --id selects by the start of the id",
        ));
    }
    target::block_on(async {
        let queue = target::connect(&manifest).await?;
        target::known_topic(&manifest, &queue, &args.topic).await?;
        match args.state {
            Some(state) => list_state(&queue, state, args).await,
            None => list_live(&queue, &args).await,
        }
    })
}

async fn list_state(queue: &Queue, state: JobState, args: ListArgs) -> Result<ExitCode, Failure> {
    let ListArgs { topic, id, header, limit, after, json, .. } = args;
    let id_start = id.unwrap_or_default();
    let query = JobQuery { state, id_start, header, after, limit: usize::from(limit) };
    let page = JobList::read(queue, &topic, query, LOOKS_MAX).await?;
    if json {
        output::print_json(&page)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<_> = page.jobs.iter().map(|job| row(state, job)).collect();
    output::print(&output::table(&header_of(state), &rows))?;
    if page.stopped {
        output::print(&format!("stopped after {} {} jobs", page.looked_at, state.shown()))?;
    }
    output::print_next(page.next.as_deref())
}

async fn list_live(queue: &Queue, args: &ListArgs) -> Result<ExitCode, Failure> {
    let listed = |job: LiveJob| ListedLiveJob {
        id: job.id.to_string(),
        state: job.state.word(),
        shown: job.state.shown(),
        at_ms: job.at_ms,
    };
    let jobs = queue.list_live(&args.topic, usize::from(args.limit)).await?;
    let jobs: Vec<ListedLiveJob> = jobs.into_iter().map(listed).collect();
    if args.json {
        output::print_json(&LiveList { topic: args.topic.as_str(), jobs })?;
        return Ok(ExitCode::SUCCESS);
    }
    let row = |job: &ListedLiveJob| {
        vec![output::one_line(&job.id), job.shown.to_owned(), output::time(job.at_ms)]
    };
    let rows: Vec<_> = jobs.iter().map(row).collect();
    output::print(&output::table(&["id", "state", "due, or lease ends"], &rows))?;
    Ok(ExitCode::SUCCESS)
}

/// The columns of a state.
fn header_of(state: JobState) -> Vec<&'static str> {
    match state {
        JobState::Pending | JobState::Ready | JobState::Blocked => vec!["id", "due", "failed"],
        JobState::Unack => vec!["id", "lease ends", "failed"],
        JobState::Retry => vec!["id", "next attempt", "failed", "class", "reason"],
        JobState::Dead => vec!["id", "died", "attempt", "class", "reason"],
        JobState::Done | JobState::Held => vec!["id", "done", "attempt"],
    }
}

fn row(state: JobState, job: &ShownListedJob) -> Vec<String> {
    let tried = match state {
        JobState::Dead | JobState::Done | JobState::Held => {
            job.attempt.map_or_else(|| "-".to_owned(), |attempt| attempt.to_string())
        }
        _ => job.failures.unwrap_or(0).to_string(),
    };
    let mut row = vec![output::one_line(&job.id), output::time(job.at_ms), tried];
    if matches!(state, JobState::Retry | JobState::Dead) {
        row.push(job.class.clone().unwrap_or_else(|| "-".to_owned()));
        row.push(output::first_line(job.reason.as_deref().unwrap_or_default(), REASON_CHARS));
    }
    row
}
