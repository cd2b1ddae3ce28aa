//! The trace context in headers: `traceparent` and `tracestate` of W3C Trace Context, read and written by
//! OpenTelemetry's propagator.

use std::collections::{BTreeMap, HashMap};

use axum::http::HeaderMap;
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use opentelemetry_sdk::propagation::TraceContextPropagator;

/// The header with the trace id and the parent span id.
pub(crate) const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// The trace context of a request, if it has a valid one.
#[derive(Debug, Clone, Default)]
pub(crate) struct IncomingContext(pub(super) Option<SpanContext>);

impl IncomingContext {
    /// Reads the headers of a request. Two `traceparent` headers are invalid.
    pub(crate) fn with(headers: &HeaderMap) -> Self {
        let mut found = headers.get_all(TRACEPARENT).iter();
        let (Some(parent), None) = (found.next(), found.next()) else { return Self(None) };
        let text = |value: &axum::http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
        let states: Vec<String> = headers.get_all(TRACESTATE).iter().map(text).collect();
        Self(read(&text(parent), Some(states.join(",")).filter(|state| !state.is_empty())))
    }
}

/// The trace context in the headers of a job.
pub(super) fn of_job(headers: &BTreeMap<String, String>) -> Option<SpanContext> {
    read(headers.get(TRACEPARENT)?, headers.get(TRACESTATE).cloned())
}

/// The headers of a trace context.
pub(super) fn headers(span_context: &SpanContext) -> BTreeMap<String, String> {
    let mut carrier = HashMap::new();
    let context = Context::new().with_remote_span_context(span_context.clone());
    TraceContextPropagator::new().inject_context(&context, &mut carrier);
    carrier.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// A child of a trace context, or the root of a new trace.
pub(super) fn child(parent: Option<&SpanContext>) -> SpanContext {
    let id = SpanId::from(fastrand::u64(1..));
    match parent {
        Some(parent) => SpanContext::new(
            parent.trace_id(),
            id,
            parent.trace_flags(),
            false,
            parent.trace_state().clone(),
        ),
        None => {
            let trace = TraceId::from(fastrand::u128(1..));
            SpanContext::new(trace, id, TraceFlags::SAMPLED, false, TraceState::NONE)
        }
    }
}

fn read(parent: &str, state: Option<String>) -> Option<SpanContext> {
    let carried = Carried { parent, state };
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &carried);
    let span_context = context.span().span_context().clone();
    span_context.is_valid().then_some(span_context)
}

struct Carried<'a> {
    parent: &'a str,
    state: Option<String>,
}

impl Extractor for Carried<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            TRACEPARENT => Some(self.parent),
            TRACESTATE => self.state.as_deref(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT, TRACESTATE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_context_is_forwarded_unchanged() {
        let mut headers = HeaderMap::new();
        headers.insert(TRACEPARENT, PARENT.parse().unwrap());
        headers.append(TRACESTATE, "a=1".parse().unwrap());
        headers.append(TRACESTATE, "b=2".parse().unwrap());
        let came = IncomingContext::with(&headers).0.unwrap();
        let carried = super::headers(&came);
        assert_eq!(carried[TRACEPARENT], PARENT);
        assert_eq!(carried[TRACESTATE], "a=1,b=2");
        assert_eq!(of_job(&carried), Some(came.clone()));
        let child = child(Some(&came));
        assert_eq!(child.trace_id(), came.trace_id());
        assert!(child.span_id() != came.span_id() && child.is_sampled());
        headers.append(TRACEPARENT, PARENT.parse().unwrap());
        assert_eq!(IncomingContext::with(&headers).0, None, "two headers are invalid");
    }

    #[test]
    fn invalid_headers_are_ignored() {
        for bad in ["", "00-ab", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"] {
            assert_eq!(read(bad, None), None, "{bad}");
        }
        let new = child(None);
        assert!(new.is_valid() && new.is_sampled());
    }
}
