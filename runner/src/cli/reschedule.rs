//! `duebox reschedule` and `duebox run-now`: change the due time of a waiting job.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use duebox_job::{JobId, TopicName, parse_duration};
use duebox_queue::{Due, Rescheduled};
use serde_json::json;

use super::support::failure::{FAILED, Failure};
use super::support::{output, target};
use super::{Common, value};
use crate::service::due::due;

/// Change the due time of a waiting job
///
/// Works on pending, ready, blocked and retry jobs. A running, done or dead job is not changed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox reschedule order.close 42 --in 2h
  duebox reschedule order.close 42 --at 2026-12-24T18:00:00Z

Exit codes:
  0  rescheduled
  1  the job does not wait, or Redis failed
  2  bad input")]
pub(super) struct RescheduleArgs {
    #[command(flatten)]
    job: JobArgs,
    /// Run it after this duration, counted from now
    #[arg(
        long = "in",
        value_name = "DURATION",
        conflicts_with = "at",
        required_unless_present = "at",
        allow_hyphen_values = true,
        value_parser = parse_duration
    )]
    delay: Option<Duration>,
    /// Run it at this time: RFC 3339 with zone or offset, or unix milliseconds
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<String>,
}

/// Run a waiting job now
///
/// Same as `reschedule --in 0s`. The job keeps its attempt count.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox run-now order.close 42

Exit codes:
  0  the job is due
  1  the job does not wait, or Redis failed
  2  bad input")]
pub(super) struct RunNowArgs {
    #[command(flatten)]
    job: JobArgs,
}

#[derive(Args)]
struct JobArgs {
    /// The topic
    #[arg(value_parser = value::topic)]
    topic: TopicName,
    /// The job's id
    #[arg(value_parser = value::any_id)]
    id: JobId,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn reschedule(common: &Common, args: &RescheduleArgs) -> Result<ExitCode, Failure> {
    let due = due(args.delay, args.at.as_deref(), Duration::ZERO)?;
    set(common, &args.job, due)
}

pub(super) fn run_now(common: &Common, args: &RunNowArgs) -> Result<ExitCode, Failure> {
    set(common, &args.job, Due::Now)
}

fn set(common: &Common, job: &JobArgs, due: Due) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    let JobArgs { topic, id, json } = job;
    let (rescheduled, found) = target::block_on(async {
        let queue = target::connect(&manifest).await?;
        target::check_due(&queue, due).await?;
        let rescheduled = queue.reschedule(topic, id, due).await?;
        let found = match rescheduled {
            Rescheduled::None => queue.get(topic, id).await?,
            _ => None,
        };
        if found.is_none() && rescheduled == Rescheduled::None {
            target::known_topic(&manifest, &queue, topic).await?;
        }
        Ok((rescheduled, found))
    })?;
    let word = rescheduled.word();
    let refused =
        matches!(rescheduled, Rescheduled::Leased | Rescheduled::BadDue | Rescheduled::None);
    if *json {
        let state = found.as_ref().map(|job| job.state.word());
        let mut answer = json!({"topic": topic.as_str(), "id": id.to_string(), "result": word});
        if let Some(state) = state {
            answer["state"] = state.into();
        }
        output::print_json(&answer)?;
        return Ok(ExitCode::from(if refused { FAILED } else { 0 }));
    }
    match rescheduled {
        Rescheduled::Leased => Err(Failure::failed(
            format!("job {id} of {topic} is running: a runner has it; nothing was changed"),
            "wait for its verdict, cancel it, or push its successor with --if-exists replace",
        )),
        Rescheduled::BadDue => Err(Failure::failed(
            format!("Redis refused the due time of job {id}; nothing was changed"),
            "compare this machine's clock with the clock of Redis",
        )),
        Rescheduled::None => Err(target::does_not_wait(topic, id, found.as_ref())),
        _ => {
            output::print(&format!("rescheduled {id} in {topic}: now {word}"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
