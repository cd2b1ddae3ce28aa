//! `duebox get`: shows one job in any state.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use duebox_job::{JobId, TopicName, format_duration};
use duebox_queue::{CurrentLease, Job, Queue};
use serde::Serialize;
use serde_json::Value;

use super::support::failure::Failure;
use super::support::{output, target};
use super::{Common, value};
use crate::observe::printable;
use crate::service::timeline::{Moment, Timeline};

/// Characters of a reason in the timeline.
const REASON_CHARS: usize = 80;

/// Show a job in any state
///
/// Shows its state, due time, payload, options, attempts and last error; the runner that has it and
/// until when; how it died, or the result of its handler. The timeline has each moment of its life that
/// Redis knows: with `runner.events` all attempts, otherwise the last one. The cost does not depend on
/// the number of jobs.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox get order.close 42
  duebox get order.close 42 --json | jq .state

Exit codes:
  0  found
  1  the id is unknown, or Redis failed
  2  bad input")]
pub(super) struct GetArgs {
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

/// A job and its life; the JSON output.
#[derive(Serialize)]
struct JobView<'a> {
    topic: &'a str,
    #[serde(flatten)]
    job: &'a Job,
    #[serde(flatten)]
    life: &'a Timeline,
}

pub(super) fn get(common: &Common, args: &GetArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    let GetArgs { topic, id, json } = args;
    let found = target::block_on(async {
        let queue = target::connect(&manifest).await?;
        let found = look_up(&queue, topic, id).await?;
        if found.is_none() {
            target::known_topic(&manifest, &queue, topic).await?;
        }
        Ok(found)
    })?;
    let Some((job, life)) = found else {
        return Err(Failure::failed(
            format!("no job {id} is known in {topic}"),
            "it is done and was not kept, or was never pushed; duebox stats shows the topics",
        ));
    };
    show(topic, &job, &life, *json)
}

/// A job and its life; none if the id is unknown.
pub(super) async fn look_up(
    queue: &Queue,
    topic: &TopicName,
    id: &JobId,
) -> Result<Option<(Job, Timeline)>, Failure> {
    let Some(job) = queue.get(topic, id).await? else { return Ok(None) };
    let life = Timeline::read(queue, topic, &job).await?;
    Ok(Some((job, life)))
}

/// Prints a job.
pub(super) fn show(
    topic: &TopicName,
    job: &Job,
    life: &Timeline,
    json: bool,
) -> Result<ExitCode, Failure> {
    if json {
        output::print_json(&JobView { topic: topic.as_str(), job, life })?;
    } else {
        output::print(&output::fields(&describe(topic, job, life)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(topic: &TopicName, job: &Job, life: &Timeline) -> Vec<(&'static str, String)> {
    let now = job.now_ms;
    let mut fields = vec![
        ("id", output::one_line(&job.id.to_string())),
        ("topic", topic.to_string()),
        ("state", job.state.shown().to_owned()),
    ];
    let mut add = |name, value: Option<String>| fields.extend(value.map(|value| (name, value)));
    add("due", job.due_at_ms.map(|ms| moment(ms, now)));
    add("failed", count(job.failures, "attempt"));
    add("crashed", count(job.crashes, "run"));
    add("snoozed", count(job.snoozes, "time"));
    add("lease", job.lease.as_ref().map(|lease| describe_lease(lease, now)));
    add("successor", job.successor_due_at_ms.map(|ms| format!("due {}", moment(ms, now))));
    match &job.options {
        Ok(options) => add("options", Some(options.to_json()).filter(|json| !json.is_empty())),
        Err(why) => add("options", Some(format!("cannot be read: {why}"))),
    }
    if job.state.is_live() {
        add("error", job.last_error.as_ref().map(info));
    }
    if let Some(dead) = &job.dead {
        add("died", Some(moment(dead.died_at_ms, now)));
        add("of", Some(info(&dead.info)));
    }
    if let Some(done) = &job.done {
        add("done", Some(moment(done.done_at_ms, now)));
        add("by", Some(info(&done.info)));
        add("result", done.result.as_deref().map(bytes));
    }
    add("trace", life.trace_id.clone());
    add("parent", life.parent.as_deref().map(output::one_line));
    add("pushed", Some(life.follow_ups.join("\n")).filter(|names| !names.is_empty()));
    add("timeline", Some(timeline_lines(life).join("\n")).filter(|lines| !lines.is_empty()));
    add("held", job.held_until_ms.map(|ms| format!("until {}", moment(ms, now))));
    add("payload", job.payload.as_deref().map(bytes));
    fields
}

/// The life of a job, a line for each moment.
pub(super) fn timeline_lines(life: &Timeline) -> Vec<String> {
    let line = |moment: &Moment| {
        let mut line = format!("{}  {}", output::time(moment.at_ms), moment.event);
        if let Some(attempt) = moment.attempt {
            line.push_str(&format!(", attempt {attempt}"));
        }
        if let Some(ms) = moment.wall_ms {
            line.push_str(&format!(", {ms} ms"));
        }
        if let Some(runner) = &moment.runner {
            line.push_str(&format!(" ({runner})"));
        }
        let why = [&moment.class, &moment.reason].into_iter().flatten().map(String::as_str);
        let why = why.collect::<Vec<_>>().join(": ");
        if !why.is_empty() {
            line.push_str(&format!(": {}", output::first_line(&why, REASON_CHARS)));
        }
        output::one_line(&line)
    };
    life.timeline.iter().map(line).collect()
}

fn count(times: u32, what: &str) -> Option<String> {
    match times {
        0 => None,
        1 => Some(format!("1 {what}")),
        many => Some(format!("{many} {what}s")),
    }
}

fn describe_lease(lease: &CurrentLease, now_ms: u64) -> String {
    let holder = lease.holder.as_deref().map_or("an unnamed runner".to_owned(), output::one_line);
    let mut text = format!("{holder} has it until {}", moment(lease.expires_at_ms, now_ms));
    if lease.cancelled {
        text.push_str("; it is cancelled and will not be retried");
    }
    text
}

/// A time, and its distance from now.
fn moment(ms: u64, now_ms: u64) -> String {
    let span = format_duration(Duration::from_millis(output::rounded(ms.abs_diff(now_ms))));
    let time = output::time(ms);
    if ms > now_ms { format!("{time} (in {span})") } else { format!("{time} ({span} ago)") }
}

/// Bytes as text for the terminal.
fn bytes(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => printable::lines(text),
        Err(_) => format!("{} bytes of binary data; --json prints them in base64", bytes.len()),
    }
}

/// The recorded data of an attempt: class and reason first, then the other fields by name.
fn info(info: &Value) -> String {
    let Value::Object(fields) = info else {
        return printable::lines(&value_text(info));
    };
    let mut lines = Vec::new();
    let first: Vec<String> =
        ["class", "reason"].iter().filter_map(|name| fields.get(*name)).map(value_text).collect();
    if !first.is_empty() {
        lines.push(first.join(": "));
    }
    for (name, value) in fields {
        match value {
            _ if name == "class" || name == "reason" => {}
            Value::Array(values) => {
                lines.push(format!("{name}:"));
                lines.extend(values.iter().map(|value| format!("  {}", value_text(value))));
            }
            value => lines.push(format!("{name}: {}", value_text(value))),
        }
    }
    printable::lines(&lines.join("\n"))
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
