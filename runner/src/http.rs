//! The HTTP server: the API for applications and operators, on its own address.
//!
//! It has its own threads and its own connection to Redis, so that its load delays no heartbeat and
//! no worker. Every request is bounded in size and time before it is processed.
//!
//! | file | what |
//! |---|---|
//! | `routes/` | the API, one resource per file; `routes.rs` sets the scope of each route |
//! | `listener.rs` · `connection_slots.rs` | addresses; the number of their connections |
//! | `connection.rs` · `activity.rs` | a connection; connections on which nothing happens |
//! | `exchange.rs` | the middleware of every request |
//! | `state.rs` | the state shared by the routes |
//! | `problem.rs` · `openapi.rs` | errors; the OpenAPI document |
//! | `path.rs` · `params.rs` · `body.rs` · `accept.rs` | bounded parsing of requests |
//! | `body_memory.rs` | the memory of all bodies of requests, or of responses |
//! | `response_memory.rs` | counts responses until their clients have taken them |
//! | `holding_body.rs` | a response that holds something until its client has taken it |
//! | `compression.rs` | compressed responses |
//! | `access.rs` · `session_cookie.rs` | authentication and authorization; the cookie of the page |
//! | `origin.rs` · `cors.rs` | where a request comes from; pages of other sites |
//! | `probes.rs` | liveness, readiness, startup and metrics |
//! | `recorder.rs` | records the history of `/v1/history` |
//! | `page.rs` | the page for people |
//! | `fuzzing.rs` | the API over a pipe, for the fuzz targets |

mod accept;
mod access;
mod activity;
mod body;
mod body_memory;
mod compression;
mod connection;
mod connection_slots;
mod cors;
mod event_readers;
mod exchange;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod holding_body;
mod listener;
mod openapi;
mod origin;
mod page;
mod params;
mod path;
pub(crate) mod probes;
mod problem;
mod recorder;
mod response_memory;
mod routes;
mod session_cookie;
mod state;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::routing::get;
use axum::{Router, middleware};
use duebox_queue::{ConnectionSettings, Queue, WakeUpHub};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::decompression::RequestDecompressionLayer;
use tracing::{info, warn};

use self::body_memory::BodyMemory;
use self::compression::Compressors;
use self::event_readers::EventReaders;
pub(crate) use self::listener::{BindError, Listening};
use self::listener::{ConnectionSetup, ServedRoutes};
use self::problem::{BUSY, INTERNAL, METHOD, Problem, UNKNOWN_PATH};
use self::recorder::Recorder;
use self::state::{Parts, ServerState};
use crate::auth::sessions::Sessions;
use crate::auth::tls::TlsPair;
use crate::background::topic_discovery::TopicDiscovery;
use crate::manifest;
use crate::observe::events::Events;
use crate::observe::pull_counters::PullCounters;
use crate::observe::push_counters::PushCounters;
use crate::observe::sick_topics::SickTopics;
use crate::observe::supervision::{Supervision, TaskKind};
use crate::observe::traces::Traces;
use crate::report::status::AllWatched;

/// Everything that the daemon passes to the server.
pub(crate) struct ServerSetup {
    /// The runtime that serves requests.
    pub(crate) threads: Handle,
    /// How to connect to Redis.
    pub(crate) redis: ConnectionSettings,
    /// The prefix of all keys.
    pub(crate) prefix: String,
    /// Gives access to the current manifest and the served topics.
    pub(crate) topic_discovery: TopicDiscovery,
    /// Wake-ups of waiting consumers.
    pub(crate) wake_up_hub: WakeUpHub,
    /// Makes the routes of the probes, over the server's connection to Redis.
    pub(crate) probes: Box<dyn FnOnce(Queue) -> Router + Send>,
    /// Counters of pushes.
    pub(crate) push_counters: Arc<PushCounters>,
    /// The topics that the daemon's handlers serve.
    pub(crate) watched: watch::Receiver<AllWatched>,
    /// Unique id of the daemon.
    pub(crate) runner_id: Arc<str>,
    /// Counters of pull consumers.
    pub(crate) pull_counters: Arc<PullCounters>,
    /// Traces of pushes.
    pub(crate) traces: Traces,
    /// Events of jobs.
    pub(crate) events: Events,
    /// Topics whose keys Redis refuses.
    pub(crate) sick_topics: Arc<SickTopics>,
    /// Starts tasks again that panic.
    pub(crate) supervision: Supervision,
}

/// The bound addresses.
pub(crate) struct Addresses {
    /// The address of the API, which also serves the probes.
    pub(crate) api: Option<Listening>,
    /// The address of the probes only.
    pub(crate) probes: Option<Listening>,
}

impl Addresses {
    /// Binds the addresses of a manifest.
    ///
    /// # Errors
    /// [`BindError`] if an address is in use or not local.
    pub(crate) fn bind(server: &manifest::Server) -> Result<Self, BindError> {
        let bind = |at: Option<SocketAddr>, key| at.map(|at| Listening::bind(at, key)).transpose();
        Ok(Self {
            api: bind(server.listen, "server.listen")?,
            probes: bind(server.probes, "server.probes")?,
        })
    }

    /// True if no address is set.
    pub(crate) fn is_empty(&self) -> bool {
        self.api.is_none() && self.probes.is_none()
    }
}

/// A running server. Dropping it aborts everything that is left.
pub(crate) struct HttpServer {
    stop: watch::Sender<bool>,
    drain: watch::Sender<Duration>,
    serving: JoinSet<anyhow::Result<()>>,
    /// The task that records the history.
    recorder: JoinSet<anyhow::Result<()>>,
    state: ServerState,
    /// The listener of the probes, which serves until the end.
    _probed: JoinSet<anyhow::Result<()>>,
    _never: watch::Sender<bool>,
}

/// The API with the probes. Their details need a token: probes on an address of their own are for those who can reach
/// it.
fn served_with_api(state: &ServerState, probes: Router) -> anyhow::Result<ServedRoutes> {
    let withhold = middleware::from_fn_with_state(state.clone(), access::withhold);
    let probes = probes.layer(withhold);
    Ok(ServedRoutes { app: app(state, probes.clone())?, extra: extra(probes) })
}

/// The probes, at an address of their own.
fn served_alone(probes: Router) -> ServedRoutes {
    ServedRoutes { app: with_middleware(with_fallbacks(probes.clone())), extra: extra(probes) }
}

impl HttpServer {
    /// Serves on the bound addresses.
    ///
    /// # Errors
    /// If Redis cannot be reached.
    pub(crate) async fn start(addresses: Addresses, setup: ServerSetup) -> anyhow::Result<Self> {
        let ServerSetup {
            threads,
            redis,
            prefix,
            topic_discovery,
            wake_up_hub,
            probes,
            push_counters,
            pull_counters,
            traces,
            events,
            sick_topics,
            watched,
            runner_id,
            supervision,
        } = setup;
        // The connection's task runs on the server's runtime.
        let queue = threads.spawn(async move { Queue::connect(&redis, &prefix).await }).await??;
        supervision.watch_connection("http", queue.connection_task());
        let (stop, stops) = watch::channel(false);
        let probes = probes(queue.clone());
        let state = ServerState::new(Parts {
            queue,
            topic_discovery: topic_discovery.clone(),
            wake_up_hub,
            push_counters,
            watched,
            runner_id,
            sessions: Sessions::default(),
            recorder: Recorder::default(),
            pull_counters,
            traces,
            events,
            sick_topics,
            bodies: BodyMemory::default(),
            responses: BodyMemory::default(),
            readers: EventReaders::default(),
            stops: stops.clone(),
            threads: threads.clone(),
            supervision: supervision.clone(),
        });
        let drain = watch::Sender::new(Duration::ZERO);
        let (never, never_stops) = watch::channel(false);
        let (threads, topic_discovery) = (&threads, &topic_discovery);
        let acceptor =
            Acceptor { threads, topic_discovery, drain: &drain, supervision: &supervision };
        let [mut serving, mut probed, mut recorder] = [(); 3].map(|()| JoinSet::new());
        if let Some(listening) = addresses.api {
            recorder.spawn_on(record(state.clone()), threads);
            info!(address = %listening.address(), "HTTP is served");
            let served = served_with_api(&state, probes.clone())?;
            acceptor.accept(&mut serving, listening, true, served, stops);
        }
        if let Some(listening) = addresses.probes {
            info!(address = %listening.address(), "probes are served");
            acceptor.accept(&mut probed, listening, false, served_alone(probes), never_stops);
        }
        Ok(Self { stop, drain, serving, recorder, state, _probed: probed, _never: never })
    }

    /// Publishes what this daemon has done up to now, for the page of daemons that start later.
    pub(crate) async fn publish_history(&self) {
        if !self.recorder.is_empty() {
            recorder::publish_last(&self.state).await;
        }
    }

    /// Accepts no more connections to the API, and waits up to `within` for open requests. Probes
    /// with their own address are still served.
    pub(crate) async fn drain(&mut self, within: Duration) {
        self.drain.send_replace(within);
        self.stop.send_replace(true);
        while let Some(served) = self.serving.join_next().await {
            let served = served.map_err(anyhow::Error::from).flatten();
            if let Err(error) = served {
                warn!(%error, "the HTTP server failed");
            }
        }
    }
}

/// Records the history; starts again after a panic.
async fn record(state: ServerState) -> anyhow::Result<()> {
    let supervision = state.supervision.clone();
    supervision.keep(TaskKind::HttpHistory, || recorder::record(state.clone())).await
}

/// State shared by the connections of all addresses.
struct Acceptor<'a> {
    threads: &'a Handle,
    topic_discovery: &'a TopicDiscovery,
    drain: &'a watch::Sender<Duration>,
    supervision: &'a Supervision,
}

impl Acceptor<'_> {
    /// Serves the connections of an address until it stops. Only the API uses TLS.
    fn accept(
        &self,
        tasks: &mut JoinSet<anyhow::Result<()>>,
        listening: Listening,
        is_api: bool,
        served: ServedRoutes,
        stops: watch::Receiver<bool>,
    ) {
        let topic_discovery = self.topic_discovery.clone();
        // Read from the manifest at each connection.
        let setup = move || {
            let server = &topic_discovery.manifest().server;
            let tls = server.tls.as_ref().filter(|_| is_api).map(TlsPair::config);
            ConnectionSetup { tls, peer_max: server.max_peer_connections }
        };
        let (drain, supervision) = (self.drain.subscribe(), self.supervision.clone());
        let serving = listening.serve(served, setup, (stops, drain), supervision);
        tasks.spawn_on(serving, self.threads);
    }
}

/// All routes of the API's address.
fn app(state: &ServerState, probes: Router) -> anyhow::Result<Router> {
    let (router, mut document) = routes::api().split_for_parts();
    openapi::add_problems(&mut document);
    let contract = openapi::Contract::of(&document)?;
    let contract = Router::new().route("/openapi.json", get(openapi::serve)).with_state(contract);
    let authenticate = middleware::from_fn_with_state(state.clone(), access::authenticate);
    let cors = middleware::from_fn_with_state(state.clone(), cors::cors);
    let accept = middleware::from_fn(accept::accept);
    // A body is decompressed only after its sender is known.
    let decompress = RequestDecompressionLayer::new();
    let count = middleware::from_fn_with_state(state.clone(), response_memory::count);
    let outermost_first = ServiceBuilder::new().layer(authenticate).layer(count).layer(accept);
    let router = router.with_state(state.clone()).layer(outermost_first.layer(decompress));
    Ok(with_middleware(
        with_fallbacks(router.merge(contract).merge(page::router()).merge(probes)).layer(cors),
    ))
}

/// The routes of a connection beyond the number of connections: the probes.
fn extra(probes: Router) -> Router {
    with_middleware(probes.fallback(async || {
        let detail = "too many connections are open, in total or from this address";
        let remedy = "use fewer connections, or raise server.max_peer_connections";
        Problem::new(BUSY, detail, remedy).retry_after(1)
    }))
}

/// Adds the responses for unknown paths and methods.
fn with_fallbacks(router: Router) -> Router {
    router
        .fallback(async || Problem::of_status(UNKNOWN_PATH.status))
        .method_not_allowed_fallback(async || Problem::of_status(METHOD.status))
}

/// Adds the middleware of every route. One call to `layer` adds all of it: Axum boxes what a call adds, and each request
/// clones the box once for each call around it.
fn with_middleware(router: Router) -> Router {
    let outermost_first = ServiceBuilder::new()
        .layer(CompressionLayer::new().compress_when(compression::holds_compressor))
        .layer(middleware::from_fn_with_state(Compressors::default(), Compressors::give))
        .layer(middleware::from_fn(exchange::exchange))
        .layer(CatchPanicLayer::custom(panicked));
    router.layer(outermost_first)
}

/// The response after a handler panicked.
fn panicked(_: Box<dyn std::any::Any + Send>) -> axum::response::Response {
    let remedy = "check the log of the daemon, and report the bug";
    let problem = Problem::new(INTERNAL, "the request failed because of a bug in Duebox", remedy);
    axum::response::IntoResponse::into_response(problem)
}
