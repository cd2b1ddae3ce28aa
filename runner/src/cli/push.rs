//! `duebox push`: one job. `push/lines.rs` and `push/jobs.rs` push many.

pub(super) mod args;
pub(super) mod jobs;
pub(super) mod lines;

use std::process::ExitCode;

use bytes::Bytes;
use duebox_job::{JobId, Options, format_duration};
use duebox_queue::{Due, IfExists, NewJob, Pushed};
use serde::Serialize;

use self::args::{IfExistsWord, PushArgs};
use super::Common;
use super::support::failure::{FAILED, Failure};
use super::support::payload::Source;
use super::support::{output, target};
use crate::service::due::due;
use crate::service::refused_push;

/// What all jobs of one push share.
pub(super) struct Template {
    pub(super) due: Due,
    pub(super) options: Options,
    pub(super) if_exists: IfExists,
    /// The longest payload of the topic, in bytes.
    pub(super) payload_max: usize,
}

impl Template {
    pub(super) fn job(&self, id: JobId, payload: Bytes) -> NewJob {
        NewJob { id, due: self.due, payload, options: self.options.clone() }
    }
}

/// The result of one push; the JSON output.
#[derive(Serialize)]
struct PushResult<'a> {
    topic: &'a str,
    id: String,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at_ms: Option<u64>,
}

pub(super) fn push(common: &Common, args: PushArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    let topic = target::topic(&manifest, &args.topic)?;
    let template = Template {
        due: due(args.delay, args.at.as_deref(), topic.delay)?,
        options: args.options.options()?,
        if_exists: args.if_exists.map_or(topic.if_exists, IfExistsWord::meaning),
        payload_max: topic.limits.payload,
    };
    if let Some(jobs) = &args.jobs {
        let jobs =
            jobs::JobsInput { file: jobs, topic_delay: topic.delay, template, topic: &args.topic };
        return jobs::push(&manifest, &jobs, args.json);
    }
    let source = Source::new(args.payload.clone());
    if args.lines {
        let source = source.of_lines();
        let lines = lines::LinesInput { source, template, topic: &args.topic, ids: args.id };
        return lines::push(&manifest, lines, args.json);
    }
    let payload = source.read(template.payload_max)?;
    let id = match args.id {
        Some(id) => id,
        None => JobId::generate(),
    };
    let job = template.job(id.clone(), payload);
    let pushed = target::block_on(async {
        let queue = target::connect_to_topic(&manifest, &args.topic).await?;
        target::check_due(&queue, template.due).await?;
        let answers = queue.push(&args.topic, &[job], template.if_exists).await?;
        answers.first().copied().ok_or_else(no_reply)
    })?;
    print_result(&args.topic, &id, template.due, pushed, args.json)
}

pub(super) fn no_reply() -> Failure {
    Failure::failed("Redis returned no result for the push", "check the topic with: duebox stats")
}

fn print_result(
    topic: &duebox_job::TopicName,
    id: &JobId,
    due: Due,
    pushed: Pushed,
    json: bool,
) -> Result<ExitCode, Failure> {
    let word = pushed.word();
    if json {
        let (delay_ms, due_at_ms) = match due {
            Due::Now => (Some(0), None),
            Due::In(delay) => (Some(delay.as_millis()), None),
            Due::At(ms) => (None, Some(ms)),
        };
        let answer = PushResult {
            topic: topic.as_str(),
            id: id.to_string(),
            result: word,
            delay_ms,
            due_at_ms,
        };
        output::print_json(&answer)?;
    } else {
        let when = match due {
            Due::Now => "due now".to_owned(),
            Due::In(delay) => format!("due in {}", format_duration(delay)),
            Due::At(ms) => format!("due at {ms}"),
        };
        output::print(&if pushed.is_stored() {
            format!("{word} {id} to {topic}, {when}")
        } else {
            format!("{word} {id} in {topic}")
        })?;
    }
    match refusal(pushed) {
        None => Ok(ExitCode::SUCCESS),
        Some(_) if json => Ok(ExitCode::from(FAILED)),
        Some((why, remedy)) => {
            Err(Failure::failed(format!("{word}: {id} was not pushed to {topic}: {why}"), remedy))
        }
    }
}

/// Why a job was not pushed, and the remedy; `None` if the push succeeded.
pub(super) fn refusal(pushed: Pushed) -> Option<(&'static str, &'static str)> {
    let why = refused_push::reason(pushed)?;
    let remedy = match pushed {
        Pushed::Held => "choose another id, or wait; duebox get shows until when",
        Pushed::Full => "push later, or raise max_pending",
        Pushed::BadDue => "compare this machine's clock with the clock of Redis",
        _ => "choose another id, cancel it, or push with --if-exists replace",
    };
    Some((why, remedy))
}
