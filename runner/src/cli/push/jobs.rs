//! `duebox push --jobs`: different jobs, one JSON object per line, in batches that are bounded in
//! number and size. Each line has its own result, printed in the order of the lines. A line that is
//! refused or invalid does not affect the others.

use std::io::{BufRead, Read};
use std::process::ExitCode;
use std::time::Duration;

use duebox_job::TopicName;
use duebox_queue::{BATCH_MAX, NewJob, Queue};
use serde::Serialize;

use super::{Template, refusal};
use crate::cli::support::failure::{BAD_INPUT, FAILED, Failure};
use crate::cli::support::payload::Source;
use crate::cli::support::{output, target};
use crate::manifest::Manifest;
use crate::service::due::DueCheck;
use crate::service::written_job::{TopicDefaults, WrittenJob};

/// Payload bytes after which a batch is sent.
const BATCH_BYTES: usize = 8 << 20;
/// Maximum bytes of a line besides its payload: options with all headers, the id, the field names.
const LINE_OVERHEAD: usize = 128 << 10;
/// JSON may take six characters for one byte.
const ESCAPED: usize = 6;

/// What to push.
pub(crate) struct JobsInput<'a> {
    /// The path of a file, or `-` for stdin.
    pub(crate) file: &'a str,
    pub(crate) topic_delay: Duration,
    pub(crate) template: Template,
    pub(crate) topic: &'a TopicName,
}

/// The result of a line; the JSON output.
#[derive(Serialize)]
struct LineResult {
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Lines that are pushed together: each is a job, or the reason why it is invalid.
#[derive(Default)]
struct Batch {
    lines: Vec<Result<NewJob, String>>,
    bytes: usize,
}

/// The results of all lines, counted.
#[derive(Default)]
struct JobCounts {
    lines: u64,
    /// Refused by the queue.
    refused: u64,
    /// Lines that are not a job.
    bad: u64,
}

pub(crate) fn push(
    manifest: &Manifest,
    jobs: &JobsInput<'_>,
    json: bool,
) -> Result<ExitCode, Failure> {
    let source = match jobs.file {
        "-" => Source::Stdin,
        file => Source::File(file.into()),
    };
    let mut reader = source.open()?;
    let counts = target::block_on(async {
        let queue = target::connect_to_topic(manifest, jobs.topic).await?;
        push_all(&queue, jobs, reader.as_mut(), json).await.map_err(|error| match error {
            PushError::Unreadable(error) => source.unreadable(&error),
            PushError::Failed(failure) => failure,
        })
    })?;
    let not_pushed = counts.refused + counts.bad;
    let exit = if counts.bad == counts.lines { BAD_INPUT } else { FAILED };
    match not_pushed {
        0 => Ok(ExitCode::SUCCESS),
        _ if json => Ok(ExitCode::from(exit)),
        _ => Err(Failure::with_exit(
            exit,
            format!("{not_pushed} of {} jobs were not pushed", counts.lines),
            "the lines above give the reasons; all others are pushed",
        )),
    }
}

/// Why the rest of the input was not processed.
enum PushError {
    Unreadable(std::io::Error),
    Failed(Failure),
}

async fn push_all(
    queue: &Queue,
    jobs: &JobsInput<'_>,
    reader: &mut dyn BufRead,
    json: bool,
) -> Result<JobCounts, PushError> {
    let mut counts = JobCounts::default();
    let mut batch = Batch::default();
    loop {
        let line = read_line(reader, jobs.template.payload_max).map_err(PushError::Unreadable)?;
        let is_last = line.is_none();
        if let Some(line) = line {
            batch.add(line.and_then(|line| job(jobs, &line)));
        }
        if batch.is_full() || (is_last && !batch.lines.is_empty()) {
            let full = std::mem::take(&mut batch);
            full.push(queue, jobs, &mut counts, json).await.map_err(PushError::Failed)?;
        }
        if is_last {
            return Ok(counts);
        }
    }
}

impl Batch {
    fn add(&mut self, line: Result<NewJob, String>) {
        self.bytes += line.as_ref().map_or(0, |job| job.payload.len());
        self.lines.push(line);
    }

    fn is_full(&self) -> bool {
        self.lines.len() == BATCH_MAX || self.bytes >= BATCH_BYTES
    }

    /// Pushes the valid jobs, and prints the result of each line.
    async fn push(
        mut self,
        queue: &Queue,
        jobs: &JobsInput<'_>,
        counts: &mut JobCounts,
        json: bool,
    ) -> Result<(), Failure> {
        let check = DueCheck::of(queue, self.lines.iter().flatten().map(|job| job.due)).await;
        let last = counts.lines + self.lines.len() as u64;
        let check = check.map_err(|error| Failure::from(error).in_lines(counts.lines + 1, last))?;
        for line in &mut self.lines {
            let bad = line.as_ref().ok().and_then(|job| check.check(job.due).err());
            if let Some(bad) = bad {
                *line = Err(bad.message);
            }
        }
        let sent: Vec<NewJob> = self.lines.iter().flatten().cloned().collect();
        let answers = queue.push(jobs.topic, &sent, jobs.template.if_exists).await;
        let answers =
            answers.map_err(|error| Failure::from(error).in_lines(counts.lines + 1, last))?;
        let mut answers = answers.into_iter();
        let mut output = Vec::with_capacity(self.lines.len());
        for line in self.lines {
            counts.lines += 1;
            let (id, result, error) = match line {
                Err(why) => {
                    counts.bad += 1;
                    (None, "bad", Some(why))
                }
                Ok(job) => {
                    let pushed = answers.next().ok_or_else(super::no_reply)?;
                    let why = refusal(pushed).map(|(why, _)| why.to_owned());
                    counts.refused += u64::from(why.is_some());
                    (Some(job.id.to_string()), pushed.word(), why)
                }
            };
            output.push(LineResult { line: counts.lines, id, result, error }.text(json)?);
        }
        output::print(&output.join("\n"))
    }
}

impl LineResult {
    fn text(&self, json: bool) -> Result<String, Failure> {
        if json {
            return output::json(self);
        }
        let Self { line, id, result, error } = self;
        let id = id.as_ref().map(|id| format!(" {id}")).unwrap_or_default();
        let why = error.as_ref().map(|why| format!(" (line {line}): {why}")).unwrap_or_default();
        Ok(format!("{result}{id}{why}"))
    }
}

/// The job of a line, or the reason why it is invalid.
fn job(jobs: &JobsInput<'_>, line: &[u8]) -> Result<NewJob, String> {
    let defaults =
        TopicDefaults { delay: jobs.topic_delay, payload_max: jobs.template.payload_max };
    let job = WrittenJob::read(line).and_then(|written| written.job(defaults, None));
    job.map_err(|invalid| invalid.why)
}

/// The next line that is not blank, without its line feed, or an error if it is too long; `None` at
/// the end. Keeps no more of a line than a job may have.
fn read_line(
    reader: &mut dyn BufRead,
    payload_max: usize,
) -> std::io::Result<Option<Result<Vec<u8>, String>>> {
    let max = payload_max.saturating_mul(ESCAPED).saturating_add(LINE_OVERHEAD);
    loop {
        let mut line = Vec::new();
        if reader.take(max as u64).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        if line.last() != Some(&b'\n') && line.len() == max {
            skip_line(reader)?;
            return Ok(Some(
                Err("the line is longer than any job of this topic may be".to_owned()),
            ));
        }
        if !line.trim_ascii().is_empty() {
            return Ok(Some(Ok(line)));
        }
    }
}

/// Skips the rest of a line.
fn skip_line(reader: &mut dyn BufRead) -> std::io::Result<()> {
    loop {
        let buffer = reader.fill_buf()?;
        let (found, length) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (true, at + 1),
            None => (buffer.is_empty(), buffer.len()),
        };
        reader.consume(length);
        if found {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_skipped() {
        let long = format!("{{\"payload\":\"{}\"}}\n{{}}\n\n", "x".repeat(LINE_OVERHEAD + 100));
        let mut reader = long.as_bytes();
        assert!(read_line(&mut reader, 10).unwrap().unwrap().is_err());
        assert_eq!(read_line(&mut reader, 10).unwrap().unwrap().unwrap(), b"{}\n");
        assert!(read_line(&mut reader, 10).unwrap().is_none());
    }
}
