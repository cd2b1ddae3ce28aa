//! HTTP: the API for applications and operators, on an address of its own.
//!
//! It has a thread and a connection to Redis of its own, so that no load of it delays a heartbeat or a turn.
//! Every request is bounded in size and time before anything is done for it.
//!
//! | file | what |
//! |---|---|
//! | `routes/` | the API, one resource a file; `routes.rs` says which scope each route needs |
//! | `listener.rs` · `exchange.rs` | connections; what happens to every request |
//! | `state.rs` | what the routes work with |
//! | `problem.rs` · `openapi.rs` | errors; the contract |
//! | `path.rs` · `params.rs` · `body.rs` · `accept.rs` | what a request says, read within bounds |
//! | `access.rs` · `cors.rs` | who sends a request, and whether they may; pages of other sites |
//! | `probes.rs` | liveness, readiness, startup and the metrics |
//! | `page.rs` | the page for people |

mod accept;
mod access;
mod body;
mod cors;
mod exchange;
mod listener;
mod openapi;
mod page;
mod params;
mod path;
pub(crate) mod probes;
mod problem;
mod routes;
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
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use tower_http::decompression::RequestDecompressionLayer;
use tracing::{info, warn};

pub(crate) use self::listener::Listening;
use self::problem::{INTERNAL, METHOD, Problem, UNKNOWN_PATH};
use self::routes::events::Readers;
use self::routes::samples::{self, Samples};
use self::state::{Parts, ServerState};
use crate::auth::sessions::Sessions;
use crate::auth::tls::TlsPair;
use crate::background::topic_discovery::Finder;
use crate::manifest;
use crate::observe::events::Events;
use crate::observe::pull_counters::PullCounters;
use crate::observe::push_counters::PushCounters;
use crate::observe::traces::Traces;
use crate::report::status::AllWatched;

/// Answers from this size on are packed, for those who take gzip.
const PACKED_FROM: u16 = 1_024;

/// What the daemon gives to its server.
pub(crate) struct Ground {
    /// Where requests are served.
    pub(crate) threads: Handle,
    /// Where Redis is.
    pub(crate) redis: ConnectionSettings,
    /// What every key starts with.
    pub(crate) prefix: String,
    /// Who knows the manifest and the topics that are served.
    pub(crate) finder: Finder,
    /// What wakes those who wait for jobs.
    pub(crate) bells: WakeUpHub,
    /// Makes the routes for those who ask how the process is, over the server's connection to Redis.
    pub(crate) probes: Box<dyn FnOnce(Queue) -> Router + Send>,
    /// Where it is counted what was pushed.
    pub(crate) pushes: Arc<PushCounters>,
    /// The topics that the daemon's handlers serve.
    pub(crate) watched: watch::Receiver<AllWatched>,
    /// Names the daemon among all.
    pub(crate) runner_id: Arc<str>,
    /// Where it is counted what consumers settled.
    pub(crate) consumed: Arc<PullCounters>,
    /// Where pushes are recorded.
    pub(crate) traces: Traces,
    /// Where it is told what became of jobs.
    pub(crate) events: Events,
}

/// The addresses that are served.
pub(crate) struct Addresses {
    /// That of the API, where probes are answered too.
    pub(crate) api: Option<Listening>,
    /// That of the probes alone.
    pub(crate) probes: Option<Listening>,
}

impl Addresses {
    /// Takes the addresses of a manifest.
    ///
    /// # Errors
    /// For people, if one is in use or not this machine's.
    pub(crate) fn bind(server: &manifest::Server) -> anyhow::Result<Self> {
        let bind = |at: Option<SocketAddr>, key| at.map(|at| Listening::bind(at, key)).transpose();
        Ok(Self {
            api: bind(server.listen, "server.listen")?,
            probes: bind(server.probes, "server.probes")?,
        })
    }

    /// True if nothing is to be served.
    pub(crate) fn is_empty(&self) -> bool {
        self.api.is_none() && self.probes.is_none()
    }
}

/// A server that runs. Dropping it ends what is left.
pub(crate) struct Server {
    stop: watch::Sender<bool>,
    drain: watch::Sender<Duration>,
    serving: JoinSet<anyhow::Result<()>>,
    /// Who looks at topics for the page.
    _looking: JoinSet<anyhow::Result<()>>,
    /// The address of the probes, which answers to the end.
    _probed: JoinSet<anyhow::Result<()>>,
    _never: watch::Sender<bool>,
}

impl Server {
    /// Serves on the addresses that were taken.
    ///
    /// # Errors
    /// For people, if Redis cannot be reached.
    pub(crate) async fn start(addresses: Addresses, ground: Ground) -> anyhow::Result<Self> {
        let Ground {
            threads,
            redis,
            prefix,
            finder,
            bells,
            probes,
            pushes,
            consumed,
            traces,
            events,
            watched,
            runner_id,
        } = ground;
        // The connection lives on the threads of the server.
        let queue = threads.spawn(async move { Queue::connect(&redis, &prefix).await }).await??;
        let (stop, stops) = watch::channel(false);
        let probes = probes(queue.clone());
        let state = ServerState::new(Parts {
            queue,
            finder: finder.clone(),
            bells,
            pushes,
            watched,
            runner_id,
            sessions: Sessions::default(),
            samples: Samples::default(),
            consumed,
            traces,
            events,
            readers: Readers::default(),
            stops: stops.clone(),
            threads: threads.clone(),
        });
        let drain = watch::Sender::new(Duration::ZERO);
        let (never, never_stops) = watch::channel(false);
        let acceptor = Acceptor { threads: &threads, finder: &finder, drain: &drain };
        let (mut serving, mut probed) = (JoinSet::new(), JoinSet::new());
        let mut looking = JoinSet::new();
        if let Some(listening) = addresses.api {
            looking.spawn_on(samples::keep(state.clone()), &threads);
            info!(address = %listening.address(), "HTTP is served");
            let router = app(&state, probes.clone())?;
            acceptor.accept(&mut serving, listening, true, router, stops);
        }
        if let Some(listening) = addresses.probes {
            info!(address = %listening.address(), "probes are served");
            acceptor.accept(&mut probed, listening, false, dressed(whole(probes)), never_stops);
        }
        Ok(Self { stop, drain, serving, _looking: looking, _probed: probed, _never: never })
    }

    /// Takes no more connections to the API, and lets what has begun end within so long. Probes on an address
    /// of their own are answered on.
    pub(crate) async fn drain(&mut self, within: Duration) {
        self.drain.send_replace(within);
        self.stop.send_replace(true);
        while let Some(served) = self.serving.join_next().await {
            let served = served.map_err(anyhow::Error::from).flatten();
            if let Err(error) = served {
                warn!(%error, "HTTP was not served to the end");
            }
        }
    }
}

/// What the connections of all addresses share.
struct Acceptor<'a> {
    threads: &'a Handle,
    finder: &'a Finder,
    drain: &'a watch::Sender<Duration>,
}

impl Acceptor<'_> {
    /// Serves the connections of an address until it stops. Only the API has TLS.
    fn accept(
        &self,
        tasks: &mut JoinSet<anyhow::Result<()>>,
        listening: Listening,
        is_api: bool,
        router: Router,
        stops: watch::Receiver<bool>,
    ) {
        let finder = self.finder.clone();
        // As the manifest says when a connection comes in.
        let tls = move || {
            let manifest = finder.manifest();
            manifest.server.tls.as_ref().filter(|_| is_api).map(TlsPair::config)
        };
        tasks.spawn_on(listening.serve(router, tls, stops, self.drain.subscribe()), self.threads);
    }
}

/// All that is served on the address of the API.
fn app(state: &ServerState, probes: Router) -> anyhow::Result<Router> {
    let (router, mut document) = routes::api().split_for_parts();
    openapi::add_problems(&mut document);
    let contract = openapi::Served::of(&document)?;
    let contract = Router::new().route("/openapi.json", get(openapi::serve)).with_state(contract);
    let authenticate = middleware::from_fn_with_state(state.clone(), access::authenticate);
    let cors = middleware::from_fn_with_state(state.clone(), cors::cors);
    let accept = middleware::from_fn(accept::accept);
    let router = router.with_state(state.clone()).layer(accept).layer(authenticate);
    Ok(dressed(whole(router.merge(contract).merge(page::router()).merge(probes)).layer(cors)))
}

/// Routes, and what is answered where there are none.
fn whole(router: Router) -> Router {
    router
        .fallback(async || Problem::of_status(UNKNOWN_PATH.status))
        .method_not_allowed_fallback(async || Problem::of_status(METHOD.status))
}

/// What every route has around it.
fn dressed(router: Router) -> Router {
    router
        .layer(RequestDecompressionLayer::new())
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn(exchange::exchange))
        .layer(CompressionLayer::new().compress_when(
            // Events are told one by one, not when enough of them fill a block.
            SizeAbove::new(PACKED_FROM).and(NotForContentType::SSE),
        ))
}

/// The answer of a handler that panicked.
fn panicked(_: Box<dyn std::any::Any + Send>) -> axum::response::Response {
    let remedy = "look into the log of the daemon, and report it";
    let problem =
        Problem::new(INTERNAL, "the request was not carried out: Duebox has a fault", remedy);
    axum::response::IntoResponse::into_response(problem)
}
