//! The trace of an attempt: its span, and the calls of its guest that leave the sandbox.
//!
//! Nothing is recorded for an attempt without a span. The number of recorded calls is bounded.

use std::time::{Duration, Instant};

use duebox_job::{JobId, TopicName};
use rand::RngExt as _;

use crate::imports::call::GuestState;
use crate::invocation::AttemptSpan;

/// How many calls of one attempt are recorded.
const CALLS_MAX: usize = 128;

/// What is recorded of an attempt that has a span.
#[derive(Debug, Clone)]
pub struct AttemptTrace {
    /// The attempt's span.
    pub span: AttemptSpan,
    /// The first 128 calls, in their order.
    pub calls: Vec<HostCall>,
    /// The number of further calls.
    pub left_out: u32,
    /// How long it took from the call of [`Handler::run`](crate::Handler::run) until the instance existed and was
    /// initialised. `None` if an existing instance was used, or if the attempt ended first.
    pub instantiated: Option<Duration>,
}

/// A call that left the sandbox.
#[derive(Debug, Clone)]
pub struct HostCall {
    /// The id of the call's span, whose parent is the attempt.
    pub id: u64,
    /// The callee.
    pub target: CallTarget,
    /// When the call began.
    pub began: Instant,
    /// How long it took. `None` if the attempt ended first.
    pub took: Option<Duration>,
    /// Why the call failed, if it did.
    pub failed: Option<String>,
}

/// The callee of a [`HostCall`]. Paths and keys are not recorded, because they may contain secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallTarget {
    /// An HTTP request.
    Http {
        /// The method.
        method: String,
        /// The name or address of the server.
        host: String,
        /// The port, or `None` for the default port of the scheme.
        port: Option<u16>,
        /// The status of the response, if there was one.
        status: Option<u16>,
    },
    /// A call of the topic's key-value store: the name of the import.
    Kv(&'static str),
    /// A follow-up job.
    Push {
        /// The topic of the job.
        topic: TopicName,
        /// The id of the job.
        id: JobId,
    },
}

/// The state of a guest whose calls can be recorded.
pub(crate) trait HasSpans: GuestState {
    fn spans(&self) -> &Spans;
    fn spans_mut(&mut self) -> &mut Spans;
}

/// Records the calls of one attempt, if it has a span.
#[derive(Debug, Default)]
pub(crate) struct Spans(Option<Box<AttemptTrace>>);

/// The index of a recorded call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallIndex(usize);

impl Spans {
    /// Records calls below this span, or nothing without one.
    pub(crate) fn new(span: Option<Box<AttemptSpan>>) -> Self {
        let trace = |span: Box<AttemptSpan>| {
            Box::new(AttemptTrace {
                span: *span,
                calls: Vec::new(),
                left_out: 0,
                instantiated: None,
            })
        };
        Self(span.map(trace))
    }

    /// Records that the instance exists, `since` the attempt began.
    pub(crate) fn instantiated(&mut self, since: Instant) {
        if let Some(trace) = self.0.as_mut() {
            trace.instantiated = Some(since.elapsed());
        }
    }

    /// Records the begin of a call. `None` if it is not recorded.
    pub(crate) fn begin(&mut self, target: impl FnOnce() -> CallTarget) -> Option<CallIndex> {
        let trace = self.0.as_mut()?;
        if trace.calls.len() >= CALLS_MAX {
            trace.left_out = trace.left_out.saturating_add(1);
            return None;
        }
        let (id, target) = (rand::rng().random_range(1..=u64::MAX), target());
        let call = HostCall { id, target, began: Instant::now(), took: None, failed: None };
        trace.calls.push(call);
        Some(CallIndex(trace.calls.len() - 1))
    }

    /// Records the end of a call, and its error if it failed.
    pub(crate) fn end(
        &mut self,
        call: Option<CallIndex>,
        failed: impl FnOnce() -> Option<String>,
    ) -> Option<&mut CallTarget> {
        let call = self.0.as_mut()?.calls.get_mut(call?.0)?;
        call.took = Some(call.began.elapsed());
        call.failed = failed();
        Some(&mut call.target)
    }

    /// The attempt's span, and the span id of a recorded call.
    pub(crate) fn context(&self, call: Option<CallIndex>) -> Option<(&AttemptSpan, u64)> {
        let trace = self.0.as_ref()?;
        Some((&trace.span, trace.calls.get(call?.0)?.id))
    }

    /// Takes what was recorded.
    pub(crate) fn take(&mut self) -> Option<Box<AttemptTrace>> {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_recorded_up_to_the_limit_and_counted_beyond_it() {
        let span = AttemptSpan { trace_id: 0xab, id: 1, parent_id: None, state: String::new() };
        assert_eq!(
            span.traceparent(0x1f),
            "00-000000000000000000000000000000ab-000000000000001f-01"
        );
        let mut spans = Spans::new(Some(Box::new(span)));
        for number in 0..CALLS_MAX + 3 {
            let call = spans.begin(|| CallTarget::Kv("kv_get"));
            let target = spans.end(call, || None);
            assert_eq!(target.is_some(), number < CALLS_MAX, "{number}");
        }
        let trace = spans.take().unwrap();
        assert_eq!((trace.calls.len(), trace.left_out), (CALLS_MAX, 3));
        assert!(trace.calls.iter().all(|call| call.took.is_some()));
    }

    #[test]
    fn without_a_span_nothing_is_recorded() {
        let mut spans = Spans::new(None);
        let call = spans.begin(|| CallTarget::Kv("kv_get"));
        assert!(call.is_none() && spans.context(call).is_none() && spans.take().is_none());
    }
}
