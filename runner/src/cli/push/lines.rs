//! `duebox push --lines`: one job for each line, in batches that are bounded in number and size.
//!
//! A batch is pushed as a whole; each refused line is named. When a line is invalid, the batches
//! before it are already stored. The error states the number of stored lines, so that the rest can
//! be pushed.

use std::io::{BufRead, Read};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bytes::Bytes;
use duebox_job::{JobId, TopicName};
use duebox_queue::{BATCH_MAX, NewJob, Pushed, Queue};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::{Template, refusal};
use crate::cli::support::failure::{FAILED, Failure};
use crate::cli::support::payload::Source;
use crate::cli::support::{output, target};
use crate::manifest::Manifest;

/// Payload bytes after which a batch is sent.
const BATCH_BYTES: usize = 8 << 20;

/// What to push.
pub(crate) struct LinesInput<'a> {
    pub(crate) source: Source,
    pub(crate) template: Template,
    pub(crate) topic: &'a TopicName,
    /// Prefix of the ids; without it, ids are generated.
    pub(crate) ids: Option<JobId>,
}

/// The number of lines for each result.
#[derive(Default, Serialize)]
struct LineCounts {
    lines: u64,
    pushed: u64,
    exists: u64,
    kept: u64,
    replaced: u64,
    successor: u64,
    held: u64,
    full: u64,
    bad_due: u64,
}

impl LineCounts {
    fn add(&mut self, pushed: Pushed) {
        self.lines += 1;
        let count = match pushed {
            Pushed::Pushed => &mut self.pushed,
            Pushed::Exists => &mut self.exists,
            Pushed::Kept => &mut self.kept,
            Pushed::Replaced => &mut self.replaced,
            Pushed::Successor => &mut self.successor,
            Pushed::Held => &mut self.held,
            Pushed::Full => &mut self.full,
            Pushed::BadDue => &mut self.bad_due,
        };
        *count += 1;
    }

    fn refused(&self) -> u64 {
        self.exists + self.held + self.full + self.bad_due
    }
}

/// The counts; the JSON output.
#[derive(Serialize)]
struct Summary<'a> {
    topic: &'a str,
    #[serde(flatten)]
    counts: &'a LineCounts,
}

/// A refused line; the JSON output.
#[derive(Serialize)]
struct Refused {
    line: u64,
    id: String,
    result: &'static str,
}

impl Refused {
    fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            return output::print_json(self);
        }
        output::print(&format!("{} {} (line {})", self.result, self.id, self.line))
    }
}

pub(crate) fn push(
    manifest: &Manifest,
    lines: LinesInput<'_>,
    json: bool,
) -> Result<ExitCode, Failure> {
    let began = Instant::now();
    let progress = progress_bar(lines.source.len());
    let counts = target::block_on(async {
        let queue = target::connect_to_topic(manifest, lines.topic).await?;
        target::check_due(&queue, lines.template.due).await?;
        push_all(&queue, &lines, &progress, json).await
    });
    progress.finish_and_clear();
    let counts = counts?;
    let refused = counts.refused();
    if json {
        output::print_json(&Summary { topic: lines.topic.as_str(), counts: &counts })?;
        return Ok(ExitCode::from(if refused == 0 { 0 } else { FAILED }));
    }
    output::print(&describe(lines.topic, &counts, began.elapsed()))?;
    if refused == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::failed(
        format!("{refused} of {} lines were not pushed", counts.lines),
        "exists: a live job has that id; held: one is done, and its id is still reserved; full: \
         max_pending jobs wait; bad_due: Redis refused the due time",
    ))
}

/// A progress bar; shown only on a terminal.
fn progress_bar(bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match bytes {
        Some(bytes) => {
            (ProgressBar::new(bytes), "{wide_bar} {bytes}/{total_bytes} {msg} jobs, {eta} to go")
        }
        None => (ProgressBar::new_spinner(), "{spinner} {msg} jobs in {elapsed}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

async fn push_all(
    queue: &Queue,
    lines: &LinesInput<'_>,
    progress: &ProgressBar,
    json: bool,
) -> Result<LineCounts, Failure> {
    let mut reader = lines.source.open()?;
    let mut counts = LineCounts::default();
    let (mut batch, mut batch_bytes) = (Vec::with_capacity(BATCH_MAX), 0);
    let mut number: u64 = 0;
    loop {
        let line = read_line(reader.as_mut(), lines, number + 1);
        let line = line.map_err(|failure| failure.after_lines(counts.lines))?;
        if let Some(payload) = &line {
            number += 1;
            batch_bytes += payload.len() + 1;
            batch.push(job(lines, number, payload.clone())?);
        }
        let full = batch.len() == BATCH_MAX || batch_bytes >= BATCH_BYTES;
        if full || (line.is_none() && !batch.is_empty()) {
            let answers = queue.push(lines.topic, &batch, lines.template.if_exists).await;
            let answers =
                answers.map_err(|error| Failure::from(error).in_lines(counts.lines + 1, number))?;
            for (job, pushed) in batch.iter().zip(answers) {
                counts.add(pushed);
                if refusal(pushed).is_some() {
                    let (line, id) = (counts.lines, job.id.to_string());
                    let refused = Refused { line, id, result: pushed.word() };
                    progress.suspend(|| refused.print(json))?;
                }
            }
            progress.inc(batch_bytes as u64);
            progress.set_message(counts.lines.to_string());
            (batch, batch_bytes) = (Vec::with_capacity(BATCH_MAX), 0);
        }
        if line.is_none() {
            return Ok(counts);
        }
    }
}

fn job(lines: &LinesInput<'_>, number: u64, payload: Bytes) -> Result<NewJob, Failure> {
    let id = match &lines.ids {
        None => JobId::generate(),
        Some(prefix) => JobId::new(format!("{prefix}-{number}"))
            .map_err(|error| Failure::bad_input(error.to_string(), "choose a shorter --id"))?,
    };
    Ok(lines.template.job(id, payload))
}

/// The next line without its line feed; `None` at the end. Reads no more than a payload may have.
fn read_line(
    reader: &mut dyn BufRead,
    lines: &LinesInput<'_>,
    number: u64,
) -> Result<Option<Bytes>, Failure> {
    let max = lines.template.payload_max;
    let mut line = Vec::new();
    let read = reader.take(max as u64 + 1).read_until(b'\n', &mut line);
    if read.map_err(|error| lines.source.unreadable(&error))? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > max {
        return Err(crate::cli::support::payload::too_long(&format!("line {number}"), max));
    }
    Ok(Some(Bytes::from(line)))
}

fn describe(topic: &TopicName, counts: &LineCounts, took: Duration) -> String {
    let mut text = format!("pushed {} of {} lines to {topic}", counts.pushed, counts.lines);
    let others = [
        ("exists", counts.exists),
        ("kept", counts.kept),
        ("replaced", counts.replaced),
        ("successor", counts.successor),
        ("held", counts.held),
        ("full", counts.full),
        ("bad_due", counts.bad_due),
    ];
    for (word, count) in others.iter().filter(|(_, count)| *count > 0) {
        text.push_str(&format!(", {word} {count}"));
    }
    text.push_str(&format!(" in {:.1} s", took.as_secs_f64()));
    text
}
