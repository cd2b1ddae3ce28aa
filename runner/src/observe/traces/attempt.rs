//! The spans of an attempt: a child of the push, built when its verdict is settled, with a child for each
//! call that left the sandbox.
//!
//! Attributes follow OpenTelemetry's messaging conventions; others start with `duebox.`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use duebox_job::{Outcome, TopicName};
use duebox_queue::Settled;
use duebox_sandbox::{AttemptSpan, AttemptTrace, CallTarget, HostCall};
use opentelemetry::KeyValue;
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry_sdk::trace::SpanData;

use super::{Traces, context, span};
use crate::millis::exact_millis;
use crate::observe::attempt_record::AttemptRecord;

impl Traces {
    /// The span of an attempt at a job with these headers; `None` if it is not recorded.
    pub(crate) fn attempt_span(
        &self,
        headers: &BTreeMap<String, String>,
    ) -> Option<Box<AttemptSpan>> {
        if !self.is_on() {
            return None;
        }
        let parent = context::of_job(headers);
        if parent.as_ref().is_some_and(|parent| !parent.is_sampled()) {
            return None;
        }
        let child = context::child(parent.as_ref());
        Some(Box::new(AttemptSpan {
            trace_id: u128::from_be_bytes(child.trace_id().to_bytes()),
            id: u64::from_be_bytes(child.span_id().to_bytes()),
            parent_id: parent.map(|parent| u64::from_be_bytes(parent.span_id().to_bytes())),
            state: child.trace_state().header(),
        }))
    }

    /// Sends the spans of a settled attempt.
    pub(crate) fn send_attempt(&self, topic: &TopicName, record: &AttemptRecord, settled: Settled) {
        let Some(traced) = &record.traced else { return };
        let times = Times::now();
        let began = times.of(record.started_at);
        let end = began + record.cost.wall;
        let AttemptSpan { trace_id, id, parent_id, state } = &traced.span;
        let parent = parent_id.map(|parent| context_of(*trace_id, parent, "", true));
        let own = context_of(*trace_id, *id, state, false);
        let name = format!("process {topic}");
        let mut attempt =
            span(own.clone(), parent.as_ref(), SpanKind::Consumer, name, (began, end));
        attempt.attributes = attributes(topic, record, traced, settled);
        attempt.status = status(record, settled);
        for call in &traced.calls {
            self.give(of_call(call, &own, &times, end));
        }
        self.give(attempt);
    }
}

fn attributes(
    topic: &TopicName,
    record: &AttemptRecord,
    traced: &AttemptTrace,
    settled: Settled,
) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new("messaging.system", "duebox"),
        KeyValue::new("messaging.operation.name", "process"),
        KeyValue::new("messaging.operation.type", "process"),
        KeyValue::new("messaging.destination.name", topic.to_string()),
        KeyValue::new("messaging.message.id", record.id.to_string()),
        KeyValue::new("duebox.attempt", i64::from(record.attempt)),
        KeyValue::new("duebox.verdict", record.verdict_words().0),
        KeyValue::new("duebox.settled", settled.word()),
        KeyValue::new("duebox.late_ms", exact_millis(record.late)),
    ];
    if let Some(class) = record.class() {
        attributes.push(KeyValue::new("duebox.class", class.name()));
        attributes.push(KeyValue::new("error.type", class.name()));
    }
    if let Some(digest) = record.digest {
        attributes.push(KeyValue::new("duebox.handler.digest", digest.to_string()));
    }
    if traced.left_out > 0 {
        attributes.push(KeyValue::new("duebox.calls_left_out", i64::from(traced.left_out)));
    }
    attributes
}

fn status(record: &AttemptRecord, settled: Settled) -> Status {
    match &record.outcome {
        _ if settled == Settled::Lost => Status::error("the lease was lost before the verdict"),
        Outcome::Failed(failure) => Status::error(failure.reason.clone()),
        Outcome::HostFault(reason) => Status::error(reason.clone()),
        Outcome::Acked | Outcome::Snoozed { .. } => Status::Unset,
    }
}

/// The span of one host call.
fn of_call(call: &HostCall, attempt: &SpanContext, times: &Times, end: SystemTime) -> SpanData {
    let began = times.of(call.began);
    let over = call.took.map_or(end, |took| began + took);
    let own = SpanContext::new(
        attempt.trace_id(),
        SpanId::from(call.id),
        attempt.trace_flags(),
        false,
        attempt.trace_state().clone(),
    );
    let (kind, name, attributes) = about(&call.target);
    let mut span = span(own, Some(attempt), kind, name, (began, over));
    span.attributes = attributes;
    span.status = match (&call.failed, call.took) {
        (Some(why), _) => Status::error(why.clone()),
        (None, None) => Status::error("the attempt ended before the call"),
        (None, Some(_)) => Status::Unset,
    };
    span
}

fn about(target: &CallTarget) -> (SpanKind, String, Vec<KeyValue>) {
    match target {
        CallTarget::Http { method, host, port, status } => {
            let mut attributes = vec![
                KeyValue::new("http.request.method", method.clone()),
                KeyValue::new("server.address", host.clone()),
            ];
            attributes.extend(port.map(|port| KeyValue::new("server.port", i64::from(port))));
            let status = status.map(i64::from);
            attributes.extend(status.map(|s| KeyValue::new("http.response.status_code", s)));
            (SpanKind::Client, method.clone(), attributes)
        }
        CallTarget::Kv(import) => {
            let attributes = vec![
                KeyValue::new("db.system.name", "redis"),
                KeyValue::new("db.operation.name", *import),
            ];
            (SpanKind::Client, (*import).to_owned(), attributes)
        }
        CallTarget::Push { topic, id } => {
            let attributes = vec![
                KeyValue::new("messaging.system", "duebox"),
                KeyValue::new("messaging.operation.name", "push"),
                KeyValue::new("messaging.operation.type", "send"),
                KeyValue::new("messaging.destination.name", topic.to_string()),
                KeyValue::new("messaging.message.id", id.to_string()),
            ];
            (SpanKind::Producer, format!("push {topic}"), attributes)
        }
    }
}

fn context_of(trace: u128, id: u64, state: &str, is_remote: bool) -> SpanContext {
    let state = state.parse::<TraceState>().unwrap_or_default();
    SpanContext::new(TraceId::from(trace), SpanId::from(id), TraceFlags::SAMPLED, is_remote, state)
}

/// Converts moments of this process to wall-clock time.
struct Times {
    now: Instant,
    is: SystemTime,
}

impl Times {
    fn now() -> Self {
        Self { now: Instant::now(), is: SystemTime::now() }
    }

    fn of(&self, moment: Instant) -> SystemTime {
        let ago: Duration = self.now.saturating_duration_since(moment);
        self.is.checked_sub(ago).unwrap_or(self.is)
    }
}
