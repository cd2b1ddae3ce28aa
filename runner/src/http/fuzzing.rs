//! The API over a pipe instead of a socket, for the fuzz target `requests`.

use std::net::SocketAddr;
use std::sync::Arc;

use duebox_queue::{ConnectionSettings, Queue, WakeUpHub};
use duebox_sandbox::{Sandbox, SandboxConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::app;
use super::body_memory::BodyMemory;
use super::connection::Lane;
use super::event_readers::EventReaders;
use super::probes::Probes;
use super::recorder::Recorder;
use super::state::{Parts, ServerState};
use crate::auth::sessions::Sessions;
use crate::background::topic_discovery::TopicDiscovery;
use crate::executor::ExecutorResources;
use crate::executor::cpu_quota::CpuQuota;
use crate::manifest::Manifest;
use crate::observe::events::Events;
use crate::observe::supervision::Supervision;
use crate::observe::traces::Traces;
use crate::report::metrics::{Metrics, Sources};
use crate::report::status::AllWatched;

/// A server without listeners.
pub struct PipeServer {
    lane: Lane,
    state: ServerState,
    stops: watch::Receiver<bool>,
    _stop: watch::Sender<bool>,
}

impl PipeServer {
    /// Makes a server of this manifest; its routes use `queue`. Runs on the current runtime.
    ///
    /// # Errors
    /// If the sandbox or the API's document cannot be made.
    pub fn new(
        queue: Queue,
        redis: ConnectionSettings,
        manifest: Manifest,
    ) -> anyhow::Result<Self> {
        let (threads, slots_max) = (Handle::current(), manifest.runner.max_jobs);
        let prefix = manifest.redis.prefix.clone();
        let (topic_discovery, _found) = TopicDiscovery::new(Arc::new(manifest));
        let supervision = Supervision::default();
        let (traces, _export) = Traces::start(&threads, "fuzz", &supervision);
        let (events, _writer) = Events::start(redis, prefix, &supervision);
        let (_stop, stops) = watch::channel(false);
        let (_, watched) = watch::channel(Arc::from([]));
        let sources = idle_sources(&queue, slots_max, &watched, &traces, &events)?;
        let (push_counters, pull_counters) =
            (Arc::clone(&sources.push_counters), Arc::clone(&sources.pull_counters));
        let (health, sick_topics) = (Arc::clone(&sources.health), Arc::clone(&sources.sick_topics));
        let probes =
            Probes::new(Metrics::new(sources), queue.clone(), health, watched.clone()).router();
        let state = ServerState::new(Parts {
            queue,
            topic_discovery,
            wake_up_hub: WakeUpHub::default(),
            push_counters,
            watched,
            runner_id: "fuzz".into(),
            sessions: Sessions::default(),
            recorder: Recorder::default(),
            pull_counters,
            traces,
            events,
            bodies: BodyMemory::default(),
            responses: BodyMemory::default(),
            readers: EventReaders::default(),
            sick_topics,
            supervision,
            stops: stops.clone(),
            threads,
        });
        let lane = Lane::of(app(&state, probes)?, true);
        Ok(Self { lane, state, stops, _stop })
    }

    /// Serves a connection to its end.
    pub async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        self.lane.serve(stream, peer, self.stops.clone()).await;
    }

    /// The bytes that the bodies of all requests and responses hold now.
    pub fn body_bytes(&self) -> usize {
        self.state.bodies.held() + self.state.responses.held()
    }
}

/// What the metrics read, of a daemon that serves no topic.
fn idle_sources(
    queue: &Queue,
    slots_max: u32,
    watched: &watch::Receiver<AllWatched>,
    traces: &Traces,
    events: &Events,
) -> anyhow::Result<Sources> {
    Ok(Sources {
        queue: queue.clone(),
        served: Arc::default(),
        watched: watched.clone(),
        health: Arc::default(),
        outage: Arc::default(),
        traffic: vec![("http", queue.latency_stats())],
        copies: Arc::default(),
        primaries: Arc::default(),
        push_counters: Arc::default(),
        handler_log: Arc::default(),
        pull_counters: Arc::default(),
        traces: traces.clone(),
        events: events.clone(),
        sandbox: idle_sandbox()?,
        slots: ExecutorResources::slots(slots_max),
        slots_max,
        cpu_quota: CpuQuota::unlimited(),
        sick_topics: Arc::default(),
    })
}

/// A sandbox that runs nothing: the metrics read its memory.
fn idle_sandbox() -> anyhow::Result<Arc<Sandbox>> {
    let config = SandboxConfig { max_jobs: 1, memory_max: 1 << 20, tables_max: 10 };
    Ok(Arc::new(Sandbox::new(&config)?))
}
