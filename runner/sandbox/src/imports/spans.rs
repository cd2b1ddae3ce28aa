//! An attempt's place in a trace, and the calls of its guest that led out of the sandbox: what a tracer makes
//! spans of. Of an attempt without a place nothing is noted, and of one with a place no more than so much.

use std::time::{Duration, Instant};

use duebox_job::{JobId, TopicName};
use rand::RngExt as _;

/// Calls that are noted of one attempt.
const CALLS_MAX: usize = 128;

/// The place of an attempt in a trace, as W3C Trace Context has it. The trace is one that is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The trace; never 0.
    pub trace_id: u128,
    /// The attempt itself; never 0.
    pub id: u64,
    /// What led to it: the push, or another attempt; none where the trace begins here.
    pub parent_id: Option<u64>,
    /// What others want to come along (`tracestate`); empty for nothing.
    pub state: String,
}

/// What is known of an attempt that has a place in a trace.
#[derive(Debug, Clone)]
pub struct Traced {
    /// Its place.
    pub span: Span,
    /// Its calls, in their order.
    pub calls: Vec<HostCall>,
    /// Calls beyond those.
    pub left_out: u32,
}

/// A call that led out of the sandbox.
#[derive(Debug, Clone)]
pub struct HostCall {
    /// Its own place in the trace, below the attempt's.
    pub id: u64,
    /// What was called.
    pub target: Target,
    /// When it began.
    pub began: Instant,
    /// How long it took; none if the attempt was over first.
    pub took: Option<Duration>,
    /// Why it came to nothing, if it did.
    pub failed: Option<String>,
}

/// What a call was about. What may be a secret, as a path or a key, is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A request over HTTP.
    Http {
        /// Its method.
        method: String,
        /// The name or address it went to.
        host: String,
        /// The port; none for that of the scheme.
        port: Option<u16>,
        /// What was answered; none if nothing was.
        status: Option<u16>,
    },
    /// A call of the topic's store: the name of the import.
    Kv(&'static str),
    /// A follow-up job.
    Push {
        /// Where it goes.
        topic: TopicName,
        /// Its id.
        id: JobId,
    },
}

impl Span {
    /// The `traceparent` of what the call of this id leads to.
    pub(crate) fn parent_of(&self, call: u64) -> String {
        format!("00-{:032x}-{call:016x}-01", self.trace_id)
    }
}

impl Traced {
    /// Nothing was called yet.
    pub(crate) fn at(span: Span) -> Self {
        Self { span, calls: Vec::new(), left_out: 0 }
    }

    /// A call begins; answers its number, which is beyond all others if it is not noted.
    pub(crate) fn begins(&mut self, id: u64, target: Target) -> usize {
        if self.calls.len() >= CALLS_MAX {
            self.left_out = self.left_out.saturating_add(1);
            return usize::MAX;
        }
        self.calls.push(HostCall { id, target, began: Instant::now(), took: None, failed: None });
        self.calls.len() - 1
    }

    /// The call of this number is over.
    pub(crate) fn ended(&mut self, number: usize, failed: Option<String>) -> Option<&mut Target> {
        let call = self.calls.get_mut(number)?;
        call.took = Some(call.began.elapsed());
        call.failed = failed;
        Some(&mut call.target)
    }
}

/// A place in a trace that nobody has.
pub(crate) fn new_id() -> u64 {
    rand::rng().random_range(1..=u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_noted_up_to_a_number_and_counted_beyond() {
        let span = Span { trace_id: 0xab, id: 1, parent_id: None, state: String::new() };
        assert_eq!(span.parent_of(0x1f), "00-000000000000000000000000000000ab-000000000000001f-01");
        let mut traced = Traced::at(span);
        for id in 0..CALLS_MAX as u64 + 3 {
            let number = traced.begins(id, Target::Kv("kv_get"));
            let target = traced.ended(number, None);
            assert_eq!(target.is_some(), number < CALLS_MAX, "{id}");
        }
        assert_eq!((traced.calls.len(), traced.left_out), (CALLS_MAX, 3));
        assert!(traced.calls.iter().all(|call| call.took.is_some()));
    }
}
