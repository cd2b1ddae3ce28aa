//! `duebox schedules`: shows when the schedules of the manifest fire, and pushes a job of one now.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use duebox_queue::Pushed;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::Common;
use super::support::failure::{FAILED, Failure};
use super::support::{output, target};
use crate::manifest::{Manifest, nearest};
use crate::schedule::{Schedule, When};
use crate::service::timetable::{ScheduleEntry, Timetable, push_now};

/// Show when the schedules of the manifest fire
///
/// "last run" is the last tick that pushed a job, "next run" the next one that will; both in the
/// schedule's time zone. Jobs of a paused topic wait until it is resumed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox schedules
  duebox schedules run nightly
  duebox schedules --json | jq '.schedules[] | {name, next_run_ms}'")]
pub(super) struct SchedulesArgs {
    #[command(subcommand)]
    command: Option<SchedulesCommand>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
pub(super) enum SchedulesCommand {
    /// Push a job of one schedule now
    ///
    /// The job has the schedule's payload and the id NAME@NOW. It does not count as a tick: the
    /// next run does not change.
    #[command(after_help = "\
Examples:
  duebox schedules run nightly

Exit codes:
  0  pushed
  1  the queue refused it, or Redis failed
  2  there is no such schedule")]
    Run {
        /// The schedule's name
        name: String,
    },
}

/// The result of `schedules run`; the JSON output.
#[derive(Serialize)]
struct RunResult<'a> {
    schedule: &'a str,
    topic: &'a str,
    id: String,
    result: &'static str,
}

pub(super) fn schedules(common: &Common, args: &SchedulesArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    match &args.command {
        Some(SchedulesCommand::Run { name }) => run(&manifest, name, args.json),
        None if manifest.schedules.is_empty() && !args.json => {
            output::print("no schedules: the manifest has no [[schedules]]")?;
            Ok(ExitCode::SUCCESS)
        }
        None => list(&manifest, args.json),
    }
}

fn list(manifest: &Manifest, json: bool) -> Result<ExitCode, Failure> {
    let table = target::block_on(async {
        let queue = target::connect(manifest).await?;
        Ok(Timetable::read(&queue, manifest).await?)
    })?;
    if json {
        output::print_json(&table)?;
    } else {
        let entries = manifest.schedules.iter().zip(&table.schedules);
        let rows: Vec<Vec<String>> = entries.map(|(s, entry)| row(s, entry)).collect();
        let header = ["name", "when", "topic", "last run", "next run", ""];
        output::print(&output::table(&header, &rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(schedule: &Schedule, entry: &ScheduleEntry<'_>) -> Vec<String> {
    let zone = match &schedule.when {
        When::Cron(cron) => cron.zone().clone(),
        When::Every(_) => TimeZone::UTC,
    };
    let time = |ms: Option<u64>| time_in(&zone, ms).unwrap_or_else(|| "-".to_owned());
    vec![
        entry.name.to_owned(),
        schedule.when.describe(),
        entry.topic.to_owned(),
        time(entry.last_run_ms),
        time(entry.next_run_ms),
        match &entry.fault {
            Some(fault) => output::one_line(fault),
            None => if entry.paused { "paused" } else { "" }.to_owned(),
        },
    ]
}

/// A time in a time zone, with the offset.
fn time_in(zone: &TimeZone, unix_ms: Option<u64>) -> Option<String> {
    let time = Timestamp::from_millisecond(i64::try_from(unix_ms?).ok()?).ok()?;
    Some(time.display_with_offset(zone.to_offset(time)).to_string())
}

fn run(manifest: &Manifest, name: &str, json: bool) -> Result<ExitCode, Failure> {
    let Some(schedule) = manifest.schedules.iter().find(|schedule| schedule.name == name) else {
        return Err(unknown_schedule(manifest, name));
    };
    let (id, pushed) = target::block_on(async {
        let queue = target::connect(manifest).await?;
        Ok(push_now(&queue, schedule).await?)
    })?;
    let topic = schedule.topic.as_str();
    if json {
        output::print_json(&RunResult {
            schedule: name,
            topic,
            id: id.to_string(),
            result: pushed.word(),
        })?;
        return Ok(ExitCode::from(if pushed == Pushed::Pushed { 0 } else { FAILED }));
    }
    match pushed {
        Pushed::Pushed => {
            output::print(&format!("pushed {id} to {topic}, due now"))?;
            Ok(ExitCode::SUCCESS)
        }
        Pushed::Full => Err(Failure::failed(
            format!("full: {topic} has max_pending waiting jobs"),
            "wait until some have run, or raise max_pending",
        )),
        other => Err(Failure::failed(
            format!("{}: job {id} was not pushed to {topic}", other.word()),
            "run the command again: the next job gets a new id",
        )),
    }
}

fn unknown_schedule(manifest: &Manifest, name: &str) -> Failure {
    let known = || manifest.schedules.iter().map(|schedule| schedule.name.as_str());
    let hint = match nearest(name, known()) {
        Some(like) => format!("did you mean {like}?"),
        None if manifest.schedules.is_empty() => "the manifest has no [[schedules]]".to_owned(),
        None => format!("choose one of: {}", known().collect::<Vec<_>>().join(", ")),
    };
    Failure::bad_input(format!("the manifest has no schedule {name}"), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_the_time_zone_of_the_schedule() {
        let shanghai = TimeZone::get("Asia/Shanghai").unwrap();
        let at = Some(1_763_665_200_000);
        assert_eq!(time_in(&shanghai, at).unwrap(), "2025-11-21T03:00:00+08:00");
        assert_eq!(time_in(&TimeZone::UTC, at).unwrap(), "2025-11-20T19:00:00+00:00");
        assert_eq!(time_in(&TimeZone::UTC, None), None);
    }
}
