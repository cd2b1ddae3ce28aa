//! Traces: what became of a job from its push to its verdict, as spans that go to a collector over OTLP.
//!
//! A span is made of what is known anyway once it is over: nothing is kept open for it, and where no collector
//! is named (`runner.otlp`) the job path meets one branch. Spans wait in a bounded queue; what finds no room
//! there is dropped and counted. Whether a trace is recorded its beginning says (the flag of `traceparent`);
//! one that begins here is.

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
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use url::Url;

use super::counters::{add, read};

pub(crate) use self::context::IncomingContext;

/// Spans that wait to be sent.
const QUEUE_MAX: usize = 8_192;

/// How long a stop waits for the last spans to be sent.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Where spans are given. Clones are the same.
#[derive(Clone)]
pub struct Traces(Arc<TracesInner>);

struct TracesInner {
    is_on: AtomicBool,
    queue: mpsc::Sender<SpanData>,
    collector: watch::Sender<Collector>,
    counts: Arc<SpanCounts>,
}

/// Where spans are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Collector {
    /// Nowhere.
    None,
    /// Here: `/v1/traces` below it.
    At(Url),
    /// Nowhere any more, when what waits has been sent.
    Over,
}

/// What became of spans.
#[derive(Debug, Default)]
struct SpanCounts {
    exported: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// The task that sends.
pub struct ExportTask(JoinHandle<()>);

impl Traces {
    /// Nothing is recorded until a collector is named. What is sent, is sent from these threads; the runner's
    /// name tells it from others.
    pub fn start(threads: &Handle, runner_id: &str) -> (Self, ExportTask) {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let (collector, named) = watch::channel(Collector::None);
        let counts = Arc::<SpanCounts>::default();
        let sending = export::send(waiting, named, Arc::clone(&counts), runner_id.to_owned());
        let export_task = ExportTask(threads.spawn(sending));
        let is_on = AtomicBool::new(false);
        (Self(Arc::new(TracesInner { is_on, queue, collector, counts })), export_task)
    }

    /// Records from now on, for this collector; or records nothing.
    pub fn send_to(&self, collector: Option<&Url>) {
        let wanted = collector.map_or(Collector::None, |url| Collector::At(url.clone()));
        self.0.is_on.store(collector.is_some(), Ordering::Relaxed);
        self.0.collector.send_if_modified(|known| {
            let is_new = *known != wanted;
            *known = wanted;
            is_new
        });
    }

    /// Whether anything is recorded.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_on.load(Ordering::Relaxed)
    }

    /// Ends: what waits is sent within two seconds, or dropped.
    pub async fn stop(&self, export_task: ExportTask) {
        self.0.is_on.store(false, Ordering::Relaxed);
        self.0.collector.send_replace(Collector::Over);
        let mut task = export_task.0;
        if tokio::time::timeout(STOP_TIMEOUT, &mut task).await.is_err() {
            task.abort();
        }
    }

    /// Spans so far, by what became of them: `exported`, `dropped` (there were too many), `failed` (the
    /// collector did not take them).
    pub fn counts(&self) -> [(&'static str, u64); 3] {
        let SpanCounts { exported, dropped, failed } = &*self.0.counts;
        [("exported", exported), ("dropped", dropped), ("failed", failed)]
            .map(|(word, count)| (word, read(count)))
    }

    /// Gives a span to be sent, if there is room.
    fn give(&self, span: SpanData) {
        if self.0.queue.try_send(span).is_err() {
            add(&self.0.counts.dropped, 1);
        }
    }
}

/// A span about which nothing more is known than its place and its time.
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
