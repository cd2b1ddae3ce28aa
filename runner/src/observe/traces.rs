//! Traces: the life of a job from push to verdict, as spans that are sent to a collector over OTLP.
//!
//! A span is built after the fact from known values, so no span is kept open. Without a collector
//! (`runner.otlp`) the job path takes one branch. Spans wait in a bounded queue; those that do not fit are
//! dropped and counted. The parent's `traceparent` flag decides whether a trace is recorded; traces that
//! start here are recorded.

mod attempt;
mod context;
mod export;
mod push;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::InstrumentationScope;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinHandle;
use url::Url;

use super::counters::{add, read};
use super::supervision::{Supervision, TaskKind};

pub(crate) use self::context::IncomingContext;

/// The most spans that wait to be sent.
const QUEUE_MAX: usize = 8_192;

/// How long a stop waits for the last spans.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Takes spans. Clones share the same queue.
#[derive(Clone)]
pub struct Traces(Arc<TracesInner>);

struct TracesInner {
    is_on: AtomicBool,
    queue: mpsc::Sender<SpanData>,
    destination: watch::Sender<Destination>,
    counts: Arc<SpanCounts>,
}

/// The destination of spans.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Destination {
    /// None.
    None,
    /// This collector, at its path `/v1/traces`.
    At(Url),
    /// None from now on; waiting spans are still sent.
    Over,
}

/// Counts of spans.
#[derive(Debug, Default)]
struct SpanCounts {
    exported: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// The task that sends spans.
pub struct ExportTask(JoinHandle<()>);

impl Traces {
    /// Starts the task on these threads. Nothing is recorded until a collector is set. `runner_id`
    /// identifies this process in the spans.
    pub fn start(
        threads: &Handle,
        runner_id: &str,
        supervision: &Supervision,
    ) -> (Self, ExportTask) {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let (destination, named) = watch::channel(Destination::None);
        let counts = Arc::<SpanCounts>::default();
        let (waiting, its) = (Arc::new(Mutex::new(waiting)), Arc::clone(&counts));
        let (runner_id, supervision) = (runner_id.to_owned(), supervision.clone());
        let sending = async move {
            let start = || {
                let (waiting, counts) = (Arc::clone(&waiting), Arc::clone(&its));
                export::send(waiting, named.clone(), counts, runner_id.clone())
            };
            supervision.keep(TaskKind::Traces, start).await;
        };
        let export_task = ExportTask(threads.spawn(sending));
        let is_on = AtomicBool::new(false);
        (Self(Arc::new(TracesInner { is_on, queue, destination, counts })), export_task)
    }

    /// Sets the collector; `None` turns traces off.
    pub fn send_to(&self, collector: Option<&Url>) {
        let wanted = collector.map_or(Destination::None, |url| Destination::At(url.clone()));
        self.0.is_on.store(collector.is_some(), Ordering::Relaxed);
        self.0.destination.send_if_modified(|known| {
            let is_new = *known != wanted;
            *known = wanted;
            is_new
        });
    }

    /// Whether traces are on.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_on.load(Ordering::Relaxed)
    }

    /// Stops: sends what waits within 2 s, and drops the rest.
    pub async fn stop(&self, export_task: ExportTask) {
        self.0.is_on.store(false, Ordering::Relaxed);
        self.0.destination.send_replace(Destination::Over);
        let mut task = export_task.0;
        if tokio::time::timeout(STOP_TIMEOUT, &mut task).await.is_err() {
            task.abort();
        }
    }

    /// The counts of spans: `exported`, `dropped` (the queue was full), `failed` (the collector did not
    /// accept them).
    pub fn counts(&self) -> [(&'static str, u64); 3] {
        let SpanCounts { exported, dropped, failed } = &*self.0.counts;
        [("exported", exported), ("dropped", dropped), ("failed", failed)]
            .map(|(word, count)| (word, read(count)))
    }

    /// Queues a span, if there is room.
    fn give(&self, span: SpanData) {
        if self.0.queue.try_send(span).is_err() {
            add(&self.0.counts.dropped, 1);
        }
    }
}

/// A span with a place and a time, and no attributes yet.
fn span(
    context: SpanContext,
    parent: Option<&SpanContext>,
    kind: SpanKind,
    name: String,
    time: (std::time::SystemTime, std::time::SystemTime),
) -> SpanData {
    SpanData {
        span_context: context,
        parent_span_id: parent.map_or(SpanId::INVALID, SpanContext::span_id),
        parent_span_is_remote: parent.is_some_and(SpanContext::is_remote),
        span_kind: kind,
        name: name.into(),
        start_time: time.0,
        end_time: time.1.max(time.0),
        attributes: Vec::new(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::builder("duebox")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build(),
    }
}
