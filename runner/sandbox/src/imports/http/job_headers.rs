//! The headers that identify the job of a request: a trace, a key that is the same for every attempt, and
//! the attempt. A handler may set the first two itself. The attempt is always set by the host.

use duebox_job::{JobId, TopicName};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::imports::trace_context::{TRACEPARENT, TRACESTATE, TraceContext};
use crate::invocation::{AttemptSpan, Invocation};

/// The number of the attempt.
pub(super) const ATTEMPT: &str = "duebox-attempt";
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Bytes of an idempotency key that are escaped, in addition to all that are not ASCII.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

/// Adds the headers that the guest has not set. `recorded` is the attempt's span and the span id of this
/// request, if they are recorded. If not, `trace` is the trace of the job, which its first request begins.
pub(super) fn add(
    headers: &mut HeaderMap,
    job: &Invocation,
    trace: &mut Option<TraceContext>,
    recorded: Option<(&AttemptSpan, u64)>,
) {
    set(headers, ATTEMPT, &job.attempt.to_string());
    if !headers.contains_key(IDEMPOTENCY_KEY) {
        set(headers, IDEMPOTENCY_KEY, &idempotency_key(&job.topic, &job.id));
    }
    if headers.contains_key(TRACEPARENT) {
        return;
    }
    let (parent, state) = match recorded {
        Some((span, request)) => (span.traceparent(request), Some(span.state.as_str())),
        None => {
            let trace = trace.get_or_insert_with(|| TraceContext::of_job(&job.headers));
            (trace.next_traceparent(), trace.state.as_deref())
        }
    };
    set(headers, TRACEPARENT, &parent);
    if let Some(state) = state.filter(|state| !state.is_empty())
        && !headers.contains_key(TRACESTATE)
    {
        set(headers, TRACESTATE, state);
    }
}

/// Sets a header. A value that cannot be sent is omitted.
fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// `topic/id`, with bytes that a header does not carry safely as `%XX`.
fn idempotency_key(topic: &TopicName, id: &JobId) -> String {
    let encode = |bytes| percent_encode(bytes, ESCAPED);
    format!("{}/{}", encode(topic.as_str().as_bytes()), encode(id.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idempotency_key_is_one_word_and_distinguishes_jobs() {
        let topic = TopicName::new("order.close").unwrap();
        for (id, key) in [
            (&b"42"[..], "order.close/42"),
            (b"a/b:c", "order.close/a/b:c"),
            (b"50%", "order.close/50%25"),
            (b"a b\xff\n", "order.close/a%20b%FF%0A"),
        ] {
            assert_eq!(idempotency_key(&topic, &JobId::from_redis(id.to_vec())), key);
        }
    }
}
