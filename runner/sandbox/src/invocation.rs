//! One attempt of one job, as the runner hands it to a handler: taken as it is, whatever it holds.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, TopicName};

use crate::imports::spans::Span;

/// What a handler is told about the job it runs on.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The job's id.
    pub id: JobId,
    /// Its topic.
    pub topic: TopicName,
    /// Its payload. The runner refuses one over [`Handler::payload_max`](crate::Handler::payload_max)
    /// before it runs anything; here it is taken as it is.
    pub payload: Bytes,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Attempts the job has in all, from 1.
    pub max_attempts: u32,
    /// When the job fell due, in unix milliseconds.
    pub due_at_ms: u64,
    /// The job's headers. One that cannot stand in a block (docs/reference/abi.md, "Rules") is left out of it.
    pub headers: BTreeMap<String, String>,
    /// Wall clock of this attempt, counted from the call of [`Handler::run`](crate::Handler::run).
    pub ttr: Duration,
    /// The attempt's place in a trace; none if nothing of it is to be recorded. What its guest sends and pushes
    /// is then in the trace of the job's own header, if it has one.
    pub span: Option<Box<Span>>,
}
