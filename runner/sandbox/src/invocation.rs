//! One attempt of one job, as the runner passes it to a handler. The sandbox does not validate it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, TopicName};

/// One attempt of one job.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The job's id.
    pub id: JobId,
    /// The job's topic.
    pub topic: TopicName,
    /// The job's payload. The runner refuses one longer than
    /// [`Handler::payload_max`](crate::Handler::payload_max) before it runs the handler.
    pub payload: Bytes,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// How many attempts the job has in total, from 1.
    pub max_attempts: u32,
    /// When the job fell due, in Unix milliseconds.
    pub due_at_ms: u64,
    /// The job's headers. A header that does not fit into a block (docs/reference/abi.md, "Rules") is
    /// omitted from it.
    pub headers: BTreeMap<String, String>,
    /// Wall-clock time of this attempt, counted from the call of [`Handler::run`](crate::Handler::run).
    pub ttr: Duration,
    /// The attempt's span, or `None` if the attempt is not recorded. Without a span, requests and
    /// follow-up jobs of the guest continue the trace of the job's own header, if it has one.
    pub span: Option<Box<AttemptSpan>>,
}

/// The span of an attempt, as W3C Trace Context defines it. Its trace is sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptSpan {
    /// The id of the trace, not 0.
    pub trace_id: u128,
    /// The id of the attempt's span, not 0.
    pub id: u64,
    /// The span of the push, or of the previous attempt. `None` if the trace begins here.
    pub parent_id: Option<u64>,
    /// The `tracestate` header, empty without one.
    pub state: String,
}

impl AttemptSpan {
    /// The `traceparent` header whose parent is the call with this span id.
    pub(crate) fn traceparent(&self, call: u64) -> String {
        format!("00-{:032x}-{call:016x}-01", self.trace_id)
    }
}
