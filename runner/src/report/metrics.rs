//! What Prometheus scrapes: everything the daemon counts, in one page.
//!
//! Nothing is gathered between two scrapes. Workers raise counters they hold already, and a scrape reads
//! those of at most [`TOPICS_MAX`] topics; only the depths are asked of Redis, in bounded pipelines, and not
//! more often than once a second. Labels are topics of the manifest, and words and digests of bounded
//! number.

mod depths;
mod modules;
mod page;
mod process;
mod redis;
mod runner;
mod text;
mod topics;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use duebox_job::TopicName;
use duebox_queue::{LatencyStats, Queue};
use duebox_sandbox::Sandbox;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text as open_metrics};
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use self::depths::{Depths, Seen};
use self::page::Page;
use self::process::Process;
use super::status::AllWatched;
use crate::executor::fair_semaphore::FairSemaphore;
use crate::observe::events::Events;
use crate::observe::health::Health;
use crate::observe::log::handler_log::HandlerLog;
use crate::observe::pull_counters::PullCounters;
use crate::observe::push_counters::PushCounters;
use crate::observe::traces::Traces;
use crate::redis_host::outage::Outage;

/// Topics that a page tells of; how many more there are is told too.
pub const TOPICS_MAX: usize = 1_000;

/// Where figures are looked up.
pub struct Sources {
    /// A connection to ask for depths: not the one that jobs pass over.
    pub queue: Queue,
    /// The topics that are served, by handlers or to pull consumers.
    pub served: Arc<ArcSwap<Vec<TopicName>>>,
    /// What handlers do.
    pub watched: watch::Receiver<AllWatched>,
    /// How the process is.
    pub health: Arc<Health>,
    /// How Redis is.
    pub outage: Arc<Outage>,
    /// What passed over each connection to Redis, by what it is for.
    pub traffic: Vec<(&'static str, Arc<LatencyStats>)>,
    /// What was pushed.
    pub pushes: Arc<PushCounters>,
    /// What handlers said and had no place in the log.
    pub handler_log: Arc<HandlerLog>,
    /// What pull consumers settled.
    pub consumed: Arc<PullCounters>,
    /// What was recorded.
    pub traces: Traces,
    /// What was told.
    pub events: Events,
    /// What the guests hold.
    pub sandbox: Arc<Sandbox>,
    /// Places for guests that run.
    pub slots: FairSemaphore,
    /// How many there are.
    pub slots_max: u32,
}

/// The page of this process, made anew at each scrape. Clones are the same.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    sources: Sources,
    depths: Depths,
}

/// A page with its kind.
pub struct Scrape {
    /// What it is, for `Content-Type`.
    pub content_type: &'static str,
    /// It.
    pub text: String,
}

impl Metrics {
    /// A page of these figures.
    pub fn new(sources: Sources) -> Self {
        Self(Arc::new(Inner { sources, depths: Depths::default() }))
    }

    /// Makes the page, in the form that an `Accept` asks for. Without an answer from Redis within a second or
    /// two it tells of no depths, and that it could not.
    pub async fn scrape(&self, accept: &str) -> Scrape {
        let Inner { sources, depths } = &*self.0;
        let served = sources.served.load_full();
        let seen = depths.look(&sources.queue, &served).await;
        let text = self.page(seen);
        match text::wants_open_metrics(accept) {
            true => Scrape { content_type: text::OPEN_METRICS, text },
            false => Scrape { content_type: text::PLAIN, text: text::plain(&text) },
        }
    }

    fn page(&self, depths: Arc<Seen>) -> String {
        let mut registry = Registry::default();
        let own = OwnFigures { metrics: self.clone(), depths };
        registry.sub_registry_with_prefix("duebox").register_collector(Box::new(own));
        registry.register_collector(Box::new(Process::read()));
        let mut text = String::new();
        match open_metrics::encode(&mut text, &registry) {
            Ok(()) => text,
            // A String takes whatever is written; only a fault of the encoder could end here.
            Err(error) => format!("# {error}\n# EOF\n"),
        }
    }
}

/// What is told under this daemon's own prefix.
struct OwnFigures {
    metrics: Metrics,
    depths: Arc<Seen>,
}

impl fmt::Debug for OwnFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnFigures").finish_non_exhaustive()
    }
}

impl Collector for OwnFigures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let sources = &self.metrics.0.sources;
        let watched = Arc::clone(&sources.watched.borrow());
        let page = &mut Page::new(encoder);
        runner::write(page, sources)?;
        self.depths.write(page)?;
        topics::write(page, &watched, &sources.consumed)?;
        modules::write(page, &watched)
    }
}

impl Collector for Process {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.write(&mut Page::new(encoder))
    }
}
