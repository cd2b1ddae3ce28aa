//! The span of a push over HTTP, and the trace context of its jobs.

use std::time::SystemTime;

use duebox_job::TopicName;
use duebox_queue::NewJob;
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanContext, SpanKind, Status};

use super::context::{self, TRACEPARENT};
use super::{IncomingContext, Traces, span};

/// A push in progress.
pub(crate) struct Pushing {
    /// The trace context of the jobs: the span of the push if it is recorded, otherwise the context of the
    /// request.
    jobs_context: Option<SpanContext>,
    /// The span of the push, if it is recorded.
    recorded: Option<Recorded>,
}

struct Recorded {
    parent: Option<SpanContext>,
    began: SystemTime,
}

impl Traces {
    /// Starts a push with the trace context of its request.
    pub(crate) fn begin_push(&self, came: &IncomingContext) -> Pushing {
        let parent = came.0.as_ref();
        if !self.is_on() || parent.is_some_and(|parent| !parent.is_sampled()) {
            return Pushing { jobs_context: parent.cloned(), recorded: None };
        }
        let recorded = Recorded { parent: parent.cloned(), began: SystemTime::now() };
        Pushing { jobs_context: Some(context::child(parent)), recorded: Some(recorded) }
    }

    /// Ends a push, with its jobs and the error if it failed.
    pub(crate) fn end_push(
        &self,
        pushing: Pushing,
        topic: &TopicName,
        jobs: &[NewJob],
        failed: Option<String>,
    ) {
        let (Some(jobs_context), Some(recorded)) = (pushing.jobs_context, pushing.recorded) else {
            return;
        };
        let Recorded { parent, began } = recorded;
        let time = (began, SystemTime::now());
        let name = format!("push {topic}");
        let mut span = span(jobs_context, parent.as_ref(), SpanKind::Producer, name, time);
        span.attributes = vec![
            KeyValue::new("messaging.system", "duebox"),
            KeyValue::new("messaging.operation.name", "push"),
            KeyValue::new("messaging.operation.type", "send"),
            KeyValue::new("messaging.destination.name", topic.to_string()),
        ];
        span.attributes.push(match jobs {
            [job] => KeyValue::new("messaging.message.id", job.id.to_string()),
            jobs => KeyValue::new("messaging.batch.message_count", jobs.len() as i64),
        });
        if let Some(why) = failed {
            span.status = Status::error(why);
        }
        self.give(span);
    }
}

impl Pushing {
    /// Adds the trace context to the jobs that have none.
    pub(crate) fn mark(&self, jobs: &mut [NewJob]) {
        let Some(jobs_context) = &self.jobs_context else { return };
        let headers = context::headers(jobs_context);
        for job in jobs {
            if !job.options.headers().contains_key(TRACEPARENT) {
                // A job with too many headers gets no trace context.
                if let Ok(marked) = job.options.clone().with_headers(headers.clone()) {
                    job.options = marked;
                }
            }
        }
    }
}
