//! A stream of jobs, one JSON object per line. Jobs are pushed in batches while the request
//! arrives, and results are sent line by line. Only one batch is in memory. The request is read no
//! further while the client does not read the response.
//!
//! An invalid or refused line does not affect the others. A general failure, such as an outage of
//! Redis, ends the response with a line that reports it.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::{Buf, BytesMut};
use duebox_job::TopicName;
use duebox_queue::{BATCH_MAX, NewJob};
use serde::Serialize;

use super::array::numbered;
use super::{PushSettings, defaults, word_of};
use crate::http::body::RequestBody;
use crate::http::problem::Problem;
use crate::http::state::{ServerState, settings};
use crate::service::due::DueCheck;
use crate::service::written_job::{TopicDefaults, WrittenJob};

/// Payload bytes after which a batch is pushed.
const BATCH_BYTES: usize = 1 << 20;
/// Maximum bytes of a line besides its payload: options with all headers, the id, the field names.
const LINE_OVERHEAD: usize = 128 << 10;
/// JSON may take six characters for one byte.
const ESCAPED: usize = 6;

/// The result of a line.
#[derive(Serialize)]
struct LineResult<'a> {
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    result: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A stream in progress.
struct Stream {
    server: ServerState,
    name: TopicName,
    settings_of_push: PushSettings,
    body: RequestBody,
    /// Received bytes that are not processed yet.
    buffer: BytesMut,
    /// Length of the buffer's start that has no line feed.
    scanned: usize,
    /// True while a line that is too long is skipped.
    skips: bool,
    line: u64,
    state: StreamState,
}

#[derive(PartialEq)]
enum StreamState {
    /// More data may arrive.
    Open,
    /// The request is complete.
    Complete,
    /// All results are sent.
    Finished,
}

/// A line of a batch: a job, or the reason why it is invalid.
struct JobLine {
    number: u64,
    job: Result<NewJob, String>,
}

/// Pushes a stream of jobs. The response starts at once.
pub(super) fn push(
    server: &ServerState,
    name: TopicName,
    settings_of_push: PushSettings,
    body: RequestBody,
) -> Response {
    let stream = Stream {
        server: server.clone(),
        name,
        settings_of_push,
        body,
        buffer: BytesMut::new(),
        scanned: 0,
        skips: false,
        line: 0,
        state: StreamState::Open,
    };
    let answers = futures_util::stream::unfold(stream, |mut stream| async move {
        let answer = stream.next_results().await?;
        Some((Ok::<_, Infallible>(answer), stream))
    });
    let mut response = Response::new(Body::from_stream(answers));
    let kind = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

impl Stream {
    /// The results of the next batch; `None` when all results are sent.
    async fn next_results(&mut self) -> Option<Bytes> {
        if self.state == StreamState::Finished {
            return None;
        }
        let answered = match self.next_batch().await {
            Ok(batch) if batch.is_empty() => return None,
            Ok(batch) => self.push(batch).await,
            Err(problem) => Err(problem),
        };
        Some(answered.unwrap_or_else(|problem| {
            self.state = StreamState::Finished;
            let error = Some(problem.detail().to_owned());
            text_of(&[LineResult { line: self.line + 1, id: None, result: "failed", error }])
        }))
    }

    /// The next lines, as many as have arrived or fit; empty at the end.
    async fn next_batch(&mut self) -> Result<Vec<JobLine>, Problem> {
        let manifest = self.server.manifest();
        let defaults = defaults(settings(&manifest, &self.name)?);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        loop {
            while let Some(line) = self.next_line(defaults) {
                let Some(line) = line else { continue };
                bytes += line.job.as_ref().map_or(0, |job| job.payload.len());
                batch.push(line);
                if batch.len() == BATCH_MAX || bytes >= BATCH_BYTES {
                    return Ok(batch);
                }
            }
            // Received lines are pushed before more data is awaited.
            if self.state == StreamState::Complete || !batch.is_empty() {
                return Ok(batch);
            }
            match self.body.next().await? {
                Some(piece) => {
                    // A body that decompresses to much is always ready: other requests come first.
                    tokio::task::yield_now().await;
                    self.body.hold(self.buffer.len() + piece.len())?;
                    self.buffer.extend_from_slice(&piece);
                    self.skip_blank_lines();
                }
                None => self.state = StreamState::Complete,
            }
        }
    }

    /// Drops white space before the next line.
    fn skip_blank_lines(&mut self) {
        if self.scanned == 0 && !self.skips {
            let blank = self.buffer.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            self.buffer.advance(blank);
        }
    }

    /// The next line of the buffer, `Some(None)` if it is blank, or `None` if its end has not
    /// arrived.
    fn next_line(&mut self, defaults: TopicDefaults) -> Option<Option<JobLine>> {
        let found = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n');
        let is_complete = self.state == StreamState::Complete;
        let max = defaults.payload_max.saturating_mul(ESCAPED).saturating_add(LINE_OVERHEAD);
        let line = match found {
            Some(at) => {
                let line = self.buffer.split_to(self.scanned + at).freeze();
                self.buffer.advance(1);
                line
            }
            None if is_complete && (!self.buffer.is_empty() || self.skips) => {
                self.buffer.split().freeze()
            }
            None if self.buffer.len() > max => {
                // Keep no more of a line than a job may have.
                self.buffer.clear();
                (self.scanned, self.skips) = (0, true);
                return None;
            }
            None => {
                self.scanned = self.buffer.len();
                return None;
            }
        };
        self.scanned = 0;
        if std::mem::take(&mut self.skips) || line.len() > max {
            self.line += 1;
            let why = "the line is longer than any job of this topic may be".to_owned();
            return Some(Some(JobLine { number: self.line, job: Err(why) }));
        }
        if line.trim_ascii().is_empty() {
            return Some(None);
        }
        self.line += 1;
        Some(Some(JobLine { number: self.line, job: self.job(&line, defaults) }))
    }

    fn job(&self, line: &[u8], defaults: TopicDefaults) -> Result<NewJob, String> {
        let id = self.settings_of_push.key.as_ref().map(|key| numbered(key, self.line)).transpose();
        let id = id.map_err(|problem| problem.detail().to_owned())?;
        let job = WrittenJob::read(line).and_then(|written| written.job(defaults, id.as_ref()));
        job.map_err(|invalid| invalid.why)
    }

    /// Pushes the valid jobs, and returns the result of each line.
    async fn push(&mut self, batch: Vec<JobLine>) -> Result<Bytes, Problem> {
        let manifest = self.server.manifest();
        let topic = settings(&manifest, &self.name)?;
        self.server.ensure_limits(&self.name, topic).await?;
        let (mut results, mut indices, mut jobs) = (Vec::new(), Vec::new(), Vec::new());
        let dues = batch.iter().flat_map(|line| &line.job).map(|job| job.due);
        let check = DueCheck::of(&self.server.queue, dues).await?;
        for JobLine { number, job } in batch {
            let job = job.and_then(|job| match check.check(job.due) {
                Ok(()) => Ok(job),
                Err(bad) => Err(bad.message),
            });
            let (result, error) = match job {
                Ok(job) => {
                    indices.push(results.len());
                    jobs.push(job);
                    ("", None)
                }
                Err(why) => ("bad", Some(why)),
            };
            results.push(LineResult { line: number, id: None, result, error });
        }
        let PushSettings { if_exists, came, .. } = &self.settings_of_push;
        let answers = self.server.push(&self.name, jobs, *if_exists, came).await?;
        for (at, (id, pushed)) in indices.into_iter().zip(answers) {
            let (result, why) = word_of(pushed, self.settings_of_push.if_exists);
            let outcome = &mut results[at];
            (outcome.id, outcome.result) = (Some(id.to_string()), result);
            outcome.error = why.map(str::to_owned);
        }
        Ok(text_of(&results))
    }
}

/// Results as lines.
fn text_of(results: &[LineResult<'_>]) -> Bytes {
    let mut text = Vec::with_capacity(results.len() * 64);
    for outcome in results {
        // Texts and numbers: serialization to JSON cannot fail.
        serde_json::to_writer(&mut text, outcome).unwrap_or_default();
        text.push(b'\n');
    }
    Bytes::from(text)
}
