//! A stream of jobs, a JSON object a line: pushed in batches while it comes in, and answered line by line
//! while it is pushed. What is kept in memory is one batch, however long the stream is; a client that does
//! not read its answers is read from no further.
//!
//! A line that is no job, or is refused, keeps no other back. A fault of the whole, such as a Redis that
//! has gone, ends the answer with a line that says so.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::{Buf, BytesMut};
use duebox_job::TopicName;
use duebox_queue::{BATCH_MAX, NewJob};
use serde::Serialize;

use super::array::numbered;
use super::{Wish, frame, word_of};
use crate::http::body::Pieces;
use crate::http::problem::Problem;
use crate::http::state::{ServerState, settings};
use crate::service::written_job::{Frame, WrittenJob};

/// Payload bytes of a batch.
const BATCH_BYTES: usize = 1 << 20;
/// What a line may have beside its payload: options with all their headers, the id, the names.
const LINE_OVERHEAD: usize = 128 << 10;
/// JSON may take six characters for a byte.
const ESCAPED: usize = 6;

/// What became of a line.
#[derive(Serialize)]
struct Outcome<'a> {
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    result: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A stream that is being pushed.
struct Stream {
    server: ServerState,
    name: TopicName,
    wish: Wish,
    pieces: Pieces,
    /// What came in and has not been taken yet.
    buffer: BytesMut,
    /// Up to where the buffer was looked through for the end of a line.
    looked: usize,
    /// A line that is too long is being skipped.
    skips: bool,
    line: u64,
    state: Standing,
}

#[derive(PartialEq)]
enum Standing {
    /// More may come.
    Open,
    /// All has come.
    Complete,
    /// All was answered.
    Over,
}

/// A line of a batch: a job, or why it is none.
struct Line {
    number: u64,
    job: Result<NewJob, String>,
}

/// PushCounters a stream of jobs. The answer begins at once.
pub(super) fn push(server: &ServerState, name: TopicName, wish: Wish, body: Body) -> Response {
    let stream = Stream {
        server: server.clone(),
        name,
        wish,
        pieces: Pieces::of(body),
        buffer: BytesMut::new(),
        looked: 0,
        skips: false,
        line: 0,
        state: Standing::Open,
    };
    let answers = futures_util::stream::unfold(stream, |mut stream| async move {
        let answer = stream.next_answer().await?;
        Some((Ok::<_, Infallible>(answer), stream))
    });
    let mut response = Response::new(Body::from_stream(answers));
    let kind = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

impl Stream {
    /// The answers to the next batch; none when all is answered.
    async fn next_answer(&mut self) -> Option<Bytes> {
        if self.state == Standing::Over {
            return None;
        }
        let answered = match self.next_batch().await {
            Ok(batch) if batch.is_empty() => return None,
            Ok(batch) => self.push(batch).await,
            Err(problem) => Err(problem),
        };
        Some(answered.unwrap_or_else(|problem| {
            self.state = Standing::Over;
            let error = Some(problem.detail().to_owned());
            text_of(&[Outcome { line: self.line + 1, id: None, result: "failed", error }])
        }))
    }

    /// The next lines, as many as there are or fit; none at the end.
    async fn next_batch(&mut self) -> Result<Vec<Line>, Problem> {
        let manifest = self.server.manifest();
        let frame = frame(settings(&manifest, &self.name)?);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        loop {
            while let Some(line) = self.next_line(frame) {
                let Some(line) = line else { continue };
                bytes += line.job.as_ref().map_or(0, |job| job.payload.len());
                batch.push(line);
                if batch.len() == BATCH_MAX || bytes >= BATCH_BYTES {
                    return Ok(batch);
                }
            }
            // What has come is pushed before more is waited for.
            if self.state == Standing::Complete || !batch.is_empty() {
                return Ok(batch);
            }
            match self.pieces.next().await? {
                Some(piece) => self.buffer.extend_from_slice(&piece),
                None => self.state = Standing::Complete,
            }
        }
    }

    /// The next line of the buffer, or nothing where it was blank; none if its end is not there yet.
    fn next_line(&mut self, frame: Frame) -> Option<Option<Line>> {
        let found = self.buffer[self.looked..].iter().position(|byte| *byte == b'\n');
        let is_complete = self.state == Standing::Complete;
        let max = frame.payload_max.saturating_mul(ESCAPED).saturating_add(LINE_OVERHEAD);
        let line = match found {
            Some(at) => {
                let line = self.buffer.split_to(self.looked + at).freeze();
                self.buffer.advance(1);
                line
            }
            None if is_complete && (!self.buffer.is_empty() || self.skips) => {
                self.buffer.split().freeze()
            }
            None if self.buffer.len() > max => {
                // No more of it is kept than a job may take.
                self.buffer.clear();
                (self.looked, self.skips) = (0, true);
                return None;
            }
            None => {
                self.looked = self.buffer.len();
                return None;
            }
        };
        self.looked = 0;
        if std::mem::take(&mut self.skips) || line.len() > max {
            self.line += 1;
            let why = "the line is longer than any job of this topic can be".to_owned();
            return Some(Some(Line { number: self.line, job: Err(why) }));
        }
        if line.trim_ascii().is_empty() {
            return Some(None);
        }
        self.line += 1;
        Some(Some(Line { number: self.line, job: self.job(&line, frame) }))
    }

    fn job(&self, line: &[u8], frame: Frame) -> Result<NewJob, String> {
        let id = self.wish.key.as_ref().map(|key| numbered(key, self.line)).transpose();
        let id = id.map_err(|problem| problem.detail().to_owned())?;
        let job = WrittenJob::read(line).and_then(|written| written.job(frame, id.as_ref()));
        job.map_err(|no_job| no_job.why)
    }

    /// PushCounters what are jobs, and says of each line what became of it.
    async fn push(&mut self, batch: Vec<Line>) -> Result<Bytes, Problem> {
        let manifest = self.server.manifest();
        let topic = settings(&manifest, &self.name)?;
        let queue = self.server.queue_of(&self.name, topic).await?;
        let (mut said, mut places, mut jobs) = (Vec::new(), Vec::new(), Vec::new());
        for Line { number, job } in batch {
            let (result, error) = match job {
                Ok(job) => {
                    places.push(said.len());
                    jobs.push(job);
                    ("", None)
                }
                Err(why) => ("bad", Some(why)),
            };
            said.push(Outcome { line: number, id: None, result, error });
        }
        let Wish { if_exists, came, .. } = &self.wish;
        let answers = self.server.push(queue, &self.name, jobs, *if_exists, came).await?;
        for (at, (id, pushed)) in places.into_iter().zip(answers) {
            let (result, why) = word_of(pushed, self.wish.if_exists);
            let outcome = &mut said[at];
            (outcome.id, outcome.result) = (Some(id.to_string()), result);
            outcome.error = why.map(str::to_owned);
        }
        Ok(text_of(&said))
    }
}

/// Outcomes as lines.
fn text_of(said: &[Outcome<'_>]) -> Bytes {
    let mut text = Vec::with_capacity(said.len() * 64);
    for outcome in said {
        // Texts and numbers: there is nothing in it that JSON could not hold.
        serde_json::to_writer(&mut text, outcome).unwrap_or_default();
        text.push(b'\n');
    }
    Bytes::from(text)
}
