//! The Prometheus metrics: everything the daemon counts, on one page.
//!
//! There is no work between scrapes. A scrape reads the counters of at most [`TOPICS_MAX`] topics,
//! which workers keep anyway. Only the depths come from Redis, in bounded pipelines, at most once a
//! second. Labels are topics of the manifest, fixed words and a bounded number of digests.

mod depths;
mod modules;
mod page;
pub(super) mod process;
mod redis;
mod runner;
mod text;
mod topics;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use duebox_job::TopicName;
use duebox_queue::{CopyStats, LatencyStats, Queue};
use duebox_sandbox::Sandbox;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text as open_metrics};
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use self::depths::{Depths, DepthsSnapshot};
use self::page::Page;
use self::process::Process;
use super::status::AllWatched;
use crate::executor::cpu_quota::CpuQuota;
use crate::executor::fair_semaphore::FairSemaphore;
use crate::observe::events::Events;
use crate::observe::health::Health;
use crate::observe::log::handler_log::HandlerLog;
use crate::observe::pull_counters::PullCounters;
use crate::observe::push_counters::PushCounters;
use crate::observe::sick_topics::SickTopics;
use crate::observe::traces::Traces;
use crate::redis_host::outage::Outage;
use crate::redis_host::primaries::PrimaryOutages;

/// Maximum number of topics on a page; the number of further topics is a metric.
pub const TOPICS_MAX: usize = 1_000;

/// The sources of the metrics.
pub struct Sources {
    /// A connection for the depths, separate from the one that serves jobs.
    pub queue: Queue,
    /// The served topics, by handlers or for pull consumers.
    pub served: Arc<ArcSwap<Vec<TopicName>>>,
    /// The state of the topics with handlers.
    pub watched: watch::Receiver<AllWatched>,
    /// The health of the process.
    pub health: Arc<Health>,
    /// The state of the connection to Redis.
    pub outage: Arc<Outage>,
    /// The primaries of a cluster and their outages.
    pub primaries: Arc<PrimaryOutages>,
    /// Latency statistics of each connection to Redis, by its purpose.
    pub traffic: Vec<(&'static str, Arc<LatencyStats>)>,
    /// How waits for copies of writes ended.
    pub copies: Arc<CopyStats>,
    /// Counters of pushes.
    pub push_counters: Arc<PushCounters>,
    /// Handler log lines that were left out.
    pub handler_log: Arc<HandlerLog>,
    /// Counters of pull consumers.
    pub pull_counters: Arc<PullCounters>,
    /// Counters of traces.
    pub traces: Traces,
    /// Counters of events.
    pub events: Events,
    /// Topics whose keys Redis refuses.
    pub sick_topics: Arc<SickTopics>,
    /// The sandbox, for the memory of guests.
    pub sandbox: Arc<Sandbox>,
    /// Slots for running guests.
    pub slots: FairSemaphore,
    /// Number of slots.
    pub slots_max: u32,
    /// The CPU quota of this process.
    pub cpu_quota: Arc<CpuQuota>,
}

/// The metrics page of this process, rendered at each scrape. Clones share their state.
#[derive(Clone)]
pub struct Metrics(Arc<MetricsState>);

struct MetricsState {
    sources: Sources,
    depths: Depths,
}

/// A rendered page with its content type.
pub struct Scrape {
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// The page.
    pub text: String,
}

impl Metrics {
    /// The metrics of these sources.
    pub fn new(sources: Sources) -> Self {
        Self(Arc::new(MetricsState { sources, depths: Depths::default() }))
    }

    /// Renders the page in the format that `Accept` requests. If Redis does not reply within two
    /// seconds, the page has no depths and `duebox_redis_up` is 0.
    pub async fn scrape(&self, accept: &str) -> Scrape {
        let MetricsState { sources, depths } = &*self.0;
        let served = sources.served.load_full();
        let snapshot = depths.snapshot(&sources.queue, &served).await;
        let text = self.page(snapshot);
        match text::wants_open_metrics(accept) {
            true => Scrape { content_type: text::OPEN_METRICS, text },
            false => Scrape { content_type: text::PLAIN, text: text::plain(&text) },
        }
    }

    fn page(&self, depths: Arc<DepthsSnapshot>) -> String {
        let mut registry = Registry::default();
        let own = DueboxMetrics { metrics: self.clone(), depths };
        registry.sub_registry_with_prefix("duebox").register_collector(Box::new(own));
        registry.register_collector(Box::new(Process::read()));
        let mut text = String::new();
        match open_metrics::encode(&mut text, &registry) {
            Ok(()) => text,
            // Writing to a String cannot fail; only a bug in the encoder ends here.
            Err(error) => format!("# {error}\n# EOF\n"),
        }
    }
}

/// The metrics with the prefix `duebox_`.
struct DueboxMetrics {
    metrics: Metrics,
    depths: Arc<DepthsSnapshot>,
}

impl fmt::Debug for DueboxMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DueboxMetrics").finish_non_exhaustive()
    }
}

impl Collector for DueboxMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let sources = &self.metrics.0.sources;
        let watched = Arc::clone(&sources.watched.borrow());
        let page = &mut Page::new(encoder);
        runner::write(page, sources)?;
        self.depths.write(page)?;
        topics::write(page, &watched, &sources.pull_counters)?;
        modules::write(page, &watched)
    }
}

impl Collector for Process {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.write(&mut Page::new(encoder))
    }
}
