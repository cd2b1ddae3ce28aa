//! `duebox push --jobs`: jobs that differ, a JSON object a line, in batches that are bounded in number
//! and size. Every line has an outcome of its own, said in the order of the lines; one that is
//! refused, or is no job, keeps no other back.

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
use crate::service::written_job::{Frame, WrittenJob};

/// Payload bytes a batch holds before it is sent.
const BATCH_BYTES: usize = 8 << 20;
/// What a line may have beside its payload: options with all their headers, the id, the names.
const LINE_OVERHEAD: usize = 128 << 10;
/// JSON may take six characters for a byte.
const ESCAPED: usize = 6;

/// What to push.
pub(crate) struct Jobs<'a> {
    /// A file, or `-` for stdin.
    pub(crate) file: &'a str,
    pub(crate) topic_delay: Duration,
    pub(crate) template: Template,
    pub(crate) topic: &'a TopicName,
}

/// What became of a line, as JSON has it.
#[derive(Serialize)]
struct Outcome {
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Lines that are pushed together: each a job, or why it is none.
#[derive(Default)]
struct Batch {
    lines: Vec<Result<NewJob, String>>,
    bytes: usize,
}

/// What became of all lines.
#[derive(Default)]
struct Tally {
    lines: u64,
    /// Refused by the queue.
    refused: u64,
    /// No jobs.
    bad: u64,
}

pub(crate) fn push(manifest: &Manifest, jobs: &Jobs<'_>, json: bool) -> Result<ExitCode, Failure> {
    let source = match jobs.file {
        "-" => Source::Stdin,
        file => Source::File(file.into()),
    };
    let mut reader = source.open()?;
    let tally = target::block_on(async {
        let queue = target::connect_to_topic(manifest, jobs.topic).await?;
        push_all(&queue, jobs, reader.as_mut(), json).await.map_err(|error| match error {
            Stopped::Unreadable(error) => source.unreadable(&error),
            Stopped::Failed(failure) => failure,
        })
    })?;
    let not_pushed = tally.refused + tally.bad;
    let exit = if tally.bad == tally.lines { BAD_INPUT } else { FAILED };
    match not_pushed {
        0 => Ok(ExitCode::SUCCESS),
        _ if json => Ok(ExitCode::from(exit)),
        _ => Err(Failure::with_exit(
            exit,
            format!("{not_pushed} of {} jobs were not pushed", tally.lines),
            "the lines above say why; all others are pushed",
        )),
    }
}

/// Why the rest was not looked at.
enum Stopped {
    Unreadable(std::io::Error),
    Failed(Failure),
}

async fn push_all(
    queue: &Queue,
    jobs: &Jobs<'_>,
    reader: &mut dyn BufRead,
    json: bool,
) -> Result<Tally, Stopped> {
    let mut tally = Tally::default();
    let mut batch = Batch::default();
    loop {
        let line = read_line(reader, jobs.template.payload_max).map_err(Stopped::Unreadable)?;
        let is_last = line.is_none();
        if let Some(line) = line {
            batch.add(line.and_then(|line| job(jobs, &line)));
        }
        if batch.is_full() || (is_last && !batch.lines.is_empty()) {
            let full = std::mem::take(&mut batch);
            full.push(queue, jobs, &mut tally, json).await.map_err(Stopped::Failed)?;
        }
        if is_last {
            return Ok(tally);
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

    /// Pushes what are jobs, and says of each line what became of it.
    async fn push(
        self,
        queue: &Queue,
        jobs: &Jobs<'_>,
        tally: &mut Tally,
        json: bool,
    ) -> Result<(), Failure> {
        let sent: Vec<NewJob> = self.lines.iter().flatten().cloned().collect();
        let last = tally.lines + self.lines.len() as u64;
        let answers = queue.push(jobs.topic, &sent, jobs.template.if_exists).await;
        let answers =
            answers.map_err(|error| Failure::from(error).in_lines(tally.lines + 1, last))?;
        let mut answers = answers.into_iter();
        let mut said = Vec::with_capacity(self.lines.len());
        for line in self.lines {
            tally.lines += 1;
            let (id, result, error) = match line {
                Err(why) => {
                    tally.bad += 1;
                    (None, "bad", Some(why))
                }
                Ok(job) => {
                    let pushed = answers.next().ok_or_else(super::no_answer)?;
                    let why = refusal(pushed).map(|(why, _)| why.to_owned());
                    tally.refused += u64::from(why.is_some());
                    (Some(job.id.to_string()), pushed.word(), why)
                }
            };
            said.push(Outcome { line: tally.lines, id, result, error }.text(json)?);
        }
        output::print(&said.join("\n"))
    }
}

impl Outcome {
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

/// The job of a line, or why it is none.
fn job(jobs: &Jobs<'_>, line: &[u8]) -> Result<NewJob, String> {
    let frame = Frame { delay: jobs.topic_delay, payload_max: jobs.template.payload_max };
    let job = WrittenJob::read(line).and_then(|written| written.job(frame, None));
    job.map_err(|no_job| no_job.why)
}

/// The next line that is not blank, without its line feed, or why it is too long; none at the end. No
/// more of a line is kept than a job may take.
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
                Err("the line is longer than any job of this topic can be".to_owned()),
            ));
        }
        if !line.trim_ascii().is_empty() {
            return Ok(Some(Ok(line)));
        }
    }
}

/// Reads to the end of a line and keeps nothing of it.
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
    fn a_line_too_long_is_skipped_whole() {
        let long = format!("{{\"payload\":\"{}\"}}\n{{}}\n\n", "x".repeat(LINE_OVERHEAD + 100));
        let mut reader = long.as_bytes();
        assert!(read_line(&mut reader, 10).unwrap().unwrap().is_err());
        assert_eq!(read_line(&mut reader, 10).unwrap().unwrap().unwrap(), b"{}\n");
        assert!(read_line(&mut reader, 10).unwrap().is_none());
    }
}
