//! A push over HTTP: its span, and the place in the trace that its jobs carry to whoever runs them.

use std::time::SystemTime;

use duebox_job::TopicName;
use duebox_queue::NewJob;
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanContext, SpanKind, Status};

use super::context::{self, TRACEPARENT};
use super::{IncomingContext, Traces, span};

/// A push that is under way.
pub(crate) struct Pushing {
    /// The place that the jobs get: the push's own span, or, where that is not recorded, what came.
    place: Option<SpanContext>,
    /// What is recorded of it.
    recorded: Option<Recorded>,
}

struct Recorded {
    parent: Option<SpanContext>,
    began: SystemTime,
}

impl Traces {
    /// A push begins, sent with this place in a trace.
    pub(crate) fn pushing(&self, came: &IncomingContext) -> Pushing {
        let parent = came.0.as_ref();
        if !self.is_on() || parent.is_some_and(|parent| !parent.is_sampled()) {
            return Pushing { place: parent.cloned(), recorded: None };
        }
        let recorded = Recorded { parent: parent.cloned(), began: SystemTime::now() };
        Pushing { place: Some(context::below(parent)), recorded: Some(recorded) }
    }

    /// The push is over: so many jobs of this topic, or one of this id; and why it came to nothing, if it did.
    pub(crate) fn pushed(
        &self,
        pushing: Pushing,
        topic: &TopicName,
        jobs: &[NewJob],
        failed: Option<String>,
    ) {
        let (Some(place), Some(recorded)) = (pushing.place, pushing.recorded) else { return };
        let Recorded { parent, began } = recorded;
        let time = (began, SystemTime::now());
        let name = format!("push {topic}");
        let mut span = span(place, parent.as_ref(), SpanKind::Producer, name, time);
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
    /// Gives the jobs their place, but for those that brought one of their own.
    pub(crate) fn mark(&self, jobs: &mut [NewJob]) {
        let Some(place) = &self.place else { return };
        let headers = context::headers(place);
        for job in jobs {
            if !job.options.headers().contains_key(TRACEPARENT) {
                // A job whose headers are full already goes without.
                if let Ok(marked) = job.options.clone().with_headers(headers.clone()) {
                    job.options = marked;
                }
            }
        }
    }
}
